"""What a loop does after a fault that must not end it: a line in the log, and a pause.

A thread that reads, accepts or watches for everyone serves as long as its connection or its server is open. One failed
system call, or one moment without memory, must not end its loop, and a fault that stays must cost neither the processor
nor the disk. The loops of the package share this module, so that each survives in the same way.
"""

import contextlib
import logging
import threading
import time
from typing import Callable

__all__ = ["FaultLog"]

#: Seconds of the pause after the first fault; doubled while faults follow one another, up to the longest.
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
#: Seconds without a fault after which the next one counts as the first.
_CALM_SECONDS = 5.0
#: Seconds between two lines of the log while faults follow one another.
_LINE_SECONDS = 10.0


class FaultLog:
    """The faults of one loop.

    :param logger: where the lines go, at ERROR with the traceback.
    :param pause: waits for so many seconds; an event's ``wait`` ends the pause when the loop is to end.
    """

    def __init__(self, logger: logging.Logger, pause: Callable[[float], object] = time.sleep) -> None:
        self._logger = logger
        self._pause = pause
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._last = self._logged = float("-inf")
        self._in_a_row = self._held_back = 0

    def note(self, what: str, *arguments: object) -> int:
        """Log the exception that is being handled, unless a line was written a moment ago; return how many came in a row.

        :param what: what failed, with the arguments of a log record. One line is written at most every ten seconds.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._last > _CALM_SECONDS + _LONGEST_PAUSE_SECONDS:
                self._in_a_row = 0
            self._last = now
            self._in_a_row += 1
            count, held_back = self._in_a_row, self._held_back
            if count > 1 and now - self._logged < _LINE_SECONDS:
                self._held_back += 1
                return count
            self._logged, self._held_back = now, 0
        # A logger that fails, for want of memory perhaps, must not end the loop either.
        with contextlib.suppress(Exception):
            if held_back:
                self._logger.error("%d more faults like these were held back", held_back)
            self._logger.error(what, *arguments, exc_info=True)
        return count

    def survive(self, what: str, *arguments: object) -> int:
        """Note the exception that is being handled, and pause; return how many came in a row.

        :param what, arguments: as for :meth:`note`.
        """
        count = self.note(what, *arguments)
        self._pause(min(_PAUSE_SECONDS * 2 ** min(count - 1, 10), _LONGEST_PAUSE_SECONDS))
        return count
