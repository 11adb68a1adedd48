#!/usr/bin/python3
"""The structural tests can fail: each rule once on a text that breaks it and once on one that keeps it."""
from _source import finish
from banned import problems_of as banned
from layers import arrows, problems_of as layers
from shape import problems_of as shape

HEAD = '/* A file. */\n'
BANNED = [
    ('\tstrcpy(a, b);\n', 1),
    ('\t/* strcpy(a, b) would do */\n', 0),
    ('\tputs("strcpy(a, b)");\n', 0),
    ('\tx->open(1);\n', 0),
    ('\tint fd = open(p, O_RDONLY);\n', 1),
    ('\tint fd = open(p,\n\t\tO_RDONLY | O_CLOEXEC);\n', 0),
    ('\t/* lint: allow open, the child keeps it */\n\tint fd = open(p, O_RDONLY);\n', 0),
    ('\tint s = socket(AF_INET, SOCK_STREAM, 0);\n', 1),
    ('\tconst int flags = O_RDONLY | O_CLOEXEC;\n\tint fd = open(p, flags);\n', 0),
    ('\tconst int flags = O_RDONLY;\n\tint fd = open(p, flags);\n', 1),
    ('\tint s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);\n', 0),
    ('\treturn dup(fd);\n', 1),
    ('static bool accept(int t)\n{\n\treturn accept(t);\n}\n', 0),
    ('\treturn accept(fd, 0, 0);\n', 1),
    ('int open(const char *p);\n', 0),
    ('\tFILE *f = fopen(p, "r");\n', 1),
    ('\tFILE *f = fopen(p, "re");\n', 0),
    ('\tfd = fcntl(fd, F_DUPFD, 3);\n', 1),
    ('\tlong fd = syscall(SYS_openat, d, p, O_RDONLY);\n', 1),
]
SHAPE = [
    ('int x;\n', 0), ('int x; \n', 1), ('int x;', 1), ('    int x;\n', 1),
    ('/* TO' 'DO: more */\n', 1), ('int x;\n' * 700, 1),
]
LAYERS = [
    ('src/net/a.c', '#include <base/err.h>\n', 0),
    ('src/net/a.c', '#include <net/policy.h>\n', 0),
    ('src/net/a.c', '#include <sys/socket.h>\n', 0),
    ('src/net/a.c', '#include <sandbox/spec.h>\n', 1),
    ('src/net/a.c', '#include <store/run.h>\n', 1),
    ('src/net/a.c', '#include "no-such-header.h"\n', 1),
    ('src/net/a.c', '#include "../base/err.h"\n', 1),
    ('src/base/a.c', '#include <net/policy.h>\n', 1),
    ('src/other/a.c', '', 1),
]


def main():
    problems = []

    def expect(what, text, found, wanted):
        if len(found) != wanted:
            problems.append(f'{what}: {text!r}: {len(found)} problems, {wanted} expected: {found}')

    for text, wanted in BANNED:
        expect('banned', text, list(banned('src/base/a.c', HEAD + text)), wanted)
    for text, wanted in SHAPE:
        expect('shape', text[:40], list(shape('src/base/a.c', HEAD + text)), wanted)
    if not list(shape('src/base/a.c', 'int x;\n')):
        problems.append('shape: a file without an opening comment passes')
    rank = arrows()
    for name, text, wanted in LAYERS:
        expect('layers ' + name, text, list(layers(name, text, rank)), wanted)
    finish(problems, 'a rule no longer finds what it is there for')


if __name__ == '__main__':
    main()
