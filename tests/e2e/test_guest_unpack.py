"""Folders as streams: what a hostile one may not do. The program is the one that brings a workspace back from a pod."""
import os
import struct
import subprocess

import pytest


def record(kind, path, data=b'', mode=0o644, size=None, whole=1):
    path = path.encode() if isinstance(path, str) else path
    head = struct.pack('=IIQqII', ord(kind), mode, len(data) if size is None else size, 0, 0, len(path))
    return head + path + data + (struct.pack('=I', whole) if kind == 'f' else b'')


END = record('e', '')


@pytest.fixture
def unpack(me, programs):
    def run(stream, *options):
        p = subprocess.run([os.path.join(programs, 'iterion-guest'), 'unpack', me.workspace, *options], input=stream,
                           capture_output=True, check=False, timeout=30)
        return p.returncode, p.stderr.decode()
    return run


def test_an_honest_one(me, unpack):
    assert unpack(record('d', 'a', mode=0o555) + record('f', 'a/b', b'text', 0o4755) + record('l', 'c', b'a/b') + END)[0] == 0
    with open(os.path.join(me.workspace, 'c'), 'rb') as f:
        assert f.read() == b'text'
    assert os.stat(os.path.join(me.workspace, 'a/b')).st_mode & 0o7777 == 0o755, 'setuid came back'
    assert os.stat(os.path.join(me.workspace, 'a')).st_mode & 0o7777 == 0o555
    os.chmod(os.path.join(me.workspace, 'a'), 0o755)


@pytest.mark.parametrize('path', ['../x', '/tmp/x', 'a/../../x', './x', 'a//x', '', '..', 'a/', 'x\0y', 'a' * 5000,
                                  '/'.join('a' * 300)])
@pytest.mark.parametrize('kind', ['f', 'd', 'l', 'x'])
def test_paths_that_lead_out(me, unpack, kind, path):
    before = sorted(os.listdir(me.base))
    data = b'evil' if kind in 'fl' else b''
    code, err = unpack(record(kind, path, data) + END)
    assert code == 1 and 'iterion-guest: unpack' in err
    assert sorted(os.listdir(me.base)) == before and os.listdir(me.workspace) == []


def test_its_own_links_lead_nowhere(me, unpack):
    outside = me.folder('outside')
    for stream in (record('l', 'a', outside.encode()) + record('f', 'a/x', b'evil') + END,
                   record('l', 'b', b'..') + record('d', 'b/outside/d', mode=0o755) + END,
                   record('l', 'c', outside.encode()) + record('x', 'c/kept') + END):
        with open(os.path.join(outside, 'kept'), 'w', encoding='utf-8'):
            pass
        assert unpack(stream)[0] == 1
        assert os.listdir(outside) == ['kept']


def test_what_is_left_out_stays(me, unpack):
    me.folder('workspace', 'sub')
    me.folder('workspace', 'sub', 'store')
    me.file('sub/store/kept', 'kept')
    stream = (record('f', 'sub/store/kept', b'evil') + record('x', 'sub/store/kept') + record('x', 'sub/store') +
              record('x', 'sub') + record('f', 'sub', b'evil') + record('l', 'sub', b'/tmp') + END)
    assert unpack(stream, '--without', 'sub/store')[0] == 0
    with open(os.path.join(me.workspace, 'sub/store/kept'), encoding='utf-8') as f:
        assert f.read() == 'kept'


@pytest.mark.parametrize('stream', [
    b'', b'short', record('f', 'x', b'abc', size=100) + END, record('f', 'x', b'abc'), record('q', 'x') + END,
    record('f', 'x', size=1 << 40) + END, record('l', 'x', b'a' * 5000) + END, record('l', 'x', b'') + END,
], ids=['empty', 'no-head', 'more-than-there-is', 'no-end', 'no-such-kind', 'a-tebibyte', 'long-link', 'empty-link'])
def test_streams_that_are_none(me, unpack, stream):
    me.file('x', 'before')
    assert unpack(stream)[0] == 1
    assert [n for n in os.listdir(me.workspace) if n != 'x'] == [], 'a half was left'


def test_a_file_that_is_not_whole_is_not_taken(me, unpack):
    me.file('x', 'before')
    assert unpack(record('f', 'x', b'half', whole=0) + END)[0] == 0
    with open(os.path.join(me.workspace, 'x'), encoding='utf-8') as f:
        assert f.read() == 'before'
