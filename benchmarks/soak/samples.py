"""Samples of processes over time: memory, descriptors, threads, bytes of log; and of the times of calls.

The driver has some fifty threads and opens and closes clients all the time. Three things raise its size without a leak, and
are kept out of the figures:

- Samples and reports in its own memory: in an hour they were most of the rise. Python's small objects come from arenas of
  1 MiB, and each report of all samples needed one more, in which other threads left something; the number of blocks did not
  rise. So samples are in a file, and the report is made at the end.
- Garbage in cycles, of which up to a quarter of all objects may wait for the collector.
- Free memory that glibc keeps for each thread, and counts as allocated. With it, ``malloc`` rose by 11 KiB while one thread
  opened and closed 4,500 clients, and without it by nothing; the server took 44 MiB, rising, and without it 36, flat.

What is in use is a figure of its own beside the size (:func:`in_use`), with the same bound.
"""

import contextlib
import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import psutil

__all__ = ["ALLOCATOR", "Samples", "Watched", "give_back", "in_use"]


#: Variables for the C library of the driver and of the server. By default it keeps free memory apart for each of their fifty
#: threads, and counts what a thread keeps as allocated: for an hour both rise with each size that a thread uses for the first
#: time. Children of clients do not get these variables.
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"}


def give_back() -> None:
    """Free the garbage of this process, and return freed memory to the system, so that its size is nearer to what is in use.

    Garbage in cycles waits until it is a quarter of all objects, which is more than the drift that is allowed.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # a C library without this function
        ctypes.CDLL(None).malloc_trim(0)


class _Mallinfo(ctypes.Structure):
    """The struct ``mallinfo2`` of glibc 2.33 and later."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use() -> Dict[str, float]:
    """Return what is allocated in this process, without the memory that allocators keep for later.

    ``blocks`` is the number of Python's small blocks, up to 512 bytes each: what objects leave behind that are never freed.
    ``malloc`` is the MiB that the C library has given out for all that is larger; it is left out where the library cannot
    tell. A leak raises one of them. A size that rises while they do not is fragmentation.
    """
    found: Dict[str, float] = {"blocks": sys.getallocatedblocks()}
    mallinfo: Optional[Any] = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is not None:
        mallinfo.restype = _Mallinfo
        told = mallinfo()
        found["malloc"] = (told.uordblks + told.hblkhd) / (1 << 20)
    return found


class Samples:
    """Figures over time, by name, in a file.

    The driver is measured too: samples that it kept in memory would be its own leak, and each look at all of them a peak that
    is higher than the last. Threads that work meanwhile put what they keep between such a peak's objects, and the process
    does not become smaller again.

    :param path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, name: str, moment: float, value: float) -> None:
        """Note one value."""
        # Opened for each line: a file that stays open would be one more descriptor to account for.
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{moment:.1f}\t{value:.6f}\t{name}\n")

    def read(self) -> Dict[str, List[Tuple[float, float]]]:
        """Return the pairs of time and value of all figures; at the end of a run, since it needs much memory."""
        found: Dict[str, List[Tuple[float, float]]] = {}
        if self._path.exists():
            with open(self._path, encoding="utf-8") as file:
                for line in file:
                    moment, value, name = line.rstrip("\n").split("\t")
                    found.setdefault(name, []).append((float(moment), float(value)))
        return found


class Watched:
    """One process that is sampled.

    :param name: in the table.
    :param pid: the process.
    :param log: the file that its stderr goes to; None for none.
    """

    def __init__(self, name: str, pid: int, log: str = "") -> None:
        self.name = name
        self.process = psutil.Process(pid)
        self._log = log
        self._logged = 0
        self._moment = 0.0

    def held(self) -> Tuple[int, int]:
        """Return the numbers of descriptors and of threads."""
        with self.process.oneshot():
            return self.process.num_fds(), self.process.num_threads()

    def look(self, samples: Samples, moment: float) -> None:
        """Add a sample of everything.

        :raises psutil.NoSuchProcess: the process has ended.
        """
        descriptors, threads = self.held()
        samples.add(f"{self.name}: memory", moment, self.process.memory_info().rss / (1 << 20))
        samples.add(f"{self.name}: descriptors", moment, descriptors)
        samples.add(f"{self.name}: threads", moment, threads)
        if self._log:
            logged = os.path.getsize(self._log)
            if self._moment:
                samples.add(f"{self.name}: log", moment, (logged - self._logged) / (moment - self._moment))
            self._logged, self._moment = logged, moment

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used, with those of its children that have ended."""
        return sum(self.process.cpu_times()[:4])
