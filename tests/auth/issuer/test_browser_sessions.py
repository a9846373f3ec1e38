"""Browser sessions: the cookie, a login and its end, what is bound to a browser, the tokens of forms."""

import re

import pytest

from mcplite.auth.issuer.browser_sessions import BrowserSessions
from mcplite.auth.issuer.users import User
from mcplite.backend.memory import MemoryBackend
from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from tests.support.fakes import Clock

ANN = User("ann", "Ann", "ann@example.com", ("staff",), frozenset({"read"}), {"team": 1})
HTTPS, LOOPBACK = "https://notes.example", "http://127.0.0.1:8000"


class Browser:
    """Keeps the cookie that it is given, and sends it."""

    def __init__(self, sessions):
        self.sessions = sessions
        self.jar = {}

    def open(self, form=""):
        lines = [("Cookie", "; ".join(f"{name}={value}" for name, value in self.jar.items()))] if self.jar else []
        return self.sessions.open(HTTPRequest("GET", "/login", Headers(lines)), form)

    def take(self, session):
        for name, value in session.headers():
            assert name == "Set-Cookie"
            key, _, rest = value.partition("=")
            self.jar[key] = rest.partition(";")[0]
        return session

    def visit(self, form=""):
        return self.take(self.open(form))

    def log_in(self, user=ANN):
        session = self.visit()
        session.log_in(user)
        return self.take(session)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def backend(clock):
    return MemoryBackend(clock)


@pytest.fixture(params=[HTTPS, LOOPBACK])
def sessions(request, backend, clock):
    return BrowserSessions(backend, request.param, clock=clock)


@pytest.fixture
def browser(sessions):
    return Browser(sessions)


def test_the_cookie_over_https_is_of_this_host_alone(backend):
    browser = Browser(BrowserSessions(backend, HTTPS))
    (name, value), = browser.open().headers()
    assert re.fullmatch(r"__Host-mcplite-login-[0-9a-f]{8}=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Lax; Secure", value)


def test_the_cookie_on_loopback_over_http_is_not_secure(backend):
    browser = Browser(BrowserSessions(backend, LOOPBACK))
    (name, value), = browser.open().headers()
    assert re.fullmatch(r"mcplite-login-[0-9a-f]{8}=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Lax", value)


def test_issuers_on_one_host_have_cookies_of_different_names(backend):
    issuers = [HTTPS, HTTPS + "/a", HTTPS + "/b", "http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert len({BrowserSessions(backend, issuer).cookie for issuer in issuers}) == len(issuers)


def test_a_session_is_found_by_its_cookie(browser):
    first = browser.visit()
    again = browser.open()
    assert again.browser == first.browser and again.csrf == first.csrf and again.headers() == []


def test_two_browsers_have_two_sessions(sessions):
    first, second = Browser(sessions).visit(), Browser(sessions).visit()
    assert first.browser != second.browser and first.csrf != second.csrf


def test_visits_without_a_login_store_nothing(backend, sessions):
    for _ in range(10):
        Browser(sessions).visit()
    assert backend._values == {}


def test_a_login_lasts_until_its_time_is_over(browser, clock):
    assert browser.visit().user is None and browser.visit().since == 0
    browser.log_in()
    found = browser.open()
    assert found.user == ANN and found.user.claims == {"team": 1} and found.since == clock.now
    clock.now += 8 * 3600 - 1
    assert browser.open().user == ANN
    clock.now += 2
    assert browser.open().user is None


def test_a_login_holds_in_every_worker(backend, browser, sessions):
    browser.log_in()
    issuer = HTTPS if sessions.cookie.startswith("__Host-") else LOOPBACK
    browser.sessions = BrowserSessions(backend, issuer, clock=sessions._clock)
    assert browser.open().user == ANN


def test_a_logout_ends_the_login_for_its_cookie_too(browser):
    browser.log_in()
    old = dict(browser.jar)
    session = browser.open()
    session.log_out()
    browser.take(session)
    assert browser.jar != old and browser.open().user is None
    browser.jar = old
    assert browser.open().user is None


def test_what_is_stored_and_shown_has_no_id(backend, browser):
    session = browser.log_in()
    (id,) = browser.jar.values()
    stored = repr(backend._values)
    assert id not in stored and id not in repr(session) and session.browser in stored
    assert repr(session) == "<BrowserSession of ann>"


# --- what is bound to a browser ---------------------------------------------------------------------------------

def test_what_began_before_the_login_goes_on_after_it(browser, sessions):
    before = browser.visit().browser
    browser.log_in()
    assert browser.open().owns(before) and browser.open().owns(browser.open().browser)
    assert not Browser(sessions).visit().owns(before)


def test_what_began_before_a_logout_or_for_another_user_has_ended(browser):
    before = browser.visit().browser
    browser.log_in()
    browser.log_in(User("bob"))
    assert not browser.open().owns(before)
    session = browser.open()
    session.log_out()
    assert not session.owns(before) and not browser.take(session).owns("")


@pytest.mark.parametrize("browser_digest", ["", "x", "0" * 64, "\u00e9"])
def test_a_browser_owns_nothing_else(browser, browser_digest):
    assert not browser.log_in().owns(browser_digest)


# --- tokens of forms ----------------------------------------------------------------------------------------------

def test_a_form_of_this_session_is_accepted(browser):
    token = browser.visit("one").csrf
    assert browser.open("one").check({"csrf": token})


@pytest.mark.parametrize("form", [{}, {"csrf": ""}, {"csrf": "x" * 43}, {"csrf": "\ud800"}, {"CSRF": "x"}])
def test_a_form_without_its_token_is_refused(browser, form):
    browser.visit()
    assert not browser.open().check(form)


def test_a_form_of_another_transaction_session_or_time_is_refused(browser, sessions):
    token = browser.visit("one").csrf
    assert not browser.open("two").check({"csrf": token})
    assert not browser.open("").check({"csrf": token})
    other = Browser(sessions)
    other.visit()
    assert not other.open("one").check({"csrf": token})
    browser.log_in()
    assert not browser.open("one").check({"csrf": token})


# --- cookies that are given ---------------------------------------------------------------------------------------

def test_a_second_login_has_an_id_of_its_own(browser):
    browser.log_in()
    old = dict(browser.jar)
    browser.log_in()
    assert browser.jar != old
    browser.jar = old
    assert browser.open().user is None


@pytest.mark.parametrize("value", [
    "", "x", "A" * 42, "A" * 44, "A" * 42 + ".", "A" * 42 + "\u00e9", "../" * 14 + "A", "A" * 100_000])
def test_a_malformed_cookie_is_replaced(sessions, value):
    browser = Browser(sessions)
    browser.jar = {sessions.cookie: value}
    session = browser.open()
    assert session.user is None and len(session.headers()) == 1


def test_cookies_of_one_name_in_two_headers_are_no_session(browser, sessions):
    browser.log_in()
    (id,) = browser.jar.values()
    two = Headers([("Cookie", f"{sessions.cookie}={id}"), ("Cookie", f"{sessions.cookie}={'A' * 43}")])
    session = sessions.open(HTTPRequest("GET", "/", two))
    assert session.user is None and session.headers()


@pytest.mark.parametrize("header", ["{0}={1}; theme=dark", "theme=dark;{0}={1}", "a; b=; {0}={1} ", "other-{0}=x; {0}={1}"])
def test_other_cookies_do_not_matter(browser, sessions, header):
    browser.log_in()
    (id,) = browser.jar.values()
    assert sessions.open(HTTPRequest("GET", "/", Headers([("Cookie", header.format(sessions.cookie, id))]))).user == ANN


def test_the_cookie_without_its_prefix_does_not_count_over_https(backend):
    # A page over HTTP, or on another host of the domain, can set this one, and none whose name begins with __Host-.
    browser = Browser(BrowserSessions(backend, HTTPS))
    browser.log_in()
    (name, id), = browser.jar.items()
    browser.jar = {name[len("__Host-"):]: id}
    assert browser.open().user is None
