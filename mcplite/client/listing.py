"""Walking all pages of a list, with bounds.

May import: errors
"""

from typing import Any, Callable, List, Optional, Set

from ..errors import ProtocolError

__all__ = ["walk"]

_MAX_PAGES = 1000
_MAX_ITEMS = 10_000


def walk(page: Callable[[Optional[str]], Any], member: str, name: str) -> List[Any]:
    """Return the items of all pages.

    Only an absent cursor is the end; an empty one is a cursor (PAGE-05, PAGE-06).

    :param page: returns one page for a cursor.
    :param member: of the page, which holds the items.
    :param name: of the server, for errors.
    :raises ProtocolError: a cursor came twice, or there is no end within 1,000 pages or 10,000 items (PAGE-12).
    """
    items: List[Any] = []
    seen: Set[str] = set()
    cursor: Optional[str] = None
    for _ in range(_MAX_PAGES):
        result = page(cursor)
        items.extend(getattr(result, member))
        cursor = result.next_cursor
        if cursor is None:
            return items
        if cursor in seen:
            raise ProtocolError(f"{name} gave the cursor {cursor[:100]!r} twice: its list of {member} has no end")
        if len(items) > _MAX_ITEMS:
            break
        seen.add(cursor)
    raise ProtocolError(f"{name} lists more than {_MAX_PAGES} pages or {_MAX_ITEMS} {member}; take single pages"
                        f" with list_{member}_page()")
