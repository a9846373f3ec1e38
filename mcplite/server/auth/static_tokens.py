"""Tokens that were agreed on in advance: for a tool of one's own, a test, a few colleagues."""

import hashlib
import hmac
from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Tuple, Union

from .bearer import is_token
from .principals import ISSUED_HERE, Principal

__all__ = ["StaticTokens"]

#: Characters; with fewer a token can be guessed.
_SHORTEST = 16
_ADVICE = "make one with python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class StaticTokens:
    """Verifies tokens by comparing them with those that are known.

    :param tokens: whose each token is: a name, or a :class:`Principal`, by token. Or one token, or several, whose holders
        are told apart and have no names. A principal without an audience is taken to be this server's own.
    :param scopes: what tokens allow whose holders are given by name, or not at all.
    :raises ValueError: a token is too short, comes twice or cannot travel, or there is none; the text does not show it.
    """

    def __init__(self, tokens: Union[str, Iterable[str], Mapping[str, Union[str, Principal]]], *,
                 scopes: Union[str, Iterable[str]] = ()) -> None:
        known: Mapping[str, Union[str, Principal]]
        if isinstance(tokens, Mapping):
            known = tokens
        else:
            several = [tokens] if isinstance(tokens, str) else list(tokens)
            known = {token: f"token {number}" for number, token in enumerate(several, 1)}
            if len(known) < len(several):
                raise ValueError("a token comes twice")
        if not known:
            raise ValueError(f"there is no token, so that nobody could call; {_ADVICE}")
        #: The digests alone: the tokens themselves are kept nowhere.
        self._known: List[Tuple[bytes, Principal]] = []
        for number, (token, holder) in enumerate(known.items(), 1):
            _check(token, number)
            principal = Principal(holder, scopes=scopes) if isinstance(holder, str) else holder
            if not isinstance(principal, Principal):
                raise ValueError(f"token number {number} is for {type(holder).__name__}; say a name or a Principal")
            if not principal.audience:
                principal = replace(principal, audience=ISSUED_HERE)
            self._known.append((_digest(token), principal))

    def __repr__(self) -> str:
        return f"<StaticTokens of {', '.join(repr(principal.subject) for _, principal in self._known)}>"

    def __call__(self, token: str) -> Optional[Principal]:
        """Return whose a token is; takes the same time whichever it is, and however much of it is right."""
        digest, found = _digest(token), None
        for known, principal in self._known:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def _check(token: object, number: int) -> None:
    if not isinstance(token, str) or not is_token(token):
        raise ValueError(f"token number {number} cannot travel in a header; it may have letters, digits and -._~+/ only;"
                         f" {_ADVICE}")
    if len(token) < _SHORTEST:
        raise ValueError(f"token number {number} has {len(token)} characters, which can be guessed; it needs at least"
                         f" {_SHORTEST}; {_ADVICE}")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
