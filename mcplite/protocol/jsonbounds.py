"""JSON from a stranger: bounded in depth, size and number before it is parsed.

May import: errors

Four megabytes of ``[{},{},...]`` become a hundred of Python objects, so the counting comes first. For
a small message it is two calls of ``bytes.count``.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from ..errors import INVALID_REQUEST, PARSE_ERROR

__all__ = ["DEFAULT_LIMITS", "DuplicateKey", "JSONLimits", "TooLarge", "load"]


@dataclass(frozen=True)
class JSONLimits:
    """Bounds on one JSON text and on the JSON-RPC members in it."""

    #: Depth of arrays and objects.
    nesting: int = 64
    #: Keys and items in all.
    elements: int = 100_000
    #: Digits of one integer; Python's own bound, which older versions do not have.
    digits: int = 4300
    #: Characters of a request id.
    id_length: int = 256
    #: Characters of a method.
    method_length: int = 256
    #: Messages of one batch.
    batch: int = 50
    #: Whether a key may come twice, the last one counting. A server refuses, so that a proxy in front
    #: of it cannot have read another value than it does (SEC-24).
    duplicate_keys: bool = False


DEFAULT_LIMITS = JSONLimits()


class TooLarge(ValueError):
    """More depth or more elements than the limits allow; ``code`` is the JSON-RPC error for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class DuplicateKey(ValueError):
    """An object has the same key twice."""


_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*"?')
_OPENERS = frozenset(b"[{")
_NOT_STRUCTURAL = bytes(set(range(256)) - set(b"[]{},"))
#: Digits in a row from which on integers are looked at one by one.
_LONG = 1000
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % _LONG)


def _scan(data: bytes, limits: JSONLimits) -> None:
    """Count depth and elements exactly, skipping strings."""
    # Three passes that never go back, so that no text takes more than linear time: without the escapes
    # each string ends at the next quote, and without the strings only structure is left.
    bare = _STRING.sub(b"", _ESCAPE.sub(b"", data)).translate(None, _NOT_STRUCTURAL)
    depth = 0
    # What comes later is over the number of elements, or closes more than was opened, which is no JSON.
    for byte in bare[:2 * limits.elements]:
        if byte in _OPENERS:
            depth += 1
            if depth > limits.nesting:
                raise TooLarge(f"Parse error: nested more than {limits.nesting} levels deep", PARSE_ERROR)
        elif byte != 0x2C:
            depth -= 1
    if bare.count(b"[") + bare.count(b"{") + bare.count(b",") > limits.elements:
        raise TooLarge(f"more than {limits.elements} keys and items in one message", INVALID_REQUEST)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(f"the key {key[:100]!r} comes twice in one object")
            seen.add(key)
    return value


def _bounded_int(digits: int) -> Any:
    def convert(text: str) -> int:
        if len(text) - text.startswith("-") > digits:
            raise ValueError(f"an integer has more than {digits} digits")
        return int(text)

    return convert


_strict = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique).decode
_plain = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


def load(data: bytes, limits: JSONLimits = DEFAULT_LIMITS) -> Any:
    """Return the value of one JSON text.

    :raises TooLarge: it exceeds a limit.
    :raises DuplicateKey: a key comes twice, and may not.
    :raises ValueError: it is not UTF-8, not JSON, or has a number that is not finite or too long.
    """
    opened = data.count(b"{") + data.count(b"[")
    # Every nesting needs an opener and every element an opener or a comma; strings can only add to both.
    if opened > limits.nesting or opened + data.count(b",") > limits.elements:
        _scan(data, limits)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    try:
        if len(data) > limits.digits and (limits.digits < _LONG or _LONG_NUMBER.search(data)):
            # Only a text this long can hold such an integer, so the slow way is off the common path.
            return json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite,
                                    parse_int=_bounded_int(limits.digits),
                                    object_pairs_hook=None if limits.duplicate_keys else _unique).decode(text)
        return _plain(text) if limits.duplicate_keys else _strict(text)
    except RecursionError:
        raise TooLarge("Parse error: nested too deeply", PARSE_ERROR) from None
