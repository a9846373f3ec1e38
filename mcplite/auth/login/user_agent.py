"""User agents: the interface by which a user is asked to log in, and the two without a browser of ours.

The code flow knows this interface alone; ``browser`` and ``terminal`` implement it with a listener.
"""

import re
from typing import Callable, Optional
from urllib.parse import quote, urlsplit

from ...errors import AuthError
from ...protocol.error_text import one_line
from ...protocol.http.wellknown import base_of, check_url
from .background import BackgroundCall
from .loopback import has_state

__all__ = [
    "Callback", "LONGEST_ANSWER", "NoUserAgent", "SLICE_SECONDS", "UserAgent", "Visit", "redirect_answer", "shown_name",
    "url_to_visit",
]

#: Seconds that a thread waits for the user before it calls ``wait``, which may give up.
SLICE_SECONDS = 0.2
#: Characters of the URL by which a browser comes back.
LONGEST_ANSWER = 16_384
_LONGEST_NAME = 100
#: The characters of URLs, without quotes, and without fragments, which no such page has (RFC 6749, section 3.1; AUTH-40).
_URL = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&()*+,;=%]+")


class UserAgent:
    """How a user is asked to log in; subclass it for another way."""

    def begin(self, preferred: Optional[str], server: str) -> "Visit":
        """Prepare one login, without showing anything yet.

        :param preferred: the redirect URI that is registered already; used again if that is possible.
        :param server: the name of the MCP server, or its host, for the user to read.
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

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        """Send the user to *url*, once; return the whole URL by which they came back.

        :param state: the state that this URL has to carry; an answer without it is ignored.
        :param wait: called at least every 0.25 seconds on this thread; it gives up by raising.
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


class Callback(UserAgent):
    """Asks by a function of the host program, such as one that shows the URL in the host's own window.

    :param function: takes the URL to send the user to, and returns the URL by which they came back, or None if they gave
        up. It runs on its own thread, so that the caller can stop waiting for it.
    :param redirect_uri: where they come back to; of https, or of this machine (AUC-18).
    :raises ValueError: the redirect URI is neither, or has a fragment.
    """

    def __init__(self, function: Callable[[str], Optional[str]], redirect_uri: str) -> None:
        self._function = function
        if "#" in check_url(redirect_uri, "the redirect URI"):
            raise ValueError("a redirect URI has no fragment")
        self._redirect_uri = redirect_uri

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Prepare one login; the redirect URI is the one that was given, and *preferred* is ignored."""
        return _CallbackVisit(self._redirect_uri, server, self._function)


class NoUserAgent(UserAgent):
    """Refuses every login, because there is neither a browser nor a terminal; the error says what to do."""

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Refuse.

        :raises AuthError: always.
        """
        package = __name__.rpartition(".auth.")[0]
        raise AuthError(
            f"{shown_name(server)} wants a user to log in, but no user can be asked here: there is neither a browser nor a"
            f" terminal. Log in before with `python -m {package} login URL`, use credentials that need no user"
            f" ({package}.auth.ClientCredentials), or set how to ask with OAuth(ask=...)")


class _CallbackVisit(Visit):
    def __init__(self, redirect_uri: str, server: str, function: Callable[[str], Optional[str]]) -> None:
        super().__init__(redirect_uri)
        self._server = shown_name(server)
        self._function = function

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        url = url_to_visit(url)
        wait()
        call = BackgroundCall(self._function, url, name="mcplite login")
        while not call.wait(SLICE_SECONDS):
            wait()
        text = call.result()
        if text is None:
            raise AuthError(f"the login to {self._server} was given up")
        back = redirect_answer(text, self.redirect_uri, state) if isinstance(text, str) else None
        if back is None:
            raise AuthError(f"the function given as ask= has not returned the URL by which the user came back from the login to"
                            f" {self._server}: it does not carry the state of this login")
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


def shown_name(server: str) -> str:
    """Return a server's name as one line without control characters."""
    return one_line(server, _LONGEST_NAME) or "the server"
