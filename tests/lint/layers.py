#!/usr/bin/python3
"""The layers: an include that points from a layer to its right, or to a sibling, is an error.

The arrows are the one line in ARCHITECTURE.md that starts with "base <-"; between two arrows stand siblings.
"""
import os
import re

from _source import ROOT, code_of, files, finish, line_of, read

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
GENERATED = {'config.h'}


def arrows():
    m = re.search(r'^\s*(base <- .*)$', read('ARCHITECTURE.md'), re.M)
    if not m:
        finish(['ARCHITECTURE.md: no line starts with "base <-"'], 'the arrows of the layers must stand there')
    steps = [[n.strip() for n in step.split(',')] for step in m.group(1).split('<-')]
    return {name: rank for rank, step in enumerate(steps) for name in step}


def problems_of(name, text, rank):
    layer = name.split('/')[1]
    if layer not in rank:
        yield f'{name}:1: src/{layer} is no layer of ARCHITECTURE.md'
        return
    for m in INCLUDE.finditer(code_of(text, keep_strings=True)):
        where = f'{name}:{line_of(text, m.start())}'
        quote, path = m.groups()
        if quote == '<':
            other = path.split('/')[0]
            if '/' in path and other in rank and other != layer and rank[other] >= rank[layer]:
                yield f'{where}: {layer} must not know {other} (<{path}>)'
            continue
        if path in GENERATED:
            continue
        here = os.path.normpath(os.path.join(os.path.dirname(name), path))
        inside = os.path.normpath(os.path.join('src', layer, path))
        if not any(p.startswith(f'src/{layer}/') and os.path.isfile(os.path.join(ROOT, p)) for p in (here, inside)):
            yield f'{where}: "{path}" is no private header of {layer}'


def main():
    rank = arrows()
    problems = [p for name in files('.c', '.h') for p in problems_of(name, read(name), rank)]
    finish(problems, 'a layer knows only what stands left of it (ARCHITECTURE.md)')


if __name__ == '__main__':
    main()
