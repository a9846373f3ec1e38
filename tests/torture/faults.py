"""Fails one call of the system at a time: the k-th of those that the package makes, as SQLite's and curl's tests do.

A call counts if code of the package is among its callers on the same thread, so the test's own calls, and those of pytest,
are neither counted nor failed.
"""

import _posixsubprocess
import builtins
import contextlib
import errno
import os
import select
import selectors
import socket
import subprocess
import sys
import threading
from pathlib import Path

import mcplite
from mcplite.protocol import jsonrpc
from mcplite.protocol.framing import LineBuffer

#: Whether all is tried, which takes minutes.
WHOLE = bool(os.environ.get("MCPLITE_TORTURE"))
PACKAGE = str(Path(mcplite.__file__).resolve().parent) + os.sep
#: How many frames may stand between a call and the package.
_DEPTH = 30
#: What is not failed: the logging of the fault, imports, which read files once for a whole process, and the tests' recorder.
_EXCLUDED = ("importlib", "logging" + os.sep, "linecache", "traceback", "zoneinfo", os.path.join("support", "wire.py"))
#: Calls after which the standard library itself leaves something behind: a process, a socket without an owner.
_BEYOND_REPAIR = {("read", "subprocess"), ("setblocking", "socket")}


def no_memory(*_):
    return MemoryError("injected")


def error(number):
    return lambda: OSError(number, f"{os.strerror(number)} (injected)")


def no_thread():
    return RuntimeError("can't start new thread (injected)")


#: Owner, name, fault.
SOCKETS = [(socket.socket, name, error(number)) for name, number in [
    ("accept", errno.EMFILE), ("recv", errno.ENOBUFS), ("recv_into", errno.ECONNRESET), ("send", errno.ENOBUFS),
    ("sendall", errno.EPIPE), ("setsockopt", errno.EINVAL), ("settimeout", errno.EBADF), ("setblocking", errno.EBADF),
    ("shutdown", errno.ENOTCONN), ("connect", errno.ENETUNREACH), ("bind", errno.EADDRINUSE), ("listen", errno.EADDRINUSE),
    ("getsockname", errno.ENOBUFS), ("getpeername", errno.ENOTCONN)]]
SELECTORS = [(selectors.DefaultSelector, name, error(number)) for name, number in [
    ("register", errno.ENOSPC), ("unregister", errno.ENOMEM), ("select", errno.ENOMEM)]]
FILES = [(os, name, error(number)) for name, number in [
    ("pipe", errno.EMFILE), ("write", errno.EIO), ("read", errno.EIO), ("open", errno.EMFILE), ("pidfd_open", errno.EMFILE),
    ("killpg", errno.EPERM), ("waitid", errno.EINTR)] if hasattr(os, name)]
OTHERS = [
    (builtins, "open", error(errno.EMFILE)),
    (_posixsubprocess, "fork_exec", error(errno.EAGAIN)),
    (threading.Thread, "start", no_thread), (socket, "create_server", error(errno.EMFILE)),
    (socket, "socketpair", error(errno.EMFILE)),
]
if hasattr(subprocess, "_fork_exec"):  # a name of its own, since Python 3.11
    OTHERS.append((subprocess, "_fork_exec", error(errno.EAGAIN)))
MEMORY = [(jsonrpc, "parse", no_memory), (jsonrpc, "dump", no_memory), (LineBuffer, "first", no_memory),
          (threading.Condition, "wait", no_memory)]


class _Poll:
    """A poll object whose wait can fail; those of the system cannot be replaced."""

    def __init__(self, faults, made):
        self._faults, self._made = faults, made
        self.register, self.unregister = made.register, made.unregister

    def poll(self, *arguments):
        return self._faults.call("poll.poll", error(errno.ENOMEM), self._made.poll, arguments, {})


class Faults:
    """Counts the calls that can fail, and fails the one with the given number.

    :param number: of the call, from 1; 0 for none.
    """

    def __init__(self, number=0):
        self.number = number
        self.count = 0
        #: Where the fault was injected: the call, and the place in the package.
        self.struck = None
        self.places = []
        self._lock = threading.Lock()
        self._inside = threading.local()

    def call(self, name, fault, original, arguments, options):
        if getattr(self._inside, "counting", False):
            return original(*arguments, **options)
        self._inside.counting = True
        try:
            place = _place()
            if place is not None:
                with self._lock:
                    self.count += 1
                    strikes = self.count == self.number
                    self.places.append(f"{name} at {place}")
                if strikes:
                    self.struck = f"{name} at {place}"
                    raise fault()
        finally:
            self._inside.counting = False
        return original(*arguments, **options)

    def _replaced(self, owner, name, fault):
        original = getattr(owner, name)
        label = f"{getattr(owner, '__name__', owner)}.{name}"

        def call(*arguments, **options):
            if (name, sys._getframe(1).f_globals.get("__name__")) in _BEYOND_REPAIR:
                return original(*arguments, **options)
            return self.call(label, fault, original, arguments, options)

        return call

    @contextlib.contextmanager
    def injected(self):
        """Count and fail the calls within the block."""
        with contextlib.ExitStack() as stack:
            for owner, name, fault in [*SOCKETS, *SELECTORS, *FILES, *OTHERS, *MEMORY]:
                replaced = self._replaced(owner, name, fault)
                own = name in vars(owner)
                before = vars(owner).get(name)
                setattr(owner, name, replaced)
                stack.callback(_restore, owner, name, own, before)
            poll = select.poll
            select.poll = lambda: _Poll(self, poll())
            stack.callback(setattr, select, "poll", poll)
            yield self


def _restore(owner, name, own, before):
    if own:
        setattr(owner, name, before)
    else:
        delattr(owner, name)  # it was inherited


def _place():
    """Return the place in the package that makes the call; None if it is not the package's."""
    frame = sys._getframe(3)
    for _ in range(_DEPTH):
        if frame is None:
            return None
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            return f"{file[len(PACKAGE):]}:{frame.f_code.co_name}:{frame.f_lineno}"
        if any(word in file for word in _EXCLUDED):
            return None
        frame = frame.f_back
    return None
