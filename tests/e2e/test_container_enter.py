"""A policy where iterion's program cannot run in the container and its network may be entered from outside: by root, and
by the owner of podman's namespaces. It is enforced as ever."""
import os

import pytest

import engines
from conftest import make_user, of_type, settle
from without_guest import RESOLVE, policy, start_waiting, wget


@pytest.fixture(params=['docker', 'rootless', 'podman'])
def entered(request, place_of, no_guest, ordinary_account, base, programs):
    """Where the network of a container may be entered from outside: by root, and by the owner of podman's namespaces."""
    with place_of(request.param) as place:
        if request.param == 'docker':
            place.user = settle(make_user('root', ordinary_account, base, programs), place.user.world, place.engine)
        place.user.env.update(no_guest)
        yield place


def test_policy_is_enforced_from_outside(entered):
    """An empty network, in which only the proxy's sockets were opened."""
    past = 'unset http_proxy; ' + wget(engines.METADATA, entered.port) + '; exit 0'
    entered.run(wget('good.test', entered.port), wget('evil.test', entered.port) + '; exit 0', past,
                'echo $http_proxy; echo $GIT_SSH_COMMAND; busybox ip -o link | busybox grep -vc LOOPBACK; exit 0',
                flags=RESOLVE, block=policy(entered), env={'ITERION_NETWORK_ENFORCEMENT': 'required'})
    out = entered.outputs()
    assert out['t0'] == 'hello from /x\n' and '403' in out['t1'] and 'hello' not in out['t2']
    proxy, ssh, others = out['t3'].split('\n')[:3]
    assert proxy.endswith('@127.0.0.1:47128') and ssh == '' and others == '0'
    events = entered.user.events()
    assert of_type(events, 'sandbox_started')[0]['network']['enforcement'] == 'namespace'
    assert [w['code'] for w in of_type(events, 'sandbox_warning')] == ['no_guest']
    assert entered.user.world.listeners(47128) == []
    assert sorted(os.listdir(entered.user.workspace)) == ['main.bot']


@pytest.mark.parametrize('entered', ['docker', 'rootless'], indirect=True)
def test_policy_is_enforced_until_the_end(entered):
    """Killed in the middle, iterion leaves no proxy, and its container no network."""
    p, _ = start_waiting(entered)
    container = entered.engine.names('label=iterion.io/managed=true')
    children = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and parent_of(pid) == p.pid]
    assert children
    p.kill()
    p.communicate()
    engines.until(lambda: not any(os.path.exists(f'/proc/{pid}') and state_of(pid) != 'Z' for pid in children),
                  'the processes of iterion have ended')
    assert container and entered.engine.run('exec', container[0], 'wget', '-q', '-O', '-',
                                            f'http://{engines.METADATA}:{entered.port}/x').returncode != 0
    entered.user.ok('sandbox', 'gc')


@pytest.mark.parametrize('entered', ['rootless'], indirect=True)
def test_environment_of_a_killed_run_is_removed(entered):
    """The file by which podman without root gets a program's environment: its keys, the proxy's token."""
    def files():
        return [name for name in os.listdir(entered.user.env['XDG_RUNTIME_DIR']) if name.startswith('iterion-env')]
    p, _ = start_waiting(entered)
    assert len(files()) == 1
    p.kill()
    p.communicate()
    assert len(files()) == 1
    entered.run('true', block=policy(entered))
    assert files() == []


@pytest.fixture
def sleeper(entered):
    """Makes an image whose sleep, the first process, is this script."""
    world, engine = entered.user.world, entered.engine
    image = 'localhost/sleeper:1'

    def make(script):
        name = engine.ok('create', '--entrypoint', '/bin/true', engines.IMAGE).split()[-1]
        try:
            engine.ok('cp', world.write(f'sleeper-{engine.name}', '#!/bin/sh\n' + script, 0o755),
                      f'{name}:/usr/local/bin/sleep')
            engine.ok('commit', name, image)
        finally:
            engine.remove(name)
        return image
    yield make
    engine.run('rmi', image)


@pytest.mark.parametrize('entered', ['docker'], indirect=True)
def test_image_does_not_choose_the_weaker_way(entered, sleeper):
    """One whose first program holds the proxy's port: the run fails, since a policy must not become an offer by that."""
    image = sleeper('busybox httpd -p 127.0.0.1:47128; exec busybox sleep infinity\n')
    p = entered.run('true', block=entered.block(network='allowlist', rules=['good.test'], image=image), code=1)
    assert '127.0.0.1:47128' in p.stderr and 'hint: ' in p.stderr, p.stderr


@pytest.mark.parametrize('entered', ['podman'], indirect=True)
def test_first_process_in_a_namespace_of_its_own(entered, sleeper):
    """Nor one whose first program makes itself a user namespace: the one that owns the network is entered."""
    image = sleeper('exec busybox unshare -U busybox sleep infinity\n')
    entered.run(wget('good.test', entered.port), flags=RESOLVE, block=entered.block(
        network='allowlist', rules=['good.test'], image=image), env={'ITERION_NETWORK_ENFORCEMENT': 'required'})
    assert entered.outputs()['t0'] == 'hello from /x\n'


def stat_of(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as f:
            return f.read().rsplit(')', 1)[1].split()
    except OSError:
        return ['Z', '0']


def parent_of(pid):
    return int(stat_of(pid)[1])


def state_of(pid):
    return stat_of(pid)[0]
