"""How users are asked, whatever the way: what is opened, a function of the host, and which way fits.

A login in a browser, which comes back to a port of this machine; and what happens when it does not.

A login at a terminal: what people paste there, and what else may become of what they type into.
"""

import builtins
import contextvars
import errno
import io
import os
import re
import select
import shutil
import socket
import sys
import threading
import time
import webbrowser
from urllib.parse import urlsplit

import pytest

from mcplite.auth.login import user_agent
from mcplite.auth.login.user_agent import (
    LONGEST_ANSWER,
    Browser,
    CallbackVisit,
    NoUserAgent,
    Terminal,
    default_user_agent,
    has_browser,
)
from mcplite.errors import AuthError, Cancelled
from tests.support import rawhttp
from tests.support.logins import LIMIT, STATE, Surfer, answer, gives_up_after, login_url, patience

LOGIN = f"https://login.example/authorize?client_id=me&state={STATE}"
HERE = "http://127.0.0.1:8765/callback"

# --- what is opened -------------------------------------------------------------------------------

EVIL = [
    "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ms-settings:", "vbscript:x", "ftp://a.example/", "-flag",
    "--help", "", "//a.example/", "/etc/passwd", "a.example", "HTTPS:a", "https://", 'https://a.example/"&calc',
    "https://a.example/'x", "https://a.example/`id`", "https://a.example/a b", "https://a.example/\nx", "https://a.example/\rx",
    "https://a.example/\tx", "https://a.example/\x00", " https://a.example/", "https://user:password@a.example/",
    "https://a.example\\@b.example/", "https://a.example/<x>", "https://a.example/|x", "https://a.example/^x",
    "https://a.example/{x}", "https://\u00e4.example/", "https://a.example/#x", "https://a.example:x/",
    "https://a.example:99999/", "https://[::1/", "https://$(id)/", "https://a;b/", "https://[fe80::1%25eth0]/",
    "https://%41.example/", "http://a.example/", "http://127.0.0.1.evil.example/", "http://localhost./",
]


@pytest.mark.parametrize("url", EVIL)
def test_only_urls_of_the_web_are_ever_opened(url):
    asked, out = [], io.StringIO()
    for visit in (Browser(asked.append, out=out).begin(None, "weather"), Terminal(io.StringIO(), out).begin(None, "weather"),
                  CallbackVisit(HERE, "weather", asked.append)):
        with visit:
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
    with CallbackVisit(HERE, "weather", asked.append) as visit:
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

    with CallbackVisit(HERE, "weather", ask) as visit:
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
    with CallbackVisit(HERE, "weather", lambda url: returned) as visit:
        with pytest.raises(AuthError,
                           match="has not returned the URL by which the user came back from the login to weather") as raised:
            visit.ask(LOGIN, STATE, patience())
    assert "c0de" not in str(raised.value)


@pytest.mark.parametrize("error", [KeyError("x"), Cancelled("no"), SystemExit(3)])
def test_the_error_of_a_function_is_the_error_of_the_login(error):
    def ask(url):
        raise error

    with CallbackVisit(HERE, "weather", ask) as visit:
        with pytest.raises(type(error)) as raised:
            visit.ask(LOGIN, STATE, patience())
    assert raised.value is error


@pytest.mark.parametrize("times", [0, 1, 3])
def test_waiting_for_a_function_can_be_given_up_at_any_time(monkeypatch, times):
    monkeypatch.setattr(user_agent, "SLICE_SECONDS", 0.001)
    enough, asked = threading.Event(), []

    def ask(url):
        asked.append(url)
        enough.wait(LIMIT)

    try:
        with CallbackVisit(HERE, "weather", ask) as visit:
            with pytest.raises(Cancelled):
                visit.ask(LOGIN, STATE, gives_up_after(times))
    finally:
        enough.set()
    assert bool(asked) == bool(times)


def test_a_function_sees_the_context_of_the_caller():
    who = contextvars.ContextVar("who")
    who.set("me")
    with CallbackVisit(HERE, "weather", lambda url: f"code={who.get()}&state={STATE}") as visit:
        assert visit.ask(LOGIN, STATE, patience()) == f"{HERE}?code=me&state={STATE}"


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
    monkeypatch.setattr("mcplite.auth.login.user_agent.has_browser", lambda environment, platform: browser)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stderr", stderr)
    assert type(default_user_agent()) is kind


def test_without_a_user_the_error_says_what_to_do():
    with pytest.raises(AuthError) as raised:
        NoUserAgent().begin(None, "weather")
    text = str(raised.value)
    assert text.startswith("weather wants a user to log in, but no user can be asked here")
    assert "`python -m mcplite login URL`" in text and "mcplite.auth.ClientCredentials" in text and "OAuth(ask=...)" in text


@pytest.fixture
def short_slices(monkeypatch):
    """Waiting threads call ``wait`` almost without delay."""
    monkeypatch.setattr(user_agent, "SLICE_SECONDS", 0.001)


@pytest.mark.parametrize("background", [True, False])
def test_the_browser_opens_and_comes_back(background):
    surfer, out = Surfer(background=background), io.StringIO()
    with Browser(surfer, out=out).begin(None, "weather") as visit:
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/callback", visit.redirect_uri)
        url = login_url(visit)
        assert visit.ask(url, STATE, patience()) == answer(visit)
        assert surfer.visited == [url]
        visit.succeeded()
        assert "You are logged in" in surfer.page() and "weather" in surfer.page()
    assert "weather" in out.getvalue() and f"visit\n  {url}\n" in out.getvalue()
    assert "c0de" not in out.getvalue()


def test_an_abandoned_login_has_a_page_that_says_so():
    surfer = Surfer()
    with pytest.raises(Cancelled):
        with Browser(surfer, out=io.StringIO()).begin(None, "weather") as visit:
            visit.ask(login_url(visit), STATE, patience())
            raise Cancelled()
    assert "not completed" in surfer.page() and "weather" in surfer.page()
    visit.close()
    visit.succeeded()


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_waiting_for_the_browser_can_be_given_up_at_any_time(short_slices, times):
    opened = []
    with Browser(opened.append, out=io.StringIO()).begin(None, "weather") as visit:
        with pytest.raises(Cancelled, match="given up"):
            visit.ask(login_url(visit), STATE, gives_up_after(times))
    assert rawhttp.refuses(urlsplit(visit.redirect_uri).port)
    assert times == 0 or len(opened) <= 1
    assert times or not opened


def test_a_browser_that_stays_open_does_not_block_the_login(short_slices):
    closed = threading.Event()
    surfer = Surfer()

    def stay(url):
        surfer(url)
        closed.wait(LIMIT)

    try:
        with Browser(stay, out=io.StringIO()).begin(None, "weather") as visit:
            assert visit.ask(login_url(visit), STATE, patience()) == answer(visit)
        with Browser(lambda url: closed.wait(LIMIT), out=io.StringIO()).begin(None, "weather") as visit:
            with pytest.raises(Cancelled):
                visit.ask(login_url(visit), STATE, gives_up_after(3))
        surfer.page()
    finally:
        closed.set()


@pytest.mark.parametrize("outcome, said", [
    (False, "No browser could be opened; visit the address above yourself"),
    (OSError("no \x1b[2J program"), r"No browser could be opened (OSError: no \x1b[2J program); visit the address"),
    (SystemExit(), "No browser could be opened (SystemExit: ); visit the address"),
    (None, None), (True, None),
])
def test_when_no_browser_opens_the_user_is_told(short_slices, outcome, said):
    out, openers, later, goes_on = io.StringIO(), [], [], patience()

    def open(url):
        openers.append(threading.current_thread())
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def wait():
        goes_on()
        if openers and not openers[0].is_alive():
            later.append(None)
        if len(later) == 3:  # it was looked at meanwhile what came of opening
            raise Cancelled()

    with Browser(open, out=out).begin(None, "weather") as visit:
        with pytest.raises(Cancelled):
            visit.ask(login_url(visit), STATE, wait)
    assert out.getvalue().count("No browser could") == (said is not None)
    assert said is None or said in out.getvalue()


def test_without_a_console_nothing_is_shown_anywhere(monkeypatch, capsys):
    surfer = Surfer()
    monkeypatch.setattr(sys, "stderr", None)
    with Browser(surfer).begin(None, "weather") as visit:
        visit.ask(login_url(visit), STATE, patience())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])
def test_a_console_that_fails_does_not_stop_the_browser(error):
    class Out(io.StringIO):
        def write(self, text):
            raise error("no reader")

    with Browser(Surfer(), out=Out()).begin(None, "weather") as visit:
        assert visit.ask(login_url(visit), STATE, patience()) == answer(visit)


def test_a_server_cannot_steer_the_terminal_by_its_name():
    out = io.StringIO()
    with Browser(Surfer(), out=out).begin(None, "\x1b[2Jweather\nPassword: " + "x" * 1000) as visit:
        visit.ask(login_url(visit), STATE, patience())
    assert r"Log in to \x1b[2Jweather Password: xxx" in out.getvalue()
    assert "\x1b" not in out.getvalue() and "x" * 100 not in out.getvalue()


# --- where to come back to ------------------------------------------------------------------------


def test_a_given_port_is_used_or_it_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AuthError, match=f"login to weather needs port {port} of 127.0.0.1 .* not available: ") as caught:
            Browser(port=port).begin(f"http://127.0.0.1:{port}/callback", "weather")
        assert caught.value.__cause__.errno == errno.EADDRINUSE
    with Browser(port=port, host="localhost", path="/back").begin(None, "weather") as visit:
        assert visit.redirect_uri == f"http://localhost:{port}/back"


@pytest.mark.parametrize("options, said", [
    ({"host": "0.0.0.0"}, "not to '0.0.0.0'"), ({"host": ""}, "127.0.0.1, ::1, localhost"), ({"port": -1}, "no port -1"),
    ({"port": 65_536}, "no port 65536"), ({"path": "callback"}, "begins with a slash"), ({"path": "/a?b"}, "no query"),
    ({"path": "/a b"}, "unlike '/a b'"), ({"path": ""}, "slash"),
])
@pytest.mark.parametrize("kind", [Browser, Terminal])
def test_a_place_where_no_browser_can_come_back_to_is_an_error_at_once(kind, options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        kind(**options)


# --- whether there is one --------------------------------------------------------------------------

class Found:
    def __init__(self, name):
        self.name = name


X = {"DISPLAY": ":0"}
SSH = {"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}


@pytest.mark.parametrize("environment, platform, found, whether", [
    (X, "linux", "xdg-open", True),
    (X, "freebsd14", "firefox", True),
    ({"WAYLAND_DISPLAY": "w"}, "linux", "firefox", True),
    ({}, "linux", "xdg-open", False),
    ({"DISPLAY": ""}, "linux", "xdg-open", False),
    (X, "linux", None, False),
    (X, "linux", "w3m", False),
    (X, "linux", "/usr/bin/lynx", False),
    (SSH, "linux", "xdg-open", False),
    ({**SSH, **X}, "linux", "xdg-open", True),
    ({"BROWSER": "/opt/helper.sh"}, "linux", None, True),
    ({**SSH, "BROWSER": "helper --open %s"}, "linux", None, True),
    ({"BROWSER": "lynx"}, "linux", "lynx", False),
    ({**X, "BROWSER": "/usr/bin/w3m %s"}, "linux", "firefox", False),
    ({"BROWSER": f"firefox{os.pathsep}lynx"}, "linux", "firefox", True),
    ({"BROWSER": f"lynx{os.pathsep}firefox"}, "linux", "firefox", False),
    ({"BROWSER": f"gone{os.pathsep}firefox"}, "linux", "firefox", True),
    ({"BROWSER": "gone"}, "linux", "xdg-open", False),
    ({**X, "BROWSER": "gone"}, "linux", "xdg-open", True),
    ({"BROWSER": f" {os.pathsep}"}, "linux", "xdg-open", False),
    ({}, "darwin", "default", True),
    (SSH, "darwin", "default", False),
    ({"SSH_TTY": "/dev/ttys1"}, "darwin", "default", False),
    ({}, "win32", "windowsdefault", True),
    (SSH, "win32", "windowsdefault", False),
])
def test_a_browser_is_one_that_the_user_sees(monkeypatch, environment, platform, found, whether):
    def get():
        if found is None:
            raise webbrowser.Error("could not locate runnable browser")
        return Found(found)

    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setattr(shutil, "which", lambda command: None if command == "gone" else command)
    assert has_browser(environment, platform) is whether


class Screen:
    """A person's side of a terminal, with the program's side as text files."""

    def __init__(self):
        import pty

        self.outside, inside = pty.openpty()
        self.source = builtins.open(os.dup(inside), encoding="utf-8")
        self.out = builtins.open(inside, "w", encoding="utf-8")
        self.shown = ""
        self._seen = 0

    def expect(self, text):
        """Wait until something new is on the screen."""
        until = time.monotonic() + LIMIT
        while text not in self.shown[self._seen:]:
            if select.select([self.outside], [], [], 0.2)[0]:
                self.shown += os.read(self.outside, 65_536).decode().replace("\r\n", "\n")
            assert time.monotonic() < until, f"{text!r} did not come: {self.shown}"
        self._seen = self.shown.index(text, self._seen) + len(text)

    def type(self, text):
        os.write(self.outside, text.encode())

    def hang_up(self):
        if self.outside is not None:
            os.close(self.outside)
            self.outside = None

    def close(self):
        self.source.close()
        try:
            self.out.close()
        finally:
            self.hang_up()


@pytest.fixture
def screen():
    if os.name != "posix":
        pytest.skip("pseudo-terminals are there on POSIX only")
    screen = Screen()
    yield screen
    screen.close()


class Asking:
    """A login on another thread than the person who logs in."""

    def __init__(self, agent, preferred=None, state=STATE, wait=None):
        self.visit = agent.begin(preferred, "weather")
        self._result = None
        self._state, self._wait = state, wait or patience()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with self.visit:
            try:
                self._result = self.visit.ask(login_url(self.visit), self._state, self._wait)
                self.visit.succeeded()
            except Exception as error:
                self._result = error

    @property
    def over(self):
        return not self._thread.is_alive()

    def result(self):
        self._thread.join(LIMIT)
        assert self.over
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


PASTED = {
    "the whole address": "{uri}?code=c0de&state={state}",
    "with blanks around": "  {uri}?code=c0de&state={state} \t",
    "in angle brackets": "<{uri}?code=c0de&state={state}>",
    "in quotes": "'{uri}?code=c0de&state={state}'",
    "with a fragment": "{uri}?code=c0de&state={state}#_=_",
    "its query": "code=c0de&state={state}",
    "its query with the mark": "?code=c0de&state={state}",
    "a host that a tunnel gave": "https://tunnel.example/callback?code=c0de&state={state}",
}


@pytest.mark.parametrize("pasted", PASTED.values(), ids=PASTED)
def test_the_address_can_be_pasted(screen, pasted):
    asking = Asking(Terminal(screen.source, screen.out))
    uri = asking.visit.redirect_uri
    screen.expect(f"To log in to weather, visit\n\n  {login_url(asking.visit)}\n\n")
    screen.expect(uri)
    screen.expect("Address: ")
    screen.type(pasted.format(uri=uri, state=STATE) + "\n")
    assert asking.result() == f"{uri}?code=c0de&state={STATE}"
    assert rawhttp.refuses(urlsplit(uri).port)


WRONG = {
    "another login": ("http://127.0.0.1/callback?code=c0de&state=other", "not the address at which this login ended"),
    "cut off": (f"http://127.0.0.1/callback?code=c0de&state={STATE[:-1]}", "not the address at which this login ended"),
    "only a code": ("c0de", "not the address at which this login ended"),
    "two states": (f"code=c0de&state={STATE}&state={STATE}", "not the address at which this login ended"),
    "blanks inside": (f"code=c0de &state={STATE}", "not the address at which this login ended"),
    "signs inside": (f"code=c0de\u00e9&state={STATE}", "not the address at which this login ended"),
    "the page to log in at": (LOGIN, "That is the page to log in at"),
}


@pytest.mark.parametrize("pasted, said", WRONG.values(), ids=WRONG)
def test_a_wrong_address_is_asked_for_again(screen, pasted, said):
    asking = Asking(Terminal(screen.source, screen.out))
    screen.expect("Address: ")
    screen.type(pasted + "\n")
    screen.expect(said)
    screen.expect("\nAddress: ")
    screen.type("\n \n")
    screen.expect("Address: Address: ")  # nothing is said about empty lines
    screen.type(answer(asking.visit) + "\n")
    assert asking.result() == answer(asking.visit)


def test_after_a_few_wrong_addresses_the_login_is_given_up(screen):
    asking = Asking(Terminal(screen.source, screen.out))
    for _ in range(5):
        screen.expect("Address: ")
        screen.type("s3cret\n")
    with pytest.raises(AuthError, match="login to weather was given up after 5 addresses") as raised:
        asking.result()
    assert "s3cret" not in str(raised.value)


def test_a_browser_can_come_back_while_the_terminal_waits(screen):
    surfer = Surfer()
    asking = Asking(Terminal(screen.source, screen.out))
    screen.expect("Address: ")
    surfer(login_url(asking.visit))
    assert asking.result() == answer(asking.visit)
    assert "You are logged in" in surfer.page()
    screen.expect("\n")  # what comes next does not stand behind the prompt


def test_the_end_of_input_ends_the_login(screen):
    asking = Asking(Terminal(screen.source, screen.out))
    screen.expect("Address: ")
    screen.type("\x04")
    with pytest.raises(AuthError, match="login to weather was given up: nothing more can be typed"):
        asking.result()


@pytest.mark.parametrize("times", [0, 1, 2, 4])
def test_waiting_for_the_terminal_can_be_given_up_at_any_time(short_slices, screen, times):
    asking = Asking(Terminal(screen.source, screen.out), wait=gives_up_after(times))
    with pytest.raises(Cancelled):
        asking.result()
    assert rawhttp.refuses(urlsplit(asking.visit.redirect_uri).port)
    screen.type("for another reader\n")
    assert screen.source.readline() == "for another reader\n"


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    with builtins.open(reader, encoding="utf-8") as source, builtins.open(writer, "wb", buffering=0) as into:
        yield source, into


def test_input_from_a_pipe_may_end_without_a_line_end(pipe):
    source, into = pipe
    asking = Asking(Terminal(source, io.StringIO()))
    into.write(answer(asking.visit).encode())
    into.close()
    assert asking.result() == answer(asking.visit)


def test_an_endless_line_is_not_an_address(pipe):
    source, into = pipe
    out = io.StringIO()
    asking = Asking(Terminal(source, out))
    for number in range(1, 6):
        into.write(b"x" * (LONGEST_ANSWER + 1))  # what is read at once: on Windows a pipe takes less than that ahead
        while out.getvalue().count("Address: ") <= number and not asking.over:
            time.sleep(0.001)
    with pytest.raises(AuthError, match="after 5 addresses"):
        asking.result()


def test_input_that_cannot_be_read_ends_the_login(tmp_path):
    with builtins.open(tmp_path / "out", "w") as source:
        with pytest.raises(AuthError, match="nothing more can be typed"):
            Asking(Terminal(source, io.StringIO())).result()


class Typing(io.TextIOBase):
    """Input that only a thread can wait for."""

    def __init__(self):
        self.lines, self._changed = [], threading.Condition()

    def readline(self, size=-1):
        with self._changed:
            assert self._changed.wait_for(lambda: self.lines, LIMIT)
            return self.lines.pop(0)

    def type(self, *lines):
        with self._changed:
            self.lines += lines
            self._changed.notify_all()


def test_input_that_is_not_a_file_is_read_on_a_thread(short_slices):
    typing, out = Typing(), io.StringIO()
    asking = Asking(Terminal(typing, out))
    typing.type("wrong\n", "\n", f"{answer(asking.visit)}\n")
    assert asking.result() == answer(asking.visit)
    assert out.getvalue().count("Address: ") == 3


def test_waiting_for_input_that_is_not_a_file_can_be_given_up(short_slices):
    typing = Typing()
    asking = Asking(Terminal(typing, io.StringIO()), wait=gives_up_after(3))
    try:
        with pytest.raises(Cancelled):
            asking.result()
    finally:
        typing.type("\n")  # the thread that reads cannot be called off


def test_without_any_input_the_browser_is_waited_for(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    surfer = Surfer()
    asking = Asking(Terminal(out=io.StringIO()))
    surfer(login_url(asking.visit))
    assert asking.result() == answer(asking.visit)


def test_by_default_the_terminal_is_stdin_and_stderr(short_slices, monkeypatch, capsys):
    typing = Typing()
    monkeypatch.setattr(sys, "stdin", typing)
    with Terminal().begin(None, "weather") as visit:
        typing.type(answer(visit) + "\n")
        assert visit.ask(login_url(visit), STATE, patience()) == answer(visit)
    output = capsys.readouterr()
    assert output.out == "" and "To log in to weather" in output.err and "c0de" not in output.err
