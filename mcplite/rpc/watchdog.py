"""A thread that notices when whoever leads has been at one piece of work for long."""

import logging
import threading
import time
from typing import Callable

__all__ = ["Watchdog"]

_log = logging.getLogger(__name__)

#: Seconds without work after which it sleeps until there is some.
_QUIET_SECONDS = 0.1


class Watchdog:
    """Watches work that is done piece by piece, each under a ticket of its own.

    A ticket stands for the right to go on with the next piece; whoever finds it gone has been replaced.

    :param lock: the owner's, which guards the fields here as well; held for assignments.
    :param tick: seconds that a piece may take; one that takes long is noticed after twice as long at most.
    :param late: called with the ticket of such a piece, once, on the thread that watches.
    """

    def __init__(self, lock: threading.Lock, tick: float, late: Callable[[int], object]) -> None:
        self._lock = lock
        self._tick = tick
        self._late = late
        #: Of the piece that is being worked on; 0 in between.
        self.ticket = 0
        self._count = 0
        self._dozing = False
        self._stopped = False
        self._awake = threading.Event()

    def start(self) -> None:
        """Start the thread, which :meth:`stop` ends; it blocks on its tick, or asleep on the next piece of work."""
        threading.Thread(target=self._watch, name="mcplite watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped = True
        self._awake.set()

    def begin(self) -> int:
        """Note that a piece of work begins, and return its ticket; with the lock held."""
        self._count += 1
        self.ticket = self._count
        if self._dozing:
            self._awake.set()
        return self.ticket

    def end(self, ticket: int) -> bool:
        """Take a ticket back; False when it is gone. With the lock held."""
        if self.ticket != ticket:
            return False
        self.ticket = 0
        return True

    def _watch(self) -> None:
        ticket = count = late = 0
        quiet = 0.0
        while not self._stopped:
            ticket = self.ticket
            time.sleep(self._tick)
            if ticket and self.ticket == ticket != late:
                late = ticket
                try:
                    self._late(ticket)
                except Exception:
                    _log.exception("nobody takes the place of who has been at work for long")
            if self._count != count:
                quiet, count = 0.0, self._count
                continue
            quiet += self._tick
            if quiet < _QUIET_SECONDS:
                continue
            # So that an idle process costs nothing.
            with self._lock:
                self._dozing = self._count == count and not self.ticket
                self._awake.clear()
            if self._dozing and not self._stopped:
                self._awake.wait()
            with self._lock:
                self._dozing = False
            quiet = 0.0
