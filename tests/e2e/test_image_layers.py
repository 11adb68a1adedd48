"""Layers that are made to do harm, or are broken: each is refused or made harmless, and nothing but the store changes. Each
is tried as root, whom nothing but the unpacking itself would hold back, and as an ordinary user."""
import gzip
import io
import json
import os
import random
import tarfile

import pytest

import oci
from conftest import skip


@pytest.fixture(autouse=True)
def shell():
    if not os.path.exists(oci.BUSYBOX):
        skip(f'needs {oci.BUSYBOX} (busybox-static)')


@pytest.fixture
def outside(user):
    """A folder that no layer may reach, and what it looks like."""
    path = user.folder('outside')
    user.own(user.file(os.path.join(path, 'victim'), 'untouched\n'))
    return path


def snapshot(path):
    return sorted((base, name, os.lstat(os.path.join(base, name)).st_mode, os.lstat(os.path.join(base, name)).st_nlink)
                  for base, folders, files in os.walk(path) for name in folders + files)


def unchanged(path):
    with open(os.path.join(path, 'victim'), encoding='ascii') as f:
        assert f.read() == 'untouched\n'
    assert os.listdir(path) == ['victim'] and os.stat(os.path.join(path, 'victim')).st_nlink == 1


def pull(user, image, code=None, **more):
    image.layout(user.folder('workspace', 'img'), user.own)
    p = user.run('sandbox', 'images', 'pull', 'oci:img', **more)
    if code is not None:
        assert p.returncode == code, p.stdout + p.stderr
    return p


def store(user, *names):
    return os.path.join(user.store, 'images', *names)


def files_of(user):
    """The files of the one layer that is in the store."""
    layers = os.listdir(store(user, 'layers'))
    assert len(layers) == 1
    return store(user, 'layers', layers[0], 'fs')


def nothing_is_kept(user):
    assert os.listdir(store(user, 'tmp')) == [] and os.listdir(store(user, 'layers')) == []
    assert os.listdir(store(user, 'images')) == [] == os.listdir(store(user, 'refs'))


def refused(user, image, says, **more):
    p = pull(user, image, **more)
    assert p.returncode in (1, 2), p.stdout + p.stderr
    assert 'error: ' in p.stderr and 'hint: ' in p.stderr
    for word in (says,) if isinstance(says, str) else says:
        assert word in p.stderr, p.stderr
    nothing_is_kept(user)


UP = '../' * 12

REFUSED = {
    'parent': lambda out: [oci.entry(f'{UP}{out}/new', b'x')],
    'parent in the middle': lambda out: [oci.folder('a'), oci.entry(f'a/{UP}{out}/new', b'x')],
    'folder above': lambda out: [oci.folder('../x')],
    'link above': lambda out: [oci.link('../x', '/')],
    'hard link out': lambda out: [oci.hardlink('x', f'{UP}{out}/victim')],
    'hard link out by a link': lambda out: [oci.link('l', out), oci.hardlink('x', 'l/victim')],
    'hard link to a folder': lambda out: [oci.folder('d'), oci.hardlink('x', 'd')],
    'hard link to itself': lambda out: [oci.hardlink('x', 'x')],
    'hard link to nothing': lambda out: [oci.hardlink('x', 'missing')],
    'whiteout above': lambda out: [oci.entry('.wh...')],
    'whiteout of itself': lambda out: [oci.entry('.wh..')],
    'whiteout of nothing': lambda out: [oci.entry('.wh.')],
    'whiteout above in a folder': lambda out: [oci.folder('a'), oci.entry(f'a/{UP}{out}/.wh.victim')],
    'file through a link that leads nowhere': lambda out: [oci.link('l', f'{out}/missing'), oci.entry('l/new', b'x')],
    'name of a file as a folder': lambda out: [oci.entry('f', b'x'), oci.entry('f/y', b'x')],
    'part that is too long': lambda out: [oci.entry('x' * 300, b'x')],
    'no name': lambda out: [oci.entry('/', b'x')],
    'link without a text': lambda out: [oci.link('l', '')],
    'very deep': lambda out: [oci.entry('/'.join(['d'] * 1000), b'x')],
}


@pytest.mark.parametrize('name', REFUSED)
def test_refused(user, outside, name):
    refused(user, oci.Image(oci.layer(*REFUSED[name](outside))), 'layer 1 of 1')
    unchanged(outside)


# What stays within the layer, and what is there then.
CONTAINED = {
    'absolute name': (lambda out: [oci.entry(f'{out}/victim', b'x')], lambda out: f'.{out}/victim'),
    'file through an absolute link': (lambda out: [oci.folder(f'.{out}'), oci.link('l', out), oci.entry('l/victim', b'x')],
                                      lambda out: f'.{out}/victim'),
    'file through a link upwards': (lambda out: [oci.folder(f'.{out}'), oci.link('l', f'{UP}{out}'), oci.entry('l/victim', b'x')],
                                    lambda out: f'.{out}/victim'),
    'file in place of a link': (lambda out: [oci.link('l', f'{out}/victim'), oci.entry('l', b'x')], lambda out: 'l'),
    'folder in place of a link': (lambda out: [oci.link('l', out), oci.folder('l', mode=0o777), oci.entry('l/victim', b'x')],
                                  lambda out: 'l/victim'),
    'hard link to a link': (lambda out: [oci.link('l', f'{out}/victim'), oci.hardlink('h', 'l'), oci.entry('h', b'x')],
                            lambda out: 'h'),
    'owner of what a link leads to': (lambda out: [oci.link('l', f'{out}/victim', uid=12345, gid=12345, mtime=1)], lambda out: None),
}


@pytest.mark.parametrize('name', CONTAINED)
def test_contained(user, outside, name):
    entries, there = CONTAINED[name]
    before = os.stat(os.path.join(outside, 'victim'))
    pull(user, oci.Image(oci.layer(*entries(outside))), 0)
    unchanged(outside)
    after = os.stat(os.path.join(outside, 'victim'))
    assert (before.st_uid, before.st_mtime, before.st_mode) == (after.st_uid, after.st_mtime, after.st_mode)
    if there(outside):
        path = os.path.join(files_of(user), there(outside))
        assert os.path.isfile(path) and not os.path.islink(path), 'it is in the layer'


def test_what_acts_by_being_there_is_left_out(user):
    xattrs = {'SCHILY.xattr.user.mine': 'kept', 'SCHILY.xattr.user.overlay.redirect': '/etc', 'SCHILY.xattr.trusted.overlay.opaque': 'y',
              'SCHILY.xattr.security.capability': '\x01', 'SCHILY.xattr.user.overlay.opaque': 'y'}
    pull(user, oci.Image(oci.layer(
        oci.entry('disk', type=tarfile.BLKTYPE, devmajor=8, devminor=0), oci.entry('mem', type=tarfile.CHRTYPE, devmajor=1, devminor=1),
        oci.entry('fifo', type=tarfile.FIFOTYPE), oci.entry('suid', b'x', mode=0o6755),
        oci.folder('sgid', mode=0o2777), oci.entry('file', b'x', pax_headers=xattrs),
        oci.folder('folder', pax_headers={**xattrs, 'SCHILY.xattr.user.mine': 'folder'}))), 0)
    files = files_of(user)
    assert sorted(os.listdir(files)) == ['fifo', 'file', 'folder', 'sgid', 'suid']
    assert os.stat(os.path.join(files, 'suid')).st_mode & 0o7777 == 0o755
    assert os.stat(os.path.join(files, 'sgid')).st_mode & 0o7777 == 0o777
    for name in ('file', 'folder'):
        assert os.listxattr(os.path.join(files, name)) == ['user.mine'], name


def test_folders_that_nobody_may_enter(user):
    """They can be filled, and removed again."""
    pull(user, oci.Image(oci.layer(oci.folder('a', mode=0), oci.folder('a/b', mode=0o500), oci.entry('a/b/c', b'x', mode=0))), 0)
    assert json.loads(user.ok('sandbox', 'images', 'prune', '--all', '--json').stdout)['layers'] == 1
    nothing_is_kept(user)


def test_long_names_and_what_is_missing(user):
    """Names of every header there is, folders that the layer does not list, and a file that comes twice."""
    long = '/'.join(['d' * 60] * 20)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        pull(user, oci.Image(oci.layer(oci.entry(f'{long}/f', b'x'), oci.link('l', long), oci.entry('./a/b/c', b'1'),
                                       oci.entry('a//b/c', b'22'), oci.entry('ünï', b''), form=form)), 0)
        files = files_of(user)
        assert os.path.isfile(os.path.join(files, long, 'f')) and os.readlink(os.path.join(files, 'l')) == long
        assert os.path.getsize(os.path.join(files, 'a/b/c')) == 2 and os.path.exists(os.path.join(files, 'ünï'))
        user.ok('sandbox', 'images', 'prune', '--all')


def sparse_1_0(name, pieces, size):
    """A sparse file as GNU tar writes it into pax headers."""
    text = f'{len(pieces)}\n' + ''.join(f'{at}\n{len(data)}\n' for at, data in pieces)
    data = text.encode().ljust(-(-len(text) // 512) * 512, b'\0') + b''.join(data for _, data in pieces)
    return oci.entry(f'GNUSparseFile.0/{name}', data, pax_headers={
        'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': name, 'GNU.sparse.realsize': str(size)})


def test_sparse_file(user):
    pull(user, oci.Image(oci.layer(sparse_1_0('s', [(4096, b'abc'), (1 << 20, b'end')], (1 << 20) + 100))), 0)
    path = os.path.join(files_of(user), 's')
    with open(path, 'rb') as f:
        data = f.read()
    assert len(data) == (1 << 20) + 100 and data[4096:4099] == b'abc' and data[1 << 20:(1 << 20) + 3] == b'end'
    assert data.count(0) == len(data) - 6 and os.stat(path).st_blocks < 64


BAD_SPARSE = [
    ([(0, b'a'), (0, b'b')], 10), ([(8, b'abc')], 10), ([(1 << 62, b'a')], 10), ([(5, b'a'), (1, b'b')], 10),
]


@pytest.mark.parametrize('pieces,size', BAD_SPARSE)
def test_sparse_file_that_makes_no_sense(user, pieces, size):
    refused(user, oci.Image(oci.layer(sparse_1_0('s', pieces, size))), 'sparse')


def test_bomb(user):
    """A small layer of large files is held by a limit, however it says their size."""
    zeros = oci.Image(oci.layer(oci.entry('zeros', bytes(8 << 20))))
    assert zeros.descriptors[0]['size'] < 100000
    refused(user, zeros, ['larger than 1000000 bytes', 'ITERION_IMAGE_MAX_BYTES'], env={'ITERION_IMAGE_MAX_BYTES': '1000000'})
    refused(user, oci.Image(oci.layer(sparse_1_0('s', [(0, b'x')], 1 << 40))), 'larger than')
    refused(user, oci.Image(oci.layer(oci.entry('a', bytes(600000)), oci.entry('b', bytes(600000)))), 'larger than',
            env={'ITERION_IMAGE_MAX_BYTES': '1000000'})
    pull(user, zeros, 0)
    assert pull(user, zeros, env={'ITERION_IMAGE_MAX_BYTES': 'many'}).returncode == 2


def test_wrong_digests(user):
    image = oci.Image(oci.layer(oci.entry('x', b'y')))
    name = image.descriptors[0]['digest']
    good = image.blobs[name]
    image.blobs[name] = gzip.compress(oci.layer(oci.entry('x', b'z')))
    refused(user, image, ['does not have the digest', name[:20]])
    image.blobs[name] = good + b'more'
    refused(user, image, 'does not have the digest')
    image.blobs[name] = good[:-1]
    refused(user, image, 'does not have the digest')
    # What is in it is not what its configuration says.
    image = oci.Image(oci.layer(oci.entry('x', b'y')), compress=lambda d: gzip.compress(oci.layer(oci.entry('x', b'z'))))
    refused(user, image, 'uncompressed')
    image = oci.Image(oci.layer())
    image.blobs[image.config_descriptor['digest']] += b' '
    refused_early(user, image, 'configuration')
    image = oci.Image(oci.layer())
    image.blobs[image.descriptor['digest']] += b' '
    refused_early(user, image, 'manifest')


def refused_early(user, image, says):
    """Before the store is looked at."""
    p = pull(user, image)
    assert p.returncode in (1, 2) and says in p.stderr, p.stdout + p.stderr


def test_broken_archives(user):
    good = oci.layer(oci.entry('a', b'x' * 2000), oci.entry('b', b'y'))
    for what, data in {'cut in the data': good[:1024], 'cut in a head': good[:700], 'checksum': good[:20] + b'X' + good[21:],
                       'noise': random.Random(1).randbytes(4096)}.items():
        refused(user, oci.Image(data, compress=lambda d: d), 'layer 1 of 1')
        assert what
    packed = gzip.compress(good)
    for data in (packed[:len(packed) // 2], packed[:12] + b'\xff' * 20 + packed[32:], b'\x28\xb5\x2f\xfd' + bytes(20)):
        image = oci.Image(good, compress=lambda d, data=data: data)
        refused(user, image, 'layer 1 of 1')


def raw(type, size, data=b'', name='x'):
    info = tarfile.TarInfo(name)
    info.type, info.size = type, size
    head = info.tobuf(tarfile.GNU_FORMAT)
    return head + data.ljust(-(-len(data) // 512) * 512, b'\0')


BAD_HEADS = {
    'huge pax header': raw(b'x', 1 << 40), 'huge long name': raw(b'L', 1 << 30), 'pax without length': raw(b'x', 8, b'nothing\n'),
    'pax with a wrong length': raw(b'x', 12, b'99 path=abc\n'), 'pax with length 0': raw(b'x', 9, b'0 path=a\n'),
    'pax without a value': raw(b'x', 9, b'9 pathab\n'), 'pax with a NUL in a name': raw(b'x', 14, b'14 path=a\0bcd\n'),
    'unknown type': raw(b'Z', 0), 'size past the end': raw(b'0', 1 << 50), 'long name without an end': raw(b'L', 100, b'a' * 100),
    'pax at the end': raw(b'x', 12, b'12 path=abc\n')[:512],
}


@pytest.mark.parametrize('name', BAD_HEADS)
def test_heads_that_make_no_sense(me, name):
    data = BAD_HEADS[name] + raw(b'0', 1 << 50)
    image = oci.Image(data, compress=lambda d: d)
    p = pull(me, image)
    assert p.returncode in (1, 2) and 'hint: ' in p.stderr, p.stdout + p.stderr
    nothing_is_kept(me)


def test_documents_that_make_no_sense(me):
    def manifest(**change):
        image = oci.Image(oci.layer())
        image.manifest.update(change)
        return image.remake()

    deep = '[' * 5000 + ']' * 5000
    layer = {'digest': '../../../etc/passwd', 'size': 1}
    for image, says in [
            (manifest(schemaVersion=1), 'schema'), (manifest(layers='x'), 'schema'), (manifest(layers=[layer]), 'digest'),
            (manifest(layers=[{**layer, 'digest': 'sha256:' + 'A' * 64}]), 'digest'), (manifest(config={}), 'digest'),
            (manifest(layers=[{'digest': 'sha256:' + 'a' * 64, 'size': -1}]), 'size'),
            (manifest(layers=[{'digest': 'sha256:' + 'a' * 64, 'size': 1}] * 201), '200 layers'),
            (manifest(layers=[]), 'layers, its configuration'),
            (oci.Image(oci.layer(), architecture='s390x'), 'this machine is'), (oci.Image(oci.layer(), os='windows'), 'linux'),
            (oci.Image(oci.layer(), rootfs={'diff_ids': ['../../x']}), 'diff_ids')]:
        p = pull(me, image)
        assert p.returncode in (1, 2) and says in p.stderr, (says, p.stderr)
    image = oci.Image(oci.layer())
    image.layout(me.folder('workspace', 'img'), me.own)
    for text in ('', deep, '{"manifests": [1, null, {}]}', '{"manifests": []}', '{' * 100, 'null', 'x' * (5 << 20)):
        me.file('img/index.json', text)
        p = me.run('sandbox', 'images', 'pull', 'oci:img')
        assert p.returncode in (1, 2) and 'hint: ' in p.stderr, (text[:20], p.stderr)


def test_links_out_of_a_folder_of_an_image(me):
    """The folder itself may be a stranger's."""
    image = oci.Image(oci.layer(oci.entry('x', b'y')))
    image.layout(me.folder('workspace', 'img'), me.own)
    blob = os.path.join(me.workspace, 'img', 'blobs', *image.descriptors[0]['digest'].split(':'))
    os.rename(blob, os.path.join(me.workspace, 'elsewhere'))
    os.symlink('../../../elsewhere', blob)
    p = me.run('sandbox', 'images', 'pull', 'oci:img')
    assert p.returncode in (1, 2) and 'blobs' in p.stderr
    os.unlink(blob)
    os.mkfifo(blob)
    p = me.run('sandbox', 'images', 'pull', 'oci:img')
    assert p.returncode in (1, 2) and 'blobs' in p.stderr


def test_archive_with_hostile_names(me):
    config = json.dumps({'rootfs': {'diff_ids': []}}).encode()
    for manifest in ([{'Config': '../../../etc/passwd', 'Layers': []}], [{'Config': '/etc/passwd', 'Layers': ['/etc/shadow']}],
                     [{}], {}, [{'Config': 5}], [{'Config': 'c', 'Layers': ['loop']}], [{'Config': 'c', 'Layers': ['x']}] * 2):
        data = oci.layer(oci.entry('c', config), oci.link('loop', 'loop'), oci.link('up', '../../../etc/passwd'),
                         oci.entry('manifest.json', json.dumps(manifest).encode()))
        me.file('a.tar', data)
        p = me.run('sandbox', 'images', 'pull', 'docker-archive:a.tar')
        assert p.returncode in (1, 2) and 'hint: ' in p.stderr, p.stderr
    for data in (b'', b'\0' * 10000, gzip.compress(oci.layer()), oci.layer()[:100]):
        me.file('a.tar', data)
        p = me.run('sandbox', 'images', 'pull', 'docker-archive:a.tar')
        assert p.returncode in (1, 2) and 'hint: ' in p.stderr, p.stderr


def test_many_entries(me):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as tar:
        for i in range(20000):
            tar.addfile(oci.entry(f'd{i % 100}/f{i}')[0])
    pull(me, oci.Image(out.getvalue()), 0)
    assert sum(len(files) for _, _, files in os.walk(files_of(me))) == 20000
