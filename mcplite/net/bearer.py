"""Bearer: a token that the caller has obtained."""

from typing import Any, Callable, Union

from ..protocol.http.headers import check_header

__all__ = ["Bearer"]


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
