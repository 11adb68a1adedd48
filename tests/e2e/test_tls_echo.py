"""Every way in which a host may give a value back: none of them brings it into the sandbox."""
import base64
import json
import urllib.parse

import pytest
from test_tls_inspect import Runner, ca  # noqa: F401 (a fixture)
from tls_upstream import Handler, Upstream

VALUE = 'Zq7+Lm2/Xw9Rt4Kc8=Vb3Ns6"Hd1'


class Echo(Handler):
    """By path, with the value that Authorization or the query has."""

    def do_GET(self):
        word = self.last_word().decode()
        path, _, query = self.path.partition('?')
        self.server.owner.seen.append(dict(self.headers.items()))
        if path == '/reason':
            self.wfile.write(f'HTTP/1.1 200 Hello {word}\r\nContent-Length: 0\r\n\r\n'.encode())
        elif path == '/name':
            self.wfile.write(f'HTTP/1.1 200 OK\r\nX-{self.headers["X-Name"]}: y\r\nContent-Length: 0\r\n\r\n'.encode())
        elif path == '/redirect':
            self.send_response(302)
            self.send_header('Location', '/there?' + query)
            self.send_header('Content-Length', '0')
            self.end_headers()
        elif path == '/part' and 'Range' in self.headers:
            a, b = self.headers['Range'].removeprefix('bytes=').split('-')
            body = word.encode()[int(a):int(b) + 1]
            self.send_response(206)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif path == '/json':
            self.whole(json.dumps({'auth': word}).replace('/', '\\/').encode(), Content_Type='application/json')
        elif path == '/coded':
            self.whole(word.encode(), Content_Type='text/plain', Content_Encoding='utf-8')
        elif path == '/url':
            self.whole(urllib.parse.quote(word, safe='').encode(), Content_Type='text/html')
        else:
            self.whole(repr(dict(self.headers.items())).encode(), Content_Type='message/http')

    do_TRACE = do_GET


@pytest.fixture
def run(me, ca):  # noqa: F811
    return Runner(me, ca)


def leaks(text):
    """The longest pieces of the value, or of what stands for it, that show."""
    forms = {VALUE, urllib.parse.quote(VALUE, safe=''), VALUE.replace('/', '\\/')}
    forms |= {base64.b64encode(b'x' * n + VALUE.encode()).decode()[4:-4] for n in range(3)}
    return [f for f in forms for i in range(0, len(f) - 11) if f[i:i + 12] in text]


def test_forms_of_an_echo(run, ca):  # noqa: F811
    curl = 'curl -sSi --suppress-connect-headers --max-time 20'
    token = '-H "Authorization: token $TOKEN"'
    with Upstream(ca, 'api.test', handler=Echo) as u:
        at = f'https://api.test:{u.port}'
        _, out = run.run(f'printf %s "$TOKEN"; for u in a ab abc; do {curl} -u "$u:$TOKEN" {at}/; done',
                         f'{curl} -X TRACE -u "me:$TOKEN" {at}/', f'{curl} {token} {at}/reason',
                         f'{curl} {token} {at}/json', f'{curl} {token} {at}/url', f'{curl} "{at}/redirect?k=$TOKEN&z"',
                         f'for i in 0 1 2 3; do {curl} {token} -r $((i*8))-$((i*8+7)) {at}/part; done',
                         f'{curl} -r 0-3 {at}/part',
                         f'{curl} {token} -H "Connection: accept-encoding" -H "Accept-Encoding: gzip" {at}/coded',
                         env={'REAL_TOKEN': VALUE})
    sent = [s.get('Authorization', '') for s in u.seen]
    assert base64.b64encode(f'ab:{VALUE}'.encode()).decode() in sent[1] and sent[4] == f'token {VALUE}'
    for text in out:
        assert not leaks(text), text
    placeholder = out[0][:len(VALUE)]
    assert [placeholder[i] for i in (3, 7, 17, 24)] == list('+/="')
    assert f'Hello {placeholder}' in out[2]
    assert json.loads(out[3].split('\n')[-1])['auth'] == placeholder
    assert out[4].split('\n')[-1] == urllib.parse.quote(placeholder, safe='')
    assert urllib.parse.quote(placeholder, safe="-._~!$'()*,;:@/?") + '&z' in out[5]
    assert out[8].endswith(placeholder) and u.seen[-1]['Accept-Encoding'] == 'identity'
    # Parts are given of what has no value in it.
    assert out[6].count('HTTP/1.1 200') == 4 and out[7].startswith('HTTP/1.1 206')


def test_a_query_that_grows(run, ca):  # noqa: F811
    """A value of which nearly every character is encoded makes a head longer than one that a client may send."""
    value = 'Zq7Lm2' + '"' * 34
    run.user.file('grow.py', 'import os, sys\nfrom urllib.request import Request, build_opener, ProxyHandler\n'
                  'import http.client, urllib.error\nhttp.client._MAXLINE = 200000\n'
                  'def ask(n, more):\n'
                  '  url = f"https://api.test:{sys.argv[1]}/?" + os.environ["TOKEN"] * n\n'
                  '  try: return build_opener().open(Request(url, headers={"X-More": "x" * more}), timeout=20).status\n'
                  '  except urllib.error.HTTPError as e: return e.code\n'
                  'print(ask(500, 30000), ask(1150, 15000), ask(1300, 0))\n')

    class Long(Echo):
        def handle_one_request(self):
            self.close_connection = True
            line = self.rfile.readline(300000)
            if not line:
                return
            while field := self.rfile.readline(300000).strip():
                self.server.owner.seen.append(field[:7])
            self.server.owner.seen.append(len(line))
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    with Upstream(ca, 'api.test', handler=Long) as u:
        _, out = run.run(f'/usr/bin/python3 grow.py {u.port}', env={'REAL_TOKEN': value})
    assert out[0].split() == ['200', '200', '431']
    lengths = [s for s in u.seen if isinstance(s, int)]
    assert lengths == [n * (6 + 34 * 3) + len('GET /? HTTP/1.1\r\n') for n in (500, 1150)] and u.seen.count(b'X-More:') == 2


def test_a_value_as_the_name_of_a_header(run, ca):  # noqa: F811
    with Upstream(ca, 'api.test', handler=Echo) as u:
        _, out = run.run(f'curl -sSi --suppress-connect-headers -H "X-Name: $TOKEN" https://api.test:{u.port}/name; '
                         'echo "$TOKEN"', env={'REAL_TOKEN': 'Zq7Lm2Xw9Rt4Kc8Vb3'})
    assert u.seen[0]['X-Name'] == 'Zq7Lm2Xw9Rt4Kc8Vb3'
    assert 'Zq7Lm2' not in out[0] and out[0].split()[-1] in out[0].split('\r\n\r\n')[0]
