"""What every driver does alike: the same workflows in a native sandbox, in docker's containers and in podman's with and
without root. Each driver's own: test_container_*.py. What one of them cannot do is an error, and all such errors are in
docs/drivers.md; the last test here reads them from there.
"""
import json
import os
import re
import signal

import pytest

import engines
from conftest import ROOT, of_type

DRIVERS = ['native', 'docker', 'rootless']
ALL = [*DRIVERS, 'podman']  # where podman as root has something of its own
SECRET = 'hunter2-of-the-host'


@pytest.fixture(params=DRIVERS)
def place(request, place_of):
    """rootless is the ordinary user's podman."""
    with place_of(request.param) as p:
        yield p


everywhere = pytest.mark.parametrize('place', ALL, indirect=True)


@everywhere
def test_tools_run_in_it(place):
    user = place.user
    user.file('given.txt', 'given\n')
    place.run('echo out; echo err >&2; cat given.txt; pwd', 'echo made >made.txt; mkdir d; echo x >d/y; id -u',
              'cat /etc/from-image 2>/dev/null; echo; cat made.txt', env={'SOME_TOKEN': SECRET, 'AWS_SECRET_ACCESS_KEY': SECRET})
    out = place.outputs()
    assert out['t0'].split('\n')[:3] == ['out', 'given', user.workspace]
    assert out['t1'].strip() == str(user.uid)
    assert out['t2'].split() == (['yes'] if place.engine else []) + ['made']
    for name in ('made.txt', 'd', 'd/y'):
        st = os.stat(os.path.join(user.workspace, name))
        assert (st.st_uid, st.st_gid) == (user.uid, user.gid), name
    assert sorted(os.listdir(user.workspace)) == ['d', 'given.txt', 'made.txt', 'main.bot']


def test_environment_inside(place):
    p = place.run('env; echo; ls /proc', block=place.block('env:', '  FROM_BLOCK: "a b"'),
                  env={'SOME_TOKEN': SECRET, 'AWS_SECRET_ACCESS_KEY': SECRET, 'TZ': 'UTC'})
    text, processes = place.outputs()['t0'].split('\n\n')
    env = dict(line.split('=', 1) for line in text.split('\n') if '=' in line)
    assert env['FROM_BLOCK'] == 'a b' and env['HOME'] == place.user.home and env['ITERION_NODE_ID'] == 't0'
    assert env.get('FROM_IMAGE') == ('yes' if place.engine else None)
    assert SECRET not in text and SECRET not in p.stdout
    assert len([name for name in processes.split() if name.isdigit()]) < 8, 'the processes of the host are seen'


def test_exit_code_and_words_of_a_failed_tool(place):
    place.run('echo fine', 'echo sorry >&2; exit 3', code=1)
    errors = of_type(place.user.events(), 'tool_error')
    assert len(errors) == 1 and errors[0]['exit_code'] == 3 and 'sorry' in json.dumps(errors)


def test_program_that_is_not_there(place):
    p = place.user.run('sandbox', 'exec', *place.flags, *exec_file(place), '--', 'no-such-program')
    assert p.returncode == 127 and 'no-such-program' in p.stderr


def exec_file(place):
    place.workflow('true')
    return ('main.bot',)


def test_bytes_come_through_as_they_are(place):
    data = bytes(range(256)) * 8192
    user = place.user
    p = user.start('sandbox', 'exec', *place.flags, *exec_file(place), '--', 'cat', stdin=-1)
    out, err = p.communicate(data, 60)
    assert p.returncode == 0 and out == data, err


@everywhere
def test_events(place):
    place.run('true')
    events = place.user.events()
    types = [e['type'] for e in events if e['type'].startswith(('sandbox_', 'node_', 'run_', 'network_'))]
    wanted = ['run_started', 'sandbox_started', 'sandbox_host_state_mounted', 'node_started', 'node_finished',
              'sandbox_stopped', 'run_finished']
    assert [t for t in types if t in wanted] == wanted
    assert [e['seq'] for e in events] == list(range(len(events)))
    started = of_type(events, 'sandbox_started')[0]
    assert {'driver', 'mode', 'source', 'image', 'has_post_create', 'workspace_folder', 'network', 'start_ms'} <= set(started)
    assert set(started) <= {'driver', 'mode', 'source', 'image', 'image_digest', 'has_post_create', 'workspace_folder',
                            'network', 'start_ms'}
    assert started['driver'] == place.driver and started['mode'] == 'inline'
    assert started['image'] == (engines.IMAGE if place.engine else None)
    assert set(started['network']) == {'mode', 'enforcement', 'rules'}
    assert set(started['start_ms']) == {'prepare', 'create', 'ready'}
    stopped = of_type(events, 'sandbox_stopped')[0]
    assert set(stopped) == {'driver', 'duration_ms', 'exit'} and stopped['exit'] == 'clean'
    if place.driver == 'docker':
        remap = of_type(events, 'sandbox_user_remap')
        assert [(r['uid'], r['gid']) for r in remap] == [(place.user.uid, place.user.gid)] and 'reason' in remap[0]


def wget(host, port, path='/x'):
    return f'busybox timeout 5 busybox wget -q -O - http://{host}:{port}{path} 2>&1'


def test_allowed_host_goes_through_the_proxy(place):
    place.run(wget('good.test', place.port), flags=('--resolve', 'good.test:127.0.0.1'),
              block=place.block(network='allowlist', rules=['good.test']))
    assert place.outputs()['t0'] == 'hello from /x\n'
    events = place.user.events()
    network = of_type(events, 'sandbox_started')[0]['network']
    assert network == {'mode': 'allowlist', 'enforcement': 'namespace', 'rules': ['good.test']}
    hosts = of_type(events, 'network_summary')[0]['hosts']
    assert [(h['host'], h['allowed'], h['blocked']) for h in hosts] == [('good.test', 1, 0)]


def test_refused_host_is_an_event(place):
    place.run(wget('evil.test', place.port) + '; exit 0', flags=('--resolve', 'evil.test:127.0.0.1'),
              block=place.block(network='allowlist', rules=['good.test']))
    blocked = of_type(place.user.events(), 'network_blocked')
    assert [(b['host'], b['port'], b['count']) for b in blocked] == [('evil.test', place.port, 1)]
    assert {'host', 'port', 'reason', 'rule', 'run_id', 'count'} <= set(blocked[0])
    assert 'hello' not in place.outputs()['t0']


def gateways(world):
    """The world's own addresses, the bridges' among them."""
    text = world.run(['ip', '-4', '-o', 'address']).stdout
    return [a for a in re.findall(r'inet ([0-9.]+)', text) if a != '127.0.0.1']


@everywhere
def test_nothing_is_reached_past_the_proxy(place):
    """Each address answers an open sandbox, and none one with a policy: not the bridge, not the metadata service."""
    port = place.port
    direct = 'unset http_proxy HTTP_PROXY all_proxy ALL_PROXY; '
    addresses = sorted(set(gateways(place.user.world)) | {engines.METADATA})
    script = direct + '; '.join(f'echo "{a}: $({wget(a, port)})"' for a in addresses)
    names = 'busybox nslookup good.test 2>&1; busybox ip -o link | busybox grep -vc LOOPBACK'
    place.run(script)
    reached = place.outputs()['t0']
    assert f'{engines.METADATA}: hello' in reached, reached
    place.run(script, names + '; exit 0', block=place.block(network='allowlist', rules=['good.test']))
    out = place.outputs()
    assert 'hello' not in out['t0'] and len(out['t0'].strip().split('\n')) >= len(addresses)
    assert out['t1'].strip().split('\n')[-1] == '0', 'there is another interface than loopback'
    assert 'Name:' not in out['t1']


@everywhere
def test_open_network(place):
    place.run(wget(engines.METADATA, place.port))
    assert place.outputs()['t0'] == 'hello from /x\n'
    assert of_type(place.user.events(), 'sandbox_started')[0]['network']['enforcement'] == 'none'


@everywhere
def test_resume(place):
    user = place.user
    place.run('echo x >>first', 'test -e go || exit 5; echo x >>second', code=1)
    user.file('go', '')
    user.ok('resume', '--run-id', user.runs()[-1], *place.flags)
    for name in ('first', 'second'):
        with open(os.path.join(user.workspace, name), encoding='utf-8') as f:
            assert f.read() == 'x\n'
    events = user.events()
    assert [d['exit'] for d in of_type(events, 'sandbox_stopped')] == ['clean', 'clean']


@everywhere
@pytest.mark.parametrize('sig, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_cancelled(place, sig, code):
    user = place.user
    place.workflow('trap "echo told >told; exit 0" TERM; touch ready; while :; do sleep 0.1; done', 'touch never')
    p = user.start('run', 'main.bot', *place.flags)
    ready = os.path.join(user.workspace, 'ready')
    engines.until(lambda: os.path.exists(ready) or p.poll() is not None, 'the node started')
    p.send_signal(sig)
    out, err = p.communicate(timeout=60)
    assert p.returncode == code, (out, err)
    assert os.path.exists(os.path.join(user.workspace, 'told'))
    assert not os.path.exists(os.path.join(user.workspace, 'never'))
    events = user.events()
    assert events[-1]['type'] == 'run_cancelled' and len(of_type(events, 'sandbox_stopped')) == 1


@everywhere
def test_mounts(place):
    user = place.user
    shared, seen = user.folder('shared'), user.folder('seen')
    user.file(os.path.join(seen, 'a'), 'host\n')
    block = place.block(f'mounts: ["type=bind,source={shared},target=/mnt/shared", '
                        f'"type=bind,source={seen},target=/mnt/seen,readonly", "type=tmpfs,target=/mnt/empty"]')
    place.run('cat /mnt/seen/a; echo x >/mnt/shared/b; echo y >/mnt/empty/c && cat /mnt/empty/c; '
              'echo z >/mnt/seen/d || echo refused', block=block)
    assert place.outputs()['t0'].split() == ['host', 'y', 'refused']
    assert os.stat(os.path.join(shared, 'b')).st_uid == user.uid
    assert os.listdir(seen) == ['a']


def test_post_create(place):
    place.run('cat made', block=place.block('post_create: "echo once >>made"'))
    assert place.outputs()['t0'] == 'once\n'
    events = place.user.events()
    done = of_type(events, 'sandbox_post_create')
    assert len(done) == 1 and done[0]['exit_code'] == 0 and {'name', 'duration_ms'} <= set(done[0])
    assert of_type(events, 'sandbox_started')[0]['has_post_create'] is True


def test_failed_post_create_ends_the_run(place):
    p = place.run('touch never', block=place.block('post_create: "echo no luck >&2; exit 9"'), code=1)
    assert 'no luck' in p.stderr and 'hint: ' in p.stderr
    events = place.user.events()
    assert events[-1]['type'] == 'run_failed' and not of_type(events, 'node_started')
    assert not os.path.exists(os.path.join(place.user.workspace, 'never'))


def test_workspace_folder(place):
    place.run('pwd; echo x >here', block=place.block('workspace_folder: "/work"'))
    assert place.outputs()['t0'] == '/work\n'
    assert os.path.exists(os.path.join(place.user.workspace, 'here'))


def test_store_is_not_seen(place):
    place.run(f'ls {place.user.store}/runs 2>/dev/null | grep -v "^$ITERION_RUN_ID$"; '
              'echo kept >"$ITERION_ARTIFACT_FILES_DIR/a" && echo $ITERION_RUN_ID')
    run = place.user.runs()[-1]
    assert place.outputs()['t0'] == run + '\n'
    assert os.path.exists(os.path.join(place.user.store, 'runs', run, 'artifact-files', 'a'))


def test_node_on_the_host(place):
    place.user.file('main.bot', 'tool t:\n  sandbox: none\n  command: `test -e /etc/from-image || echo host`\n\n'
                    f'workflow w:\n  entry: t\n{place.block()}  t -> done\n')
    place.user.ok('run', 'main.bot', *place.flags)
    assert place.outputs()['t'] == 'host\n'


def test_no_image_of_that_name(place):
    if not place.engine:
        place.user.fails('run', bot(place, 'image: "127.0.0.1:1/no-such-image:1"'), *place.flags, code=1, says='no-such-image')
        return
    p = place.run('true', block=place.block(image='localhost/no-such-image:1'), code=1)
    assert 'no-such-image' in p.stderr and 'hint: ' in p.stderr and place.driver in p.stderr


def bot(place, *lines):
    block = ''.join(f'    {line}\n' for line in lines)
    place.user.file('main.bot', f'tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  sandbox:\n'
                    f'    mode: inline\n{block}  t -> done\n')
    return 'main.bot'


def cannot():
    """(driver, field, words of the block) of the table in docs/drivers.md."""
    with open(os.path.join(ROOT, 'docs', 'drivers.md'), encoding='utf-8') as f:
        text = f.read()
    table = text.split('## What a driver cannot do')[1].split('\n## ')[0]
    for line in table.split('\n'):
        cells = [c.strip().strip('`') for c in line.strip('|').split('|')]
        if line.startswith('|') and len(cells) >= 3 and cells[0] in ('native', 'docker', 'podman', 'noop'):
            yield pytest.param(*cells[:3], id=f'{cells[0]}-{cells[1]}')


@pytest.mark.parametrize('driver, what, example', list(cannot()))
def test_what_it_cannot_do_is_an_error(me, driver, what, example):
    """Before anything is made: no engine is needed for the answer."""
    me.file('Dockerfile', 'FROM scratch\n')
    block = ''.join(f'    {line}\n' for line in example.replace('\\n', '\n').split('\n'))
    me.file('main.bot', f'tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n{block}'
            '  t -> done\n')
    p = me.run('run', 'main.bot', '--sandbox-driver', driver, env={'DOCKER_HOST': 'unix:///nowhere'})
    assert p.returncode in (1, 2) and p.stderr.count('error: ') == 1 and 'hint: ' in p.stderr
    assert what in p.stderr
    assert driver in p.stderr or what == 'image or build'
