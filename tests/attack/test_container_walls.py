"""The walls of a container with a network policy, tried from inside by the probe: as an ordinary user and as root with
docker, as root with podman, and without root. The engines are the tests' own (tests/e2e/engines.py).

Each attempt is first made outside, in the network and mount namespaces in which the engine is.
"""
import contextlib
import os
import subprocess
import sys

import pytest

from conftest import ROOT, Person, Place

sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))
import engines  # noqa: E402

KINDS = ['docker', 'docker-root', 'podman-root', 'rootless']
NO_WAY = ('ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EACCES', 'EPERM')


def missing(reason):
    if os.environ.get('MUST_WORK', '') not in ('', '0'):
        pytest.fail(f'{reason} (MUST_WORK is set)')
    pytest.skip(reason)


@contextlib.contextmanager
def had(make):
    try:
        thing = make()
    except engines.Missing as e:
        missing(str(e))
    try:
        yield thing
    finally:
        thing.end()


@pytest.fixture(scope='module')
def world(ordinary):
    with had(lambda: engines.World(ordinary.uid, ordinary.gid)) as w:
        yield w


@pytest.fixture(scope='module')
def server(world):
    with had(world.server) as s:
        yield s


@pytest.fixture(scope='module')
def docker(world):
    with had(lambda: engines.Docker(world)) as d:
        d.load()
        yield d


class ContainerPlace(Place):
    def __init__(self, person, base, programs, world, engine):
        super().__init__(person, base, programs)
        self.world, self.engine = world, engine
        self.env.update({k: v for k, v in engine.env.items() if k != 'HOME'})
        self.file(os.path.join(self.workspace, 'main.bot'),
                  'tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n'
                  f'    image: "{engines.IMAGE}"\n    network:\n      mode: allowlist\n      rules: ["*.example.org"]\n'
                  '  t -> done\n')

    def argv(self, *command, flags=()):
        return [self.programs['iterion'], 'sandbox', 'exec', '--sandbox-driver', self.engine.program, '--workspace',
                self.workspace, *flags, os.path.join(self.workspace, 'main.bot'), '--', *command]

    def outside(self, *command, env=None, timeout=60, **more):
        argv = self.world.argv(command, self.person.uid, self.person.gid, self.workspace)
        return subprocess.run(argv, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors='replace', timeout=timeout, check=False, **more)

    def try_all(self, attempts):
        """All in one container: what each is answered there."""
        words = ' ; '.join(' '.join([self.probe, *map(str, a)]) + ' | busybox head -n 1' for a in attempts)
        p = self.inside('/bin/sh', '-c', words)
        lines = p.stdout.strip().split('\n')
        assert len(lines) == len(attempts), p
        return dict(zip(attempts, lines))

    def start(self, word):
        """One that says "up" and, after a moment in which it can be looked at, all that it has been told."""
        script = 'echo up; busybox sleep 1; env; busybox tr "\\0" "\\n" </proc/1/environ; busybox ps'
        return subprocess.Popen(self.world.argv(self.argv('/bin/sh', '-c', script), self.person.uid, self.person.gid,
                                                self.workspace),
                                env={**self.env, 'SOME_TOKEN': word, 'OPENAI_API_KEY': word}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


@pytest.fixture(scope='module', params=KINDS)
def contained(request, world, docker, ordinary, base, programs):
    kind = request.param
    root = Person('root', 0, 0, '/root')
    with contextlib.ExitStack() as stack:
        engine = docker
        if kind == 'podman-root':
            engine = stack.enter_context(had(lambda: engines.Podman(world)))
        elif kind == 'rootless':
            engine = stack.enter_context(had(lambda: engines.Podman(world, 'rootless', ordinary.uid, ordinary.gid)))
        if engine is not docker:
            engine.load()
        yield ContainerPlace(root if kind.endswith('root') else ordinary, base, programs, world, engine)


def errnos(got, *wanted):
    return got in [f'errno {w}' for w in wanted]


def test_network(contained, server):
    """The world's servers, also its metadata address, answer outside; inside there is nothing."""
    text = contained.world.run(['ip', '-4', '-o', 'address']).stdout
    addresses = sorted({word.split('/')[0] for line in text.split('\n') for word in line.split()[3:4]} - {'127.0.0.1'})
    assert engines.METADATA in addresses
    attempts = [('connect-tcp', a, server.port) for a in addresses]
    for a in attempts:
        assert contained.probe_outside(*a).startswith('ok'), a
    inside = contained.try_all(attempts + [('connect-tcp', '127.0.0.1', server.port)])
    assert all(errnos(inside[a], *NO_WAY) for a in attempts), inside
    assert errnos(inside[('connect-tcp', '127.0.0.1', server.port)], 'ECONNREFUSED'), inside


def test_sockets_of_the_engine(contained):
    """Neither the engine's own nor the one by which the guest came."""
    paths = ['/run/iterion/control.sock', '/var/run/docker.sock', '/run/docker.sock', '/run/podman/podman.sock',
             '/run/containerd/containerd.sock']
    if isinstance(contained.engine, engines.Docker):
        paths.append(contained.engine.socket)
        assert contained.probe_outside('connect-unix', contained.engine.socket).startswith('ok')
    inside = contained.try_all([('connect-unix', p) for p in paths])
    assert all(errnos(got, 'ENOENT', 'ECONNREFUSED', 'EACCES') for got in inside.values()), inside


def test_powers_mean_something(world, programs, base):
    """Outside, root can do what is refused inside."""
    for attempt in (('mount-tmpfs', '/mnt'), ('mount-proc', '/tmp'), ('open-tree', '/'), ('fsopen', 'tmpfs'),
                    ('chroot', '/tmp'), ('socket', 'raw'), ('socket', 'packet'),
                    ('unshare', 'net'), ('unshare', 'mnt'), ('mknod-block', os.path.join(base, 'block')),
                    ('umount', '/proc'), ('setns', f'/proc/{world.holder.pid}/ns/mnt')):
        p = world.run(['unshare', '--mount', '--propagation', 'private', programs['iterion-probe'], *attempt])
        assert p.stdout.startswith('ok'), (attempt, p)


def test_powers(contained):
    """Nothing that changes mounts, devices, namespaces or the network, for root inside neither."""
    cases = {
        ('mount-tmpfs', '/mnt'): ('EPERM', 'ENOENT', 'EACCES'), ('mount-proc', '/tmp'): ('EPERM', 'EACCES'),
        ('remount-rw', '/proc/sys'): ('EPERM', 'EACCES'), ('umount', '/proc'): ('EPERM', 'EACCES'),
        ('mknod-block', '/tmp/b'): ('EPERM', 'EACCES'), ('open-tree', '/'): ('EPERM', 'ENOSYS', 'EACCES'),
        ('fsopen', 'tmpfs'): ('EPERM', 'ENOSYS', 'EACCES'), ('chroot', '/tmp'): ('EPERM',),
        ('socket', 'raw'): ('EPERM',), ('socket', 'packet'): ('EPERM',), ('unshare', 'net'): ('EPERM',),
        ('unshare', 'mnt'): ('EPERM',), ('setns', '/proc/1/ns/mnt'): ('EPERM', 'EACCES'),
        ('write', '/proc/sys/kernel/core_pattern', 'x'): ('EROFS', 'EACCES', 'EPERM'),
        ('write', '/proc/sysrq-trigger', 'h'): ('EROFS', 'EACCES', 'EPERM', 'EIO', 'ENOENT'),
        ('ptrace-attach', '1'): ('EPERM',), ('vm-read', '1'): ('EPERM', 'EFAULT'),
    }
    inside = contained.try_all(list(cases))
    wrong = {a: got for a, got in inside.items() if not errnos(got, *cases[a])}
    assert not wrong


def test_guest_is_not_changed(contained):
    """The program that is PID 1, and the file that it is, are out of reach."""
    inside = contained.try_all([('write', '/run/iterion/bin/iterion', 'x'), ('kill', '1', '9'), ('kill', '1', '15'),
                                ('pids',)])
    assert errnos(inside[('write', '/run/iterion/bin/iterion', 'x')], 'EROFS', 'EACCES', 'ETXTBSY', 'EPERM'), inside
    p = contained.inside('/bin/sh', '-c', 'kill -9 1; kill -15 1; busybox sleep 0.2; echo still here')
    assert p.stdout == 'still here\n', p


def test_files_of_the_host(contained):
    secret = contained.file(os.path.join(contained.base, 'secret'), 'of the host\n')
    assert contained.probe_outside('look', secret).startswith('ok')
    inside = contained.try_all([('look', secret), ('look', '/proc/1/root' + secret)])
    assert all(errnos(got, 'ENOENT', 'EACCES', 'EPERM') for got in inside.values()), inside


def test_secrets_of_the_host_are_nowhere(contained):
    """Not in an environment inside, not in what the engine tells of the container, not on a command line."""
    word = 'hunter2-' + os.path.basename(contained.base)
    p = contained.start(word)
    try:
        assert p.stdout.readline() == 'up\n'
        said = contained.engine.ok('inspect', *contained.engine.names('label=iterion.io/managed=true'))
        assert word not in said
        token = [w for w in said.split('"') if 'iterion:' in w and '@127.0.0.1' in w]
        assert not token, 'the proxy token is in the container\'s configuration'
    finally:
        out, _ = p.communicate(timeout=60)
    assert word not in out and 'PATH=' in out
