"""The reverse proxies that a server believes: behind them, the client's address is in ``X-Forwarded-For``."""

from typing import TYPE_CHECKING, List, Sequence, Union

from ...protocol.error_text import Option, OptionText
from ...protocol.http.headers import Headers

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

__all__ = ["TrustedProxies"]

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
