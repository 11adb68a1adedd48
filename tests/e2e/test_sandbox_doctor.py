"""`sandbox doctor`: what this machine can do, asked all at once."""
import json
import os

import pytest
from conftest import skip
from test_sandbox_matrix import Engines
from waiting import until

HOST = ['kernel', 'user_namespaces', 'overlay_in_user_namespaces', 'cgroups', 'limits', 'seccomp', 'landlock',
        'subuid']
PROGRAMS = ['docker', 'docker_buildx', 'podman', 'kubectl', 'pasta', 'git']


def doctor(user, *args, **more):
    return json.loads(user.ok('sandbox', 'doctor', '--json', *args, **more).stdout)


def by_name(rows, key='id'):
    return {row[key]: row for row in rows}


def test_the_document(user):
    said = doctor(user)
    assert list(said) == ['driver', 'drivers', 'host', 'versions', 'defaults']
    assert [r['id'] for r in said['host']] == HOST and [r['id'] for r in said['versions']] == PROGRAMS
    for row in said['host'] + said['versions']:
        assert list(row)[:3] == ['id', 'status', 'detail'] and row['status'] in ('yes', 'no', 'unknown') and row['detail']
    for row in said['drivers']:
        assert row['usable'] or row['reason'], row
        assert all(isinstance(c, str) for c in row['capabilities'])
    assert [r['name'] for r in said['drivers']] == ['kubernetes', 'docker', 'podman', 'native', 'noop']
    assert by_name(said['host'])['kernel']['detail'].split()[1].startswith(os.uname().release)


def test_for_people(me):
    text = me.ok('sandbox', 'doctor').stdout
    for words in ('Driver: ', '\nDrivers\n', '\nThis machine\n', '\nPrograms\n', '\nDefaults\n', 'native', 'user_namespaces'):
        assert words in text
    assert '\x1b' not in text


def test_it_changes_nothing(user):
    def tree():
        return sorted(os.path.join(at, n) for f in (user.home, user.workspace) for at, d, files in os.walk(f)
                      for n in d + files if '.local/share/containers' not in at and n != 'containers')
    before = tree()
    user.ok('sandbox', 'doctor', env={'PATH': '/nowhere'})
    assert tree() == before and not os.path.exists(user.store)


@pytest.mark.parametrize('which, driver', [
    ('no engine', 'native'), ('docker', 'docker'), ('podman', 'podman'), ('both', 'docker'),
    ('docker without its daemon', 'native'), ('docker that fails', 'native'),
])
def test_the_choice_is_that_of_a_run(me, which, driver):
    engines = Engines(me, which)
    said = doctor(me, env=engines.env)
    plan = json.loads(me.ok('sandbox', 'plan', '--json', '--sandbox', 'auto', env=engines.env).stdout)
    engines.close()
    assert said['driver']['name'] == plan['driver'] == driver and said['driver']['reason'] == plan['driver_reason']
    drivers = by_name(said['drivers'], 'name')
    assert drivers[driver]['usable']
    if which.startswith('docker '):
        assert not drivers['docker']['usable'] and 'docker' in drivers['docker']['reason'] and drivers['docker']['hint']


def test_a_driver_by_name(me):
    said = doctor(me, '--sandbox-driver', 'noop')
    assert said['driver'] == {'name': 'noop', 'reason': 'cli flag --sandbox-driver'}
    assert doctor(me, env={'ITERION_SANDBOX_DRIVER': 'native'})['driver']['reason'] == 'ITERION_SANDBOX_DRIVER'
    me.fails('sandbox', 'doctor', '--sandbox-driver', 'dokcer', says='docker')


@pytest.mark.parametrize('env, flags, name, value, source', [
    ({}, (), 'mode', 'none', 'default'),
    ({'ITERION_SANDBOX_DEFAULT': 'auto'}, (), 'mode', 'auto', 'ITERION_SANDBOX_DEFAULT'),
    ({'ITERION_SANDBOX_DEFAULT': 'auto'}, ('--sandbox', 'none'), 'mode', 'none', 'cli flag --sandbox'),
    ({}, (), 'host_state', 'auto', 'default'),
    ({'ITERION_SANDBOX_HOST_STATE': 'none'}, (), 'host_state', 'none', 'ITERION_SANDBOX_HOST_STATE'),
    ({}, (), 'driver', None, 'what this host has'),
    ({'ITERION_SANDBOX_DEFAULT_IMAGE': 'mine:1'}, (), 'default_image', 'mine:1', 'ITERION_SANDBOX_DEFAULT_IMAGE'),
    ({}, ('--sandbox-default-image', 'f:1'), 'default_image', 'f:1', 'cli flag --sandbox-default-image'),
    ({}, (), 'timeout', '5s', 'default'),
    ({'ITERION_SANDBOX_DOCTOR_TIMEOUT': '1m30s'}, (), 'timeout', '90s', 'ITERION_SANDBOX_DOCTOR_TIMEOUT'),
])
def test_defaults_and_their_sources(me, env, flags, name, value, source):
    assert doctor(me, *flags, env=env)['defaults'][name] == {'value': value, 'source': source}


@pytest.mark.parametrize('text', ['5', 'soon', '-1s', '0s', '99h', '5s5'])
def test_a_malformed_timeout(me, text):
    me.fails('sandbox', 'doctor', says='ITERION_SANDBOX_DOCTOR_TIMEOUT', env={'ITERION_SANDBOX_DOCTOR_TIMEOUT': text})


def test_engines_are_asked_at_the_same_time(me):
    """Each waits for the other: one after the other neither would ever answer."""
    engines = Engines(me, 'both')
    for name in ('a', 'b'):
        os.mkfifo(f'{engines.folder}/{name}')
        me.own(f'{engines.folder}/{name}')
    for name, words, order in (('docker', 'version', 'echo x > {0}/a; cat {0}/b'), ('podman', 'info', 'cat {0}/a; echo x > {0}/b')):
        me.file(f'{engines.folder}/{name}', '#!/bin/sh\nPATH=/bin:/usr/bin\n[ "$1" = ' + words + ' ] || exit 0\n'
                + '[ "$3" = "${3#*client}" ] || exit 0\n' + order.format(engines.folder) + ' > /dev/null\necho 9\n', 0o755)
    said = doctor(me, env={**engines.env, 'ITERION_SANDBOX_DOCTOR_TIMEOUT': '30s'})
    engines.close()
    drivers = by_name(said['drivers'], 'name')
    assert drivers['docker']['usable'] and drivers['podman']['usable'], drivers


def running(word):
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                found += [pid] if word in f.read() else []
        except OSError:
            pass
    return found


def test_an_engine_that_hangs(me):
    """It costs its time-out and no more, the rest is answered, and nothing of it stays."""
    engines = Engines(me, 'both')
    word = f'98765.{os.getpid()}'
    for name in ('docker', 'podman'):
        me.file(f'{engines.folder}/{name}', f'#!/bin/sh\nexec /bin/sleep {word}\n', 0o755)
    said = doctor(me, env={**engines.env, 'ITERION_SANDBOX_DOCTOR_TIMEOUT': '300ms'}, timeout=30)
    engines.close()
    drivers = by_name(said['drivers'], 'name')
    assert not drivers['docker']['usable'] and not drivers['podman']['usable']
    assert said['driver']['name'] == 'native' and by_name(said['host'])['kernel']['status'] == 'yes'
    assert by_name(said['versions'])['podman']['status'] == 'unknown'
    until(lambda: not running(word.encode()), 'what the engine started is gone')


def test_forbidden_user_namespaces(me):
    """The setting is named, and what to do."""
    p = me.popen('unshare', '--user', '--map-root-user', 'sh', '-c',
                 f'echo 0 > /proc/sys/user/max_user_namespaces && exec {me.program} sandbox doctor --json')
    out, err = p.communicate(timeout=60)
    if p.returncode:
        skip('user namespaces cannot be limited here: ' + err.decode(errors='replace')[-200:])
    row = by_name(json.loads(out)['host'])['user_namespaces']
    assert row['status'] == 'no' and 'user.max_user_namespaces is 0' in row['detail'] and 'sysctl' in row['hint']


def test_usage(me):
    me.fails('sandbox', 'doctor', 'w.bot', says='--strict')
