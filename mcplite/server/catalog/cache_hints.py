"""Cache hints (how long clients may keep results) and the mark for parameters that travel in headers."""

from typing import Any, Dict

from ...errors import RegistrationError
from ...types.lazy_dataclass import Record, record


@record(frozen=True)
class CacheHint(Record):
    """How long clients may keep a result (from July 2026 on).

    :param ttl: seconds; 0, the default, means that a result may not be kept (CACHE-09, CACHE-10).
    :param scope: "private", the default, for results that depend on the caller; "public" for results that are the same
        for all callers, which gateways may share (CACHE-05).
    :raises RegistrationError: a value is not valid.
    """

    ttl: float = 0.0
    scope: str = "private"

    def __post_init__(self) -> None:
        if isinstance(self.ttl, bool) or not isinstance(self.ttl, (int, float)) or not 0 <= self.ttl <= 10 ** 9:
            raise RegistrationError(f"a cache hint's ttl is a number of seconds from 0 on, not {self.ttl!r}")
        if self.scope not in ("private", "public"):
            raise RegistrationError(f"a cache hint's scope is 'private' or 'public', not {self.scope!r}")

    @property
    def milliseconds(self) -> int:
        """The ttl, as the protocol writes it."""
        return round(self.ttl * 1000)

    def members(self) -> Dict[str, Any]:
        """Return the hint as members of a result (CACHE-01, CACHE-03)."""
        return {"ttlMs": self.milliseconds, "cacheScope": self.scope}


class Header(Dict[str, str]):
    """Marks a tool's parameter as one that also travels in a header: ``Annotated[str, mcplite.Header("Region")]``.

    Gateways can route by the header ``Mcp-Param-Region`` (MHDR-11). Clients of July 2026 and later send it over HTTP; older
    clients send only the body. Do not use it for secrets (MHDR-30), and do not rely on it for authorization (MHDR-31).
    The object is a dict with the keyword of JSON Schema that marks the parameter.

    :param name: of the header, after ``Mcp-Param-``; for a string, integer or boolean parameter.
    :raises ValueError: it is not the name of a header field.
    """

    def __init__(self, name: str) -> None:
        from ...protocol.http.routing_headers import MARK, is_field_name  # for servers that have marked parameters

        if not is_field_name(name):
            raise ValueError(f"{name!r} is not the name of a header field: letters, digits and '-'")
        super().__init__({MARK: name})
