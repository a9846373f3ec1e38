"""Requests to authorization servers: bounded in size and time, and guarded against SSRF.

The MCP server chooses where they go, so each URL is checked before it is used: https only (or this machine), no private
networks, a megabyte, half a minute (AUTH-35 to AUTH-38).
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

from ...errors import AuthError, MCPError, ProtocolError, TransportError
from ...net.exchange import Exchange, Reply, Stopped
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings
from ...protocol.error_text import one_line, shown
from ...protocol.http.oauth import base_of, check_url, is_loopback, origin_of

__all__ = ["AddressGuard", "Answer", "Web", "is_address", "is_public"]

_BYTES = 1 << 20
_SECONDS = 30.0
#: Seconds that a read or write blocks at most before it checks whether the caller still waits.
_SLICE_SECONDS = 0.25
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
#: Characters of an error's description that are shown.
_LONGEST_DESCRIPTION = 200
#: Fields of a form that are secret.
_SECRETS = frozenset({"assertion", "client_assertion", "client_secret", "code", "code_verifier", "refresh_token",
                      "subject_token", "token"})
_Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Private networks that Python takes for global: the shared space of carriers (RFC 6598), site-local addresses (RFC 3879),
#: and translation within a network, where the bits of the IPv4 address are not known outside (RFC 8215).
_PRIVATE = tuple(map(ipaddress.ip_network, ("100.64.0.0/10", "fec0::/10", "64:ff9b:1::/48")))


def is_public(text: str) -> bool:
    """Return whether an address belongs to the internet; an IPv6 address that embeds an IPv4 address is judged by that."""
    try:
        address: _Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if any(address in network for network in _PRIVATE):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        embedded = _embedded(address)
        if embedded:
            return all(is_public(str(one)) for one in embedded)
        if (int(address) >> 32) & 0xFCFF_FFFF == 0x0000_5EFE and not is_public(str(_low(address))):
            return False  # ISATAP, which any network can use
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _embedded(address: ipaddress.IPv6Address) -> List[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address stands for."""
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
    """Return whether a host is an address, and not a name."""
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


class AddressGuard:
    """The guard against server-side request forgery (SSRF): checks the addresses of each new connection (AUTH-36).

    The MCP server names the URLs of its authorization servers, so that it could send the client to hosts of the client's
    own network. A public server may name public addresses only; a server at a private address may name any. The returned
    addresses are used without a second lookup, since the name may lead elsewhere by then (DNS rebinding).

    :param mcp_url: URL of the MCP server. Its own host is always allowed.
    :param address: where it was met. By default its name is looked up, which may lead elsewhere by now; so this machine is
        allowed then only if the URL itself names it.
    :param given: URLs that the caller has given, and not the server; their hosts are allowed as well.
    """

    def __init__(self, mcp_url: str, address: Optional[str] = None, given: Sequence[str] = ()) -> None:
        self._home = home = origin_of(mcp_url)[1]
        self._allowed = {home, *(origin_of(url)[1] for url in given)}
        #: Whether the server is at a private address; None before that is looked up.
        self._server_is_private: Optional[bool] = None if address is None else not is_public(address)
        #: Whether this machine is refused: the owner of the server's name can have it lead here at any moment.
        self._refuses_loopback = address is None and not (is_loopback(home) or is_address(home))

    def __call__(self, host: str, port: int) -> List[str]:
        """Return the addresses to connect to.

        :raises OSError: one of them is not allowed, or there is none.
        """
        name = host.strip("[]")
        if name.lower() in self._allowed:
            return [name]
        if self._server_is_private is None:
            self._server_is_private = _is_private(self._home, port)
        addresses = _resolve(name, port)
        if (not self._server_is_private and not all(map(is_public, addresses))
                or self._refuses_loopback and any(map(_is_loopback_address, addresses))):
            # Without the address itself: the server must not learn what a name means in our network.
            raise OSError(f"{name} is at an address of a private network, where a public server has nothing to send us to")
        return addresses


def _is_loopback_address(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    embedded = _embedded(address) if isinstance(address, ipaddress.IPv6Address) else []
    return any(one.is_loopback or one.is_unspecified for one in (address, *embedded))


def _is_private(host: str, port: int) -> bool:
    try:
        # A single private address proves nothing: the owner of the name can add any.
        return not any(map(is_public, _resolve(host, port)))
    except OSError:
        return False  # it is known to a proxy only


def _resolve(host: str, port: int) -> List[str]:
    found: List[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass
class Answer:
    """The answer of an authorization server."""

    status: int
    #: The JSON object of the body; empty when the body is something else.
    document: Dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @property
    def error(self) -> str:
        """The code of an OAuth error; empty for none."""
        code = self.document.get("error")
        return code[:100] if isinstance(code, str) else ""

    @property
    def accepted(self) -> bool:
        """Whether the server has done what it was asked: some say 201 or 203 with a token; some say 200 with an error."""
        return 200 <= self.status < 300 and not self.error

    def explain(self) -> str:
        """Return the server's description of an error, for people."""
        text = self.document.get("error_description")
        parts = [one_line(self.error), one_line(text, _LONGEST_DESCRIPTION) if isinstance(text, str) else ""]
        return ": ".join(filter(None, parts)) or f"status {self.status}"


class Web:
    """The requests of one attempt to get a token; connections last as long as the ``with`` block.

    :param mcp_url: URL of the MCP server that the token is for.
    :param settings: without credentials, which are for the MCP server alone.
    :param address: where that server was met, if it is known.
    :param given: URLs that the caller has given, which may be at private addresses.
    :param check: called before each read and write; raises when the caller no longer waits.
    """

    def __init__(self, mcp_url: str, settings: HTTPSettings = HTTPSettings(), *, address: Optional[str] = None,
                 given: Sequence[str] = (), check: Optional[Callable[[], object]] = None) -> None:
        self._guard = AddressGuard(mcp_url, address, given)
        self._settings = settings
        self._check = check
        self._clients: Dict[str, OriginClient] = {}

    def __enter__(self) -> "Web":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        for client in self._clients.values():
            client.close()

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Complete the requests of the block, within their own time, even when the caller no longer waits.

        A refresh token is used up by the request, so that its answer must not be lost (AUTH-34).
        """
        check, self._check = self._check, None
        try:
            yield
        finally:
            self._check = check

    def get(self, url: str, what: str, headers: Optional[Mapping[str, str]] = None) -> Optional[Dict[str, Any]]:
        """Return the JSON object at *url*; None when there is nothing (any status of 4xx).

        :param what: describes it in errors.
        :raises AuthError: it cannot be fetched, or is not a JSON object; ``status`` is that of the answer, if one came.
        """
        reply = self._send("GET", url, what, {"Accept": "application/json", **(headers or {})}, None)
        if 400 <= reply.status < 500:
            reply.close()
            return None
        if reply.status != 200:
            reply.close()
            raise AuthError(f"{what}, {shown(url)}, was answered with {reply.status}", status=reply.status)
        document = self._document(reply, what)
        if document is None:
            raise AuthError(f"{what}, {shown(url)}, is not a JSON object", status=reply.status)
        return document

    def post_form(self, url: str, what: str, fields: Mapping[str, Optional[str]],
                  headers: Optional[Mapping[str, str]] = None) -> Answer:
        """Post a form, without the fields that are None, and return the answer, whatever its status.

        :raises AuthError: no answer came.
        """
        body = urlencode({name: value for name, value in fields.items() if value is not None}).encode("ascii")
        answer = self._post(url, what, {**_FORM, **(headers or {})}, body)
        description = answer.document.get("error_description")
        if isinstance(description, str):  # some servers repeat what they were sent, and it goes into an error (AUTH-19)
            for name in _SECRETS & fields.keys():
                description = description.replace(fields[name] or "***", "***")
            answer.document["error_description"] = description
        return answer

    def post_json(self, url: str, what: str, document: Dict[str, Any]) -> Answer:
        """Post a JSON object and return the answer, whatever its status.

        :raises AuthError: no answer came.
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
            return self._client_for(url).send(self._exchange(url, what), method, url, headers, body)
        except AuthError:
            raise
        except TransportError as error:
            raise AuthError(f"{what} could not be reached: {error}", status=error.status) from error
        except (OSError, ValueError) as error:  # requests refuses some hosts that check_url allows
            raise AuthError(f"{what} could not be reached: {error}") from error

    def _document(self, reply: Reply, what: str) -> Optional[Dict[str, Any]]:
        try:
            data = reply.read(_BYTES)
        except (AuthError, Stopped):
            raise
        except MCPError as error:
            # It has come, but is too large or compressed; or it was cut off.
            status = reply.status if isinstance(error, ProtocolError) else 0
            raise AuthError(f"{what} could not be read: {error}", status=status) from error
        finally:
            reply.close()
        try:
            document = json.loads(data)
            # Lone surrogates could not be sent in a later request: as a scope, or a client's id.
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def _exchange(self, url: str, what: str) -> Exchange:
        end = time.monotonic() + _SECONDS

        def remaining() -> float:
            return end - time.monotonic()

        def next_timeout() -> float:
            if self._check is not None:
                self._check()
            seconds = remaining()
            if seconds <= 0:
                raise AuthError(f"{what}, {shown(url)}, was not answered within {_SECONDS:g} s")
            return min(seconds, _SLICE_SECONDS)

        return Exchange(next_timeout, remaining)

    def _client_for(self, url: str) -> OriginClient:
        base, (_, host, port) = base_of(url), origin_of(url)
        client = self._clients.get(base)
        if client is None:
            if is_address(host):
                self._guard(host, port)  # the client does not check addresses behind a proxy
            # With a path: requests adds one to a bare origin, and each request has its own.
            client = self._clients[base] = OriginClient(base + (urlsplit(url).path or "/"), self._settings, self._guard)
        return client
