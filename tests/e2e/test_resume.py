"""`resume`: a run that was killed at any moment, failed or was cancelled goes on where it stopped.

Killed at random: a workflow of twenty nodes with a fan-out, a fan-out within it, a loop, a round robin and conditions is
killed with SIGKILL and resumed, again and again, until it has finished. Every node leaves its name in a file. In the end
each has run as often as without a kill, but for those that were under way at a kill, and events.jsonl tells one run
without gaps or repeated ends. RESUME_ROUNDS sets how many such runs there are, RESUME_SEED the first seed.
"""
import collections
import json
import os
import random
import signal
import time

import pytest
from waiting import until_there

ROUNDS = int(os.environ.get('RESUME_ROUNDS', '15'))
SEED = int(os.environ.get('RESUME_SEED', str(int(time.time()))))
FLAGS = ('--sandbox', 'none', '--quiet')

TOOLS = ['first', 'second', 'left', 'left2', 'right', 'up', 'down', 'meet', 'join', 'one', 'two', 'three', 'odd', 'even',
         'last']
WORKFLOW = ''.join(f'tool {n}:\n  command: `echo {n} >>trace; sleep 0.00{i % 5}`\n\n' for i, n in enumerate(TOOLS)) + '''
router fan:
  mode: fan_out_all

router inner:
  mode: fan_out_all

router turns:
  mode: round_robin

schema number:
  n: int

compute count:
  output: number
  expr:
    n: "loop.again.iteration"

compute sum:
  expr:
    seen: "length(outputs.one.history)"
    n: "outputs.count.n"

workflow w:
  entry: first
  first -> second
  second -> fan
  fan -> left
  fan -> right
  fan -> inner
  left -> left2
  left2 -> join with { l: "{{outputs.left.exit_code}}" }
  right -> join with { r: "{{run.id}}" }
  inner -> up
  inner -> down
  up -> meet
  down -> meet
  meet -> join
  join -> one
  one -> two
  two -> count
  count -> turns
  turns -> odd
  turns -> even
  odd -> three
  even -> three
  three -> one when "outputs.count.n < 4" as again(4)
  three -> sum
  sum -> last
  last -> done
'''
LOOPED = {'one': 5, 'two': 5, 'count': 5, 'turns': 5, 'odd': 3, 'even': 2, 'three': 5}
NODES = TOOLS + ['fan', 'inner', 'turns', 'count', 'sum']
EDGES = {('three', 'one'): 4, ('three', 'sum'): 1, ('turns', 'odd'): 3, ('turns', 'even'): 2, ('one', 'two'): 5,
         ('fan', 'left'): 1, ('fan', 'inner'): 1, ('inner', 'up'): 1, ('left2', 'join'): 1, ('last', 'done'): 1}


def own_store(person):
    """A repository of its own, so that no .iterion folder above is taken for the store."""
    person.folder('workspace', '.git')
    return person


@pytest.fixture
def user(user):
    return own_store(user)


@pytest.fixture
def me(me):
    return own_store(me)


def expected(node):
    return LOOPED.get(node, 1)


def whole_events(user, run_id):
    """The events of a run, without a line that was being written at a kill."""
    path = os.path.join(user.store, 'runs', run_id, 'events.jsonl')
    if not os.path.exists(path):
        return []
    with open(path, 'rb') as f:
        return [json.loads(line) for line in f.read().split(b'\n')[:-1]]


def under_way(events):
    """Nodes that have begun and not ended, counted; a resume begins them again."""
    open_ = collections.Counter()
    for e in events:
        key = e.get('node_id')
        if e['type'] == 'run_resumed':
            open_.clear()
        elif e['type'] == 'node_started':
            open_[key] += 1
        elif e['type'] == 'node_finished' and open_[key] > 0:
            open_[key] -= 1
    return +open_


def kill_one_life(user, run_id, argv, wait):
    p = user.start(*argv)
    try:
        p.wait(wait)
    except Exception:
        p.kill()
        p.wait()
    out, err = p.communicate()
    if p.returncode == 2 and b'it has finished' in err:
        # Killed between its last event and its last word.
        assert whole_events(user, run_id)[-1]['type'] == 'run_finished'
        return 0
    assert p.returncode in (0, -signal.SIGKILL), (p.returncode, out, err)
    return p.returncode


def check_end(user, run_id, repeated):
    events = whole_events(user, run_id)
    assert [e['seq'] for e in events] == list(range(len(events)))
    types = collections.Counter(e['type'] for e in events)
    assert types['run_started'] == 1 and types['run_finished'] == 1 and events[-1]['type'] == 'run_finished'
    assert types['join_ready'] == 2 and types['run_failed'] == 0
    ends = collections.Counter(e['node_id'] for e in events if e['type'] == 'node_finished')
    assert ends == {n: expected(n) for n in NODES}
    edges = collections.Counter((e['data']['from'], e['data']['to']) for e in events if e['type'] == 'edge_selected')
    assert {k: edges[k] for k in EDGES} == EDGES
    turns = [e['data']['iteration'] for e in events if e['type'] == 'edge_selected' and 'loop' in e['data']]
    assert turns == [1, 2, 3, 4]
    total = next(e for e in events if e['type'] == 'node_finished' and e['node_id'] == 'sum')
    assert total['data']['output'] == {'seen': 4, 'n': 4}
    with open(os.path.join(user.workspace, 'trace'), encoding='ascii') as f:
        ran = collections.Counter(f.read().split())
    for n in TOOLS:
        assert expected(n) <= ran[n] <= expected(n) + repeated[n], n
    record = json.loads(user.ok('inspect', run_id, '--json').stdout)
    assert record['status'] == 'finished'
    assert [n for n in os.listdir(os.path.join(user.store, 'runs', run_id)) if n.startswith('run.json')] == ['run.json']


def round_of_kills(user, seed):
    dice = random.Random(seed)
    run_id = f'kill-{seed}'
    trace = os.path.join(user.workspace, 'trace')
    if os.path.exists(trace):
        os.unlink(trace)
    repeated = collections.Counter()
    argv = ('run', 'kill.bot', '--run-id', run_id, *FLAGS)
    code = kills = 0
    while True:
        wait = dice.uniform(0.004, 0.11) if kills < 8 else 60
        code = kill_one_life(user, run_id, argv, wait)
        if code == 0:
            break
        kills += 1
        if not os.path.exists(os.path.join(user.store, 'runs', run_id, 'run.json')):
            # Killed before there was a run: it is started anew under another name.
            run_id += 'x'
            argv = ('run', 'kill.bot', '--run-id', run_id, *FLAGS)
            continue
        for n, times in under_way(whole_events(user, run_id)).items():
            repeated[n] += times
        argv = ('resume', '--run-id', run_id, *FLAGS)
    check_end(user, run_id, repeated)
    return kills


def test_killed_at_any_moment(me):
    me.file('kill.bot', WORKFLOW)
    kills = 0
    for i in range(ROUNDS):
        seed = SEED + i
        # Shown when it fails.
        print(f'RESUME_SEED={seed} RESUME_ROUNDS=1')
        kills += round_of_kills(me, seed)
    print(f'{ROUNDS} runs, {kills} kills')
    assert kills > ROUNDS / 2


def two(command):
    return (f'tool a:\n  command: `echo a >>trace`\ntool b:\n  command: `echo b >>trace; {command}`\n'
            'workflow w:\n  entry: a\n  a -> b\n  b -> done\n')


def trace(user):
    with open(os.path.join(user.workspace, 'trace'), encoding='ascii') as f:
        return f.read().split()


def test_failed(user):
    user.file('main.bot', two('test -e good'))
    user.fails('run', 'main.bot', *FLAGS, '--run-id', 'r', '--name', 'nightly', code=1)
    user.fails('resume', '--run-id', 'nightly', *FLAGS, code=1, says='node b')
    user.file('good', '')
    user.ok('resume', '--last', *FLAGS)
    assert trace(user) == ['a', 'b', 'b', 'b']
    types = [e['type'] for e in user.events()]
    assert types.count('run_failed') == 2 and types.count('run_resumed') == 2 and types[-1] == 'run_finished'
    assert 'run_interrupted' not in types
    user.fails('resume', '--last', *FLAGS, code=2, says='it has finished')


def test_cancelled(user):
    user.file('main.bot', two('touch ready; test -e good || sleep 30'))
    p = user.start('run', 'main.bot', *FLAGS)
    until_there(os.path.join(user.workspace, 'ready'), p)
    user.fails('resume', '--last', *FLAGS, code=2, says='another process is running it')
    p.terminate()
    p.communicate(timeout=30)
    assert p.returncode == 143
    user.file('good', '')
    user.ok('resume', '--last', *FLAGS)
    assert trace(user) == ['a', 'b', 'b']


def test_interrupted_is_recorded(me):
    me.file('main.bot', two('touch ready; test -e good || sleep 30'))
    p = me.start('run', 'main.bot', *FLAGS)
    until_there(os.path.join(me.workspace, 'ready'), p)
    p.kill()
    p.communicate()
    me.file('good', '')
    me.ok('resume', '--last', *FLAGS)
    types = [e['type'] for e in me.events()]
    at = types.index('run_interrupted')
    assert types[at + 1] == 'run_resumed' and types.count('run_interrupted') == 1


def recoveries(user, run_id=None):
    """What is kept of nodes that began again, by file name."""
    folder = os.path.join(user.store, 'runs', run_id or user.runs()[-1], 'recoveries')
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        assert os.stat(path).st_mode & 0o777 == 0o600
        with open(path, encoding='utf-8') as f:
            found[name] = json.load(f)
    return found


def test_recoveries_are_kept(me):
    """Of a node that failed, and failed again, and then did it."""
    me.file('main.bot', two('test -e good'))
    me.fails('run', 'main.bot', *FLAGS, code=1)
    assert not os.path.exists(os.path.join(me.store, 'runs', me.runs()[0], 'recoveries'))
    me.fails('resume', '--last', *FLAGS, code=1)
    me.file('good', '')
    me.ok('resume', '--last', *FLAGS)
    kept = recoveries(me)
    assert list(kept) == ['b-1.json', 'b-2.json']
    assert [(r['status'], r['reason'], r['attempt']) for r in kept.values()] == [
        ('failed', 'failed', 1), ('finished', 'failed', 2)]
    assert 'exit code 1' in kept['b-1.json']['error'] and 'exit code 1' in kept['b-1.json']['outcome_error']
    assert 'outcome_error' not in kept['b-2.json'] and kept['b-2.json']['ended_at'] >= kept['b-2.json']['began_at']
    shown = me.ok('inspect', me.runs()[0])
    assert 'it had failed (' in shown.stdout and 'BEGAN AGAIN' in shown.stdout
    told = json.loads(me.ok('inspect', me.runs()[0], '--json').stdout)['recoveries']
    assert [r['attempt'] for r in told] == [1, 2]
    for kind in ('md', 'html'):
        assert 'Nodes that began again' in me.ok('report', me.runs()[0], '--format', kind).stdout


def test_recoveries_that_cannot_be_kept(me):
    """The run says so, of the node that it was about, and can be resumed when there is room again."""
    me.file('main.bot', 'tool a:\n  command: `true`\n\ntool b:\n  command: `test -e go`\n\n'
            'workflow w:\n  entry: a\n  a -> b\n  b -> done\n')
    me.fails('run', 'main.bot', *FLAGS, code=1)
    in_the_way = os.path.join(me.store, 'runs', me.runs()[0], 'recoveries')
    with open(in_the_way, 'w', encoding='ascii'):
        me.file('go', '')
    p = me.run('resume', '--last', '--quiet')
    assert p.returncode == 1 and 'recoveries' in p.stderr and 'hint: ' in p.stderr, p
    assert [e['node_id'] for e in me.events() if e['type'] == 'run_failed'] == ['b', 'b']
    os.unlink(in_the_way)
    me.ok('resume', '--last', '--quiet')


def test_recoveries_that_do_not_end(me):
    """One is killed, the next is cancelled, the last does it."""
    me.file('main.bot', two('rm -f ready; touch ready; test -e good || sleep 30'))

    def begin(*args):
        p = me.start(*args, *FLAGS)
        end = time.monotonic() + 20
        while not os.path.exists(os.path.join(me.workspace, 'ready')):
            assert time.monotonic() < end and p.poll() is None
            time.sleep(0.02)
        os.unlink(os.path.join(me.workspace, 'ready'))
        return p

    for how, args in ((signal.SIGKILL, ('run', 'main.bot')), (signal.SIGKILL, ('resume', '--last')),
                      (signal.SIGTERM, ('resume', '--last'))):
        p = begin(*args)
        p.send_signal(how)
        p.communicate(timeout=30)
    me.file('good', '')
    me.ok('resume', '--last', *FLAGS)
    assert [(r['status'], r['reason']) for r in recoveries(me).values()] == [
        ('interrupted', 'interrupted'), ('stopped', 'interrupted'), ('finished', 'interrupted')]


def test_killed_before_its_first_event(me):
    """run.json is there, and nothing was told: what is told then begins as ever."""
    me.file('main.bot', two('test -e good'))
    me.fails('run', 'main.bot', *FLAGS, code=1)
    folder = os.path.join(me.store, 'runs', me.runs()[0])
    with open(os.path.join(folder, 'run.json'), encoding='utf-8') as f:
        record = json.load(f)
    record.update(status='running', checkpoint=None, finished_at=None, error=None)
    with open(os.path.join(folder, 'run.json'), 'w', encoding='utf-8') as f:
        json.dump(record, f)
    os.truncate(os.path.join(folder, 'events.jsonl'), 0)
    me.file('good', '')
    me.ok('resume', '--last', *FLAGS)
    types = [e['type'] for e in me.events()]
    assert types[:3] == ['run_started', 'run_interrupted', 'run_resumed'] and types.count('run_started') == 1
    assert types[-1] == 'run_finished'


def test_changed_file(user):
    user.file('main.bot', two('exit 3'))
    user.fails('run', 'main.bot', *FLAGS, code=1)
    user.file('main.bot', two('true'))
    before = user.events()
    p = user.fails('resume', '--last', *FLAGS, code=2, says='has changed')
    assert '--force' in p.stderr and user.events() == before
    user.ok('resume', '--last', '--force', *FLAGS)
    assert trace(user) == ['a', 'b', 'b']
    assert next(e for e in user.events() if e['type'] == 'run_resumed')['data']['file_changed'] is True


def test_node_that_is_gone(user):
    user.file('main.bot', two('exit 3'))
    user.fails('run', 'main.bot', *FLAGS, code=1)
    user.file('main.bot', 'tool a:\n  command: "true"\nworkflow w:\n  entry: a\n  a -> done\n')
    user.fails('resume', '--last', '--force', *FLAGS, code=2, says='the node b, where it stands, is not in the file')


@pytest.mark.parametrize('args, says', [
    ((), 'which run is missing'),
    (('--last', '--run-id', 'x'), 'exclude each other'),
    (('--run-id', 'nosuch'), 'nosuch'),
    (('--last',), 'has none'),
])
def test_usage(me, args, says):
    me.fails('resume', *args, code=2, says=says)


def test_failed_for_good(user):
    user.file('main.bot', 'tool a:\n  command: "exit 3"\nworkflow w:\n  entry: a\n  a -> done\n')
    user.fails('run', 'main.bot', *FLAGS, code=1)
    user.fails('resume', '--last', *FLAGS, code=2, says='before there was anything to go on from')


def test_sandbox_is_kept(me):
    """A run that a flag sandboxed goes on sandboxed although the flag is not given again."""
    me.file('main.bot', two('test -e good'))
    me.run('run', 'main.bot', '--quiet', '--sandbox', 'auto', '--sandbox-driver', 'noop')
    me.file('good', '')
    me.ok('resume', '--last', '--quiet')
    assert [e['type'] for e in me.events()].count('sandbox_skipped') == 2


BLOCK = '  sandbox:\n    mode: inline\n    network:\n      mode: open\n'


def two_in(block, command, a=''):
    return two(command).replace('tool a:\n', f'tool a:\n{a}').replace('  a -> b', f'{block}  a -> b')


@pytest.mark.parametrize('flags, env, again, skipped', [
    (('--sandbox-driver', 'noop'), {}, (), 2),
    (('--sandbox-driver', 'noop'), {}, ('--sandbox-driver', 'native'), 1),
    ((), {'ITERION_SANDBOX_DRIVER': 'noop'}, (), 2),
])
def test_driver_is_kept_under_a_block(me, flags, env, again, skipped):
    """The file says that there is a sandbox, a flag of then who makes it."""
    me.file('main.bot', two_in(BLOCK, 'test -e good'))
    me.ok('run', 'main.bot', '--quiet', *flags, env=env, code=1)
    me.file('good', '')
    me.ok('resume', '--last', '--quiet', *again)
    assert [e['type'] for e in me.events()].count('sandbox_skipped') == skipped


def test_driver_that_was_found_is_kept(me):
    """Also of a node's own sandbox: which driver served is not asked anew."""
    own = '  sandbox:\n    mode: inline\n    env:\n      A: "b"\n'
    me.file('main.bot', two_in(BLOCK, 'test -e good', own))
    me.ok('run', 'main.bot', '--quiet', code=1)
    me.file('good', '')
    note = json.loads(me.ok('inspect', me.runs()[0], '--json').stdout)['sandbox']
    assert note['driver'] == 'native' and note['nodes'] == {'a': 'native'}
    me.ok('resume', '--last', '--quiet')
    started = [e['data']['driver'] for e in me.events() if e['type'] == 'sandbox_started']
    assert set(started) == {'native'}


def test_variables_keep_their_weight(me):
    """What a variable said then is not put over a block now, and what one says now does not matter."""
    me.file('main.bot', two_in(BLOCK, 'test -e good'))
    me.ok('run', 'main.bot', '--quiet', '--sandbox-driver', 'native', env={'ITERION_SANDBOX_DEFAULT': 'none'}, code=1)
    me.file('good', '')
    me.ok('resume', '--last', '--quiet', env={'ITERION_SANDBOX_DRIVER': 'noop'})
    types = [e['type'] for e in me.events()]
    assert types.count('sandbox_started') == 2 and 'sandbox_skipped' not in types


@pytest.mark.parametrize('again, enabled', [((), [False, False]), (('--sandbox-host-state', 'auto'), [False, True])])
def test_host_state_is_kept(me, again, enabled):
    me.folder('home', '.claude')
    me.file('main.bot', two_in(BLOCK, 'test -e good'))
    me.ok('run', 'main.bot', '--quiet', '--sandbox-driver', 'native', '--sandbox-host-state', 'none', code=1)
    me.file('good', '')
    me.ok('resume', '--last', '--quiet', *again)
    assert [e['data']['enabled'] for e in me.events() if e['type'] == 'sandbox_host_state_mounted'] == enabled


def test_devcontainer_is_kept(me):
    """By the folder that it was named in."""
    me.folder('workspace', 'etc')
    me.file('etc/dev.json', '{"containerEnv": {"A": "b"}}')
    me.file('main.bot', two('test -e good'))
    me.ok('run', '../main.bot', '--quiet', '--sandbox', 'auto', '--sandbox-driver', 'noop', '--devcontainer', 'dev.json',
          '--workspace', '..', cwd=os.path.join(me.workspace, 'etc'), code=1)
    me.file('good', '')
    os.unlink(os.path.join(me.workspace, 'etc', 'dev.json'))
    me.fails('resume', '--last', '--quiet', code=2, says=os.path.join(me.workspace, 'etc', 'dev.json'))
    me.ok('resume', '--last', '--quiet', '--devcontainer', 'none')


def test_default_image_is_kept(me):
    me.file('main.bot', two('test -e good'))
    me.ok('run', 'main.bot', *FLAGS, '--sandbox-default-image', '127.0.0.1:1/y:2', code=1)
    p = me.ok('resume', '--last', '--quiet', '--sandbox', 'auto', '--sandbox-driver', 'native', code=1)
    assert 'image 127.0.0.1:1/y:2: ' in p.stderr  # which nobody serves


@pytest.mark.parametrize('again, code', [((), 1), (('--timeout', '1h'), 0)])
def test_timeout_is_kept(me, again, code):
    """Each go has the whole of it."""
    me.file('main.bot', two('test -e good || exit 3; test -e quick || sleep 30'))
    me.ok('run', 'main.bot', *FLAGS, '--timeout', '800ms' if not again else '1s', code=1)
    me.file('good', '')
    if again:
        me.file('quick', '')
    p = me.ok('resume', '--last', *FLAGS, *again, code=code)
    assert code == 0 or 'its limit timeout' in p.stderr


def test_variables_and_large_outputs(user):
    user.file('main.bot', '''vars:
  who: string = "nobody"

tool big:
  command: `head -c 300000 /dev/zero | tr '\\\\0' x`

tool check:
  command: `test -e good`

compute size:
  expr:
    n: "length(outputs.big.output)"
    who: "vars.who"
    got: "length(input.text)"

workflow w:
  entry: big
  big -> check
  check -> size with { text: "{{outputs.big.output}}" }
  size -> done
''')
    user.fails('run', 'main.bot', *FLAGS, '--var', 'who=me', code=1)
    user.file('good', '')
    user.ok('resume', '--last', *FLAGS)
    last = [e for e in user.events() if e['type'] == 'node_finished'][-1]
    assert last['data']['output'] == {'n': 300000, 'who': 'me', 'got': 300000}


HUMAN = '''prompt question:
  Shall {{vars.what}} go out?

vars:
  what: string = "it"

schema answer:
  approved: bool
  note: string
  how: string [enum: "fast", "slow"]

human ask:
  interaction: human
  instructions: question
  output: answer
  {more}

tool act:
  command: `echo {{{{outputs.ask.approved}}}} {{{{outputs.ask.note}}}} >>trace`

workflow w:
  entry: ask
  ask -> act when approved
  ask -> done
  act -> done
'''.replace('{{vars.what}}', '{{{{vars.what}}}}')


def human(more=''):
    return HUMAN.format(more=more)


def test_human_pauses_and_goes_on(user):
    user.file('main.bot', human())
    p = user.fails('run', 'main.bot', *FLAGS, '--run-id', 'r', code=3, says='waits for a person')
    assert '--answer' in p.stderr
    record = json.loads(user.ok('inspect', 'r', '--json').stdout)
    assert record['status'] == 'paused_waiting_human' and record['finished_at'] is None and record['error'] is None
    asked = next(e for e in user.events() if e['type'] == 'human_input_requested')
    assert asked['node_id'] == 'ask' and asked['data']['instructions'] == 'Shall it go out?'
    assert [f['name'] for f in asked['data']['fields']] == ['approved', 'note', 'how']
    assert record['checkpoint']['pending_interaction'] == asked['data']['interaction_id']
    path = os.path.join(user.store, 'runs', 'r', 'interactions', asked['data']['interaction_id'] + '.json')
    with open(path, encoding='utf-8') as f:
        assert json.load(f)['status'] == 'pending'
    before = user.events()
    assert before[-1]['type'] == 'run_paused'
    for args, says in (
            ((), '0 of 3 answers are given; missing: approved note how'),
            (('--answer', 'approved=maybe'), 'does not fit'),
            (('--answer', 'aproved=true'), 'no such field'),
            (('--answer', 'how=never'), 'none of its choices'),
            (('--answer', 'note'), 'no field=value'),
            (('--answer', 'approved=true', '--answer', 'note=x'), '2 of 3 answers are given; missing: how')):
        user.fails('resume', '--last', *FLAGS, *args, code=2, says=says)
    assert user.events() == before
    user.ok('resume', '--last', *FLAGS, '--answer', 'approved=true', '--answer', 'ask.note=a b', '--answer', 'how=fast')
    assert trace(user) == ['true', 'a', 'b']
    types = [e['type'] for e in user.events()]
    assert types.count('human_input_requested') == 1 and types.count('human_answers_recorded') == 1
    assert types.count('node_started') == 2 and types[-1] == 'run_finished'
    with open(path, encoding='utf-8') as f:
        assert json.load(f)['answers'] == {'approved': True, 'note': 'a b', 'how': 'fast'}


def test_human_needs_only_some_answers(user):
    user.file('main.bot', human('min_answers: 1'))
    user.fails('run', 'main.bot', *FLAGS, code=3, says='waits')
    user.ok('resume', '--last', *FLAGS, '--answer', 'approved=false')
    done = next(e for e in user.events() if e['type'] == 'node_finished')
    assert done['data']['output'] == {'approved': False, 'note': None, 'how': None}


def test_answers_that_nobody_asked_for(user):
    user.file('main.bot', two('test -e good'))
    user.fails('run', 'main.bot', *FLAGS, code=1)
    user.fails('resume', '--last', *FLAGS, '--answer', 'x=y', code=2, says='does not wait')


def test_others_go_on_while_a_person_thinks(user):
    user.file('main.bot', '''router r:
  mode: fan_out_all

human one:
  interaction: human

human two:
  interaction: human

tool work:
  command: `sleep 0.1; echo work >>trace`

tool join:
  command: `echo {{outputs.one.x}} {{outputs.two.x}} >>trace`

workflow w:
  entry: r
  r -> one
  r -> two
  r -> work
  one -> join
  two -> join
  work -> join
  join -> done
''')
    user.fails('run', 'main.bot', *FLAGS, code=3, says='waits')
    assert trace(user) == ['work']
    assert len(user.events()[-1]['data']['waiting']) == 2
    user.fails('resume', '--last', *FLAGS, '--answer', 'two.x=2', code=3, says='node one')
    user.ok('resume', '--last', *FLAGS, '--answer', 'x=1')
    assert trace(user) == ['work', '1', '2']


def test_artifacts_come_back(user):
    user.file('main.bot', '''schema answer:
  text: string

human ask:
  interaction: human
  output: answer
  publish: wish

tool act:
  command: `test -e good; echo {{artifacts.wish.text}} >>trace; test -e good`

workflow w:
  entry: ask
  ask -> act
  act -> done
''')
    user.fails('run', 'main.bot', *FLAGS, code=3, says='waits')
    user.fails('resume', '--last', *FLAGS, '--answer', 'text=tea', code=1)
    user.file('good', '')
    user.ok('resume', '--last', *FLAGS)
    assert trace(user) == ['tea', 'tea']
    assert [e['data'] for e in user.events() if e['type'] == 'artifact_written'] == [{'publish': 'wish', 'version': 1}]


def failed_once(me):
    """A run that failed at its second node, which a file in the workspace lets pass; its run.json."""
    me.file('main.bot', 'tool a:\n  command: `true`\n\ntool b:\n  command: `test -e fixed`\n\n'
                        'workflow w:\n  entry: a\n  a -> b\n  b -> done\n')
    me.ok('run', 'main.bot', *FLAGS, code=1)
    me.file('fixed', '')
    return os.path.join(me.store, 'runs', me.runs()[-1], 'run.json')


@pytest.mark.parametrize('counted', [-2**63, 2**63 - 1, 1e308, 'x'])
def test_counts_that_cannot_be(me, counted):
    path = failed_once(me)
    with open(path, encoding='utf-8') as f:
        record = json.load(f)
    record['checkpoint']['used'] = dict.fromkeys(record['checkpoint']['used'], counted)
    me.file(path, json.dumps(record), 0o600)
    me.ok('resume', '--last', *FLAGS)
    with open(path, encoding='utf-8') as f:
        used = json.load(f)['checkpoint']['used']
    assert all(0 <= v <= 2**53 + 10**6 for v in used.values()), used


@pytest.mark.parametrize('text', ['{"id": "', '[]'])
def test_damaged_record(me, text):
    path = failed_once(me)
    previous = path + '.previous'
    if os.path.exists(previous):
        os.unlink(previous)
    me.file(path, text, 0o600)
    run = me.runs()[-1]
    for command in (('inspect', run), ('report', run), ('resume', '--run-id', run)):
        me.fails(*command, says=('run.json', f'runs/{run}'))
