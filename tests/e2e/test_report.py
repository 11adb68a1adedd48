"""`report`: one run as a page, in which nothing that a run put out can be more than text."""
import html.parser
import json
import os
import re
import signal

import pytest
from waiting import until_there

VOID = {'meta', 'br', 'link', 'img', 'input'}
LOOSE = {'th', 'td', 'tr'}  # their end tags may be left out
ELEMENTS = {'html', 'head', 'meta', 'title', 'style', 'body', 'h1', 'h2', 'h3', 'p', 'span', 'div', 'dl', 'dt', 'dd', 'table',
            'tr', 'th', 'td', 'details', 'summary', 'pre', 'svg', 'g', 'defs', 'marker', 'path', 'rect', 'line', 'text'}


class Page(html.parser.HTMLParser):
    """Checks what stands in the page while it reads it."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.texts, self.tags, self.ids = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.stack, f'not closed: {self.stack}'
        self.text = ''.join(self.texts)

    def handle_starttag(self, tag, attrs):
        assert tag in ELEMENTS, f'<{tag}> at {self.getpos()}'
        for name, value in attrs:
            assert not name.startswith('on') and name not in ('href', 'src', 'xlink:href', 'style', 'action'), (tag, name)
            if name == 'id':
                self.ids.append(value)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID | LOOSE:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID | LOOSE:
            self.stack.pop()

    def handle_endtag(self, tag):
        if tag not in LOOSE:
            assert self.stack and self.stack.pop() == tag, f'</{tag}> at {self.getpos()}'

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag, cls=None):
        return [a for t, a in self.tags if t == tag and (cls is None or cls in a.get('class', '').split())]


def parsed(text):
    page = Page(text)
    assert text.startswith('<!DOCTYPE html>\n') and '\x1b' not in text
    assert not re.search(r'url\((?!#arrow\))|@import|https?://', re.sub(r'<pre>.*?</pre>', '', text, flags=re.S))
    assert "default-src 'none'" in text and len(page.ids) == len(set(page.ids))
    return page


LOOP = '''tool a:
  command: `sleep 0.2; echo from a`

tool b:
  command: `echo from b`

router split:
  mode: fan_out_all

tool join:
  command: `echo joined`
  await: wait_all

tool check:
  command: `echo again`

tool last:
  command: `echo sorry >&2; exit 3`

workflow w:
  entry: split
  split -> a
  split -> b
  a -> join
  b -> join
  join -> check
  check -> join as again(2)
  check -> last
  last -> done
'''


def test_html(user):
    user.file('main.bot', LOOP)
    user.run('run', 'main.bot', '--sandbox-driver', 'noop', '--store-dir', user.store)
    out = user.ok('report', '--store-dir', user.store, '--format', 'html').stdout
    page = parsed(out)
    # split, a, b, join ×3, check ×3, last: bars and rows for each time, a place in the graph for each node
    assert len(page.all('g', 'bar')) == 10 and len(page.all('g', 'node')) == 6
    assert len(page.all('g', 'failed')) == 2 and len(page.all('tr')) == 11
    assert len(page.all('path', 'edge')) == 7 and len(page.all('path', 'loop')) == 1
    assert page.text.count('×2') == 1 and page.text.count('×3') == 1
    assert len(page.all('details')) == 10 - 1, 'the router put out nothing'
    assert [a for a in page.all('details') if 'open' in a] == [{'open': None}], 'what failed is open'
    for text in ('Run of w', 'failed', 'from a\n', 'sorry', 'node last: exit code 3'):
        assert text in page.text
    lanes = {re.search(rf'class="bar [a-z]+"><title>{n}: .*?y="([\d.]+)"', out).group(1) for n in 'ab'}
    assert len(lanes) == 2, 'branches at the same time stand below each other'


HOSTILE = '''</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>&lt;"'`'''


def test_hostile_run(me):
    """Names and texts with markup, by a run whose record and events hold what no workflow could."""
    me.file('main.bot', LOOP)
    me.run('run', 'main.bot', '--sandbox-driver', 'noop', '--store-dir', me.store, '--run-id', 'r')
    folder = os.path.join(me.store, 'runs', 'r')
    bad = HOSTILE + '\x1b[2J\u202e'

    def spoil(j):
        if isinstance(j, dict):
            return {k: spoil(v) for k, v in j.items()}
        if isinstance(j, list):
            return [spoil(v) for v in j]
        return j + bad if isinstance(j, str) else j
    with open(os.path.join(folder, 'events.jsonl'), encoding='utf-8') as f:
        events = [json.loads(line) for line in f]
    events.insert(-1, {'seq': 0, 'type': 'network_summary', 'data': {'hosts': [{'host': 'h', 'allowed': 1}]}})
    for ev in events:
        for key in ('node_id', 'branch_id', 'data'):
            if key in ev:
                ev[key] = spoil(ev[key])
    with open(os.path.join(folder, 'events.jsonl'), 'w', encoding='utf-8') as f:
        f.writelines(json.dumps(ev) + '\n' for ev in events)
    with open(os.path.join(folder, 'run.json'), encoding='utf-8') as f:
        record = json.load(f)
    for key in ('name', 'workflow_name', 'status', 'error', 'file', 'workspace'):
        record[key] = bad
    with open(os.path.join(folder, 'run.json'), 'w', encoding='utf-8') as f:
        json.dump(record, f)
    out = me.ok('report', 'r', '--store-dir', me.store, '--format', 'html').stdout
    page = parsed(out)
    assert HOSTILE in page.text and r'\x1b[2J\u202e' in page.text
    assert len(page.all('g', 'bar')) == 10 and len(page.all('g', 'node')) == 6
    text = me.ok('report', 'r', '--store-dir', me.store).stdout
    assert '<script' not in re.sub(r'^    .*$', '', text.replace('\\<', ''), flags=re.M)
    assert '\x1b' not in text and '\u202e' not in text


def test_to_a_file(me):
    me.file('main.bot', LOOP)
    me.run('run', 'main.bot', '--sandbox-driver', 'noop', '--store-dir', me.store)

    def report(*args):
        assert me.ok('report', '--store-dir', me.store, *args).stdout == ''

    def content(name):
        with open(os.path.join(me.workspace, name), encoding='utf-8') as f:
            return f.read()
    report('-o', 'a.html')
    report('-o', 'a.md')
    report('-o', 'b.html', '--format', 'md')
    os.symlink('real.html', os.path.join(me.workspace, 'link.html'))
    me.file('real.html', 'before')
    report('-o', 'link.html')
    parsed(content('a.html'))
    assert content('a.html') == me.ok('report', '--store-dir', me.store, '--format=html', '-o', '-').stdout
    assert content('a.md').startswith('# Run of w\n') and content('b.html') == content('a.md')
    assert content('real.html') == content('a.html') and os.path.islink(os.path.join(me.workspace, 'link.html'))
    assert not [n for n in os.listdir(me.workspace) if n.endswith('.tmp')]


@pytest.mark.parametrize('path, says', [('nosuch/a.html', 'No such file'), ('/dev/null', 'not a regular file'),
                                        ('.', 'not a regular file'), ('', 'a.html')])
def test_file_that_cannot_be_written(me, path, says):
    me.file('main.bot', LOOP)
    me.run('run', 'main.bot', '--sandbox-driver', 'noop', '--store-dir', me.store)
    if not path:
        os.chmod(me.workspace, 0o555)
        path = 'a.html'
    me.fails('report', '--store-dir', me.store, '-o', path, says=says)
    os.chmod(me.workspace, 0o755)
    assert not [n for n in os.listdir(me.workspace) if n not in ('main.bot',)]
    me.fails('report', '--store-dir', me.store, '--format', 'pdf', says='html')


def test_while_it_runs(me):
    """A page of a run that goes on, and of one whose process was killed."""
    me.file('main.bot', 'tool t:\n  command: `touch ready; while :; do sleep 0.1; done`\n\nworkflow w:\n  entry: t\n  t -> done\n')
    p = me.start('run', 'main.bot', '--sandbox-driver', 'noop', '--store-dir', me.store)
    until_there(os.path.join(me.workspace, 'ready'), p)
    page = parsed(me.ok('report', '--store-dir', me.store, '--format', 'html').stdout)
    assert 'running' in page.text and len(page.all('g', 'running')) == 2
    p.send_signal(signal.SIGKILL)
    p.communicate(timeout=20)
    assert 'interrupted' in parsed(me.ok('report', '--store-dir', me.store, '--format', 'html').stdout).text


def test_many_branches(me):
    n = 60
    nodes = ''.join(f'tool b{i}:\n  command: `echo {i}`\n\n' for i in range(n))
    edges = ''.join(f'  split -> b{i}\n  b{i} -> join\n' for i in range(n))
    me.file('main.bot', nodes + 'router split:\n  mode: fan_out_all\n\ntool join:\n  command: `echo joined`\n'
            f'  await: wait_all\n\nworkflow w:\n  entry: split\n{edges}  join -> done\n')
    me.ok('run', 'main.bot', '--sandbox-driver', 'noop', '--store-dir', me.store, '-q')
    out = me.ok('report', '--store-dir', me.store, '--format', 'html').stdout
    page = parsed(out)
    assert len(page.all('g', 'node')) == n + 3 and len(page.all('g', 'bar')) == n + 2
    places = {(m.group(1), m.group(2)) for m in re.finditer(r'class="node [a-z]+"><title>[^<]*</title><rect x="(\S+)" y="(\S+)"', out)}
    assert len(places) == n + 3, 'no two nodes stand in the same place'
