"""The real agents with a model's key that they do not have: the placeholder goes in, the value arrives."""
import json
import ssl

import pytest
from agents import KEY, block, everything_below, of_type, shared
from provider import Provider
from tls_upstream import authority

WORKFLOW = '''## strict-escape: on
schema answer:
  n: int

prompt task:
  Tell me what the environment holds.

tool before:
  command: `env | sort`

agent work:
  model: "%s"
  backend: "%s"
  user: task
  output: answer

workflow w:
%s  entry: before
  before -> work
  work -> done
'''
AGENTS = {
    'claude': ('claude_code', 'claude-sonnet-4-5', 'Bash', 'command', 'x-api-key', '', lambda url: {
        'ANTHROPIC_API_KEY': KEY, 'ANTHROPIC_BASE_URL': url}),
    'codex': ('codex', 'gpt-5.1', 'exec_command', 'cmd', 'authorization', 'Bearer ', lambda url: {
        'OPENAI_API_KEY': KEY, 'OPENAI_BASE_URL': url + '/v1', 'ITERION_CODEX_SANDBOXED': '1'}),
}


@pytest.mark.parametrize('name', list(AGENTS))
def test_an_agent_works_with_a_placeholder(me, base, name):
    backend, model, tool, argument, header, scheme, env = AGENTS[name]
    folder, bin_dir = shared(name, base)
    text = block('host_state: none', mounts=[folder]).replace('      mode: allowlist\n',
                                                              '      mode: allowlist\n      tls_inspect: secrets\n')
    me.file('main.bot', WORKFLOW % (model, backend, text))
    script = {'turns': [{'tool': tool, 'input': {argument: 'env >seen'}}, {'structured': {'n': 7}}], 'skip_toolless': True}
    with authority() as ca, Provider(script) as p:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ca.leaf('api.test'))
        context.set_alpn_protocols(['http/1.1'])
        p.server.socket = context.wrap_socket(p.server.socket, server_side=True, do_handshake_on_connect=False)
        done = me.ok('run', 'main.bot', '--sandbox-driver', 'native', '--resolve', 'api.test:127.0.0.1', timeout=120,
                     env={**env(f'https://api.test:{p.port}'), 'SSL_CERT_FILE': ca.file,
                          'PATH': f'{bin_dir}:{me.env["PATH"]}'})
        got = p.requests
    events = me.events()
    assert of_type(events, 'node_finished', 'work')[0]['output'] == {'n': 7}
    calls = [r for r in got if r['method'] == 'POST' and r['body'] and 'messages' in r['body'] or 'responses' in r['path']]
    assert calls and all(r['headers'].get(header) == scheme + KEY for r in calls), got
    with open(f'{me.workspace}/seen', encoding='utf-8') as f:
        inside = f.read()
    if name == 'claude':  # codex keeps its key from its tools
        assert 'ANTHROPIC_API_KEY=sk-' in inside
    assert KEY not in inside + done.stdout + done.stderr + json.dumps(events)
    assert 'API_KEY' not in of_type(events, 'node_finished', 'before')[0]['output']['output']
    assert not [n for place in (me.store, me.workspace, me.home)
                for n, data in everything_below(place) if KEY.encode() in data]
    assert not of_type(events, 'secret_blocked')
