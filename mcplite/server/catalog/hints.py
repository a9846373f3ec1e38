"""How long clients may keep what they got, and with whom they may share it (from July 2026 on)."""

from dataclasses import dataclass
from typing import Any, Dict

from ...errors import RegistrationError
from ...protocol.http.routing_headers import MARK, is_field_name

__all__ = ["CacheHint", "header"]


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


def header(name: str) -> Dict[str, str]:
    """Mark a tool's parameter as one that travels in a header as well: ``Annotated[str, mcplite.header("Region")]``.

    Whoever stands between client and server can route by it (MHDR-11). Clients of July 2026 on send it over HTTP;
    others have only the body. It is no place for secrets (MHDR-30), and no proof of anything (MHDR-31).

    :param name: of the header, behind ``Mcp-Param-``; a string, integer or boolean parameter may have one.
    :raises ValueError: it is not the name of a header field.
    """
    if not is_field_name(name):
        raise ValueError(f"{name!r} is not the name of a header field: letters, digits and '-'")
    return {MARK: name}
