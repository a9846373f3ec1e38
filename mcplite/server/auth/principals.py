"""Who sends a request: a principal, and the scopes that it has."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, Mapping, Optional, Sequence, Set, Tuple, Union

__all__ = ["ISSUED_HERE", "Principal", "all_scopes", "checked_scopes", "least_scopes"]

#: What a scope may be written with (RFC 6749, section 3.3).
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
#: Asks an authorization server for something and stands for no right of a resource (AUS-22).
_OFFLINE = "offline_access"
#: Seconds that are no time any more; neither is what cannot be compared with them.
_ENDLESS = 1e15


class _IssuedHere(Tuple[str, ...]):
    """An audience that is compared by identity, whatever is copied or pickled on the way."""

    def __repr__(self) -> str:
        return "ISSUED_HERE"

    def __reduce__(self) -> str:
        return "ISSUED_HERE"


#: The audience of a token that this very server has handed out, so that it can be meant for no other.
ISSUED_HERE: Sequence[str] = _IssuedHere()


@dataclass(frozen=True, init=False)
class Principal:
    """Who has sent a request, as a verifier or the host has found out; it never holds the token.

    :param subject: who it is, by a name that stays the same.
    :param audience: what the token was issued for: one URL or identifier, or several. A token that names none is
        refused; for one that this server itself has made, say ``ISSUED_HERE``.
    :param issuer: the authorization server; empty when there is none.
    :param client_id: the application that acts for the subject; empty when it is not known.
    :param scopes: what the token allows: several, or one text with blanks between them.
    :param expires_at: when it ends, in seconds since 1970; None for never.
    :param claims: what else is known, for handlers; not shown by ``repr``.
    :raises ValueError: a value cannot be meant so.
    """

    subject: str
    audience: Sequence[str] = ()
    issuer: str = ""
    client_id: str = ""
    scopes: FrozenSet[str] = frozenset()
    expires_at: Optional[float] = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __init__(self, subject: str, *, audience: Union[str, Iterable[str]] = (), issuer: str = "", client_id: str = "",
                 scopes: Union[str, Iterable[str]] = (), expires_at: Optional[float] = None,
                 claims: Optional[Mapping[str, Any]] = None) -> None:
        if not isinstance(subject, str) or not subject:
            raise ValueError("a principal needs a subject: a text that is not empty")
        if not isinstance(issuer, str) or not isinstance(client_id, str):
            raise ValueError("the issuer and the client_id of a principal are texts; empty ones when they are not known")
        if expires_at is not None and (isinstance(expires_at, bool) or not isinstance(expires_at, (int, float))
                                       or not abs(expires_at) < _ENDLESS):
            raise ValueError(f"expires_at is a number of seconds since 1970, or None, not {type(expires_at).__name__}")
        known = audience if audience is ISSUED_HERE else (audience,) if isinstance(audience, str) else tuple(audience)
        if not all(isinstance(one, str) for one in known):
            raise ValueError("the audience of a principal is one text, or several")
        values = {"subject": subject, "audience": known, "issuer": issuer, "client_id": client_id,
                  "scopes": frozenset(checked_scopes(scopes, "a principal", offline=True)), "expires_at": expires_at,
                  "claims": dict(claims or {}), "_key": json.dumps([issuer, client_id, subject])}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        """What sessions, streams and waiting calls are bound to: the same for each token of this client and subject."""
        key: str = self.__dict__["_key"]
        return key


def checked_scopes(scopes: Union[str, Iterable[str]], what: str, offline: bool = False) -> Tuple[str, ...]:
    """Return scopes, each once, in their order.

    :param scopes: several, or one text with blanks between them.
    :param what: whose they are, for the error.
    :param offline: whether ``offline_access`` may be among them.
    :raises ValueError: one is no scope.
    """
    named = scopes.split() if isinstance(scopes, str) else list(scopes)
    for scope in named:
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            raise ValueError(f"{what}: {scope!r} is no scope; a scope has no blanks, quotes or backslashes")
        if scope == _OFFLINE and not offline:
            raise ValueError(f"{what}: {_OFFLINE!r} is between clients and the authorization server; no server needs it (AUS-22)")
    return tuple(dict.fromkeys(named))


def all_scopes(granted: Iterable[str], implies: Mapping[str, Iterable[str]]) -> FrozenSet[str]:
    """Return what was granted and what that includes, and what this includes in turn (AUS-21)."""
    found: Set[str] = set()
    waiting = list(granted)
    while waiting:
        scope = waiting.pop()
        if scope not in found:
            found.add(scope)
            waiting.extend(implies.get(scope, ()))
    return frozenset(found)


def least_scopes(scopes: Iterable[str], implies: Mapping[str, Iterable[str]]) -> Tuple[str, ...]:
    """Return the fewest of *scopes* that include all the others."""
    kept: Dict[str, None] = dict.fromkeys(sorted(scopes))
    for scope in list(kept):
        others = [other for other in kept if other != scope]
        if scope in all_scopes(others, implies):
            del kept[scope]
    return tuple(kept)
