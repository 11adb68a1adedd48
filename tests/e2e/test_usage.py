"""The command line itself: help, wrong words and options, and what becomes of a standard output that fails."""
import json
import os
import re
import subprocess

import pytest

from conftest import ROOT


def commands(me):
    out = me.ok('--help').stdout
    names = re.findall(r'^  ((?:[a-z-]+ ?)+?)  +\S', out, re.M)
    names = [n.strip() for n in names if not n.startswith('iterion')]
    assert 'run' in names and 'sandbox exec' in names
    return names


def test_every_command_explains_itself(me):
    for name in commands(me):
        words = name.split()
        p = me.ok(*words, '--help')
        for part in ('Usage:', 'Options:', 'Exit codes:', f'iterion {name}', '--help'):
            assert part in p.stdout, f'{name}: {part} is missing'
        assert p.stderr == ''
        assert me.ok('help', *words).stdout == p.stdout
        assert all(len(line) <= 100 for line in p.stdout.split('\n')), name


def test_examples_in_help_use_options_that_exist(me):
    """An example line is parsed by the command it stands in: no unknown options, no missing operands."""
    for name in commands(me):
        text = me.ok(*name.split(), '--help').stdout
        options = set(re.findall(r'--[a-z-]+', text.split('Options:')[1].split('Examples:')[0]))
        for line in re.findall(rf'^  iterion {name}(.*)$', text, re.M)[1:]:
            used = set(re.findall(r'(?<=\s)--[a-z-]+', re.split(r' -- | \| | && ', line)[0]))
            assert used <= options, f'{name}: {line}'


def test_version(me):
    assert re.fullmatch(r'iterion \d+\.\d+\.\d+\S*\n', me.ok('version').stdout)
    assert me.ok('--version').stdout == me.ok('version').stdout
    assert list(json.loads(me.ok('version', '--json').stdout)) == ['version']


@pytest.mark.parametrize('args, says', [
    ((), 'a command is missing'),
    (('sandbox',), 'a command is missing'),
    (('sandbox', 'network'), 'a command is missing'),
    (('rnu', 'x.bot'), '`iterion run`'),
    (('sandbox', 'exce'), '`iterion sandbox exec`'),
    (('sandbox', 'network', 'chekc'), '`iterion sandbox network check`'),
    (('--json',), 'behind the command'),
    (('run',), 'FILE'),
    (('run', 'a.bot', 'b.bot'), 'b.bot'),
    (('run', '--workspce', 'x', 'a.bot'), '--workspace'),
    (('run', '--workspce=x', 'a.bot'), '--workspace'),
    (('run', '-Q', 'a.bot'), '-Q'),
    (('run', 'a.bot', '--timeout'), '--timeout TIME'),
    (('run', 'a.bot', '--timeout', '--', 'x'), '--timeout TIME'),
    (('run', 'a.bot', '--timeout', 'soon'), '30m'),
    (('run', 'a.bot', '--timeout='), 'empty'),
    (('run', 'a.bot', '--json=yes'), 'no value'),
    (('run', 'a.bot', '--sandbox', 'atuo'), 'auto'),
    (('run', 'a.bot', '--log-level', 'loud'), 'debug'),
    (('run', 'a.bot', '--run-id', '../../x'), 'id'),
    (('run', 'a.bot', '--run-id', 'x' * 200), 'id'),
    (('sandbox', 'exec'), '--'),
    (('sandbox', 'exec', 'ls'), '--'),
    (('sandbox', 'network', 'check'), 'HOST'),
    (('version', 'now'), 'now'),
    (('run', '\x1b[31mred.bot'), '\\x1b'),
])
def test_wrong_usage(me, args, says):
    me.file('a.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  t -> done\n')
    p = me.fails(*args, says=says)
    assert p.stdout == ''
    assert '\x1b' not in p.stderr
    assert me.runs() == []


def test_help_needs_nothing_else_to_be_right(me):
    assert 'Usage:' in me.ok('run', '--help', '--no-such').stdout
    assert 'Usage:' in me.ok('run', '-h').stdout


def test_options_anywhere_and_dashes(me):
    path = me.file('-odd.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  t -> done\n')
    assert me.ok('validate', '--json', '--', '-odd.bot').returncode == 0
    assert me.ok('validate', path, '--json').returncode == 0


def test_full_standard_output_is_a_failure(me):
    for args in (('version',), ('--help',), ('inspect', '--json')):
        with open('/dev/full', 'wb') as full:
            p = me.run(*args, stdout=full)
        assert p.returncode == 1 and 'No space left' in p.stderr and 'hint: ' in p.stderr


def test_closed_standard_output_is_a_failure(me):
    p = me.popen('sh', '-c', f'{me.program} version >&-', stdout=subprocess.DEVNULL)
    _, err = p.communicate(timeout=20)
    assert p.returncode == 1 and b'standard output' in err


def test_closed_streams_do_no_harm(me):
    """A run with 0, 1 and 2 closed must not write into its own store's files in their place."""
    me.file('a.bot', 'tool t:\n  command: "echo hello"\n\nworkflow w:\n  entry: t\n  t -> done\n')
    p = me.popen('sh', '-c', f'{me.program} run a.bot --sandbox-driver noop <&- >&- 2>&-', stdout=None, stderr=None)
    p.communicate(timeout=30)
    assert me.events()[-1]['type'] == 'run_finished'


def test_no_colour_off_a_terminal(me):
    assert '\x1b' not in me.ok('--help', env={'TERM': 'xterm-256color'}).stdout


def test_documentation_names_every_command_and_option(me):
    with open(os.path.join(ROOT, 'docs', 'cli.md'), encoding='utf-8') as f:
        doc = f.read()
    for name in commands(me):
        assert f'`iterion {name}' in doc, f'docs/cli.md does not name {name}'
        text = me.ok(*name.split(), '--help').stdout.split('Options:')[1].split('Exit codes:')[0].split('Examples:')[0]
        for option in re.findall(r'^ +(?:-\w, |    )(--[a-z-]+)', text, re.M):
            if option not in ('--help', '--detailed', '--full'):
                assert option in doc, f'docs/cli.md does not name {option} of {name}'
    known = set(re.findall(r'`iterion ([a-z]+(?: [a-z]+)*)', doc.split('## Rules')[0])) - {'COMMAND'}
    assert known == set(commands(me))
