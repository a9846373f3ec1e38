"""What HTTP clients do when a server wants a token: on every road, while a user takes their time, and no further."""

import base64
import contextlib
import logging
import socket
import threading
import time

import pytest
import requests
from requests.auth import AuthBase

import mcplite
from mcplite.client.http import sse_channel
from mcplite.client.http.http_endpoint import ResumableStream
from tests.support import connecting
from tests.support.authserver import REDIRECT, AuthServer, Checks, Protected, User
from tests.support.oldserver import OldServer
from tests.support.webscript import WebScript

LIMIT = 30
#: Seconds that a call has, and more than those, which the user takes.
SHORT, LONG = 2, 2.5
#: Each transport: the fixture of its server, and how to connect.
ROADS = [("script", {"era": "legacy"}), ("real", {"era": "modern"}), ("old", {"type": "sse"})]


class Old(Checks, OldServer):
    """A server of 2024 that wants tokens."""

    def __init__(self, auth):
        super().__init__()
        self.guard(auth)


@pytest.fixture
def old(auth):
    with Old(auth) as old:
        yield old


@pytest.fixture
def real(auth):
    """A server of ours, for either era."""
    app = mcplite.Server("real")

    @app.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @app.resource("memo://x")
    def memo() -> str:
        return "x"

    with Protected(auth, app.wsgi()) as real:
        real.app = app
        yield real


def connect(server, grant, **options):
    return connecting.connect(server.url, auth=grant, **{"timeout": LIMIT, "open_timeout": LIMIT, "listen": False, **options})


def legacy(server, grant, **options):
    return connect(server, grant, era="legacy", **options)


class Work:
    """Something that runs on a thread of its own; ``end`` returns what it returned or raised."""

    def __init__(self, function):
        self._function, self._outcome = function, None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self._outcome = self._function()
        except Exception as error:
            self._outcome = error

    def end(self):
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self._outcome


def log_out(auth):
    """End all tokens, also those to refresh with."""
    auth.end()
    auth.refreshable.clear()


def take_long(user):
    """Have the user take longer than calls may."""
    follow = user.does

    def slowly(url):
        threading.Event().wait(LONG)
        return follow(url)

    user.does = slowly


def cut(server):
    """End all connections of a server that lives on."""
    for sock in server._socks:
        with contextlib.suppress(OSError):  # it has ended already
            sock.shutdown(socket.SHUT_RDWR)


# --- everything at once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern", None])
def test_a_login_at_the_first_request(auth, real, user, grant, era):
    with connect(real, grant, era=era, listen=True) as client:
        assert client.era == (era or "modern") and len(user.visits) == 1
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    # AUC-01, AUC-02: with each request, and never in a URL.
    token, = auth.tokens
    assert set(real.sent) == {None, token} and real.sent.index(token) == real.sent.count(None)
    assert not any(token in request.path for request in real.requests)


def test_the_revision_is_sent_to_servers_of_early_2025(auth, real, grant):
    with legacy(real, grant):
        assert {request.headers.get("mcp-protocol-version") for request in auth.requests if "well-known" in request.path} == {
            "2025-11-25"}  # AUM-03


# --- a user takes longer than a call ------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.slow
def test_the_time_of_a_login_does_not_count_for_the_call(real, user, grant, auth, era):
    # AUC-52
    with connect(real, grant, era=era) as client:
        log_out(auth)
        take_long(user)
        assert client.call_tool("add", {"a": 1, "b": 2}, timeout=SHORT, max_timeout=SHORT).text == "3"
    assert len(user.visits) == 2


@pytest.mark.slow
def test_the_clock_of_other_calls_is_paused_as_well(auth, script, user, grant):
    # They wait for the same token.
    with legacy(script, grant) as client:
        log_out(auth)
        take_long(user)
        works = [Work(lambda: client.request("ping", timeout=SHORT)) for _ in range(3)]
        assert [work.end() for work in works] == [{}] * 3
    assert len(user.visits) == 2


@pytest.mark.slow
def test_the_time_of_a_login_does_not_count_while_a_session_is_renewed(auth, script, user, grant):
    def forget(request, answer):
        if request.headers["mcp-session-id"] == "s2":
            return NotImplemented
        if script.session == "s1":
            script.session = "s2"
            log_out(auth)
        return answer.status(404)

    with legacy(script, grant) as client:
        script.on_ping = forget
        take_long(user)
        works = [Work(lambda: client.request("ping", timeout=SHORT, max_timeout=SHORT)) for _ in range(3)]
        assert [work.end() for work in works] == [{}] * 3
    assert len(user.visits) == 2


@pytest.mark.parametrize("which", ["description", "metadata"])
@pytest.mark.slow
def test_the_time_that_servers_take_counts_for_the_call(auth, script, user, grant, which):
    # A hostile one could make each call wait for half a minute, document by document.
    script.free.add("DELETE")  # the goodbye
    with legacy(script, grant) as client:
        auth.end()
        refuses, play = script.refuses, auth._play
        if which == "description":
            script.refuses = lambda request, answer: (
                answer.hold() is None if request.path.startswith("/.well-known") else refuses(request, answer))
        else:
            auth._play = lambda request, answer: (
                answer.hold() if request.path.startswith("/.well-known") else play(request, answer))
        with pytest.raises(mcplite.RequestTimeout):
            client.request("ping", timeout=SHORT)
    assert len(user.visits) == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.slow
def test_the_time_of_a_login_does_not_count_for_connecting_nor_for_calls_that_wait_for_that(real, user, grant, era):
    take_long(user)
    client = connect(real, grant, era=era, open_timeout=SHORT)
    opening = Work(client.open)
    while client.state == "new":
        time.sleep(0.01)
    assert client.call_tool("add", {"a": 1, "b": 2}, timeout=SHORT, max_timeout=SHORT).text == "3"
    assert opening.end() is client
    client.close()


@pytest.mark.slow
def test_a_notification_waits_for_a_login(auth, script, user, grant):
    with legacy(script, grant, timeout=SHORT) as client:
        log_out(auth)
        take_long(user)
        client.notify("notifications/roots/list_changed")
    assert len(user.visits) == 2
    assert len([request for request in script.requests if request.does == "notifications/roots/list_changed"]) == 2


@pytest.mark.slow
def test_the_stream_and_the_messages_of_2024_wait_for_a_login(auth, old, user, grant, monkeypatch):
    monkeypatch.setattr(sse_channel, "_ENDPOINT_SECONDS", SHORT)
    take_long(user)
    with connect(old, grant, type="sse") as client:
        log_out(auth)
        assert client.request("ping", timeout=SHORT) == {}
    assert len(user.visits) == 2


@pytest.mark.slow
def test_input_rounds_do_not_lose_the_time_of_a_login(auth, user, grant):
    # The user's time before the first round is not taken from what the next round may need.
    app = mcplite.Server("asks")

    @app.tool()
    def greet(context: mcplite.Context) -> str:
        name = context.elicit("name?", str).data
        threading.Event().wait(SHORT / 3)
        return f"hello {name}"

    with Protected(auth, app.wsgi()) as real, connect(
            real, grant, era="modern", elicitation_handler=lambda request: {"value": "you"}) as client:
        log_out(auth)
        take_long(user)
        assert client.call_tool("greet", max_timeout=SHORT * 2).text == "hello you"


@pytest.mark.parametrize("server, options", ROADS)
@pytest.mark.slow
def test_a_call_is_cancelled_during_a_login(request, auth, user, grant, server, options):
    with connect(request.getfixturevalue(server), grant, **options) as client:
        log_out(auth)
        user.may.clear()
        token = mcplite.CancelToken()
        work = Work(lambda: client.request("tools/list", cancel=token))
        user.wait_for(2)
        token.cancel("enough")
        error = work.end()  # while the user still thinks
        assert isinstance(error, mcplite.Cancelled) and error.reason == "enough"
        user.may.set()
        client.request("tools/list")
    assert len(user.visits) == 3  # and the cancel notice asked no user


@pytest.mark.parametrize("server, options", ROADS)
@pytest.mark.parametrize("first", [True, False], ids=["the first login", "another login"])
def test_a_client_is_closed_during_a_login(request, auth, user, grant, server, options, first):
    script = request.getfixturevalue(server)
    script.free.add("DELETE")
    client = connect(script, grant, **options)
    if not first:
        client.open()
        log_out(auth)
    user.may.clear()
    work = Work(client.open if first else lambda: client.request("tools/list"))
    user.wait_for(1 if first else 2)
    client.close()
    assert isinstance(work.end(), mcplite.TransportError if first else mcplite.errors.ConnectionClosed)
    assert client.state == "closed"


def test_a_user_who_never_comes_back(script, user):
    user.may.clear()
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, timeout=0.1)
    with pytest.raises(mcplite.errors.AuthError, match="the user did not log in at .* within 0.1 s"):
        legacy(script, grant).open()


def test_a_connection_that_ends_during_the_login_is_replaced(auth, script, user, grant):
    # Servers do not keep connections for as long as people need.
    refused = script.refuses

    def once(request, answer):
        done = refused(request, answer)
        if done and not request.path.startswith("/.well-known"):
            answer.cut()
        return done

    script.refuses = once
    with legacy(script, grant) as client:
        client.ping()
    assert len(user.visits) == 1


def test_no_connection_is_left_open_by_a_login_that_fails(auth, script, user, grant):
    auth.denies = True
    client = legacy(script, grant)
    with pytest.raises(mcplite.errors.AuthError) as caught:
        client.open()
    # The error, which some keep, holds on to nothing: the server sees the end of each connection.
    ended = [Work(thread.join) for thread in script._threads]
    for work in ended:
        assert work.end() is None
    assert caught.value.error == "access_denied"


# --- every road ---------------------------------------------------------------------------------------------


def test_the_get_stream_gets_a_new_token(auth, script, user, grant):
    # AUC-54
    opened = threading.Event()

    def stream(request, answer):
        answer.events()
        opened.set()
        answer.hold()

    def refuse_first(request, token):
        return (401, script.challenge()) if request.method == "GET" and token == first[0] else None

    script.on_GET, script.on_request = stream, refuse_first
    first = []
    grant.login(script.url)
    first.append(grant.token(script.url))
    with legacy(script, grant, listen=True):
        assert opened.wait(LIMIT)
    gets = [token for request, token in zip((r for r in script.requests if "well-known" not in r.path), script.sent)
            if request.method == "GET"]
    assert gets[0] == first[0] and len(gets) == 2 and auth.count("refresh_token") == 1 and len(user.visits) == 1


def test_notifications_and_the_end_of_a_session_get_a_new_token(auth, script, user, grant):
    with legacy(script, grant) as client:
        auth.end()
        client.notify("notifications/roots/list_changed")
        assert len([request for request in script.requests if request.does == "notifications/roots/list_changed"]) == 2
        auth.end()
    assert [request.method for request in script.requests if "well-known" not in request.path][-2:] == ["DELETE"] * 2
    assert auth.count("refresh_token") == 2 and len(user.visits) == 1


def test_no_user_is_asked_to_log_in_for_the_end_of_a_session(auth, script, user, grant):
    client = legacy(script, grant).open()
    log_out(auth)
    client.close()
    assert len(user.visits) == 1


def test_the_end_of_a_session_without_a_token_fails_no_other_request(auth, script, user, grant):
    # Another client asks the user at the same time, who has not been heard yet.
    with legacy(script, grant) as other:
        client = legacy(script, grant).open()
        log_out(auth)
        asked, goes = threading.Event(), threading.Event()

        def hold(request, answer):
            asked.set()
            assert goes.wait(LIMIT)
            return NotImplemented

        # The goodbye is the first to find that the token cannot be refreshed, and holds the others up.
        auth.on_token = lambda fields, answer: hold(fields, answer) if not asked.is_set() else NotImplemented
        closing = Work(client.close)
        assert asked.wait(LIMIT)
        ping = Work(other.ping)
        script.wait_for("ping", 1)
        goes.set()
        closing.end()
        assert ping.end() is None
    assert len(user.visits) == 2


def test_the_stream_and_the_posts_of_http_sse_get_tokens(auth, old, user, grant):
    with connect(old, grant, type="sse") as client:
        client.ping()
        auth.end()
        client.ping()
    assert len(user.visits) == 1 and auth.count("refresh_token") == 1
    assert [request.method for request in old.requests if "well-known" not in request.path][:3] == ["GET", "GET", "POST"]


def test_a_server_of_2024_is_found_behind_a_login(old, user, grant):
    with connect(old, grant) as client:
        assert client.protocol_version == "2024-11-05"
    assert len(user.visits) == 1


def test_a_subscription_gets_a_new_token(auth, real, user, grant):
    with connect(real, grant, era="modern") as client:
        auth.end()
        with client.listen(resources=["memo://x"]) as events:
            real.app.resource_updated("memo://x")
            assert events.get(LIMIT).uri == "memo://x"
    assert auth.count("refresh_token") == 1 and len(user.visits) == 1
    assert sum(request.does == "subscriptions/listen" for request in real.requests) == 2


def test_a_broken_response_is_resumed_with_a_new_token(auth, script, user, grant):
    def begin(request, answer):
        answer.events("id: 1\nretry: 10\ndata:\n\n")
        script.asked = request
        auth.end()
        answer.end()

    def go_on(request, answer):
        answer.events(script.text(script.asked, "after all"))
        answer.end()

    script.on_tools_call, script.on_GET = begin, go_on
    with legacy(script, grant) as client:
        assert client.call_tool("t").text == "after all"
    assert auth.count("refresh_token") == 1 and len(user.visits) == 1


# --- no user is asked in the background -------------------------------------------------------------------


def test_a_refused_resumption_costs_one_login(auth, script, user, grant):
    def begin(request, answer):
        answer.events("id: 1\nretry: 10\ndata:\n\n")
        answer.end()

    script.on_tools_call = begin
    script.on_request = lambda request, token: (401, script.challenge()) if request.method == "GET" else None
    with legacy(script, grant) as client, pytest.raises(mcplite.errors.AuthError, match="does not accept the token"):
        client.call_tool("t")
    assert len(user.visits) == 2  # the first one, and AUTH-48


def test_a_refused_get_stream_costs_one_login(auth, script, user, grant, monkeypatch):
    monkeypatch.setattr(ResumableStream, "delay", lambda stream: 0.0)
    script.on_request = lambda request, token: (401, script.challenge()) if request.method == "GET" else None
    with legacy(script, grant, listen=True) as client:
        for thread in threading.enumerate():
            if thread.name.startswith("mcplite listener of "):
                thread.join(LIMIT)
                assert not thread.is_alive()
        client.ping()
    assert len(user.visits) == 2


@pytest.mark.slow
def test_a_user_who_refuses_is_not_asked_again_by_the_get_stream(auth, script, user, grant, monkeypatch):
    monkeypatch.setattr(ResumableStream, "delay", lambda stream: 0.02)
    grant.login(script.url)
    auth.denies = True
    auth.refreshable.clear()
    script.on_request = lambda request, token: (401, script.challenge()) if request.method == "GET" else None
    with legacy(script, grant, listen=True):
        script.wait_for("GET", 8)
    assert len(user.visits) == 2


def test_a_user_who_refuses_is_not_asked_again_by_a_subscription(auth, real, user, grant):
    with connect(real, grant, era="modern") as client:
        with client.listen(resources=["memo://x"]) as events:
            auth.denies = True
            log_out(auth)
            cut(real)
            with pytest.raises(mcplite.errors.AuthError, match="access_denied"):
                events.get(LIMIT)
    assert len(user.visits) == 2


def test_the_get_stream_resumes_when_the_network_is_back(auth, script, user, grant, monkeypatch):
    # Without a network a token cannot be refreshed; that is no reason to give up.
    monkeypatch.setattr(ResumableStream, "delay", lambda stream: 0.05)
    opened, cuts = threading.Event(), []

    def stream(request, answer):
        answer.events()
        opened.set()
        answer.hold()

    def down(fields, answer):
        cuts.append(fields)
        return answer.cut() if len(cuts) < 3 else NotImplemented

    grant.login(script.url)
    first = grant.token(script.url)
    script.on_GET = stream
    script.on_request = lambda request, token: (401, script.challenge()) if request.method == "GET" and token == first else None
    auth.on_token = down
    with legacy(script, grant, listen=True):
        assert opened.wait(LIMIT)
    assert len(cuts) == 3 and len(user.visits) == 1


# --- no further ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_does_not_follow_a_redirect_to_another_port(script, grant, status):
    # AUTH-39
    with WebScript() as elsewhere, legacy(script, grant) as client:
        script.on_ping = lambda request, answer: answer.status(status, Location=elsewhere.url)
        with pytest.raises(mcplite.TransportError, match="redirect"):
            client.ping()
        assert not elsewhere.requests


def test_a_token_does_not_follow_an_endpoint_to_another_port(auth, grant):
    with WebScript() as elsewhere, Old(auth) as old:
        play = old.play

        def lead_away(request, answer):
            if request.method != "GET":
                return play(request, answer)
            answer.events(f"event: endpoint\ndata: {elsewhere.url}\n\n")
            return answer.hold()

        old.play = old._play = lead_away
        with pytest.raises(mcplite.errors.ProtocolError, match="another origin"):
            connect(old, grant, type="sse").open()
        assert not elsewhere.requests


def test_each_of_two_servers_gets_its_own_token(auth, user, grant):
    with Protected(auth) as one, Protected(auth) as other, legacy(one, grant) as first, legacy(other, grant) as second:
        first.ping()
        second.ping()
        assert len(user.visits) == 2 and len(auth.registered) == 1  # AUC-32: one client, as it is one authorization server
        assert not (set(one.sent) & set(other.sent)) - {None}
        assert {fields["resource"] for fields in auth.asked} == {one.url, other.url}  # AUC-13


def test_two_servers_of_one_host_have_two_tokens(auth, user, grant):
    with Protected(auth) as one:
        with legacy(one, grant) as client:
            client.ping()
        own, one.url = one.url, one.origin + "/other"
        with legacy(one, grant) as client:
            client.ping()
        assert len(user.visits) == 2
        sent = {request.path: {r.headers.get("authorization") for r in one.requests if r.path == request.path}
                for request in one.requests if "well-known" not in request.path}
        assert set(sent) == {"/mcp", "/other"} and sent["/mcp"] & sent["/other"] == {None}
        one.url = own


@pytest.mark.parametrize("url", ["http://mcp.example/mcp", "http://127.0.0.1.example/mcp", "http://me:secret@127.0.0.1/mcp"])
def test_no_token_is_sent_in_the_clear(grant, url):
    with pytest.raises(ValueError, match="https|user name") as caught:
        mcplite.connect(url, auth=grant).open()
    assert "secret" not in str(caught.value)


# --- other kinds of authentication --------------------------------------------------------------------------


class Header(AuthBase):
    def __call__(self, request):
        request.headers["X-Key"] = "k"
        return request


@pytest.mark.parametrize("given, name, expected", [
    ("t0ken", "authorization", "Bearer t0ken"),
    (("me", "pw"), "authorization", "Basic " + base64.b64encode(b"me:pw").decode()),
    (mcplite.Bearer(lambda: "fresh"), "authorization", "Bearer fresh"),
    (Header(), "x-key", "k"),
])
def test_other_credentials_are_sent_with_each_request_and_not_renewed(given, name, expected):
    with WebScript() as script:
        with mcplite.connect(script.url, auth=given, options=mcplite.ClientOptions(era="legacy"), timeout=LIMIT) as client:
            client.ping()
            script.on_ping = lambda request, answer: answer.status(401, WWW_Authenticate='Bearer realm="x"')
            with pytest.raises(mcplite.errors.AuthError) as caught:
                client.ping()
            assert caught.value.challenge == 'Bearer realm="x"'
        assert {request.headers.get(name) for request in script.requests} == {expected}
        assert sum(request.does == "ping" for request in script.requests) == 2


def test_the_error_does_not_ask_for_what_was_given():
    with WebScript() as script:
        script.on_initialize = lambda request, answer: answer.status(401)
        for given in ("t0ken", ("me", "pw"), Header()):
            with pytest.raises(mcplite.errors.AuthError) as caught:
                mcplite.connect(script.url, auth=given, options=mcplite.ClientOptions(era="legacy")).open()
            assert "give connect() auth=" not in str(caught.value) and "t0ken" not in str(caught.value)
        with pytest.raises(mcplite.errors.AuthError, match=r"give connect\(\) auth=mcplite.OAuth\(\) to log in"):
            mcplite.connect(script.url, options=mcplite.ClientOptions(era="legacy")).open()


def test_a_grant_as_the_authentication_of_a_session(script, user, grant):
    with requests.Session() as session:
        session.auth = grant
        with mcplite.connect(script.url, session=session, options=mcplite.ClientOptions(era="legacy"), timeout=LIMIT) as client:
            client.ping()
    assert len(user.visits) == 1


# --- secrets ------------------------------------------------------------------------------------------------


def test_no_secret_is_in_logs_errors_or_reprs(auth, script, user, caplog):
    # AUTH-19
    auth.on_register = lambda document, answer: (
        auth.know("dynamic", "s3cret-of-registration", document["redirect_uris"], "client_secret_post"), answer.json(
            {**document, "client_id": "dynamic", "client_secret": "s3cret-of-registration",
             "token_endpoint_auth_method": "client_secret_post"}))[1]
    said = []
    with caplog.at_level(logging.DEBUG):
        grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
        said.append(repr(grant.login(script.url)))
        with legacy(script, grant, listen=True, debug=True) as client:
            client.ping()
            auth.end()
            client.ping()
            script.needs_for = {"tools/call": ["write"]}
            client.call_tool("t")

            def echo(fields, answer):  # a server that says too much
                text = " ".join(str(value) for name, value in fields.items() if name not in ("scope", "resource"))
                return answer.status(400, '{"error": "invalid_request", "error_description": "%s"}' % text)

            auth.end()
            auth.on_token = echo
            with pytest.raises(mcplite.errors.AuthError) as caught:
                client.ping()
            said += [repr(client), repr(caught.value.__cause__), *map(repr, vars(client).values())]
            error = caught.value
            while error is not None:
                said.append(f"{error!r} {error} {vars(error)}")
                error = error.__cause__ or error.__context__
            auth.on_token = lambda fields, answer: NotImplemented
        grant.logout(script.url)
        tokens = grant.tokens_for(script.url)
        said += map(repr, [grant, grant.store, tokens, *vars(grant).values(), *vars(tokens).values()])
    said += [record.getMessage() for record in caplog.records] + [str(record.exc_info) for record in caplog.records]
    secrets = {*auth.secrets, *script.sent} - {None}
    assert len(secrets) > 8 and len(auth.asked) > 4
    text = "\n".join(said)
    assert not [secret for secret in secrets if secret in text]


def test_a_token_does_not_follow_a_redirect_beside_the_server():
    # AUTH-39
    with AuthServer() as auth, Protected(auth) as script:
        seen = []

        def beside(request, answer):
            if request.path == "/beside":
                seen.append(request.headers.get("authorization"))
                return answer.status(404)
            return answer.status(307, Location="/beside")

        script._play = beside
        with pytest.raises(mcplite.TransportError, match="which its token is not for") as caught:
            mcplite.connect(script.url, auth=mcplite.OAuth(ask=User(), redirect_uri=REDIRECT),
                            options=mcplite.ClientOptions(era="legacy")).open()
        assert seen == [] and not caught.value.temporary and caught.value.status == 307
