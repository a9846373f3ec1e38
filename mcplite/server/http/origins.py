"""Who may knock: the Host and Origin rules of one endpoint, and CORS for origins that are named.

A page in somebody's browser can send requests to a server on the same machine; the two headers say that
it did (HTTP-32 to HTTP-34). The rules hold for every path and every method.
"""

import re
from typing import List, Optional, Sequence, Tuple

from ...protocol.http.headers import Headers, parse_host, parse_origin
from ...protocol.http.wellknown import is_loopback

__all__ = ["Gate"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_METHODS = "POST, GET, DELETE, OPTIONS"
_REQUEST_HEADERS = ("Content-Type, Accept, Authorization, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method,"
                    " Mcp-Name")
#: Headers of marked parameters, whose names are the server's tools'.
_PARAMETER = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+")
_RESPONSE_HEADERS = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
_DAY = "86400"


class Gate:
    """The rules of one endpoint.

    :param hosts: the names that clients may call this server by, without a port for any port; ``"*"`` for
        any. By default the loopback names.
    :param origins: the origins whose pages may talk to it, such as ``https://app.example``. They get CORS headers.
        Pages that come from one of *hosts* are let in besides, without.
    :raises ValueError: a host or an origin is not written as one.
    """

    def __init__(self, hosts: Optional[Sequence[str]] = None, origins: Sequence[str] = ()) -> None:
        if isinstance(hosts, str) or isinstance(origins, str):
            raise ValueError("allowed_hosts and allowed_origins are lists of names, not one string")
        self._any_host = hosts is not None and "*" in hosts
        self._hosts = set()
        for name in LOOPBACK if hosts is None else hosts:
            parsed = parse_host(name)
            if parsed is None and name != "*":
                raise ValueError(f"{name!r} in allowed_hosts is no host name; write 'example.com' or 'example.com:8443'")
            if parsed is not None:
                self._hosts.add(parsed)
        self._origins = set()
        for origin in origins:
            known = parse_origin(origin)
            if known is None:
                raise ValueError(f"{origin!r} in allowed_origins is no origin; write 'https://app.example'")
            self._origins.add(known)

    @property
    def loopback_only(self) -> bool:
        """Whether only clients on this machine can mean us by a name of ours."""
        return not self._any_host and all(is_loopback(host) for host, _ in self._hosts)

    def admits_host(self, value: Optional[str]) -> bool:
        """Whether a request with this ``Host`` is for us (HTTP-34)."""
        if self._any_host:
            return True
        host = parse_host(value or "")
        return host is not None and (host in self._hosts or (host[0], None) in self._hosts)

    def admits_origin(self, value: Optional[str]) -> bool:
        """Whether a request with this ``Origin``, or without one, may come in (HTTP-32, HTTP-33)."""
        if value is None:
            return True
        origin = parse_origin(value)
        if origin is None:
            return False
        scheme, host, port = origin
        return origin in self._origins or (host, port) in self._hosts or (host, None) in self._hosts

    def cors(self, value: Optional[str]) -> List[Tuple[str, str]]:
        """Return the headers that let a named origin's page read the response."""
        if value is None or parse_origin(value) not in self._origins:
            return []
        return [("Access-Control-Allow-Origin", value), ("Access-Control-Expose-Headers", _RESPONSE_HEADERS),
                ("Vary", "Origin")]

    def preflight(self, headers: Headers) -> Optional[List[Tuple[str, str]]]:
        """Return what answers a browser's question before a request, besides :meth:`cors`; None when it is none."""
        if not self.cors(headers.get("origin")) or "access-control-request-method" not in headers:
            return None
        asked = [name.strip(" \t") for name in (headers.get("access-control-request-headers") or "").lower().split(",")]
        allowed = [_REQUEST_HEADERS, *filter(_PARAMETER.fullmatch, asked[:100])]
        return [("Access-Control-Allow-Methods", _METHODS), ("Access-Control-Allow-Headers", ", ".join(allowed)),
                ("Access-Control-Max-Age", _DAY)]
