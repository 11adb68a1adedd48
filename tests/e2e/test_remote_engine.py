"""Engines that are reached by TCP: on this machine, and on another one, which is a world of its own here."""
import json
import os
import sys

import pytest

import engines
from conftest import Place, had, make_user, of_type, settle
from without_guest import BRIDGE, RESOLVE, in_a_machine, policy, wget

OURS, THEIRS = '10.77.0.1', '10.77.0.2'


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


FORWARD = '''
import asyncio, sys
here, there, port = sys.argv[1:]
async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def forward(reader, writer):
    other_reader, other_writer = await asyncio.open_connection(there, int(port))
    await asyncio.gather(pump(reader, other_writer), pump(other_reader, writer))
async def main():
    server = await asyncio.start_server(forward, here, int(port))
    print('ready', flush=True)
    await server.serve_forever()
asyncio.run(main())
'''


def test_way_that_the_user_made(far):
    """To the bridge over there, which leads here."""
    there = far.engine.world
    way = there.start([sys.executable, '-c', FORWARD, BRIDGE, OURS, '4128'], 'way.log')
    try:
        assert way.stdout.readline() == b'ready\n', engines.tail(there.path('way.log'))
        far.run('echo $http_proxy; ' + wget('good.test', far.port), flags=RESOLVE, block=policy(far),
                env={'ITERION_PROXY_LISTEN': f'{OURS}:4128', 'ITERION_PROXY_ADVERTISE': f'{BRIDGE}:4128'})
    finally:
        way.terminate()
    proxy, answer = far.outputs()['t0'].split('\n')[:2]
    assert proxy.endswith(f'@{BRIDGE}:4128') and answer == 'hello from /x'


def test_remote_engine_that_looks_local(far, docker):
    """By a context of the user's. The bridges of both machines have the same address, which proves nothing."""
    del far.user.env['DOCKER_HOST']
    far.user.env['DOCKER_CONFIG'] = far.user.folder('docker')
    docker = ['docker', 'context', 'create', 'far', '--docker', f'host={far.engine.address}']
    assert far.user.popen(*docker).wait() == 0
    far.user.env['DOCKER_CONTEXT'] = 'far'
    in_a_machine(far.user)
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
