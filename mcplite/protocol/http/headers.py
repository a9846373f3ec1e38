"""HTTP header fields, and parsers for the values that MCP reads: media types, Accept, Host, Origin.

The HTTP server, the decision about requests and the client's checks of its own fields use them.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, TypeVar

#: A token, such as the name of a field or of a parameter, as a pattern (RFC 9110, section 5.6.2).
TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
#: The ports of URLs without one, by scheme.
DEFAULT_PORTS = {"http": 80, "https": 443}
#: The fields of each POST of a message over Streamable HTTP (HTTP-02).
POST_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

# As text: re compiles and keeps each on its first use; a client over stdio uses none.
_MEDIA = r"[!#$&\-^_.+0-9a-z]+/[!#$&\-^_.+0-9a-z]+"
_HOST = r"([a-z0-9_](?:[a-z0-9_.\-]*[a-z0-9_])?|\[[0-9a-f:.]+\])\.?(?::([0-9]{1,5}))?"
_UNSAFE = "[\x00-\x08\x0a-\x1f\x7f]"

_Read = TypeVar("_Read")
#: Clients send the same few values with each request.
_cached = functools.lru_cache(maxsize=128)


class Headers:
    """The header fields of one message, by name without regard to case (HDR-06).

    :param pairs: the raw names and values; blanks and tabs around values are dropped.
    """

    __slots__ = ("_pairs", "first", "known")

    def __init__(self, pairs: Iterable[Tuple[str, str]] = ()) -> None:
        self._pairs = [(name.lower(), value.strip(" \t")) for name, value in pairs]
        #: By name in lower case, what :meth:`get` returns.
        self.first: Dict[str, str] = {}
        for name, value in self._pairs:
            self.first[name] = f"{self.first[name]}, {value}" if name in self.first else value
        #: By reader, what :meth:`read_once` returns; each request looks here first.
        self.known: Dict[Callable[[Headers], Any], Any] = {}

    def read_once(self, reader: "Callable[[Headers], _Read]") -> _Read:
        """Return what *reader* makes of the fields; it is called once for these fields.

        A connection keeps the fields while its client repeats them, so that most requests find them read already.

        :param reader: depends on nothing but the fields, without the length of the body, and what never changes.
        """
        found: Optional[_Read] = self.known.get(reader)
        if found is None:
            found = self.known[reader] = reader(self)
        return found

    def with_length(self, digits: str) -> "Headers":
        """Return the fields of a message like this one, whose body has another length; both know what was read of either."""
        headers: Headers = object.__new__(Headers)
        headers._pairs = [(name, digits if name == "content-length" else value) for name, value in self._pairs]
        headers.first = {**self.first, "content-length": digits}
        headers.known = self.known
        return headers

    def get(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """Return a field's value; the values of repeated fields are joined by commas."""
        return self.first.get(name.lower(), default)

    def __getitem__(self, name: str) -> str:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def all(self, name: str) -> List[str]:
        """Return the values of all fields of a name, which is in lower case."""
        return [value for at, value in self._pairs if at == name]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names, in lower case, each once."""
        return iter(self.first)

    def __len__(self) -> int:
        return len(self.first)

    def keys(self) -> List[str]:
        """Return the names, in lower case, each once; so ``dict(headers)`` has each with its value."""
        return list(self.first)

    def items(self) -> List[Tuple[str, str]]:
        """Return the names, in lower case, and the values."""
        return list(self._pairs)


@_cached
def media_type(value: Optional[str]) -> str:
    """Return the media type without its parameters, in lower case; empty if it is missing or malformed."""
    if value == "application/json":
        return value
    kind = (value or "").partition(";")[0].strip(" \t").lower()
    return kind if re.fullmatch(_MEDIA, kind) else ""


@_cached
def accepts(value: Optional[str], *types: str) -> bool:
    """Whether an ``Accept`` header accepts all of *types*; a missing header accepts everything."""
    if value is None:
        return True
    ranges: Dict[str, bool] = {}
    for item in value.lower().split(","):
        kind, *parameters = [part.strip(" \t") for part in item.split(";")]
        refused = any(re.fullmatch(r"q=0(\.0{0,3})?", parameter) for parameter in parameters)
        ranges["*/*" if kind == "*" else kind] = not refused  # as old clients in Java write it
    for wanted in types:
        for candidate in (wanted, wanted.partition("/")[0] + "/*", "*/*"):
            if candidate in ranges:
                if not ranges[candidate]:
                    return False
                break
        else:
            return False
    return True


@_cached
def parse_host(value: str) -> Optional[Tuple[str, Optional[int]]]:
    """Return name and port of a ``Host``; None if it is not ``name``, ``name:port`` or ``[address]:port``."""
    match = re.fullmatch(_HOST, value.lower()) if value.isascii() else None
    if match is None:
        return None
    port = int(match.group(2)) if match.group(2) else None
    return (match.group(1), port) if port is None or port < 65536 else None


@_cached
def parse_origin(value: str) -> Optional[Tuple[str, str, Optional[int]]]:
    """Return scheme, host and port of an ``Origin``; the port is None if it is the scheme's default."""
    scheme, separator, rest = value.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in DEFAULT_PORTS:
        return None
    host = parse_host(rest)
    if host is None:
        return None
    return scheme, host[0], None if host[1] == DEFAULT_PORTS[scheme] else host[1]


def check_header(name: str, value: str) -> None:
    """Check that a field can be sent (SEC-18).

    :raises ValueError: the name is not a token, or the value has control characters.
    """
    if not re.fullmatch(TOKEN, name) or re.search(_UNSAFE, value):
        raise ValueError(f"the header {name!r} cannot be sent with the value {value!r}")
