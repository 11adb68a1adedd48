"""`build:` an image of the workspace's own Dockerfile, by docker and by podman."""
import os
import shutil
import signal

import pytest

import engines
from conftest import ROOT, of_type

BUILT = 'iterion-sandbox-build'
DOCKERFILE = f'FROM {engines.IMAGE}\nCOPY hello.txt /hello.txt\n'


def block(place, *lines):
    return place.block('build:', '  dockerfile: "Dockerfile"', *(f'  {line}' for line in lines), image=None)


def prepared(place, dockerfile=DOCKERFILE):
    """The run's own files are no part of the context: they change."""
    place.user.file('Dockerfile', dockerfile)
    place.user.file('hello.txt', f'hello {place.user.base}\n')
    place.user.file('.dockerignore', 'main.bot\nmade*\n')
    return block(place)


@pytest.fixture(autouse=True)
def images_are_removed(container):
    yield
    for line in container.engine.ok('image', 'ls', '--format', '{{.Repository}}:{{.Tag}}').split('\n'):
        if BUILT in line:
            container.engine.ok('rmi', '--force', line)


def test_built_once_for_the_same_files(container):
    user = container.user
    b = prepared(container)
    container.run('cat /hello.txt; touch made1', block=b)
    assert container.outputs()['t0'] == f'hello {user.base}\n'
    events = user.events()
    assert [set(d) for d in of_type(events, 'sandbox_build_started')] == [{'driver', 'dockerfile', 'context'}]
    started = of_type(events, 'sandbox_build_started')[0]
    assert started == {'driver': container.driver, 'dockerfile': 'Dockerfile', 'context': '.'}
    finished = of_type(events, 'sandbox_build_finished')[0]
    assert set(finished) == {'driver', 'target', 'duration_ms'} and BUILT + ':' in finished['target']
    types = [e['type'] for e in events]
    assert types.index('run_started') < types.index('sandbox_build_started') < types.index('sandbox_build_finished') \
        < types.index('sandbox_started')

    container.run('cat /hello.txt; touch made2', block=b)
    assert not of_type(user.events(), 'sandbox_build_started'), 'nothing has changed but files that are kept out'

    user.file('hello.txt', 'changed\n')
    container.run('cat /hello.txt', block=b)
    assert container.outputs()['t0'] == 'changed\n'
    assert of_type(user.events(), 'sandbox_build_finished')[0]['target'] != finished['target']


def test_arguments_and_stage(container):
    prepared(container, f'FROM {engines.IMAGE} AS one\nARG WORD=none\nENV WORD=$WORD\n'
             f'FROM {engines.IMAGE} AS two\nENV WORD=of-two\n')
    for word in ('first', 'second'):
        container.run('echo $WORD', block=block(container, 'target: "one"', 'args:', f'  WORD: "{word}"'))
        assert container.outputs()['t0'] == word + '\n'


def test_steps_are_in_the_log(container):
    b = prepared(container)
    p = container.run('true', block=b, flags=('--log-level', 'info'))
    assert 'build: ' in p.stderr and 'COPY' in p.stderr


@pytest.mark.parametrize('dockerfile, says', [
    (f'FROM {engines.IMAGE}\nRUN echo no luck >&2; exit 7\n', ('7',)),
    ('FROM 127.0.0.1:1/no-such-base:1\n', ('127.0.0.1:1',)),
    (f'FROM {engines.IMAGE}\nCOPY not-there /\n', ('not-there',)),
    ('NONSENSE x\n', ('nonsense', 'from')),
], ids=['step', 'base', 'file', 'parse'])
def test_failed_build_ends_the_run(container, dockerfile, says):
    if container.driver == 'podman' and '127.0.0.1:1' in dockerfile:
        return  # it tries for a long time, and its words are those of test_container_images.py
    b = prepared(container, dockerfile)
    p = container.run('touch made', block=b, code=1)
    assert any(word in p.stderr.lower() for word in says) and 'hint: ' in p.stderr and 'Dockerfile' in p.stderr
    events = container.user.events()
    failed = of_type(events, 'sandbox_build_failed')
    assert [set(d) for d in failed] == [{'driver', 'error'}] and 0 < len(failed[0]['error'].encode()) <= 4096
    assert events[-1]['type'] == 'run_failed' and not events[-1]['data']['resumable']
    assert not of_type(events, 'node_started') and not of_type(events, 'sandbox_started')
    assert not os.path.exists(os.path.join(container.user.workspace, 'made'))


def test_cancelled_while_it_builds(container):
    b = prepared(container, f'FROM {engines.IMAGE}\nRUN sleep 300\n')
    container.workflow('true', block=b)
    p = container.user.start('run', 'main.bot', *container.flags, '--log-level', 'info')
    for line in p.stderr:
        if b'sleep 300' in line:
            break
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130
    assert container.user.events()[-1]['type'] == 'run_cancelled'


def test_nothing_outside_the_workspace_is_built(container):
    """Also not through a symlink that an earlier run may have left."""
    user = container.user
    outside = user.folder('outside')
    user.file(os.path.join(outside, 'Dockerfile'), DOCKERFILE)
    os.symlink(outside, os.path.join(user.workspace, 'link'))
    for lines in (('dockerfile: "link/Dockerfile"',), ('dockerfile: "Dockerfile"', 'context: "link"')):
        prepared(container)
        b = container.block('build:', *(f'  {line}' for line in lines), image=None)
        p = container.run('true', block=b, code=1)
        assert 'symlink' in p.stderr and 'hint: ' in p.stderr
        assert not of_type(user.events(), 'sandbox_build_started')


def test_store_is_kept_out_of_the_image(container):
    user = container.user
    b = prepared(container)
    user.folder('workspace', '.iterion')
    flags = ('--store-dir', os.path.join(user.workspace, '.iterion'))
    container.workflow('true', block=b)
    p = user.fails('run', 'main.bot', *container.flags, *flags, code=1, says='.iterion')
    assert '.dockerignore' in p.stderr
    user.file('.dockerignore', 'main.bot\n.iterion\n')
    user.ok('run', 'main.bot', *container.flags, *flags)


def test_devcontainer(container):
    user = container.user
    user.folder('workspace', '.devcontainer')
    user.file('.devcontainer/Dockerfile', f'FROM {engines.IMAGE}\nCOPY greeting /greeting\nARG A\nENV A=$A\n')
    user.file('.devcontainer/greeting', 'hi\n')
    user.file('.devcontainer/devcontainer.json', '{"build": {"dockerfile": "Dockerfile", "args": {"A": "b"}}}')
    container.run('cat /greeting; echo $A', block='  sandbox: auto\n')
    assert container.outputs()['t0'] == 'hi\nb\n'


def test_example(container):
    """As it is shipped, but on an image that is here."""
    user = container.user
    for name in os.listdir(os.path.join(ROOT, 'examples', 'sandbox_build')):
        user.own(shutil.copy(os.path.join(ROOT, 'examples', 'sandbox_build', name), user.workspace))
    with open(os.path.join(user.workspace, 'main.bot'), encoding='utf-8') as f:
        text = f.read()
    user.ok('validate', 'main.bot')
    user.file('main.bot', text.replace('args:\n', f'args:\n        BASE: "{engines.IMAGE}"\n'))
    user.ok('run', 'main.bot', *container.flags)
    outputs = container.outputs()
    assert outputs['greet'] == 'good morning from an image of our own\n'


@pytest.mark.parametrize('container', ['docker'], indirect=True)
def test_buildx_is_used_where_it_is(container):
    """A docker program with a stand-in for the plugin, which notes how it was called and lets the old builder work."""
    user = container.user
    real = shutil.which('docker', path=user.env['PATH'])
    user.folder('bin')
    user.file(os.path.join(user.base, 'bin', 'docker'), f"""#!/bin/sh
[ "$1" = buildx ] || exec {real} "$@"
[ "$2" = version ] && exit 0
printf '%s\\n' "$@" >{user.base}/called
shift 3
exec {real} build "$@"
""", 0o755)
    b = prepared(container)
    container.run('cat /hello.txt', block=b, env={'PATH': os.path.join(user.base, 'bin') + ':' + user.env['PATH']})
    with open(os.path.join(user.base, 'called'), encoding='utf-8') as f:
        words = f.read().split('\n')[:-1]
    assert words[:4] == ['buildx', 'build', '--load', '-f']
    # What is handed over is a copy, which nobody else can write in and which goes with the build.
    assert words[-1].endswith('/context') and not words[-1].startswith(user.base) and not os.path.exists(words[-1])
    assert words[words.index('-t') + 1].startswith(BUILT + ':')
