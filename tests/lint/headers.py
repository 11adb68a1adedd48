#!/usr/bin/python3
"""Every header compiles alone: it includes what it needs, and nothing it includes stands to its right."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from layers import arrows, tools
from _source import ROOT, files, finish


def include_path(layer, rank):
    left = [n for n in rank if rank[n] < rank[layer] or n == layer]
    dirs = [f'src/{n}/include' for n in left] + [f'src/{layer}']
    return [f'-I{d}' for d in dirs if os.path.isdir(os.path.join(ROOT, d))]


def check(name, rank):
    layer = name.split('/')[1]
    if layer not in rank:
        return f'{name}: src/{layer} is no layer'
    argv = [os.environ.get('CC', 'cc'), '-std=gnu17', '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', '-Wall', '-Wextra',
            '-Werror', '-Wno-unused-function', '-fsyntax-only', '-x', 'c', *include_path(layer, rank), '-include', name,
            '/dev/null']
    out = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f'{name} does not compile alone:\n{out.stdout.decode(errors="replace")}' if out.returncode else None


def main():
    rank = {**arrows(), **{t: -1 for t in tools()}}
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda n: check(n, rank), files('.h')))
    if not results:
        sys.exit('no headers found')
    finish([r for r in results if r], 'a header includes what it needs')


if __name__ == '__main__':
    main()
