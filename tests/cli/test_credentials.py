"""What is stored for a server, what is made of it, and how its user would be asked."""

import contextlib

import pytest

import mcplite
from mcplite.auth.login.browser import Browser
from mcplite.auth.login.stores import MemoryStore
from mcplite.auth.login.terminal import Terminal
from mcplite.auth.login.user_agent import NoUserAgent, UserAgent, Visit
from mcplite.cli.arguments import UsageError
from mcplite.cli.credentials import Stored, choose_agent, how_to_log_in
from tests.support.authserver import REDIRECT, AuthServer, Protected, User

URL = "https://mcp.example/mcp"
CLIENT = {"issuer": "https://a.example", "client_id": "mine", "secret": "hush"}
RECORD = {"issuer": "https://a.example", "resource": URL, "client": CLIENT, "access_token": "t"}


def stored(**records):
    store = MemoryStore()
    for kind, record in records.items():
        store.save(f"{kind} {URL}", record)
    return Stored(URL, store)


# --- what is made of it ------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [{}, {"token": {"of": "another version"}}, {"login": {"scopes": ["a"]}}])
def test_nothing_is_made_of_nothing(records):
    assert stored(**records).credentials is None
    assert stored(**records).grant() is None


def test_a_url_that_tokens_are_not_sent_to():
    with pytest.raises(ValueError, match="needs https"):
        Stored("http://mcp.example/mcp", MemoryStore())


@pytest.mark.parametrize("ways, kept", [
    ({"client_name": "", "dpop": False, "redirect_uri": None, "scopes": []}, {}),
    ({"client_name": "Me", "scopes": ["a"], "secret": "hush"}, {"client_name": "Me", "scopes": ["a"]}),
])
def test_the_options_of_a_login_are_stored_for_the_next(ways, kept):
    kept_for = stored()
    kept_for.save_options(ways)
    assert kept_for.store.load(f"login {URL}") == kept
    kept_for.forget_options()
    assert kept_for.store.keys() == []


@pytest.mark.parametrize("ways, scopes", [
    ({"scopes": ["a"]}, ["a"]), ({"scopes": "a", "client_name": 3, "more": 1}, [])])
def test_a_grant_stays_with_the_server_and_the_client(ways, scopes):
    grant = stored(token=RECORD, login=ways).grant()
    assert (grant.issuer, grant.scopes, grant.interactive) == ("https://a.example", scopes, True)
    assert grant.accepts(stored(token=RECORD).credentials)
    other = stored(token={**RECORD, "client": {**CLIENT, "client_id": "other"}})
    assert not grant.accepts(other.credentials)


def test_credentials_stored_by_a_program_are_used(cli):
    with AuthServer() as auth, Protected(auth) as protected:
        user = User()
        grant = mcplite.OAuth(store=mcplite.auth.FileStore(cli.path), ask=user, redirect_uri=REDIRECT)
        grant.login(protected.url)
        auth.end()
        assert cli("ping", protected.url) == (0, "script 1 answers (protocol 2025-11-25)\n", "")
        assert (auth.count("refresh_token"), len(user.visits)) == (1, 1)


# --- how its user is asked ---------------------------------------------------------------------------


class Asked(UserAgent, Visit):
    """An agent that is its own visit; ``did`` is all that happens."""

    def __init__(self):
        super().__init__("http://127.0.0.1:1/")
        self.did = []

    def begin(self, preferred, server):
        self.did.append((preferred, server))
        return self

    def ask(self, url, state, wait):
        self.did.append((url, state, wait()))
        return "back"

    def succeeded(self):
        self.did.append("succeeded")

    def failed(self, text):
        self.did.append(text)

    def close(self):
        self.did.append("closed")


def test_a_user_is_asked_alone(monkeypatch):
    asked = Asked()

    @contextlib.contextmanager
    def alone():
        asked.did.append("alone")
        yield
        asked.did.append("together")

    monkeypatch.setattr("mcplite.cli.credentials.choose_agent", lambda uri: asked)
    agent = stored(token=RECORD).grant(alone)._user_agent()
    with agent.begin("preferred", "server") as visit:
        assert visit.redirect_uri == "http://127.0.0.1:1/"
        assert visit.ask("url", "state", lambda: "waits") == "back"
        visit.succeeded()
        visit.failed("why")
    assert asked.did == [
        ("preferred", "server"), "alone", ("url", "state", "waits"), "together", "succeeded", "why", "closed"]


@pytest.fixture(params=[Browser, Terminal, NoUserAgent])
def usual(request, monkeypatch):
    """The agent that the library chooses here."""
    monkeypatch.setattr("mcplite.cli.credentials.default_user_agent", request.param)
    return request.param


def test_the_agent_is_the_usual_one(usual):
    assert type(choose_agent()) is usual
    assert type(choose_agent(browser=False)) is Terminal


def test_the_login_command_uses_the_default_user_agent(usual):
    assert type(choose_agent(command=True)) is (Browser if usual is NoUserAgent else usual)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:8765/callback", "http://localhost:1/", "http://[::1]:8765/a/b"])
@pytest.mark.parametrize("browser", [True, False])
def test_a_redirect_uri_is_listened_at_to_the_letter(usual, uri, browser):
    host, port, path = choose_agent(uri, browser=browser, command=True)._listen_at
    assert f"http://{'[::1]' if host == '::1' else host}:{port}{path}" == uri


@pytest.mark.parametrize("uri", ["http://LOCALHOST:8765/a", "http://127.0.0.1:8765", "http://127.0.0.1:8765/a?b=c",
                                 "http://127.0.0.1:8765/a#b", "http://me@127.0.0.1:8765/a", "callback", "http://[::1/"])
def test_a_redirect_uri_that_cannot_be_listened_at(uri):
    with pytest.raises(UsageError, match="--redirect-uri"):
        choose_agent(uri)


@pytest.mark.parametrize("url, shown", [
    (URL, URL), ("https://mcp.example/a'b c", "'https://mcp.example/a'\"'\"'b c'"), (URL + "?key=hush", "URL"),
    ("https://me:hush@mcp.example/", "URL")])
def test_the_command_to_log_in_can_be_copied_and_has_no_secrets(url, shown):
    assert how_to_log_in(url, "pack.age") == f"python -m pack.age login {shown}"
