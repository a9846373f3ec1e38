"""What every way of obtaining a token has in common."""

from typing import TYPE_CHECKING, List, Optional

from ...net.exchange import Exchange
from .discovery import AuthorizationServer, ProtectedResource
from .web import Web

if TYPE_CHECKING:
    from .keys import Proofs


__all__ = ["Flow"]


class Flow:
    """What a grant needs to get a token.

    :param left: raises when nobody waits for the token any more; to be called at least every quarter of a second.
    """

    def __init__(self, web: Web, resource: ProtectedResource, server: AuthorizationServer, scopes: List[str],
                 exchange: Exchange, proofs: "Optional[Proofs]") -> None:
        self.web = web
        self.resource = resource
        self.server = server
        self.scopes = scopes
        self.proofs = proofs
        self.left = exchange.left
        #: Whether a user has agreed; what fails from then on is not for lack of that.
        self.agreed = False
