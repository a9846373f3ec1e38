"""Opaque cursors for the lists of a server.

A cursor names the last entry of its page, so that entries which come or go between two pages move
nothing else (PAGE-08).
"""

import base64
import binascii
import json
from typing import Callable, List, Optional, Sequence, Tuple, TypeVar

from ..errors import InvalidParams

__all__ = ["page"]

T = TypeVar("T")
_MAX_CURSOR = 8192
_MAX_NAME = 256


def page(items: Sequence[T], cursor: Optional[str], size: int, list_name: str, *,
         key: Callable[[T], str]) -> Tuple[List[T], Optional[str]]:
    """Return one page of *items* and the cursor of the next; None when this is the last.

    :param cursor: what an earlier call returned, or None for the first page.
    :param size: entries of a page.
    :param list_name: goes into the cursor, so that another list's is refused.
    :param key: gives the entry's unique name.
    :raises InvalidParams: the cursor is none of this list's (PAGE-09, PAGE-10).
    """
    start = 0
    if cursor is not None:
        position, last = _decode(cursor, list_name)
        names = [_mark(key(item)) for item in items]
        if last in names:
            start = names.index(last) + 1
        else:
            # The entry is gone; whatever came after it has moved up by at least one.
            start = min(position, len(items))
    chosen = list(items[start:start + size])
    if start + size >= len(items):
        return chosen, None
    return chosen, _encode(list_name, start + size - 1, _mark(key(chosen[-1])))


def _mark(name: str) -> str:
    """Return what stands for an entry in a cursor: its name, unless that is longer than a cursor should be."""
    if len(name) <= _MAX_NAME:
        return name
    import hashlib  # for names that hardly anybody has; it brings OpenSSL along

    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _encode(list_name: str, position: int, last: str) -> str:
    text = json.dumps([list_name, position, last], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


def _decode(cursor: str, list_name: str) -> Tuple[int, str]:
    try:
        if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR:
            raise ValueError("no text, or too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        named, position, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if named != list_name or type(position) is not int or position < 0 or type(last) is not str:
            raise ValueError("of another list")
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise InvalidParams(f"Invalid cursor: {str(cursor)[:100]!r}") from error
    return position, last
