"""The real agents' programs, from npm, in the versions that were tried; and workflows that use them.

They are installed once into $XDG_CACHE_HOME/iterion-tests (~/.cache/iterion-tests) and linked from there to a folder
that anybody may read. What cannot be had is a skip. ITERION_TEST_CLAUDE and ITERION_TEST_CODEX name other versions. The
program itself is used, not the package's script that starts it: it needs nothing else.
"""
import fcntl
import os
import shutil
import subprocess

from conftest import skip

VERSIONS = {'claude': ('@anthropic-ai/claude-code', os.environ.get('ITERION_TEST_CLAUDE', '2.1.197')),
            'codex': ('@openai/codex', os.environ.get('ITERION_TEST_CODEX', '0.171.0'))}
MACHINE = {'x86_64': 'x64', 'aarch64': 'arm64'}.get(os.uname().machine)
TRIPLE = {'x64': 'x86_64-unknown-linux-musl', 'arm64': 'aarch64-unknown-linux-musl'}.get(MACHINE)
PLACES = {'claude': f'@anthropic-ai/claude-code-linux-{MACHINE}', 'codex': f'@openai/codex-linux-{MACHINE}/vendor/{TRIPLE}'}
PROGRAMS = {'claude': 'claude', 'codex': 'bin/codex'}
KEY = 'sk-test-0123456789abcdef'
INSTALL_LIMIT = 300  # seconds


def cache():
    return os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'iterion-tests')


def installed(name):
    """The folder of the program in the cache; installs it there first."""
    package, version = VERSIONS[name]
    if not MACHINE:
        skip(f'{package} has no program for {os.uname().machine}')
    if not shutil.which('npm'):
        skip('npm is not installed')
    prefix = os.path.join(cache(), f'{name}-{version}')
    place = os.path.join(prefix, 'node_modules', PLACES[name])
    os.makedirs(prefix, exist_ok=True)
    with open(prefix + '.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(prefix, 'complete')):
            try:
                p = subprocess.run(['npm', 'install', '--prefix', prefix, '--no-audit', '--no-fund', '--ignore-scripts',
                                    f'{package}@{version}'], check=False, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=INSTALL_LIMIT)
            except subprocess.TimeoutExpired:
                skip(f'npm install {package}@{version} took more than {INSTALL_LIMIT} s')
            if p.returncode or not os.path.exists(os.path.join(place, PROGRAMS[name])):
                skip(f'npm install {package}@{version} failed: {p.stdout.decode(errors="replace")[-300:]}')
            with open(os.path.join(prefix, 'complete'), 'w', encoding='utf-8'):
                pass
    return place


def link(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
    return target


def shared(name, base):
    """A folder with the program that anybody may read, for a PATH and a mount: (folder, folder of the program)."""
    folder = os.path.join(base, 'agents', name)
    if not os.path.exists(folder):
        shutil.copytree(installed(name), folder, copy_function=link, symlinks=True)
        for path, _, files in os.walk(folder):
            os.chmod(path, 0o755)
            for f in files:
                if os.path.join(path, f) == os.path.join(folder, PROGRAMS[name]):
                    os.chmod(os.path.join(path, f), 0o755)
    return folder, os.path.dirname(os.path.join(folder, PROGRAMS[name]))


def of_type(events, kind, node=None):
    return [e['data'] for e in events if e['type'] == kind and node in (None, e.get('node_id'))]


def block(*lines, mounts=(), rules=('api.test',)):
    """A workflow's sandbox block: native, with an allowlist."""
    out = ['  sandbox:', '    mode: inline']
    if mounts:
        out.append('    mounts: [%s]' % ', '.join(f'"type=bind,source={m},target={m},readonly"' for m in mounts))
    out += ['    network:', '      mode: allowlist', '      rules: [%s]' % ', '.join(f'"{r}"' for r in rules)]
    return '\n'.join(out + [f'    {line}' for line in lines]) + '\n'


def everything_below(folder):
    """The bytes of all files, for what must not be anywhere."""
    for path, _, names in os.walk(folder):
        for n in names:
            full = os.path.join(path, n)
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, 'rb') as f:
                    yield full, f.read()
