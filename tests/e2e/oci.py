"""Images that the tests write themselves: layers as tar archives, in an OCI layout, an archive of `docker save`, or in the
memory of a registry. Nothing here checks anything, so that wrong images can be made as well."""
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile

BUSYBOX = '/bin/busybox'
ARCHITECTURE = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), 'unknown')
MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
INDEX = 'application/vnd.oci.image.index.v1+json'


def digest_of(data, algorithm='sha256'):
    return f'{algorithm}:{hashlib.new(algorithm, data).hexdigest()}'


def entry(name, data=b'', type=tarfile.REGTYPE, mode=0o644, **more):
    """What a layer may hold: a TarInfo and its data."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type = len(data), mode, type
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def folder(name, mode=0o755, **more):
    return entry(name, type=tarfile.DIRTYPE, mode=mode, **more)


def link(name, to, **more):
    return entry(name, type=tarfile.SYMTYPE, mode=0o777, linkname=to, **more)


def hardlink(name, to, **more):
    return entry(name, type=tarfile.LNKTYPE, linkname=to, **more)


def layer(*entries, form=tarfile.PAX_FORMAT):
    """An uncompressed archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def busybox(*more):
    """A layer with a shell and its programs, two accounts, and more."""
    with open(BUSYBOX, 'rb') as f:
        program = f.read()
    names = ('sh', 'cat', 'echo', 'ls', 'id', 'env', 'test', 'true', 'stat', 'touch', 'mkdir', 'rm', 'mv', 'sleep', 'grep', 'pwd',
             'wget', 'readlink', 'find', 'chmod', 'wc', 'head', 'sort', 'tr', 'ln', 'dd', 'nc', 'awk', 'sed', 'md5sum')
    return layer(folder('bin'), entry('bin/busybox', program, mode=0o755), *(link(f'bin/{n}', 'busybox') for n in names),
                 folder('etc'), entry('etc/passwd', b'root:x:0:0:root:/root:/bin/sh\ndev:x:4000:4000::/home/dev:/bin/sh\n'),
                 entry('etc/group', b'root:x:0:\ndev:x:4000:\nother:x:4001:\n'), entry('etc/hosts', b'10.9.8.7 wrong\n'),
                 folder('home'), folder('home/dev', uid=4000, gid=4000), folder('root', mode=0o700),
                 folder('tmp', mode=0o1777), folder('usr/local/bin'), *more)


class Image:
    """Layers (uncompressed) and a configuration, with all documents made of them."""

    def __init__(self, *layers, env=(), user=None, workdir=None, compress=gzip.compress, architecture=ARCHITECTURE,
                 algorithm='sha256', **more):
        self.blobs = {}
        self.layers = list(layers)
        config = {'architecture': architecture, 'os': 'linux', 'config': {'Env': list(env), 'Entrypoint': ['/bin/false']},
                  'rootfs': {'type': 'layers', 'diff_ids': [digest_of(x, algorithm) for x in layers]}}
        if user:
            config['config']['User'] = user
        if workdir:
            config['config']['WorkingDir'] = workdir
        self.config = {**config, **more}
        self.descriptors = [self.add(compress(x), 'application/vnd.oci.image.layer.v1.tar+gzip', algorithm) for x in layers]
        self.config_descriptor = self.add(self.config, 'application/vnd.oci.image.config.v1+json', algorithm)
        self.manifest = {'schemaVersion': 2, 'mediaType': MANIFEST, 'config': self.config_descriptor,
                         'layers': self.descriptors}
        self.descriptor = self.add(self.manifest, MANIFEST, algorithm)

    def add(self, data, media, algorithm='sha256'):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.blobs[digest_of(data, algorithm)] = data
        return {'mediaType': media, 'digest': digest_of(data, algorithm), 'size': len(data)}

    def remake(self):
        """The manifest after something in it was changed."""
        self.descriptor = self.add(self.manifest, MANIFEST)
        return self

    def layout(self, path, own=lambda p: p, tag=None, index=None):
        """Writes the folder; more than one call adds."""
        for name, data in self.blobs.items():
            where = os.path.join(path, 'blobs', *name.split(':'))
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with open(where, 'wb') as f:
                f.write(data)
        with open(os.path.join(path, 'oci-layout'), 'w', encoding='utf-8') as f:
            f.write('{"imageLayoutVersion": "1.0.0"}')
        one = dict(self.descriptor)
        if tag:
            one['annotations'] = {'org.opencontainers.image.ref.name': tag}
        with open(os.path.join(path, 'index.json'), 'w', encoding='utf-8') as f:
            json.dump({'schemaVersion': 2, 'manifests': index or [one]}, f)
        for base, folders, files in os.walk(path):
            for name in [base, *(os.path.join(base, n) for n in folders + files)]:
                own(name)
        return path

    def archive(self, path, *names):
        """Writes what `docker save` would."""
        config = json.dumps(self.config).encode()
        files = [entry(f'{digest_of(config)[7:]}.json', config)]
        files += [entry(f'layer{i}/layer.tar', x) for i, x in enumerate(self.layers)]
        manifest = [{'Config': files[0][0].name, 'RepoTags': list(names), 'Layers': [f[0].name for f in files[1:]]}]
        with open(path, 'wb') as f:
            f.write(layer(*files, entry('manifest.json', json.dumps(manifest).encode())))
        return path
