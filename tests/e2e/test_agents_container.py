"""The real claude and codex in containers of both engines: a task with a tool call, one host on the list."""
import contextlib
import io
import json
import os
import sys
import tarfile

import engines
import pytest
from agents import KEY, everything_below, of_type, shared
from conftest import skip

IMAGE = 'localhost/iterion-test-glibc:1'
HERE = os.path.dirname(os.path.abspath(__file__))
WORKFLOW = '''## strict-escape: on
schema answer:
  n: int

prompt task:
  PROMPT-WORD

prompt careful:
  SYSTEM-WORD

agent work:
  model: "%s"
  backend: "%s"
  system: careful
  user: task
  output: answer

tool after:
  command: "env; cat f"

workflow w:
  entry: work
%s  work -> after
  after -> done
'''


def libraries(program):
    """What the dynamic linker loads for it, and the linker itself."""
    out = os.popen(f'ldd {program}').read().split()
    return {word for word in out if word.startswith('/') and os.path.exists(word)}


def glibc_layer(program):
    """busybox, a bash, and the C library that claude is linked to."""
    layer = io.BytesIO(engines.busybox_layer())
    with tarfile.open(fileobj=layer, mode='a') as tar:
        for path in {'/bin/bash'} | libraries('/bin/bash') | libraries(program):
            tar.add(os.path.realpath(path), path.lstrip('/'))
    return layer.getvalue()


@pytest.fixture(scope='module')
def archive(base):
    if not os.path.exists('/bin/bash') or not libraries('/bin/bash'):
        skip('needs a /bin/bash that is linked to the C library, and ldd')
    folder, _ = shared('claude', base)
    layer = glibc_layer(os.path.join(folder, 'claude'))
    return engines.image_archive(os.path.join(base, 'glibc.tar'), IMAGE, layer)


@contextlib.contextmanager
def provider(world, script):
    """The provider in the network of the world: (its port, what reads the requests that it got)."""
    path = world.write('script.json', json.dumps(script))
    log = world.path('requests.jsonl')
    with contextlib.suppress(FileNotFoundError):
        os.unlink(log)
    p = world.start([sys.executable, os.path.join(HERE, 'provider.py'), '--port', '0', '--script', path, '--log', log],
                    'provider.log')

    def requests():
        with open(log, encoding='utf-8') as f:
            return [json.loads(line) for line in f]
    try:
        yield json.loads(p.stdout.readline())['port'], requests
    finally:
        p.terminate()
        p.wait()


AGENTS = {
    'claude': ('claude_code', 'claude-sonnet-4-5', 'Bash', 'command', lambda port: {
        'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': f'http://api.test:{port}'}),
    'codex': ('codex', 'gpt-5.1', 'exec_command', 'cmd', lambda port: {
        'OPENAI_API_KEY': KEY, 'OPENAI_BASE_URL': f'http://api.test:{port}/v1', 'ITERION_CODEX_SANDBOXED': '1'}),
}


@pytest.mark.parametrize('name', list(AGENTS))
def test_a_task_in_a_container(container, base, world, archive, name):
    backend, model, tool, argument, env = AGENTS[name]
    folder, bin_dir = shared(name, base)
    user = container.user
    container.engine.load(archive)
    mount = f'mounts: ["type=bind,source={folder},target={folder},readonly"]'
    block = container.block(mount, network='allowlist', rules=['api.test'], image=IMAGE)
    user.file('main.bot', WORKFLOW % (model, backend, block))
    command = 'echo hi > f; cat /etc/from-image > image'
    script = {'turns': [{'tool': tool, 'input': {argument: command}},
                        {'structured': {'n': 7}}], 'skip_toolless': True}
    with provider(world, script) as (port, requests):
        done = user.ok('run', 'main.bot', *container.flags, '--resolve', 'api.test:127.0.0.1',
                       env={**env(port), 'PATH': f'{bin_dir}:{user.env["PATH"]}'}, timeout=120)
        got = requests()
    events = user.events()
    assert of_type(events, 'node_finished', 'work')[0]['output'] == {'n': 7}
    for file, text in (('f', 'hi'), ('image', 'yes')):
        path = os.path.join(user.workspace, file)
        with open(path, encoding='utf-8') as f:
            assert f.read().strip() == text
        assert os.stat(path).st_uid == user.uid
    assert 'PROMPT-WORD' in json.dumps(got) and 'SYSTEM-WORD' in json.dumps(got)
    summary = of_type(events, 'network_summary')[0]['hosts']
    assert [(h['host'], h['blocked']) for h in summary] == [('api.test', 0)]
    assert of_type(events, 'delegate_started')[0]['sandboxed']
    assert KEY not in of_type(events, 'node_finished', 'after')[0]['output']['output'] + done.stdout + done.stderr
    assert not [n for place in (user.store, user.workspace, user.home)
                for n, data in everything_below(place) if KEY.encode() in data]
