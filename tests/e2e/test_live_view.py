"""`run` on a real terminal, which tmux is: what stands on the screen while a run goes on, and what stays."""
import re
import shlex

import pytest

from conftest import skip
from tmux import OURS, THEIRS, terminal  # noqa: F401  (a fixture)

GO = 'while [ ! -e go ]; do sleep 0.05; done'
SGR = re.compile(r'\x1b\[[0-9;]*m')


def workflow(*commands, head='  entry: t0\n'):
    nodes = ''.join(f'tool t{i}:\n  command: `{c}`\n\n' for i, c in enumerate(commands))
    names = [f't{i}' for i in range(len(commands))] + ['done']
    edges = ''.join(f'  {a} -> {b}\n' for a, b in zip(names, names[1:]))
    return nodes + 'workflow w:\n' + head + edges


def branches(n):
    nodes = ''.join(f'tool b{i}:\n  command: `{GO}; echo out {i}`\n\n' for i in range(n))
    edges = ''.join(f'  split -> b{i}\n  b{i} -> join\n' for i in range(n))
    return (nodes + 'router split:\n  mode: fan_out_all\n\ntool join:\n  command: `echo joined`\n  await: wait_all\n\n'
            f'workflow w:\n  entry: split\n  budget:\n    max_parallel_branches: {n}\n{edges}  join -> done\n')


LONG = 'x' * 300


@pytest.mark.parametrize('columns', [80, 200])
def test_a_line_a_node(me, terminal, columns):
    me.file('main.bot', workflow(f'echo {LONG}', GO, 'echo last'))
    t = terminal(columns)
    t.run('--name', 'nightly')
    t.until('t1  ')
    t.state(OURS)
    head, sandbox, first, second = t.lines()
    assert re.fullmatch(r'nightly  running \d+\.\d s  nodes: 1 running, 1 finished', head)
    assert sandbox.startswith('sandbox: none')
    assert re.fullmatch(r't0 +finished +\d+\.\d s +x+…', first) and len(first) == columns
    assert re.fullmatch(r't1 +running +\d+\.\d s', second)
    before = t.lines()[0]
    t.until(lambda text: text.split('\n')[0] not in ('', before))  # the clock goes on
    me.file('go', '')
    t.given_back(0)
    text = t.screen()
    assert re.match(r'nightly  finished in \d+\.\d s  nodes: 3 finished\nsandbox: none', text)
    assert [w for w in re.findall(r'\n(t\d) +finished ', text)] == ['t0', 't1', 't2'] and 'last' in text


def test_resized_while_it_runs(me, terminal):
    me.file('main.bot', workflow(f'echo {LONG}', f'echo 漢字漢字漢字{LONG}', GO))
    t = terminal(200)
    t.run()
    t.until('t2 ')
    for columns, rows in ((40, 24), (120, 10), (20, 24), (33, 4), (81, 24)):
        t.resize(columns, rows)

        def fits(text):
            lines = text.rstrip('\n').split('\n')
            return (len(lines) == (5 if rows > 4 else 4) and lines[0].startswith('w  running')
                    and lines[-1].startswith('t2 ') and all(len(x) <= columns for x in lines))
        t.until(fits)
    me.file('go', '')
    t.given_back(0)


def test_fifty_branches(me, terminal):
    me.file('main.bot', branches(50))
    t = terminal(80)
    t.run()
    text = t.until('50 running')
    lines = text.rstrip('\n').split('\n')
    assert len(lines) == 24 and lines[0].startswith('w  running') and '… 30 more: 29 running, 1 finished' in lines
    assert len([x for x in lines if re.match(r'b\d+ +running ', x)]) == 21
    t.resize(80, 60)
    text = t.until(lambda text: len(re.findall(r'\nb\d+ +running ', text)) == 50)
    assert ' more: ' not in text and re.search(r'\nsplit +finished ', text)
    me.file('go', '')
    t.given_back(0)
    text = t.screen('-S', '-')
    assert 'nodes: 52 finished' in text
    assert len(re.findall(r'^b(\d+) +finished +\d+\.\d s +out \1$', text, re.M)) == 50


HOSTILE = (r'\033[2J', r'\033]52;c;b3duZWQ=\007', r'\rback', r'\033[?1049h', r'\033[?25h', r'\033c', r'\342\200\256abc',
           r'\342\201\246x', r'\377\376', r'\302\2332J', r'\tq', r'\nq')
SHOWN = (r'\x1b[2J', r'\x1b]52;c;b3duZWQ=\x07', r'\x0dback', r'\x1b[?1049h', r'\x1b[?25h', r'\x1bc', r'\u202eabc', r'\u2066x',
         '\ufffd\ufffd', r'\x9b2J', ' q', ' q')


@pytest.mark.parametrize('at_once', [False, True])
def test_output_cannot_steer_it(me, terminal, at_once):
    """Each alone, and all in one output; in the view and in what stays."""
    outputs = (''.join(HOSTILE),) if at_once else HOSTILE
    shown = (''.join(SHOWN),) if at_once else SHOWN
    me.file('main.bot', workflow(*(f"printf '<{x}>'" for x in outputs), GO))
    t = terminal(200)
    t.run()
    t.until(f't{len(outputs)} ')

    def check(text):
        for x in shown:
            assert f'<{x}>' in SGR.sub('', text)
        assert '\x1b' not in SGR.sub('', text)
    check(t.screen('-e'))
    t.state(OURS)
    me.file('go', '')
    t.until('code 0')
    check(t.screen('-e'))
    t.given_back(0)
    with open(t.raw, 'rb') as f:
        raw = f.read()
    assert raw.count(b'\x1b[?1049h') == 1 and raw.count(b'\x1b[?1049l') == 1
    for bad in (b'\x1b]52', b'\x1bc', b'\xe2\x80\xae', b'\xe2\x81\xa6', b'\xff', b'\xc2\x9b'):
        assert bad not in raw


@pytest.mark.parametrize('key, code', [('C-c', 130), ('C-\\', 131)])
def test_ended_from_the_keyboard(me, terminal, key, code):
    """^C cancels; what kills the program itself leaves no broken terminal either."""
    me.file('main.bot', workflow('echo $PPID >pid; ' + GO))
    t = terminal(80)
    t.run(before='ulimit -c 0;')
    t.until('t0 ')
    t.state(OURS)
    t.keys('typed meanwhile')
    t.keys(key)
    t.given_back(code)
    if code == 130:
        assert re.match(r'w  cancelled in .*nodes: 1 stopped\n', t.screen())
    me.file('go', '')


def test_terminated(me, terminal):
    me.file('main.bot', workflow(GO))
    t = terminal(80)
    t.run(after='& pid=$!; sleep 1; kill $pid; wait $pid')
    t.given_back(143)
    assert 'node t0: started' in t.screen(), 'in the background the terminal is not ours'


def test_stopped_and_continued(me, terminal):
    me.file('main.bot', workflow(GO, 'echo last'))
    t = terminal(80)
    t.run()
    t.until('t0 ')
    t.state(OURS)
    t.keys('C-z')
    t.until('Stopped')
    t.state(THEIRS)
    t.keys('clear; echo he''re; fg', 'Enter')
    t.until('t0 ')
    t.state(OURS)
    me.file('go', '')
    t.state(THEIRS)
    t.until(lambda text: text.startswith('here\n') and '\nw  finished in' in text)


@pytest.mark.parametrize('how, sign', [
    (('--quiet',), ''), (('--json',), '"type":"run_started"'), (('--log-level', 'info'), 'node t0: started'),
    ('TERM=dumb', 'node t0: started'), ('TERM=', 'node t0: started'), (19, 'node t0: started'), ('| cat', 'node t0: started')])
def test_plain(me, terminal, how, sign):
    me.file('main.bot', workflow('sleep 0.4; echo one'))
    t = terminal(how if isinstance(how, int) else 300)
    if how == '| cat':
        t.run(after='| cat')
    elif isinstance(how, str):
        t.run(before=how)
    else:
        t.run(*(how if isinstance(how, tuple) else ()))
    t.until(lambda text: re.search('^code 0$', text, re.M))
    assert sign in t.screen('-J')
    with open(t.raw, 'rb') as f:
        assert b'\x1b[?1049' not in f.read()


@pytest.mark.parametrize('no_color', ['', '1'])
def test_colour(me, terminal, no_color):
    me.file('main.bot', workflow('echo one', GO))
    t = terminal(80)
    t.run(before=f'NO_COLOR={no_color}')
    t.until('t1 ')
    assert bool(SGR.search(t.screen('-e'))) == (not no_color)
    me.file('go', '')
    t.given_back(0)


def test_short_run_leaves_the_screen_alone(me, terminal):
    me.file('main.bot', workflow('echo one'))
    t = terminal(80)
    t.run()
    t.given_back(0)
    assert re.search(r'\nt0 +finished +0\.\d s +one\n', t.screen())
    with open(t.raw, 'rb') as f:
        assert b'\x1b[?1049' not in f.read()


def test_resumed(me, terminal):
    me.file('main.bot', workflow('echo one', f'[ -e go ] || exit 3; {GO.replace("go", "go2")}'))
    me.ok('run', 'main.bot', '--store-dir', me.store, '--sandbox-driver', 'noop', code=1)
    me.file('go', '')
    t = terminal(80)
    t.tmux('send-keys', '-l', f'clear; {shlex.quote(me.program)} resume --last --store-dir {shlex.quote(me.store)}; echo code $?')
    t.keys('Enter')
    assert t.until('t1 ').startswith('w  running ')
    t.state(OURS)
    me.file('go2', '')
    t.given_back(0)
    assert re.match(r'w  finished in .*nodes: 1 finished\n', t.screen())


def test_learned_rules_are_told(me, terminal):
    me.file('main.bot', workflow('sleep 0.3; echo one', head='  entry: t0\n  sandbox:\n    network:\n      mode: learn\n'))
    p = me.run('run', 'main.bot', '--store-dir', me.store, '--sandbox-driver', 'native')
    if p.returncode != 0:
        skip('a native sandbox cannot be made here')
    t = terminal(80)
    t.run('--sandbox-driver', 'native')
    t.given_back(0)
    assert 'network: this run needs these rules:' in t.screen()


def test_tmux_shows_what_is_not_neutralised(me, terminal):
    """The control for the tests above: the same bytes, sent by a program itself, do steer this terminal."""
    t = terminal(80)
    t.keys(r"clear; printf 'x\033[?1049hseen'; read x", 'Enter')
    t.state('1 1 1')
    assert 'seen' in t.screen()
