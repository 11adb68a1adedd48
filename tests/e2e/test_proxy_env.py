"""A network policy where iterion's program cannot run in the container: its proxy listens on the one address that the
container reaches, and programs are told of it by variables."""
import contextlib
import io
import json
import os
import re
import signal
import tarfile

import pytest

import engines
from conftest import of_type
from without_guest import BRIDGE, RESOLVE, finish, hex_of, in_a_machine, policy, start_waiting, wget


@contextlib.contextmanager
def image_with(engine, changes):
    """The test image with folders of these modes, and links."""
    out, tag = io.BytesIO(engines.busybox_layer()), 'localhost/in-the-way:1'
    with tarfile.open(fileobj=out, mode='a') as tar:
        for name, what in changes:
            if isinstance(what, str):
                engines.add_file(tar, name, type=tarfile.SYMTYPE, linkname=what)
            else:
                engines.add_file(tar, name, mode=what, type=tarfile.DIRTYPE)
    engine.load(engines.image_archive(engine.world.path('in-the-way.tar'), tag, out.getvalue()))
    yield tag
    engine.ok('rmi', '--force', tag)


@pytest.fixture
def weak(place_of, no_guest):
    """Docker in a virtual machine, where the guest cannot run."""
    with place_of('docker') as place:
        place.user.env.update(no_guest)
        in_a_machine(place.user)
        yield place


def test_policy_is_offered(weak):
    """What asks the proxy is held to the policy; what does not is not held back, and that is said."""
    past = 'unset http_proxy; ' + wget(engines.METADATA, weak.port)
    weak.run(wget('good.test', weak.port), wget('evil.test', weak.port) + '; exit 0', past, 'echo $http_proxy',
             flags=RESOLVE, block=policy(weak))
    out = weak.outputs()
    assert out['t0'] == 'hello from /x\n' and '403' in out['t1'] and 'hello' not in out['t1']
    assert out['t2'] == 'hello from /x\n', 'nothing holds it back: the warning below is not for nothing'
    assert re.fullmatch(r'http://iterion:[0-9a-f]{64}@host\.docker\.internal:[0-9]+\n', out['t3'])
    events = weak.user.events()
    assert of_type(events, 'sandbox_started')[0]['network'] == {
        'mode': 'allowlist', 'enforcement': 'proxy-env', 'rules': ['good.test']}
    assert [w['code'] for w in of_type(events, 'sandbox_warning')] == ['no_guest', 'proxy_env']
    assert 'not held back' in of_type(events, 'sandbox_warning')[1]['message']
    assert [(b['host'], b['port']) for b in of_type(events, 'network_blocked')] == [('evil.test', weak.port)]
    hosts = {h['host']: (h['allowed'], h['blocked']) for h in of_type(events, 'network_summary')[0]['hosts']}
    assert hosts == {'good.test': (1, 0), 'evil.test': (0, 1)}
    assert sorted(os.listdir(weak.user.workspace)) == ['main.bot'], 'the marker is gone'


# How an image keeps the guest from starting: folders that its user may not enter, also by a link.
IN_THE_WAY = [[('run/iterion', 0o700)], [('run/iterion', 0o755), ('run/iterion/bin', 0o700)],
              [('own', 0o700), ('run/iterion', 0o755), ('run/iterion/control.sock', '/own/x')]]


@pytest.mark.parametrize('changes', IN_THE_WAY, ids=['folder', 'folder of the guest', 'link'])
def test_image_does_not_choose_the_weaker_way(place_of, changes):
    """The engine is here and could run the guest, so that it did not start is the image's doing."""
    with place_of('docker') as place, image_with(place.engine, changes) as image:
        p = place.run('touch made', code=1, block=place.block(network='allowlist', rules=['good.test'], image=image))
        assert 'its engine is on this machine' in p.stderr and 'hint: ' in p.stderr, p.stderr
        assert os.listdir(place.user.workspace) == ['main.bot']
        place.run('touch made', block=place.block(image=image))
        assert os.path.exists(os.path.join(place.user.workspace, 'made')), 'without a policy it is slower, no more'


@pytest.mark.parametrize('mode, rules, denied', [('denylist', ['evil.test'], True), ('learn', [], False)])
def test_other_modes(weak, mode, rules, denied):
    weak.run(wget('evil.test', weak.port) + '; exit 0', flags=RESOLVE, block=policy(weak, mode=mode, rules=rules))
    assert ('hello' in weak.outputs()['t0']) != denied
    assert bool(of_type(weak.user.events(), 'network_blocked')) == denied


def test_proxy_is_on_one_address_and_wants_the_token(weak):
    world = weak.user.world
    p, port = start_waiting(weak)
    assert world.listeners(port) == [hex_of(BRIDGE)]
    ask = ['wget', '-q', '-O', '-', f'http://good.test:{weak.port}/x']
    for proxy, answer in ((f'http://{BRIDGE}:{port}', '407'), (f'http://iterion:{"0" * 64}@{BRIDGE}:{port}', '407')):
        said = world.run([engines.BUSYBOX, *ask], env={'http_proxy': proxy})
        assert said.returncode != 0 and answer in said.stderr, said
    finish(weak, p)
    assert world.listeners(port) == []


def test_nothing_is_left_of_a_killed_run(weak):
    world = weak.user.world
    p, port = start_waiting(weak)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    engines.until(lambda: world.listeners(port) == [], 'the proxy has ended')
    weak.user.ok('sandbox', 'gc')
    assert sorted(os.listdir(weak.user.workspace)) == ['main.bot', 'proxy']


def test_marker_of_a_killed_run_is_removed(weak):
    """One that was killed while it looked; and folders of that name that are nobody's stay."""
    user = weak.user
    p, _ = start_waiting(weak)
    labels = json.loads(weak.engine.ok('inspect', '--format', '{{json .Config.Labels}}',
                                       *weak.engine.names('label=iterion.io/managed=true')))
    p.kill()
    p.communicate()
    dead = user.folder('workspace', f'.iterion-seen.{labels["iterion.io/owner"]}.00')
    kept = user.folder('workspace', '.iterion-seen.mine.00')
    weak.run('true', block=policy(weak))
    assert not os.path.exists(dead) and os.path.exists(kept)


@pytest.mark.parametrize('word, says', [('required', 'cannot be enforced'), ('maybe', 'not such a word')])
def test_enforcement_that_is_required(weak, word, says):
    p = weak.run('touch made', block=policy(weak), code=1,
                 env={'ITERION_NETWORK_ENFORCEMENT': word})
    assert says in p.stderr and 'hint: ' in p.stderr and not os.path.exists(os.path.join(weak.user.workspace, 'made'))


def test_enforcement_that_was_required(place_of, no_guest):
    """A run that was stopped does not go on where its policy is only offered, unless it is told to now."""
    with place_of('docker') as place:
        place.run('true', 'test -e go', block=policy(place), code=1, env={'ITERION_NETWORK_ENFORCEMENT': 'required'})
        place.user.file('go', '')
        place.user.env.update(no_guest)
        in_a_machine(place.user)
        p = place.user.ok('resume', '--last', code=1)
        assert 'cannot be enforced' in p.stderr
        place.user.ok('resume', '--last', env={'ITERION_NETWORK_ENFORCEMENT': 'offered'})


def test_enforcement_that_is_required_and_there(place_of):
    with place_of('docker') as place:
        place.run('true', block=policy(place), env={'ITERION_NETWORK_ENFORCEMENT': 'required'})
        assert of_type(place.user.events(), 'sandbox_started')[0]['network']['enforcement'] == 'namespace'


def test_build_has_the_engines_network(weak):
    """Which the plan reminds of; without a policy there is nothing to remind of."""
    weak.user.file('Dockerfile', 'FROM scratch\n')
    for mode, codes in (('open', []), ('allowlist', ['build_network'])):
        weak.workflow('true', block=weak.block('build:', '  dockerfile: "Dockerfile"', network=mode, image=None))
        said = json.loads(weak.user.ok('sandbox', 'plan', '--json', 'main.bot', *weak.flags).stdout)
        assert [w['code'] for w in said['warnings']] == codes
    assert 'RUN steps' in weak.user.ok('sandbox', 'plan', 'main.bot', *weak.flags).stdout


def test_agent_that_needs_the_guest(weak):
    """claw's tools run inside, by iterion's own program."""
    weak.user.file('main.bot', 'prompt p:\n  hello\n\nagent a:\n  backend: claw\n  model: "anthropic/x"\n  user: p\n\n'
                   f'workflow w:\n  entry: a\n{weak.block()}  a -> done\n')
    p = weak.user.ok('run', 'main.bot', *weak.flags, code=1, env={'ANTHROPIC_API_KEY': 'x'})
    assert 'iterion-guest cannot run in this sandbox' in p.stderr and 'no_guest' in p.stderr


def test_certificates_need_the_guest(weak):
    """They come into the container by the same folder."""
    block = policy(weak).replace('network:\n', 'network:\n      tls_inspect: all\n')
    p = weak.run('true', block=block, code=1)
    assert 'inspect TLS' in p.stderr and 'iterion-guest cannot run' in p.stderr and 'hint: ' in p.stderr


def test_proxy_that_is_not_reached(weak):
    """By a firewall between, here: the run does not begin."""
    world = weak.user.world
    rule = ['INPUT', '-i', 'docker0', '-p', 'tcp', '-j', 'REJECT', '--reject-with', 'tcp-reset']
    assert world.run(['iptables', '-I', *rule]).returncode == 0
    try:
        p = weak.run('touch made', block=policy(weak), code=1)
    finally:
        assert world.run(['iptables', '-D', *rule]).returncode == 0
    assert f'{BRIDGE}:' in p.stderr and 'ITERION_PROXY_LISTEN' in p.stderr
    assert os.listdir(weak.user.workspace) == ['main.bot']


def test_address_that_the_user_names(weak):
    world = weak.user.world
    p, port = start_waiting(weak, ITERION_PROXY_LISTEN=engines.METADATA)
    assert world.listeners(port) == [hex_of(engines.METADATA)]
    finish(weak, p)
    weak.run('echo $http_proxy; ' + wget('good.test', weak.port), flags=RESOLVE, block=policy(weak),
             env={'ITERION_PROXY_LISTEN': f'{BRIDGE}:4128', 'ITERION_PROXY_ADVERTISE': f'{BRIDGE}'})
    proxy, answer = weak.outputs()['t0'].split('\n')[:2]
    assert proxy.endswith(f'@{BRIDGE}:4128') and answer == 'hello from /x'


@pytest.mark.parametrize('env', [{'ITERION_PROXY_LISTEN': '0.0.0.0'}, {'ITERION_PROXY_LISTEN': '[::]:80'},
                                 {'ITERION_PROXY_LISTEN': 'localhost'}, {'ITERION_PROXY_ADVERTISE': 'a b'}],
                         ids=lambda env: ' '.join(env.values()))
def test_address_that_is_none(weak, env):
    p = weak.run('true', block=policy(weak), code=1, env=env)
    assert list(env)[0] in p.stderr and 'hint: ' in p.stderr
