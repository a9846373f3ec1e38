"""Gives memory that was freed back to the system.

The allocator of glibc keeps freed memory in an arena for each few threads. After a flood of large messages on many threads
that is several times what was in use at any moment, and no limit of ours counts it.
"""

import mmap
import sys
from typing import Callable, Optional

from ...rpc.tracing import get_logger

__all__ = ["FreedMemory"]

_log = get_logger(__name__)
#: Bytes that the memory of the process grows by before freed memory is given back. Less would cost ordinary traffic time: the
#: system clears each page before it gives it again.
_GROWTH_BYTES = 24 << 20


class FreedMemory:
    """The freed memory of this process. Does nothing where the allocator has no such function, as outside of glibc."""

    def __init__(self) -> None:
        self._trim: Optional[Callable[[int], int]] = None
        #: Whether this system has both functions, as far as that is known.
        self._usable = sys.platform.startswith("linux")
        #: The least bytes that were in memory since the last time.
        self._least = self._resident() if self._usable else 0

    def give_back(self) -> bool:
        """Give freed memory back if the process has grown by much since the last time; return whether it did.

        It takes some milliseconds, during which other threads run.
        """
        if not self._usable:
            return False
        resident = self._resident()
        self._least = min(self._least, resident)
        if resident - self._least < _GROWTH_BYTES:
            return False
        trim = self._trim = self._trim or _find_trim()
        if trim is None:
            self._usable = False
            return False
        trim(0)
        self._least = self._resident()
        _log.debug("gave %d MiB of freed memory back", resident - self._least >> 20)
        return True

    def _resident(self) -> int:
        """Return the bytes of this process in memory."""
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * mmap.PAGESIZE
        except OSError:
            # No descriptor is free at present, or there is no /proc.
            return 0


def _find_trim() -> Optional[Callable[[int], int]]:
    import ctypes  # for the first flood

    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None  # another allocator, such as that of musl
    return trim
