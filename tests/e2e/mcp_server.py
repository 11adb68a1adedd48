#!/usr/bin/env python3
"""A small MCP server that behaves and misbehaves on request: over stdio, streamable HTTP or the older HTTP with SSE.

Its tools are what a test needs: `echo` and `add` work, the others crash, hang, answer too much or in a wrong form. With
--log each message that comes is a line of a file, so that a test can see what was said; --pid writes the process id.
Over HTTP the port is chosen by the system and printed as the first line of standard output.
"""
import argparse
import json
import os
import queue
import signal
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = {'type': 'object', 'properties': {'text': {'type': 'string'}}, 'required': ['text']}
NOTHING = {'type': 'object', 'properties': {}}
HARMLESS = {'readOnlyHint': True}
TOOLS = [
    {'name': 'echo', 'description': 'Says what it is told.', 'inputSchema': TEXT, 'annotations': HARMLESS},
    {'name': 'add', 'description': 'Adds two numbers.', 'inputSchema':
        {'type': 'object', 'properties': {'a': {'type': 'number'}, 'b': {'type': 'number'}}}},
    {'name': 'crash', 'description': 'Ends the server.', 'inputSchema': NOTHING},
    {'name': 'crash_once', 'description': 'Ends the server the first time.', 'inputSchema': TEXT,
     'annotations': HARMLESS},
    {'name': 'hang', 'description': 'Never answers.', 'inputSchema': NOTHING},
    {'name': 'deaf', 'description': 'Reads nothing any more.', 'inputSchema': NOTHING},
    {'name': 'flood', 'description': 'Asks for ever, and reads no answer.', 'inputSchema': NOTHING},
    {'name': 'slow', 'description': 'Answers after n reports of progress.', 'inputSchema':
        {'type': 'object', 'properties': {'n': {'type': 'integer'}, 'pause': {'type': 'number'}}}},
    {'name': 'huge', 'description': 'Answers with n bytes.', 'inputSchema':
        {'type': 'object', 'properties': {'n': {'type': 'integer'}}}},
    {'name': 'malformed', 'description': 'Answers with no JSON.', 'inputSchema': NOTHING},
    {'name': 'wrong', 'description': 'Answers with no result of a tool.', 'inputSchema': NOTHING},
    {'name': 'fail', 'description': 'Fails, and says so.', 'inputSchema': NOTHING},
    {'name': 'refuse', 'description': 'Is answered with an error of JSON-RPC.', 'inputSchema': NOTHING},
    {'name': 'image', 'description': 'Answers with an image.', 'inputSchema': NOTHING},
    {'name': 'environment', 'description': 'Answers with its environment.', 'inputSchema': NOTHING},
    {'name': 'where', 'description': 'Answers with its folder and whether a file is there.', 'inputSchema': TEXT},
    {'name': 'change', 'description': 'Adds a tool named new.', 'inputSchema': NOTHING},
    {'name': 'ask', 'description': 'Asks the client for a sample and a ping first.', 'inputSchema': NOTHING},
    {'name': 'forget', 'description': 'Forgets the session (HTTP).', 'inputSchema': TEXT, 'annotations': HARMLESS},
]


def text(words, **more):
    return {'content': [{'type': 'text', 'text': words}], **more}


class Server:
    """The protocol, whatever carries it: send is called with each message, some of them later."""

    def __init__(self, opts):
        self.opts = opts
        self.tools = list(TOOLS) + [{'name': f'more_{i}', 'inputSchema': NOTHING, 'description': 'x' * opts.wordy}
                                    for i in range(opts.more)]
        self.answers = {}  # to our own requests
        self.lock = threading.Lock()
        self.sessions = set()

    def note(self, what):
        if self.opts.log:
            with self.lock, open(self.opts.log, 'a', encoding='utf-8') as f:
                f.write(json.dumps(what) + '\n')

    def handle(self, m, send):
        self.note(m)
        if 'method' not in m:
            waiting = self.answers.pop(m.get('id'), None)
            if waiting:
                waiting.put(m)
            return
        if 'id' not in m:
            return
        if m['method'] == 'initialize':
            if not self.opts.mute:
                send({'jsonrpc': '2.0', 'id': m['id'], 'result': {
                    'protocolVersion': self.opts.version or m['params']['protocolVersion'],
                    'capabilities': {'tools': {'listChanged': True}, 'logging': {}},
                    'serverInfo': {'name': self.opts.name, 'version': '1'}}})
        elif m['method'] == 'tools/list':
            self.list(m, send)
        elif m['method'] == 'tools/call':
            self.call(m, send)
        else:
            send({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': -32601, 'message': 'no such method'}})

    def list(self, m, send):
        start = int(m.get('params', {}).get('cursor', '0'))
        page = self.opts.page or len(self.tools)
        result = {'tools': self.tools[start:start + page]}
        if start + page < len(self.tools):
            result['nextCursor'] = str(start + page)
        elif self.opts.endless:
            result['nextCursor'] = '0'
        send({'jsonrpc': '2.0', 'id': m['id'], 'result': result})

    def call(self, m, send):
        name, given = m['params']['name'], m['params'].get('arguments', {})
        tool = getattr(self, 'tool_' + name, None)

        def answer(result):
            send({'jsonrpc': '2.0', 'id': m['id'], 'result': result})

        if tool:
            tool(m, given, send, answer)
        else:
            send({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': -32602, 'message': f'no tool {name}'}})

    def tool_echo(self, m, given, send, answer):
        answer(text(given['text']))

    def tool_add(self, m, given, send, answer):
        answer({'content': [], 'structuredContent': {'sum': given['a'] + given['b']}})

    def tool_crash(self, m, given, send, answer):
        print('a line before\nfatal: the disk is on fire, secret ' + os.environ.get('SECRET', ''), file=sys.stderr,
              flush=True)
        os._exit(3)

    def tool_crash_once(self, m, given, send, answer):
        if not os.path.exists(given['text']):
            with open(given['text'], 'w', encoding='utf-8'):
                pass
            os._exit(4)
        answer(text('alive'))

    def tool_hang(self, m, given, send, answer):
        pass

    def tool_deaf(self, m, given, send, answer):
        signal.pause()

    def tool_flood(self, m, given, send, answer):
        while True:
            send(json.dumps({'jsonrpc': '2.0', 'id': 'x' * 200, 'method': 'ping'}))

    def tool_slow(self, m, given, send, answer):
        def work():
            for i in range(given['n']):
                time.sleep(given['pause'])
                send({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {
                    'progressToken': m['params']['_meta']['progressToken'], 'progress': i + 1}})
            answer(text('at last'))
        if self.opts.http or self.opts.sse:
            work()
        else:
            threading.Thread(target=work, daemon=True).start()

    def tool_huge(self, m, given, send, answer):
        answer(text('x' * given['n']))

    def tool_malformed(self, m, given, send, answer):
        send('{"jsonrpc": "2.0", "id": 1, "result": ')

    def tool_wrong(self, m, given, send, answer):
        answer({'content': 'words'})

    def tool_fail(self, m, given, send, answer):
        answer(text('it cannot be done', isError=True))

    def tool_refuse(self, m, given, send, answer):
        send({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': -32602, 'message': 'bad \x1b[31minput'}})

    def tool_image(self, m, given, send, answer):
        if given.get('file'):
            with open(given['file'], encoding='utf-8') as f:
                answer({'content': [{'type': 'text', 'text': 'look'}, *json.load(f)]})
            return
        answer({'content': [{'type': 'text', 'text': 'look'}, {'type': 'image', 'data': 'QUJD', 'mimeType': 'image/png'},
                            {'type': 'hologram', 'data': 'x'}]})

    def tool_environment(self, m, given, send, answer):
        answer(text(json.dumps(dict(os.environ))))

    def tool_where(self, m, given, send, answer):
        answer(text(json.dumps({'cwd': os.getcwd(), 'there': os.path.exists(given['text']), 'pid': os.getpid()})))

    def tool_change(self, m, given, send, answer):
        self.tools.append({'name': 'new', 'inputSchema': NOTHING})
        send({'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed'})
        answer(text('changed'))

    def tool_ask(self, m, given, send, answer):
        def ask(number, method):
            self.answers[number] = queue.Queue()
            waiting = self.answers[number]
            send({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': {}})
            return waiting.get()

        def work():
            sample = ask('s1', 'sampling/createMessage')
            ping = ask(77, 'ping')
            answer(text(json.dumps({'sample': sample.get('error', {}).get('code'), 'ping': ping.get('result')})))
        threading.Thread(target=work, daemon=True).start()

    def tool_forget(self, m, given, send, answer):
        if not os.path.exists(given['text']):
            with open(given['text'], 'w', encoding='utf-8'):
                pass
            self.sessions.clear()
            send(404)
            return
        answer(text('remembered'))


def run_stdio(server):
    lock = threading.Lock()

    def send(m):
        with lock:
            sys.stdout.write((m if isinstance(m, str) else json.dumps(m)) + '\n')
            sys.stdout.flush()

    if server.opts.noise:
        sys.stdout.write('Welcome to the server!\n\n')
    for line in sys.stdin:
        server.handle(json.loads(line), send)
    server.note('end of input')
    if server.opts.stubborn:
        signal.pause()


class Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is what some tests are about."""


def make_handler(server):
    streams = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def log_message(self, *args):
            pass

        def answer(self, status, body=b'', **headers):
            self.send_response(status)
            for k, v in headers.items():
                self.send_header(k.replace('_', '-'), v)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def allowed(self):
            if server.opts.token and self.headers.get('Authorization') != f'Bearer {server.opts.token}':
                self.answer(401, b'who are you?')
                return False
            return True

        def chunk(self, data):
            self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
            self.wfile.flush()

        def events(self, **headers):
            self.send_response(200)
            self.send_header('Content-Type', 'text/event-stream')
            self.send_header('Transfer-Encoding', 'chunked')
            for k, v in headers.items():
                self.send_header(k.replace('_', '-'), v)
            self.end_headers()

        def do_POST(self):
            body = self.rfile.read(int(self.headers['Content-Length']))
            if not self.allowed():
                return
            m = json.loads(body)
            if server.opts.sse:
                self.answer(202)
                stream = streams[self.path.split('=')[1]]
                server.handle(m, stream.put)
                return
            server.note({'session': self.headers.get('Mcp-Session-Id'),
                         'version': self.headers.get('MCP-Protocol-Version')})
            headers = {}
            if m.get('method') == 'initialize':
                headers['Mcp_Session_Id'] = str(uuid.uuid4())
                server.sessions.add(headers['Mcp_Session_Id'])
            elif self.headers.get('Mcp-Session-Id') not in server.sessions:
                self.answer(404, b'no such session')
                return
            self.reply(m, headers)

        def reply(self, m, headers):
            said = []
            if 'id' not in m or 'method' not in m:
                server.handle(m, said.append)
                self.answer(202)
            elif server.opts.poll and m['method'] == 'tools/call':
                server.handle(m, said.append)
                self.events(**headers)
                streams[str(m['id'])] = said
                self.chunk(f'id: {m["id"]}\nretry: 20\ndata:\n\n'.encode())
                self.chunk(b'')
            elif server.opts.events:
                self.events(**headers)

                def send(x):
                    self.chunk(('event: message\ndata: %s\n\n' % json.dumps(x)).encode())
                self.chunk(b': welcome\n\n')
                server.handle(m, send)
                self.chunk(b'')
            else:
                server.handle(m, said.append)
                if said == [404]:
                    self.answer(404, b'gone')
                else:
                    body = [x if isinstance(x, str) else json.dumps(x) for x in said if not isinstance(x, dict) or
                            x.get('id') == m['id']]
                    self.answer(200, (body or [''])[-1].encode(), Content_Type='application/json', **headers)

        def do_GET(self):
            if not self.allowed():
                return
            if server.opts.poll:
                self.go_on(self.headers.get('Last-Event-ID'))
                return
            if not server.opts.sse:
                self.answer(405)
                return
            key = str(len(streams) + 1)
            streams[key] = queue.Queue()
            self.events()
            self.chunk(('event: endpoint\ndata: %s\n\n' % (server.opts.endpoint or f'/messages?id={key}')).encode())
            while True:
                self.chunk(('data: %s\n\n' % json.dumps(streams[key].get())).encode())

        def go_on(self, key):
            """At the second try the answer is there."""
            server.note({'last': key})
            self.events()
            if key.endswith('b'):
                for m in streams[key[:-1]]:
                    self.chunk(('data: %s\n\n' % json.dumps(m)).encode())
            else:
                self.chunk(f'id: {key}b\nretry: 20\ndata:\n\n'.encode())
            self.chunk(b'')

        def do_DELETE(self):
            server.note({'deleted': self.headers.get('Mcp-Session-Id') in server.sessions})
            self.answer(200)

    return Handler


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--http', action='store_true')
    p.add_argument('--events', action='store_true', help='HTTP: answers are streams of events')
    p.add_argument('--poll', action='store_true', help='HTTP: the stream ends before the answer, which a GET brings')
    p.add_argument('--sse', action='store_true')
    p.add_argument('--endpoint', help='SSE: where messages are posted to')
    p.add_argument('--token')
    p.add_argument('--name', default='test')
    p.add_argument('--version')
    p.add_argument('--page', type=int, default=0)
    p.add_argument('--endless', action='store_true')
    p.add_argument('--more', type=int, default=0, help='so many tools more')
    p.add_argument('--wordy', type=int, default=0, help='with descriptions of so many bytes')
    p.add_argument('--mute', action='store_true', help='never answers initialize')
    p.add_argument('--noise', action='store_true', help='prints a line that is no message')
    p.add_argument('--stubborn', action='store_true', help='ends neither with its input nor by TERM')
    p.add_argument('--exit', type=int, help='ends at once')
    p.add_argument('--log')
    p.add_argument('--pid')
    opts = p.parse_args()
    if opts.exit is not None:
        sys.exit(opts.exit)
    if opts.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if opts.pid:
        with open(opts.pid, 'a', encoding='utf-8') as f:
            f.write(f'{os.getpid()}\n')
    server = Server(opts)
    if opts.http or opts.sse:
        http = Listener(('127.0.0.1', 0), make_handler(server))
        print(http.server_address[1], flush=True)
        http.serve_forever()
    run_stdio(server)


main()
