"""A user logs in with a real browser at an authorization server of others; our client calls tools of our server."""

import json
import os
import stat
import time

import pytest

import mcplite
from tests.support.processes import free_port

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
NOVEMBER, JULY = "2025-11-25", "2026-07-28"
REVISIONS = [NOVEMBER, JULY]
READER = "ada with mcp:read"
WRITER = "ada with mcp:read mcp:write"


@pytest.fixture
def refused():
    """Fails: no user may be asked to log in."""

    def refuse(url):
        raise AssertionError("a user was asked to log in")

    return mcplite.auth.Browser(open=refuse)


def login(user, **options):
    return mcplite.OAuth(ask=mcplite.auth.Browser(open=user.open), client_name="The test", **options)


def call(url, auth, tool, revision=None):
    with mcplite.connect(url, auth=auth, revision=revision) as client:
        return client.call_tool(tool).text


def until_it_has_ended(store, url):
    """Wait until the token in a store is good no more."""
    ends = store.load(f"token {url}")["expires_at"]
    while time.time() <= ends:
        time.sleep(0.05)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_user_logs_in_and_consents_and_the_tool_is_called(revision, authorization_server, protected, user):
    at = authorization_server()
    server = protected(at)
    with mcplite.connect(server.url, auth=login(user), revision=revision) as client:
        assert {tool.name for tool in client.list_tools()} == {"grow", "read", "whoami", "write"}
        assert client.call_tool("whoami").text == READER
        assert client.call_tool("read").text == "read"

    [page] = user.pages()
    assert page["did"] == ["login", "allow"]
    assert "logged in" in page["title"] and "close this page" in page["text"] and page["scripts"] == 0
    [registered] = at.events("registration")
    assert registered["status"] == 201 and registered["asked"]["application_type"] == "native"
    assert registered["asked"]["redirect_uris"] == [page["url"]]
    assert "refresh_token" in registered["asked"]["grant_types"] and registered["asked"]["client_name"] == "The test"
    [asked] = [event["parameters"] for event in at.events("authorization")]
    assert asked["resource"] == server.url and asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == page["url"] and "mcp:read" in asked["scope"].split()
    assert "mcp:write" not in asked["scope"].split()
    [token] = at.events("token")
    assert (token["status"], token["resource"], token["method"]) == (200, server.url, "none")


@pytest.mark.parametrize("bound", ["yes", "no"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_that_needs_more_asks_again_and_gets_both_scopes(revision, bound, authorization_server, protected, user):
    at = authorization_server(BOUND=bound)
    server = protected(at)
    with mcplite.connect(server.url, auth=login(user), revision=revision) as client:
        assert client.call_tool("whoami").text == READER
        assert client.call_tool("write").text == "written"
        assert client.call_tool("whoami").text == WRITER
    first, second = user.pages()
    assert (first["did"], second["did"]) == (["login", "allow"], ["allow"])
    scopes = [set(event["parameters"]["scope"].split()) - {"offline_access"} for event in at.events("authorization")]
    assert scopes == [{"mcp:read"}, {"mcp:read", "mcp:write"}]
    assert len(at.events("registration")) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_expired_token_is_renewed_without_the_user(revision, authorization_server, protected, user):
    at = authorization_server(SECONDS="1")
    server = protected(at)
    store = mcplite.auth.MemoryStore()
    with mcplite.connect(server.url, auth=login(user, store=store), revision=revision) as client:
        for _ in range(3):  # a rotated refresh token is invalid: the server would end the login at its second use
            assert client.call_tool("whoami").text == READER
            until_it_has_ended(store, server.url)
        assert client.call_tool("whoami").text == READER
    assert len(user.pages()) == 1
    renewed = at.events("token", grant="refresh_token")
    assert len(renewed) >= 3 and {event["status"] for event in renewed} == {200}
    assert {event["resource"] for event in renewed} == {server.url}


def test_offline_access_is_requested_where_refresh_tokens_need_it(authorization_server, protected, user):
    at = authorization_server(OFFLINE="asked", SECONDS="1")
    server = protected(at)
    store = mcplite.auth.MemoryStore()
    auth = login(user, store=store)
    assert call(server.url, auth, "whoami") == READER
    until_it_has_ended(store, server.url)
    assert call(server.url, auth, "whoami") == READER
    assert len(user.pages()) == 1
    assert len(at.events("token")) >= 2 and all(event["refreshable"] for event in at.events("token"))


def test_a_login_that_the_authorization_server_ended_is_repeated(authorization_server, protected, user):
    at = authorization_server(FIRST="1", FORMAT="opaque")
    server = protected(at, asks=True)
    store = mcplite.auth.MemoryStore()
    auth = login(user, store=store)
    auth.login(server.url)
    used = dict(store.load(f"token {server.url}"))
    until_it_has_ended(store, server.url)
    assert call(server.url, auth, "whoami") == READER
    store.save(f"token {server.url}", used)  # a copy of the store as it was; its refresh token has been used
    assert call(server.url, login(user, store=store), "whoami") == READER
    assert [event["error"] for event in at.events("token", grant="refresh_token", status=400)] == ["invalid_grant"]
    assert len(at.events("revoked")) == 1 and len(user.pages()) == 2


def test_another_process_with_the_same_store_needs_no_login(authorization_server, protected, visiting, user, tmp_path):
    at = authorization_server()
    server = protected(at)
    path = tmp_path / "tokens" / "tokens.json"
    path.parent.mkdir(mode=0o700)
    assert call(server.url, login(user, store=mcplite.auth.FileStore(str(path))), "whoami") == READER
    assert len(user.pages()) == 1
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    visitor = visiting(server, path, 1)
    visitor.tell("go")
    assert json.loads(visitor.line(1)) == [READER]
    assert visitor.leave() == 0
    assert len(at.events("authorization")) == len(at.events("registration")) == len(at.events("token")) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_user_who_declines(revision, authorization_server, protected, user):
    at = authorization_server()
    server = protected(at)
    user.answer = "decline"
    with pytest.raises(mcplite.errors.AuthError, match="not authorize: access_denied: End-User aborted interaction") as caught:
        call(server.url, login(user), "whoami", revision)
    assert caught.value.error == "access_denied" and at.issuer in str(caught.value)
    [page] = user.pages()
    assert "failed" in page["title"] and "access_denied" in page["text"]
    assert at.events("token") == []


def test_a_user_who_declines_more_keeps_what_was_granted(authorization_server, protected, user):
    at = authorization_server()
    server = protected(at)
    with mcplite.connect(server.url, auth=login(user)) as client:
        assert client.call_tool("whoami").text == READER
        user.answer = "decline"
        with pytest.raises(mcplite.errors.AuthError, match="access_denied"):
            client.call_tool("write")
        assert client.call_tool("whoami").text == READER
    assert len(user.pages()) == 2


def test_a_client_that_was_registered_by_hand(authorization_server, protected, user):
    redirect = f"http://127.0.0.1:{free_port()}/signed-in"
    known = {"client_id": "by hand", "redirect_uris": [redirect], "application_type": "native",
             "token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"]}
    at = authorization_server([known], REFUSE="registration")
    server = protected(at)
    auth = login(user, client_id="by hand", issuer=at.issuer, redirect_uri=redirect)
    assert call(server.url, auth, "whoami") == READER
    [page] = user.pages()
    assert page["url"] == redirect
    assert [event["client"] for event in at.events("token")] == ["by hand"]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_with_a_secret(method, authorization_server, protected, user):
    redirect = f"http://127.0.0.1:{free_port()}/callback"
    known = {"client_id": "an id: 100%", "client_secret": "a secret: + & 100% /?", "redirect_uris": [redirect],
             "application_type": "native", "token_endpoint_auth_method": method,
             "grant_types": ["authorization_code", "refresh_token"]}
    at = authorization_server([known], METHODS=method, FIRST="2")
    server, store = protected(at), mcplite.auth.MemoryStore()
    auth = login(user, client_id=known["client_id"], client_secret=known["client_secret"], issuer=at.issuer,
                 redirect_uri=redirect, store=store)
    assert call(server.url, auth, "whoami") == READER
    until_it_has_ended(store, server.url)
    assert call(server.url, auth, "whoami") == READER
    assert [(event["grant"], event["method"], event["status"]) for event in at.events("token")] == [
        ("authorization_code", method, 200), ("refresh_token", method, 200)]


def test_a_client_with_a_metadata_document(authorization_server, protected, user):
    url = "https://client.example/about/client.json"
    document = mcplite.auth.client_metadata("The test", ["http://127.0.0.1/callback"], url=url)
    at = authorization_server(DOCUMENTS=json.dumps({url: document}))
    server = protected(at)
    assert call(server.url, login(user, client_metadata_url=url), "whoami") == READER
    assert [event["client"] for event in at.events("token")] == [url]
    assert at.events("registration") == [] and [event["url"] for event in at.events("fetched")] == [url]


def test_a_server_without_registration(authorization_server, protected, refused):
    at = authorization_server(REFUSE="registration")
    server = protected(at)
    with pytest.raises(mcplite.errors.AuthError, match="has no dynamic registration: .* give client_id="):
        call(server.url, mcplite.OAuth(ask=refused), "whoami")


def test_an_issuer_that_is_not_trusted_gets_no_request(authorization_server, protected, refused):
    at, other = authorization_server(), authorization_server()
    server = protected(at)
    with pytest.raises(mcplite.errors.AuthError, match=other.issuer):
        call(server.url, mcplite.OAuth(ask=refused, issuer=other.issuer), "whoami")
    assert at.events("request") == other.events("request") == []


def test_after_a_logout_the_user_is_asked_again(authorization_server, protected, user):
    at = authorization_server(FORMAT="opaque")
    server = protected(at, asks=True)
    auth = login(user)
    assert call(server.url, auth, "whoami") == READER
    assert auth.logout(server.url) is True and auth.logout(server.url) is False
    assert len(at.events("revoked")) == 1
    assert call(server.url, auth, "whoami") == READER
    assert len(user.pages()) == 2
