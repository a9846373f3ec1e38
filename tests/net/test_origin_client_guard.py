"""Connections that are checked before they are made, and clocks that are paused while a person is asked."""

import contextlib
import socket

import pytest

import mcplite
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from mcplite.rpc.deadline import Deadline
from tests.support.secure import Secure
from tests.support.webscript import WebScript

LIMIT = 30
NAME = "mcp.example"


class Guard:
    """Returns fixed addresses, and notes its calls."""

    def __init__(self, *addresses):
        self.addresses, self.asked = list(addresses), []

    def __call__(self, host, port):
        self.asked.append((host, port))
        if not self.addresses:
            raise OSError(f"{host} is out of bounds")
        return self.addresses


def get(url, guard, **options):
    """Send one request and return the body of the answer."""
    client = OriginClient(url, HTTPSettings(**options), guard)
    try:
        return client.send(Exchange(lambda: 1.0, lambda: float(LIMIT)), "GET", None, {}).read(1000)
    finally:
        client.close()


@pytest.fixture
def script():
    with WebScript(lambda request, answer: answer.status(200, "here")) as script:
        yield script


# --- the guard ---------------------------------------------------------------------------------------

def test_a_connection_goes_to_the_guards_address_and_keeps_its_name_which_is_not_looked_up(script, monkeypatch):
    real, asked, guard = socket.getaddrinfo, [], Guard("127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *arguments, **options: (
        asked.append(host), real(host, *arguments, **options))[1])
    assert get(f"http://{NAME}:{script.port}/x", guard) == b"here"
    assert guard.asked == [(NAME, script.port)] and NAME not in asked
    assert script.requests[0].headers["host"] == f"{NAME}:{script.port}"


def test_the_certificate_is_checked_against_the_name(folder):
    with Secure(folder / "named.pem", folder / "named.key") as script:
        pem = str(folder / "ca.pem")
        assert get(f"https://other.example:{script.port}/x", Guard("127.0.0.1"), verify=pem) == b"here"
        assert script.named == ["other.example"] and script.requests[0].headers["host"] == f"other.example:{script.port}"
        with pytest.raises(mcplite.TransportError, match="certificate verify failed"):
            get(f"https://{NAME}:{script.port}/x", Guard("127.0.0.1"), verify=pem)
        assert script.named == ["other.example", NAME] and len(script.requests) == 1


def test_refused_addresses_are_not_connected_to(script):
    with pytest.raises(mcplite.TransportError, match=f"{NAME} is out of bounds"):
        get(f"http://{NAME}:{script.port}/x", Guard())
    with pytest.raises(mcplite.TransportError, match="127.0.0.1 is out of bounds"):
        get(script.url, Guard())
    assert script.connections == 0


def test_the_next_address_is_tried_when_one_does_not_answer(script):
    # The server is at the IPv4 address alone; so is many a server on the developer's own machine.
    guard = Guard("::1", "127.0.0.1")
    assert get(f"http://localhost:{script.port}/x", guard) == b"here"
    assert guard.asked == [("localhost", script.port)]
    assert script.requests[0].headers["host"] == f"localhost:{script.port}"


def test_an_address_that_does_not_answer_is_an_error_with_the_name():
    with WebScript() as script:
        url = f"http://{NAME}:{script.port}/x"
    with pytest.raises(mcplite.TransportError, match=f"cannot reach {url}"):
        get(url, Guard("127.0.0.1", "127.0.0.1"))


def test_the_guard_is_called_for_each_connection_and_not_for_each_request():
    def play(request, answer):
        answer.status(200, "here", **({"Connection": "close"} if request.path == "/last" else {}))

    with WebScript(play) as script:
        guard = Guard("127.0.0.1")
        client = OriginClient(f"http://{NAME}:{script.port}/x", guard=guard)
        for path, connections in (("/x", 1), ("/y", 1), ("/last", 1), ("/z", 2)):
            exchange = Exchange(lambda: 1.0)
            assert client.send(exchange, "GET", f"http://{NAME}:{script.port}{path}", {}).read(1000) == b"here"
            assert len(guard.asked) == connections
        client.close()


def test_the_guard_is_not_called_for_a_proxy(script):
    # It looks up the names itself, and may well be in a private network.
    guard = Guard()
    assert get(f"http://{NAME}:1/x", guard, proxies={"http": script.origin}) == b"here"
    assert guard.asked == [] and script.requests[0].path == f"http://{NAME}:1/x"


# --- interim responses, and deadlines before there is a connection ------------------------------------------


def test_switching_protocols_is_an_answer_without_a_body():
    def switch(request, answer):
        answer.raw(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        answer.hold()

    with WebScript(switch) as script:
        client = OriginClient(script.url)
        reply = client.send(Exchange(lambda: 30.0), "GET", None, {})
        assert (reply.status, reply.excerpt()) == (101, "")
        client.close()


def test_a_pause_after_interim_responses_ends_with_the_deadline():
    def drip(request, answer):
        answer.raw(b"HTTP/1.1 102 Processing\r\n\r\n" * 3)
        answer.hold()

    deadline = Deadline(0.3)

    def next_timeout():
        if deadline.expired:
            raise Stopped
        return 0.05

    with WebScript(drip) as script:
        client = OriginClient(script.url)
        with pytest.raises(Stopped):
            client.send(Exchange(next_timeout, deadline.remaining), "GET", None, {})
        client.close()


@pytest.mark.parametrize("left", [0.0, -0.00002, -5.0])
def test_a_deadline_that_has_passed_ends_the_request_before_the_connection(script, left):
    client = OriginClient(script.url)
    with pytest.raises(Stopped):
        client.send(Exchange(lambda: 1.0, lambda: left), "GET", None, {})
    client.close()
    assert not script.requests


def test_a_deadline_that_passes_while_the_connection_is_made_is_no_failure_of_the_server():
    # A listener whose queue is full: the connection is not made, and not refused.
    with socket.socket() as listener, contextlib.ExitStack() as others:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        client = OriginClient(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        deadline = Deadline(0.2)
        with pytest.raises(Stopped):
            client.send(Exchange(lambda: 1.0, deadline.remaining), "GET", None, {})
        assert deadline.expired
        client.close()
