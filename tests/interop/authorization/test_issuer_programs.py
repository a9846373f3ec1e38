"""Users of other people's programs log in at a server that issues its own tokens: mcp-remote, mcporter, the Inspector."""

import contextlib
import json
import os
import re
import threading

import pytest

import mcplite
from tests.support.chromium import CHROMIUM, Chromium
from tests.support.issuers import Clock, Person, serving
from tests.support.processes import LIMIT, free_port, wait_until

pytest.importorskip("authlib")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(240),
              pytest.mark.skipif(os.name != "posix", reason="the browser is a shell script")]


@pytest.fixture
def served():
    clock = Clock()
    with serving(clock=clock) as issuer:
        issuer.clock = clock
        yield issuer


@pytest.fixture
def environment(tmp_path):
    """Variables of a user with a home folder, and with a browser that only notes the URL that it shall open."""
    browser = tmp_path / "bin" / "xdg-open"
    browser.parent.mkdir()
    browser.write_text('#!/bin/sh\nprintf %s "$1" > "$0.new" && mv "$0.new" "$0.url"\n', "utf-8")
    browser.chmod(0o700)
    return {"HOME": str(tmp_path), "PATH": f"{browser.parent}{os.pathsep}{os.environ['PATH']}", "BROWSER": str(browser),
            "NO_PROXY": "127.0.0.1,localhost"}


# --- mcp-remote, behind which any client of stdio is one over HTTP -----------------------------------------------------


@pytest.fixture
def remote(installed, environment):
    """``remote(url, person, *options)``: the options of a connection through mcp-remote, and what it writes."""

    def through(url, person, *options):
        said = []

        def read(line):
            said.append(line)
            found = re.search(r"http://127\.0\.0\.1:\d+/authorize\?\S+", line)
            if found:
                person(found[0])

        command = installed.program("logins", "mcp-remote/dist/proxy.js", url, str(free_port()), *options)
        return mcplite.connect(command, stderr=read, env=environment, open_timeout=LIMIT, timeout=LIMIT), said

    return through


def test_mcp_remote_logs_its_user_in_and_refreshes_the_token(served, remote):
    person = Person()
    client, _ = remote(served.endpoint, person)
    with client:
        assert client.call_tool("hello").text == "ann ann@example.com notes"
        assert person.forms == 2
        served.clock.ahead = 3601
        assert client.call_tool("hello").text == "ann ann@example.com notes"
        assert person.forms == 2


def test_mcp_remote_asks_for_the_scopes_that_it_is_told(example, remote):
    client, _ = remote(example, Person("demo"), "--static-oauth-client-metadata", '{"scope": "notes secret"}')
    with client:
        assert client.call_tool("secret").text == "The secret of demo is 42."


def test_mcp_remote_tells_that_its_user_has_declined(served, remote):
    client, said = remote(served.endpoint, Person(decision="deny"))
    opening = threading.Thread(target=lambda: pytest.raises(mcplite.MCPError, client.open))
    opening.start()
    assert wait_until(lambda: any("access_denied" in line for line in said)), said  # and it waits for another answer
    client.close()
    opening.join(LIMIT)


# --- mcporter, a command line ------------------------------------------------------------------------------------------


@pytest.fixture
def porter(installed, running, environment, tmp_path, monkeypatch):
    """``porter(url, **settings)``: returns ``run(*words, person=None)``, which gives status and output of mcporter."""
    monkeypatch.chdir(tmp_path)

    def configure(url, **settings):
        config = tmp_path / "mcporter.json"
        redirect = f"http://127.0.0.1:{free_port()}/callback"  # with another one at each start it registers again
        config.write_text(json.dumps({"mcpServers": {
            "notes": {"baseUrl": url, "auth": "oauth", "oauthRedirectUrl": redirect, **settings}}}), "utf-8")

        def run(*words, person=None):
            command = installed.program("logins", "mcporter/dist/cli.js", "--config", str(config), *words)
            process = running(command, ours=False, **environment)
            if person is not None:
                opened = tmp_path / "bin" / "xdg-open.url"
                assert wait_until(opened.exists), process.told()
                person(opened.read_text("utf-8"))
                opened.unlink()
            return process.leave(), process.told()

        return run

    return configure


def test_mcporter_logs_its_user_in_and_refreshes_the_token(served, porter):
    run, person = porter(served.endpoint), Person()
    assert run("auth", "notes", person=person)[0] == 0
    for _ in range(2):
        assert run("call", "notes.hello") == (0, "ann ann@example.com notes\n")
        assert person.forms == 2
        served.clock.ahead = 3601
    status, said = run("call", "notes.secret")
    assert status == 1 and "Authorization required for notes" in said
    assert run("call", "notes.hello") == (0, "ann ann@example.com notes\n")


def test_mcporter_tells_that_its_user_has_declined(example, porter):
    status, said = porter(example)("auth", "notes", person=Person("demo", decision="deny"))
    assert status == 1 and "access_denied" in said


# --- the Inspector's page ----------------------------------------------------------------------------------------------


@pytest.fixture
def inspector(installed, serving, tmp_path):
    """``inspector(url)``: a tab of Chromium with the Inspector, which knows the server at that URL."""
    with contextlib.ExitStack() as stack:
        def start(url):
            command = [*installed.inspector(), "--web", "--transport", "http", "--server-url", url]
            if CHROMIUM is None:
                pytest.skip("no Chromium; tests/interop/install.sh installs it")
            page = stack.enter_context(serving(command, HOME=str(tmp_path), CLIENT_PORT=str(free_port()), MCP_SANDBOX_PORT="0",
                                               MCP_AUTO_OPEN_ENABLED="false"))
            tab = stack.enter_context(Chromium(tmp_path / "profile")).tab(width=1400, height=1000)
            tab.visit(page.url)
            return tab

        yield start


def press(tab, name):
    """Press the button, or what is used as one, with a name."""
    found = (f"[...document.querySelectorAll('button, label, input[role=switch]')].find(one => (one.ariaLabel || one.innerText)"
             f".trim().startsWith({name!r}))")
    tab.wait(lambda: tab.evaluate(f"!!{found} && !{found}.disabled && ({found}.click(), true)"), name)


def test_the_inspector_logs_its_user_in_and_asks_again_for_another_scope(example, inspector):
    tab = inspector(example)
    press(tab, "Connect or disconnect")
    tab.expect("MCP Inspector wants to use issuer")
    tab.type("input[name=username]", "demo")
    tab.type("input[name=password]", "demo")
    tab.click("button")
    tab.expect("Allow access to issuer?")
    tab.click("button[value=allow]")
    tab.expect("Authentication succeeded")
    press(tab, "Tools")
    press(tab, "hello")
    press(tab, "Execute Tool")
    tab.expect("Hello Demo User!")
    press(tab, "secret")
    press(tab, "Execute Tool")
    tab.expect("Additional permissions required")
    press(tab, "Authorize")
    tab.expect("Read your secret notes")
    tab.click("button[value=allow]")
    press(tab, "Tools")
    press(tab, "secret")
    press(tab, "Execute Tool")
    tab.expect("The secret of demo is 42.")
