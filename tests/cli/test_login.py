"""login, logout and token: real processes, servers on real sockets, and a stand-in for the browser.

What is stored for a server, what is made of it, and how its user would be asked.
"""

import contextlib
import json
import os
import socket
import stat
import subprocess
import time
import urllib.request

import pytest

import mcplite
from mcplite.auth.login.stores import MemoryStore
from mcplite.auth.login.user_agent import Browser, NoUserAgent, Terminal, UserAgent, Visit
from mcplite.cli.login import Stored, choose_agent, how_to_log_in
from mcplite.cli.parser import UsageError
from tests.support import issuers
from tests.support.authserver import REDIRECT, AuthServer, Protected, User, follow, refuse
from tests.support.interrupts import ask_to_stop
from tests.support.processes import free_port
from tests.support.systems import posix_only
from tests.support.webscript import WebScript

SECONDS = 30


def no_secret(auth, text):
    return [secret for secret in auth.secrets if secret in text] == []


@pytest.fixture
def place():
    """The redirect URI of a client that was registered by hand: a port that is free."""
    return f"http://127.0.0.1:{free_port()}/back"


# --- login -------------------------------------------------------------------------------------------


def test_a_login_stores_tokens_and_reports_the_result(cli, auth, protected):
    auth.grants = lambda scopes: ["read", "write"]
    status, out, err = cli("login", protected.url)
    first, second = out.splitlines()
    assert status == 0
    assert first == f"logged in to {protected.url} at {auth.issuer}, with the scopes read write"
    assert second.startswith("the token expires at 20") and second.endswith("; it is renewed automatically")
    assert f"{auth.issuer}/authorize?" in err
    assert os.name != "posix" or stat.S_IMODE(cli.path.stat().st_mode) == 0o600
    assert cli.records()["token"]["access_token"] in auth.tokens
    assert no_secret(auth, cli.shown)


def test_a_login_as_json_tells_all_but_the_tokens(cli, auth, protected):
    auth.refreshes, auth.expires_in = False, None
    status, out, err = cli("login", "--json", protected.url, "--client-name", "Prüfer")
    assert status == 0
    assert json.loads(out) == {
        "server": protected.url, "resource": protected.url, "issuer": auth.issuer, "client_id": "client-1",
        "scopes": [], "token_type": "Bearer", "expires_at": None, "renewable": False}
    assert auth.registered[0]["client_name"] == "Prüfer"
    assert no_secret(auth, cli.shown)


@pytest.mark.parametrize("expires_in, end", [
    (None, "the server did not say when the token expires"), (3600, "the token expires at ")])
def test_a_token_without_a_refresh_token_is_reported(cli, auth, protected, expires_in, end):
    auth.refreshes, auth.expires_in = False, expires_in
    second = cli("login", protected.url)[1].splitlines()[1]
    assert second.startswith(end) and second.endswith("; it cannot be renewed: log in again then")


def test_scopes_are_asked_for_besides_those_of_the_server(cli, auth, protected):
    protected.needs = ["base"]
    status, out, err = cli("login", protected.url, "--scope", "read", "--scope", "write admin")
    assert status == 0
    assert ", with the scopes base read write admin\n" in out


def test_a_client_that_was_registered_by_hand(cli, auth, protected, place):
    auth.registers = False
    auth.know("mine", "hush-hush", [place])
    cli.environment["SECRET"] = "hush-hush"
    status, out, err = cli("login", protected.url, "--client-id", "mine", "--client-secret-env", "SECRET",
                           "--issuer", auth.issuer, "--redirect-uri", place, "--json")
    assert (status, json.loads(out)["client_id"]) == (0, "mine")
    assert (auth.asked[0]["redirect_uri"], auth.registered) == (place, [])
    assert no_secret(auth, cli.shown)


def test_a_client_that_a_document_describes(cli, auth, protected, place):
    document = "https://app.example/client.json"
    auth.metadata = {"client_id_metadata_document_supported": True}
    auth.know(document, None, [place])
    status, out, err = cli("login", protected.url, "--client-metadata-url", document, "--redirect-uri", place)
    assert status == 0
    assert [fields["client_id"] for fields in auth.asked] == [document]


def test_proofs_of_a_key(cli, auth, protected):
    auth.on_token = lambda fields, answer: auth.give(
        answer, "client-1", fields["resource"], [], object(), token_type="DPoP")
    status, out, err = cli("login", protected.url, "--dpop", "--json")
    assert (status, json.loads(out)["token_type"]) == (0, "DPoP")
    assert [request.path for request in auth.requests if "dpop" in request.headers] == ["/token"]
    token, key = (cli.records()["token"][name] for name in ("access_token", "key"))
    assert no_secret(auth, cli.shown) and key.splitlines()[1] not in cli.shown
    status, out, err = cli("token", protected.url, "--header")
    assert (status, out) == (0, f"Authorization: DPoP {token}\n")
    assert "bound to a key" in err and key.splitlines()[1] not in err


def test_a_server_that_wants_nothing(cli):
    with WebScript() as script:
        status, out, err = cli("login", script.url)
    assert (status, out) == (4, "")
    assert "wants no authorization" in err


def test_a_login_that_is_refused_stores_no_token(cli, auth, protected):
    auth.denies = True
    status, out, err = cli("login", protected.url)
    assert (status, out) == (4, "")
    assert err.splitlines()[-1] == f"{auth.issuer} did not authorize: access_denied"
    assert sorted(cli.records()) == ["client"]


def test_a_login_that_is_not_completed_in_time(cli, auth, protected):
    cli.browses("")
    status, out, err = cli("login", protected.url, "--timeout", "0.5")
    assert (status, out) == (4, "")
    assert f"the user did not log in at {auth.issuer} within 0.5 s" in err


def test_a_damaged_file_is_reported_before_the_login(cli, auth, protected, place):
    cli.path.parent.mkdir(mode=0o700)
    cli.path.write_text("{")
    cli.path.chmod(0o600)
    for more in ([], ["--client-id", "mine", "--issuer", auth.issuer, "--redirect-uri", place]):
        status, out, err = cli("login", protected.url, *more)
        assert (status, out, auth.requests) == (4, "", [])
        assert f"{cli.path} is not a JSON object; it is left as it is" in err
    assert cli.path.read_text() == "{"


@pytest.mark.parametrize("words, problem", [
    (["login"], "login: URL is missing; write: login URL"),
    (["login", "URL", "URL"], "is one argument too many; write: login URL"),
    (["login", "weather.py"], "login: 'weather.py' is not a URL; a server that is started here needs no login"),
    (["token", "weather.py"], "token: 'weather.py' is not a URL"),
    (["logout", "weather.py"], "logout: 'weather.py' is not a URL"),
    (["login", "http://mcp.example/mcp"], "authorization needs https, except on this machine"),
    (["token", "http://mcp.example/mcp"], "authorization needs https, except on this machine"),
    (["login", "URL", "--client-id", "mine"],
     "--client-id needs --issuer, the authorization server that registered this client; URL names "),
    (["login", "URL", "--client-secret-env", "SECRET"],
     "--client-secret-env needs --client-id, the client that the secret belongs to"),
    (["login", "URL", "--client-id", "mine", "--issuer", "https://a.example", "--client-secret-env", "NO_SUCH"],
     "--client-secret-env: the environment has no variable NO_SUCH"),
    (["login", "URL", "--client-id", "mine", "--client-metadata-url", "https://a.example/c"], "give one of them"),
    (["login", "URL", "--client-metadata-url", "http://a.example/c"],
     "--client-metadata-url http://a.example/c: the document about a client is at an https URL with a path"),
    (["login", "URL", "--redirect-uri", "https://127.0.0.1:8765/back"], "write it as http://127.0.0.1:8765/callback"),
    (["login", "URL", "--redirect-uri", "http://a.example:80/back"], "not to 'a.example'"),
    (["login", "URL", "--redirect-uri", "http://127.0.0.1/back"], "with a loopback host and a port"),
    (["login", "URL", "--redirect-uri", "http://127.0.0.1:0/back"], "with a loopback host and a port"),
    (["login", "URL", "--redirect-uri", "http://127.0.0.1:99999/back"], "--redirect-uri http://127.0.0.1:99999/back: "),
    (["login", "URL", "--timeout", "0"], "--timeout must be positive"),
])
@pytest.mark.slow
def test_2_wrong_usage(cli, auth, protected, words, problem):
    status, out, err = cli(*[protected.url if word == "URL" else word for word in words])
    assert (status, out) == (2, "")
    assert problem.replace("URL names", f"{protected.url} names") in err
    assert (auth.requests, cli.path.exists()) == ([], False)


def test_the_issuer_to_trust_must_be_given(cli):
    with WebScript(lambda request, answer: answer.status(404)) as script:
        status, out, err = cli("login", script.url, "--client-id", "mine")
    assert (status, err) == (2, "--client-id needs --issuer, the authorization server that registered this client\n")


def test_another_authorization_server_than_the_trusted_one_is_not_asked(cli, auth, protected):
    status, out, err = cli("login", protected.url, "--issuer", "https://a.example")
    assert (status, out, auth.requests) == (4, "", [])
    assert f"wants a token of {auth.issuer}, but --issuer https://a.example was given" in err


# --- without a browser -------------------------------------------------------------------------------


def test_the_address_is_pasted_into_a_pipe(cli, auth, protected):
    child = cli.start("login", protected.url, "--no-browser")
    address = follow(cli.page(child))
    child.stdin.write(address.encode() + b"\n")
    status, out, err = cli.end(child)
    assert status == 0
    assert out.startswith(f"logged in to {protected.url} at {auth.issuer}\n")


def test_the_address_is_pasted_at_a_terminal(cli, auth, protected, terminal, monkeypatch):
    monkeypatch.setenv("MCPLITE_CREDENTIALS", str(cli.path))
    terminal.run("login", protected.url, "--no-browser")
    page = terminal.expect(r"http://\S+/authorize\?\S+").group()
    terminal.answer("Address: $", "http://127.0.0.1:1/callback?code=no")
    terminal.answer("That is not the address[^$]*Address: $", follow(page))
    assert terminal.status() == 0
    assert f"logged in to {protected.url}" in terminal.screen
    assert cli.records()["token"]["access_token"] in auth.tokens


def test_nothing_can_be_pasted(cli, protected):
    status, out, err = cli("login", protected.url, "--no-browser")
    assert (status, out) == (4, "")
    assert "was given up: nothing more can be typed" in err
    assert "token" not in cli.records()


def test_without_browser_and_terminal_the_url_is_printed(cli, auth, protected):
    cli.browses(None)
    child = cli.start("login", protected.url, stdin=subprocess.DEVNULL)
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with browser.open(follow(cli.page(child)), timeout=SECONDS) as answer:
        assert answer.status == 200
    assert cli.end(child)[0] == 0
    assert cli.records()["token"]["access_token"] in auth.tokens


# --- at a server that issues its own tokens --------------------------------------------------------------

PERSON = "import sys; from tests.support.issuers import Person; Person()(sys.argv[1]).join()"


@pytest.mark.parametrize("way", ["browser", "no browser", "--no-browser"])
def test_a_user_logs_in_at_the_server_itself(cli, way):
    pytest.importorskip("authlib")
    cli.browses(PERSON if way == "browser" else None)
    with issuers.serving() as issuer:
        child = cli.start("login", issuer.endpoint, *([way] if way == "--no-browser" else []))
        if way == "no browser":
            issuers.Person()(cli.page(child))
        elif way == "--no-browser":
            child.stdin.write(issuers.Person().follow(cli.page(child)).encode() + b"\n")
        status, out, err = cli.end(child)
        assert status == 0, err
        assert out.startswith(f"logged in to {issuer.endpoint} at {issuer.url}, with the scopes notes\n")
        assert cli("call", issuer.endpoint, "hello") == (0, "ann ann@example.com notes\n", "")
        status, out, err = cli("logout", issuer.endpoint)
        assert status == 0 and "revoked" in out + err


# --- interrupted -------------------------------------------------------------------------------------


# On Windows Ctrl-C goes to the browser of this test as well, which has the same console.
@pytest.mark.parametrize("options", [pytest.param([], marks=posix_only), ["--no-browser"]])
def test_130_an_interrupt_leaves_nothing_behind(cli, auth, protected, options):
    cli.browses("")
    child = cli.start("login", protected.url, *options)
    port = int(cli.page(child).partition("127.0.0.1%3A")[2].partition("%2F")[0])
    ask_to_stop(child)
    status, out, err = cli.end(child)
    assert (status, out) == (130, "")
    assert err.splitlines()[-1].endswith("interrupted") and "Traceback" not in err
    assert [path.name for path in cli.path.parent.rglob("*") if path.is_file()] == ["credentials.json"]
    assert sorted(cli.records()) == ["client"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), SECONDS)


def test_130_ctrl_c_at_a_terminal(cli, protected, terminal, monkeypatch):
    monkeypatch.setenv("MCPLITE_CREDENTIALS", str(cli.path))
    terminal.run("login", protected.url, "--no-browser", controlling=True)
    terminal.expect("Address: $")
    terminal.type("\x03")
    assert terminal.status() == 130
    assert "interrupted\n" in terminal.screen and "Traceback" not in terminal.screen


# --- token -------------------------------------------------------------------------------------------


def test_a_token_alone_is_on_stdout(cli, auth, protected):
    cli("login", protected.url)
    token = cli.records()["token"]["access_token"]
    assert cli("token", protected.url) == (0, token + "\n", "")
    assert cli("token", protected.url, "--header") == (0, f"Authorization: Bearer {token}\n", "")
    assert cli("token", protected.url + "/") == (0, token + "\n", "")
    assert auth.count("refresh_token") == 0


@pytest.mark.slow
def test_a_token_that_has_expired_is_renewed_first(cli, auth, protected):
    cli("login", protected.url)
    old = cli.records()["token"]["access_token"]
    cli.change("token", expires_at=time.time() - 1)
    status, out, err = cli("token", protected.url)
    assert (status, err, out != old + "\n", out.strip() in auth.tokens) == (0, "", True, True)
    assert cli("token", protected.url) == (0, out, "")
    assert (auth.count("refresh_token"), auth.count("authorization_code"), auth.reuses) == (1, 1, 0)


def test_a_client_of_before_renews_with_its_secret(cli, auth, protected, place):
    auth.know("mine", "hush-hush", [place])
    cli.environment["SECRET"] = "hush-hush"
    cli("login", protected.url, "--client-id", "mine", "--client-secret-env", "SECRET", "--issuer", auth.issuer,
        "--redirect-uri", place)
    del cli.environment["SECRET"]
    cli.change("token", expires_at=time.time() - 1)
    status, out, err = cli("token", protected.url)
    assert (status, err, out.strip() in auth.tokens) == (0, "", True)


def test_4_no_token(cli, auth, protected):
    assert cli("token", protected.url) == (
        4, "", f"no login to {protected.url} is stored; log in with `python -m mcplite login {protected.url}`\n")
    assert (auth.requests, protected.requests, cli.path.parent.exists()) == ([], [], False)


@pytest.mark.parametrize("refreshes", [True, False])
def test_4_a_token_that_has_ended_is_not_printed(cli, auth, protected, refreshes):
    auth.refreshes = refreshes
    cli("login", protected.url)
    cli.change("token", expires_at=time.time() - 1)
    auth.refreshable.clear()
    status, out, err = cli("token", protected.url)
    assert (status, out) == (4, "")
    assert err == (f"the login to {protected.url} has expired;"
                   f" log in again with `python -m mcplite login {protected.url}`\n")


def test_4_a_token_that_cannot_be_renewed_now(cli, auth, protected):
    cli("login", protected.url)
    cli.change("token", expires_at=time.time() - 1)
    auth.on_token = lambda fields, answer: refuse(answer, 503, "temporarily_unavailable")
    status, out, err = cli("token", protected.url)
    assert (status, out) == (4, "")
    assert "temporarily_unavailable\nTo log in again: python -m mcplite login" in err
    auth.on_token = lambda fields, answer: NotImplemented
    assert cli("token", protected.url)[0] == 0  # what was stored is still there


# --- logout ------------------------------------------------------------------------------------------


def test_a_logout_forgets_and_revokes(cli, auth, protected):
    cli("login", protected.url)
    record = cli.records()["token"]
    assert cli("logout", protected.url) == (
        0, f"logged out of {protected.url}: the login is deleted here; its tokens are revoked at {auth.issuer}\n", "")
    assert [fields["token"] for fields in auth.revoked] == [record["refresh_token"], record["access_token"]]
    assert sorted(cli.records()) == ["client"]
    assert cli("token", protected.url)[0] == 4


def test_there_is_nothing_to_log_out_of(cli, auth, protected):
    assert cli("logout", protected.url) == (0, f"no login to {protected.url} is stored\n", "")
    assert (auth.requests, protected.requests, cli.path.parent.exists()) == ([], [], False)


def test_a_logout_where_nothing_can_be_revoked(cli, auth, protected):
    cli("login", protected.url)
    auth.metadata = {"revocation_endpoint": None}
    status, out, err = cli("logout", protected.url)
    assert (status, err) == (0, "")
    assert "its tokens stay valid until they expire, as " in out and " has no endpoint to revoke them" in out
    assert sorted(cli.records()) == ["client"]


def test_4_a_logout_that_could_not_revoke(cli, auth, protected):
    cli("login", protected.url)
    auth.on_revoke = lambda fields, answer: refuse(answer, 503, "temporarily_unavailable")
    status, out, err = cli("logout", protected.url)
    assert (status, out) == (4, "")
    assert "is deleted here, but its tokens could not be revoked" in err and "temporarily_unavailable" in err
    assert sorted(cli.records()) == ["client"]


def test_4_a_logout_from_a_file_that_cannot_be_written(cli, auth, protected):
    cli("login", protected.url)
    (cli.path.parent / "credentials.json.new").mkdir()  # in the way of each change
    status, out, err = cli("logout", protected.url)
    assert (status, out, auth.revoked) == (4, "", [])
    assert f"cannot write {cli.path}" in err and "forgotten" not in err
    assert "token" in cli.records()


# --- what is told ------------------------------------------------------------------------------------


def test_debug_shows_much_but_no_secret(cli, auth, protected):
    assert cli("login", "--debug", protected.url)[0] == 0
    cli.change("token", expires_at=time.time() - 1)
    assert cli("call", "--debug", protected.url, "greet")[:2] == (0, "hello\n")
    auth.end()
    auth.refreshable.clear()
    cli.browses("")
    child = cli.start("call", "--debug", protected.url, "greet")
    cli.page(child)
    ask_to_stop(child)
    assert cli.end(child)[0] == 130
    auth.on_revoke = lambda fields, answer: refuse(answer, 503, "temporarily_unavailable")
    status, out, err = cli("logout", "--debug", protected.url)
    assert (status, "Traceback" in err) == (4, True)
    assert "tools/call" in cli.shown
    assert no_secret(auth, cli.shown) and len(auth.secrets) > 5


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

    monkeypatch.setattr("mcplite.cli.login.choose_agent", lambda uri: asked)
    with stored(token=RECORD).grant(alone)._visit("preferred", "server") as visit:
        assert visit.redirect_uri == "http://127.0.0.1:1/"
        assert visit.ask("url", "state", lambda: "waits") == "back"
        visit.succeeded()
        visit.failed("why")
    assert asked.did == [
        ("preferred", "server"), "alone", ("url", "state", "waits"), "together", "succeeded", "why", "closed"]


@pytest.fixture(params=[Browser, Terminal, NoUserAgent])
def usual(request, monkeypatch):
    """The agent that the library chooses here."""
    monkeypatch.setattr("mcplite.cli.login.default_user_agent", request.param)
    return request.param


def test_the_agent_is_the_usual_one(usual):
    assert type(choose_agent()) is usual
    assert type(choose_agent(browser=False)) is Terminal
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
