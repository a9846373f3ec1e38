"""Walks paginated lists within bounds, and skips malformed items.

The list methods of :class:`~.methods.Features` use it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Type, TypeVar

from ... import types
from ...errors import ProtocolError
from ...protocol import codec
from ...protocol.jsonio import memory_size
from ...rpc.tracing import get_logger

__all__ = ["read_page", "walk"]

_log = get_logger(__name__)
P = TypeVar("P", bound="types.Model")
_MAX_PAGES = 1000
_MAX_ITEMS = 10_000
#: Bytes that all pages of one list may take in memory; a list of one page is bounded by the limits on one message.
_MAX_BYTES = 40 << 20
#: Characters of a cursor, which goes back to the server.
_MAX_CURSOR = 1 << 20
#: By the name of a page's class: the member on the wire, the attribute, the name of its items' class.
_ITEMS: Dict[str, Tuple[str, str, str]] = {
    "ListToolsResult": ("tools", "tools", "Tool"),
    "ListResourcesResult": ("resources", "resources", "Resource"),
    "ListResourceTemplatesResult": ("resourceTemplates", "resource_templates", "ResourceTemplate"),
    "ListPromptsResult": ("prompts", "prompts", "Prompt"),
}


def read_page(cls: Type[P], wire: Dict[str, Any], name: str) -> P:
    """Return one page; items that break the rules are left out, with a warning (SEC-67).

    :param cls: the class of the page.
    :param wire: the server's answer.
    :param name: the server's name, for the warning.
    :raises ProtocolError: the page itself breaks the rules.
    """
    try:
        return codec.decode(cls, wire)
    except ProtocolError as first:
        if cls.__name__ not in _ITEMS:
            raise
        member, attribute, kind = _ITEMS[cls.__name__]
        items = wire.get(member)
        if not isinstance(items, list):
            raise
        page = codec.decode(cls, {**wire, member: []})
        good = getattr(page, attribute)
        for item in items:
            try:
                good.append(codec.decode(getattr(types, kind), item))
            except ProtocolError:
                continue
        _log.warning("%s: %d of the %s it lists are invalid and left out: %.200s",
                     name, len(items) - len(good), attribute.replace("_", " "), first)
        return page


def walk(page: Callable[[Optional[str]], Any], member: str, name: str) -> List[Any]:
    """Return the items of all pages.

    Only an absent cursor ends the list; an empty one is a cursor (PAGE-05, PAGE-06). Some servers mean the end by it, and
    then list the same again with an empty cursor: that page is left out.

    :param page: returns the page for a cursor.
    :param member: the attribute of a page that has the items.
    :param name: the server's name, for errors.
    :raises ProtocolError: a cursor came twice, or the list exceeds 1,000 pages, 10,000 items or 40 MiB (PAGE-12),
        or a cursor a megabyte.
    """
    items: List[Any] = []
    seen: Set[str] = set()
    cursor: Optional[str] = None
    size = 0
    for _ in range(_MAX_PAGES):
        result = page(cursor)
        found = getattr(result, member)
        if cursor == result.next_cursor == "" and (not found or found == items[-len(found):]):
            return items
        items.extend(found)
        cursor = result.next_cursor
        if cursor is None:
            return items
        if len(items) > _MAX_ITEMS:
            break
        if len(cursor) > _MAX_CURSOR:
            raise ProtocolError(f"{name} gave a cursor of more than {_MAX_CURSOR} characters in its list of {member}")
        if cursor in seen:
            raise ProtocolError(f"{name} gave the cursor {cursor[:100]!r} twice: its list of {member} has no end")
        seen.add(cursor)
        size += memory_size(result, _MAX_BYTES)
        if size > _MAX_BYTES:
            raise ProtocolError(f"{name} lists {member} of more than {_MAX_BYTES} bytes; take single pages with"
                                f" list_{member}_page()")
    raise ProtocolError(f"{name} lists more than {_MAX_PAGES} pages or {_MAX_ITEMS} {member}; take single pages"
                        f" with list_{member}_page()")
