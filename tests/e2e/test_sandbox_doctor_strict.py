"""`sandbox doctor --strict`: whether a run would work, one line a check. Engines and clusters are stubs here."""
import json
import os

import pytest
from conftest import skip

NATIVE = ('--sandbox-driver', 'native')
# By the image's name; it is never asked for anything else.
DOCKER = '''#!/bin/sh
case "$1 $2" in
  version*) echo 99.9; exit {daemon} ;;
  "image inspect") [ "$3" = here:1 ]; exit ;;
  "manifest inspect") case $3 in
    there:1) echo '{{}}' ;;
    gone:1) echo 'no such manifest: docker.io/library/gone:1' >&2; exit 1 ;;
    *) echo 'unauthorized: authentication required' >&2; exit 1 ;; esac ;;
esac
'''


class Doctor:
    def __init__(self, user):
        self.user, self.folder = user, user.folder('programs')
        self.env = {'PATH': self.folder, 'DOCKER_HOST': ''}

    def program(self, name, text):
        self.user.file(f'{self.folder}/{name}', text, 0o755)

    def ask(self, block, *flags, code=0, env=None):
        """The checks by id; block None: no file."""
        args = []
        if block is not None:
            self.user.file('w.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n' + block + '  t -> done\n')
            args = ['w.bot']
        p = self.user.ok('sandbox', 'doctor', '--strict', '--json', *args, *flags, code=code, env={**self.env, **(env or {})})
        said = json.loads(p.stdout)
        assert list(said) == ['target', 'driver', 'checks', 'ok'] and said['ok'] == (code == 0)
        for c in said['checks']:
            assert list(c)[:3] == ['id', 'status', 'detail'] and c['detail'] and c['status'] in ('pass', 'warn', 'fail')
            assert c['status'] != 'fail' or c['remedy'], c
        assert (code == 1) == any(c['status'] == 'fail' for c in said['checks'])
        self.said = said
        return {c['id']: c for c in said['checks']}

    def one(self, block, check, status, says, *flags, **more):
        got = self.ask(block, *flags, code=1 if status == 'fail' else 0, **more)[check]
        assert got['status'] == status and says in got['detail'], got
        return got


@pytest.fixture
def doctor(me):
    return Doctor(me)


LOCAL = ['driver_available', 'spec_valid', 'spec_safety', 'network_allowlist', 'driver_capabilities', 'native_kernel',
         'workspace', 'disk']


def test_everything_passes(user):
    doctor = Doctor(user)
    checks = doctor.ask('  sandbox:\n    network:\n      mode: allowlist\n      rules: ["a.example"]\n', *NATIVE)
    assert list(checks) == LOCAL and {c['status'] for c in checks.values()} == {'pass'}
    assert doctor.said['target'] == 'auto' and doctor.said['driver'] == 'native'


def test_without_a_file(doctor):
    assert list(doctor.ask(None)) == LOCAL and doctor.said['driver'] == 'native'


def test_no_sandbox(doctor):
    checks = doctor.ask('', *NATIVE)
    assert list(checks) == ['driver_available', 'spec_valid']
    assert checks['driver_available']['detail'] == 'no sandbox is asked for'


def test_for_people(doctor):
    doctor.ask('  sandbox: auto\n', *NATIVE)
    p = doctor.user.ok('sandbox', 'doctor', '--strict', 'w.bot', *NATIVE)
    assert p.stdout.startswith('pass  driver_available     native can serve here\n') and '\x1b' not in p.stdout


def test_noop_is_a_warning(doctor):
    doctor.one('  sandbox: auto\n', 'driver_available', 'warn', 'nothing is isolated', '--sandbox-driver', 'noop')


@pytest.mark.parametrize('block, check, says', [
    ('mounts: ["type=bind,source=/,target=/h"]', 'spec_safety', 'contains'),
    ('mounts: ["type=bind,source=/proc,target=/h"]', 'spec_safety', 'kernel'),
    ('mounts: ["type=bind,source={home}/.ssh,target=/h"]', 'spec_safety', 'credentials'),
    ('user: "1000"', 'driver_capabilities', 'cannot give user'),
    ('build:\n      dockerfile: "Dockerfile"', 'driver_capabilities', 'cannot give build'),
])
def test_a_spec_that_fails(doctor, block, check, says):
    doctor.user.folder('home', '.ssh')
    text = block.replace('{home}', doctor.user.home)
    got = doctor.one(f'  sandbox:\n    {text}\n', check, 'fail', says, *NATIVE)
    assert got['remedy']
    # A run says the same.
    p = doctor.user.run('run', 'w.bot', '--quiet', *NATIVE)
    assert p.returncode == 1 and says in p.stderr


def test_nodes_of_their_own(doctor):
    """A node's block is checked like the workflow's, and the worst answer counts."""
    user = doctor.user
    block = '  sandbox:\n    env:\n      A: "1"\n{}'
    user.file('n.bot', 'tool a:\n  command: "true"\n' + block.format('') + '\ntool b:\n  command: "true"\n'
              + block.format('    user: "7"\n') + '\nworkflow w:\n  entry: a\n  sandbox: auto\n  a -> b\n  b -> done\n')
    p = user.ok('sandbox', 'doctor', '--strict', '--json', 'n.bot', *NATIVE, code=1, env=doctor.env)
    checks = {c['id']: c for c in json.loads(p.stdout)['checks']}
    assert checks['driver_capabilities']['status'] == 'fail' and checks['driver_capabilities']['detail'].startswith('node b: ')
    assert {i for i, c in checks.items() if c['status'] != 'pass'} == {'driver_capabilities'}


def test_a_devcontainer_that_is_wrong(doctor):
    doctor.user.folder('workspace', '.devcontainer')
    doctor.user.file('.devcontainer/devcontainer.json', '{"runArgs": ["--privileged"]}')
    doctor.one('  sandbox: auto\n', 'spec_valid', 'fail', '--privileged', *NATIVE)


@pytest.mark.parametrize('image, status, says', [
    ('here:1', 'pass', 'on this machine'), ('there:1', 'pass', 'in its registry'), ('gone:1', 'fail', 'no such manifest'),
    ('private:1', 'warn', 'unauthorized'),
])
def test_images(doctor, image, status, says):
    doctor.program('docker', DOCKER.format(daemon=0))
    block = f'  sandbox:\n    image: "{image}"\n'
    doctor.one(block, 'image_resolvable', status, says, '--sandbox-driver', 'docker',
               env={'DOCKER_HOST': 'tcp://127.0.0.1:1'})
    assert [c['id'] for c in doctor.said['checks']] == ['driver_available', 'spec_valid', 'docker_daemon', 'spec_safety',
                                                        'image_resolvable', 'network_allowlist', 'driver_capabilities',
                                                        'workspace', 'disk']


def test_a_dead_daemon(doctor):
    doctor.program('docker', DOCKER.format(daemon=1))
    checks = doctor.ask('  sandbox:\n    image: "here:1"\n', '--sandbox-driver', 'docker', code=1,
                        env={'DOCKER_HOST': 'unix:///nowhere'})
    assert checks['driver_available']['status'] == checks['docker_daemon']['status'] == 'fail'
    # For another host of this kind it says nothing.
    checks = doctor.ask('  sandbox:\n    image: "here:1"\n', '--target', 'local', env={'DOCKER_HOST': 'unix:///nowhere'})
    assert checks['driver_available']['status'] == checks['docker_daemon']['status'] == 'warn'
    assert doctor.said['target'] == 'local' and doctor.said['driver'] == 'docker'


def test_an_engine_that_hangs(doctor):
    doctor.program('docker', '#!/bin/sh\nexec /bin/sleep 1000\n')
    checks = doctor.ask('  sandbox:\n    image: "here:1"\n', '--target', 'local',
                        env={'DOCKER_HOST': 'tcp://127.0.0.1:1', 'ITERION_SANDBOX_DOCTOR_TIMEOUT': '300ms'})
    assert checks['image_resolvable']['status'] == 'warn' and 'no answer' in checks['image_resolvable']['detail']


CLOUD = '  sandbox:\n    image: "a:1"\n    user: "1000:1000"\n    host_state: none\n'


@pytest.mark.parametrize('block, status, says', [
    (CLOUD, 'pass', 'what a pod can have'),
    (CLOUD.replace('"1000:1000"', '"node"'), 'fail', 'user'),
    (CLOUD.replace('none', 'auto'), 'fail', 'host_state'),
    (CLOUD.replace('image: "a:1"', 'build:\n      dockerfile: "D"'), 'fail', 'build'),
    ('', 'fail', 'no sandbox'),
])
def test_a_spec_for_a_cluster(doctor, block, status, says):
    doctor.one(block, 'k8s_spec', status, says, '--target', 'cloud')
    assert doctor.said['driver'] == 'kubernetes'
    assert {c['id'] for c in doctor.said['checks']} <= {'driver_available', 'spec_valid', 'k8s_spec', 'k8s_context',
                                                        'network_allowlist'}


@pytest.mark.parametrize('kubectl, inside, status, says', [
    (None, False, 'warn', 'not on PATH'), (None, True, 'fail', 'not on PATH'),
    ('exit 0', False, 'pass', 'answers'),
    ('[ "$1" = config ] && { echo "error: current-context is not set" >&2; exit 1; }; exit 0', False, 'warn', 'no context'),
    ('[ "$1" = config ] || { echo "Unable to connect" >&2; exit 1; }', False, 'warn', 'Unable to connect'),
    ('[ "$1" = config ] || { echo "Unable to connect" >&2; exit 1; }', True, 'fail', 'Unable to connect'),
])
def test_the_cluster(doctor, kubectl, inside, status, says):
    if kubectl:
        doctor.program('kubectl', f'#!/bin/sh\n{kubectl}\n')
    doctor.one(CLOUD, 'k8s_context', status, says, '--target', 'cloud',
               env={'KUBERNETES_SERVICE_HOST': '10.0.0.1'} if inside else {})


def test_in_a_cluster_auto_is_cloud(doctor):
    doctor.ask(CLOUD, code=1, env={'ITERION_MODE': 'cloud'})
    assert doctor.said['target'] == 'auto' and doctor.said['driver'] == 'kubernetes'


def test_workspaces(doctor):
    user = doctor.user
    sealed = user.folder('sealed')
    os.chmod(sealed, 0o555)
    doctor.one('  sandbox: auto\n', 'workspace', 'warn', 'cannot be written', *NATIVE, '--workspace', sealed)
    user.folder('home', '.ssh')
    doctor.one('  sandbox: auto\n', 'workspace', 'fail', 'credentials', *NATIVE, '--workspace', f'{user.home}/.ssh')


@pytest.mark.parametrize('size, status', [('1m', 'fail'), ('500m', 'warn')])
def test_a_full_disk(doctor, size, status):
    user = doctor.user
    user.folder('store')
    user.file('w.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  sandbox: auto\n  t -> done\n')
    p = user.popen('unshare', '--user', '--map-root-user', '--mount', 'sh', '-c',
                   f'mount -t tmpfs -o size={size} none {user.store} || exit 99; '
                   f'exec {user.program} sandbox doctor --strict --json w.bot --sandbox-driver native')
    out, err = p.communicate(timeout=60)
    if p.returncode not in (0, 1):
        skip('a small disk cannot be made here: ' + err.decode(errors='replace')[-200:])
    disk = next(c for c in json.loads(out)['checks'] if c['id'] == 'disk')
    assert disk['status'] == status and user.store in disk['detail'] and disk['remedy']


@pytest.mark.parametrize('args, says', [
    (('--strict', 'missing.bot'), 'missing.bot'),
    (('--strict', 'bad.bot'), 'bad.bot'),
    (('--strict', '--target', 'moon'), 'cloud'),
    (('--strict', '--sandbox-driver', 'dokcer'), 'docker'),
    (('--strict', '--workspace', '/nowhere'), '/nowhere'),
    (('--target', 'cloud'), '--strict'),
    (('bad.bot',), '--strict'),
])
def test_usage(me, args, says):
    me.file('bad.bot', 'workflow w:\n  entry: nothing\n')
    p = me.ok('sandbox', 'doctor', *args, code=2)
    assert says in p.stderr and 'hint: ' in p.stderr


FLOW = 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n{}  t -> done\n'


@pytest.mark.parametrize('word', ['1', 'session'])
def test_checks_before_a_run(me, word):
    me.file('w.bot', FLOW.format('  sandbox:\n    user: "7"\n'))
    p = me.fails('run', 'w.bot', *NATIVE, env={'ITERION_SANDBOX_PREFLIGHT': word}, says='driver_capabilities')
    assert 'check before the run' in p.stderr and me.runs() == []
    me.file('w.bot', FLOW.format('  sandbox: auto\n'))
    me.ok('run', 'w.bot', *NATIVE, env={'ITERION_SANDBOX_PREFLIGHT': word})
    assert len(me.runs()) == 1


def test_a_warning_before_a_run_ends_nothing(me):
    me.file('w.bot', FLOW.format('  sandbox: auto\n'))
    p = me.ok('run', 'w.bot', '--sandbox-driver', 'noop', env={'ITERION_SANDBOX_PREFLIGHT': '1'})
    assert 'warning: driver_available: noop was asked for by name' in p.stderr


def test_no_checks_before_a_run(me):
    """Nothing is checked unless that is asked for, and a wrong word is wrong."""
    me.file('w.bot', FLOW.format('  sandbox:\n    user: "7"\n'))
    for word in ('', '0'):
        p = me.ok('run', 'w.bot', *NATIVE, code=1, env={'ITERION_SANDBOX_PREFLIGHT': word})
        assert 'check before the run' not in p.stderr
    me.fails('run', 'w.bot', *NATIVE, env={'ITERION_SANDBOX_PREFLIGHT': 'yes'}, says='ITERION_SANDBOX_PREFLIGHT')
    me.fails('run', 'w.bot', *NATIVE, says='no duration',
             env={'ITERION_SANDBOX_PREFLIGHT': '1', 'ITERION_SANDBOX_DOCTOR_TIMEOUT': 'x'})
