"""Cache: results by method and params, for as long as the server allows (from July 2026 on).

One cache belongs to one client, which acts for one user; nothing is shared between clients (CACHE-08).
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple

from ..protocol.meta import LIST_CHANGES, RESOURCE_UPDATED

__all__ = ["CACHEABLE", "Cache"]

#: The methods whose results may be cached (CACHE-01); the result of ``server/discover`` is part of the session.
CACHEABLE = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list",
                       "resources/read"})
_MOST_ENTRIES = 1000
#: The most characters of all results with their params, as JSON; a single result may have a quarter of them.
_MOST_CHARACTERS = 32 << 20
_LONGEST_SECONDS = 86_400.0


class Cache:
    """The cached results of one client.

    :param on: False caches nothing.
    :param clock: returns seconds.
    """

    def __init__(self, on: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = on
        self._clock = clock
        #: Guards the three fields below; held for dictionary work only. They are the results as JSON, each with the time when
        #: it expires; the characters of all results and params; and the number of changes so far.
        self._lock = threading.RLock()
        self._kept: Dict[Tuple[str, str], Tuple[float, str]] = {}
        self._size = 0
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """The number of changes so far; read it before a request, for :meth:`keep`."""
        return self._epoch

    def find(self, method: str, params: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """Return the cached result of a request; None if there is none, or it is stale."""
        kept = self._kept.get((method, _key(params)))
        if kept is None or kept[0] <= self._clock():
            return None
        found: Dict[str, Any] = json.loads(kept[1])  # a copy, which the caller may change
        return found

    def keep(self, method: str, params: Optional[Dict[str, Any]], result: Dict[str, Any], epoch: int) -> None:
        """Cache a result for its ``ttlMs`` (CACHE-09, CACHE-10).

        :param epoch: :attr:`epoch` from before the request; if it has changed since, the result is not cached.
        """
        seconds = result.get("ttlMs")
        if not self._on or method not in CACHEABLE or not isinstance(seconds, (int, float)) or not seconds > 0:
            return
        if params and ("inputResponses" in params or "requestState" in params):
            return  # CACHE-07
        now = self._clock()
        until = now + min(seconds, _LONGEST_SECONDS * 1000) / 1000
        key, text = (method, _key(params)), json.dumps(result)
        size = len(text) + len(key[1])
        if size > _MOST_CHARACTERS // 4:
            return  # it would displace many others
        with self._lock:
            if epoch != self._epoch:
                return
            self._drop(key)
            if len(self._kept) >= _MOST_ENTRIES or self._size + size > _MOST_CHARACTERS:
                self._drop(*[known for known, kept in self._kept.items() if kept[0] <= now])
            while len(self._kept) >= _MOST_ENTRIES or self._size + size > _MOST_CHARACTERS:
                self._drop(next(iter(self._kept)))
            self._kept[key] = (until, text)
            self._size += size

    def _drop(self, *keys: Tuple[str, str]) -> None:
        # With the lock held.
        for key in keys:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._size -= len(kept[1]) + len(key[1])

    def changed(self, notification: str, uri: Optional[str] = None) -> None:
        """Drop the results that a notification makes stale (CACHE-14).

        :param uri: of the updated resource.
        """
        change = LIST_CHANGES.get(notification)
        if change is None and notification != RESOURCE_UPDATED:
            return
        with self._lock:
            self._epoch += 1
            if change is None:
                stale = {key for key in self._kept if key[0] == "resources/read" and _is_of(key[1], uri)}
            else:
                stale = {key for key in self._kept if key[0] in change.lists}
            self._drop(*stale)

    def clear(self) -> None:
        """Drop all results."""
        with self._lock:
            self._epoch += 1
            self._kept.clear()
            self._size = 0


def _is_of(key: str, uri: Optional[str]) -> bool:
    """Whether a key belongs to a request for the resource *uri*, in any form of this URI."""
    from ..protocol.uris import normal_uri  # for clients that follow resources

    given = json.loads(key).get("uri")
    return given == uri or isinstance(given, str) and uri is not None and normal_uri(given) == normal_uri(uri)


def _key(params: Optional[Dict[str, Any]]) -> str:
    """Return the second part of the key of a cached result: all params of the request, as JSON (CACHE-06)."""
    return json.dumps(params or {}, sort_keys=True, default=str)
