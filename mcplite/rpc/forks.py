"""Forks: what each object does in a forked process, and the locks, descriptors and sockets that it finds there.

A fork copies all objects and one thread. In the copy no thread answers, reads or releases a lock, and each descriptor is
shared with the first process. So every object that owns a thread or a descriptor says here what becomes of it in a forked
process; its locks are free there, and :func:`renew` frees those of what it owns. ``docs/threads.rst`` has the table.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Collection, Iterator, List, NoReturn, Optional, Tuple, TypeVar

from ..errors import ConnectionClosed

if TYPE_CHECKING:
    import logging

__all__ = ["catch_up_with_fork", "close_socket", "end_process", "foreign_error", "new_awaited_lock", "on_fork", "ownership",
           "release", "release_socket", "renew", "signals_held"]

T = TypeVar("T")
#: Seconds for which a fork waits for a lock at most.
_FORK_SECONDS = 5.0
#: What renew() makes as new.
_LOCKS: Tuple[Any, ...] = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event)
#: socket.SHUT_RDWR, which is the same everywhere.
_BOTH = 2


class _Actions:
    """The objects of this process that a forked process has to deal with, each with its action; weak references.

    A hook for forks cannot be removed, hence one hook for all objects.
    """

    def __init__(self) -> None:
        #: The process whose objects these are; changed once all actions have run.
        self._pid = os.getpid()
        #: Held while the actions run later than the fork, on the first of the threads that notice it.
        self._late = threading.Lock()
        self._by_object: "weakref.WeakKeyDictionary[Any, Callable[[Any, int], object]]" = weakref.WeakKeyDictionary()
        #: The signals that wait while this process forks.
        self.held: List[Collection[int]] = []
        #: The locks that a fork waits for.
        self.awaited: "weakref.WeakSet[threading.Lock]" = weakref.WeakSet()
        #: The mask of the thread that forks, and the locks that it has taken.
        self._thread = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._hold, after_in_parent=self._forked, after_in_child=self._run)

    def add(self, thing: Any, action: Callable[[Any, int], object]) -> None:
        self._by_object[thing] = action

    def _hold(self) -> None:
        self._thread.taken = [lock for lock in list(self.awaited) if lock.acquire(timeout=_FORK_SECONDS)]
        if self.held and sys.platform != "win32":
            import signal  # for processes that fork while they serve

            self._thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, set().union(*self.held))

    def _forked(self) -> None:
        for lock in self._thread.taken:
            lock.release()
        self._deliver()

    def _deliver(self) -> None:
        mask, self._thread.mask = getattr(self._thread, "mask", None), None
        if mask is not None and sys.platform != "win32":
            import signal

            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def catch_up(self) -> None:
        if os.getpid() != self._pid:
            with self._late:
                if os.getpid() != self._pid:
                    self._run()

    def _run(self) -> None:
        owner = self._pid
        for lock in self.awaited:
            lock._at_fork_reinit()  # type: ignore[attr-defined]
        for thing, action in list(self._by_object.items()):
            try:
                renew(thing)
                action(thing, owner)
            except Exception:
                _log().exception("%r could not be let go after a fork", type(thing))
        self._pid = os.getpid()
        self._deliver()


def _log() -> "logging.Logger":
    import logging  # most processes never log

    return logging.getLogger(__name__)


@functools.lru_cache(maxsize=None)
def _actions() -> _Actions:
    return _Actions()


def on_fork(thing: T, action: Callable[[T, int], object]) -> None:
    """In each process that is forked from this one, call *action* with *thing* and the id of the process forked from.

    It is called before anything else runs there, with one thread. The locks of *thing* itself are free then; those of what it
    owns may be held by threads that do not exist, so the action calls :func:`renew` for them. Only a weak reference to *thing*
    is kept.
    """
    _actions().add(thing, action)


def catch_up_with_fork() -> None:
    """Call the actions of :func:`on_fork` now, if a host has forked this process without telling Python of it, as uWSGI does.

    A host's requests come through here, before they reach an object that has an action.
    """
    _actions().catch_up()


@contextlib.contextmanager
def signals_held(numbers: Collection[int]) -> Iterator[None]:
    """Within the block, these signals wait while this process forks.

    Python drops what a process with handlers gets between the fork and its first instruction. Here it is delivered once
    the actions of :func:`on_fork` have run.
    """
    held = _actions().held
    held.append(numbers)
    try:
        yield
    finally:
        held.remove(numbers)


def foreign_error(name: str, owner: int, instead: str) -> ConnectionClosed:
    """Return the error for the use of a connection that belongs to another process.

    :param name: of the other side.
    :param owner: the id of that process.
    :param instead: what to do.
    """
    return ConnectionClosed(f"the connection to {name} belongs to process {owner}, and process {os.getpid()} was forked from"
                            f" it: {instead}")


def end_process(what: str, error: Optional[BaseException]) -> NoReturn:
    """End a forked process whose code has returned to a thread of ours, which has nothing to do there.

    :param what: the code, for the log.
    :param error: what it raised; SystemExit ends the process as it says.
    """
    status = 1
    if isinstance(error, SystemExit):
        status = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
    else:
        _log().error("%s has returned in process %d, which it had forked; that process is ended (end it with os._exit())",
                     what, os.getpid(), exc_info=error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()
    os._exit(status)


# --- locks, which are free in a forked process, whichever thread held them ------------------------------------------------


def renew(*owners: Any) -> None:
    """Make the locks, conditions and events of these objects as new in a forked process: free, with no thread that waits.

    Its owner calls it there, before it uses them.
    """
    for owner in owners:
        for value in list(getattr(owner, "__dict__", {}).values()):
            if isinstance(value, _LOCKS):
                value._at_fork_reinit()  # as the standard library's own modules do


def ownership(lock: "threading.RLock") -> Callable[[], bool]:
    """Return a function that says whether the current thread has taken a lock for nested blocks.

    A signal handler asks it: it may have interrupted the thread there.
    """
    return lock._is_owned  # type: ignore[no-any-return, attr-defined]  # as the standard library's own modules do


def new_awaited_lock() -> threading.Lock:
    """Return a lock that is free in a forked process, and that a fork waits for.

    It guards the use of a C library which has locks of its own: a fork while a thread is inside would leave these locked in
    the forked process for ever. The thread that forks must not hold it.
    """
    lock = threading.Lock()
    _actions().awaited.add(lock)
    return lock


# --- descriptors and sockets in a forked process --------------------------------------------------------------------------


def release(fd: Optional[int]) -> None:
    """Let go of a descriptor in a forked process: the other side sees the end once the owner has closed it.

    The number leads to the null device then. It is not free, so that an object which still has it cannot read or close
    another file by mistake.
    """
    if fd is None or fd < 0:
        return
    with contextlib.suppress(OSError):  # a thread of the owner had just closed it
        os.close(fd)
        null = os.open(os.devnull, os.O_RDWR)
        if null != fd:
            os.dup2(null, fd, inheritable=False)
            os.close(null)


def close_socket(sock: Any) -> None:
    """Close a socket that belongs to this process, so that the other side sees it although a forked process may have a copy.

    :param sock: connected or listening.
    """
    with contextlib.suppress(OSError):  # the other side has closed it, or it is closed already
        sock.shutdown(_BOTH)
    sock.close()


def release_socket(sock: Any, owner: int = 0) -> None:
    """Let go of a socket in a forked process, without notifying the other side.

    :param sock: a socket, or what wraps one, with ``fileno`` and ``close``.
    """
    with contextlib.suppress(OSError, ValueError):  # it is closed already
        release(sock.fileno())
        sock.close()
