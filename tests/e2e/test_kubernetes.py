"""Sandboxes of a cluster, in a real one.

ITERION_TEST_KUBECONFIG names the configuration of a cluster's administrator; the tests make a namespace of their own
there, apply examples/kubernetes/rbac.yaml in it, and run iterion with that account. Also by variables:
ITERION_TEST_KUBE_IMAGE, an image with busybox's programs that the nodes have or can pull (busybox:1.36);
ITERION_TEST_KUBE_GUEST_IMAGE, one with /usr/local/bin/iterion-guest (without it the tests of that are skipped);
ITERION_TEST_KUBE_IP, an address of this machine that pods reach.
"""
import base64
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from conftest import ROOT, make_user, of_type, skip

IMAGE = os.environ.get('ITERION_TEST_KUBE_IMAGE', 'busybox:1.36')
GUEST_IMAGE = os.environ.get('ITERION_TEST_KUBE_GUEST_IMAGE')
ADDRESS = os.environ.get('ITERION_TEST_KUBE_IP')
FLAGS = ('--sandbox-driver', 'kubernetes')
EXECS, MB = 20, int(os.environ.get('EXEC_MB', '2'))


def until(true, what, limit=30):
    """Asks again and again: what it waits for is the cluster's and offers these tests nothing to wait on."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, f'{what}: not within {limit} s'
        time.sleep(0.05)


class Cluster:
    def __init__(self, config, folder):
        self.admin = {'KUBECONFIG': config, 'PATH': os.environ['PATH']}
        self.namespace = f'iterion-test-{os.getpid()}'
        self.config = os.path.join(folder, 'kubeconfig')
        self.folder = folder

    def kubectl(self, *args, check=True, text=None):
        p = subprocess.run(['kubectl', '-n', self.namespace, *args], check=False, env={**os.environ, **self.admin},
                           input=text, capture_output=True, text=True, timeout=60)
        assert not check or p.returncode == 0, (args, p.stderr)
        return p.stdout if check else p

    def token(self):
        p = self.kubectl('create', 'token', 'iterion-runner', check=False)
        if p.returncode == 0:
            return p.stdout.strip()
        # Before 1.24 each account has a secret with its token.
        name = ''
        while not name:
            name = self.kubectl('get', 'serviceaccount', 'iterion-runner', '-o', 'jsonpath={.secrets[0].name}')
        return base64.b64decode(self.kubectl('get', 'secret', name, '-o', 'jsonpath={.data.token}')).decode()

    def write_config(self, path, token):
        own = json.loads(self.kubectl('config', 'view', '--raw', '--minify', '-o', 'json'))
        cluster = own['clusters'][0]['cluster']
        if 'certificate-authority' in cluster:
            with open(cluster.pop('certificate-authority'), 'rb') as f:
                cluster['certificate-authority-data'] = base64.b64encode(f.read()).decode()
        with open(path, 'w', encoding='utf-8') as f:
            json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'c',
                       'clusters': [{'name': 'c', 'cluster': cluster}],
                       'users': [{'name': 'u', 'user': {'token': token}}],
                       'contexts': [{'name': 'c', 'context': {'cluster': 'c', 'user': 'u',
                                                              'namespace': self.namespace}}]}, f)
        os.chmod(path, 0o644)

    def begin(self):
        self.kubectl('create', 'namespace', self.namespace)
        self.kubectl('apply', '-f', os.path.join(ROOT, 'examples/kubernetes/rbac.yaml'))
        self.write_config(self.config, self.token())

    def end(self):
        self.kubectl('delete', 'namespace', self.namespace, '--wait=false', check=False)

    def pods(self):
        """Those that are not on their way out."""
        found = json.loads(self.kubectl('get', 'pods', '-l', 'iterion.io/managed=true', '-o', 'json'))
        return [p for p in found['items'] if 'deletionTimestamp' not in p['metadata']]

    def policies(self):
        return json.loads(self.kubectl('get', 'networkpolicies', '-o', 'json'))['items']


@pytest.fixture(scope='module')
def cluster(base):
    config = os.environ.get('ITERION_TEST_KUBECONFIG')
    if not config:
        skip('needs a cluster: ITERION_TEST_KUBECONFIG is not set')
    if not shutil.which('kubectl'):
        skip('needs kubectl, which is not on PATH')
    c = Cluster(config, base)
    c.begin()
    with contextlib.closing(type('', (), {'close': staticmethod(c.end)})()):
        yield c


class Place:
    def __init__(self, user, cluster):
        self.user, self.cluster = user, cluster
        user.env['KUBECONFIG'] = cluster.config
        user.env['PATH'] = os.environ['PATH']
        if ADDRESS:
            user.env['ITERION_POD_IP'] = ADDRESS

    def block(self, *lines, image=IMAGE, uid='"1000:1000"'):
        own = [f'image: "{image}"', *([f'user: {uid}'] if uid else []), *lines]
        return '  sandbox:\n' + ''.join(f'    {line}\n' for line in own)

    def workflow(self, *commands, block=None, head=''):
        nodes = ''.join(f'tool t{i}:\n  command: `{c}`\n\n' for i, c in enumerate(commands))
        names = [f't{i}' for i in range(len(commands))] + ['done']
        edges = ''.join(f'  {a} -> {b}\n' for a, b in zip(names, names[1:]))
        self.user.file('main.bot', f'{nodes}workflow w:\n  entry: t0\n{head}{block or self.block()}{edges}')

    def run(self, *commands, block=None, code=0, flags=(), **more):
        self.workflow(*commands, block=block)
        return self.user.ok('run', 'main.bot', *FLAGS, *flags, code=code, **more)

    def fails(self, *says, block=None, **more):
        self.workflow('true', block=block)
        p = self.user.fails('run', 'main.bot', *FLAGS, '--quiet', code=1, says=says, **more)
        self.nothing_is_left()
        return p

    def output(self, node='t0'):
        return [e['data']['output']['output'] for e in self.user.events()
                if e['type'] == 'node_finished' and e['node_id'] == node][0]

    def start_waiting(self):
        """A run whose second node waits until there is a file, or it is ended."""
        self.workflow('echo x >>first', 'echo y >>second; echo here; until test -e go; do sleep 0.1; done')
        p = self.user.start('run', 'main.bot', *FLAGS)
        until(lambda: self.user.runs() and [e for e in self.user.events() if e.get('node_id') == 't1'],
              'the second node runs')
        assert p.poll() is None, p.communicate()
        return p

    def nothing_is_left(self):
        until(lambda: not self.cluster.pods() and not self.cluster.policies(), 'no object of ours is left', 10)


@pytest.fixture
def place(ordinary_account, base, programs, cluster):
    p = Place(make_user('ordinary', ordinary_account, base, programs), cluster)
    yield p
    p.nothing_is_left()


def test_run_in_a_pod_of_its_own(place):
    place.run('id -u; id -g; cat /proc/1/comm; pwd; grep -E "^(CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; '
              'ls /var/run/secrets 2>/dev/null; echo $$HOSTNAME'.replace('$$', '$'))
    lines = place.output().split('\n')
    assert lines[:4] == ['1000', '1000', 'iterion', '/workspace']
    assert [line.split()[1] for line in lines[4:7]] == ['0000000000000000', '1', '2']
    assert lines[7].startswith('iterion-')
    started = of_type(place.user.events(), 'sandbox_started')[0]
    assert started['driver'] == 'kubernetes' and started['workspace_folder'] == '/workspace'
    assert started['image_digest'].startswith('sha256:')
    assert of_type(place.user.events(), 'sandbox_stopped')[0]['exit'] == 'clean'
    state = of_type(place.user.events(), 'sandbox_host_state_mounted')[0]
    assert state['enabled'] is False and 'kubernetes' in state['source']


def test_what_the_pod_is(place):
    p = place.start_waiting()
    pod = place.cluster.pods()[0]
    spec, labels = pod['spec'], pod['metadata']['labels']
    place.user.file('go', '')
    assert spec['restartPolicy'] == 'Never'
    assert spec['automountServiceAccountToken'] is False
    assert spec['securityContext'] == {'runAsNonRoot': True, 'runAsUser': 1000, 'runAsGroup': 1000,
                                       'seccompProfile': {'type': 'RuntimeDefault'}}
    box = spec['containers'][0]
    assert box['securityContext'] == {'allowPrivilegeEscalation': False, 'capabilities': {'drop': ['ALL']}}
    assert 'env' not in box, 'a value of the environment can be read off the pod'
    assert labels['iterion.io/managed'] == 'true' and labels['iterion.io/component'] == 'sandbox-run'
    assert labels['iterion.io/run-id'] == place.user.runs()[0]
    rows = json.loads(place.user.ok('sandbox', 'ls', '--json').stdout)['sandboxes']
    mine = [r for r in rows if r['driver'] == 'kubernetes']
    assert [(r['run_id'], r['owner'], r['state']) for r in mine] == [(place.user.runs()[0], 'alive', 'Running')]
    # The file went into the workspace here; the pod has a copy.
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130


def tree_of(top):
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, top)
            if rel == 'main.bot' or rel.startswith('.iterion'):
                continue
            if os.path.islink(path):
                found[rel] = ('link', os.readlink(path))
            elif os.path.isdir(path):
                found[rel] = ('dir', os.stat(path).st_mode & 0o1777)
            else:
                with open(path, 'rb') as f:
                    found[rel] = ('file', os.stat(path).st_mode & 0o1777, f.read())
    return found


def test_workspace_goes_and_comes_back(place):
    user = place.user
    for name in ('keep', 'keep/deep', 'gone', 'gone/deep', 'became-file', '.iterion', '.iterion/runs', '.iterion/runs/r',
                 'private'):
        user.folder('workspace', name)
    user.file('keep/same', 'same\n')
    user.file('keep/deep/x', 'x\n', 0o755)
    user.file('gone/deep/y', 'y\n')
    user.file('became-file/z', 'z\n')
    user.file('became-dir', 'f\n')
    user.file('changed', 'before\n')
    user.file('.iterion/runs/r/secret', 'other run\n')
    user.file('odd\nname "x', 'odd\n')
    os.symlink('keep/same', os.path.join(user.workspace, 'link'))
    os.symlink('/etc/passwd', os.path.join(user.workspace, 'out'))
    before = os.stat(os.path.join(user.workspace, 'keep/same')).st_mtime_ns
    old = os.stat(os.path.join(user.workspace, 'changed'))
    place.run('cat keep/same; readlink link; readlink out; ls -a .iterion 2>/dev/null; stat -c %a keep/deep/x; cat odd*; '
              'rm -r gone became-file became-dir; echo f >became-file; mkdir became-dir; echo n >became-dir/n; '
              # What only the change time tells: the same size, and the old time put back.
              'echo AFTER. >changed; touch -r keep/same changed; '
              'chmod 600 keep/deep/x; ln -s ../keep new-link; mkdir -p a/b/c; chmod 750 a/b; echo new >a/b/c/new; '
              'mkdir -p .iterion/runs/forged; mkfifo fifo', flags=('--store-dir', user.store))
    assert place.output() == 'same\nkeep/same\n/etc/passwd\n755\nodd\n'
    assert tree_of(user.workspace) == {
        'keep': ('dir', 0o755), 'keep/deep': ('dir', 0o755), 'keep/same': ('file', 0o644, b'same\n'),
        'keep/deep/x': ('file', 0o600, b'x\n'), 'became-file': ('file', 0o644, b'f\n'), 'became-dir': ('dir', 0o755),
        'became-dir/n': ('file', 0o644, b'n\n'), 'changed': ('file', 0o644, b'AFTER.\n'),
        'odd\nname "x': ('file', 0o644, b'odd\n'), 'link': ('link', 'keep/same'), 'out': ('link', '/etc/passwd'),
        'new-link': ('link', '../keep'), 'a': ('dir', 0o755), 'a/b': ('dir', 0o750), 'a/b/c': ('dir', 0o755),
        'a/b/c/new': ('file', 0o644, b'new\n'), 'private': ('dir', 0o755)}
    assert os.stat(os.path.join(user.workspace, 'keep/same')).st_mtime_ns == before, 'an unchanged file was written'
    assert os.stat(os.path.join(user.workspace, 'changed')).st_ino != old.st_ino
    assert os.listdir(os.path.join(user.workspace, '.iterion/runs')) == ['r'], 'the store was written to'
    assert [w['code'] for w in of_type(user.events(), 'sandbox_warning')] == ['workspace_incomplete']


def test_ten_thousand_files(place):
    user = place.user
    user.folder('workspace', 'many')
    for i in range(10000):
        path = os.path.join(user.workspace, 'many', f'{i}')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(f'{i}\n')
    place.run('ls many | wc -l; rm many/*7; echo new >many/new')
    assert place.output() == '10000\n'
    assert len(os.listdir(os.path.join(user.workspace, 'many'))) == 9001


def test_run_files_come_back(place):
    source = place.user.file('given.txt', 'given\n')
    del source
    place.run('cp /run/iterion/attachments/* $ITERION_ARTIFACT_FILES_DIR/ 2>/dev/null; '
              'echo made >$ITERION_ARTIFACT_FILES_DIR/made')
    run = os.path.join(place.user.store, 'runs', place.user.runs()[0], 'artifact-files')
    with open(os.path.join(run, 'made'), encoding='utf-8') as f:
        assert f.read() == 'made\n'


def test_parallel_execs_lose_no_byte(place):
    nodes = ''.join(f'tool n{i}:\n  command: `yes {i:07d} | head -c {MB << 20}`\n\n' for i in range(EXECS))
    edges = ''.join(f'  fan -> n{i}\n  n{i} -> last\n' for i in range(EXECS))
    place.user.file('main.bot', f'{nodes}router fan:\n  mode: fan_out_all\n\ntool last:\n  await: wait_all\n'
                    f'  command: `true`\n\nworkflow w:\n  entry: fan\n{place.block()}{edges}  last -> done\n')
    place.user.ok('run', 'main.bot', *FLAGS, '--quiet', timeout=300)
    run = os.path.join(place.user.store, 'runs', place.user.runs()[-1])
    for i in range(EXECS):
        files = glob.glob(os.path.join(run, 'output', f'*-n{i}.stdout'))
        assert len(files) == 1, files
        with open(files[0], 'rb') as f:
            assert f.read() == f'{i:07d}\n'.encode() * (MB << 17), f'n{i}'


@pytest.mark.parametrize('command, says', [('exit 42', '42'), ('kill -9 $$', 'signal 9'), ('/no/such/program', '127')])
def test_ends_come_back_exactly(place, command, says):
    assert says in place.run(command, code=1).stderr


def test_terminal_and_input(place):
    p = place.user.ok('sandbox', 'exec', *FLAGS, '--sandbox', 'auto', '--sandbox-default-image', IMAGE,
                      '--devcontainer', 'none', '--', 'cat', input='in and out', code=1)
    # The image's user is root, which the cluster refuses: the words say so.
    assert 'runAsNonRoot' in p.stderr


@pytest.mark.skipif(not ADDRESS, reason='needs an address that pods reach: ITERION_TEST_KUBE_IP is not set')
@pytest.mark.parametrize('guest', ['sent', 'image'])
def test_network_goes_through_the_proxy(place, guest):
    if guest == 'image':
        if not GUEST_IMAGE:
            skip('needs an image with the guest: ITERION_TEST_KUBE_GUEST_IMAGE is not set')
        place.user.env['ITERION_GUEST_IMAGE'] = GUEST_IMAGE
    place.workflow('wget -qO- http://evil.example.net/ 2>&1; test -w /run/iterion/bin; echo $?; echo >&3',
                   'echo here; until test -e go; do sleep 0.1; done',
                   block=place.block('network:', '  mode: allowlist', '  rules: ["*.example.org"]'))
    p = place.user.start('run', 'main.bot', *FLAGS)
    until(lambda: place.cluster.policies() or p.poll() is not None, 'there is a policy')
    policy = place.cluster.policies()[0]
    p.communicate(timeout=60)
    events = place.user.events()
    started = of_type(events, 'sandbox_started')[0]
    assert started['network']['enforcement'] == 'networkpolicy'
    assert [b['host'] for b in of_type(events, 'network_blocked')] == ['evil.example.net']
    assert policy['spec']['egress'][0]['to'] == [{'ipBlock': {'cidr': f'{ADDRESS}/32'}}]
    assert policy['spec']['ingress'] == [{'from': [{'ipBlock': {'cidr': f'{ADDRESS}/32'}}]}]
    assert policy['spec']['policyTypes'] == ['Ingress', 'Egress']
    name = policy['metadata']['name']
    assert policy['spec']['podSelector'] == {'matchLabels': {'iterion.io/pod': name}}


def test_policy_needs_the_runners_address(place):
    place.user.env.pop('ITERION_POD_IP', None)
    place.fails('ITERION_POD_IP', 'status.podIP', block=place.block('network:', '  mode: allowlist',
                                                                     '  rules: ["*.example.org"]'))


@pytest.mark.parametrize('lines, image, uid, says', [
    ((), 'localhost/iterion-no-such:1', '"1000"', ('Pull', 'iterion-no-such')),
    ((), 'UPPER/Case:1', '"1000"', ('InvalidImageName',)),
    ((), IMAGE, None, ('CreateContainerConfigError', 'runAsNonRoot', 'user: "1000:1000"')),
    (('limits:', '  memory: "900g"'), IMAGE, '"1000"', ('Unschedulable', 'Insufficient memory', 'limits.memory')),
    (('mounts: ["type=secret,source=nosuch,target=/s"]',), IMAGE, '"1000"', ('FailedMount', 'nosuch')),
], ids=['no-image', 'bad-image', 'root', 'unschedulable', 'no-secret'])
def test_pods_that_never_start(place, lines, image, uid, says):
    place.fails(*says, block=place.block(*lines, image=image, uid=uid))


@pytest.mark.parametrize('lines, uid, says', [
    (('mounts: ["type=bind,source=/tmp,target=/x"]',), '"1000"', ('bind', 'type=pvc')),
    (('mounts: ["type=volume,source=v,target=/x"]',), '"1000"', ('volume', 'type=pvc')),
    (('host_state: auto',), '"1000"', ('host_state: auto', 'host_state: none')),
    (('limits:', '  pids: 100'), '"1000"', ('limits.pids',)),
    ((), '"node"', ('"node"', 'number')),
    ((), '"0:0"', ('root',)),
], ids=['bind', 'volume', 'host-state', 'pids', 'name', 'zero'])
def test_what_a_pod_cannot_have(place, lines, uid, says):
    place.fails(*says, block=place.block(*lines, uid=uid))


def test_objects_of_the_cluster_are_mounted(place):
    c = place.cluster
    c.kubectl('create', 'configmap', 'words', '--from-literal=one=first', '--from-literal=two=second')
    c.kubectl('create', 'secret', 'generic', 'key', '--from-literal=token=hush')
    place.run('cat /all/one /all/two /one; cat /secret/token; ls -lL /secret/token | cut -c1-10; '
              'echo x >/all/three; echo y >/mem/z && df /mem | tail -1 | cut -c1-5',
              block=place.block('mounts: ["type=configmap,source=words,target=/all", '
                                '"type=configmap,source=words,key=one,target=/one", '
                                '"type=secret,source=key,target=/secret", "type=tmpfs,target=/mem"]'))
    out = place.output()
    assert out.startswith('firstsecondfirsthush-r--r-----\ntmpfs')


def lost(place, p, says):
    out, err = p.communicate(timeout=90)
    assert p.returncode == 1, (out, err)
    assert says in err.decode() and 'hint: ' in err.decode(), err
    events = place.user.events()
    assert [d['exit'] for d in of_type(events, 'sandbox_stopped')] == ['lost']
    assert events[-1]['type'] == 'run_failed' and events[-1]['data']['resumable'] is True


def test_pod_is_deleted(place):
    p = place.start_waiting()
    place.cluster.kubectl('delete', 'pod', place.cluster.pods()[0]['metadata']['name'], '--wait=false')
    lost(place, p, "the sandbox's pod ended")
    place.user.file('go', '')
    place.user.ok('resume', '--run-id', place.user.runs()[-1], *FLAGS)


def test_agent_is_killed_inside(place):
    place.run('kill -9 $(pidof iterion | tr " " "\\n" | grep -vx 1); sleep 60', code=1)
    assert 'connection' in place.user.events()[-1]['data']['error'], place.user.events()[-1]


def test_program_over_the_memory_limit(place):
    p = place.run('tail -c 900000000 /dev/zero >/dev/null', 'true', code=1,
                  block=place.block('limits:', '  memory: "64m"'))
    assert 'OOMKilled' in p.stderr or 'SIGKILL' in p.stderr or 'signal' in p.stderr, p.stderr


def test_cancel_brings_the_work_back(place):
    p = place.start_waiting()
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=60)
    assert p.returncode == 143
    for name, text in (('first', 'x\n'), ('second', 'y\n')):
        with open(os.path.join(place.user.workspace, name), encoding='utf-8') as f:
            assert f.read() == text


def test_killed_runs_are_swept(place):
    p = place.start_waiting()
    p.kill()
    p.wait()
    assert len(place.cluster.pods()) == 1
    rows = json.loads(place.user.ok('sandbox', 'ls', '--json').stdout)['sandboxes']
    assert [r['owner'] for r in rows if r['driver'] == 'kubernetes'] == ['gone']
    place.user.ok('sandbox', 'gc')
    place.nothing_is_left()


def test_account_without_rights(place):
    c = place.cluster
    c.kubectl('create', 'serviceaccount', 'nobody')
    own = c.kubectl('create', 'token', 'nobody', check=False)
    token = own.stdout.strip()
    if own.returncode != 0:
        until(lambda: c.kubectl('get', 'serviceaccount', 'nobody', '-o', 'jsonpath={.secrets[0].name}'), 'a token')
        name = c.kubectl('get', 'serviceaccount', 'nobody', '-o', 'jsonpath={.secrets[0].name}')
        token = base64.b64decode(c.kubectl('get', 'secret', name, '-o', 'jsonpath={.data.token}')).decode()
    path = os.path.join(c.folder, 'nobody')
    c.write_config(path, token)
    place.user.env['KUBECONFIG'] = path
    place.fails('forbidden', 'examples/kubernetes/rbac.yaml')


def test_no_cluster_and_no_kubectl(place):
    place.user.env['KUBECONFIG'] = '/dev/null'
    place.fails('kubectl', 'KUBECONFIG')
    place.user.env['PATH'] = '/nonexistent'
    place.fails('kubectl is not on PATH', 'Install kubectl')


def test_doctor_for_the_cluster(place):
    place.workflow('true', block=place.block())
    p = place.user.ok('sandbox', 'doctor', '--strict', 'main.bot', '--target', 'cloud', '--json')
    checks = {c['id']: c['status'] for c in json.loads(p.stdout)['checks']}
    assert {k: checks[k] for k in ('driver_available', 'k8s_spec', 'k8s_context')} == {
        'driver_available': 'pass', 'k8s_spec': 'pass', 'k8s_context': 'pass'}


def test_deadline_of_the_budget(place):
    place.workflow('true', 'until test -e go; do sleep 0.1; done',
                   head='  budget:\n    max_duration: "5m"\n')
    p = place.user.start('run', 'main.bot', *FLAGS)
    until(lambda: place.cluster.pods() or p.poll() is not None, 'there is a pod')
    spec = place.cluster.pods()[0]['spec']
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert spec['activeDeadlineSeconds'] == 300 + 15 * 60


