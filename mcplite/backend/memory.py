"""The backend in the memory of one process: the default, and the shortest implementation of the interface."""

import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from ..rpc.deadline import WakeSignal, wait_interruptibly
from ..rpc.forks import on_fork
from .interface import NUMBERS_SECONDS, Backend, Entry

__all__ = ["MemoryBackend"]

#: Seconds between two searches for expired values, entries and logs.
_SWEEP_SECONDS = 1.0


class _Kept(NamedTuple):
    value: bytes
    until: float


class _NumberedLog:
    __slots__ = ("entries", "last", "until")

    def __init__(self) -> None:
        #: Number, bytes and the end of the lifetime of each entry.
        self.entries: Deque[Tuple[int, bytes, float]] = deque()
        self.last = 0
        #: When the log is forgotten, so that its numbers begin at 1 again.
        self.until = 0.0


class MemoryBackend(Backend):
    """Keeps values and logs in this process.

    A forked process begins with an empty copy.

    :param clock: returns seconds; for tests.
    """

    shared = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._values: Dict[str, _Kept] = {}
        self._logs: Dict[str, _NumberedLog] = {}
        self._swept = clock()
        #: The threads that wait for a log, each as the signal that wakes it.
        self._waiting: Dict[str, List[WakeSignal]] = {}
        self._closed = False
        on_fork(self, MemoryBackend._forked)

    def _forked(self, owner: int) -> None:
        self._values.clear()
        self._logs.clear()
        self._waiting.clear()

    def put(self, key: str, value: bytes, seconds: float) -> None:
        now = self._clock()
        with self._lock:
            if now - self._swept >= _SWEEP_SECONDS:
                self._sweep(now)
            self._values[key] = _Kept(value, now + seconds)

    def get(self, key: str) -> Optional[bytes]:
        return self._alive(self._values.get(key))

    def take(self, key: str) -> Optional[bytes]:
        with self._lock:
            kept = self._values.pop(key, None)
        return self._alive(kept)

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        now = self._clock()
        with self._lock:
            if now - self._swept >= _SWEEP_SECONDS:
                self._sweep(now)  # also here: some values are only swapped, such as those that are used once
            if self._alive(self._values.get(key)) != old:
                return False
            if new is None:
                self._values.pop(key, None)
            else:
                self._values[key] = _Kept(new, now + seconds)
            return True

    def _alive(self, kept: Optional[_Kept]) -> Optional[bytes]:
        return None if kept is None or kept.until <= self._clock() else kept.value

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        now = self._clock()
        until = now + seconds
        with self._lock:
            if now - self._swept >= _SWEEP_SECONDS:
                self._sweep(now)
            found = self._logs.get(log)
            if found is None or found.until <= now:
                found = self._logs[log] = _NumberedLog()
            number = found.last = found.last + 1
            if until + NUMBERS_SECONDS > found.until:
                found.until = until + NUMBERS_SECONDS
            entries = found.entries
            entries.append((number, value, until))
            while len(entries) > keep:
                entries.popleft()
            if log in self._waiting:
                self._wake(log)
            return number

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        now = self._clock()
        with self._lock:
            found = self._logs.get(log)
            last = 0 if found is None or found.until <= now else found.last
            if found is None or number >= last:
                return [] if number == last else None
            # From the newest entry backward: most readers have read all but the last few entries.
            entries: List[Entry] = []
            for at, value, until in reversed(found.entries):
                if at <= number or until <= now:
                    break
                entries.append((at, value))
        entries.reverse()
        return entries if len(entries) == last - number else None

    def last(self, log: str) -> int:
        found = self._logs.get(log)
        return 0 if found is None or found.until <= self._clock() else found.last

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        woken = WakeSignal()
        with self._lock:
            grown = self._grown(logs)
            if grown or self._closed:
                return grown
            for log in logs:
                self._waiting.setdefault(log, []).append(woken)
        try:
            wait_interruptibly(woken.wait, timeout)
        finally:
            with self._lock:
                for log in logs:
                    waiting = [other for other in self._waiting.get(log, ()) if other is not woken]
                    if waiting:
                        self._waiting[log] = waiting
                    else:
                        self._waiting.pop(log, None)
        return self._grown(logs)

    def _grown(self, logs: Mapping[str, int]) -> Set[str]:
        return {log for log, number in logs.items() if self.last(log) != number}

    def _wake(self, log: str) -> None:
        for woken in self._waiting.get(log, ()):
            woken.set()

    def forget(self, log: str) -> None:
        with self._lock:
            self._logs.pop(log, None)
            self._wake(log)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for log in self._waiting:
                self._wake(log)

    def _sweep(self, now: float) -> None:
        self._swept = now
        for key in [key for key, kept in self._values.items() if kept.until <= now]:
            del self._values[key]
        for log in [log for log, found in self._logs.items() if found.until <= now]:
            del self._logs[log]
        for found in self._logs.values():
            while found.entries and found.entries[0][2] <= now:
                found.entries.popleft()
