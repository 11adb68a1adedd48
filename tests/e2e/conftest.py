"""What the end-to-end tests share: the programs where anybody may run them, and two people to run them as.

The binary is looked for in ITERION_BIN_DIR, then in the build folder that tests/run names (ITERION_BUILD), then in
build/. As root each test that takes `user` runs twice, as root and as the ordinary user iterion-test, who is made for
that; anybody else has only himself, and the half for root is skipped. With MUST_WORK=1 a skip is a failure.
"""
import contextlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile

import pytest

import engines

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ORDINARY = 'iterion-test'
AM_ROOT = os.geteuid() == 0


def skip(reason):
    """Skips, naming the missing prerequisite; fails when everything must be there."""
    if os.environ.get('MUST_WORK', '') not in ('', '0'):
        pytest.fail(f'{reason} (MUST_WORK is set)')
    pytest.skip(reason)


def bin_dir():
    if os.environ.get('ITERION_BIN_DIR'):
        return os.environ['ITERION_BIN_DIR']
    return os.path.join(os.environ.get('ITERION_BUILD') or os.path.join(ROOT, 'build'), 'src', 'cli')


class User:
    """Somebody with a home, a workspace and a store of his own, who runs programs there."""

    def __init__(self, name, uid, gid, base, program):
        self.name, self.uid, self.gid, self.program = name, uid, gid, program
        self.world = None  # runs on the machine itself
        self.base = tempfile.mkdtemp(prefix=f'{name}.', dir=base)
        os.chmod(self.base, 0o755)
        self.own(self.base)
        self.home = self.folder('home')
        self.workspace = self.folder('workspace')
        self.store = os.path.join(self.base, 'store')
        self.env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': self.home,
                    'USER': name, 'LANG': 'C.UTF-8', 'ITERION_HOME': self.store}

    def own(self, path):
        if AM_ROOT:
            os.chown(path, self.uid, self.gid)
        return path

    def folder(self, *names):
        path = os.path.join(self.base, *names)
        os.makedirs(path, 0o755, exist_ok=True)
        return self.own(path)

    def file(self, name, text, mode=0o644):
        """A file in the workspace (or anywhere, by an absolute path)."""
        path = os.path.join(self.workspace, name)
        with open(path, 'wb') as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return self.own(path)

    def popen(self, *argv, env=None, **more):
        more.setdefault('cwd', self.workspace)
        more.setdefault('stdin', subprocess.DEVNULL)
        more.setdefault('stdout', subprocess.PIPE)
        more.setdefault('stderr', subprocess.PIPE)
        if self.world:
            argv = self.world.argv(argv, self.uid, self.gid, more.pop('cwd'))
        elif AM_ROOT and self.uid != 0:
            more.update(user=self.uid, group=self.gid, extra_groups=[])
        return subprocess.Popen(argv, env={**self.env, **(env or {})}, **more)

    def start(self, *args, **more):
        return self.popen(self.program, *args, **more)

    def run(self, *args, input=None, timeout=60, **more):
        """A finished iterion with these arguments; stdout and stderr as text."""
        if input is not None:
            more['stdin'] = subprocess.PIPE
        p = self.start(*args, **more)
        try:
            out, err = p.communicate(input.encode() if isinstance(input, str) else input, timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            pytest.fail(f'iterion {" ".join(args)}: no end within {timeout} s\n{out!r}\n{err!r}')
        return subprocess.CompletedProcess(args, p.returncode, (out or b'').decode(errors='replace'),
                                           (err or b'').decode(errors='replace'))

    def ok(self, *args, code=0, **more):
        p = self.run(*args, **more)
        assert p.returncode == code, f'iterion {" ".join(args)} ended with {p.returncode}:\n{p.stdout}\n{p.stderr}'
        return p

    def fails(self, *args, code=2, says=(), **more):
        """It ends with this code and an error of three parts."""
        p = self.ok(*args, code=code, **more)
        lines = p.stderr.split('\n')
        errors = [line for line in lines if line.startswith('error: ')]
        assert len(errors) == 1, f'one error is expected:\n{p.stderr}'
        assert errors[0].count(': ') >= 2, f'what failed and why: {errors[0]}'
        assert any(line.startswith('hint: ') for line in lines), f'no hint:\n{p.stderr}'
        for word in (says,) if isinstance(says, str) else says:
            assert word in p.stderr, f'{word!r} is not in:\n{p.stderr}'
        return p

    def events(self, run_id=None):
        runs = os.path.join(self.store, 'runs')
        names = sorted(os.listdir(runs))
        with open(os.path.join(runs, run_id or names[-1], 'events.jsonl'), encoding='utf-8') as f:
            return [json.loads(line) for line in f]

    def runs(self):
        try:
            return sorted(os.listdir(os.path.join(self.store, 'runs')))
        except FileNotFoundError:
            return []


@pytest.fixture(scope='session')
def base():
    path = tempfile.mkdtemp(prefix='iterion-e2e.')
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope='session')
def programs(base):
    """Copies that anybody may run: the build folder may lie where an ordinary user cannot go."""
    here = bin_dir()
    folder = os.path.join(base, 'bin')
    os.mkdir(folder, 0o755)
    places = {'iterion': ['.'], 'iterion-guest': ['.', '../guest', '../libexec/iterion'],
              'iterion-proxy': ['.', '../net', '../libexec/iterion']}
    for name, tries in places.items():
        found = [p for p in (os.path.join(here, t, name) for t in tries) if os.path.exists(p)]
        assert found, f'{name} is not in {here}: build it, or name its folder in ITERION_BIN_DIR'
        shutil.copy(found[0], folder)
        os.chmod(os.path.join(folder, name), 0o755)
    return folder


@pytest.fixture(scope='session')
def ordinary_account():
    if not AM_ROOT:
        return pwd.getpwuid(os.getuid())
    try:
        return pwd.getpwnam(ORDINARY)
    except KeyError:
        p = subprocess.run(['useradd', '--system', '--no-create-home', '--shell', '/bin/sh', ORDINARY], check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            return pwd.getpwnam(ORDINARY)  # also when another worker made it a moment ago
        except KeyError:
            return skip(f'an ordinary user cannot be made: {p.stdout.decode(errors="replace")}')


def make_user(which, account, base, programs):
    program = os.path.join(programs, 'iterion')
    if which == 'root':
        if not AM_ROOT:
            skip('needs root')
        return User('root', 0, 0, base, program)
    return User(account.pw_name, account.pw_uid, account.pw_gid, base, program)


@pytest.fixture(params=['root', 'ordinary'])
def user(request, ordinary_account, base, programs):
    """Each test with a fresh home, workspace and store, as root and as an ordinary user."""
    return make_user(request.param, ordinary_account, base, programs)


@pytest.fixture
def me(ordinary_account, base, programs):
    """The ordinary user only, for what has nothing to do with who one is."""
    return make_user('ordinary', ordinary_account, base, programs)


@pytest.fixture(scope='session')
def world(ordinary_account):
    """Where the tests' own container engines are; see engines.py."""
    with had(lambda: engines.World(ordinary_account.pw_uid, ordinary_account.pw_gid)) as w:
        yield w


@pytest.fixture(scope='session')
def docker(world):
    with had(lambda: engines.Docker(world)) as d:
        d.load()
        yield d


@pytest.fixture(scope='session')
def podman(world):
    with had(lambda: engines.Podman(world)) as p:
        p.load()
        yield p


@pytest.fixture(scope='session')
def rootless(world):
    """The ordinary user's podman."""
    with had(lambda: engines.Podman(world, 'rootless', world.uid, world.gid)) as p:
        p.load()
        yield p


@pytest.fixture(scope='session')
def registry(world):
    with had(lambda: engines.Registry(world)) as r:
        yield r


@pytest.fixture(scope='session')
def hello(world):
    """A server of the tests in the world: its port."""
    with had(world.server) as s:
        yield s.port


@pytest.fixture
def no_guest(base):
    """A program that no image can run."""
    path = os.path.join(base, 'not-a-guest')
    with open(path, 'w', encoding='ascii') as f:
        f.write('#!/no/such/interpreter\n')
    os.chmod(path, 0o755)
    return {'ITERION_BIN': path}


@contextlib.contextmanager
def had(make):
    try:
        thing = make()
    except engines.Missing as e:
        skip(str(e))
    try:
        yield thing
    finally:
        thing.end()


def settle(person, world, engine=None):
    """The user works in the world from now on, with this engine."""
    person.world = world
    if engine:
        person.env.update({k: v for k, v in engine.env.items() if k != 'HOME'})
    return person


def of_type(events, kind):
    return [e['data'] for e in events if e['type'] == kind]


class Place:
    """A user, the driver, and where the test's own server is."""

    def __init__(self, user, driver, engine, port):
        self.user, self.driver, self.engine, self.server_port = user, driver, engine, port
        self.flags = ('--sandbox-driver', driver)

    @property
    def port(self):
        return self.server_port or skip('needs root: the server of the tests is in a network namespace')

    def block(self, *lines, network='open', rules=(), image=engines.IMAGE):
        """A sandbox block; the test image where there are images."""
        text = ['sandbox:', '  mode: inline', *(f'  {line}' for line in lines)]
        if self.engine and image:
            text.append(f'  image: "{image}"')
        text += ['  network:', f'    mode: {network}']
        if rules:
            text.append(f'    rules: {json.dumps(list(rules))}')
        return ''.join(f'  {line}\n' for line in text)

    def workflow(self, *commands, block=None):
        """Tools t0, t1, … one after the other."""
        nodes = ''.join(f'tool t{i}:\n  command: `{c}`\n\n' for i, c in enumerate(commands))
        names = [f't{i}' for i in range(len(commands))] + ['done']
        edges = ''.join(f'  {a} -> {b}\n' for a, b in zip(names, names[1:]))
        self.user.file('main.bot', f'{nodes}workflow w:\n  entry: t0\n{block or self.block()}{edges}')

    def run(self, *commands, block=None, flags=(), code=0, **more):
        self.workflow(*commands, block=block)
        return self.user.ok('run', 'main.bot', *self.flags, *flags, code=code, **more)

    def outputs(self):
        """What each node printed."""
        return {e['node_id']: e['data']['output']['output'] for e in self.user.events() if e['type'] == 'node_finished'}

    def nothing_is_left(self):
        """A container that could not be started is removed by docker's daemon on its own, a moment later."""
        if self.engine:
            engines.until(lambda: self.engine.names('label=iterion.io/managed=true') == [],
                          'no container of ours is left', 10)


@pytest.fixture
def place_of(request, ordinary_account, base, programs):
    """Makes the place of a driver: native, docker, podman, or rootless for the ordinary user's podman."""
    @contextlib.contextmanager
    def make(driver):
        engine = request.getfixturevalue(driver) if driver != 'native' else None
        user = make_user('root' if driver == 'podman' else 'ordinary', ordinary_account, base, programs)
        port = None
        if AM_ROOT:
            settle(user, request.getfixturevalue('world'), engine)
            port = request.getfixturevalue('hello')
        p = Place(user, engine.program if engine else driver, engine, port)
        yield p
        p.nothing_is_left()
    return make


@pytest.fixture(params=['docker', 'rootless'])
def container(request, place_of):
    """Of both engines; where root's podman has something of its own, a test asks for it."""
    with place_of(request.param) as p:
        yield p
