"""TLS inspection and secrets: what a host gets, what a sandbox sees, what nobody may see."""
import json
import os

import pytest
from conftest import make_user, of_type
from tls_upstream import Upstream, authority, node_upstream

VALUE = 'ghp_' + 'Zq7Lm2Xw9Rt4Kc8Vb3Ns6Hd1Jf5Gp0Ya7Ue2'
NATIVE = ('--sandbox-driver', 'native')


@pytest.fixture(scope='module')
def ca():
    with authority() as a:
        yield a


class Runner:
    def __init__(self, user, ca):
        self.user, self.ca = user, ca
        self.env = {'SSL_CERT_FILE': ca.file, 'REAL_TOKEN': VALUE}

    def workflow(self, *commands, hosts=('api.test',), rules=('api.test', 'other.test'), inspect='secrets', more=()):
        nodes = ''.join(f'tool t{i}:\n  command: `{c}`\n\n' for i, c in enumerate(commands))
        names = [f't{i}' for i in range(len(commands))] + ['done']
        block = ['sandbox:', '  mode: inline', '  host_state: none', *(f'  {m}' for m in more), '  network:',
                 '    mode: allowlist', f'    rules: {json.dumps(list(rules))}', f'    tls_inspect: {inspect}']
        if hosts:
            block += ['  secrets:', '    TOKEN:', '      from: "env:REAL_TOKEN"', f'      hosts: {json.dumps(list(hosts))}']
        self.user.file('main.bot', nodes + 'workflow w:\n  entry: t0\n' + ''.join(f'  {line}\n' for line in block) +
                       ''.join(f'  {a} -> {b}\n' for a, b in zip(names, names[1:])))

    def run(self, *commands, code=0, env=None, flags=(), **more):
        self.workflow(*commands, **more)
        p = self.user.ok('run', 'main.bot', *NATIVE, '--resolve', 'api.test:127.0.0.1', '--resolve',
                         'other.test:127.0.0.1', *flags, code=code, env={**self.env, **(env or {})})
        return p, [e['data']['output']['output'] for e in self.user.events() if e['type'] == 'node_finished']


@pytest.fixture
def run(me, ca):
    return Runner(me, ca)


def test_value_reaches_its_host_and_nobody_inside_has_it(user, ca):
    mine = Runner(user, ca)
    with Upstream(ca, 'api.test') as u:
        _, out = mine.run(f'echo $TOKEN; curl -sS --max-time 20 -H "Authorization: token $TOKEN" '
                          f'"https://api.test:{u.port}/headers?key=$TOKEN"')
    placeholder = out[0].split()[0]
    assert len(placeholder) == len(VALUE) and placeholder.startswith('ghp_') and placeholder != VALUE
    got = u.seen[0]
    assert got['headers']['Authorization'] == f'token {VALUE}'
    assert got['target'] == f'/headers?key={VALUE}'
    assert got['headers']['Host'] == f'api.test:{u.port}'
    assert VALUE not in out[0]
    echoed = json.loads(out[0].split('\n', 1)[1])
    assert echoed['headers']['Authorization'] == f'token {placeholder}'
    started = of_type(user.events(), 'sandbox_started')[0]
    assert started['secrets'] == ['TOKEN'] and started['network']['tls_inspect'] == 'secrets'


def test_basic_credentials(run, ca):
    """git and curl -u put the token into base64."""
    with Upstream(ca, 'api.test') as u:
        _, out = run.run(f'curl -sS -u "me:$TOKEN" https://api.test:{u.port}/headers >/dev/null; echo $TOKEN; '
                         f'git -c credential.helper= ls-remote "https://x-access-token:$TOKEN@api.test:{u.port}/r.git" 2>&1; true')
    import base64
    sent = [r['headers'].get('Authorization') for r in u.seen]
    assert base64.b64encode(f'me:{VALUE}'.encode()).decode() == sent[0].split()[1]
    assert VALUE not in out[0]


@pytest.mark.parametrize('path', ['/split', '/set', '/events'])
def test_an_echoed_value_becomes_the_placeholder(run, ca, path):
    with Upstream(ca, 'api.test') as u:
        u.go.set()
        _, out = run.run(f'echo $TOKEN; curl -sSi --suppress-connect-headers --max-time 20 -H "Authorization: token $TOKEN" https://api.test:{u.port}{path}')
    placeholder, text = out[0].split('\n', 1)
    assert u.seen[0]['headers']['Authorization'] == f'token {VALUE}'
    assert VALUE not in text and placeholder in text


def test_events_of_a_stream_are_not_held_back(run, ca):
    """The second event is only sent once the first one was seen."""
    with Upstream(ca, 'api.test') as u:
        seen = os.path.join(run.user.workspace, 'first')
        command = (f'curl -sSN --max-time 30 -H "Authorization: token $TOKEN" https://api.test:{u.port}/events | '
                   'while read -r line; do echo "$line"; case $line in *one*) : >first;; esac; done')

        def release():
            while not os.path.exists(seen):
                if u.go.wait(0.05):
                    return
            u.go.set()
        import threading
        t = threading.Thread(target=release)
        t.start()
        _, out = run.run(command)
        t.join()
    assert 'data: three' in out[0] and VALUE not in out[0]


def test_a_body_that_is_sent_is_not_changed(run, ca):
    with Upstream(ca, 'api.test') as u:
        _, out = run.run(f'echo $TOKEN; curl -sS --max-time 20 -d "token=$TOKEN" https://api.test:{u.port}/headers')
    assert u.seen[0]['body'] == 'token=' + out[0].split()[0]


def test_placeholder_to_another_host(run, ca):
    """It arrives as it is, and is recorded. Only hosts that are inspected are looked at."""
    with Upstream(ca, 'other.test') as u:
        _, out = run.run(f'echo $TOKEN; curl -sS --max-time 20 -H "Authorization: token $TOKEN" https://other.test:{u.port}/headers',
                         inspect='all')
    placeholder = out[0].split()[0]
    assert u.seen[0]['headers']['Authorization'] == f'token {placeholder}'
    blocked = of_type(run.user.events(), 'secret_blocked')
    assert [(b['name'], b['host'], b['port']) for b in blocked] == [('TOKEN', 'other.test', u.port)]


def test_a_host_without_secrets_is_not_touched(run, ca):
    """Its own certificate reaches the client."""
    with Upstream(ca, 'other.test') as u:
        _, out = run.run(f'curl -sSv --max-time 20 https://other.test:{u.port}/headers 2>&1 | grep issuer')
    assert 'CN=test authority' in out[0]


def test_an_inspected_host_has_a_certificate_of_the_run(run, ca):
    with Upstream(ca, 'api.test') as u:
        _, out = run.run(f'curl -sSv --max-time 20 https://api.test:{u.port}/headers 2>&1 | grep issuer')
    assert 'iterion TLS inspection' in out[0]


NOT_ACCEPTED = {
    'another name': lambda ca, stranger: ca.leaf('wrong.test'),
    'a name below': lambda ca, stranger: ca.leaf('x.api.test', '*.api.test'),
    'unknown authority': lambda ca, stranger: stranger.leaf('api.test'),
    'named by its subject only': lambda ca, stranger: ca.leaf('api.test', ext='basicConstraints=CA:FALSE\n'),
    'not for servers': lambda ca, stranger: ca.leaf('api.test', ext='subjectAltName=DNS:api.test\n'
                                                    'extendedKeyUsage=clientAuth\n'),
    'expired': lambda ca, stranger: ca.leaf('api.test', ended=True),
}


@pytest.mark.parametrize('what', NOT_ACCEPTED)
def test_a_certificate_that_is_not_accepted(run, ca, what):
    with authority() as stranger:
        with Upstream(ca, pem=NOT_ACCEPTED[what](ca, stranger)) as u:
            _, out = run.run(f'curl -sSi --suppress-connect-headers --max-time 20 -H "Authorization: token $TOKEN" https://api.test:{u.port}/headers')
    assert '502' in out[0].split('\n')[0] and 'X-Iterion-Reason: tls failure' in out[0]
    assert 'certificate' in out[0] and not u.seen


def test_another_host_named_in_the_request(run, ca):
    """A server that many share must not be given the value for somebody else."""
    with Upstream(ca, 'api.test') as u:
        _, out = run.run(f'curl -sSi --suppress-connect-headers --max-time 20 -H "Host: evil.test" -H "Authorization: token $TOKEN" https://api.test:{u.port}/headers')
    assert '421' in out[0].split('\n')[0] and not u.seen


def test_http2(run, ca):
    with node_upstream(ca, 'api.test') as port:
        curl = 'curl -sSi --suppress-connect-headers --http2 --max-time 30 -H "Authorization: token $TOKEN"'
        _, out = run.run(f'echo $TOKEN; {curl} "https://api.test:{port}/headers?k=$TOKEN"',
                         f'{curl} https://api.test:{port}/split', f'{curl} https://api.test:{port}/trailers',
                         f'curl -sS --http2 --max-time 30 https://api.test:{port}/big | wc -c',
                         f'head -c 3000000 /dev/zero | curl -sS --http2 --max-time 30 --data-binary @- https://api.test:{port}/up',
                         f'curl -sSi --suppress-connect-headers --http2 -Z --max-time 30 ' + ' '.join(f'https://api.test:{port}/headers?{i}' for i in range(40)) +
                         ' | grep -c HTTP/2',
                         f'curl -sSi --suppress-connect-headers --http2 --max-time 30 -H "Host: evil.test" https://api.test:{port}/headers',
                         f'curl -sSi --suppress-connect-headers --http1.1 --max-time 30 https://api.test:{port}/headers | head -1')
    placeholder, text = out[0].split('\n', 1)
    assert text.startswith('HTTP/2 200')
    body = json.loads(text.split('\r\n\r\n', 1)[1])
    assert body['version'] == '2.0' and VALUE not in text
    assert body['headers']['authorization'] == f'token {placeholder}' and body['target'] == f'/headers?k={placeholder}'
    assert body['headers']['accept-encoding'] == 'identity'
    assert f'x-echo: {placeholder}' in text
    assert f'[{placeholder}]' in out[1]
    assert 'grpc-status: 0' in out[2] and VALUE not in out[2]
    assert out[3].strip() == '5000000'
    assert json.loads(out[4])['length'] == 3000000
    assert out[5].strip() == '40'
    assert out[6].startswith('HTTP/2 421')
    assert out[7].startswith('HTTP/1.1 200')


@pytest.mark.parametrize('source', ['env', 'file', 'cmd'])
def test_where_a_value_comes_from(run, ca, source):
    path = os.path.join(run.user.home, 'token')
    run.user.file(path, VALUE + '\n', mode=0o600)
    count = os.path.join(run.user.home, 'count')
    froms = {'env': 'env:REAL_TOKEN', 'file': f'file:{path}', 'cmd': f'cmd:echo x >>{count}; cat {path}'}
    with Upstream(ca, 'api.test') as u:
        run.workflow(f'curl -sS --max-time 20 -H "Authorization: $TOKEN" https://api.test:{u.port}/headers')
        main = os.path.join(run.user.workspace, 'main.bot')
        with open(main, encoding='utf-8') as f:
            text = f.read().replace('env:REAL_TOKEN', froms[source])
        run.user.file('main.bot', text)
        run.user.ok('run', 'main.bot', *NATIVE, '--resolve', 'api.test:127.0.0.1', env=run.env)
    assert u.seen[0]['headers']['Authorization'] == VALUE
    if source == 'cmd':
        with open(count, encoding='utf-8') as f:
            assert f.read() == 'x\n'


@pytest.mark.parametrize('source, words', [
    ('env:NOT_SET', ('sandbox secrets.TOKEN', 'NOT_SET is not set')),
    ('file:/nowhere/token', ('sandbox secrets.TOKEN', '/nowhere/token')),
    ('cmd:exit 3', ('its command ended with code 3',)),
    ('cmd:echo short', ('its value has 5 characters',)),
    ('cmd:head -c 9000 /dev/zero', ('its command printed more',)),
    ('cmd:printf two-lines\\\\nof-text-here', ('no header can hold',)),
    ('cmd:echo ------------', ('no placeholder can be made',)),
    ('env:EMPTY', ('its value has 0 characters',)),
])
def test_a_source_that_gives_nothing(run, source, words):
    run.workflow('true')
    main = os.path.join(run.user.workspace, 'main.bot')
    with open(main, encoding='utf-8') as f:
        text = f.read().replace('env:REAL_TOKEN', source)
    run.user.file('main.bot', text)
    run.user.fails('run', 'main.bot', *NATIVE, code=1, env={**run.env, 'EMPTY': ''}, says=words)


@pytest.mark.parametrize('hosts', [['*.example.com'], ['**'], ['192.0.2.1'], ['a.test:443'], []])
def test_hosts_are_concrete(run, hosts):
    run.workflow('true', hosts=hosts or ['x'])
    if not hosts:
        main = os.path.join(run.user.workspace, 'main.bot')
        with open(main, encoding='utf-8') as f:
            text = f.read().replace('        hosts: ["x"]\n', '')
        run.user.file('main.bot', text)
    for words in (('validate', 'main.bot'), ('sandbox', 'plan', 'main.bot', *NATIVE), ('run', 'main.bot', *NATIVE)):
        p = run.user.run(*words, env=run.env)
        assert p.returncode != 0 and 'TOKEN' in p.stdout + p.stderr, p


def test_no_store_to_trust(run):
    run.workflow('true')
    run.user.fails('run', 'main.bot', *NATIVE, env={**run.env, 'SSL_CERT_FILE': '/nowhere.pem'}, code=1, says='/nowhere.pem')


def test_plan_names_them_and_runs_nothing(run):
    run.workflow('true')
    marker = os.path.join(run.user.home, 'ran')
    main = os.path.join(run.user.workspace, 'main.bot')
    with open(main, encoding='utf-8') as f:
        text = f.read().replace('env:REAL_TOKEN', f'cmd:touch {marker}; echo {VALUE}')
    run.user.file('main.bot', text)
    p = run.user.ok('sandbox', 'plan', 'main.bot', '--json', *NATIVE, env=run.env)
    assert not os.path.exists(marker)
    plan = json.loads(p.stdout)
    text = json.dumps(plan)
    assert '/run/iterion/ca/bundle.pem' in text and 'NODE_EXTRA_CA_CERTS' in text and '"TOKEN"' in text


SCAN = r'''
import glob, os, sys
want = bytes.fromhex(sys.argv[1])
found = []
for pid in [d for d in os.listdir("/proc") if d.isdigit()]:
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as f:
                if want in f.read(): found.append(f"/proc/{pid}/{name}")
        except OSError: pass
    if pid == str(os.getpid()): continue
    try:
        with open(f"/proc/{pid}/maps") as f: maps = f.read().splitlines()
        with open(f"/proc/{pid}/mem", "rb", 0) as m:
            for line in maps:
                a, b = (int(x, 16) for x in line.split()[0].split("-"))
                if not line.split()[1].startswith("r") or b - a > 1 << 28: continue
                try:
                    m.seek(a)
                    if want in m.read(b - a): found.append(f"mem of {pid}: {line}")
                except (OSError, ValueError, OverflowError): pass
    except OSError: pass
for top in sys.argv[2:]:
    for folder, _, names in os.walk(top):
        for n in names:
            p = os.path.join(folder, n)
            try:
                if os.path.isfile(p):
                    with open(p, "rb") as f:
                        if want in f.read(): found.append(p)
            except OSError: pass
print("FOUND", found)
'''


def test_the_value_is_nowhere_inside_nor_in_the_store(user, ca):
    """Environments, arguments, memory and files inside; the run's store outside. The placeholder is found by the same
    search, so the search works."""
    mine = Runner(user, ca)
    mine.user.file('scan.py', SCAN)
    python = '/usr/bin/python3 scan.py'
    with Upstream(ca, 'api.test') as u:
        _, out = mine.run(f'curl -sS -H "Authorization: $TOKEN" https://api.test:{u.port}/headers >answer; sleep 1000 & k=$!; '
                          f'{python} {VALUE.encode().hex()} $PWD $HOME /tmp /run /etc /var/tmp /dev/shm; {python} $(printf %s "$TOKEN" | od -An -tx1 | tr -d " \\\\n") $PWD; kill $k')
    lines = [line for line in out[0].split('\n') if line.startswith('FOUND')]
    assert lines[0] == 'FOUND []'
    assert 'environ' in lines[1] and 'answer' in lines[1]
    assert u.seen[0]['headers']['Authorization'] == VALUE
    for folder, _, names in os.walk(mine.user.store):
        for name in names:
            with open(os.path.join(folder, name), 'rb') as f:
                assert VALUE.encode() not in f.read(), name


def test_the_proxy_is_closed_and_dies_with_the_run(run, ca):
    """Its arguments and environment hold nothing, nobody may read its memory, and it goes with the run's end by kill."""
    import signal
    import subprocess
    import time
    run.workflow('echo up >up; sleep 1000')
    p = run.user.start('run', 'main.bot', *NATIVE, env=run.env)
    try:
        end = time.monotonic() + 30
        while not os.path.exists(os.path.join(run.user.workspace, 'up')) and time.monotonic() < end:
            assert p.poll() is None, p.communicate()
            time.sleep(0.02)
        children = subprocess.run(['pgrep', '-P', str(p.pid), '-x', 'iterion-proxy'], check=False,
                                  stdout=subprocess.PIPE).stdout.split()
        assert len(children) == 1
        pid = int(children[0])
        with open(f'/proc/{pid}/cmdline', 'rb') as f:
            assert f.read() == b'iterion-proxy\0'
        if os.geteuid() == 0:
            with open(f'/proc/{pid}/environ', 'rb') as f:
                assert VALUE.encode() not in f.read()
            with open(f'/proc/{pid}/status', encoding='ascii') as f:
                status = f.read()
            assert 'NoNewPrivs:\t1' in status and 'Seccomp:\t2' in status and 'CapEff:\t0000000000000000' in status
        with open(f'/proc/{p.pid}/cmdline', 'rb') as f:
            assert VALUE.encode() not in f.read()
        gone = os.pidfd_open(pid)
        p.send_signal(signal.SIGKILL)
        p.wait()
        import select
        assert select.select([gone], [], [], 20)[0], 'the proxy outlives its run'
        os.close(gone)
    finally:
        p.kill()
        p.wait()


SPEAK = r"""
import base64, os, re, socket, ssl, sys
host, port, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
m = re.match(r"http://([^@]*)@([^:/]+):(\d+)", os.environ["https_proxy"])
s = socket.create_connection((m.group(2), int(m.group(3))), 20)
auth = base64.b64encode(m.group(1).encode()).decode()
s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nProxy-Authorization: Basic {auth}\r\n\r\n".encode())
f = s.makefile("rb", buffering=0)
while f.readline().strip(): pass
t = ssl.create_default_context().wrap_socket(s, server_hostname=host)
f = t.makefile("rb")
def head():
    line, fields = f.readline(), {}
    while (x := f.readline().strip()): k, v = x.split(b":", 1); fields[k.lower()] = v.strip()
    return line.split()[1].decode(), fields
def ask(path, more="", body=b""):
    t.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{more}\r\n".encode() + body)
if mode == "websocket":
    ask("/ws", f"Connection: Upgrade\r\nUpgrade: websocket\r\nX-Token: {os.environ['TOKEN']}\r\n")
    print(head()[0])
    data = bytes(range(256)) * 4000
    import threading
    threading.Thread(target=t.sendall, args=(data,), daemon=True).start()
    print(f.read(len(data)) == data)
elif mode == "keep":
    for path in ("/headers", "/bye", "/headers", "/headers"):
        ask(path)
        status, fields = head()
        f.read(int(fields[b"content-length"]))
        print(status)
elif mode == "raw":
    t.sendall(sys.stdin.buffer.read().decode("unicode_escape").encode("latin-1"))
    print(head()[0])
"""


def speak(run, u, mode, before=''):
    run.user.file('speak.py', SPEAK)
    return run.run(f'{before}/usr/bin/python3 speak.py api.test {u.port} {mode}')[1][0].split()


def test_websocket(run, ca):
    with Upstream(ca, 'api.test') as u:
        assert speak(run, u, 'websocket') == ['101', 'True']
    assert u.seen[0]['headers']['X-Token'] == VALUE


def test_one_connection_and_a_host_that_closes_between(run, ca):
    with Upstream(ca, 'api.test') as u:
        assert speak(run, u, 'keep') == ['200'] * 4
    assert len(u.seen) == 4


@pytest.mark.parametrize('request_text, status', [
    (r'GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n', '400'),
    (r'CONNECT evil.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n', '400'),
    (r'GET / HTTP/1.1\r\n\r\n', '400'),
    (r'GET / HTTP/1.1\r\nHost: api.test:1\r\n\r\n', '421'),
    (r'GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n', '400'),
    (r'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', '400'),
    (r'GET / HTTP/1.1\nHost: api.test\n\n', '400'),
])
def test_requests_that_could_be_read_in_two_ways(run, ca, request_text, status):
    with Upstream(ca, 'api.test') as u:
        assert speak(run, u, 'raw', f"printf %s '{request_text}' | ") == [status]
        assert not u.seen


def test_python_and_node_trust_it(run, ca):
    import shutil
    node = shutil.which('node')
    run.user.file('get.py', 'import sys, urllib.request as r, os\n'
                  'q = r.Request(sys.argv[1], headers={"Authorization": os.environ["TOKEN"]})\n'
                  'print(r.urlopen(q, timeout=20).status)\n')
    run.user.file('get.js', """
const http = require('http'), tls = require('tls'), p = new URL(process.env.https_proxy), [host, port] = process.argv.slice(2);
http.request({host: p.hostname, port: p.port, method: 'CONNECT', path: `${host}:${port}`, headers: {Host: `${host}:${port}`, 'Proxy-Authorization':
  'Basic ' + Buffer.from(`${p.username}:${p.password}`).toString('base64')}}).on('connect', (res, socket) => {
  const t = tls.connect({socket, servername: host}, () => { console.log(t.authorized); t.destroy(); });
}).end();
""")
    commands = ['/usr/bin/python3 get.py https://api.test:%d/headers'] + ([f'{node} get.js api.test %d'] if node else [])
    with Upstream(ca, 'api.test') as u:
        _, out = run.run(*(c % u.port for c in commands))
    assert [o.strip() for o in out] == ['200', 'true'][:len(commands)]
    assert u.seen[0]['headers']['Authorization'] == VALUE


def test_plain_http_gets_the_placeholder_and_is_recorded(run):
    import http.server
    import threading
    seen = []

    class Plain(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers['Authorization'])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Plain) as s:
        threading.Thread(target=s.serve_forever, args=(0.05,)).start()
        _, out = run.run(f'echo $TOKEN; curl -sS -H "Authorization: $TOKEN" http://api.test:{s.server_address[1]}/')
        s.shutdown()
    assert seen == [out[0].strip()]
    assert [b['name'] for b in of_type(run.user.events(), 'secret_blocked')] == ['TOKEN']


def test_a_program_by_itself_has_the_placeholder(run):
    run.workflow('true')
    p = run.user.ok('sandbox', 'exec', *NATIVE, 'main.bot', '--', 'sh', '-c',
                    'echo $TOKEN; grep -c BEGIN $SSL_CERT_FILE; cmp $SSL_CERT_FILE /etc/ssl/certs/ca-certificates.crt; '
                    'echo x 2>/dev/null >>$SSL_CERT_FILE || echo closed', env=run.env)
    token, count, closed = p.stdout.split()
    assert token.startswith('ghp_') and token != VALUE and count == '2' and closed == 'closed'


@pytest.mark.parametrize('env, status, says', [
    ({'REAL_TOKEN': VALUE}, 'pass', '1, and each has its source'),
    ({'REAL_TOKEN': 'short'}, 'fail', '5 characters'),
    ({}, 'fail', 'REAL_TOKEN is not set'),
])
def test_the_doctor_looks_at_sources(run, env, status, says):
    run.workflow('true')
    p = run.user.run('sandbox', 'doctor', '--strict', '--json', 'main.bot', *NATIVE, env=env)
    check = next(c for c in json.loads(p.stdout)['checks'] if c['id'] == 'secrets')
    assert check['status'] == status and says in check['detail']
    assert p.returncode == (0 if status == 'pass' else 1)


def test_keys_of_models_are_bound_only_when_nothing_of_the_user_is_shared(run):
    """And no program but an agent's has them, not even their placeholders."""
    env = {**run.env, 'ANTHROPIC_API_KEY': 'sk-ant-' + VALUE, 'OPENAI_API_KEY': 'sk-' + VALUE}
    _, out = run.run('env', env=env)
    assert 'ANTHROPIC' not in out[0] and 'OPENAI' not in out[0]
    assert of_type(run.user.events(), 'sandbox_started')[0]['secrets'] == ['TOKEN', 'ANTHROPIC_API_KEY', 'OPENAI_API_KEY']
    run.workflow('env')
    run.user.ok('run', 'main.bot', *NATIVE, '--sandbox-host-state', 'auto', env=env)
    assert of_type(run.user.events(), 'sandbox_started')[0]['secrets'] == ['TOKEN']
    run.user.ok('run', 'main.bot', *NATIVE, env={**env, 'ANTHROPIC_BASE_URL': 'http://plain.test'})
    assert of_type(run.user.events(), 'sandbox_started')[0]['secrets'] == ['TOKEN', 'OPENAI_API_KEY']


def test_a_run_without_secrets_starts_no_such_proxy(run):
    """Inspection of secrets' hosts, and there is none: TLS is passed on, nothing is mounted."""
    _, out = run.run('ls /run/iterion; env', hosts=())
    assert 'ca\n' not in out[0] and 'SSL_CERT_FILE' not in out[0]


def in_memory(pid, want):
    """Where the bytes are in a process's memory."""
    found = []
    with open(f'/proc/{pid}/maps', encoding='ascii', errors='replace') as f:
        maps = [line.split() for line in f]
    with open(f'/proc/{pid}/mem', 'rb', 0) as m:
        for line in maps:
            begin, end = (int(x, 16) for x in line[0].split('-'))
            try:
                m.seek(begin)
                if line[1].startswith('r') and want in m.read(end - begin):
                    found.append(line)
            except (OSError, ValueError, OverflowError):
                pass
    return found


def test_only_the_proxy_has_the_value_in_its_memory(ordinary_account, base, programs, ca):
    """Of all processes of the run, when it comes from a file or a command."""
    import time
    mine = Runner(make_user('root', ordinary_account, base, programs), ca)
    path = mine.user.file(os.path.join(mine.user.home, 'token'), VALUE + '\n', mode=0o600)
    mine.workflow('echo up >up; sleep 1000')
    with open(os.path.join(mine.user.workspace, 'main.bot'), encoding='utf-8') as f:
        text = f.read().replace('env:REAL_TOKEN', f'cmd:cat {path}')
    mine.user.file('main.bot', text)
    p = mine.user.start('run', 'main.bot', *NATIVE, env={'SSL_CERT_FILE': ca.file})
    try:
        end = time.monotonic() + 30
        while not os.path.exists(os.path.join(mine.user.workspace, 'up')) and time.monotonic() < end:
            assert p.poll() is None, p.communicate()
            time.sleep(0.02)
        with open(f'/proc/{p.pid}/task/{p.pid}/children', encoding='ascii') as f:
            children = [int(c) for c in f.read().split()]
        names = {}
        for pid in children:
            with open(f'/proc/{pid}/comm', encoding='ascii') as f:
                names[pid] = f.read().strip()
        proxies = [pid for pid in children if names[pid] == 'iterion-proxy']
        assert len(proxies) == 1 and len(children) > 1
        assert len(in_memory(proxies[0], VALUE.encode())) == 1
        for pid in [p.pid] + [c for c in children if c not in proxies]:
            assert in_memory(pid, VALUE.encode()) == [], names.get(pid)
    finally:
        p.kill()
        p.wait()
