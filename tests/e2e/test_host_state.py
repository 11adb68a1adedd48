"""host_state: auto with the native driver: caches of the host are there, HOME can be written, and nothing stays."""
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from conftest import skip

NATIVE = ('--sandbox-driver', 'native')
CACHES = ('.claude', '.cache/go-build', 'go/pkg/mod', '.npm', '.local/share/pnpm', '.cache/yarn', '.cache/pip', '.cache/uv',
          '.cargo/registry')
# What version managers and tools make beside the caches: every folder between HOME and a mount, and HOME itself.
BESIDE = ('.cache/devbox', 'go/bin', 'go/pkg/sumdb', '.local/bin', '.local/share/fnm', '.cargo/bin', '.config', '.nix-profile',
          '.asdf')


def make_caches(user, names=CACHES):
    for name in names:
        parts = name.split('/')
        for i in range(1, len(parts) + 1):
            user.folder('home', *parts[:i])
        user.file(os.path.join(user.home, name, 'from-the-host'), f'cached by {name}\n')
    user.file(os.path.join(user.home, '.bashrc'), 'private\n')
    user.file(os.path.join(user.folder('home', '.ssh'), 'id'), 'a private key\n', 0o600)


def walk(folder):
    """Every path below with type, mode, owner and content."""
    found = {}
    for at, dirs, files in os.walk(folder):
        for name in dirs + files:
            path = os.path.join(at, name)
            st = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else None
            if name in files and content is None:
                with open(path, 'rb') as f:
                    content = hashlib.sha256(f.read()).hexdigest()
            found[os.path.relpath(path, folder)] = (st.st_mode, st.st_uid, st.st_gid, content)
    return found


def run_in(user, script, *flags, **more):
    """As a node of a run; the script's own output."""
    user.file('w.sh', script)
    user.file('w.bot', 'tool t:\n  command: "sh w.sh"\n\nworkflow w:\n  entry: t\n  sandbox: auto\n  t -> done\n')
    user.ok('run', 'w.bot', '--quiet', *NATIVE, *flags, **more)
    out = next(e for e in user.events() if e['type'] == 'node_finished')['data']['output']
    return out['output'] if isinstance(out, dict) else out


def test_caches_are_there_and_home_is_left_as_it_was(user):
    make_caches(user)
    before = walk(user.home)
    out = run_in(user, 'set -e\n'
                 + ''.join(f'cat ~/{name}/from-the-host; echo new > ~/{name}/from-the-node\n' for name in CACHES)
                 + ''.join(f'mkdir -p ~/{name}; echo x > ~/{name}/file; rm -r ~/{name}\n' for name in BESIDE)
                 + ''.join(f'mkdir -p ~/{name}; echo x > ~/{name}/left\n' for name in BESIDE)
                 + 'echo x > ~/file; echo x >> ~/.bashrc; mkdir ~/.ssh; echo forged > ~/.ssh/id\n'
                 'find ~ -name from-the-host | wc -l; stat -c %u ~ ~/.cache ~/go ~/go/pkg ~/.local/share | sort -u')
    lines = out.splitlines()
    assert lines[:len(CACHES)] == [f'cached by {name}' for name in CACHES]
    assert lines[len(CACHES):] == [str(len(CACHES)), str(user.uid)]
    after = walk(user.home)
    new = {path for path in after if path not in before}
    assert new == {f'{name}/from-the-node' for name in CACHES}
    assert {path: after[path] for path in before} == before
    for path in new:
        assert after[path][1] == user.uid
    # What the run said it mounted is just that.
    shared = next(e for e in user.events() if e['type'] == 'sandbox_host_state_mounted')['data']
    assert sorted(shared['mounts']) == sorted([f'{user.home}/{n}' for n in CACHES] + [user.store])


def test_a_home_without_caches_stays_empty(user):
    before = walk(user.home)
    out = run_in(user, ''.join(f'mkdir -p ~/{name} && echo x > ~/{name}/f && echo ok\n' for name in (*BESIDE, *CACHES)))
    assert out.count('ok') == len(BESIDE) + len(CACHES) and walk(user.home) == before == {}


@pytest.mark.parametrize('how', ['flag', 'environment', 'block'])
def test_switched_off(user, how):
    make_caches(user)
    before = walk(user.home)
    script = 'ls -A ~; cat ~/.npm/from-the-host; mkdir ~/.npm && echo made'
    if how == 'block':
        user.file('w.bot', 'tool t:\n  command: "sh w.sh"\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: auto\n'
                  '    host_state: none\n  t -> done\n')
        user.file('w.sh', script)
        p = user.ok('sandbox', 'exec', *NATIVE, 'w.bot', '--', 'sh', 'w.sh')
    else:
        flags = ('--sandbox-host-state=none',) if how == 'flag' else ()
        env = {'ITERION_SANDBOX_HOST_STATE': 'none'} if how == 'environment' else {}
        p = user.ok('sandbox', 'exec', *NATIVE, *flags, '--', 'sh', '-c', script, env=env)
    assert p.stdout == 'made\n' and walk(user.home) == before


def test_two_sandboxes_at_once_share_a_cache(user):
    """They are safe to share: what one writes the other reads."""
    make_caches(user, ('.npm',))
    fifo = os.path.join(user.workspace, 'go')
    os.mkfifo(fifo)
    user.own(fifo)
    reader = user.start('sandbox', 'exec', *NATIVE, '--', 'sh', '-c', 'cat go; cat ~/.npm/new', stdin=subprocess.DEVNULL)
    user.ok('sandbox', 'exec', *NATIVE, '--', 'sh', '-c', 'echo written > ~/.npm/new; echo > go')
    out, err = reader.communicate(timeout=30)
    assert out == b'\nwritten\n', err


def test_npm_finds_its_cache(me):
    """The real npm installs from what the host has in its cache, without any network."""
    npm = shutil.which('npm')
    if not npm or not os.path.realpath(npm).startswith('/usr/'):
        skip('npm is not installed below /usr')
    me.folder('package')
    me.file(os.path.join(me.base, 'package', 'package.json'), json.dumps({'name': 'cached-thing', 'version': '1.0.0'}))
    env = {'npm_config_update_notifier': 'false'}
    for words, cwd in ((['npm', 'pack', '--silent'], os.path.join(me.base, 'package')),
                       (['npm', 'cache', 'add', 'cached-thing-1.0.0.tgz'], os.path.join(me.base, 'package'))):
        p = me.popen(*words, cwd=cwd, env=env)
        _, err = p.communicate(timeout=120)
        if p.returncode:
            skip('npm cannot fill its cache here: ' + err.decode(errors='replace')[-200:])
    before = walk(me.home)
    assert any(path.startswith('.npm/_cacache/content') for path in before)
    p = me.ok('sandbox', 'exec', *NATIVE, '--network', 'allowlist', '--', 'npm', 'cache', 'verify', timeout=120, env=env)
    assert 'Content verified: 1' in p.stdout, p.stdout
    assert {path.split('/')[0] for path in walk(me.home)} == {'.npm'}


def test_go_finds_its_caches(me):
    """The real go builds with what it compiled on the host before."""
    go = shutil.which('go')
    if not go or not os.path.realpath(go).startswith('/usr/'):
        skip('go is not installed below /usr')
    me.file('main.go', 'package main\n\nfunc main() { println("built") }\n')
    me.file('go.mod', 'module x\n')
    env = {'GOFLAGS': '-mod=mod', 'GOTOOLCHAIN': 'local'}
    p = me.popen('go', 'build', '-o', 'outside', '.', env=env)
    _, err = p.communicate(timeout=300)
    assert p.returncode == 0, err
    before = walk(me.home)
    assert any(path.startswith('.cache/go-build') for path in before)
    p = me.ok('sandbox', 'exec', *NATIVE, '--network', 'allowlist', '--', 'sh', '-c',
              'go build -v -o inside . && ./inside', timeout=300)
    # -v names what is compiled anew: nothing, not even the runtime.
    assert p.stderr == 'built\n', p.stderr
    new = set(walk(me.home)) - set(before)
    assert all(path.startswith('.cache/go-build/') for path in new), new
