"""Forked processes in tests: what one returns, and one that lives on while the test looks at what it holds."""

import contextlib
import os
import pickle
import select
import signal
import time
import traceback
import warnings

import pytest

LIMIT = 30
#: For whole modules.
POSIX_ONLY = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")


def fork():
    """Fork beside threads, which is what is tested and what Python 3.12 warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Forked:
    """A forked process that runs a function; :meth:`result` has what it returned."""

    def __init__(self, function):
        self._read, write = os.pipe()
        self.pid = fork()
        if self.pid == 0:
            try:
                try:
                    said = True, function()
                except BaseException:
                    said = False, traceback.format_exc()
                with open(write, "wb") as file:
                    pickle.dump(said, file)
            finally:
                os._exit(0)
        os.close(write)

    def result(self):
        """Wait for the end of the process; what the function raised fails the test."""
        data, end = b"", time.monotonic() + LIMIT
        try:
            while True:
                ready, _, _ = select.select([self._read], [], [], max(0, end - time.monotonic()))
                assert ready, f"the forked process hangs after {data!r}"
                piece = os.read(self._read, 65536)
                if not piece:
                    break
                data += piece
        finally:
            self.kill()
        good, value = pickle.loads(data)
        assert good, value
        return value

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._read)
            self.pid = 0


def in_fork(function):
    """Return what *function* returns in a forked process."""
    return Forked(function).result()


@contextlib.contextmanager
def fork_that_lives():
    """Have a forked process that does nothing, until the end of the block; it has run all that a fork runs."""
    ready_read, ready_write = os.pipe()

    def live():
        os.write(ready_write, b"x")
        time.sleep(600)

    forked = Forked(live)
    try:
        assert select.select([ready_read], [], [], LIMIT)[0] and os.read(ready_read, 1)
        yield forked.pid
    finally:
        forked.kill()
        os.close(ready_read)
        os.close(ready_write)
