"""kill -9 of iterion at any moment leaves nothing: no process, no mount, no namespace, no control group."""
import contextlib
import os
import random
import signal
import time

import pytest

from conftest import AM_ROOT, eventually, says_up

ROUNDS = 10
SEED = 20260101  # the moments are random but the same in every run


def read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return f.read()
    except OSError:
        return ''


def processes_of(place):
    """Processes that belong to the place: by command line, by program, and (for root, who may look) by a mount of its
    workspace in their mount namespace; the last finds every process of a sandbox whatever it is called."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if int(pid) == os.getpid():
            continue
        try:
            exe = os.readlink(f'/proc/{pid}/exe')
        except OSError:
            exe = ''
        mounted = any(line.split()[4:5] == [place.workspace] for line in read(f'/proc/{pid}/mountinfo').splitlines())
        if place.base in read(f'/proc/{pid}/cmdline') or exe.startswith(place.base) or mounted:
            found.append(f'{pid} {read(f"/proc/{pid}/comm").strip()}')
    return found


def traces_on_the_host(place):
    """Mounts in the host's own mount namespace, and control groups."""
    found = [line for line in read('/proc/self/mountinfo').splitlines() if place.base in line or 'iterion' in line]
    for top, folders, _ in os.walk('/sys/fs/cgroup'):
        found += [os.path.join(top, f) for f in folders if 'iterion' in f]
    return found


def namespaces_of(pids):
    found = set()
    for pid in pids:
        for kind in ('mnt', 'pid', 'net', 'user'):
            try:
                found.add(os.readlink(f'/proc/{pid}/ns/{kind}'))
            except OSError:
                pass
    return found


def namespaces_in_use():
    return namespaces_of(filter(str.isdigit, os.listdir('/proc')))


COMMAND = 'setsid {probe} wait >&2 & setsid -f {probe} wait >&2; echo up; exec {probe} wait'


@contextlib.contextmanager
def begun(place):
    p = place.start_inside('/bin/sh', '-c', COMMAND.format(probe=place.probe))
    try:
        yield p
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
        p.stderr.close()
        for line in processes_of(place):  # what a failed test left
            with contextlib.suppress(OSError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


def test_nothing_is_left_when_it_was_running(own_place):
    before = traces_on_the_host(own_place)
    mine = namespaces_of([os.getpid()])
    with begun(own_place) as p:
        says_up(p)
        eventually(lambda: len(processes_of(own_place)) < 4, 5, 'not all processes of the sandbox were seen')
        spaces = namespaces_of(line.split()[0] for line in processes_of(own_place)) - mine
        assert spaces or not AM_ROOT
        p.kill()
        p.wait()
        eventually(lambda: processes_of(own_place), 2, 'processes are left')
        eventually(lambda: namespaces_in_use() & spaces, 2, 'namespaces are left')
        assert traces_on_the_host(own_place) == before


@pytest.mark.parametrize('round_number', range(ROUNDS))
def test_nothing_is_left_at_a_random_moment(own_place, round_number):
    delay = random.Random(SEED + round_number).uniform(0, 0.12)
    before = traces_on_the_host(own_place)
    with begun(own_place) as p:
        time.sleep(delay)
        p.kill()
        p.wait()
        eventually(lambda: processes_of(own_place), 2, f'(killed after {delay * 1000:.0f} ms) processes are left')
        assert traces_on_the_host(own_place) == before


@pytest.mark.parametrize('sig', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(own_place, sig):
    with begun(own_place) as p:
        says_up(p)
        p.send_signal(sig)
        p.wait(20)
        assert p.returncode != 0
        eventually(lambda: processes_of(own_place), 2, 'processes are left')
