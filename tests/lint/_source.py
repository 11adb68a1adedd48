"""What the structural tests share: the source files and C text without comments and literals. Not a test itself."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*suffixes, under='src/'):
    """The project's files with one of the suffixes, tracked or new, but nothing that git ignores."""
    out = subprocess.run(['git', '-C', ROOT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard', under],
                         stdout=subprocess.PIPE, check=False)
    if out.returncode == 0:
        names = [n for n in out.stdout.decode().split('\0') if n]
    else:  # a release tarball has no git
        names = [os.path.relpath(os.path.join(d, f), ROOT)
                 for d, _, fs in os.walk(os.path.join(ROOT, under)) for f in fs]
    return sorted(n for n in set(names) if n.endswith(suffixes) and os.path.isfile(os.path.join(ROOT, n)))


def read(name):
    with open(os.path.join(ROOT, name), encoding='utf-8') as f:
        return f.read()


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_of(text, keep_strings=False):
    """The text with comments (and the inside of literals) blanked; line numbers stay."""
    def blank(m):
        s = m.group(0)
        if s[0] in '"\'':
            return s if keep_strings else s[0] + s[0]
        return re.sub(r'[^\n]', ' ', s)
    return _TOKEN.sub(blank, text)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


def finish(problems, what):
    for p in problems:
        print(p)
    if problems:
        print(f'{len(problems)} problem{"s" if len(problems) > 1 else ""}: {what}')
    sys.exit(1 if problems else 0)
