"""Log lines about a bad peer: at most ten a second, then a count (REL-26)."""

import logging
import threading
import time

__all__ = ["RateLog"]


class RateLog:
    """Passes warnings on to a logger until there are too many of them in one second.

    :param logger: where the lines go.
    :param per_second: how many lines a second may carry; default 10.
    """

    def __init__(self, logger: logging.Logger, per_second: int = 10) -> None:
        self._logger = logger
        self._per_second = per_second
        #: Guards the three counters below.
        self._lock = threading.Lock()
        self._second = -1
        self._lines = 0
        self._held_back = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log one line, or count it as held back."""
        second = int(time.monotonic())
        with self._lock:
            held_back = 0
            if second != self._second:
                self._second, self._lines = second, 0
                held_back, self._held_back = self._held_back, 0
            self._lines += 1
            if self._lines > self._per_second:
                self._held_back += 1
                return
        if held_back:
            self._logger.warning("%d more warnings like these were held back", held_back)
        self._logger.warning(message, *arguments)
