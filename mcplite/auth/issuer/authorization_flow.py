"""The part of a login that a browser sees: from a client's request at ``/authorize`` back to the client with a code.

A transaction stores the client's request from page to page. It is bound to the browser that has begun it, by the digest of the
browser's cookie. Its last step removes it::

    /authorize --- own users ----> /login --> /consent -- allow --> code, at the client
        |                                        |
        |                                        deny ------------> error, at the client
        +--------- an upstream --> /consent -- allow --> the upstream --> /callback --> code, at the client

If a user has allowed a client at least as much before, and the client still has that grant, the user is not asked again. A user
ends a grant, and so the consent, on the account page. This is for clients on the web only: a code that is sent to loopback, or
to a scheme of a program, can reach any program on the user's machine. So for these clients the user is asked each time (RFC
8252, section 8.6).

An error is sent to the client only if its redirect URI is known to be registered; before that, a page shows the error. With an
upstream, the user is asked before the browser is sent there: the user may be logged in at the upstream already, and then it
would let a second client in without any question (confused deputy). Each form has the token of its browser and transaction.
"""

import math
import re
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlencode

from ...protocol.http.oauth import canonical
from ...rpc.tracing import get_logger
from ...server.handling.http_request import HTTPRequest
from ...server.http.messages import HTTPResponse
from .account import AccountPage, BadForm, PasswordLogin, read_form, read_query
from .browser_sessions import BrowserSession, BrowserSessions
from .client_registry import ClientRegistry, InvalidMetadata, OAuthClient, TooManyClients, web_host
from .grant_store import GrantStore
from .pages import ClientInfo, Pages
from .upstream_providers import UpstreamError
from .users import PasswordLimit, User, Users, allowed_scopes, user_members

if TYPE_CHECKING:
    from .upstream import UpstreamLogin
    from .upstream_grants import UpstreamGrants

__all__ = ["AuthorizationFlow"]

_log = get_logger(__name__)
#: Seconds for which a code can be redeemed (OAuth 2.1, section 4.1.2, allows ten minutes).
_CODE_SECONDS = 60.0
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
#: Characters of a client's state.
_LONGEST_STATE = 8192
#: Values of the parameter ``prompt`` (OpenID Connect, section 3.1.2.1) with which a client wants its user to be asked.
_ASKING = frozenset({"login", "consent", "select_account"})
#: The scope by which a client asks for refresh tokens. It is ignored here: each client that is registered for refresh tokens
#: gets them.
_OFFLINE = "offline_access"


class _Refused(Exception):
    """A client's request is refused, with an error for the client."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error


class AuthorizationFlow:
    """Answers the requests of browsers at one issuer.

    :param issuer: the URL of the issuer.
    :param store: keeps transactions and grants.
    :param clients: the clients that may ask for authorization.
    :param users: the users who log in with a password; None with an upstream.
    :param login: the login at the provider; None if users log in with a password.
    :param upstream: keeps the logins at the provider; None if users log in with a password.
    :param pages: makes the pages.
    :param scopes: returns the scopes that can be granted, each with its description; and those that a client gets by default.
    :param resources: the URLs that tokens can be for; the first one is used if a client names none.
    :param implies: which scopes a scope includes.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, issuer: str, store: GrantStore, clients: ClientRegistry, users: Optional[Users],
                 login: "Optional[UpstreamLogin]", upstream: "Optional[UpstreamGrants]", pages: Pages,
                 scopes: Callable[[], Tuple[Mapping[str, str], Sequence[str]]], resources: Sequence[str],
                 implies: Mapping[str, Iterable[str]], clock: Callable[[], float] = time.time) -> None:
        self._issuer, self._store, self._clients, self._pages = issuer, store, clients, pages
        self._provider, self._upstream = login, upstream
        self._scopes, self._resources, self._implies = scopes, resources, implies
        self._sessions = BrowserSessions(store.backend, issuer, clock=clock)
        self._password = None if users is None else PasswordLogin(pages, users, PasswordLimit(store.backend, clock))
        #: Answers ``/grants``.
        self.account = AccountPage(f"{issuer}/grants", pages, self._sessions, store, self._password,
                                   "" if login is None else login.title, None if login is None else self._begin_account)

    # --- a client's request -------------------------------------------------------------------------------------

    def authorize(self, request: HTTPRequest) -> HTTPResponse:
        """Answer ``/authorize``: begin a transaction, or refuse the request."""
        try:
            asked = read_query(request.query) if request.method == "GET" else read_form(request)
            client = self._client_of(asked, request)
            uri = self._redirect_uri_of(asked, client)
        except (BadForm, InvalidMetadata, _Refused) as error:
            _log.info("a request for authorization was refused: %s", error)
            return self._pages.error(400, "The app's request cannot be used", _sentence(str(error)))
        except TooManyClients as error:
            return self._too_many("Too many apps have asked", error)
        state = asked.get("state", "")
        try:
            transaction = self._transaction_of(asked, client, uri)
        except _Refused as error:
            return self._redirect(uri, {"error": error.error, "error_description": str(error), "state": state})
        session = self._sessions.open(request)
        transaction["browser"] = session.browser
        try:
            self._clients.count(request.sender, "logins")
        except TooManyClients as error:  # so a flood of logins that are never finished does not fill the store
            return self._too_many("Too many logins have begun", error)
        session.form = id = self._store.begin(transaction)
        return self._ask(id, transaction, session)

    def _too_many(self, title: str, error: TooManyClients) -> HTTPResponse:
        return self._pages.error(429, title, "Try again later.", [("Retry-After", str(math.ceil(error.seconds)))])

    def _client_of(self, asked: Mapping[str, str], request: HTTPRequest) -> OAuthClient:
        id = asked.get("client_id", "")
        if not id:
            raise _Refused("invalid_request", "the app has not said which one it is: client_id is missing")
        client = self._clients.find(id, request.sender)
        if client is None:
            raise _Refused("invalid_client", "this server does not know the app, or has not heard of it for long; remove the"
                                             " login from the app and log in again")
        return client

    def _redirect_uri_of(self, asked: Mapping[str, str], client: OAuthClient) -> str:
        uri = asked.get("redirect_uri") or client.get_default_redirect_uri()
        if uri is None or not client.check_redirect_uri(uri):
            raise _Refused("invalid_request", "the app wants to be told at an address that it has not registered"
                                              " (redirect_uri), so nothing is sent there")
        return uri

    def _transaction_of(self, asked: Mapping[str, str], client: OAuthClient, uri: str) -> Dict[str, Any]:
        """Return the transaction that stores a request.

        :raises _Refused: the request is not valid.
        """
        if asked.get("response_type") != "code":
            raise _Refused("unsupported_response_type", "response_type must be 'code'")
        if not client.check_grant_type("authorization_code"):
            raise _Refused("unauthorized_client", "the client is not registered for codes")
        if asked.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(asked.get("code_challenge", "")):
            raise _Refused("invalid_request", "PKCE is required: send code_challenge, and code_challenge_method=S256")
        state = asked.get("state", "")
        if len(state) > _LONGEST_STATE or not (state.isascii() and state.isprintable()):  # RFC 6749, appendix A.5
            raise _Refused("invalid_request", f"state is at most {_LONGEST_STATE} visible characters of ASCII")
        if "request" in asked or "request_uri" in asked:
            raise _Refused("request_not_supported", "request objects are not supported")
        return {"client_id": client.id, "client_name": client.info.name, "client_domain": client.domain, "redirect_uri": uri,
                "state": state, "challenge": asked["code_challenge"],
                "scopes": self._asked_scopes(asked), "resource": self._asked_resource(asked),
                "asks": not _ASKING.isdisjoint(asked.get("prompt", "").split())}

    def _asked_scopes(self, asked: Mapping[str, str]) -> List[str]:
        known, default = self._scopes()
        named = [scope for scope in asked.get("scope", "").split() if scope != _OFFLINE]
        found = [scope for scope in dict.fromkeys(named or default) if scope in known]
        if named and not found and known:
            raise _Refused("invalid_scope", "none of the scopes is known here")
        return found

    def _asked_resource(self, asked: Mapping[str, str]) -> str:
        named = asked.get("resource")
        if named is None:
            return self._resources[0]
        try:
            given = canonical(named) if "#" not in named else ""
        except ValueError:
            given = ""
        for resource in self._resources:
            if canonical(resource) == given:
                return resource
        raise _Refused("invalid_target", "this server issues no tokens for that resource")

    # --- pages ----------------------------------------------------------------------------------------------------

    def _ask(self, id: str, transaction: Dict[str, Any], session: BrowserSession) -> HTTPResponse:
        """Return the page that asks the user; if the user has agreed before, return the redirect to the next step instead."""
        user = session.user if self._password is None else self._password.user_of(session)
        if user is None or not self._has_agreed(transaction, user):
            return self._show("consent", id, transaction, session)
        if self._upstream is None:
            response = self._finish(id, user, "")
        else:
            transaction["agreed"] = True
            response = self._ask_upstream(id, transaction)
        response.headers.extend(session.headers())
        return response

    def _has_agreed(self, transaction: Mapping[str, Any], user: User) -> bool:
        host = web_host(transaction["redirect_uri"])
        return bool(host) and not transaction["asks"] and self._store.allows(
            user.subject, transaction["client_id"], host, transaction["resource"], self._allowed(transaction, user))

    def _show(self, page: str, id: str, transaction: Mapping[str, Any], session: BrowserSession, **more: Any
              ) -> HTTPResponse:
        """Return a page of a transaction, with the cookie if it has changed.

        If users log in with a password and no user is logged in, it is the login page, whatever *page* is.
        """
        user = self._user_of(session)
        if self._password is not None and user is None:
            page = "login"
        client = ClientInfo(transaction["client_id"], transaction["client_name"], transaction["client_domain"])
        action = f"{self._issuer}/{page}?transaction={id}"
        csrf = session.csrf
        if page == "login":
            response = self._pages.login(action=action, csrf=csrf, client=client, **more)
        else:
            known, allowed = self._scopes()[0], self._allowed(transaction, user)
            asked = [(scope, known.get(scope, "")) for scope in transaction["scopes"]]
            response = self._pages.consent(
                action=action, csrf=csrf, client=client, user=user,
                scopes=[one for one in asked if one[0] in allowed],
                refused=[one for one in asked if one[0] not in allowed],
                redirect_uri=transaction["redirect_uri"], upstream="" if self._provider is None else self._provider.title,
                other_user=f"{self._issuer}/login?transaction={id}&other=1" if user else "", **more)
        response.headers.extend(session.headers())
        return response

    def _user_of(self, session: BrowserSession) -> Optional[User]:
        return None if self._password is None else self._password.user_of(session)

    def _allowed(self, transaction: Mapping[str, Any], user: Optional[User]) -> List[str]:
        return allowed_scopes(transaction["scopes"], user, self._implies)

    def _opened(self, request: HTTPRequest) -> Tuple[str, Dict[str, Any], BrowserSession]:
        """Return the transaction that a page is about, and the session of its browser.

        :raises BadForm: there is none, or it belongs to another browser.
        """
        id = read_query(request.query).get("transaction", "")
        transaction, session = self._store.transaction(id), self._sessions.open(request, id)
        if transaction is None:
            raise BadForm("this login has taken too long, or was finished already; begin again in the app")
        if not session.owns(transaction["browser"]):
            raise BadForm("this login was begun in another browser, or cookies are not kept; begin again in the app")
        return id, transaction, session

    def _page(self, request: HTTPRequest, answer: Callable[[str, Dict[str, Any], BrowserSession], HTTPResponse]
              ) -> HTTPResponse:
        try:
            return answer(*self._opened(request))
        except BadForm as error:
            return self._pages.error(400, "This login cannot go on", _sentence(str(error)))

    def login(self, request: HTTPRequest) -> HTTPResponse:
        """Answer ``/login``: show the form, or check a name and a password."""
        return self._page(request, lambda id, transaction, session: self._login(request, id, transaction, session))

    def _login(self, request: HTTPRequest, id: str, transaction: Dict[str, Any], session: BrowserSession) -> HTTPResponse:
        if self._password is None:
            return self._show("consent", id, transaction, session)
        if request.method == "GET":
            return self._show("login", id, transaction, session)
        client = ClientInfo(transaction["client_id"], transaction["client_name"], transaction["client_domain"])
        action = f"{self._issuer}/login?transaction={id}"
        refused = self._password.enter(request, session, read_form(request), action=action, client=client)
        if refused is not None:
            refused.headers.extend(session.headers())
            return refused
        transaction["browser"] = session.browser
        self._store.change(id, transaction)
        return HTTPResponse(303, [("Location", f"{self._issuer}/consent?transaction={id}"), ("Cache-Control", "no-store"),
                                  *session.headers()])

    def consent(self, request: HTTPRequest) -> HTTPResponse:
        """Answer ``/consent``: ask whether the client gets access, or do what the user has answered."""
        return self._page(request, lambda id, transaction, session: self._consent(request, id, transaction, session))

    def _consent(self, request: HTTPRequest, id: str, transaction: Dict[str, Any], session: BrowserSession) -> HTTPResponse:
        user = self._user_of(session)
        if request.method == "GET":
            return self._ask(id, transaction, session)
        if self._password is not None and user is None:
            return self._show("consent", id, transaction, session)
        form = read_form(request)
        if not session.check(form):
            return self._show("consent", id, transaction, session, error="form_expired")
        if form.get("decision") != "allow":
            self._store.finish(id)
            return self._redirect(transaction["redirect_uri"], {
                "error": "access_denied", "error_description": "the user has not agreed", "state": transaction["state"]})
        if self._upstream is not None:
            return self._ask_upstream(id, transaction)
        assert user is not None
        return self._finish(id, user, "")

    def _finish(self, id: str, user: User, upstream_grant: str) -> HTTPResponse:
        """Send the browser back to the client, with a code for the access that the user has allowed."""
        transaction = self._store.finish(id)
        if transaction is None:  # the form was sent twice at once
            raise BadForm("this login was finished already")
        code = self._store.issue_code({
            **{name: transaction[name] for name in ("client_id", "redirect_uri", "challenge", "resource")},
            "scopes": self._allowed(transaction, user), "user": user_members(user), "upstream_grant": upstream_grant},
            _CODE_SECONDS)
        return self._redirect(transaction["redirect_uri"], {"code": code, "state": transaction["state"]})

    def _redirect(self, uri: str, parameters: Mapping[str, str]) -> HTTPResponse:
        """Return a redirect to the client, whose parameters also name this issuer (RFC 9207)."""
        query = urlencode({name: value for name, value in {**parameters, "iss": self._issuer}.items() if value})
        return HTTPResponse(303, [("Location", f"{uri}{'&' if '?' in uri else '?'}{query}"), ("Cache-Control", "no-store"),
                                  ("Referrer-Policy", "no-referrer")])

    # --- the upstream ---------------------------------------------------------------------------------------------

    @property
    def _callback(self) -> str:
        return f"{self._issuer}/callback"

    def _ask_upstream(self, id: str, transaction: Dict[str, Any]) -> HTTPResponse:
        assert self._upstream is not None and self._provider is not None
        try:
            url = self._upstream.begin(self._provider.name, transaction, self._callback, id)
        except UpstreamError as error:
            return self._upstream_failed(id, transaction, error)
        self._store.change(id, transaction)
        return HTTPResponse(303, [("Location", url), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer")])

    def callback(self, request: HTTPRequest) -> HTTPResponse:
        """Answer ``/callback``, to which the upstream sends the browser back after the login."""
        transaction: Optional[Dict[str, Any]] = None
        try:
            query = read_query(request.query)
            id = query.get("state", "")
            transaction, session = self._store.transaction(id), self._sessions.open(request)
            if self._upstream is None or transaction is None or "upstream" not in transaction:
                raise BadForm("this login has taken too long, or was finished already; begin again in the app")
            if not session.owns(transaction["browser"]):
                raise BadForm("this login was begun in another browser, or cookies are not kept; begin again in the app")
            if self._store.finish(id) is None:
                raise BadForm("this login was finished already")
            noted = transaction.pop("upstream")
            # If the response comes several times, only one request gets here. The transaction is stored again for what follows.
            self._store.change(id, transaction)
            user, grant = self._upstream.finish(query, {"upstream": noted}, self._callback)
            session.log_in(user)
            if transaction.pop("agreed", False) and not self._has_agreed(transaction, user):
                # The user who has logged in has not agreed to this: it is another user, or may grant more scopes by now.
                self._upstream.forget(grant)
                session.form = id
                self._store.change(id, transaction)
                return self._show("consent", id, transaction, session)
            response = self._finish(id, user, grant) if "client_id" in transaction else self._finish_account(id, grant)
        except BadForm as error:
            return self._pages.error(400, "This login cannot go on", _sentence(str(error)))
        except UpstreamError as error:
            assert transaction is not None
            return self._upstream_failed(id, transaction, error)
        response.headers.extend(session.headers())
        return response

    def _begin_account(self, request: HTTPRequest, session: BrowserSession) -> HTTPResponse:
        """Begin a login that no client has asked for; it leads to the user's page."""
        try:
            self._clients.count(request.sender, "logins")
        except TooManyClients as error:
            return self._too_many("Too many logins have begun", error)
        transaction = {"browser": session.browser}
        return self._ask_upstream(self._store.begin(transaction), transaction)

    def _finish_account(self, id: str, grant: str) -> HTTPResponse:
        assert self._upstream is not None
        self._store.finish(id)
        self._upstream.forget(grant)  # the provider's tokens are for the handlers of a client's calls, and here is no client
        return HTTPResponse(303, [("Location", f"{self._issuer}/grants"), ("Cache-Control", "no-store")])

    def _upstream_failed(self, id: str, transaction: Mapping[str, Any], error: UpstreamError) -> HTTPResponse:
        _log.info("the login at the provider failed: %s", error)
        if error.error == "invalid_request" or "client_id" not in transaction:
            return self._pages.error(400, "This login cannot go on", _sentence(str(error)))
        self._store.finish(id)
        known = error.error in ("access_denied", "temporarily_unavailable", "server_error")
        return self._redirect(transaction["redirect_uri"], {
            "error": error.error if known else "server_error", "error_description": str(error),
            "state": transaction["state"]})


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
