"""Samples of processes over time: memory, descriptors, threads, bytes of log; and of the times of calls."""

import contextlib
import ctypes
import os
from array import array
from typing import Dict, Iterator, List, Tuple

import psutil

__all__ = ["Samples", "Watched", "give_back"]


def give_back() -> None:
    """Return freed memory of this process to the system, so that its size is nearer to what is in use.

    The driver has some fifty threads that come and go, and the C library keeps free memory between what they leave behind.
    """
    with contextlib.suppress(OSError, AttributeError):  # a C library without this function
        ctypes.CDLL(None).malloc_trim(0)


class Samples:
    """Figures over time, by name; kept in arrays, so that a long run is not its own leak."""

    def __init__(self) -> None:
        self._moments: Dict[str, "array[float]"] = {}
        self._values: Dict[str, "array[float]"] = {}

    def add(self, name: str, moment: float, value: float) -> None:
        """Note one value."""
        self._moments.setdefault(name, array("d")).append(moment)
        self._values.setdefault(name, array("d")).append(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def of(self, name: str) -> List[Tuple[float, float]]:
        """Return the pairs of time and value of one figure."""
        return list(zip(self._moments.get(name, ()), self._values.get(name, ())))


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
