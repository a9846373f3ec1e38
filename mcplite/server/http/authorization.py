"""The guard of an endpoint: who comes in, what they may do, and where the others are told to get a token.

Every request to every door of the endpoint passes here, right behind the gate (AUTH-12, AUS-24). The description of
the endpoint as a protected resource (RFC 9728) is open to all.
"""

import json
import logging
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Tuple
from urllib.parse import urlsplit

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.http import challenges
from ...protocol.http.headers import parse_host
from ...protocol.http.wellknown import PROTECTED_RESOURCE, base_of
from ..auth.principals import all_scopes, least_scopes
from ..catalog.scopes import needed_scopes
from ..runtime.runtime import Runtime
from .decision import Reject, names_modern
from .messages import HTTPRequest, HTTPResponse
from .origins import Gate

if TYPE_CHECKING:
    from ..auth.bearer import BearerAuth, Refused
    from ..auth.principals import Principal

__all__ = ["Guard"]

_log = logging.getLogger(__name__)
_DOCUMENT_METHODS = "GET, HEAD, OPTIONS"


class Guard:
    """The guard of one endpoint.

    :param runtime: of the server.
    :param gate: which names and origins the endpoint answers to.
    :param path: of the endpoint.
    :raises ValueError: the endpoint's URL is needed and not known.
    """

    def __init__(self, runtime: Runtime, gate: Gate, path: str) -> None:
        self._runtime = runtime
        self._catalog = runtime.catalog
        self._gate = gate
        self._path = path
        auth = self._auth = runtime.auth
        if auth is not None and auth.issuers and auth.resource is None and not gate.loopback_only:
            raise ValueError("clients have to be told which URL their tokens are for: say BearerAuth(...,"
                             " resource='https://mcp.example.com/mcp')")

    @property
    def publishes(self) -> bool:
        """Whether there is a description of the endpoint: without an authorization server there is nothing to say."""
        return self._auth is not None and bool(self._auth.issuers)

    def routes(self) -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return where the description is served (AUS-07)."""
        if not self.publishes:
            return {}
        ours = urlsplit((self._auth and self._auth.resource) or "").path.rstrip("/")
        return {PROTECTED_RESOURCE + path: self._describe for path in ("", self._path, ours)}

    # --- who comes in ---------------------------------------------------------------------------------------

    def admit(self, request: HTTPRequest) -> Optional[Reject]:
        """Note who sends a request, or return its refusal; its body is not read yet (AUS-10)."""
        auth = self._auth
        if auth is None:
            return None
        if request.method == "OPTIONS" and self._gate.preflight(request.headers) is not None:
            return None  # a browser asks without a token whether it may send one
        from ..auth.bearer import Refused, bearer_token

        resource = self._resource(request)
        request.principal = None  # a host that says something itself does not count beside a token
        try:
            token = bearer_token(request.headers.all("authorization"))
            if token is None:
                raise Refused(401, "", "this server needs an access token: send 'Authorization: Bearer ...'")
            request.principal = auth.identify(token, resource)
        except Refused as refusal:
            return self._refused(refusal, auth, resource, request)
        # What is posted is judged with what it needs besides, so that one challenge names all of it (AUS-18).
        return None if request.method == "POST" else self.permit(request, None)

    def _refused(self, refusal: "Refused", auth: "BearerAuth", resource: Optional[str], request: HTTPRequest) -> Reject:
        if refusal.status >= 500:
            busy = refusal.status == 503
            return Reject(refusal.status, refusal.description, SERVER_BUSY if busy else INTERNAL_ERROR,
                          headers=[("Retry-After", "1")] if busy else [], close=True)
        challenge = self._challenge(auth, resource, request, refusal.error, refusal.description if refusal.error else None,
                                    auth.scopes)
        return Reject(refusal.status, refusal.description, INVALID_REQUEST, headers=[challenge], close=True)

    # --- what they may do -----------------------------------------------------------------------------------

    def permit(self, request: HTTPRequest, message: Optional[jsonrpc.Message]) -> Optional[Reject]:
        """Return the refusal of a request whose sender lacks a scope; None for one that may be served.

        :param message: what was posted.
        """
        auth, catalog = self._auth, self._catalog
        needed: Tuple[str, ...] = () if auth is None else auth.scopes
        if catalog.registry.scoped and message is not None:
            needed = tuple(dict.fromkeys([*needed, *needed_scopes(catalog, message, self._runtime.limits.uri)]))
        if not needed:
            return None
        principal = request.principal
        if principal is not None and principal.scopes.issuperset(needed):
            return None
        id = message.id if type(message) is jsonrpc.Request else None
        text = f"this needs the scopes: {' '.join(needed)}"
        if principal is None:
            _log.error("a request was refused that needs the scopes %s, since nobody tells who sends it: give the server"
                       " auth=, or a host that does", " ".join(needed))
            return Reject(403, text, id=id)
        _log.info("a request of %r was refused: it needs the scopes %s, and has %s", principal.subject, " ".join(needed),
                  " ".join(sorted(principal.scopes)) or "none")
        challenge = self._challenge(auth, self._resource(request), request, "insufficient_scope", text,
                                    [*needed, *self._granted(principal, request)])
        return Reject(403, text, id=id, headers=[challenge], close=message is None)

    def _granted(self, principal: "Principal", request: HTTPRequest) -> List[str]:
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

    def _challenge(self, auth: "Optional[BearerAuth]", resource: Optional[str], request: HTTPRequest, error: str,
                   description: Optional[str], scopes: Iterable[str]) -> Tuple[str, str]:
        """Return the header that says what is missing (RFC 6750, section 3)."""
        return "WWW-Authenticate", challenges.write("Bearer", {
            "realm": None if auth is None else auth.realm, "error": error or None, "error_description": description,
            "scope": " ".join(dict.fromkeys(scopes)) or None,
            "resource_metadata": self._described_at(resource, request) if resource is not None and self.publishes else None})

    # --- what they are told -----------------------------------------------------------------------------------

    def _resource(self, request: HTTPRequest) -> Optional[str]:
        """Return the endpoint's URL; None when it cannot be known.

        What a client calls us says nothing of who we are, but on this machine, to which the gate has kept it (AUTH-15).
        Even there a token for a server at another port is none for this one.
        """
        if self._auth is None or self._auth.resource is not None:
            return None if self._auth is None else self._auth.resource
        host = parse_host(request.headers.get("host") or "") if self._gate.loopback_only else None
        if host is None or request.port != (host[1] or 80):
            return None
        name, port = host
        return f"http://{name}" + (f":{port}" if port not in (None, 80) else "") + request.mount + self._path

    def _described_at(self, resource: str, request: HTTPRequest) -> str:
        """Return a URL of the description that is really served, as seen from outside."""
        base, path = base_of(resource), urlsplit(resource).path.rstrip("/")
        if path == self._path or not path.endswith(self._path):
            return base + PROTECTED_RESOURCE + path
        # Mounted, or behind something that takes a prefix off: only what is below the prefix comes here for sure.
        above = path[:len(path) - len(self._path)]
        return base + above + PROTECTED_RESOURCE + self._path

    def _describe(self, request: HTTPRequest) -> HTTPResponse:
        auth, resource = self._auth, self._resource(request)
        if request.method == "OPTIONS":
            allowed = self._gate.preflight(request.headers)
            if allowed is not None:
                return HTTPResponse(204, allowed)
        if request.method not in ("GET", "HEAD"):
            return HTTPResponse(405, [("Content-Type", "text/plain"), ("Allow", _DOCUMENT_METHODS), ("Connection", "close")])
        assert auth is not None
        if resource is None:
            return HTTPResponse(404, [("Content-Type", "text/plain")], [b"this server is not known by this name and port\n"])
        scopes = self._scopes() if auth.scopes_supported is None else auth.scopes_supported
        info = self._catalog.description.info
        document: Dict[str, Any] = {
            "resource": resource, "authorization_servers": list(auth.issuers), "bearer_methods_supported": ["header"],
            "scopes_supported": list(dict.fromkeys(scopes)) or None, "resource_name": info.title or info.name,
            "resource_documentation": auth.documentation}
        content = json.dumps({name: value for name, value in document.items() if value is not None})
        return HTTPResponse(200, [("Content-Type", "application/json")], [content.encode("ascii")])
