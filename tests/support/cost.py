"""What a function costs, for tests of how its work grows with its input."""

import os
import time

__all__ = ["fastest"]

#: The time that this thread had a processor: other programs do not count. That of Windows is too coarse.
_clock = time.thread_time if os.name == "posix" else time.perf_counter


def fastest(function, runs=5):
    """Return the seconds of the fastest of some runs; the others were disturbed, by caches or by other threads."""
    times = []
    for _ in range(runs):
        begun = _clock()
        function()
        times.append(_clock() - begun)
    return min(times)
