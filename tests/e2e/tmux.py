"""A real terminal for tests, which tmux is: a shell in a window of a size, typed into and read like a person does."""
import os
import re
import shlex
import shutil
import time

import pytest

from conftest import skip

WAIT = 20


class Terminal:
    """A shell in a tmux of its own, whose only window has a size and is read like a person reads it."""

    def __init__(self, user, columns, rows=24):
        self.user = user
        self.socket = os.path.join(user.base, 'tmux')
        self.raw = os.path.join(user.base, 'raw')
        env = {**user.env, 'PS1': '$ ', 'SHELL': '/bin/sh'}
        shell = '/bin/bash --norc --noprofile -i'
        self.server = user.popen('tmux', '-S', self.socket, '-f', '/dev/null', 'new-session', '-d', '-x', str(columns),
                                 '-y', str(rows), shell, env={**env, 'TERM': 'screen-256color'})
        out, err = self.server.communicate(timeout=WAIT)
        assert self.server.returncode == 0, out + err
        self.tmux('set', '-g', 'status', 'off')
        self.resize(columns, rows)
        self.tmux('pipe-pane', '-o', f'cat >{shlex.quote(self.raw)}')
        self.until(lambda text: text.startswith('$'))

    def tmux(self, *args):
        p = self.user.popen('tmux', '-S', self.socket, *args)
        out, err = p.communicate(timeout=WAIT)
        assert p.returncode == 0, err
        return out.decode()

    def resize(self, columns, rows=24):
        self.tmux('resize-window', '-x', str(columns), '-y', str(rows))

    def keys(self, *keys):
        self.tmux('send-keys', *keys)

    def run(self, *args, before='', after=''):
        words = ' '.join(shlex.quote(w) for w in (self.user.program, 'run', 'main.bot', '--store-dir',
                                                   self.user.store, '--sandbox-driver', 'noop', *args))
        self.tmux('send-keys', '-l', f'clear; {before} {words} {after}; echo code $?')
        self.keys('Enter')

    def screen(self, *options):
        return self.tmux('capture-pane', '-p', *options)

    def lines(self):
        return self.screen().rstrip('\n').split('\n')

    def until(self, wanted):
        """The screen as soon as it is as wanted (a text that it holds, or what a function says)."""
        end = time.monotonic() + WAIT
        while True:
            text = self.screen()
            if wanted(text) if callable(wanted) else wanted in text:
                return text
            if time.monotonic() > end:
                pytest.fail(f'not seen within {WAIT} s: {wanted}\n{text}')
            time.sleep(0.02)

    def state(self, wanted):
        """Waits for: cursor shown, second screen, line wrap."""
        def now():
            return self.tmux('display-message', '-p', '#{cursor_flag} #{alternate_on} #{wrap_flag}').strip()
        end = time.monotonic() + WAIT
        while now() != wanted and time.monotonic() < end:
            time.sleep(0.02)
        assert now() == wanted

    def given_back(self, code):
        self.until(lambda text: re.search(f'^code {code}$', text, re.M))
        self.state('1 0 1')
        self.keys('stty -a', 'Enter')
        text = self.until(lambda text: 'stty -a' in text and 'iexten' in text)
        assert re.search(r'[ \n]echo[ \n]', text), text


OURS, THEIRS = '0 1 0', '1 0 1'


@pytest.fixture
def terminal(me):
    opened = []

    def make(columns, rows=24):
        opened.append(Terminal(me, columns, rows))
        return opened[-1]
    if not shutil.which('tmux'):
        skip('tmux is not installed')
    yield make
    for t in opened:
        t.user.popen('tmux', '-S', t.socket, 'kill-server').communicate(timeout=WAIT)
