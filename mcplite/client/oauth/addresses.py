"""Which addresses a server may send us to: none of a private network, unless it is in one itself (AUTH-36, AUTH-37)."""

import ipaddress
import socket
from typing import Any, Callable, List, Optional, Sequence, Union

from ...protocol.http.wellknown import is_loopback, origin_of

__all__ = ["is_address", "is_public", "make_guard"]

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
