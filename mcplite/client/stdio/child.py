"""One child process: started with three pipes, watched, and ended with its whole process group."""

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from typing import Mapping, Optional, Sequence, Union

from ...errors import TransportError
from . import windows
from .launch import child_arguments, child_environment, label, spawn
from .stderr import StderrPump, StderrTarget, open_sink

__all__ = ["Child", "describe_exit"]

_log = logging.getLogger(__name__)

#: How often the exit of a child is looked for where the system does not announce it.
_TICK = 0.25
#: Seconds for what is left of a process group whose leader has ended.
_ORPHANS = 0.5
#: How often anything is looked for that will happen within moments.
_SLICE = 0.01
#: Seconds for stderr to end, once the process has.
_LAST_WORDS = 0.2


def describe_exit(returncode: int) -> str:
    """Return how a process with this status ended, in words."""
    if returncode >= 0:
        return f"exited with status {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _pipe(read: contextlib.ExitStack, write: contextlib.ExitStack) -> "tuple[int, int]":
    """Return a new pipe whose ends are closed with these stacks.

    :raises TransportError: there are no more descriptors.
    """
    try:
        ends = os.pipe()
    except OSError as error:
        raise TransportError(f"cannot make a pipe to a child process: {error.strerror}") from error
    read.callback(os.close, ends[0])
    write.callback(os.close, ends[1])
    return ends


class Child:
    """A running program whose ``stdin`` and ``stdout`` are descriptors for others to use and close.

    :param command: program and arguments.
    :param env: added to the small default environment.
    :param cwd: working directory; None is ours.
    :param stderr: see :func:`open_sink`; ``"inherit"`` lets the child write to our own stderr.
    :raises TransportError: it cannot be started.
    :raises TypeError: *command*, *env* or *stderr* is of a wrong type.
    """

    def __init__(self, command: Sequence[str], *, env: Optional[Mapping[str, str]] = None,
                 cwd: "Union[None, str, os.PathLike[str]]" = None, stderr: StderrTarget = None) -> None:
        arguments = child_arguments(command)
        environment = child_environment(env)
        folder = None if cwd is None else os.fspath(cwd)
        #: The process that started it: a fork of that process has no say over it.
        self.owner = os.getpid()
        self._pump: Optional[StderrPump] = None
        #: Set when nobody needs to watch the process any more.
        self._over = threading.Event()
        #: Whether the system tells of the exit at once.
        self._announced = False
        with contextlib.ExitStack() as undo:
            theirs = contextlib.ExitStack()
            undo.callback(theirs.close)
            stdin, self.stdin = _pipe(read=theirs, write=undo)
            self.stdout, stdout = _pipe(read=undo, write=theirs)
            errors: Optional[int] = None
            if stderr != "inherit":
                sink = open_sink(stderr)
                undo.callback(sink.close)
                ours, errors = _pipe(read=undo, write=theirs)
                self._pump = StderrPump(ours, sink, label(arguments))
                undo.callback(self._pump.discard)
            self._process = spawn(arguments, env=environment, cwd=folder, stdin=stdin, stdout=stdout, stderr=errors)
            theirs.close()
            self.pid = self._process.pid
            self.name = f"{label(arguments)} (pid {self.pid})"
            if sys.platform == "win32":
                self._job = windows.Job(self._process)
            undo.callback(self._process.wait)
            undo.callback(self._kill)
            self.exit_fd = self._announce_exit(undo)
            if self._pump is not None:
                self._pump.start()
            undo.pop_all()

    def _announce_exit(self, undo: contextlib.ExitStack) -> int:
        """Return a descriptor that becomes readable when the process ends; whoever takes it closes it."""
        if hasattr(os, "pidfd_open"):
            try:
                exit_fd = os.pidfd_open(self.pid)
            except OSError as error:
                _log.debug("no pidfd for %s: %s", self.name, error)  # an old kernel, or a sandbox forbids it
            else:
                undo.callback(os.close, exit_fd)
                self._announced = True
                return exit_fd
        read_end, write_end = _pipe(read=undo, write=contextlib.ExitStack())
        undo.callback(self._over.set)
        # Started here; ends with the process or when it is given up; sleeps on its tick.
        threading.Thread(target=self._watch, args=(write_end,), name=f"mcplite watch of {self.name}",
                         daemon=True).start()
        return read_end

    def _watch(self, write_end: int) -> None:
        while not self._over.wait(_TICK):
            if self.returncode is not None:
                if sys.platform == "win32":
                    # Nobody can poll on Windows: with the grandchildren gone, a blocked read sees the end.
                    self._job.terminate()
                break
        os.close(write_end)

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that it wrote to stderr."""
        return "" if self._pump is None else self._pump.tail

    @property
    def returncode(self) -> Optional[int]:
        """The exit status, negative for a signal; None while it runs.

        The process is not collected here: while it is a zombie its id, and so the id of its group,
        cannot be given to anybody else.
        """
        if self._process.returncode is None and hasattr(os, "waitid"):
            try:
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                return self._process.poll()  # collected meanwhile, by us or by a SIGCHLD handler of the host
            if ended is None:
                return None
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._process.poll()

    def settle(self) -> Optional[int]:
        """Give an ending process a moment to end and to be heard; return its status, None if it runs on."""
        deadline = time.monotonic() + _LAST_WORDS
        while self.returncode is None and time.monotonic() < deadline:
            time.sleep(_SLICE)
        if self.returncode is not None and self._pump is not None:
            self._pump.wait(_LAST_WORDS)
        return self.returncode

    def end(self, grace: float, patience: float) -> None:
        """End the process, whose stdin was closed, and whatever is left of its group (STD-09, REL-13).

        Its stdout is read meanwhile, so that it can write what it has left (REL-18).

        :param grace: seconds to end by itself.
        :param patience: seconds after SIGTERM, and again after SIGKILL.
        """
        if os.getpid() != self.owner:
            return
        for seconds, step in ((grace, self._terminate), (patience, self._kill), (patience, None)):
            if self._drain(seconds):
                break
            if step is None:
                _log.warning("%s does not end, not even after SIGKILL", self.name)
            else:
                step()
        self._end_orphans()
        self._over.set()
        if self._pump is not None:
            self._pump.wait(_LAST_WORDS)
            self._pump.stop(_LAST_WORDS)

    def kill(self) -> None:
        """End the process group at once."""
        if os.getpid() == self.owner and self._process.returncode is None:
            self._kill()
            self.end(_LAST_WORDS, _LAST_WORDS)

    def forget(self) -> None:
        """In a process that was forked: keep nothing of the child, which belongs to the parent."""
        if self._pump is not None:
            self._pump.discard()
        self._process.returncode = 0  # it is not ours to wait for

    def _drain(self, seconds: float) -> bool:
        """Wait for the exit while reading stdout away; return whether it came."""
        if not hasattr(select, "poll"):
            return self._wait_blocking(seconds)
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.exit_fd, select.POLLIN)
        poll.register(self.stdout, select.POLLIN)
        # Should somebody else still read, poll may promise what they take: never block in read.
        os.set_blocking(self.stdout, False)
        while True:
            pause = max(0.0, deadline - time.monotonic())
            ready = {fd for fd, _ in poll.poll(1000 * (pause if self._announced else min(pause, _SLICE)))}
            if self.exit_fd in ready or (not self._announced and self.returncode is not None):
                return True
            if self.stdout in ready and not self._read_away():
                poll.unregister(self.stdout)
            if time.monotonic() >= deadline:
                return False

    def _read_away(self) -> bool:
        try:
            return bool(os.read(self.stdout, 65536))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _wait_blocking(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.returncode is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_SLICE)
        return True

    def _terminate(self) -> None:
        if sys.platform == "win32":
            self._kill()
        else:
            self._signal(signal.SIGTERM)

    def _kill(self) -> None:
        if sys.platform == "win32":
            self._job.terminate()
        else:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signal the whole group; return whether there is anybody in it."""
        if sys.platform != "win32":
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return False
            except PermissionError:
                return False  # macOS says so of a group of zombies
        return True

    def _end_orphans(self) -> None:
        """Collect the process and end what is left of its group."""
        if sys.platform == "win32":
            self._job.close()
            self._process.poll()
            return
        if self.returncode is None or self._process.returncode is not None:
            return  # it runs on, or the host collected it and its id may be anybody's
        # Before the process is collected: until then nobody else can have the group's id. Afterwards a
        # group that is not empty keeps it; that it becomes empty and is founded anew within one tick,
        # with the same number out of all, is not going to happen.
        self._signal(signal.SIGTERM)
        self._process.wait()
        deadline = time.monotonic() + _ORPHANS
        while self._signal(0):
            if time.monotonic() >= deadline:
                self._signal(signal.SIGKILL)
                break
            time.sleep(_SLICE)
