"""Verifies opaque access tokens by token introspection: the authorization server is asked about each (RFC 7662)."""

import time
from copy import copy
from typing import Any, Callable, Mapping, Optional
from urllib.parse import quote_plus

from ...protocol.error_text import shown
from ...protocol.http.oauth import check_url
from ...rpc.tracing import get_logger
from ...server.principals import Principal
from .fetch import FetchError, fetch_json
from .verified_tokens import VerifiedTokens

__all__ = ["Introspection"]

_log = get_logger(__name__)
_MOST_SECONDS = 60.0
#: Cached tokens; beyond that the oldest entry is dropped.
_MOST_CACHED = 10_000


class Introspection:
    """Verifies access tokens by asking the authorization server about each.

    Answers for active tokens are cached, so a revoked token can stay valid for *cache_seconds*.

    :param url: of the introspection endpoint.
    :param client_id: this server's client id at the authorization server.
    :param client_secret: this server's client secret there.
    :param issuer: the issuer identifier, for answers that do not name one.
    :param cache_seconds: how long an answer is cached, at most 60; 0 asks every time.
    :param clock: returns seconds since 1970.
    :raises ValueError: an option is not valid.
    """

    #: Whether tokens that are bound to a key are accepted.
    _takes_bound = False

    def __init__(self, url: str, *, client_id: str, client_secret: str, issuer: Optional[str] = None,
                 cache_seconds: float = 60.0, clock: Callable[[], float] = time.time) -> None:
        self._url = check_url(url, "the introspection endpoint")
        if not all(isinstance(text, str) and text for text in (client_id, client_secret)):
            raise ValueError("client_id= and client_secret= must be strings and not empty; the endpoint requires them")
        # RFC 6749, section 2.3.1: id and secret are URL-encoded before they are joined.
        self._basic = (quote_plus(client_id), quote_plus(client_secret))
        self.issuer = None if issuer is None else check_url(issuer, "issuer=")
        if not 0 <= cache_seconds <= _MOST_SECONDS:
            raise ValueError(f"cache_seconds must be 0 to {_MOST_SECONDS:g}, not {cache_seconds!r}")
        self._cache_seconds, self._clock = cache_seconds, clock
        self._cache = VerifiedTokens(cache_seconds, _MOST_CACHED, clock)

    def __repr__(self) -> str:
        return f"<Introspection at {shown(self._url)}>"

    def for_bound_tokens(self) -> "Introspection":
        """Return a verifier at this endpoint that accepts bound tokens as well, whose proof its caller checks."""
        other = copy(self)
        other._takes_bound, other._cache = True, VerifiedTokens(self._cache_seconds, _MOST_CACHED, self._clock)
        return other

    def __call__(self, token: str) -> Optional[Principal]:
        """Return the principal of a token; None if the token is not valid, or is bound to a key.

        :raises OSError: the authorization server cannot be reached, or its answer is not usable.
        """
        digest, principal = self._cache.find(token)
        if principal is None:
            principal = self._principal(self._ask(token))
            if principal is not None:
                self._cache.add(digest, principal)
        return principal

    def _ask(self, token: str) -> Mapping[str, Any]:
        status, answer = fetch_json(self._url, "the introspection endpoint",
                                    {"token": token, "token_type_hint": "access_token"}, self._basic)
        if status in (401, 403):
            raise FetchError(f"the introspection endpoint at {shown(self._url)} refuses this server's own client_id and"
                             f" client_secret (status {status})")
        if status == 400:
            # RFC 7662 names no error for a token that the server cannot look up, such as a self-contained one.
            _log.warning("a token was refused, since the introspection endpoint at %s answered 400",
                          shown(self._url))
            return {"active": False}
        if status != 200 or not isinstance(answer, dict):
            raise FetchError(f"the introspection endpoint at {shown(self._url)} gave no usable answer (status {status})")
        return answer

    def _principal(self, answer: Mapping[str, Any]) -> Optional[Principal]:
        kind = answer.get("token_type")
        if answer.get("active") is not True:
            return None
        bound = "cnf" in answer
        kinds = ("dpop",) if bound else ()
        if bound and not self._takes_bound or isinstance(kind, str) and kind.lower() not in ("bearer", "access_token", *kinds):
            _log.info("a token was refused: it is bound to a key, or of the type %.50r, and not a"
                          " bearer token", kind)
            return None
        subject = next((answer[name] for name in ("sub", "username", "client_id") if answer.get(name)), "")
        audience = answer.get("aud")
        scopes = answer.get("scope")
        try:
            return Principal(subject, audience=audience if isinstance(audience, (str, list)) else (),
                             issuer=answer.get("iss") or self.issuer or "", client_id=answer.get("client_id") or "",
                             scopes=scopes if isinstance(scopes, (str, list)) else (), expires_at=answer.get("exp"),
                             claims=answer)
        except (TypeError, ValueError) as error:
            _log.warning("a token was refused, since the introspection endpoint's answer is not valid:"
                          " %s", error)
            return None
