"""One fault at one place, as a moment without memory or a hook that exits makes it; afterwards all is as before."""

import errno
import os
import threading

import pytest

#: What a thread of the package must survive: faults of the system, a defect, and what a user's hook may raise.
FAULTS = [MemoryError, lambda: OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), RuntimeError, SystemExit, KeyboardInterrupt]
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault()).__name__)


def strike(monkeypatch, owner, name, fault, applies=lambda *arguments: True):
    """Have the next call of a function raise *fault()*; returns an event that is set then.

    :param applies: called with the arguments; whether that call is the one.
    """
    real, struck = getattr(owner, name), threading.Event()

    def call(*arguments, **options):
        if not struck.is_set() and applies(*arguments):
            struck.set()
            raise fault()
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, call)
    return struck


def no_threads(monkeypatch, prefix):
    """Let the system have no threads of a name, until the function that this returns is called."""
    real, there = threading.Thread.start, threading.Event()

    def start(thread):
        if thread.name.startswith(prefix) and not there.is_set():
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return there.set


def lines(caplog, text):
    """Return how many lines of the log begin with a text."""
    return sum(record.getMessage().startswith(text) for record in caplog.records)
