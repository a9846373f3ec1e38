"""How users are asked, whatever the way: what is opened, a function of the host, and which way fits."""

import contextvars
import io
import sys
import threading

import pytest

from mcplite.auth.login import user_agent as agent_module
from mcplite.auth.login.browser import Browser
from mcplite.auth.login.default import default_user_agent
from mcplite.auth.login.terminal import Terminal
from mcplite.auth.login.user_agent import Callback, NoUserAgent, UserAgent, Visit
from mcplite.errors import AuthError, Cancelled
from tests.support.logins import LIMIT, STATE, gives_up_after, patience

LOGIN = f"https://login.example/authorize?client_id=me&state={STATE}"
HERE = "http://127.0.0.1:8765/callback"


# --- what is opened -------------------------------------------------------------------------------

EVIL = [
    "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ms-settings:", "vbscript:x", "ftp://a.example/",
    "-flag", "--help", "", "//a.example/", "/etc/passwd", "a.example", "HTTPS:a", "https://",
    'https://a.example/"&calc', "https://a.example/'x", "https://a.example/`id`", "https://a.example/a b",
    "https://a.example/\nx", "https://a.example/\rx", "https://a.example/\tx", "https://a.example/\x00",
    " https://a.example/", "https://user:password@a.example/", "https://a.example\\@b.example/",
    "https://a.example/<x>", "https://a.example/|x", "https://a.example/^x", "https://a.example/{x}",
    "https://\u00e4.example/", "https://a.example/#x", "https://a.example:x/",
    "https://a.example:99999/", "https://[::1/", "https://$(id)/", "https://a;b/", "https://[fe80::1%25eth0]/",
    "https://%41.example/", "http://a.example/", "http://127.0.0.1.evil.example/", "http://localhost./",
]


@pytest.mark.parametrize("url", EVIL)
def test_only_urls_of_the_web_are_ever_opened(url):
    asked, out = [], io.StringIO()
    for agent in (Browser(asked.append, out=out), Terminal(io.StringIO(), out), Callback(asked.append, HERE)):
        with agent.begin(None, "weather") as visit:
            with pytest.raises(AuthError, match="the page to log in at"):
                visit.ask(url, STATE, patience())
    assert asked == [] and out.getvalue() == ""


@pytest.mark.parametrize("given, opened", [
    (LOGIN, LOGIN),
    ("HTTPS://Login.Example:443/A?b=C", "https://login.example/A?b=C"),
    ("https://a.example", "https://a.example"),
    *[(same, same) for same in ["https://a.example:8443/a;b=c,d/~e/%2F?f=%20g+h&i=j:k@l/m?n%23"]],
    ("https://a.example/$(id)!*?a=$(id)!*[0]", "https://a.example/%24%28id%29%21%2A?a=%24%28id%29%21%2A%5B0%5D"),
    ("http://localhost:8000/a", "http://localhost:8000/a"),
    ("http://[::1]:8000/a", "http://[::1]:8000/a"),
])
def test_the_url_is_rebuilt_before_it_is_opened(given, opened):
    asked = []
    with Callback(asked.append, HERE).begin(None, "weather") as visit:
        with pytest.raises(AuthError, match="given up"):
            visit.ask(given, STATE, patience())
    assert asked == [opened]


# --- a function of the host -----------------------------------------------------------------------

@pytest.mark.parametrize("returned", [f"{HERE}?code=c0de&state={STATE}", f"code=c0de&state={STATE}"])
def test_a_function_is_given_the_url_and_returns_the_answer(returned):
    asked = []

    def ask(url):
        asked.append(url)
        return returned

    with Callback(ask, HERE).begin("http://127.0.0.1:1/other", "weather") as visit:
        assert visit.redirect_uri == HERE
        assert visit.ask(LOGIN, STATE, patience()) == f"{HERE}?code=c0de&state={STATE}"
        visit.succeeded()
        visit.failed("no")
    visit.close()
    assert asked == [LOGIN]


@pytest.mark.parametrize("returned", [
    f"{HERE}?code=c0de&state=other", HERE, "", 7, b"code=c0de", f"state={STATE}\n&code=c0de",
])
def test_a_function_has_to_return_the_answer_to_this_login(returned):
    with Callback(lambda url: returned, HERE).begin(None, "weather") as visit:
        with pytest.raises(AuthError,
                           match="has not returned the URL by which the user came back from the login to weather") as raised:
            visit.ask(LOGIN, STATE, patience())
    assert "c0de" not in str(raised.value)


def test_a_function_that_returns_nothing_gives_the_login_up():
    with Callback(lambda url: None, HERE).begin(None, "weather") as visit:
        with pytest.raises(AuthError, match="^the login to weather was given up$"):
            visit.ask(LOGIN, STATE, patience())


@pytest.mark.parametrize("error", [KeyError("x"), Cancelled("no"), SystemExit(3)])
def test_the_error_of_a_function_is_the_error_of_the_login(error):
    def ask(url):
        raise error

    with Callback(ask, HERE).begin(None, "weather") as visit:
        with pytest.raises(type(error)) as raised:
            visit.ask(LOGIN, STATE, patience())
    assert raised.value is error


@pytest.mark.parametrize("times", [0, 1, 3])
def test_waiting_for_a_function_can_be_given_up_at_any_time(monkeypatch, times):
    monkeypatch.setattr(agent_module, "SLICE_SECONDS", 0.001)
    enough, asked = threading.Event(), []

    def ask(url):
        asked.append(url)
        enough.wait(LIMIT)

    try:
        with Callback(ask, HERE).begin(None, "weather") as visit:
            with pytest.raises(Cancelled):
                visit.ask(LOGIN, STATE, gives_up_after(times))
    finally:
        enough.set()
    assert bool(asked) == bool(times)


def test_wait_is_called_as_often_as_documented():
    assert agent_module.SLICE_SECONDS <= 0.25 and "at least every 0.25 seconds" in Visit.ask.__doc__


def test_a_function_sees_the_context_of_the_caller():
    who = contextvars.ContextVar("who")
    who.set("me")
    with Callback(lambda url: f"code={who.get()}&state={STATE}", HERE).begin(None, "weather") as visit:
        assert visit.ask(LOGIN, STATE, patience()) == f"{HERE}?code=me&state={STATE}"


def test_a_query_in_the_redirect_uri_comes_back_once():
    with Callback(lambda url: f"https://app.example/back?a=b&code=c&state={STATE}", "https://app.example/back?a=b") \
            .begin(None, "weather") as visit:
        assert visit.ask(LOGIN, STATE, patience()) == f"https://app.example/back?a=b&code=c&state={STATE}"


@pytest.mark.parametrize("uri", ["http://app.example/back", "app:/back", "", "https://app.example/back#x"])
def test_users_come_back_over_https_or_to_this_machine(uri):
    with pytest.raises(ValueError, match="redirect URI"):
        Callback(lambda url: None, uri)


# --- which of them --------------------------------------------------------------------------------

class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("browser, stdin, stderr, kind", [
    (True, Stream(True), Stream(True), Browser), (True, None, None, Browser),
    (False, Stream(True), Stream(True), Terminal), (False, Stream(False), Stream(True), NoUserAgent),
    (False, Stream(True), Stream(False), NoUserAgent), (False, None, Stream(True), NoUserAgent),
    (False, Stream(True), None, NoUserAgent), (False, closed(), Stream(True), NoUserAgent),
])
def test_the_default_user_agent_fits_the_machine(monkeypatch, browser, stdin, stderr, kind):
    monkeypatch.setattr("mcplite.auth.login.default.has_browser", lambda environment, platform: browser)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stderr", stderr)
    assert type(default_user_agent()) is kind


def test_without_a_user_the_error_says_what_to_do():
    with pytest.raises(AuthError) as raised:
        NoUserAgent().begin(None, "weather")
    text = str(raised.value)
    assert text.startswith("weather wants a user to log in, but no user can be asked here")
    assert "`python -m mcplite login URL`" in text and "mcplite.auth.ClientCredentials" in text and "OAuth(ask=...)" in text


def test_a_user_agent_of_ones_own_is_a_subclass():
    class Pigeon(UserAgent):
        def begin(self, preferred, server):
            return Visit("https://loft.example/")

    with Pigeon().begin(None, "weather") as visit:
        visit.succeeded()
        visit.failed("no")
        with pytest.raises(NotImplementedError):
            visit.ask(LOGIN, STATE, patience())
    with pytest.raises(NotImplementedError):
        UserAgent().begin(None, "weather")
