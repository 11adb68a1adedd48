"""`completion`: the scripts are good shell, and bash's completes what the tables hold."""
import shutil
import subprocess

import pytest

from conftest import skip


def complete(me, *words):
    """What bash offers for the last of these words."""
    script = me.ok('completion', 'bash').stdout
    quoted = ' '.join(f"'{w}'" for w in ('iterion', *words))
    out = subprocess.run(['bash', '-c', f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _iterion; '
                          'printf "%s\\n" "${COMPREPLY[@]}"'], stdout=subprocess.PIPE, check=True)
    return set(out.stdout.decode().split())


def test_bash(me):
    if not shutil.which('bash'):
        skip('bash is not installed')
    assert {'run', 'sandbox', 'version'} <= complete(me, '')
    assert complete(me, 'sand') == {'sandbox'}
    assert {'exec', 'shell', 'gc', 'network'} <= complete(me, 'sandbox', '')
    assert complete(me, 'sandbox', 'network', 'c') == {'check'}
    assert complete(me, 'run', '--sandbox-dr') == {'--sandbox-driver'}
    assert complete(me, 'run', '--json', '--quie') == {'--quiet'}
    assert complete(me, 'run', 'main') == set()


@pytest.mark.parametrize('shell', ['bash', 'zsh', 'fish'])
def test_every_shell_has_one(me, shell):
    script = me.ok('completion', shell).stdout
    for word in ('sandbox', 'exec', 'network', 'check', 'sandbox-driver', 'follow'):
        assert word in script


@pytest.mark.parametrize('shell', [s for s in ('bash', 'zsh', 'fish') if shutil.which(s)])
def test_the_shell_can_read_it(me, shell):
    """For those shells that this machine has; bash it always has."""
    p = subprocess.run([shell, '-n'], input=me.ok('completion', shell).stdout.encode(), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, check=False)
    assert p.returncode == 0, p.stdout.decode()


def test_unknown_shell(me):
    me.fails('completion', 'tcsh', says='fish')
