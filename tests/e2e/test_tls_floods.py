"""What a program inside does to make the proxy that inspects TLS crash, hang or grow: each time others are served after."""
import pytest
from test_tls_inspect import VALUE, Runner, ca  # noqa: F401 (a fixture)
from tls_upstream import Upstream, node_upstream

BEGIN = r'''
import base64, os, random, re, socket, ssl, struct, sys
host, port = "api.test", int(sys.argv[1])
m = re.match(r"http://([^@]*)@([^:/]+):(\d+)", os.environ["https_proxy"])
auth = base64.b64encode(m.group(1).encode()).decode()
context = ssl.create_default_context()
random.seed(7)
def connect():
    s = socket.create_connection((m.group(2), int(m.group(3))), 20)
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nProxy-Authorization: Basic {auth}\r\n\r\n".encode())
    f = s.makefile("rb", buffering=0)
    assert f.readline().split()[1] == b"200"
    while f.readline().strip(): pass
    return s
def tls(*alpn):
    context.set_alpn_protocols(list(alpn))
    t = context.wrap_socket(connect(), server_hostname=host)
    t.settimeout(1)
    return t
def send(s, data):
    try: s.sendall(data)
    except (OSError, ssl.SSLError): return False
    return True
def receive(s):
    try: return s.recv(65536)
    except (OSError, ssl.SSLError): return None
'''
GARBAGE = BEGIN + r'''
to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
try: context.wrap_bio(to_client, to_server, server_hostname=host).do_handshake()
except ssl.SSLWantReadError: pass
hello = to_server.read()
half = []
for i in range(150):
    b, s = bytearray(hello), connect()
    for _ in range(random.randint(1, 6)): b[random.randrange(5 if i % 2 else 0, len(b))] = random.randrange(256)
    if i % 5 == 0: b = b[:random.randrange(1, len(b))]
    if i % 7 == 0: b += random.randbytes(300)
    send(s, bytes(b))
    half.append(s) # and no more of it
    if i % 3: s.close()
for i in range(60):
    t = tls("h2", "http/1.1")
    raw = socket.socket(fileno=os.dup(t.fileno()))
    send(raw, random.randbytes(200) if i % 3 else b"\x17\x03\x03\x40\x00" + random.randbytes(100))
    raw.close(); t.close()
t = tls("http/1.1")
t.sendall(f"GET /headers HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
t.settimeout(20)
print(t.recv(15).decode())
'''
FLOODS = BEGIN + r'''
def frame(kind, flags, stream, body=b""):
    return struct.pack("!I", len(body))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + body
def text(v):
    n, r = len(v), b""
    if n < 127: return bytes([n]) + v
    n -= 127
    while n >= 128: r += bytes([n % 128 + 128]); n //= 128
    return b"\x7f" + r + bytes([n]) + v
def field(name, value, first=b"\x10"): return first + text(name) + text(value)
HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 1, 3, 4, 6, 7, 8, 9
ask = (field(b":method", b"GET") + field(b":scheme", b"https") + field(b":path", b"/headers") +
       field(b":authority", f"{host}:{port}".encode()))
preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
odd = range(1, 20001, 2)
floods = [
    (frame(PING, 0, 0, b"12345678") * 1000 for _ in range(50)),
    (frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1") * 1000 for _ in range(50)),
    [frame(HEADERS, 0, 1, ask)] + [frame(CONTINUATION, 0, 1, field(b"x", b"y" * 8000))] * 500,
    [frame(HEADERS, 0, 1, ask)] + [frame(CONTINUATION, 0, 1) * 1000] * 50,
    (frame(HEADERS, 5, i, ask) + frame(RESET, 0, i, b"\0\0\0\x08") for i in odd),
    (frame(HEADERS, 5, i, ask) + frame(WINDOW, 0, i, b"\x7f\xff\xff\xff") for i in odd),
    [frame(HEADERS, 4, 1, ask)] + [frame(0, 0, 1) * 1000] * 100,
    [frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0")] + [frame(HEADERS, 5, i, ask) for i in odd[:100]],
    [frame(HEADERS, 5, 1, ask + field(b"a", b"v" * 4000, b"\x40"))] + [frame(HEADERS, 5, i, ask + b"\xbe" * 8000) for i in odd[1:200]],
    [frame(HEADERS, 4, i, ask) for i in odd[:150]],
    [frame(GOAWAY, 0, 0, b"\0" * 8)] * 1000,
    [random.randbytes(5000)] * 5,
]
for parts in floods:
    t = tls("h2")
    assert t.selected_alpn_protocol() == "h2"
    send(t, preface)
    for p in parts:
        if not send(t, p): break
    receive(t)
    t.close()
good = preface + frame(HEADERS, 4, 1, ask) + frame(0, 1, 1, b"hello") + frame(HEADERS, 5, 3, ask)
for i in range(100):
    b = bytearray(good)
    for _ in range(random.randint(1, 5)): b[random.randrange(24, len(b))] = random.randrange(256)
    t = tls("h2")
    send(t, bytes(b))
    t.close()
t = tls("h2")
t.sendall(preface + frame(HEADERS, 5, 1, ask))
t.settimeout(20)
got = b""
while b'"version":"2.0"' not in got: got += t.recv(65536) or exit("closed")
print("served")
'''


@pytest.fixture
def run(me, ca):  # noqa: F811
    return Runner(me, ca)


def test_garbage_and_half_handshakes(run, ca):  # noqa: F811
    run.user.file('attack.py', GARBAGE)
    with Upstream(ca, 'api.test') as u:
        _, out = run.run(f'/usr/bin/python3 attack.py {u.port} 2>&1')
    assert out[0].strip() == 'HTTP/1.1 200 OK' and VALUE not in out[0]


def test_floods_of_http2(run, ca):  # noqa: F811
    run.user.file('attack.py', FLOODS)
    with node_upstream(ca, 'api.test') as port:
        _, out = run.run(f'/usr/bin/python3 attack.py {port} 2>&1')
    assert out[0].strip() == 'served'
