"""`sandbox exec` and `sandbox shell`: one program in a sandbox, as if it ran here."""
import fcntl
import json
import os
import pty
import select
import re
import signal
import struct
import subprocess
import termios
import time

import pytest
from waiting import until_there

NATIVE = ('--sandbox-driver', 'native')
EXEC = ('sandbox', 'exec', *NATIVE, '--network', 'allowlist')


def sh(user, script, *flags, **more):
    return user.run(*EXEC, *flags, '--', 'sh', '-c', script, **more)


def test_output_and_exit_code_come_through(user):
    p = sh(user, 'echo out; echo err >&2; exit 7')
    assert (p.returncode, p.stdout, p.stderr) == (7, 'out\n', 'err\n')


@pytest.mark.parametrize('end, code', [
    ('exit 0', 0), ('exit 255', 255), ('kill -TERM $$', 143), ('kill -KILL $$', 137), ('kill -SEGV $$', 139),
])
def test_exit_status(user, end, code):
    assert sh(user, end).returncode == code


def test_program_that_cannot_be_run(user):
    p = user.run(*EXEC, '--', 'no-such-program')
    assert p.returncode == 127 and 'no-such-program' in p.stderr and 'hint: ' in p.stderr
    user.file('data', 'no program\n')
    p = user.run(*EXEC, '--', './data')
    assert p.returncode == 126 and 'Permission denied' in p.stderr


def test_standard_input_is_passed_as_it_is(user):
    data = bytes(range(256)) * 4096
    p = user.start(*EXEC, '--', 'cat', stdin=subprocess.PIPE)
    out, _ = p.communicate(data, 60)
    assert p.returncode == 0 and out == data


def test_descriptors_themselves_are_passed(user):
    """Not copied: the program inside has the very file that was opened here."""
    path = user.file('out.txt', '')
    with open(path, 'ab') as f:
        p = user.run(*EXEC, '--', 'sh', '-c', 'echo x; stat -L -c %i /proc/self/fd/3 3>&1 >&2', stdout=f)
    assert p.returncode == 0
    assert p.stderr.split('\n')[-2] == str(os.stat(path).st_ino)


def test_arguments_are_not_read_again(user):
    p = user.run(*EXEC, '--', 'printf', '[%s]', '--json', '', 'a b', '$(id)', '--')
    assert p.stdout == '[--json][][a b][$(id)][--]'


def test_workspace_is_there_and_nothing_of_the_store(user):
    user.file('here.txt', 'hello\n')
    assert sh(user, 'cat here.txt; pwd').stdout == f'hello\n{user.workspace}\n'
    assert sh(user, 'echo made >new.txt').returncode == 0
    with open(os.path.join(user.workspace, 'new.txt'), encoding='utf-8') as f:
        assert f.read() == 'made\n'
    assert os.stat(os.path.join(user.workspace, 'new.txt')).st_uid == user.uid
    assert user.runs() == []


def test_environment_is_short(user):
    p = user.run(*EXEC, '--', 'env', env={'SECRET_KEY': 'hunter2', 'TZ': 'UTC'})
    names = {line.split('=')[0] for line in p.stdout.split('\n')}
    assert 'SECRET_KEY' not in names and 'hunter2' not in p.stdout
    assert {'PATH', 'HOME', 'TZ', 'HTTPS_PROXY'} <= names


def test_block_of_a_file_is_used(user):
    user.file('main.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  sandbox:\n    mode: inline\n'
              '    env:\n      FROM_BLOCK: "yes"\n    network:\n      mode: allowlist\n      rules: ["*.example.org"]\n'
              '  t -> done\n')
    p = user.ok('sandbox', 'exec', *NATIVE, '--events', 'events.ndjson', 'main.bot', '--', 'sh', '-c', 'echo $FROM_BLOCK')
    assert p.stdout == 'yes\n'
    with open(os.path.join(user.workspace, 'events.ndjson'), encoding='utf-8') as f:
        events = [json.loads(line) for line in f]
    assert [e['seq'] for e in events] == list(range(len(events)))
    started = [e for e in events if e['type'] == 'sandbox_started'][0]['data']
    assert started['driver'] == 'native' and started['network']['rules'] == ['*.example.org']
    assert events[-1]['type'] == 'sandbox_stopped'


def test_refused_host_is_an_event(user):
    p = user.run(*EXEC, '--rule', '*.example.org', '--events', 'e.ndjson', '--', '/run/iterion/bin/iterion', 'connect',
                 'evil.example.net', '443')
    assert p.returncode != 0 and 'evil.example.net' in p.stderr
    with open(os.path.join(user.workspace, 'e.ndjson'), encoding='utf-8') as f:
        blocked = [json.loads(line)['data'] for line in f if '"network_blocked"' in line]
    assert [(b['host'], b['port']) for b in blocked] == [('evil.example.net', 443)]


@pytest.mark.parametrize('sig', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_program(user, sig):
    name = sig.name[3:]
    p = user.start(*EXEC, '--', 'sh', '-c', f'trap "echo got {name}; exit 9" {name}; touch ready; while :; do sleep 0.1; done')
    until_there(os.path.join(user.workspace, 'ready'))
    p.send_signal(sig)
    out, _ = p.communicate(timeout=30)
    assert (p.returncode, out.decode()) == (9, f'got {name}\n')


def test_third_signal_ends_a_stubborn_program(user):
    p = user.start(*EXEC, '--', 'sh', '-c', 'trap "" INT; trap "echo no" TERM; echo up; while :; do sleep 0.1; done')
    for said in (b'up\n', b'no\n', b'no\n'):
        assert p.stdout.readline() == said  # so that no signal falls together with the one before
        p.send_signal(signal.SIGTERM)
    p.communicate(timeout=30)
    assert p.returncode in (137, 143)


def test_noop_is_not_silent(user):
    p = user.ok('sandbox', 'exec', '--sandbox-driver', 'noop', '--', 'echo', 'hi')
    assert p.stdout == 'hi\n' and 'nothing is isolated' in p.stderr


def test_sandbox_none_of_the_file_is_not_kept(user):
    """exec asks for a sandbox whatever the file says; --sandbox=none must be said."""
    user.file('main.bot', 'tool t:\n  command: "true"\n\nworkflow w:\n  entry: t\n  t -> done\n')
    outside = os.path.join(user.base, 'outside.txt')
    user.file(outside, 'secret\n')
    assert 'secret' not in user.run('sandbox', 'exec', 'main.bot', *NATIVE, '--', 'cat', outside).stdout
    assert 'secret' in user.run('sandbox', 'exec', 'main.bot', '--sandbox', 'none', '--', 'cat', outside).stdout


def in_terminal(user, *args, keys=(), size=(31, 97)):
    """Runs iterion on a terminal; keys are (text to wait for, bytes to send or a function). All output, exit code."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack('HHHH', *size, 0, 0))
    before = termios.tcgetattr(inner)
    p = user.start(*args, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env={'TERM': 'xterm'})
    out, seen, keys = b'', 0, list(keys)
    end = time.monotonic() + 60
    try:
        while p.poll() is None or select.select([outer], [], [], 0)[0]:
            assert time.monotonic() < end, f'no end; so far: {out!r}'
            if select.select([outer], [], [], 0.1)[0]:
                out += os.read(outer, 65536)
            if keys and keys[0][0] in out[seen:]:
                seen = len(out)
                act = keys.pop(0)[1]
                act(p, outer) if callable(act) else os.write(outer, act)
        assert termios.tcgetattr(inner) == before, 'the terminal did not get its mode back'
    finally:
        p.kill()
        p.wait()
        os.close(outer)
        os.close(inner)
    return out.decode(errors='replace'), p.returncode


def resize(p, outer):
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack('HHHH', 50, 120, 0, 0))
    p.send_signal(signal.SIGWINCH)


def test_shell_on_a_terminal(user):
    out, code = in_terminal(user, 'sandbox', 'shell', *NATIVE, keys=[
        (b'$' if user.uid else b'#', b'stty size; echo A$((40+2))\n'),
        (b'A42\r\n', b'test -t 0 && exec sh -c "exit 5" </dev/tty\n'),
    ])
    assert '31 97' in out and code == 5, out


def test_the_terminal_has_a_name_inside(user):
    out, code = in_terminal(user, 'sandbox', 'shell', *NATIVE, keys=[
        (b'$' if user.uid else b'#', b'tty; exit 6\n'),
    ])
    assert re.search(r'^/dev/pts/\d+\r$', out, re.M) and code == 6, out


def test_shell_follows_the_size(user):
    out, code = in_terminal(user, 'sandbox', 'shell', *NATIVE, keys=[
        (b'$' if user.uid else b'#', b'set +m; trap "stty size; exit 0" WINCH; echo R$((1+1)); while :; do sleep 0.1; done\n'),
        (b'R2\r\n', resize),
    ])
    assert '50 120' in out and code == 0, out


def test_control_c_is_for_the_program(user):
    out, code = in_terminal(user, 'sandbox', 'shell', *NATIVE, keys=[
        (b'$' if user.uid else b'#', b'set +m; trap "echo caught; exit 4" INT; echo R$((1+1)); while :; do sleep 0.1; done\n'),
        (b'R2\r\n', b'\x03'),
    ])
    assert 'caught' in out and code == 4, out


def test_shell_without_a_terminal(user):
    assert user.ok('sandbox', 'shell', *NATIVE, input='echo $((6*7)); exit 3\n', code=3).stdout == '42\n'
