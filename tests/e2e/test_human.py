"""Human nodes on a real terminal: what is shown, what counts as an answer, and what ^D and ^C mean."""
import json
import os
import re
import shlex

import pytest

from provider import Provider
from tmux import OURS, THEIRS, terminal  # noqa: F401  (a fixture)

GO = 'while [ ! -e go ]; do sleep 0.05; done'
HUMAN = '''prompt ask:
  Look at the diff of {{{{vars.what}}}}.
  Is it good?

schema verdict:
  ok: bool
  size: string [enum: "small", "large"]
  n: int
  note: string

vars:
  what: string = "main"

human review:
  instructions: ask
  output: verdict
{more}
tool t:
  command: `echo got {{{{outputs.review.ok}}}} {{{{outputs.review.size}}}} {{{{outputs.review.n}}}} "{{{{outputs.review.note}}}}"`

workflow w:
  entry: {entry}
{edges}  review -> t
  t -> done
'''


def workflow(more='', entry='review', edges=''):
    return HUMAN.format(more=more, entry=entry, edges=edges)


def status(user):
    return json.loads(user.ok('inspect', user.runs()[-1], '--json', '--store-dir', user.store).stdout)['status']


def answer(t, prompt, text):
    """Types a line once its prompt is the last thing on the screen."""
    t.until(lambda screen: screen.rstrip().split('\n')[-1].startswith(prompt + ' ['))
    if text:
        t.tmux('send-keys', '-l', text)
    t.keys('Enter')


def test_answered(me, terminal):
    me.file('main.bot', workflow(more=r"""
tool first:
  command: `printf 'a \033[31mbranch\033]0;x\007'`
""", entry='first', edges='  first -> review\n').replace('vars.what}}', 'outputs.first.output}}'))
    t = terminal(80)
    t.run()
    t.until('node review asks:')
    text = t.screen('-e')
    assert '  Look at the diff of a \\x1b[31mbranch\\x1b]0;x\\x07.\n  Is it good?\n' in text
    assert 'Ctrl-D' in text and 'ok [y or n]:' in text
    answer(t, 'ok', 'maybe')
    t.until('write y or n')
    answer(t, 'ok', '')
    t.until('an answer is needed')
    answer(t, 'ok', 'y')
    t.until('size [small, large]:')
    answer(t, 'size', 'huge')
    t.until('none of its choices')
    answer(t, 'size', 'large')
    answer(t, 'n', 'seven')
    t.until("the field is of type")
    answer(t, 'n', '7')
    answer(t, 'note', 'it is $(id) "fine"')
    t.given_back(0)
    assert 'got true large 7' in t.screen()
    recorded = [e for e in me.events() if e['type'] == 'human_answers_recorded']
    assert [e['data']['answers'] for e in recorded] == [
        {'ok': True, 'size': 'large', 'n': 7, 'note': 'it is $(id) "fine"'}]


def test_the_view_makes_room(me, terminal):
    """While a person is asked the terminal is as before; then the view comes back."""
    me.file('main.bot', workflow(more=f'\ntool first:\n  command: `{GO}`\n\ntool last:\n  command: `while [ ! -e go2 ]; do '
                                 'sleep 0.05; done`\n', entry='first', edges='  first -> review\n')
            .replace('  t -> done', '  t -> last\n  last -> done'))
    t = terminal(80)
    t.run()
    t.until('first ')
    t.state(OURS)
    t.keys('y', 'Enter')  # typed too early: it must not approve anything
    me.file('go', '')
    t.until('node review asks:')
    t.state(THEIRS)
    for field, text in (('ok', 'n'), ('size', 'small'), ('n', '1'), ('note', '""')):
        answer(t, field, text)
    t.until('last ')
    t.state(OURS)
    assert re.search(r'\nreview +finished', t.screen())
    me.file('go2', '')
    t.given_back(0)
    assert 'got false small 1' in t.screen()


@pytest.mark.parametrize('keys, code, state', [('C-d', 3, 'paused_waiting_human'), ('C-c', 130, 'cancelled')])
def test_not_answered(me, terminal, keys, code, state):
    me.file('main.bot', workflow())
    t = terminal(80)
    t.run()
    answer(t, 'ok', 'y')
    t.until('size [small, large]:')
    t.keys(keys)
    t.given_back(code)
    assert status(me) == state
    assert not [e for e in me.events() if e['type'] == 'human_answers_recorded']
    # resume asks again, on the terminal or by options
    t.keys('clear', 'Enter')
    t.tmux('send-keys', '-l', f'{shlex.quote(me.program)} resume --last --store-dir {shlex.quote(me.store)}; echo code $?')
    t.keys('Enter')
    t.until('node review asks:')
    for field, text in (('ok', 'yes'), ('size', 'small'), ('n', '2'), ('note', 'x')):
        answer(t, field, text)
    t.given_back(0)
    assert 'got true small 2' in t.screen()


def test_left_out(me, terminal):
    me.file('main.bot', workflow(more='  min_answers: 1\n'))
    t = terminal(80)
    t.run()
    t.until('(1 of 4 answers are needed)')
    answer(t, 'ok', '')
    answer(t, 'size', '')
    answer(t, 'n', '5')
    answer(t, 'note', '')
    t.given_back(0)
    [done] = [e for e in me.events() if e['type'] == 'human_answers_recorded']
    assert done['data']['answers'] == {'ok': None, 'size': None, 'n': 5, 'note': None}


def several():
    nodes = ''.join(f'human h{i}:\n  output: s\n\n' for i in range(3))
    edges = ''.join(f'  split -> h{i}\n  h{i} -> join\n' for i in range(3))
    return ('schema s:\n  v: string\n\nrouter split:\n  mode: fan_out_all\n\n' + nodes +
            'tool join:\n  command: `echo {{outputs.h0.v}} {{outputs.h1.v}} {{outputs.h2.v}}`\n  await: wait_all\n\n'
            'workflow w:\n  entry: split\n' + edges + '  join -> done\n')


def test_several_at_once(me, terminal):
    """They are asked one after the other; what is typed ahead is not taken for the next one."""
    me.file('main.bot', several())
    t = terminal(80)
    t.run()
    for i in range(3):
        t.until(f'node h{i} asks:')
        answer(t, 'v', f'answer-{i}')
    t.given_back(0)
    assert 'answer-0 answer-1 answer-2' in t.screen()


def test_declined_for_all(me, terminal):
    me.file('main.bot', several())
    t = terminal(80)
    t.run()
    t.until('node h0 asks:')
    answer(t, 'v', 'zero')
    t.until('node h1 asks:')
    t.keys('C-d')
    t.given_back(3)
    assert 'node h2 asks' not in t.screen() and status(me) == 'paused_waiting_human'


def test_the_run_ends_meanwhile(me, terminal):
    me.file('main.bot', workflow())
    t = terminal(80)
    t.run('--timeout', '1s')
    t.until('ok [y or n]:')
    t.given_back(1)


@pytest.mark.parametrize('how', [('--no-interactive',), ('--json',)])
def test_not_asked(me, terminal, how):
    me.file('main.bot', workflow())
    t = terminal(80)
    t.run(*how)
    t.given_back(3)
    assert 'asks:' not in t.screen()


def test_not_asked_without_a_terminal(me):
    me.file('main.bot', workflow())
    p = me.ok('run', 'main.bot', '--sandbox-driver', 'noop', input='y\nlarge\n7\nx\n', code=3)
    assert 'asks:' not in p.stderr and os.listdir(os.path.join(me.store, 'runs'))


def test_stopped_and_continued(me, terminal):
    """^Z at a question; fg asks again."""
    me.file('main.bot', workflow())
    t = terminal(80)
    t.run()
    t.until('ok [y or n]:')
    t.keys('C-z')
    t.until('Stopped')
    t.keys('clear; fg', 'Enter')
    for field, text in (('ok', 'y'), ('size', 'small'), ('n', '3'), ('note', 'x')):
        answer(t, field, text)
    t.until('got true small 3')


LLM = '''## strict-escape: on
prompt ask:
  Which channel?

schema verdict:
  channel: string [enum: "stable", "edge"]

human release:
  instructions: ask
  interaction: llm_or_human
  model: "claude-sonnet-4-5"
  output: verdict

tool t:
  command: "echo got {{outputs.release.channel}}"

workflow w:
  default_backend: "claw"
  entry: release
  release -> t
  t -> done
'''
UNSURE = {'turns': [{'tool': 'ask_user', 'input': {'question': 'WHICH-ONE?', 'options': ['stable', 'edge']}},
                    {'structured': {'channel': 'edge'}}]}
SURE = {'turns': [{'structured': {'channel': 'stable'}}]}


def keys(p):
    return {'ANTHROPIC_API_KEY': 'k' * 20, 'ANTHROPIC_BASE_URL': p.url}


def test_a_model_that_is_sure_asks_nobody(me):
    me.file('main.bot', LLM)
    with Provider(SURE) as p:
        me.ok('run', 'main.bot', env=keys(p))
    assert not [e for e in me.events() if e['type'] == 'human_input_requested']
    assert [e['data']['output'] for e in me.events() if e['type'] == 'node_finished'][0] == {'channel': 'stable'}


def test_a_model_that_is_not_asks(me):
    me.file('main.bot', LLM)
    with Provider(UNSURE) as p:
        me.ok('run', 'main.bot', env=keys(p), code=3)
        [asked] = [e['data'] for e in me.events() if e['type'] == 'human_input_requested']
        assert asked['instructions'].startswith('WHICH-ONE?')
        me.ok('resume', '--last', '--answer', 'answer=the newer one', env=keys(p))
        assert 'the newer one' in json.dumps(p.calls()[-1]['body']['messages'])
    assert 'got edge' in [e['data']['output'] for e in me.events() if e['type'] == 'node_finished'][-1]['output']


def test_and_on_the_terminal(me, terminal):
    me.file('main.bot', LLM)
    with Provider(UNSURE) as p:
        t = terminal(80)
        t.run(before=' '.join(f'{k}={v}' for k, v in keys(p).items()))
        t.until('node release asks:')
        assert 'WHICH-ONE?' in t.screen() and '- stable' in t.screen()
        answer(t, 'answer', 'the newer one')
        t.given_back(0)
    assert 'got edge' in t.screen()


def test_only_claw_can_wait_for_an_answer(me):
    me.file('main.bot', LLM.replace('"claw"', '"claude_code"'))
    me.fails('run', 'main.bot', says=('llm_or_human needs the backend claw', 'default_backend'))
