"""A login in a browser, which comes back to a port of this machine; and what happens when it does not."""

import errno
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import mcplite
from mcplite.auth.login import browser
from mcplite.auth.login.browser import Browser, has_browser
from mcplite.auth.login.terminal import Terminal
from mcplite.errors import AuthError, Cancelled
from tests.support import rawhttp
from tests.support.logins import LIMIT, STATE, Surfer, answer, gives_up_after, login_url, patience

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)


@pytest.fixture
def short_slices(monkeypatch):
    """Waiting threads call ``wait`` almost without delay."""
    monkeypatch.setattr(browser, "SLICE_SECONDS", 0.001)


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


def test_the_page_is_sent_when_the_outcome_is_known():
    surfer = Surfer()
    with Browser(surfer, out=io.StringIO()).begin(None, "weather") as visit:
        visit.ask(login_url(visit), STATE, patience())
        assert surfer.reply is None
        visit.failed("<script>alert(1)</script>" + "x" * 1000)
        visit.succeeded()
        assert "&lt;script&gt;alert(1)&lt;/script&gt;xxx" in surfer.page() and "<script" not in surfer.page()
        assert "x" * 200 not in surfer.page() and "logged in" not in surfer.page()


def test_an_abandoned_login_has_a_page_that_says_so():
    surfer = Surfer()
    with pytest.raises(Cancelled):
        with Browser(surfer, out=io.StringIO()).begin(None, "weather") as visit:
            visit.ask(login_url(visit), STATE, patience())
            raise Cancelled()
    assert "not completed" in surfer.page() and "weather" in surfer.page()
    visit.close()
    visit.succeeded()


def test_the_answer_to_another_login_is_refused():
    surfer = Surfer("another")
    with Browser(surfer, out=io.StringIO()).begin(None, "weather") as visit:
        asked = []

        def wait():
            asked.append(None)
            if surfer.reply is not None:
                raise Cancelled()

        with pytest.raises(Cancelled):
            visit.ask(login_url(visit), STATE, wait)
        assert surfer.reply.status == 400
        assert asked


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


def test_the_url_is_shown_on_stderr(capsys):
    with Browser(Surfer()).begin(None, "weather") as visit:
        url = login_url(visit)
        visit.ask(url, STATE, patience())
    output = capsys.readouterr()
    assert output.out == "" and url in output.err


def test_a_server_cannot_steer_the_terminal_by_its_name():
    out = io.StringIO()
    with Browser(Surfer(), out=out).begin(None, "\x1b[2Jweather\nPassword: " + "x" * 1000) as visit:
        visit.ask(login_url(visit), STATE, patience())
    assert r"Log in to \x1b[2Jweather Password: xxx" in out.getvalue()
    assert "\x1b" not in out.getvalue() and "x" * 100 not in out.getvalue()


def test_by_default_it_is_the_browser_of_the_system(monkeypatch):
    surfer = Surfer()
    monkeypatch.setattr(webbrowser, "open", surfer)
    with Browser(out=io.StringIO()).begin(None, "weather") as visit:
        visit.ask(login_url(visit), STATE, patience())
    assert len(surfer.visited) == 1


BROWSING = """
import sys
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

url = sys.argv[1]
back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
with urlopen(back + "?code=c0de&state=St4te-of_this~login") as reply, open(__file__ + ".page", "wb") as page:
    page.write(reply.read())
"""
ASKING = """
import sys
from mcplite.auth.login.browser import Browser
from mcplite.auth.login.default import default_user_agent

agent = default_user_agent()
assert type(agent) is Browser
with agent.begin(None, "weather") as visit:
    url = "https://login.example/authorize?redirect_uri=" + visit.redirect_uri
    answer = visit.ask(url, "St4te-of_this~login", lambda: None)
    print(answer == visit.redirect_uri + "?code=c0de&state=St4te-of_this~login")
    visit.succeeded()
"""


def test_a_browser_as_a_process_of_its_own(tmp_path):
    program = tmp_path / "browser.py"
    program.write_text(BROWSING)
    environment = {**os.environ, "PYTHONPATH": ROOT, "no_proxy": "*",
                   # webbrowser reads it as a shell of POSIX would, also on Windows: a backslash would be an escape.
                   "BROWSER": f"{Path(sys.executable).as_posix()} {program.as_posix()} %s"}
    ran = subprocess.run([sys.executable, "-c", ASKING], env=environment, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=60)
    assert (ran.stdout.strip(), ran.returncode) == (b"True", 0), ran.stderr
    page, until = Path(f"{program}.page"), time.monotonic() + LIMIT
    while not (page.exists() and page.read_bytes().endswith(b"</html>\n")):  # the browser outlives who opened it
        assert time.monotonic() < until
        time.sleep(0.01)
    assert b"You are logged in" in page.read_bytes()


# --- where to come back to ------------------------------------------------------------------------

def test_the_redirect_uri_that_is_registered_is_used_again():
    agent = Browser(Surfer(), out=io.StringIO())
    with agent.begin(None, "weather") as visit:
        registered = visit.redirect_uri
    with agent.begin(registered, "weather") as visit:
        assert visit.redirect_uri == registered
        with agent.begin(registered, "weather") as other:
            assert other.redirect_uri != registered


def test_a_given_port_is_used_or_it_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AuthError, match=f"login to weather needs port {port} of 127.0.0.1 .* not available: ") as caught:
            Browser(port=port).begin(f"http://127.0.0.1:{port}/callback", "weather")
        assert caught.value.__cause__.errno == errno.EADDRINUSE
    with Browser(port=port, host="localhost", path="/back").begin(None, "weather") as visit:
        assert visit.redirect_uri == f"http://localhost:{port}/back"


def test_an_address_that_is_not_available(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(browser, "LoopbackListener", refuse)
    with pytest.raises(AuthError, match="needs any port of ::1 .* Cannot assign requested address"):
        Browser(host="::1").begin(None, "weather")


@pytest.mark.parametrize("options, said", [
    ({"host": "0.0.0.0"}, "not to '0.0.0.0'"), ({"host": ""}, "127.0.0.1, ::1, localhost"),
    ({"port": -1}, "no port -1"), ({"port": 65_536}, "no port 65536"),
    ({"path": "callback"}, "begins with a slash"), ({"path": "/a?b"}, "no query"),
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
