"""Large workflows: the work of a run grows with its nodes, not with their square or cube.

Nothing is timed. What would grow faster takes many minutes at these sizes, and the time limit of User.run ends it."""
import pytest


def fan_out(n):
    """n branches that meet at one join."""
    return ''.join(['router r:\n  mode: fan_out_all\n\n',
                    *(f'compute n{i}:\n  expr:\n    v: "{i}"\n\n' for i in range(n)),
                    'compute j:\n  expr:\n    v: "1"\n\nworkflow w:\n  entry: r\n',
                    *(f'  r -> n{i}\n  n{i} -> j\n' for i in range(n)), '  j -> done\n'])


def pairs(n):
    """n branches that meet two by two, and then all."""
    return ''.join(['router r:\n  mode: fan_out_all\n\n',
                    *(f'compute n{i}:\n  expr:\n    v: "{i}"\n\n' for i in range(n)),
                    *(f'compute p{i}:\n  expr:\n    v: "{i}"\n\n' for i in range(n // 2)),
                    'compute j:\n  expr:\n    v: "1"\n\nworkflow w:\n  entry: r\n',
                    *(f'  r -> n{i}\n' for i in range(0, n, 2)), *(f'  r -> n{i}\n' for i in range(1, n, 2)),
                    *(f'  n{i} -> p{i // 2}\n' for i in range(n)), *(f'  p{i} -> j\n' for i in range(n // 2)),
                    '  j -> done\n'])


@pytest.mark.parametrize('make, n, joins', [(fan_out, 20000, 1), (pairs, 4000, 2001)])
def test_fan_out_of_thousands(me, make, n, joins):
    me.ok('run', '--quiet', '--sandbox', 'none', me.file('big.bot', make(n)), timeout=170)
    types = [e['type'] for e in me.events()]
    assert types.count('branch_started') >= n
    assert types.count('join_ready') == joins
    assert types[-1] == 'run_finished'
