"""Grants: what all ways to obtain tokens have in common; ``connect(..., auth=)`` takes any of them."""

import threading
from typing import Dict, Optional, Sequence, Tuple, Union

from ...errors import AuthError, TransportError
from ...net.exchange import Exchange
from ...net.link import Link
from ...net.settings import HTTPSettings, Verify
from ...net.tokens import TokenProvider
from ...protocol.http.challenges import Challenge, find, parse
from ...protocol.http.wellknown import canonical
from ...protocol.show import shown
from ...rpc.deadline import Deadline
from .access import Access
from .discovery import AuthorizationServer, ProtectedResource, find_resource
from .flow import Flow
from .keys import Proofs
from .stores.base import MemoryStore, Store
from .token_endpoint import Credentials, TokenEndpoint
from .web import Web

__all__ = ["Grant", "find_authorization"]

#: Seconds that a read or write blocks at most.
_SLICE = 0.25
#: Seconds for the request that finds out whether a server wants a token.
_PROBE_SECONDS = 30.0
#: Servers that one grant remembers, the one that was used last at the end (AUTH-45); the store has more.
_MOST_SERVERS = 1000
#: Serves to see the answer to a request without a token.
_PING = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def _slice() -> float:
    return _SLICE


class Grant(Flow, TokenProvider):
    """A way to get tokens; one object serves any number of servers and clients, from any thread.

    :param issuer: the only authorization server that is trusted; None for the one that the MCP server names.
    :param scopes: that are wanted, besides those that the server asks for; a list, or one text with blanks.
    :param store: where tokens are kept; by default in memory.
    :param dpop: binds tokens to a key of this client's (RFC 9449).
    :raises ValueError: an option cannot be used.
    """

    def __init__(self, *, issuer: Optional[str] = None, scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None,
                 dpop: bool = False) -> None:
        if store is not None and (isinstance(store, type) or not hasattr(store, "lock")):
            raise ValueError(f"store= is a Store such as FileStore('tokens.json'), not {store!r:.100}")
        self.issuer = issuer
        self.scopes = scopes.split() if isinstance(scopes, str) else list(scopes)
        self.store = MemoryStore() if store is None else store
        self.dpop = dpop
        #: Guards ``_accesses``; held for dictionary work.
        self._lock = threading.Lock()
        self._accesses: Dict[str, Access] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.issuer is None else f' at {self.issuer}'}>"

    def access(self, url: str, settings: HTTPSettings = HTTPSettings()) -> Access:
        """Return the token source of one server, which is the same for all of its clients.

        :param settings: how authorization servers are reached, from now on by all of those clients.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        name = canonical(url)
        with self._lock:
            known = self._accesses.pop(name) if name in self._accesses else Access(self, url, settings)
            self._accesses[name] = known
            if len(self._accesses) > _MOST_SERVERS:
                del self._accesses[next(iter(self._accesses))]
            known.settings = settings  # those that were given last are those that work
            return known

    @property
    def given_urls(self) -> Sequence[str]:
        return [self.issuer] if self.issuer else []

    def accepts(self, credentials: Credentials) -> bool:
        if self.issuer is None or self.issuer == credentials.issuer:
            return True
        return not credentials.described and self.issuer.rstrip("/") == credentials.issuer.rstrip("/")

    def endpoint(self, web: Web, server: AuthorizationServer, proofs: Optional[Proofs]) -> TokenEndpoint:
        return TokenEndpoint(web, server, proofs)

    def on_refresh_refused(self, error: str, issuer: str) -> None:
        pass

    # --- without an MCP client --------------------------------------------------------------------------

    def login(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Credentials:
        """Obtain a token for a server now, whatever is stored; return it.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: no token could be obtained, or the server wants none.
        :raises TransportError: the server cannot be reached.
        """
        settings = HTTPSettings(verify=verify, proxies=proxies)
        access = self.access(url, settings)
        status, challenge, address = _probe(url, settings)
        # Some servers require a token for a few operations only; their metadata says that there is something to log in to.
        if status not in (401, 403) and not find_authorization(url, verify=verify, proxies=proxies).described:
            raise AuthError(f"{shown(url)} wants no authorization (it answered {status} to a request without)")
        return access.log_in(challenge, Exchange(_slice), address)

    def logout(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> bool:
        """Drop the tokens for a server, and have them revoked; return whether there were any.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: they are dropped, but could not be revoked.
        """
        return self.access(url, HTTPSettings(verify=verify, proxies=proxies)).forget(Exchange(_slice))

    def token(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Optional[str]:
        """Return the stored token for a server, refreshed if it has expired; None when there is no valid one.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: it could not be refreshed.
        """
        return self.access(url, HTTPSettings(verify=verify, proxies=proxies)).token(Exchange(_slice))


def find_authorization(url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> ProtectedResource:
    """Return what the MCP server at *url* says of its authorization: its resource, its authorization servers, its scopes.

    For people who want to know which ``issuer=`` to trust; a program that trusts the result unseen gains nothing by it.

    :param verify: as for :func:`connect`; so is *proxies*.
    :raises AuthError: the server says nothing that can be used.
    :raises TransportError: it cannot be reached.
    """
    settings = HTTPSettings(verify=verify, proxies=proxies)
    _, challenge, address = _probe(url, settings)
    with Web(url, settings, address=address) as web:
        return find_resource(web, url, challenge, {})


def _probe(url: str, settings: HTTPSettings) -> Tuple[int, Optional[Challenge], Optional[str]]:
    """Return status and challenge of a server's answer to a request without a token, and the address that it came from.

    :raises TransportError: it cannot be reached, or does not answer.
    """
    deadline = Deadline(_PROBE_SECONDS)

    def next_timeout() -> float:
        if deadline.expired:
            raise TransportError(f"{shown(url)} did not answer within {_PROBE_SECONDS:g} s")
        return _SLICE

    link, exchange = Link(url, settings), Exchange(next_timeout, deadline.remaining)
    exchange.records_address = True
    try:
        reply = link.fetch(exchange, "POST", None, _HEADERS, _PING)
        reply.close()
        return reply.status, find(parse(reply.headers.get("WWW-Authenticate") or ""), "dpop", "bearer"), reply.address
    finally:
        link.close()
