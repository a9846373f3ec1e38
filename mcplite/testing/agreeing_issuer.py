"""An authorization server for tests: on a port of this machine, with a user who agrees to everything.

It is a complete :class:`~mcplite.auth.Issuer`, but it shows no pages: it redirects any client that asks at ``/authorize`` back
at once. So a test logs in without a browser, and its tokens are verified, expire, are refreshed and revoked as real ones are.
"""

import contextlib
import http.client
import socket
import time
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Union
from urllib.parse import urlsplit

from ..auth.issuer.authorization_flow import AuthorizationFlow
from ..auth.issuer.issuer import Issuer
from ..auth.issuer.users import User, Users
from ..auth.login.code_flow import OAuth
from ..auth.login.stores import MemoryStore
from ..auth.login.user_agent import UserAgent, Visit
from ..auth.verify.bearer_auth import BearerAuth
from ..errors import AuthError, TransportError
from ..protocol.http.oauth import canonical
from ..server.app import Server, serve
from ..server.http.messages import HTTPResponse

__all__ = ["AgreeingIssuer", "issuer"]

#: Tries to listen at a port that was free.
_TRIES = 5
#: Seconds for an answer of the issuer.
_SECONDS = 30.0
#: Where clients of :meth:`AgreeingIssuer.login` are sent back to; no server listens there.
_REDIRECT_URI = "http://127.0.0.1/callback"


class AgreeingIssuer(Issuer):
    """The authorization server of a test; :func:`issuer` starts one.

    ``url`` is its issuer identifier. ``user`` is the :class:`~mcplite.auth.User` who is logged in and agrees to everything; a
    test may replace it, also by None: then each login is refused, and each refresh.
    """

    user: Optional[User]

    def __init__(self, url: str, user: Optional[User], **options: Any) -> None:
        self.user = user
        self._ahead = 0.0
        #: The URLs of the servers that are protected now; a token is for the last one, unless its client names another.
        self._protected: List[str] = []
        super().__init__(url, users=_OneUser(lambda: self.user), clock=lambda: time.time() + self._ahead, **options)

    def _begin(self, endpoint: Any) -> None:
        super()._begin(endpoint)
        # _AgreeingFlow differs in a few methods only, so the flow with all its parts can stay, and get this class.
        self._flow.__class__ = _AgreeingFlow
        assert isinstance(self._flow, _AgreeingFlow)
        self._flow.owner = self

    def advance(self, seconds: float) -> None:
        """Move the clock of the issuer, and of the servers that it protects, so that tokens expire without a wait."""
        self._ahead += seconds

    def token(self, scopes: Union[str, Iterable[str]] = (), *, subject: Optional[str] = None, resource: Optional[str] = None,
              client_id: str = "test") -> str:
        """Return a new access token, without a login.

        :param scopes: that the token has; a text has them with spaces between.
        :param subject: whose token it is; default: that of ``user``.
        :param resource: the URL of the server that it is for; default: the server that was protected last.
        :param client_id: the client that it was issued to.
        :raises ValueError: no subject is given, and there is no user.
        """
        user = self.user if subject is None or self.user is not None and self.user.subject == subject else User(subject)
        if user is None:
            raise ValueError("there is no user of this issuer; give token(..., subject='ann')")
        given = tuple(scopes.split() if isinstance(scopes, str) else scopes)
        grant = self._store.add(user, client_id, client_id, "", given, self.default_resource if resource is None else resource)
        return self._store.issue(grant, given, False)[0]

    @property
    def default_resource(self) -> str:
        """The URL that tokens are for by default: that of the server that was protected last, or that of the issuer."""
        return self._protected[-1] if self._protected else self._endpoint_url

    @property
    def _endpoint_url(self) -> str:
        assert self.resource is not None, "the issuer has begun"
        return self.resource

    def authorizer(self, scopes: Union[str, Iterable[str]] = (), *, implies: Optional[Mapping[str, Iterable[str]]] = None
                   ) -> BearerAuth:
        """Return the ``auth=`` of a server that accepts the tokens of this issuer.

        :param scopes: required by every request.
        :param implies: which scopes a scope includes.
        """
        return BearerAuth(self._verify_token, issuer=self.url, scopes=scopes, implies=implies, clock=self._clock)

    @contextlib.contextmanager
    def protect(self, server: Server, scopes: Union[None, str, Iterable[str]] = None) -> Iterator[str]:
        """Serve a server that accepts the tokens of this issuer, on a free port; give its URL.

        At the end of the block the server has its own ``auth=`` again.

        :param scopes: required by every request; default: those of the server's own ``auth=``, if it has any.
        """
        own = server.auth
        required: Iterable[str] = getattr(own, "scopes", ()) if scopes is None else scopes
        server.auth = self.authorizer(required, implies=getattr(own, "implies", None))
        try:
            with serve(server) as served:
                self._protected.append(served.url)
                try:
                    yield served.url
                finally:
                    self._protected.remove(served.url)
        finally:
            server.auth = own

    def login(self, **options: Any) -> OAuth:
        """Return an ``auth=`` for :func:`~mcplite.connect` that logs ``user`` in, by requests alone and without a browser.

        :param options: of :class:`~mcplite.OAuth`; by default the login is stored in memory.
        """
        options.setdefault("store", MemoryStore())
        return OAuth(ask=_Redirects(), **options)


class _OneUser(Users):
    """The user of a test, who is looked up in ``AgreeingIssuer.user`` each time."""

    def __init__(self, user: Callable[[], Optional[User]]) -> None:
        self._user = user

    def find(self, subject: str) -> Optional[User]:
        user = self._user()
        # The test itself has made a token for this other subject, and has chosen its scopes. So the user may have all scopes.
        return user if user is None or user.subject == subject else User(subject)


class _AgreeingFlow(AuthorizationFlow):
    """Finishes each transaction at once, instead of showing its first page."""

    owner: AgreeingIssuer

    def _asked_scopes(self, asked: Mapping[str, str]) -> List[str]:
        return [scope for scope in dict.fromkeys(asked.get("scope", "").split()) if scope != "offline_access"]

    def _asked_resource(self, asked: Mapping[str, str]) -> str:
        return canonical(asked["resource"]) if "resource" in asked else self.owner.default_resource

    def _show(self, page: str, id: str, transaction: Mapping[str, Any], session: Any, **more: Any) -> HTTPResponse:
        user = self.owner.user
        if user is not None:
            return self._finish(id, user, "")
        self._store.finish(id)
        return self._redirect(transaction["redirect_uri"], {
            "error": "access_denied", "error_description": "the test has no user", "state": transaction["state"]})


class _Redirects(UserAgent):
    """Requests the URL of a login, and takes the URL in the redirect as the one that a browser would end at."""

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        return _Redirected(preferred or _REDIRECT_URI)


class _Redirected(Visit):
    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        parts = urlsplit(url)
        if parts.scheme != "http":
            raise AuthError(f"the login of a test is for the issuer of the test, and not for {parts.scheme}://{parts.netloc}")
        connection = http.client.HTTPConnection(parts.netloc, timeout=_SECONDS)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            reply = connection.getresponse()
            found = reply.getheader("Location")
            if found is None:
                raise AuthError(f"{parts.netloc} did not send the client back, but answered with {reply.status}:"
                                f" {reply.read(2000).decode('utf-8', 'replace')}", status=reply.status)
        except OSError as error:
            raise AuthError(f"{parts.netloc} cannot be reached: {error}") from error
        finally:
            connection.close()
        return found


@contextlib.contextmanager
def issuer(user: Union[None, str, User] = "user", **options: Any) -> Iterator[AgreeingIssuer]:
    """Run an authorization server on a free port of this machine for the length of the block; needs ``mcplite[issuer]``.

    Its user agrees to everything, and is logged in for every client::

        with testing.issuer() as issuer, issuer.protect(mcp) as url:
            with mcplite.connect(url, auth=issuer.token("notes:read", subject="ann")) as client:
                assert client.call_tool("read").text == "milk"
            with mcplite.connect(url, auth=issuer.login()) as client:  # with registration, code, token and refresh
                assert client.call_tool("read").text == "milk"

    :param user: who is logged in, a :class:`~mcplite.auth.User` or its subject; with None logins are refused.
    :param options: of :class:`~mcplite.auth.Issuer`, such as ``access_seconds`` or ``registration``.
    :raises ImportError: Authlib is not installed.
    :raises ValueError: an option is not valid.
    """
    known = User(user) if isinstance(user, str) else user
    for left in reversed(range(_TRIES)):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        made = AgreeingIssuer(f"http://127.0.0.1:{port}", known, **options)
        try:
            served = serve(Server("issuer", auth=made), port=port)
            break
        except (OSError, TransportError):  # another program has taken the port meanwhile
            if not left:
                raise
    with served:
        yield made
