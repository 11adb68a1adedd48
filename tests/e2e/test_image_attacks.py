"""What stands in the store, what a registry sends, and layers whose harm lies in their number: none of it shows more of the
host, takes its memory, or pulls an image away from under a sandbox."""
import io
import json
import os
import shutil
import subprocess
import tarfile
import zlib

import pytest

import oci
from conftest import make_user, skip
from test_image_registry import Registry, image as small_image
from test_native_images import listed, put, run, store, workflow


@pytest.fixture(autouse=True)
def shell():
    if not os.path.exists(oci.BUSYBOX):
        skip(f'needs {oci.BUSYBOX} (busybox-static)')


# --- the store ---

def layer_of(user):
    names = os.listdir(os.path.join(store(user), 'layers'))
    assert len(names) == 1
    return os.path.join(store(user), 'layers', names[0])


@pytest.mark.parametrize('part', ['fs', '.'])
def test_link_in_the_place_of_a_layer(user, part):
    """It would show what it leads to, with a sandbox's rights over it: the image is fetched anew, or nothing starts."""
    put(user, oci.Image(oci.busybox()))
    run(user, 'true')
    outside = user.folder('outside')
    layer = layer_of(user)
    shutil.copytree(os.path.join(layer, 'fs'), os.path.join(outside, 'fs'), symlinks=True)
    user.file(os.path.join(outside, 'fs', 'secret'), 'of the host\n')
    there = os.path.normpath(os.path.join(layer, part))
    shutil.rmtree(there)
    os.symlink(os.path.join(outside, 'fs' if part == 'fs' else ''), there)
    workflow(user, 'cat /secret')
    p = user.run('run', 'main.bot', '--sandbox-driver', 'native')
    assert p.returncode != 0 and 'hint: ' in p.stderr, p.stderr
    assert not any('of the host' in json.dumps(e) for e in user.events())


def test_store_of_somebody_else(base, programs, ordinary_account):
    """Root with a user's HOME (sudo keeps it) uses nothing that the user could have put there."""
    me = make_user('root', ordinary_account, base, programs)
    put(me, oci.Image(oci.busybox()))
    run(me, 'true')
    for base_folder, folders, files in os.walk(store(me)):
        for name in folders + files:
            os.chown(os.path.join(base_folder, name), ordinary_account.pw_uid, ordinary_account.pw_gid, follow_symlinks=False)
    for bad in ('owner', 'mode', 'part'):
        os.chown(store(me), ordinary_account.pw_uid if bad == 'owner' else 0, 0)
        os.chmod(store(me), 0o777 if bad == 'mode' else 0o700)
        for command in (('sandbox', 'images', 'pull', 'oci:img'), ('sandbox', 'images', 'prune', '--all'), ('sandbox', 'images')):
            me.fails(*command, says='the image store')
        workflow(me, 'true')
        p = me.run('run', 'main.bot', '--sandbox-driver', 'native')
        assert p.returncode != 0 and 'the image store' in p.stderr, p.stderr
    assert os.listdir(os.path.join(store(me), 'layers')), 'prune removed nothing either'


def test_link_in_the_place_of_a_part_of_the_store(user):
    put(user, oci.Image(oci.busybox()))
    outside = user.folder('outside')
    os.makedirs(store(user), 0o700)
    os.chmod(os.path.dirname(store(user)), 0o700)
    user.own(os.path.dirname(store(user)))
    user.own(store(user))
    os.symlink(outside, os.path.join(store(user), 'tmp'))
    user.fails('sandbox', 'images', 'pull', 'oci:img', says='the image store')
    assert os.listdir(outside) == []


@pytest.mark.parametrize('where', ['state', '.'])
def test_store_in_the_workspace(user, where):
    """Without being the run's: what a program puts there would be an image of every later sandbox."""
    home = user.own(user.folder('workspace', where))
    put(user, oci.Image(oci.busybox()))
    env = {'ITERION_HOME': os.path.normpath(home)}
    more = () if where == '.' else ('--store-dir', user.folder('workspace', 'other'))
    user.ok('sandbox', 'images', 'pull', 'oci:img', env=env)
    places = [os.path.join(env['ITERION_HOME'], part) for part in ('images', 'worktrees')]
    for state in ('auto', 'none'):
        for image in ('', '    image: "oci:img"\n'):
            user.file('main.bot', f'tool t0:\n  command: `ls -A {" ".join(places)} && touch {places[0]}/x 2>/dev/null || echo kept`\n\n'
                                  f'workflow w:\n  entry: t0\n  sandbox:\n    mode: inline\n{image}    host_state: {state}\n'
                                  '    network:\n      mode: open\n  t0 -> done\n')
            p = user.ok('run', 'main.bot', '--json', '--sandbox-driver', 'native', *more, env=env)
            out = [json.loads(line) for line in p.stdout.split('\n') if '"node_finished"' in line][0]['data']['output']['output']
            assert 'kept' in out and 'layers' not in out
    assert sorted(os.listdir(places[0])) == ['images', 'layers', 'locks', 'refs', 'tmp']


def test_image_that_is_pulled_again_while_it_is_used(me):
    """By another index, too, which gives the image another digest: the sandbox's hold on it stays."""
    one = oci.Image(oci.busybox())
    put(me, one)
    workflow(me, 'true')
    p = me.start('sandbox', 'exec', '--sandbox-driver', 'native', 'main.bot', '--', 'sh', '-c',
                 'echo ready; read x; ls /bin/sh && cat /etc/group', stdin=subprocess.PIPE)
    assert p.stdout.readline() == b'ready\n'
    me.ok('sandbox', 'images', 'pull', 'oci:img')
    with Registry() as r:
        r.push('a/b', one)
        r.manifests[('a/b', 'multi')] = json.dumps({'schemaVersion': 2, 'mediaType': oci.INDEX, 'manifests': [
            {**one.descriptor, 'platform': {'os': 'linux', 'architecture': oci.ARCHITECTURE}}]}).encode()
        me.ok('sandbox', 'images', 'pull', f'{r.host}/a/b:multi')
    assert [row['in_use'] for row in listed(me)] == [True]
    done = json.loads(me.ok('sandbox', 'images', 'prune', '--all', '--json').stdout)
    out, err = p.communicate(b'go\n', 30)
    assert p.returncode == 0 and b'dev:x:4000' in out, err
    assert done['images'] == done['layers'] == 0


def test_prune_leaves_no_locks(me):
    put(me, oci.Image(oci.busybox(), oci.layer(oci.entry('x', b'y'))))
    run(me, 'true')
    locks = os.path.join(store(me), 'locks')
    assert len(os.listdir(locks)) == 3
    me.ok('sandbox', 'images', 'prune', '--all')
    assert os.listdir(locks) == ['fetch']
    run(me, 'true')


# --- layers ---

def bomb(block, count, head=b''):
    """A gzip stream of one block again and again, made without holding it."""
    z, out = zlib.compressobj(9, zlib.DEFLATED, 31), io.BytesIO()
    out.write(z.compress(head))
    for _ in range(count):
        out.write(z.compress(block))
    out.write(z.flush())
    return out.getvalue()


def pax(records):
    data = b''
    for key, value in records:
        line = b' ' + key + b'=' + value + b'\n'
        size = len(line) + 1
        while len(str(size)) + len(line) != size:
            size += 1
        data += str(size).encode() + line
    info = tarfile.TarInfo('x')
    info.type, info.size = tarfile.XHDTYPE, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data.ljust(-(-len(data) // 512) * 512, b'\0')


EXTRA = pax([(b'SCHILY.xattr.user.x%d' % i, b'v' * 900) for i in range(900)])
NUMBERS = {
    'headers that never come to an entry': (EXTRA, 300, 'headers'),
    'zeros behind the end': (bytes(1 << 20), 64, 'larger than 1000000 bytes'),
}


@pytest.mark.parametrize('name', NUMBERS)
def test_layers_that_never_end(me, name):
    """They are stopped by what they decompress to, and take no more memory than others."""
    block, count, says = NUMBERS[name]
    one = oci.Image(oci.layer(), compress=lambda d: bomb(block, count))
    assert one.descriptors[0]['size'] < 2 << 20
    one.layout(me.folder('workspace', 'img'), me.own)
    with open(os.path.join(me.base, 'errors'), 'w+b') as f:
        p = me.start('sandbox', 'images', 'pull', 'oci:img', env={'ITERION_IMAGE_MAX_BYTES': '1000000'}, stdout=f, stderr=f)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        f.seek(0)
        err = f.read().decode()
    assert p.returncode == 2 and says in err and 'hint: ' in err, err
    # With that of the process that unpacked, which was waited for.
    assert usage.ru_maxrss < 200 * 1024
    assert os.listdir(os.path.join(store(me), 'layers')) == [] == os.listdir(os.path.join(store(me), 'tmp'))


def test_folders_that_no_entry_lists_count(me):
    """A layer that only names files makes its folders, up to the same bound as entries."""
    put(me, oci.Image(oci.busybox(oci.entry('a/b/c/d/e', b'x'))))
    run(me, 'cat /a/b/c/d/e')
    with open(os.path.join(layer_of(me), 'layer.json'), encoding='ascii') as f:
        first = json.load(f)['entries']
    me.ok('sandbox', 'images', 'prune', '--all')
    put(me, oci.Image(oci.busybox(oci.entry('a', b'x'))))
    me.ok('sandbox', 'images', 'pull', 'oci:img')
    with open(os.path.join(layer_of(me), 'layer.json'), encoding='ascii') as f:
        assert first == json.load(f)['entries'] + 4


def test_proxy_of_the_image(user):
    """What an image names as the proxy is not the one that enforces the policy; without a policy it counts."""
    names = ('HTTP_PROXY', 'https_proxy', 'ALL_PROXY', 'npm_config_proxy', 'NO_PROXY', 'no_proxy')
    put(user, oci.Image(oci.busybox(), env=[f'{name}=evil.invalid' for name in names]))
    env = dict(line.split('=', 1) for line in run(user, 'env', network='allowlist').split('\n') if '=' in line)
    assert all('evil' not in env[name] for name in names) and '@127.0.0.1:' in env['https_proxy']
    assert 'no_proxy=evil.invalid' in run(user, 'env').split('\n')


# --- registries ---

class Endless(Registry):
    """Its answers to these paths have no end."""

    def __init__(self, *paths, status=200):
        super().__init__()
        self.paths, self.status = paths, status

    def get(self, h):
        path = h.path.partition('?')[0]
        if not any(part in path for part in self.paths):
            return super().get(h)
        h.send_response(self.status)
        h.send_header('Transfer-Encoding', 'chunked')
        h.send_header('Retry-After', '0')
        h.end_headers()
        try:
            while True:
                h.wfile.write(b'10000\r\n' + bytes(65536) + b'\r\n')
        except OSError:
            h.close_connection = True
        return None


@pytest.mark.parametrize('status', [200, 302, 404, 500])
@pytest.mark.parametrize('part', ['/manifests/', '/blobs/'])
def test_answers_without_an_end(me, part, status):
    with Endless(part, status=status) as r:
        reference = r.push('a/b', small_image())
        p = me.fails('sandbox', 'images', 'pull', reference, code=2 if status in (200, 404) else 1)
        assert len(p.stderr) < 4000


def test_words_of_an_index_are_only_text(me):
    one = oci.Image(oci.layer())
    evil = '\x1b]0;evil\x07\x1b[31m'
    put(me, one, index=[{**one.descriptor, 'platform': {'os': evil, 'architecture': evil},
                         'annotations': {'org.opencontainers.image.ref.name': evil}}])
    p = me.fails('sandbox', 'images', 'pull', 'oci:img', code=2)
    assert '\x1b' not in p.stderr and '\x07' not in p.stderr
    put(me, oci.Image(oci.layer(), architecture=evil))
    p = me.fails('sandbox', 'images', 'pull', 'oci:img', code=2)
    assert '\x1b' not in p.stderr
