"""The interfaces by which an :class:`~.origin_client.OriginClient` gets tokens and recovers from refusals.

``mcplite.auth.login`` implements them, so that this package need not know how tokens are obtained. :class:`Bearer` is the
source of a token that the caller has obtained.
"""

from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

from ..protocol.http.headers import check_header
from .exchange import Exchange, Reply
from .settings import HTTPSettings

__all__ = ["Bearer", "RequestRecovery", "TokenProvider", "TokenSource"]


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


class Bearer:
    """Puts a token into each request; for ``connect(..., auth=)``, and for ``requests`` as well.

    :param token: the token, or a callable that returns the one to use now.
    :raises ValueError: the token cannot stand in a header.
    """

    def __init__(self, token: Union[str, Callable[[], str]]) -> None:
        if isinstance(token, str):
            _check(token)
        self._token = token

    def __call__(self, request: Any) -> Any:
        """Put the token into a request that is about to be sent.

        :raises ValueError: the token cannot stand in a header.
        """
        request.headers["Authorization"] = self.credentials()
        return request

    def credentials(self) -> str:
        """Return the value of the field ``Authorization``.

        :raises ValueError: the token cannot stand in a header.
        """
        token = self._token
        if not isinstance(token, str):
            token = token()
            _check(token)
        return f"Bearer {token}"

    def __repr__(self) -> str:
        return "<Bearer>"


def _check(token: str) -> None:
    try:
        check_header("Authorization", token)
        token.encode("ascii")
        if not token.strip():
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        # Without the original error, which quotes the value: it is a secret even if it is malformed.
        raise ValueError("the bearer token is empty, or has characters that cannot stand in a header") from None
    if " " in token.strip():
        raise ValueError("the bearer token has a blank in it: give the token alone, without 'Bearer' before it")
