"""One ordered callback thread with a bounded queue: the place where notification handlers run."""

import logging
import threading
from collections import deque
from typing import Callable, Deque, Optional

__all__ = ["Mailbox"]

Task = Callable[[], object]
_log = logging.getLogger(__name__)


class Mailbox:
    """Runs posted callbacks one after another, in order, off the reader's thread.

    The thread starts with the first post. When callbacks are slower than what arrives, the oldest
    waiting ones are dropped and counted, so that a flood costs bounded memory.

    :param name: the thread's name.
    :param limit: how many callbacks may wait; default 10,000.
    """

    def __init__(self, name: str, limit: int = 10_000) -> None:
        self._name = name
        self._limit = limit
        #: Guards the fields below; the thread waits on it for work or for the end.
        self._changed = threading.Condition()
        self._queue: Deque[Task] = deque()
        self._thread: Optional[threading.Thread] = None
        self._stopped = False
        self._running = False
        #: How many callbacks were dropped because the queue was full.
        self.dropped = 0

    def post(self, task: Task) -> None:
        """Have *task* run after everything posted before it; ignored once stopped."""
        with self._changed:
            if self._stopped:
                return
            if len(self._queue) >= self._limit:
                self._queue.popleft()
                self.dropped += 1
                if self.dropped == 1:
                    _log.warning("%s: handlers are slower than what arrives; the oldest are dropped", self._name)
            self._queue.append(task)
            if self._thread is None:
                # Ended by stop(); blocks on the condition and on the callbacks themselves.
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until everything posted so far has run; at once False on the mailbox's own thread."""
        if threading.current_thread() is self._thread:
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._running, timeout)

    def stop(self) -> None:
        """Drop what waits and let the thread end after the callback that it is in."""
        with self._changed:
            self._stopped = True
            self._queue.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._running = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._stopped)
                if self._stopped:
                    return
                task = self._queue.popleft()
                self._running = True
            try:
                task()
            except BaseException:
                _log.exception("a notification handler failed")
            del task
