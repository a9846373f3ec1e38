"""Keeps the events of streams, for clients that resume a stream.

:mod:`.streams` writes and reads the store. A user who wants events to outlive the process passes a store of their own.
"""

import threading
import time
from collections import OrderedDict, deque
from typing import Callable, Deque, List, Optional, Tuple

from ..limits import Limits

__all__ = ["EventStore", "MemoryEventStore"]

#: Bytes that an event and a stream cost besides their content, roughly, so that many small ones are bounded as well.
_EVENT_COST = 200
_STREAM_COST = 1000


class EventStore:
    """Keeps the events of streams; the interface for custom stores.

    The name of a stream is an opaque string. The events of a stream are numbered from 1. All methods are called from any
    thread, and must not block for long.
    """

    def append(self, stream: str, number: int, event: bytes) -> None:
        """Store an event of a stream."""
        raise NotImplementedError

    def after(self, stream: str, number: int) -> Optional[List[bytes]]:
        """Return the events after *number* in order; None if some of them are not kept any more."""
        raise NotImplementedError

    def forget(self, stream: str) -> None:
        """Drop a stream, if it is there."""
        raise NotImplementedError


class _Log:
    __slots__ = ("events", "bytes", "dropped", "touched")

    def __init__(self) -> None:
        self.events: Deque[Tuple[int, bytes]] = deque()
        self.bytes = _STREAM_COST
        #: The number of the last event that was dropped.
        self.dropped = 0
        self.touched = 0.0


class MemoryEventStore(EventStore):
    """Keeps events in this process, within ``stream_events``, ``stream_bytes``, ``store_bytes`` and ``store_seconds``.

    :param clock: returns seconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        #: Guards the two fields below.
        self._lock = threading.Lock()
        #: In the order of their last events, oldest first.
        self._logs: "OrderedDict[str, _Log]" = OrderedDict()
        self._bytes = 0

    def append(self, stream: str, number: int, event: bytes) -> None:
        limits, now = self._limits, self._clock()
        with self._lock:
            log = self._logs.get(stream)
            if log is None:
                log = self._logs[stream] = _Log()
                # The stream is new, or was dropped: then its earlier events are missing.
                log.dropped = number - 1
                self._bytes += log.bytes
            else:
                self._logs.move_to_end(stream)
            log.touched = now
            log.events.append((number, event))
            log.bytes += len(event) + _EVENT_COST
            self._bytes += len(event) + _EVENT_COST
            while len(log.events) > limits.stream_events or (log.bytes > limits.stream_bytes and len(log.events) > 1):
                oldest, dropped = log.events.popleft()
                log.dropped = oldest
                log.bytes -= len(dropped) + _EVENT_COST
                self._bytes -= len(dropped) + _EVENT_COST
            while len(self._logs) > 1:
                name, first = next(iter(self._logs.items()))
                if self._bytes <= limits.store_bytes and now - first.touched <= limits.store_seconds:
                    break
                self._drop(name)

    def after(self, stream: str, number: int) -> Optional[List[bytes]]:
        with self._lock:
            log = self._logs.get(stream)
            if log is None or self._clock() - log.touched > self._limits.store_seconds:
                return None
            if number < log.dropped or number > log.events[-1][0]:
                return None
            return [event for at, event in log.events if at > number]

    def forget(self, stream: str) -> None:
        with self._lock:
            if stream in self._logs:
                self._drop(stream)

    def _drop(self, stream: str) -> None:
        self._bytes -= self._logs.pop(stream).bytes
