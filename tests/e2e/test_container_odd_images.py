"""Images that are not as one would like them: a run works in them all the same, or says what is wrong with them."""
import contextlib
import io
import os
import tarfile

import pytest

import engines
from conftest import of_type

LINK, FOLDER = tarfile.SYMTYPE, tarfile.DIRTYPE


def layer(*changes, without=()):
    """The test image's files, with entries put in their place: (name, type, link or bytes)."""
    out, whole = io.BytesIO(), engines.busybox_layer()
    gone = [name for name, *_ in changes] + list(without)
    with tarfile.open(fileobj=io.BytesIO(whole)) as old, tarfile.open(fileobj=out, mode='w') as new:
        for m in old.getmembers():
            if not any(m.name == g or m.name.startswith(g + '/') for g in gone):
                new.addfile(m, old.extractfile(m) if m.isfile() else None)
        for name, kind, value in changes:
            if kind == LINK:
                engines.add_file(new, name, type=LINK, linkname=value)
            elif kind == FOLDER:
                engines.add_file(new, name, type=FOLDER, mode=0o755)
            else:
                engines.add_file(new, name, value)
    return out.getvalue()


# What is odd: what the image's configuration says, how its files differ.
WORKS = {
    'no working folder, no entrypoint, no such user': (
        {'WorkingDir': '/no/such/place', 'Entrypoint': ['/no/such/program'], 'User': 'nobody-here'}, {}),
    'variables': ({'Env': ['PATH=/nowhere', 'ODD=a\nLD_PRELOAD=/x', 'LD_LIBRARY_PATH=/x', 'http_proxy=http://127.0.0.1:9',
                           'NO_PROXY=*', 'ITERION_RUN_ID=its own']}, {}),
    'volumes': ({'Volumes': {'/run': {}, '/tmp': {}, '/home': {}, '/run/iterion': {}}}, {}),
    'labels of ours': ({'Labels': {'iterion.io/managed': 'no', 'iterion.io/run-id': 'x', 'iterion.io/owner': '1:1:1'}},
                       {}),
    'links for /run and /tmp': ({}, {'changes': [('run', LINK, '/srv'), ('tmp', LINK, '/var')]}),
    'a file for /home, none of /etc': ({}, {'changes': [('home', None, b'')], 'without': ['etc']}),
}
FAILS = {
    'a file for /run': ({}, {'changes': [('run', None, b'')]}, ('not a directory', 'another image')),
    # The engine quotes the link. It must not be taken for its own words about a guest that cannot run, which would cost
    # the sandbox its walls.
    'a link for /run that spells a failure': (
        {}, {'changes': [('run', LINK, '/exec format error'), ('exec format error', None, b'')]}, 'another image'),
    'no shell': ({}, {'without': ['bin/sh']}, ('/bin/sh', 'an image that has it')),
}


@contextlib.contextmanager
def odd_image(engine, config, changes=(), without=()):
    tag = 'localhost/odd:1'
    engine.load(engines.image_archive(engine.world.path('odd.tar'), tag, layer(*changes, without=without), **config))
    yield tag
    engine.ok('rmi', '--force', tag)


@pytest.mark.parametrize('name', list(WORKS))
def test_works(container, name):
    config, files = WORKS[name]
    with odd_image(container.engine, config, **files) as tag:
        container.run('/bin/pwd; echo $http_proxy; echo $ITERION_RUN_ID; echo x >written',
                      block=container.block(network='allowlist', image=tag))
    user = container.user
    where, proxy, run = container.outputs()['t0'].split()
    assert where.endswith('/workspace') and proxy.startswith('http://iterion:') and run == user.runs()[-1]
    assert os.stat(os.path.join(user.workspace, 'written')).st_uid == user.uid
    started = of_type(user.events(), 'sandbox_started')[0]
    assert started['network']['enforcement'] == 'namespace'


@pytest.mark.parametrize('name', list(FAILS))
def test_fails_in_so_many_words(container, name):
    config, files, says = FAILS[name]
    with odd_image(container.engine, config, **files) as tag:
        container.workflow('true', block=container.block(network='allowlist', image=tag))
        container.user.fails('run', 'main.bot', *container.flags, code=1, says=says)
    assert not of_type(container.user.events(), 'sandbox_warning')
