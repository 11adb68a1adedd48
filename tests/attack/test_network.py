"""The network with a policy: there is the proxy, and nothing else."""
import contextlib
import os
import socket
import threading

import pytest

from conftest import refused

NO_WAY = ('ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EACCES', 'EPERM')


@contextlib.contextmanager
def udp_echo():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(('127.0.0.1', 0))
        stop = threading.Event()

        def serve():
            s.settimeout(0.1)
            while not stop.is_set():
                with contextlib.suppress(socket.timeout):
                    data, peer = s.recvfrom(64)
                    s.sendto(data, peer)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield s.getsockname()[1]
        finally:
            stop.set()
            thread.join()


@contextlib.contextmanager
def listener(family=socket.AF_INET, address=('127.0.0.1', 0)):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.bind(address)
        s.listen(64)
        yield s


def test_listener_on_the_hosts_loopback(place):
    with listener() as s:
        refused(place, ('connect-tcp', '127.0.0.1', s.getsockname()[1]), 'ECONNREFUSED')
        s.settimeout(0.2)
        with pytest.raises(socket.timeout):
            s.accept()[0].close()  # the attempt from outside
            s.accept()


def test_listener_on_the_hosts_ipv6_loopback(place):
    try:
        with listener(socket.AF_INET6, ('::1', 0)) as s:
            refused(place, ('connect-tcp', '::1', s.getsockname()[1]), ('ECONNREFUSED', *NO_WAY))
    except OSError as e:
        pytest.skip(f'this machine has no IPv6 loopback ({e})')


@pytest.mark.parametrize('ip', ['192.0.2.1', '10.0.0.1', '169.254.169.254', '2001:db8::1', 'fe80::1', '224.0.0.1'])
def test_addresses_anywhere(place, ip):
    why = 'no test sends anything off this machine; inside there is no route that it could take'
    refused(place, ('connect-tcp', ip, 443), (*NO_WAY, 'EINVAL'), works=False, why=why)
    refused(place, ('ask-udp', ip, 53), (*NO_WAY, 'EINVAL'), works=False, why=why)


def test_udp(place):
    with udp_echo() as port:
        refused(place, ('ask-udp', '127.0.0.1', port), 'ECONNREFUSED')


def test_dns_server_of_the_host(place):
    """Names are no way out: no server of the host is reached, whatever resolv.conf says."""
    with open('/etc/resolv.conf', encoding='utf-8') as f:
        servers = [line.split()[1] for line in f if line.startswith('nameserver')]
    for ip in [*servers, '192.0.2.53']:
        got = place.probe_inside('ask-dns', ip)
        assert got.startswith('errno') and 'ETIMEDOUT' not in got, f'{ip}: {got}'
    got = place.probe_inside('ask-dns', '127.0.0.1')
    assert got in ('errno ECONNREFUSED', 'ok rcode=5'), f'a name server inside that answers: {got}'


def test_abstract_sockets_of_the_host(place):
    name = f'iterion-attack-{os.getpid()}'
    with listener(socket.AF_UNIX, '\0' + name):
        refused(place, ('connect-abstract', name), 'ECONNREFUSED')


def test_only_loopback_exists(place):
    def interfaces(text):
        return [line.split(':')[0].strip() for line in text.splitlines()[2:]]
    assert interfaces(place.inside('/bin/cat', '/proc/net/dev').stdout) == ['lo']
    assert len(interfaces(place.outside('/bin/cat', '/proc/net/dev').stdout)) >= 1


def test_tables_of_the_hosts_network_are_not_seen(place):
    with listener() as s:
        port = f'{s.getsockname()[1]:04X}'
        assert f':{port} ' in place.outside('/bin/cat', '/proc/net/tcp').stdout
        assert f':{port} ' not in place.inside('/bin/cat', '/proc/net/tcp').stdout
