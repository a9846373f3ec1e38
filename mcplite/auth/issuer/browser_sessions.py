"""The session of a browser at the login pages: a cookie, who is logged in, and tokens against requests of other sites.

A session has two states. The login changes its id, against session fixation::

    no cookie, or one that is malformed -> anonymous, with a new id
    anonymous -- log_in(), a new id --> logged in, kept in the backend
    logged in -- log_out(), or its time is over --> anonymous, with a new id

An anonymous session is only a cookie: visits without a login fill no store. The id is a secret. Logins are stored under its
digest, :attr:`BrowserSession.browser`, and transactions are bound to that digest. The token of a form is derived from the id
and the name of the form, so that a form of another session, or of another transaction, is not accepted.

Over HTTPS the cookie's name begins with ``__Host-``: no other host, no path and no page over HTTP can set it. On loopback over
HTTP browsers refuse such a name, and programs on all ports of this machine share the cookies of the issuer.
"""

import hashlib
import hmac
import json
import re
import secrets
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from ...backend.interface import Backend
from ...protocol.opaque import base64url_encode
from ...server.handling.http_request import HTTPRequest
from .users import User, user_from, user_members

__all__ = ["CSRF_FIELD", "BrowserSession", "BrowserSessions"]

#: The field of a form with its token.
CSRF_FIELD = "csrf"
#: The form of an id: 32 random bytes.
_ID = re.compile(r"[A-Za-z0-9_-]{43}")
#: The most earlier ids of a session whose transactions it can continue.
_MOST_FORMER = 4


class BrowserSessions:
    """The sessions of all browsers at one issuer.

    :param backend: keeps who is logged in, for all workers.
    :param issuer: the URL of the issuer. Its scheme decides whether cookies are secure. The name of the cookie is made from the
        whole URL, since all issuers on one host get the cookies of that host.
    :param seconds: that a login lasts; default 8 hours.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, backend: Backend, issuer: str, seconds: float = 8 * 3600.0,
                 clock: Callable[[], float] = time.time) -> None:
        self._backend = backend
        self._seconds = seconds
        self._clock = clock
        self._secure = urlsplit(issuer).scheme == "https"
        name = f"mcplite-login-{hashlib.sha256(issuer.encode('utf-8')).hexdigest()[:8]}"
        self.cookie = f"__Host-{name}" if self._secure else name

    def open(self, request: HTTPRequest, form: str = "") -> "BrowserSession":
        """Return the session of a request's browser; a new session if the browser has none.

        :param form: what the token of this session's forms is bound to, such as the id of a transaction.
        :raises BackendError: the backend cannot be read.
        """
        given = [value for header in request.headers.all("cookie") for part in header.split(";")
                 for name, equals, value in [part.strip(" \t").partition("=")] if name == self.cookie]
        # If there are two cookies with this name, another site of the domain may have set one of them. Neither is used, since
        # they cannot be told apart.
        id = given[0] if len(given) == 1 and _ID.fullmatch(given[0]) else None
        return BrowserSession(self, id, form)

    # --- for its sessions ---------------------------------------------------------------------------------------

    def load(self, browser: str) -> Optional[Dict[str, Any]]:
        """Return the record of a login; None if there is none, or its time is over."""
        data = self._backend.get(f"browser/{browser}")
        record: Optional[Dict[str, Any]] = None if data is None else json.loads(data)
        return record if record is not None and record["until"] > self._clock() else None

    def save(self, browser: str, user: User, former: List[str]) -> Dict[str, Any]:
        """Store a login, and return its record."""
        now = self._clock()
        record = {"user": user_members(user), "since": now, "until": now + self._seconds, "former": former[-_MOST_FORMER:]}
        self._backend.put(f"browser/{browser}", json.dumps(record).encode("ascii"), self._seconds)
        return record

    def drop(self, browser: str) -> None:
        """Remove the record of a login, if there is one."""
        self._backend.take(f"browser/{browser}")

    def header(self, id: str) -> Tuple[str, str]:
        """Return the header that sets the cookie of a session; the cookie lasts until the browser ends."""
        secure = "; Secure" if self._secure else ""
        return "Set-Cookie", f"{self.cookie}={id}; Path=/; HttpOnly; SameSite=Lax{secure}"


class BrowserSession:
    """The session of one browser, for one request; see the diagram of this module.

    :param id: that the browser sent; None for a new session.
    :raises BackendError: the backend cannot be read.
    """

    def __init__(self, sessions: BrowserSessions, id: Optional[str], form: str = "") -> None:
        self._sessions = sessions
        #: The name that the tokens of forms are bound to, such as the id of a transaction.
        self.form = form
        #: Whether the browser has no cookie, or an old one, so that the response has to set it.
        self._changed = id is None
        self._set_id(secrets.token_urlsafe(32) if id is None else id)
        self._record = None if id is None else sessions.load(self.browser)

    def __repr__(self) -> str:
        return f"<BrowserSession of {self.user.subject if self.user else 'an anonymous browser'}>"

    def _set_id(self, id: str) -> None:
        self._id = id
        #: The digest of the id. It identifies this browser, and is no secret.
        self.browser = hashlib.sha256(id.encode("ascii")).hexdigest()

    @property
    def csrf(self) -> str:
        """The token of the forms of this session; it changes with a login."""
        key = self._id.encode("ascii")
        return base64url_encode(hmac.new(key, f"form {self.form}".encode("utf-8"), hashlib.sha256).digest())

    @property
    def user(self) -> Optional[User]:
        """The user who is logged in, as of the login; None for an anonymous session."""
        return None if self._record is None else user_from(self._record["user"])

    @property
    def since(self) -> float:
        """When the user logged in, in seconds since 1970; 0 for an anonymous session."""
        return 0.0 if self._record is None else float(self._record["since"])

    def owns(self, browser: str) -> bool:
        """Return whether something was bound to this browser, now or before its login.

        :param browser: of the session that it was bound to.
        """
        former = [] if self._record is None else self._record["former"]
        return any([hmac.compare_digest(browser.encode("utf-8"), one.encode("utf-8")) for one in (self.browser, *former)])

    def check(self, form: Mapping[str, str]) -> bool:
        """Return whether the token of a form that was posted is the token of this session and of its :attr:`form`."""
        given = form.get(CSRF_FIELD, "")
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self.csrf.encode("ascii"))

    def log_in(self, user: User) -> None:
        """Log a user in, under a new id: an attacker who has set the old id does not know the new one.

        :raises BackendError: the login cannot be stored.
        """
        former = [*([] if self._record is None or self._record["user"]["subject"] != user.subject else self._record["former"]),
                  self.browser]
        old = self.browser
        self._set_id(secrets.token_urlsafe(32))
        self._changed = True
        self._record = self._sessions.save(self.browser, user, former)
        self._sessions.drop(old)

    def log_out(self) -> None:
        """End the login; the browser gets a new id.

        :raises BackendError: the login cannot be removed.
        """
        self._sessions.drop(self.browser)
        self._record = None
        self._set_id(secrets.token_urlsafe(32))
        self._changed = True

    def headers(self) -> List[Tuple[str, str]]:
        """Return the headers for the response, which set the cookie if it has changed."""
        return [self._sessions.header(self._id)] if self._changed else []
