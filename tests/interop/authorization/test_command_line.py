"""The command line, from the login with a real browser to the logout, at an authorization server of others."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

import mcplite

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240),
              pytest.mark.skipif(os.name != "posix", reason="the browser is started by a shell script")]
ROOT = Path(__file__).resolve().parent.parent.parent.parent
READER = "ada with mcp:read"


@pytest.fixture
def command(running, user, tmp_path):
    """``command(*words)``: run ``python -m mcplite``; gives its exit status and stdout."""
    browser = tmp_path / "browser"
    visit = " ".join(map(shlex.quote, [*user.command, user.answer]))
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" | {visit} >> {shlex.quote(str(tmp_path / "pages"))}\n', "utf-8")
    browser.chmod(0o700)
    variables = {"PYTHONPATH": str(ROOT), "BROWSER": str(browser),
                 "MCPLITE_CREDENTIALS": str(tmp_path / "kept" / "tokens.json")}

    def run(*words, tells=False):
        process = running([sys.executable, "-m", "mcplite", *words], ours=not tells, **variables)
        status = process.leave()
        return status, process.stdout()

    return run


def pages(folder):
    return [json.loads(line) for line in (folder / "pages").read_text("utf-8").splitlines()]


def test_a_login_serves_all_commands_until_the_logout(authorization_server, protected, command, tmp_path):
    at = authorization_server()
    server = protected(at)
    status, said = command("login", server.url, "--debug")
    assert status == 0 and f"logged in to {server.url} at {at.issuer}, with the scopes mcp:read" in said
    assert command("call", server.url, "whoami", "--debug") == (0, READER + "\n")
    [page] = pages(tmp_path)
    assert page["did"] == ["login", "allow"] and "logged in" in page["title"]

    status, said = command("token", server.url, tells=True)
    assert status == 0
    with mcplite.connect(server.url, auth=said.strip()) as client:
        assert client.call_tool("whoami").text == READER

    assert command("call", server.url, "write", "--debug") == (0, "written\n")
    assert [page["did"] for page in pages(tmp_path)] == [["login", "allow"], ["allow"]]

    status, said = command("logout", server.url, "--debug")
    assert status == 0 and "revoked" in said and len(at.events("revoked")) == 1
    status, said = command("call", server.url, "whoami", "--debug")
    assert status == 4 and len(pages(tmp_path)) == 2
