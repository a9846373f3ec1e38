"""Verifies static tokens, agreed on in advance: for a personal tool, a test, a small team."""

import hashlib
import hmac
from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Tuple, Union

from ...server.principals import ISSUED_HERE, Principal
from .bearer_auth import is_token

__all__ = ["StaticTokens"]

#: Characters of a token; a shorter one can be guessed.
_SHORTEST = 16
_ADVICE = "create one with python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class StaticTokens:
    """Verifies tokens by comparing them with a list.

    :param tokens: a mapping from each token to its holder, a name or a :class:`Principal`. Or one token, or several; their
        holders get the names "token 1", "token 2", ... A principal without an audience gets ``ISSUED_HERE``.
    :param scopes: of the tokens whose holder is not given as a :class:`Principal`.
    :raises ValueError: there is no token, or one is too short, given twice, or cannot be sent in a header; the text does
        not quote it.
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
                raise ValueError("a token is given twice")
        if not known:
            raise ValueError(f"no token is given, so that every request would be refused; {_ADVICE}")
        #: Digests only; the tokens themselves are not kept.
        self._known: List[Tuple[bytes, Principal]] = []
        for number, (token, holder) in enumerate(known.items(), 1):
            _check(token, number)
            principal = Principal(holder, scopes=scopes) if isinstance(holder, str) else holder
            if not isinstance(principal, Principal):
                raise ValueError(f"token number {number} is for {type(holder).__name__}; give a name or a Principal")
            if not principal.audience:
                principal = replace(principal, audience=ISSUED_HERE)
            self._known.append((_digest(token), principal))

    def __repr__(self) -> str:
        return f"<StaticTokens of {', '.join(repr(principal.subject) for _, principal in self._known)}>"

    def __call__(self, token: str) -> Optional[Principal]:
        """Return the principal of a token; None if it is not known. Takes the same time for every token."""
        digest, found = _digest(token), None
        for known, principal in self._known:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def _check(token: object, number: int) -> None:
    if not isinstance(token, str) or not is_token(token):
        raise ValueError(f"token number {number} cannot be sent in a header; it may have letters, digits and -._~+/ only;"
                         f" {_ADVICE}")
    if len(token) < _SHORTEST:
        raise ValueError(f"token number {number} has {len(token)} characters, which can be guessed; it needs at least"
                         f" {_SHORTEST}; {_ADVICE}")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
