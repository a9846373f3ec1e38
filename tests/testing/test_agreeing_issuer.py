"""The authorization server of a user's tests: tokens without a login, logins without a browser, refusals."""

import pytest
import requests

import mcplite
from mcplite import testing
from mcplite.auth import User
from tests.support.issuers import RawClient

pytest.importorskip("authlib")


@pytest.fixture
def notes():
    mcp = mcplite.Server("notes", auth=mcplite.BearerAuth(lambda token: None, scopes="notes"))

    @mcp.tool()
    def who(ctx: mcplite.Context) -> str:
        return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

    @mcp.tool(scopes="secret")
    def secret() -> str:
        return "42"

    return mcp


@pytest.fixture
def issuer():
    with testing.issuer(User("ann", "Ann", groups=("staff",))) as issuer:
        yield issuer


def test_a_token_without_a_login(issuer, notes):
    own = notes.auth
    with issuer.protect(notes) as url:
        with mcplite.connect(url, auth=issuer.token("notes")) as client:
            assert client.call_tool("who").text == "ann notes"
            with pytest.raises(mcplite.errors.AuthError, match="secret"):
                client.call_tool("secret")
        with mcplite.connect(url, auth=issuer.token(["notes", "secret"], subject="bob")) as client:
            assert client.call_tool("who").text == "bob notes secret" and client.call_tool("secret").text == "42"
        elsewhere = issuer.token("notes", resource="https://files.example/mcp")
        for token in (elsewhere, "a-token-that-is-unknown"):
            with pytest.raises(mcplite.errors.AuthError, match="401"):
                mcplite.connect(url, auth=token).open()
    assert notes.auth is own


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_a_login_without_a_browser(issuer, notes, revision):
    with issuer.protect(notes) as url, mcplite.connect(url, auth=issuer.login(), revision=revision) as client:
        assert client.call_tool("who").text == "ann notes"
        issuer.advance(3601)
        assert client.call_tool("who").text == "ann notes"  # it was refreshed
        assert client.call_tool("secret").text == "42"
        issuer.advance(3601)
        issuer.user = None
        with pytest.raises(mcplite.errors.AuthError):
            client.call_tool("who")


def test_an_expired_token(issuer, notes):
    with issuer.protect(notes, scopes=()) as url:
        token = issuer.token()
        with mcplite.connect(url, auth=token) as client:
            assert client.call_tool("who").text == "ann "
        issuer.advance(3601)
        assert requests.post(url, json={}, headers={"Authorization": f"Bearer {token}"}, timeout=30).status_code == 401


def test_a_client_of_another_kind_is_sent_back_at_once(issuer, notes):
    with issuer.protect(notes) as issuer.endpoint:
        client = RawClient(issuer)
        assert client.call(client.tokens(scope="notes")["access_token"], "who") == "ann notes"


def test_nobody_is_logged_in(notes):
    with testing.issuer(None) as issuer, issuer.protect(notes) as url:
        with pytest.raises(mcplite.errors.AuthError, match="access_denied"):
            mcplite.connect(url, auth=issuer.login()).open()
        with pytest.raises(ValueError, match="subject='ann'"):
            issuer.token("notes")
        assert issuer.token("notes", subject="bob")
