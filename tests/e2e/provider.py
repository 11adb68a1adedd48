"""A model provider on loopback that says what a script says: Anthropic Messages, OpenAI Responses, Chat Completions.

    with Provider({'turns': [{'tool': 'Bash', 'input': {'command': 'ls'}}, {'text': 'done'}]}) as p:
        ...  # ANTHROPIC_BASE_URL=p.url, OPENAI_BASE_URL=p.url + '/v1'
        p.calls()  # the requests that came: method, path, headers (lower-case names), body

or `python3 provider.py --port 0 [--host H] [--script FILE] [--log FILE]`, which prints {"port": N} and serves until it
is ended; FILE is the script as JSON, and each request becomes a line of the log.

A script has:
  turns           answers, taken one by one
  rules           [{match: regex, turns, repeat?}]: those whose regex is found in the last user message that has text
                  come first; a rule without turns left is passed over, with repeat its last turn is given for ever
  repeat          the last of turns is given for ever
  skip_toolless   requests without tools (an agent's side calls, such as for a title) get {'text': 'ok'} and no turn

A turn is an answer of these:
  text, thinking            content blocks, in the order thinking, text, tools
  tool, input[, id]         a tool call; tools: [{tool, input}…] for several; tool may be a list of names, of which the
                            first that the request offers is called
  structured: {…}           the tool for structured output that the request offers (StructuredOutput,
                            structured_output), else the object as text
  usage: {input, output, cache_read, cache_write}
  stop                      a stop reason other than end_turn and tool_use (max_tokens, refusal)
  truncate: true            the stream ends in the middle of the answer
  status, retry_after, message, type   an error in place of an answer
  hang: true                no answer, ever: the request was recorded, and its connection stays open
"""
import argparse
import http.server
import json
import re
import sys
import threading

STRUCTURED = ('StructuredOutput', 'structured_output')
ERROR_TYPES = {400: 'invalid_request_error', 401: 'authentication_error', 403: 'permission_error',
               404: 'not_found_error', 413: 'request_too_large', 429: 'rate_limit_error', 500: 'api_error',
               529: 'overloaded_error'}


def text_of(content):
    """All text in a message's content, of any of the three forms."""
    if isinstance(content, str):
        return content
    return '\n'.join(b.get('text', '') for b in content or [] if isinstance(b, dict) and b.get('text'))


def last_user_text(body):
    messages = body.get('messages') or body.get('input') or []
    if isinstance(messages, str):
        return messages
    for m in reversed(messages):
        text = text_of(m.get('content')) if m.get('role') == 'user' else ''
        if text:
            return text
    return ''


def tool_names(body):
    return [t.get('name') or (t.get('function') or {}).get('name') or t.get('type') for t in body.get('tools') or []]


class Script:
    """Which turn comes next."""

    def __init__(self, script):
        self.script = script
        self.rules = [{**r, 'turns': list(r['turns'])} for r in script.get('rules', [])]
        self.turns = list(script.get('turns', []))

    @staticmethod
    def take(turns, repeat):
        if not turns:
            return None
        return turns[0] if repeat and len(turns) == 1 else turns.pop(0)

    def next(self, body):
        if self.script.get('skip_toolless') and not body.get('tools'):
            return {'text': 'ok'}
        user = last_user_text(body)
        for r in self.rules:
            if re.search(r['match'], user):
                turn = self.take(r['turns'], r.get('repeat'))
                if turn:
                    return turn
        return self.take(self.turns, self.script.get('repeat')) or {
            'status': 400, 'message': f'the script has no turn left for: {user[-200:]}'}


def blocks_of(turn, body, number):
    """The answer as content blocks of Anthropic's form."""
    blocks, offered = [], tool_names(body)
    calls = list(turn.get('tools', []))
    text = turn.get('text')
    if 'tool' in turn:
        calls.append(turn)
    if 'structured' in turn:
        name = next((n for n in STRUCTURED if n in offered), None)
        if name:
            calls.append({'tool': name, 'input': turn['structured']})
        else:
            text = json.dumps(turn['structured'])
    if turn.get('thinking'):
        blocks.append({'type': 'thinking', 'thinking': turn['thinking'], 'signature': 'c2ln'})
    if text is not None:
        blocks.append({'type': 'text', 'text': text})
    for i, c in enumerate(calls):
        names = [c['tool']] if isinstance(c['tool'], str) else c['tool']
        name = next((n for n in names if n in offered), names[0])
        blocks.append({'type': 'tool_use', 'id': c.get('id') or f'toolu_{number}_{i}', 'name': name,
                       'input': c.get('input', {})})
    return blocks


def usage_of(turn):
    u = turn.get('usage', {})
    return u.get('input', 10), u.get('output', 5), u.get('cache_read', 0), u.get('cache_write', 0)


def halves(s):
    """A string in pieces, as a stream has it; an empty one too."""
    n = max(1, len(s) // 2)
    return [s[:n], s[n:]] if len(s) > 1 else [s]


class Anthropic:
    """POST /v1/messages"""

    def __init__(self, turn, body, number):
        self.turn, self.body, self.number = turn, body, number
        self.blocks = blocks_of(turn, body, number)
        calls = any(b['type'] == 'tool_use' for b in self.blocks)
        self.stop = turn.get('stop') or ('tool_use' if calls else 'end_turn')

    def message(self, blocks, stop):
        i, o, read, write = usage_of(self.turn)
        return {'id': f'msg_{self.number}', 'type': 'message', 'role': 'assistant', 'model': self.body.get('model'),
                'content': blocks, 'stop_reason': stop, 'stop_sequence': None,
                'usage': {'input_tokens': i, 'output_tokens': o, 'cache_read_input_tokens': read,
                          'cache_creation_input_tokens': write}}

    def whole(self):
        return self.message(self.blocks, self.stop)

    @staticmethod
    def deltas(b):
        if b['type'] == 'text':
            return [{'type': 'text_delta', 'text': s} for s in halves(b['text'])]
        if b['type'] == 'thinking':
            return [{'type': 'thinking_delta', 'thinking': s} for s in halves(b['thinking'])] + [
                {'type': 'signature_delta', 'signature': b['signature']}]
        return [{'type': 'input_json_delta', 'partial_json': s} for s in halves(json.dumps(b['input']))]

    def stream(self):
        start = self.message([], None)
        start['usage']['output_tokens'] = 1
        yield {'type': 'message_start', 'message': start}
        yield {'type': 'ping'}
        for n, b in enumerate(self.blocks):
            empty = {'text': {'type': 'text', 'text': ''}, 'thinking': {'type': 'thinking', 'thinking': ''},
                     'tool_use': {**b, 'input': {}}}[b['type']]
            yield {'type': 'content_block_start', 'index': n, 'content_block': empty}
            for d in self.deltas(b):
                yield {'type': 'content_block_delta', 'index': n, 'delta': d}
            yield {'type': 'content_block_stop', 'index': n}
        yield {'type': 'message_delta', 'delta': {'stop_reason': self.stop, 'stop_sequence': None},
               'usage': self.message([], None)['usage']}
        yield {'type': 'message_stop'}

    def lines(self):
        return [f'event: {e["type"]}\ndata: {json.dumps(e)}\n\n' for e in self.stream()]


class Responses:
    """POST /v1/responses"""

    def __init__(self, turn, body, number):
        self.turn, self.body, self.number = turn, body, number
        self.items = []
        for i, b in enumerate(blocks_of(turn, body, number)):
            if b['type'] == 'text':
                self.items.append({'type': 'message', 'id': f'item_{number}_{i}', 'role': 'assistant',
                                   'status': 'completed',
                                   'content': [{'type': 'output_text', 'text': b['text'], 'annotations': []}]})
            elif b['type'] == 'thinking':
                self.items.append({'type': 'reasoning', 'id': f'item_{number}_{i}',
                                   'summary': [{'type': 'summary_text', 'text': b['thinking']}]})
            else:
                self.items.append({'type': 'function_call', 'id': f'item_{number}_{i}', 'call_id': b['id'],
                                   'name': b['name'], 'arguments': json.dumps(b['input']), 'status': 'completed'})

    def whole(self):
        i, o, read, _ = usage_of(self.turn)
        limited = self.turn.get('stop') == 'max_tokens'
        return {'id': f'resp_{self.number}', 'object': 'response', 'created_at': 0, 'model': self.body.get('model'),
                'status': 'incomplete' if limited else 'completed', 'error': None,
                'incomplete_details': {'reason': 'max_output_tokens'} if limited else None, 'output': self.items,
                'parallel_tool_calls': True, 'tools': [],
                'usage': {'input_tokens': i, 'input_tokens_details': {'cached_tokens': read}, 'output_tokens': o,
                          'output_tokens_details': {'reasoning_tokens': 0}, 'total_tokens': i + o}}

    def item_events(self, n, item):
        at = {'output_index': n, 'item_id': item['id']}
        if item['type'] == 'message':
            text = item['content'][0]['text']
            part = {**at, 'content_index': 0}
            yield {'type': 'response.output_item.added', 'output_index': n,
                   'item': {**item, 'status': 'in_progress', 'content': []}}
            yield {'type': 'response.content_part.added', **part,
                   'part': {'type': 'output_text', 'text': '', 'annotations': []}}
            for s in halves(text):
                yield {'type': 'response.output_text.delta', **part, 'delta': s}
            yield {'type': 'response.output_text.done', **part, 'text': text}
            yield {'type': 'response.content_part.done', **part, 'part': item['content'][0]}
        elif item['type'] == 'function_call':
            yield {'type': 'response.output_item.added', 'output_index': n,
                   'item': {**item, 'status': 'in_progress', 'arguments': ''}}
            for s in halves(item['arguments']):
                yield {'type': 'response.function_call_arguments.delta', **at, 'delta': s}
            yield {'type': 'response.function_call_arguments.done', **at, 'arguments': item['arguments']}
        else:
            yield {'type': 'response.output_item.added', 'output_index': n, 'item': {**item, 'summary': []}}
            yield {'type': 'response.reasoning_summary_text.delta', **at, 'summary_index': 0,
                   'delta': item['summary'][0]['text']}
        yield {'type': 'response.output_item.done', 'output_index': n, 'item': item}

    def stream(self):
        whole = self.whole()
        begun = {**whole, 'status': 'in_progress', 'output': [], 'usage': None}
        yield {'type': 'response.created', 'response': begun}
        yield {'type': 'response.in_progress', 'response': begun}
        for n, item in enumerate(self.items):
            yield from self.item_events(n, item)
        yield {'type': f'response.{whole["status"]}', 'response': whole}

    def lines(self):
        return [f'event: {e["type"]}\ndata: {json.dumps({**e, "sequence_number": n})}\n\n'
                for n, e in enumerate(self.stream())]


class Chat:
    """POST /v1/chat/completions"""

    def __init__(self, turn, body, number):
        self.turn, self.body, self.number = turn, body, number
        self.blocks = blocks_of(turn, body, number)
        self.text = ''.join(b['text'] for b in self.blocks if b['type'] == 'text')
        self.calls = [{'id': b['id'], 'type': 'function',
                       'function': {'name': b['name'], 'arguments': json.dumps(b['input'])}}
                      for b in self.blocks if b['type'] == 'tool_use']
        self.stop = {'max_tokens': 'length', 'refusal': 'content_filter'}.get(turn.get('stop')) or (
            'tool_calls' if self.calls else 'stop')

    def usage(self):
        i, o, read, _ = usage_of(self.turn)
        return {'prompt_tokens': i, 'completion_tokens': o, 'total_tokens': i + o,
                'prompt_tokens_details': {'cached_tokens': read}}

    def head(self, kind):
        return {'id': f'chatcmpl-{self.number}', 'object': kind, 'created': 0, 'model': self.body.get('model')}

    def whole(self):
        message = {'role': 'assistant', 'content': self.text or None}
        if self.calls:
            message['tool_calls'] = self.calls
        return {**self.head('chat.completion'), 'usage': self.usage(),
                'choices': [{'index': 0, 'message': message, 'finish_reason': self.stop}]}

    def chunk(self, delta, stop=None):
        return {**self.head('chat.completion.chunk'), 'choices': [{'index': 0, 'delta': delta, 'finish_reason': stop}]}

    def stream(self):
        yield self.chunk({'role': 'assistant', 'content': ''})
        for s in halves(self.text) if self.text else []:
            yield self.chunk({'content': s})
        for n, c in enumerate(self.calls):
            function = c['function']
            yield self.chunk({'tool_calls': [{'index': n, 'id': c['id'], 'type': 'function',
                                              'function': {'name': function['name'], 'arguments': ''}}]})
            for s in halves(function['arguments']):
                yield self.chunk({'tool_calls': [{'index': n, 'function': {'arguments': s}}]})
        yield self.chunk({}, self.stop)
        if (self.body.get('stream_options') or {}).get('include_usage'):
            yield {**self.head('chat.completion.chunk'), 'choices': [], 'usage': self.usage()}

    def lines(self):
        return [f'data: {json.dumps(e)}\n\n' for e in self.stream()] + ['data: [DONE]\n\n']


APIS = {'/messages': Anthropic, '/responses': Responses, '/chat/completions': Chat}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def json(self, status, value, headers=()):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers:
            self.send_header(name, text)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(data)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(data)

    def body(self):
        if 'chunked' in self.headers.get('transfer-encoding', ''):
            data = b''
            while size := int(self.rfile.readline().split(b';')[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get('content-length') or 0))
        try:
            return json.loads(data) if data else {}
        except ValueError:
            return {'not_json': data.decode(errors='replace')}

    def stream(self, lines, truncate):
        """As chunks; cut short the connection closes behind the half of them, without the last chunk."""
        self.send_response(200)
        self.send_header('content-type', 'text/event-stream')
        self.send_header('transfer-encoding', 'chunked')
        self.end_headers()
        for line in lines[:len(lines) // 2] if truncate else lines:
            data = line.encode()
            self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
            self.wfile.flush()
        if truncate:
            self.close_connection = True
        else:
            self.wfile.write(b'0\r\n\r\n')

    def answer(self, api, body):
        number, turn = self.server.provider.take(body)
        if turn.get('hang'):
            self.server.provider.closing.wait()
            self.close_connection = True
        elif 'status' in turn:
            kind = turn.get('type') or ERROR_TYPES.get(turn['status'], 'api_error')
            message = turn.get('message', f'scripted {turn["status"]}')
            headers = [('retry-after', str(turn['retry_after']))] if 'retry_after' in turn else []
            self.json(turn['status'], {'type': 'error', 'error': {'type': kind, 'message': message}}, headers)
        else:
            reply = api(turn, body, number)
            if body.get('stream'):
                self.stream(reply.lines(), turn.get('truncate'))
            else:
                self.json(200, reply.whole())

    def serve(self):
        body = self.body()
        path = self.path.split('?')[0]
        api = next((c for end, c in APIS.items() if path.endswith(end)), None) if self.command == 'POST' else None
        self.server.provider.record({'method': self.command, 'path': self.path, 'body': body,
                                     'headers': {k.lower(): v for k, v in self.headers.items()}})
        try:
            if api:
                self.answer(api, body)
            elif path.endswith('/count_tokens'):
                self.json(200, {'input_tokens': 10})
            elif path.endswith('/models'):
                self.json(200, {'object': 'list', 'data': [], 'models': []})
            else:
                self.json(404 if path.strip('/') else 200, {})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a client that went away


class Provider:
    def __init__(self, script=None, host='127.0.0.1', port=0, log=None):
        self.script = Script(script or {'turns': []})
        self.server = Server((host, port), Handler)
        self.server.provider = self
        self.log = log
        self.requests, self.taken = [], 0
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True)
        self.port = self.server.server_address[1]
        self.url = f'http://{host}:{self.port}'

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    def use(self, script):
        """From here on another script."""
        with self.changed:
            self.script = Script(script)

    def record(self, request):
        with self.changed:
            self.requests.append(request)
            if self.log:
                self.log.write(json.dumps(request) + '\n')
                self.log.flush()
            self.changed.notify_all()

    def take(self, body):
        with self.changed:
            self.taken += 1
            return self.taken, self.script.next(body)

    def calls(self, with_tools=None):
        """The requests for an answer; with_tools True or False: only those that offer tools or do not."""
        with self.changed:
            found = [r for r in self.requests if any(r['path'].split('?')[0].endswith(a) for a in APIS)]
        return [r for r in found if with_tools is None or bool(r['body'].get('tools')) == with_tools]

    def wait(self, n=1, timeout=60):
        """Until so many requests for an answer came."""
        with self.changed:
            enough = self.changed.wait_for(
                lambda: sum(any(r['path'].split('?')[0].endswith(a) for a in APIS) for r in self.requests) >= n,
                timeout)
        assert enough, f'{n} requests are expected, there are: {[r["path"] for r in self.requests]}'


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--host', default='127.0.0.1')
    p.add_argument('--port', type=int, default=0)
    p.add_argument('--script')
    p.add_argument('--log')
    a = p.parse_args()
    script = None
    if a.script:
        with open(a.script, encoding='utf-8') as f:
            script = json.load(f)
    with Provider(script, a.host, a.port, open(a.log, 'a', encoding='utf-8') if a.log else None) as provider:
        print(json.dumps({'port': provider.port}), flush=True)
        try:
            provider.thread.join()
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == '__main__':
    main()
