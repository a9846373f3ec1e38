"""What all ways to a token have in common; ``connect(..., auth=)`` takes any of them."""

import threading
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple, Union

from ...errors import AuthError, TransportError
from ...net.exchange import Exchange
from ...net.link import Link
from ...protocol.http.challenges import Challenge, find, parse
from ...protocol.http.wellknown import canonical
from ...protocol.show import shown
from ...rpc.deadline import Deadline
from .discovery import AuthorizationServer, ProtectedResource, find_resource
from .stores.base import MemoryStore, Store
from .token_endpoint import Credentials, TokenEndpoint
from .web import Web

if TYPE_CHECKING:
    from .access import Access
    from .flow import Flow
    from .keys import Proofs

__all__ = ["Grant", "find_authorization"]

_SLICE = 0.25
_KNOCK_SECONDS = 30.0
#: Servers that one grant remembers, the one that was used last at the end (AUTH-45); the store knows more.
_MOST_SERVERS = 1000
#: Asks nothing of a server but whether we may ask.
_PING = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Grant:
    """A way to get tokens; one object serves any number of servers and clients, from any thread.

    :param issuer: the only authorization server that is trusted; None for whichever the MCP server names.
    :param scopes: that are wanted, besides those that the server asks for; a list, or one text with blanks.
    :param store: where tokens are kept; by default in memory.
    :param dpop: binds tokens to a key of this client's (RFC 9449).
    :raises ValueError: an option cannot be used.
    """

    #: Whether there is a user who can be asked.
    interactive = False
    #: The extension of the protocol that it is; None for none.
    extension: Optional[str] = None

    def __init__(self, *, issuer: Optional[str] = None, scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None,
                 dpop: bool = False) -> None:
        if store is not None and (isinstance(store, type) or not hasattr(store, "held")):
            raise ValueError(f"store= is a Store such as FileStore('tokens.json'), not {store!r:.100}")
        self.issuer = issuer
        self.scopes = scopes.split() if isinstance(scopes, str) else list(scopes)
        self.store = MemoryStore() if store is None else store
        self.dpop = dpop
        #: Guards ``_accesses``; held for dictionary work.
        self._lock = threading.Lock()
        self._accesses: "Dict[str, Access]" = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.issuer is None else f' at {self.issuer}'}>"

    def access(self, url: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None) -> "Access":
        """Return the way to a token for one server, which is the same for all of its clients.

        :raises ValueError: a token would travel in the clear to that URL.
        """
        from .access import Access

        name = canonical(url)
        with self._lock:
            known = self._accesses.pop(name) if name in self._accesses else Access(self, url)
            self._accesses[name] = known
            if len(self._accesses) > _MOST_SERVERS:
                del self._accesses[next(iter(self._accesses))]
            known.use(verify, proxies)
            return known

    @property
    def given_urls(self) -> Sequence[str]:
        """The URLs that the caller has given, which no server has chosen."""
        return [self.issuer] if self.issuer else []

    def obtain(self, flow: "Flow") -> Credentials:
        """Get a token, from the beginning.

        :raises AuthError: there is none to be had.
        """
        raise NotImplementedError

    def takes(self, credentials: Credentials) -> bool:
        """Whether stored credentials are of this grant's making."""
        if self.issuer is None or self.issuer == credentials.issuer:
            return True
        return not credentials.described and self.issuer.rstrip("/") == credentials.issuer.rstrip("/")

    def endpoint(self, web: Web, server: AuthorizationServer, proofs: "Optional[Proofs]") -> TokenEndpoint:
        """Return the token endpoint of a server."""
        return TokenEndpoint(web, server, proofs)

    def spent(self, error: str, issuer: str) -> None:
        """Called when a refresh was refused for good, with what was said."""

    # --- without a client of MCP ------------------------------------------------------------------------

    def login(self, url: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None) -> Credentials:
        """Get a token for a server now, whatever is stored; return it.

        :raises AuthError: there is none to be had, or the server wants none.
        :raises TransportError: it cannot be reached.
        """
        access = self.access(url, verify=verify, proxies=proxies)
        exchange = Exchange(lambda: _SLICE)
        status, challenge, address = _knock(url, verify, proxies)
        # Some servers guard a few operations only; their description says that there is something to log in to.
        if status not in (401, 403) and not find_authorization(url, verify=verify, proxies=proxies).described:
            raise AuthError(f"{shown(url)} wants no authorization (it answered {status} to a request without)")
        return access.log_in(challenge, exchange, address)

    def logout(self, url: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None) -> bool:
        """Drop the tokens for a server, and have them revoked; return whether there were any.

        :raises AuthError: they are dropped, but could not be revoked.
        """
        return self.access(url, verify=verify, proxies=proxies).forget(Exchange(lambda: _SLICE))

    def token(self, url: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None) -> Optional[str]:
        """Return the stored token for a server, refreshed if it has expired; None when there is none that is good.

        :raises AuthError: it could not be refreshed.
        """
        return self.access(url, verify=verify, proxies=proxies).token(Exchange(lambda: _SLICE))


def find_authorization(url: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None) -> ProtectedResource:
    """Return what the MCP server at *url* says of its authorization: its resource, its authorization servers, its scopes.

    For people who want to know which ``issuer=`` to trust; programs that believe it unseen have gained nothing by it.

    :raises AuthError: it says nothing that can be used.
    :raises TransportError: it cannot be reached.
    """
    _, challenge, address = _knock(url, verify, proxies)
    with Web(url, verify=verify, proxies=proxies, address=address) as web:
        return find_resource(web, url, challenge, {})


def _knock(url: str, verify: Any, proxies: Optional[Dict[str, str]]) -> Tuple[int, Optional[Challenge], Optional[str]]:
    """Return status and challenge of a server's answer to a request without a token, and the address that it came from.

    :raises TransportError: it cannot be reached, or does not answer.
    """
    deadline = Deadline(_KNOCK_SECONDS)

    def left() -> float:
        if deadline.expired:
            raise TransportError(f"{shown(url)} did not answer within {_KNOCK_SECONDS:g} s")
        return _SLICE

    link, exchange = Link(url, verify=verify, proxies=proxies), Exchange(left, deadline.remaining)
    exchange.notes_address = True
    try:
        reply = link.fetch(exchange, "POST", None, _HEADERS, _PING)
        reply.close()
        return reply.status, find(parse(reply.headers.get("WWW-Authenticate") or ""), "dpop", "bearer"), reply.address
    finally:
        link.close()
