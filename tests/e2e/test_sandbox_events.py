"""The events of a sandbox, as docs/events.md has them: each is there when it should be, with exactly its keys."""
import json
import os
import re
import signal

import pytest
from conftest import ROOT
from waiting import until_there

NATIVE = ('--sandbox-driver', 'native')

# What the native driver and noop can give. A key with "?" need not be there; a dict has the keys of a member.
KEYS = {
    'sandbox_skipped': ['driver', 'mode', 'source', 'reason'],
    'sandbox_started': ['driver', 'mode', 'source', 'image', 'image_digest?', 'has_post_create', 'workspace_folder',
                        {'network': ['mode', 'enforcement', 'rules']}, {'start_ms': ['prepare', 'create', 'ready']}],
    'sandbox_host_state_mounted': ['enabled', 'source', 'workspace_folder', 'mounts', {'skipped': ['path', 'reason']}],
    'sandbox_post_create': ['name', 'duration_ms', 'exit_code'],
    'sandbox_warning': ['code', 'message'],
    'network_blocked': ['host', 'port', 'reason', 'rule', 'run_id', 'count'],
    'network_summary': [{'hosts': ['host', 'allowed', 'blocked', 'bytes_up', 'bytes_down']}],
    'sandbox_stopped': ['driver', 'duration_ms', 'exit'],
}


def check_keys(where, data, keys):
    names = [next(iter(k)) if isinstance(k, dict) else k for k in keys]
    required = {n for n in names if not n.endswith('?')}
    assert required <= set(data) <= {n.rstrip('?') for n in names}, f'{where}: {sorted(data)}'
    for member in (k for k in keys if isinstance(k, dict)):
        (name, inner), = member.items()
        for one in data[name] if isinstance(data[name], list) else [data[name]]:
            check_keys(f'{where}.{name}', one, inner)


def check(events):
    """Every sandbox event has its keys, and stands where it belongs."""
    kinds = [e['type'] for e in events]
    for e in events:
        if e['type'].startswith(('sandbox_', 'network_')):
            check_keys(e['type'], e['data'], KEYS[e['type']])
    assert [e['seq'] for e in events] == list(range(len(events)))
    assert all(re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', e['timestamp']) for e in events)
    assert kinds[0] == 'run_started' and kinds[-1].startswith('run_')
    return {kind: [e['data'] for e in events if e['type'] == kind] for kind in kinds}


def tool(command, block):
    return f'''tool t:
  command: {json.dumps(command)}

workflow w:
  entry: t
  sandbox:
{block}
  t -> done
'''


def run(user, text, *flags, code=0, **more):
    user.file('w.bot', text)
    user.ok('run', 'w.bot', '--quiet', *flags, code=code, **more)
    events = user.events()
    return check(events), [e['type'] for e in events]


def test_the_table_is_that_of_the_documentation():
    with open(os.path.join(ROOT, 'docs', 'events.md'), encoding='utf-8') as f:
        rows = {name: row for names, row in re.findall(r'^\| ([a-z_, ]+) \| (.*) \|$', f.read(), re.M)
                for name in names.split(', ')}
    for kind, keys in KEYS.items():
        assert kind in rows
        for key in keys:
            name = next(iter(key)) if isinstance(key, dict) else key
            assert re.search(rf'\b{name.rstrip("?")}\b', rows[kind]) or name.endswith('?'), f'{kind}: {name}'


def test_a_whole_run(user):
    user.folder('home', '.npm')
    by_kind, kinds = run(user, tool('true', '    post_create: "true"'), *NATIVE)
    assert [k for k in kinds if k.startswith(('sandbox_', 'network_'))] == [
        'sandbox_started', 'sandbox_host_state_mounted', 'sandbox_post_create', 'sandbox_stopped']
    assert kinds.index('sandbox_post_create') < kinds.index('node_started')
    assert kinds.index('node_finished') < kinds.index('sandbox_stopped')
    started = by_kind['sandbox_started'][0]
    assert started['driver'] == 'native' and started['mode'] == 'inline' and started['image'] is None
    assert started['source'] == 'workflow sandbox: block' and started['has_post_create'] is True
    assert started['workspace_folder'] == user.workspace
    assert started['network'] == {'mode': 'open', 'enforcement': 'none', 'rules': []}
    ms = started['start_ms']
    assert 0 <= ms['prepare'] <= ms['ready'] and 0 < ms['create'] and abs(ms['prepare'] + ms['create'] - ms['ready']) < 1
    shared = by_kind['sandbox_host_state_mounted'][0]
    assert shared['enabled'] is True and shared['source'] == 'default' and f'{user.home}/.npm' in shared['mounts']
    assert {'path': f'{user.home}/.claude', 'reason': 'it does not exist'} in shared['skipped']
    assert by_kind['sandbox_post_create'][0]['name'] == 'post_create'
    assert by_kind['sandbox_post_create'][0]['exit_code'] == 0
    assert by_kind['sandbox_stopped'][0]['exit'] == 'clean' and by_kind['sandbox_stopped'][0]['duration_ms'] > 0


def test_host_state_none(me):
    by_kind, _ = run(me, tool('true', '    host_state: none'), *NATIVE)
    shared, = by_kind['sandbox_host_state_mounted']
    assert shared['enabled'] is False and shared['mounts'] == [] and shared['source'] == 'workflow sandbox: block'


def test_what_the_workspace_holds_is_skipped(me):
    """A store of the repository's own: it is there already."""
    me.folder('workspace', '.iterion')
    me.file('w.bot', tool('true', '    mode: inline'))
    me.ok('run', 'w.bot', *NATIVE, env={'ITERION_HOME': os.path.join(me.workspace, '.iterion')})
    runs = os.path.join(me.workspace, '.iterion', 'runs')
    with open(os.path.join(runs, os.listdir(runs)[0], 'events.jsonl'), encoding='utf-8') as f:
        by_kind = check([json.loads(line) for line in f])
    assert {'path': f'{me.workspace}/.iterion', 'reason': 'it lies in the workspace'} in \
        by_kind['sandbox_host_state_mounted'][0]['skipped']


def test_warnings(me):
    me.folder('workspace', '.devcontainer')
    me.file('.devcontainer/devcontainer.json', '{"features": {"x": {}}, "initializeCommand": "true"}')
    by_kind, kinds = run(me, tool('true', '    mode: auto'), *NATIVE)
    assert sorted(w['code'] for w in by_kind['sandbox_warning']) == ['devcontainer_features', 'devcontainer_initialize_command']
    assert kinds.index('sandbox_started') < kinds.index('sandbox_warning') < kinds.index('node_started')


def test_post_create_that_fails(me):
    """The run fails before any node, with the command's own words; the sandbox that was there is taken down."""
    by_kind, kinds = run(me, tool('true', '    post_create: "echo the reason; exit 4"'), *NATIVE, code=1)
    assert by_kind['sandbox_post_create'][0]['exit_code'] == 4
    assert 'node_started' not in kinds and 'the reason' in by_kind['run_failed'][0]['error']
    assert by_kind['sandbox_stopped'][0]['exit'] == 'clean'
    assert by_kind['run_failed'][0]['resumable'] is False


BLOCKED = '''i=0; while [ $i -lt {n} ]; do
  exec 3<>/dev/tcp/127.0.0.1/${{https_proxy##*:}}
  printf 'CONNECT evil.example:443 HTTP/1.1\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n' {auth} >&3
  read -r line <&3; case $line in *403*) ;; *) echo "$line"; exit 1 ;; esac
  exec 3>&-; i=$((i+1))
done'''


def test_refused_hosts_are_folded(user):
    """Many equal refusals are few events whose counts make the sum, and the summary has it too."""
    script = BLOCKED.format(n=200, auth='$(p=${https_proxy#*//}; printf %s "${p%@*}" | base64 -w0)')
    user.file('w.sh', script)
    by_kind, kinds = run(user, tool('bash w.sh', '    network:\n      mode: allowlist\n      rules: ["ok.example"]'), *NATIVE)
    blocked = by_kind['network_blocked']
    assert sum(b['count'] for b in blocked) == 200 and len(blocked) < 100
    assert blocked[0]['count'] == 1 and {(b['host'], b['port'], b['reason'], b['rule']) for b in blocked} == {
        ('evil.example', 443, 'policy denial', 'default')}
    assert {b['run_id'] for b in blocked} == {user.runs()[-1]}
    summary, = by_kind['network_summary']
    assert summary['hosts'] == [{'host': 'evil.example', 'allowed': 0, 'blocked': 200, 'bytes_up': 0, 'bytes_down': 0}]
    started = by_kind['sandbox_started'][0]['network']
    assert started == {'mode': 'allowlist', 'enforcement': 'namespace', 'rules': ['ok.example']}
    assert kinds.index('network_summary') < kinds.index('sandbox_stopped')
    # Also the rest of a fold, which comes when the node has ended.
    events = [e for e in user.events() if e['type'] == 'network_blocked']
    assert {e.get('node_id') for e in events} == {'t'}
    assert events[-1]['seq'] > next(e['seq'] for e in user.events() if e['type'] == 'node_finished')


def test_no_summary_without_a_policy(me):
    by_kind, _ = run(me, tool('true', '    mode: inline'), *NATIVE)
    assert 'network_summary' not in by_kind


def test_noop_is_skipped(me):
    by_kind, kinds = run(me, tool('true', '    mode: auto'), '--sandbox-driver', 'noop')
    skipped, = by_kind['sandbox_skipped']
    assert skipped['driver'] == 'noop' and skipped['mode'] == 'auto' and skipped['source'] == 'workflow sandbox: block'
    assert [k for k in kinds if k.startswith('sandbox_')] == ['sandbox_skipped']


def test_no_sandbox_no_events(me):
    me.file('w.bot', tool('true', '    mode: none'))
    me.ok('run', 'w.bot')
    assert [e for e in me.events() if e['type'].startswith(('sandbox_', 'network_'))] == []


def start_long(user, command='touch up; sleep 1000'):
    user.file('w.bot', tool(command, '    mode: inline'))
    p = user.start('run', 'w.bot', '--quiet', *NATIVE)
    until_there(os.path.join(user.workspace, 'up'))
    return p


def test_cancelled_is_clean(user):
    """The node ends by the first signal, and then the sandbox has nothing in it any more."""
    p = start_long(user)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=30)
    by_kind = check(user.events())
    assert p.returncode == 130 and by_kind['sandbox_stopped'][0]['exit'] == 'clean'


def test_lost(user):
    """Its init is killed from outside: it died by itself, and the run can be resumed."""
    p = start_long(user)
    init = children(p.pid)
    assert len(init) == 1
    os.kill(init[0], signal.SIGKILL)
    p.communicate(timeout=30)
    by_kind = check(user.events())
    assert p.returncode == 1 and by_kind['sandbox_stopped'][0]['exit'] == 'lost'
    assert by_kind['run_failed'][0]['resumable'] is True


def children(pid):
    """Of a process, without the proxy."""
    found = []
    for other in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{other}/stat', encoding='utf-8', errors='replace') as f:
                head, _, rest = f.read().rpartition(')')
        except OSError:
            continue
        if int(rest.split()[1]) == pid and 'proxy' not in head:
            found.append(int(other))
    return found


def test_killed(user):
    """Programs still run when it is taken away: those of post_create, at a signal."""
    user.file('w.bot', tool('true', '    post_create: "touch up; sleep 1000"'))
    p = user.start('run', 'w.bot', '--quiet', *NATIVE)
    until_there(os.path.join(user.workspace, 'up'))
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=30)
    by_kind = check(user.events())
    assert p.returncode == 143 and by_kind['sandbox_stopped'][0]['exit'] == 'killed'
    assert 'node_started' not in by_kind


@pytest.mark.parametrize('block, says', [
    ('    mounts: ["type=bind,source=/proc,target=/p"]', 'kernel'),
    ('    workspace_folder: "/usr/nowhere/at/all"', '/usr/nowhere'),
])
def test_a_sandbox_that_does_not_start(me, block, says):
    """No sandbox event at all: it never was; the run failed before any node."""
    by_kind, kinds = run(me, tool('true', block), *NATIVE, code=1)
    assert [k for k in kinds if k.startswith(('sandbox_', 'network_'))] == [] and 'node_started' not in kinds
    failed, = by_kind['run_failed']
    assert says in failed['error'] and failed['hint'] and failed['resumable'] is False
