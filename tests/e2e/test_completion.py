"""`completion`: each shell offers what the tables hold, as the shell itself would ask for it."""
import os
import shutil
import subprocess

import pytest

from conftest import skip

# Of zsh's completion system only what the script calls, so that the answers can be seen.
ZSH = '''compdef() {{ }}
compadd() {{ shift; print -l -- "$@"; }}
compset() {{ PREFIX=${{words[CURRENT]#*=}}; }}
_files() {{ print files; }}
fpath=({folder})
autoload _iterion
words=({words})
CURRENT=$#words
_iterion
'''


def output_of(folder, argv):
    """In an empty folder, so that no file can be offered."""
    p = subprocess.run(argv, cwd=os.path.join(folder, 'empty'), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0, p.stdout.decode()
    return p.stdout.decode()


def bash(script, folder, *words):
    # As bash does by its COMP_WORDBREAKS, a = is a word of its own.
    words = [part for w in words for part in (w.replace('=', ' = ').split(' ') if '=' in w else [w])]
    while len(words) > 1 and words[-1] == '' and words[-2] == '=':
        words.pop()
    quoted = ' '.join(f"'{w}'" for w in ('iterion', *words))
    return set(output_of(folder, ['bash', '-c', f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _iterion; '
                                  'printf "%s\\n" "${COMPREPLY[@]}"']).split())


def zsh(script, folder, *words):
    with open(os.path.join(folder, '_iterion'), 'w', encoding='utf-8') as f:
        f.write(script)
    quoted = ' '.join(f"'{w}'" for w in ('iterion', *words))
    found = output_of(folder, ['zsh', '-f', '-c', ZSH.format(folder=folder, words=quoted)]).split()
    # The completion system itself leaves out what does not begin like the word.
    return {w for w in found if w.startswith(words[-1].rpartition('=')[2])} - {'files'}


def fish(script, folder, *words):
    with open(os.path.join(folder, 'iterion.fish'), 'w', encoding='utf-8') as f:
        f.write(script)
    lines = output_of(folder, ['fish', '--no-config', '-c',
                               f'source {folder}/iterion.fish; complete -C "iterion {" ".join(words)}"']).splitlines()
    return {line.split('\t')[0].rpartition('=')[2] for line in lines}


@pytest.fixture(params=[bash, zsh, fish])
def complete(request, me, tmp_path):
    """What a shell offers for the last of these words."""
    name = request.param.__name__
    if not shutil.which(name):
        skip(f'needs {name}, which is not installed')
    script = me.ok('completion', name).stdout
    os.mkdir(tmp_path / 'empty')
    return lambda *words: request.param(script, str(tmp_path), *words)


def test_what_is_offered(complete):
    assert {'run', 'logs', 'diagram', 'sandbox', 'version'} <= complete('')
    assert complete('sand') == {'sandbox'}
    assert {'exec', 'shell', 'gc', 'network'} <= complete('sandbox', '')
    assert 'run' not in complete('sandbox', '')
    assert complete('sandbox', 'network', 'c') == {'check'}
    assert complete('run', '--sandbox-dr') == {'--sandbox-driver'}
    assert complete('run', '--json', '--quie') == {'--quiet'}
    assert complete('run', '--sandbox', '') == {'auto', 'inline', 'none'}
    assert complete('run', '--sandbox=in') == {'inline'}
    assert complete('sandbox', 'exec', '--network=') >= {'allowlist', 'open'}
    assert complete('completion', '') >= {'bash', 'zsh', 'fish'}
    assert not complete('run', 'main')


@pytest.mark.parametrize('shell', ['bash', 'zsh', 'fish'])
def test_every_shell_has_one(me, shell):
    script = me.ok('completion', shell).stdout
    for word in ('sandbox', 'exec', 'network', 'check', 'sandbox-driver', 'follow'):
        assert word in script


def test_unknown_shell(me):
    me.fails('completion', 'tcsh', says='fish')
