"""The user agent with a terminal: the user logs in with any browser, and pastes the address at which it ends up."""

import os
import re
import sys
from typing import Any, Callable, Optional, TextIO

from ...errors import AuthError
from .background import BackgroundCall
from .browser import Browser, ListeningVisit
from .loopback import LoopbackListener, wait_ready
from .user_agent import LONGEST_ANSWER, SLICE_SECONDS, Visit, redirect_answer, url_to_visit

__all__ = ["Terminal"]

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

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Listen for a browser.

        :raises AuthError: the port is taken.
        """
        source = sys.stdin if self._source is None else self._source
        return _TerminalVisit(self._listen(preferred, server), server, self._out, source)


class _TerminalVisit(ListeningVisit):
    def __init__(self, listener: LoopbackListener, server: str, out: Optional[TextIO], source: Optional[TextIO]) -> None:
        super().__init__(listener, server, out)
        self._input = _TerminalInput(source)

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        url = url_to_visit(url)
        wait()
        self.show(f"To log in to {self.server}, visit\n\n  {url}\n\nThe browser will come back to {self.redirect_uri}"
                  " - when it runs on another machine,\nit cannot open that page: copy its address then, and paste it here.")
        self.show("Address: ", end="")
        wrong = 0
        while True:
            wait()
            line = self._line()
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
                raise AuthError(f"the login to {self.server} was given up after {wrong} addresses that were not the one by"
                                f" which its browser came back")
            self._refuse(line, back)

    def _line(self) -> Optional[str]:
        try:
            return self._input.line()
        except EOFError:
            raise AuthError(f"the login to {self.server} was given up: nothing more can be typed") from None

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
        self._reading: Optional[BackgroundCall[str]] = None
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
        if b"\n" not in self._buffer and not self._ended and wait_ready([self.descriptor], [], 0):
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
            self._reading = BackgroundCall(lambda: source.readline(LONGEST_ANSWER + 1), name="mcplite typing")
        if not self._reading.done:
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
