"""A login at a terminal: what people paste there, and what else may become of what they type into."""

import builtins
import io
import os
import select
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest

from mcplite.auth.login import terminal
from mcplite.auth.login.terminal import Terminal
from mcplite.auth.login.user_agent import LONGEST_ANSWER
from mcplite.errors import AuthError, Cancelled
from tests.support import rawhttp
from tests.support.logins import LIMIT, STATE, Surfer, answer, gives_up_after, login_url, patience
from tests.support.systems import posix_only

LOGIN = f"https://login.example/authorize?client_id=me&state={STATE}"


@pytest.fixture
def short_slices(monkeypatch):
    """Waiting threads call ``wait`` almost without delay, and check as often for input."""
    monkeypatch.setattr(terminal, "SLICE_SECONDS", 0.001)


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


def test_an_answer_that_says_no_can_be_pasted(screen):
    asking = Asking(Terminal(screen.source, screen.out))
    screen.type(f"error=access_denied&state={STATE}\n")
    assert asking.result() == f"{asking.visit.redirect_uri}?error=access_denied&state={STATE}"


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


def test_several_lines_at_once_are_read_one_by_one(screen):
    agent = Terminal(screen.source, screen.out)
    asking = Asking(agent)
    screen.type(f"wrong\n\n{answer(asking.visit)}\n")
    assert asking.result() == answer(asking.visit)


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


def test_a_terminal_that_goes_away_ends_the_login(screen):
    asking = Asking(Terminal(screen.source, io.StringIO()))
    screen.hang_up()
    with pytest.raises(AuthError, match="nothing more can be typed"):
        asking.result()


@pytest.mark.parametrize("times", [0, 1, 2, 4])
def test_waiting_for_the_terminal_can_be_given_up_at_any_time(short_slices, screen, times):
    asking = Asking(Terminal(screen.source, screen.out), wait=gives_up_after(times))
    with pytest.raises(Cancelled):
        asking.result()
    assert rawhttp.refuses(urlsplit(asking.visit.redirect_uri).port)
    screen.type("for another reader\n")
    assert screen.source.readline() == "for another reader\n"


def test_half_a_line_does_not_block(screen):
    surfer = Surfer()
    asking = Asking(Terminal(screen.source, screen.out))
    screen.type("http://127")
    surfer(login_url(asking.visit))
    assert asking.result() == answer(asking.visit)


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


@posix_only
def test_input_that_another_reader_has_taken_is_waited_for_again(monkeypatch, pipe):
    source, into = pipe
    monkeypatch.setattr(terminal, "wait_ready", lambda reading, writing, seconds: set(reading))
    os.set_blocking(source.fileno(), False)
    asking = Asking(Terminal(source, io.StringIO()))
    into.write(answer(asking.visit).encode() + b"\n")
    assert asking.result() == answer(asking.visit)


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


def test_the_end_of_input_that_is_not_a_file(short_slices):
    with pytest.raises(AuthError, match="nothing more can be typed"):
        Asking(Terminal(io.StringIO("wrong\n"), io.StringIO())).result()


def test_waiting_for_input_that_is_not_a_file_can_be_given_up(short_slices):
    typing = Typing()
    asking = Asking(Terminal(typing, io.StringIO()), wait=gives_up_after(3))
    try:
        with pytest.raises(Cancelled):
            asking.result()
    finally:
        typing.type("\n")  # the thread that reads cannot be called off


def test_elsewhere_than_on_posix_a_thread_reads(short_slices, monkeypatch, pipe):
    source, into = pipe
    monkeypatch.setattr(terminal, "_descriptor", lambda source: None)
    asking = Asking(Terminal(source, io.StringIO()))
    into.write(answer(asking.visit).encode() + b"\n")
    assert asking.result() == answer(asking.visit)


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
