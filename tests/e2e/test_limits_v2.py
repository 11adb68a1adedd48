"""Limits by cgroups of version 2: those that iterion makes, and those that the real systemd makes for root and for a user.

Most machines that run tests have no such tree to give away, so it is that of a user-mode Linux (uml.py).
"""
import os

import pytest

import uml
from conftest import AM_ROOT, skip

INSIDE = '''
import json, os, subprocess, sys, time
PROGRAM, UID = '{program}', {uid}
BASE = dict(PATH='/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LANG='C.UTF-8')
NOWHERE = 'unix:path=/nowhere'
ROOT = '/sys/fs/cgroup'


def put(path, text):
    with open(path, 'w') as f:
        f.write(text)


def text(*path):
    try:
        with open(os.path.join(*path)) as f:
            return f.read().strip()
    except OSError:
        return None


def bot(command):
    return ('tool t:\\n  command: `' + command + '`\\n\\nworkflow w:\\n  entry: t\\n  sandbox:\\n    mode: inline\\n'
            '    limits:\\n      memory: "24m"\\n      pids: 20\\n      cpus: 0.5\\n  t -> done\\n')


def groups():
    return [os.path.join(d, n) for d, names, _ in os.walk(ROOT) for n in names if n.startswith('iterion-')]


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


class Scenario:
    def __init__(self, name, uid, group=None, **env):
        self.name, self.uid, self.group = name, uid, group
        self.folder = '/mnt/' + name
        os.makedirs(self.folder + '/home')
        os.makedirs(self.folder + '/w')
        for d in ('', '/home', '/w'):
            os.chown(self.folder + d, uid, uid)
        self.env = dict(BASE, HOME=self.folder + '/home', ITERION_HOME=self.folder + '/store', TMPDIR='/mnt', **env)

    def become(self):
        if self.group:
            put(self.group + '/cgroup.procs', '0')
        os.setgroups([])
        os.setgid(self.uid)
        os.setuid(self.uid)

    def start(self, *args, **env):
        return subprocess.Popen([PROGRAM, *args], cwd=self.folder + '/w', env=dict(self.env, **env), preexec_fn=self.become,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *args, **env):
        p = self.start(*args, **env)
        out, err = p.communicate(timeout=60)
        return p.returncode, out, err

    def bot(self, command):
        put(self.folder + '/w/main.bot', bot(command))
        return ('main.bot', '--sandbox-driver', 'native')

    def tell(self):
        result = dict(name=self.name)
        args = self.bot('touch here; while [ ! -e go ]; do :; done; cat /proc/self/cgroup')
        result['plan'] = json.loads(self.run('sandbox', 'plan', *args, '--json')[1])['limits']
        p = self.start('run', *args)
        until(lambda: os.path.exists(self.folder + '/w/here') or p.poll() is not None)
        result['groups'] = [dict(path=g, memory=text(g, 'memory.max'), swap=text(g, 'memory.swap.max'),
                                 pids=text(g, 'pids.max'), cpu=text(g, 'cpu.max'),
                                 procs=len(text(g, 'cgroup.procs').split())) for g in groups()]
        for g in groups():
            until(lambda: 'nr_throttled 0' not in text(g, 'cpu.stat'))
            result['throttled'] = 'nr_throttled 0' not in text(g, 'cpu.stat')
        put(self.folder + '/w/go', '')
        out, err = p.communicate(timeout=60)
        result['run'] = (p.returncode, out, err)
        until(lambda: not groups())
        result['after'] = groups()
        result['hog'] = self.run('run', *self.bot('exec /usr/bin/python3 -c "b = bytearray(30 << 20)"'))
        print('RESULT ' + json.dumps(result), flush=True)

    def tell_more(self):
        """What is the same for who makes the cgroup itself and for each manager."""
        result = dict(name=self.name + ' more')
        result['bomb'] = self.run('run', *self.bot('i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done'))
        os.unlink(self.folder + '/w/here')
        os.unlink(self.folder + '/w/go')
        p = self.start('run', *self.bot('touch here; exec sleep 60'))
        until(lambda: os.path.exists(self.folder + '/w/here'))
        p.kill()
        p.communicate()
        until(lambda: not any(text(g, 'cgroup.procs') for g in groups()))
        # Without the engines' programs, which would be asked for leftovers of theirs.
        result['gc'] = self.run('sandbox', 'gc', PATH='/nowhere')[0]
        until(lambda: not groups())
        result['left'] = groups()
        print('RESULT ' + json.dumps(result), flush=True)


leaf = ROOT + '/given/leaf'
os.makedirs(leaf)
put(ROOT + '/given/cgroup.subtree_control', '+cpu +memory +pids')
for name in ('', '/cgroup.procs', '/cgroup.subtree_control', '/leaf', '/leaf/cgroup.procs'):
    os.chown(ROOT + '/given' + name, UID, UID)
Scenario('root-by-systemd', 0).tell()
user = Scenario('user-by-systemd', UID, XDG_RUNTIME_DIR='/run/user/%d' % UID)
user.tell()
user.tell_more()
Scenario('root-itself', 0, DBUS_SYSTEM_BUS_ADDRESS=NOWHERE).tell()
delegated = Scenario('delegated', UID, group=leaf, DBUS_SESSION_BUS_ADDRESS=NOWHERE)
delegated.tell()
delegated.tell_more()
'''


@pytest.fixture(scope='module')
def told(base, programs, ordinary_account):
    """What happened there, by scenario."""
    if uml.missing():
        skip(f'needs {uml.missing()}')
    if not AM_ROOT:
        skip('needs root, whose files the kernel of the test shows as they are')
    folder = os.path.join(base, 'uml')
    os.mkdir(folder)
    script = os.path.join(folder, 'inside.py')
    with open(script, 'w', encoding='utf-8') as f:
        f.write(INSIDE.replace('{program}', os.path.join(programs, 'iterion'))
                .replace('{uid}', str(ordinary_account.pw_uid)))
    results, text = uml.boot(folder, script, ordinary_account.pw_uid)
    assert len(results) == 6, text
    return {r['name']: r for r in results}


@pytest.mark.parametrize('name', ['root-by-systemd', 'user-by-systemd', 'root-itself', 'delegated'])
def test_version_2(told, name):
    r = told[name]
    wanted = 'cgroup v2, by a transient unit of systemd' if name.endswith('systemd') else 'cgroup v2, below '
    assert [one['limit'] for one in r['plan']] == ['limits.cpus', 'limits.memory', 'limits.pids']
    assert all(one['by'].startswith(wanted) and 'note' not in one for one in r['plan']), r['plan']
    (group,) = r['groups']
    assert (group['memory'], group['pids'], group['cpu']) == (str(24 << 20), '20', '50000 100000')
    assert group['swap'] in ('0', None) and group['procs'] >= 2
    assert group['path'].endswith('.scope') == name.endswith('systemd')
    if name == 'user-by-systemd':
        assert '/user@' in group['path']
    if name == 'delegated':
        assert group['path'].startswith('/sys/fs/cgroup/given/iterion-')
    assert r['throttled'] is True
    assert r['run'][0] == 0 and '0::/' in r['run'][1] and 'limits.' not in r['run'][2], r['run']
    assert r['after'] == []
    assert r['hog'][0] == 1 and 'ended by signal 9 (SIGKILL); the sandbox reached its memory limit of 24 MiB' in r['hog'][2]


@pytest.mark.parametrize('name', ['user-by-systemd', 'delegated'])
def test_processes_and_a_killed_iterion(told, name):
    r = told[name + ' more']
    assert r['bomb'][0] == 1 and 'the sandbox reached its limit of 20 processes' in r['bomb'][2]
    assert r['gc'] == 0 and r['left'] == []
