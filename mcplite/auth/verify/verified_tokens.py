"""VerifiedTokens: the principals of the tokens that a verifier has verified lately.

The verifiers of JSON Web Tokens and of opaque tokens keep one each, and one for bound tokens.
"""

import hashlib
import threading
from collections import OrderedDict
from typing import Callable, Optional, Tuple

from ...server.principals import Principal

__all__ = ["VerifiedTokens"]


class VerifiedTokens:
    """The principals of tokens that were verified a short time ago; refusals are not kept (AUTH-18).

    :param seconds: for which a principal is kept, if its token does not expire before.
    :param most: principals that are kept; when there are more, the oldest one is dropped.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        #: Guards ``_entries``; held for dictionary operations only.
        self._lock = threading.Lock()
        #: By the digest of a token: its principal, the times from and until which the entry is valid, and the object that the
        #: token was verified by. The first time is kept since the clock can be set back.
        self._entries: "OrderedDict[bytes, Tuple[Principal, float, float, object]]" = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, token: str, verified_by: object = None) -> Tuple[bytes, Optional[Principal]]:
        """Return the digest of a token, and its principal; None if that is not known.

        :param verified_by: the object that tokens are verified by now; an entry that was added with another one is not valid.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            known = self._entries.get(digest)
            if known is None:
                return digest, None
            if known[1] <= self._clock() < known[2] and known[3] is verified_by:
                return digest, known[0]
            del self._entries[digest]
        return digest, None

    def add(self, digest: bytes, principal: Principal, verified_by: object = None) -> None:
        """Keep the principal of a token that was verified now."""
        now = self._clock()
        until = now + self._seconds
        if principal.expires_at is not None:
            until = min(until, principal.expires_at)
        with self._lock:
            self._entries[digest] = (principal, now, until, verified_by)
            while len(self._entries) > self._most or next(iter(self._entries.values()))[2] <= now:
                self._entries.popitem(last=False)
                if not self._entries:
                    break
