"""Files that a run is given: what of them a node sees, that they are the run's own copies, and what is refused."""
import hashlib
import json
import os
import signal
import time

import pytest
from waiting import until_there

DECLARED = '''attachments:
  spec: file
    description: "what to build"
    accept_mime: ["text/*"]
    required: true
  shot: image
  any: file

'''
INSIDE = '/run/iterion/attachments'


def workflow(*commands, sandbox='auto'):
    names = [f't{i}' for i in range(len(commands))]
    nodes = ''.join(f'tool {n}:\n  command: `{c}`\n\n' for n, c in zip(names, commands))
    edges = ''.join(f'  {a} -> {b}\n' for a, b in zip(names, names[1:] + ['done']))
    return DECLARED + nodes + f'workflow w:\n  entry: t0\n  sandbox: {sandbox}\n' + edges


@pytest.fixture(params=['noop', 'native'])
def driver(request):
    return ('--sandbox-driver', request.param)


def output(events, node):
    [done] = [e for e in events if e['type'] == 'node_finished' and e['node_id'] == node]
    return done['data']['output']['output']


def test_seen_by_a_node(user, driver):
    user.file('spec.md', '# it\n')
    user.file('main.bot', workflow('cat {{attachments.spec}}; printf "%s\\n" {{attachments.spec.path}} {{attachments.spec.mime}} '
                                   '{{attachments.spec.size}} {{attachments.spec.sha256}} {{attachments.spec.url}} '
                                   '<{{attachments.shot.path}}>'.replace('<', "'<'").replace('>', "'>'")))
    user.ok('run', 'main.bot', *driver, '--attachment', 'spec=spec.md')
    lines = output(user.events(), 't0').split('\n')
    folder = INSIDE if driver[1] == 'native' else os.path.join(user.store, 'runs', user.runs()[0], 'attachments')
    assert lines[:6] == ['# it', f'{folder}/spec.md', 'text/markdown', '5', hashlib.sha256(b'# it\n').hexdigest(),
                         f'file://{folder}/spec.md']
    assert lines[6].replace("''", '') == '<>', 'one that was not given is empty'


def test_cannot_be_changed_inside(user):
    user.file('spec.md', 'as given')
    tries = f'''cd {INSIDE}
echo x >spec.md; echo x >new; rm -f spec.md; mv spec.md y; chmod 777 spec.md; mount -o remount,rw . ; ls -A; cat spec.md'''
    user.file('main.bot', workflow('echo x >here && cat here', tries))
    user.ok('run', 'main.bot', '--sandbox-driver', 'native', '--attachment', 'spec=spec.md')
    assert output(user.events(), 't0') == 'x\n', 'the control: elsewhere a file can be written'
    assert output(user.events(), 't1') == 'spec.md\nas given'


def test_a_node_on_the_host_changes_none_by_mistake(me):
    me.file('spec.md', 'x')
    me.file('main.bot', workflow('echo y >here && echo y >{{attachments.spec.path}}'))
    p = me.ok('run', 'main.bot', '--sandbox-driver', 'noop', '--attachment', 'spec=spec.md', code=1)
    assert 'Permission denied' in p.stderr and os.path.exists(os.path.join(me.workspace, 'here'))


def test_a_node_on_the_host_has_the_path_of_the_host(user):
    user.file('spec.md', 'x')
    user.file('main.bot', workflow('echo {{attachments.spec.path}}', 'cat {{attachments.spec.path}}; echo '
                                   '{{attachments.spec.path}} {{input.p}}')
              .replace('{{input.p}}`\n', '{{input.p}}`\n  sandbox: none\n')
              .replace('  t0 -> t1\n', '  t0 -> t1 with {\n    p: "{{attachments.spec.path}}"\n  }\n'))
    user.ok('run', 'main.bot', '--sandbox-driver', 'native', '--attachment', 'spec=spec.md')
    host = os.path.join(user.store, 'runs', user.runs()[0], 'attachments', 'spec.md')
    assert output(user.events(), 't0') == f'{INSIDE}/spec.md\n'
    assert output(user.events(), 't1') == f'x{host} {host}\n'


def test_the_copy_is_the_runs_own(me, driver):
    """What becomes of the original after the start does not matter, also not to a run that goes on."""
    path = me.file('spec.md', 'before')
    me.file('main.bot', workflow('touch ready; while [ ! -e go ]; do sleep 0.02; done; cat {{attachments.spec.path}}',
                                 '[ -e fixed ] && cat {{attachments.spec.path}}'))
    p = me.start('run', 'main.bot', *driver, '--attachment', 'spec=spec.md')
    until_there(os.path.join(me.workspace, 'ready'), p)
    me.file('spec.md', 'after')
    os.unlink(path)
    me.file('go', '')
    p.communicate(timeout=30)
    assert p.returncode == 1 and output(me.events(), 't0') == 'before'
    me.file('fixed', '')
    me.ok('resume', '--last', *driver)
    assert output(me.events(), 't1') == 'before'


@pytest.mark.parametrize('damage', ['gone', 'other size', 'a link'])
def test_a_copy_that_was_changed_is_not_gone_on_with(me, damage):
    me.file('spec.md', 'before')
    me.file('main.bot', workflow('true', '[ -e fixed ]'))
    me.ok('run', 'main.bot', '--sandbox-driver', 'noop', '--attachment', 'spec=spec.md', code=1)
    copy = os.path.join(me.store, 'runs', me.runs()[0], 'attachments', 'spec.md')
    os.unlink(copy)
    if damage == 'other size':
        me.file(copy, 'longer than before')
    elif damage == 'a link':
        os.symlink('/etc/passwd', copy)
    me.file('fixed', '')
    me.fails('resume', '--last', says=('attachment spec', 'iterion run'))


@pytest.mark.parametrize('given, says', [
    ([], ('attachment spec', 'what to build', '--attachment spec=FILE')),
    (['spce=spec.md'], ('spce', 'did you mean spec?')), (['spec'], 'NAME=FILE'), (['spec=none.md'], 'No such file'),
    (['spec=.'], 'Is a directory'), (['spec=fifo'], 'no regular file'), (['spec=/dev/zero'], 'no regular file'),
    (['spec=shot.png'], ('image/png', 'text/*')), (['spec=spec.md', 'shot=spec.md'], ('no image', 'text/markdown')),
    (['spec=secret.md'], 'Permission denied'), (['spec=/proc/self/mem'], '/proc/self/mem')])
def test_refused(me, given, says):
    me.file('spec.md', '# it\n')
    me.file('shot.png', b'\x89PNG\r\n\x1a\n')
    me.own(me.file('secret.md', 'x', 0))
    os.mkfifo(os.path.join(me.workspace, 'fifo'))
    me.file('main.bot', workflow('true'))
    me.fails('run', 'main.bot', '--sandbox-driver', 'noop', *(w for g in given for w in ('--attachment', g)), says=says)
    assert me.runs() == [], 'nothing was made'


def test_a_large_one_takes_no_memory(me):
    size = 192 << 20
    with open(me.file('big.txt', ''), 'wb') as f:
        f.truncate(size)
    me.file('spec.md', 'x')
    me.file('main.bot', workflow('wc -c <{{attachments.any.path}}'))
    p = me.start('run', 'main.bot', '--sandbox-driver', 'noop', '--attachment', 'spec=spec.md',
                 '--attachment', 'any=big.txt')
    peak = 0
    while p.poll() is None:
        try:
            with open(f'/proc/{p.pid}/status', encoding='ascii') as f:
                peak = max([peak] + [int(x.split()[1]) for x in f if x.startswith('VmHWM')])
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.01)
    p.communicate()
    assert p.returncode == 0 and output(me.events(), 't0') == f'{size}\n'
    assert 0 < peak < 48 * 1024, f'{peak} KiB'


def sparse(user, name, size):
    path = user.file(name, 'x')
    with open(path, 'r+b') as f:
        f.truncate(size)
    return path


@pytest.mark.parametrize('worktree', ['none', 'auto'])
def test_cancelled_while_a_large_file_is_copied(me, worktree):
    """The run is heard of at once, ends at once, and leaves no half of a file."""
    me.popen('sh', '-c', 'git init -q -b main . && git -c user.name=A -c user.email=a@b commit -qm x --allow-empty').wait()
    large = sparse(me, os.path.join(me.base, 'large'), 4 << 30)
    me.file('spec.md', 'x')
    me.file('main.bot', workflow('echo ran').replace('workflow w:\n', f'workflow w:\n  worktree: {worktree}\n'))
    run = me.start('run', 'main.bot', '--json', '--sandbox-driver', 'noop', '--attachment', 'spec=spec.md', '--attachment',
                   f'any={large}')
    kinds = []
    for line in run.stdout:
        event = json.loads(line)
        kinds.append(event['type'])
        if event['type'] == 'attachments_copying':
            assert event['data'] == {'files': 2, 'bytes': (4 << 30) + 1}
            run.send_signal(signal.SIGINT)
    assert run.wait(30) == 130
    assert kinds[-1] == 'run_cancelled' and 'node_started' not in kinds
    store = os.path.join(me.store, 'runs', me.runs()[0])
    assert 'any' not in os.listdir(os.path.join(store, 'attachments'))
    me.fails('resume', '--last', code=2, says="the run's copy is gone or has changed")


def test_too_large(me):
    sparse(me, 'large', (4 << 30) + 1)
    me.file('spec.md', 'x')
    me.file('main.bot', workflow('true'))
    me.fails('run', 'main.bot', '--attachment', 'spec=spec.md', '--attachment', 'any=large', says='File too large')
    assert me.runs() == []
