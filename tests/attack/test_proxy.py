"""The egress proxy: the ways round its policy, and what happens when it dies."""
import contextlib
import os
import re
import signal
import socket
import threading

import pytest

from conftest import eventually, says_up

CLIENT = r'''
import base64, os, re, socket, sys
m = re.match(r"http://([^@]*)@([^:/]+):(\d+)", os.environ["http_proxy"])
auth = base64.b64encode(m.group(1).encode()).decode() if m else ""
def ask(data):
    with socket.create_connection((m.group(2), int(m.group(3))), 10) as s:
        s.sendall(data)
        s.settimeout(10)
        got = b""
        while b"\r\n" not in got:
            more = s.recv(4096)
            if not more:
                break
            got += more
    return got
def word(got):
    parts = got.split(b" ", 2)
    return parts[1].decode() if got.startswith(b"HTTP/") and len(parts) > 1 else "closed" if not got else "odd"
for line in sys.stdin.read().splitlines():
    print(word(ask(line.encode().decode("unicode_escape").encode("latin-1").replace(b"AUTH", auth.encode()))))
'''
INSPECTING = '''tool t:
  command: `true`

workflow w:
  entry: t
  sandbox:
    mode: inline
    host_state: none
    network:
      mode: allowlist
      tls_inspect: all
  t -> done
'''
AUTH = r'Proxy-Authorization: Basic AUTH\r\n'


@contextlib.contextmanager
def web_server():
    """A server on the host's loopback that counts who came."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        s.listen(64)
        s.settimeout(0.1)
        seen, stop = [], threading.Event()

        def serve():
            while not stop.is_set():
                with contextlib.suppress(socket.timeout, OSError):
                    c, peer = s.accept()
                    seen.append(peer)
                    with c:
                        c.settimeout(2)
                        c.recv(4096)
                        c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n')
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield s.getsockname()[1], seen
        finally:
            stop.set()
            thread.join()


def ask(place, requests, flags):
    """Sends each request from inside to the proxy; returns the statuses."""
    script = os.path.join(place.workspace, 'client.py')
    place.file(script, CLIENT)
    text = os.path.join(place.workspace, 'requests')
    place.file(text, ''.join(r + '\n' for r in requests))
    p = place.inside('/bin/sh', '-c', f'exec /usr/bin/python3 {script} < {text}', flags=flags, timeout=120)
    assert p.returncode == 0, p.stderr
    return p.stdout.split()


def forward(url, host, more=AUTH):
    return f'GET {url} HTTP/1.1\\r\\nHost: {host}\\r\\n{more}\\r\\n'


def connect(target, more=AUTH):
    return f'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n{more}\\r\\n'


def test_an_allowed_host_is_reached(place):
    """The proxy works at all: the refusals below mean something."""
    with web_server() as (port, seen):
        got = ask(place, [forward(f'http://127.0.0.1:{port}/', f'127.0.0.1:{port}'), connect(f'127.0.0.1:{port}')],
                  ('--rule', '127.0.0.1'))
        assert got == ['200', '200'] and seen


def test_ways_round_the_policy(place, kind):
    """Each names the host's loopback in some way, while the policy allows one other name."""
    with web_server() as (port, seen):
        here = f'127.0.0.1:{port}'
        names = ['127.0.0.1', '127.1', '0x7f.1', '0x7f000001', '2130706433', '0177.0.0.1', '127.0.0.1.', 'localhost',
                 'LOCALHOST.', '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '0.0.0.0', '[::]', '127.0.0.2',
                 '127.000.000.001', '1.0.0.127.in-addr.arpa', 'localhost.localdomain', 'ip6-localhost', '①②⑦.0.0.1']
        requests = []
        for name in names:
            name = name.encode().decode('latin-1').encode('unicode_escape').decode()
            requests += [connect(f'{name}:{port}'), forward(f'http://{name}:{port}/', f'{name}:{port}')]
        requests += [
            forward(f'http://allowed.example@{here}/', here),
            forward(f'http://allowed.example:80@{here}/', 'allowed.example'),
            forward(f'http://{here}/', 'allowed.example'),
            forward(f'http://{here}#allowed.example/', 'allowed.example'),
            forward(f'http://{here}?allowed.example', 'allowed.example'),
            forward(f'//{here}/', here),
            forward('/', here),
            forward(f'https://{here}/', here),
            forward(f'file://{here}/etc/passwd', here),
            connect(f'{here}\\x00.allowed.example:443'),
            connect(f'allowed.example@{here}'),
            connect(f'{here} allowed.example:443'),
            forward(f'http://{here}/', here, 'Host: allowed.example\\r\\n' + AUTH),
            forward(f'http://{here}/', here, 'Transfer-Encoding: chunked\\r\\nContent-Length: 4\\r\\n' + AUTH),
        ]
        got = ask(place, requests, ('--rule', 'allowed.example', *kind))
        bad = [f'{r} -> {s}' for r, s in zip(requests, got) if s not in ('400', '403', '501', '502', 'closed')]
        assert not bad and len(got) == len(requests), '\n'.join(bad)
        assert not seen, 'the server was reached'


@pytest.mark.parametrize('header', ['', r'Proxy-Authorization: Bearer wrong\r\n', r'Proxy-Authorization: Basic eDp5\r\n',
                                    r'Proxy-Authorization: Basic \r\n', r'Authorization: Basic AUTH\r\n'])
def test_without_the_runs_token(place, header):
    with web_server() as (port, seen):
        here = f'127.0.0.1:{port}'
        assert ask(place, [connect(here), connect(here, header), forward(f'http://{here}/', here, header)],
                   ('--rule', '127.0.0.1')) == ['200', '407', '407']
        assert len(seen) == 1, 'only the request with the token reaches the server'


def children_of(pid):
    found = []
    for other in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            with open(f'/proc/{other}/status', encoding='utf-8') as f:
                status = dict(re.findall(r'^(\w+):\s*(.*)$', f.read(), re.M))
            if status.get('PPid') == str(pid):
                found.append((int(other), status))
    return found


def proxy_of(iterion):
    """Its child that is in no process namespace of its own."""
    found = [(pid, status) for pid, status in children_of(iterion) if len(status['NSpid'].split()) == 1]
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(params=['plain', 'inspecting'])
def kind(request, place):
    """The flags of each kind of proxy: a fork of iterion, and the program that opens TLS."""
    if request.param == 'plain':
        return ()
    file = os.path.join(place.workspace, 'inspecting.bot')
    place.file(file, INSPECTING)
    return (file,)


@contextlib.contextmanager
def running(place, command, flags=()):
    p = place.start_inside('/bin/sh', '-c', 'echo up; ' + command, flags=flags)
    try:
        says_up(p)
        yield p
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
        p.stderr.close()


def open_of(pid):
    return {int(n): os.readlink(f'/proc/{pid}/fd/{n}') for n in os.listdir(f'/proc/{pid}/fd')}


def has_nothing_open(pid, program):
    assert os.path.basename(os.readlink(f'/proc/{pid}/exe')) == program
    # No file and no folder is open: sockets, and what the event loop is made of.
    assert [t for t in open_of(pid).values() if t.startswith('/') and t != '/dev/null'] == []
    with open(f'/proc/{pid}/environ', 'rb') as f:
        assert f.read().strip(b'\0') == b''


def test_the_proxy_is_confined(place, kind):
    with running(place, f'exec {place.probe} wait', kind) as p:
        with open(f'/proc/{p.pid}/status', encoding='utf-8') as f:
            assert 'Seccomp:\t0\n' in f.read()
        pid, status = proxy_of(p.pid)
        if os.geteuid() == 0:
            has_nothing_open(pid, 'iterion-proxy' if kind else 'iterion')
        else:
            # It is not dumpable, so its own user may not even look.
            for look, name in ((os.readlink, 'exe'), (os.listdir, 'fd'), (open, 'environ')):
                with pytest.raises(PermissionError):
                    look(f'/proc/{pid}/{name}')
        with open(f'/proc/{pid}/limits', encoding='utf-8') as f:
            assert re.search(r'Max core file size +0 +0 ', f.read())
        assert status['Seccomp'] == '2' and status['NoNewPrivs'] == '1'
        for name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb'):
            assert status[name] == '0000000000000000', (name, status[name])


@pytest.mark.parametrize('sig', [signal.SIGKILL, signal.SIGSEGV])
def test_a_dead_proxy_ends_the_run(place, kind, sig):
    with running(place, f'exec {place.probe} wait', kind) as p:
        os.kill(proxy_of(p.pid)[0], sig)
        _, err = p.communicate(timeout=10)
        assert p.returncode not in (0, None)
        assert 'proxy' in err, err


def state_of(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
        return f.read().rpartition(')')[2].split()[0]


def test_a_dead_proxy_closes_all_egress(place):
    """iterion is held still, so that the sandbox outlives its proxy: what a node then reaches is nothing."""
    log = os.path.join(place.workspace, 'egress')
    place.file(log, '')
    loop = (f'port=${{http_proxy##*:}}; port=${{port%/}}; while :; do {place.probe} connect-tcp 127.0.0.1 $port >> {log}; '
            f'{place.probe} connect-tcp ::1 $port >> {log}; {place.probe} connect-tcp 192.0.2.1 443 >> {log}; '
            'sleep 0.05; done')

    def lines():
        with open(log, encoding='utf-8') as f:
            return f.read().split('\n')[:-1]
    with running(place, loop) as p:
        eventually(lambda: 'ok' not in lines() and ['no connection yet'], 5, 'the proxy was never reached')
        pid, _ = proxy_of(p.pid)
        os.kill(p.pid, signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: state_of(pid) != 'Z' and ['it lives'], 5, 'the proxy')
            before = len(lines())
            eventually(lambda: len(lines()) < before + 9 and ['too few attempts'], 10, 'the node made')
            assert not [line for line in lines()[before + 3:] if line.startswith('ok')]
        finally:
            os.kill(p.pid, signal.SIGCONT)
        assert p.wait(10) != 0
    os.unlink(log)
