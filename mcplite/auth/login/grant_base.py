"""The base of all grants, the ways to obtain tokens; ``connect(..., auth=)`` takes any of them.

A grant keeps one :class:`~.token_cache.ServerTokens` for each server. ``login``, ``logout`` and ``token`` of the command line
use it without an MCP client, so the probe that shows whether a server requires a token stands here too.
"""

from typing import Dict, Optional, Sequence, Tuple, Union

from ...errors import AuthError, TransportError
from ...net.exchange import Exchange
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings, Verify
from ...net.tokens import TokenProvider
from ...protocol.error_text import shown
from ...protocol.http.headers import POST_HEADERS
from ...protocol.http.oauth import Challenge, canonical, find_challenge, parse_challenges
from ...rpc.deadline import Deadline
from ...rpc.forks import new_lock
from .discovery import AuthorizationServer, ProtectedResource, find_resource, same_issuer
from .jwt_signing import Proofs
from .stores import MemoryStore, Store
from .token_cache import ServerTokens, TokenFlow
from .token_endpoint import ClientIdentity, Credentials, TokenEndpoint
from .web import Web

__all__ = ["Grant", "find_authorization"]

#: Seconds that a read or write blocks at most.
_SLICE_SECONDS = 0.25
#: Seconds for the request that finds out whether a server wants a token.
_PROBE_SECONDS = 30.0
#: Servers that one grant remembers, the one that was used last at the end (AUTH-45); the store has more.
_MOST_SERVERS = 1000
#: The request that shows whether a server requires a token.
_PING = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'


def _slice() -> float:
    return _SLICE_SECONDS


class Grant(TokenFlow, TokenProvider):
    """A way to get tokens; one object serves any number of servers and clients, from any thread.

    :param issuer: the only authorization server that is trusted; None for the one that the MCP server names.
    :param scopes: to ask for, besides those that the server's refusal names, and in place of those of its metadata; a list,
        or one text with blanks.
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
        #: Guards ``_servers``; held for dictionary work.
        self._lock = new_lock()
        self._servers: Dict[str, ServerTokens] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.issuer is None else f' at {self.issuer}'}>"

    def tokens_for(self, url: str, settings: HTTPSettings = HTTPSettings()) -> ServerTokens:
        """Return the token source of one server, which is the same for all of its clients.

        :param settings: how authorization servers are reached, from now on by all of those clients.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        name = canonical(url)
        with self._lock:
            known = self._servers.pop(name) if name in self._servers else ServerTokens(self, url, settings)
            self._servers[name] = known
            if len(self._servers) > _MOST_SERVERS:
                del self._servers[next(iter(self._servers))]
            # The latest settings win: earlier ones may be outdated.
            known.settings = settings
            return known

    @property
    def given_urls(self) -> Sequence[str]:
        return [self.issuer] if self.issuer else []

    def accepts(self, credentials: Credentials) -> bool:
        return self.issuer is None or same_issuer(self.issuer, credentials.issuer)

    def endpoint(self, web: Web, server: AuthorizationServer, proofs: Optional[Proofs]) -> TokenEndpoint:
        return TokenEndpoint(web, server, proofs)

    def on_client_unknown(self, client: ClientIdentity) -> None:
        """Do nothing: most clients are registered by hand."""

    # --- without an MCP client --------------------------------------------------------------------------

    def login(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Credentials:
        """Obtain a token for a server now, whatever is stored; return it.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: no token could be obtained, or the server wants none.
        :raises TransportError: the server cannot be reached.
        """
        settings = HTTPSettings(verify=verify, proxies=proxies)
        tokens = self.tokens_for(url, settings)
        status, challenge, address = _probe(url, settings)
        # Some servers require a token for a few operations only; their metadata says that there is something to log in to.
        if status not in (401, 403) and not find_authorization(url, verify=verify, proxies=proxies).described:
            raise AuthError(f"{shown(url)} wants no authorization (it answered {status} to a request without)")
        return tokens.log_in(challenge, Exchange(_slice), address)

    def logout(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> bool:
        """Drop the tokens for a server, and have them revoked; return whether there were any.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: they are dropped, but could not be revoked.
        """
        return self.tokens_for(url, HTTPSettings(verify=verify, proxies=proxies)).forget(Exchange(_slice))

    def token(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Optional[str]:
        """Return the stored token for a server, refreshed if it has expired; None when there is no valid one.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: it could not be refreshed.
        """
        return self.tokens_for(url, HTTPSettings(verify=verify, proxies=proxies)).token(Exchange(_slice))


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
        return _SLICE_SECONDS

    client, exchange = OriginClient(url, settings), Exchange(next_timeout, deadline.remaining)
    exchange.records_address = True
    try:
        reply = client.send(exchange, "POST", None, POST_HEADERS, _PING)
        reply.close()
        challenges = parse_challenges(reply.headers.get("www-authenticate") or "")
        return reply.status, find_challenge(challenges, "dpop", "bearer"), reply.address
    finally:
        client.close()
