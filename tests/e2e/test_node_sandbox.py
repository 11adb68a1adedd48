"""Nodes with a sandbox block of their own: what differs, which share one, when it starts, and that none outlives its run."""
import os

import pytest

import engines
from waiting import until, until_there

NATIVE = ('--sandbox-driver', 'native')
NS = 'readlink /proc/self/ns/mnt'


def tool(name, command, *block):
    lines = ''.join(f'    {x}\n' for x in block)
    return f'tool {name}:\n  command: `{command}`\n' + (f'  sandbox:\n{lines}' if block else '') + '\n'


def workflow(*nodes, names, head='  sandbox: auto\n'):
    edges = ''.join(f'  {a} -> {b}\n' for a, b in zip(names, [*names[1:], 'done']))
    return ''.join(nodes) + f'workflow w:\n  entry: {names[0]}\n{head}{edges}'


def output(events, node):
    [done] = [e for e in events if e['type'] == 'node_finished' and e['node_id'] == node]
    return done['data']['output']['output']


def started(events):
    return [(e.get('node_id'), e['data'].get('nodes')) for e in events if e['type'] == 'sandbox_started']


def children(pid):
    """All processes below this one, with their names."""
    found = {}
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
            below = f.read().split()
        for c in below:
            with open(f'/proc/{c}/comm', encoding='utf-8') as f:
                found[int(c)] = f.read().strip()
            found.update(children(c))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def command(pid):
    try:
        with open(f'/proc/{pid}/cmdline', encoding='utf-8') as f:
            return f.read().split('\0')[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def gone(pids):
    def dead(pid):
        try:
            with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
                return f.read().rsplit(')', 1)[1].split()[0] == 'Z'
        except (FileNotFoundError, ProcessLookupError):
            return True
    return all(dead(pid) for pid in pids)


def test_equal_ones_are_shared(user):
    block = ('env:', '  X: "b"')
    user.file('main.bot', workflow(tool('a', NS), tool('b', f'{NS}; echo $X; touch /tmp/here', *block),
                                   tool('c', f'{NS}; echo $X; ls /tmp/here', *block),
                                   tool('d', f'{NS}; ls /tmp/here', 'env:', '  X: "d"'), names='abcd')
              .replace('ls /tmp/here`\n  sandbox:\n    env:\n      X: "d"', 'ls /tmp/here || true`\n  sandbox:\n    env:\n      X: "d"'))
    told = user.ok('run', 'main.bot', *NATIVE).stdout
    assert 'sandbox: native' in told and 'sandbox of b, c: native' in told and 'sandbox of d: native' in told
    events = user.events()
    a, b, c, d = (output(events, n).split('\n') for n in 'abcd')
    assert len({a[0], b[0], d[0]}) == 3 and b[0] == c[0]
    assert b[1] == c[1] == 'b' and c[2] == '/tmp/here' and d[1:] == ['']
    assert started(events) == [(None, None), ('b', ['b', 'c']), ('d', ['d'])]
    assert len([e for e in events if e['type'] == 'sandbox_stopped']) == 3


def test_a_block_that_changes_nothing_is_the_runs(user):
    user.file('main.bot', workflow(tool('a', NS), tool('b', NS, 'mode: inherit'), names='ab',
                                   head='  sandbox:\n    env:\n      X: "1"\n'))
    user.ok('run', 'main.bot', *NATIVE)
    assert output(user.events(), 'a') == output(user.events(), 'b') and len(started(user.events())) == 1


NETWORK = '  sandbox:\n    network:\n      mode: allowlist\n      rules: ["one.example"]\n'


@pytest.mark.parametrize('inherit, rules', [((), ['one.example', 'two.example']),
                                            (('  inherit: merge',), ['one.example', 'two.example']),
                                            (('  inherit: append',), ['one.example', 'two.example']),
                                            (('  inherit: replace',), ['two.example'])])
def test_network(me, inherit, rules):
    ask = ('for h in one two three; do curl -s -o /dev/null -w "%{http_code} " --max-time 5 http://$h.example/; done')
    me.file('main.bot', workflow(tool('a', ask), tool('b', ask, 'network:', '  rules: ["two.example"]', *inherit),
                                 names='ab', head=NETWORK))
    me.ok('run', 'main.bot', *NATIVE, '--resolve', 'one.example:127.0.0.1', '--resolve', 'two.example:127.0.0.1')
    events = me.events()
    # An address of the host's own loopback is refused behind an allowed name: what decided tells the two apart.
    blocked = {(e['node_id'], e['data']['host'], e['data']['reason']) for e in events if e['type'] == 'network_blocked'}
    denied = {n: {h for node, h, why in blocked if node == n and why == 'policy denial'} for n in 'ab'}
    assert denied['a'] == {'two.example', 'three.example'}
    assert denied['b'] == {f'{h}.example' for h in ('one', 'two', 'three')} - set(rules)
    networks = {e.get('node_id'): e['data']['network'] for e in events if e['type'] == 'sandbox_started'}
    assert networks[None]['rules'] == ['one.example'] and networks['b']['rules'] == rules
    assert [e.get('node_id') for e in events if e['type'] == 'network_summary'].count('b') == 1


def test_not_started_before_it_is_needed(me):
    me.file('main.bot', workflow(tool('a', 'touch ready; while [ ! -e go ]; do sleep 0.02; done'), tool('b', 'true'),
                                 tool('c', 'true', 'env:', '  X: "c"'), names='abc')
            .replace('  b -> c\n', '  b -> done when "true"\n  b -> c\n'))
    p = me.start('run', 'main.bot', *NATIVE)
    until_there(os.path.join(me.workspace, 'ready'), p)
    names = list(children(p.pid).values())
    assert names.count('iterion') + names.count('iterion-init') + names.count('iterion-guest') == 1, names
    me.file('go', '')
    p.communicate(timeout=30)
    assert p.returncode == 0 and started(me.events()) == [(None, None)]


def test_nothing_outlives_a_kill(user):
    block = ('network:', '  mode: allowlist', '  rules: ["one.example"]')
    user.file('main.bot', workflow(tool('a', 'true'), tool('b', 'setsid sleep 1000 & touch ready; sleep 1000', *block),
                                   names='ab', head=NETWORK))
    p = user.start('run', 'main.bot', *NATIVE)
    until(lambda: sum('sleep' in n for n in children(p.pid).values()) == 2, 'two nodes sleep', process=p)
    below = children(p.pid)
    assert sum('proxy' in n for n in below.values()) == 2, below
    p.kill()
    p.communicate()
    until(lambda: gone(below), 'all of the run is gone')


def test_the_host_among_sandboxes(user):
    user.file('main.bot', workflow(tool('a', NS), f'tool h:\n  command: `{NS}`\n  sandbox: none\n\n',
                                   tool('b', NS, 'env:', '  X: "b"'), names='ahb'))
    user.ok('run', 'main.bot', *NATIVE)
    events = user.events()
    assert output(events, 'h').strip() == os.readlink('/proc/self/ns/mnt')
    assert len({output(events, n) for n in 'ahb'}) == 3


@pytest.mark.parametrize('head, flags', [('', ()), ('  sandbox: none\n', ()), ('  sandbox: auto\n', ('--sandbox', 'none'))])
def test_in_a_run_without_one(user, head, flags):
    """The block of a node says more than what is said about the run."""
    user.file('main.bot', workflow(tool('a', NS), tool('b', NS, 'mode: auto'), names='ab', head=head))
    user.ok('run', 'main.bot', *NATIVE, *flags)
    events = user.events()
    assert output(events, 'a').strip() == os.readlink('/proc/self/ns/mnt') != output(events, 'b').strip()
    assert started(events) == [('b', ['b'])]


def test_a_resumed_run_keeps_it(me):
    """Nobody said anything about the run: that must not become a word against the node's block."""
    me.file('main.bot', workflow(tool('a', 'true'), tool('b', f'{NS}; echo $X; [ -e go ]', 'env:', '  X: "b"'),
                                 names='ab', head=''))
    me.ok('run', 'main.bot', *NATIVE, code=1)
    me.file('go', '')
    me.ok('resume', '--last', *NATIVE)
    ns, x, _ = output(me.events(), 'b').split('\n')
    assert x == 'b' and ns != os.readlink('/proc/self/ns/mnt')
    assert started(me.events()) == 2 * [('b', ['b'])]


def test_that_cannot_start_fails_its_node(user):
    user.file('main.bot', workflow(tool('a', 'true'), tool('b', 'echo ran', 'post_create: "test -e fixed"'),
                                   tool('c', 'true'), names='abc'))
    user.fails('run', 'main.bot', *NATIVE, code=1, says=('node b: its sandbox', 'post_create'))
    events = user.events()
    assert [e['node_id'] for e in events if e['type'] == 'tool_error'] == ['b']
    assert [e['data']['resumable'] for e in events if e['type'] == 'run_failed'] == [True]
    user.file('fixed', '')
    user.ok('resume', '--last', *NATIVE)
    assert [e['node_id'] for e in user.events() if e['type'] == 'node_started'] == ['a', 'b', 'b', 'c']


def test_that_failed_does_not_stay(me):
    """A run that goes on without it keeps no half-made sandbox."""
    head = '  sandbox: auto\n'
    nodes = (tool('b', 'true', 'post_create: "setsid sleep 1000 & touch began; false"'),
             tool('a', 'touch ready; while [ ! -e go ]; do sleep 0.02; done'))
    me.file('main.bot', ''.join(nodes) + 'router r:\n  mode: fan_out_all\n\ntool j:\n  command: `true`\n  await: best_effort\n\n'
            f'workflow w:\n  entry: r\n{head}  r -> a\n  r -> b\n  a -> j\n  b -> j\n  j -> done\n')
    p = me.start('run', 'main.bot', *NATIVE)
    for name in ('ready', 'began'):
        until_there(os.path.join(me.workspace, name), p)
    until(lambda: [e for e in me.events() if e['type'] == 'tool_error'], 'the event tool_error', process=p)
    until(lambda: 'sleep 1000' not in [' '.join(command(pid)) for pid in children(p.pid)], 'the program is gone',
          process=p)
    me.file('go', '')
    p.communicate(timeout=30)
    assert p.returncode == 0


@pytest.mark.parametrize('block, code, says', [
    (('mounts: ["type=bind,source=/no/such/folder,target=/x"]',), 1, ('node b: its sandbox', '/no/such/folder')),
    (('mounts: ["type=bind,source=/etc/shadow,target=/x"]',), 1, ('node b: its sandbox', '/etc/shadow')),
    (('network:', '  mode: denylist', '  rules: ["x.example"]'), 2, ('inherit: replace',))])
def test_what_is_wrong_is_told_before_any_node_runs(me, block, code, says):
    me.file('main.bot', workflow(tool('a', 'touch ran'), tool('b', 'true', *block), names='ab', head=NETWORK))
    me.fails('run', 'main.bot', *NATIVE, code=code, says=says)
    assert not os.path.exists(os.path.join(me.workspace, 'ran'))


def test_noop_is_told_for_each(me):
    me.file('main.bot', workflow(tool('a', 'true'), tool('b', 'echo $X', 'env:', '  X: "b"'), names='ab'))
    me.ok('run', 'main.bot', '--sandbox-driver', 'noop')
    skipped = [e.get('node_id') for e in me.events() if e['type'] == 'sandbox_skipped']
    assert skipped == [None, 'b'] and output(me.events(), 'b') == 'b\n'


def test_containers_of_their_own(container):
    """An image of a node's own beside the run's container; equal ones share a container, and attachments are in all."""
    user = container.user
    user.file('spec.md', 'as given')
    block = ('mode: inline', f'image: "{engines.IMAGE}"', 'env:', '  X: "b"')
    ask = 'hostname; echo $X; cat {{attachments.spec.path}}; echo x >{{attachments.spec.path}}; true'
    user.file('main.bot', 'attachments:\n  spec: file\n\n' + workflow(
        tool('a', ask), tool('b', ask, *block), tool('c', ask, *block), f'tool h:\n  command: `{ask}`\n  sandbox: none\n\n',
        names='abch', head=container.block()))
    user.ok('run', 'main.bot', *container.flags, '--attachment', 'spec=spec.md')
    events = user.events()
    a, b, c = (output(events, n).split('\n') for n in 'abc')
    assert b[0] == c[0] != a[0] and (a[1], b[1], c[1]) == ('', 'b', 'b')
    assert [x[2] for x in (a, b, c)] == 3 * ['as given'], 'no container could write it'
    assert output(events, 'h').split('\n')[2] == 'as given'
    assert started(events) == [(None, None), ('b', ['b', 'c'])]
    assert len([e for e in events if e['type'] == 'sandbox_stopped']) == 2
    container.nothing_is_left()
