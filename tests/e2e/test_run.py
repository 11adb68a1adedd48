"""`run`: what is printed, the exit codes, and what a run leaves in the store."""
import json
import os
import signal

import pytest
from waiting import until, until_there

DRIVERS = ('noop', 'native')
HEAD = 'workflow w:\n  entry: {entry}\n  sandbox: auto\n'


def tools(*commands, name='t'):
    """A workflow of tools that run one after the other."""
    names = [f'{name}{i}' for i in range(len(commands))]
    nodes = ''.join(f'tool {n}:\n  command: `{c}`\n\n' for n, c in zip(names, commands))
    edges = ''.join(f'  {a} -> {b}\n' for a, b in zip(names, names[1:] + ['done']))
    return nodes + HEAD.format(entry=names[0]) + edges


@pytest.fixture(params=DRIVERS)
def driver(request):
    return ('--sandbox-driver', request.param)


def types(events):
    return [e['type'] for e in events]


def test_finished(user, driver):
    user.file('main.bot', tools('echo one', 'echo two >two.txt'))
    p = user.ok('run', 'main.bot', *driver)
    for line in ('node t0: started (tool)', 'node t0: finished in', 'one', 'node t1: finished in', 'run finished in'):
        assert line in p.stdout
    events = user.events()
    assert [e['seq'] for e in events] == list(range(len(events)))
    assert types(events)[0] == 'run_started' and types(events).count('run_finished') == 1
    assert os.path.exists(os.path.join(user.workspace, 'two.txt'))


def test_failed(user, driver):
    user.file('main.bot', tools('echo one', 'echo sorry >&2; exit 3', 'echo never'))
    p = user.fails('run', 'main.bot', *driver, code=1, says='t1')
    assert 'run failed in' in p.stdout and 'node t2' not in p.stdout
    assert types(user.events()).count('run_failed') == 1


def test_json_is_the_events(user, driver):
    user.file('main.bot', tools('echo one'))
    p = user.ok('run', 'main.bot', '--json', *driver)
    assert [json.loads(line) for line in p.stdout.splitlines()] == user.events()


def test_quiet(user, driver):
    user.file('main.bot', tools('echo one'))
    assert user.ok('run', 'main.bot', '--quiet', *driver).stdout == ''


def test_output_cannot_steer_the_terminal(user, driver):
    user.file('main.bot', tools(r"printf '\033]0;owned\007\033[2Jx'"))
    p = user.ok('run', 'main.bot', *driver)
    assert '\x1b' not in p.stdout and '\\x1b' in p.stdout


@pytest.mark.parametrize('printed', [r"printf 'a\000b\377'", """python3 -c 'n=2046; print("{\\"x\\":"+"["*n+"]"*n+"}")'"""],
                         ids=['a NUL', 'deep'])
def test_output_cannot_make_the_record_unreadable(user, driver, printed):
    """What a node printed stands in run.json and in events: both must be read again, by inspect and by resume."""
    schema = '  output: any_value\n' if 'python3' in printed else ''
    text = tools(printed, 'false').replace('tool t0:\n', 'tool t0:\n' + schema)
    user.file('main.bot', 'schema any_value:\n  x: json\n\n' + text)
    user.fails('run', 'main.bot', *driver, code=1)
    assert 't0' in user.ok('inspect', user.runs()[0]).stdout


@pytest.mark.parametrize('sig, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_cancelled(user, driver, sig, code):
    user.file('main.bot', tools('touch ready; while :; do sleep 0.1; done', 'echo never'))
    p = user.start('run', 'main.bot', *driver)
    until_there(os.path.join(user.workspace, 'ready'), p)
    p.send_signal(sig)
    p.communicate(timeout=30)
    assert p.returncode == code
    assert types(user.events()).count('run_cancelled') == 1


def test_vars_name_and_id(user):
    user.file('main.bot', 'vars:\n  who: string = "nobody"\n\n' + tools('echo hello {{vars.who}}'))
    p = user.ok('run', 'main.bot', '--sandbox-driver', 'noop', '--var', 'who=a b', '--name', 'nightly', '--run-id', 'r-1')
    assert 'hello a b' in p.stdout
    assert user.runs() == ['r-1']
    doc = json.loads(user.ok('inspect', 'nightly', '--json').stdout)
    assert (doc['id'], doc['name'], doc['status']) == ('r-1', 'nightly', 'finished')
    user.fails('run', 'main.bot', '--sandbox-driver', 'noop', '--run-id', 'r-1', says='r-1')


def test_timeout(user):
    user.file('main.bot', tools('while :; do sleep 0.1; done'))
    user.fails('run', 'main.bot', '--sandbox-driver', 'noop', '--timeout', '500ms', code=1)


def test_full_disk_of_the_reader_is_told(me):
    """The run itself goes on and is kept; the command does not call a lost output a success."""
    me.file('main.bot', tools('echo one'))
    with open('/dev/full', 'wb') as full:
        p = me.run('run', 'main.bot', '--json', '--sandbox-driver', 'noop', stdout=full)
    assert p.returncode == 1 and 'No space left' in p.stderr
    assert types(me.events())[-1] == 'run_finished'


def test_file_that_may_not_grow_is_told(me):
    me.file('main.bot', 'tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  t -> done\n')
    p = me.popen('sh', '-c', 'ulimit -f 1 && exec "$0" run --sandbox none main.bot', me.program)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 1, (p.returncode, out, err)
    assert b'File too large' in err and b'hint: ' in err


def test_inspect_and_logs(me):
    me.file('main.bot', tools('echo one', 'exit 3'))
    assert me.ok('inspect').stdout.startswith('no runs in ')
    assert json.loads(me.ok('inspect', '--json').stdout)['runs'] == []
    me.fails('logs', says='none')
    me.run('run', 'main.bot', '--sandbox-driver', 'noop', '--run-id', 'first')
    listed = json.loads(me.ok('inspect', '--json').stdout)['runs']
    assert [(r['id'], r['status']) for r in listed] == [('first', 'failed')] or listed[0]['status'] == 'failed_resumable'
    assert 'first' in me.ok('inspect').stdout
    shown = me.ok('inspect', 'fir').stdout
    assert 't0' in shown and 't1' in shown and 'error' in shown
    nodes = json.loads(me.ok('inspect', '--nodes', '--json').stdout)['nodes']
    assert [(n['node'], n['state']) for n in nodes] == [('t0', 'finished'), ('t1', 'failed')]
    assert 'one' in me.ok('inspect', '--node', 't0').stdout
    me.fails('inspect', '--node', 't9', says='t0')
    me.fails('inspect', 'nosuch', says='nosuch')
    me.fails('inspect', '--nodes', '--events', says='exclude')
    raw = me.ok('logs', '--json').stdout.splitlines()
    assert [json.loads(line) for line in raw] == me.events()
    assert me.ok('inspect', '--events', '--json').stdout.splitlines() == raw
    text = me.ok('logs').stdout.splitlines()
    assert len(text) >= len(raw) and 'node t0: started' in me.ok('logs').stdout


def has_begun(me):
    """Whether the only run has an event: its folder is there a moment earlier."""
    return any(os.path.exists(p) and os.path.getsize(p)
               for p in (os.path.join(me.store, 'runs', r, 'events.jsonl') for r in me.runs()))


def test_follow_until_the_end(me):
    """logs --follow, started while the run goes on, ends with it and has seen everything."""
    me.file('main.bot', tools('while [ ! -e go ]; do sleep 0.05; done', 'echo last'))
    run = me.start('run', 'main.bot', '--sandbox-driver', 'noop')
    until(lambda: has_begun(me), 'the run has begun', process=run)
    logs = me.start('logs', '--follow', '--json')
    first = logs.stdout.readline()
    me.file('go', '')
    assert run.wait(30) == 0
    text = first + logs.stdout.read()
    assert logs.wait(30) == 0
    assert [json.loads(line) for line in text.decode().splitlines()] == me.events()


def test_follow_notices_a_killed_run(me):
    me.file('main.bot', tools('touch ready; while :; do sleep 0.1; done'))
    run = me.start('run', 'main.bot', '--sandbox-driver', 'noop')
    until_there(os.path.join(me.workspace, 'ready'))
    logs = me.start('logs', '--follow')
    first = logs.stdout.readline()
    run.kill()
    run.wait()
    text = first + logs.stdout.read()
    assert logs.wait(30) == 0 and b'process is gone' in logs.stderr.read() and b'node t0' in text
    assert json.loads(me.ok('inspect', '--json').stdout)['runs'][0]['status'] == 'interrupted'


def test_reader_that_goes_away_ends_logs(me):
    me.file('main.bot', tools('while [ ! -e go ]; do sleep 0.05; done', 'echo last'))
    run = me.start('run', 'main.bot', '--sandbox-driver', 'noop')
    until(lambda: has_begun(me), 'the run has begun', process=run)
    logs = me.start('logs', '--follow', '--json')
    assert logs.stdout.readline()
    logs.stdout.close()
    me.file('go', '')
    assert logs.wait(20) == 1 and b'Broken pipe' in logs.stderr.read()
    assert run.wait(30) == 0


@pytest.mark.parametrize('nohup', [False, True])
def test_terminal_that_goes_away(me, nohup):
    """SIGHUP stops a run in order, unless it was told not to care."""
    me.file('main.bot', tools('touch ready; while [ ! -e go ]; do sleep 0.05; done'))
    p = me.start('run', 'main.bot', '--sandbox-driver', 'noop',
                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL))
    until_there(os.path.join(me.workspace, 'ready'), p)
    p.send_signal(signal.SIGHUP)
    if nohup:
        me.file('go', '')  # without it only the signal can end the run
    p.communicate(timeout=30)
    assert p.returncode == (0 if nohup else 143)
    assert types(me.events())[-1] == ('run_finished' if nohup else 'run_cancelled')


def test_report(user):
    user.file('main.bot', tools(r"printf 'a|b\n# no heading\n\140\140\140\n\033[2J'", 'exit 3'))
    user.run('run', 'main.bot', '--sandbox-driver', 'noop', '--name', 'a|b*c')
    page = user.ok('report').stdout
    assert page.startswith('# Run of w\n') and '\x1b' not in page
    assert '| name | a\\|b\\*c |' in page and 'n_t0[t0] --> n_t1[t1]' in page
    assert '| t0 | tool | finished |' in page and '| t1 | tool | failed |' in page and 't1 :crit, ' in page
    assert '\n    a|b\n    # no heading\n    ```\n' in page, 'output is code and no markup'
    assert page.count('\n```') == 4, 'two diagrams, each closed'
    user.fails('report', 'nosuch', says='nosuch')
