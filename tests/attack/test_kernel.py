"""System calls: namespaces, mounts, and the kernel's rarer doors."""
import pytest

from conftest import refused

# Attempt, what the kernel answers inside, and who can show outside that it works there: both, root, or nobody (then
# with the reason why).
DOORS = [
    (('keyctl',), ('EPERM', 'ENOSYS'), 'both'),
    (('add-key',), ('EPERM', 'ENOSYS'), 'both'),
    (('request-key',), ('EPERM', 'ENOSYS'), 'both'),
    (('bpf',), ('EPERM', 'ENOSYS'), 'root'),
    (('perf',), ('EPERM', 'ENOSYS'), 'both'),
    (('io-uring',), ('EPERM', 'ENOSYS'), 'both'),
    (('userfaultfd',), ('EPERM', 'ENOSYS'), 'both'),
    (('init-module',), ('EPERM', 'ENOSYS'), 'no module is loaded into a host by a test'),
    (('finit-module',), ('EPERM', 'ENOSYS'), 'no module is loaded into a host by a test'),
    (('delete-module',), ('EPERM', 'ENOSYS'), 'no module is unloaded from a host by a test'),
    (('kexec-load',), ('EPERM', 'ENOSYS'), 'no kernel is loaded into a host by a test'),
    (('reboot',), ('EPERM', 'ENOSYS'), 'a host is not to be rebooted by a test'),
    (('swapon',), ('EPERM', 'ENOSYS'), 'a host gets no swap by a test'),
    (('set-clock',), ('EPERM', 'ENOSYS'), "a host's clock is not to be set by a test"),
    (('set-hostname',), ('EPERM', 'ENOSYS'), 'root'),
    (('kernel-log',), ('EPERM', 'ENOSYS'), 'root'),
    (('iopl',), ('EPERM', 'ENOSYS'), 'many kernels are built without it'),
    (('tiocsti',), ('EPERM', 'EACCES'), 'both'),
    (('tiocsti-high-bits',), ('EPERM', 'EACCES'), 'both'),
    (('tioclinux',), ('EPERM', 'EACCES'), 'works on a virtual console only'),
    (('call-32bit',), ('EPERM', 'ENOSYS', 'EACCES', 'signal SIGSYS', 'signal SIGSEGV'), 'both'),
    (('call-x32',), ('EPERM', 'ENOSYS', 'EACCES', 'signal SIGSYS'), 'most kernels are built without it'),
    (('socket', 'raw'), ('EPERM', 'EACCES'), 'root'),
    (('socket', 'raw6'), ('EPERM', 'EACCES'), 'root'),
    (('socket', 'packet'), ('EPERM', 'EACCES', 'EAFNOSUPPORT'), 'root'),
    (('socket', 'netlink-audit'), ('EPERM', 'EACCES', 'EAFNOSUPPORT', 'EPROTONOSUPPORT'), 'root'),
    (('socket', 'vsock'), ('EPERM', 'EACCES', 'EAFNOSUPPORT'), 'both'),
    (('socket', 'alg'), ('EPERM', 'EACCES', 'EAFNOSUPPORT'), 'many kernels are built without it'),
    (('socket', 'xdp'), ('EPERM', 'EACCES', 'EAFNOSUPPORT'), 'many kernels are built without it'),
    # EINVAL: root is no user of the sandbox's user namespace.
    (('become-root',), ('EPERM', 'EINVAL'), 'root'),
    (('capset', 21), ('EPERM',), 'root'),
    (('capset', 12), ('EPERM',), 'root'),
]


@pytest.mark.parametrize('attempt, errnos, shown', DOORS, ids=['-'.join(map(str, d[0])) for d in DOORS])
def test_doors(place, attempt, errnos, shown):
    works = shown == 'both' or (shown == 'root' and place.person.uid == 0)
    refused(place, attempt, errnos, works=works, why=f'outside: {shown}')


KINDS = ['user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup', 'time']


# The low byte of clone's flags is the exit signal, and CLONE_NEWTIME lies in it: that call cannot say it.
CALLS = [(call, kind) for call in ('unshare', 'clone', 'clone3', 'clone-high-bits') for kind in KINDS
         if kind != 'time' or call in ('unshare', 'clone3')]


@pytest.mark.parametrize('call, kind', CALLS)
def test_new_namespaces(place, call, kind):
    """clone3 passes its flags in memory, where a filter cannot look: it must not exist at all."""
    errnos = ('ENOSYS',) if call == 'clone3' else ('EPERM', 'ENOSYS')
    works = place.person.uid == 0 or kind == 'user'
    refused(place, (call, kind), errnos, works=works, why='outside only root makes this one without the user namespace')


MOUNTS = [
    (('mount-tmpfs', '/tmp'), 'ok'),
    (('mount-proc', '/tmp'), None),
    (('mount-bind', '/usr', '/tmp'), 'ok'),
    (('remount-rw', '/'), None),
    (('remount-rw', '/usr'), None),
    (('umount', '/proc'), None),
    (('umount', '/tmp'), None),
    (('pivot-root', '/'), None),
    (('chroot', '/tmp'), 'ok'),
    (('fsopen', 'tmpfs'), 'ok'),
    (('open-tree', '/'), 'ok'),
    (('move-mount', '/usr', '/tmp'), None),
    (('mount-setattr', '/'), None),
]


@pytest.mark.parametrize('attempt, shown', MOUNTS, ids=['-'.join(m[0]).replace('/', '') for m in MOUNTS])
def test_mounts(place, attempt, shown):
    """Outside they are shown in a mount namespace of their own; None: it would need a mount of its own to act on."""
    outside = place.probe_outside(*attempt, wrap=place.in_namespace()) if shown else None
    refused(place, attempt, ('EPERM', 'ENOSYS', 'EACCES'), outside=outside, works=bool(shown),
            why='the same call on a mount that does not exist outside')


def test_enter_namespaces(place):
    outside = place.probe_outside('setns', '/proc/self/ns/mnt', wrap=place.in_namespace())
    refused(place, ('setns', '/proc/self/ns/mnt'), ('EPERM', 'ENOSYS'), outside=outside)
    refused(place, ('setns', '/proc/1/ns/mnt'), ('EPERM', 'ENOSYS', 'EACCES'), works=False, why="pid 1 is another's")
    refused(place, ('setns-pidfd', 1), ('EPERM', 'ENOSYS', 'EACCES'), works=False, why="pid 1 is another's")


def test_everyday_calls_work(place):
    """The filter lets ordinary programs live: a thread, a pipe, a socket pair, a child, a lock, a timer."""
    code = ('import threading, subprocess, socket, tempfile, fcntl, select, os\n'
            't = threading.Thread(target=lambda: None); t.start(); t.join()\n'
            'assert subprocess.run(["/bin/true"]).returncode == 0\n'
            'a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"\n'
            'f = tempfile.TemporaryFile(); fcntl.flock(f, fcntl.LOCK_EX)\n'
            'select.epoll().close(); os.memfd_create("x"); print("fine")\n')
    p = place.inside('/usr/bin/python3', '-c', code)
    assert p.stdout == 'fine\n', p.stderr
