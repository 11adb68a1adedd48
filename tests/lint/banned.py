#!/usr/bin/python3
"""Calls that are not used here, and descriptors that would leak into a child.

A line that has a good reason carries the comment "lint: allow NAME, why" on it or on the line above.
"""
import re

from _source import code_of, files, finish, line_of, read

BANNED = {
    'strcpy': 'no length: snprintf, memcpy or buf_puts', 'strcat': 'no length: buf_puts',
    'strncpy': 'may leave no NUL: snprintf or memcpy', 'sprintf': 'no length: snprintf or buf_printf',
    'vsprintf': 'no length: vsnprintf', 'gets': 'no length: getline', 'system': 'a shell: spawn_start',
    'popen': 'a shell: spawn_start', 'sleep': 'wait for an event', 'usleep': 'wait for an event',
    'nanosleep': 'wait for an event', 'mktemp': 'races: O_EXCL with id_hex', 'tmpnam': 'races: O_EXCL with id_hex',
    'mkstemp': 'leaks into children: mkostemp', 'alloca': 'unbounded stack', 'strtok': 'hidden state: strtok_r',
    'atoi': 'no errors: strtol or a parser of base', 'atol': 'no errors: strtol',
    'accept': 'leaks into children: accept4', 'pipe': 'leaks into children: pipe2',
    'dup': 'leaks into children: F_DUPFD_CLOEXEC', 'creat': 'leaks into children: open',
    'epoll_create': 'leaks into children: epoll_create1', 'inotify_init': 'leaks into children: inotify_init1',
}
# Call → what its arguments must contain.
NEEDS = {
    'open': 'O_CLOEXEC', 'openat': 'O_CLOEXEC', 'socket': 'SOCK_CLOEXEC', 'socketpair': 'SOCK_CLOEXEC',
    'accept4': 'SOCK_CLOEXEC', 'pipe2': 'O_CLOEXEC', 'epoll_create1': 'EPOLL_CLOEXEC', 'eventfd': 'EFD_CLOEXEC',
    'signalfd': 'SFD_CLOEXEC', 'timerfd_create': 'TFD_CLOEXEC', 'memfd_create': 'MFD_CLOEXEC',
    'inotify_init1': 'IN_CLOEXEC', 'mkostemp': 'O_CLOEXEC', 'dup3': 'O_CLOEXEC', 'open_tree': 'OPEN_TREE_CLOEXEC',
    'fsopen': 'FSOPEN_CLOEXEC', 'fsmount': 'FSMOUNT_CLOEXEC', 'recvmsg': 'MSG_CMSG_CLOEXEC', 'fopen': 'e"',
    'fdopen': '', 'posix_openpt': 'O_CLOEXEC',
}
CALL = re.compile(r'(?<![\w.>])(' + '|'.join(sorted({*BANNED, *NEEDS}, key=len, reverse=True)) + r')\s*\(')
SYSCALL = re.compile(r'\bSYS_(open_tree|fsopen|fsmount|openat|memfd_create|socket)\s*,')
DUPFD = re.compile(r'\bF_DUPFD\b')
ALLOW = re.compile(r'lint: allow (\w+), \S')


def arguments(code, start):
    """The text between the parenthesis at start and its partner."""
    depth = 0
    for i in range(start, min(len(code), start + 4000)):
        if code[i] in '([{':
            depth += 1
        elif code[i] in ')]}':
            depth -= 1
            if depth == 0:
                return code[start:i]
    return code[start:start + 4000]


def declared(code, start):
    """Whether what stands before is a type, so that this is a declaration of a function of that name."""
    before = code[code.rfind('\n', 0, start) + 1:start]
    return re.search(r'\b(?!return\b|else\b|do\b)\w+[ \t*]+$', before) is not None


def has_flag(code, at, args, flag):
    """Whether the flag is among the arguments, or in a variable among them that was set to it before."""
    if flag in args:
        return True
    return any(re.search(rf'\b{word}\s*=[^=;][^;]*\b{flag}\b', code[max(0, at - 3000):at])
               for word in set(re.findall(r'\b[a-z_]\w*\b', args)))


def problems_of(name, text):
    code = code_of(text, keep_strings=True)
    bare = code_of(text)
    lines = text.split('\n')

    own = set(re.findall(r'^static [^;{}()]*?\b(\w+)\(', bare, re.M))  # a parser's accept() is no socket's

    def allowed(line, call):
        if call in own:
            return True
        for at in (line - 1, line - 2):
            m = ALLOW.search(lines[at]) if 0 <= at < len(lines) else None
            if m and m.group(1) == call:
                return True
        return False

    for m in CALL.finditer(code):
        call, line = m.group(1), line_of(code, m.start())
        if allowed(line, call) or declared(code, m.start()) or f'{call}' not in bare.split('\n')[line - 1]:
            continue
        if call in BANNED:
            yield f'{name}:{line}: {call}: {BANNED[call]}'
        elif not has_flag(code, m.start(), arguments(code, m.end() - 1), NEEDS[call]):
            yield f'{name}:{line}: {call} without {NEEDS[call]}'
    for m in SYSCALL.finditer(bare):
        call, line = m.group(1), line_of(bare, m.start())
        args = arguments(bare, bare.rfind('(', 0, m.start()))
        if NEEDS[call] not in args and not allowed(line, call):
            yield f'{name}:{line}: {call} without {NEEDS[call]}'
    for m in DUPFD.finditer(bare):
        line = line_of(bare, m.start())
        if not allowed(line, 'dup'):
            yield f'{name}:{line}: F_DUPFD: leaks into children: F_DUPFD_CLOEXEC'


def main():
    finish([p for name in files('.c', '.h') for p in problems_of(name, read(name))], 'see the head of tests/lint/banned.py')


if __name__ == '__main__':
    main()
