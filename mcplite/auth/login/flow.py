"""The interface by which :class:`~.access.ServerTokens` obtains tokens, and the description of one request for a token.

``Grant`` is the base of the flows that exist. A module of its own, so that ``access`` need not import ``grant``, which
imports it.
"""

from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence

from .discovery import AuthorizationServer, ProtectedResource
from .jwt_signing import Proofs
from .stores import Store
from .token_endpoint import ClientIdentity, Credentials, TokenEndpoint
from .web import Web

__all__ = ["TokenFlow", "TokenRequest"]


@dataclass
class TokenRequest:
    """The description of one request for a token."""

    web: Web
    resource: ProtectedResource
    server: AuthorizationServer
    scopes: List[str]
    #: Makes the proofs of possession that the token is bound to; None for a bearer token.
    proofs: Optional[Proofs]
    #: To be called at least every quarter of a second; raises when the caller no longer waits for the token.
    check: Callable[[], object]
    #: The client that a user was asked for; None before that.
    client: Optional[ClientIdentity] = None
    #: Set when a user has agreed; a failure from then on is not a refusal of the user's.
    user_agreed: bool = False


class TokenFlow:
    """A way to obtain tokens."""

    #: Whether a user takes part, so that more scopes can be asked for.
    interactive = False
    #: The only authorization server that is trusted; None for the one that the MCP server names.
    issuer: Optional[str]
    #: The scopes to ask for, besides those of a challenge, and in place of those of the metadata.
    scopes: List[str]
    #: Where tokens are kept.
    store: Store
    #: Whether tokens are bound to a key of this client's (RFC 9449).
    dpop: bool

    @property
    def given_urls(self) -> Sequence[str]:
        """The URLs that the caller has given, which no server has chosen."""
        raise NotImplementedError

    def obtain(self, request: TokenRequest) -> Credentials:
        """Obtain a token, from the beginning.

        :raises AuthError: no token could be obtained.
        """
        raise NotImplementedError

    def accepts(self, credentials: Credentials) -> bool:
        """Return whether stored credentials are such as this flow obtains."""
        raise NotImplementedError

    def endpoint(self, web: Web, server: AuthorizationServer, proofs: Optional[Proofs]) -> TokenEndpoint:
        """Return the token endpoint of a server."""
        raise NotImplementedError

    def on_client_unknown(self, client: ClientIdentity) -> None:
        """Called when an authorization server does not know a client any more."""
        raise NotImplementedError
