"""Authorization over real servers: http, waitress and gunicorn, one process each."""

import base64
import contextlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import mcplite
from mcplite.protocol.http.oauth import parse_challenges
from mcplite.revisions import REVISIONS
from tests.support import stateless
from tests.support.authserver import REDIRECT, AuthServer, User
from tests.support.processes import serving
from tests.support.rawhttp import BOTH, Wire, call, initialize, request

HERE = Path(__file__).resolve().parent
LIMIT = 30
ERAS = ["legacy", "modern"]
NAMES = [revision.name for revision in REVISIONS if revision.name != "2024-11-05"]
WELL_KNOWN = "/.well-known/oauth-protected-resource"
USERS = {"ada": "the-password-of-ada", "bob": "the-password-of-bob"}
STREAM = {"Accept": "text/event-stream"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LISTEN = stateless.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
COMMANDS = {
    "http": ["mcplite.server", "protected_server.py:mcp", "--http=PORT"],
    "waitress": ["waitress", "--listen=127.0.0.1:PORT", "--threads=16", "--channel-request-lookahead=1",
                 "protected_server:application"],
}
if os.name == "posix":
    COMMANDS["gunicorn"] = ["gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=16",
                            "--workers=1", "--graceful-timeout=5", "protected_server:application"]


@pytest.fixture(scope="module")
def auth():
    with AuthServer() as auth:
        yield auth


class Running:
    """A running process: ``url`` is its first endpoint, ``urls`` are all endpoints that take tokens."""

    def __init__(self, base, name, log):
        self.base, self.url, self.log = base, base + "mcp", log
        self.urls = [self.url] if name == "http" else [self.url, base + "deep/mcp"]


@pytest.fixture(scope="module", params=list(COMMANDS))
def running(request, auth, tmp_path_factory):
    log = tmp_path_factory.mktemp("logs") / "log"
    with serving([sys.executable, "-m", *COMMANDS[request.param]], HERE, ISSUER=auth.issuer, LOG=str(log),
                 USERS=json.dumps(USERS), MCPLITE_DEBUG="1") as base:
        yield Running(base, request.param, log)


def good(url, subject="ada", **said):
    """Return an unsigned token that is valid at a URL, except for the changes in *said*."""
    text = json.dumps({"subject": subject, "audience": url, **said})
    return "test." + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def basic(name, password=None):
    text = f"{name}:{USERS[name] if password is None else password}"
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def ask(url, method="POST", message=None, headers=(), query=""):
    """Return the whole response to a request."""
    with opened(url, method, message, headers, query) as wire:
        return wire.reply(method)


@contextlib.contextmanager
def opened(url, method="POST", message=None, headers=(), query=""):
    """Send a request, and give its connection."""
    parts = urlsplit(url)
    body = b"" if message is None else stateless.encode(message)
    given = {"Host": parts.netloc, "Accept": BOTH, **({"Content-Type": "application/json"} if body else {}),
             **dict(headers)}
    with Wire(parts.port) as wire:
        yield wire.send(request(method, (parts.path or "/") + query, body, given))


def to_the_end(wire):
    """Return the rest of a stream that ends without us."""
    until, said = time.monotonic() + LIMIT, b""
    while time.monotonic() < until:
        piece = wire.piece()
        if not piece:
            return said
        said += piece
    raise AssertionError("the stream goes on")


def modern(message, **more):
    """Return the headers of a request without a session."""
    given = stateless.headers(message)
    return {**{name: value for name, value in given.items() if name.lower().startswith("mcp-")}, **more}


def visit(url, message, headers):
    return ask(url, message=message, headers=modern(message, **headers))


def begin(url, headers):
    """Open a session and return its header."""
    reply = ask(url, message=initialize(), headers=headers)
    assert reply.status == 200, reply
    session = {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
    assert ask(url, message=INITIALIZED, headers={**headers, **session}).status == 202
    return session


def challenge(reply):
    """Return the challenge of a refusal."""
    (found,) = parse_challenges(reply.headers["www-authenticate"])
    assert found.scheme == "bearer"
    return found.parameters


def knocks(url, session):
    """Return the ways to a server: method, message, headers."""
    who = stateless.call("who")
    return {
        "initialize": ("POST", initialize(), {}), "legacy": ("POST", call("who"), session),
        "notification": ("POST", INITIALIZED, session), "stream": ("GET", None, {**session, **STREAM}),
        "resumption": ("GET", None, {**session, **STREAM, "Last-Event-ID": "1-1"}), "end": ("DELETE", None, session),
        "modern": ("POST", who, modern(who)), "listen": ("POST", LISTEN, modern(LISTEN)),
        "discover": ("POST", stateless.message("server/discover"), modern(stateless.message("server/discover")))}


# --- tokens -------------------------------------------------------------------------------------------------


def test_without_a_token_every_way_leads_to_the_metadata(running, auth):
    # AUS-02, AUS-04 to AUS-07, AUS-30, AUTH-01, AUTH-12, AUTH-15
    for url in running.urls:
        session = begin(url, bearer(good(url)))
        for name, (method, message, headers) in knocks(url, session).items():
            for sent in ({}, basic("ada")):
                reply = ask(url, method, message, {**headers, **sent})
                said = challenge(reply)
                assert reply.status == 401 and list(said) == ["resource_metadata"], (url, name)
            described = ask(said["resource_metadata"], "GET")
            assert (described.status, described.headers["content-type"]) == (200, "application/json")
            assert described.json["resource"] == url and described.json["authorization_servers"] == [auth.issuer]
            assert described.json["scopes_supported"] == ["write", "files"]
        place = running.base[:-1] + WELL_KNOWN + urlsplit(url).path
        assert ask(place, "GET").json == described.json
        assert ask(place, "HEAD").body == b"" and ask(place, message=call("who")).status == 405
        assert mcplite.auth.find_authorization(url).resource == url
        assert ask(url, "DELETE", headers={**session, **bearer(good(url))}).status == 204


def test_wrong_tokens_are_refused_everywhere(running):
    # AUS-10 to AUS-12, AUS-15, AUS-16, AUTH-02, AUTH-03, AUTH-05, AUTH-09, AUTH-10
    for url in running.urls:
        session = begin(url, bearer(good(url)))
        wrong = {
            "expired": good(url, expires_at=time.time() - 1), "for no audience": good(url, audience=[]),
            "of another issuer": good(url, issuer="https://other.example"),
            "for the parent": good(running.base), "for a sibling": good(url + "2"),
            "for another host": good("https://mcp.example/mcp"),
            "for another port": good(url.replace("127.0.0.1:", "127.0.0.1:1")), "cut off": "access-that-is-unknown"}
        for name, (method, message, headers) in knocks(url, session).items():
            for kind, text in wrong.items():
                reply = ask(url, method, message, {**headers, **bearer(text)})
                assert (reply.status, challenge(reply)["error"]) == (401, "invalid_token"), (url, name, kind)
                assert text not in repr(reply)
            for sent in ("Bearer", "Bearer a b", f"Bearer {good(url)}, Bearer {good(url)}", 'Bearer "x"'):
                reply = ask(url, method, message, {**headers, "Authorization": sent})
                assert (reply.status, challenge(reply)["error"]) == (400, "invalid_request"), (url, name, sent)
            assert ask(url, method, message, headers, query=f"?access_token={good(url)}").status == 401
            # A Host header does not make a token for another server valid here.
            elsewhere = {**headers, **bearer(good("http://127.0.0.1:1" + urlsplit(url).path)), "Host": "127.0.0.1:1"}
            assert ask(url, method, message, elsewhere).status == 401
        for other in running.urls:
            status = ask(other, message=initialize(), headers=bearer(good(url))).status
            assert status == (200 if other == url else 401), "one server's are not another's"
        assert ask(url, message=call("who"), headers={**session, "authorization": f"BEARER  {good(url)}"}).status == 200


@pytest.mark.parametrize("spoken", NAMES)
def test_a_handler_knows_its_principal_and_scopes(running, spoken):
    # AUS-17, AUS-18, AUS-29, AUTH-11
    for url in running.urls:
        with mcplite.connect(url, auth=good(url, scopes=["write", "read"]), revision=spoken, timeout=LIMIT) as client:
            assert client.call_tool("who").text == "ada read write"
            with pytest.raises(mcplite.errors.AuthError) as caught:
                client.call_tool("write")
            assert caught.value.error == "insufficient_scope"
            (said,) = parse_challenges(caught.value.challenge)
            # Older clients may lose the scopes that are not named again (AUS-19).
            assert said.scopes == ["write", "files"] and said.get("resource_metadata").startswith(running.base)
            assert client.call_tool("who").text == "ada read write", "the session goes on"
        with mcplite.connect(url, auth=good(url, scopes=["write", "files"]), revision=spoken, timeout=LIMIT) as client:
            assert client.call_tool("write").text == "written"


def test_concurrent_principals_are_not_confused(running):
    # AUS-29: over the connections and threads of the server
    def use(number):
        with mcplite.connect(running.url, auth=good(running.url, f"user-{number}"),
                             options=mcplite.ClientOptions(era=ERAS[number % 2], listen=False),
                             timeout=LIMIT) as client:
            return {client.call_tool("who").text for _ in range(5)}

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(use, range(12))) == [{f"user-{number}"} for number in range(12)]


@pytest.mark.parametrize("era", ERAS)
def test_a_user_logs_in_and_is_asked_for_more_when_a_tool_needs_it(running, auth, era):
    # Discovery, a login and a step-up: the client knows only the URL of the server.
    for url in running.urls:
        user, before = User(), len(auth.asked)
        grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
        with mcplite.connect(url, auth=grant, options=mcplite.ClientOptions(era=era), timeout=LIMIT) as client:
            assert client.call_tool("who").text.split()[:2] == ["user", "read"]
            assert client.call_tool("write").text == "written"
        assert len(user.visits) <= 2 and {fields["resource"] for fields in auth.asked[before:]} == {url}


# --- one principal's things ---------------------------------------------------------------------------------


def test_a_session_belongs_to_one_principal(running):
    # SESS-13 to SESS-15, AUS-24, AUS-25, AUTH-13
    for url in running.urls:
        ada = good(url, client_id="desk")
        session = begin(url, bearer(ada))
        for other in (good(url, "bob", client_id="desk"), good(url, client_id="app")):
            for name in ("legacy", "notification", "stream", "resumption", "end"):
                method, message, headers = knocks(url, session)[name]
                assert ask(url, method, message, {**headers, **bearer(other)}).status == 404, (url, name)
        refreshed = good(url, client_id="desk", scopes=["more"])
        answer = ask(url, message=call("who"), headers={**session, **bearer(refreshed)})
        assert answer.json["result"]["content"][0]["text"] == "ada more"
        with opened(url, "GET", headers={**session, **STREAM, **bearer(refreshed)}) as wire:
            assert wire.head().status == 200
            # For another principal the session does not exist: the answer does not even tell that it has a stream.
            assert ask(url, "GET", headers={**session, **STREAM, **bearer(good(url, "bob"))}).status == 404
            assert ask(url, "DELETE", headers={**session, **bearer(ada)}).status == 204
            to_the_end(wire)  # it ends with the session


def test_only_the_asked_principal_can_answer_a_question(running):
    # MRTR-14, AUTH-13: a call that waits in the process
    for url in running.urls:
        message = stateless.call("ask", capabilities={"elicitation": {}})
        first = visit(url, message, bearer(good(url))).json["result"]
        assert first["resultType"] == "input_required"
        back = stateless.again(message, first)
        for other in (good(url, "bob"), good(url, client_id="app")):
            assert visit(url, back, bearer(other)).json["error"]["code"] == -32602
        assert visit(url, back, {}).status == 401
        answer = visit(url, back, bearer(good(url, scopes=["more"]))).json["result"]
        assert answer["content"][0]["text"] == "ada: accept"


def test_a_stream_ends_with_its_token(running):
    # AUS-31, AUTH-16: in the way of this server
    url = running.url
    session = begin(url, bearer(good(url)))
    ends = time.time() + 1
    short = bearer(good(url, expires_at=ends))
    with opened(url, "GET", headers={**session, **STREAM, **short}) as old, \
            opened(url, message=LISTEN, headers=modern(LISTEN, **short)) as new:
        assert old.head().status == new.head().status == 200
        to_the_end(old)
        said = [line for line in to_the_end(new).splitlines() if line.startswith(b"data: ")]
        assert json.loads(said[-1][6:])["result"]["resultType"] == "complete"
    assert time.time() >= ends - 0.1
    assert ask(url, message=call("who"), headers={**session, **short}).status == 401
    assert ask(url, message=call("who"), headers={**session, **bearer(good(url))}).status == 200


# --- behind an application that authenticates ----------------------------------------------------------------------


#: All but our own server.
WSGI = [name for name in COMMANDS if name != "http"]
behind = pytest.mark.parametrize("running", WSGI, indirect=True, scope="module")


@pytest.fixture
def front(running):
    return running.base + "front"


@behind
@pytest.mark.parametrize("era", ERAS)
def test_the_application_around_it_names_the_principal(front, era):
    def connect(name, password):
        return mcplite.connect(front, auth=(name, password), options=mcplite.ClientOptions(era=era), timeout=LIMIT)

    for name, password in USERS.items():
        with connect(name, password) as client:
            assert client.call_tool("who").text == name
            with pytest.raises(mcplite.errors.AuthError, match="write files"):
                client.call_tool("write")  # the application gives them no scope
    with pytest.raises(mcplite.errors.AuthError, match="401"):
        connect("ada", "guessed").open()


@behind
def test_sessions_belong_to_the_user_whom_the_application_names(front):
    session = begin(front, basic("ada"))
    for name in ("legacy", "notification", "stream", "resumption", "end"):
        method, message, headers = knocks(front, session)[name]
        assert ask(front, method, message, {**headers, **basic("bob")}).status == 404, name
        assert ask(front, method, message, {**headers, **basic("bob"), "Remote-User": "ada"}).status == 404, name
    message = stateless.call("ask", capabilities={"elicitation": {}})
    back = stateless.again(message, visit(front, message, basic("ada")).json["result"])
    assert visit(front, back, basic("bob")).json["error"]["code"] == -32602
    assert visit(front, back, basic("ada")).json["result"]["content"][0]["text"] == "ada: accept"
    refused = visit(front, stateless.call("write"), basic("ada"))
    assert refused.status == 403 and challenge(refused)["scope"] == "write files"
    assert "resource_metadata" not in challenge(refused), "the application says where to get a token"
    assert ask(front, "DELETE", headers={**session, **basic("ada")}).status == 204


@behind
def test_other_paths_of_an_application_are_not_touched(front):
    base = front[:-len("/front")]
    for path in ("/", "/elsewhere", WELL_KNOWN, WELL_KNOWN + "/front", "/.well-known/oauth-authorization-server"):
        assert ask(base + path, "GET").status == 299, path


# --- no secret is logged ----------------------------------------------------------------------------------------------


def test_no_secret_is_in_the_log_of_a_process(running, auth):
    # AUS-23, AUTH-17, AUTH-19: with every message shown, and a verifier that fails
    url, secrets = running.url, set(auth.secrets) | set(USERS.values()) | {"the-secret-of-mcp"}
    odd = "test.this-cannot-be-decoded"
    for text, status in ((odd, 500), ("access-that-is-unknown", 401), (good(url), 200)):
        message = stateless.call("who")
        reply = ask(url, message=message, headers=modern(message, **bearer(text)), query=f"?access_token={text}")
        assert reply.status == status and text not in repr(reply)
        secrets |= {text, text[5:]}
    log = running.log.read_text()
    assert "could not be verified" in log and "server" in log
    assert [secret for secret in secrets if secret in log] == []
