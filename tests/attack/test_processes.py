"""Other processes: those of the host, and the sandbox's own PID 1."""
import os
import re
import signal

from conftest import background, refused

NOT_THERE = ('ESRCH', 'ENOENT', 'EPERM', 'EACCES', 'ENOSYS')
GUARDED = ('EPERM', 'EACCES', 'ENOSYS')


def test_no_process_of_the_host_is_seen(place):
    with background(place, place.probe, 'wait') as p:
        assert str(p.pid) in place.probe_outside('pids').split()
        inside = place.probe_inside('pids').split()[1:]
        assert '1' in inside and len(inside) <= 6, inside
        # kill(2) finds processes without /proc.
        assert place.probe_outside('kill', p.pid, 0) == 'ok'
        assert int(place.probe_inside('scan-pids', 100000).split()[1]) <= 6


def test_hostile_acts_on_a_process_of_the_host(place):
    with background(place, place.probe, 'wait') as p:
        for attempt in (('ptrace-attach', p.pid), ('vm-read', p.pid), ('vm-write', p.pid), ('pidfd-getfd', p.pid, 1),
                        ('kill', p.pid, 0), ('read', f'/proc/{p.pid}/environ'), ('list', f'/proc/{p.pid}/fd'),
                        ('list', f'/proc/{p.pid}/root'), ('read', f'/proc/{p.pid}/cmdline')):
            refused(place, attempt, NOT_THERE)


def test_hostile_acts_on_init(place):
    """PID 1 has the same uid as the node: only its being undumpable, and the filter, keep the node out."""
    with background(place, place.probe, 'wait') as p:
        for name, *more in (('ptrace-attach',), ('ptrace-seize',), ('vm-read',), ('vm-write',), ('pidfd-getfd', 0),
                            ('kcmp',)):
            refused(place, (name, 1, *more), GUARDED, outside=(name, p.pid, *more))
        for file in ('environ', 'maps', 'auxv'):
            refused(place, ('read', f'/proc/1/{file}'), GUARDED, outside=('read', f'/proc/{p.pid}/{file}'))
        refused(place, ('open-write', '/proc/1/mem'), GUARDED, outside=('open-write', f'/proc/{p.pid}/mem'))
        for folder in ('root', 'cwd', 'map_files'):
            refused(place, ('list', f'/proc/1/{folder}'), GUARDED, outside=('list', f'/proc/{p.pid}/{folder}'))
        # Root may list the numbers of another process's descriptors by owning the folder; following one is the harm.
        refused(place, ('read', '/proc/1/fd/0'), GUARDED, outside=('read', f'/proc/{p.pid}/fd/0'))


def test_kill_of_init_does_nothing(place):
    """The kernel drops signals to a PID 1 from its own namespace when there is no handler; the guest has none."""
    for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGTERM, signal.SIGUSR1):
        p = place.inside('/bin/sh', '-c', f'kill -{int(sig)} 1; {place.probe} ids')
        assert p.stdout.startswith('ok uid='), (sig, p)


def test_limits_of_init_cannot_be_set(place):
    """The kernel asks for the same user only; with no descriptors or no memory left PID 1 would end."""
    with background(place, place.probe, 'wait') as p:
        assert place.outside('prlimit', '--pid', str(p.pid), '--nofile=3:3').returncode == 0
    p = place.inside('/bin/sh', '-c', 'prlimit --pid 1 --nofile=3:3 || echo refused; prlimit --nofile=64:64 sh -c "ulimit -n"')
    assert p.stdout == 'refused\n64\n', p


def test_roots_and_working_folders(own_place):
    """/proc/PID/root and /proc/PID/cwd lead out of a chroot when a process from outside is seen."""
    secret = own_place.file(os.path.join(own_place.folder('elsewhere'), 'secret'), 'a secret\n')
    assert own_place.probe_outside('read', '/proc/self/root' + secret).startswith('ok')
    p = own_place.inside('/bin/sh', '-c', f'for d in /proc/[0-9]*; do cat $d/root{secret} $d/cwd/../elsewhere/secret; done')
    assert 'a secret' not in p.stdout


def test_score_of_the_oom_killer_cannot_be_lowered(place):
    refused(place, ('write', '/proc/self/oom_score_adj', '-1000'), ('EACCES', 'EPERM', 'EROFS'),
            works=place.person.uid == 0, why='only root lowers it outside')


def test_forks_and_memory(place):
    """Mildly: what a node takes is given back when it ends, and nothing stays behind."""
    assert place.probe_inside('forks', 200) in ('ok 200', 'errno EAGAIN')
    assert place.probe_inside('memory', 64).split()[0] in ('ok', 'signal', 'errno')


def test_background_processes_end_with_the_sandbox(own_place):
    name = os.path.join(own_place.workspace, 'iterion-attack-daemon')
    os.link(own_place.probe, name)
    p = own_place.inside('/bin/sh', '-c', f'setsid {name} wait > /dev/null 2>&1 & exit 0')
    assert p.returncode == 0
    left = [pid for pid in os.listdir('/proc') if pid.isdigit() and re.search('iterion-attack-daemon', cmdline(pid))]
    assert left == []


def cmdline(pid):
    try:
        with open(f'/proc/{pid}/cmdline', encoding='utf-8', errors='replace') as f:
            return f.read()
    except OSError:
        return ''
