"""Agents of the backend claude_code: the real claude against a provider that says what a script says."""
import json
import os
import signal

import pytest
from agents import KEY, block, everything_below, link, of_type, shared
from provider import Provider

HEAD = '## strict-escape: on\n'
SCHEMA = '''
schema answer:
  n: int
  word: string

prompt task:
  Write hi into the file f. PROMPT-WORD

prompt careful:
  SYSTEM-WORD

'''


def bash(command, **more):
    return {'tool': 'Bash', 'input': {'command': command, 'description': 'for the test'}, **more}


def script(*turns, **more):
    return {'turns': list(turns), 'skip_toolless': True, **more}


def agent(name='work', *lines):
    return f'agent {name}:\n  model: "claude-sonnet-4-5"\n  backend: "claude_code"\n  user: task\n' + ''.join(
        f'  {line}\n' for line in lines) + '\n'


class Place:
    """One person's workspace, with claude on the PATH."""

    def __init__(self, user, base):
        self.user = user
        self.folder, self.bin = shared('claude', base)
        self.env = {'PATH': f'{self.bin}:{user.env["PATH"]}', 'ANTHROPIC_API_KEY': KEY}

    def write(self, nodes, edges, sandbox=True):
        text = HEAD + SCHEMA + nodes + '\nworkflow w:\n' + (block(mounts=[self.folder]) if sandbox else '')
        entry = edges[0].split()[0]
        self.user.file('main.bot', text + f'  entry: {entry}\n' + ''.join(f'  {e}\n' for e in edges))

    def options(self, p, sandbox=True):
        """What names the provider: by a host of the list, or as it is."""
        url = f'http://api.test:{p.port}' if sandbox else p.url
        flags = ('--sandbox-driver', 'native', '--resolve', 'api.test:127.0.0.1') if sandbox else ()
        return flags, {**self.env, 'ANTHROPIC_BASE_URL': url}

    def run(self, p, code=0, sandbox=True, env=None):
        flags, own = self.options(p, sandbox)
        return self.user.ok('run', 'main.bot', *flags, env={**own, **(env or {})}, code=code)

    def output(self, node):
        return of_type(self.user.events(), 'node_finished', node)[-1]['output']


@pytest.fixture
def place(user, base):
    return Place(user, base)


@pytest.fixture
def mine(me, base):
    return Place(me, base)


def test_a_task_with_a_tool_call_in_a_sandbox(place):
    """The tool's effect is in the workspace and nowhere else; one host was talked to; the key is nowhere."""
    outside = os.path.join(place.user.base, 'outside')
    place.write(agent('work', 'system: careful', 'output: answer') + 'tool after:\n  command: "env; cat f"\n\n',
                ['work -> after', 'after -> done'])
    command = (f'echo hi > f; touch {outside} 2>/dev/null; echo $HOME > home; cat /proc/[0-9]*/cmdline | '
               f"tr '\\0' ' ' > argv; ls /tmp > tmp; exit 0")
    with Provider(script(bash(command), {'structured': {'n': 1, 'word': 'x'}})) as p:
        done = place.run(p)
    assert place.output('work') == {'n': 1, 'word': 'x'}
    with open(os.path.join(place.user.workspace, 'f'), encoding='utf-8') as f:
        assert f.read() == 'hi\n'
    assert not os.path.exists(outside)
    with open(os.path.join(place.user.workspace, 'argv'), encoding='utf-8') as f:
        argv = f.read()
    assert 'claude -p' in argv and 'SYSTEM-WORD' not in argv and 'PROMPT-WORD' not in argv and KEY not in argv
    first = p.calls(with_tools=True)[0]
    assert first['headers']['x-api-key'] == KEY
    assert 'PROMPT-WORD' in json.dumps(first['body']['messages']) and 'SYSTEM-WORD' in json.dumps(first['body']['system'])
    events = place.user.events()
    summary = of_type(events, 'network_summary')[0]['hosts']
    assert [(h['host'], h['blocked']) for h in summary] == [('api.test', 0)]
    started, = of_type(events, 'delegate_started')
    assert started['permission_mode'] == 'bypassPermissions' and started['sandboxed'] and started['session'] == 'fresh'
    assert [t['tool'] for t in of_type(events, 'tool_called')] == ['Bash', 'StructuredOutput']
    assert of_type(events, 'tool_started')[0]['preview'].startswith('echo hi > f')
    finished, = of_type(events, 'node_finished', 'work')
    assert finished['_tokens'] == 30 and finished['_cost_usd'] == pytest.approx(20 * 3e-6 + 10 * 15e-6)
    assert 'hi' in place.output('after')['output'] and 'ITERION_NODE_ID=after' in place.output('after')['output']
    for name in ('ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', KEY):
        assert name not in place.output('after')['output']
    assert KEY not in done.stdout + done.stderr
    found = [name for folder in (place.user.store, place.user.workspace, place.user.home)
             for name, data in everything_below(folder) if KEY.encode() in data]
    assert not found
    assert any(b'run_finished' in data for _, data in everything_below(place.user.store))


def test_a_key_that_a_tool_prints_is_hidden(mine):
    """The agent can see its own key; what is kept of it cannot."""
    mine.write(agent(), ['work -> done'])
    with Provider(script(bash(f'echo {KEY}'), {'text': f'the key is {KEY}'})) as p:
        mine.run(p)
    assert mine.output('work') == {'output': 'the key is ' + '*' * len(KEY)}
    assert not [n for n, data in everything_below(mine.user.store) if KEY.encode() in data]


def test_an_answer_is_repaired_once(mine):
    """claude's own check knows the schema's types; the engine's is what decides, and says what is wrong."""
    mine.write(agent('work', 'output: answer').replace('answer', 'loose').replace('model:', 'model:') +
               'schema loose:\n  n: json\n  word: string [enum: "left", "right"]\n\n', ['work -> done'])
    with Provider(script({'text': 'no object'}, {'structured': {'n': 1, 'word': 'left'}})) as p:
        mine.run(p)
    assert mine.output('work') == {'n': 1, 'word': 'left'}


def test_refusals_are_tried_again(mine):
    """Twice by claude itself, then by iterion in a new process."""
    mine.write(agent(), ['work -> done'])
    busy = {'status': 529}
    with Provider(script(busy, busy, busy, {'text': 'at last'})) as p:
        mine.run(p)
        assert len(p.calls(with_tools=True)) == 4
    assert mine.output('work') == {'output': 'at last'}
    retries = of_type(mine.user.events(), 'delegate_retry')
    assert [(r['by'], r['status']) for r in retries] == [('claude', 529)] * 2 + [('iterion', 529)]
    assert [s['session'] for s in of_type(mine.user.events(), 'delegate_started')] == ['fresh', 'retry']


def test_an_error_of_the_provider(mine):
    mine.write(agent(), ['work -> done'])
    with Provider({'turns': [{'status': 401}], 'repeat': True}) as p:
        flags, env = mine.options(p)
        mine.user.fails('run', 'main.bot', *flags, env=env, code=1, says=['401', 'ANTHROPIC_API_KEY'])
    error, = of_type(mine.user.events(), 'delegate_error')
    assert error['status'] == 401


def test_too_many_steps(mine):
    mine.write(agent('work', 'tool_max_steps: 2'), ['work -> done'])
    with Provider(script(bash('true'), repeat=True)) as p:
        flags, env = mine.options(p)
        mine.user.fails('run', 'main.bot', *flags, env=env, code=1, says='tool_max_steps')
        assert len(p.calls(with_tools=True)) == 2


def test_conversations_go_on(mine):
    """The second agent has heard what the first one has; a fork is a conversation of its own."""
    mine.write(agent('first') + agent('second', 'session: inherit') + agent('third', 'session: fork'),
               ['first -> second', 'second -> third', 'third -> done'])
    with Provider(script(*({'text': f'ANSWER-{i}'} for i in range(3)))) as p:
        mine.run(p)
        heard = [json.dumps(c['body']['messages']) for c in p.calls(with_tools=True)]
    assert ['ANSWER-0' in h for h in heard] == [False, True, True]
    assert ['ANSWER-1' in h for h in heard] == [False, False, True]
    ids = [of_type(mine.user.events(), 'node_finished', n)[0]['_session_id'] for n in ('first', 'second', 'third')]
    assert ids[0] == ids[1] != ids[2]


def test_resume_knows_the_conversation(mine):
    mine.write(agent('first') + agent('second', 'session: inherit'), ['first -> second', 'second -> done'], sandbox=False)
    with Provider(script({'text': 'ANSWER-0'}, {'status': 401})) as p:
        mine.run(p, code=1, sandbox=False)
        p.use(script({'text': 'ANSWER-1'}))
        run_id, = mine.user.runs()
        mine.user.ok('resume', '--run-id', run_id, env=mine.options(p, sandbox=False)[1])
        assert 'ANSWER-0' in json.dumps(p.calls(with_tools=True)[-1]['body']['messages'])
    assert mine.output('second') == {'output': 'ANSWER-1'}


def test_a_router_chooses_by_a_model(mine):
    """What it may say is what its edges lead to."""
    nodes = ('router way:\n  mode: llm\n  backend: "claude_code"\n  user: task\n\n'
             'tool left:\n  command: "echo L"\n\ntool right:\n  command: "echo R"\n\n')
    mine.write(nodes, ['way -> left', 'way -> right', 'left -> done', 'right -> done'])
    with Provider(script({'structured': {'target': 'right'}})) as p:
        mine.run(p)
        tool, = [t for t in p.calls(with_tools=True)[0]['body']['tools'] if t['name'] == 'StructuredOutput']
    assert tool['input_schema']['properties']['target']['enum'] == ['left', 'right']
    assert mine.output('right')['output'] == 'R\n'


def test_a_conversation_that_is_not_there(mine):
    mine.write(agent('first', 'session: inherit'), ['first -> done'])
    with Provider(script({'text': 'never'})) as p:
        flags, env = mine.options(p)
        mine.user.fails('run', 'main.bot', *flags, env=env, code=1, says=['inherit', 'inherit_if_available'])
        assert not p.calls()
    mine.write(agent('first', 'session: inherit_if_available'), ['first -> done'])
    with Provider(script({'text': 'anew'})) as p:
        mine.run(p)


def test_tools_are_what_the_node_says(mine):
    mine.write(agent('reads', 'readonly: true') + agent('few', 'tools: [Read, Grep]') +
               agent('ruled', 'tool_policy: ["Bash(echo *)", "!Write"]'),
               ['reads -> few', 'few -> ruled', 'ruled -> done'])
    with Provider(script({'text': 'a'}, {'text': 'b'}, bash('touch made'), bash('echo yes'), {'text': 'c'})) as p:
        mine.run(p)
        calls = p.calls(with_tools=True)
    tools = [{t['name'] for t in c['body']['tools']} for c in calls]
    assert 'Read' in tools[0] and not tools[0] & {'Write', 'Edit', 'NotebookEdit', 'Bash'}
    assert tools[1] == {'Read', 'Grep'}
    assert 'Write' not in tools[2] and 'Bash' in tools[2]
    assert not os.path.exists(os.path.join(mine.user.workspace, 'made'))
    results = of_type(mine.user.events(), 'tool_called', 'ruled')
    assert [r.get('is_error', False) for r in results] == [True, False]


SERVER = '''
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get('method') == 'initialize':
        r = {'protocolVersion': m['params']['protocolVersion'], 'capabilities': {'tools': {}},
             'serverInfo': {'name': 'greeter', 'version': '1'}}
    elif m.get('method') == 'tools/list':
        r = {'tools': [{'name': 'greet', 'description': 'Greets.', 'inputSchema': {'type': 'object'}}]}
    elif m.get('method') == 'tools/call':
        r = {'content': [{'type': 'text', 'text': 'GREETING-WORD'}]}
    else:
        r = {}
    if 'id' in m:
        print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': r}), flush=True)
'''


def test_servers_of_tools(mine):
    """claude starts the workflow's MCP servers itself, in the sandbox."""
    mine.user.file('server.py', SERVER)
    server = ('mcp_server greeter:\n  transport: stdio\n  command: "/usr/bin/python3"\n  args: ["server.py"]\n'
              '  sandboxed: true\n\n')
    mine.write(server + agent('work', 'mcp:', '  servers: [greeter]'), ['work -> done'])
    with Provider(script({'tool': 'mcp__greeter__greet', 'input': {}}, {'text': 'greeted'})) as p:
        mine.run(p)
        calls = p.calls(with_tools=True)
    assert 'GREETING-WORD' in json.dumps(calls[1]['body']['messages'])
    assert of_type(mine.user.events(), 'tool_called')[0]['tool'] == 'mcp__greeter__greet'


def find(mark):
    """Processes with the mark in their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                if mark.encode() in f.read().split(b'\0'):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def system_prompt_of(workspace):
    """The file that the claude which works there was given."""
    option = '--append-system-prompt-file'
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', encoding='utf-8') as f:
                argv = f.read().split('\0')
            if option in argv and os.readlink(f'/proc/{pid}/cwd') == workspace:
                return argv[argv.index(option) + 1]
        except OSError:
            pass
    raise AssertionError(f'no claude works in {workspace}')


def test_a_cancelled_agent_leaves_nothing_running(mine):
    """On the host, where no sandbox ends it: not even what its tool put into a session of its own."""
    mark = f'97531.{os.getpid()}'
    mine.write(agent('work', 'tools: [Bash]', 'system: careful'), ['work -> done'], sandbox=False)
    with Provider(script(bash(f'setsid sleep {mark} >/dev/null 2>&1 & echo started'), {'hang': True})) as p:
        flags, env = mine.options(p, sandbox=False)
        run = mine.user.start('run', 'main.bot', *flags, env=env)
        p.wait(2)
        assert find(mark), 'the tool was to leave a process'
        prompt = system_prompt_of(mine.user.workspace)
        assert os.path.exists(prompt)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert not find(mark)
    assert of_type(mine.user.events(), 'delegate_started')[0]['permission_mode'] == 'default'
    assert not os.path.exists(prompt)


@pytest.mark.parametrize('where', ['.npm-global/lib/node_modules/@anthropic-ai/claude-code/bin', '.claude/local'])
def test_a_program_below_home_is_shared(mine, where):
    """The sandbox's HOME is empty, and claude is there all the same; nothing of it can be changed."""
    real = os.path.join(mine.user.folder('home', *where.split('/')), 'claude')
    link(os.path.join(mine.bin, 'claude'), real)
    bin_dir = mine.user.folder('home', 'bin')
    path = mine.user.env['PATH']
    if not where.startswith('.claude'):
        os.symlink(real, os.path.join(bin_dir, 'claude'))
        path = f'{bin_dir}:{path}'
    mine.user.file('main.bot', HEAD + SCHEMA + agent() + 'workflow w:\n' + block('host_state: none') +
                   '  entry: work\n  work -> done\n')
    with Provider(script(bash(f'ls -d {bin_dir}; touch {real}; rm -f {real}'), {'text': 'here'})) as p:
        mine.run(p, env={'PATH': path})
        seen = json.dumps(p.calls(with_tools=True)[1]['body']['messages'])
    assert mine.output('work') == {'output': 'here'}
    assert 'Read-only file system' in seen or 'Permission denied' in seen
    assert os.path.exists(real) and ('No such file' in seen or where.startswith('.claude'))


def test_a_program_that_is_not_there(me):
    me.file('main.bot', HEAD + SCHEMA + agent() + 'workflow w:\n  entry: work\n  work -> done\n')
    me.fails('run', 'main.bot', code=1, says=['run claude', 'install Claude Code'])


RESULT = '{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s"}'


@pytest.mark.parametrize('prints,code,says', [
    (f"echo '{RESULT}'", 0, None),
    (f"echo '{{\"type\":\"news\",\"x\":[]}}'; echo '{RESULT}'", 0, None),
    (f"printf '%s' '{RESULT}'", 0, None),
    (f"echo '{RESULT}'; exit 3", 1, 'exit code 3'),
    ("echo 'not JSON'; sleep 60", 1, 'no JSON object: not JSON'),
    ('echo [1]', 1, 'no JSON object'),
    ('head -c 17000000 /dev/zero; sleep 60', 1, 'a line of more than'),
    ('echo why it failed >&2; exit 1', 1, 'why it failed'),
    ('exit 0', 1, 'it did not say why'),
    ('kill -9 $$', 1, 'signal 9'),
    ("echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\"},7,{\"type\":\"text\",\"text\":5}]}}';"
     "echo '{\"type\":\"result\",\"is_error\":false,\"usage\":{\"input_tokens\":-4},\"modelUsage\":[]}'", 0, None),
])
def test_what_the_program_prints_is_not_trusted(me, prints, code, says):
    """A program that calls itself claude."""
    bin_dir = me.folder('bin')
    me.file(os.path.join(bin_dir, 'claude'), f'#!/bin/sh\ncat >/dev/null\n{prints}\n', 0o755)
    me.file('main.bot', HEAD + SCHEMA + agent() + 'workflow w:\n  entry: work\n  work -> done\n')
    env = {'PATH': f'{bin_dir}:{me.env["PATH"]}'}
    if code:
        me.fails('run', 'main.bot', env=env, code=code, says=says)
    else:
        me.ok('run', 'main.bot', env=env)
