"""The seam of authorization: who asks over HTTP, with which scopes, and how a refusal tells where to get them.

Every request to an endpoint is authenticated after the origin policy (AUTH-12, AUS-24), and authorized by its scopes once it
is known what it asks for. ``Server(auth=...)`` brings the :class:`Authorizer` for that; the folder ``auth`` has one.
"""

from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.http.headers import parse_host
from ...protocol.http.oauth import write_challenge
from ...protocol.uris import url_path
from ...rpc.tracing import get_logger
from ...types import Implementation
from ..catalog.catalog import Target
from ..handling.http_request import HTTPRequest
from ..principals import Principal, all_scopes, least_scopes
from ..runtime.runtime import Runtime
from .access import OriginPolicy
from .messages import HTTPResponse, Rejection, names_modern

__all__ = ["Authorization", "Authorizer", "Refused"]

_log = get_logger(__name__)


class Refused(Exception):
    """A request is refused for lack of authorization.

    :param status: of the response.
    :param error: the code of RFC 6750; empty if no token was sent, or if the error is not the client's.
    :param description: what is wrong, for people; it quotes nothing that the client sent.
    """

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.error = error
        self.description = description


class Authorizer:
    """Says who asks. This base class is what a server without ``auth=`` has: the host names the principal, or there is none.

    One object serves all endpoints of a server, on threads that run at once. Each method gets the :class:`Authorization` of
    the endpoint, which knows the URL, the scopes and the name of what it protects.
    """

    #: Required by every request.
    scopes: Tuple[str, ...] = ()
    #: The scopes that clients may request at first; None for those of all requests and of everything that is registered.
    scopes_supported: Optional[Tuple[str, ...]] = None
    #: Which scopes a scope includes.
    implies: Mapping[str, Sequence[str]] = {}
    #: Whether a challenge names the scopes that the token has already; None for clients of revisions that lose them.
    repeat_granted: Optional[bool] = None
    #: The public URL of the endpoint; None if it is not known.
    resource: Optional[str] = None

    def routes(self, endpoint: "Authorization") -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return what it answers itself on every host, without authorization: functions by path.

        :raises ValueError: it cannot protect this endpoint; the text says why.
        """
        return {}

    def authenticate(self, request: HTTPRequest, endpoint: "Authorization") -> Optional[Principal]:
        """Return the principal of a request, by its headers: the body is not read yet (AUS-10).

        :raises Refused: the request is not accepted.
        """
        return request.principal

    def challenge(self, endpoint: "Authorization", resource: Optional[str], error: str, description: Optional[str],
                  scopes: Iterable[str]) -> str:
        """Return the value of ``WWW-Authenticate`` for a refusal (RFC 6750, section 3).

        :param resource: the URL of the endpoint, as far as the request proves it.
        """
        return self.bearer_challenge(error, description, scopes)

    @staticmethod
    def bearer_challenge(error: str, description: Optional[str], scopes: Iterable[str], realm: Optional[str] = None,
                         metadata: Optional[str] = None) -> str:
        """Return a challenge with these parameters; what is None or empty is left out."""
        return write_challenge("Bearer", {
            "realm": realm, "error": error or None, "error_description": description,
            "scope": " ".join(dict.fromkeys(scopes)) or None, "resource_metadata": metadata})


_HOST_AUTHENTICATES = Authorizer()


class Authorization:
    """Authenticates and authorizes the requests to one endpoint.

    :param runtime: of the server.
    :param origins: the origin policy of the endpoint.
    :param path: of the endpoint.
    :raises ValueError: the authorizer cannot protect the endpoint.
    """

    def __init__(self, runtime: Runtime, origins: OriginPolicy, path: str) -> None:
        self._catalog = runtime.catalog
        self.origins = origins
        self.path = path
        self._required = runtime.auth is not None
        self._authorizer: Authorizer = runtime.auth or _HOST_AUTHENTICATES
        #: What the authorizer answers itself, by path.
        self.routes = self._authorizer.routes(self)

    @property
    def info(self) -> Implementation:
        """The name and title of the server."""
        return self._catalog.description.info

    def scopes(self) -> List[str]:
        """Return the scopes of all requests, and of everything that is registered."""
        return [*self._authorizer.scopes, *self._catalog.registry.scopes()]

    def url_of(self, request: HTTPRequest) -> Optional[str]:
        """Return the endpoint's URL; None if it is not known.

        The Host header is chosen by the client and proves nothing, except where the origin policy only accepts loopback
        names (AUTH-15). Even then the port must be ours: a token for a server at another port is not for this one.
        """
        if not self._required or self._authorizer.resource is not None:
            return self._authorizer.resource
        ours = self.origins.loopback_only and not request.host_checked
        host = parse_host(request.headers.get("host") or "") if ours else None
        if host is None or request.port != (host[1] or 80):
            return None
        name, port = host
        return f"http://{name}" + (f":{port}" if port not in (None, 80) else "") + url_path(request.mount) + self.path

    # --- authentication -------------------------------------------------------------------------------------

    def authenticate(self, request: HTTPRequest) -> Optional[Rejection]:
        """Set the principal of a request, or return its refusal; does not read the body (AUS-10)."""
        if not self._required:
            return None
        if request.method == "OPTIONS" and self.origins.preflight(request.headers) is not None:
            return None  # browsers send preflight requests without a token
        request.principal = None  # with tokens required, a principal from the host is ignored
        try:
            request.principal = self._authorizer.authenticate(request, self)
        except Refused as refusal:
            return self._refused(refusal, request)
        # A POST is authorized with its message, so that one challenge names all required scopes (AUS-18).
        return None if request.method == "POST" else self.authorize(request, None)

    def _refused(self, refusal: Refused, request: HTTPRequest) -> Rejection:
        if refusal.status >= 500:
            busy = refusal.status == 503
            return Rejection(refusal.status, refusal.description, SERVER_BUSY if busy else INTERNAL_ERROR,
                             headers=[("Retry-After", "1")] if busy else [], close=True)
        challenge = self._challenge(request, refusal.error, refusal.description if refusal.error else None,
                                    self._authorizer.scopes)
        return Rejection(refusal.status, refusal.description, INVALID_REQUEST, headers=[challenge], close=True)

    # --- authorization --------------------------------------------------------------------------------------

    def authorize(self, request: HTTPRequest, message: Optional[jsonrpc.Message],
                  target: Optional[Target] = None) -> Optional[Rejection]:
        """Return the refusal of a request whose principal lacks a scope; None if it may be served.

        :param message: the body of a POST.
        :param target: what the message is about, if that is resolved already.
        """
        catalog = self._catalog
        needed = self._authorizer.scopes
        if catalog.registry.scoped and message is not None:
            needed = tuple(dict.fromkeys([*needed, *(catalog.scopes(message) if target is None else target.scopes)]))
        if not needed:
            return None
        principal = request.principal
        if principal is not None and principal.scopes.issuperset(needed):
            return None
        id = message.id if type(message) is jsonrpc.Request else None
        text = f"this requires the scopes: {' '.join(needed)}"
        if principal is None:
            _log.error("a request that requires the scopes %s was refused, since requests are not authenticated: give the"
                       " server auth=, or use a host that authenticates", " ".join(needed))
            return Rejection(403, text, id=id)
        _log.info("a request of %.200r was refused: it requires the scopes %s, and has %.1000s",
                  principal.subject, " ".join(needed), " ".join(sorted(principal.scopes)) or "none")
        challenge = self._challenge(request, "insufficient_scope", text, [*needed, *self._granted(principal, request)])
        return Rejection(403, text, id=id, headers=[challenge], close=message is None)

    def _granted(self, principal: Principal, request: HTTPRequest) -> List[str]:
        """Return the scopes that a challenge repeats (AUS-19)."""
        authorizer = self._authorizer
        repeat = authorizer.repeat_granted
        if not (not names_modern(request.headers) if repeat is None else repeat):
            return []
        known = {*self.scopes(), *authorizer.implies, *(authorizer.scopes_supported or ())}
        return list(least_scopes(principal.scopes & all_scopes(known, authorizer.implies), authorizer.implies))

    def _challenge(self, request: HTTPRequest, error: str, description: Optional[str], scopes: Iterable[str]
                   ) -> Tuple[str, str]:
        challenge = self._authorizer.challenge(self, self.url_of(request), error, description, scopes)
        return "WWW-Authenticate", challenge
