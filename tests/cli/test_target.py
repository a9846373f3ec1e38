"""What list, call, ... do with a login of before, and without one.

A configuration file as the target: what it asks its user for.
"""

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

import mcplite
from mcplite.__main__ import main
from mcplite.cli.parser import parse
from mcplite.cli.target import connected
from tests.support.authserver import follow
from tests.support.interrupts import ask_to_stop
from tests.support.systems import posix_only
from tests.support.webscript import WebScript


@pytest.fixture
def config(tmp_path, protected):
    """Write a configuration with the protected server."""

    def config(**more):
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"vault": {"url": protected.url, **more}}}))
        return tmp_path / "mcp.json"

    return config


def logins(auth):
    return auth.count("authorization_code")


# --- with what is stored -----------------------------------------------------------------------------


@pytest.mark.parametrize("words, printed", [
    (["ping"], "script 1 answers"), (["list"], "script 1 (protocol"), (["call", "greet"], "hello\n")])
@pytest.mark.slow
def test_a_stored_login_is_used(cli, auth, protected, words, printed):
    cli("login", protected.url)
    status, out, err = cli(words[0], protected.url, *words[1:])
    assert (status, err, logins(auth)) == (0, "", 1)
    assert out.startswith(printed)


def test_a_stored_login_is_used_for_a_configured_server(cli, auth, protected, config):
    cli("login", protected.url)
    assert cli("call", "--config", config(), "greet") == (0, "hello\n", "")


@pytest.mark.parametrize("how", ["it has expired", "the server does not take it any more"])
@pytest.mark.slow
def test_a_token_is_renewed_and_kept(cli, auth, protected, how):
    cli("login", protected.url)
    old = cli.records()["token"]
    if how == "it has expired":
        cli.change("token", expires_at=time.time() - 1)
    else:
        auth.end()
    assert cli("call", protected.url, "greet") == (0, "hello\n", "")
    assert (auth.count("refresh_token"), logins(auth)) == (1, 1)
    new = cli.records()["token"]
    assert new["access_token"] != old["access_token"] and new["refresh_token"] != old["refresh_token"]


def test_a_header_of_ones_own_goes_first(cli, auth, protected, config):
    cli("login", protected.url)
    for words in (["--header", "authorization: Bearer mine", protected.url],
                  ["--config", config(headers={"Authorization": "Bearer mine"})]):
        status, out, err = cli("ping", *words)
        assert (status, out, protected.sent[-1], logins(auth)) == (4, "", "mine", 1)
        assert err == (f"{protected.url} requires authorization (401), and refused the Authorization header"
                       " that was sent\n")


def test_4_a_header_of_ones_own_that_allows_too_little(cli, auth, protected):
    cli("login", protected.url)
    protected.needs_for = {"tools/call": ["write"]}
    token = cli("token", protected.url, "--header")[1].strip()
    status, out, err = cli("call", protected.url, "greet", "--header", token)
    assert (status, out, logins(auth)) == (4, "", 1)
    assert err.endswith("refuses (403): the credentials lack scopes (write)\n")


def test_another_header_does_not_keep_a_token_away(cli, auth, protected):
    cli("login", protected.url)
    assert cli("call", protected.url, "greet", "--header", "X-Color: red")[0] == 0
    assert protected.wait_for("tools/call")[0].headers["x-color"] == "red"


# --- with nothing stored -----------------------------------------------------------------------------


def test_4_no_login_without_being_asked(cli, auth, protected, config):
    for words in ([protected.url], ["--config", config()]):
        status, out, err = cli("call", *words, "greet")
        assert (status, out, auth.requests, cli.path.parent.exists()) == (4, "", [], False)
        assert err == (f"{protected.url} requires authorization (401): log in with"
                       f" `python -m mcplite login {protected.url}`, or give --header 'Authorization: Bearer ${{TOKEN}}'\n")


def test_4_a_query_may_be_secret(cli, auth, protected):
    status, out, err = cli("ping", protected.url + "?key=hush")
    assert status == 4
    assert f"{protected.url} requires authorization" in err and "`python -m mcplite login URL`" in err
    assert "hush" not in err


def test_4_urls_that_tokens_are_not_sent_to(cli):
    """A proxy plays the server: nothing else is behind a URL of plain http that is not of this machine."""
    with WebScript(lambda request, answer: answer.status(401)) as proxy:
        cli.environment.update(http_proxy=proxy.origin, no_proxy="")
        status, out, err = cli("ping", "http://mcp.example/mcp")
    assert (status, out) == (4, "")
    assert err.startswith("http://mcp.example/mcp requires authorization (401), and a login to this URL is not possible: ")
    assert "needs https" in err and "login http" not in err


def test_a_server_that_wants_nothing_gets_nothing(cli, auth, protected):
    with WebScript() as script:
        assert cli("ping", script.url)[0] == 0
        assert not any("authorization" in request.headers for request in script.requests)
    assert not cli.path.parent.exists()


def test_without_a_home_there_is_nothing_stored(monkeypatch, capsys):
    monkeypatch.setenv("MCPLITE_CREDENTIALS", "")
    monkeypatch.setattr("mcplite.auth.login.file_store.os.path.expanduser", lambda path: path)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    options = parse(["ping", "x"], "mcplite", "1")
    with WebScript() as script, connected([script.url], options) as client:
        client.ping()
    assert capsys.readouterr().err == ""


# --- with what is stored, but cannot be used ---------------------------------------------------------


@pytest.fixture
def damaged(cli):
    cli.path.parent.mkdir(mode=0o700)
    cli.path.write_text("{")
    cli.path.chmod(0o600)


@pytest.mark.usefixtures("damaged")
def test_a_damaged_file_is_reported_and_open_servers_still_work(cli):
    with WebScript() as script:
        status, out, err = cli("ping", script.url)
    assert (status, out) == (0, "script 1 answers (protocol 2025-11-25)\n")
    assert err == (f"warning: {cli.path} is not a JSON object; it is left as it is: repair it, or move it away and"
                   " authorize again\n")


@pytest.mark.usefixtures("damaged")
def test_4_a_damaged_file_and_a_protected_server(cli, auth, protected):
    status, out, err = cli("ping", protected.url)
    assert (status, out, auth.requests) == (4, "", [])
    warning, error = err.splitlines()
    assert warning.startswith(f"warning: {cli.path} is not a JSON object")
    assert error == (f"{protected.url} requires authorization (401), and its stored login cannot be used, see the"
                     " warning")


@pytest.mark.usefixtures("damaged")
@pytest.mark.slow
def test_a_damaged_file_does_not_matter_for_stdio_servers(cli, tmp_path, protected):
    (tmp_path / "empty.py").write_text("import mcplite\nmcp = mcplite.Server('empty')\n")
    status, out, err = cli("ping", tmp_path / "empty.py")
    assert (status, err) == (0, "")
    # Nor to who brings a token.
    assert cli("ping", protected.url, "--header", "Authorization: Bearer x")[2].count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_4_a_file_that_others_can_read(cli, auth, protected):
    cli("login", protected.url)
    cli.path.chmod(0o644)
    status, out, err = cli("ping", protected.url)
    assert (status, out, protected.sent[-1]) == (4, "", None)
    assert f"run: chmod 600 {cli.path}\n" in err


# --- a login in the middle ---------------------------------------------------------------------------


@pytest.mark.slow
def test_more_scopes_are_asked_for_in_the_browser(cli, auth, protected):
    cli("login", protected.url, "--scope", "read")
    protected.needs_for = {"tools/call": ["write"]}
    status, out, err = cli("call", protected.url, "greet")
    assert (status, out, logins(auth)) == (0, "hello\n", 2)
    assert cli.records()["token"]["scopes"] == ["read", "write"]
    assert cli("call", protected.url, "greet") == (0, "hello\n", "")


def test_a_login_that_has_ended_is_made_anew_with_the_same_client(cli, auth, protected):
    auth.registers = False
    with WebScript() as free:
        place = f"http://127.0.0.1:{free.port}/back"
    auth.know("mine", "hush-hush", [place])
    cli.environment["SECRET"] = "hush-hush"
    assert cli("login", protected.url, "--client-id", "mine", "--client-secret-env", "SECRET", "--issuer", auth.issuer,
               "--redirect-uri", place, "--scope", "read")[0] == 0
    del cli.environment["SECRET"]
    auth.end()
    auth.refreshable.clear()
    assert cli("call", protected.url, "greet")[:2] == (0, "hello\n")
    pages = [dict(parse_qsl(urlsplit(request.path).query)) for request in auth.requests
             if "/authorize?" in request.path]
    assert [(page["client_id"], page["redirect_uri"], page["scope"]) for page in pages] == 2 * [("mine", place, "read")]


def test_4_a_login_in_the_middle_needs_a_user(cli, auth, protected):
    cli("login", protected.url)
    auth.end()
    auth.refreshable.clear()
    cli.browses(None)
    status, out, err = cli("call", protected.url, "greet")
    assert (status, out, logins(auth)) == (4, "", 1)
    assert err.endswith("no user can be asked here: there is neither a browser nor a terminal\n"
                        f"To log in again: python -m mcplite login {protected.url}\n")


def test_4_another_authorization_server_is_not_asked_in_the_middle(cli, auth, protected):
    cli("login", protected.url)
    auth.end()
    protected.issuers = ["https://other.example"]
    status, out, err = cli("call", protected.url, "greet")
    assert (status, out) == (4, "")
    assert "wants a token of https://other.example" in err
    assert err.endswith(f"To log in again: python -m mcplite login {protected.url}\n")


def test_the_terminal_is_asked_where_there_is_no_browser(cli, auth, protected, terminal, monkeypatch):
    cli("login", protected.url)
    protected.needs_for = {"tools/call": ["write"]}
    cli.browses(None)
    for name in ("MCPLITE_CREDENTIALS", "BROWSER"):
        monkeypatch.setenv(name, cli.environment[name])
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    terminal.run("call", protected.url, "greet")
    page = terminal.expect(r"http://\S+/authorize\?\S+").group()
    terminal.answer("Address: $", follow(page))
    assert terminal.status() == 0
    assert terminal.screen.endswith("hello\n")


@posix_only  # on Windows Ctrl-C goes to the browser of this test as well, which has the same console
def test_130_an_interrupt_in_the_middle(cli, auth, protected):
    cli("login", protected.url)
    before = cli.records()
    protected.needs_for = {"tools/call": ["write"]}
    cli.browses("")
    child = cli.start("call", protected.url, "greet")
    cli.page(child)
    ask_to_stop(child)
    status, out, err = cli.end(child)
    assert (status, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted" and "Traceback" not in err
    assert cli.records() == before
    assert [path.name for path in cli.path.parent.rglob("*") if path.is_file()] == ["credentials.json"]


SERVER = """
import os
import mcplite

mcp = mcplite.Server("colors")

@mcp.tool()
def color() -> str:
    return os.environ["COLOR"]
"""


@pytest.fixture
def asking(tmp_path):
    (tmp_path / "colors.py").write_text(SERVER)
    document = {"inputs": [{"id": "color", "description": "Secret color", "password": True},
                           {"id": "way", "type": "pickString", "description": "Way", "options": ["x", "-B"]}],
                "servers": {"colors": {"command": sys.executable,
                                       "args": ["${input:way}", "-m", "mcplite.server", str(tmp_path / "colors.py")],
                                       "env": {"PYTHONPATH": str(Path(mcplite.__file__).resolve().parent.parent),
                                               "COLOR": "${input:color}"}},
                            "other": {"command": "${input:unused}"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    return f"{tmp_path / 'mcp.json'}:colors"


def test_inputs_are_asked_for_and_a_secret_one_is_not_shown(asking, terminal):
    terminal.run("call", asking, "color")
    terminal.answer("1. x\\n +2. -B\\nWay: $", "3")
    terminal.answer("choose one of these\\n(.*\\n)*Way: $", "2")
    terminal.answer("Secret color: $", "ultraviolet")
    assert terminal.status() == 0
    assert terminal.screen.count("ultraviolet") == 1 and terminal.screen.endswith("ultraviolet\n")


def test_2_a_user_who_cancels(asking, terminal):
    terminal.run("call", asking, "color")
    terminal.answer("Way: $", "!cancel")
    assert terminal.status() == 2
    assert "no value for ${input:way} was given" in terminal.screen


def test_2_without_a_terminal(asking, cli):
    status, out, err = cli("call", asking, "color")
    assert (status, out) == (2, "") and "would ask the user" in err


# --- recordings ---------------------------------------------------------------------------------------


def test_5_a_server_that_does_not_answer_is_waited_for_as_long_as_the_option_says(tmp_path, monkeypatch, capsys):
    (tmp_path / "hang.py").write_text("import sys\nsys.stdin.read()\n")
    monkeypatch.setattr("mcplite.cli.printing._SLOW_SECONDS", 0.01)
    monkeypatch.setattr("mcplite.cli.printing.is_terminal", lambda stream: True)
    monkeypatch.setenv("NO_COLOR", "1")
    command = f"{Path(sys.executable).as_posix()} {(tmp_path / 'hang.py').as_posix()}"
    assert main(["ping", command, "--timeout", "0.4"]) == 5
    said = capsys.readouterr().err
    assert f"still waiting for {command} to answer\n" in said
    assert "(0.4 s for opening in all); a first start may take longer (--timeout), and" in said


@pytest.fixture
def greeter(tmp_path):
    path = tmp_path / "greeter.py"
    path.write_text("def greet(name: str) -> str:\n    return 'hello ' + name\n\n\n"
                    "def enter(token: str) -> str:\n    return 'welcome'\n")
    return path


def test_a_recorded_command_works_without_its_server(cli, greeter, tmp_path):
    tape = tmp_path / "greeter.jsonl"
    assert cli("call", greeter, "greet", "name=Ann", "--record", tape) == (0, "hello Ann\n", "")
    greeter.unlink()
    assert cli("call", tape, "greet", "name=Ann") == (0, "hello Ann\n", "")
    status, out, err = cli("call", tape, "greet", "name=Bob")
    assert (status, out) == (3, "") and "arguments.name is 'Ann' on the cassette, and 'Bob' here" in err


def test_a_recording_warns_of_what_looks_like_a_secret(cli, greeter, tmp_path):
    tape = tmp_path / "greeter.jsonl"
    status, out, err = cli("call", greeter, "enter", "token=abc", "--record", tape)
    assert (status, out) == (0, "welcome\n") and "1 messages in" in err and "written as ***" in err
    assert "abc" not in tape.read_text()


def test_a_recording_goes_into_no_other_file(cli, greeter, tmp_path):
    assert cli("call", greeter, "greet", "name=Ann", "--record", greeter)[0] == 2
    assert "def greet" in greeter.read_text()
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}))
    status, _, err = cli("list", config, "--record", tmp_path / "a.jsonl")
    assert status == 2 and f"{config}:NAME" in err
