"""Secrets in containers: the image's own store of certificates is the one that is trusted, and nothing of the value is in
what the engine knows. curl is the host's, since the test image has nothing that speaks TLS."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import engines
from conftest import of_type, skip
from tls_upstream import authority

VALUE = 'sk-live-9fK2mQ7xW4vR1tY8uI3oP6aS5dF0gH'
HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = '''
import sys
sys.path.insert(0, %r)
from tls_upstream import Upstream
with Upstream(None, pem=%r) as u:
    print(u.port, flush=True)
    u.thread.join()
'''


@pytest.fixture
def upstream(world):
    with authority() as ca:
        for name in os.listdir(ca.folder):
            os.chmod(os.path.join(ca.folder, name), 0o644)
        pem = ca.leaf('api.test')
        process = world.start([sys.executable, '-c', SERVER % (HERE, pem)], 'tls.log')
        try:
            yield ca, int(process.stdout.readline())
        finally:
            process.terminate()
            process.wait()


def kit(user):
    """The host's curl with its libraries in the workspace: how it is called."""
    curl = shutil.which('curl') or skip('curl is not installed')
    folder = user.folder('workspace', 'kit')
    listed = subprocess.run(['ldd', curl], check=True, stdout=subprocess.PIPE).stdout.decode()
    files = re.findall(r'(/\S+) \(0x', listed)
    for path in [curl, *files]:
        shutil.copy(path, folder)
    loader = next(os.path.basename(f) for f in files if os.path.basename(f).startswith('ld-'))
    return f'{folder}/{loader} --library-path {folder} {folder}/curl'


def test_a_secret_in_a_container(container, upstream):
    ca, port = upstream
    block = container.block('host_state: none', network='allowlist', rules=['api.test'])
    block += ('      tls_inspect: secrets\n    secrets:\n      TOKEN:\n        from: "env:REAL_TOKEN"\n'
              '        hosts: ["api.test"]\n')
    user = container.user
    curl = kit(user)
    container.workflow(
        f'echo $TOKEN; {curl} -sS --max-time 20 -H "Authorization: $TOKEN" https://api.test:{port}/headers',
        # Nothing but the file at the place where images have theirs.
        f'env -u CURL_CA_BUNDLE -u SSL_CERT_FILE -u SSL_CERT_DIR {curl} -sS --max-time 20 --cacert '
        f'/etc/ssl/certs/ca-certificates.crt https://api.test:{port}/headers >/dev/null && echo good',
        'touch ready; until test -e looked; do sleep 0.05; done', block=block)
    p = user.start('run', 'main.bot', *container.flags, '--resolve', 'api.test:127.0.0.1',
                   env={'SSL_CERT_FILE': ca.file, 'REAL_TOKEN': VALUE})
    ready = os.path.join(user.workspace, 'ready')
    engines.until(lambda: os.path.exists(ready) or p.poll() is not None, 'the node started')
    assert p.poll() is None, p.communicate()
    names = container.engine.names('label=iterion.io/managed=true')
    assert VALUE not in container.engine.ok('inspect', names[0])
    user.file('looked', '')
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, (out, err)
    placeholder, answer = container.outputs()['t0'].split('\n', 1)
    assert placeholder.startswith('sk-') and placeholder != VALUE and len(placeholder) == len(VALUE)
    assert json.loads(answer)['headers']['Authorization'] == placeholder
    assert container.outputs()['t1'] == 'good\n'
    assert of_type(user.events(), 'sandbox_started')[0]['secrets'] == ['TOKEN']
