"""Native sandboxes made of images: from OCI folders and archives of `docker save`, without any engine. As root and as an
ordinary user."""
import gzip
import json
import os
import signal
import stat
import subprocess

import pytest

import oci
from conftest import AM_ROOT, of_type, skip


@pytest.fixture(autouse=True)
def shell():
    if not os.path.exists(oci.BUSYBOX):
        skip(f'needs {oci.BUSYBOX} (busybox-static)')


NATIVE = ('--sandbox-driver', 'native')


def workflow(user, command, image='oci:img', *lines, network='open'):
    block = ''.join(f'    {line}\n' for line in (f'image: "{image}"', *lines, 'network:', f'  mode: {network}'))
    user.file('main.bot', f'tool t0:\n  command: `{command}`\n\nworkflow w:\n  entry: t0\n  sandbox:\n    mode: inline\n'
                          f'{block}  t0 -> done\n')


def run(user, command, image='oci:img', *lines, network='open', code=0, **more):
    """What the command printed."""
    workflow(user, command, image, *lines, network=network)
    user.ok('run', 'main.bot', *NATIVE, code=code, **more)
    return of_type(user.events(), 'node_finished')[-1]['output']['output'] if code == 0 else None


def put(user, image, name='img', **more):
    return image.layout(user.folder('workspace', name), user.own, **more)


def store(user):
    return os.path.join(user.store, 'images')


def listed(user):
    return json.loads(user.ok('sandbox', 'images', '--json').stdout)['images']


def test_programs_and_files_are_the_images(user):
    assert not os.path.exists('/only-in-image')
    put(user, oci.Image(oci.busybox(oci.entry('only-in-image', b'yes\n'))))
    out = run(user, 'cat /only-in-image; ls /; cat /etc/hosts; test -e /usr/bin/python3 || echo none; pwd; '
                    'readlink /usr/local/bin/iterion; stat -c %d:%i / /..')
    lines = out.split('\n')
    assert lines[0] == 'yes' and 'none' in lines and user.workspace in lines and '127.0.0.1 localhost iterion' in lines
    assert '10.9.8.7' not in out and '/run/iterion/bin/iterion' in lines
    assert lines[-2] == lines[-3], 'what stands above the root is not the root'
    assert not os.path.exists(os.path.join(user.workspace, 'usr'))
    started = of_type(user.events(), 'sandbox_started')[0]
    assert started['image'] == 'oci:img' and started['driver'] == 'native'


def test_digest_and_progress_are_told(user):
    image = oci.Image(oci.busybox())
    put(user, image)
    run(user, 'true')
    events = user.events()
    assert of_type(events, 'sandbox_started')[0]['image_digest'] == image.descriptor['digest']
    progress = of_type(events, 'sandbox_pull_progress')
    assert progress and {'image', 'layer', 'current', 'total'} == set(progress[0])
    assert progress[0]['layer'] == image.descriptors[0]['digest'] and progress[0]['total'] == image.descriptors[0]['size']
    run(user, 'true')
    assert not of_type(user.events(), 'sandbox_pull_progress'), 'it was there already'


def test_layers_lie_over_each_other(user):
    base = oci.busybox(oci.folder('d'), oci.entry('d/gone', b'1'), oci.entry('d/kept', b'old\n'), oci.folder('hidden'),
                       oci.entry('hidden/old', b'1'), oci.folder('whole'), oci.entry('whole/x', b'1'),
                       oci.entry('was-file', b'1'), oci.folder('was-folder'), oci.entry('was-folder/x', b'1'))
    top = oci.layer(oci.entry('d/.wh.gone'), oci.entry('d/kept', b'new\n'), oci.folder('hidden'),
                    oci.entry('hidden/.wh..wh..opq'), oci.entry('hidden/new', b'1'), oci.entry('.wh.whole'),
                    oci.folder('was-file'), oci.entry('was-file/y', b'1'), oci.entry('.wh.was-folder'),
                    oci.entry('was-folder', b'file\n'))
    again = oci.layer(oci.folder('whole'), oci.entry('whole/z', b'1'))
    put(user, oci.Image(base, top, again))
    out = run(user, 'cd /; ls d; cat d/kept; ls hidden; ls whole; ls was-file; cat was-folder')
    assert out.split() == ['kept', 'new', 'new', 'z', 'y', 'file']


def test_same_layer_twice_and_none_at_all(user):
    base = oci.busybox()
    empty = oci.layer()
    put(user, oci.Image(empty, base, empty, oci.layer(oci.entry('x', b'x\n')), empty))
    assert run(user, 'cat /x') == 'x\n'
    put(user, oci.Image(), 'nothing')
    workflow(user, 'true', 'oci:nothing')
    p = user.run('run', 'main.bot', *NATIVE)
    assert p.returncode == 1 and 'sh' in p.stderr, p.stderr


def test_what_is_written_is_gone_afterwards_and_never_in_the_store(user):
    put(user, oci.Image(oci.busybox(oci.entry('data', b'old\n'))))
    out = run(user, 'echo new >/data && cat /data; rm /bin/ls; mkdir /made && touch /tmp/x /made/y && echo wrote; echo k >kept',
              'oci:img', 'user: "0"')
    assert out.split() == ['new', 'wrote']
    assert run(user, 'cat /data; ls -d /made /tmp/x 2>&1; cat kept').split('\n')[0] == 'old'
    with open(os.path.join(user.workspace, 'kept'), encoding='ascii') as f:
        assert f.read() == 'k\n'


def test_environment_is_the_images(user):
    put(user, oci.Image(oci.busybox(), env=['FROM_IMAGE=yes', 'LANG=C', 'PATH=/bin:/extra'], workdir='/etc'))
    out = run(user, 'env; pwd', 'oci:img', 'host_state: none', 'env:', '  FROM_BLOCK: b')
    env = dict(line.split('=', 1) for line in out.split('\n') if '=' in line)
    assert env['FROM_IMAGE'] == 'yes' and env['PATH'] == '/bin:/extra' and env['FROM_BLOCK'] == 'b'
    assert env['HOME'] == '/root' and user.workspace in out.split('\n')
    out = run(user, 'env')
    env = dict(line.split('=', 1) for line in out.split('\n') if '=' in line)
    assert env['HOME'] == user.home


USERS = [
    # the image's, the block's, what id says
    (None, None, (0, 0)), ('dev', None, (4000, 4000)), ('dev:other', None, (4000, 4001)), ('77:88', None, (77, 88)),
    (None, 'dev', (4000, 4000)), ('dev', '0', (0, 0)), ('dev', '123', (123, 0)),
]


@pytest.mark.parametrize('image_user,block_user,want', USERS)
def test_user(user, image_user, block_user, want):
    put(user, oci.Image(oci.busybox(), user=image_user))
    lines = ['host_state: none'] + ([f'user: "{block_user}"'] if block_user else [])
    out = run(user, 'id -u; id -g; touch mine', 'oci:img', *lines) if not (AM_ROOT and user.uid == 0 and want[0]) else \
        run(user, 'id -u; id -g', 'oci:img', *lines)
    assert tuple(int(x) for x in out.split()) == want
    mine = os.path.join(user.workspace, 'mine')
    if os.path.exists(mine):
        assert os.stat(mine).st_uid == user.uid, 'what is written in the workspace belongs to the user of the host'


def test_user_of_the_host_when_its_state_is_shared(user):
    put(user, oci.Image(oci.busybox(), user='dev'))
    out = run(user, 'id -u; stat -c %u $HOME; test -w $HOME && echo writable', 'oci:img', 'host_state: auto')
    uid = user.uid if user.uid else 4000
    assert out.split() == [str(uid), str(uid), 'writable']
    assert len(of_type(user.events(), 'sandbox_user_remap')) == (1 if user.uid else 0)


def test_user_that_is_not_there(me):
    put(me, oci.Image(oci.busybox(), user='nobody-knows'))
    workflow(me, 'true', 'oci:img', 'host_state: none')
    me.fails('run', 'main.bot', *NATIVE, code=1, says=['nobody-knows', 'no user'])


def test_owners(user):
    """Root's store keeps owners; an ordinary user has one, and is told."""
    put(user, oci.Image(oci.busybox(oci.entry('theirs', b'x', uid=4000, gid=4001, mode=0o4755))))
    out = run(user, 'stat -c "%u %g %a" /theirs', 'oci:img', 'host_state: none')
    warned = [w for w in of_type(user.events(), 'sandbox_warning') if w['code'] == 'image_owners']
    if user.uid:
        assert out.split() == ['0', '0', '755'] and len(warned) == 1
    else:
        assert out.split() == ['4000', '4001', '755'] and not warned


def test_network_is_held_as_without_an_image(user):
    put(user, oci.Image(oci.busybox()))
    out = run(user, 'cat /etc/resolv.conf; wget -q -O - http://127.0.0.1:1/ 2>&1 || echo refused', network='allowlist')
    assert 'looked up by the proxy' in out and 'refused' in out
    assert of_type(user.events(), 'sandbox_started')[0]['network']['enforcement'] == 'namespace'


def test_the_store_is_not_seen_inside(user):
    put(user, oci.Image(oci.busybox()))
    run(user, 'true')
    assert os.listdir(os.path.join(store(user), 'layers'))
    out = run(user, f'ls {user.store}/images | wc -l; touch {user.store}/images/x 2>/dev/null || echo kept')
    assert out.split() == ['0', 'kept']


def test_home_of_nested_mounts(user):
    """What lies between HOME and what is mounted below it can be written, and is not the host's."""
    cache = os.path.join(user.home, '.cache', 'uv')
    os.makedirs(cache)
    for path in (os.path.dirname(cache), cache):
        user.own(path)
    put(user, oci.Image(oci.busybox()))
    out = run(user, 'touch $HOME/.cache/x $HOME/y && ls $HOME/.cache; touch $HOME/.cache/uv/shared', 'oci:img',
              'host_state: auto')
    assert out.split() == ['uv', 'x']
    assert os.listdir(cache) == ['shared'] and os.listdir(user.home) == ['.cache']


@pytest.mark.parametrize('name', ['', ':x:1'])
def test_archive_of_docker_save(user, name):
    image = oci.Image(oci.busybox(oci.entry('x', b'archive\n')), user='dev')
    user.own(image.archive(os.path.join(user.workspace, 'image.tar'), 'x:1'))
    assert run(user, 'cat /x', f'docker-archive:image.tar{name}') == 'archive\n'
    assert of_type(user.events(), 'sandbox_started')[0]['image_digest'] == image.config_descriptor['digest']
    workflow(user, 'true', 'docker-archive:image.tar:y:1')
    user.fails('run', 'main.bot', *NATIVE, code=1, says='no image of that name')


def zstd(data):
    p = subprocess.run(['zstd', '-q', '-c'], input=data, stdout=subprocess.PIPE, check=False)
    return p.stdout


@pytest.mark.parametrize('form', ['plain', 'two gzips', 'zstd'])
def test_compressions(me, form):
    if form == 'zstd':
        try:
            zstd(b'')
        except FileNotFoundError:
            skip('needs zstd')
    compress = {'plain': lambda d: d, 'zstd': zstd,
                'two gzips': lambda d: gzip.compress(d[:1000]) + gzip.compress(d[1000:])}[form]
    put(me, oci.Image(oci.busybox(oci.entry('x', form.encode())), compress=compress))
    assert run(me, 'cat /x') == form


def test_sha512(me):
    put(me, oci.Image(oci.busybox(), algorithm='sha512'))
    assert run(me, 'echo fine') == 'fine\n'


def test_index_of_several_platforms(me):
    other = oci.Image(oci.layer(), architecture='s390x')
    image = oci.Image(oci.busybox())
    image.blobs.update(other.blobs)
    entries = [{**other.descriptor, 'platform': {'os': 'linux', 'architecture': 's390x'}},
               {**image.descriptor, 'platform': {'os': 'linux', 'architecture': oci.ARCHITECTURE}}]
    put(me, image, index=entries)
    assert run(me, 'echo fine') == 'fine\n'
    put(me, image, 'other', index=entries[:1])
    workflow(me, 'true', 'oci:other')
    me.fails('run', 'main.bot', *NATIVE, code=1, says=['nothing for linux', 's390x'])


def test_tag_in_a_folder(me):
    put(me, oci.Image(oci.busybox(oci.entry('x', b'tagged\n'))), tag='dev')
    assert run(me, 'cat /x', 'oci:img:dev') == 'tagged\n'
    workflow(me, 'true', 'oci:img:other')
    me.fails('run', 'main.bot', *NATIVE, code=1, says=['other', 'dev'])


def test_changed_folder_is_fetched_anew(me):
    put(me, oci.Image(oci.busybox(oci.entry('x', b'1\n'))))
    assert run(me, 'cat /x') == '1\n'
    put(me, oci.Image(oci.busybox(oci.entry('x', b'2\n'))))
    assert run(me, 'cat /x') == '2\n'
    assert len([i for i in listed(me) if i['reference']]) == 1, 'the old one has no name any more'
    me.ok('sandbox', 'images', 'prune')
    assert len(listed(me)) == 1 and len(os.listdir(os.path.join(store(me), 'layers'))) == 1


def test_devcontainer_with_an_image_needs_no_engine(me):
    put(me, oci.Image(oci.busybox(oci.entry('x', b'dev\n'))))
    me.file('.devcontainer.json', '{"image": "oci:img", "remoteUser": "dev", "containerEnv": {"A": "b"}}')
    me.file('main.bot', 'tool t0:\n  command: `cat /x; id -un; echo $A`\n\nworkflow w:\n  entry: t0\n  sandbox: auto\n'
                        '  t0 -> done\n')
    me.env['PATH'] = '/nonexistent'  # no engine's program
    me.ok('run', 'main.bot')
    assert of_type(me.events(), 'sandbox_started')[0]['driver'] == 'native'
    out = of_type(me.events(), 'node_finished')[0]['output']['output']
    assert out.split() == ['dev', 'dev', 'b']


def test_run_args_of_containers_are_refused(me):
    put(me, oci.Image(oci.busybox()))
    me.file('.devcontainer.json', '{"image": "oci:img", "runArgs": ["--shm-size=1g"]}')
    me.file('main.bot', 'tool t0:\n  command: `true`\n\nworkflow w:\n  entry: t0\n  sandbox: auto\n  t0 -> done\n')
    me.fails('run', 'main.bot', *NATIVE, code=1, says='run_args')


def test_plan_needs_no_image(me):
    workflow(me, 'true', 'debian:12')
    plan = json.loads(me.ok('sandbox', 'plan', 'main.bot', *NATIVE, '--json').stdout)
    assert '/dev' in json.dumps(plan) and not os.path.exists(store(me))


BAD_NAMES = ['Debian:12', 'debian:', 'debian@sha256:12', 'a//b', 'oci:', 'docker-archive:', 'x' * 300, 'reg.test:99999/x']


@pytest.mark.parametrize('name', BAD_NAMES)
def test_names_that_are_none(me, name):
    workflow(me, 'true', name)
    me.fails('run', 'main.bot', *NATIVE, code=1, says='image')


@pytest.mark.parametrize('image,says', [('oci:nowhere', 'nowhere'), ('docker-archive:nowhere', 'nowhere'),
                                        ('docker-archive:main.bot', 'docker save'), ('docker-archive:/dev/null', 'docker save'),
                                        ('oci:.', 'index.json')])
def test_sources_that_are_none(me, image, says):
    workflow(me, 'true', image)
    me.fails('run', 'main.bot', *NATIVE, code=1, says=says)
    assert me.events()[-1]['type'] == 'run_failed'


def test_list_and_prune(me):
    image = oci.Image(oci.busybox(), oci.layer(oci.entry('x', b'y')))
    put(me, image)
    run(me, 'true')
    one = listed(me)[0]
    assert one['reference'] == f'oci:{me.workspace}/img' and one['digest'] == image.descriptor['digest']
    assert one['layers'] == 2 and one['size'] > 100000 and not one['in_use']
    me.ok('sandbox', 'images', 'prune', '--unused-for', '1h')
    assert len(listed(me)) == 1
    out = json.loads(me.ok('sandbox', 'images', 'prune', '--all', '--json').stdout)
    assert out['images'] == 1 and out['layers'] == 2 and out['bytes'] == one['size']
    assert listed(me) == [] and os.listdir(os.path.join(store(me), 'layers')) == []
    assert run(me, 'echo again') == 'again\n'


def test_image_in_use_is_not_pruned(user):
    put(user, oci.Image(oci.busybox()))
    workflow(user, 'echo ready; read x; cat /etc/passwd >/dev/null && echo still')
    p = user.start('sandbox', 'exec', *NATIVE, 'main.bot', '--', 'sh', '-c',
                   'echo ready; read x; ls /bin/sh && cat /etc/group', stdin=subprocess.PIPE)
    assert p.stdout.readline() == b'ready\n'
    assert listed(user)[0]['in_use']
    out = json.loads(user.ok('sandbox', 'images', 'prune', '--all', '--json').stdout)
    assert out['images'] == out['layers'] == 0
    out, err = p.communicate(b'go\n', 30)
    assert p.returncode == 0 and b'dev:x:4000' in out, err
    assert json.loads(user.ok('sandbox', 'images', 'prune', '--all', '--json').stdout)['images'] == 1


def test_many_processes_fetch_one_image(me):
    put(me, oci.Image(oci.busybox(), *(oci.layer(oci.entry(f'l{i}', os.urandom(300000))) for i in range(6))))
    workflow(me, 'ls /l5')
    started = [me.start('run', 'main.bot', *NATIVE) for _ in range(4)]
    for p in started:
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, (out, err)
    assert len(listed(me)) == 1 and len(os.listdir(os.path.join(store(me), 'layers'))) == 7
    assert os.listdir(os.path.join(store(me), 'tmp')) == []


def test_killed_fetch_leaves_no_half_layer(me):
    """Killed when its second layer has begun; the layer comes from a pipe that never ends."""
    big = oci.Image(oci.busybox(), oci.layer(oci.entry('big', bytes(64 << 20)), oci.entry('end', b'end\n')),
                    compress=lambda d: d)
    put(me, big)
    workflow(me, 'cat /end')
    for _ in range(3):
        p = me.start('run', 'main.bot', *NATIVE, '--json')
        for line in p.stdout:
            event = json.loads(line)
            if event['type'] == 'sandbox_pull_progress' and event['data']['total'] > 32 << 20:
                break
        p.send_signal(signal.SIGKILL)
        p.communicate()
    layers = os.listdir(os.path.join(store(me), 'layers'))
    for name in layers:
        assert sorted(os.listdir(os.path.join(store(me), 'layers', name))) == ['fs', 'layer.json']
    assert run(me, 'cat /end; wc -c </big') == f'end\n{64 << 20}\n'
    assert os.listdir(os.path.join(store(me), 'tmp')) == []


def test_cancelled_fetch(me):
    put(me, oci.Image(oci.busybox(), oci.layer(oci.entry('big', bytes(64 << 20))), compress=lambda d: d))
    workflow(me, 'true')
    p = me.start('run', 'main.bot', *NATIVE, '--json')
    for line in p.stdout:
        if json.loads(line)['type'] == 'sandbox_pull_progress':
            break
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=30)
    assert p.returncode in (0, 130)


def test_modes_of_the_store(user):
    put(user, oci.Image(oci.busybox()))
    run(user, 'true')
    assert stat.S_IMODE(os.stat(store(user)).st_mode) == 0o700
    for base, _, files in os.walk(store(user)):
        if '/fs' in base:
            continue
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(base, name)).st_mode) == 0o600, name
