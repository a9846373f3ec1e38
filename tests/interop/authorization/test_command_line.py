"""The command line, from the login with a real browser to the logout, at an authorization server of others."""

import os
import shlex
import sys
import threading
from pathlib import Path

import pytest

import mcplite

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240),
              pytest.mark.skipif(os.name != "posix", reason="the browser is started by a shell script")]
ROOT = Path(__file__).resolve().parent.parent.parent.parent
READER = "ada with mcp:read"
LIMIT = 60


@pytest.fixture
def command(running, user, tmp_path):
    """``command(*words)``: run ``python -m mcplite``; gives its exit status and stdout."""
    urls, browser = tmp_path / "urls", tmp_path / "browser"
    os.mkfifo(urls)
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {shlex.quote(str(urls))}\n', "utf-8")
    browser.chmod(0o700)

    def visit():
        while True:
            url = urls.read_text("utf-8")  # waits for the next writer
            if not url:
                return
            user.open(url)

    visiting = threading.Thread(target=visit, daemon=True)
    visiting.start()
    variables = {"PYTHONPATH": str(ROOT), "BROWSER": str(browser),
                 "MCPLITE_CREDENTIALS": str(tmp_path / "kept" / "tokens.json")}

    def run(*words, tells=False):
        process = running([sys.executable, "-m", "mcplite", *words], ours=not tells, **variables)
        status = process.leave()
        return status, process.stdout()

    yield run
    urls.write_text("", "utf-8")
    visiting.join(LIMIT)
    assert not visiting.is_alive()


def test_a_login_serves_all_commands_until_the_logout(authorization_server, protected, command, user):
    at = authorization_server()
    server = protected(at)
    status, said = command("login", server.url, "--debug")
    assert status == 0 and f"logged in to {server.url} at {at.issuer}, with the scopes mcp:read" in said
    assert command("call", server.url, "whoami", "--debug") == (0, READER + "\n")
    [page] = user.pages()
    assert page["did"] == ["login", "allow"] and "logged in" in page["title"]

    status, said = command("token", server.url, tells=True)
    assert status == 0
    with mcplite.connect(server.url, auth=said.strip()) as client:
        assert client.call_tool("whoami").text == READER

    assert command("call", server.url, "write", "--debug") == (0, "written\n")
    assert [page["did"] for page in user.pages()] == [["allow"]]

    status, said = command("logout", server.url, "--debug")
    assert status == 0 and "revoked" in said and len(at.events("revoked")) == 1
    status, said = command("call", server.url, "whoami", "--debug")
    assert status == 4 and user.pages() == []
