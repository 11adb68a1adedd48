"""Limits: what a program inside tries in order to take more than it was given."""
import os

import pytest

WORKFLOW = ('tool t:\n  command: `true`\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n    limits:\n'
            '      memory: "96m"\n      pids: 40\n  t -> done\n')
HOG = 'b = bytearray(400 << 20); print(len(b))'
PYTHON = '/usr/bin/python3'


@pytest.fixture
def limited(own_place):
    """The command line of a sandbox with limits."""
    path = own_place.file(os.path.join(own_place.workspace, 'limits.bot'), WORKFLOW)

    def inside(*command):
        return own_place.inside(*command, flags=(path,))
    own_place.limited = inside
    return own_place


def test_memory_is_not_had_by_raising_the_limit(limited):
    """A hard limit of one's own, or none at all: either way the bytes are not given."""
    script = ('import resource as r, sys\n'
              'for what in (r.RLIMIT_DATA, r.RLIMIT_AS, r.RLIMIT_NPROC):\n'
              '    try: r.setrlimit(what, (r.RLIM_INFINITY, r.RLIM_INFINITY))\n'
              '    except (ValueError, OSError): pass\n' + HOG)
    assert limited.outside(PYTHON, '-c', script).stdout == '419430400\n'
    p = limited.limited(PYTHON, '-c', script)
    assert '419430400' not in p.stdout and p.returncode != 0
    assert limited.limited('echo', 'alive').stdout == 'alive\n'


def test_fork_bomb(limited):
    """Children that leave the session and double: the sandbox stops at its number, and ends at once."""
    script = ('import os, signal\n'
              'n = 0\n'
              'try:\n'
              '    while n < 200:\n'
              '        if os.fork() == 0:\n'
              '            os.setsid()\n'
              '            signal.pause()\n'
              '        n += 1\n'
              'except OSError as e: print(n, e.errno, flush=True)\n'
              'else: print(n, flush=True)\n'
              'os._exit(0)\n')
    if limited.person.uid == 0 and not os.access('/sys/fs/cgroup/pids', os.W_OK) and not os.access(
            '/sys/fs/cgroup/cgroup.procs', os.W_OK):
        pytest.skip('needs a cgroup for the processes of root')
    p = limited.limited(PYTHON, '-c', script)
    n, errno = p.stdout.split()
    assert 10 < int(n) < 40 and errno == '11', p


def test_cgroups_of_the_host_are_not_there(limited):
    outside = limited.outside('/bin/sh', '-c', 'ls /sys/fs/cgroup; cat /proc/self/cgroup')
    assert len(outside.stdout.split()) > 2
    p = limited.limited('/bin/sh', '-c', 'ls -A /sys; ls /sys/fs/cgroup; cat /proc/self/cgroup /proc/1/cgroup; '
                        'grep -c -e "- cgroup" /proc/self/mountinfo')
    lines = p.stdout.split('\n')
    assert lines[-2] == '0', p
    assert all(line.endswith(':/') for line in lines[:-2]), p


def test_no_cgroup_file_system_can_be_mounted(limited):
    for kind, options in (('cgroup2', ''), ('cgroup', 'memory'), ('cgroup', 'pids'), ('cgroup', 'cpu')):
        p = limited.limited('/bin/sh', '-c', f'mkdir -p /tmp/c; mount -t {kind} -o "{options}" c /tmp/c && echo mounted; ls -A /tmp/c')
        assert p.stdout == '', p


def test_of_a_process_inside_nothing_can_be_moved(limited):
    """By the one descriptor that was open on a cgroup while the sandbox was made: none is inherited."""
    p = limited.limited('/bin/sh', '-c', 'ls -l /proc/self/fd /proc/1/fd 2>&1 | grep -c cgroup')
    assert p.stdout == '0\n', p
