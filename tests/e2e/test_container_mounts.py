"""What an engine mounts is what was checked: it looks paths up again, later and as root, and who can write in the workspace
could put a symlink there in between."""
import os
import sys

import pytest

ROUNDS = int(os.environ.get('ITERION_RACE_ROUNDS', '8'))
KEY = 'a private key of the host\n'
# Swaps the folder and the link for each other for ever.
SWAPPER = '''import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
a, b = (p.encode() for p in sys.argv[1:3])
while libc.renameat2(-100, a, -100, b, 2) == 0:
    pass
'''


@pytest.fixture(params=['docker', 'rootless', 'podman'])
def place(request, place_of):
    with place_of(request.param) as p:
        yield p


def test_mounts_of_every_kind_are_as_they_should_be(place):
    """Nothing is refused that is right: folders, files, read-only ones, below HOME, many of them."""
    user = place.user
    user.folder('home', '.npm')
    data = user.folder('data')
    user.file(os.path.join(data, 'file'), 'data\n')
    more = ''.join(f', "type=bind,source={data},target=/many/{i}"' for i in range(40))
    block = place.block(f'mounts: ["type=bind,source={data},target=/data,readonly", "type=bind,source={data}/file,target=/f", '
                        f'"type=bind,source={data},target={user.home}/x/y", "type=tmpfs,target=/scratch"{more}]')
    place.run(f'cat /data/file /f {user.home}/x/y/file /many/39/file', block=block)
    assert place.outputs()['t0'] == 'data\n' * 4


def test_a_source_that_is_swapped_while_the_container_starts(place):
    user = place.user
    real, other = os.path.join(user.workspace, 'pivot'), os.path.join(user.workspace, 'other')
    user.folder('workspace', 'pivot')
    user.file('pivot/id', 'safe\n')
    user.folder('home', '.ssh')
    user.file(os.path.join(user.home, '.ssh', 'id'), KEY)
    os.symlink(os.path.join(user.home, '.ssh'), other)
    with open(os.path.join(other, 'id'), encoding='utf-8') as f:
        assert f.read() == KEY
    place.workflow('true', block=place.block(f'mounts: ["type=bind,source={real},target=/mnt/it"]'))
    swapper = user.popen(sys.executable, '-c', SWAPPER, real, other)
    seen = {'safe': 0, 'refused': 0}
    try:
        for _ in range(ROUNDS):
            p = user.run('sandbox', 'exec', *place.flags, 'main.bot', '--', 'cat', '/mnt/it/id', timeout=120)
            assert KEY not in p.stdout, p
            assert (p.returncode == 0 and p.stdout == 'safe\n') or (p.returncode == 1 and 'error: ' in p.stderr), p
            seen['safe' if p.returncode == 0 else 'refused'] += 1
        assert swapper.poll() is None, 'the names were not swapped'
    finally:
        swapper.kill()
        swapper.communicate()
    assert seen['refused'] > 0, seen
