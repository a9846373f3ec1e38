"""The user agent with a browser, which comes back to a port of this machine."""

import contextlib
import os
import re
import shutil
import sys
from typing import Callable, Mapping, Optional, TextIO

from ...errors import AuthError
from ...protocol.error_text import printable
from . import page
from .background import BackgroundCall
from .loopback import HOSTS, LoopbackListener
from .user_agent import SLICE_SECONDS, UserAgent, Visit, shown_name, url_to_visit

__all__ = ["Browser", "ListeningVisit", "has_browser"]

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

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Listen for the browser.

        :raises AuthError: the port is taken.
        """
        return _BrowserVisit(self._listen(preferred, server), server, self._out, self._open or _open_browser)

    def _listen(self, preferred: Optional[str], server: str) -> LoopbackListener:
        host, port, path = self._listen_at
        try:
            return LoopbackListener(host, port, path, preferred=preferred)
        except OSError as error:
            where = f"port {port} of {host}" if port else f"any port of {host}"
            raise AuthError(f"the login to {shown_name(server)} needs {where} for the browser to come back to, which is not"
                            f" available: {error.strerror or error}") from error


class ListeningVisit(Visit):
    """A visit whose browser comes back to a port of this machine, with messages to the user.

    :param listener: closed with the visit.
    :param out: where messages are shown; stderr by default.
    """

    def __init__(self, listener: LoopbackListener, server: str, out: Optional[TextIO]) -> None:
        super().__init__(listener.redirect_uri)
        self.listener = listener
        #: The server's name, as it can be shown.
        self.server = shown_name(server)
        #: Looked up now: a host program may replace stderr at any time.
        self._out = sys.stderr if out is None else out

    def show(self, text: str, end: str = "\n") -> None:
        """Show the user a message, if there is anything to show it on."""
        if self._out is None:  # in a program without a console; print() would take stdout
            return
        with contextlib.suppress(OSError, ValueError):  # its reader has gone, or it is closed; the browser may suffice
            print(text, end=end, file=self._out, flush=True)

    def succeeded(self) -> None:
        self.listener.send_page(page.completed(self.server))

    def failed(self, text: str) -> None:
        self.listener.send_page(page.failed(self.server, text))

    def close(self) -> None:
        self.listener.send_page(page.unfinished(self.server))
        self.listener.close()


class _BrowserVisit(ListeningVisit):
    def __init__(self, listener: LoopbackListener, server: str, out: Optional[TextIO], open: Callable[[str], object]) -> None:
        super().__init__(listener, server, out)
        self._open = open

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        url = url_to_visit(url)
        wait()
        self.show(f"Log in to {self.server} in the browser that opens. If none does, visit\n  {url}")
        # Never ended from here: the browser is the user's to close.
        opening: Optional[BackgroundCall[object]] = BackgroundCall(self._open, url, name="mcplite browser")
        while True:
            wait()
            back = self.listener.serve(state, SLICE_SECONDS)
            if back is not None:
                return back
            if opening is not None and opening.done:
                self._report(opening)
                opening = None

    def _report(self, opening: "BackgroundCall[object]") -> None:
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
