"""`sandbox network check`: the verdict and the rule that decided."""
import json


def check(me, *args, code=0):
    return me.ok('sandbox', 'network', 'check', *args, code=code)


def test_for_people(me):
    out = check(me, '--rule', '**.example.org', '--rule', '!ads.example.org', 'www.example.org', 'ads.example.org:80',
                'other.test', code=1).stdout.split('\n')
    assert out[0].startswith('allow  www.example.org') and '**.example.org' in out[0]
    assert out[1].startswith('deny   ads.example.org:80') and '!ads.example.org' in out[1]
    assert out[2].startswith('deny   other.test') and 'no rule' in out[2]


def test_for_programs(me):
    doc = json.loads(check(me, '--json', '--preset', 'iterion-default', 'api.github.com', 'evil.test:22', code=1).stdout)
    assert doc['mode'] == 'allowlist' and doc['ok'] is False and len(doc['rules']) > 5
    first, second = doc['hosts']
    assert (first['host'], first['port'], first['verdict']) == ('api.github.com', 443, 'allow')
    assert (second['host'], second['port'], second['verdict'], second['rule']) == ('evil.test', 22, 'deny', 'default')
    assert second['reason']


def test_all_allowed_is_success(me):
    assert check(me, '--mode', 'denylist', '--rule', 'evil.test', 'good.test').returncode == 0
    assert check(me, '--mode', 'denylist', '--rule', 'evil.test', 'evil.test', code=1).returncode == 1


def test_addresses_get_their_second_look(me):
    """Private and metadata addresses need a rule of their own, also when everything else is allowed."""
    for address in ('169.254.169.254', '[::1]:80', '10.0.0.1', '0x7f.1', '2130706433'):
        assert check(me, '--mode', 'denylist', '--rule', 'evil.test', address, code=1).stdout.startswith('deny')
    check(me, '--rule', '10.0.0.0/8', '10.1.2.3')


def test_no_host_at_all_is_denied(me):
    for text in ('..', 'a b', 'x' * 300, 'host:99999', 'host:', '\x1b[31m'):
        p = check(me, '--mode', 'open', text, code=1)
        assert p.stdout.startswith('deny') and '\x1b' not in p.stdout
