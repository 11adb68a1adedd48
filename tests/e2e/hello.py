"""A server that answers every GET with "hello from PATH" and its headers as JSON at /headers; for tests that ask what
arrives. Listens on all addresses of its network namespace, writes its port as the first line of its output, and ends
with its parent."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        text = json.dumps(dict(self.headers)) if self.path == '/headers' else f'hello from {self.path}\n'
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format, *args):
        pass


def main():
    with ThreadingHTTPServer(('0.0.0.0', 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == '__main__':
    sys.exit(main())
