"""A network policy where iterion's program cannot run in the container: its proxy listens on the one address that the
container reaches, and programs are told of it by variables. And engines elsewhere: reached by TCP on this machine, or on
another one, which is a world of its own here."""
import json
import os
import re
import signal

import pytest

import engines
from conftest import had, make_user, of_type, settle, Place

BRIDGE = '172.17.0.1'
OURS, THEIRS = '10.77.0.1', '10.77.0.2'


def hex_of(address):
    """As /proc/net/tcp writes it."""
    return ''.join(f'{int(part):02X}' for part in reversed(address.split('.')))


@pytest.fixture
def no_guest(base):
    """A program that no image can run."""
    path = os.path.join(base, 'not-a-guest')
    with open(path, 'w', encoding='ascii') as f:
        f.write('#!/no/such/interpreter\n')
    os.chmod(path, 0o755)
    return {'ITERION_BIN': path}


@pytest.fixture
def weak(place_of, no_guest):
    """Docker, where the guest cannot run."""
    with place_of('docker') as place:
        place.user.env.update(no_guest)
        yield place


def wget(host, port, path='/x'):
    return f'busybox wget -q -O - http://{host}:{port}{path} 2>&1'


def policy(place, *lines, mode='allowlist', rules=('good.test',)):
    return place.block(*lines, network=mode, rules=rules)


RESOLVE = ('--resolve', 'good.test:127.0.0.1', '--resolve', 'evil.test:127.0.0.1')


def test_policy_is_offered(weak):
    """What asks the proxy is held to the policy; what does not is not held back, and that is said."""
    past = 'unset http_proxy; ' + wget(engines.METADATA, weak.port)
    weak.run(wget('good.test', weak.port), wget('evil.test', weak.port) + '; exit 0', past, 'echo $http_proxy',
             flags=RESOLVE, block=policy(weak))
    out = weak.outputs()
    assert out['t0'] == 'hello from /x\n' and '403' in out['t1'] and 'hello' not in out['t1']
    assert out['t2'] == 'hello from /x\n', 'nothing holds it back: the warning below is not for nothing'
    assert re.fullmatch(r'http://iterion:[0-9a-f]{64}@host\.docker\.internal:[0-9]+\n', out['t3'])
    events = weak.user.events()
    assert of_type(events, 'sandbox_started')[0]['network'] == {
        'mode': 'allowlist', 'enforcement': 'proxy-env', 'rules': ['good.test']}
    assert [w['code'] for w in of_type(events, 'sandbox_warning')] == ['no_guest', 'proxy_env']
    assert 'not held back' in of_type(events, 'sandbox_warning')[1]['message']
    assert [(b['host'], b['port']) for b in of_type(events, 'network_blocked')] == [('evil.test', weak.port)]
    hosts = {h['host']: (h['allowed'], h['blocked']) for h in of_type(events, 'network_summary')[0]['hosts']}
    assert hosts == {'good.test': (1, 0), 'evil.test': (0, 1)}
    assert sorted(os.listdir(weak.user.workspace)) == ['main.bot'], 'the marker is gone'


@pytest.mark.parametrize('mode, rules, denied', [('denylist', ['evil.test'], True), ('learn', [], False)])
def test_other_modes(weak, mode, rules, denied):
    weak.run(wget('evil.test', weak.port) + '; exit 0', flags=RESOLVE, block=policy(weak, mode=mode, rules=rules))
    assert ('hello' in weak.outputs()['t0']) != denied
    assert bool(of_type(weak.user.events(), 'network_blocked')) == denied


def start_waiting(place, **env):
    """A run whose node waits; its proxy's port."""
    user = place.user
    place.workflow('echo $http_proxy >proxy.new; mv proxy.new proxy; until test -e go; do sleep 0.05; done',
                   block=policy(place))
    p = user.start('run', 'main.bot', *place.flags, *RESOLVE, env=env)
    path = os.path.join(user.workspace, 'proxy')
    engines.until(lambda: os.path.exists(path) or p.poll() is not None, 'the node started')
    assert p.poll() is None, p.communicate()
    with open(path, encoding='ascii') as f:
        return p, int(f.read().strip().rsplit(':', 1)[1])


def finish(place, p):
    place.user.file('go', '')
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, (out, err)


def test_proxy_is_on_one_address_and_wants_the_token(weak):
    world = weak.user.world
    p, port = start_waiting(weak)
    assert world.listeners(port) == [hex_of(BRIDGE)]
    ask = ['wget', '-q', '-O', '-', f'http://good.test:{weak.port}/x']
    for proxy, answer in ((f'http://{BRIDGE}:{port}', '407'), (f'http://iterion:{"0" * 64}@{BRIDGE}:{port}', '407')):
        said = world.run([engines.BUSYBOX, *ask], env={'http_proxy': proxy})
        assert said.returncode != 0 and answer in said.stderr, said
    finish(weak, p)
    assert world.listeners(port) == []


def test_nothing_is_left_of_a_killed_run(weak):
    world = weak.user.world
    p, port = start_waiting(weak)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    engines.until(lambda: world.listeners(port) == [], 'the proxy has ended')
    weak.user.ok('sandbox', 'gc')
    assert sorted(os.listdir(weak.user.workspace)) == ['main.bot', 'proxy']


def test_marker_of_a_killed_run_is_removed(weak):
    """One that was killed while it looked; and folders of that name that are nobody's stay."""
    user = weak.user
    p, _ = start_waiting(weak)
    labels = json.loads(weak.engine.ok('inspect', '--format', '{{json .Config.Labels}}',
                                       *weak.engine.names('label=iterion.io/managed=true')))
    p.kill()
    p.communicate()
    dead = user.folder('workspace', f'.iterion-seen.{labels["iterion.io/owner"]}.00')
    kept = user.folder('workspace', '.iterion-seen.mine.00')
    weak.run('true', block=policy(weak))
    assert not os.path.exists(dead) and os.path.exists(kept)


@pytest.mark.parametrize('word, says', [('required', 'cannot be enforced'), ('maybe', 'not such a word')])
def test_enforcement_that_is_required(weak, word, says):
    p = weak.run('touch made', block=policy(weak), code=1,
                 env={'ITERION_NETWORK_ENFORCEMENT': word})
    assert says in p.stderr and 'hint: ' in p.stderr and not os.path.exists(os.path.join(weak.user.workspace, 'made'))


def test_enforcement_that_is_required_and_there(place_of):
    with place_of('docker') as place:
        place.run('true', block=policy(place), env={'ITERION_NETWORK_ENFORCEMENT': 'required'})
        assert of_type(place.user.events(), 'sandbox_started')[0]['network']['enforcement'] == 'namespace'


def test_proxy_that_is_not_reached(weak):
    """By a firewall between, here: the run does not begin."""
    world = weak.user.world
    rule = ['INPUT', '-i', 'docker0', '-p', 'tcp', '-j', 'REJECT', '--reject-with', 'tcp-reset']
    assert world.run(['iptables', '-I', *rule]).returncode == 0
    try:
        p = weak.run('touch made', block=policy(weak), code=1)
    finally:
        assert world.run(['iptables', '-D', *rule]).returncode == 0
    assert f'{BRIDGE}:' in p.stderr and 'ITERION_PROXY_LISTEN' in p.stderr
    assert os.listdir(weak.user.workspace) == ['main.bot']


def test_address_that_the_user_names(weak):
    world = weak.user.world
    p, port = start_waiting(weak, ITERION_PROXY_LISTEN=engines.METADATA)
    assert world.listeners(port) == [hex_of(engines.METADATA)]
    finish(weak, p)
    weak.run('echo $http_proxy; ' + wget('good.test', weak.port), flags=RESOLVE, block=policy(weak),
             env={'ITERION_PROXY_LISTEN': f'{BRIDGE}:4128', 'ITERION_PROXY_ADVERTISE': f'{BRIDGE}'})
    proxy, answer = weak.outputs()['t0'].split('\n')[:2]
    assert proxy.endswith(f'@{BRIDGE}:4128') and answer == 'hello from /x'


@pytest.mark.parametrize('env', [{'ITERION_PROXY_LISTEN': '0.0.0.0'}, {'ITERION_PROXY_LISTEN': '[::]:80'},
                                 {'ITERION_PROXY_LISTEN': 'localhost'}, {'ITERION_PROXY_ADVERTISE': 'a b'}],
                         ids=lambda env: ' '.join(env.values()))
def test_address_that_is_none(weak, env):
    p = weak.run('true', block=policy(weak), code=1, env=env)
    assert list(env)[0] in p.stderr and 'hint: ' in p.stderr


@pytest.fixture(scope='module')
def remote(world):
    """A daemon on another machine: another network, other mounts, a cable between."""
    with had(lambda: engines.World(world.uid, world.gid)) as there:
        with had(lambda: world.join(there, 'cable', OURS, THEIRS) or engines.Docker(
                there, 'remote', address=f'tcp://{THEIRS}:2375')) as docker:
            docker.load()
            yield docker


@pytest.fixture
def far(remote, world, hello, ordinary_account, base, programs):
    user = settle(make_user('ordinary', ordinary_account, base, programs), world, remote)
    place = Place(user, 'docker', remote, hello)
    place.flags += ('--sandbox-host-state', 'none')
    yield place
    remote.world.run(['umount', user.base])
    place.nothing_is_left()


def hide(place, path=None):
    """The other machine has other files there."""
    p = place.engine.world.run(['mount', '-t', 'tmpfs', 'none', path or place.user.base])
    assert p.returncode == 0, p.stderr


def test_remote_engine_without_the_workspace(far):
    far.workflow('touch made')
    hide(far)
    p = far.user.ok('run', 'main.bot', *far.flags, code=1)
    assert far.user.workspace in p.stderr and 'another machine' in p.stderr


def test_remote_engine_with_another_workspace(far):
    """At the same path, with a copy of the same files."""
    far.workflow('touch made')
    hide(far)
    workspace = far.user.workspace
    there = far.engine.world
    assert there.run(['sh', '-c', f'mkdir {workspace} && touch {workspace}/main.bot']).returncode == 0
    p = far.user.run('sandbox', 'exec', *far.flags, 'main.bot', '--', 'touch', 'made')
    assert p.returncode == 1 and "not this machine's" in p.stderr and 'hint: ' in p.stderr
    assert there.run(['ls', workspace]).stdout == 'main.bot\n' and os.listdir(workspace) == ['main.bot']


def test_remote_engine_with_the_same_workspace(far):
    """On a file system that both have."""
    far.run('echo x >made')
    assert os.path.exists(os.path.join(far.user.workspace, 'made'))
    assert 'another machine' in of_type(far.user.events(), 'sandbox_warning')[0]['message']


def test_remote_engine_and_state_of_the_user(far):
    """It is on this machine."""
    p = far.run('true', flags=('--sandbox-host-state', 'auto'), code=1)
    assert far.user.store in p.stderr and '--sandbox-host-state=none' in p.stderr
    shared = far.user.folder('shared')
    p = far.run('true', block=far.block(f'mounts: ["type=bind,source={shared},target=/mnt"]'), code=1)
    assert shared in p.stderr and 'hint: ' in p.stderr


def test_remote_engine_and_policy(far):
    """Without a way that the user made there is none; with one, it is tried first."""
    for command in (('run', 'main.bot'), ('sandbox', 'plan', 'main.bot')):
        far.workflow(wget('good.test', far.port), wget('evil.test', far.port) + '; exit 0', block=policy(far))
        p = far.user.ok(*command, *far.flags, code=1)
        assert 'no way to the egress proxy' in p.stderr and 'ITERION_PROXY_LISTEN' in p.stderr
    p = far.run('true', block=policy(far), code=1, env={'ITERION_PROXY_LISTEN': '127.0.0.1'})
    assert 'do not reach' in p.stderr
    p = far.run('true', block=policy(far), code=1,
                env={'ITERION_PROXY_LISTEN': OURS, 'ITERION_NETWORK_ENFORCEMENT': 'required'})
    assert 'cannot be enforced' in p.stderr
    far.run(wget('good.test', far.port), wget('evil.test', far.port) + '; exit 0', flags=RESOLVE, block=policy(far),
            env={'ITERION_PROXY_LISTEN': OURS})
    assert far.outputs()['t0'] == 'hello from /x\n' and '403' in far.outputs()['t1']
    planned = json.loads(far.user.ok('sandbox', 'plan', '--json', 'main.bot', *far.flags,
                                     env={'ITERION_PROXY_LISTEN': OURS}).stdout)
    assert planned['network']['enforcement'] == 'proxy-env'
    assert [w['code'] for w in planned['warnings']] == ['proxy_env']
    asked = json.loads(far.user.run('sandbox', 'doctor', '--strict', '--json', 'main.bot', *far.flags,
                                    env={'ITERION_PROXY_LISTEN': OURS}).stdout)
    network = next(c for c in asked['checks'] if c['id'] == 'network_allowlist')
    assert network['status'] == 'warn' and 'not held back' in network['detail'] and network['remedy']


def test_remote_engine_that_looks_local(far, docker):
    """By a context of the user's. The bridges of both machines have the same address, which proves nothing."""
    del far.user.env['DOCKER_HOST']
    far.user.env['DOCKER_CONFIG'] = far.user.folder('docker')
    docker = ['docker', 'context', 'create', 'far', '--docker', f'host={far.engine.address}']
    assert far.user.popen(*docker).wait() == 0
    far.user.env['DOCKER_CONTEXT'] = 'far'
    # Where the control socket is: a name must be short to be taken.
    far.user.env['XDG_RUNTIME_DIR'] = far.user.own(os.path.dirname(far.user.world.write('run/x', '')))
    hide(far, far.user.env['XDG_RUNTIME_DIR'])
    try:
        p = far.run('true', block=policy(far), code=1)
        assert 'do not reach' in p.stderr and f'{BRIDGE}:' in p.stderr
        warnings = of_type(far.user.events(), 'sandbox_warning')
        assert len(warnings) == 1 and "does not have this machine's files" in warnings[0]['message']
        far.run('true')
    finally:
        far.engine.world.run(['umount', far.user.env['XDG_RUNTIME_DIR']])


def test_engine_by_tcp_on_this_machine(docker, place_of):
    """The guest serves as ever, and the policy is enforced."""
    docker.stop()
    docker.address = 'tcp://127.0.0.1:2375'
    docker.start()
    try:
        with place_of('docker') as place:
            place.user.env['DOCKER_HOST'] = docker.address
            place.run('cat /etc/from-image', block=policy(place))
            events = place.user.events()
            assert of_type(events, 'sandbox_started')[0]['network']['enforcement'] == 'namespace'
            assert not of_type(events, 'sandbox_warning')
    finally:
        docker.stop()
        docker.address = None
        docker.start()
