"""What a :class:`~mcplite.net.link.Link` asks of an OAuth client: a token for each request, and a way out of a refusal.

The interface stands here, so that the link knows nothing of how tokens are obtained; ``mcplite.client.oauth`` implements it.
"""

from typing import TYPE_CHECKING, Dict, Mapping, Optional, Tuple

from .exchange import Exchange
from .settings import HTTPSettings

if TYPE_CHECKING:
    from .reply import Reply

__all__ = ["RequestAttempt", "TokenProvider", "TokenSource"]


class TokenProvider:
    """Obtains tokens for any number of servers: what ``auth=`` may be."""

    #: The protocol extension that a client with these tokens declares; None if obtaining them needs none.
    extension: Optional[str] = None

    def access(self, url: str, settings: HTTPSettings) -> "TokenSource":
        """Return the token source of one server.

        :param settings: how authorization servers are reached.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        raise NotImplementedError


class TokenSource:
    """The tokens for one server; any thread may use it."""

    def credentials(self, method: str, url: str, exchange: Exchange) -> Tuple[Optional[str], Dict[str, str]]:
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

    def attempt(self) -> "RequestAttempt":
        """Return what deals with the refusals of one request."""
        raise NotImplementedError


class RequestAttempt:
    """One request, and the tokens that were tried for it."""

    def recover(self, reply: "Reply", headers: Mapping[str, str], exchange: Exchange) -> bool:
        """Deal with a refusal (401 or 403); return whether the request is to be sent again.

        :param headers: the request's own.
        :raises AuthError: the server asks for what cannot be obtained.
        :raises Stopped: the caller no longer waits.
        """
        raise NotImplementedError
