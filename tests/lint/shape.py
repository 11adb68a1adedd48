#!/usr/bin/python3
"""The shape of files: sizes, a theory of operation at the top of each .c, tabs, and no words that put work off. What
clang-format settles (columns, breaks) is its own check of `make lint`."""
import re

from _source import files, finish, read

C_MAX, PUBLIC_MAX, PRIVATE_MAX = 600, 120, 200
WORDS = re.compile(r'\b(TODO|FIXME|XXX|HACK|for now|phase [0-9]|not (yet )?implemented)\b', re.I)


def problems_of(name, text):
    lines = text.split('\n')
    limit = C_MAX if name.endswith('.c') else PUBLIC_MAX if '/include/' in name else PRIVATE_MAX
    if len(lines) - 1 > limit:
        yield f'{name}: {len(lines) - 1} lines, the most is {limit}: cut it by concern'
    if not text.startswith('/*'):
        yield f'{name}:1: no opening comment (what this is, why so, what it must never do)'
    if not text.endswith('\n'):
        yield f'{name}: no newline at the end'
    for n, line in enumerate(lines, 1):
        if line.endswith((' ', '\t')):
            yield f'{name}:{n}: white space at the end of the line'
        if line.startswith('    '):
            yield f'{name}:{n}: indented by spaces'
        m = WORDS.search(line)
        if m:
            yield f'{name}:{n}: "{m.group(0)}": do it or leave it out'


def main():
    finish([p for name in files('.c', '.h') for p in problems_of(name, read(name))], 'see CONTRIBUTING.md')


if __name__ == '__main__':
    main()
