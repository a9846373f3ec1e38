"""The interfaces by which an :class:`~.origin_client.OriginClient` gets tokens and recovers from refusals.

``mcplite.auth.login`` implements them. They stand here, so that this package need not know how tokens are obtained.
"""

from typing import Dict, Mapping, Optional, Tuple

from .exchange import Exchange
from .reply import Reply
from .settings import HTTPSettings

__all__ = ["RequestRecovery", "TokenProvider", "TokenSource"]


class TokenProvider:
    """Obtains tokens for any number of servers: what ``auth=`` may be."""

    #: The protocol extension that a client with these tokens declares; None if obtaining them needs none.
    extension: Optional[str] = None

    def tokens_for(self, url: str, settings: HTTPSettings) -> "TokenSource":
        """Return the token source of one server.

        :param settings: how authorization servers are reached.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        raise NotImplementedError


class TokenSource:
    """The tokens for one server; any thread may use it."""

    def authorization_headers(self, method: str, url: str, exchange: Exchange) -> Tuple[Optional[str], Dict[str, str]]:
        """Return the token for a request, and the headers that carry it.

        :raises AuthError: the token has expired and could not be replaced.
        :raises Stopped: the caller no longer waits.
        """
        raise NotImplementedError

    def on_response(self, url: str, headers: Mapping[str, str], accepted: bool) -> None:
        """Note what a response says for the next request.

        :param accepted: whether the request carried a token, and was not refused for it.
        """
        raise NotImplementedError

    def new_recovery(self) -> "RequestRecovery":
        """Return the recovery of one new request from refusals."""
        raise NotImplementedError


class RequestRecovery:
    """The recovery of one request from refusals: remembers what was tried."""

    def recover(self, reply: Reply, headers: Mapping[str, str], exchange: Exchange) -> bool:
        """Deal with a refusal (401 or 403); return whether the request is to be sent again.

        :param headers: the request's own.
        :raises AuthError: the server asks for what cannot be obtained.
        :raises Stopped: the caller no longer waits.
        """
        raise NotImplementedError
