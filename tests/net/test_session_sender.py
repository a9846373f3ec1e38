"""A session of the user's does what it does in a program that uses requests: the idioms, one test each."""

import contextvars
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

import mcplite
from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from mcplite.net.session_sender import SessionSender
from mcplite.net.settings import HTTPSettings
from tests.support import connecting
from tests.support.secure import Secure
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture(autouse=True)
def no_warnings_of_retries(caplog):
    # Those that are caught keep the error, by which it keeps the connections, which the test would find.
    caplog.set_level(logging.ERROR, "urllib3")
    yield
    # A request that its caller has left may still end with such a warning.
    wait_for_left_requests()


def wait_for_left_requests():
    for thread in threading.enumerate():
        if thread.name == "mcplite session":
            thread.join(LIMIT)
            assert not thread.is_alive()


@pytest.fixture
def script():
    with WebScript() as script:
        yield script


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


def connect(script, session, **options):
    return connecting.connect(script.url, session=session, **{"era": "legacy", "listen": False, "timeout": LIMIT, **options})


def call(script, session, **options):
    with connect(script, session, **options) as client:
        client.ping()


def send(script, session, method="GET", body=None, **settings):
    """Send one request and return status and body."""
    client = OriginClient(script.url, HTTPSettings(session=session, **settings))
    try:
        reply = client.send(Exchange(lambda: float(LIMIT)), method, None, {}, body)
        return reply.status, reply.read(100_000)
    finally:
        client.close()


def busy(times):
    """Return a script that answers with 503 so many times, and then as it should."""
    left = [times]

    def on_request(request, answer):
        left[0] -= 1
        return answer.status(503, "busy") if left[0] >= 0 else NotImplemented

    return on_request


# --- the idioms of docs/http.rst ---------------------------------------------------------------------------------------

def test_headers(script, session):
    session.headers.update({"X-From": "session", "User-Agent": "mine/1", "Accept": "text/html"})
    call(script, session)
    for request in script.requests:
        assert request.headers["x-from"] == "session" and request.headers["user-agent"] == "mine/1"
        assert request.headers["accept-encoding"] == "identity"
    assert "text/event-stream" in script.requests[0].headers["accept"]  # the protocol's own
    script.requests.clear()
    call(script, session, headers={"user-agent": "given/1"})
    assert {request.headers["user-agent"] for request in script.requests} == {"given/1"}


def test_parameters(script, session):
    session.params = {"apikey": "k y"}
    call(script, session)
    assert {request.path for request in script.requests} == {"/mcp?apikey=k+y"}


def test_cookies(script, session):
    session.cookies.set("route", "a", domain="127.0.0.1", path="/")
    script.on_ping = lambda request, answer: answer.json(script.result(request, {}), Set_Cookie="given=b; Path=/")
    call(script, session)
    assert script.requests[0].headers["cookie"] == "route=a"
    assert script.requests[-1].headers["cookie"] in ("route=a; given=b", "given=b; route=a")
    assert session.cookies.get("given") == "b"


def test_a_name_and_a_password(script, session):
    session.auth = "me", "pw"
    call(script, session)
    assert {request.headers["authorization"] for request in script.requests} == {"Basic bWU6cHc="}


def test_authentication_of_ones_own(script, session):
    class Signed(requests.auth.AuthBase):
        def __call__(self, request):
            request.headers["X-Signed"] = str(len(request.body or b""))
            return request

    session.auth = Signed()
    call(script, session)
    assert {request.headers["x-signed"] for request in script.requests} == {str(len(one.body)) for one in script.requests}


def test_digest_authentication(script, session):
    def refuse(request, answer):
        if request.headers.get("authorization", "").startswith('Digest username="me"'):
            return False
        answer.status(401, "who?", WWW_Authenticate='Digest realm="r", nonce="n", qop="auth"')
        return True

    script.refuses = refuse
    session.auth = requests.auth.HTTPDigestAuth("me", "pw")
    call(script, session)
    assert script.requests[-1].headers["authorization"].startswith("Digest")


def test_a_retry_of_an_adapter(script, session):
    retry = Retry(total=3, status_forcelist=[503], allowed_methods=None, backoff_factor=0)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    script.on_ping = busy(2)
    call(script, session)
    assert len(script.wait_for("ping")) == 3


def test_hooks(script, session):
    seen = []
    session.hooks["response"].append(lambda response, **options: seen.append((response.request.method, response.status_code)))
    call(script, session)
    assert seen == [("POST", 200), ("POST", 202), ("POST", 200), ("DELETE", 204)]


def test_a_hook_that_raises_for_the_status(script, session):
    session.hooks["response"].append(lambda response, **options: response.raise_for_status())
    script.on_ping = lambda request, answer: answer.status(500, "oops")
    with pytest.raises(mcplite.errors.HTTPStatusError, match="with 500: oops") as caught:
        call(script, session)
    assert caught.value.status == 500


def test_methods_that_a_subclass_overrides(script):
    seen = []

    class Mine(requests.Session):
        def request(self, method, url, **options):
            seen.append("request")
            options["headers"] = {**options["headers"], "X-Call": "1"}
            return super().request(method, url, **options)

        def send(self, request, **options):
            seen.append("send")
            request.headers["X-Sent"] = "1"
            return super().send(request, **options)

    with Mine() as session:
        call(script, session)
    assert seen == ["request", "send"] * 4
    assert all(request.headers["x-sent"] == request.headers["x-call"] == "1" for request in script.requests)


def test_an_adapter_that_talks_to_a_proxy(session):
    class Adapter(HTTPAdapter):
        def proxy_headers(self, proxy):
            return {"X-Proxy-Key": "k"}

    with WebScript() as proxy:
        session.proxies = {"http": proxy.origin}
        session.mount("http://", Adapter())
        with mcplite.connect("http://inside.example/mcp", session=session,
                             options=mcplite.ClientOptions(era="legacy", listen=False), timeout=LIMIT) as client:
            client.ping()
        assert {request.headers["x-proxy-key"] for request in proxy.requests} == {"k"}


@pytest.mark.parametrize("trusts", [False, True])
def test_the_environment_is_used_as_the_session_says(script, session, monkeypatch, trusts):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", script.origin)
    session.trust_env = trusts
    call(script, session)
    assert {request.path for request in script.requests} == {script.url if trusts else "/mcp"}


# --- and what follows from them ----------------------------------------------------------------------------------------

def test_connections_are_kept_and_are_the_sessions(script, session):
    with connect(script, session) as client:
        for _ in range(5):
            client.ping()
    assert session.get(script.origin).status_code == 405 and script.connections == 1


@pytest.mark.parametrize("auth, expected", [(None, None), ("t0ken", "Bearer t0ken"), (("a", "b"), "Basic YTpi")])
def test_what_connect_is_given_stands_before_the_sessions(script, session, auth, expected, monkeypatch, tmp_path):
    # SEC-66: a password of ~/.netrc is for something else, although requests would send it.
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password pw\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    session.headers["X-A"] = "session"
    if auth is not None:
        session.auth = "other", "pw"
    call(script, session, auth=auth, headers={"x-a": "given"})
    assert {request.headers.get("authorization") for request in script.requests} == {expected}
    assert {request.headers["x-a"] for request in script.requests} == {"given"}


def test_a_password_in_the_url(script, session):
    script.url = script.url.replace("//", "//me:pw@")
    call(script, session)
    assert {request.headers["authorization"] for request in script.requests} == {"Basic bWU6cHc="}


def test_proxies_that_are_given_stay_as_they_are(script, session, monkeypatch):
    # requests writes those of the environment into what it is given.
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", script.origin)
    given, own = {"https": "http://mine.example:1"}, {"ftp": "http://own.example:1"}
    session.proxies = own
    call(script, session, proxies=given)
    assert given == {"https": "http://mine.example:1"} and session.proxies is own and own == {"ftp": "http://own.example:1"}
    assert script.requests[0].path == script.url  # the proxy of the environment was used


def test_a_hook_may_read_the_response(script, session):
    texts = []
    script.on_ping = lambda request, answer: (answer.events(script.result(request, {})), answer.end())
    session.hooks["response"].append(lambda response, **options: texts.append(response.text))
    for _ in range(3):
        status, body = send(script, session, "POST", b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        assert status == 200 and b'"result": {}' in body
    assert len(texts) == 3 and all('"result": {}' in text for text in texts) and script.connections == 1


def test_a_hook_that_is_no_list(script, session):
    seen = []
    session.hooks = {"response": lambda response, **options: seen.append(response.status_code)}
    assert send(script, session) == (405, b"")
    assert seen == [405]


def test_a_redirect_is_followed_within_the_origin_and_not_read(script, session):
    asked = []

    def play(request, answer):
        if request.path.startswith("/mcp"):
            # Its body has no end that requests could wait for.
            answer.raw(b"HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 10000000000\r\n\r\nbegin")
            answer.hold()
        else:
            answer.status(200, request.body)

    with WebScript(play) as moved:
        session.hooks["response"].append(lambda response, **options: asked.append(response.headers.get("location")))
        assert send(moved, session, "POST", b"{}") == (200, b"{}")
        assert asked == ["/other", None]


def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one(session):
    def play(request, answer):
        answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")

    with WebScript(play) as script:
        for _ in range(3):
            assert send(script, session) == (200, b"one")


def test_errors_of_the_sessions_own_code_are_told(script, session):
    def broken(response, **options):
        raise KeyError("mine")

    session.hooks["response"].append(broken)
    with pytest.raises(mcplite.TransportError, match="could not send a request to .*: KeyError: 'mine'") as caught:
        call(script, session)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_session_whose_requests_return_something_else(script):
    class Later(requests.Session):
        def request(self, *arguments, **options):
            return threading.Event()

    with Later() as session, pytest.raises(mcplite.TransportError, match="returned Event, not a response"):
        call(script, session)


def test_a_response_that_an_adapter_made_itself(session):
    class Canned(requests.adapters.BaseAdapter):
        def send(self, request, **options):
            limits.append(options["timeout"])
            response = requests.Response()
            response.status_code, response.request, response.url = 200, request, request.url
            response.headers["Content-Type"] = "application/json"
            message = json.loads(request.body) if request.body else {}
            response._content = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}}).encode()
            return response

        def close(self):
            """There is nothing to close."""

    limits = []
    session.mount("http://", Canned())
    with mcplite.connect("http://inside.example/mcp", session=session,
                         options=mcplite.ClientOptions(era="legacy", listen=False), timeout=LIMIT) as client:
        assert client.server_info.name == "x"
    # In seconds, as any adapter expects.
    assert limits and all(connect <= 10 and 0 < read <= 60 for connect, read in limits)


@pytest.mark.parametrize("retries", [0, 2])
def test_an_error_says_whether_the_request_may_have_arrived(script, session, retries):
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=retries, backoff_factor=0, allowed_methods=None)))
    script.on_ping = lambda request, answer: answer.cut()
    with pytest.raises(mcplite.TransportError, match="may or may not have done what was asked"):
        call(script, session)
    with WebScript() as gone:
        pass
    with pytest.raises(mcplite.TransportError, match="cannot reach http://127.0.0.1:.*refused"):
        call(gone, session)


@pytest.mark.parametrize("raises", [True, False])
def test_a_retry_that_ends(script, session, raises):
    retry = Retry(total=1, status_forcelist=[503], allowed_methods=None, backoff_factor=0, raise_on_status=raises)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    script.on_ping = busy(9)
    expected = (mcplite.TransportError, "gave up on .*too many 503") if raises else (mcplite.errors.HTTPStatusError, "with 503")
    with pytest.raises(expected[0], match=expected[1]):
        call(script, session)
    assert len(script.wait_for("ping")) == 2


def test_a_retry_does_not_send_once_its_call_is_over(script, session):
    pauses, go = threading.Event(), threading.Event()

    class Waiting(Retry):
        def sleep(self, response=None):
            pauses.set()
            assert go.wait(LIMIT)

    retry = Waiting(total=5, status_forcelist=[503], allowed_methods=None)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    script.on_tools_call = lambda request, answer: answer.status(503, "busy")
    with connect(script, session) as client:
        token = mcplite.CancelToken()
        threading.Thread(target=lambda: (pauses.wait(LIMIT), token.cancel("enough"))).start()
        with pytest.raises(mcplite.Cancelled):
            client.call_tool("t", cancel=token)
        go.set()
        client.ping()
        script.wait_for("ping")
    assert len(script.wait_for("tools/call")) == 1


def test_the_response_of_a_call_that_was_left_is_waited_for_as_long_as_the_call_would_have(script, session, monkeypatch):
    real, connecting, go, ended = urllib3.util.connection.create_connection, *(threading.Event() for _ in range(3))

    def create_connection(*arguments, **options):
        connecting.set()
        assert go.wait(LIMIT)
        return real(*arguments, **options)

    script.on_ping = lambda request, answer: ended.wait(2 * LIMIT) and answer.cut()
    client = OriginClient(script.url, HTTPSettings(session=session))
    exchange = Exchange(lambda: float(LIMIT), lambda: 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(urllib3.util.connection, "create_connection", create_connection)
        threading.Thread(target=lambda: (connecting.wait(LIMIT), exchange.interrupt())).start()
        with pytest.raises(Stopped):
            client.send(exchange, "POST", None, {}, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        client.close()
        go.set()
        try:
            wait_for_left_requests()
        finally:
            ended.set()


def test_context_variables_are_the_callers(script, session):
    name, seen = contextvars.ContextVar("name", default=None), []
    session.auth = lambda request: seen.append(name.get()) or request
    with connect(script, session) as client:
        name.set("the caller")
        client.ping()
    assert "the caller" in seen


def test_many_threads_share_a_session(script, session):
    script.on_tools_call = lambda request, answer: answer.json(
        script.text(request, request.message["params"]["arguments"]["n"]))
    with connect(script, session) as client:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: client.call_tool("t", {"n": str(n)}).text, range(80)))
    assert found == [str(n) for n in range(80)]


# --- a session of our own, for authentication that is made for requests ------------------------------------------------


def test_the_hooks_of_an_authentication_run(script):
    said = []

    class Auth(requests.auth.AuthBase):
        def __call__(self, request):
            request.register_hook("response", lambda response, **options: said.append(response.status_code))
            request.headers["X-Auth"] = "1"
            return request

    assert send(script, None, auth=Auth()) == (405, b"")
    assert said == [405] and script.requests[0].headers["x-auth"] == "1"


def test_no_cookies_are_kept(script):
    # SEC-66
    script.on_ping = lambda request, answer: answer.json(script.result(request, {}), Set_Cookie="a=b; Path=/")
    call(script, None, auth=lambda request: request)
    assert "cookie" not in script.requests[-1].headers


@pytest.mark.parametrize("addresses, reached", [(["127.0.0.1"], True), (["::1", "127.0.0.1"], True), (["127.0.0.2"], False)])
def test_its_connections_go_to_the_addresses_of_a_guard(addresses, reached, monkeypatch):
    # As where a library that has replaced parts of requests is to see what goes to an authorization server.
    monkeypatch.setattr("mcplite.net.origin_client.requests_is_patched", lambda: True)
    asked = []

    def guard(host, port):
        asked.append((host, port))
        return addresses

    with WebScript(lambda request, answer: answer.status(200, "here")) as script:
        client = OriginClient(f"http://name.invalid:{script.port}/mcp", guard=guard)
        assert isinstance(client._sender, SessionSender)
        try:
            assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(10) == b"here" and reached
        except mcplite.TransportError:
            assert not reached
        client.close()
        assert asked == [("name.invalid", script.port)]
        assert [request.headers["host"] for request in script.requests] == [f"name.invalid:{script.port}"] * reached


def test_certificates_are_held_against_the_name_and_not_the_address_of_a_guard(folder, monkeypatch):
    monkeypatch.setattr("mcplite.net.origin_client.requests_is_patched", lambda: True)
    with Secure(folder / "named.pem", folder / "named.key") as script:
        for host, trusted in (("other.example", True), ("mcp.example", False)):
            client = OriginClient(f"https://{host}:{script.port}/mcp", HTTPSettings(verify=str(folder / "ca.pem")),
                                  guard=lambda host, port: ["127.0.0.1"])
            assert isinstance(client._sender, SessionSender)
            try:
                assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(10) == b"here" and trusted
            except mcplite.TransportError as error:
                assert not trusted and "mcp.example" in str(error)
            client.close()
        assert script.named == ["other.example", "mcp.example"]
