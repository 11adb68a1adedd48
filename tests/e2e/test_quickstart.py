"""examples/quickstart runs as it stands, and does what its README says."""
import os
import shutil

from conftest import ROOT


def test_quickstart(user):
    shutil.copy(os.path.join(ROOT, 'examples', 'quickstart', 'main.bot'), user.workspace)
    os.chmod(os.path.join(user.workspace, 'main.bot'), 0o644)
    assert 'ok' in user.ok('validate', 'main.bot').stdout
    p = user.ok('run', 'main.bot', '--sandbox-driver', 'native', '--no-interactive')
    assert 'blocked: evil.example.net:443' in p.stdout and 'run finished' in p.stdout
    with open(os.path.join(user.workspace, 'note.txt'), encoding='utf-8') as f:
        assert f.read() == 'written by write in a sandbox\n'
    with open(os.path.join(user.workspace, 'refused.txt'), encoding='utf-8') as f:
        assert 'evil.example.net' in f.read()
    shown = user.ok('inspect', '--node', 'summary').stdout
    assert 'written by write in a sandbox' in shown and 'evil.example.net' in shown
