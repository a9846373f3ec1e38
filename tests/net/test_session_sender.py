"""Through requests, and through all of it: what a session has and what replaces parts of requests sees each request."""

import pytest
import requests
from requests.adapters import HTTPAdapter

import mcplite
from mcplite.net.exchange import Exchange
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture
def script():
    with WebScript() as script:
        yield script


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


def call(script, **options):
    with mcplite.connect(script.url, era="legacy", listen=False, timeout=LIMIT, **options) as client:
        client.ping()


def test_the_sessions_own_send_is_used(script):
    sent = []

    class Mine(requests.Session):
        def send(self, request, **options):
            sent.append(request.method)
            return super().send(request, **options)

    with Mine() as session:
        call(script, session=session)
    assert sent == ["POST", "POST", "POST", "DELETE"]


@pytest.mark.parametrize("owner, name", [(requests.Session, "send"), (requests.Session, "get_adapter"), (HTTPAdapter, "send")])
def test_what_replaces_parts_of_requests_sees_a_session_and_nothing_else(script, session, monkeypatch, owner, name):
    # So do the libraries that pretend to be a server in tests.
    real, seen = getattr(owner, name), []

    def noting(*arguments, **options):
        seen.append(name)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, noting)
    call(script)
    assert seen == []
    call(script, session=session)
    assert len(seen) >= 4


def test_an_adapter_that_is_mounted_later_is_used(script, session):
    sent = []

    class Noting(HTTPAdapter):
        def send(self, request, **options):
            sent.append(request.method)
            return super().send(request, **options)

    client = OriginClient(script.url, HTTPSettings(session=session))
    for _ in range(2):
        client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).excerpt()
        session.mount("http://", Noting())
    client.close()
    assert sent == ["GET"]


def test_the_hooks_of_a_session_and_of_its_authentication_run(script, session):
    said = []

    class Auth(requests.auth.AuthBase):
        def __call__(self, request):
            request.register_hook("response", lambda response, **options: said.append("auth"))
            request.headers["X-Auth"] = "1"
            return request

    session.auth = Auth()
    session.hooks["response"].append(lambda response, **options: said.append(response.status_code))
    client = OriginClient(script.url, HTTPSettings(session=session))
    client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).excerpt()
    client.close()
    assert said == ["auth", 405] and script.requests[0].headers["x-auth"] == "1"


def test_a_hook_may_read_the_response(script, session):
    texts = []
    script.on_ping = lambda request, answer: (answer.events(script.result(request, {})), answer.end())
    session.hooks["response"].append(lambda response, **options: texts.append(response.text))
    client = OriginClient(script.url, HTTPSettings(session=session))
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    for _ in range(3):
        reply = client.send(Exchange(lambda: float(LIMIT)), "POST", None, {}, body)
        assert reply.status == 200 and reply.read(1000) == b""
    client.close()
    assert len(texts) == 3 and all('"result": {}' in text for text in texts) and script.connections == 1


def test_state_of_the_session_is_shared(script, session):
    script.on_ping = lambda request, answer: answer.json(script.result(request, {}), Set_Cookie="a=b; Path=/")
    call(script, session=session)
    assert session.cookies.get("a") == "b" and type(session) is requests.Session
    assert script.requests[-1].headers["cookie"] == "a=b"


def test_a_redirect_is_the_clients(script, session):
    script.on_ping = lambda request, answer: answer.status(307, Location="http://[")
    with pytest.raises(mcplite.TransportError, match="redirects to something that is not a URL"):
        call(script, session=session)


def test_no_cookies_are_kept_without_a_session(script):
    script.on_ping = lambda request, answer: answer.json(script.result(request, {}), Set_Cookie="a=b; Path=/")
    call(script, auth=lambda request: request)
    assert "cookie" not in script.requests[-1].headers


def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one(session):
    def play(request, answer):
        answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")

    with WebScript(play) as script:
        client = OriginClient(script.url, HTTPSettings(session=session))
        for _ in range(3):
            assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(100) == b"one"
        client.close()
        assert script.connections == 3
