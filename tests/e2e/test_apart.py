"""Nodes of one sandbox have one user: what one of them left running keeps its environment and memory from the others."""
import ctypes

import engines
from conftest import skip
from test_node_sandbox import NATIVE, output, tool, workflow

# Each line: what was tried, and whether it worked.
LOOK = ('p=$(cat pid); for f in environ maps fd cwd root exe; do '
        'case $f in environ|maps) cat /proc/$p/$f;; fd) ls /proc/$p/fd/;; *) readlink /proc/$p/$f;; esac '
        '>/dev/null 2>&1 && echo $f; done; tr "\\\\0" "\\\\n" 2>/dev/null </proc/$p/environ | grep ^KEY=; '
        'kill -0 $p && echo alive; true')
LEAVE = ('KEY=of-a setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >pid; '
         'until grep -qs KEY=of-a /proc/$!/environ; do :; done; ')
VERSION = 1


def needs_landlock():
    """Moving files between folders can be given back since the second version (Linux 5.19)."""
    if ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, VERSION) < 2:
        skip('Landlock of Linux 5.19')


def test_what_a_node_left_is_closed_to_the_next(user):
    needs_landlock()
    user.file('main.bot', workflow(tool('a', LEAVE + LOOK), tool('b', LOOK), names='ab'))
    user.ok('run', 'main.bot', *NATIVE)
    events = user.events()
    # The same node sees it all: what is tried means something.
    assert output(events, 'a').split() == ['environ', 'maps', 'fd', 'cwd', 'root', 'exe', 'KEY=of-a', 'alive']
    # Root owns the folder of descriptors and may list their numbers; following one is refused.
    assert [w for w in output(events, 'b').split() if w != 'fd'] == ['alive']


def test_files_are_moved_as_ever(user):
    """A Landlock domain takes this away unless it is given back."""
    move = ('mkdir -p x/y z && echo 1 >x/y/f && ln x/y/f z/g && python3 -c "import os; os.rename(\'x/y/f\', \'z/f\'); '
            'os.rename(\'x/y\', \'z/y\')" && cd /tmp && mkdir t && echo 2 >t/f && ln t/f f && mv t/f h && cat h && '
            'cd "$HOME" && mkdir t && echo 3 >t/f && ln t/f f && cat f')
    user.file('main.bot', workflow(tool('a', move), names='a'))
    user.ok('run', 'main.bot', *NATIVE)
    assert output(user.events(), 'a').split() == ['2', '3']


def test_in_a_container(container):
    """Where the engine's filter lets Landlock through."""
    needs_landlock()
    head = f'  sandbox:\n    image: "{engines.IMAGE}"\n'
    container.user.file('main.bot', workflow(tool('a', LEAVE + LOOK), tool('b', LOOK), names='ab', head=head))
    container.user.ok('run', 'main.bot', *container.flags)
    outputs = container.outputs()
    assert 'KEY=of-a' in outputs['a'].split()
    assert [w for w in outputs['b'].split() if w != 'fd'] == ['alive']
