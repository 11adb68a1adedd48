"""What a block or a devcontainer.json says of a container: user, limits, the user's own state, labels, run arguments."""
import json
import os

import pytest

import engines
from conftest import of_type


def inspected(place, command='true', **more):
    """A run's outcome, and what the engine says of its container while it runs."""
    user = place.user
    place.workflow(f'{command}; touch ready; until test -e looked; do sleep 0.05; done', **more)
    p = user.start('run', 'main.bot', '--name', 'nightly', *place.flags)
    ready = os.path.join(user.workspace, 'ready')
    engines.until(lambda: os.path.exists(ready) or p.poll() is not None, 'the node started')
    assert p.poll() is None, p.communicate()
    names = place.engine.names('label=iterion.io/managed=true')
    assert len(names) == 1
    doc = json.loads(place.engine.ok('inspect', names[0]))[0]
    listed = json.loads(user.ok('sandbox', 'ls', '--json').stdout)
    user.file('looked', '')
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, (out, err)
    return doc, listed


def test_container_as_the_engine_sees_it(container):
    doc, listed = inspected(container)
    run = container.user.runs()[-1]
    assert doc['Name'].lstrip('/') == f'iterion-{run}'
    labels = {k: v for k, v in doc['Config']['Labels'].items() if k.startswith('iterion.io/')}
    assert labels['iterion.io/managed'] == 'true' and labels['iterion.io/run-id'] == run
    assert labels['iterion.io/run-name'] == 'nightly' and labels['iterion.io/owner'].count(':') == 2
    assert doc['HostConfig']['NetworkMode'] != 'host' and doc['HostConfig']['AutoRemove'] is True
    assert not doc['HostConfig']['Privileged'] and 'no-new-privileges' in doc['HostConfig']['SecurityOpt']
    rows = listed if isinstance(listed, list) else listed['sandboxes']
    assert [row['run_id'] for row in rows if row['driver'] == container.driver] == [run]


def test_limits(place_of):
    """Of docker, whose daemon may set them; without root podman has no control groups of version 1 to set them in."""
    with place_of('docker') as place:
        doc, _ = inspected(place, block=place.block('limits:', '  memory: "64m"', '  cpus: 0.5', '  pids: 40'))
        host = doc['HostConfig']
        assert (host['Memory'], host['NanoCpus'], host['PidsLimit']) == (64 << 20, 500000000, 40)
        place.user.file('spawn.sh', 'i=0; while [ $i -lt 80 ]; do sleep 2 & i=$((i+1)); done; wait\n')
        p = place.run('sh spawn.sh 2>&1 | grep -c -i fork', block=place.block('limits:', '  pids: 40'))
        assert int(place.outputs()['t0']) > 0, p.stderr
        # What was reached is said in the native driver's words.
        p = place.run('sh spawn.sh', block=place.block('limits:', '  pids: 40'), code=1)
        assert 'the sandbox reached its limit of 40 processes' in p.stderr
        p = place.run('head -c 300m /dev/zero | tail -c 200m | wc -c; exit 3', block=place.block('limits:', '  memory: "64m"'),
                      code=1)
        assert 'the sandbox reached its memory limit of 64 MiB' in p.stderr


@pytest.mark.parametrize('who, ids', [('4321', '4321 0'), ('worker', '1234 1234'), ('1234:5678', '1234 5678')])
def test_user_of_the_block(place_of, who, ids):
    with place_of('docker') as place:
        place.run('id -u; id -g', block=place.block(f'user: "{who}"'))
        assert place.outputs()['t0'].split() == ids.split()
        events = place.user.events()
        assert not of_type(events, 'sandbox_user_remap')
        assert of_type(events, 'sandbox_uid_mismatch_warning') == [{'spec_user': who, 'host_uid': place.user.uid}]


def test_user_that_the_image_does_not_know(container):
    p = container.run('true', block=container.block('user: "nobody-of-this-name"'), code=1)
    assert 'nobody-of-this-name' in p.stderr and 'hint: ' in p.stderr


def test_state_of_the_user(container):
    """What a sandbox writes into it stays, and is the user's; the rest of HOME is empty and writable."""
    user = container.user
    user.folder('home', '.claude')
    user.folder('home', '.cache')
    user.folder('home', '.cache', 'go-build')
    user.file(os.path.join(user.home, 'private'), 'x')
    container.run('echo y >$HOME/.claude/z; echo y >$HOME/.cache/go-build/z; mkdir -p $HOME/.cache/other $HOME/bin; '
                  'echo y >$HOME/.cache/other/z; ls -A $HOME | sort | tr "\\n" " "')
    inside = set(container.outputs()['t0'].split())
    assert {'.cache', '.claude', 'bin'} <= inside and 'private' not in inside
    for name in ('.claude/z', '.cache/go-build/z'):
        assert os.stat(os.path.join(user.home, name)).st_uid == user.uid
    # podman itself keeps its settings in HOME.
    assert set(os.listdir(user.home)) - {'.config', '.local'} == {'.cache', '.claude', 'private'}
    assert os.listdir(os.path.join(user.home, '.cache')) == ['go-build']
    mounted = of_type(user.events(), 'sandbox_host_state_mounted')[0]
    assert mounted['enabled'] and {'enabled', 'source', 'workspace_folder', 'mounts', 'skipped'} == set(mounted)


def test_state_of_the_user_is_kept_away(container):
    user = container.user
    user.folder('home', '.claude')
    container.run('ls -A $HOME', block=container.block('host_state: none'))
    assert '.claude' not in container.outputs()['t0']
    assert of_type(user.events(), 'sandbox_host_state_mounted')[0]['enabled'] is False


def test_devcontainer(container):
    """auto takes it: image, variables, mounts, commands and arguments."""
    user = container.user
    shared = user.folder('shared')
    user.folder('workspace', '.devcontainer')
    user.file('.devcontainer/devcontainer.json', json.dumps({
        'image': engines.IMAGE, 'containerEnv': {'A': 'one'}, 'remoteEnv': {'B': '${containerEnv:FROM_IMAGE}-${containerEnv:A}'},
        'mounts': [f'source={shared},target=/mnt/shared,type=bind'], 'workspaceFolder': '/w',
        'workspaceMount': 'source=${localWorkspaceFolder},target=/w,type=bind',
        'runArgs': ['--hostname', 'inside', '--shm-size', '32m'], 'postCreateCommand': 'echo made >made'}))
    container.run('echo $A $B; pwd; cat made; hostname; echo x >/mnt/shared/x', block='  sandbox: auto\n')
    assert container.outputs()['t0'].split() == ['one', 'yes-one', '/w', 'made', 'inside']
    assert os.listdir(shared) == ['x']


def test_without_a_devcontainer_the_default_image_is_meant(container):
    """Named by a variable here; the published one cannot be fetched from a world without network."""
    container.run('cat /etc/from-image', block='  sandbox: auto\n', env={'ITERION_SANDBOX_DEFAULT_IMAGE': engines.IMAGE})
    assert container.outputs()['t0'] == 'yes\n'
    assert of_type(container.user.events(), 'sandbox_started')[0]['image'] == engines.IMAGE


def test_engine_is_chosen_when_it_answers(container):
    """Without --sandbox-driver: docker, or podman where there is no daemon."""
    container.workflow('cat /etc/from-image')
    container.user.ok('run', 'main.bot')
    assert of_type(container.user.events(), 'sandbox_started')[0]['driver'] == container.driver


def test_two_runs_at_once(container):
    user = container.user
    container.workflow('echo x; sleep 0.5; echo y')
    runs = [user.start('run', 'main.bot', *container.flags, '--quiet') for _ in range(4)]
    for p in runs:
        out, err = p.communicate(timeout=90)
        assert p.returncode == 0, (out, err)
