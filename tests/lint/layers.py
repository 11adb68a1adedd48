#!/usr/bin/python3
"""The layers: an include that points from a layer to its right, or to a sibling, is an error.

The arrows are the one line in ARCHITECTURE.md that starts with "base <-"; between two arrows stand siblings. The line
"Build tools:" names folders of programs that only the build runs; they stand apart and include no layer. A quoted
header that is not in the tree must be the output of some meson.build.
"""
import os
import re

from _source import ROOT, code_of, files, finish, line_of, read

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def arrows():
    m = re.search(r'^\s*(base <- .*)$', read('ARCHITECTURE.md'), re.M)
    if not m:
        finish(['ARCHITECTURE.md: no line starts with "base <-"'], 'the arrows of the layers must stand there')
    steps = [[n.strip() for n in step.split(',')] for step in m.group(1).split('<-')]
    return {name: rank for rank, step in enumerate(steps) for name in step}


def tools():
    m = re.search(r'^\s*Build tools: (.*)$', read('ARCHITECTURE.md'), re.M)
    return {n.strip() for n in m.group(1).split(',')} if m else set()


def generated():
    """Headers that the build makes."""
    text = ''.join(read(n) for n in ['meson.build', *files('meson.build')])
    return set(re.findall(r"output\s*:\s*'([^']+\.h)'", text))


def problems_of(name, text, rank, made=frozenset()):
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
        if path in made:
            continue
        here = os.path.normpath(os.path.join(os.path.dirname(name), path))
        inside = os.path.normpath(os.path.join('src', layer, path))
        if not any(p.startswith(f'src/{layer}/') and os.path.isfile(os.path.join(ROOT, p)) for p in (here, inside)):
            yield f'{where}: "{path}" is no private header of {layer}'


def main():
    # To a tool every layer stands on the right.
    rank = {**arrows(), **{t: -1 for t in tools()}}
    made = generated()
    problems = [p for name in files('.c', '.h') for p in problems_of(name, read(name), rank, made)]
    finish(problems, 'a layer knows only what stands left of it (ARCHITECTURE.md)')


if __name__ == '__main__':
    main()
