"""What the attack tests share: two people (root and an ordinary user), and for each a workspace with a sandbox around it.

Every test that says "this is not possible inside" first shows that the same attempt, by the same person and the same
program, means something outside: a test whose attempt fails everywhere proves nothing.

Run by tests/run, which names the build folder in ITERION_BUILD. As root every test runs for both people; an ordinary
user who runs them has only himself, and one skip (test_identity.py) says that root's half is missing.
"""
import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get('ITERION_BUILD') or os.path.join(ROOT, 'build-check')
ORDINARY = 'iterion-test'
AM_ROOT = os.geteuid() == 0
SANDBOX_FLAGS = ('--sandbox-driver=native', '--network', 'allowlist')


class Person:
    def __init__(self, name, uid, gid, home):
        self.name, self.uid, self.gid, self.home = name, uid, gid, home

    def own(self, *paths):
        if AM_ROOT:
            for path in paths:
                os.chown(path, self.uid, self.gid)

    def popen_args(self):
        """Arguments by which subprocess becomes this person."""
        if not AM_ROOT or self.uid == 0:
            return {}
        return {'user': self.uid, 'group': self.gid, 'extra_groups': []}


class Place:
    """One person's workspace, and the two ways to run something in it: outside, and inside a sandbox."""

    def __init__(self, person, base, programs):
        self.person, self.programs = person, programs
        self.base = tempfile.mkdtemp(prefix='place.', dir=base)
        os.chmod(self.base, 0o755)
        self.workspace = self.folder('workspace')
        self.home = self.folder('home')
        self.probe = os.path.join(self.workspace, 'probe')
        shutil.copy(programs['iterion-probe'], self.probe)
        person.own(self.probe)
        self.env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': self.home,
                    'USER': person.name, 'LANG': 'C.UTF-8'}

    def folder(self, *names, mode=0o755):
        path = os.path.join(self.base, *names)
        os.makedirs(path, mode, exist_ok=True)
        self.person.own(path)
        return path

    def file(self, path, text, mode=0o644):
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        os.chmod(path, mode)
        self.person.own(path)
        return path

    def argv(self, *command, flags=()):
        return [self.programs['iterion'], 'sandbox', 'exec', *SANDBOX_FLAGS, '--workspace', self.workspace, *flags, '--',
                *command]

    def outside(self, *command, env=None, timeout=30, **more):
        return subprocess.run(command, cwd=self.workspace, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors='replace',
                              timeout=timeout, check=False, **self.person.popen_args(), **more)

    def inside(self, *command, flags=(), env=None, timeout=30, **more):
        """A finished `iterion sandbox exec`; that the sandbox itself did not start is never taken for an answer."""
        p = self.outside(*self.argv(*command, flags=flags), env=env, timeout=timeout, **more)
        assert 'iterion:' not in p.stderr.split('\n')[0] or p.returncode < 125, p.stderr
        return p

    def start_inside(self, *command, flags=(), env=None, **more):
        more.setdefault('stdout', subprocess.PIPE)
        more.setdefault('stderr', subprocess.PIPE)
        return subprocess.Popen(self.argv(*command, flags=flags), cwd=self.workspace, env={**self.env, **(env or {})},
                                stdin=subprocess.DEVNULL, text=True, errors='replace', **self.person.popen_args(),
                                **more)

    def probe_outside(self, *attempt, wrap=(), **more):
        return answer(self.outside(*wrap, self.probe, *map(str, attempt), **more))

    def probe_inside(self, *attempt, **more):
        return answer(self.inside(self.probe, *map(str, attempt), **more))

    def in_namespace(self):
        """A prefix that gives a process mounts and powers of its own outside, where it can do no harm."""
        if self.person.uid == 0:
            return ('unshare', '--mount', '--propagation', 'private')
        return ('unshare', '--user', '--map-root-user', '--mount', '--propagation', 'private')


def answer(p):
    lines = p.stdout.split('\n')
    assert p.returncode == 0 and len(lines) >= 2, f'the probe gave no answer: {p.returncode} {p.stdout!r} {p.stderr!r}'
    return lines[0]


def refused(place, attempt, errnos, outside=None, works=True, why=None):
    """The attempt is answered inside with one of the errnos, while outside (its own arguments when they differ, or a
    result that was had otherwise) it works. works=False with a reason: it cannot be shown outside."""
    errnos = (errnos,) if isinstance(errnos, str) else errnos
    if works:
        shown = outside if isinstance(outside, str) else place.probe_outside(*(outside or attempt))
    got = place.probe_inside(*attempt)
    wanted = [e if e.startswith('signal') else 'errno ' + e for e in errnos]
    assert got in wanted, f'{" ".join(map(str, attempt))} inside gives "{got}", expected one of {wanted}'
    if not works:
        assert why, 'an attempt that is not shown outside says why'
    elif not shown.startswith('ok'):
        pytest.skip(f'refused inside as it should be, but this machine forbids it outside too ({shown})')


@pytest.fixture(scope='session')
def base():
    path = tempfile.mkdtemp(prefix='iterion-attack.')
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope='session')
def programs(base):
    """Copies that anybody may run: the build folder may lie where an ordinary user cannot go."""
    folder = os.path.join(base, 'bin')
    os.mkdir(folder, 0o755)
    found = {}
    for name, place in (('iterion', 'src/cli'), ('iterion-guest', 'src/guest'), ('iterion-proxy', 'src/net'),
                        ('iterion-probe', 'tests/attack')):
        source = os.path.join(BUILD, place, name)
        assert os.path.exists(source), f'{source} is missing: build it, or name the build folder in ITERION_BUILD'
        found[name] = shutil.copy(source, folder)
        os.chmod(found[name], 0o755)
    return found


@pytest.fixture(scope='session')
def ordinary():
    """The ordinary user: made for root (tests/run removes him again), himself otherwise."""
    if not AM_ROOT:
        me = pwd.getpwuid(os.getuid())
        return Person(me.pw_name, me.pw_uid, me.pw_gid, me.pw_dir)
    with contextlib.suppress(KeyError):
        return person_of(pwd.getpwnam(ORDINARY))
    subprocess.run(['useradd', '--system', '--no-create-home', '--shell', '/bin/sh', ORDINARY], check=True)
    return person_of(pwd.getpwnam(ORDINARY))


def person_of(entry):
    return Person(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


@pytest.fixture(scope='session', params=['root', 'user'] if AM_ROOT else ['user'])
def person(request, ordinary):
    return ordinary if request.param == 'user' else Person('root', 0, 0, '/root')


@pytest.fixture(scope='session')
def place(person, base, programs):
    """Shared by the tests of one person: they leave it as it was."""
    return Place(person, base, programs)


@pytest.fixture
def own_place(person, base, programs):
    return Place(person, base, programs)


@contextlib.contextmanager
def background(place, *command, **more):
    """A program of the same person on the host, ended at the end."""
    p = subprocess.Popen(command, cwd=place.workspace, env={**place.env, **more.pop('env', {})},
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         **place.person.popen_args(), **more)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def says_up(p):
    """Waits for the line by which a command inside tells that it runs."""
    line = p.stdout.readline()
    if line != 'up\n':
        p.kill()
        raise AssertionError(f'the sandbox did not come up: {line!r} {p.communicate()}')


def eventually(test, seconds, what):
    """Waits for something that no event tells: the state of other processes. Fails with what was still there."""
    end = time.monotonic() + seconds
    while True:
        left = test()
        if not left:
            return
        assert time.monotonic() < end, f'after {seconds} s {what}: {left}'
        time.sleep(0.02)
