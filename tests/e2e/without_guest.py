"""What the tests of policies without iterion's program in the container share."""
import os
import shutil

import engines

BRIDGE = '172.17.0.1'


def hex_of(address):
    """As /proc/net/tcp writes it."""
    return ''.join(f'{int(part):02X}' for part in reversed(address.split('.')))


def wget(host, port, path='/x'):
    return f'busybox wget -q -O - http://{host}:{port}{path} 2>&1'


def policy(place, *lines, mode='allowlist', rules=('good.test',)):
    return place.block(*lines, network=mode, rules=rules)


RESOLVE = ('--resolve', 'good.test:127.0.0.1', '--resolve', 'evil.test:127.0.0.1')


def start_waiting(place, **env):
    """A run whose node waits; its proxy's port."""
    user = place.user
    place.workflow('echo $http_proxy >proxy.new; mv proxy.new proxy; until test -e go; do sleep 0.05; done',
                   block=policy(place))
    p = user.start('run', 'main.bot', *place.flags, *RESOLVE, env=env)
    path = os.path.join(user.workspace, 'proxy')
    engines.until(lambda: os.path.exists(path) or p.poll() is not None, 'the node started')
    assert p.poll() is None, p.communicate()
    with open(path, encoding='ascii') as f:
        return p, int(f.read().strip().rsplit(':', 1)[1])


def finish(place, p):
    place.user.file('go', '')
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, (out, err)


def in_a_machine(user):
    """The user's docker, whose daemon is in a virtual machine: its processes have numbers of their own there."""
    folder = user.folder('in-a-machine')
    path = os.path.join(folder, 'docker')
    with open(path, 'w', encoding='ascii') as f:
        f.write('#!/bin/sh\ncase "$*" in *State.Pid*) echo 4194304 0; exit ;; esac\n'
                f'exec {shutil.which("docker")} "$@"\n')
    os.chmod(path, 0o755)
    user.env['PATH'] = f'{folder}:{user.env["PATH"]}'
