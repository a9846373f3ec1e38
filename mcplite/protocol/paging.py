"""Pages of a server's lists, with opaque cursors.

A cursor names the last entry of its page, so that entries which are added or removed between two requests do not
shift the others (PAGE-08).
"""

from __future__ import annotations

import json
from typing import Callable, List, Optional, Sequence, Tuple, TypeVar

from ..errors import InvalidParams
from .base64url import base64url_decode, base64url_encode

__all__ = ["page"]

T = TypeVar("T")
_MAX_CURSOR = 8192
_MAX_NAME = 256


def page(items: Sequence[T], cursor: Optional[str], size: int, list_name: str, *,
         key: Callable[[T], str]) -> Tuple[List[T], Optional[str]]:
    """Return one page of *items* and the cursor of the next page; None for the last page.

    :param cursor: the cursor of an earlier call; None for the first page.
    :param size: entries of a page.
    :param list_name: the name of the list, which is part of the cursor, so that cursors of other lists are refused.
    :param key: returns an entry's unique name.
    :raises InvalidParams: the cursor is not one of this list (PAGE-09, PAGE-10).
    """
    start = 0
    if cursor is not None:
        position, last = _decode(cursor, list_name)
        names = [_mark(key(item)) for item in items]
        if last in names:
            start = names.index(last) + 1
        else:
            # The entry was removed; the entries behind it have moved up by at least one.
            start = min(position, len(items))
    chosen = list(items[start:start + size])
    if start + size >= len(items):
        return chosen, None
    return chosen, _encode(list_name, start + size - 1, _mark(key(chosen[-1])))


def _mark(name: str) -> str:
    """Return the mark of an entry in a cursor: its name, or a hash of a long name."""
    if len(name) <= _MAX_NAME:
        return name
    import hashlib  # loads OpenSSL, and such names are rare

    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _encode(list_name: str, position: int, last: str) -> str:
    text = json.dumps([list_name, position, last], separators=(",", ":"))
    return base64url_encode(text.encode("utf-8"))


def _decode(cursor: str, list_name: str) -> Tuple[int, str]:
    try:
        if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR:
            raise ValueError("not a text, or too long")
        named, position, last = json.loads(base64url_decode(cursor))
        if named != list_name or type(position) is not int or position < 0 or type(last) is not str:
            raise ValueError("of another list")
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidParams(f"Invalid cursor: {str(cursor)[:100]!r}") from error
    return position, last
