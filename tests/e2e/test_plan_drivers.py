"""`sandbox plan` and containers: what it says is what the real engine's container has."""
import json
import re

import pytest
from test_sandbox_plan import OF_THE_SHELL, compare_events, of_type

# What an engine mounts in every container by itself.
OF_THE_ENGINE = re.compile(r'/$|/(proc|sys|dev)(/|$)|/etc/(hosts|hostname|resolv\.conf)$|/run/(\.containerenv|secrets)|/\.dockerenv$|'
                           r'/dev/|/var/tmp$|/tmp$|/run$|/sbin/docker-init$|/run/podman-init$')


@pytest.fixture(params=['docker', 'rootless', 'podman'])
def place(request, place_of):
    with place_of(request.param) as p:
        yield p


@pytest.mark.parametrize('host_state', ['auto', 'none'])
def test_the_container_has_what_the_plan_says(place, host_state):
    user = place.user
    for names in (('home', '.npm'), ('home', '.cache'), ('home', '.cache', 'go-build'), ('home', 'data')):
        user.folder(*names)
    block = place.block('env:', '  CI: "1"', f'host_state: {host_state}', 'workspace_folder: "/work"',
                        f'mounts: ["type=bind,source={user.home}/data,target=/data,readonly", "type=tmpfs,target=/scratch"]',
                        network='allowlist', rules=['ok.example'])
    place.workflow('sed "s/^/MOUNT /" /proc/self/mountinfo; echo; env | sed -n "s/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/ENV \\1/p"',
                   block=block)
    said = json.loads(user.ok('sandbox', 'plan', '--json', 'main.bot', *place.flags).stdout)
    user.ok('run', 'main.bot', *place.flags)
    compare_events(said, user.events())
    lines = place.outputs()['t0'].split('\n')
    inside = {line.split()[5]: line.split()[6].split(',') for line in lines if line.startswith('MOUNT ')}
    planned = {m['target']: m for m in said['mounts']}
    assert set(planned) <= set(inside), set(planned) - set(inside)
    for target in set(inside) - set(planned):
        assert OF_THE_ENGINE.match(target), target
    for target, m in planned.items():
        assert ('ro' in inside[target]) == m['readonly'], target
    # An image's own variables come to those of the plan.
    names = {line[4:] for line in lines if line.startswith('ENV ')}
    assert set(said['env']) - OF_THE_SHELL <= names
    assert names - set(said['env']) - OF_THE_SHELL <= {'FROM_IMAGE', 'HOSTNAME', 'container'}
    assert of_type(user.events(), 'sandbox_started')[0]['driver'] == place.driver
    assert {m['origin'] for m in said['mounts']} >= {'workspace', 'driver', "run's files", 'workflow sandbox: block'}
