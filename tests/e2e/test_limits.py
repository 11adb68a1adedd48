"""Limits of a native sandbox: held by cgroups for who may make them, else by the process, and said so when that is less.

Who holds them here is asked of `sandbox plan`, which is itself held against what this machine has. A v2 tree with
controllers is met in test_limits_v2.py.
"""
import contextlib
import json
import os
import signal
import time

import pytest

from conftest import AM_ROOT, of_type, skip

HOG = '/usr/bin/python3 -c "b = bytearray(300 << 20); print(len(b))"'
BOMB = 'i=0; while [ $i -lt 60 ]; do sleep 60 & i=$((i+1)); done; echo started $i'
WAIT = 'touch here; while [ ! -e go ]; do sleep 0.05; done'


def bot(user, command, *limits):
    lines = ''.join(f'      {line}\n' for line in limits)
    block = f'    limits:\n{lines}' if limits else ''
    user.file('main.bot', f'tool t:\n  command: `{command}`\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n{block}'
              '  t -> done\n')


def run(user, code=0, **more):
    return user.ok('run', 'main.bot', '--sandbox-driver', 'native', code=code, **more)


def plan(user):
    """{limit: (by, note)} as `sandbox plan` says."""
    p = user.ok('sandbox', 'plan', 'main.bot', '--sandbox-driver', 'native', '--json')
    return {one['limit']: (one['by'], one.get('note')) for one in json.loads(p.stdout)['limits']}


def by_cgroup(user):
    return all(by.startswith('cgroup ') for by, _ in plan(user).values())


def warnings(user):
    return [w['message'] for w in of_type(user.events(), 'sandbox_warning') if w['code'] == 'limits']


def cgroups(run_id=''):
    """The cgroups of sandboxes that there are."""
    return [os.path.join(folder, name) for folder, names, _ in os.walk('/sys/fs/cgroup') for name in names
            if name.startswith(f'iterion-{run_id}')]


def until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f'{what}: not within {seconds} s'
        time.sleep(0.02)


def text(*path):
    with open(os.path.join(*path), encoding='ascii') as f:
        return f.read().strip()


@contextlib.contextmanager
def waiting(user):
    """A run whose node waits until the file `go` is there; gives the process and the run's id."""
    p = user.start('run', 'main.bot', '--sandbox-driver', 'native')
    try:
        until(lambda: os.path.exists(os.path.join(user.workspace, 'here')) or p.poll() is not None, 'the node')
        assert p.poll() is None, p.communicate()
        yield p, user.runs()[-1]
    finally:
        if p.poll() is None:
            p.kill()
        p.communicate()


@pytest.fixture
def root_v1(base, programs, ordinary_account):
    """Root, where cgroups of version 1 are there to be made."""
    from conftest import make_user
    user = make_user('root', ordinary_account, base, programs)
    if not os.access('/sys/fs/cgroup/memory/memory.limit_in_bytes', os.F_OK):
        skip('needs cgroups of version 1')
    return user


def test_memory(user):
    """The hog ends and iterion lives, whoever holds the limit."""
    bot(user, HOG, 'memory: "64m"')
    held = by_cgroup(user)
    p = run(user, code=1)
    if held:
        assert 'the sandbox reached its memory limit of 64 MiB' in p.stderr
        assert 'limits.memory' in p.stderr.split('hint: ')[1]
        assert warnings(user) == []
    else:
        assert 'MemoryError' in p.stderr
        (w,) = warnings(user)
        assert w.startswith('limits.memory: 64 MiB hold for each process by itself and not for the sandbox')
    assert cgroups() == []


def test_memory_that_is_enough(user):
    bot(user, HOG, 'memory: "1g"')
    run(user)
    assert '314572800' in json.dumps(user.events())


def test_the_node_alone_ends(user):
    """The next node of the same sandbox runs: memory that is out ends one program, not the sandbox."""
    bot(user, f'{HOG} || echo died', 'memory: "64m"')
    user.file('main.bot', open(os.path.join(user.workspace, 'main.bot'), encoding='utf-8').read()
              .replace('  t -> done', '  t -> u\n  u -> done')
              .replace('workflow w:', 'tool u:\n  command: `echo still here`\n\nworkflow w:'))
    run(user)
    assert 'still here' in json.dumps(of_type(user.events(), 'node_finished'))


def test_files_in_tmp_count(root_v1):
    """A tmpfs is memory of the sandbox, too."""
    bot(root_v1, 'head -c 200m /dev/zero > /tmp/x', 'memory: "64m"')
    p = run(root_v1, code=1)
    assert 'the sandbox reached its memory limit of 64 MiB' in p.stderr
    bot(root_v1, 'head -c 30m /dev/zero > /tmp/x', 'memory: "64m"')
    run(root_v1)


def test_processes(user):
    bot(user, BOMB, 'pids: 20')
    held = by_cgroup(user)
    p = run(user, code=1)
    assert 'started 60' not in p.stdout and 'fork' in p.stderr
    if held:
        assert 'the sandbox reached its limit of 20 processes' in p.stderr
    elif AM_ROOT and user.uid == 0:
        skip('needs a cgroup for the processes of root')
    assert warnings(user) == []
    assert cgroups() == []


def test_processes_are_enough_for_other_sandboxes(me):
    """Where the user namespace holds it, the same user's other programs are not counted."""
    bot(me, 'sleep 0.01 & wait; echo fine', 'pids: 4')
    others = [me.popen('sleep', '60') for _ in range(8)]
    try:
        run(me)
    finally:
        for p in others:
            p.kill()
            p.communicate()


def test_program_that_cannot_be_started(user):
    """Init alone has all that is allowed."""
    bot(user, 'true', 'pids: 1')
    if not by_cgroup(user) and user.uid == 0:
        skip('needs a cgroup for the processes of root')
    p = run(user, code=1)
    assert 'Resource temporarily unavailable' in p.stderr and 'limits.pids' in p.stderr


def test_without_limits_nothing_is_made(user):
    bot(user, WAIT)
    with waiting(user) as (p, run_id):
        assert cgroups(run_id) == []
        user.file('go', '')
        assert p.wait(30) == 0
    plan_doc = json.loads(user.ok('sandbox', 'plan', 'main.bot', '--sandbox-driver', 'native', '--json').stdout)
    assert 'limits' not in plan_doc


def test_version_1(root_v1):
    """The kernel's own files have what was asked for, and the sandbox's processes are there."""
    bot(root_v1, 'touch here; while [ ! -e go ]; do :; done; cat /proc/self/cgroup', 'memory: "64m"', 'pids: 20', 'cpus: 0.2')
    assert {by.split(',')[0] for by, _ in plan(root_v1).values()} == {'cgroup v1'}
    with waiting(root_v1) as (p, run_id):
        found = cgroups(run_id)
        has = {name: os.path.join(folder, name) for folder in found
               for name in ('memory.limit_in_bytes', 'pids.max', 'cpu.cfs_quota_us', 'cpu.stat')
               if os.path.exists(os.path.join(folder, name))}
        assert text(has['memory.limit_in_bytes']) == str(64 << 20)
        assert text(has['pids.max']) == '20'
        assert text(has['cpu.cfs_quota_us']) == '20000'
        inside = text(os.path.dirname(has['pids.max']), 'cgroup.procs').split()
        assert len(inside) >= 2 and str(p.pid) not in inside
        for folder in found:
            assert text(folder, 'cgroup.procs').split() == inside
        until(lambda: 'nr_throttled 0\n' not in open(has['cpu.stat'], encoding='ascii').read(), 'throttling')
        root_v1.file('go', '')
        assert p.wait(60) == 0
    assert cgroups() == []
    # Inside its own cgroup is the top.
    out = of_type(root_v1.events(), 'node_finished')[0]['output']['output']
    for controller in ('memory', 'pids', 'cpu'):
        assert any(controller in line.split(':')[1].split(',') and line.split(':')[2] == '/' for line in out.split()), out


def test_sandboxes_side_by_side(root_v1):
    """Each has its own: a node with limits of its own, and three runs at once."""
    bot(root_v1, 'head -c 100m /dev/zero | tail -c 60m | wc -c', 'memory: "128m"')
    root_v1.file('main.bot', open(os.path.join(root_v1.workspace, 'main.bot'), encoding='utf-8').read()
                 .replace('  t -> done', '  t -> u\n  u -> done')
                 .replace('workflow w:', f'tool u:\n  command: `{HOG}`\n  sandbox:\n    limits:\n      memory: "32m"\n\n'
                          'workflow w:'))
    started = [root_v1.start('run', 'main.bot', '--sandbox-driver', 'native') for _ in range(3)]
    for p in started:
        out, err = p.communicate(timeout=60)
        assert p.returncode == 1, (out, err)
        assert b'node u' in err and b'memory limit of 32 MiB' in err
    assert cgroups() == []


@pytest.mark.parametrize('who', ['gc', 'the next run'])
def test_killed_iterion(root_v1, who):
    """SIGKILL leaves empty cgroups for a moment: the sandbox dies by itself, and the folders are removed."""
    bot(root_v1, WAIT, 'memory: "64m"', 'pids: 20')
    with waiting(root_v1) as (p, run_id):
        left = cgroups(run_id)
        assert len(left) == 2
        # While it lives nobody removes them.
        root_v1.ok('sandbox', 'gc')
        assert cgroups(run_id) == left
        p.send_signal(signal.SIGKILL)
        p.wait()
        until(lambda: all(text(folder, 'cgroup.procs') == '' for folder in left), 'the end of the sandbox')
    assert cgroups(run_id) == left
    if who == 'gc':
        doc = json.loads(root_v1.ok('sandbox', 'gc', '--json').stdout)
        assert doc['removed'] >= 1
    else:
        bot(root_v1, 'true', 'memory: "64m"', 'pids: 20')
        run(root_v1)
    assert cgroups(run_id) == []


def test_rlimits(me):
    """An ordinary user who may make no cgroup: what each process gets, and exactly what is said about it."""
    bot(me, 'ulimit -d; nproc; cat /proc/self/limits', 'memory: "64m"', 'pids: 33', 'cpus: 1')
    limits = plan(me)
    if by_cgroup(me):
        skip('needs a user who may make no cgroup')
    run(me)
    out = of_type(me.events(), 'node_finished')[0]['output']['output'].split('\n')
    assert out[0] == '65536'
    processors = len(os.sched_getaffinity(0))
    assert out[1] == '1'
    assert any(line.split()[:4] == ['Max', 'processes', '33', '33'] for line in out)
    assert limits['limits.pids'] == ('RLIMIT_NPROC of the sandbox\'s user namespace', None)
    assert limits['limits.memory'][0] == 'RLIMIT_DATA of each process'
    said = warnings(me)
    assert said == [note for _, note in limits.values() if note]
    assert [w.split(':')[0] for w in said] == (['limits.cpus'] if processors > 1 else []) + ['limits.memory']
    assert all('version 1 needs root' in w for w in said)


def test_doctor(me):
    """The check warns before a run does, and never fails for it."""
    bot(me, 'true', 'memory: "64m"')
    held = by_cgroup(me)
    doc = json.loads(me.ok('sandbox', 'doctor', '--strict', 'main.bot', '--sandbox-driver', 'native', '--json').stdout)
    (check,) = [c for c in doc['checks'] if c['id'] == 'native_kernel']
    assert 'limits.memory by ' in check['detail']
    assert check['status'] == ('pass' if held else 'warn')
    if not held:
        assert check['remedy'].startswith('limits.memory: 64 MiB hold for each process')


def test_of_devcontainer(user):
    """--memory and --pids-limit of runArgs are the same limits."""
    user.folder('workspace', '.devcontainer')
    user.file('.devcontainer/devcontainer.json', json.dumps({'runArgs': ['--memory=64m', '--pids-limit=20']}))
    user.file('main.bot', f'tool t:\n  command: `{HOG}`\n\nworkflow w:\n  entry: t\n  sandbox: auto\n  t -> done\n')
    assert sorted(plan(user)) == ['limits.memory', 'limits.pids']
    run(user, code=1)
