"""User agents: the ways in which a user is asked to log in, with a browser, at a terminal, or by the program.

:class:`UserAgent` is the interface, which the code flow knows alone. :class:`Browser` comes back to a port of this machine.
At a :class:`Terminal` the user logs in with any browser, and pastes the address at which it ends up. What may never return
(opening a browser, reading from a terminal, a callback of the program) runs on a thread of its own, so that the login can
stop waiting.
"""

import contextlib
import contextvars
import os
import re
import shutil
import sys
import threading
from concurrent import futures
from typing import Any, Callable, Mapping, Optional, TextIO, TypeVar
from urllib.parse import quote, urlsplit

from ...errors import AuthError
from ...protocol.error_text import Option, OptionText, one_line, printable
from ...protocol.http.oauth import base_of, check_url
from ...rpc.stdio.descriptors import is_terminal
from .loopback import HOSTS, LoopbackListener, has_state, wait_ready

__all__ = [
    "Browser", "CallbackVisit", "LONGEST_ANSWER", "NoUserAgent", "Terminal", "UserAgent", "Visit", "default_user_agent",
    "has_browser",
]

_Result = TypeVar("_Result")


def call_in_background(function: "Callable[..., _Result]", *arguments: object, name: str) -> "futures.Future[_Result]":
    """Call a function on a daemon thread, with the context variables of the caller; return its future result.

    The thread is started here, blocks on the function, and ends with it: it cannot be stopped, and the end of the process
    does not wait for it.

    :param name: of the thread.
    """
    future: "futures.Future[_Result]" = futures.Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:  # raised by result()
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True).start()
    return future


#: Seconds that a thread waits for the user before it calls ``check``, which may give up.
SLICE_SECONDS = 0.2
#: Characters of the URL by which a browser comes back.
LONGEST_ANSWER = 16_384
_LONGEST_NAME = 100
#: The characters of URLs, without quotes, and without fragments, which no such page has (RFC 6749, section 3.1; AUTH-40).
_URL = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&()*+,;=%]+")


class UserAgent:
    """How a user is asked to log in; subclass it for another way."""

    def begin(self, preferred: Optional[str], mcp_name: str) -> "Visit":
        """Prepare one login, without showing anything yet.

        :param preferred: the redirect URI that is registered already; used again if that is possible.
        :param mcp_name: the name of the MCP server, or its host, for the user to read.
        :raises AuthError: there is no way to ask a user.
        """
        raise NotImplementedError


class Visit:
    """One login of one user; used by one thread, in a ``with`` block, whose end closes all that is open.

    :param redirect_uri: where the browser comes back to; registered and sent to the letter (AUTH-42).
    """

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        """Send the user to *url*, once; return the whole URL by which they came back.

        :param state: the state that this URL has to carry; an answer without it is ignored.
        :param check: called at least every 0.25 seconds on this thread; it gives up by raising.
        :raises AuthError: *url* is not one we may open in a browser, or the user gave up.
        """
        raise NotImplementedError

    def succeeded(self) -> None:
        """Tell the user that the login has succeeded."""

    def failed(self, text: str) -> None:
        """Tell the user that the login has failed.

        :param text: why; it may be a text of the authorization server.
        """

    def close(self) -> None:
        """Close all that is open. If neither success nor failure was shown, the user sees that the login was not completed."""


class NoUserAgent(UserAgent):
    """Refuses every login, because there is neither a browser nor a terminal; the error says what to do."""

    def begin(self, preferred: Optional[str], mcp_name: str) -> Visit:
        """Refuse.

        :raises AuthError: always.
        """
        package = __name__.rpartition(".auth.")[0]
        raise AuthError(OptionText(
            f"{shown_name(mcp_name)} wants a user to log in, but no user can be asked here: there is neither a browser nor a"
            " terminal", Option("ask", f". Log in before with `python -m {package} login URL`, use credentials that need no"
                                f" user ({package}.auth.ClientCredentials), or set how to ask with OAuth(ask=...)")))


class CallbackVisit(Visit):
    """A visit by a function of the host program, such as one that shows the URL in the host's own window.

    :param redirect_uri: where the user comes back to; :class:`OAuth` has checked it.
    :param function: takes the URL to send the user to, and returns the URL by which they came back, or None if they gave
        up. It runs on its own thread, so that the caller can stop waiting for it.
    """

    def __init__(self, redirect_uri: str, mcp_name: str, function: Callable[[str], Optional[str]]) -> None:
        super().__init__(redirect_uri)
        self._mcp_name = shown_name(mcp_name)
        self._function = function

    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        url = url_to_visit(url)
        check()
        call = call_in_background(self._function, url, name="mcplite login")
        while not futures.wait([call], SLICE_SECONDS).done:
            check()
        text = call.result()
        if text is None:
            raise AuthError(f"the login to {self._mcp_name} was given up")
        back = redirect_answer(text, self.redirect_uri, state) if isinstance(text, str) else None
        if back is None:
            raise AuthError(f"the function given as ask= has not returned the URL by which the user came back from the login to"
                            f" {self._mcp_name}: it does not carry the state of this login")
        return back


def url_to_visit(url: str) -> str:
    """Return the URL to send a user to, rebuilt from its parts (AUTH-40).

    :raises AuthError: it is not of https (or of http on this machine), or has characters that are not allowed.
    """
    what = "the page to log in at"
    try:
        check_url(url, what)
        base, parts = base_of(url), urlsplit(url)
    except ValueError as error:
        raise AuthError(str(error)) from None
    if not _URL.fullmatch(url):
        raise AuthError(f"{what} is {url.partition('?')[0][:200]!r}, which is not opened: it has a fragment,"
                        f" or characters that are not allowed in such a URL")
    # Characters with a meaning for a shell are quoted: a launcher of browsers may pass the URL to one.
    safe = "/%:@+,;=&~"
    return base + quote(parts.path, safe=safe) + (f"?{quote(parts.query, safe=safe + '?')}" if parts.query else "")


def redirect_answer(text: str, redirect_uri: str, state: str) -> Optional[str]:
    """Return the redirect URI with the query of *text*; None when it is not the answer to this login.

    :param text: the URL by which a user came back, or its query, as a person copies it.
    """
    plain = text.strip().strip("<>\"'`").partition("#")[0]
    query = plain.partition("?")[2] if "?" in plain else plain
    if len(plain) > LONGEST_ANSWER or not re.fullmatch(r"[\x21-\x7e]+", query) or not has_state(query, state):
        return None
    return f"{redirect_uri.partition('?')[0]}?{query}"


def shown_name(mcp_name: str) -> str:
    """Return a server's name as one line without control characters."""
    return one_line(mcp_name, _LONGEST_NAME) or "the server"


#: These take over the terminal, and most login pages do not work in them.
_TEXT_BROWSERS = {"www-browser", "links", "links2", "elinks", "lynx", "w3m", "browsh", "carbonyl"}


class Browser(UserAgent):
    """Opens the user's browser, which comes back to a port of this machine; the URL is shown on stderr as well.

    :param open: takes the URL, and returns False if it could not open it; ``webbrowser.open`` by default. It runs on its
        own thread, since some browsers return from it only when the user closes them.
    :param host: where to listen: "127.0.0.1" (the default), "::1" or "localhost".
    :param port: default 0, any free port. Another port is used or the login fails, because a registration may name it.
    :param path: of the redirect URI; default "/callback".
    :param out: where the URL is shown; stderr by default.
    :raises ValueError: the host is another one, there is no such port, or the path cannot be one of a redirect URI.
    """

    def __init__(self, open: Optional[Callable[[str], object]] = None, *, host: str = "127.0.0.1", port: int = 0,
                 path: str = "/callback", out: Optional[TextIO] = None) -> None:
        if host not in HOSTS:
            raise ValueError(f"browsers come back to one of {', '.join(HOSTS)}, not to {host!r}")
        if not 0 <= port < 65_536:
            raise ValueError(f"there is no port {port}; the largest is 65535, and 0 is any free one")
        if not re.fullmatch(r"/[A-Za-z0-9\-._~/]*", path):
            raise ValueError(f"the path of a redirect URI begins with a slash and has no query, unlike {path!r}")
        self._open = open
        self._listen_at = host, port, path
        self._out = out

    def begin(self, preferred: Optional[str], mcp_name: str) -> Visit:
        """Listen for the browser.

        :raises AuthError: the port is taken.
        """
        return _BrowserVisit(self._listen(preferred, mcp_name), mcp_name, self._out, self._open or _open_browser)

    def _listen(self, preferred: Optional[str], mcp_name: str) -> LoopbackListener:
        host, port, path = self._listen_at
        try:
            return LoopbackListener(host, port, path, preferred=preferred)
        except OSError as error:
            where = f"port {port} of {host}" if port else f"any port of {host}"
            raise AuthError(f"the login to {shown_name(mcp_name)} needs {where} for the browser to come back to, which is not"
                            f" available: {error.strerror or error}") from error


class ListeningVisit(Visit):
    """A visit whose browser comes back to a port of this machine, with messages to the user.

    :param listener: closed with the visit.
    :param out: where messages are shown; stderr by default.
    """

    def __init__(self, listener: LoopbackListener, mcp_name: str, out: Optional[TextIO]) -> None:
        super().__init__(listener.redirect_uri)
        self.listener = listener
        #: The server's name, as it can be shown.
        self.mcp_name = shown_name(mcp_name)
        #: Looked up now: a host program may replace stderr at any time.
        self._out = sys.stderr if out is None else out

    def show(self, text: str, end: str = "\n") -> None:
        """Show the user a message, if there is anything to show it on."""
        if self._out is None:  # in a program without a console; print() would take stdout
            return
        with contextlib.suppress(OSError, ValueError):  # its reader has gone, or it is closed; the browser may suffice
            print(text, end=end, file=self._out, flush=True)

    def succeeded(self) -> None:
        self.listener.send_page(200, "You are logged in", f"The login for {self.mcp_name} is complete.",
                                "You can close this page and go back to the program.")

    def failed(self, text: str) -> None:
        self.listener.send_page(400, "The login has failed", f"Logging in to {self.mcp_name} did not work:", text,
                                "The program that asked you to log in can tell more.")

    def close(self) -> None:
        self.listener.send_page(400, "The login was not completed",
                                f"The program has stopped logging in to {self.mcp_name}.", "To log in, start again from there.")
        self.listener.close()


class _BrowserVisit(ListeningVisit):
    def __init__(self, listener: LoopbackListener, mcp_name: str, out: Optional[TextIO], open: Callable[[str], object]) -> None:
        super().__init__(listener, mcp_name, out)
        self._open = open

    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        url = url_to_visit(url)
        check()
        self.show(f"Log in to {self.mcp_name} in the browser that opens. If none does, visit\n  {url}")
        # Never ended from here: the browser is the user's to close.
        opening: "Optional[futures.Future[object]]" = call_in_background(self._open, url, name="mcplite browser")
        while True:
            check()
            back = self.listener.serve(state, SLICE_SECONDS)
            if back is not None:
                return back
            if opening is not None and opening.done():
                self._report(opening)
                opening = None

    def _report(self, opening: "futures.Future[object]") -> None:
        """Tell the user if no browser was opened."""
        try:
            if opening.result() is not False:
                return
            why = ""
        except (Exception, SystemExit) as error:
            why = f" ({type(error).__name__}: {printable(str(error)[:200])})"
        self.show(f"No browser could be opened{why}; visit the address above yourself, on this machine.")


def _open_browser(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)


def has_browser(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser can be opened where the user sees it.

    :param platform: as ``sys.platform`` names it.
    """
    import webbrowser

    for choice in environment.get("BROWSER", "").split(os.pathsep):
        words = choice.split()
        if words and shutil.which(words[0]):
            # Set on purpose, as remote development environments do.
            return not _is_text_browser(words[0])
    if platform in ("win32", "darwin"):
        if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
            return False  # it would open on a screen that the user may not see
    elif not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return False
    try:
        return not _is_text_browser(str(getattr(webbrowser.get(), "name", "")))
    except webbrowser.Error:
        return False


def _is_text_browser(command: str) -> bool:
    return os.path.basename(command) in _TEXT_BROWSERS


#: A person who has pasted so many wrong addresses needs other help.
_MOST_PASTES = 5


class Terminal(Browser):
    """Shows the URL on the terminal, and reads the address that the user pastes; a browser on this machine can come back too.

    It is for machines without a browser: a browser on another machine ends up at an address that it cannot reach, which the
    user copies; or a port is forwarded (``ssh -L``).

    :param source: where the user types; stdin by default.
    :param out: where the questions go; stderr by default.
    :param listener: *host*, *port* and *path* as for :class:`Browser`.
    :raises ValueError: as for :class:`Browser`.
    """

    def __init__(self, source: Optional[TextIO] = None, out: Optional[TextIO] = None, **listener: Any) -> None:
        super().__init__(out=out, **listener)
        self._source = source

    def begin(self, preferred: Optional[str], mcp_name: str) -> Visit:
        """Listen for a browser.

        :raises AuthError: the port is taken.
        """
        source = sys.stdin if self._source is None else self._source
        return _TerminalVisit(self._listen(preferred, mcp_name), mcp_name, self._out, source)


class _TerminalVisit(ListeningVisit):
    def __init__(self, listener: LoopbackListener, mcp_name: str, out: Optional[TextIO], source: Optional[TextIO]) -> None:
        super().__init__(listener, mcp_name, out)
        self._input = _TerminalInput(source)

    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        url = url_to_visit(url)
        check()
        self.show(f"To log in to {self.mcp_name}, visit\n\n  {url}\n\nThe browser will come back to {self.redirect_uri}"
                  " - when it runs on another machine,\nit cannot open that page: copy its address then, and paste it here.")
        self.show("Address: ", end="")
        wrong = 0
        while True:
            check()
            try:
                line = self._input.line()
            except EOFError:
                raise AuthError(f"the login to {self.mcp_name} was given up: nothing more can be typed") from None
            if line is None:
                back = self.listener.serve(state, SLICE_SECONDS, self._input.descriptor)
                if back is not None:
                    self.show("")  # ends the line of the prompt
                    return back
                continue
            back = redirect_answer(line, self.redirect_uri, state)
            if back is not None and re.search(r"[?&](?:code|error)=", back):
                return back
            wrong += bool(line.strip())
            if wrong == _MOST_PASTES:
                raise AuthError(f"the login to {self.mcp_name} was given up after {wrong} addresses that were not the one by"
                                f" which its browser came back")
            self._refuse(line, back)

    def _refuse(self, line: str, back: Optional[str]) -> None:
        if line.strip():
            self.show("That is the page to log in at; paste the address at which the browser ends up." if back
                      else f"That is not the address at which this login ended: one that begins with {self.redirect_uri}"
                           " and is pasted whole.")
        self.show("Address: ", end="")


class _TerminalInput:
    """The lines that a user types, as they come; input behind the last line that was returned is lost at the end."""

    def __init__(self, source: Optional[TextIO]) -> None:
        self._source = source
        self._buffer = b""
        self._ended = False
        self._reading: "Optional[futures.Future[str]]" = None
        #: Readable when there is input; None where only a thread can wait for input.
        self.descriptor = _descriptor(source)

    def line(self) -> Optional[str]:
        """Return the next line, or None if there is none yet; never blocks.

        :raises EOFError: the input has ended.
        """
        if self._source is None:
            return None
        if self.descriptor is None:
            return self._line_by_thread(self._source)
        # Not through the file's buffer: a line in it would not make the descriptor readable.
        if b"\n" not in self._buffer and not self._ended and wait_ready([self.descriptor], 0):
            self._receive(self.descriptor)
        if b"\n" in self._buffer or len(self._buffer) > LONGEST_ANSWER or (self._ended and self._buffer):
            line, _, self._buffer = self._buffer.partition(b"\n")
            return line.decode("utf-8", "replace")
        if self._ended:
            raise EOFError
        return None

    def _receive(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65_536)
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone
            data = b""
        self._buffer += data
        self._ended = not data

    def _line_by_thread(self, source: TextIO) -> Optional[str]:
        # On Windows, and where stdin is not a file. A read that was abandoned consumes the next line, since it cannot be
        # cancelled.
        if self._reading is None:
            self._reading = call_in_background(lambda: source.readline(LONGEST_ANSWER + 1), name="mcplite typing")
        if not self._reading.done():
            return None
        try:
            line, self._reading = self._reading.result(), None
        except OSError:  # it cannot be read
            line = ""
        if not line:
            raise EOFError
        return line


def _descriptor(source: Optional[TextIO]) -> Optional[int]:
    if source is None or os.name != "posix":
        return None
    try:
        return source.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def default_user_agent() -> UserAgent:
    """Return a browser, else the terminal, else an agent that raises because there is neither."""
    if has_browser(os.environ, sys.platform):
        return Browser()
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        return Terminal()
    return NoUserAgent()
