"""A workspace that is a git worktree: its repository lies elsewhere, and git works inside all the same."""
import json
import os
import shutil

import pytest
from conftest import skip

EXEC = ('sandbox', 'exec', '--sandbox-driver', 'native')
IDENTITY = ('-c', 'user.name=n', '-c', 'user.email=e@example.org')


def git(user, *words, cwd):
    p = user.popen('git', *IDENTITY, *words, cwd=cwd)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, err
    return out.decode()


@pytest.fixture
def repository(user):
    """A repository with one commit, and beside it a worktree of it on a branch of its own."""
    if not shutil.which('git'):
        skip('git is not installed')
    main = user.folder('main')
    git(user, 'init', '-q', '.', cwd=main)
    user.file(os.path.join(main, 'file'), 'one\n')
    git(user, 'add', '.', cwd=main)
    git(user, 'commit', '-qm', 'first', cwd=main)
    git(user, 'worktree', 'add', '-q', '../tree', cwd=main)
    return main, os.path.join(user.base, 'tree')


def inside(user, tree, script, *flags):
    return user.run(*EXEC, '--workspace', tree, *flags, '--', 'sh', '-c', script, cwd=tree)


def test_git_works_inside(user, repository):
    main, tree = repository
    p = inside(user, tree, 'git log --format=%s && echo two >> file && git -c user.name=n -c user.email=e@example.org '
               'commit -qam second && git status --short')
    assert p.returncode == 0 and p.stdout == 'first\n', p
    assert git(user, 'log', '--format=%s', 'tree', cwd=main) == 'second\nfirst\n'
    # The repository's own files are none of its business.
    assert inside(user, tree, f'ls {main}').stdout == ''


def test_the_plan_says_so(user, repository):
    main, tree = repository
    said = json.loads(user.ok('sandbox', 'plan', '--json', '--sandbox-driver', 'native', '--workspace', tree).stdout)
    shared = [m for m in said['mounts'] if m['origin'].startswith('git')]
    assert [(m['source'], m['target'], m['readonly']) for m in shared] == [(f'{main}/.git', f'{main}/.git', False)]


def hostile(user, tree, secret):
    """What a node that can write the workspace would put into .git, to have another folder mounted by the next run."""
    fake = os.path.join(tree, 'fake')
    for name in ('objects', 'refs'):
        os.makedirs(os.path.join(fake, name), exist_ok=True)
    user.file(os.path.join(fake, 'HEAD'), 'ref: refs/heads/x\n')
    yield 'the folder itself', f'gitdir: {secret}\n', None
    yield 'a folder of the workspace that names it', f'gitdir: {fake}\n', secret
    yield 'the same, relatively', 'gitdir: fake\n', os.path.relpath(secret, fake)
    yield 'no path', 'gitdir: \n', None
    yield 'the root folder', 'gitdir: /\n', '/'
    yield 'a device', 'gitdir: /dev/zero\n', None
    yield 'a long line', 'gitdir: /' + 'x' * 100000 + '\n', None


def test_a_file_of_the_workspace_names_no_other_folder(user, repository):
    main, tree = repository
    # Another repository of the user, with everything that one has.
    secret = os.path.join(user.folder('other'), '.git')
    git(user, 'init', '-q', '.', cwd=os.path.dirname(secret))
    user.file(os.path.join(secret, 'token'), 'a secret\n')
    assert inside(user, tree, f'ls {main}/.git').returncode == 0
    for name, text, common in hostile(user, tree, secret):
        user.file(os.path.join(tree, '.git'), text)
        if common:
            user.file(os.path.join(tree, 'fake', 'commondir'), common + '\n')
            user.file(os.path.join(tree, 'fake', 'gitdir'), os.path.join(tree, '.git') + '\n')
        p = inside(user, tree, f'echo works; cat {secret}/token; ls -d /root /home')
        assert p.stdout == 'works\n', (name, p)


def test_the_place_of_another_worktree(user, repository):
    """That one knows where its own .git is."""
    main, tree = repository
    git(user, 'worktree', 'add', '-q', '../second', cwd=main)
    user.file(os.path.join(user.workspace, '.git'), f'gitdir: {main}/.git/worktrees/second\n')
    assert inside(user, user.workspace, f'ls {main}').stdout == ''
    assert 'main' not in inside(user, user.workspace, 'cat /proc/self/mountinfo').stdout


def test_a_repository_in_a_sensitive_place(user):
    """It is left out, with a warning; nothing else changes."""
    if not shutil.which('git'):
        skip('git is not installed')
    main = user.folder('home', '.config', 'gh')
    user.own(os.path.dirname(main))
    git(user, 'init', '-q', '.', cwd=main)
    git(user, 'commit', '-qm', 'first', '--allow-empty', cwd=main)
    tree = os.path.join(user.base, 'tree')
    git(user, 'worktree', 'add', '-q', tree, cwd=main)
    p = inside(user, tree, 'echo works; git log')
    assert p.stdout == 'works\n' and 'warning: git does not work in the sandbox' in p.stderr, p


def test_a_plain_repository_needs_nothing(user):
    if not shutil.which('git'):
        skip('git is not installed')
    git(user, 'init', '-q', '.', cwd=user.workspace)
    said = json.loads(user.ok('sandbox', 'plan', '--json', '--sandbox-driver', 'native').stdout)
    assert [m for m in said['mounts'] if m['origin'].startswith('git')] == []
