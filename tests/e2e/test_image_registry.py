"""Images of registries: a registry of the tests' own, which can be wrong in every way, and Debian's. All on loopback."""
import base64
import contextlib
import http.server
import json
import os
import ssl
import subprocess
import threading
import urllib.parse

import pytest

import oci
from conftest import AM_ROOT, of_type, settle, skip

TOKEN = 'secret-token-of-the-registry'
PASSWORD = 'hunter2-of-the-registry'


@pytest.fixture(autouse=True)
def shell():
    if not os.path.exists(oci.BUSYBOX):
        skip(f'needs {oci.BUSYBOX} (busybox-static)')


class Registry:
    """Serves manifests and blobs. auth: None, 'basic', 'token' (with a name and password), 'anonymous' (a token for
    everybody), 'refresh' (an identity token). answers: path → a list of (status, headers, body) that come first."""

    def __init__(self, auth=None, tls=None, redirect=False):
        self.auth, self.redirect = auth, redirect
        self.manifests, self.blobs, self.answers, self.seen = {}, {}, {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.seen.append((self.path, self.headers.get('Authorization')))
                outer.get(self)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
                outer.seen.append((self.path, body))
                outer.token(self, dict(urllib.parse.parse_qsl(body)))

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.scheme = 'https' if tls else 'http'
        self.host = f'127.0.0.1:{self.server.server_address[1]}'
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()

    def push(self, name, image, tag='1'):
        self.blobs.update(image.blobs)
        for key in (tag, image.descriptor['digest']):
            self.manifests[(name, key)] = image.blobs[image.descriptor['digest']]
        return f'{self.host}/{name}:{tag}'

    @staticmethod
    def answer(h, status, body=b'', **headers):
        h.send_response(status)
        for key, value in headers.items():
            h.send_header(key.replace('_', '-'), value)
        h.send_header('Content-Length', str(len(body)))
        h.end_headers()
        h.wfile.write(body)

    def token(self, h, query):
        if self.auth == 'refresh' and query.get('refresh_token') != PASSWORD:
            return self.answer(h, 401)
        if self.auth == 'token' and h.headers.get('Authorization') != basic('me', PASSWORD):
            return self.answer(h, 401)
        assert query['service'] == 'the registry' and query['scope'].endswith(':pull')
        return self.answer(h, 200, json.dumps({'token': TOKEN}).encode())

    def allowed(self, h):
        got = h.headers.get('Authorization')
        return not self.auth or got == (basic('me', PASSWORD) if self.auth == 'basic' else f'Bearer {TOKEN}')

    def get(self, h):
        path, _, query = h.path.partition('?')
        if self.answers.get(path):
            status, headers, body = self.answers[path].pop(0)
            return self.answer(h, status, body, **headers)
        if path == '/token':
            return self.token(h, dict(urllib.parse.parse_qsl(query)))
        if path.startswith('/elsewhere/'):
            assert not h.headers.get('Authorization') or not self.redirect
            return self.answer(h, 200, self.blobs[path[len('/elsewhere/'):]])
        if not self.allowed(h):
            challenge = 'Basic realm="x"' if self.auth == 'basic' else \
                f'Bearer realm="{self.scheme}://{self.host}/token",service="the registry",scope="repository:a/b:pull"'
            return self.answer(h, 401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}', WWW_Authenticate=challenge)
        parts = path.split('/')
        name, kind, key = '/'.join(parts[2:-2]), parts[-2], parts[-1]
        if kind == 'manifests' and (name, key) in self.manifests:
            return self.answer(h, 200, self.manifests[(name, key)], Content_Type=oci.MANIFEST)
        if kind == 'blobs' and key in self.blobs:
            if self.redirect:
                return self.answer(h, 307, Location=f'{self.redirect}/elsewhere/{key}')
            return self.answer(h, 200, self.blobs[key])
        return self.answer(h, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest \\u001b[31munknown"}]}')


def basic(user, password):
    return 'Basic ' + base64.b64encode(f'{user}:{password}'.encode()).decode()


def image(text=b'from a registry\n', **more):
    return oci.Image(oci.busybox(oci.entry('x', text)), **more)


def run(user, reference, command='cat /x', code=0, **more):
    user.file('main.bot', f'tool t0:\n  command: `{command}`\n\nworkflow w:\n  entry: t0\n  sandbox:\n    mode: inline\n'
                          f'    image: "{reference}"\n    network:\n      mode: open\n  t0 -> done\n')
    return user.ok('run', 'main.bot', '--sandbox-driver', 'native', code=code, **more)


def output(user):
    return of_type(user.events(), 'node_finished')[-1]['output']['output']


def login(user, host, folder='.docker', **auth):
    path = user.folder('home', folder)
    auth = auth or {'auth': base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}
    user.file(os.path.join(path, 'config.json'), json.dumps({'auths': {host: auth}}), mode=0o600)


def no_secret(user, p):
    """Neither what was said nor what was stored has it."""
    for text in (p.stdout, p.stderr):
        assert PASSWORD not in text and TOKEN not in text
    for base, _, files in os.walk(user.store):
        for name in files:
            with open(os.path.join(base, name), 'rb') as f:
                data = f.read()
            assert PASSWORD.encode() not in data and TOKEN.encode() not in data, name


def test_anybody(user):
    with Registry() as r:
        one = image()
        reference = r.push('a/b', one)
        run(user, reference)
        assert output(user) == 'from a registry\n'
        assert of_type(user.events(), 'sandbox_started')[0]['image_digest'] == one.descriptor['digest']
        asked = len(r.seen)
        run(user, reference)
        assert len(r.seen) == asked, 'it is here already'
        run(user, f'{r.host}/a/b@{one.descriptor["digest"]}')
        assert output(user) == 'from a registry\n'


@pytest.mark.parametrize('auth', ['basic', 'token', 'anonymous', 'refresh'])
def test_ways_to_ask(me, auth):
    with Registry(auth) as r:
        reference = r.push('a/b', image())
        if auth != 'anonymous':
            p = run(me, reference, code=1)
            assert 'docker login' in p.stderr and 'error: ' in p.stderr
            login(me, r.host, **({'identitytoken': PASSWORD} if auth == 'refresh' else {}))
        p = run(me, reference)
        assert output(me) == 'from a registry\n'
        no_secret(me, p)


def test_places_of_credentials(me):
    with Registry('basic') as r:
        reference = r.push('a/b', image())
        login(me, r.host, 'elsewhere')
        other = os.path.join(me.home, 'elsewhere')
        for env in ({'REGISTRY_AUTH_FILE': f'{other}/config.json'}, {'DOCKER_CONFIG': other}):
            me.ok('sandbox', 'images', 'pull', reference, env=env)
        assert me.run('sandbox', 'images', 'pull', reference).returncode == 1
        os.makedirs(os.path.join(other, 'containers'), exist_ok=True)
        os.rename(f'{other}/config.json', f'{other}/containers/auth.json')
        me.ok('sandbox', 'images', 'pull', reference, env={'XDG_RUNTIME_DIR': other})
        me.file(f'{other}/bad.json', '{')
        p = me.fails('sandbox', 'images', 'pull', reference, env={'REGISTRY_AUTH_FILE': f'{other}/bad.json'}, code=2)
        assert 'bad.json' in p.stderr


HELPER = '''#!/bin/sh
[ "$1" = get ] || exit 9
read -r server
echo "$server" >>"{log}"
{then}
'''
HELPERS = {
    'right': ('echo \'{{"Username":"me","Secret":"{secret}"}}\'', 0), 'none': ('echo "credentials not found in native keychain"; exit 1', 1),
    'broken': ('exit 3', 1), 'nonsense': ('echo hello', 2), 'endless': ('yes', 1), 'missing': (None, 1),
}


@pytest.mark.parametrize('kind', HELPERS)
@pytest.mark.parametrize('key', ['credHelpers', 'credsStore'])
def test_credential_helper(me, kind, key):
    then, code = HELPERS[kind]
    bin = me.folder('bin')
    log = os.path.join(me.base, 'helper.log')
    if then:
        me.file(os.path.join(bin, 'docker-credential-test'), HELPER.format(log=log, then=then.format(secret=PASSWORD)), mode=0o755)
    with Registry('basic') as r:
        reference = r.push('a/b', image())
        path = me.folder('home', '.docker')
        me.file(os.path.join(path, 'config.json'), json.dumps({key: {r.host: 'test'} if key == 'credHelpers' else 'test'}))
        p = me.run('sandbox', 'images', 'pull', reference, env={'PATH': f'{bin}:{me.env["PATH"]}'})
        assert p.returncode == code, p.stderr
        if code:
            assert 'hint: ' in p.stderr and (kind == 'none' or 'docker-credential-test' in p.stderr)
        no_secret(me, p)
        if then:
            with open(log, encoding='ascii') as f:
                assert set(f.read().split()) == {r.host}


def test_helper_with_a_strange_name(me):
    with Registry('basic') as r:
        path = me.folder('home', '.docker')
        me.file(os.path.join(path, 'config.json'), json.dumps({'credsStore': '../../tmp/x'}))
        me.fails('sandbox', 'images', 'pull', r.push('a/b', image()), code=2, says='credential helper')


def test_redirect_gets_no_authorization(me):
    with Registry() as other, Registry('token', redirect=f'http://{other.host}') as r:
        reference = r.push('a/b', image())
        other.blobs = r.blobs
        login(me, r.host)
        run(me, reference)
        assert output(me) == 'from a registry\n'
        there = [auth for path, auth in other.seen if path.startswith('/elsewhere/')]
        assert len(there) == 2 and not any(there)


@pytest.mark.parametrize('location', ['http://registry.invalid/x', 'file:///etc/passwd', '//registry.invalid/x', 'http://127.1.invalid/x',
                                      '\x01', 'relative', 'http://127.0.0.1@registry.invalid/'])
def test_redirects_that_are_not_followed(me, location):
    with Registry() as r:
        one = image()
        reference = r.push('a/b', one)
        r.answers[f'/v2/a/b/blobs/{one.descriptors[0]["digest"]}'] = [(307, {'Location': location}, b'')]
        p = me.fails('sandbox', 'images', 'pull', reference, code=1)
        assert 'TLS' in p.stderr or 'URL' in p.stderr or 'user' in p.stderr, p.stderr


def test_redirects_for_ever(me):
    with Registry() as r:
        one = image()
        reference = r.push('a/b', one)
        path = f'/v2/a/b/blobs/{one.descriptors[0]["digest"]}'
        r.answers[path] = [(307, {'Location': path}, b'')] * 50
        me.fails('sandbox', 'images', 'pull', reference, code=1, says='one place after the other')


def test_busy_registry(me):
    """It is asked again when it says when."""
    with Registry() as r:
        reference = r.push('a/b', image())
        r.answers['/v2/a/b/manifests/1'] = [(429, {'Retry-After': '0'}, b''), (503, {'Retry-After': '0'}, b'')]
        me.ok('sandbox', 'images', 'pull', reference)
        r.answers['/v2/a/b/manifests/1'] = [(429, {'Retry-After': '0'}, b'')] * 9
        me.fails('sandbox', 'images', 'pull', reference, code=1, says=['too many requests', 'docker login'])


def test_token_that_runs_out(me):
    with Registry('anonymous') as r:
        one = image()
        reference = r.push('a/b', one)
        r.answers[f'/v2/a/b/blobs/{one.descriptors[0]["digest"]}'] = [
            (401, {'WWW-Authenticate': f'Bearer realm="http://{r.host}/token",service="the registry"'}, b'')]
        me.ok('sandbox', 'images', 'pull', reference)


CHALLENGES = ['', 'Bearer', 'Bearer realm=', 'Bearer realm="http://registry.invalid/token"', 'Bearer realm="file:///etc/passwd"',
              'Digest realm="x"', 'Bearer realm="' + 'x' * 20000 + '"', 'Bearer realm="http://127.0.0.1:1/']


@pytest.mark.parametrize('challenge', CHALLENGES)
def test_challenges_that_are_none(me, challenge):
    with Registry() as r:
        reference = r.push('a/b', image())
        login(me, r.host)
        r.answers['/v2/a/b/manifests/1'] = [(401, {'WWW-Authenticate': challenge}, b'')] * 9
        p = me.fails('sandbox', 'images', 'pull', reference, code=1)
        no_secret(me, p)


def test_not_there(me):
    with Registry() as r:
        p = run(me, f'{r.host}/a/b:2', code=1)
        assert 'does not have it' in p.stderr and '\x1b' not in p.stderr and 'hint: ' in p.stderr
        out = json.loads(me.run('sandbox', 'doctor', '--strict', 'main.bot', '--sandbox-driver', 'native', '--json').stdout)
        assert [c['status'] for c in out['checks'] if c['id'] == 'image_resolvable'] == ['fail']


def test_doctor_finds_it(me):
    with Registry() as r:
        reference = r.push('a/b', image())
        me.file('main.bot', f'tool t0:\n  command: `true`\n\nworkflow w:\n  entry: t0\n  sandbox:\n    image: "{reference}"\n  t0 -> done\n')

        def status():
            out = json.loads(me.run('sandbox', 'doctor', '--strict', 'main.bot', '--sandbox-driver', 'native', '--json').stdout)
            return [(c['status'], c['detail']) for c in out['checks'] if c['id'] == 'image_resolvable'][0]

        assert status()[0] == 'pass' and 'can be fetched' in status()[1]
        assert not os.path.exists(os.path.join(me.store, 'images')), 'nothing is fetched'
        me.ok('sandbox', 'images', 'pull', reference)
    assert status()[0] == 'pass' and 'on this machine' in status()[1]
    me.ok('sandbox', 'images', 'prune', '--all')
    assert status()[0] == 'warn'


def test_wrong_content(me):
    with Registry() as r:
        one = image()
        reference = r.push('a/b', one)
        digest = one.descriptors[0]['digest']
        for body in (b'', one.blobs[digest][:-1], one.blobs[digest] + b'x'):
            r.blobs[digest] = body
            me.fails('sandbox', 'images', 'pull', reference, code=2, says='does not have the digest')
        # Unpacking may find it first.
        r.blobs[digest] = b'x' * len(one.blobs[digest])
        me.fails('sandbox', 'images', 'pull', reference, code=2, says='layer 1 of 1')
        r.manifests[('a/b', one.descriptor['digest'])] = b'{}'
        me.fails('sandbox', 'images', 'pull', f'{r.host}/a/b@{one.descriptor["digest"]}', code=2, says='does not have the digest')
        for body in (b'', b'<html>', b'{}', b'x' * (5 << 20)):
            r.manifests[('a/b', '1')] = body
            assert me.run('sandbox', 'images', 'pull', reference).returncode in (1, 2)
        layers = os.path.join(me.store, 'images', 'layers')
        assert not os.path.exists(layers) or os.listdir(layers) == []


def test_tag_that_moved_on(me):
    with Registry() as r:
        reference = r.push('a/b', image(b'old\n'))
        run(me, reference)
        r.push('a/b', image(b'new\n'))
        run(me, reference)
        assert output(me) == 'old\n'
        me.ok('sandbox', 'images', 'pull', reference)
        run(me, reference)
        assert output(me) == 'new\n'


def test_index(me):
    with Registry() as r:
        one = image()
        r.push('a/b', one)
        index = json.dumps({'schemaVersion': 2, 'mediaType': oci.INDEX, 'manifests': [
            {**oci.Image(oci.layer(), architecture='s390x').descriptor, 'platform': {'os': 'linux', 'architecture': 's390x'}},
            {**one.descriptor, 'platform': {'os': 'linux', 'architecture': oci.ARCHITECTURE}}]}).encode()
        r.manifests[('a/b', 'multi')] = index
        run(me, f'{r.host}/a/b:multi')
        assert output(me) == 'from a registry\n'
        assert of_type(me.events(), 'sandbox_started')[0]['image_digest'] == oci.digest_of(index), 'what one can ask for again'


@pytest.fixture(scope='module')
def certificate(tmp_path_factory):
    path = str(tmp_path_factory.mktemp('tls') / 'both.pem')
    try:
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', path + '.key', '-out', path + '.crt',
                        '-days', '2', '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'],
                       check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        skip('needs openssl')
    with open(path, 'wb') as both:
        for end in ('.crt', '.key'):
            with open(path + end, 'rb') as f:
                both.write(f.read())
    for base, _, _ in os.walk(os.path.dirname(path)):
        os.chmod(base, 0o755)
    os.chmod(path + '.crt', 0o644)
    return path


def test_tls(me, certificate):
    ca = os.path.join(me.base, 'ca.crt')
    with open(certificate + '.crt', encoding='ascii') as f:
        me.file(ca, f.read())
    with Registry('token', tls=certificate) as r:
        reference = r.push('a/b', image())
        login(me, r.host)
        p = me.fails('sandbox', 'images', 'pull', reference, code=1, says='SSL')
        assert not r.seen, 'nothing was asked of a server that nobody vouches for'
        me.ok('sandbox', 'images', 'pull', reference, env={'SSL_CERT_FILE': ca})
        no_secret(me, p)


def test_no_registry_there(me):
    with contextlib.closing(__import__('socket').socket()) as s:
        s.bind(('127.0.0.1', 0))
        me.fails('sandbox', 'images', 'pull', f'127.0.0.1:{s.getsockname()[1]}/a', code=1, says='Failed to connect')


def test_registry_that_falls_silent_is_cancelled(me):
    """SIGINT ends a run whose registry says nothing more."""
    import signal
    asked, go_on = threading.Event(), threading.Event()
    with Registry() as r:
        one = image()
        reference = r.push('a/b', one)
        answer = r.get

        def silent(h):
            if '/blobs/' in h.path:
                asked.set()
                go_on.wait(60)
            return answer(h)

        r.get = silent
        me.file('main.bot', f'tool t0:\n  command: `true`\n\nworkflow w:\n  entry: t0\n  sandbox:\n    image: "{reference}"\n  t0 -> done\n')
        p = me.start('run', 'main.bot', '--sandbox-driver', 'native')
        assert asked.wait(30)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30)
        go_on.set()
        assert p.returncode == 130, (out, err)


def test_debians_registry(request, me):
    """A real one, filled by a real engine."""
    if not AM_ROOT:
        skip('needs root: the registry is in a network namespace')
    world, docker, registry = (request.getfixturevalue(n) for n in ('world', 'docker', 'registry'))
    there = registry.push(docker, 'native:1')
    settle(me, world)
    run(me, there, 'cat /etc/from-image')
    assert output(me) == 'only native:1\n'
    digest = of_type(me.events(), 'sandbox_started')[0]['image_digest']
    run(me, f'{registry.host}/native@{digest}', 'cat /etc/from-image')
    assert output(me) == 'only native:1\n'
    me.fails('sandbox', 'images', 'pull', f'{registry.host}/native:2', code=2, says='does not have it')
