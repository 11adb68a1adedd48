"""Whom a value is given to, when names are written in odd ways or say different things."""
import json
import os

import pytest
from conftest import of_type
from test_tls_inspect import NATIVE, VALUE, Runner, ca  # noqa: F401 (a fixture)
from tls_upstream import Upstream

ASK = r'''
import base64, json, os, re, socket, ssl, sys
port = int(sys.argv[1])
m = re.match(r"http://([^@]*)@([^:/]+):(\d+)", os.environ["https_proxy"])
auth = base64.b64encode(m.group(1).encode()).decode()
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def by_connect(s, name):
    s.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nProxy-Authorization: Basic {auth}\r\n\r\n".encode())
    f = s.makefile("rb", buffering=0)
    status = f.readline().split()[1]
    while f.readline().strip(): pass
    return status == b"200"
def by_socks(s, name):
    word = m.group(1).split(":")
    s.sendall(b"\5\1\2"); s.recv(2)
    s.sendall(b"\1" + b"".join(bytes([len(w)]) + w.encode() for w in word)); s.recv(2)
    s.sendall(b"\5\1\0\3" + bytes([len(name)]) + name.encode() + port.to_bytes(2, "big"))
    return s.recv(10)[1:2] == b"\0"
def ask(way, name, sni, host):
    try:
        s = socket.create_connection((m.group(2), int(m.group(3))), 20)
        if not (by_connect if way == "connect" else by_socks)(s, name): return "refused"
        t = context.wrap_socket(s, server_hostname=sni)
        t.sendall(f"GET /headers HTTP/1.1\r\nHost: {host}\r\nX-Token: {os.environ['TOKEN']}\r\nConnection: close\r\n\r\n".encode())
        return t.makefile("rb").readline().split()[1].decode()
    except (OSError, IndexError) as e: return "broken"
for row in json.load(open("rows.json")): print(ask(*row))
'''
ROWS = [
    # how, CONNECT, SNI, Host ({} is the port) -> what comes back, whether the value arrives
    ('connect', 'api.test', 'api.test', 'api.test:{}', '200', True),
    ('connect', 'API.Test.', 'api.test', 'aPi.tesT.:{}', '200', True),
    ('connect', 'api.test', None, 'api.test:{}', '200', True),
    ('socks', 'api.test', 'api.test', 'api.test:{}', '200', True),
    # A name that is allowed itself may be in the hello; the value goes by where the connection goes.
    ('connect', 'api.test', 'other.test', 'api.test:{}', '200', True),
    ('connect', 'other.test', 'api.test', 'api.test:{}', '200', False),
    ('connect', 'other.test', 'other.test', 'api.test:{}', '200', False),
    ('socks', 'other.test', 'api.test', 'api.test:{}', '200', False),
    ('connect', '127.0.0.1', 'api.test', 'api.test:{}', '200', False),
    ('connect', '127.0.0.1', None, 'api.test:{}', '200', False),
    ('connect', '127.1', 'api.test', 'api.test:{}', '200', False),
    ('connect', '[::ffff:127.0.0.1]', 'api.test', 'api.test:{}', '200', False),
    ('connect', 'api.test', 'evil.test', 'api.test:{}', 'broken', False),
    ('connect', 'api.test', 'api.test', 'other.test:{}', '421', False),
    ('connect', 'api.test', 'api.test', 'api.test', '421', False),
    ('connect', 'api.test', 'api.test', 'x@api.test:{}', '421', False),
    ('connect', 'api.test', 'api.test', 'api.test:{}, other.test', '421', False),
    ('connect', 'api.test', 'api.test', '', '421', False),
    ('connect', 'api.test..', 'api.test', 'api.test:{}', 'refused', False),
    ('connect', 'evil.test', 'api.test', 'api.test:{}', 'refused', False),
    ('connect', 'xapi.test', 'api.test', 'api.test:{}', 'refused', False),
]


@pytest.mark.parametrize('inspect', ['secrets', 'all'])
def test_who_gets_the_value(me, ca, inspect):  # noqa: F811
    run = Runner(me, ca)
    run.user.file('ask.py', ASK)
    with Upstream(ca, 'api.test', 'other.test', 'evil.test') as u:
        run.user.file('rows.json', json.dumps([[w, c, s, h.format(u.port)] for w, c, s, h, _, _ in ROWS]))
        run.workflow(f'echo $TOKEN; /usr/bin/python3 ask.py {u.port}', rules=('api.test', 'other.test', '127.0.0.1'),
                     inspect=inspect)
        run.user.ok('run', 'main.bot', *NATIVE, '--resolve', 'api.test:127.0.0.1', '--resolve', 'other.test:127.0.0.1',
                    env=run.env)
        out = [e['data']['output']['output'] for e in run.user.events() if e['type'] == 'node_finished'][0].split()
        arrived = [s['headers']['X-Token'] for s in u.seen]
    placeholder, got = out[0], out[1:]
    # Where every connection is opened, each of them must be named rightly.
    want = [('421' if inspect == 'all' and status == '200' and not value else status, value)
            for _, _, _, _, status, value in ROWS]
    assert got == [w[0] for w in want], list(zip(ROWS, got))
    assert arrived == [VALUE if w[1] else placeholder for w in want if w[0] == '200']


@pytest.mark.parametrize('where', ['containerEnv', 'remoteEnv', 'env', 'file', 'none'])
def test_a_value_that_the_sandbox_has_anyway(me, ca, where):  # noqa: F811
    """A devcontainer.json that comes with the code names the variable that the secret is read from."""
    run = Runner(me, ca)
    run.workflow('env', more=('env:', '  STOLEN: "a${localEnv:REAL_TOKEN}b"') if where == 'env' else ())
    main = os.path.join(run.user.workspace, 'main.bot')
    with open(main, encoding='utf-8') as f:
        text = f.read()
    if where == 'file':
        text = text.replace('env:REAL_TOKEN', 'file:' + run.user.file('token', VALUE))
    if where in ('containerEnv', 'remoteEnv'):
        text = text.replace('mode: inline', 'mode: auto')
        run.user.file('.devcontainer.json', json.dumps({where: {'STOLEN': 'a${localEnv:REAL_TOKEN}b'}}))
    run.user.file('main.bot', text)
    if where == 'none':
        run.user.ok('run', 'main.bot', *NATIVE, env=run.env)
        return
    p = run.user.run('run', 'main.bot', *NATIVE, env=run.env)
    said = p.stdout + p.stderr
    assert p.returncode == 1 and 'secrets.TOKEN' in said and VALUE not in said
    assert ('can be read in the sandbox' if where == 'file' else 'the variable STOLEN of the sandbox holds its value') in said
    assert not of_type(run.user.events(), 'node_started')
