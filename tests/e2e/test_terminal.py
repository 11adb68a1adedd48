"""A run on a terminal: its nodes have none, and what is typed there reaches iterion only."""
import os
import pty

import pytest

from conftest import of_type

DRIVERS = pytest.mark.parametrize('driver', ['noop', 'native'])
ON_TERMINAL = ('setsid', '--ctty', '--wait')
HAS_ONE = 'if (: </dev/tty) 2>/dev/null; then echo terminal; else echo none; fi'


@pytest.fixture
def terminal():
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def write(user, driver, command):
    block = '' if driver == 'noop' else '  sandbox:\n    mode: inline\n'
    user.file('main.bot', f'tool t:\n  command: `{command}`\n\nworkflow w:\n  entry: t\n{block}  t -> done\n')
    return ('run', 'main.bot', '--sandbox-driver', driver)


@DRIVERS
def test_nodes_have_no_terminal(user, terminal, driver):
    """Neither the one of the run, nor by a session of their own; and reading from it does not stop them."""
    out, _ = user.popen(*ON_TERMINAL, 'sh', '-c', HAS_ONE, stdin=terminal[1]).communicate(timeout=60)
    assert out == b'terminal\n', 'it can be seen outside'
    p = user.popen(*ON_TERMINAL, user.program, *write(user, driver, f'{HAS_ONE}; setsid -w sh -c "{HAS_ONE}"; tty; cat'),
                   stdin=terminal[1])
    assert p.wait(60) == 0, p.communicate()
    output, = (e['output']['output'] for e in of_type(user.events(), 'node_finished'))
    assert output.splitlines() == ['none', 'none', 'not a tty']


@DRIVERS
def test_ctrl_c(user, terminal, driver):
    """Ends the run, and with it what its node started."""
    alive = os.path.join(user.workspace, 'alive')
    os.mkfifo(alive)
    user.own(alive)
    p = user.popen(*ON_TERMINAL, user.program, *write(user, driver, 'exec 9>alive; sleep 1000 & sleep 1000'),
                   stdin=terminal[1])
    with open(alive, 'rb') as held:
        os.write(terminal[0], b'\x03')
        assert held.read() == b'', 'everything that had it open has ended'
    out, err = p.communicate(timeout=60)
    assert b'SIGINT' in err + out, (out, err)
