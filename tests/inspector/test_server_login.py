"""The login of a server from the page, step by step, and the walk through it."""

import pytest
import requests

from mcplite import Server
from mcplite.cli.inspect_command import targets_of
from mcplite.cli.login import Stored
from mcplite.cli.parser import parse
from tests.support.authserver import AuthServer, Protected, follow, refuse
from tests.support.issuers import Clock, Person, serving


@pytest.fixture(autouse=True)
def credentials(tmp_path, monkeypatch):
    """A place for logins."""
    monkeypatch.setenv("MCPLITE_CREDENTIALS", str(tmp_path / "credentials.json"))
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def protected():
    """A server that takes tokens only."""
    with AuthServer() as auth, Protected(auth) as server:
        yield server


def target(url, *words):
    options = parse(["inspect", url, *words], "mcplite", "1")
    return targets_of(list(options.words), options)[0]._replace(name="it")


def asked(page, but=None):
    """Begin a login, and return the URL where the user is asked for it."""
    page.post("login", server="it")
    return page.wait_for(lambda name, values: name == "walk" and values["url"] not in (None, but))["url"]


def titles(walk):
    return list(dict.fromkeys(step["title"].partition(" http")[0] for step in walk["steps"]))


def test_a_login_in_a_tab_of_the_browser_opens_the_server(inspect, protected):
    page = inspect(it=target(protected.url))
    page.post("open", server="it")
    assert "401" in page.wait("server", state="failed")["error"]
    url = asked(page)
    page.post("login", server="it")  # it is asked for once
    answer = requests.get(follow(url), timeout=30)
    assert answer.status_code == 200 and "logged in" in answer.text
    walk = page.wait("walk", state="done")
    assert walk["error"] is None and walk["login"] and {one["url"] for one in page.of("walk")} == {None, url}
    assert titles(walk) == ["connection", "server", "challenge", "metadata of the server", "authorization server", "login",
                            "server with the token", "refresh"]
    assert "got another access token" in walk["steps"][-1]["text"] and walk["steps"][-1]["state"] == "good"
    page.wait("server", name="it", state="open")
    assert not [token for token in protected.auth.secrets if token in str(page.events)]


def test_a_login_that_is_refused_says_why_and_can_be_tried_again(inspect, protected):
    page = inspect(it=target(protected.url))
    url = asked(page)
    protected.auth.denies = True
    requests.get(follow(url), timeout=30)
    failed = page.wait("walk", state="failed")
    assert "access_denied" in failed["error"], failed
    assert [step["state"] for step in failed["steps"] if step["title"] == "login"] == ["fault"]
    assert asked(page, but=url) != url


def test_a_refresh_that_fails_leaves_the_login_as_it_is(inspect, protected):
    protected.auth.on_token = lambda fields, answer: (
        refuse(answer, 400, "invalid_grant") if fields["grant_type"] == "refresh_token" else NotImplemented)
    page = inspect(it=target(protected.url))
    requests.get(follow(asked(page)), timeout=30)
    last = page.wait("walk", state="done")["steps"][-1]
    assert last["title"] == "refresh" and last["state"] != "good" and "refused the refresh token" in last["text"], last
    page.wait("server", name="it", state="open")


def test_a_server_that_needs_no_login_is_opened(inspect):
    import mcplite

    with mcplite.serve(Server("free")) as served:
        page = inspect(it=target(served.url))
        page.post("login", server="it")
        assert any("needs no token" in step["text"] for step in page.wait("walk", state="done")["steps"])
        page.wait("server", name="it", state="open")


def test_a_login_that_cannot_begin_says_why(inspect, protected):
    protected.issuers = []
    page = inspect(it=target(protected.url))
    page.post("login", server="it")
    failed = page.wait("walk", state="failed")
    assert failed["error"] and any(step["state"] == "fault" and step["advice"] for step in failed["steps"])


def test_the_steps_are_those_of_the_doctor(inspect, protected):
    page = inspect(it=target(protected.url), here=Server("x"))
    page.post("doctor", server="it")
    walk = page.wait("walk", server="it", state="done")
    assert titles(walk)[:3] == ["connection", "server", "challenge"] and not walk["login"] and walk["url"] is None
    assert {step["state"] for step in walk["steps"]} <= {"good", "note", "fault"}
    assert any(step["state"] != "good" and step["advice"] for step in walk["steps"])
    page.post("doctor", server="here")
    assert [step["state"] for step in page.wait("walk", server="here")["steps"]] == ["note"]
    assert "needs no login" in page.post("login", 400, server="here")["error"]


def test_a_walk_is_stopped_and_another_begun(inspect, protected):
    page = inspect(it=target(protected.url))
    url = asked(page)
    assert "being looked at" in page.post("doctor", 409, server="it")["error"]
    page.post("stop", server="it")
    assert "stopped" in page.wait("walk", state="failed")["error"]
    assert asked(page, but=url) != url


def test_an_inspector_that_ends_gives_a_login_up(inspect, protected):
    page = inspect(it=target(protected.url))
    page.post("login", server="it")
    page.inspector.close()  # the fixtures see that nothing is left


def test_a_token_of_our_issuer_is_refreshed_while_the_page_is_used(inspect):
    pytest.importorskip("authlib")
    clock, person = Clock(), Person()
    with serving(clock=clock) as issuer:
        page = inspect(it=target(issuer.endpoint))
        person(asked(page)).join(60)
        page.wait("walk", state="done")
        page.wait("server", name="it", state="open")
        hello = {"name": "hello", "arguments": {}}
        assert page.call("tools/call", hello)["result"]["content"][0]["text"].startswith("ann ")
        forms, tokens = person.forms, {Stored(issuer.endpoint).credentials.access_token}
        for _ in range(2):
            clock.ahead += 2 * 3600  # the access token has expired
            assert page.call("tools/call", hello)["result"]["content"][0]["text"].startswith("ann ")
            tokens.add(Stored(issuer.endpoint).credentials.access_token)
        assert len(tokens) == 3 and person.forms == forms
        # Without a refresh token the page says what to do.
        clock.ahead += 2 * 3600
        person.submit(person.get(f"{issuer.url}/grants"), decision="end")
        forms = person.forms
        ended = page.call("tools/call", hello)
        assert ended["state"] == "failed" and "log in" in ended["error"]["message"].lower(), ended["error"]
        assert person.forms == forms
