"""Servers of the tests that speak TLS, with a certificate authority of their own.

    with authority() as ca, Upstream(ca, 'api.test') as u: ...  # u.port, u.seen: the requests that came

An Upstream answers by path:
  /headers   the request's head as JSON: method, target, headers
  /split     the Authorization's last word, one byte a chunk
  /events    three server-sent events, the second once the test has called u.go.set()
  /set       the Authorization's last word in a header of the answer
  /ws        becomes a WebSocket by name, and gives every byte back
  /bye       closes the connection behind its answer, and does not say so in it
  /zip       the same compressed, whatever was asked for
"""
import contextlib
import gzip
import http.server
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading

from conftest import skip


class Authority:
    def __init__(self, folder):
        self.folder = folder
        self.file = os.path.join(folder, 'ca.pem')
        self.key = os.path.join(folder, 'ca.key')
        self.openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
                     '-subj', '/CN=test authority', '-addext', 'basicConstraints=critical,CA:TRUE', '-keyout', self.key,
                     '-out', self.file)

    def openssl(self, *args):
        p = subprocess.run(['openssl', *args], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           cwd=self.folder)
        assert p.returncode == 0, p.stdout.decode()

    @staticmethod
    def knows(command, option):
        """Before 3.4 openssl takes an end in the past only as days, since then only as a date."""
        p = subprocess.run(['openssl', command, '-help'], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return option.encode() in p.stdout

    def leaf(self, *names, ended=False, ext=None):
        """Certificate and key in one file. ext: its extensions, in the place of the names."""
        base = os.path.join(self.folder, f'{names[0]}{ended}{hash(ext)}')
        alt = ','.join(f'DNS:{n}' for n in names)
        self.openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', f'/CN={names[0]}',
                     '-keyout', base + '.key', '-out', base + '.csr')
        with open(base + '.ext', 'w', encoding='utf-8') as f:
            f.write(f'subjectAltName={alt}\n' if ext is None else ext)
        sign = ('x509', '-req', '-in', base + '.csr', '-CA', self.file, '-CAkey', self.key, '-CAcreateserial', '-extfile',
                base + '.ext', '-out', base + '.crt')
        if not ended:
            self.openssl(*sign, '-days', '2')
        elif self.knows('x509', '-not_after'):
            self.openssl(*sign, '-not_before', '20200101000000Z', '-not_after', '20200102000000Z')
        else:
            self.openssl(*sign, '-days', '-1')
        with open(base + '.pem', 'w', encoding='utf-8') as to:
            for part in ('.crt', '.key'):
                with open(base + part, encoding='utf-8') as f:
                    to.write(f.read())
        return base + '.pem'


@contextlib.contextmanager
def authority():
    if not shutil.which('openssl'):
        skip('openssl is not installed')
    folder = tempfile.mkdtemp(prefix='iterion-ca.')
    os.chmod(folder, 0o755)
    try:
        yield Authority(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def last_word(self):
        return (self.headers.get('Authorization') or 'none').split()[-1].encode()

    def whole(self, body, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
        self.wfile.flush()

    def stream(self, kind):
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()

    def do_GET(self):
        path = self.path.split('?')[0]
        length = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(length).decode(errors='replace') if length else ''
        self.server.owner.seen.append({'method': self.command, 'target': self.path, 'headers': dict(self.headers.items()),
                                       'body': body})
        if path == '/split':
            self.stream('text/plain')
            for byte in b'[' + self.last_word() + b']':
                self.chunk(bytes([byte]))
            self.wfile.write(b'0\r\n\r\n')
        elif path == '/events':
            self.stream('text/event-stream')
            self.chunk(b'data: one\n\n')
            assert self.server.owner.go.wait(30)
            self.chunk(b'data: ' + self.last_word() + b'\n\n')
            self.chunk(b'data: three\n\n')
            self.wfile.write(b'0\r\n\r\n')
        elif path == '/set':
            self.whole(b'', X_Echo=self.last_word().decode())
        elif path == '/ws':
            self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
            self.close_connection = True
            while data := self.rfile.read1(65536):
                self.wfile.write(data)
        elif path == '/bye':
            self.whole(b'bye')
            self.close_connection = True
        elif path == '/zip':
            self.whole(gzip.compress(self.last_word()), Content_Type='text/plain', Content_Encoding='gzip')
        else:
            self.whole(json.dumps(self.server.owner.seen[-1]).encode(), Content_Type='application/json')

    do_POST = do_PUT = do_GET

    def log_message(self, *args):
        pass


class Upstream:
    def __init__(self, ca, *names, pem=None, alpn=('http/1.1',), handler=Handler):
        self.seen, self.go = [], threading.Event()
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.server.owner = self
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem or ca.leaf(*names))
        if alpn:
            context.set_alpn_protocols(list(alpn))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


NODE_SERVER = r'''
const http2 = require('http2'), fs = require('fs');
const pem = fs.readFileSync(process.argv[1]);
const server = http2.createSecureServer({key: pem, cert: pem, allowHTTP1: true});
const word = (r) => (r.headers.authorization || 'none').split(' ').pop();
server.on('request', (req, res) => {
  const path = req.url.split('?')[0];
  let body = '';
  req.on('data', (d) => { body += d; });
  req.on('end', () => {
    if (path === '/split') {
      res.writeHead(200, {'content-type': 'text/plain'});
      for (const c of '[' + word(req) + ']') res.write(c);
      res.end();
    } else if (path === '/big') {
      res.writeHead(200, {'content-type': 'application/octet-stream'});
      res.end(Buffer.alloc(5000000, 'x'));
    } else if (path === '/trailers') {
      res.writeHead(200, {'content-type': 'application/grpc', trailer: 'grpc-status'});
      res.write('x');
      res.addTrailers({'grpc-status': '0', 'x-echo': word(req)});
      res.end();
    } else {
      res.writeHead(200, {'content-type': 'application/json', 'x-echo': word(req)});
      res.end(JSON.stringify({version: req.httpVersion, target: req.url, headers: req.headers, length: body.length}));
    }
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
'''


@contextlib.contextmanager
def node_upstream(ca, name):
    """An upstream that speaks HTTP/2 too: its port."""
    node = shutil.which('node')
    if not node:
        skip('node is not installed')
    p = subprocess.Popen([node, '-e', NODE_SERVER, ca.leaf(name)], stdout=subprocess.PIPE)
    try:
        yield int(p.stdout.readline())
    finally:
        p.kill()
        p.wait()
