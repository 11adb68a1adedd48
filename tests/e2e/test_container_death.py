"""Containers and engines that die, and iterion that does.

CONTAINER_KILL_ROUNDS sets how often iterion is killed at a random moment (3), CONTAINER_KILL_SEED the first seed.
"""
import os
import random
import signal
import time

import pytest

import engines
from conftest import of_type

ROUNDS = int(os.environ.get('CONTAINER_KILL_ROUNDS', '3'))
SEED = int(os.environ.get('CONTAINER_KILL_SEED', str(int(time.time()))))
# All three only when asked for: they differ least here, and time is short.
KILLED = ['docker', 'rootless'] if ROUNDS <= 3 else ['docker', 'rootless', 'podman']
MANAGED = 'label=iterion.io/managed=true'


def wait_for(user, name, p):
    path = os.path.join(user.workspace, name)
    engines.until(lambda: os.path.exists(path) or p.poll() is not None, f'{name} is there')
    assert p.poll() is None, p.communicate()


def start_waiting(place):
    """A run whose second node waits until it is ended, or goes on when there is a file."""
    place.workflow('echo x >>first', 'echo x >>second; touch ready; until test -e go; do sleep 0.05; done')
    p = place.user.start('run', 'main.bot', *place.flags)
    wait_for(place.user, 'ready', p)
    return p


def lost(place, p):
    """The run ended as one whose sandbox died, and goes on where it was."""
    out, err = p.communicate(timeout=90)
    assert p.returncode == 1, (out, err)
    assert b'hint: ' in err
    user = place.user
    events = user.events()
    assert [d['exit'] for d in of_type(events, 'sandbox_stopped')] == ['lost']
    assert events[-1]['type'] == 'run_failed' and events[-1]['data']['resumable'] is True
    user.file('go', '')
    user.ok('resume', '--run-id', user.runs()[-1], *place.flags)
    with open(os.path.join(user.workspace, 'first'), encoding='utf-8') as f:
        assert f.read() == 'x\n', 'a node that had finished was run again'


def test_container_is_removed(container):
    p = start_waiting(container)
    for name in container.engine.names(MANAGED):
        assert container.engine.remove(name).returncode == 0
    lost(container, p)


def test_container_is_killed(container):
    p = start_waiting(container)
    for name in container.engine.names(MANAGED):
        container.engine.ok('kill', name)
    lost(container, p)


@pytest.mark.parametrize('sig', [signal.SIGTERM, signal.SIGKILL])
def test_daemon_is_restarted(place_of, docker, sig):
    """In order or not: its containers are gone when it is there again."""
    with place_of('docker') as place:
        p = start_waiting(place)
        docker.stop(sig)
        docker.start()
        lost(place, p)


@pytest.mark.parametrize('container', KILLED, indirect=True)
def test_iterion_is_killed_at_any_moment(container):
    """Whatever it had made is gone after the next clean-up, and what is not ours stays."""
    engine, user = container.engine, container.user
    rng = random.Random(SEED)
    print(f'CONTAINER_KILL_SEED={SEED}')
    foreign = {'foreign-plain': (), 'foreign-host': ('--label', 'iterion.io/managed=true', '--label',
                                                     'iterion.io/owner=another-host:1:1')}
    for name, labels in foreign.items():
        engine.ok('run', '--detach', '--name', name, *labels, '--entrypoint', '/bin/sleep', engines.IMAGE, '3600')
    try:
        for i in range(ROUNDS):
            container.workflow('echo a >>trace', 'sleep 0.05', 'sleep 0.05', 'sleep 0.05')
            p = user.start('run', 'main.bot', *container.flags, '--quiet')
            # The moment is the point of the test; the run takes about a second.
            time.sleep(rng.random() * 1.2)
            p.kill()
            p.communicate()
            user.ok('sandbox', 'gc')
            # One that the engine was still making comes up in a moment, finds nobody, and the next clean-up has it.
            engines.until(lambda: user.ok('sandbox', 'gc') and set(engine.names(MANAGED)) == {'foreign-host'},
                          f'round {i}: nothing of ours is left')
        assert set(foreign) <= set(engine.names()), 'a foreign container is gone'
    finally:
        engine.remove(*foreign)


def test_next_run_clears_away_what_is_left(container):
    p = start_waiting(container)
    p.kill()
    p.communicate()
    left = container.engine.names(MANAGED)
    container.run('true')
    engines.until(lambda: not set(left) & set(container.engine.names(MANAGED)), 'the container of the dead run is gone')


def test_name_is_taken(container):
    """By a container that is not ours: that one stays, and the error names it."""
    engine = container.engine
    engine.ok('run', '--detach', '--name', 'iterion-taken', '--entrypoint', '/bin/sleep', engines.IMAGE, '3600')
    try:
        p = container.run('true', flags=('--run-id', 'taken'), code=1)
        assert 'iterion-taken' in p.stderr and 'hint: ' in p.stderr
        assert 'iterion-taken' in engine.names()
    finally:
        engine.remove('iterion-taken')


@pytest.fixture
def small_docker(world, docker):
    """A daemon whose images and containers lie on a disk of 40 MB."""
    data = world.path('small-disk')
    os.makedirs(data)
    assert world.run(['mount', '-t', 'tmpfs', '-o', 'size=40m', 'none', data]).returncode == 0
    docker.stop()  # both would have the same bridge
    try:
        small = engines.Docker(world, 'small', data=data)
        try:
            small.load()
            yield small
        finally:
            small.end()
    finally:
        world.run(['umount', data])
        docker.start()


def test_disk_is_full(small_docker, place_of, world):
    with place_of('docker') as place:
        place.engine = small_docker
        place.user.env.update(small_docker.env)
        fill = os.path.join(small_docker.data, 'fill')
        user = place.user
        # In the middle of a run: the node's own failure, and the run goes on where it was.
        place.run('echo x >>first', 'dd if=/dev/zero of=/tmp/big bs=1M count=100 || test -e go', code=1)
        assert b'No space' in open(os.path.join(user.store, 'runs', user.runs()[-1], 'events.jsonl'), 'rb').read()
        assert user.events()[-1]['data']['resumable'] is True
        user.file('go', '')
        user.ok('resume', '--run-id', user.runs()[-1], *place.flags)
        # At its start: a named error.
        world.run(['sh', '-c', f'cat /dev/zero >{fill}'])
        p = place.run('true', code=1)
        assert 'no space' in p.stderr.lower() and 'hint: ' in p.stderr
        world.run(['rm', fill])
        place.run('true')
        place.nothing_is_left()
        place.engine = None
