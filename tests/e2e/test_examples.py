"""The workflows below examples/ are valid, and those with agents do what their README says, with models that say what a
script says."""
import glob
import os
import shutil

import pytest
from agents import KEY, of_type, shared
from conftest import ROOT, skip
from provider import Provider

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, 'examples', '**', '*.bot'), recursive=True))


def take(user, name):
    """The example's files in the workspace."""
    for path in glob.glob(os.path.join(ROOT, 'examples', name, '*')):
        with open(path, 'rb') as f:
            user.file(os.path.basename(path), f.read())


def env(p):
    return {'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': p.url, 'OPENAI_API_KEY': KEY, 'OPENAI_BASE_URL': p.url + '/v1'}


def run(user, p, *flags, code=0, **more):
    return user.ok('run', 'main.bot', '--sandbox-driver', 'native', '--no-interactive', *flags, env={**env(p), **more},
                   code=code)


def output(user, node):
    return of_type(user.events(), 'node_finished', node)[-1]['output']


def read(user, name):
    with open(os.path.join(user.workspace, name), encoding='utf-8') as f:
        return f.read()


def rule(match, *turns, **more):
    return {'match': match, 'turns': list(turns), **more}


@pytest.mark.parametrize('path', EXAMPLES, ids=[os.path.relpath(p, os.path.join(ROOT, 'examples')) for p in EXAMPLES])
def test_valid(me, path):
    shutil.copy(path, os.path.join(me.workspace, 'main.bot'))
    p = me.ok('validate', 'main.bot')
    assert 'warning' not in p.stdout + p.stderr


def test_every_folder_is_named(me):
    with open(os.path.join(ROOT, 'examples', 'README.md'), encoding='utf-8') as f:
        text = f.read()
    for path in EXAMPLES:
        assert f'({os.path.basename(os.path.dirname(path))}/main.bot)' in text


@pytest.fixture
def repository(me):
    """A workspace that is a git repository of two commits."""
    if not shutil.which('git'):
        skip('git is not installed')

    def git(*args):
        p = me.popen('git', '-c', 'user.name=t', '-c', 'user.email=t@example.org', *args)
        out, err = p.communicate()
        assert p.returncode == 0, err

    git('init', '-q')
    for text in ('int old;\n', 'int newer;\n'):
        me.file('a.c', text)
        git('add', 'a.c')
        git('commit', '-q', '-m', 'x')
    return me


@pytest.mark.parametrize('blocking', [False, True])
def test_review(repository, blocking):
    take(repository, 'review')
    found = {'blocking': blocking, 'findings': ['a.c:1 it\'s $(touch here) wrong', 'a.c:1 both say so']}
    rules = [rule('Does this change do', {'structured': found}),
             rule('What could somebody do', {'structured': {'blocking': False, 'findings': ['a.c:1 both say so']}})]
    with Provider({'rules': rules}) as p:
        run(repository, p, code=1 if blocking else 0)
        calls = p.calls()
    assert all('newer' in str(c['body']['messages']) for c in calls) and len(calls) == 2
    assert not any({'Bash', 'Write', 'Edit'} & {t['name'] for t in c['body']['tools']} for c in calls)
    assert output(repository, 'together') == {'blocking': blocking, 'count': 2, 'findings': found['findings']}
    assert read(repository, 'review.md') == '# Review against HEAD~1\n\n' + ''.join(f'- {x}\n' for x in found['findings'])
    assert not os.path.exists(os.path.join(repository.workspace, 'here'))


def test_review_without_findings(repository):
    take(repository, 'review')
    with Provider({'turns': [{'structured': {'blocking': False, 'findings': []}}], 'repeat': True}) as p:
        run(repository, p, '--var', 'base=HEAD')
    assert read(repository, 'review.md') == '# Review against HEAD\n\nNothing was found.\n'


def bash(command):
    return {'tool': 'Bash', 'input': {'command': command, 'description': 'mends it'}}


def test_fix_until_green(me):
    """It is mended at the second try, which remembers the first."""
    take(me, 'fix-until-green')
    with Provider({'turns': [bash('echo bad >state'), {'structured': {'summary': 'first'}},
                             bash('echo good >state'), {'structured': {'summary': 'second'}}]}) as p:
        run(me, p, '--var', 'check=grep good state')
        calls = p.calls()
    assert len(of_type(me.events(), 'node_finished', 'test')) == 3
    assert output(me, 'test')['exit_code'] == 0 and output(me, 'mend') == {'summary': 'second'}
    assert 'echo bad' in str(calls[-1]['body']['messages'])


def test_fix_until_the_tries_are_used_up(me):
    take(me, 'fix-until-green')
    with Provider({'turns': [{'structured': {'summary': 'nothing'}}], 'repeat': True}) as p:
        me.fails('run', 'main.bot', '--sandbox-driver', 'native', '--var', 'check=false', env=env(p), code=1, says='tries')
    assert len(of_type(me.events(), 'node_finished', 'mend')) == 4


@pytest.mark.parametrize('marks, mean', [((7, 8), 7.5), ((2, 9), None)], ids=['near', 'apart'])
def test_two_judges(me, base, marks, mean):
    """By the real claude and by claw; a person decides when they are far from each other."""
    _, folder = shared('claude', base)
    take(me, 'two-judges')
    me.file('essay.md', '# An essay\n')
    one, other = ({'structured': {'mark': m, 'reason': 'so'}} for m in marks)
    with Provider({'turns': [one], 'skip_toolless': True}) as claude, Provider({'turns': [other]}) as gpt:
        run(me, gpt, '--attachment', 'text=essay.md', '--resolve', 'api.anthropic.com:127.0.0.1',
            code=0 if mean else 3, ANTHROPIC_BASE_URL=f'http://api.anthropic.com:{claude.port}',
            PATH=f'{folder}:{me.env["PATH"]}')
        if mean is None:
            me.ok('resume', '--last', '--answer', 'mark=6.5', env=env(gpt))
    if mean:
        assert output(me, 'compare') == {'mark': mean, 'apart': 1}
    else:
        assert output(me, 'decide') == {'mark': 6.5}
