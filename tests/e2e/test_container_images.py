"""Images that the engine does not have yet: pulls with progress, and every way in which one fails."""
import os
import shutil

import pytest

import engines
from conftest import of_type, skip


def test_pull_with_progress(container, docker, registry):
    name = f'team/{container.engine.name}:1'
    image = registry.push(docker, name)
    container.run('cat /etc/from-image', block=container.block(image=image))
    assert container.outputs()['t0'] == f'only {name}\n'
    events = container.user.events()
    progress = of_type(events, 'sandbox_pull_progress')
    assert progress and all(set(d) == {'image', 'layer', 'current', 'total'} for d in progress)
    assert all(d['image'] == image and 0 <= d['current'] <= d['total'] for d in progress)
    started = of_type(events, 'sandbox_started')[0]
    assert started['image'] == image and started['image_digest'].startswith('sha256:')

    container.run('true', block=container.block(image=image))
    assert not of_type(container.user.events(), 'sandbox_pull_progress'), 'it is there already'
    container.engine.ok('rmi', image)


@pytest.mark.parametrize('image, says', [
    ('127.0.0.1:5000/team/no-such:1', ('no-such',)),
    ('127.0.0.1:1/team/x:1', ('127.0.0.1:1',)),
    ('localhost/no-such-image:1', ('no-such-image',)),
], ids=['unknown', 'no registry', 'local'])
def test_image_that_cannot_be_had(container, registry, image, says):
    p = container.run('touch made', block=container.block(image=image), code=1)
    assert all(word.lower() in p.stderr.lower() for word in says), p.stderr
    assert p.stderr.count('error: ') == 1 and 'hint: ' in p.stderr
    events = container.user.events()
    assert events[-1]['type'] == 'run_failed' and not events[-1]['data']['resumable']
    assert not of_type(events, 'node_started') and not os.path.exists(os.path.join(container.user.workspace, 'made'))


def test_image_goes_before_the_start(container):
    """A program of the engine's name that removes the image before a container is made of it; no registry has it."""
    image = 'localhost/short-lived:1'
    container.engine.ok('tag', engines.IMAGE, image)
    user = container.user
    real = f'/usr/bin/{container.engine.program}' if container.driver == 'podman' else \
        [p for p in ('/usr/local/bin/docker', '/usr/bin/docker') if os.path.exists(p)][0]
    user.folder('bin')
    user.file(os.path.join(user.base, 'bin', container.engine.program),
              f'#!/bin/sh\n[ "$1" != run ] || {real} rmi {image} >/dev/null 2>&1\nexec {real} "$@"\n', 0o755)
    path = os.path.join(user.base, 'bin') + ':' + user.env['PATH']
    p = container.run('true', block=container.block(image=image), code=1, env={'PATH': path})
    assert 'short-lived' in p.stderr and 'hint: ' in p.stderr
    assert container.user.events()[-1]['type'] == 'run_failed'


def test_guest_that_cannot_run_in_the_image(container):
    """Of another architecture, say: here a script without its interpreter. An open sandbox goes on by the engine's own
    exec and says so; one with a policy: test_proxy_env.py."""
    user = container.user
    guest = user.file(os.path.join(user.base, 'not-a-guest'), '#!/no/such/interpreter\n', 0o755)
    container.run('echo still $A', block=container.block('env:', '  A: "one"'), env={'ITERION_BIN': guest})
    assert container.outputs()['t0'] == 'still one\n'
    warnings = of_type(user.events(), 'sandbox_warning')
    assert [w['code'] for w in warnings] == ['no_guest'] and 'slower' in warnings[0]['message']


@pytest.mark.parametrize('name', ['docker', 'podman'])
def test_engine_that_is_not_there(me, name):
    me.file('main.bot', 'tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n'
            '    image: "debian:12"\n  t -> done\n')
    p = me.fails('run', 'main.bot', '--sandbox-driver', name, code=1,
                 env={'PATH': '/nowhere', 'DOCKER_HOST': 'unix:///nowhere.sock'})
    assert name in p.stderr


def test_daemon_that_does_not_listen(me):
    if not shutil.which('docker'):
        skip('needs docker, which is not installed')
    me.file('main.bot', 'tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n'
            '    image: "debian:12"\n  t -> done\n')
    p = me.fails('run', 'main.bot', '--sandbox-driver', 'docker', code=1,
                 env={'DOCKER_HOST': f'unix://{me.base}/no.sock'})
    assert 'no.sock' in p.stderr or 'daemon' in p.stderr
