"""How long clients may keep what they got, and with whom they may share it (from July 2026 on)."""

from dataclasses import dataclass
from typing import Any, Dict

from ...errors import RegistrationError

__all__ = ["CacheHint"]


@dataclass(frozen=True)
class CacheHint:
    """A hint for clients.

    :param ttl: seconds for which a result is good; 0, the default, is none at all (CACHE-09, CACHE-10).
    :param scope: "private", the default, for what depends on who asks; "public" for what is the same for all, and
        may be kept by gateways for all (CACHE-05).
    :raises RegistrationError: it is not written as one.
    """

    ttl: float = 0.0
    scope: str = "private"

    def __post_init__(self) -> None:
        if not self.ttl >= 0 or self.ttl > 10 ** 9:
            raise RegistrationError(f"a cache hint's ttl is a number of seconds from 0 on, not {self.ttl!r}")
        if self.scope not in ("private", "public"):
            raise RegistrationError(f"a cache hint's scope is 'private' or 'public', not {self.scope!r}")

    def members(self) -> Dict[str, Any]:
        """Return the hint as members of a result (CACHE-01, CACHE-03)."""
        return {"ttlMs": round(self.ttl * 1000), "cacheScope": self.scope}
