"""Who a node is, and what it was given: capabilities, set-user-ID programs, environment, descriptors, core dumps."""
import os
import pty
import re
import shutil
import struct
import subprocess

import pytest

from conftest import AM_ROOT, answer

SECRET = 'iterion-attack-secret-value'


@pytest.mark.skipif(not AM_ROOT, reason="needs root: every test of this suite runs for an ordinary user only")
def test_both_people_are_there(ordinary):
    assert ordinary.uid != 0 and os.getuid() == 0


def status_of(text):
    return dict(re.findall(r'^(\w+):\s*(.*)$', text, re.M))


def test_no_capabilities(place):
    outside = status_of(place.outside('/bin/cat', '/proc/self/status').stdout)
    inside = status_of(place.inside('/bin/cat', '/proc/self/status').stdout)
    assert outside['CapBnd'] != '0000000000000000' and outside['NoNewPrivs'] == '0' and outside['Seccomp'] == '0'
    for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):
        assert inside[name] == '0000000000000000', f'{name} {inside[name]}'
    assert inside['NoNewPrivs'] == '1'
    assert inside['Seccomp'] == '2'
    assert inside['Uid'].split() == [str(place.person.uid)] * 4
    assert inside['Gid'].split() == [str(place.person.gid)] * 4


def needs_suid(folder):
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip(f'{folder} is mounted nosuid, so that nothing could be shown outside')


@pytest.mark.skipif(not AM_ROOT, reason='needs root, to make the set-user-ID program')
def test_set_user_id_programs_give_nothing(own_place, ordinary):
    """A program of another user with the bit set: root's for the ordinary user, the ordinary user's for root."""
    needs_suid(own_place.workspace)
    target = 0 if own_place.person.uid else ordinary.uid
    program = os.path.join(own_place.workspace, 'suid-probe')
    shutil.copy(own_place.probe, program)
    os.chown(program, target, target)
    os.chmod(program, 0o6755)
    assert f'euid={target} ' in answer(own_place.outside(program, 'ids'))
    got = answer(own_place.inside(program, 'ids'))
    assert f'euid={own_place.person.uid} ' in got and f'egid={own_place.person.gid} ' in got


@pytest.mark.skipif(not AM_ROOT, reason='needs root, to give a file capabilities')
def test_file_capabilities_give_nothing(own_place):
    needs_suid(own_place.workspace)
    program = os.path.join(own_place.workspace, 'capable-probe')
    shutil.copy(own_place.probe, program)
    cap_net_raw = 1 << 13
    try:  # struct vfs_cap_data, version 2, effective
        os.setxattr(program, 'security.capability', struct.pack('<5I', 0x02000001, cap_net_raw, 0, 0, 0))
    except OSError as e:
        pytest.skip(f'this file system keeps no capabilities ({e})')
    assert answer(own_place.outside(program, 'socket', 'raw')) == 'ok'
    assert answer(own_place.inside(program, 'socket', 'raw')) in ('errno EPERM', 'errno EACCES')


def test_programs_of_the_system_with_the_bit_set(place):
    """su, mount and passwd run without their privilege."""
    for program in ('/bin/su', '/bin/mount', '/usr/bin/passwd', '/usr/bin/sudo'):
        if os.path.exists(program):
            p = place.inside('/bin/sh', '-c', f'{program} --version >/dev/null 2>&1; {program} root -c id </dev/null; true')
            assert 'uid=0' not in p.stdout or place.person.uid == 0


def test_environment_of_the_host(place):
    """Variables of iterion's own environment reach no node: neither its own nor by another process's /proc."""
    env = {'ITERION_ATTACK_SECRET': SECRET, 'AWS_SECRET_ACCESS_KEY': SECRET, 'ANTHROPIC_API_KEY': SECRET,
           'SSH_AUTH_SOCK': f'/tmp/{SECRET}', 'LD_PRELOAD_NOTE': SECRET}
    assert SECRET in place.outside('/usr/bin/env', env=env).stdout
    p = place.inside('/bin/sh', '-c', 'env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null', env=env)
    assert 'PATH=' in p.stdout and SECRET not in p.stdout


def test_no_inherited_descriptors(own_place):
    """iterion is started with descriptors of a secret file and of a folder of the host: none arrives inside."""
    secret = own_place.file(os.path.join(own_place.folder('elsewhere'), 'secret'), 'a secret\n')
    fds = [os.open(secret, os.O_RDONLY), os.open('/', os.O_RDONLY | os.O_DIRECTORY), os.open(secret, os.O_RDWR)]
    try:
        assert len(own_place.probe_outside('fds', pass_fds=fds).split()) > 4
        assert own_place.probe_inside('fds', pass_fds=fds).split() == ['ok', '0', '1', '2']
    finally:
        for fd in fds:
            os.close(fd)


def test_no_core_dumps(own_place):
    # 1 keeps the kernel from a handler that it pipes to; who came with a hard limit of 0 cannot have it.
    hard = own_place.probe_outside('core-limit').split()[2]
    assert own_place.probe_inside('core-limit') in (('ok 1 1',) if hard != '0' else ('ok 1 1', 'ok 0 0'))
    before = sorted(os.listdir(own_place.workspace))
    assert own_place.probe_inside('abort') == 'signal SIGABRT'
    assert sorted(os.listdir(own_place.workspace)) == before


def test_a_hard_limit_of_no_core_dumps_is_no_obstacle(own_place):
    """As many log-ins have it."""
    p = own_place.outside('/bin/sh', '-c', 'ulimit -c 0; exec "$@"', 'sh', *own_place.argv(own_place.probe, 'core-limit'))
    assert answer(p) in ('ok 1 1', 'ok 0 0')


def test_terminal_input_cannot_be_pushed(place):
    """With a terminal: what is pushed into its input would be read by the user's shell after the sandbox ended."""
    main, sub = pty.openpty()
    try:
        for attempt in ('tiocsti', 'tiocsti-high-bits'):
            p = subprocess.run(place.argv(place.probe, attempt), env=place.env, cwd=place.workspace, stdin=sub,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30, check=False,
                               **place.person.popen_args())
            assert answer(p) in ('errno EPERM', 'errno EACCES')
    finally:
        os.close(main)
        os.close(sub)


def test_names_of_the_sandbox(place):
    """The host's name is no secret, but a sandbox that may change it would not have one of its own."""
    p = place.inside('/bin/sh', '-c', 'cat /proc/sys/kernel/hostname')
    assert p.returncode == 0 and p.stdout.strip()
