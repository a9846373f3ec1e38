"""The client's address behind reverse proxies."""

import pytest

from mcplite.protocol.http.headers import Headers
from mcplite.server.http.access import TrustedProxies


@pytest.mark.parametrize("trusted, address, forwarded, client", [
    (["127.0.0.1"], "127.0.0.1", "192.0.2.1", "192.0.2.1"),
    (["127.0.0.1"], "127.0.0.1", None, "127.0.0.1"),
    (["127.0.0.1"], "127.0.0.2", "192.0.2.1", "127.0.0.2"),  # not a proxy: it may have written anything
    (["127.0.0.1"], "127.0.0.1", "198.51.100.9, 192.0.2.1", "192.0.2.1"),  # what a client wrote itself comes first
    (["10.0.0.0/8"], "10.1.2.3", "198.51.100.9, 192.0.2.1, 10.9.9.9", "192.0.2.1"),
    (["10.0.0.0/8"], "10.1.2.3", "10.0.0.7,10.9.9.9", "10.0.0.7"),  # a client within the network of the proxies
    (["10.0.0.0/8"], "10.1.2.3", "192.0.2.1, unknown", "10.1.2.3"),
    (["10.0.0.0/8"], "10.1.2.3", "192.0.2.1, _hidden, 10.9.9.9", "10.9.9.9"),
    (["10.0.0.0/8"], "10.1.2.3", "", "10.1.2.3"),
    (["127.0.0.1"], "127.0.0.1", "192.0.2.1:4711", "192.0.2.1"),
    (["::1"], "::1", "[2001:db8::7]:4711", "2001:db8::7"),
    (["::1"], "::1", '"[2001:db8::7]"', "2001:db8::7"),
    (["::1"], "::1", "2001:DB8:0::7", "2001:db8::7"),
    (["127.0.0.1"], "::ffff:127.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
    (["unix"], "", "192.0.2.1", "192.0.2.1"),
    (["127.0.0.1"], "", "192.0.2.1", ""),
    (["unix", "127.0.0.1"], "127.0.0.1", "192.0.2.1", "192.0.2.1"),
    ("127.0.0.1", "127.0.0.1", "192.0.2.1", "192.0.2.1"),
])
def test_the_client_of_a_request(trusted, address, forwarded, client):
    headers = Headers([] if forwarded is None else [("X-Forwarded-For", forwarded)])
    assert TrustedProxies(trusted).client(address, headers) == client


def test_several_fields_are_one_list():
    headers = Headers([("X-Forwarded-For", "198.51.100.9"), ("X-Forwarded-For", "192.0.2.1")])
    assert TrustedProxies(["127.0.0.1"]).client("127.0.0.1", headers) == "192.0.2.1"


@pytest.mark.parametrize("network", ["localhost", "10.0.0.1/8", "", "*"])
def test_what_is_no_network_is_refused(network):
    with pytest.raises(ValueError, match="trusted_proxies is not an address, a network"):
        TrustedProxies([network])
