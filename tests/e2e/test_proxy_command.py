"""`proxy` as a program of its own: where it listens, who may use it, how it ends."""
import base64
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import threading

import pytest


@contextlib.contextmanager
def proxy(me, *args, code=0, sig=signal.SIGTERM):
    """Started and serving; the line it announced itself with. Ended by sig with this code."""
    p = me.start('proxy', *args)
    try:
        line = p.stdout.readline()
        assert line, p.stderr.read().decode()
        yield json.loads(line)
    finally:
        if p.poll() is None:
            p.send_signal(sig)
        _, err = p.communicate(timeout=20)
    assert p.returncode == code, err.decode()


@contextlib.contextmanager
def upstream():
    """A server on loopback that answers each connection with one word."""
    with socket.create_server(('127.0.0.1', 0)) as s:
        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                with c:
                    c.sendall(b'hello from upstream')
        threading.Thread(target=serve, daemon=True).start()
        yield s.getsockname()[1]
        s.shutdown(socket.SHUT_RDWR)


def connect(where, target, token=None, basic=False):
    """The whole answer to a CONNECT."""
    with socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET) as s:
        s.settimeout(20)
        s.connect(where)
        auth = ''
        if token and basic:
            auth = f'Proxy-Authorization: Basic {base64.b64encode(b"x:" + token.encode()).decode()}\r\n'
        elif token:
            auth = f'Proxy-Authorization: Bearer {token}\r\n'
        s.sendall(f'CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{auth}\r\n'.encode())
        s.shutdown(socket.SHUT_WR)
        answer = b''
        while True:
            piece = s.recv(65536)
            if not piece:
                return answer.decode(errors='replace')
            answer += piece


def test_serves_what_the_rules_allow(me):
    events = os.path.join(me.workspace, 'events')
    with upstream() as port, proxy(me, '--listen', '127.0.0.1:0', '--no-auth', '--rule', 'good.test', '--resolve',
                                   'good.test:127.0.0.1', '--events', events) as at:
        assert at['listen'] == f'127.0.0.1:{at["port"]}' and 'token' not in at
        here = ('127.0.0.1', at['port'])
        assert 'hello from upstream' in connect(here, f'good.test:{port}')
        refused = connect(here, 'evil.test:443')
        assert refused.startswith('HTTP/1.1 403') and 'evil.test' in refused
    with open(events, encoding='utf-8') as f:
        lines = [json.loads(line) for line in f]
    assert [e['seq'] for e in lines] == list(range(len(lines)))
    assert [e['data']['host'] for e in lines if e['type'] == 'network_blocked'] == ['evil.test']
    hosts = {h['host']: h for h in lines[-1]['data']['hosts']}
    assert hosts['good.test']['allowed'] == 1 and hosts['evil.test']['blocked'] == 1
    assert stat.S_IMODE(os.stat(events).st_mode) == 0o600


def test_token_is_made_when_none_is_given(me):
    with proxy(me, '--listen', '127.0.0.1:0', '--rule', 'good.test') as at:
        here = ('127.0.0.1', at['port'])
        assert len(at['token']) == 64
        assert connect(here, 'evil.test:443').startswith('HTTP/1.1 407')
        assert connect(here, 'evil.test:443', 'x' * 64).startswith('HTTP/1.1 407')
        assert connect(here, 'evil.test:443', at['token']).startswith('HTTP/1.1 403')
        assert connect(here, 'evil.test:443', at['token'], basic=True).startswith('HTTP/1.1 403')


def test_token_from_a_file(me):
    path = me.file('token', 'a-token-of-enough-letters\n', 0o600)
    with proxy(me, '--listen', 'localhost:0', '--token-file', path) as at:
        assert 'token' not in at
        assert connect(('127.0.0.1', at['port']), 'evil.test:443', 'a-token-of-enough-letters').startswith('HTTP/1.1 403')
    me.fails('proxy', '--listen', '127.0.0.1:0', '--token-file', me.file('short', 'abc\n'), says='guessed')
    me.fails('proxy', '--listen', '127.0.0.1:0', '--token-file', me.file('none', '\n'), says='empty')
    me.fails('proxy', '--listen', '127.0.0.1:0', '--token-file', '/nonexistent', says='/nonexistent')


def test_unix_socket(me):
    path = os.path.join(me.base, 'p.sock')
    for _ in range(2):
        with proxy(me, '--listen', f'unix:{path}', '--no-auth', sig=signal.SIGINT) as at:
            assert at['listen'] == f'unix:{path}'
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert connect(path, 'evil.test:443').startswith('HTTP/1.1 403')
            me.fails('proxy', '--listen', f'unix:{path}', '--no-auth', code=1, says='in use')
        assert not os.path.exists(path), 'its own socket is removed at the end'


def test_stale_socket_is_replaced_and_other_files_are_not(me):
    path = os.path.join(me.base, 'p.sock')
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
    me.own(path)
    with proxy(me, '--listen', f'unix:{path}', '--no-auth'):
        pass
    other = me.file('precious', 'keep me')
    me.fails('proxy', '--listen', f'unix:{other}', '--no-auth', code=1, says='in use')
    with open(other, encoding='utf-8') as f:
        assert f.read() == 'keep me'


@pytest.mark.parametrize('args, says, code', [
    ((), '--listen', 2),
    (('--listen', 'somewhere'), '127.0.0.1:3128', 2),
    (('--listen', 'example.org:80'), '127.0.0.1:3128', 2),
    (('--listen', '127.0.0.1:99999'), '127.0.0.1:3128', 2),
    (('--listen', 'unix:'), 'path', 2),
    (('--listen', 'unix:/' + 'x' * 200), 'shorter', 2),
    (('--listen', 'unix:/nonexistent/p.sock'), '/nonexistent', 1),
    (('--listen', '203.0.113.9:0', '--no-auth'), '203.0.113.9', 1),
    (('--listen', '127.0.0.1:0', '--no-auth', '--token-file', 'x'), 'exclude', 2),
    (('--listen', '127.0.0.1:0', '--rule', 'a.*.b'), 'a.*.b', 2),
    (('--listen', '127.0.0.1:0', '--resolve', 'nonsense'), 'nonsense', 2),
    (('--listen', '127.0.0.1:0', '--events', '/nonexistent/e'), '/nonexistent', 2),
])
def test_what_cannot_be(me, args, says, code):
    assert me.fails('proxy', *args, says=says, code=code).stdout == ''


def test_address_in_use(me):
    with socket.create_server(('127.0.0.1', 0)) as s:
        me.fails('proxy', '--listen', f'127.0.0.1:{s.getsockname()[1]}', '--no-auth', code=1, says='port 0')


def test_open_to_others_is_told(me):
    p = me.start('proxy', '--listen', '0.0.0.0:0', '--no-auth')
    assert json.loads(p.stdout.readline())['listen'].startswith('0.0.0.0:')
    p.terminate()
    _, err = p.communicate(timeout=20)
    assert p.returncode == 0 and b'no authentication' in err


def test_token_is_in_no_argv_or_event(me):
    events = os.path.join(me.workspace, 'events')
    with proxy(me, '--listen', '127.0.0.1:0', '--events', events) as at:
        connect(('127.0.0.1', at['port']), 'evil.test:443', at['token'])
        ps = subprocess.run(['ps', 'axww'], stdout=subprocess.PIPE, check=True).stdout.decode(errors='replace')
        assert at['token'] not in ps
    with open(events, encoding='utf-8') as f:
        assert at['token'] not in f.read()
