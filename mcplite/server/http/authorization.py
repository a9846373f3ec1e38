"""Authorization of an endpoint: bearer tokens, scopes, challenges, and the protected resource metadata (RFC 9728).

Every request to the endpoint is authenticated here after the origin policy (AUTH-12, AUS-24), and authorized by its
scopes once it is known what it asks for; only the metadata is public.
"""

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Tuple
from urllib.parse import urlsplit

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.http.headers import parse_host
from ...protocol.http.oauth import PROTECTED_RESOURCE, base_of, write_challenge
from ...protocol.uris import decoded_path, url_path
from ...rpc.tracing import INFO, get_logger
from ..catalog.request_target import Target
from ..handling.http_request import HTTPRequest
from ..principals import Principal, all_scopes, least_scopes
from ..runtime.runtime import Runtime
from .messages import HTTPResponse, Rejection, names_modern
from .origins import OriginPolicy

if TYPE_CHECKING:
    from ...auth.verify.bearer_auth import BearerAuth, Refused

__all__ = ["Authorization"]

_log = get_logger(__name__)
_METADATA_METHODS = "GET, HEAD, OPTIONS"


class Authorization:
    """Authenticates and authorizes the requests to one endpoint.

    :param runtime: of the server.
    :param origins: the origin policy of the endpoint.
    :param path: of the endpoint.
    :raises ValueError: the endpoint's URL is required and not given.
    """

    def __init__(self, runtime: Runtime, origins: OriginPolicy, path: str) -> None:
        self._catalog = runtime.catalog
        self._origins = origins
        self._path = path
        self._log = runtime.log
        auth = self._auth = runtime.auth
        if auth is not None and auth.issuers and auth.resource is None and not origins.loopback_only:
            raise ValueError("clients must be told which URL their tokens are for; give BearerAuth(...,"
                             " resource='https://mcp.example.com/mcp')")

    @property
    def publishes(self) -> bool:
        """Whether protected resource metadata is served; without an authorization server there is none."""
        return self._auth is not None and bool(self._auth.issuers)

    def routes(self) -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return the handlers of the metadata by path (AUS-07)."""
        if not self.publishes:
            return {}
        ours = urlsplit((self._auth and self._auth.resource) or "").path.rstrip("/")
        return {PROTECTED_RESOURCE + decoded_path(path): self._serve_metadata for path in ("", self._path, ours)}

    # --- authentication -------------------------------------------------------------------------------------

    def authenticate(self, request: HTTPRequest) -> Optional[Rejection]:
        """Set the principal of a request, or return its refusal; does not read the body (AUS-10)."""
        auth = self._auth
        if auth is None:
            return None
        if request.method == "OPTIONS" and self._origins.preflight(request.headers) is not None:
            return None  # browsers send preflight requests without a token
        from ...auth.verify.bearer_auth import Refused, bearer_token

        resource = self._resource(request)
        request.principal = None  # with tokens required, a principal from the host is ignored
        try:
            token = bearer_token(request.headers.all("authorization"))
            if token is None:
                raise Refused(401, "", "this server requires an access token; send 'Authorization: Bearer ...'")
            request.principal = auth.identify(token, resource)
        except Refused as refusal:
            return self._refused(refusal, auth, resource)
        # A POST is authorized with its message, so that one challenge names all required scopes (AUS-18).
        return None if request.method == "POST" else self.authorize(request, None)

    def _refused(self, refusal: "Refused", auth: "BearerAuth", resource: Optional[str]) -> Rejection:
        if refusal.status >= 500:
            busy = refusal.status == 503
            return Rejection(refusal.status, refusal.description, SERVER_BUSY if busy else INTERNAL_ERROR,
                             headers=[("Retry-After", "1")] if busy else [], close=True)
        challenge = self._challenge(auth, resource, refusal.error, refusal.description if refusal.error else None, auth.scopes)
        return Rejection(refusal.status, refusal.description, INVALID_REQUEST, headers=[challenge], close=True)

    # --- authorization --------------------------------------------------------------------------------------

    def authorize(self, request: HTTPRequest, message: Optional[jsonrpc.Message],
                  target: Optional[Target] = None) -> Optional[Rejection]:
        """Return the refusal of a request whose sender lacks a scope; None if it may be served.

        :param message: the body of a POST.
        :param target: what the message is about, if that is resolved already.
        """
        auth, catalog = self._auth, self._catalog
        needed: Tuple[str, ...] = () if auth is None else auth.scopes
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
        self._log.log(_log, INFO, "a request of %.200r was refused: it requires the scopes %s, and has %.1000s",
                      principal.subject, " ".join(needed), " ".join(sorted(principal.scopes)) or "none")
        challenge = self._challenge(auth, self._resource(request), "insufficient_scope", text,
                                    [*needed, *self._granted(principal, request)])
        return Rejection(403, text, id=id, headers=[challenge], close=message is None)

    def _granted(self, principal: Principal, request: HTTPRequest) -> List[str]:
        """Return the scopes that a challenge repeats (AUS-19)."""
        auth = self._auth
        implies = {} if auth is None else auth.implies
        repeat = None if auth is None else auth.repeat_granted
        if not (not names_modern(request.headers) if repeat is None else repeat):
            return []
        known = {*self._scopes(), *implies, *((auth and auth.scopes_supported) or ())}
        return list(least_scopes(principal.scopes & all_scopes(known, implies), implies))

    def _scopes(self) -> List[str]:
        return [*(() if self._auth is None else self._auth.scopes), *self._catalog.registry.scopes()]

    def _challenge(self, auth: "Optional[BearerAuth]", resource: Optional[str], error: str, description: Optional[str],
                   scopes: Iterable[str]) -> Tuple[str, str]:
        """Return the header with the challenge (RFC 6750, section 3)."""
        return "WWW-Authenticate", write_challenge("Bearer", {
            "realm": None if auth is None else auth.realm, "error": error or None, "error_description": description,
            "scope": " ".join(dict.fromkeys(scopes)) or None,
            "resource_metadata": self._metadata_url(resource) if resource is not None and self.publishes else None})

    # --- metadata -------------------------------------------------------------------------------------------

    def _resource(self, request: HTTPRequest) -> Optional[str]:
        """Return the endpoint's URL; None if it is not known.

        The Host header is chosen by the client and proves nothing, except where the origin policy only accepts loopback
        names (AUTH-15). Even then the port must be ours: a token for a server at another port is not for this one.
        """
        if self._auth is None or self._auth.resource is not None:
            return None if self._auth is None else self._auth.resource
        ours = self._origins.loopback_only and not request.host_checked
        host = parse_host(request.headers.get("host") or "") if ours else None
        if host is None or request.port != (host[1] or 80):
            return None
        name, port = host
        return f"http://{name}" + (f":{port}" if port not in (None, 80) else "") + url_path(request.mount) + self._path

    def _metadata_url(self, resource: str) -> str:
        """Return the public URL of the metadata, at a path that this server really serves."""
        base, path = base_of(resource), url_path(urlsplit(resource).path.rstrip("/"))
        if path == self._path or not path.endswith(self._path):
            return base + PROTECTED_RESOURCE + path
        # Mounted, or behind a proxy that strips a prefix: only paths below the prefix are sure to arrive here.
        above = path[:len(path) - len(self._path)]
        return base + above + PROTECTED_RESOURCE + self._path

    def _serve_metadata(self, request: HTTPRequest) -> HTTPResponse:
        auth, resource = self._auth, self._resource(request)
        if request.method == "OPTIONS":
            allowed = self._origins.preflight(request.headers)
            if allowed is not None:
                return HTTPResponse(204, allowed)
        if request.method not in ("GET", "HEAD"):
            return HTTPResponse(405, [("Content-Type", "text/plain"), ("Allow", _METADATA_METHODS), ("Connection", "close")])
        assert auth is not None
        if resource is None:
            return HTTPResponse(404, [("Content-Type", "text/plain")],
                                [b"this server does not know its URL under this host and port\n"])
        scopes = self._scopes() if auth.scopes_supported is None else auth.scopes_supported
        info = self._catalog.description.info
        document: Dict[str, Any] = {
            "resource": resource, "authorization_servers": list(auth.issuers), "bearer_methods_supported": ["header"],
            "scopes_supported": list(dict.fromkeys(scopes)) or None, "resource_name": info.title or info.name,
            "resource_documentation": auth.documentation}
        content = json.dumps({name: value for name, value in document.items() if value is not None})
        return HTTPResponse(200, [("Content-Type", "application/json")], [content.encode("ascii")])
