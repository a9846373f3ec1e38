"""One call that waits for its response: its clock, its progress, its outcome.

The thread that reads the channel completes it; the thread that made the call waits for it. The clock is paused
while a handler of this side answers a question of the peer, since a person may be typing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Optional, Tuple

from .deadline import WakeSignal
from .tracing import get_logger

__all__ = ["Clock", "Pending"]

_log = get_logger(__name__)
#: Progress notifications, and their bytes, that are kept for a slow callback; beyond it the newest takes the place of the
#: one before it (SEC-38). One is kept whatever its size.
_MOST_PROGRESS = 1000
_MOST_PROGRESS_BYTES = 1 << 20
#: As many, or as many bytes, make the thread of the call stop reading, if it is the one that reads, and run the callbacks.
_MANY_PROGRESS = 256
_MANY_PROGRESS_BYTES = 1 << 19
#: How often the thread that reads lets the one with the callbacks run before notifications are dropped, and seconds for each:
#: Python may leave that one waiting for 5 ms, in which more than a thousand are read.
_MOST_ROOM_WAITS = 50
_ROOM_SECONDS = 0.002


class Clock:
    """Monotonic time that can be paused; all calls of one connection share it."""

    def __init__(self) -> None:
        #: Guards the three fields below; held for assignments only.
        self._lock = threading.RLock()
        #: How many pauses have not ended, and the seconds of those that have.
        self.pauses, self.lost = 0, 0.0
        self._since = 0.0

    def now(self) -> float:
        """Return the seconds that have passed while the clock was running."""
        if not self.pauses:
            # The common case takes no lock: a pause at this very moment is as good as one just after it.
            return time.monotonic() - self.lost
        with self._lock:
            return (self._since if self.pauses else time.monotonic()) - self.lost

    def pause(self) -> None:
        """Pause the clock; each pause needs one :meth:`resume`."""
        with self._lock:
            if not self.pauses:
                self._since = time.monotonic()
            self.pauses += 1

    def resume(self) -> None:
        """End one pause; the clock runs again when all have ended."""
        with self._lock:
            self.pauses -= 1
            if not self.pauses:
                self.lost += time.monotonic() - self._since


class Pending:
    """A request that this side has sent.

    :param timeout: seconds without a response; progress restarts it. None waits without a limit.
    :param max_timeout: seconds in all, whatever the progress; None for no such limit.
    """

    #: When the call began; only with one of the two limits.
    begun = 0.0
    #: When the call ends whatever the progress, and when it ends unless there is some.
    limit: Optional[float] = None
    end: Optional[float] = None
    #: Whether so many of them are kept that the callback is to run before more are read.
    crowded = False
    #: Whether the thread that runs the callback is the one that reads now.
    reads = False
    #: The thread that runs the callback; 0 while none does.
    delivering = 0
    #: Whether there was any progress.
    _progressed = False
    #: The bytes of the progress that was kept, and of what was taken of it. The thread that adds writes one, the thread that
    #: waits the other, without a lock; they are made equal when none is kept.
    _kept_bytes = 0
    _taken_bytes = 0
    #: How often room for more may be waited for until none is kept: a slow callback must not hold up other calls.
    _room_waits = _MOST_ROOM_WAITS
    #: What goes beside the message, on a channel that carries it.
    beside: Any = None
    #: Whether the other side is told when it is given up.
    cancel_notice = True
    #: The progress notifications that the callback has not been given, each with its size in bytes; None without a callback.
    progress: Optional[Deque[Tuple[Dict[str, Any], int]]] = None
    #: Whether its caller leaves the reading to others.
    lasting = False
    #: The message or the exception that ended the call; None while it runs.
    outcome: Any = None
    #: Whether the waiting thread has to check for a cancel or a close.
    interrupted = False
    _event: Optional[WakeSignal] = None

    def __init__(self, id: int, method: str, clock: Clock, timeout: Optional[float],
                 max_timeout: Optional[float], on_progress: Optional[Callable[[Dict[str, Any]], object]]) -> None:
        # What most calls never have is in the class only.
        self.id, self.method, self.clock = id, method, clock
        self.timeout, self.max_timeout = timeout, max_timeout
        if timeout is not None or max_timeout is not None:
            now = self.begun = clock.now()
            end = None if timeout is None else now + timeout
            if max_timeout is not None:
                self.limit = limit = now + max_timeout
                end = limit if end is None or limit < end else end
            self.end = end
        self.on_progress = on_progress
        if on_progress is not None:
            self.progress = deque()

    def begin_before(self, spent: float) -> None:
        """Count seconds that were spent on the call before this message of it; to be called before it is sent.

        If they are more than the timeout, then progress has restarted it, so it starts over.
        """
        begun, timeout = self.begun, self.timeout
        self.begun = begun - spent
        if self.limit is not None:
            self.limit -= spent
        ends = [] if timeout is None else [begun + timeout - (spent if spent < timeout else 0.0)]
        self.end = min(ends if self.limit is None else [*ends, self.limit], default=None)

    def complete(self, outcome: Any) -> None:
        """End the call; later outcomes are ignored."""
        if self.outcome is None:
            self.outcome = outcome
        if self._event is not None:
            self._event.set()

    def wake(self) -> None:
        """Wake the waiting thread, if it sleeps."""
        if self._event is not None:
            self._event.set()

    def add_progress(self, params: Dict[str, Any], size: int = 0) -> bool:
        """Keep a progress notification for the callback; False if there is none.

        :param size: of the message, in bytes.
        """
        progress = self.progress
        if progress is None:
            return False
        kept = self._kept_bytes + size
        if len(progress) >= _MANY_PROGRESS or kept - self._taken_bytes > _MANY_PROGRESS_BYTES:
            self.crowded = True
            if not self._wait_for_room(progress, kept):
                try:
                    kept -= progress.pop()[1]
                except IndexError:
                    pass  # the callback has been given the last one meanwhile
        self._kept_bytes = kept
        progress.append((params, size))
        self._progressed = True
        self.wake()
        return True

    def _wait_for_room(self, progress: Deque[Tuple[Dict[str, Any], int]], kept: int) -> bool:
        """Let the callbacks run on their thread; return whether there is room for one more then, with so many bytes in all."""
        while progress and (len(progress) >= _MOST_PROGRESS or kept - self._taken_bytes > _MOST_PROGRESS_BYTES):
            if self.reads or not self._room_waits:
                return False
            self._room_waits -= 1
            time.sleep(_ROOM_SECONDS)
        return True

    def deliver_progress(self) -> None:
        """Call the progress callback, on the calling thread, for each notification that is kept, the oldest first.

        It ends before the next one when the call is interrupted or out of time, since a callback may be slow. Then the timeout
        starts over (TIME-04): it is about the silence of the other side, and the time of the callbacks does not count.
        """
        progress, on_progress, limit, now = self.progress, self.on_progress, self.limit, self.clock.now
        if not progress or on_progress is None:
            return
        while progress and not self.interrupted and (limit is None or now() < limit):
            try:
                params, size = progress.popleft()
            except IndexError:
                break  # the reading thread is just replacing it
            self._taken_bytes += size
            try:
                on_progress(params)
            except Exception:
                _log.exception("the progress callback of %r failed", self.method)
        kept = self._kept_bytes
        if not progress:
            self._taken_bytes, self.crowded = kept, False
            self._room_waits = _MOST_ROOM_WAITS
        if self.timeout is not None:
            end = now() + self.timeout
            self.end = end if limit is None or end < limit else limit

    @property
    def out_of_time(self) -> bool:
        """Whether ``max_timeout`` has passed."""
        return self.limit is not None and self.clock.now() >= self.limit

    def overdue(self) -> str:
        """Return which of the limits has passed, with its value, as the end of a sentence."""
        if self.timeout is None or (self.out_of_time and (self._progressed or self.timeout != self.max_timeout)):
            return f"within {self.max_timeout:g} s in all (max_timeout)"
        return f"within {self.timeout:g} s{' of its last progress' if self._progressed else ''} (timeout)"

    def remaining(self) -> Optional[float]:
        """Return the seconds until the call times out; None if it never does. Below zero, it has."""
        end, clock = self.end, self.clock
        if end is None:
            return None
        if not clock.pauses:
            return end - time.monotonic() + clock.lost
        # The remaining time does not shrink: sleep in slices instead of spinning.
        left = end - clock.now()
        return max(left, 0.05) if left > 0 else left

    def prepare_sleep(self) -> WakeSignal:
        """Return the wake-up that every change sets from now on."""
        if self._event is None:
            self._event = WakeSignal()
        self._event.clear()
        return self._event
