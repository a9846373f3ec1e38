"""Access tokens that say nothing by themselves: the authorization server is asked about them (RFC 7662)."""

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from typing import Any, Callable, Mapping, Optional, Tuple
from urllib.parse import quote_plus

from ...protocol.http.wellknown import check_url
from ...rpc.tracing import RateLog
from .fetch import FetchError, fetch_json, shown
from .principals import Principal

__all__ = ["Introspection"]

_log = logging.getLogger(__name__)
_MOST_SECONDS = 60.0
#: Tokens that are remembered; one more forgets the one that was asked about longest ago.
_MOST_KNOWN = 10_000


class Introspection:
    """Verifies access tokens by asking the authorization server about each.

    An answer is remembered for a while, so that a token that was withdrawn is good for so long at most.

    :param url: of the introspection endpoint.
    :param client_id: this server's own name at the authorization server, and
    :param client_secret: its secret there.
    :param issuer: the issuer identifier, for answers that do not name one.
    :param cache_seconds: for which an answer is remembered, at most 60; 0 asks each time.
    :param clock: returns seconds since 1970.
    :raises ValueError: an option is not written right.
    """

    def __init__(self, url: str, *, client_id: str, client_secret: str, issuer: Optional[str] = None,
                 cache_seconds: float = 60.0, clock: Callable[[], float] = time.time) -> None:
        self._url = check_url(url, "the introspection endpoint")
        if not all(isinstance(text, str) and text for text in (client_id, client_secret)):
            raise ValueError("client_id= and client_secret= are texts that are not empty; no endpoint answers just anybody")
        # RFC 6749, section 2.3.1: name and secret are encoded before they are put together.
        self._basic = (quote_plus(client_id), quote_plus(client_secret))
        self.issuer = None if issuer is None else check_url(issuer, "issuer=")
        if not 0 <= cache_seconds <= _MOST_SECONDS:
            raise ValueError(f"cache_seconds is 0 to {_MOST_SECONDS:g}, not {cache_seconds!r}")
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._warn = RateLog(_log)
        #: Guards ``_known``; held for dictionary work only.
        self._lock = threading.Lock()
        #: By the digest of a token: whose it is, and from when until when that is believed (AUTH-18); a clock may be set back.
        self._known: "OrderedDict[bytes, Tuple[Principal, float, float]]" = OrderedDict()

    def __repr__(self) -> str:
        return f"<Introspection at {shown(self._url)}>"

    def __call__(self, token: str) -> Optional[Principal]:
        """Return whose a token is; None when it is not valid.

        :raises OSError: the authorization server cannot be asked.
        """
        digest = hashlib.sha256(token.encode("utf-8")).digest()
        with self._lock:
            known = self._known.get(digest)
            if known is not None and known[1] <= self._clock() < known[2]:
                return known[0]
            self._known.pop(digest, None)
        principal = self._principal(self._ask(token))
        if principal is not None and self._cache_seconds:
            self._remember(digest, principal)
        return principal

    def _remember(self, digest: bytes, principal: Principal) -> None:
        now = self._clock()
        until = now + self._cache_seconds
        if principal.expires_at is not None:
            until = min(until, principal.expires_at)
        with self._lock:
            self._known[digest] = (principal, now, until)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def _ask(self, token: str) -> Mapping[str, Any]:
        status, said = fetch_json(self._url, "the introspection endpoint", {"token": token, "token_type_hint": "access_token"},
                                  self._basic)
        if status in (401, 403):
            raise FetchError(f"the introspection endpoint at {shown(self._url)} refuses this server's own client_id and"
                             f" client_secret (status {status})")
        if status == 400:
            # RFC 7662 has no word for what it cannot look up, such as a token that says all by itself.
            self._warn.warning("the introspection endpoint at %s answers 400 to a token, which is refused", shown(self._url))
            return {"active": False}
        if status != 200 or not isinstance(said, dict):
            raise FetchError(f"the introspection endpoint at {shown(self._url)} gave no answer (status {status})")
        return said

    def _principal(self, said: Mapping[str, Any]) -> Optional[Principal]:
        kind = said.get("token_type")
        if said.get("active") is not True:
            return None
        if "cnf" in said or isinstance(kind, str) and kind.lower() not in ("bearer", "access_token"):
            _log.info("a token was refused: it is bound to a key, or of the type %.50r, and no bearer token", kind)
            return None
        subject = next((said[name] for name in ("sub", "username", "client_id") if said.get(name)), "")
        audience = said.get("aud")
        scopes = said.get("scope")
        try:
            return Principal(subject, audience=audience if isinstance(audience, (str, list)) else (),
                             issuer=said.get("iss") or self.issuer or "", client_id=said.get("client_id") or "",
                             scopes=scopes if isinstance(scopes, (str, list)) else (), expires_at=said.get("exp"), claims=said)
        except (TypeError, ValueError) as error:
            _log.warning("a token was refused, since the introspection endpoint says something odd about it: %s", error)
            return None
