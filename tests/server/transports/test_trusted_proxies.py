"""The client's address behind reverse proxies."""

import io
import json
import logging

import pytest

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.server.transports.trusted_proxies import TrustedProxies
from tests.support import stateless
from tests.support.rawhttp import BOTH, Wire, post


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


@pytest.fixture
def server():
    mcp = mcplite.Server("demo")

    @mcp.tool()
    def sender(ctx: mcplite.Context) -> str:
        return f"{ctx.session.sender_of(ctx.incoming)} at {ctx.http.remote}"

    yield mcp
    mcp.close()


def said(body):
    return json.loads(body)["result"]["content"][0]["text"]


def test_our_own_server_counts_and_logs_the_client(server, caplog):
    caplog.set_level(logging.INFO, "mcplite.access")
    message = stateless.call("sender")
    given = stateless.headers(message)
    with mcplite.serve(server, trusted_proxies=["127.0.0.1"]) as running, Wire(running.port) as wire:
        wire.send(post(message, **{**given, "X-Forwarded-For": "2001:db8::7"}))
        assert said(wire.reply().body) == "2001:db8::/64 at 2001:db8::7"
        wire.send(post(message, **{**given, "X-Forwarded-For": "192.0.2.1"}))  # another client on the same connection
        assert said(wire.reply().body) == "192.0.2.1 at 192.0.2.1"
        wire.send(post(message, **given))
        assert said(wire.reply().body).startswith("127.0.0.1 at 127.0.0.1:")
    logged = [record.getMessage().split()[0] for record in caplog.records]
    assert logged[:2] == ["2001:db8::7", "192.0.2.1"] and logged[2].startswith("127.0.0.1:")


def test_a_wsgi_application_counts_the_client(server):
    message = stateless.call("sender")
    data = json.dumps(message).encode()
    environ = {"REQUEST_METHOD": "POST", "HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json", "HTTP_ACCEPT": BOTH,
               "CONTENT_LENGTH": str(len(data)), "REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.1",
               **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in stateless.headers(message).items()}}
    for options, expected in (({}, "127.0.0.1"), ({"trusted_proxies": ["127.0.0.1"]}, "192.0.2.1")):
        app = server.wsgi(**options)
        body = b"".join(app({**environ, "wsgi.input": io.BytesIO(data)}, lambda status, headers: None))
        assert said(body) == f"{expected} at {expected}"
