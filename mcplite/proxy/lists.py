"""ListObserver: sees how a server pages its lists and how long they may be kept, so that a bridge to it does the same.

A module of its own, since it knows the results as they came, which the typed methods of a client do not keep together.
"""

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ..client.call import Call
from ..client.client_observer import ClientObserver, ObservedSession
from ..errors import RegistrationError
from ..server.catalog.cache_hints import CacheHint
from ..server.catalog.catalog import Catalog

__all__ = ["ListObserver"]

#: By method: the kind of list, and the member of a result that has the entries.
_LISTS: Mapping[str, Tuple[str, str]] = {
    "tools/list": ("tools", "tools"), "prompts/list": ("prompts", "prompts"), "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"), "server/discover": ("discover", "")}


class ListObserver(ClientObserver):
    """Tells the catalog of a bridge of the size of the first page of each list, and of the hints of the server.

    :param catalog: of the bridge.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def request(self, session: ObservedSession, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        result = send(call)
        kind, member = _LISTS.get(call.method, ("", ""))
        if kind and "cursor" not in (call.params or {}):
            entries = result.get(member)
            # A list of one page does not say how large a page may be.
            size = len(entries) if isinstance(entries, list) and result.get("nextCursor") is not None else 0
            self._catalog.set_listing(kind, size or None, _hint(result))
        return result


def _hint(result: Mapping[str, Any]) -> Optional[CacheHint]:
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    if type(ttl) not in (int, float) or not isinstance(scope, str):
        return None  # of a revision without hints, or invalid, which the codec reports
    try:
        return CacheHint(ttl / 1000, scope)  # type: ignore[operator]
    except RegistrationError:
        return None
