"""The published images: what they hold, that their Dockerfiles are ones, and how they are published."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, skip

SLIM = ['git', 'curl', 'jq', 'node', 'npm', 'devbox', 'nix', 'sleep']
FULL = ['go', 'g', 'python3', 'pnpm', 'fnm', 'direnv', 'gh', 'yq', 'kubectl', 'helm', 'k9s']
NAMES = ['slim', 'full']


def path(name):
    return os.path.join(ROOT, 'images', name, 'Dockerfile')


def instructions(name):
    """(word, the rest in one line) of each."""
    with open(path(name), encoding='utf-8') as f:
        text = ''.join(line for line in f if not line.startswith('#'))
    joined = re.sub(r'\\\n\s*', ' ', text)
    return [tuple(line.split(None, 1)) for line in joined.split('\n') if line.strip()]


def final_stage(name):
    all_of_it = instructions(name)
    last = max(i for i, (word, _) in enumerate(all_of_it) if word == 'FROM')
    return all_of_it[last:]


@pytest.mark.parametrize('name, programs', [('slim', SLIM), ('full', FULL)])
def test_every_program_is_run_once_by_the_build(name, programs):
    last_run = [rest for word, rest in final_stage(name) if word == 'RUN'][-1]
    ran = {command.split()[0] for command in last_run.split('&&')}
    assert set(programs) <= ran


def test_full_is_made_from_slim():
    args = [rest for word, rest in instructions('full') if word == 'ARG']
    assert 'BASE=ghcr.io/socialgouv/iterion-sandbox-slim:edge' in args
    assert final_stage('full')[0] == ('FROM', '${BASE}')


def test_node_is_of_the_promised_version():
    assert ('ARG', 'NODE=24') in instructions('slim')


@pytest.mark.parametrize('name', NAMES)
def test_what_is_copied_comes_from_a_stage(name):
    stages = {m.group(1) for word, rest in instructions(name) if word == 'FROM'
              for m in [re.search(r' AS (\S+)$', rest)] if m}
    froms = [re.search(r'--from=(\S+)', rest) for word, rest in instructions(name) if word == 'COPY']
    assert froms and all(m and m.group(1) in stages for m in froms)


@pytest.mark.parametrize('name', NAMES)
def test_downloads_are_checked(name):
    """Whatever curl fetches is compared with a checksum, but for the one program that publishes none."""
    for word, rest in instructions(name):
        if word == 'RUN' and 'curl -f' in rest:
            assert 'sha256sum --check' in rest or 'fnm' in rest, rest


@pytest.mark.parametrize('name', NAMES)
def test_image_fits_any_user(name):
    stage = final_stage(name)
    assert not [rest for word, rest in stage if word == 'ENTRYPOINT']
    assert stage[-1] == ('CMD', '["sleep", "infinity"]')


@pytest.mark.parametrize('name', NAMES)
def test_shell_of_the_steps(name):
    if not shutil.which('shellcheck'):
        skip('needs shellcheck, which is not installed')
    shell = 'sh'
    for word, rest in instructions(name):
        shell = 'bash' if word == 'SHELL' else 'sh' if word == 'FROM' else shell
        if word == 'RUN':
            p = subprocess.run(['shellcheck', '--shell', shell, '--exclude', 'SC2046', '-'],
                               input=re.sub(r'\s+', ' ', rest), text=True, stdout=subprocess.PIPE, check=False)
            assert p.returncode == 0, p.stdout


def build(docker, dockerfile):
    """Until the first image has to be fetched: the engine reads the whole file before."""
    return docker.run('build', '--no-cache', '-f', dockerfile, os.path.dirname(dockerfile),
                      timeout=60).stderr.lower()


@pytest.mark.parametrize('name', NAMES)
def test_engine_reads_the_dockerfile(docker, name, tmp_path):
    assert 'pars' not in build(docker, path(name))
    with open(path(name), encoding='utf-8') as f:
        text = f.read()
    tmp_path.joinpath('Dockerfile').write_text(text.replace('\nCOPY', '\nKOPY', 1))
    assert 'pars' in build(docker, str(tmp_path / 'Dockerfile')), 'a broken file is not told from a good one'


def test_workflow_publishes_and_signs_both():
    try:
        import yaml
    except ImportError:
        skip('needs the Python module yaml (Debian: python3-yaml)')
    with open(os.path.join(ROOT, '.github', 'workflows', 'images.yml'), encoding='utf-8') as f:
        doc = yaml.safe_load(f)
    steps = doc['jobs']['publish']['steps']
    builds = [s for s in steps if 'build-push-action' in s.get('uses', '')]
    assert [s['with']['context'] for s in builds] == ['images/slim', 'images/full']
    assert doc['env']['PLATFORMS'] == 'linux/amd64,linux/arm64'
    assert all(s['with']['platforms'] == '${{ env.PLATFORMS }}' and s['with']['push'] for s in builds)
    tags = [s['with']['tags'] for s in steps if 'metadata-action' in s.get('uses', '')]
    assert len(tags) == 2 and all('type=edge' in t and 'v{{version}}' in t for t in tags)
    signed = [s['run'] for s in steps if 'cosign sign' in s.get('run', '')]
    assert len(signed) == 2 and all('@$DIGEST' in run for run in signed)
    assert doc['permissions']['id-token'] == 'write' and doc['permissions']['packages'] == 'write'


def test_devcontainer_example(me):
    """The template is read as a run would: its image is the slim one, and devbox fetches the tools before the first
    node."""
    example = os.path.join(ROOT, 'examples', 'devcontainer-devbox')
    shutil.copytree(example, me.workspace, dirs_exist_ok=True)
    me.ok('validate', 'main.bot')
    plan = json.loads(me.ok('sandbox', 'plan', '--json', '--sandbox-driver', 'docker', 'main.bot').stdout)
    text = json.dumps(plan)
    assert 'ghcr.io/socialgouv/iterion-sandbox-slim:edge' in text and 'devbox install' in text
    with open(os.path.join(example, 'devbox.json'), encoding='utf-8') as f:
        assert json.load(f)['packages']
