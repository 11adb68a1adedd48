"""Mounts that would give the host away: none of them is made, whoever writes them and wherever they are written.

Each is first shown to exist outside for the same person, or the test says why that cannot be.
"""
import json
import os
import socket
import subprocess
import sys

import pytest

from conftest import AM_ROOT, background

ROUNDS = int(os.environ.get('ITERION_RACE_ROUNDS', '60'))
KEY = 'a private key of the host\n'


class Stage:
    """One person's place with things in it that no sandbox may have."""

    def __init__(self, place):
        self.place, self.open = place, []
        self.key = place.file(os.path.join(place.folder('home', '.ssh'), 'id'), KEY, 0o600)

    def path(self, *names):
        return os.path.join(self.place.base, *names)

    def link(self, to, *names):
        path = self.path(*names)
        os.symlink(to, path)
        return path

    def socket(self, *names):
        path = self.path(*names)
        s = socket.socket(socket.AF_UNIX)
        s.bind(path)
        s.listen()
        self.place.person.own(path)
        self.open.append(s)
        return path

    def engine(self):
        self.place.folder('engine')
        return self.socket('engine', 'docker.sock')

    def fifo(self):
        path = self.path('fifo')
        os.mkfifo(path)
        self.place.person.own(path)
        return path

    def other_run(self):
        store = self.place.folder('home', '.iterion')
        for names in (('runs',), ('runs', 'some-other-run')):
            self.place.folder('home', '.iterion', *names)
        return os.path.join(store, 'runs', 'some-other-run')

    def block_device(self):
        devices = [os.path.join('/dev', n) for n in sorted(os.listdir('/dev'))]
        found = [d for d in devices if os.path.exists(d) and (os.stat(d).st_mode & 0o170000) == 0o060000]
        return found[0] if found else self.own_device('block-node', 'b', 7, 0)

    def own_device(self, name, kind, major, minor):
        if not AM_ROOT:
            pytest.skip('a device node is made by root only')
        path = self.path(name)
        subprocess.run(['mknod', '-m', '666', path, kind, str(major), str(minor)], check=True)
        return path

    def close(self):
        for s in self.open:
            s.close()


@pytest.fixture
def stage(own_place):
    s = Stage(own_place)
    yield s
    s.close()


def needs(path):
    """A path of this machine, or a skip."""
    if not os.path.lexists(path):
        pytest.skip(f'this machine has no {path}')
    return path


# name: what makes the source (with the environment of iterion, when that has a say), and a part of the message.
SOURCES = {
    'the root folder': (lambda s: '/', 'contains'),
    'the root folder, spelt otherwise': (lambda s: '/.././/', 'contains'),
    'home': (lambda s: s.place.home, 'contains'),
    'home with a slash behind': (lambda s: s.place.home + '//', 'contains'),
    'all homes': (lambda s: needs('/home'), 'home'),
    'a key folder': (lambda s: s.path('home', '.ssh'), 'credentials'),
    'one key': (lambda s: s.key, 'credentials'),
    'a key by dots': (lambda s: s.path('workspace', '..', 'home', '.ssh', 'id'), 'credentials'),
    'a key by a link': (lambda s: s.link(s.key, 'workspace', 'innocent'), 'credentials'),
    'a key folder by a link': (lambda s: s.link(s.path('home', '.ssh'), 'workspace', 'innocent'), 'credentials'),
    'a key folder below a linked parent': (lambda s: os.path.join(s.link(s.place.home, 'workspace', 'h'), '.ssh'),
                                           'credentials'),
    'a key by a chain of links': (lambda s: s.link(s.link(s.link(s.key, 'one'), 'two'), 'workspace', 'three'), 'credentials'),
    'another key file of home': (lambda s: s.place.file(s.path('home', '.netrc'), KEY, 0o600), 'credentials'),
    'a folder around a key file': (lambda s: os.path.dirname(s.place.folder('home', '.config', 'gh')), 'contains'),
    "root's home": (lambda s: needs('/root'), 'mount source /root'),
    'run': (lambda s: needs('/run'), 'contains'),
    'run by its other name': (lambda s: needs('/var/run'), 'contains'),
    'proc': (lambda s: '/proc', 'kernel'),
    'proc with slashes': (lambda s: '//proc//.', 'kernel'),
    'the root folder by proc': (lambda s: '/proc/self/root', ''),
    'a process by proc': (lambda s: '/proc/1', 'kernel'),
    'sys': (lambda s: needs('/sys'), 'kernel'),
    'dev': (lambda s: '/dev', 'kernel'),
    'a block device': (lambda s: s.block_device(), ''),
    'a block device of our own': (lambda s: s.own_device('block', 'b', 7, 0), 'is a device'),
    'a character device of our own': (lambda s: s.own_device('memory', 'c', 1, 1), 'is a device'),
    'kernel memory': (lambda s: needs('/dev/mem') if os.path.exists('/dev/mem') else needs('/dev/kmsg'), 'kernel'),
    'password hashes': (lambda s: needs('/etc/shadow'), 'accounts'),
    'all of etc': (lambda s: '/etc', 'contains'),
    'boot': (lambda s: needs('/boot'), 'starts from'),
    "an engine's socket": (lambda s: s.engine(), 'engine'),
    "an engine's socket by a link": (lambda s: s.link(s.engine(), 'workspace', 'sock'), 'engine'),
    "the folder of an engine's socket": (lambda s: os.path.dirname(s.engine()), 'engine'),
    'the agent of keys': (lambda s: s.socket('agent'), 'sign'),
    'the run-time folder': (lambda s: s.place.folder('runtime'), 'service manager'),
    'any socket': (lambda s: s.socket('workspace', 'service'), 'is a socket'),
    'a fifo': (lambda s: s.fifo(), 'is a FIFO'),
    'another run': (lambda s: s.other_run(), 'other runs'),
    'a file of another run': (lambda s: s.place.file(os.path.join(s.other_run(), 'events.jsonl'), '{}\n'), 'other runs'),
    'a folder of this place, relatively': (lambda s: '../home/.ssh', 'not absolute'),
    'home with a tilde': (lambda s: '~/.ssh', 'not absolute'),
}


def environment(stage):
    return {'DOCKER_HOST': 'unix://' + stage.path('engine', 'docker.sock'), 'SSH_AUTH_SOCK': stage.path('agent'),
            'XDG_RUNTIME_DIR': stage.path('runtime'), 'ITERION_HOME': stage.path('home', '.iterion')}


def by_block(place, source):
    return place.file(os.path.join(place.workspace, 'w.bot'), 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n'
                      f'  sandbox:\n    mounts: ["type=bind,source={source},target=/mnt/it"]\n  t -> done\n'), ()


def by_devcontainer(place, source):
    place.folder('workspace', '.devcontainer')
    mount = {'type': 'bind', 'source': source, 'target': '/mnt/it'}
    place.file(os.path.join(place.workspace, '.devcontainer', 'devcontainer.json'), json.dumps({'mounts': [mount]}))
    return None, ('--sandbox=auto',)


def by_run_args(place, source):
    place.folder('workspace', '.devcontainer')
    place.file(os.path.join(place.workspace, '.devcontainer', 'devcontainer.json'),
               json.dumps({'runArgs': ['-v', f'{source}:/mnt/it']}))
    return None, ('--sandbox=auto',)


def attempt(stage, written, source, *command):
    file, flags = written(stage.place, source)
    return stage.place.outside(*stage.place.argv(*command, flags=(*flags, *([file] if file else []))),
                               env=environment(stage))


@pytest.mark.parametrize('written', [by_block, by_devcontainer, by_run_args])
@pytest.mark.parametrize('name', SOURCES)
def test_a_hostile_mount(stage, name, written):
    make, says = SOURCES[name]
    source = make(stage)
    # It is there: for the same person, by the same name.
    shown = source.replace('~', stage.place.home)
    assert stage.place.outside('/bin/sh', '-c', 'test -e "$1"', 'sh', shown).returncode == 0
    p = attempt(stage, written, source, '/bin/sh', '-c', 'echo started; ls -laR /mnt')
    assert p.returncode in (1, 2) and 'started' not in p.stdout and KEY not in p.stdout, p
    assert 'error: ' in p.stderr and 'hint: ' in p.stderr and says in p.stderr, p.stderr


@pytest.mark.parametrize('written', [by_block, by_devcontainer, by_run_args])
def test_an_innocent_mount(stage, written):
    """The same ways with a source that anybody may have: otherwise the refusals above prove nothing."""
    folder = stage.place.folder('data')
    stage.place.file(os.path.join(folder, 'file'), 'data\n')
    for source, look in ((folder, '/mnt/it/file'), (os.path.join(folder, 'file'), '/mnt/it'),
                         (stage.link(folder, f'link-{written.__name__}'), '/mnt/it/file')):
        p = attempt(stage, written, source, '/bin/cat', look)
        assert p.returncode == 0 and p.stdout == 'data\n', p
    p = attempt(stage, written, '/dev/null', '/bin/sh', '-c', 'echo x > /mnt/it && cat /mnt/it && echo works')
    assert p.stdout == 'works\n', p


@pytest.mark.parametrize('target', ['/proc', '/proc/self', '/sys', '/dev', '/dev/sda', '/run/iterion', '/run/iterion/bin/iterion',
                                    '/', '//', '/x/../proc', 'relative', '/run/iterion/../iterion/artifact-files'])
def test_a_hostile_target(stage, target):
    """What is mounted over these decides what the inside believes of itself."""
    folder = stage.place.folder('data')
    file = stage.place.file(os.path.join(stage.place.workspace, 'w.bot'),
                            'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  sandbox:\n'
                            f'    mounts: ["type=bind,source={folder},target={target}"]\n  t -> done\n')
    p = stage.place.outside(*stage.place.argv('/bin/echo', 'started', flags=(file,)))
    assert p.returncode == 2 and p.stdout == '' and 'hint: ' in p.stderr, p


def test_a_link_at_the_target(stage):
    """A mounted folder holds a link where a later mount goes: it is not followed."""
    outer = stage.place.folder('outer')
    stage.place.folder('inner')
    os.symlink('/etc', os.path.join(outer, 'here'))
    file = stage.place.file(os.path.join(stage.place.workspace, 'w.bot'),
                            'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  sandbox:\n'
                            f'    mounts: ["type=bind,source={outer},target=/o", '
                            f'"type=bind,source={stage.path("inner")},target=/o/here"]\n  t -> done\n')
    p = stage.place.outside(*stage.place.argv('/bin/sh', '-c', 'echo started; ls /etc', flags=(file,)))
    assert p.returncode == 1 and 'started' not in p.stdout and 'hint: A file or a symbolic link' in p.stderr, p


# Swaps two names for each other for ever: the folder and the link, or the file and the device beside it.
SWAPPER = '''import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
a, b = (p.encode() for p in sys.argv[1:3])
while True:
    if libc.renameat2(-100, a, -100, b, 2) != 0:
        sys.exit(ctypes.get_errno())
'''


@pytest.mark.parametrize('swapped', ['a folder for a link', 'a parent for a link', 'a file for a fifo'])
def test_a_source_that_is_swapped_while_the_sandbox_starts(stage, swapped):
    """Between the check and the mount the path may lead elsewhere: what was checked is mounted, or nothing."""
    place = stage.place
    real, other = os.path.join(place.workspace, 'pivot'), os.path.join(place.workspace, 'other')
    if swapped == 'a file for a fifo':
        place.file(real, 'safe\n')
        os.mkfifo(other)
        place.person.own(other)
        source, look = real, 'test -p /mnt/it && echo reached; test -f /mnt/it && cat /mnt/it'
    else:
        # In both the name is "id", so that the link shows the key where the folder shows the data.
        place.file(os.path.join(place.folder('workspace', 'pivot', 'below'), 'id'), 'safe\n')
        place.file(os.path.join(place.workspace, 'pivot', 'id'), 'safe\n')
        place.file(os.path.join(place.folder('home', '.ssh', 'below'), 'id'), KEY)
        os.symlink(stage.path('home', '.ssh'), other)
        source = real if swapped == 'a folder for a link' else os.path.join(real, 'below')
        look = 'cat /mnt/it/id'
        assert place.outside('/bin/cat', os.path.join(other, 'id')).stdout == KEY
    file, _ = by_block(place, source)
    seen = {'safe': 0, 'refused': 0}
    with background(place, sys.executable, '-c', SWAPPER, real, other) as swapper:
        for _ in range(ROUNDS):
            p = place.outside(*place.argv('/bin/sh', '-c', look, flags=(file,)))
            assert KEY not in p.stdout and 'reached' not in p.stdout, p
            assert (p.returncode == 0 and p.stdout == 'safe\n') or (p.returncode == 1 and 'error: ' in p.stderr), p
            seen['safe' if p.returncode == 0 else 'refused'] += 1
        assert swapper.poll() is None, 'the names were not swapped'
    # The race was one: both happened.
    assert min(seen.values()) > 0, seen
