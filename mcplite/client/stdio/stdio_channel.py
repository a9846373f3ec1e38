"""The stdio transport of a client: messages to and from a child process.

It frames messages over the pipes; :mod:`.child` owns the process, so that its end is handled in one place.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import os
import sys
import threading
import warnings
import weakref
from typing import Callable, List, Mapping, Optional, Sequence, Union

from ...errors import ConnectionClosed, TransportError
from ...protocol.error_text import printable
from ...rpc.deadline import undo
from ...rpc.stdio.descriptors import PIPE_CLOSED, set_nonblocking
from ...rpc.stdio.pipes import PipeChannel
from .child import UNKNOWN, Child, describe_exit
from .stderr import StderrTarget

__all__ = ["ChildChannel"]

#: Seconds to wait after SIGTERM, and again after SIGKILL.
_SIGNAL_SECONDS = 2.0
#: Seconds for which closing waits for a write in progress; a write that takes longer closes stdin itself when it is over. Also
#: the most seconds for which the error of an ended child waits for such a write.
_WRITE_SECONDS = 0.5
#: Seconds for a child that was not closed before the end of the program: its grace, and after each signal.
_EXIT_GRACE, _EXIT_SIGNAL_SECONDS = 1.0, 0.5
#: How much of stderr an error shows; ``stderr_tail`` has more.
_SHOWN = 8192


class ChildChannel(PipeChannel):
    """A server that runs as a child process, started here and ended by :meth:`close`.

    The child leads a process group of its own, so that Ctrl-C in a terminal does not reach it, and so that all
    processes that it started can be ended with it. If :meth:`close` is never called, the child is ended when the
    channel is garbage-collected or at the end of the program. A forked process does not share it.

    :param command: program and arguments; no shell is involved.
    :param env: variables in addition to the few that a child inherits; ``os.environ`` passes everything on.
    :param cwd: working directory of the child; None is ours.
    :param stderr: what to do with its stderr besides keeping the last 64 KiB: a callable, a logger, a file
        object, a path, or ``"inherit"`` for our own stderr, in which case nothing is kept.
    :param line_limit: bytes that one message may have in either direction; default 16 MiB.
    :param grace: seconds that the child has to exit after its stdin was closed; default 2.
    :param pass_fds: other descriptors that the child inherits, on POSIX.
    :raises TransportError: the child cannot be started.
    :raises TypeError: *command*, *env* or *stderr* is of a wrong type.
    """

    restartable = True
    from_stdout = True

    def __init__(self, command: Sequence[str], *, env: Optional[Mapping[str, str]] = None,
                 cwd: "Union[None, str, os.PathLike[str]]" = None, stderr: StderrTarget = None,
                 line_limit: int = 16 << 20, grace: float = 2.0, pass_fds: Sequence[int] = ()) -> None:
        child = Child(command, env=env, cwd=cwd, stderr=stderr, pass_fds=pass_fds)
        self._child = child
        self._grace = grace
        #: Acquired once, by the thread that ends the child, and never released.
        self._once = threading.Lock()
        self._closer: Optional[int] = None
        self._done = threading.Event()
        self._finalizer: "Optional[weakref.finalize[..., ChildChannel]]" = None
        self._exit_hook = functools.partial(_end_at_exit, weakref.ref(self))
        try:
            with undo(lambda: _discard(child)):
                set_nonblocking(child.stdin)
                super().__init__(child.stdout, child.stdin, name=child.name, line_limit=line_limit,
                                 watch_fd=child.exit_fd)
        except OSError as error:
            raise TransportError(f"cannot talk to {child.name}: {error.strerror}") from error
        atexit.register(self._exit_hook)
        self._finalizer = weakref.finalize(self, _abandon, child, self._descriptors(), self._exit_hook)
        self._finalizer.atexit = False

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def returncode(self) -> Optional[int]:
        """The child's exit status, negative for a signal; None while it runs, or if it is not known."""
        status = self._child.returncode
        return None if status == UNKNOWN else status

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the child wrote to stderr."""
        return self._child.stderr_tail

    def closed_error(self) -> ConnectionClosed:
        """Return the error for a child that ended or closed its stdout, with its status and its stderr tail."""
        return self._over(f"{self.name} closed its stdout, so that it cannot answer any more, but still runs")

    def _broken(self, error: OSError) -> ConnectionClosed:
        if self._write_fd < 0:
            return self._closed_here()
        return self._over(f"{self.name} closed its stdin, so that no more requests can be sent, but still runs"
                          if error.errno == PIPE_CLOSED else str(super()._broken(error)), self._unsent)

    def _unreadable(self, error: OSError) -> ConnectionClosed:
        return self._over(str(super()._unreadable(error)))

    def _over(self, running: str, unsent: int = 0) -> ConnectionClosed:
        """Return the error for a pipe that is over: how the child ended, with the end of its stderr.

        :param running: the text if it still runs.
        :param unsent: the bytes of a message that its stdin did not take.
        """
        # While this thread has the lock, no other thread closes stdin. If a writer has the lock and waits for the ended child,
        # it notices the end soon.
        held: List[bool] = []
        try:
            if self.unread is None:
                held.extend(map(self._write_lock.acquire, (True,), (_WRITE_SECONDS,)))
            waiting = self._count_unread() if True in held else None
            if waiting is not None:
                self.unread = waiting + unsent
        finally:
            if True in held:
                self._write_lock.release()
        status = self._child.wait_briefly()
        return ConnectionClosed(running if status is None else f"{self.name} {describe_exit(status)}",
                                stderr_tail=printable(self._child.stderr_tail[-_SHOWN:]),
                                returncode=None if status == UNKNOWN else status)

    def _count_unread(self) -> Optional[int]:
        """Return how many bytes wait in the pipe to its stdin; called with the write lock held."""
        if sys.platform != "linux" or self._write_fd < 0:
            return None  # elsewhere the write end of a pipe does not tell
        import fcntl
        import termios

        try:
            return int.from_bytes(fcntl.ioctl(self._write_fd, termios.FIONREAD, bytes(4)), sys.byteorder)
        except OSError:
            return None

    def close(self) -> None:
        """End the child: close its stdin, wait, SIGTERM, wait, SIGKILL (STD-09); then free all resources.

        Takes at most *grace* and four seconds more, and about three beyond that if a writer or the taker of its stderr is slow.
        Idempotent and callable from any thread; a second caller waits for the first.
        """
        if not self._claim():
            if self._closer != threading.get_ident():
                self._done.wait(self._grace + 3 * _SIGNAL_SECONDS)
            return
        self._detach_hooks()
        ended = False
        try:
            self._source.discard()
            self.close_input(_WRITE_SECONDS)
            self._child.end(self._grace, _SIGNAL_SECONDS)
            ended = True
        finally:
            if not ended:
                self._child.kill()  # Ctrl-C during the wait for a child that does not exit
            super().close()
            self._done.set()

    def _claim(self) -> bool:
        """Return whether this thread is the one that ends the child."""
        if not self._once.acquire(blocking=False):
            return False
        self._closer = threading.get_ident()
        return True

    def _detach_hooks(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        atexit.unregister(self._exit_hook)

    def _at_exit(self) -> None:
        """End the child within about two seconds; a daemon thread may be reading, so nothing else is closed."""
        if self._claim():
            self._source.discard()
            self.close_input(_EXIT_SIGNAL_SECONDS)
            self._child.end(_EXIT_GRACE, _EXIT_SIGNAL_SECONDS)
            self._done.set()

    def let_go(self, owner: int) -> None:
        """Drop the child in a forked process; the child sees the end of its input when the owner closes the channel.

        :param owner: the id of the process that has the channel.
        """
        if not self._done.is_set():
            super().let_go(owner)
            self._once.acquire(blocking=False)
            self._done.set()
            self._detach_hooks()
            self._child.let_go()


def _discard(child: Child) -> None:
    child.kill()
    for fd in (child.stdin, child.stdout, child.exit_fd):
        os.close(fd)


def _end_at_exit(reference: "weakref.ref[ChildChannel]") -> None:
    channel = reference()
    if channel is not None:
        channel._at_exit()


def _abandon(child: Child, descriptors: List[int], exit_hook: Callable[[], None]) -> None:
    """Clean up after a channel that was dropped without ``close``."""
    atexit.unregister(exit_hook)

    def clean_up() -> None:
        os.close(descriptors[0])
        child.end(_EXIT_GRACE, _EXIT_SIGNAL_SECONDS)
        for fd in descriptors[1:]:
            os.close(fd)

    # The garbage collector may run anywhere, also inside a lock of threading: _thread takes none. The thread is
    # started here, ends within about two seconds, and blocks on the child's exit.
    _thread.start_new_thread(clean_up, ())
    warnings.warn(f"{child.name} was dropped without close()", ResourceWarning, stacklevel=2)
