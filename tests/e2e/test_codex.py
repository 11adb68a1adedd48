"""Agents of the backend codex: the real codex against a provider that says what a script says."""
import json
import os
import shutil
import tempfile

import pytest
from agents import KEY, block, everything_below, of_type, shared
from conftest import skip
from provider import Provider

HEAD = '## strict-escape: on\n'
SCHEMA = '''
schema answer:
  n: int
  word: string

schema open:
  n: json

prompt task:
  PROMPT-WORD

prompt careful:
  SYSTEM-WORD

'''


def shell(command):
    return {'tool': ['exec_command', 'shell_command', 'shell'],
            'input': {'cmd': command, 'command': ['/bin/sh', '-c', command]}}


def agent(name='work', *lines):
    return f'agent {name}:\n  model: "gpt-5.1"\n  backend: "codex"\n  user: task\n' + ''.join(
        f'  {line}\n' for line in lines) + '\n'


class Place:
    """One person's workspace, with codex on the PATH. Its home is outside of /tmp, where it puts no helpers."""

    def __init__(self, user, base):
        self.user = user
        self.folder, self.bin = shared('codex', base)
        self.codex_home = tempfile.mkdtemp(prefix='iterion-codex.', dir='/var/tmp')
        user.own(self.codex_home)
        self.env = {'PATH': f'{self.bin}:{user.env["PATH"]}', 'OPENAI_API_KEY': KEY, 'CODEX_HOME': self.codex_home}

    def write(self, nodes, edges, sandbox=False):
        text = HEAD + SCHEMA + nodes + '\nworkflow w:\n' + (block(mounts=[self.folder]) if sandbox else '')
        entry = edges[0].split()[0]
        self.user.file('main.bot', text + f'  entry: {entry}\n' + ''.join(f'  {e}\n' for e in edges))

    def flags(self, sandbox):
        return ('--sandbox-driver', 'native', '--resolve', 'api.test:127.0.0.1') if sandbox else ()

    def run(self, p, code=0, sandbox=False, env=None, host=None):
        own = {**self.env, 'OPENAI_BASE_URL': f'http://{host or "127.0.0.1"}:{p.port}/v1', **(env or {})}
        return self.user.ok('run', 'main.bot', *self.flags(sandbox), env=own, code=code)

    def output(self, node):
        return of_type(self.user.events(), 'node_finished', node)[-1]['output']

    def file(self, name):
        with open(os.path.join(self.user.workspace, name), encoding='utf-8') as f:
            return f.read()


@pytest.fixture
def place(user, base):
    p = Place(user, base)
    yield p
    shutil.rmtree(p.codex_home)


@pytest.fixture
def mine(me, base):
    p = Place(me, base)
    yield p
    shutil.rmtree(p.codex_home)


def test_on_the_host_beside_a_sandbox(place):
    """codex has a sandbox of its own: the workspace can be written, nothing else, and nobody can be talked to."""
    outside = os.path.join('/var/tmp', f'iterion-outside.{os.getpid()}')
    place.write(agent('work', 'system: careful', 'output: answer') + 'tool after:\n  command: "env; cat f"\n\n',
                ['work -> after', 'after -> done'], sandbox=True)
    command = f'echo hi > f; touch {outside}; cat /proc/net/dev | wc -l > net; exit 0'
    with Provider({'turns': [shell(command), {'text': '{"n":1,"word":"x"}', 'usage': {'cache_read': 4}}]}) as p:
        done = place.run(p, sandbox=True)
        calls = p.calls()
    tools = of_type(place.user.events(), 'tool_called')
    if not os.path.exists(os.path.join(place.user.workspace, 'f')):
        skip(f'codex cannot make its own sandbox here: {tools}')
    assert place.output('work') == {'n': 1, 'word': 'x'}
    assert place.file('f') == 'hi\n' and not os.path.exists(outside)
    assert place.file('net').strip() == '3'  # two lines of head, and loopback
    assert calls[0]['headers']['authorization'] == f'Bearer {KEY}'
    said = json.dumps(calls[0]['body']['input'])
    assert 'PROMPT-WORD' in said and 'SYSTEM-WORD' in said
    assert calls[0]['body']['text']['format']['schema']['required'] == ['n', 'word']
    started, = of_type(place.user.events(), 'delegate_started')
    assert started['permission_mode'] == 'workspace-write' and not started['sandboxed']
    assert [t['tool'] for t in tools] == ['command_execution']
    finished, = of_type(place.user.events(), 'node_finished', 'work')
    assert finished['_tokens'] == 30 and finished['parse_fallback'] is False
    assert finished['_cost_usd'] == pytest.approx((16 * 1.25 + 4 * 0.125 + 10 * 10) / 1e6)
    assert 'API_KEY' not in place.output('after')['output'] and KEY not in done.stdout + done.stderr
    assert not [name for folder in (place.user.store, place.user.workspace, place.user.home)
                for name, data in everything_below(folder) if KEY.encode() in data]


def test_in_the_sandbox(place):
    """When the user says that it is there: the run's list is what it may talk to."""
    place.write(agent('work', 'output: answer'), ['work -> done'], sandbox=True)
    with Provider({'turns': [shell('echo hi > f; env > env'), {'text': '{"n":1,"word":"x"}'}]}) as p:
        place.run(p, sandbox=True, env={'ITERION_CODEX_SANDBOXED': '1'}, host='api.test')
    assert place.output('work') == {'n': 1, 'word': 'x'} and place.file('f') == 'hi\n'
    assert 'HTTPS_PROXY=' in place.file('env') and KEY not in place.file('env')
    started, = of_type(place.user.events(), 'delegate_started')
    assert started['permission_mode'] == 'danger-full-access' and started['sandboxed']
    summary = of_type(place.user.events(), 'network_summary')[0]['hosts']
    assert [(h['host'], h['blocked']) for h in summary] == [('api.test', 0)]


def test_a_repair_and_an_open_schema(mine):
    """The schema of any value cannot be given to the provider, so it stands in the prompt."""
    mine.write(agent('work', 'output: open', 'tools: [Read]', 'tool_max_steps: 3'), ['work -> done'])
    with Provider({'turns': [{'text': 'I think it is 5.'}, {'text': 'Here: {"n": 5}'}]}) as p:
        mine.run(p)
        calls = p.calls()
    assert mine.output('work') == {'n': 5}
    assert 'JSON Schema' in json.dumps(calls[0]['body']['input']) and 'format' not in calls[0]['body'].get('text', {})
    assert 'cannot be used' in json.dumps(calls[1]['body']['input'])
    assert 'I think it is 5.' in json.dumps(calls[1]['body']['input'])
    finished, = of_type(mine.user.events(), 'node_finished')
    warning, = of_type(mine.user.events(), 'delegate_warning')
    assert 'does not know tools, tool_max_steps' in warning['message']
    assert finished['formatting_pass_used'] and finished['parse_fallback'] and finished['_tokens'] == 30


def test_conversations_go_on(mine):
    """Counts are those of the node, although codex tells those of the whole conversation."""
    mine.write(agent('first') + agent('second', 'session: inherit') + agent('third', 'session: fork'),
               ['first -> second', 'second -> third', 'third -> done'])
    with Provider({'turns': [{'text': f'ANSWER-{i}'} for i in range(3)]}) as p:
        mine.run(p)
        heard = [json.dumps(c['body']['input']) for c in p.calls()]
    assert ['ANSWER-0' in h for h in heard] == [False, True, True]
    finished = of_type(mine.user.events(), 'node_finished')
    assert [f['_tokens'] for f in finished] == [15, 15, 15]
    ids = [f['_session_id'] for f in finished]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize('turn,says', [
    ({'status': 401}, ['401', 'OPENAI_API_KEY']),
    ({'status': 400, 'message': 'too odd'}, ['exit code 1: too odd']),
])
def test_errors_of_the_provider(mine, turn, says):
    mine.write(agent(), ['work -> done'])
    with Provider({'turns': [turn], 'repeat': True}) as p:
        env = {**mine.env, 'OPENAI_BASE_URL': p.url + '/v1'}
        mine.user.fails('run', 'main.bot', env=env, code=1, says=says)
    error, = of_type(mine.user.events(), 'delegate_error')
    assert says[0] in error['error'] and error['backend'] == 'codex'


def test_a_program_that_is_not_there(me):
    me.file('main.bot', HEAD + SCHEMA + agent() + 'workflow w:\n  entry: work\n  work -> done\n')
    me.fails('run', 'main.bot', code=1, says=['run codex', 'install Codex'])
