"""Which folder is the store: a repository's own .iterion, but not one with runs that somebody else put there."""
import json
import os
import shutil

import pytest

FLAGS = ('--sandbox', 'none', '--quiet')
WORKFLOW = 'tool a:\n  command: `echo ran >>trace; test ! -e bad`\nworkflow w:\n  entry: a\n  a -> done\n'
HINT = 'is not used as the store'


@pytest.fixture
def me(me):
    """In a repository, with a store of its own in HOME."""
    me.folder('workspace', '.git')
    me.file('main.bot', WORKFLOW)
    return me


def own(me):
    return os.path.join(me.workspace, '.iterion')


def listed(me, *flags, **more):
    p = me.ok('inspect', '--json', *flags, **more)
    return json.loads(p.stdout), p.stderr


def test_an_empty_folder_becomes_the_store(me):
    me.folder('workspace', '.iterion')
    p = me.ok('run', 'main.bot', *FLAGS)
    assert HINT not in p.stderr
    got, err = listed(me)
    assert got['store'] == own(me) and len(got['runs']) == 1 and err == ''
    assert os.stat(os.path.join(me.store, 'runs', '.key')).st_mode & 0o777 == 0o600
    assert me.ok('run', 'main.bot', *FLAGS).stderr == ''
    assert len(listed(me)[0]['runs']) == 2


def test_without_one_nothing_is_marked(me):
    me.ok('run', 'main.bot', *FLAGS)
    assert '.key' not in os.listdir(os.path.join(me.store, 'runs'))


def plant(me, mark=None):
    """A store such as a program in a sandbox could make: what its last run says would be run by `resume`."""
    elsewhere = os.path.join(me.base, 'elsewhere')
    shutil.rmtree(elsewhere, ignore_errors=True)
    me.file('bad', '')
    me.ok('run', 'main.bot', *FLAGS, '--store-dir', elsewhere, '--run-id', 'forged', code=1)
    path = os.path.join(elsewhere, 'runs', 'forged', 'run.json')
    with open(path, encoding='utf-8') as f:
        record = json.load(f)
    record['status'] = 'cancelled'
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(record, f)
    if mark:
        with open(os.path.join(elsewhere, 'runs', '.mark'), 'w', encoding='ascii') as f:
            f.write(mark)
    os.rename(elsewhere, own(me))
    os.unlink(os.path.join(me.workspace, 'bad'))
    os.unlink(os.path.join(me.workspace, 'trace'))


@pytest.mark.parametrize('mark', [None, 'a' * 64, 'x'])
def test_a_planted_one_is_passed_over(me, mark):
    plant(me, mark)
    p = me.fails('resume', '--last', code=2, says=(HINT, 'has none'))
    assert p.stderr.count('warning: ') == 1
    got, err = listed(me)
    assert got == {'store': me.store, 'runs': []} and HINT in err
    me.ok('run', 'main.bot', *FLAGS)
    got, err = listed(me)
    assert got['store'] == me.store and [r['id'] for r in got['runs']] == me.runs() != ['forged']


def test_a_folder_below_does_not_hide_the_repository_s(me):
    """Of the repository's store, a planted one in a folder below takes nothing away."""
    me.folder('workspace', '.iterion')
    me.ok('run', 'main.bot', *FLAGS)
    below = me.folder('workspace', 'below')
    for names in (('.iterion',), ('.iterion', 'runs'), ('.iterion', 'runs', 'forged')):
        me.folder('workspace', 'below', *names)
    got, err = listed(me, cwd=below)
    assert got['store'] == own(me) and f'{below}/.iterion {HINT}' in err


def test_one_that_is_named_once_is_known(me):
    """Such as one from before, or of a repository that was moved."""
    plant(me)
    assert [r['id'] for r in listed(me, '--store-dir', own(me))[0]['runs']] == ['forged']
    assert HINT in listed(me)[1], 'looking at it says nothing about it'
    me.ok('run', 'main.bot', *FLAGS, '--store-dir', '.iterion')
    got, err = listed(me)
    assert got['store'] == own(me) and len(got['runs']) == 2 and err == ''
    os.rename(me.workspace, me.workspace + '2')
    got, err = listed(me, cwd=me.workspace + '2')
    assert got['store'] == me.store and HINT in err
