"""How a user is asked to log in, whatever the way; and which way fits where nobody has chosen one."""

import re
from typing import Callable, Optional
from urllib.parse import quote, urlsplit

from ....errors import AuthError
from ....protocol.http.wellknown import base_of, check_url
from ....protocol.show import printable
from .background import Aside
from .loopback import carries

__all__ = [
    "Callback", "LONGEST_ANSWER", "Nobody", "SLICE", "UserAgent", "Visit", "came_back", "shown_name", "url_to_visit",
]

#: Seconds after which whoever waits for the user asks whether to go on.
SLICE = 0.2
#: Characters of the URL by which a user comes back.
LONGEST_ANSWER = 16_384
_LONGEST_NAME = 100
#: What URLs consist of, but for quotes, and for fragments, which no such page has (RFC 6749, section 3.1; AUTH-40).
_URL = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&()*+,;=%]+")


class UserAgent:
    """How a user is asked to log in; subclass it for another way."""

    def begin(self, preferred: Optional[str], server: str) -> "Visit":
        """Get ready for one login, without showing anything yet.

        :param preferred: the redirect URI that is registered already; used again when it can be.
        :param server: the name of the MCP server, or its host, for the user to read.
        :raises AuthError: nobody can be asked.
        """
        raise NotImplementedError


class Visit:
    """One login of one user; used by one thread, in a ``with`` block, whose end closes everything.

    :param redirect_uri: where the browser is to come back to; to be registered and sent exactly so (AUTH-42).
    """

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        """Send the user to *url*, once; return the whole URL by which they came back.

        :param state: what that URL has to carry; answers without it are none.
        :param wait: called at least every 0.25 seconds on this thread; it gives up by raising.
        :raises AuthError: *url* is none to send anybody to, or the user gave up.
        """
        raise NotImplementedError

    def succeeded(self) -> None:
        """Tell the user that it worked."""

    def failed(self, text: str) -> None:
        """Tell the user that it did not work.

        :param text: why; it may be the authorization server's.
        """

    def close(self) -> None:
        """Close all that is open; who was told nothing so far hears that the login was not completed."""


class Callback(UserAgent):
    """Asks by a function of the host program, such as one that shows the URL in the host's own window.

    :param function: takes the URL to send the user to, and returns the URL by which they came back, or None when they
        gave up. It runs on a thread of its own, which is left alone when nobody waits for the answer any more.
    :param redirect_uri: where they come back to; of https, or of this machine (AUC-18).
    :raises ValueError: the redirect URI is another one.
    """

    def __init__(self, function: Callable[[str], Optional[str]], redirect_uri: str) -> None:
        self._function = function
        if "#" in check_url(redirect_uri, "the redirect URI"):
            raise ValueError("a redirect URI has no fragment")
        self._redirect_uri = redirect_uri

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Get ready; the redirect URI is the one that was given, whatever is preferred."""
        return _CallbackVisit(self._redirect_uri, server, self._function)


class Nobody(UserAgent):
    """Says that nobody can be asked here, and what to do about it."""

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        """Refuse.

        :raises AuthError: always.
        """
        package = __name__.rpartition(".client.")[0]
        raise AuthError(
            f"{shown_name(server)} wants a user to log in, and nobody can be asked here: there is neither a browser nor a"
            f" terminal. Log in before with `python -m {package} login URL`, use credentials that need no user"
            f" ({package}.ClientCredentials), or say how to ask with OAuth(ask=...)")


class _CallbackVisit(Visit):
    def __init__(self, redirect_uri: str, server: str, function: Callable[[str], Optional[str]]) -> None:
        super().__init__(redirect_uri)
        self._server = shown_name(server)
        self._function = function

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        url = url_to_visit(url)
        wait()
        asking = Aside(self._function, url, name="mcplite login")
        while not asking.wait(SLICE):
            wait()
        text = asking.result()
        if text is None:
            raise AuthError(f"the login to {self._server} was given up")
        back = came_back(text, self.redirect_uri, state) if isinstance(text, str) else None
        if back is None:
            raise AuthError(f"the function that asks for the login to {self._server} has not returned the URL by which the user"
                            f" came back from there: it does not carry the state of this login")
        return back


def url_to_visit(url: str) -> str:
    """Return the URL to send a user to, put together anew from its parts (AUTH-40).

    :raises AuthError: it is none of https (or http on this machine), or has something in it that it should not have.
    """
    what = "the page to log in at"
    try:
        check_url(url, what)
        base, parts = base_of(url), urlsplit(url)
    except ValueError as error:
        raise AuthError(str(error)) from None
    if not _URL.fullmatch(url):
        raise AuthError(f"{what} is {url.partition('?')[0][:200]!r}, which is not opened: it has a fragment,"
                        f" or characters that such a URL has not")
    # Those that a shell would take for its own mean the same in this form, should something on the way ask one.
    safe = "/%:@+,;=&~"
    return base + quote(parts.path, safe=safe) + (f"?{quote(parts.query, safe=safe + '?')}" if parts.query else "")


def came_back(text: str, redirect_uri: str, state: str) -> Optional[str]:
    """Return the redirect URI with the query of what was given; None when that is not this login's.

    :param text: the URL by which a user came back, or its query, as a person copies it.
    """
    plain = text.strip().strip("<>\"'`").partition("#")[0]
    query = plain.partition("?")[2] if "?" in plain else plain
    if len(plain) > LONGEST_ANSWER or not re.fullmatch(r"[\x21-\x7e]+", query) or not carries(query, state):
        return None
    return f"{redirect_uri.partition('?')[0]}?{query}"


def shown_name(server: str) -> str:
    """Return a server's name as it can be shown in one line on a terminal."""
    return printable(" ".join(server.split())[:_LONGEST_NAME]) or "the server"
