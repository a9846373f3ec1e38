"""What a server said may be kept for a while: results by method and params (from July 2026 on).

One cache belongs to one client, which speaks for one user; nothing is shared beyond it (CACHE-08).
"""

import json
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple

__all__ = ["CACHEABLE", "Cache"]

#: The methods whose results may be kept (CACHE-01); what a server says of itself a client keeps anyway.
CACHEABLE = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list",
                       "resources/read"})
#: What each change makes stale (CACHE-14).
_STALE = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
    "notifications/resources/updated": ("resources/read",),
}
_MOST_ENTRIES = 1000
#: Of all results together, as JSON; of one, a fourth of it.
_MOST_CHARACTERS = 32 << 20
_LONGEST_SECONDS = 86_400.0


class Cache:
    """Results that are still fresh.

    :param on: whether anything is kept.
    :param clock: returns seconds.
    """

    def __init__(self, on: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = on
        self._clock = clock
        #: Guards the three fields below: results as text by method and params, the characters of all, and the changes; held for dictionary work only.
        self._lock = threading.Lock()
        self._kept: Dict[Tuple[str, str], Tuple[float, str]] = {}
        self._size = 0
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Counts the changes; to be taken before a request, for :meth:`keep`."""
        return self._epoch

    def find(self, method: str, params: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """Return a result that is still fresh; None when there is none."""
        kept = self._kept.get((method, _key(params)))
        if kept is None or kept[0] <= self._clock():
            return None
        found: Dict[str, Any] = json.loads(kept[1])  # a copy: what a caller does with it is its own affair
        return found

    def keep(self, method: str, params: Optional[Dict[str, Any]], result: Dict[str, Any], epoch: int) -> None:
        """Keep a result as long as it says (CACHE-09, CACHE-10).

        :param epoch: from before it was asked for; when something has changed since, nothing is kept.
        """
        seconds = result.get("ttlMs")
        if not self._on or method not in CACHEABLE or not isinstance(seconds, (int, float)) or not seconds > 0:
            return
        if params and ("inputResponses" in params or "requestState" in params):
            return  # CACHE-07
        now = self._clock()
        until = now + min(seconds, _LONGEST_SECONDS * 1000) / 1000
        key, text = (method, _key(params)), json.dumps(result)
        if len(text) > _MOST_CHARACTERS // 4:
            return  # it would take the place of much else
        with self._lock:
            if epoch != self._epoch:
                return
            self._drop(key)
            if len(self._kept) >= _MOST_ENTRIES or self._size + len(text) > _MOST_CHARACTERS:
                self._drop(*[known for known, kept in self._kept.items() if kept[0] <= now])
            while len(self._kept) >= _MOST_ENTRIES or self._size + len(text) > _MOST_CHARACTERS:
                self._drop(next(iter(self._kept)))
            self._kept[key] = (until, text)
            self._size += len(text)

    def _drop(self, *keys: Tuple[str, str]) -> None:
        # With the lock held.
        for key in keys:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._size -= len(kept[1])

    def changed(self, notification: str, uri: Optional[str] = None) -> None:
        """Forget what a change makes stale (CACHE-14).

        :param uri: of a resource that was updated.
        """
        methods = _STALE.get(notification)
        if methods is None:
            return
        with self._lock:
            self._epoch += 1
            if "resources/read" in methods:
                stale = {key for key in self._kept if key[0] == "resources/read" and json.loads(key[1]).get("uri") == uri}
            else:
                stale = {key for key in self._kept if key[0] in methods}
            self._drop(*stale)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._epoch += 1
            self._kept.clear()
            self._size = 0


def _key(params: Optional[Dict[str, Any]]) -> str:
    """Return what tells one request from another: all that its sender says (CACHE-06)."""
    return json.dumps(params or {}, sort_keys=True, default=str)
