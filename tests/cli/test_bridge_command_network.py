"""A bridge to a server over HTTP: the stored login, DPoP, a proxy, an authority of one's own; and ``--backend``."""

import base64
import functools
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import requests

import mcplite
from tests.support.authserver import Protected
from tests.support.secure import Secure, folder as certificates  # noqa: F401
from tests.support.webscript import WebScript

LIMIT = 60


def served():
    server = mcplite.Server("behind")

    @server.tool()
    def greet() -> str:
        return "hello"

    return server.wsgi(path="")


@pytest.fixture
def protected(auth):
    with Protected(auth, served()) as protected:
        yield protected


def bridged(cli, url, *options):
    """Return a client of a bridge on stdio, as a process of the user of *cli*."""
    return mcplite.connect([sys.executable, "-m", "mcplite", "bridge", url, *options], env=cli.environment, timeout=LIMIT,
                           open_timeout=LIMIT)


@pytest.mark.slow
def test_a_stored_login_is_used_and_renewed(cli, auth, protected):
    assert cli("login", protected.url)[0] == 0
    with bridged(cli, protected.url) as client:
        assert client.call_tool("greet").text == "hello"
        auth.end()
        assert client.call_tool("greet").text == "hello"
    assert (auth.count("authorization_code"), auth.count("refresh_token")) == (1, 1)
    assert cli.records()["token"]["access_token"] in auth.tokens, "the renewed login is stored"
    assert None not in protected.sent[1:], "each request has a token, but the first one of the login"


def test_a_server_that_requires_a_login_ends_the_bridge(cli, protected):
    status, out, err = cli("bridge", protected.url)
    assert (status, out) == (4, "")
    assert "requires authorization (401)" in err and "log in with `" in err


class BoundServer(Protected):
    """Takes tokens that are bound to a key, with a proof beside each; ``proofs`` has them."""

    def refuses(self, request, answer):
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme == "DPoP" and token in self.auth.tokens and "dpop" in request.headers:
            self.proofs.append(request.headers["dpop"])
            return False
        return super().refuses(request, answer)


@pytest.mark.slow
def test_a_login_that_is_bound_to_a_key(cli, auth):
    pytest.importorskip("jwt", reason="PyJWT is in the extra auth")
    auth.give = functools.partial(auth.give, token_type="DPoP")
    with BoundServer(auth, served()) as server:
        server.proofs = []
        assert cli("login", server.url, "--dpop")[0] == 0
        with bridged(cli, server.url) as client:
            assert client.call_tool("greet").text == "hello"
        claims = [json.loads(base64.urlsafe_b64decode(proof.split(".")[1] + "==")) for proof in server.proofs]
    assert len({claim["jti"] for claim in claims}) == len(claims) > 1
    assert {claim["htu"] for claim in claims} == {server.url}


def test_the_proxy_of_the_environment(cli):
    # A proxy plays the server, whose host does not exist.
    with WebScript() as proxy:
        proxy.capabilities = {}
        cli.environment.update(http_proxy=proxy.origin, no_proxy="")
        with bridged(cli, "http://mcp.example/mcp") as client:
            client.ping()
        assert {request.path for request in proxy.requests} == {"http://mcp.example/mcp"}


class SecureServer(Secure):
    """The scripted server with a session, behind TLS."""

    capabilities = {}

    def __init__(self, *pair):
        super().__init__(*pair, on_request=lambda request, answer: self.play(request, answer))


@pytest.mark.slow
def test_an_authority_of_ones_own(cli, certificates):  # noqa: F811
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        cli.environment.pop(name, None)
    with SecureServer(certificates / "server.pem", certificates / "server.key") as server:
        status, out, err = cli("bridge", server.url)
        assert status == 4 and "certificate" in err
        cli.environment["REQUESTS_CA_BUNDLE"] = str(certificates / "ca.pem")
        with bridged(cli, server.url) as client:
            client.ping()


# --- --backend ------------------------------------------------------------------------------------------------


BEHIND = """
import mcplite
mcp = mcplite.Server("behind")

@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    return ctx.elicit("Sure?").action

@mcp.tool()
def greet() -> str:
    return "hello"
"""


@pytest.fixture
def two_bridges(tmp_path):
    """The URLs of two bridges over HTTP that share a backend."""
    program = tmp_path / "behind.py"
    program.write_text(BEHIND)
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(mcplite.__file__)),
                   "MCPLITE_STATE_KEYS": "k" * 43}
    command = [sys.executable, "-m", "mcplite", "bridge", shlex.join([sys.executable, "-m", "mcplite.server", str(program)]),
               "--http", "0", "--backend", f"sqlite:///{tmp_path / 'shared.db'}"]
    processes, urls = [], []
    try:
        for _ in range(2):
            processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", env=environment))
            said = processes[-1].stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said
            urls.append(found.group())
        yield urls
    finally:
        for process in processes:
            process.terminate()
            process.communicate(timeout=LIMIT)


@pytest.mark.slow
def test_a_call_that_asks_at_one_bridge_goes_on_at_another(two_bridges):
    one, two = two_bridges
    params = {"name": "ask", "arguments": {}}
    with mcplite.connect(one, options=mcplite.ClientOptions(era="modern"), elicitation_handler=lambda request: None,
                         timeout=LIMIT) as client:
        with pytest.raises(mcplite.errors.InputNeeded) as needed:
            client.request("tools/call", params, rounds=False)
    (key, question), = needed.value.requests.items()
    assert question["params"]["message"] == "Sure?"
    with mcplite.connect(two, options=mcplite.ClientOptions(era="modern"), elicitation_handler=lambda request: None,
                         timeout=LIMIT) as client:
        result = client.request("tools/call", params, rounds=False, request_state=needed.value.state,
                                input_responses={key: {"action": "accept", "content": {}}})
    assert result["content"][0]["text"] == "accept"


@pytest.mark.slow
def test_a_session_of_one_bridge_is_known_to_another(two_bridges):
    one, two = two_bridges
    headers = {"Accept": "application/json, text/event-stream"}

    def post(url, method, id=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if id is None else {"id": id})}
        return requests.post(url, json=message, headers=headers, timeout=LIMIT)

    begun = post(one, "initialize", 1, protocolVersion="2025-11-25", capabilities={},
                 clientInfo={"name": "one", "version": "3"})
    headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
    assert post(one, "notifications/initialized").status_code == 202
    for number, url in enumerate((one, two, one), 2):
        answer = post(url, "tools/call", number, name="greet", arguments={})
        assert answer.status_code == 200 and "hello" in answer.text, answer.text
