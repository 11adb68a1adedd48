"""worktree: auto with the real git: the run works in a tree of its own, in a sandbox and without one."""
import os
import signal
import subprocess

import pytest
from waiting import until_there

DRIVERS = ['native', 'noop']


@pytest.fixture(params=DRIVERS)
def driver(request):
    return ('--sandbox', 'auto', '--sandbox-driver', request.param)


def workflow(command):
    text = command.replace('\\', '\\\\').replace('"', '\\"')
    return ('## strict-escape: on\n'
            f'tool s:\n  command: "true"\n\ntool t:\n  command: "{text}"\n\n'
            'workflow w:\n  entry: s\n  worktree: auto\n  s -> t\n  t -> done\n')


def sh(user, script, cwd=None):
    p = user.popen('sh', '-c', script, cwd=cwd or user.workspace, stderr=subprocess.STDOUT)
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 0, f'{script}:\n{out.decode()}'
    return out.decode().strip()


def repository(user, command):
    user.file('main.bot', workflow(command))
    sh(user, 'git config --global user.name Ann; git config --global user.email ann@example.org; git init -q -b main; '
             'echo a >a.txt; git add .; git commit -qm first')


def event(user, kind):
    return next((e['data'] for e in user.events() if e['type'] == kind), None)


def types(user):
    return [e['type'] for e in user.events()]


def trees(user):
    folder = os.path.join(user.store, 'worktrees')
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def test_finished(user, driver):
    repository(user, 'git status --porcelain; echo one >one; git add one; git commit -qm inside; echo two >two')
    user.ok('run', 'main.bot', '--name', 'night', *driver)
    assert sh(user, 'git log --format="%s %an" iterion/run/night') == \
        'iterion: changes of run night Ann\ninside Ann\nfirst Ann'
    assert sh(user, 'git status --porcelain; ls') == 'a.txt\nmain.bot'
    assert trees(user) == [] and sh(user, 'git worktree list | wc -l') == '1'
    seen = types(user)
    assert seen.index('worktree_created') < seen.index('node_started')
    assert seen.index('node_finished') < seen.index('worktree_kept') < seen.index('run_finished')
    done = [e for e in user.events() if e['type'] == 'node_finished' and e['node_id'] == 't']
    assert done[0]['data']['output']['output'] == ''


def test_merged(user, driver):
    repository(user, 'echo one >one')
    user.ok('run', 'main.bot', '--auto-merge', '--merge-strategy', 'squash', *driver)
    assert sh(user, 'git status --porcelain; cat one') == 'one'
    assert event(user, 'worktree_merged')['into'] == 'main'


def test_store_in_the_repository(user, driver):
    repository(user, 'echo one >one; test -z "$(ls "$ITERION_WORKSPACE"/../../runs 2>/dev/null)" || true')
    sh(user, 'mkdir .iterion; echo .iterion >.git/info/exclude')
    user.ok('run', 'main.bot', '--auto-merge', *driver)
    assert sh(user, 'git status --porcelain; cat one') == 'one'


def test_failed_run_keeps_its_tree(user, driver):
    repository(user, 'echo half >half; exit 3')
    p = user.ok('run', 'main.bot', '--auto-merge', *driver, code=1)
    kept = event(user, 'worktree_kept')
    assert f'its worktree stays at {kept["path"]}' in p.stderr
    with open(os.path.join(kept['path'], 'half'), encoding='utf-8') as f:
        assert f.read() == 'half\n'
    assert event(user, 'worktree_merged') is None
    assert 'not committed' in user.ok('sandbox', 'gc').stdout
    assert len(trees(user)) == 1
    assert 'removed' in user.ok('sandbox', 'gc', '--force').stdout
    assert trees(user) == [] and sh(user, 'git worktree list | wc -l') == '1'


def test_dirty_checkout_is_not_touched(user, driver):
    repository(user, 'echo theirs >>a.txt')
    sh(user, 'echo mine >>a.txt')
    p = user.ok('run', 'main.bot', '--auto-merge', *driver)
    assert 'is kept' in p.stderr and 'git merge' in p.stderr
    assert sh(user, 'cat a.txt; git log --format=%s') == 'a\nmine\nfirst'
    assert 'not committed' in event(user, 'worktree_kept')['reason']


def test_resumed_in_the_same_tree(user, driver):
    repository(user, 'if test -e half; then echo rest >rest; else echo half >half; exit 3; fi')
    user.ok('run', 'main.bot', '--run-id', 'r1', '--auto-merge', *driver, code=1)
    user.ok('resume', '--run-id', 'r1')
    assert sh(user, 'cat half rest; git status --porcelain') == 'half\nrest'


@pytest.mark.parametrize('folder', ['', 'sub'])
def test_the_file_means_the_tree(user, folder):
    """What the file calls the workspace is the tree: in commands, and in mounts, which are made when it is there."""
    mounts = ', '.join(f'"type=bind,source=${{{name}}}/data,target=/{at},readonly"'
                       for name, at in (('PROJECT_DIR', 'one'), ('localWorkspaceFolder', 'two')))
    repository(user, 'true')
    sh(user, f'mkdir -p ./{folder}/data; echo committed >./{folder}/data/f; git add .; git commit -qm data; '
             f'echo not committed >./{folder}/data/f')
    user.file('main.bot', 'tool t:\n  command: `[ ${PROJECT_DIR} = $ITERION_WORKSPACE ] && [ $PWD = ${PROJECT_DIR} ] && echo '
              'more >>${PROJECT_DIR}/data/f && cat /one/f /two/f`\n\nworkflow w:\n  entry: t\n  worktree: auto\n  sandbox:\n'
              f'    mounts: [{mounts}]\n  t -> done\n')
    user.ok('run', 'main.bot', '--sandbox-driver', 'native', '--workspace', f'./{folder}', '--name', 'n')
    [done] = [e for e in user.events() if e['type'] == 'node_finished']
    assert done['data']['output']['output'] == 2 * 'committed\nmore\n'
    assert sh(user, f'cat ./{folder}/data/f') == 'not committed'


def test_interrupted(user, driver):
    repository(user, 'touch ready; while :; do sleep 0.1; done')
    p = user.start('run', 'main.bot', '--run-id', 'r1', *driver)
    until_there(os.path.join(user.store, 'worktrees', 'r1', 'ready'), p)
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=30)
    assert p.returncode == 143
    assert trees(user) == ['r1'] and event(user, 'worktree_kept')['branch'] == 'iterion/run/r1'


@pytest.mark.parametrize('args, says', [
    (['--branch-name', 'main'], 'there is a branch main already'),
    (['--auto-merge', '--merge-into', 'nope'], 'there is no branch nope'),
    (['--merge-into', 'main'], '--merge-into: without --auto-merge'),
    (['--auto-merge', '--merge-strategy', 'octopus'], '--merge-strategy'),
])
def test_refused_before_the_run(me, args, says):
    repository(me, 'true')
    me.fails('run', 'main.bot', *args, says=says)
    assert me.runs() == [] and trees(me) == []


def test_no_repository(me):
    me.file('main.bot', workflow('true'))
    me.fails('run', 'main.bot', says='is not in a git repository')
    assert me.runs() == []


def test_flags_without_a_worktree(me):
    me.file('main.bot', workflow('true').replace('worktree: auto', 'worktree: none'))
    me.fails('run', 'main.bot', '--auto-merge', says='no worktree of its own')


ATTACK = r'''
G=$(git rev-parse --git-common-dir)
printf '#!/bin/sh\ntouch "%s"\ncat\n' "$MARK" >"$G/evil"; chmod +x "$G/evil"
for k in core.fsmonitor filter.f.clean filter.f.smudge diff.external core.pager core.editor; do
  git config --file "$G/config" $k "$G/evil"
done
mkdir -p "$G/hooks"
for h in pre-commit post-checkout post-merge reference-transaction post-index-change; do cp "$G/evil" "$G/hooks/$h"; done
echo '*.txt filter=f' >"$G/info/attributes"
echo work >work; echo more >>a.txt
'''


def test_a_hostile_node_runs_nothing_on_the_host(user):
    mark = os.path.join(user.base, 'ran')
    user.file('attack.sh', f'MARK="{mark}"\n{ATTACK}')
    repository(user, 'sh ./attack.sh')
    user.ok('run', 'main.bot', '--auto-merge', '--sandbox', 'auto', '--sandbox-driver', 'native')
    assert not os.path.exists(mark)
    assert sh(user, 'GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=false '
                    'git log -1 --format=%s 2>/dev/null').startswith('Merge branch')
    files = event(user, 'worktree_warning')['files']
    assert 'config' in files and 'hooks/post-checkout' in files and 'info/attributes' in files
    # The same repository would have run it for the user, which is why he is warned.
    sh(user, 'git status >/dev/null 2>&1 || true')
    assert os.path.exists(mark)
