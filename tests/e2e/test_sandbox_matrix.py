"""Which sandbox comes of every combination of flag, block, environment, devcontainer.json and the engines that answer.

The whole program is asked, by `sandbox plan`. The tables are written from the documentation (docs/sandbox.md,
docs/drivers.md); of the rows of one the first that matches decides. The engines are stubs: what counts here is whether
one answers.
"""
import itertools
import json
import os
import socket

import pytest

FLAGS = {'-': (), 'none': ('--sandbox', 'none'), 'auto': ('--sandbox', 'auto')}
BLOCKS = {
    '-': '',
    'none': '  sandbox: none\n',
    'auto': '  sandbox: auto\n',
    'inline': '  sandbox:\n    env:\n      A: "1"\n',
    'image': '  sandbox:\n    image: "of-block:1"\n',
}
ENVS = {'-': {}, 'none': {'ITERION_SANDBOX_DEFAULT': 'none'}, 'auto': {'ITERION_SANDBOX_DEFAULT': 'auto'}}
FILES = {'-': None, 'env': {'containerEnv': {'F': '1'}}, 'image': {'image': 'of-file:1'}}
# Who serves a spec with an image or in mode auto; None: nobody but native.
ENGINES = {'no engine': None, 'docker': 'docker', 'podman': 'podman', 'both': 'docker', 'docker without its daemon': None,
           'docker that fails': None}

# flag, block, environment -> mode and source.
MODES = [
    ('none', '*', '*', 'none', 'cli flag --sandbox'),
    ('auto', 'inline image', '*', 'inline', 'workflow sandbox: block'),
    ('auto', '*', '*', 'auto', 'cli flag --sandbox'),
    ('-', 'none', '*', 'none', 'workflow sandbox: block'),
    ('-', 'auto', '*', 'auto', 'workflow sandbox: block'),
    ('-', 'inline image', '*', 'inline', 'workflow sandbox: block'),
    ('-', '-', 'none', 'none', 'ITERION_SANDBOX_DEFAULT'),
    ('-', '-', 'auto', 'auto', 'ITERION_SANDBOX_DEFAULT'),
    ('-', '-', '-', 'none', 'default'),
]
BUILTIN = 'the default image'
# mode, block, file, whether an engine answers -> driver ("engine": the one that answers) and image.
IMAGES = [
    ('none', '*', '*', '*', 'noop', None),
    ('inline', 'inline', '*', '*', 'native', None),
    ('inline', 'image', '*', 'yes', 'engine', 'of-block:1'),
    ('auto', '*', 'image', 'yes', 'engine', 'of-file:1'),
    ('auto', '*', '*', 'yes', 'engine', BUILTIN),
    ('inline', 'image', '*', 'no', 'native', 'of-block:1'),
    ('auto', '*', 'image', 'no', 'native', 'of-file:1'),
    ('auto', '*', '*', 'no', 'native', None),
]


def first(table, *values):
    for i, row in enumerate(table):
        if all(p == '*' or v in p.split() for p, v in zip(row, values)):
            return i, row[len(values):]
    raise AssertionError(f'no row for {values}')


class Engines:
    """A PATH with stubs of engines, and the socket of docker's daemon."""

    def __init__(self, user, which):
        self.folder = user.folder('engines')
        self.env = {'PATH': self.folder, 'DOCKER_HOST': f'unix://{self.folder}/docker.sock'}
        self.server = None
        if which in ('docker', 'both', 'docker that fails', 'docker without its daemon'):
            self.stub(user, 'docker', 1 if which == 'docker that fails' else 0)
        if which in ('podman', 'both'):
            self.stub(user, 'podman', 0)
        if which != 'docker without its daemon':
            self.server = socket.socket(socket.AF_UNIX)
            self.server.bind(f'{self.folder}/docker.sock')
            self.server.listen(1000)
            os.chmod(f'{self.folder}/docker.sock', 0o666)

    def stub(self, user, name, code):
        user.file(f'{self.folder}/{name}', f'#!/bin/sh\necho 99.9.9\nexit {code}\n', 0o755)

    def close(self):
        if self.server:
            self.server.close()


@pytest.mark.parametrize('which', ENGINES)
def test_every_combination(me, which):
    engines = Engines(me, which)
    engine = ENGINES[which]
    modes, images = set(), set()
    me.folder('workspace', '.devcontainer')
    path = os.path.join(me.workspace, '.devcontainer', 'devcontainer.json')
    for block, text in BLOCKS.items():
        me.file(f'w{block}.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n' + text + '  t -> done\n')
    combinations = list(itertools.product(FILES, FLAGS, BLOCKS, ENVS))
    for file, flag, block, env in combinations:
        if FILES[file] is None:
            if os.path.exists(path):
                os.unlink(path)
        else:
            me.file(path, json.dumps(FILES[file]))
        shown = f'{which}: file {file}, flag {flag}, block {block}, environment {env}'
        m, (mode, source) = first(MODES, flag, block, env)
        i, (driver, image) = first(IMAGES, mode, block, file, 'yes' if engine else 'no')
        modes.add(m)
        images.add(i)
        p = me.run('sandbox', 'plan', '--json', *FLAGS[flag], f'w{block}.bot', env={**engines.env, **ENVS[env]})
        assert p.returncode == 0, f'{shown}\n{p.stderr}'
        said = json.loads(p.stdout)
        got = said['spec']['image']
        assert (said['mode'], said['source']) == (mode, source), shown
        assert said['driver'] == (engine if driver == 'engine' else driver), shown
        assert got.startswith('ghcr.io/socialgouv/iterion-sandbox-slim:') if image == BUILTIN else got == image, shown
        # devcontainer.json counts in mode auto only.
        assert ('devcontainer' in said) == (mode == 'auto' and file != '-'), shown
        assert ('F' in said['env']) == (mode == 'auto' and file == 'env'), shown
    engines.close()
    assert len(combinations) == 135 and modes == set(range(len(MODES)))
    assert images == {k for k, row in enumerate(IMAGES) if row[3] in ('*', 'yes' if engine else 'no')}


@pytest.mark.parametrize('name, code, says', [
    ('docker', 0, 'docker'), ('podman', 0, 'podman'), ('native', 0, 'native'), ('noop', 0, 'noop'),
    ('kubernets', 2, 'none of that name'), ('dokcer', 2, 'Did you mean docker?'),
])
@pytest.mark.parametrize('how', ['flag', 'environment'])
def test_a_driver_by_name(me, name, code, says, how):
    """Asked for by name it is that one, whatever answers."""
    me.file('w.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  sandbox: auto\n  t -> done\n')
    engines = Engines(me, 'no engine')
    flags = ('--sandbox-driver', name) if how == 'flag' else ()
    env = {'ITERION_SANDBOX_DRIVER': name} if how == 'environment' else {}
    p = me.run('sandbox', 'plan', '--json', 'w.bot', *flags, env={**engines.env, **env})
    engines.close()
    assert p.returncode == code, p
    if code == 0:
        said = json.loads(p.stdout)
        assert said['driver'] == says
        assert said['driver_reason'] == ('cli flag --sandbox-driver' if how == 'flag' else 'ITERION_SANDBOX_DRIVER')
    else:
        assert says in p.stderr and 'hint: ' in p.stderr
