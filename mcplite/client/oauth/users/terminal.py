"""The user logs in with a browser anywhere, and pastes into the terminal where that ends up."""

import os
import re
import sys
from typing import Any, Callable, Optional, TextIO

from ....errors import AuthError
from .agent import LONGEST_ANSWER, SLICE, Visit, came_back, url_to_visit
from .background import Aside
from .browser import Browser, ListeningVisit
from .loopback import Listener, ready

__all__ = ["Terminal", "is_terminal"]

#: A person who has pasted so many wrong addresses needs other help.
_MOST_PASTES = 5


class Terminal(Browser):
    """Shows the URL on the terminal, and takes what the user pastes there; a browser on this machine can come back too.

    That is for a machine without a browser: the one of another machine shows an address that it cannot reach, which
    the user copies; or a port is forwarded (``ssh -L``).

    :param source: where the user types; stdin by default.
    :param out: where the questions go; stderr by default.
    :param place: *host*, *port* and *path* as for :class:`Browser`.
    :raises ValueError: as for :class:`Browser`.
    """

    def __init__(self, source: Optional[TextIO] = None, out: Optional[TextIO] = None, **place: Any) -> None:
        super().__init__(out=out, **place)
        self._source = source

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Listen for a browser.

        :raises AuthError: the port is taken.
        """
        source = sys.stdin if self._source is None else self._source
        return _TerminalVisit(self._listen(preferred, server), server, self._out, source)


class _TerminalVisit(ListeningVisit):
    def __init__(self, listener: Listener, server: str, out: Optional[TextIO], source: Optional[TextIO]) -> None:
        super().__init__(listener, server, out)
        self._typed = _Typed(source)

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        url = url_to_visit(url)
        wait()
        self.say(f"To log in to {self.server}, visit\n\n  {url}\n\nThe browser will come back to {self.redirect_uri}"
                  " - when it runs on another machine,\nit cannot open that page: copy its address then, and paste it here.")
        self.say("Address: ", end="")
        wrong = 0
        while True:
            wait()
            line = self._line()
            if line is None:
                back = self.listener.serve(state, SLICE, self._typed.descriptor)
                if back is not None:
                    self.say("")  # behind the prompt
                    return back
                continue
            back = came_back(line, self.redirect_uri, state)
            if back is not None and re.search(r"[?&](?:code|error)=", back):
                return back
            wrong += bool(line.strip())
            if wrong == _MOST_PASTES:
                raise AuthError(f"the login to {self.server} was given up after {wrong} addresses that were not the one by"
                                f" which its browser came back")
            self._refuse(line, back)

    def _line(self) -> Optional[str]:
        try:
            return self._typed.line()
        except EOFError:
            raise AuthError(f"the login to {self.server} was given up: nothing more can be typed") from None

    def _refuse(self, line: str, back: Optional[str]) -> None:
        if line.strip():
            self.say("That is the page to log in at; what is wanted is the address at which the browser ends up." if back
                      else f"That is not the address at which this login ended: one that begins with {self.redirect_uri}"
                           " and is pasted whole.")
        self.say("Address: ", end="")


class _Typed:
    """The lines that a user types, as they come; what is beyond the last one taken is lost at the end."""

    def __init__(self, source: Optional[TextIO]) -> None:
        self._source = source
        self._buffer = b""
        self._ended = False
        self._reading: Optional[Aside[str]] = None
        #: What tells that something was typed; None where only a thread can wait for that.
        self.descriptor = _descriptor(source)

    def line(self) -> Optional[str]:
        """Return the next line, or None when there is none yet; does not wait.

        :raises EOFError: there will be none.
        """
        if self._source is None:
            return None
        if self.descriptor is None:
            return self._line_of_thread(self._source)
        # Past the file's own buffer: a line in there would not make the descriptor ready.
        if b"\n" not in self._buffer and not self._ended and ready([self.descriptor], [], 0):
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

    def _line_of_thread(self, source: TextIO) -> Optional[str]:
        # On Windows, and where stdin is no file. A read that nobody waits for any more takes the next line, whoever it is
        # for; there is no way to call it off.
        if self._reading is None:
            self._reading = Aside(source.readline, name="mcplite typing")
        if not self._reading.over:
            return None
        line, self._reading = self._reading.result(), None
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


def is_terminal(stream: Optional[TextIO]) -> bool:
    """Whether there is somebody at a stream, rather than a file or nothing."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False
