"""Tokens without a client of MCP: login, logout, token, and what a server says of its authorization."""

import socket
import time

import pytest

import mcplite
from mcplite.auth.login import grant_base as grant_module
from mcplite.auth.login.grant_base import Grant
from mcplite.net.settings import HTTPSettings
from mcplite.protocol.http.oauth import Challenge
from tests.support.authserver import REDIRECT, User, refuse
from tests.support.webscript import WebScript

LIMIT = 30
def stored(grant, script):
    return grant.store.load(f"token {script.url}")


def expire(grant, script):
    """Have the stored token be at its end; return a grant that has seen nothing else."""
    record = stored(grant, script)
    grant.store.save(f"token {script.url}", {**record, "expires_at": time.time() - 5})
    return mcplite.OAuth(ask=grant._ask, redirect_uri=REDIRECT, store=grant.store)


def test_a_login_gives_a_token_that_clients_use(auth, script, user, grant):
    script.needs = ["read"]
    credentials = grant.login(script.url)
    assert credentials.access_token in auth.tokens and credentials.scopes == ["read"] and credentials.issuer == auth.issuer
    assert credentials.resource == script.url and credentials.access_token not in repr(credentials)
    with mcplite.connect(script.url, auth=grant, options=mcplite.ClientOptions(era="legacy"), timeout=LIMIT) as client:
        client.ping()
    assert len(user.visits) == 1 and set(script.sent[1:]) == {credentials.access_token}


def test_each_login_asks_the_user_whatever_is_stored(auth, script, user, grant):
    first, second = grant.login(script.url), grant.login(script.url)
    assert first.access_token != second.access_token == grant.token(script.url)
    assert len(user.visits) == 2 and len(auth.registered) == 1


def test_a_login_at_a_server_that_wants_none(grant, user):
    with WebScript() as script:
        with pytest.raises(mcplite.errors.AuthError, match="wants no authorization .*it answered 200"):
            grant.login(script.url)
    assert not user.visits
    with pytest.raises(mcplite.TransportError, match="cannot reach"):
        grant.login(script.url)


def test_a_login_that_fails_leaves_what_is_stored(auth, script, grant):
    before = grant.login(script.url)
    auth.denies = True
    with pytest.raises(mcplite.errors.AuthError, match="access_denied"):
        grant.login(script.url)
    assert grant.token(script.url) == before.access_token


def test_a_login_clears_the_history_of_step_ups(auth, script, user):
    # What a user was asked in vain counts for programs, not for a user who logs in by themselves.
    grant = mcplite.OAuth(ask=user, redirect_uri=REDIRECT, scopes=["read"])
    script.needs_for = {"tools/call": ["write"]}
    grant.login(script.url)
    with mcplite.connect(script.url, auth=grant, options=mcplite.ClientOptions(era="legacy", listen=False),
                         timeout=LIMIT) as client:
        client.call_tool("t")
        grant.logout(script.url)
        grant.login(script.url)
        client.call_tool("t")
    assert [set(scopes) for scopes in user.scopes()] == [{"read"}, {"read", "write"}] * 2


@pytest.mark.parametrize("refreshes", [True, False])
def test_an_expired_token_is_not_returned(auth, script, user, grant, refreshes):
    auth.refreshes = refreshes
    grant.login(script.url)
    auth.refreshable.clear()
    assert expire(grant, script).token(script.url) is None
    assert len(user.visits) == 1


def test_a_logout_revokes_and_forgets(auth, script, grant):
    credentials = grant.login(script.url)
    assert grant.logout(script.url) is True
    assert [(fields["token"], fields["token_type_hint"]) for fields in auth.revoked] == [
        (credentials.refresh_token, "refresh_token"), (credentials.access_token, "access_token")]
    assert stored(grant, script) is None and grant.token(script.url) is None
    assert grant.logout(script.url) is False and len(auth.revoked) == 2


@pytest.mark.parametrize("how", ["refused", "away", "without"])
def test_a_logout_forgets_whatever_the_authorization_server_does(auth, script, grant, how):
    # AUTH-50
    if how == "without":
        auth.metadata = {"revocation_endpoint": None}
    grant.login(script.url)
    if how == "refused":
        auth.on_revoke = lambda fields, answer: refuse(answer, 400, "invalid_request")
    elif how == "away":
        auth.refuses = lambda request, answer: answer.cut() is None
    if how == "without":
        assert grant.logout(script.url) is True
    else:
        with pytest.raises(mcplite.errors.AuthError, match="did not revoke .*invalid_request|could not be reached"):
            grant.logout(script.url)
        kinds = [fields["token_type_hint"] for fields in auth.revoked]
        assert kinds == (["refresh_token", "access_token"] if how == "refused" else [])  # once each
    assert stored(grant, script) is None and grant.token(script.url) is None
    assert grant.logout(script.url) is False


def test_the_authorization_of_a_server(auth, script):
    script.metadata = {"scopes_supported": ["a", "b"]}
    found = mcplite.auth.find_authorization(script.url)
    assert (found.resource, found.issuers, found.scopes, found.described) == (script.url, [auth.issuer], ["a", "b"], True)
    assert not auth.requests and script.sent == [None]
    with WebScript(lambda request, answer: answer.status(404)) as plain:
        found = mcplite.auth.find_authorization(plain.url)
        assert (found.resource, found.issuers, found.described) == (plain.url, [plain.origin], False)
    with pytest.raises(mcplite.TransportError):
        mcplite.auth.find_authorization(plain.url)


def test_waiting_for_a_server_that_never_answers_ends(grant, monkeypatch):
    monkeypatch.setattr(grant_module, "_PROBE_SECONDS", 0.2)
    with WebScript(lambda request, answer: answer.hold()) as script:
        for ask in (mcplite.auth.find_authorization, grant.login):
            with pytest.raises(mcplite.TransportError, match="0.2 s"):
                ask(script.url)


@pytest.mark.parametrize("last", [False, True], ids=["kept", "broken off"])
def test_the_address_of_the_first_answer_is_remembered(auth, script, last):
    # AUTH-36
    script.on_request = lambda request, token: (401, script.challenge("read"))
    if last:
        refuses = script.refuses
        script.refuses = lambda request, answer: (refuses(request, answer), answer.cut())[0]
    status, challenge, address = grant_module._probe(script.url, HTTPSettings())
    assert (status, challenge.scopes, address) == (401, ["read"], "127.0.0.1")


@pytest.mark.parametrize("ask", [
    lambda grant, url: grant.login(url), lambda grant, url: mcplite.auth.find_authorization(url),
], ids=["login", "find_authorization"])
def test_a_name_that_leads_here_after_the_first_answer_is_refused(monkeypatch, grant, user, ask):
    # AUTH-36: a public server has answered, and its name means this machine from then on.
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *arguments, **options: real(
        "127.0.0.1" if host == "evil.example" else host, *arguments, **options))
    with WebScript(lambda request, answer: answer.status(404)) as script:
        challenge = Challenge("bearer", {"resource_metadata": f"{script.origin}/admin"})
        monkeypatch.setattr(grant_module, "_probe", lambda url, settings: (401, challenge, "93.184.216.34"))
        with pytest.raises(mcplite.errors.AuthError, match="a private network"):
            ask(grant, "https://evil.example/mcp")
        assert script.connections == 0
    assert not user.visits


def test_the_repr_of_a_grant_has_no_secrets():
    assert repr(mcplite.OAuth()) == "<OAuth>"
    shown = repr(mcplite.auth.ClientCredentials("me", "s3cret", issuer="https://a.example"))
    assert shown == "<ClientCredentials at https://a.example>"
    assert Grant(scopes="read write").scopes == Grant(scopes=["read", "write"]).scopes
    with pytest.raises(NotImplementedError):
        Grant().obtain(None)


def test_a_login_at_a_server_that_requires_tokens_for_a_few_operations(auth, script, user):
    script.free = {"initialize", "notifications/initialized", "ping", "DELETE", "GET"}
    found = mcplite.OAuth(ask=user, redirect_uri=REDIRECT).login(script.url)
    assert found.resource == script.url and len(user.visits) == 1


def test_servers_of_a_grant_are_bounded():
    # AUTH-45
    found = mcplite.OAuth(ask=User(), redirect_uri=REDIRECT)
    first = found.tokens_for("https://host.example/mcp")
    for number in range(1500):
        found.tokens_for(f"https://h{number}.example/mcp")
        assert found.tokens_for("https://host.example/mcp") is first
    assert len(found._servers) == 1000
