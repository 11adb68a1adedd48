"""The agent runner with a scripted model: the loop, its built-in tools, and how it fails."""
import json
import os
import signal

import pytest

from claw_runner import LIMIT, Runner, reply, text, use
from waiting import until


def marked(mark):
    """The processes whose environment holds MARK=mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as f:
                if f'MARK={mark}'.encode() in f.read().split(b'\0'):
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Marked:
    """A user whose programs carry a mark in their environment."""

    def __init__(self, user, mark):
        self.user, self.mark = user, f'{mark}-{os.getpid()}'
        self.program, self.workspace, self.folder = user.program, user.workspace, user.folder

    def popen(self, *argv, env=None, **more):
        return self.user.popen(*argv, env={**(env or {}), 'MARK': self.mark}, **more)

    def left(self):
        return marked(self.mark)


# --- the loop ---

def test_a_task_of_one_answer(user):
    with Runner(user).start() as r:
        asked = r.say(reply('fine'))
        assert asked['messages'] == [{'role': 'user', 'content': [text('Do it.')]}]
        assert asked['system'] == 'You are a test.' and asked['model'] == 'm' and asked['purpose'] == 'step'
        assert asked['tool_choice'] == {'type': 'auto'} and asked['max_tokens'] == 1000
        names = [t['name'] for t in asked['tools']]
        assert names == ['Bash', 'BashOutput', 'KillShell', 'Read', 'Write', 'Edit', 'MultiEdit', 'Glob', 'Grep', 'LS',
                         'TodoWrite']
        assert all(t['description'] and t['input_schema']['type'] == 'object' for t in asked['tools'])
        got = r.result()
    assert got['output'] == {'output': 'fine'}
    assert (got['tokens'], got['exit_code'], got['backend_name']) == ({'input': 10, 'output': 5}, 0, 'claw')
    assert got['session_id'] == 's1' and got['raw_output_len'] == 4


def test_fifty_steps(me):
    """Each step's result is in the next request, once, behind its call; the captures count the steps."""
    with Runner(me).start() as r:
        for i in range(50):
            asked = r.say(reply(f'step {i}', use(f'u{i}', 'Bash', command=f'echo {i} >>log; echo said-{i}')))
            assert len(asked['messages']) == 1 + 2 * i
            for at in range(i):
                called, result = asked['messages'][1 + 2 * at], asked['messages'][2 + 2 * at]
                assert called['content'][1]['id'] == result['content'][0]['tool_use_id'] == f'u{at}'
                assert result['content'][0]['content'] == f'said-{at}\n'
        r.finish()
        captures = [e['data'] for e in r.seen if e['type'] == 'session_capture']
    assert [c['step'] for c in captures[:50]] == list(range(1, 51))
    assert captures[-1]['conversation'][-1]['content'] == [text('done')]
    with open(os.path.join(me.workspace, 'log'), encoding='utf-8') as f:
        assert f.read().split() == [str(i) for i in range(50)]


def test_steps_are_bounded(me):
    with Runner(me, tool_max_steps=3).start() as r:
        for _ in range(3):
            r.say(reply(use('a', 'LS', path='/')))
        assert 'tool_max_steps' in r.result(1)['error']


def test_calls_that_read_run_at_the_same_time(me):
    me.file('a.txt', 'needle\n')
    with Runner(me).start() as r:
        r.say(reply(use('1', 'Grep', pattern='needle'), use('2', 'Glob', pattern='*.txt'),
                    use('3', 'Read', file_path='a.txt'), use('4', 'Bash', command='rm a.txt'),
                    use('5', 'Glob', pattern='*.txt')))
        while True:
            got = r.until('session_capture')['data']['conversation'][-1]['content']
            if len(got) == 5:
                break
        assert [b['tool_use_id'] for b in got] == ['1', '2', '3', '4', '5']
        assert got[0]['content'].endswith('a.txt\n') and 'needle' in got[2]['content']
        assert got[4]['content'] == 'No files found.\n'
        order = [(e['data']['kind'], e['data']['tool_use_id']) for e in r.seen if e['type'] == 'event' and
                 'tool_use_id' in e['data']]
        first_end = next(i for i, x in enumerate(order) if x[0] == 'tool_called' and x[1] in '12')
        assert ('tool_started', '1') in order[:first_end] and ('tool_started', '2') in order[:first_end]
        assert all(order.index(('tool_called', x)) < order.index(('tool_started', '4')) for x in '123')
        assert order.index(('tool_called', '4')) < order.index(('tool_started', '5'))
        r.finish()


def test_a_killed_runner_repeats_no_finished_call(me):
    """kill -9 in the middle of a message with three calls, of which one is finished and one runs."""
    with Runner(me).start() as r:
        r.call('Bash', command='echo first >>log')
        r.say(reply(use('a', 'Bash', command='echo a >>log'), use('b', 'Bash', command='echo b >>log; read x <hold'),
                    use('c', 'Bash', command='echo c >>log')))
        capture = r.until('session_capture')['data']
        r.process.kill()
        r.process.wait()
    assert [b['tool_use_id'] for b in capture['conversation'][-1]['content']] == ['a']
    with open(os.path.join(me.workspace, 'log'), encoding='utf-8') as f:
        before = f.read().split()
    with Runner(me).start(replay=capture) as r:
        got = r.results()
        assert [b['is_error'] if 'is_error' in b else False for b in got.values()] == [False, True, False]
        asked = r.say(reply('done'))
        assert [m['role'] for m in asked['messages']] == ['user', 'assistant', 'user', 'assistant', 'user']
        assert [b['tool_use_id'] for b in asked['messages'][-1]['content']] == ['a', 'b', 'c']
        assert r.result()['output'] == {'output': 'done'}
    with open(os.path.join(me.workspace, 'log'), encoding='utf-8') as f:
        after = f.read().split()
    assert before[:2] == ['first', 'a'] and after == before + ['b', 'c']


def test_a_replayed_end_is_the_end(me):
    talk = [{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': [text('all done')]}]
    with Runner(me).start(replay={'session_id': 's', 'conversation': talk, 'step': 7}) as r:
        assert r.result()['output'] == {'output': 'all done'}
        assert not [e for e in r.seen if e['type'] == 'llm_request']


def test_a_conversation_goes_on(me):
    """A session that is inherited: the new prompt comes behind the old messages, and calls left open are closed."""
    talk = [{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': [use('q', 'Bash', command='id')]}]
    with Runner(me, resume_conversation=talk).start() as r:
        asked = r.say(reply('ok'))
        last = asked['messages'][-1]['content']
        assert (last[0]['tool_use_id'], last[0]['is_error']) == ('q', True) and last[1] == text('Do it.')
        r.result()


def test_an_answer_that_is_cut_off_goes_on(me):
    with Runner(me).start() as r:
        r.say(reply('one, ', stop='max_tokens'))
        r.say(reply('two'))
        assert r.result()['output'] == {'output': 'one, two'}


def test_half_a_call_is_not_carried_out(me):
    with Runner(me).start() as r:
        r.say(reply(use('w', 'Write', file_path='half', content='ha'), stop='max_tokens'))
        assert 'cut off' in r.results()['w']['content']
        r.finish()
    assert not os.path.exists(os.path.join(me.workspace, 'half'))


@pytest.mark.parametrize('chunk, says', [
    ({'kind': 'error', 'message': 'the key is wrong', 'status': 401}, 'the key is wrong'),
    (reply('no', stop='refusal'), 'refused'),
    ({'kind': 'done', 'message': {'role': 'user', 'content': []}}, 'malformed'),
    ({'kind': 'done', 'message': {'role': 'assistant', 'content': [{'type': 'text'}]}}, 'malformed'),
    ({'kind': 'done', 'message': {'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 'a', 'name': 'LS',
                                                                    'input': 'x'}]}}, 'malformed'),
    (reply(use('a', 'LS', path='/'), use('a', 'LS', path='/')), 'malformed'),
    (reply(*[use(f'c{i}', 'LS', path='/') for i in range(129)]), 'more calls'),
    ({'kind': 'mystery'}, 'malformed'),
    ({}, 'malformed'),
])
def test_replies_that_end_the_task(me, chunk, says):
    with Runner(me).start() as r:
        r.say(chunk)
        got = r.result(1)
        assert says in got['error'] and got['exit_code'] == 1


# --- the wire ---

TASK = json.dumps({'type': 'task', 'data': {'user_prompt': 'x'}}).encode()


@pytest.mark.parametrize('line, says', [
    (b'{', 'envelope'), (b'', 'envelope'), (b'[]', 'no type'), (b'{"type":5}', 'no type'), (b'nul', 'envelope'),
    (b'{"type":"task","data":[]}', 'data is no object'), (b'{"type":"task","id":7}', 'id is no string'),
    (b'{"type":"task"}\x00', 'envelope'), (b'{"type":"\xff"}', 'UTF-8'), (b'{"type":"\\ud800"}', 'surrogate'),
    (b'[' * 200, 'too deep'), (b'{"type":"task","data":{}}', 'user_prompt'),
    (b'{"type":"task","data":{"user_prompt":1}}', 'user_prompt'),
    (b'{"type":"task","data":{"user_prompt":"a\\u0000b"}}', 'user_prompt'),
    (TASK.replace(b'"x"', b'"x","tool_max_steps":0'), 'tool_max_steps'),
    (TASK.replace(b'"x"', b'"x","readonly":"yes"'), 'readonly'),
    (TASK.replace(b'"x"', b'"x","allowed_tools":[1]'), 'allowed_tools'),
    (TASK.replace(b'"x"', b'"x","tool_defs":[{}]'), 'tool_defs'),
    (TASK.replace(b'"x"', b'"x","output_schema":[]'), 'output_schema'),
    (TASK.replace(b'"x"', b'"x","compact_threshold_ratio":2'), 'compact_threshold_ratio'),
    (TASK.replace(b'"x"', b'"x","tool_policy":["Bash("]'), 'tool_policy'),
    (TASK.replace(b'"x"', b'"x","resume_conversation":[{"role":"x"}]'), 'message 0 is malformed'),
    (TASK.replace(b'"x"', b'"x","resume_conversation":[],"resume_pending_tool_use_id":"t"'), 'no open call'),
    (b'{"type":"session_replay","data":{"conversation":[5]}}', 'message 0 is malformed'),
    pytest.param(b'{"type":"x","data":{"a":"' + b'a' * (4 << 20) + b'"}}', 'longer than', id='a long line'),
])
def test_lines_that_end_the_runner(me, line, says):
    with Runner(me) as r:
        r.raw(line + b'\n')
        got = r.result(1)
        assert says in got['error'] and got['exit_code'] == 1


def test_an_input_that_ends_inside_a_line(me):
    with Runner(me) as r:
        r.raw(TASK[:20])
        r.close_input()
        got = r.next()
        assert got['type'] == 'result' and 'inside a line' in got['data']['error']
        assert r.next() is None and r.process.wait(LIMIT) == 1


def test_what_is_not_awaited_is_a_warning(me):
    with Runner(me) as r:
        r.send('future', {'x': 1})
        r.send('tool_result', {'output': 'x'}, 'r1')
        r.start()
        env = r.until('llm_request')
        r.send('llm_chunk', reply('wrong'), 'r999')
        r.send('task', {'user_prompt': 'another'})
        r.send('llm_chunk', {'kind': 'text', 'text': 'ri'}, env['id'])
        r.send('llm_chunk', reply('right'), env['id'])
        assert r.result()['output'] == {'output': 'right'}
        assert len(r.events('warning')) == 4
        assert all(e['code'] == 'unexpected_envelope' for e in r.events('warning'))


def test_a_line_of_nearly_4_mib(me):
    with Runner(me, user_prompt='p' * (2 << 20)).start() as r:
        assert len(r.say(reply('ok'))['messages'][0]['content'][0]['text']) == 2 << 20
        r.result()
    with Runner(me, user_prompt='"' * ((4 << 20) // 2 - 1000)).start() as r:
        assert 'longer than' in r.result(1)['error']


@pytest.mark.parametrize('end', ['eof', 'closed', 'term', 'bad line'])
def test_nothing_outlives_the_runner(user, end):
    """What a tool started is gone when the runner is, also what left its group and its session."""
    whose = Marked(user, end.replace(' ', ''))
    with Runner(whose).start() as r:
        r.call('Bash', command='sleep 1000', run_in_background=True)
        daemon = "setsid sh -c 'echo >{0}; sleep 1000; :' >/dev/null 2>&1 & until [ -e {0} ]; do :; done"
        r.call('Bash', command=daemon.format('up1'))
        r.say(reply(use('x', 'Bash', command=daemon.format('up2') + '; sleep 1000; :')))
        r.until('event')
        # The runner, the command and the background one, and two daemons, each with its sleep.
        until(lambda: len(whose.left()) >= 7, 'all programs run')
        if end == 'eof':
            r.close_input()
            assert r.process.wait(LIMIT) == 1
        elif end == 'closed':
            r.process.stdout.close()
            r.send('nothing')
            assert r.process.wait(LIMIT) == 1
        elif end == 'term':
            r.process.send_signal(signal.SIGTERM)
            assert r.process.wait(LIMIT) == 128 + signal.SIGTERM
        else:
            r.raw(b'{\n')
            assert 'envelope' in r.result(1)['error']
    assert whose.left() == []


def test_a_tool_cannot_speak_for_the_runner(me):
    """The tools run as the same user, and the runner's pipes have names below /proc."""
    with Runner(me).start() as r:
        got = r.call('Bash', command='echo x >/proc/self/fd/1; echo forged >/proc/$PPID/fd/1')
        assert got['is_error'] and got['content'].startswith('x\n') and 'denied' in got['content']
        r.finish()
    with Runner(me).start() as r:
        r.call('Bash', command='echo "$BASHPID $PPID"')
        assert os.stat(f'/proc/{r.process.pid}/fd').st_uid == 0
        r.finish()


def test_memory(me):
    """The runner itself stays below 4 MiB; what grows is the conversation."""
    with Runner(me).start() as r:
        for _ in range(5):
            r.call('Bash', command='echo x')
        with open(f'/proc/{r.process.pid}/status', encoding='utf-8') as f:
            peak = int(next(line for line in f if line.startswith('VmHWM')).split()[1])
        r.finish()
    assert peak < 4096


def test_iterion_itself_becomes_the_runner(me):
    with Runner(me, program=me.program).start() as r:
        assert r.finish()['output'] == {'output': 'done'}


def test_inside_a_sandbox(user):
    """The program as a sandbox has it: every tool in the sandbox's file system and under its filter."""
    inside = [user.program, 'sandbox', 'exec', '--sandbox-driver', 'native', '--', '/run/iterion/bin/iterion', '__claw-runner']
    user.file('a.txt', 'needle\n')
    with Runner(user, argv=inside).start() as r:
        assert r.call('Bash', command='seq 1 20000 | tail -1; exit 2')['content'] == '20000\nExit code 2'
        assert r.call('Bash', command='sleep 1000', timeout=100)['is_error']
        assert 'needle' in r.call('Read', file_path='a.txt')['content']
        assert not r.call('Edit', file_path='a.txt', old_string='needle', new_string='thread').get('is_error')
        assert not r.call('Write', file_path='sub/b.txt', content='thread').get('is_error')
        found = r.call('Grep', pattern='thr\\w+')['content'].split()
        assert found == [os.path.join(user.workspace, x) for x in ('a.txt', 'sub/b.txt')]
        assert r.call('Glob', pattern='*/*.txt')['content'] == os.path.join(user.workspace, 'sub/b.txt') + '\n'
        assert r.call('LS', path='.')['content'] == 'a.txt\nsub/\n'
        got = r.call('Write', file_path='/etc/hostname2', content='x')
        assert got['is_error']
        got = r.call('Bash', command='seq 1 20000')['content'].split('whole output is in ')[1].split(']')[0]
        assert r.call('Bash', command=f'wc -l <{got}')['content'] == '20000\n'
        r.call('Bash', command='sleep 1000', run_in_background=True)
        assert 'running' in r.call('BashOutput', bash_id='bash_1')['content']
        assert r.finish()['output'] == {'output': 'done'}
    assert os.stat(os.path.join(user.workspace, 'sub/b.txt')).st_uid == user.uid


# --- Bash ---

def test_bash(user):
    with Runner(user).start() as r:
        got = r.call('Bash', command='echo out; echo err >&2; exit 3')
        assert got['content'] == 'out\nerr\nExit code 3' and got['is_error']
        assert r.call('Bash', command='true')['content'] == '(no output)'
        assert r.call('Bash', command='kill -9 $$')['content'] == 'The command was ended by signal 9.'
        assert r.call('Bash', command='cat; ls -l /proc/self/fd | grep -c -e "->"')['content'] == '4\n'
        r.call('Bash', command='mkdir d; cd d; export LOST=1')
        assert r.call('Bash', command='pwd; echo "[$LOST$1]"')['content'] == f'{user.workspace}/d\n[]\n'
        r.call('Bash', command='rmdir ../d')
        assert r.call('Bash', command='pwd')['content'] == f'{user.workspace}\n'
        assert r.call('Bash', command='echo )')['is_error']
        for bad in ({}, {'command': 5}, {'command': ''}, {'command': 'a\0b'}, {'command': 'x', 'timeout': 600001},
                    {'command': 'x', 'timeout': '5'}, {'command': 'x', 'run_in_background': 1},
                    {'command': 'x' * 100001}):
            assert r.call('Bash', **bad)['is_error']
        r.finish()


def test_bash_time_limit(me):
    """The limit ends all of it, also what does not listen to TERM."""
    whose = Marked(me, 'limit')
    with Runner(whose).start() as r:
        for command in ('sleep 1000 & sleep 1000; :', "trap '' TERM; while :; do sleep 1000; done"):
            got = r.call('Bash', command=command, timeout=300)
            assert got['content'] == 'The command was ended after 300 ms, its time limit.' and got['is_error']
            until(lambda: set(whose.left()) <= {r.process.pid}, 'all but the runner are gone')
        r.finish()


def test_bash_long_output(me):
    with Runner(me).start() as r:
        got = r.call('Bash', command='seq 1 100000')['content']
        assert len(got) < 31000 and got.startswith('1\n2\n') and got.endswith('\n100000\n')
        path = got.split('the whole output is in ')[1].split(']')[0]
        with open(path, encoding='utf-8') as f:
            assert f.read().split() == [str(i) for i in range(1, 100001)]
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
        assert r.call('Grep', pattern='^99999$', path=path, output_mode='content')['content'] == f'{path}:99999:99999\n'
        assert '\ufffd' in r.call('Bash', command='printf "\\377\\000x"')['content']
        r.finish()
    assert not os.path.exists(os.path.dirname(path))


def test_background(me):
    """What is shown once is not shown again; a wait in the foreground makes the ends certain."""
    def gone(name):
        r.call('Bash', command=f'until [ -s {name} ]; do :; done; while kill -0 $(cat {name}) 2>&-; do :; done')

    with Runner(me).start() as r:
        for name in ('go.fifo', 'said.fifo'):
            os.mkfifo(os.path.join(me.workspace, name))
            me.own(os.path.join(me.workspace, name))
        got = r.call('Bash', command='echo $$ >pid; echo one; echo x >said.fifo; read x <go.fifo; echo two; exit 4',
                     run_in_background=True)
        assert 'bash_1' in got['content']
        r.call('Bash', command='read x <said.fifo')
        got = r.call('BashOutput', bash_id='bash_1')['content']
        assert got == 'status: running\noutput since the last look:\none\n'
        assert r.call('BashOutput', bash_id='bash_1')['content'] == 'status: running\nno new output\n'
        r.call('Bash', command='echo x >go.fifo')
        gone('pid')
        got = r.call('BashOutput', bash_id='bash_1')['content']
        assert got == 'status: ended, exit code 4\noutput since the last look:\ntwo\n'
        assert r.call('KillShell', shell_id='bash_1')['is_error']
        r.call('Bash', command='echo $$ >pid2; exec sleep 1000', run_in_background=True)
        r.call('Bash', command='until [ -s pid2 ]; do :; done')
        assert 'killed' in r.call('KillShell', shell_id='bash_2')['content']
        gone('pid2')
        assert r.call('BashOutput', bash_id='bash_2')['content'].startswith('status: killed\n')
        assert r.call('BashOutput', bash_id='bash_9')['is_error']
        r.finish()


# --- files ---

def test_files(user):
    with Runner(user).start() as r:
        path = os.path.join(user.workspace, 'sub/dir/a.txt')
        assert not r.call('Write', file_path=path, content='one\ntwo\ntwo\n').get('is_error')
        got = r.call('Edit', file_path=path, old_string='two', new_string='2')
        assert got['is_error'] and '2 times' in got['content']
        assert not r.call('Edit', file_path=path, old_string='two', new_string='2', replace_all=True).get('is_error')
        with open(path, encoding='utf-8') as f:
            assert f.read() == 'one\n2\n2\n'
        os.chmod(user.file('script', '#!/bin/sh\n'), 0o750)
        got = r.call('Edit', file_path='script', old_string='sh', new_string='bash')
        assert got['is_error'] and 'read it first' in got['content']
        assert r.call('Read', file_path='script')['content'] == '     1\t#!/bin/sh\n'
        assert not r.call('Edit', file_path='script', old_string='sh', new_string='bash').get('is_error')
        assert os.stat(os.path.join(user.workspace, 'script')).st_mode & 0o777 == 0o750
        r.call('Bash', command='echo more >>script')
        got = r.call('Write', file_path='script', content='x')
        assert got['is_error'] and 'changed since' in got['content']
        assert sorted(os.listdir(os.path.dirname(path))) == ['a.txt']
        r.finish()


def test_an_image(me):
    png = b'\x89PNG\r\n\x1a\n' + bytes(1000)
    me.file('a.png', png)
    me.file('big.png', png + bytes(1 << 20))
    with Runner(me).start() as r:
        got = r.call('Read', file_path='a.png')
        image = got['images'][0]['source']
        assert image['media_type'] == 'image/png' and len(image['data']) == (len(png) + 2) // 3 * 4
        assert r.call('Read', file_path='big.png')['is_error']
        asked = r.say(reply('ok'))
        assert [b['type'] for b in asked['messages'][2]['content']] == ['tool_result', 'image']
        r.result()


def test_the_results_of_one_message_are_bounded(me):
    me.file('big', 'x' * 150 + '\n', 0o644)
    with Runner(me).start() as r:
        r.call('Bash', command='yes "$(cat big)" | head -5000 >big2')
        r.say(reply(*[use(f'c{i}', 'Read', file_path='big2') for i in range(40)]))
        got = r.results()
        assert sum(len(b['content']) for b in got.values()) < 2 << 20
        assert 'limited' in got['c39']['content']
        r.finish()


def test_a_search_that_is_too_costly_is_an_error(me):
    me.file('a', 'x\n')
    with Runner(me).start() as r:
        got = r.call('Grep', pattern='((((((a{200}){200}){200}){200}){200}){200})')
        assert got['is_error']
        r.finish()


# --- what may be called ---

def test_readonly(me):
    with Runner(me, readonly=True).start() as r:
        asked = r.say(reply(use('a', 'Bash', command='touch x'), use('b', 'Write', file_path='x', content='')))
        assert [t['name'] for t in asked['tools']] == ['Read', 'Glob', 'Grep', 'LS', 'TodoWrite']
        assert all(b['is_error'] and 'not available' in b['content'] for b in r.results().values())
        r.finish()
    assert not os.path.exists(os.path.join(me.workspace, 'x'))


def test_allowed_tools_and_policy(me):
    with Runner(me, allowed_tools=['Bash', 'Read'], tool_policy=['Bash(echo *)', 'Read', '!Read(secret)']).start() as r:
        assert r.call('Bash', command='echo a')['content'] == 'a\n'
        for command in ('echo a; touch x', 'touch x', 'echo $(touch x)', 'echo a >x'):
            assert 'tool_policy' in r.call('Bash', command=command)['content']
        me.file('secret', 's')
        assert '!Read(secret)' in r.call('Read', file_path=os.path.join(me.workspace, 'secret'))['content']
        assert r.call('Write', file_path='x', content='')['is_error']
        asked = r.say(reply('ok'))
        assert [t['name'] for t in asked['tools']] == ['Bash', 'BashOutput', 'KillShell', 'Read']
        r.result()
    assert not os.path.exists(os.path.join(me.workspace, 'x'))


# --- the launcher's tools, and people ---

HOST = [{'name': 'mcp.db.query', 'description': 'asks', 'input_schema': {'type': 'object'}}]


def test_tools_of_the_launcher(me):
    with Runner(me, tool_defs=HOST).start() as r:
        asked = r.say(reply(use('a', 'mcp.db.query', q=1.50), use('b', 'mcp.db.query', q=2)))
        assert asked['tools'][-1] == HOST[0]
        call = r.until('tool_call')
        assert call['data'] == {'name': 'mcp.db.query', 'input': {'q': 1.5}, 'tool_use_id': 'a'}
        r.send('tool_result', {'output': 'rows'}, call['id'])
        call = r.until('tool_call')
        r.send('tool_result', {'output': '', 'error': 'no such table'}, call['id'])
        got = r.results()
        assert got['a']['content'] == 'rows' and got['b']['content'] == 'no such table' and got['b']['is_error']
        r.finish()


def test_asking(me):
    with Runner(me, interaction_enabled=True, tool_defs=HOST).start() as r:
        r.say(reply(use('q', 'ask_user', question='Which?', options=['a', 'b'])))
        asked = r.until('ask_user')
        assert asked['data']['question'] == 'Which?' and asked['data']['options'] == ['a', 'b']
        assert asked['data']['pending_tool_use_id'] == 'q' and len(asked['data']['conversation']) == 2
        r.send('ask_user_answer', {'answer': 'b'}, asked['id'])
        assert r.results()['q']['content'] == 'b'
        r.say(reply(use('h', 'mcp.db.query')))
        call = r.until('tool_call')
        r.send('tool_result', {'output': '', 'ask_user': {'question': 'Sure?', 'pending_tool_use_id': 'h'}}, call['id'])
        asked = r.until('ask_user')
        assert asked['data']['question'] == 'Sure?'
        r.send('ask_user_answer', {'answer': {'yes': True}}, asked['id'])
        assert json.loads(r.results()['h']['content']) == {'yes': True}
        assert r.call('ask_user', question=5)['is_error']
        r.finish()
    with Runner(me).start() as r:
        assert 'Nobody' in r.call('ask_user', question='Which?')['content']
        r.finish()


def test_a_pause_and_its_end(me):
    with Runner(me, interaction_enabled=True).start() as r:
        r.say(reply(use('a', 'Bash', command='echo a >>log'), use('q', 'ask_user', question='Which?'),
                    use('c', 'Bash', command='echo c >>log')))
        asked = r.until('ask_user')
        r.send('ask_user_answer', {'pause': True}, asked['id'])
        got = r.result()
    assert got['pending_tool_use_id'] == 'q' and 'error' not in got
    assert os.listdir(me.folder('tmp')) == []
    assert got['pending_conversation'] == asked['data']['conversation']
    with Runner(me, interaction_enabled=True, resume_conversation=got['pending_conversation'],
                resume_pending_tool_use_id='q', resume_answer='this').start() as r:
        results = r.results()
        assert list(results) == ['a', 'q', 'c'] and results['q']['content'] == 'this'
        r.finish()
    with open(os.path.join(me.workspace, 'log'), encoding='utf-8') as f:
        assert f.read() == 'a\nc\n'


# --- structured output ---

SCHEMA = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}


def test_structured_output_by_its_tool(me):
    with Runner(me, output_schema=SCHEMA).start() as r:
        asked = r.say(reply('here', use('o', 'structured_output', n=1)))
        assert asked['tools'][-1]['name'] == 'structured_output' and asked['tools'][-1]['input_schema'] == SCHEMA
        got = r.result()
    assert got['output'] == {'n': 1} and not got['formatting_pass_used'] and not got['parse_fallback']


@pytest.mark.parametrize('answer, output, fallback', [
    (reply(use('o', 'structured_output', n=2)), {'n': 2}, False),
    (reply('Well: {"n": 1} or, better,\n```json\n{"n": 3, "s": "}"}\n```'), {'n': 3, 's': '}'}, True),
])
def test_structured_output_is_asked_for(me, answer, output, fallback):
    with Runner(me, output_schema=SCHEMA).start() as r:
        r.say(reply('It is two.'))
        asked = r.say(answer)
        assert asked['purpose'] == 'format' and asked['tool_choice'] == {'type': 'tool', 'name': 'structured_output'}
        got = r.result()
    assert got['output'] == output and got['formatting_pass_used'] and got['parse_fallback'] == fallback


def test_structured_output_that_never_comes(me):
    with Runner(me, output_schema=SCHEMA).start() as r:
        r.say(reply('It is two.'))
        r.say(reply('As I said: {two}'))
        assert 'no structured output' in r.result(1)['error']


def test_structured_output_is_repaired_once(me):
    with Runner(me, output_schema=SCHEMA).start() as r:
        r.say(reply(use('o', 'structured_output', n='one')))
        while (env := r.next())['type'] != 'result':
            pass
        assert env['data']['output'] == {'n': 'one'}
        r.send('result_ack', {'ok': False, 'errors': 'n: an integer is expected'}, env['id'])
        asked = r.say(reply(use('p', 'structured_output', n=1)))
        assert asked['purpose'] == 'format' and 'n: an integer' in asked['messages'][-1]['content'][-1]['text']
        got = r.result()
    assert got['output'] == {'n': 1} and got['formatting_pass_used']


# --- compaction ---

def test_compaction(me):
    """At the threshold the older part becomes a summary; no call is separated from its result."""
    with Runner(me, context_window=1000, compact_threshold_ratio=0.5, compact_preserve_recent=2).start() as r:
        for i in range(4):
            r.say(reply(use(f'u{i}', 'Bash', command=f'echo {i}'), tokens=(100, 10)))
        r.say(reply(use('u4', 'Bash', command='echo 4'), tokens=(600, 10)))
        asked = r.say(reply('SUMMARY', tokens=(600, 50)))
        assert asked['purpose'] == 'compact'
        assert len(asked['messages']) == 7 and 'summary' in asked['messages'][-1]['content'][-1]['text']
        asked = r.say(reply('done', tokens=(50, 5)))
        assert asked['purpose'] == 'step' and [m['role'] for m in asked['messages']] == [
            'user', 'assistant', 'user', 'assistant', 'user']
        first = asked['messages'][0]['content'][0]['text']
        assert first.startswith('Do it.') and 'SUMMARY' in first
        for at in (1, 3):
            assert asked['messages'][at]['content'][0]['id'] == asked['messages'][at + 1]['content'][0]['tool_use_id']
        assert asked['messages'][3]['content'][0]['id'] == 'u4'
        r.result()
        assert r.events('llm_compacted')[0]['before_tokens'] >= 600
        assert r.events('llm_compacted')[0]['messages'] == 7


@pytest.mark.parametrize('system, least, most', [(1, 20, 30), (2 << 20, 12, 22)])
def test_a_conversation_that_nears_a_line_is_shortened(me, system, least, most):
    me.file('big', 'x' * 100 + '\n')
    with Runner(me, context_window=10 ** 9, compact_preserve_recent=1, system_prompt='p' * system).start() as r:
        r.call('Bash', command='yes "$(cat big)" | head -2000 >big2')
        for i in range(40):
            asked = r.say(reply('a text', use(f'u{i}', 'Read', file_path='big2')))
            if asked['purpose'] == 'compact':
                break
        assert asked['purpose'] == 'compact' and least < i < most
        asked = r.say(reply('done'))
        assert asked['purpose'] == 'step' and len(asked['messages']) == 3
        r.result()
