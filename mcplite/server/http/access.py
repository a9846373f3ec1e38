"""Who may use an endpoint: the origin policy, reverse proxies that are believed, and the seam of authorization.

The origin policy protects against DNS rebinding and cross-site requests: a web page in a browser can send requests to a
server on the same machine, and the Host and Origin headers reveal it (HTTP-32 to HTTP-34). This is the first check of every
request, for every path and method; :mod:`.endpoint` says which steps follow. Behind a trusted proxy the address of the
client is in ``X-Forwarded-For``.

Every request is authenticated after that (AUTH-12, AUS-24), and authorized by its scopes once it is known what it asks for;
a refusal tells where to get them. ``Server(auth=...)`` brings the :class:`Authorizer` for that; the folder ``auth`` has one.
"""

import re
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.error_text import Option, OptionText
from ...protocol.http.headers import DEFAULT_PORTS, Headers, parse_host, parse_origin
from ...protocol.http.oauth import is_loopback, write_challenge
from ...protocol.uris import url_path
from ...rpc.tracing import get_logger
from ...types import Implementation
from ..catalog.catalog import Target
from ..catalog.registry import granted_scopes
from ..handling.http_request import HTTPRequest
from ..principals import Principal, all_scopes, least_scopes
from ..runtime.runtime import Runtime
from .messages import HTTPResponse, Rejection, names_modern

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    from ...backend.interface import Backend

__all__ = ["Authorization", "Authorizer", "LOOPBACK", "OriginPolicy", "Refused", "TrustedProxies"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_CORS_METHODS = "POST, GET, DELETE, OPTIONS"
_REQUEST_HEADERS = ("Content-Type, Accept, Authorization, DPoP, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version,"
                    " Mcp-Method, Mcp-Name")
#: Headers of marked parameters; the tools of a server define their names.
_PARAMETER = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+")
_RESPONSE_HEADERS = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, DPoP-Nonce, Retry-After"
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
        #: Whether all accepted hosts are loopback names, so that only clients on this machine can use the endpoint.
        self.loopback_only = not self._any_host and all(is_loopback(host) for host, _ in self._hosts)

    def check(self, request: HTTPRequest) -> Optional[Rejection]:
        """Return the refusal of a request to a host, or from an origin, that is not accepted; None if both are accepted.

        If a web framework has checked the host by its own list, the host is accepted, and so are pages of that host.
        """
        headers = request.headers
        if (headers.known.get(self.admits) or headers.read_once(self.admits)) and not request.host_checked:
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
        return [("Access-Control-Allow-Methods", _CORS_METHODS), ("Access-Control-Allow-Headers", ", ".join(allowed)),
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

        Each proxy adds the address that it was reached from at the end. So the addresses are read from the last one on, and the
        first that is not a proxy's is the client's. Text that the client itself wrote stands before it, and is not read.

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


class Refused(Exception):
    """A request is refused for lack of authorization.

    :param status: of the response.
    :param error: the code of RFC 6750; empty if no token was sent, or if the error is not the client's.
    :param description: what is wrong, for people; it quotes nothing that the client sent.
    :param headers: further headers of the response.
    """

    def __init__(self, status: int, error: str, description: str, headers: Sequence[Tuple[str, str]] = ()) -> None:
        super().__init__(description)
        self.headers = headers
        self.status = status
        self.error = error
        self.description = description


class Authorizer:
    """Finds the principal of a request. This base class is for servers without ``auth=``: the host names it, or there is none.

    One object serves all endpoints of a server, on threads that run at once. Each method gets the :class:`Authorization` of
    the endpoint, which knows the URL, the scopes and the name of what it protects.
    """

    #: Required by every request.
    scopes: Tuple[str, ...] = ()
    #: The scopes that clients may request at first; None for those of all requests and of everything that is registered.
    scopes_supported: Optional[Tuple[str, ...]] = None
    #: Which scopes a scope includes.
    implies: Mapping[str, Sequence[str]] = {}
    #: Whether a challenge repeats the scopes that the token has already. None repeats them only for clients of revisions with a
    #: handshake, which lose them otherwise.
    repeat_granted: Optional[bool] = None
    #: The public URL of the endpoint; None if it is not known.
    resource: Optional[str] = None

    def routes(self, endpoint: "Authorization") -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return functions by path that answer requests without authorization, whichever host serves the endpoint.

        A function with the attribute ``any_origin`` answers web pages of any origin, with the methods that it names.

        :raises ValueError: it cannot protect this endpoint; the text says why.
        """
        return {}

    def authenticate(self, request: HTTPRequest, endpoint: "Authorization") -> Optional[Principal]:
        """Return the principal of a request, by its headers: the body is not read yet (AUS-10).

        :raises Refused: the request is not accepted.
        """
        return request.principal

    def note_missing_scopes(self, request: HTTPRequest) -> None:
        """Take note of a request that is refused, since its token has too few scopes."""

    def challenge(self, endpoint: "Authorization", resource: Optional[str], error: str, description: Optional[str],
                  scopes: Iterable[str]) -> str:
        """Return the value of ``WWW-Authenticate`` for a refusal (RFC 6750, section 3); empty if no header can help.

        :param resource: the URL of the endpoint, as far as the request proves it.
        """
        return self.bearer_challenge(error, description, scopes)

    @staticmethod
    def bearer_challenge(error: str, description: Optional[str], scopes: Iterable[str], realm: Optional[str] = None,
                         metadata: Optional[str] = None, scheme: str = "Bearer", algorithms: Sequence[str] = ()) -> str:
        """Return a challenge with these parameters; those that are None or empty are left out."""
        return write_challenge(scheme, {
            "realm": realm, "error": error or None, "error_description": description,
            "scope": " ".join(dict.fromkeys(scopes)) or None, "resource_metadata": metadata,
            "algs": " ".join(algorithms) or None})


_HOST_AUTHENTICATES = Authorizer()


class Authorization:
    """Authenticates and authorizes the requests to one endpoint.

    :param runtime: of the server.
    :param origins: the origin policy of the endpoint.
    :param path: of the endpoint.
    :raises ValueError: the authorizer cannot protect the endpoint.
    """

    def __init__(self, runtime: Runtime, origins: OriginPolicy, path: str) -> None:
        self._runtime = runtime
        self._catalog = runtime.catalog
        self.origins = origins
        self.path = path
        self._required = runtime.auth is not None
        self._authorizer: Authorizer = runtime.auth or _HOST_AUTHENTICATES
        #: The functions with which the authorizer answers requests itself, by path.
        self.routes = self._authorizer.routes(self)

    @property
    def info(self) -> Implementation:
        """The name and title of the server."""
        return self._catalog.description.info

    @property
    def backend(self) -> "Backend":
        """The backend that the processes of the server share; in a single process a backend in its memory."""
        return self._runtime.processes.backend

    def state_keys(self, given: "Sequence[Union[str, bytes]]" = ()) -> List[bytes]:
        """Return the secrets that all processes share: those given, of the server, or of MCPLITE_STATE_KEYS.

        :raises RegistrationError: one can be guessed.
        """
        import os

        from ..runtime.processes import read_keys

        fleet = self._runtime.fleet
        return list(fleet.keys) if fleet is not None and not given else read_keys(given, os.environ)

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
        if host is None:
            return None
        name, port = host
        scheme = request.scheme
        default = DEFAULT_PORTS[scheme]
        if request.port != (port or default):
            return None
        return f"{scheme}://{name}" + (f":{port}" if port not in (None, default) else "") + url_path(request.mount) + self.path

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
        refused = None if request.method == "POST" else self.authorize(request, None)
        return refused if isinstance(refused, Rejection) else None

    def _refused(self, refusal: Refused, request: HTTPRequest) -> Rejection:
        if refusal.status >= 500:
            busy = refusal.status == 503
            return Rejection(refusal.status, refusal.description, SERVER_BUSY if busy else INTERNAL_ERROR,
                             headers=[("Retry-After", "1")] if busy else [], close=True)
        challenges = self._challenges(request, refusal.error, refusal.description if refusal.error else None,
                                      self._authorizer.scopes)
        return Rejection(refusal.status, refusal.description, INVALID_REQUEST, headers=[*challenges, *refusal.headers],
                         close=True)

    # --- authorization --------------------------------------------------------------------------------------

    def authorize(self, request: HTTPRequest, message: Optional[jsonrpc.Message],
                  target: Optional[Target] = None) -> Union[None, Rejection, Target]:
        """Return the refusal of a request whose principal lacks a scope; None if it may be served.

        If entries are hidden from callers that lack their scopes, return the target that the principal sees in place of a
        hidden entry: the request is served as one for an entry that does not exist. For a batch, return None: such a target is
        found for each of its requests when it is served.

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
        if catalog.hides and message is not None:
            needed, granted = self._authorizer.scopes, granted_scopes(principal)
            if granted.issuperset(needed):
                if target is None or type(message) is not jsonrpc.Request:
                    return None
                _log.info("a request of %.200r for what its scopes do not allow is answered as one for what is not there",
                          None if principal is None else principal.subject)
                return catalog.visible(granted).resolve(message.method, message.params)
        id = message.id if type(message) is jsonrpc.Request else None
        text = f"this requires the scopes: {' '.join(needed)}"
        if principal is None:
            _log.error("a request that requires the scopes %s was refused, since requests are not authenticated: give the"
                       " server auth=, or use a host that authenticates", " ".join(needed))
            return Rejection(403, text, id=id)
        _log.info("a request of %.200r was refused: it requires the scopes %s, and has %.1000s",
                  principal.subject, " ".join(needed), " ".join(sorted(principal.scopes)) or "none")
        self._authorizer.note_missing_scopes(request)
        challenges = self._challenges(request, "insufficient_scope", text, [*needed, *self._granted(principal, request)])
        return Rejection(403, text, id=id, headers=challenges, close=message is None)

    def _granted(self, principal: Principal, request: HTTPRequest) -> List[str]:
        """Return the scopes that a challenge repeats (AUS-19)."""
        authorizer = self._authorizer
        repeat = authorizer.repeat_granted
        if not (not names_modern(request.headers) if repeat is None else repeat):
            return []
        known = {*self.scopes(), *authorizer.implies, *(authorizer.scopes_supported or ())}
        return list(least_scopes(principal.scopes & all_scopes(known, authorizer.implies), authorizer.implies))

    def _challenges(self, request: HTTPRequest, error: str, description: Optional[str], scopes: Iterable[str]
                    ) -> List[Tuple[str, str]]:
        challenge = self._authorizer.challenge(self, self.url_of(request), error, description, scopes)
        return [("WWW-Authenticate", challenge)] if challenge else []
