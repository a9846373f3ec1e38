"""Keeps the events of streams, for clients that resume a stream.

:mod:`.streams` writes and reads the store. A user who wants events to outlive the process passes a store of their own.
"""

import sys
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Tuple

from ...rpc.forks import new_lock
from ..eviction import Shares
from ..limits import Limits

__all__ = ["EventStore", "MemoryEventStore"]

#: Bytes that an event and a stream cost besides their content, roughly, so that many small ones are bounded as well.
_EVENT_COST = 200
_STREAM_COST = 1000
#: Seconds between two searches for streams whose last event is too old.
_SWEEP_SECONDS = 1.0


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

    def append_for(self, sender: str, stream: str, number: int, event: bytes) -> None:
        """Store an event that counts to a sender's share: its principal or remote address. By default :meth:`append`."""
        self.append(stream, number, event)

    def sweep(self) -> bool:
        """Let go of what has expired; called about once a second while the method returns True, and now and then besides.

        :returns: whether anything is left that can expire. By default False.
        """
        return False


class _Log:
    __slots__ = ("events", "bytes", "dropped", "touched")

    def __init__(self, dropped: int) -> None:
        self.events: Deque[Tuple[int, bytes]] = deque()
        self.bytes = _STREAM_COST
        #: The number of the last event that was dropped.
        self.dropped = dropped
        self.touched = 0.0


class MemoryEventStore(EventStore):
    """Keeps events in this process, within ``stream_events``, ``stream_bytes``, ``store_bytes`` and ``store_seconds``.

    When all events together are too large, the sender with the most loses its stream with the oldest last event.

    :param clock: returns seconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        #: Guards ``_logs`` and what is in them.
        self._lock = new_lock()
        self._logs: Dict[str, _Log] = {}
        #: The names of the streams. A stream that is chosen to go is removed here first, and from ``_logs`` a moment later.
        self._shares: Shares[str] = Shares(sys.maxsize, limits.store_bytes, clock=clock)
        self._swept = clock()

    def __len__(self) -> int:
        return len(self._logs)

    def append(self, stream: str, number: int, event: bytes) -> None:
        self.append_for("", stream, number, event)

    def append_for(self, sender: str, stream: str, number: int, event: bytes) -> None:
        limits = self._limits
        self.sweep()
        with self._lock:
            log = self._logs.get(stream)
            new = log is None
            if log is None:
                # The stream is new, or was dropped: then its earlier events are missing.
                log = self._logs[stream] = _Log(number - 1)
            log.touched = self._clock()
            log.events.append((number, event))
            log.bytes += len(event) + _EVENT_COST
            while len(log.events) > limits.stream_events or (log.bytes > limits.stream_bytes and len(log.events) > 1):
                oldest, dropped = log.events.popleft()
                log.dropped = oldest
                log.bytes -= len(dropped) + _EVENT_COST
            size = log.bytes
        going: Optional[List[str]]
        if new:
            going = self._shares.add(stream, sender, size)
        else:
            going = self._shares.resize(stream, size)
        self._shares.use(stream)
        self._drop([stream] if going is None else going)

    def after(self, stream: str, number: int) -> Optional[List[bytes]]:
        with self._lock:
            log = self._logs.get(stream)
            if log is None or self._clock() - log.touched > self._limits.store_seconds:
                return None
            if number < log.dropped or number > log.events[-1][0]:
                return None
            return [event for at, event in log.events if at > number]

    def forget(self, stream: str) -> None:
        if stream in self._logs:
            self._shares.remove(stream)
            self._drop([stream])

    def sweep(self) -> bool:
        now = self._clock()
        if now - self._swept < _SWEEP_SECONDS:
            return bool(self._logs)
        self._swept = now
        expired = self._shares.idle(self._limits.store_seconds, self._limits.store_seconds)
        for stream in expired:
            self._shares.remove(stream)
        self._drop(expired)
        return bool(self._logs)

    def _drop(self, streams: List[str]) -> None:
        if streams:
            with self._lock:
                for stream in streams:
                    self._logs.pop(stream, None)
