"""Tools of MCP servers, called by agents of the backend claw: where a server runs, what it sees, how it ends."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from agents import KEY, everything_below, of_type
from conftest import skip
from provider import Provider

HERE = os.path.dirname(os.path.abspath(__file__))
SANDBOX = '  sandbox:\n    mode: inline\n    network:\n      mode: allowlist\n'
TOKEN = 'token-0123456789abcdef'


def stdio(name, *args, more='', script='${HOME}/server.py'):
    listed = ', '.join(f'"{a}"' for a in (script, *args))
    return f'mcp_server {name}:\n  transport: stdio\n  command: "/usr/bin/python3"\n  args: [{listed}]\n{more}\n'


class Place:
    """The server in the user's HOME and in the workspace, and a workflow of one agent."""

    def __init__(self, user):
        self.user = user
        with open(os.path.join(HERE, 'mcp_server.py'), 'rb') as f:
            text = f.read()
        for folder in (user.home, user.workspace):
            user.file(os.path.join(folder, 'server.py'), text, 0o755)
        self.log = os.path.join(user.base, 'log')

    def write(self, servers, *lines, sandbox=SANDBOX, workflow=''):
        agent = ''.join(f'  {line}\n' for line in lines)
        self.user.file('main.bot', '## strict-escape: on\n' + servers + 'prompt task:\n  Do it.\n\nagent work:\n'
                       '  model: "claude-sonnet-4-5"\n  backend: "claw"\n  user: task\n' + agent + '\nworkflow w:\n' + sandbox +
                       workflow + '  entry: work\n  work -> done\n')

    def env(self, p, **more):
        return {'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': p.url, **more}

    def run(self, turns, *flags, code=0, **env):
        """The results of the tools that the model was given, in order, and the names that it was offered."""
        with Provider({'turns': [*turns, {'text': 'done'}]}) as p:
            self.user.ok('run', 'main.bot', '--sandbox-driver', 'native', *flags, env=self.env(p, **env), code=code)
            calls = p.calls()
        results = [b for m in calls[-1]['body']['messages'] for b in m['content'] if isinstance(b, dict)
                   and b.get('type') == 'tool_result']
        return [text_of(b) for b in results], {t['name'] for t in calls[0]['body']['tools']}

    def said(self):
        with open(self.log, encoding='utf-8') as f:
            return [json.loads(line) for line in f]


def text_of(block):
    content = block['content']
    return content if isinstance(content, str) else ''.join(b.get('text', '') for b in content)


def use(tool, **given):
    return {'tool': [f'mcp__{tool.replace(".", "__")}', f'mcp.{tool}'], 'input': given}


def gone(pid):
    """Whether no process of that number runs (a zombie does not)."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'Z'
    except FileNotFoundError:
        return True


@pytest.fixture
def place(user):
    return Place(user)


@pytest.fixture
def mine(me):
    return Place(me)


@pytest.mark.parametrize('sandbox', [SANDBOX, ''], ids=['sandbox', 'host'])
def test_a_server_on_the_host(place, sandbox):
    """A declared server runs beside the engine, with its own environment, and ends with the run."""
    outside = os.path.join(place.user.base, 'outside')
    place.user.file(outside, 'x')
    place.write(stdio('test', '--pid', f'{place.user.base}/pid', more='  env:\n    MINE: "${GIVEN}"\n'), sandbox=sandbox)
    results, offered = place.run([use('test.where', text=outside), use('test.environment'), use('test.add', a=1, b=2)],
                                 GIVEN='a b')
    where, env = json.loads(results[0]), json.loads(results[1])
    assert where['there'] and where['cwd'] == (place.user.home if sandbox else place.user.workspace)
    assert env['MINE'] == 'a b' and env['HOME'] == place.user.home
    assert not [name for name in env if 'KEY' in name or 'ANTHROPIC' in name]
    assert json.loads(results[2]) == {'sum': 3}
    assert all(re.fullmatch(r'[a-zA-Z0-9_-]{1,64}', name) for name in offered), offered
    started, = of_type(place.user.events(), 'mcp_server_started')
    assert started['server'] == 'test' and started['where'] == 'host' and started['tools'] == 19
    assert gone(where['pid'])


def test_a_server_inside(place):
    """With sandboxed: true it sees what the sandbox sees."""
    outside = os.path.join(place.user.base, 'outside')
    place.user.file(outside, 'x')
    place.write(stdio('test', more='  sandboxed: true\n', script='server.py'))
    results, _ = place.run([use('test.where', text=outside), use('test.where', text='main.bot'),
                            use('test.environment')])
    assert not json.loads(results[0])['there'] and json.loads(results[1])['there']
    env = json.loads(results[2])
    assert 'https_proxy' in env and KEY not in json.dumps(env)
    assert of_type(place.user.events(), 'mcp_server_started')[0]['where'] == 'sandbox'


SHELL_SERVER = r"""
while read -r line
do
  case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}';;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"look"}]}}';;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"%s %s"}]}}\n' \
                        "$(cat /etc/from-image 2>/dev/null)" "$FROM_BLOCK";;
  esac
done
"""


@pytest.mark.parametrize('driver', ['native', 'docker', 'rootless'])
def test_inside_with_every_driver(driver, place_of):
    """In a container the server is a program of its image."""
    with place_of(driver) as p:
        p.user.file('server.sh', SHELL_SERVER)
        p.user.file('main.bot', 'mcp_server sh:\n  transport: stdio\n  command: "sh"\n  args: ["server.sh"]\n'
                    '  sandboxed: true\n\nprompt task:\n  Do it.\n\nagent work:\n  model: "claude-sonnet-4-5"\n'
                    '  backend: "claw"\n  user: task\n\nworkflow w:\n  entry: work\n' +
                    p.block('env:', '  FROM_BLOCK: "block"') + '  work -> done\n')
        # The user's network is one of his own, so the provider runs in it.
        with open(os.path.join(HERE, 'provider.py'), 'rb') as f:
            program = p.user.file(os.path.join(p.user.base, 'provider.py'), f.read())
        script = p.user.file(os.path.join(p.user.base, 'script'), json.dumps({'turns': [use('sh.look'), {'text': 'done'}]}))
        log = os.path.join(p.user.base, 'log')
        model = p.user.popen('/usr/bin/python3', program, '--port', '0', '--script', script, '--log', log)
        try:
            url = f'http://127.0.0.1:{json.loads(model.stdout.readline())["port"]}'
            p.user.ok('run', 'main.bot', *p.flags, env={'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': url})
        finally:
            model.kill()
            model.communicate()
        with open(log, encoding='utf-8') as f:
            last = json.loads(f.readlines()[-1])['body']['messages'][-1]['content'][0]
        assert text_of(last) == ('yes block' if p.engine else ' block')
        assert of_type(p.user.events(), 'mcp_server_started')[0]['where'] == 'sandbox'


def test_nothing_of_the_workspace_runs_outside(mine):
    """Not as the command, and not by way of PATH or of the folder that a server starts in."""
    mine.user.folder('workspace', 'bin')
    mine.user.file('bin/env', '#!/bin/sh\ntouch "$HOME/escaped"\n', 0o755)
    mine.write(f'mcp_server test:\n  transport: stdio\n  command: "{mine.user.workspace}/bin/env"\n\n')
    with Provider({'turns': []}) as p:
        mine.user.fails('run', 'main.bot', '--sandbox-driver', 'native', env=mine.env(p), code=1,
                        says=['MCP server test', 'a file of the workspace', 'sandboxed: true'])
    mine.write('mcp_server test:\n  transport: stdio\n  command: "env"\n  args: ["python3", "${HOME}/server.py"]\n\n')
    results, _ = mine.run([use('test.echo', text='ok')], PATH=f'bin:{mine.user.workspace}/bin:{mine.user.env["PATH"]}')
    assert results == ['ok']
    assert not os.path.exists(os.path.join(mine.user.home, 'escaped'))


def test_the_projects_file(place):
    """What .mcp.json names runs in the sandbox, and sees no variable of the user's shell."""
    outside = os.path.join(place.user.base, 'outside')
    place.user.file(outside, 'x')
    run = {'command': '/usr/bin/python3', 'args': ['server.py']}
    place.user.file('.mcp.json', json.dumps({'mcpServers': {
        'pj': run, 'thief': {**run, 'env': {'K': '${ANTHROPIC_API_KEY}'}}, 'web': {'url': 'http://127.0.0.1:1/'}}}))
    place.write('', workflow='  mcp:\n    autoload_project: true\n')
    results, offered = place.run([use('pj.where', text=outside)])
    assert not json.loads(results[0])['there']
    assert not [name for name in offered if 'thief' in name or 'web' in name]
    failed = of_type(place.user.events(), 'mcp_server_failed')
    assert len(failed) == 2 and all(f['hint'] for f in failed)
    assert KEY not in json.dumps(failed)


def test_the_projects_file_without_being_asked(mine):
    mine.user.file('.mcp.json', json.dumps({'mcpServers': {'pj': {'command': '/usr/bin/python3', 'args': ['server.py']}}}))
    mine.write('', sandbox='')
    _, offered = mine.run([])
    assert not [name for name in offered if 'mcp' in name]


def test_the_projects_file_and_a_node_on_the_host(mine):
    """A node that the workflow takes out of the sandbox does not take the workspace's servers with it."""
    mine.user.file('.mcp.json', json.dumps({'mcpServers': {'pj': {'command': '/usr/bin/python3', 'args': ['server.py']}}}))
    mine.write('', 'sandbox: none', workflow='  mcp:\n    autoload_project: true\n')
    _, offered = mine.run([])
    assert not [name for name in offered if 'mcp' in name]
    failed, = of_type(mine.user.events(), 'mcp_server_failed')
    assert "outside of the run's sandbox" in failed['error']


def test_in_a_worktree(mine):
    """On the host a server starts where the nodes work."""
    if not shutil.which('git'):
        skip('git is not installed')
    for args in (['init', '-q'], ['add', '.'], ['-c', 'user.name=t', '-c', 'user.email=t@example.org', 'commit', '-qm', 'x']):
        p = mine.user.popen('git', *args)
        assert p.communicate() and p.returncode == 0
    mine.write(stdio('test'), sandbox='', workflow='  worktree: auto\n')
    results, _ = mine.run([use('test.where', text='/')])
    assert json.loads(results[0])['cwd'].startswith(os.path.join(mine.user.store, 'worktrees'))


def test_filters(mine):
    """tools: and mcp: decide; a server that no pattern reaches is not even started."""
    mine.write(stdio('one') + stdio('two', '--exit', '1'), 'tools: [Read, mcp.one.*]', 'mcp:',
               '  disable: [mcp.one.crash*]')
    _, offered = mine.run([])
    named = {re.sub(r'.*[._]one[._]+', '', name) for name in offered if 'mcp' in name}
    assert {'echo', 'add'} <= named and not {'crash', 'crash_once'} & named
    assert len(of_type(mine.user.events(), 'mcp_server_started')) == 1


def test_a_crash_is_the_models_business(mine):
    mine.write(stdio('test'))
    results, _ = mine.run([use('test.crash'), use('test.echo', text='again')])
    assert 'exit code 3' in results[0] and 'the disk is on fire' in results[0]
    assert results[1] == 'again'


def test_a_server_that_does_not_start(mine):
    mine.write(stdio('test', '--exit', '7'))
    with Provider({'turns': [{'text': 'x'}]}) as p:
        mine.user.fails('run', 'main.bot', '--sandbox-driver', 'native', env=mine.env(p), code=1,
                        says=['MCP server test', 'exit code 7'])
        assert not p.calls()


def test_a_silent_server(mine):
    mine.write(stdio('test', '--mute'))
    with Provider({'turns': [{'text': 'x'}]}) as p:
        mine.user.fails('run', 'main.bot', '--sandbox-driver', 'native',
                        env=mine.env(p, ITERION_MCP_START_TIMEOUT='500ms'), code=1, says='did not get ready')


def test_a_call_that_takes_too_long(mine):
    mine.write(stdio('test', '--log', mine.log))
    results, _ = mine.run([use('test.hang'), use('test.echo', text='on')], ITERION_MCP_CALL_TIMEOUT='2s')
    assert 'did not answer within 2.0 s' in results[0]
    assert results[1] == 'on'
    assert [m for m in mine.said() if isinstance(m, dict) and m.get('method') == 'notifications/cancelled']


@pytest.mark.parametrize('stubborn', [[], ['--stubborn']], ids=['polite', 'stubborn'])
def test_an_interrupt_leaves_nothing(mine, stubborn):
    """SIGTERM under a call: the run ends, and so does the server, whatever it thinks of it."""
    fifo = os.path.join(mine.user.base, 'log')
    os.mkfifo(fifo)
    mine.user.own(fifo)
    mine.write(stdio('test', '--pid', f'{mine.user.base}/pid', '--log', fifo, *stubborn))
    # Open at both ends, so that nothing which the server says is lost or stops it, and a read waits.
    log = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
    with Provider({'turns': [use('test.hang')]}) as p:
        run = mine.user.start('run', 'main.bot', '--sandbox-driver', 'native', env=mine.env(p))
        said = b''
        while b'"hang"' not in said:
            said += os.read(log, 65536)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
        os.close(log)
    assert run.returncode == 143
    with open(os.path.join(mine.user.base, 'pid'), encoding='ascii') as f:
        assert all(gone(int(line)) for line in f)


class Web:
    """The server over HTTP, outside of any sandbox."""

    def __init__(self, *args):
        self.p = subprocess.Popen([sys.executable, os.path.join(HERE, 'mcp_server.py'), *args], stdout=subprocess.PIPE)
        self.port = int(self.p.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()


@pytest.mark.parametrize('transport, args, path', [('http', ['--http'], '/mcp'), ('http', ['--http', '--events'], '/mcp'),
                                                   ('sse', ['--sse'], '/sse')], ids=['json', 'events', 'sse'])
def test_over_http(mine, transport, args, path):
    """With a token from the environment, which stays there."""
    with Web(*args, '--token', TOKEN, '--page', '3') as web:
        mine.write(f'mcp_server web:\n  transport: {transport}\n  url: "http://127.0.0.1:{web.port}{path}"\n  auth:\n'
                   '    type: bearer\n    token: "${SERVER_TOKEN}"\n\n')
        results, _ = mine.run([use('web.echo', text='over the wire')], SERVER_TOKEN=TOKEN)
    assert results == ['over the wire']
    assert not [n for folder in (mine.user.store, mine.user.workspace, mine.user.home)
                for n, data in everything_below(folder) if TOKEN.encode() in data]


def test_no_token(mine):
    with Web('--http', '--token', TOKEN) as web, Provider({'turns': []}) as p:
        mine.write(f'mcp_server web:\n  transport: http\n  url: "http://127.0.0.1:{web.port}/mcp"\n  auth:\n'
                   '    type: bearer\n    token: "${SERVER_TOKEN:-}"\n\n')
        mine.user.fails('run', 'main.bot', '--sandbox-driver', 'native', env=mine.env(p), code=1,
                        says=['MCP server web', 'token'])


def test_nodes_share_a_server(mine):
    """Two agents one after the other: started once."""
    mine.user.file('main.bot', '## strict-escape: on\n' + stdio('test') + 'prompt task:\n  Do it.\n\n' + ''.join(
        f'agent {n}:\n  model: "claude-sonnet-4-5"\n  backend: "claw"\n  user: task\n\n' for n in ('one', 'two')) +
        'workflow w:\n' + SANDBOX + '  entry: one\n  one -> two\n  two -> done\n')
    mine.run([use('test.echo', text='a'), {'text': 'done'}, use('test.echo', text='b')])
    assert len(of_type(mine.user.events(), 'mcp_server_started')) == 1
    assert len(of_type(mine.user.events(), 'node_finished')) == 2


PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='


@pytest.mark.parametrize('model, seen', [('claude-sonnet-4-5', True), ('openai-responses/gpt-5.1', True),
                                         ('openai-chat/llama', False)])
def test_images_are_shown_to_models_that_see(mine, model, seen):
    """What is no image of the kinds that models take, or too large, stays words."""
    mine.write(stdio('test'))
    with open(os.path.join(mine.user.workspace, 'main.bot'), encoding='utf-8') as f:
        mine.user.file('main.bot', f.read().replace('claude-sonnet-4-5', model))
    images = [{'type': 'image', 'mimeType': 'image/jpeg', 'data': PNG},
              {'type': 'image', 'mimeType': 'image/svg+xml', 'data': 'PHN2ZyB4bWxucz0iaHR0cDov'},
              {'type': 'image', 'mimeType': 'image/png', 'data': PNG[:-4] + 'AAAA' * 300000}]
    with Provider({'turns': [use('test.image', file=mine.user.file('images', json.dumps(images))), {'text': 'done'}]}) as p:
        env = mine.env(p) if 'claude' in model else {'OPENAI_API_KEY': KEY, 'OPENAI_BASE_URL': p.url + '/v1'}
        mine.user.ok('run', 'main.bot', '--sandbox-driver', 'native', env=env)
        body = p.calls()[1]['body']
    text = json.dumps(body)
    assert 'look\\n[image: image/jpeg, ' in text and '[image: image/svg+xml, ' in text
    assert text.count(PNG[:60]) == (1 if seen else 0) and 'PHN2ZyB4' not in text
    if 'claude' in model:
        result, image = body['messages'][-1]['content']
        assert result['type'] == 'tool_result'
        assert image['source'] == {'type': 'base64', 'media_type': 'image/png', 'data': PNG}
    elif seen:
        assert f'data:image/png;base64,{PNG}' in text
