"""Container engines for the tests: a dockerd, a podman with and without root, and a registry, of the tests' own.

All of it lives in one World: a network and a mount namespace, held by one process, in a temporary folder. So nothing of
the machine is touched (bridges, firewall rules, mounts, /etc/subuid are the namespaces'), several test processes have a
world each, and there is no way to the internet. The programs under test run in the world too, through World.argv: its
network is "the host" for them, where the tests' own servers listen and an address of the cloud's metadata exists, so
that what must not be reached from a sandbox can be shown to be reachable outside.

A world needs root. What cannot be had raises Missing with the reason; nothing here knows pytest.
"""
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

from waiting import until

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGE = 'localhost/iterion-test-busybox:1'
BUSYBOX = '/bin/busybox'
METADATA = '169.254.169.254'

CONTAINERS_CONF = '''[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{base}/tmp"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
'''
REGISTRIES_CONF = '''unqualified-search-registries = []
[[registry]]
location = "127.0.0.1"
insecure = true
'''
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'

# The first process of a world: its namespaces live as long as it.
HOLDER = '''set -e
mount --make-rshared /
ip link set lo up
ip address add {metadata}/32 dev lo
mount --bind "{base}/subid" /etc/subuid
mount --bind "{base}/subid" /etc/subgid
for folder in /var/lib/cni /run/libpod /run/containers; do
	[ ! -d "$folder" ] || mount -t tmpfs none "$folder"
done
echo ready
exec sleep infinity
'''


class Missing(Exception):
    """What is not here, and why."""


def need(*programs):
    for name in programs:
        if not shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin'):
            raise Missing(f'needs {name}, which is not installed')


def tail(path, lines=3):
    try:
        with open(path, errors='replace') as f:
            return ' | '.join(line.strip() for line in f.readlines()[-lines:]) or 'no word'
    except OSError as e:
        return str(e)


def add_file(tar, name, data=b'', mode=0o644, **more):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def busybox_layer(mark=b'yes\n'):
    """A root file system of one program under all its names, and a file by which one knows it."""
    out = io.BytesIO()
    with open(BUSYBOX, 'rb') as f:
        program = f.read()
    names = subprocess.run([BUSYBOX, '--list'], stdout=subprocess.PIPE, check=True).stdout.decode().split()
    with tarfile.open(fileobj=out, mode='w') as tar:
        for name, mode in (('bin', 0o755), ('etc', 0o755), ('tmp', 0o1777), ('root', 0o700), ('var', 0o755),
                           ('home', 0o755), ('usr', 0o755), ('usr/bin', 0o755), ('usr/local', 0o755),
                           ('usr/local/bin', 0o755), ('run', 0o755), ('srv', 0o755)):
            add_file(tar, name, mode=mode, type=tarfile.DIRTYPE)
        add_file(tar, 'bin/busybox', program, 0o755)
        for name in names:
            if name != 'busybox':
                add_file(tar, 'bin/' + name, type=tarfile.SYMTYPE, linkname='busybox')
        add_file(tar, 'usr/bin/env', type=tarfile.SYMTYPE, linkname='/bin/busybox')
        add_file(tar, 'etc/passwd', b'root:x:0:0:root:/root:/bin/sh\nworker:x:1234:1234:worker:/home:/bin/sh\n')
        add_file(tar, 'etc/group', b'root:x:0:\nworker:x:1234:\n')
        add_file(tar, 'etc/from-image', mark)
    return out.getvalue()


def image_archive(path, tag, layer, **config):
    """A file for `docker load` and `podman load`: one layer, and the image's own configuration."""
    diff = 'sha256:' + hashlib.sha256(layer).hexdigest()
    whole = {'Env': ['PATH=/usr/local/bin:/usr/bin:/bin', 'FROM_IMAGE=yes'], 'Cmd': ['false'],
             'Entrypoint': ['/bin/false'], **config}
    conf = json.dumps({'architecture': {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine), 'os': 'linux',
                       'config': whole, 'rootfs': {'type': 'layers', 'diff_ids': [diff]},
                       'history': [{'created_by': 'tests'}]}).encode()
    name = hashlib.sha256(conf).hexdigest() + '.json'
    manifest = json.dumps([{'Config': name, 'RepoTags': [tag], 'Layers': ['layer.tar']}]).encode()
    with tarfile.open(path, 'w') as tar:
        add_file(tar, 'layer.tar', layer)
        add_file(tar, name, conf)
        add_file(tar, 'manifest.json', manifest)
    os.chmod(path, 0o644)
    return path


class World:
    def __init__(self, uid, gid):
        if os.geteuid() != 0:
            raise Missing('container engines of the tests need root')
        need('unshare', 'nsenter', 'setpriv', 'ip')
        if not os.path.exists(BUSYBOX):
            raise Missing(f'needs {BUSYBOX} (Debian: busybox-static)')
        # podman's cleaners refuse a folder of more than 50 characters, where nobody sees it.
        self.base, self.uid, self.gid = tempfile.mkdtemp(prefix='it.', dir='/tmp'), uid, gid
        os.chmod(self.base, 0o755)
        self.write('subid', f'{uid}:200000:65536\n')
        self.children = []
        script = HOLDER.format(metadata=METADATA, base=self.base)
        self.holder = self.spawn(['unshare', '--net', '--mount', '--propagation', 'slave', 'sh', '-c', script],
                                 'world.log')
        if self.holder.stdout.readline() != b'ready\n':
            raise Missing(f'no namespaces of its own: {tail(self.path("world.log"))}')
        self.archive = image_archive(self.path('busybox.tar'), IMAGE, busybox_layer())

    def path(self, *names):
        return os.path.join(self.base, *names)

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), 'w', encoding='utf-8') as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def spawn(self, argv, log, **more):
        """A process that ends with this one, its errors in a log; standard output is a pipe."""
        with open(self.path(log), 'ab') as f:
            p = subprocess.Popen(['setpriv', '--pdeathsig', 'TERM', *argv], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=f, cwd=self.base, **more)
        self.children.append(p)
        return p

    def argv(self, argv, uid=0, gid=0, cwd='/'):
        """The same command in this world, as this user; its process is the one that Popen starts."""
        become = ['setpriv', '--reuid', str(uid), '--regid', str(gid), '--clear-groups'] if uid else []
        ns = f'/proc/{self.holder.pid}/ns/'
        return ['nsenter', f'--net={ns}net', f'--mount={ns}mnt', *become, 'env', '-C', cwd, *argv]

    def start(self, argv, log, **more):
        return self.spawn(self.argv(argv, cwd=self.base), log, **more)

    def run(self, argv, uid=0, gid=0, timeout=120, **more):
        more.setdefault('stdin', subprocess.DEVNULL)
        return subprocess.run(self.argv(argv, uid, gid, more.pop('cwd', '/')), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, check=False, text=True, errors='replace', **more)

    def server(self):
        """An HTTP server on every address of the world; see hello.py."""
        return Server(self)

    def listeners(self, port):
        """The addresses on which somebody in this world listens at that TCP port, as /proc/net/tcp writes them."""
        found = []
        for name in ('tcp', 'tcp6'):
            with open(f'/proc/{self.holder.pid}/net/{name}', encoding='ascii') as f:
                rows = [line.split() for line in f][1:]
            found += [row[1].split(':')[0] for row in rows if row[3] == '0A' and int(row[1].split(':')[1], 16) == port]
        return found

    def join(self, other, name, ours, theirs):
        """A cable between this world and another one, with an address at each end."""
        argv = ['ip', 'link', 'add', name, 'netns', str(self.holder.pid), 'type', 'veth', 'peer', 'name', name, 'netns',
                str(other.holder.pid)]
        if subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).returncode != 0:
            raise Missing('needs veth devices')
        for w, address in ((self, ours), (other, theirs)):
            for words in (['address', 'add', f'{address}/24', 'dev', name], ['link', 'set', name, 'up']):
                p = w.run(['ip', *words])
                assert p.returncode == 0, p.stderr

    def strays(self):
        """Whoever is in the world's network namespace beside its holder: monitors of containers, a process that podman
        keeps for its user namespace. Nobody who was not started here can be."""
        def network(pid):
            try:
                return os.readlink(f'/proc/{pid}/ns/net')
            except OSError:
                return None
        ours = network(self.holder.pid)
        if not ours or ours == network('self'):
            return []
        return [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != self.holder.pid
                and network(pid) == ours]

    def end(self):
        for p in reversed(self.children):
            if p is self.holder:
                for pid in self.strays():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            p.terminate()
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            p.stdout.close()
        self.children = []
        shutil.rmtree(self.base, ignore_errors=True)


class Server:
    """The tests' own server: what it was asked for is a list of lines in a file."""

    def __init__(self, world):
        self.process = world.start([sys.executable, os.path.join(HERE, 'hello.py')], 'server.log')
        self.port = int(self.process.stdout.readline() or 0)
        if not self.port:
            raise Missing(f'the server of the tests did not start: {tail(world.path("server.log"))}')

    def end(self):
        self.process.terminate()


class Engine:
    """One engine as one user has it: what iterion needs in its environment, and calls of its program."""

    def __init__(self, world, name, program, uid=0, gid=0):
        self.world, self.name, self.program, self.uid, self.gid = world, name, program, uid, gid  # program: the driver's name too
        self.env = {}

    def run(self, *args, **more):
        env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': self.world.base,
               **self.env}
        return self.world.run([self.program, *args], self.uid, self.gid, env=env, **more)

    def ok(self, *args, **more):
        p = self.run(*args, **more)
        assert p.returncode == 0, f'{self.program} {" ".join(args)}: {p.stdout}{p.stderr}'
        return p.stdout.strip()

    def load(self, archive=None):
        self.ok('load', '--input', archive or self.world.archive)

    def remove(self, *names):
        """At once: podman gives a program ten seconds when it is not told otherwise."""
        return self.run('rm', '--force', *(('--time', '0') if self.program == 'podman' else ()), *names)

    def names(self, *filters):
        """Of all containers, running or not."""
        flags = [word for f in filters for word in ('--filter', f)]
        return self.ok('ps', '--all', '--format', '{{.Names}}', *flags).split()


class Docker(Engine):
    def __init__(self, world, name='docker', data=None, address=None, **more):
        """address: it listens there as well, and that is how its users reach it."""
        super().__init__(world, name, 'docker', **more)
        need('dockerd', 'docker', 'containerd', 'runc')
        self.base = world.path(name)
        os.makedirs(self.base)
        os.chmod(self.base, 0o755)
        self.data = data or os.path.join(self.base, 'data')
        self.socket = os.path.join(self.base, 'docker.sock')
        self.address = address
        self.env = {'DOCKER_HOST': address or 'unix://' + self.socket, 'DOCKER_CONFIG': os.path.join(self.base, 'config')}
        world.write(f'{name}/config/config.json', '{}\n')
        world.write(f'{name}/daemon.json', '{"log-level": "warn"}\n')
        self.start()

    def start(self):
        log = f'{self.name}.log'
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.world.path(log))
        self.daemon = self.world.start(
            ['dockerd', '--config-file', os.path.join(self.base, 'daemon.json'), '--host', 'unix://' + self.socket,
             '--data-root', self.data, '--exec-root', os.path.join(self.base, 'exec'), '--pidfile',
             os.path.join(self.base, 'pid'), '--group', str(self.world.gid),
             *(('--host', self.address, '--tls=false') if self.address else ())], log)
        try:
            until(self.answers, 'dockerd answers')
        except AssertionError as e:
            raise Missing(f'dockerd does not start: {tail(self.world.path(log))}') from e

    def answers(self):
        if self.daemon.poll() is not None:
            raise Missing(f'dockerd ended: {tail(self.world.path(self.name + ".log"))}')
        return os.path.exists(self.socket) and self.run('version', '--format', '{{.Server.Version}}').returncode == 0

    def stop(self, sig=signal.SIGTERM):
        self.daemon.send_signal(sig)
        self.daemon.wait(60)
        if sig == signal.SIGKILL:
            # Its helper dies with it and, where PID 1 reaps nobody, looks alive for ever to the next daemon.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.base, 'exec', 'containerd', 'containerd.pid'))

    def end(self):
        if self.daemon.poll() is None:
            for name in self.names():
                self.remove(name)
            self.stop()


class Podman(Engine):
    """uid 0, or an ordinary user's own without root."""

    def __init__(self, world, name='podman', uid=0, gid=0):
        super().__init__(world, name, 'podman', uid, gid)
        need('podman', 'runc', 'conmon')
        if uid:
            need('newuidmap', 'slirp4netns')
        self.base = world.path(name)
        for folder in ('', 'run', 'home'):
            os.makedirs(os.path.join(self.base, folder), exist_ok=True)
            os.chmod(os.path.join(self.base, folder), 0o700 if folder == 'run' else 0o755)
            os.chown(os.path.join(self.base, folder), uid, gid)
        for file, text in (('containers.conf', CONTAINERS_CONF.format(base=self.base)), ('registries.conf', REGISTRIES_CONF),
                           ('policy.json', POLICY),
                           ('storage.conf', f'[storage]\ndriver = "overlay"\ngraphroot = "{self.base}/root"\n'
                            f'rootless_storage_path = "{self.base}/root"\nrunroot = "{self.base}/runroot"\n')):
            world.write(f'{name}/{file}', text)
        self.env = {'CONTAINERS_CONF': f'{self.base}/containers.conf',
                    'CONTAINERS_STORAGE_CONF': f'{self.base}/storage.conf',
                    'CONTAINERS_REGISTRIES_CONF': f'{self.base}/registries.conf',
                    'XDG_RUNTIME_DIR': f'{self.base}/run'}
        if uid:
            self.env['HOME'] = f'{self.base}/home'
        p = self.run('info', '--format', '{{.Host.CgroupsVersion}}')
        if p.returncode != 0:
            raise Missing(f'podman does not work: {p.stderr.strip()[-300:]}')

    def end(self):
        self.run('rm', '--all', '--force', '--time', '0')


class Registry:
    """A registry on a loopback port of the world; images come by `docker push`."""

    def __init__(self, world, port=5000):
        need('docker-registry')
        self.world = world
        self.host = f'127.0.0.1:{port}'
        conf = world.write('registry/config.yml', f'version: 0.1\nlog: {{level: error}}\n'
                           f'storage: {{filesystem: {{rootdirectory: {world.path("registry")}}}, delete: {{enabled: true}}}}\n'
                           f'http: {{addr: "{self.host}"}}\n')
        self.process = world.start(['docker-registry', 'serve', conf], 'registry.log')
        asks = ['wget', '-q', '-O', '/dev/null', f'http://{self.host}/v2/']
        until(lambda: self.process.poll() is not None or world.run([BUSYBOX, *asks]).returncode == 0,
              'the registry answers')
        if self.process.poll() is not None:
            raise Missing(f'docker-registry ended: {tail(world.path("registry.log"))}')

    def end(self):
        self.process.terminate()

    def push(self, docker, name):
        """An image like the test's own, of a layer that no engine has: it is there and nowhere else."""
        there = f'{self.host}/{name}'
        archive = self.world.path('push.tar')
        docker.load(image_archive(archive, there, busybox_layer(f'only {name}\n'.encode())))
        docker.ok('push', there)
        docker.ok('rmi', there)
        os.unlink(archive)
        return there
