"""The origin policy of an endpoint: checks of the Host and Origin headers, and CORS.

Protects against DNS rebinding and cross-site requests: a web page in a browser can send requests to a server on the
same machine, and the two headers reveal it (HTTP-32 to HTTP-34). This is the first check of every request, for every
path and method; :mod:`.endpoint` says which steps follow.

The reverse proxies that a server believes: behind them, the client's address is in ``X-Forwarded-For``.

Authorization of an endpoint: bearer tokens, scopes, challenges, and the protected resource metadata (RFC 9728).

Every request to the endpoint is authenticated here after the origin policy (AUTH-12, AUS-24), and authorized by its
scopes once it is known what it asks for; only the metadata is public.
"""

import json
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.error_text import Option, OptionText
from ...protocol.http.headers import DEFAULT_PORTS, Headers, parse_host, parse_origin
from ...protocol.http.oauth import PROTECTED_RESOURCE, base_of, is_loopback, write_challenge
from ...protocol.uris import decoded_path, url_path
from ...rpc.tracing import get_logger
from ..catalog.request_target import Target
from ..handling.http_request import HTTPRequest
from ..principals import Principal, all_scopes, least_scopes
from ..runtime.runtime import Runtime
from .messages import HTTPResponse, Rejection, names_modern

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    from ...auth.verify.bearer_auth import BearerAuth, Refused

__all__ = ["Authorization", "LOOPBACK", "OriginPolicy", "TrustedProxies"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_METHODS = "POST, GET, DELETE, OPTIONS"
_REQUEST_HEADERS = ("Content-Type, Accept, Authorization, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method,"
                    " Mcp-Name")
#: Headers of marked parameters; the tools of a server define their names.
_PARAMETER = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+")
_RESPONSE_HEADERS = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
_DAY = "86400"


class OriginPolicy:
    """The hosts and origins that one endpoint accepts.

    :param hosts: the accepted host names, without a port for any port; ``"*"`` accepts any host. Default: the loopback
        names.
    :param origins: the origins whose web pages may use the endpoint, such as ``https://app.example``; they get CORS
        headers. Pages of an origin on one of *hosts* are accepted as well, without CORS headers.
    :raises ValueError: a host or an origin is malformed.
    """

    def __init__(self, hosts: Optional[Sequence[str]] = None, origins: Sequence[str] = ()) -> None:
        if isinstance(hosts, str) or isinstance(origins, str):
            raise ValueError("allowed_hosts and allowed_origins must be lists of names, not one string")
        self._any_host = hosts is not None and "*" in hosts
        self._hosts = set()
        for name in LOOPBACK if hosts is None else hosts:
            parsed = parse_host(name)
            if parsed is None and name != "*":
                raise ValueError(OptionText(f"{name!r} in ", Option("allowed_hosts", "allowed_hosts"), " is not a host name;"
                                            " write 'example.com' or 'example.com:8443'"))
            if parsed is not None:
                self._hosts.add(parsed)
        self._origins = set()
        for origin in origins:
            known = parse_origin(origin)
            if known is None:
                raise ValueError(OptionText(f"{origin!r} in ", Option("allowed_origins", "allowed_origins"),
                                            " is not an origin; write 'https://app.example'"))
            self._origins.add(known)

    @property
    def loopback_only(self) -> bool:
        """Whether all accepted hosts are loopback names, so that only clients on this machine can use the endpoint."""
        return not self._any_host and all(is_loopback(host) for host, _ in self._hosts)

    def check(self, request: HTTPRequest) -> Optional[Rejection]:
        """Return the refusal of a request to a host, or from an origin, that is not accepted; else None.

        Where a web framework has checked the host by its own list, that counts, and pages of that host are accepted.
        """
        if request.headers.read_once(self.admits) and not request.host_checked:
            return None
        host, origin = request.headers.get("host"), request.headers.get("origin")
        if not (request.host_checked or self.admits_host(host)):
            return Rejection(421, f"this server does not accept requests for the host {(host or '')[:100]!r};"
                                  " its allowed_hosts lists the accepted names", close=True)
        if not (self.admits_origin(origin) or request.host_checked and _is_same(origin, host)):
            return Rejection(403, f"web pages of the origin {(origin or '')[:100]!r} may not use this server;"
                                  " its allowed_origins lists the accepted origins", close=True)
        return None

    def admits(self, headers: Headers) -> bool:
        """Whether a request with these headers is accepted by the names of this policy."""
        return self.admits_host(headers.get("host")) and self.admits_origin(headers.get("origin"))

    def admits_host(self, value: Optional[str]) -> bool:
        """Whether a request with this ``Host`` header is accepted (HTTP-34)."""
        if self._any_host:
            return True
        host = parse_host(value or "")
        return host is not None and (host in self._hosts or (host[0], None) in self._hosts)

    def admits_origin(self, value: Optional[str]) -> bool:
        """Whether a request with this ``Origin`` header, or without one, is accepted (HTTP-32, HTTP-33)."""
        if value is None:
            return True
        origin = parse_origin(value)
        if origin is None:
            return False
        scheme, host, port = origin
        return origin in self._origins or (host, port) in self._hosts or (host, None) in self._hosts

    def cors(self, value: Optional[str]) -> List[Tuple[str, str]]:
        """Return the CORS headers that let a page of an allowed origin read the response; empty for other origins."""
        if value is None or parse_origin(value) not in self._origins:
            return []
        return [("Access-Control-Allow-Origin", value), ("Access-Control-Expose-Headers", _RESPONSE_HEADERS),
                ("Vary", "Origin")]

    def preflight(self, headers: Headers) -> Optional[List[Tuple[str, str]]]:
        """Return the CORS preflight headers, besides those of :meth:`cors`; None if this is not a preflight request."""
        if not self.cors(headers.get("origin")) or "access-control-request-method" not in headers:
            return None
        requested = [name.strip(" \t") for name in (headers.get("access-control-request-headers") or "").lower().split(",")]
        allowed = [_REQUEST_HEADERS, *filter(_PARAMETER.fullmatch, requested[:100])]
        return [("Access-Control-Allow-Methods", _METHODS), ("Access-Control-Allow-Headers", ", ".join(allowed)),
                ("Access-Control-Max-Age", _DAY)]


def _is_same(origin: Optional[str], host: Optional[str]) -> bool:
    """Whether pages of an origin come from the host that this request is for, at the same port."""
    page, ours = parse_origin(origin or ""), parse_host(host or "")
    if page is None or ours is None:
        return False
    scheme, name, port = page
    default = DEFAULT_PORTS.get(scheme)
    return name == ours[0] and (port or default) == (ours[1] or default)


#: The name of all proxies that reach the server over a Unix socket, where a connection has no address.
_UNIX = "unix"


class TrustedProxies:
    """Tells the address of a request's client.

    :param networks: addresses and networks, such as ``"127.0.0.1"`` and ``"10.0.0.0/8"``, and ``"unix"`` for Unix sockets.
    :raises ValueError: one of them is neither.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        from ipaddress import ip_network  # for servers behind a proxy

        if isinstance(networks, str):
            networks = (networks,)
        self._unix = _UNIX in networks
        self._networks: "List[Union[IPv4Network, IPv6Network]]" = []
        for network in networks:
            if network == _UNIX:
                continue
            try:
                self._networks.append(ip_network(network))
            except ValueError:
                raise ValueError(OptionText(
                    f"{network!r} in ", Option("trusted_proxies", "trusted_proxies"),
                    " is not an address, a network such as '10.0.0.0/8', or 'unix'")) from None

    def client(self, address: str, headers: Headers) -> str:
        """Return the address that sent a request.

        Each proxy adds the address that it was reached from, so the addresses count from the last one on: the first that is
        not a proxy's is the client's. What the client itself wrote into the header stands before it, and is not looked at.

        :param address: of the connection; empty for a Unix socket.
        """
        forwarded = headers.get("x-forwarded-for")
        if forwarded is None or not self._trusts(address):
            return address
        for text in reversed(forwarded.split(",")):
            found = _parse(text)
            if found is None:
                break  # such as "unknown"
            address = str(found)
            if not self._trusts(address):
                break
        return address

    def _trusts(self, address: str) -> bool:
        if not address:
            return self._unix
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def _parse(text: str) -> "Union[None, IPv4Address, IPv6Address]":
    """Return an address, with or without a port; None if it is none."""
    from ipaddress import ip_address

    text = text.strip(" \t\"")
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


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
        _log.info("a request of %.200r was refused: it requires the scopes %s, and has %.1000s",
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
