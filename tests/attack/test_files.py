"""Files: what of the host can be seen, and where something can be written."""
import os
import shutil
import socket
import subprocess
import tempfile

import pytest

from conftest import AM_ROOT, refused

GONE = ('ENOENT', 'EACCES')
LOCKED = ('EROFS', 'EACCES', 'EPERM', 'ENOENT')


def test_a_sandbox_is_useful(place):
    """The sandbox works at all: otherwise every refusal below would be worth nothing."""
    for folder in (place.workspace, place.home, '/tmp', '/var/tmp', '/dev/shm'):
        assert place.probe_inside('create', os.path.join(folder, 'new-file')) == 'ok'
    assert place.probe_inside('read', '/etc/passwd').startswith('ok')
    assert place.inside('/bin/sh', '-c', 'echo $((6 * 7))').stdout == '42\n'
    assert place.inside('/bin/sh', '-c', 'exit 7').returncode == 7


def test_what_is_written_in_the_workspace_stays(own_place):
    path = os.path.join(own_place.workspace, 'kept')
    assert own_place.probe_inside('keep', path, 'hello') == 'ok'
    with open(path, encoding='utf-8') as f:
        assert f.read() == 'hello'
    assert os.stat(path).st_uid == own_place.person.uid


def test_what_is_written_elsewhere_does_not(own_place):
    for folder in ('/tmp', own_place.home):
        path = os.path.join(folder, 'iterion-attack-left-over')
        assert own_place.probe_inside('keep', path, 'x') == 'ok'
        assert not os.path.exists(path)


def test_no_placeholders_are_left_in_the_workspace(own_place):
    before = sorted(os.listdir(own_place.workspace))
    assert own_place.probe_inside('ids').startswith('ok')
    assert sorted(os.listdir(own_place.workspace)) == before
    assert os.listdir(own_place.home) == []


@pytest.mark.parametrize('where', ['beside the workspace', 'tmp', 'home'])
def test_files_of_others(own_place, where):
    """Another project, a file in the host's /tmp, a file in the user's own HOME that nobody mounted."""
    folder = {'beside the workspace': own_place.folder('other-project'), 'tmp': own_place.folder('in-tmp'),
              'home': own_place.home}[where]
    path = own_place.file(os.path.join(folder, 'secret'), 'a secret of the host\n')
    refused(own_place, ('read', path), GONE)
    if where != 'home':
        refused(own_place, ('look', folder), GONE)


@pytest.mark.skipif(not AM_ROOT, reason="needs root, to make another user's home")
def test_another_home(place):
    """A home in /home that everybody on the host may read."""
    with tempfile.TemporaryDirectory(prefix='iterion-attack.', dir='/home') as home:
        os.chmod(home, 0o755)
        path = os.path.join(home, 'secret')
        with open(path, 'w', encoding='utf-8') as f:
            f.write('a secret of another user\n')
        refused(place, ('read', path), GONE)
        refused(place, ('look', home), GONE)


@pytest.mark.parametrize('path', ['/root', '/srv', '/var/log', '/var/lib', '/boot', '/media', '/mnt', '/home', '/var/run',
                                  '/lost+found', '/etc/ssh', '/etc/systemd', '/etc/cron.d', '/etc/apt'])
def test_folders_that_do_not_exist_inside(place, path):
    if not os.path.exists(path):
        pytest.skip(f'this machine has no {path}')
    refused(place, ('look', path), GONE)


@pytest.mark.parametrize('path', ['/etc/ssl/private', '/etc/pki/tls/private'])
def test_private_keys(place, path):
    """They lie in a folder whose other parts are needed, and root would own them inside too."""
    if not os.path.exists(path):
        pytest.skip(f'this machine has no {path}')
    got = place.probe_inside('list', path)
    if got == 'ok':
        got = place.probe_inside('create', os.path.join(path, 'x'))  # an empty cover, not the empty folder itself
        marks = [line for line in place.inside('/bin/cat', '/proc/self/mountinfo').stdout.splitlines()
                 if line.split()[4] == path]
        assert marks and got in ('errno EROFS', 'errno EACCES'), f'{path} is the host\'s own'
    else:
        assert got in ('errno ENOENT', 'errno EACCES'), f'{path} inside: {got}'


@pytest.mark.parametrize('path', ['/etc/shadow', '/etc/gshadow', '/etc/sudoers'])
def test_password_files(place, path):
    if not os.path.exists(path):
        pytest.skip(f'this machine has no {path}')
    refused(place, ('read', path), GONE, works=place.person.uid == 0,
            why='an ordinary user cannot read it outside either')


def test_docker_socket(own_place):
    path = os.path.join(own_place.folder('engine'), 'docker.sock')
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        os.chmod(path, 0o666)
        server.listen()
        refused(own_place, ('connect-unix', path), GONE)
    for real in ('/var/run/docker.sock', '/run/docker.sock', '/run/podman/podman.sock',
                 '/run/containerd/containerd.sock', '/run/dbus/system_bus_socket', '/run/systemd/private'):
        assert own_place.probe_inside('connect-unix', real) in ('errno ENOENT', 'errno EACCES')


@pytest.mark.parametrize('store', ['home', 'workspace'])
def test_other_runs(own_place, store):
    parent = own_place.home if store == 'home' else own_place.workspace
    runs = os.path.join(parent, '.iterion', 'runs', 'some-other-run')
    os.makedirs(runs, 0o700)
    for path in (os.path.join(parent, '.iterion'), os.path.join(parent, '.iterion', 'runs'), runs):
        own_place.person.own(path)
    path = own_place.file(os.path.join(runs, 'events.jsonl'), '{"seq":0}\n', 0o600)
    refused(own_place, ('read', path), GONE)
    refused(own_place, ('open-write', path), (*GONE, 'EROFS'))
    with open(path, encoding='utf-8') as f:
        assert f.read() == '{"seq":0}\n'


@pytest.mark.parametrize('named', ['a link', 'through a link', 'the workspace itself'])
def test_other_runs_by_another_name(own_place, named):
    """A store in the workspace that --store-dir names otherwise is the same store."""
    store = own_place.workspace if named == 'the workspace itself' else own_place.folder('workspace', 'store')
    runs = os.path.join(store, 'runs', 'some-other-run')
    os.makedirs(runs)
    path = own_place.file(os.path.join(runs, 'events.jsonl'), '{"seq":0}\n')
    for made in (runs, os.path.dirname(runs)):
        own_place.person.own(made)
    link = os.path.join(own_place.base, 'link')
    os.symlink(store if named == 'a link' else own_place.workspace, link)
    name = {'a link': link, 'through a link': os.path.join(link, 'store')}.get(named, store)
    assert own_place.probe_outside('read', path).startswith('ok')
    assert own_place.probe_inside('read', path, flags=('--store-dir', name)) in ('errno ENOENT', 'errno EACCES')


def test_a_store_made_inside_is_told(own_place):
    """Without --store-dir later commands look for .iterion in the workspace, and a record there names the file that
    `resume` runs. tests/e2e/test_store_place.py has what they make of such a folder."""
    store = os.path.join(own_place.workspace, '.iterion')
    assert 'the name of a run store' not in own_place.inside('/bin/true').stderr
    p = own_place.inside('/bin/sh', '-c', f'mkdir -p {store}/runs/forged')
    assert f'made {store}, the name of a run store' in p.stderr, p


def test_the_workspaces_own_store_while_another_is_used(own_place):
    runs = own_place.folder('workspace', '.iterion', 'runs')
    own_place.person.own(os.path.dirname(runs))
    path = own_place.file(os.path.join(runs, 'events.jsonl'), '{"seq":0}\n')
    got = own_place.probe_inside('read', path, flags=('--store-dir', own_place.folder('elsewhere')))
    assert got in ('errno ENOENT', 'errno EACCES')


def test_other_runs_below_a_shared_folder(own_place):
    """~/.iterion is shared with the sandbox: a store that somebody puts below it must not come along."""
    runs = own_place.folder('home', '.iterion', 'other-store', 'runs')
    for made in (os.path.dirname(runs), os.path.dirname(os.path.dirname(runs))):
        own_place.person.own(made)
    path = own_place.file(os.path.join(runs, 'events.jsonl'), '{"seq":0}\n')
    p = own_place.inside('/bin/sh', '-c', f'ls ~/.iterion; cat {path}', flags=('--store-dir', os.path.dirname(runs)))
    assert 'other-store' in p.stdout and 'seq' not in p.stdout, p


@pytest.mark.parametrize('how', ['ITERION_HOME', 'a link'])
def test_shared_folders_that_lead_to_secrets(own_place, how):
    """What is shared by itself passes the same check as a mount that somebody asks for."""
    key = own_place.file(os.path.join(own_place.folder('home', '.ssh'), 'id'), 'a private key\n')
    if how == 'a link':
        os.symlink(own_place.home, os.path.join(own_place.home, '.npm'))
    env = {'ITERION_HOME': own_place.home} if how == 'ITERION_HOME' else {}
    p = own_place.outside(*own_place.argv('/bin/sh', '-c', f'cat {key} ~/.npm/.ssh/id'), env=env)
    assert 'a private key' not in p.stdout
    assert p.returncode == 1 and 'holds credentials' in p.stderr and 'host-state=none' in p.stderr, p


def test_a_run_whose_store_is_named_by_a_link(own_place):
    own_place.file(os.path.join(own_place.workspace, 'main.bot'),
                   'tool t:\n  command: "touch $ITERION_ARTIFACT_FILES_DIR/made"\n\nworkflow w:\n  entry: t\n'
                   '  sandbox:\n    mode: inline\n  t -> done\n')
    link = os.path.join(own_place.base, 'link')
    os.symlink(own_place.folder('store'), link)
    p = own_place.outside(own_place.programs['iterion'], 'run', 'main.bot', '--sandbox-driver=native', '--store-dir', link)
    assert p.returncode == 0, p
    assert len([f for _, _, files in os.walk(own_place.base) for f in files if f == 'made']) == 1


def test_a_home_that_is_the_root_folder(place):
    """What accounts without a home have: nothing is made writable for it, and the sandbox works."""
    assert place.inside('/bin/sh', '-c', 'echo $((6 * 7))', env={'HOME': '/'}).stdout == '42\n'


@pytest.mark.parametrize('folder', ['/', '/usr', '/usr/local/bin', '/etc', '/bin', '/lib', '/run/iterion',
                                    '/run/iterion/bin', '/proc', '/proc/sys/kernel', '/sys', '/sys/fs/cgroup', '/dev'])
def test_writing_outside_of_the_own_folders(place, folder):
    path = os.path.join(folder, 'iterion-attack-file')
    can = place.person.uid == 0 and folder in ('/usr', '/usr/local/bin', '/etc', '/bin', '/lib', '/dev')
    refused(place, ('create', path), LOCKED, works=can, why='nobody may make a file there, or only root')


def test_writing_into_system_files(place):
    for path in ('/etc/passwd', '/usr/bin/env', '/bin/sh'):
        refused(place, ('open-write', path), (*LOCKED, 'ETXTBSY'), works=False,
                why='a running program is busy, and the others are not to be risked')


def test_the_guest_program_cannot_be_replaced(place):
    shown = place.probe_outside('open-write', place.probe)
    assert shown in ('ok', 'errno ETXTBSY')
    for attempt in (('open-write', '/run/iterion/bin/iterion'), ('write', '/run/iterion/bin/iterion', 'x'),
                    ('keep', '/run/iterion/bin/iterion', 'x')):
        assert place.probe_inside(*attempt) in ('errno EROFS', 'errno ETXTBSY', 'errno EACCES')
    p = place.inside('/bin/sh', '-c', 'mv /run/iterion /run/away || mv /run/iterion/bin /run/away; '
                     'rm -f /run/iterion/bin/iterion; ls /run/iterion/bin')
    assert p.stdout == 'iterion\n', p


@pytest.mark.parametrize('path', ['/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches',
                                  '/sys/kernel/uevent_helper', '/sys/power/state', '/proc/sys/kernel/modprobe'])
def test_kernel_switches(place, path):
    if not os.path.exists(path):
        pytest.skip(f'this kernel has no {path}')
    refused(place, ('open-write', path), LOCKED, works=place.person.uid == 0, why='only root may outside')


@pytest.mark.parametrize('path', ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/kmsg'])
def test_kernel_secrets(place, path):
    if not os.path.exists(path):
        pytest.skip(f'this kernel has no {path}')
    shown = place.probe_outside('read', path)
    got = place.probe_inside('read', path)
    assert got in ('errno ENOENT', 'errno EACCES', 'errno EPERM', 'ok 0 bytes: '), f'{path} inside: {got}'
    if not shown.startswith('ok') and place.person.uid == 0:
        pytest.skip(f'nothing is read from it inside, but outside neither ({shown})')


def test_symlinks_lead_nowhere(own_place):
    secret = own_place.file(os.path.join(own_place.folder('elsewhere'), 'secret'), 'a secret\n')
    link = os.path.join(own_place.workspace, 'link')
    os.symlink(secret, link)
    refused(own_place, ('read', link), GONE)
    shadow = os.path.join(own_place.workspace, 'shadow')
    os.symlink('/etc/shadow', shadow)
    refused(own_place, ('read', shadow), GONE, works=own_place.person.uid == 0,
            why='an ordinary user cannot read it outside either')
    deep = os.path.join(own_place.workspace, 'deep')
    os.symlink('../elsewhere/secret', deep)
    refused(own_place, ('read', deep), GONE)


def test_hard_links(own_place):
    """A link to a file outside of the workspace, by name and by descriptor."""
    secret = own_place.file(os.path.join(own_place.folder('elsewhere'), 'secret'), 'a secret\n')
    new = os.path.join(own_place.workspace, 'new-link')
    refused(own_place, ('link', secret, new), GONE)
    refused(own_place, ('link', '/etc/passwd', new), ('EXDEV', 'EPERM'), works=False,
            why='/etc may lie on another file system than the workspace')
    refused(own_place, ('link-by-fd', '/usr/bin/env', new), ('EXDEV', 'EPERM', 'ENOENT'), works=False,
            why='/usr may lie on another file system than the workspace')


def test_open_by_handle(place):
    for path in ('/', place.workspace, '/tmp'):
        refused(place, ('open-by-handle', path), ('EPERM', 'ENOSYS'), outside=('open-by-handle', '/'),
                works=place.person.uid == 0, why='needs a capability outside too')


def test_climbing_out_of_the_root(own_place):
    secret = own_place.file(os.path.join(own_place.folder('elsewhere'), 'secret'), 'a secret\n')
    refused(own_place, ('climb', secret.lstrip('/')), GONE)


@pytest.mark.parametrize('kind', ['mknod-block', 'mknod-char'])
def test_device_nodes(place, kind):
    refused(place, (kind, os.path.join(place.workspace, 'node')), ('EPERM', 'EACCES'), works=place.person.uid == 0,
            why='only root makes device nodes outside')


def test_devices(place):
    """Only the harmless ones are there."""
    names = place.probe_inside('list', '/dev').split()[1:]
    allowed = {'null', 'zero', 'full', 'random', 'urandom', 'tty', 'ptmx', 'pts', 'shm', 'fd', 'stdin', 'stdout',
               'stderr', 'mqueue', 'console', 'core'}
    assert set(names) <= allowed, set(names) - allowed
    assert 'null' in names
    assert len(os.listdir('/dev')) > len(names)


def test_devices_of_the_host_stay_as_they_are(place):
    """Root owns the host's device nodes and needs no capability to change their mode or times. Both ways to them: what
    is mounted at /dev, and the null device that a program gets as its standard input."""
    before = {name: (os.stat(name).st_mode, os.stat(name).st_mtime) for name in ('/dev/null', '/dev/full')}
    try:
        p = place.inside('/bin/sh', '-c', 'touch -d @1000000000 /dev/full; touch -d @1000000000 /proc/self/fd/0; '
                         'chmod 0660 /dev/full; echo x > /dev/null && head -c 4 /dev/zero | wc -c')
        after = {name: (os.stat(name).st_mode, os.stat(name).st_mtime) for name in before}
    finally:
        if AM_ROOT:
            for name, (mode, mtime) in before.items():
                os.chmod(name, mode & 0o7777)
                os.utime(name, (mtime, mtime))
    assert after == before
    assert p.stdout == '4\n', p


def test_mounts_show_no_secrets(own_place):
    """/proc/self/mountinfo names what was mounted from where: nothing but what is inside anyway."""
    own_place.file(os.path.join(own_place.folder('elsewhere'), 'secret'), 'a secret\n')
    text = own_place.inside('/bin/cat', '/proc/self/mountinfo').stdout
    assert own_place.workspace in text
    for hidden in ('elsewhere', '/old', '/root', 'shadow', 'docker'):
        assert hidden not in text.replace(own_place.workspace, ''), text
    targets = [line.split()[4] for line in text.splitlines()]
    for target in targets:
        assert not target.startswith(('/root', '/srv', '/var/lib', '/boot', '/home/')) or target == own_place.home, text


def test_hooks_of_the_workspace_do_not_run_on_the_host(own_place):
    """A node may write .git/hooks; a later sandbox of the same workspace must not run them outside of it."""
    marker = os.path.join(own_place.folder('marks'), 'hook-ran')
    if not shutil.which('git'):
        pytest.skip('git is not installed')
    subprocess.run(['git', 'init', '-q', own_place.workspace], check=True, env=own_place.env,
                   **own_place.person.popen_args())
    hooks = os.path.join(own_place.workspace, '.git', 'hooks')
    names = ('post-checkout', 'pre-commit', 'post-commit', 'pre-auto-gc', 'reference-transaction', 'fsmonitor-watchman')
    for name in names:
        p = own_place.inside('/bin/sh', '-c', f'printf "#!/bin/sh\\ntouch {marker}\\n" > {hooks}/{name} && '
                             f'chmod +x {hooks}/{name}')
        assert p.returncode == 0, p.stderr
    assert own_place.outside(os.path.join(hooks, 'pre-commit')).returncode == 0 and os.path.exists(marker)
    os.unlink(marker)
    assert own_place.inside('/bin/sh', '-c', 'git status --short || true').returncode == 0
    assert not os.path.exists(marker)
