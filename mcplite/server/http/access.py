"""The names and addresses that an endpoint believes: of hosts, of web pages' origins (with CORS), and of reverse proxies.

The origin policy protects against DNS rebinding and cross-site requests: a web page in a browser can send requests to a
server on the same machine, and the Host and Origin headers reveal it (HTTP-32 to HTTP-34). This is the first check of every
request, for every path and method; :mod:`.endpoint` says which steps follow. Behind a trusted proxy the address of the
client is in ``X-Forwarded-For``.
"""

import re
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple, Union

from ...protocol.error_text import Option, OptionText
from ...protocol.http.headers import DEFAULT_PORTS, Headers, parse_host, parse_origin
from ...protocol.http.oauth import is_loopback
from ..handling.http_request import HTTPRequest
from .messages import Rejection

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

__all__ = ["LOOPBACK", "OriginPolicy", "TrustedProxies"]

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
