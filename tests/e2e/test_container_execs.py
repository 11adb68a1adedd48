"""Many programs at once in one container: no byte is lost. EXEC_MB sets how much each of them writes (8; 100 in full)."""
import glob
import hashlib
import os

MB = int(os.environ.get('EXEC_MB', '8'))
EXECS = 32


def expected(i):
    """SHA-256 of what node i writes: its number on every line, MB times 2^20 bytes."""
    block = f'{i:07d}\n'.encode() * (1 << 17)
    sum_of_it = hashlib.sha256()
    for _ in range(MB):
        sum_of_it.update(block)
    return sum_of_it.hexdigest()


def test_parallel_execs_lose_no_byte(container):
    user = container.user
    nodes = ''.join(f'tool n{i}:\n  command: `yes {i:07d} | head -c {MB << 20}`\n\n' for i in range(EXECS))
    edges = ''.join(f'  fan -> n{i}\n  n{i} -> last\n' for i in range(EXECS))
    user.file('main.bot', f'{nodes}router fan:\n  mode: fan_out_all\n\ntool last:\n  await: wait_all\n  command: `true`\n\n'
              f'workflow w:\n  entry: fan\n{container.block()}{edges}  last -> done\n')
    user.ok('run', 'main.bot', *container.flags, '--quiet', timeout=600)
    run = os.path.join(user.store, 'runs', user.runs()[-1])
    for i in range(EXECS):
        files = glob.glob(os.path.join(run, 'output', f'*-n{i}.stdout'))
        assert len(files) == 1, files
        with open(files[0], 'rb') as f:
            assert hashlib.file_digest(f, 'sha256').hexdigest() == expected(i), f'n{i}'
