"""`init` writes a workflow that is right and runs, and never touches a file that is there."""
import os


def test_what_it_writes_runs(user):
    assert 'main.bot' in user.ok('init').stdout
    assert 'ok' in user.ok('validate', 'main.bot').stdout
    p = user.ok('run', 'main.bot', '--sandbox-driver', 'native', '--var', 'who=you there')
    assert 'hello you there' in p.stdout and 'run finished' in p.stdout
    assert sorted(os.listdir(user.workspace)) == ['main.bot']


def test_folder_is_made(me):
    me.ok('init', 'a/b')
    assert os.listdir(os.path.join(me.workspace, 'a', 'b')) == ['main.bot']


def test_existing_file_stays(me):
    me.file('main.bot', 'mine\n')
    me.fails('init', says='File exists')
    with open(os.path.join(me.workspace, 'main.bot'), encoding='utf-8') as f:
        assert f.read() == 'mine\n'


def test_folder_that_cannot_be(me):
    me.file('file', '')
    me.fails('init', 'file', code=1)
    me.fails('init', '/proc/nowhere', code=1)
