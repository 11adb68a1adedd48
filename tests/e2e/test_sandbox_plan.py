"""`sandbox plan`: it says what a run uses, and changes nothing."""
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import skip

NATIVE = ('--sandbox-driver', 'native')
KEYS = ['driver', 'driver_reason', 'mode', 'source', 'spec', 'mounts', 'skipped', 'env', 'network', 'warnings']
LOOK = '''tool look:
  command: "env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/ENV \\1/p'; sed 's/^/MOUNT /' /proc/self/mountinfo"

workflow w:
  entry: look
{block}
  look -> done
'''
# What the shell of the node adds by itself.
OF_THE_SHELL = {'PWD', 'OLDPWD', 'SHLVL', '_'}
BLOCKS = {
    'auto': '  sandbox: auto',
    'inline': '''  sandbox:
    mode: inline
    env:
      CI: "1"
      B: "two words"
    workspace_folder: "/work"
    mounts: ["type=bind,source={home}/data,target=/data,readonly", "type=tmpfs,target=/scratch"]
    post_create: "true"''',
    'allowlist': '''  sandbox:
    mode: inline
    host_state: none
    network:
      mode: allowlist
      preset: iterion-default
      rules: ["internal.example", "!evil.example"]''',
    'denylist': '''  sandbox:
    network:
      mode: denylist
      rules: ["evil.example"]''',
    'none': '  sandbox: none',
}


def workflow(user, block, name='w.bot'):
    user.file(name, LOOK.format(block=BLOCKS.get(block, block).replace('{home}', user.home)))
    return name


def plan(user, *args, **more):
    return json.loads(user.ok('sandbox', 'plan', '--json', *args, **more).stdout)


def of_type(events, kind):
    return [e['data'] for e in events if e['type'] == kind]


def everything(*folders):
    """Each path with what a change would change."""
    found = {}
    for folder in folders:
        for at, dirs, files in os.walk(folder):
            for name in dirs + files:
                st = os.lstat(os.path.join(at, name))
                found[os.path.join(at, name)] = (st.st_mode, st.st_size, st.st_mtime_ns, st.st_uid)
    return found


def furnish(user):
    for names in (('home', '.npm'), ('home', '.cache'), ('home', '.cache', 'go-build'), ('home', '.claude'),
                  ('home', 'data')):
        user.folder(*names)


@pytest.mark.parametrize('flags', [(), ('--sandbox-host-state=none',), ('--sandbox', 'auto')], ids=' '.join)
@pytest.mark.parametrize('block', BLOCKS)
def test_the_run_does_what_the_plan_says(user, block, flags):
    furnish(user)
    args = (workflow(user, block), *NATIVE, *flags)
    said = plan(user, *args)
    user.ok('run', *args)
    events = user.events()
    compare_events(said, events)
    out = of_type(events, 'node_finished')[0]['output']
    text = out['output'] if isinstance(out, dict) else out
    inside = {line[4:] for line in text.splitlines() if line.startswith('ENV ')}
    assert inside - OF_THE_SHELL == set(said['env']) - OF_THE_SHELL
    if said['mode'] != 'none':
        compare_mounts(said, [line.split()[5] for line in text.splitlines() if line.startswith('MOUNT ')])
    else:
        assert said['driver'] == 'noop' and said['mounts'] == [] and said['network']['mode'] == 'open'


def compare_events(said, events):
    started = of_type(events, 'sandbox_started')
    assert len(started) == (said['mode'] != 'none')
    for s in started:
        spec = said['spec']
        assert (s['driver'], s['mode'], s['source'], s['image']) == (said['driver'], said['mode'], said['source'], spec['image'])
        assert s['network'] == said['network']
        assert s['workspace_folder'] == spec['workspace_folder']
        assert s['has_post_create'] == bool(spec['post_create'] or spec['lifecycle'])
    for s in of_type(events, 'sandbox_host_state_mounted'):
        assert sorted(s['mounts']) == sorted(m['target'] for m in said['mounts'] if m['origin'] == 'host state')
        assert s['skipped'] == said['skipped']
        assert s['source'] == said['spec']['sources']['host_state']
        assert s['enabled'] == (said['spec']['host_state'] != 'none')
    assert of_type(events, 'sandbox_warning') == said['warnings']


def compare_mounts(said, inside):
    """Every mount of the plan is there, and none that it does not name but what the driver makes of its own root."""
    planned = {m['target'] for m in said['mounts']}
    homes = {m['target'] for m in said['mounts'] if m['origin'] == 'home'}
    assert planned - homes <= set(inside)
    for target in set(inside) - planned:
        assert target in ('/', '/run/iterion') or target.startswith(('/proc/', '/etc/')) or \
            re.match(r'.*/\.iterion(/|$)', target), target


def test_keys_and_sources(me):
    furnish(me)
    said = plan(me, workflow(me, 'inline'), *NATIVE)
    assert list(said) == KEYS
    assert all(list(m) == ['type', 'source', 'target', 'readonly', 'origin'] for m in said['mounts'])
    assert all(list(s) == ['path', 'reason'] for s in said['skipped'])
    assert list(said['network']) == ['mode', 'enforcement', 'rules']
    sources = said['spec']['sources']
    for field in ('mode', 'host_state', 'workspace_folder', 'user', 'image', 'network.mode', 'env.CI', 'env.B', 'post_create'):
        assert sources[field], field
    assert sources['env.CI'] == 'workflow sandbox: block' and sources['host_state'] == 'default'
    assert said['env']['CI'] == '1' and said['env']['B'] == 'two words' and said['env']['PATH'] is None
    assert said['driver_reason'] == 'cli flag --sandbox-driver'
    by_target = {m['target']: m for m in said['mounts']}
    assert by_target['/data'] == {'type': 'bind', 'source': f'{me.home}/data', 'target': '/data', 'readonly': True,
                                  'origin': 'workflow sandbox: block'}
    assert by_target['/work']['source'] == me.workspace and by_target['/work']['origin'] == 'workspace'
    assert {t for t, m in by_target.items() if m['origin'] == 'home'} == {me.home, f'{me.home}/.cache'}


@pytest.mark.parametrize('env, flags, source', [
    ({'ITERION_SANDBOX_DRIVER': 'native'}, (), 'ITERION_SANDBOX_DRIVER'),
    ({'ITERION_SANDBOX_DRIVER': 'noop'}, NATIVE, 'cli flag --sandbox-driver'),
])
def test_who_chose_the_driver(me, env, flags, source):
    assert plan(me, workflow(me, 'auto'), *flags, env=env)['driver_reason'] == source


@pytest.mark.parametrize('env, flags, mode, source', [
    ({}, (), 'none', 'default'),
    ({'ITERION_SANDBOX_DEFAULT': 'auto'}, (), 'auto', 'ITERION_SANDBOX_DEFAULT'),
    ({'ITERION_SANDBOX_DEFAULT': 'auto'}, ('--sandbox=none',), 'none', 'cli flag --sandbox'),
    ({}, ('--sandbox', 'auto'), 'auto', 'cli flag --sandbox'),
])
def test_who_chose_the_mode(me, env, flags, mode, source):
    said = plan(me, workflow(me, ''), *flags, env=env)
    assert (said['mode'], said['source']) == (mode, source)
    if mode != 'none':
        assert said['driver']


def test_it_makes_nothing(user):
    furnish(user)
    user.folder('store')  # that of ITERION_HOME, whose runs a sandbox would cover
    workflow(user, 'inline')
    before = everything(user.home, user.workspace, user.store)
    user.ok('sandbox', 'plan', 'w.bot', *NATIVE)
    user.ok('sandbox', 'plan', *NATIVE)
    assert everything(user.home, user.workspace, user.store) == before


def test_without_a_file(me):
    said = plan(me, *NATIVE)
    assert said['mode'] == 'auto' and said['source'] == 'cli flag --sandbox'
    assert plan(me, '--sandbox', 'none')['mode'] == 'none'


def test_exec_does_what_the_plan_without_a_file_says(user):
    furnish(user)
    said = plan(user, *NATIVE, env={'LOGNAME': 'x', 'TZ': 'UTC'})
    p = user.ok('sandbox', 'exec', *NATIVE, '--events', 'events', '--', 'env', env={'LOGNAME': 'x', 'TZ': 'UTC'})
    assert {line.split('=')[0] for line in p.stdout.splitlines()} == set(said['env'])
    with open(os.path.join(user.workspace, 'events'), encoding='utf-8') as f:
        compare_events(said, [json.loads(line) for line in f])


def test_every_option_of_run(me):
    def options(command):
        return set(re.findall(r'--[a-z-]+', me.ok(*command, '--help').stdout.split('Options:')[1].split('Examples:')[0]))
    assert options(('run',)) - options(('sandbox', 'plan')) <= {'--quiet'}
    me.ok('sandbox', 'plan', workflow(me, 'auto'), *NATIVE, '--var', 'a=b', '--name', 'n', '--timeout', '1m', '--run-id', 'mine')


def test_the_runs_own_names(me):
    said = plan(me, workflow(me, 'auto'), *NATIVE, '--name', 'n')
    files = next(m for m in said['mounts'] if m['origin'] == "run's files")
    assert files['source'] == f'{me.store}/runs/[RUN]/artifact-files' and 'ITERION_RUN_NAME' in said['env']
    said = plan(me, 'w.bot', *NATIVE, '--run-id', 'mine')
    assert f'{me.store}/runs/mine/artifact-files' in [m['source'] for m in said['mounts']]


SECRET = 'ghp_averysecretvalue'


def test_no_secret_is_shown(me):
    block = f'''  sandbox:
    env:
      GH: "x-${{localEnv:GITHUB_TOKEN}}"
      MY_API_KEY: "written here"
      PLAIN: "${{localEnv:PLAIN_NAME}}"
    mounts: ["type=tmpfs,target=/a/${{localEnv:GITHUB_TOKEN}}"]
    post_create: "true"'''
    me.folder('workspace', '.devcontainer')
    me.file('.devcontainer/devcontainer.json', json.dumps({
        'containerEnv': {'T': '${localEnv:GITHUB_TOKEN}'}, 'postCreateCommand': 'login ${localEnv:GITHUB_TOKEN}'}))
    env = {'GITHUB_TOKEN': SECRET, 'PLAIN_NAME': 'plain-value', 'OTHER_SECRET': 'another secret'}
    for args in ((workflow(me, block), '--devcontainer', '.devcontainer/devcontainer.json'), ('--sandbox', 'auto')):
        for form in ((), ('--json',)):
            p = me.ok('sandbox', 'plan', *args, *form, *NATIVE, env=env)
            assert SECRET not in p.stdout + p.stderr and 'written here' not in p.stdout
            assert '[GITHUB_TOKEN]' in p.stdout
    said = plan(me, 'w.bot', *NATIVE, env=env)
    assert said['env']['GH'] == 'x-[GITHUB_TOKEN]' and said['env']['PLAIN'] == 'plain-value'
    assert said['env']['MY_API_KEY'] is None and said['spec']['env']['MY_API_KEY'] is None
    # That the value was there to be shown.
    assert 'x-' + SECRET in me.ok('sandbox', 'exec', *NATIVE, 'w.bot', '--', 'env', env=env).stdout


@pytest.mark.parametrize('block, says', [
    ('    mounts: ["type=bind,source=/,target=/h"]', 'contains'),
    ('    mounts: ["type=bind,source={home}/missing,target=/h"]', 'missing'),
    ('    mounts: ["type=volume,source=v,target=/h"]', 'bind and tmpfs mounts only'),
    ('    user: "1000"', 'cannot give user'),
    ('    network:\n      mode: allowlist\n      rules: ["10.0.0.0/99"]', '10.0.0.0/99'),
])
def test_it_fails_as_the_run_does(me, block, says):
    workflow(me, '  sandbox:\n' + block)
    p = me.run('sandbox', 'plan', 'w.bot', *NATIVE)
    run = me.run('run', 'w.bot', '--quiet', *NATIVE)
    assert p.returncode == run.returncode != 0
    assert says in p.stderr and p.stderr.count('error: ') >= 1 and p.stdout == ''
    errors = [next(line for line in text.splitlines() if line.startswith('error: ')) for text in (p.stderr, run.stderr)]
    assert errors[0] == errors[1]


@pytest.mark.parametrize('text', [
    '{"containerEnv": {"A": "1", "B": "${localEnv:HOME}/x"}, "name": "n", "features": {}}',
    '{"a": [1, -2, 0.5, true, null], "workspaceFolder": "/w/${localWorkspaceFolderBasename}", "remoteEnv": {"X": null}}',
    '{"postCreateCommand": {"a": "x", "b": ["y", "z"]}, "customizations": {"vscode": {"extensions": ["e"]}}}',
])
def test_devcontainer(me, text):
    """The document that was written, with its variables replaced; the reference itself is asked in test_devcontainer.py."""
    me.folder('workspace', '.devcontainer')
    path = me.file('.devcontainer/devcontainer.json', text)
    said = plan(me, workflow(me, 'auto'), *NATIVE)
    assert list(said) == KEYS + ['devcontainer'] and list(said['devcontainer']) == ['path', 'configuration']
    want = json.loads(text.replace('${localEnv:HOME}', me.home).replace('${localWorkspaceFolderBasename}', 'workspace'))
    got = said['devcontainer']['configuration']
    assert got.pop('configFilePath') == {'$mid': 1, 'fsPath': path, 'path': path, 'scheme': 'vscode-fileHost'}
    assert got == want and said['devcontainer']['path'] == path
    assert [w['code'] for w in said['warnings']] == [w['code'] for w in warnings_of_a_run(me)]


def warnings_of_a_run(me):
    p = me.run('run', 'w.bot', *NATIVE)
    assert me.runs(), p.stderr
    return of_type(me.events(), 'sandbox_warning')


def test_nodes_with_blocks_of_their_own(me):
    me.file('n.bot', '''tool a:
  command: "true"
  sandbox: none

tool b:
  command: "true"
  sandbox:
    env:
      X: "of b"
    network:
      rules: ["b.example"]

tool c:
  command: "true"

workflow w:
  entry: a
  sandbox:
    env:
      X: "of w"
    network:
      mode: allowlist
      rules: ["w.example"]
  a -> b
  b -> c
  c -> done
''')
    said = plan(me, 'n.bot', *NATIVE)
    assert list(said) == KEYS + ['nodes'] and list(said['nodes']) == ['a', 'b']
    assert list(said['nodes']['b']) == KEYS and said['nodes']['a']['mode'] == 'none'
    assert said['env']['X'] == 'of w' and said['nodes']['b']['env']['X'] == 'of b'
    assert said['network']['rules'] == ['w.example']
    assert said['nodes']['b']['network']['rules'] == ['w.example', 'b.example']
    assert said['nodes']['b']['spec']['sources']['env.X'] == 'node sandbox: block'
    text = me.ok('sandbox', 'plan', 'n.bot', *NATIVE).stdout
    assert 'Node a\n' in text and 'Node b\n' in text and 'X=of b  (node sandbox: block)' in text


AGENTS = '''prompt p:
  hello

agent one:
  model: "m"
  backend: "codex"
  user: p

agent two:
  model: "m"
  backend: "claude_code"
  user: p

workflow w:
  entry: one
  sandbox: auto
  one -> two
  two -> done
'''


def test_agents(me):
    """An agent whose program has a sandbox of its own is not in the run's; the program of another is mounted there."""
    me.file('n.bot', AGENTS)
    folder = me.folder('programs')
    me.file(f'{folder}/claude', '#!/bin/sh\n', 0o755)
    me.file(f'{folder}/codex', '#!/bin/sh\n', 0o755)
    said = plan(me, 'n.bot', *NATIVE, env={'PATH': f'{folder}:/usr/bin:/bin'})
    assert list(said['nodes']) == ['one'] and said['nodes']['one']['mode'] == 'none'
    assert 'codex' in said['nodes']['one']['source'] and said['nodes']['one']['driver'] == 'noop'
    shown = [m['source'] for m in said['mounts'] if m['source'] and m['source'].startswith(folder)]
    assert shown == [f'{folder}/claude'] or shown == [folder]


def test_worktree(me):
    if not shutil.which('git'):
        skip('git is not installed')
    workflow(me, '  worktree: auto\n  sandbox:\n    env:\n      HERE: "${PROJECT_DIR}"')
    for words in (['init', '-q'], ['add', '.'], ['-c', 'user.name=n', '-c', 'user.email=e@x', 'commit', '-qm', 'first']):
        p = me.popen('git', *words)
        assert p.communicate()[1] == b'' and p.returncode == 0
    before = everything(me.workspace, me.home)
    said = plan(me, 'w.bot', *NATIVE)
    assert everything(me.workspace, me.home) == before
    me.ok('run', 'w.bot', *NATIVE)
    made = of_type(me.events(), 'worktree_created')[0]
    run_id = me.runs()[-1]
    shown = next(m for m in said['mounts'] if m['origin'] == 'workspace')
    assert shown['source'].replace('[RUN]', run_id) == made['path']
    assert said['env']['HERE'] == shown['source']
    assert os.path.join(me.workspace, '.git') in [m['target'] for m in said['mounts']]


def test_for_people(me):
    furnish(me)
    block = BLOCKS['inline'].replace('"1"', '"\x1b[31mred"')
    text = me.ok('sandbox', 'plan', workflow(me, block), *NATIVE).stdout
    for words in ('driver             native  (cli flag --sandbox-driver)', 'mode               inline  (workflow sandbox: block)',
                  'none: the host\'s own toolchain', 'Mounts\n', f'ro  bind   /data <- {me.home}/data', 'Not mounted\n',
                  '(it does not exist)', 'Environment\n', '\n  PATH\n', 'Network\n', 'post_create        true',
                  'workspace_folder   /work'):
        assert words in text, words
    assert '\x1b' not in text


def test_noop_says_that_nothing_is_isolated(me):
    said = plan(me, workflow(me, 'auto'), '--sandbox-driver', 'noop')
    assert said['driver'] == 'noop' and said['mounts'] == []
    assert [w['code'] for w in said['warnings']] == ['nothing_isolated']


def test_bad_usage(me):
    me.fails('sandbox', 'plan', 'no.bot', says='no.bot')
    me.fails('sandbox', 'plan', '--sandbox-driver', 'nativ', says='native')
    me.fails('sandbox', 'plan', '--store-dir', '', code=2)
    with open('/dev/full', 'wb') as full:
        assert me.run('sandbox', 'plan', *NATIVE, stdout=full).returncode == 1


def test_a_large_devcontainer(me):
    """One member of nearly a megabyte with the value of a secret all over it: replaced everywhere."""
    me.folder('workspace', '.devcontainer')
    me.file('.devcontainer/devcontainer.json', json.dumps({'name': ('x' * 1000 + 'secret-value ') * 700}))
    p = me.ok('sandbox', 'plan', '--json', *NATIVE, env={'A_TOKEN': 'secret-value'}, timeout=60)
    assert 'secret-value' not in p.stdout
    assert json.loads(p.stdout)['devcontainer']['configuration']['name'].count('[A_TOKEN]') == 700


def test_it_starts_no_process(me):
    """Nothing is started: no proxy, no sandbox, no engine. Shown by strace, which counts the run's own."""
    if not shutil.which('strace'):
        skip('strace is not installed')
    block = workflow(me, 'allowlist')
    count = {}
    for words in (('sandbox', 'plan', block, *NATIVE), ('run', block, '--quiet', *NATIVE)):
        log = os.path.join(me.base, 'trace')
        p = me.popen('strace', '-qqf', '-e', 'trace=clone,clone3,fork,vfork', '-e', 'signal=none', '-o', log, me.program, *words)
        p.communicate(timeout=60)
        if p.returncode:
            skip('strace cannot follow programs here')
        with open(log, encoding='utf-8') as f:
            count[words[0]] = len([line for line in f if 'CLONE_THREAD' not in line and 'clone' in line or 'fork' in line])
    assert count['run'] >= 2 and count['sandbox'] == 0
