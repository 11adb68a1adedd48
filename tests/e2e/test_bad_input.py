"""Bad input never crashes, hangs or leaves anything behind: exit code 2, an error that says what, why and what to do."""
import json
import os

import pytest

from conftest import skip

GOOD = 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  t -> done\n'
SANDBOX = GOOD.replace('  entry: t\n', '  entry: t\n  sandbox:\n    mode: inline\n    network:\n'
                       '      mode: allowlist\n      rules: [{rule}]\n')

FILES = {
    'empty': b'',
    'only comments': b'## nothing\n',
    'binary': bytes(range(256)) * 64,
    'NULs': b'\0' * 4096,
    'not UTF-8': b'tool t:\n  command: "\xff\xfe"\n' + GOOD.encode(),
    'tabs': GOOD.replace('  ', '\t').encode(),
    'unclosed string': b'tool t:\n  command: "true\n\nworkflow w:\n  entry: t\n  t -> done\n',
    'unclosed raw string': b'tool t:\n  command: `true\n\nworkflow w:\n  entry: t\n  t -> done\n',
    'no workflow': b'tool t:\n  command: "true"\n',
    'two workflows': (GOOD + 'workflow v:\n  entry: t\n  t -> done\n').encode(),
    'unknown entry': GOOD.replace('entry: t', 'entry: x').encode(),
    'unknown node': GOOD.replace('t -> done', 't -> nowhere').encode(),
    'unknown property': GOOD.replace('command:', 'comand:').encode(),
    'deep nesting': b'vars:\n  x: json = ' + b'[' * 100000 + b'\n' + GOOD.encode(),
    'long line': b'## ' + b'x' * 5000000 + b'\ntool',
    'bad rule': SANDBOX.format(rule='"a.*.b"').encode(),
    'bad CIDR': SANDBOX.format(rule='"10.0.0.0/99"').encode(),
    'escape sequences': b'\x1b]0;owned\x07\x1b[2Jtool \x9b31m:\n',
}


@pytest.mark.parametrize('name', list(FILES))
@pytest.mark.parametrize('command', ['validate', 'run', 'exec'])
def test_bad_file(me, name, command):
    path = me.file('bad.bot', FILES[name])
    args = {'validate': ('validate', path), 'run': ('run', path), 'exec': ('sandbox', 'exec', path, '--', 'true')}
    before = sorted(os.listdir(me.base)), sorted(os.listdir(me.home)), sorted(os.listdir(me.workspace))
    if command == 'validate':
        p = me.ok(*args[command], code=2)
    else:
        p = me.fails(*args[command])
    everything = p.stdout + p.stderr
    assert 'bad.bot' in everything
    assert not any(c in everything for c in '\x1b\x07\x9b\0')
    assert me.runs() == [], 'nothing is made for a run that cannot be'
    assert before == (sorted(os.listdir(me.base)), sorted(os.listdir(me.home)), sorted(os.listdir(me.workspace)))


@pytest.mark.parametrize('name', list(FILES))
def test_bad_file_as_json(me, name):
    doc = json.loads(me.ok('validate', '--json', me.file('bad.bot', FILES[name]), code=2).stdout)
    assert doc['ok'] is False and doc['file'].endswith('bad.bot')
    errors = [d for d in doc['diagnostics'] if d['severity'] == 'error']
    assert errors
    for d in doc['diagnostics']:
        assert set(d) <= {'code', 'severity', 'line', 'column', 'message', 'hint'}
        assert d['code'][0] in 'PC' and d['line'] >= 1 and d['column'] >= 1 and d['message']


@pytest.mark.parametrize('command', [('validate',), ('run',), ('diagram',)])
@pytest.mark.parametrize('what, says', [
    ('missing', 'No such file'), ('folder', 'directory'), ('unreadable', 'Permission denied'), ('fifo', 'regular file'),
    ('big', 'limit'), ('loop', 'levels of symbolic links'),
])
def test_file_that_cannot_be_read(me, command, what, says):
    path = os.path.join(me.workspace, 'main.bot')
    if what == 'folder':
        os.mkdir(path)
    elif what == 'unreadable':
        me.file('main.bot', GOOD, 0)
        if me.uid == 0:
            skip('an ordinary user is needed: root may read everything')
    elif what == 'fifo':
        os.mkfifo(path, 0o644)
    elif what == 'big':
        with open(path, 'wb') as f:
            f.truncate(100 * 1024 * 1024)
        os.chmod(path, 0o644)
    elif what == 'loop':
        os.symlink('main.bot', path)
    if os.path.exists(path):
        me.own(path)
    p = me.fails(*command, path, says=says, timeout=20)
    assert p.stdout == '' and me.runs() == []


@pytest.mark.parametrize('flags, says', [
    (('--workspace', '/nonexistent'), '/nonexistent'),
    (('--workspace', '/etc/passwd'), 'not a folder'),
    (('--var', 'nosuch=1'), 'nosuch'),
    (('--var', 'novalue'), 'novalue'),
    (('--preset', 'nosuch'), 'nosuch'),
    (('--sandbox-driver', 'nosuch'), 'nosuch'),
    (('--run-id', 'a/b'), 'a/b'),
])
def test_values_that_cannot_be(me, flags, says):
    path = me.file('main.bot', GOOD)
    me.fails('run', path, *flags, says=says)
    assert me.runs() == []


@pytest.mark.parametrize('args, says', [
    (('--rule', 'a.*.b', 'h'), 'a.*.b'),
    (('--rule', '', 'h'), '--rule'),
    (('--preset', 'nosuch', 'h'), 'iterion-default'),
    (('--preset', 'packages', '--mode', 'denylist', 'h'), 'denylist'),
    (('--mode', 'denylist', '--rule', '!x.example', 'h'), 'negated'),
    (('--mode', 'sideways', 'h'), 'allowlist'),
])
def test_bad_policy(me, args, says):
    me.fails('sandbox', 'network', 'check', *args, says=says)
