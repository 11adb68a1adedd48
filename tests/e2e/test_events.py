"""Every type of event that the engine, its tools and its sandboxes write: that it comes, with the keys that it must have
and no others, and that docs/events.md has it. What models and agents write is with the tests of their backends."""
import os
import re
import signal

import pytest

from conftest import ROOT
from waiting import until_there

NATIVE = ('--sandbox-driver', 'native')

# type → keys that it must have, keys that it may have
TABLE = {
    'run_started': ('workflow file workspace sandbox source inputs', 'name'),
    'run_finished': ('duration_ms last_node', ''),
    'run_failed': ('error code resumable duration_ms', 'hint signal'),
    'run_cancelled': ('error code resumable signal duration_ms', 'hint'),
    'run_paused': ('waiting duration_ms', ''),
    'run_resumed': ('status', 'last_node file_changed'),
    'run_interrupted': ('', 'last_node'),
    'node_started': ('kind', ''),
    'node_finished': ('duration_ms', 'output output_ref output_bytes preview exit_code _tokens _cost_usd'),
    'node_recovery': ('reason', 'error'),
    'tool_error': ('error', 'hint exit_code output'),
    'node_error': ('error', 'hint'),
    'edge_selected': ('from to', 'condition negated expression loop iteration'),
    'branch_started': ('node router', ''),
    'branch_finished': ('', 'error join_node'),
    'join_ready': ('strategy', 'failed_branches'),
    'artifact_written': ('publish version', ''),
    'human_input_requested': ('interaction_id fields min_answers', 'instructions'),
    'human_answers_recorded': ('interaction_id answers', ''),
    'budget_warning': ('dimension used limit', ''),
    'budget_exceeded': ('dimension used limit', ''),
    'sandbox_starting': ('driver nodes', ''),
    'sandbox_started': ('driver mode source image has_post_create workspace_folder network start_ms', 'nodes image_digest'),
    'sandbox_skipped': ('driver mode source reason', ''),
    'sandbox_host_state_mounted': ('enabled source mounts skipped', 'workspace_folder'),
    'sandbox_post_create': ('name duration_ms exit_code', ''),
    'sandbox_stopped': ('driver duration_ms exit', ''),
    'network_blocked': ('host port reason rule run_id count', ''),
    'network_summary': ('hosts', ''),
}

# What else the page must have; their tests are with what writes them.
ELSEWHERE = ('llm_request llm_step_finished llm_retry llm_compacted tool_started tool_called delegate_started '
             'delegate_finished delegate_error delegate_retry sandbox_user_remap sandbox_uid_mismatch_warning '
             'sandbox_build_started sandbox_build_finished sandbox_build_failed sandbox_claw_routed_via_runner '
             'sandbox_pull_progress sandbox_warning attachments_copying claw_resumed').split()


def check(events):
    assert [e['seq'] for e in events] == list(range(len(events)))
    for e in events:
        assert set(e) <= {'seq', 'timestamp', 'type', 'run_id', 'branch_id', 'node_id', 'data'}
        assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', e['timestamp'])
        if e['type'] not in TABLE:
            continue
        must, may = (set(keys.split()) for keys in TABLE[e['type']])
        have = set(e.get('data', {}))
        assert must <= have <= must | may, (e['type'], have)
    return {e['type'] for e in events}


ALL = '''schema s:
  ok: bool

router split:
  mode: fan_out_all

tool good:
  command: `echo '{"ok": true}'`
  output: s
  publish: wish

tool bad:
  command: `exit 3`

tool blocked:
  command: `curl -s -o /dev/null --max-time 5 http://one.example/`
  sandbox:
    post_create: "true"
    network:
      mode: allowlist
      rules: ["two.example"]

tool join:
  command: `echo joined`
  await: best_effort

compute again:
  expr:
    more: "loop.l.iteration < 2"

human ask:
  output: s

workflow w:
  entry: split
  sandbox: auto
  budget:
    max_iterations: 12
  split -> good
  split -> bad
  split -> blocked
  good -> join
  bad -> join
  blocked -> join
  join -> again
  again -> again when more as l(2)
  again -> ask
  ask -> done
'''


def test_a_run_with_everything(me):
    me.file('main.bot', ALL)
    me.ok('run', 'main.bot', *NATIVE, code=3)
    seen = check(me.events())
    me.ok('resume', '--last', '--answer', 'ok=true', *NATIVE)
    seen |= check(me.events())
    me.file('main.bot', ALL.replace('max_iterations: 12', 'max_iterations: 3'))
    me.ok('run', 'main.bot', *NATIVE, code=1)
    seen |= check(me.events())
    me.file('main.bot', 'compute c:\n  expr:\n    x: "1 + true"\n\nworkflow w:\n  entry: c\n  sandbox: auto\n  c -> done\n')
    me.ok('run', 'main.bot', '--sandbox-driver', 'noop', code=1)
    seen |= check(me.events())
    for sig, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        me.file('main.bot', 'tool a:\n  command: `true`\n\ntool b:\n  command: `touch ready; [ -e go ] || exec sleep 1000`\n\n'
                'workflow w:\n  entry: a\n  a -> b\n  b -> done\n')
        p = me.start('run', 'main.bot')
        until_there(os.path.join(me.workspace, 'ready'), p)
        p.send_signal(sig)
        p.communicate(timeout=30)
        assert p.returncode == code
        seen |= check(me.events())
        os.unlink(os.path.join(me.workspace, 'ready'))
    me.file('go', '')
    me.ok('resume', '--last')
    seen |= check(me.events())
    assert set(TABLE) - seen == set()


def test_what_begins_again_is_told(me):
    """Once for each node that had begun: one that failed with why, and none that has finished or never began."""
    me.file('main.bot', 'tool a:\n  command: `true`\n\ntool b:\n  command: `[ -e go ] || exit 7`\n\ntool c:\n  command: `true`\n\n'
            'workflow w:\n  entry: a\n  a -> b\n  b -> c\n  c -> done\n')
    me.ok('run', 'main.bot', code=1)
    me.ok('resume', '--last', code=1)
    me.file('go', '')
    me.ok('resume', '--last')
    told = [(e['node_id'], e['data']['reason'], '7' in e['data']['error']) for e in me.events() if e['type'] == 'node_recovery']
    assert told == 2 * [('b', 'failed', True)]


def test_every_type_is_documented():
    with open(os.path.join(ROOT, 'docs', 'events.md'), encoding='utf-8') as f:
        text = f.read()
    rows = {t for line in text.split('\n') if line.startswith('| ') for t in re.findall(r'[a-z]+_[a-z_]+', line.split('|')[1])}
    assert set(TABLE) | set(ELSEWHERE) <= rows


@pytest.mark.parametrize('fan, most', [(50, 8)])
def test_a_wide_fan_out(me, fan, most):
    """Never more branches at once than the budget allows, as many as it allows, and a join that sees all of them."""
    names = [f'b{i}' for i in range(fan)]
    nodes = ''.join(f'tool {n}:\n  command: `sleep 0.02; echo {n}`\n\n' for n in names)
    seen = ' '.join(f'{{{{outputs.{n}.output}}}}' for n in names)
    edges = ''.join(f'  split -> {n}\n  {n} -> join\n' for n in names)
    me.file('main.bot', f'{nodes}router split:\n  mode: fan_out_all\n\ntool join:\n  command: `echo {seen}`\n  await: wait_all\n\n'
            f'workflow w:\n  entry: split\n  budget:\n    max_parallel_branches: {most}\n{edges}  join -> done\n')
    me.ok('run', 'main.bot')
    events, now, peak = me.events(), 0, 0
    for e in events:
        if e.get('node_id') in names:
            now += {'node_started': 1, 'node_finished': -1}.get(e['type'], 0)
            peak = max(peak, now)
    assert peak == most and now == 0
    assert [e['type'] for e in events].count('join_ready') == 1
    [join] = [e for e in events if e['type'] == 'node_finished' and e['node_id'] == 'join']
    assert sorted(join['data']['output']['output'].split()) == sorted(names)


def test_best_effort_names_what_failed(me):
    names = [f'b{i}' for i in range(6)]
    nodes = ''.join(f'tool {n}:\n  command: `exit {i % 2}`\n\n' for i, n in enumerate(names))
    edges = ''.join(f'  split -> {n}\n  {n} -> join\n' for n in names)
    me.file('main.bot', f'{nodes}router split:\n  mode: fan_out_all\n\ntool join:\n  command: `echo joined`\n  await: best_effort\n\n'
            f'workflow w:\n  entry: split\n{edges}  join -> done\n')
    me.ok('run', 'main.bot')
    [ready] = [e for e in me.events() if e['type'] == 'join_ready']
    assert ready['data']['strategy'] == 'best_effort'
    assert sorted(ready['data']['failed_branches']) == ['split.b1', 'split.b3', 'split.b5']
    failed = sorted(e['branch_id'] for e in me.events() if e['type'] == 'branch_finished' and 'error' in e['data'])
    assert failed == ['split.b1', 'split.b3', 'split.b5']
