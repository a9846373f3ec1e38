"""Login by a form with a name and a password, and a user's own page: the apps that act for them, and how to end that.

The page has the states of its browser's session::

    anonymous -- a login --> logged in: the list of grants -- a logout --> anonymous
                             logged in -- the end of a grant --> logged in

Each change is a POST with the token of a form, and is answered by a redirect to the page (303), so that a reload changes
nothing.
"""

from typing import Callable, Dict, List, Optional, Tuple
from urllib.parse import parse_qsl

from ...protocol.http.headers import media_type
from ...rpc.tracing import get_logger
from ...server.handling.http_request import HTTPRequest
from ...server.http.messages import HTTPResponse
from .browser_sessions import BrowserSession, BrowserSessions
from .pages import ClientInfo, GrantInfo, Pages
from .users import PasswordLimit, TooManyAttempts, User, Users

__all__ = ["AccountPage", "BadForm", "PasswordLogin", "UserGrants", "read_form", "read_query"]

_log = get_logger(__name__)
#: Bytes of a form, and its fields.
_LONGEST_FORM, _MOST_FIELDS = 65_536, 50


class BadForm(ValueError):
    """A form or a query cannot be used; the text says why."""


def read_form(request: HTTPRequest) -> Dict[str, str]:
    """Return the fields of a form that was posted; an empty field counts as missing (RFC 6749, section 3.1).

    :raises BadForm: the body is no form, is not UTF-8, has a field twice, or has too many fields.
    :raises UnreadableBody: the body is too large.
    """
    if media_type(request.headers.get("content-type")) != "application/x-www-form-urlencoded":
        raise BadForm("the content type of a form is application/x-www-form-urlencoded")
    try:
        return read_query(request.read(_LONGEST_FORM).decode("utf-8"))
    except UnicodeDecodeError:
        raise BadForm("the form is not UTF-8") from None


def read_query(query: str) -> Dict[str, str]:
    """Return the parameters of a query.

    :raises BadForm: as of :func:`read_form`.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadForm("the parameters are malformed, or too many") from None
    if len(dict(pairs)) < len(pairs):
        raise BadForm("a parameter is there twice")
    return {name: value for name, value in pairs if value}


class PasswordLogin:
    """Answers the form of a login.

    :param users: who may log in.
    :param limit: of attempts.
    """

    def __init__(self, pages: Pages, users: Users, limit: PasswordLimit) -> None:
        self._pages = pages
        self._users = users
        self._limit = limit

    def user_of(self, session: BrowserSession) -> Optional[User]:
        """Return the user who is logged in, with the present scopes; None for a user who is gone, or has a new password.

        If users cannot be looked up, None is returned as well; the page with the form of the login says so when it is posted.
        """
        known = session.user
        if known is None:
            return None
        try:
            found = self._users.find(known.subject)
        except OSError as failure:
            _log.error("users cannot be looked up: %s: %s", type(failure).__name__, failure)
            return None
        return found if found is not None and found.version == known.version else None

    def enter(self, request: HTTPRequest, session: BrowserSession, form: Dict[str, str], *, action: str,
              client: Optional[ClientInfo] = None) -> Optional[HTTPResponse]:
        """Log in the user of a form; return the page to show again, or None after the login.

        :param session: of the browser; its headers belong into the response, since it has a new id after the login.
        :param action: the URL that the form is posted to; see :meth:`Pages.login`.
        :param client: the client that waits for the login; None for a login without one.
        :raises BackendError: attempts cannot be counted, or the login cannot be stored.
        """
        name, error, seconds = form.get("username", ""), "form_expired", 0.0
        user: Optional[User] = None
        if session.check(form):
            error = "wrong_password"
            try:
                user = self._limit.check(self._users, name, form.get("password", ""), request.sender)
            except TooManyAttempts as refused:
                error, seconds = "too_many_attempts", refused.seconds
            except OSError as failure:
                error = "users_unavailable"
                _log.error("users cannot be looked up: %s: %s", type(failure).__name__, failure)
        if user is not None:
            session.log_in(user)
            return None
        return self._pages.login(action=action, csrf=session.csrf, client=client, error=error, name=name, seconds=seconds)


class UserGrants:
    """What the page of a user needs of the grants; :class:`GrantStore` implements it."""

    def grants_of(self, subject: str) -> List[GrantInfo]:
        """Return the grants of a user, the newest first."""
        raise NotImplementedError

    def end_grant(self, subject: str, id: str) -> bool:
        """End a grant of a user with all its tokens; return whether there was one of this user."""
        raise NotImplementedError


class AccountPage:
    """The page of a user, at one URL.

    :param url: of the page.
    :param sessions: of the browsers.
    :param grants: of the users.
    :param login: by name and password; None if users log in at a provider.
    :param provider: the title of the provider, for people.
    :param begin: called with the request and the session; returns the redirect to the login at the provider, which leads back
        to the page.
    """

    def __init__(self, url: str, pages: Pages, sessions: BrowserSessions, grants: UserGrants, login: Optional[PasswordLogin],
                 provider: str = "", begin: Optional[Callable[[HTTPRequest, BrowserSession], HTTPResponse]] = None) -> None:
        self._url = url
        self._pages = pages
        self._sessions = sessions
        self._grants = grants
        self._login = login
        self._provider = provider
        self._begin = begin

    def __call__(self, request: HTTPRequest) -> HTTPResponse:
        """Answer a request for the page."""
        if request.method not in ("GET", "HEAD", "POST"):
            return self._pages.error(405, "This cannot be done here", "Open the page in a browser.",
                                     [("Allow", "GET, HEAD, POST"), ("Connection", "close")])
        session = self._sessions.open(request, "account")
        response = self._post(request, session) if request.method == "POST" else self._show(session, request.query)
        response.headers += session.headers()
        return response

    def _user_of(self, session: BrowserSession) -> Optional[User]:
        return session.user if self._login is None else self._login.user_of(session)

    def _show(self, session: BrowserSession, query: str = "", error: str = "") -> HTTPResponse:
        user = self._user_of(session)
        if user is not None:
            return self._pages.grants(action=self._url, csrf=session.csrf, user=user, ended=query == "ended",
                                      grants=self._grants.grants_of(user.subject))
        if self._login is not None:
            return self._pages.login(action=self._url, csrf=session.csrf, error=error)
        if self._begin is not None:
            return self._pages.provider(action=self._url, csrf=session.csrf, error=error, upstream=self._provider)
        return self._pages.error(403, "You are not logged in", "Log in from an app that uses this server, then come back.")

    def _post(self, request: HTTPRequest, session: BrowserSession) -> HTTPResponse:
        try:
            form = read_form(request)
        except BadForm as problem:
            text = str(problem)
            return self._pages.error(400, "This form cannot be read", f"{text[:1].upper()}{text[1:]}.",
                                     [("Connection", "close")])
        user = self._user_of(session)
        if user is None:
            if self._login is not None:
                refused = self._login.enter(request, session, form, action=self._url)
                return self._back() if refused is None else refused
            if self._begin is None or not session.check(form):
                return self._show(session, error="form_expired")
            return self._begin(request, session)
        if not session.check(form):
            return self._pages.error(403, "This form is no longer valid", "Open the page again, and repeat it there.")
        if form.get("decision") == "logout":
            session.log_out()
            return self._back()
        if form.get("decision") == "end":
            ended = self._grants.end_grant(user.subject, form.get("grant", ""))
            return self._back("?ended" if ended else "")
        return self._back()

    def _back(self, query: str = "") -> HTTPResponse:
        headers: List[Tuple[str, str]] = [("Location", self._url + query), ("Cache-Control", "no-store")]
        return HTTPResponse(303, headers)
