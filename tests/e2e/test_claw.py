"""Agents of the backend claw, with the real runner, against a provider that says what a script says."""
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agents import KEY, block, everything_below, of_type
from conftest import skip
from provider import Provider
from test_agents_container import provider as provider_in

HEAD = '## strict-escape: on\n'
TEXTS = '''
schema answer:
  n: int
  word: string [enum: "left", "right"]

prompt task:
  Write hi into the file f. PROMPT-WORD

prompt careful:
  SYSTEM-WORD

'''
MODELS = {'anthropic': 'claude-sonnet-4-5', 'responses': 'openai-responses/gpt-5.1', 'chat': 'openai-chat/llama'}
ANY_SANDBOX = '  sandbox:\n    mode: inline\n    network:\n      mode: allowlist\n'


def bash(command, **more):
    return {'tool': 'Bash', 'input': {'command': command, 'description': 'for the test'}, **more}


def agent(name='work', *lines, model='claude-sonnet-4-5'):
    return f'agent {name}:\n  model: "{model}"\n  backend: "claw"\n  user: task\n' + ''.join(
        f'  {line}\n' for line in lines) + '\n'


class Place:
    def __init__(self, user):
        self.user = user

    def write(self, nodes, *edges, sandbox=ANY_SANDBOX):
        edges = edges or ('work -> done',)
        text = HEAD + TEXTS + nodes + '\nworkflow w:\n' + sandbox
        self.user.file('main.bot', text + f'  entry: {edges[0].split()[0]}\n' + ''.join(f'  {e}\n' for e in edges))

    def env(self, p, api='anthropic'):
        if api == 'anthropic':
            return {'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': p.url}
        return {'OPENAI_API_KEY': KEY, 'OPENAI_BASE_URL': p.url + '/v1'}

    def flags(self):
        return ('--sandbox-driver', 'native')

    def run(self, p, *flags, code=0, api='anthropic', env=None):
        return self.user.ok('run', 'main.bot', *self.flags(), *flags, env={**self.env(p, api), **(env or {})}, code=code)

    def output(self, node='work'):
        return of_type(self.user.events(), 'node_finished', node)[-1]['output']

    def read(self, name):
        with open(os.path.join(self.user.workspace, name), encoding='utf-8') as f:
            return f.read()


@pytest.fixture
def place(user):
    return Place(user)


@pytest.fixture
def mine(me):
    return Place(me)


@pytest.mark.parametrize('sandbox', [ANY_SANDBOX, ''], ids=['sandbox', 'host'])
def test_a_task_with_a_tool_call(place, sandbox):
    """The tool's effect is in the workspace, the answer has the schema's fields, and the key is nowhere."""
    place.write(agent('work', 'system: careful', 'output: answer') + 'tool after:\n  command: "env; cat f"\n\n',
                'work -> after', 'after -> done', sandbox=sandbox)
    look = 'echo hi > f; env > seen; cat /proc/net/route > route 2>/dev/null; exit 0'
    with Provider({'turns': [bash(look), {'structured': {'n': 1, 'word': 'left'}}]}) as p:
        done = place.run(p)
        calls = p.calls()
    assert place.output() == {'n': 1, 'word': 'left'}
    assert place.read('f') == 'hi\n'
    assert calls[0]['headers']['x-api-key'] == KEY
    assert 'PROMPT-WORD' in json.dumps(calls[0]['body']['messages'])
    assert 'SYSTEM-WORD' in json.dumps(calls[0]['body']['system'])
    assert calls[0]['body']['stream'] is True
    assert {'Bash', 'Read', 'Write', 'Edit', 'Grep', 'Glob', 'WebFetch'} <= {t['name'] for t in calls[0]['body']['tools']}
    events = place.user.events()
    routed = of_type(events, 'sandbox_claw_routed_via_runner')
    assert [sorted(r) for r in routed] == ([['binary', 'reason']] if sandbox else [])
    assert [t['tool'] for t in of_type(events, 'tool_called')][0] == 'Bash'
    assert of_type(events, 'tool_started')[0]['preview']
    steps = of_type(events, 'llm_step_finished')
    assert len(steps) == 2 == len(of_type(events, 'llm_request'))
    assert steps[0]['input_tokens'] == 10 and steps[0]['stop_reason'] == 'tool_use'
    finished, = of_type(events, 'node_finished', 'work')
    assert finished['_tokens'] == 30 and finished['_cost_usd'] == pytest.approx(20 * 3e-6 + 10 * 15e-6)
    assert finished['formatting_pass_used'] is False
    for text in (place.output('after')['output'], place.read('seen'), done.stdout, done.stderr):
        assert KEY not in text and 'ANTHROPIC' not in text
    found = [name for folder in (place.user.store, place.user.workspace, place.user.home)
             for name, data in everything_below(folder) if KEY.encode() in data]
    assert not found
    if sandbox:
        assert len(place.read('route').splitlines()) <= 1


@pytest.mark.parametrize('api', list(MODELS))
def test_every_interface(mine, api):
    mine.write(agent('work', 'output: answer', model=MODELS[api]), sandbox='')
    with Provider({'turns': [bash('echo hi > f'), {'text': 'all done'},
                             {'structured': {'n': 2, 'word': 'right'}}]}) as p:
        mine.run(p, api='anthropic' if api == 'anthropic' else 'openai')
        calls = p.calls()
    assert mine.output() == {'n': 2, 'word': 'right'}
    assert mine.read('f') == 'hi\n'
    assert [c['path'] for c in calls] == [{'anthropic': '/v1/messages', 'responses': '/v1/responses',
                                           'chat': '/v1/chat/completions'}[api]] * 3
    # The last one is the forced call that gives the fields.
    assert 'structured_output' in json.dumps(calls[2]['body']['tool_choice'])
    finished, = of_type(mine.user.events(), 'node_finished', 'work')
    assert finished['formatting_pass_used'] is True


def test_a_compatible_server_is_asked_by_chat_completions(mine):
    """A name that says nothing goes to the server of OPENAI_BASE_URL, without a key."""
    mine.write(agent(model='qwen3'), sandbox='')
    with Provider({'turns': [{'text': 'hello'}]}) as p:
        mine.user.ok('run', 'main.bot', env={'OPENAI_BASE_URL': p.url + '/v1'})
        call, = p.calls()
    assert call['path'] == '/v1/chat/completions' and call['body']['model'] == 'qwen3'
    assert 'authorization' not in call['headers']
    assert mine.output() == {'output': 'hello'}


def test_refusals_that_pass_are_tried_again(mine):
    mine.write(agent(), sandbox='')
    turns = [{'status': 429, 'retry_after': 0, 'message': 'slow down'}, {'text': 'cut', 'truncate': True},
             {'text': 'hello'}]
    with Provider({'turns': turns}) as p:
        mine.run(p)
    assert mine.output() == {'output': 'hello'}
    retries = of_type(mine.user.events(), 'llm_retry')
    assert [(r['attempt'], r['status']) for r in retries] == [(1, 429), (2, 0)]
    assert retries[0]['delay_ms'] <= retries[1]['delay_ms']


@pytest.mark.parametrize('status, word', [(401, 'ANTHROPIC_API_KEY'), (404, 'model'), (400, 'reasoning_effort')])
def test_refusals_for_good(mine, status, word):
    """The provider's words are shown, without the key that it repeats."""
    mine.write(agent(), sandbox='')
    with Provider({'turns': [{'status': status, 'message': f'no, {KEY} is not good'}]}) as p:
        done = mine.user.fails('run', 'main.bot', env=mine.env(p), code=1, says=(f'HTTP {status}', 'is not good', word))
        assert len(p.calls()) == 1
    assert KEY not in done.stderr
    assert not [n for n, data in everything_below(mine.user.store) if KEY.encode() in data]


def test_no_key(mine):
    mine.write(agent(), sandbox='')
    mine.user.fails('run', 'main.bot', code=2, says=('node work', 'no key is set', 'ANTHROPIC_API_KEY'))
    assert not mine.user.runs()


def test_an_answer_is_repaired_once(mine):
    mine.write(agent('work', 'output: answer'), sandbox='')
    bad, good = {'structured': {'n': 1, 'word': 'up'}}, {'structured': {'n': 1, 'word': 'left'}}
    with Provider({'turns': [bad, good]}) as p:
        mine.run(p)
        assert 'word' in json.dumps(p.calls()[1]['body']['messages'][-1])
    assert mine.output() == {'n': 1, 'word': 'left'}
    with Provider({'turns': [bad], 'repeat': True}) as p:
        mine.user.fails('run', 'main.bot', env=mine.env(p), code=1, says='word')
        assert len(p.calls()) == 2


def test_steps_are_bounded(mine):
    mine.write(agent('work', 'tool_max_steps: 3'), sandbox='')
    with Provider({'turns': [bash('true')], 'repeat': True}) as p:
        mine.user.fails('run', 'main.bot', env=mine.env(p), code=1, says='steps')
        assert 3 <= len(p.calls()) <= 4


class Web(ThreadingHTTPServer):
    """Pages, and a redirect to another host."""

    def __init__(self):
        outer = self
        self.paths = []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.paths.append((self.headers['Host'], self.path))
                if self.path == '/away':
                    self.send_response(302)
                    self.send_header('Location', f'http://other.test:{outer.server_address[1]}/page')
                    self.send_header('Content-Length', '0')
                    self.end_headers()
                    return
                body = b'WEB-WORD' if self.path == '/page' else b'\0\1'
                self.send_response(200)
                self.send_header('Content-Type', 'text/html' if self.path == '/page' else 'image/png')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def test_pages_are_fetched_by_the_run_s_policy(mine):
    """A host of the list is read, another is not; neither is one that a redirect or a name leads to."""
    web = Web()
    port = web.server_address[1]

    def fetch(url):
        return {'tool': 'WebFetch', 'input': {'url': url}}

    urls = [f'http://web.test:{port}/page', f'http://other.test:{port}/page', f'http://web.test:{port}/away',
            f'http://x.loop.test:{port}/page', f'http://web.test:{port}/image', 'file:///etc/passwd',
            f'HTTP://WEB.test.:{port}/page']
    mine.write(agent(), sandbox=block(rules=('web.test', '**.loop.test')))
    with Provider({'turns': [fetch(u) for u in urls] + [{'text': 'done'}]}) as p:
        mine.run(p, '--resolve', 'web.test:127.0.0.1', '--resolve', 'other.test:127.0.0.1', '--resolve',
                 'x.loop.test:127.0.0.1')
        last = p.calls()[-1]['body']['messages']
    web.shutdown()
    results = [b for m in last for b in m['content'] if b['type'] == 'tool_result']
    texts = [json.dumps(r['content']) for r in results]
    assert 'WEB-WORD' in texts[0] and not results[0].get('is_error')
    assert all(r.get('is_error') for r in results[1:6])
    # One spelling is judged and dialled.
    assert 'WEB-WORD' in texts[6] and not results[6].get('is_error'), texts[6]
    assert 'policy denies' in texts[1] and 'policy denies' in texts[2] and 'policy denies' in texts[3]
    assert 'no text' in texts[4] and 'no URL' in texts[5]
    assert [path for _, path in web.paths] == ['/page', '/away', '/image', '/page']
    blocked = of_type(mine.user.events(), 'network_blocked')
    assert [b['host'] for b in blocked] == ['other.test', 'other.test', 'x.loop.test']


def test_tools_are_limited(mine):
    mine.write(agent('work', 'tools: [Read, Grep]', 'readonly: true'), sandbox='')
    with Provider({'turns': [bash('echo hi > f'), {'text': 'done'}]}) as p:
        mine.run(p)
        assert {t['name'] for t in p.calls()[0]['body']['tools']} == {'Read', 'Grep'}
        result = p.calls()[1]['body']['messages'][-1]['content'][0]
    assert result['is_error']
    assert not os.path.exists(os.path.join(mine.user.workspace, 'f'))


@contextlib.contextmanager
def started(place, p):
    """A run under way, which does not outlive what is done with it."""
    run = place.user.start('run', 'main.bot', env=place.env(p))
    try:
        yield run
    finally:
        if run.poll() is None:
            run.kill()
        run.communicate()


def is_gone(pid):
    """Ended: whether somebody has waited for it is not this test's affair."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
            return f.read().rsplit(')', 1)[1].split()[0] in 'ZX'
    except FileNotFoundError:
        return True


def parent_of(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
            return int(f.read().rsplit(')', 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def runner_of(run):
    """The runner's process, by its argument and its ancestors: it is not dumpable, so its environment is root's to see."""
    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                argv = f.read().split(b'\0')
        except (FileNotFoundError, ProcessLookupError):
            continue
        above = pid
        while above > 1 and above != run.pid:
            above = parent_of(above)
        if argv[1:2] == [b'__claw-runner'] and above == run.pid:
            return pid
    pytest.fail('there is no runner')


def test_a_killed_runner_goes_on(mine):
    """The finished tool call is not repeated, and what the killed runner had left behind is gone."""
    mine.write(agent(), sandbox='')
    command = ('echo once >> f; setsid sh -c "echo \\$\\$ > pid; sleep 1000" >/dev/null 2>&1 </dev/null & '
               'until test -s pid; do :; done')
    with Provider({'turns': [bash(command), {'hang': True}, {'text': 'done'}]}) as p:
        with started(mine, p) as run:
            p.wait(2)
            left = int(mine.read('pid'))
            assert not is_gone(left)
            os.kill(runner_of(run), signal.SIGKILL)
            out, err = run.communicate(timeout=30)
        assert run.returncode == 0, err
        assert len(p.calls()) == 3
        assert 'once' in json.dumps(p.calls()[2]['body']['messages'])
    assert mine.read('f') == 'once\n'
    assert of_type(mine.user.events(), 'claw_runner_restarted')[0]['signal'] == 9
    assert is_gone(left)


def test_a_killed_runner_leaves_nothing_in_its_sandbox(mine):
    """Its leftovers are found although the programs of a sandbox are kept apart."""
    mine.write(agent())
    command = ('setsid sh -c "echo \\$\\$ > pid; sleep 1000" >/dev/null 2>&1 </dev/null & until test -s pid; do :; done; '
               'kill -0 $(cat pid) && echo it-lives')
    look = 'if kill -0 $(cat pid); then echo it-stayed; else echo it-is-gone; fi'
    with Provider({'turns': [bash(command), {'hang': True}, bash(look), {'text': 'done'}]}) as p:
        with started(mine, p) as run:
            p.wait(2)
            assert 'it-lives' in json.dumps(p.calls()[1]['body']['messages'][-1])
            os.kill(runner_of(run), signal.SIGKILL)
            out, err = run.communicate(timeout=30)
        assert run.returncode == 0, err
        assert 'it-is-gone' in json.dumps(p.calls()[3]['body']['messages'][-1])


def test_a_killed_run_resumes_its_conversation(mine):
    mine.write(agent(), sandbox='')
    with Provider({'turns': [bash('echo once >> f'), {'hang': True}, {'text': 'done'}]}) as p:
        with started(mine, p) as run:
            p.wait(2)
            run.kill()
            run.communicate()
        mine.user.ok('resume', '--last', env=mine.env(p))
        assert len(p.calls()) == 3
        assert 'once' in json.dumps(p.calls()[2]['body']['messages'])
    assert mine.read('f') == 'once\n'
    assert mine.output() == {'output': 'done'}
    resumed, = of_type(mine.user.events(), 'claw_resumed')
    assert resumed['step'] == 1
    store = os.path.join(mine.user.store, 'runs', mine.user.runs()[-1])
    with open(os.path.join(store, 'recoveries', 'work-1.json'), encoding='utf-8') as f:
        kept = json.load(f)
    assert kept['status'] == 'finished'
    assert kept['conversation'] == {'backend': 'claw', 'session_id': resumed['session_id'], 'step': 1}


def test_a_cancelled_run_leaves_nothing(mine):
    mine.write(agent(), sandbox='')
    with Provider({'turns': [{'hang': True}]}) as p:
        with started(mine, p) as run:
            p.wait(1)
            runner = runner_of(run)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=30)
    assert run.returncode == 130, err
    assert is_gone(runner)


def test_a_conversation_is_inherited(mine):
    nodes = agent() + agent('more', 'session: inherit')
    mine.write(nodes, 'work -> more', 'more -> done', sandbox='')
    with Provider({'turns': [{'text': 'FIRST-WORD'}, {'text': 'second'}]}) as p:
        mine.run(p)
        second = p.calls()[1]['body']['messages']
    assert 'FIRST-WORD' in json.dumps(second) and len(second) == 3
    assert mine.output('more') == {'output': 'second'}


def test_a_model_is_asked_over_the_user_s_proxy(mine):
    """HTTPS_PROXY and its kin of the host are for the provider's requests."""
    mine.write(agent(), sandbox='')
    with socket.create_server(('127.0.0.1', 0)) as listener:
        heads = []

        def serve():
            conn, _ = listener.accept()
            with conn:
                heads.append(conn.recv(65536))
                conn.sendall(b'HTTP/1.1 400 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        mine.user.fails('run', 'main.bot', code=1, says='HTTP 400', env={
            'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': 'http://provider.test',
            'http_proxy': f'http://127.0.0.1:{listener.getsockname()[1]}'})
        thread.join(10)
    assert heads[0].startswith(b'POST http://provider.test/v1/messages HTTP/1.1')


def asking():
    return {'turns': [bash('echo once >> f'), {'tool': 'ask_user', 'input': {'question': 'QUESTION-WORD?', 'options': [
        'red', 'blue']}}, {'text': 'thanks'}]}


def test_a_question_pauses_the_run(mine):
    """Nobody is there: the run pauses with the question, and the answer goes into the same conversation."""
    mine.write(agent('work', 'interaction: human'), sandbox='')
    with Provider(asking()) as p:
        paused = mine.run(p, code=3)
        assert 'work' in paused.stderr
        asked, = of_type(mine.user.events(), 'human_input_requested')
        assert asked['instructions'] == 'QUESTION-WORD?\n- red\n- blue'
        mine.user.fails('resume', '--last', env=mine.env(p), says='answer')
        mine.user.ok('resume', '--last', '--answer', 'answer=ANSWER-WORD', env=mine.env(p))
        calls = p.calls()
    assert len(calls) == 3
    result = calls[2]['body']['messages'][-1]['content'][0]
    assert result['type'] == 'tool_result' and 'ANSWER-WORD' in json.dumps(result)
    assert mine.read('f') == 'once\n' and mine.output() == {'output': 'thanks'}
    assert of_type(mine.user.events(), 'human_answers_recorded')[0]['answers'] == {'answer': 'ANSWER-WORD'}
    assert len(of_type(mine.user.events(), 'node_started', 'work')) == 1


LIMITED = '  budget:\n    max_tokens: 1000\n'


def test_a_budget_stops_an_agent_that_goes_on(mine):
    """After the answer that used it up nothing more is asked, the run can be resumed, and what was used stays used."""
    mine.write(agent(), sandbox=LIMITED)
    uses = {'usage': {'input': 300, 'output': 100}}
    with Provider({'turns': [bash('echo once >> f', **uses)] * 9 + [{'text': 'done'}]}) as p:
        run = mine.run(p, code=1)
        assert 'its limit max_tokens: 1200 of 1000' in run.stderr and len(p.calls()) == 3
        mine.user.fails('resume', '--last', env=mine.env(p), code=1, says='1200 of 1000')
        assert len(p.calls()) == 3
        mine.user.file('main.bot', mine.read('main.bot').replace('max_tokens: 1000', 'max_tokens: 1900'))
        mine.user.fails('resume', '--last', '--force', env=mine.env(p), code=1, says='2000 of 1900')
        assert len(p.calls()) == 5
    events = mine.user.events()
    assert [e['used'] for e in of_type(events, 'budget_exceeded')] == [1200, 1200, 2000]
    assert [e['used'] for e in of_type(events, 'budget_warning')][:1] == [800]
    assert mine.read('f') == 'once\n' * 5


def test_an_answer_that_is_there_is_not_stopped(mine):
    mine.write(agent(), sandbox=LIMITED)
    with Provider({'turns': [bash('echo once >> f', usage={'input': 100, 'output': 1}),
                             {'text': 'done', 'usage': {'input': 2000, 'output': 9}}]}) as p:
        mine.run(p)
    end, = of_type(mine.user.events(), 'node_finished')
    assert end['_tokens'] == 2110


def test_a_killed_run_has_used_what_it_used(mine):
    mine.write(agent(), sandbox=LIMITED)
    with Provider({'turns': [bash('echo once >> f', usage={'input': 900, 'output': 1}), {'hang': True}]}) as p:
        with started(mine, p) as run:
            p.wait(2)
            run.kill()
            run.communicate()
        record = json.loads(mine.user.ok('inspect', mine.user.runs()[-1], '--json').stdout)
        assert record['checkpoint']['used']['tokens'] == 901


def test_a_node_that_began_again_has_used_both(mine):
    """Killed in its second life too, after its end was written and before that was in a checkpoint."""
    mine.write(agent(), sandbox=LIMITED)
    with Provider({'turns': [bash('true', usage={'input': 900, 'output': 1}), {'hang': True}, {'hang': True}]}) as p:
        for argv, calls in ((('run', 'main.bot'), 2), (('resume', '--last'), 3)):
            run = mine.user.start(*argv, env=mine.env(p))
            p.wait(calls)
            run.kill()
            run.communicate()
    path = os.path.join(mine.user.store, 'runs', mine.user.runs()[-1], 'events.jsonl')
    events = mine.user.events()
    begun = [e for e in events if e['type'] == 'node_started'][-1]
    end = {**begun, 'type': 'node_finished', 'seq': events[-1]['seq'] + 1,
           'data': {'output': {'output': 'done'}, '_tokens': 5, 'duration_ms': 1}}
    with open(path, 'a', encoding='utf-8') as f:
        f.write(json.dumps(end) + '\n')
    mine.user.ok('resume', '--last', env=mine.env(p))
    record = json.loads(mine.user.ok('inspect', mine.user.runs()[-1], '--json').stdout)
    assert record['checkpoint']['used']['tokens'] == 906


EXTRA = '''
prompt when:
  ASK-WORD about {{vars.topic}}

cursor tone:
  description: "how answers sound"
  values:
    terse: "TERSE-WORD"
    long: "LONG-WORD"

cursor care:
  bands:
    "0.0..0.5": "LITTLE-CARE"
    "0.5..1.0": "MUCH-CARE"

vars:
  topic: string = "colours"

'''


def system_of(call):
    return json.dumps(call['body']['system'])


@pytest.mark.parametrize('interaction, heard', [('human', True), ('none', False)])
def test_how_to_ask_is_told_to_who_may_ask(mine, interaction, heard):
    mine.write(EXTRA + agent('work', f'interaction: {interaction}', 'interaction_prompt: when', 'system: careful'),
               sandbox='')
    with Provider({'turns': [{'text': 'done'}]}) as p:
        run = mine.run(p)
        system = system_of(p.calls()[0])
    assert 'SYSTEM-WORD' in system and ('ASK-WORD about colours' in system) is heard
    assert ('C049' in run.stderr) is not heard


@pytest.mark.parametrize('enabled', [True, False])
def test_cursors_are_told_to_the_model(mine, enabled):
    mine.write(EXTRA + agent('work', 'cursors:', '  tone: "terse"', '  care: 0.75',
                             *([] if enabled else ['  enabled: false'])), sandbox='')
    with Provider({'turns': [{'text': 'done'}]}) as p:
        mine.run(p)
        body = json.dumps(p.calls()[0]['body'].get('system', ''))
    assert ('tone (how answers sound): terse. TERSE-WORD' in body) is enabled
    assert ('care: 0.75. MUCH-CARE' in body) is enabled
    assert 'LONG-WORD' not in body and 'LITTLE-CARE' not in body


def test_memory_is_not_left_out_silently(mine):
    mine.write(agent('work', 'memory:', '  enabled: true', '  scope: "notes"'), sandbox='')
    with Provider({'turns': [{'text': 'done'}]}) as p:
        run = mine.run(p)
    assert 'C047' in run.stderr
    warned, = of_type(mine.user.events(), 'delegate_warning')
    assert warned['code'] == 'ignored_properties' and 'memory' in warned['message']


def test_nobody_is_asked_without_interaction(mine):
    mine.write(agent(), sandbox='')
    with Provider(asking()) as p:
        mine.run(p)
        assert 'ask_user' not in {t['name'] for t in p.calls()[0]['body']['tools']}


class Tls:
    """The mock provider behind TLS with a certificate that only its own authority vouches for."""

    def __init__(self, provider, folder):
        self.cert, self.key = os.path.join(folder, 'ca.pem'), os.path.join(folder, 'ca.key')
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
                        '-addext', 'subjectAltName=DNS:localhost', '-keyout', self.key, '-out', self.cert], check=True,
                       stderr=subprocess.DEVNULL)
        os.chmod(self.cert, 0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        provider.server.socket = context.wrap_socket(provider.server.socket, server_side=True)
        self.url = f'https://localhost:{provider.port}'


def test_a_certificate_is_always_verified(mine):
    if not shutil.which('openssl'):
        skip('openssl is not installed')
    mine.write(agent(), sandbox='')
    with Provider({'turns': [{'text': 'hello'}]}) as p:
        tls = Tls(p, mine.user.folder('tls'))
        env = {'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': tls.url}
        mine.user.fails('run', 'main.bot', env=env, code=1, says='SSL_CERT_FILE')
        assert not p.calls()
        mine.user.ok('run', 'main.bot', env={**env, 'SSL_CERT_FILE': tls.cert})
    assert mine.output() == {'output': 'hello'}


def test_without_libcurl(mine):
    """What is missing is named; a run that asks no model does not need it."""
    if mine.user.popen('unshare', '-Urm', 'true').wait(timeout=30):
        skip('unprivileged user namespaces, in which a library can be hidden, are not there')
    mine.write(agent(), sandbox='')
    libraries = subprocess.run(['sh', '-c', "/sbin/ldconfig -p | sed -n 's/.*=> *//p' | grep -E 'libcurl(-gnutls)?.so.4$'"],
                               check=False, capture_output=True, text=True).stdout.split()
    assert libraries
    hide = ' && '.join(f'mount --bind /dev/null "$(realpath {lib})"' for lib in libraries)
    p = mine.user.popen('unshare', '-Urm', 'sh', '-c', f'{hide} && exec "$0" "$@"', mine.user.program, 'run', 'main.bot',
                        env={'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': 'http://127.0.0.1:9'})
    _, err = p.communicate(timeout=30)
    assert p.returncode == 1
    assert b'load libcurl' in err and b'libcurl4' in err
    mine.user.file('main.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  t -> done\n')
    p = mine.user.popen('unshare', '-Urm', 'sh', '-c', f'{hide} && exec "$0" "$@"', mine.user.program, 'run', 'main.bot')
    _, err = p.communicate(timeout=30)
    assert p.returncode == 0, err


def test_many_agents_at_once(mine):
    """They share the client and its connections, and each gets its own answer."""
    names = [f'a{i}' for i in range(12)]
    nodes = 'router all:\n  mode: fan_out_all\n\n' + ''.join(
        f'prompt p_{n}:\n  say {n}-WORD\n\n' + agent(n, 'readonly: true').replace('user: task', f'user: p_{n}')
        for n in names) + 'tool end:\n  command: "true"\n  await: wait_all\n\n'
    mine.write(nodes, *[f'all -> {n}' for n in names], *[f'{n} -> end' for n in names], 'end -> done', sandbox='')
    rules = [{'match': f'{n}-WORD', 'turns': [{'tool': 'Grep', 'input': {'pattern': 'x'}}, {'text': f'I am {n}'}]}
             for n in names]
    with Provider({'rules': rules}) as p:
        mine.run(p)
    assert [mine.output(n) for n in names] == [{'output': f'I am {n}'} for n in names]


def test_a_model_chooses_the_way(mine):
    """An llm router and a human node that a model answers for go by claw too."""
    nodes = ('router pick:\n  mode: llm\n  model: "claude-sonnet-4-5"\n  backend: "claw"\n  user: task\n\n'
             'tool left:\n  command: "echo left"\n\ntool right:\n  command: "echo right"\n\n')
    nodes += ('human say:\n  interaction: llm\n  model: "claude-sonnet-4-5"\n  instructions: task\n'
              '  output: answer\n\n')
    mine.write(nodes, 'pick -> left', 'pick -> right', 'left -> done', 'right -> say', 'say -> done',
               sandbox='  default_backend: "claw"\n')
    with Provider({'turns': [{'structured': {'target': 'right'}}, {'structured': {'n': 1, 'word': 'left'}}]}) as p:
        mine.run(p)
        calls = p.calls()
    assert 'right' in mine.output('right')['output'] and mine.output('say') == {'n': 1, 'word': 'left'}
    # Who only answers has no tools to work with.
    assert [[t['name'] for t in c['body']['tools']] for c in calls] == [['structured_output']] * 2


def test_a_task_in_a_container(container, world):
    """The guest is the runner there too; the container has no network, and the model is asked all the same."""
    user = container.user
    nodes = agent('work', 'output: answer')
    user.file('main.bot', HEAD + TEXTS + nodes + '\nworkflow w:\n' + container.block(network='allowlist') +
              '  entry: work\n  work -> done\n')
    script = {'turns': [bash('echo hi > f; cat /etc/from-image > image'), {'structured': {'n': 7, 'word': 'left'}}]}
    with provider_in(world, script) as (port, _):
        user.ok('run', 'main.bot', *container.flags, timeout=120,
                env={'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': f'http://127.0.0.1:{port}'})
    events = user.events()
    assert of_type(events, 'node_finished', 'work')[0]['output'] == {'n': 7, 'word': 'left'}
    for name, text in (('f', 'hi'), ('image', 'yes')):
        path = os.path.join(user.workspace, name)
        with open(path, encoding='utf-8') as f:
            assert f.read().strip() == text
        assert os.stat(path).st_uid == user.uid
    assert of_type(events, 'sandbox_claw_routed_via_runner')
    assert of_type(events, 'network_summary')[0]['hosts'] == []


KEYS = {
    'sandbox_claw_routed_via_runner': 'reason binary',
    'llm_request': 'model provider purpose messages',
    'llm_retry': 'attempt status delay_ms error',
    'llm_step_finished': 'step model purpose stop_reason duration_ms input_tokens output_tokens cache_read_tokens '
                         'cache_write_tokens cost_usd',
    'tool_started': 'tool tool_use_id preview',
    'tool_called': 'tool tool_use_id duration_ms output_len',
    'tool_error': 'tool tool_use_id duration_ms error',
    'node_finished': 'output duration_ms backend model provider steps input_tokens output_tokens cache_read_tokens '
                     'cache_write_tokens runner_start_ms formatting_pass_used parse_fallback _session_id _tokens _cost_usd',
}


def test_events_have_their_keys(mine):
    mine.write(agent())
    with Provider({'turns': [{'status': 529, 'retry_after': 0}, bash('true'), bash('exit 3'),
                             {'tool': 'Read', 'input': {'file_path': '/nonexistent'}}, {'text': 'done'}]}) as p:
        mine.run(p)
    events = mine.user.events()
    for kind, keys in KEYS.items():
        found = of_type(events, kind, 'work')
        assert found, kind
        for data in found:
            assert set(data) == set(keys.split()), kind
