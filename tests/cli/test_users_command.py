"""The command users: at a terminal, with a password on stdin, and what it refuses."""

import io
import json
import sys

import pytest

from mcplite.auth.issuer import users as users_module
from mcplite.auth.issuer.users import PasswordFile
from mcplite.cli import command_line
from tests.support.processes import ROOT, free_port, running
from tests.test_docs import blocks

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    monkeypatch.setattr(users_module, "_N", 16)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "users.txt")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command with a text on stdin; return status, stdout and stderr."""
    def run(*words, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = command_line.run(["users", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_a_user_is_added_changed_listed_and_removed(run, path):
    assert run("add", path, "ann", stdin=PASSWORD + "\n") == (0, f"added ann in {path}\n", "")
    assert run("add", path, "bob", "--scope", "read", "--scope", "write", stdin=PASSWORD)[0] == 0
    assert run("list", path) == (0, "ann: all scopes\nbob: read write\n", "")
    assert run("change", path, "ann", stdin="another password\r\nmore\n") == (0, f"changed ann in {path}\n", "")
    assert PasswordFile(path).check("ann", "another password")
    assert run("change", path, "bob", "--scope", "")[0] == 0
    assert PasswordFile(path).check("bob", PASSWORD).scopes == frozenset()
    assert run("remove", path, "ann") == (0, f"removed ann in {path}\n", "")
    assert json.loads(run("list", path, "--json")[1]) == [{"name": "bob", "scopes": []}]
    assert json.loads(run("remove", path, "bob", "--json")[1]) == {"user": "bob", "file": path, "done": "removed"}


@pytest.mark.parametrize("words, stdin, problem", [
    (["add", "{path}", "ann"], PASSWORD, "has a user 'ann'"),
    (["add", "{path}", "bob"], "", "the first line of stdin is empty"),
    (["add", "{path}", "bob"], "short\n", "has 5 characters, which can be guessed; it needs at least 8"),
    (["add", "{path}", "b:b"], PASSWORD, "cannot be a name"),
    (["add", "{path}", "bob", "--scope", "a\"b"], PASSWORD, "is not a scope"),
    (["change", "{path}", "bob"], PASSWORD, "has no user 'bob'"),
    (["remove", "{path}", "bob"], "", "has no user 'bob'"),
    (["remove", "{path}.none", "bob"], "", "No such file"),
    (["list", "{path}.none"], "", "python -m mcplite users add"),
    (["list", "{path}", "more"], "", "one argument too many"),
    (["add", "{path}"], "", "NAME is missing; write: users add FILE NAME"),
    (["ad", "{path}", "bob"], "", "'ad' is unknown; write: users add|change|remove FILE NAME | list FILE"),
    ([], "", "what to do is missing"),
])
def test_what_is_refused_changes_nothing(run, path, words, stdin, problem):
    run("add", path, "ann", stdin=PASSWORD)
    with open(path, "rb") as file:
        before = file.read()
    status, out, err = run(*[word.format(path=path) for word in words], stdin=stdin)
    assert status == 2 and out == "" and problem in err
    with open(path, "rb") as file:
        assert file.read() == before


@pytest.mark.slow
def test_at_a_terminal_the_password_is_asked_for_twice_and_never_shown(terminal, path):
    terminal.run("users", "add", path, "ann", controlling=True)
    terminal.answer("Password of ann: ", PASSWORD)
    terminal.answer("Again: ", PASSWORD)
    assert terminal.status() == 0 and "added ann" in terminal.screen
    assert PASSWORD not in terminal.screen and PasswordFile(path).check("ann", PASSWORD)


@pytest.mark.slow
def test_two_passwords_that_differ_change_nothing(terminal, path):
    terminal.run("users", "add", path, "ann", controlling=True)
    terminal.answer("Password of ann: ", PASSWORD)
    terminal.answer("Again: ", PASSWORD + "x")
    assert terminal.status() == 2 and "differ" in terminal.screen
    with pytest.raises(ValueError):
        PasswordFile(path)


#: The browser of a person who logs in as ann, and agrees.
BROWSER = """
import sys
from urllib.parse import parse_qs, urlsplit
import requests
from tests.support.issuers import Person

person = Person("ann", "correct horse")
person.stop_at = urlsplit(parse_qs(urlsplit(sys.argv[1]).query)["redirect_uri"][0])._replace(query="").geturl()
requests.get(person.visit(sys.argv[1]), timeout=30)
"""


@pytest.mark.slow
def test_the_page_about_protecting_a_server_leads_from_nothing_to_a_call(cli, path, run, tmp_path):
    pytest.importorskip("authlib")
    page, port = (ROOT / "docs" / "issuer.rst").read_text("utf-8"), free_port()
    program = next(code for _, code, _ in blocks(page)).replace("8000", str(port))
    (tmp_path / "notes.py").write_text(program, "utf-8")
    assert run("add", path, "ann", stdin=PASSWORD)[0] == 0
    cli.browses(BROWSER)
    url = f"http://127.0.0.1:{port}/mcp"
    with running([sys.executable, "notes.py"], tmp_path, port):
        status, out, err = cli("login", url)
        assert status == 0 and out.startswith(f"logged in to {url} at http://127.0.0.1:{port}"), err
        assert cli("call", url, "hello") == (0, "hello, ann\n", "")
        assert cli("logout", url)[0] == 0
        assert cli("call", url, "hello")[0] == 4
