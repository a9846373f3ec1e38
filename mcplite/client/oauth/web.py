"""Requests to authorization servers: bounded in size and time, and never where they must not go.

Metadata comes from whoever the MCP server names, so nothing of it is believed before it is looked at: only https (or
this machine), no private networks, a megabyte, half a minute (AUTH-35 to AUTH-38).
"""

import contextlib
import ipaddress
import json
import socket
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Type, Union
from urllib.parse import urlencode, urlsplit

from ...errors import AuthError, MCPError, TransportError
from ...net.exchange import Exchange, Stopped
from ...net.link import Link, Reply
from ...protocol.http.wellknown import base_of, check_url, is_loopback, origin_of
from ...protocol.show import printable, shown

__all__ = ["Answer", "Web", "is_address", "is_public", "make_guard", "plain"]

_Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: What Python takes for global: the shared space of carriers (RFC 6598), the sites of old (RFC 3879), and translation
#: within a network, where nobody outside knows which bits are the other address (RFC 8215).
_INNER = tuple(map(ipaddress.ip_network, ("100.64.0.0/10", "fec0::/10", "64:ff9b:1::/48")))


def is_public(text: str) -> bool:
    """Whether an address belongs to the internet; forms of IPv6 that carry an IPv4 address are judged by that."""
    try:
        address: _Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if any(address in network for network in _INNER):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inside = _carried(address)
        if inside:
            return all(is_public(str(one)) for one in inside)
        if (int(address) >> 32) & 0xFCFF_FFFF == 0x0000_5EFE and not is_public(str(_low(address))):
            return False  # ISATAP, which is of any network
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _carried(address: ipaddress.IPv6Address) -> List[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address stands for, whose own network says nothing."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    is_compatible = int(address) >> 32 == 0 and int(address) > 1
    return [_low(address)] if is_compatible or address in _NAT64 else []


def _low(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)


def is_address(host: str) -> bool:
    """Whether a host is no name."""
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def make_guard(server: str, address: Optional[str] = None, given: Sequence[str] = ()) -> Callable[[str, int], List[str]]:
    """Return what looks at each address before it is connected to.

    :param server: URL of the server that names where to go. Its own host is always allowed; when that is at a private
        address, all others are.
    :param address: that it was found at; by default its name is looked up, which may lead elsewhere by now, so that this
        machine is allowed then only to a server that is here by its very name.
    :param given: URLs that the caller has given, and not the server; their hosts are allowed as well.
    :returns: for :func:`make_adapter`: takes a host and a port, returns the addresses to connect to, and raises OSError
        when one of them may not be used.
    """
    home = origin_of(server)[1]
    allowed = {home, *(origin_of(url)[1] for url in given)}
    private: Optional[bool] = None if address is None else not is_public(address)
    # Whoever names the server can have the name lead here whenever they like (AUTH-36).
    keeps_out = address is None and not (is_loopback(home) or is_address(home))

    def guard(host: str, port: int) -> List[str]:
        nonlocal private
        name = host.strip("[]")
        if name.lower() in allowed:
            return [name]
        if private is None:
            private = _is_private(home, port)
        addresses = _resolve(name, port)
        if not private and not all(map(is_public, addresses)) or keeps_out and any(map(_is_here, addresses)):
            # Not the address itself: what a name means inside of our network is none of the server's business.
            raise OSError(f"{name} is at an address of a private network, where a public server has nothing to send us to")
        return addresses

    return guard


def _is_here(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    inside = _carried(address) if isinstance(address, ipaddress.IPv6Address) else []
    return any(one.is_loopback or one.is_unspecified for one in (address, *inside))


def _is_private(host: str, port: int) -> bool:
    try:
        # One address of several proves nothing: whoever names the server can add any.
        return not any(map(is_public, _resolve(host, port)))
    except OSError:
        return False  # it is known to a proxy only


def _resolve(host: str, port: int) -> List[str]:
    found: List[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


_BYTES = 1 << 20
_SECONDS = 30.0
_SLICE = 0.25
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_SHOWN = 200
#: Fields of a form that nobody else may see.
_SECRETS = frozenset({"assertion", "client_assertion", "client_secret", "code", "code_verifier", "refresh_token", "subject_token",
                      "token"})


@dataclass
class Answer:
    """What an authorization server has answered."""

    status: int
    #: The JSON object of the body; empty when there is none.
    document: Dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @property
    def error(self) -> str:
        """The code of an OAuth error, or nothing."""
        code = self.document.get("error")
        return code[:100] if isinstance(code, str) else ""

    def explain(self) -> str:
        """Return what it said of an error, for people."""
        text = self.document.get("error_description")
        parts = [plain(self.error), plain(text)[:_SHOWN] if isinstance(text, str) else ""]
        return ": ".join(filter(None, parts)) or f"status {self.status}"


def plain(text: str) -> str:
    """Return what another said in one line that steers no terminal."""
    return printable(" ".join(text.split()))


class Web:
    """The requests of one attempt to get a token; connections last as long as the ``with`` block.

    :param server: URL of the MCP server for whose sake all this is done.
    :param verify: as for ``requests``.
    :param proxies: as for ``requests``.
    :param address: of that server, if it is known.
    :param given: URLs that the caller has given, which may be at private addresses.
    :param left: raises when nobody waits for the outcome any more.
    """

    def __init__(self, server: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None,
                 address: Optional[str] = None, given: Sequence[str] = (), left: Callable[[], object] = bool) -> None:
        self._guard = make_guard(server, address, given)
        self._options: Dict[str, Any] = {"verify": verify, "proxies": proxies, "guard": self._guard}
        self._left = left
        self._links: Dict[str, Link] = {}

    def __enter__(self) -> "Web":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        for link in self._links.values():
            link.close()

    @contextlib.contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Let requests in the block end, within their own time, also when nobody waits any more.

        A refresh token is used up by the request, whoever hears the answer (AUTH-34).
        """
        left, self._left = self._left, bool
        try:
            yield
        finally:
            self._left = left

    def get(self, url: str, what: str, headers: Optional[Mapping[str, str]] = None) -> Optional[Dict[str, Any]]:
        """Return the JSON object at *url*; None when there is nothing (any status of 4xx).

        :param what: whose it is, for errors.
        :raises AuthError: it cannot be fetched, or is no JSON object.
        """
        reply = self._send("GET", url, what, {"Accept": "application/json", **(headers or {})}, None)
        if 400 <= reply.status < 500:
            reply.close()
            return None
        if reply.status != 200:
            reply.close()
            raise AuthError(f"{what}, {shown(url)}, was answered with {reply.status}")
        document = self._document(reply, what)
        if document is None:
            raise AuthError(f"{what}, {shown(url)}, is no JSON object")
        return document

    def post_form(self, url: str, what: str, fields: Mapping[str, Optional[str]],
                  headers: Optional[Mapping[str, str]] = None) -> Answer:
        """Post a form, without the fields that are None, and return the answer, whatever its status.

        :raises AuthError: there is none.
        """
        body = urlencode({name: value for name, value in fields.items() if value is not None}).encode("ascii")
        answer = self._post(url, what, {**_FORM, **(headers or {})}, body)
        said = answer.document.get("error_description")
        if isinstance(said, str):  # some say what they have got, and it goes into an error (AUTH-19)
            for name in _SECRETS & fields.keys():
                said = said.replace(fields[name] or "***", "***")
            answer.document["error_description"] = said
        return answer

    def post_json(self, url: str, what: str, document: Dict[str, Any]) -> Answer:
        """Post a JSON object and return the answer, whatever its status.

        :raises AuthError: there is none.
        """
        return self._post(url, what, _JSON, json.dumps(document).encode("utf-8"))

    def _post(self, url: str, what: str, headers: Mapping[str, str], body: bytes) -> Answer:
        reply = self._send("POST", url, what, headers, body)
        return Answer(reply.status, self._document(reply, what) or {}, reply.headers)

    def _send(self, method: str, url: str, what: str, headers: Mapping[str, str], body: Optional[bytes]) -> Reply:
        try:
            check_url(url, what)
        except ValueError as error:
            raise AuthError(str(error)) from error
        try:
            return self._link(url).fetch(self._exchange(url, what), method, url, headers, body)
        except AuthError:
            raise
        except (TransportError, OSError, ValueError) as error:  # requests has its own idea of which hosts there are
            raise AuthError(f"{what} could not be reached: {error}") from error

    def _document(self, reply: Reply, what: str) -> Optional[Dict[str, Any]]:
        try:
            data = reply.read(_BYTES)
        except (AuthError, Stopped):
            raise
        except MCPError as error:
            raise AuthError(f"{what} could not be read: {error}") from error
        finally:
            reply.close()
        try:
            document = json.loads(data)
            # Lone surrogates could not be sent on: as a scope, or a client's id.
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def _exchange(self, url: str, what: str) -> Exchange:
        end = time.monotonic() + _SECONDS

        def in_all() -> float:
            return end - time.monotonic()

        def left() -> float:
            self._left()
            remaining = in_all()
            if remaining <= 0:
                raise AuthError(f"{what}, {shown(url)}, was not answered within {_SECONDS:g} s")
            return min(remaining, _SLICE)

        return Exchange(left, in_all)

    def _link(self, url: str) -> Link:
        base, (_, host, port) = base_of(url), origin_of(url)
        link = self._links.get(base)
        if link is None:
            if is_address(host):
                self._guard(host, port)  # also where a proxy connects, and would find it
            # A path: requests writes one for a bare origin, and each request says its own.
            link = self._links[base] = Link(base + (urlsplit(url).path or "/"), **self._options)
        return link
