"""Through requests over our own connections: authentication that is made for requests, and what a response may bring."""

import pytest
import requests

import mcplite
from mcplite.net.adapter_sender import AdapterSender
from mcplite.net.exchange import Exchange
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from tests.support import connecting
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture
def script():
    with WebScript() as script:
        yield script


def same(request):
    return request


def call(script, **options):
    with connecting.connect(script.url, era="legacy", listen=False, timeout=LIMIT, **options) as client:
        client.ping()


def test_the_hooks_of_an_authentication_run(script):
    said = []

    class Auth(requests.auth.AuthBase):
        def __call__(self, request):
            request.register_hook("response", lambda response, **options: said.append(response.status_code))
            request.headers["X-Auth"] = "1"
            return request

    client = OriginClient(script.url, HTTPSettings(auth=Auth()))
    client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).excerpt()
    client.close()
    assert isinstance(client._sender, AdapterSender)
    assert said == [405] and script.requests[0].headers["x-auth"] == "1"


def test_a_redirect_is_the_clients(script):
    script.on_ping = lambda request, answer: answer.status(307, Location="http://[")
    with pytest.raises(mcplite.TransportError, match="redirects to something that is not a URL"):
        call(script, auth=same)


def test_no_cookies_are_kept(script):
    # SEC-66
    script.on_ping = lambda request, answer: answer.json(script.result(request, {}), Set_Cookie="a=b; Path=/")
    call(script, auth=same)
    assert "cookie" not in script.requests[-1].headers


def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one():
    def play(request, answer):
        answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")

    with WebScript(play) as script:
        client = OriginClient(script.url, HTTPSettings(auth=same))
        for _ in range(3):
            assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(100) == b"one"
        client.close()
        assert script.connections == 3
