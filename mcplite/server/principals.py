"""The principal, the authenticated sender of a request, and its scopes.

Verifiers create principals; sessions, authorization and handlers read them. A module of its own so that servers without
authentication do not load the verifiers.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, Mapping, Optional, Sequence, Set, Tuple, Union

from ..errors import AuthError

__all__ = ["ISSUED_HERE", "Principal", "Verifier", "all_scopes", "checked_scopes", "least_scopes",
           "principal_from", "principal_members"]

#: The characters of a scope (RFC 6749, section 3.3).
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
#: A request to the authorization server (for a refresh token), not a permission at a resource (AUS-22).
_OFFLINE = "offline_access"
#: ``expires_at`` must be less than this, in seconds since 1970.
_LATEST = 1e15


class _IssuedHere(Tuple[str, ...]):
    """An audience that is compared by identity; copying and pickling keep the identity."""

    def __repr__(self) -> str:
        return "ISSUED_HERE"

    def __reduce__(self) -> str:
        return "ISSUED_HERE"


#: The audience of a token that this server has issued itself, so that it cannot be meant for another server.
ISSUED_HERE: Sequence[str] = _IssuedHere()


@dataclass(frozen=True, init=False)
class Principal:
    """The authenticated sender of a request, as found by a verifier or the host; it never holds the token.

    :param subject: a stable identifier of the user or service.
    :param audience: the audience of the token: one URL or identifier, or several. A token without one is refused; for a
        token that this server has issued itself, use ``ISSUED_HERE``.
    :param issuer: the authorization server; empty if there is none.
    :param client_id: the application that acts for the subject; empty if it is not known.
    :param scopes: the scopes of the token: several, or one string with spaces between them.
    :param expires_at: when the token expires, in seconds since 1970; None for never.
    :param claims: other facts, for handlers; not shown by ``repr``.
    :param upstream_tokens: called with the name of a provider; returns the token for :meth:`upstream_token`, or raises
        AuthError. It is not stored with the principal, not compared and not shown.
    :raises ValueError: a value is not valid.
    """

    subject: str
    audience: Sequence[str] = ()
    issuer: str = ""
    client_id: str = ""
    scopes: FrozenSet[str] = frozenset()
    expires_at: Optional[float] = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    upstream_tokens: Optional[Callable[[str], str]] = field(default=None, repr=False, compare=False)

    def __init__(self, subject: str, *, audience: Union[str, Iterable[str]] = (), issuer: str = "", client_id: str = "",
                 scopes: Union[str, Iterable[str]] = (), expires_at: Optional[float] = None,
                 claims: Optional[Mapping[str, Any]] = None,
                 upstream_tokens: Optional[Callable[[str], str]] = None) -> None:
        if not isinstance(subject, str) or not subject:
            raise ValueError("a principal needs a subject: a string that is not empty")
        if not isinstance(issuer, str) or not isinstance(client_id, str):
            raise ValueError("the issuer and the client_id of a principal must be strings, empty if they are not known")
        if expires_at is not None and (isinstance(expires_at, bool) or not isinstance(expires_at, (int, float))
                                       or not abs(expires_at) < _LATEST):  # nan is not less, either
            raise ValueError(f"expires_at must be seconds since 1970, or None, not {type(expires_at).__name__}")
        known = audience if audience is ISSUED_HERE else (audience,) if isinstance(audience, str) else tuple(audience)
        if not all(isinstance(one, str) for one in known):
            raise ValueError("the audience of a principal must be a string, or several")
        values = {"subject": subject, "audience": known, "issuer": issuer, "client_id": client_id,
                  "scopes": frozenset(checked_scopes(scopes, "a principal", offline=True)), "expires_at": expires_at,
                  "claims": dict(claims or {}), "upstream_tokens": upstream_tokens,
                  "_key": json.dumps([issuer, client_id, subject])}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        """Identifies the owner of sessions, streams and waiting calls: equal for all tokens of one client and subject."""
        key: str = self.__dict__["_key"]
        return key

    def upstream_token(self, provider: str) -> str:
        """Return the access token of the provider that the user has logged in with, for requests to that provider.

        It is refreshed first if it has expired or is about to; this can take some seconds.

        :param provider: the name of the provider, such as ``"github"``.
        :raises AuthError: the user has not logged in with this provider, its token cannot be refreshed at present, or the login
            there has ended.
        """
        if self.upstream_tokens is None:
            raise AuthError(f"there is no token of {provider!r}: this request was not authenticated by an Issuer(upstream=...),"
                            " or it goes on in another process than the one that got it")
        return self.upstream_tokens(provider)


def principal_members(principal: Optional[Principal]) -> Optional[Dict[str, Any]]:
    """Return the stored form of a principal, as JSON; claims that are not JSON, such as an object of the host, are left out."""
    if principal is None:
        return None
    return {"subject": principal.subject, "issuer": principal.issuer, "client_id": principal.client_id,
            "audience": None if principal.audience is ISSUED_HERE else list(principal.audience),
            "scopes": sorted(principal.scopes), "expires_at": principal.expires_at,
            "claims": {name: value for name, value in principal.claims.items() if _is_json(name, value)}}


def principal_from(members: Optional[Mapping[str, Any]]) -> Optional[Principal]:
    """Return the principal that was stored."""
    if members is None:
        return None
    from ..types.lazy_dataclass import from_members

    return from_members(Principal, {**members, "audience": ISSUED_HERE if members["audience"] is None else members["audience"]})


def _is_json(name: Any, value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(name, str)


#: Called with a token; returns its principal, or None if the token is not valid.
Verifier = Callable[[str], Optional[Principal]]


def checked_scopes(scopes: Union[str, Iterable[str]], what: str, offline: bool = False) -> Tuple[str, ...]:
    """Return scopes without duplicates, in their order.

    :param scopes: several, or one string with spaces between them.
    :param what: names their origin in the error.
    :param offline: whether ``offline_access`` is allowed.
    :raises ValueError: one is not a scope.
    """
    named = scopes.split() if isinstance(scopes, str) else list(scopes)
    for scope in named:
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            raise ValueError(f"{what}: {scope!r} is not a scope; a scope has no spaces, quotes or backslashes")
        if scope == _OFFLINE and not offline:  # AUS-22
            raise ValueError(f"{what}: {_OFFLINE!r} is requested by clients from the authorization server; leave it out")
    return tuple(dict.fromkeys(named))


def all_scopes(granted: Iterable[str], implies: Mapping[str, Iterable[str]]) -> FrozenSet[str]:
    """Return the granted scopes and all that they include, directly or indirectly (AUS-21)."""
    found: Set[str] = set()
    waiting = list(granted)
    while waiting:
        scope = waiting.pop()
        if scope not in found:
            found.add(scope)
            waiting.extend(implies.get(scope, ()))
    return frozenset(found)


def least_scopes(scopes: Iterable[str], implies: Mapping[str, Iterable[str]]) -> Tuple[str, ...]:
    """Return the smallest part of *scopes* that includes all the others."""
    kept: Dict[str, None] = dict.fromkeys(sorted(scopes))
    for scope in list(kept):
        others = [other for other in kept if other != scope]
        if scope in all_scopes(others, implies):
            del kept[scope]
    return tuple(kept)
