"""A kernel of the test's own: user-mode Linux, a program like others, on this machine's files, which it can only read.

It has cgroups of version 2 with all controllers, and systemd as its first process with a bus and one user's manager,
whatever the machine itself has. Only what is mounted over can be written there: /run, /mnt, /var/lib, /var/log.
"""
import json
import os
import shutil
import signal
import subprocess

MARK = 'RESULT '

FIRST = '''#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs -o mode=755 t /run
for d in /mnt /var/lib /var/log; do mount -t tmpfs t $d; done
mount -t cgroup2 -o nsdelegate c /sys/fs/cgroup
mkdir -p /run/systemd/system /run/user/{uid} /run/dbus
chown {uid} /run/user/{uid}
chmod 700 /run/user/{uid}
cp {folder}/*.service {folder}/*.socket /run/systemd/system
exec {systemd} --unit=test.service
'''
UNITS = {
    'dbus.socket': 'ListenStream=/run/dbus/system_bus_socket',
    'dbus.service': 'Type=notify\nExecStart=/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile '
                    '--systemd-activation',
    'user@.service': 'Type=notify\nUser=%i\nSlice=user-%i.slice\nDelegate=pids memory cpu\n'
                     'Environment=XDG_RUNTIME_DIR=/run/user/%i HOME=/mnt\nExecStart={systemd} --user',
    'test.service': 'Type=oneshot\nExecStart=/bin/sh {folder}/test.sh',
}
NEEDS = {'dbus.service': 'dbus.socket', 'user@.service': 'dbus.service', 'test.service': 'user@{uid}.service'}
TEST = '''exec >/dev/console 2>&1
/usr/bin/python3 {script}
poweroff -f
'''


def missing():
    """What is not installed, or None."""
    for program in ('linux.uml', '/lib/systemd/systemd', '/usr/bin/dbus-daemon', '/usr/bin/python3'):
        if not shutil.which(program):
            return program
    return None


def boot(folder, script, uid, timeout=170):
    """Runs the Python script as root there, beside this user's manager; what it printed behind MARK, one JSON a line."""
    words = {'folder': folder, 'script': script, 'uid': uid, 'systemd': '/lib/systemd/systemd'}
    for name, text in UNITS.items():
        needs = f'Requires={NEEDS[name]}\nAfter={NEEDS[name]}\n' if name in NEEDS else ''
        kind = '[Socket]' if name.endswith('.socket') else '[Service]'
        with open(os.path.join(folder, name), 'w', encoding='ascii') as f:
            f.write(f'[Unit]\nDefaultDependencies=no\n{needs}{kind}\n{text}\n'.format(**words))
    for name, text in (('first', FIRST), ('test.sh', TEST)):
        path = os.path.join(folder, name)
        with open(path, 'w', encoding='ascii') as f:
            f.write(text.format(**words))
        os.chmod(path, 0o755)
    argv = ['linux.uml', 'mem=700M', 'root=/dev/root', 'rootfstype=hostfs', 'rootflags=/', 'ro', 'quiet',
            f'init={folder}/first', 'con=null', 'con0=null,fd:1', 'ssl=null', f'umid=iterion-{os.getpid()}']
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         start_new_session=True, env={**os.environ, 'HOME': folder})
    try:
        out, _ = p.communicate(timeout=timeout)
    finally:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
            p.communicate()
    text = out.decode(errors='replace')
    lines = [line.split(MARK, 1)[1] for line in text.splitlines() if MARK in line]
    return [json.loads(line) for line in lines], text
