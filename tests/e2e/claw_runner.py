"""A launcher for the agent runner, played by a script: it speaks the envelopes and takes the model's part."""
import json
import os
import select
import subprocess
import time

PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
LIMIT = 30


def text(words):
    return {'type': 'text', 'text': words}


def use(tool_use_id, tool, **given):
    return {'type': 'tool_use', 'id': tool_use_id, 'name': tool, 'input': given}


def reply(*blocks, stop=None, tokens=(10, 5)):
    """What the model says next; a string is a text."""
    content = [text(b) if isinstance(b, str) else b for b in blocks]
    uses = any(b['type'] == 'tool_use' for b in content)
    return {'kind': 'done', 'message': {'role': 'assistant', 'content': content},
            'stop_reason': stop or ('tool_use' if uses else 'end_turn'),
            'usage': {'input_tokens': tokens[0], 'output_tokens': tokens[1], 'cache_read_input_tokens': 0,
                      'cache_creation_input_tokens': 0}}


class Runner:
    """One runner process. Each envelope it sends is kept in `seen`."""

    def __init__(self, user, program=None, argv=(), **task):
        self.user = user
        self.seen = []
        self.rest = b''
        program = program or os.path.join(os.path.dirname(user.program), 'iterion-guest')
        self.process = user.popen(*(argv or (program, '__claw-runner')), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={'TMPDIR': user.folder('tmp')})
        self.task = {'node_id': 'n', 'system_prompt': 'You are a test.', 'user_prompt': 'Do it.', 'model': 'm',
                     'work_dir': user.workspace, 'tool_max_steps': 100, 'max_tokens': 1000, 'context_window': 100000,
                     'session_id': 's1', **task}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for f in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                f.close()
            except BrokenPipeError:
                pass

    def raw(self, data):
        """Bytes as they are; a runner that stopped reading is no error of the test."""
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def close_input(self):
        """What raw could not get rid of is tried again by close."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def send(self, kind, data=None, id=None):
        env = {'type': kind, 'data': data or {}}
        if id is not None:
            env['id'] = id
        self.raw(json.dumps(env).encode() + b'\n')

    def start(self, replay=None):
        if replay:
            self.send('session_replay', replay)
        self.send('task', self.task)
        return self

    def next(self):
        """The next envelope, or None when the runner has closed its output."""
        fd = self.process.stdout.fileno()
        end = time.monotonic() + LIMIT
        while b'\n' not in self.rest:
            assert select.select([fd], [], [], max(0, end - time.monotonic()))[0], f'nothing came for {LIMIT} s'
            got = os.read(fd, 1 << 20)
            if not got:
                assert not self.rest, f'half a line: {self.rest[:200]!r}'
                return None
            self.rest += got
        line, self.rest = self.rest.split(b'\n', 1)
        assert len(line) < 4 * 1024 * 1024, 'a line is too long'
        env = json.loads(line)
        self.seen.append(env)
        return env

    def until(self, kind):
        """The data of the next envelope of a type; it must come."""
        while True:
            env = self.next()
            assert env, f'the end came before {kind}: {self.seen[-3:]}'
            if env['type'] == kind:
                return env
            assert env['type'] != 'result', f'the result came before {kind}: {env}'

    def say(self, answer):
        """Answers the next request; returns the request's data."""
        env = self.until('llm_request')
        self.send('llm_chunk', answer, env['id'])
        return env['data']

    def call(self, tool, **given):
        """Lets the model make one call; returns its tool_result block (with the images of the message)."""
        name = f'c{len(self.seen)}'
        self.say(reply(use(name, tool, **given)))
        return self.results()[name]

    def results(self):
        """The results of the step that was captured next."""
        while True:
            env = self.until('session_capture')
            last = env['data']['conversation'][-1]
            calls = [b for b in env['data']['conversation'][-2]['content'] if b['type'] == 'tool_use']
            got = {b['tool_use_id']: b for b in last['content'] if b['type'] == 'tool_result'}
            if len(got) == len(calls):
                images = [b for b in last['content'] if b['type'] == 'image']
                return {k: {**v, 'images': images} for k, v in got.items()}

    def result(self, code=0):
        """The result's data; the runner ends with this code after it."""
        while True:
            env = self.next()
            assert env, f'no result: {self.process.stderr.read()!r}'
            if env['type'] == 'result':
                break
        if env.get('id'):
            self.send('result_ack', {'ok': True}, env['id'])
        self.close_input()
        while self.next():
            pass
        assert self.process.wait(LIMIT) == code
        return env['data']

    def finish(self, words='done'):
        self.say(reply(words))
        return self.result()

    def events(self, kind):
        return [e['data'] for e in self.seen if e['type'] == 'event' and e['data']['kind'] == kind]
