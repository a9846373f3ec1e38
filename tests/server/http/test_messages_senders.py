"""The sender of a request reaches the handler in both eras, over both hosts: whose share everything counts to."""

import io
import json
import logging

import pytest

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from mcplite.server.transports.httpd import HTTPServer
from tests.support import stateless
from tests.support.rawhttp import BOTH, LIMIT, Wire, call, initialize


@pytest.fixture
def server():
    mcp = mcplite.Server("demo")

    @mcp.tool()
    def sender(ctx: mcplite.Context) -> str:
        return f"{ctx.session.sender_of(ctx.incoming)} of {ctx.session.sender}"

    yield mcp
    mcp.close()


def text(body):
    return json.loads(body)["result"]["content"][0]["text"]


def request(message, network, principal=None, **headers):
    given = {"host": "localhost", "accept": BOTH, "content-type": "application/json",
             **{name.lower(): value for name, value in headers.items()}}
    return HTTPRequest("POST", "/mcp", Headers(list(given.items())), read=lambda limit: json.dumps(message).encode(),
                       network=network, principal=None if principal is None else mcplite.Principal(principal))


@pytest.mark.parametrize("principal, key", [(None, "192.0.2.2"), ("ada", mcplite.Principal("ada").key)])
@pytest.mark.parametrize("stateless_mode", [False, True])
def test_a_session_and_its_requests_have_senders(server, principal, key, stateless_mode):
    endpoint = make_endpoint(server.runtime, stateless=stateless_mode)
    session = {}
    if not stateless_mode:
        opened = endpoint.handle(request(initialize(), "192.0.2.1", principal))
        session = {"mcp-session-id": dict(opened.headers)["Mcp-Session-Id"]}
    answer = endpoint.handle(request(call("sender"), "192.0.2.2", principal, **session))
    first = key if stateless_mode or principal else "192.0.2.1"
    assert text(answer.content) == f"{key} of {first}"
    endpoint.close(LIMIT)


def test_a_request_without_a_session_has_a_sender(server):
    endpoint = make_endpoint(server.runtime)
    message = stateless.call("sender")
    answer = endpoint.handle(request(message, "192.0.2.3", **dict(stateless.headers(message))))
    assert text(answer.content) == "192.0.2.3 of 192.0.2.3"
    endpoint.close(LIMIT)


def test_the_remote_address_of_a_socket_has_no_port(server):
    with HTTPServer(server.runtime, port=0) as running, Wire(running.port) as wire:
        session = wire.post(initialize()).headers["mcp-session-id"]
        assert text(wire.post(call("sender"), session).body) == "127.0.0.1 of 127.0.0.1"


def test_behind_a_trusted_proxy_each_client_counts_and_is_logged(server, caplog):
    caplog.set_level(logging.INFO, "mcplite.access")
    with HTTPServer(server.runtime, port=0, trusted_proxies=["127.0.0.1"]) as running, Wire(running.port) as wire:
        session = wire.post(initialize(), X_Forwarded_For="2001:db8::7").headers["mcp-session-id"]
        # Another client on the same connection, and then the proxy itself.
        assert text(wire.post(call("sender"), session, X_Forwarded_For="192.0.2.1").body) == "192.0.2.1 of 2001:db8::/64"
        assert text(wire.post(call("sender"), session).body) == "127.0.0.1 of 2001:db8::/64"
    logged = [record.getMessage().split()[0] for record in caplog.records]
    assert logged[:2] == ["2001:db8::7", "192.0.2.1"] and logged[2].startswith("127.0.0.1:")


def test_a_pipe_has_one_sender(server):
    with mcplite.connect(server) as client:
        assert client.call_tool("sender").text == " of "


@pytest.mark.parametrize("proxies, second", [([], "192.0.2.1"), (["192.0.2.1"], "198.51.100.9")])
def test_wsgi_names_the_address_of_its_client(server, proxies, second):
    app = server.wsgi(trusted_proxies=proxies)

    def ask(message, **more):
        data = json.dumps(message).encode()
        environ = {"REQUEST_METHOD": "POST", "HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json", "HTTP_ACCEPT": BOTH,
                   "CONTENT_LENGTH": str(len(data)), "wsgi.input": io.BytesIO(data), "REMOTE_ADDR": "2001:db8::5", **more}
        said = []
        return b"".join(app(environ, lambda status, headers: said.extend(headers))), dict(said)

    session = ask(initialize())[1]["Mcp-Session-Id"]
    assert text(ask(call("sender"), HTTP_MCP_SESSION_ID=session)[0]) == "2001:db8::/64 of 2001:db8::/64"
    assert text(ask(call("sender"), HTTP_MCP_SESSION_ID=session, REMOTE_ADDR="192.0.2.1",
                    HTTP_X_FORWARDED_FOR="198.51.100.9")[0]) == f"{second} of 2001:db8::/64"
    app.close()
