"""The queue of jobs that wait for a slot of a pool: fair to those who sent them, and bounded in number and in bytes.

:class:`Workers` fills and empties it, with its own lock held. A module of its own so that the choice of the next job can be
read without the threads. The turns of large messages are here, too: they are such a queue before a single slot, and two layers
of the server take them. The endpoint decodes in a turn, and the code that runs handlers checks arguments and makes answers.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from typing import Callable, Collection, Deque, Dict, Hashable, List, Optional, Tuple, cast

from ..errors import SERVER_BUSY, RemoteError
from .deadline import Deadline, undo

__all__ = ["COSTLY", "EVERYONE", "FairQueue", "IDLE_CONNECTIONS", "IDLE_SENDERS", "QueuedJob", "Turn", "Turns"]

EVERYONE, IDLE_CONNECTIONS, IDLE_SENDERS = range(3)
#: Bytes of a message, or of the memory that it takes, from which on it is decoded, checked or made in a turn.
COSTLY = 65_536
#: Seconds between two looks whether the client of a message that waits has left.
_LOOK_SECONDS = 1.0
#: Seconds after which a turn is passed on before it has ended: a converter of the user's may wait for something.
_LONGEST_SECONDS = 2.0
#: Seconds of a long turn, and of the pause after it, in which small messages that wait for the interpreter are served. Without
#: the pause they waited more than twice as long.
_PAUSE_SECONDS = 0.005


class QueuedJob:
    """A job of a pool."""

    __slots__ = ()

    #: The bytes of memory that it keeps while it runs, if that is much; else 0.
    size: int
    #: The bytes of memory that it keeps while it waits, even if that is little; 0 where they are not counted.
    queued_size: int = 0

    @property
    def sender(self) -> str:
        """Who has sent it; empty for a job that has no part in fairness, such as any on a pipe, which has one sender."""
        return ""

    @property
    def connection(self) -> Hashable:
        """What it came on; a sender may have several."""
        return None

    def execute(self) -> object:
        """Run, on a thread of the pool."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Called in place of :meth:`execute` if the job is dropped from a full queue."""


Line = Tuple[str, Hashable]


def _line_of(job: QueuedJob) -> Line:
    return job.sender, job.connection


class FairQueue:
    """Jobs that wait, in one line for each connection. Not thread-safe: its owner locks.

    The next job is one of the sender with the fewest running ones, and of the connection with the fewest among those.

    :param most: how many jobs may wait.
    :param most_bytes: how many bytes of memory they may keep; None for no limit.
    """

    def __init__(self, most: int, most_bytes: Optional[int] = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        #: The connection served last comes last.
        self._lines: Dict[Line, Deque[QueuedJob]] = {}
        #: How many wait; an attribute, since the pool asks with each job.
        self.count = 0
        self._bytes = 0

    def add(self, job: QueuedJob, first: bool = False) -> None:
        """Add a job; call :meth:`excess` when those that can be started are.

        :param first: whether it has been taken before, and goes to the front.
        """
        line = self._lines.setdefault(_line_of(job), deque())
        if first:
            line.appendleft(job)
        else:
            line.append(job)
        self.count += 1
        self._bytes += job.queued_size

    def discard(self, job: QueuedJob) -> bool:
        """Remove a job; False if it does not wait."""
        line = self._lines.get(_line_of(job), ())
        if not isinstance(line, deque) or job not in line:
            return False
        line.remove(job)
        self._removed(job, line)
        return True

    def clear(self) -> None:
        """Drop all jobs."""
        self._lines.clear()
        self.count = self._bytes = 0

    def excess(self, newest: QueuedJob) -> List[QueuedJob]:
        """Remove and return the jobs above the limit: *newest* if its sender has most, or the last job of the sender that has.

        :param newest: the job that was added last.
        """
        gone: List[QueuedJob] = []
        while self.count > self._most or (self._most_bytes is not None and self._bytes > self._most_bytes):
            by_bytes = self.count <= self._most
            loads: Dict[str, int] = {}
            for (sender, _), line in self._lines.items():
                loads[sender] = loads.get(sender, 0) + (sum(job.queued_size for job in line) if by_bytes else len(line))
            most = max(loads, key=lambda sender: (loads[sender], sender == newest.sender))
            victim = newest if most == newest.sender else next(
                job for key, line in reversed(list(self._lines.items())) if key[0] == most
                for job in reversed(line) if job.queued_size or not by_bytes)
            gone.append(victim)
            if not self.discard(victim) or victim is newest:
                break
        return gone

    def take(self, running: Collection[QueuedJob], open_to: int, fits: Callable[[QueuedJob], bool]) -> Optional[QueuedJob]:
        """Remove and return the next job that may run; None if none may.

        :param running: the jobs that run.
        :param open_to: whose jobs may run: ``EVERYONE``, ``IDLE_CONNECTIONS`` or ``IDLE_SENDERS``, which have none that runs.
        :param fits: returns whether the memory of a job may be in use besides that of the running ones.
        """
        if open_to == EVERYONE and len(self._lines) == 1:
            job = next(filter(fits, next(iter(self._lines.values()))), None)
        else:
            job = self._choose(running, open_to, fits)
        if job is None:
            return None
        key = _line_of(job)
        line = self._lines[key]
        line.remove(job)
        self._removed(job, line)
        if line:
            self._lines[key] = self._lines.pop(key)
        return job

    def _choose(self, running: Collection[QueuedJob], open_to: int, fits: Callable[[QueuedJob], bool]
                ) -> Optional[QueuedJob]:
        connections = Counter(_line_of(job) for job in running)
        senders: Dict[str, int] = Counter()
        for (sender, _), count in connections.items():
            senders[sender] += count
        best: Optional[QueuedJob] = None
        least = 0, 0
        for key, line in self._lines.items():
            load = senders.get(key[0], 0), connections.get(key, 0)
            if open_to != EVERYONE and (not key[0] or load[1] or load[0] and open_to == IDLE_SENDERS):
                continue
            if best is None or load < least:
                job = next(filter(fits, line), None)
                if job is not None:
                    best, least = job, load
        return best

    def _removed(self, job: QueuedJob, line: Deque[QueuedJob]) -> None:
        self.count -= 1
        self._bytes -= job.queued_size
        if not line:
            del self._lines[_line_of(job)]


# --- turns ----------------------------------------------------------------------------------------------


class Turn(QueuedJob):
    """A message that waits for its turn, or has it. :meth:`Turns.begin` returns it; the turn ends with a ``with`` block."""

    __slots__ = ("_turns", "_sender", "begun", "since", "pauses")

    size = 0

    def __init__(self, turns: Turns, sender: str) -> None:
        self._turns = turns
        self._sender = sender
        self.begun = threading.Event()
        #: When it began.
        self.since = 0.0
        #: Whether a pause comes first, since the turn before it was long.
        self.pauses = False

    @property
    def sender(self) -> str:
        return self._sender

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the turn, and begin that of another message; idempotent."""
        self._turns.end(self)


class Turns:
    """The turns of one server.

    A thread that decodes megabytes keeps the interpreter from all others for a tenth of a second at a time. When twenty do so
    at once, a thread with a small message waits for most of them each time that it needs the interpreter again. Also the
    memory that a message takes while it is decoded or made, which is a multiple of its bytes, is used once at a time.

    :param seconds: that a message waits for its turn at most.
    """

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        #: Guards the two fields below; held for list work only.
        self._lock = threading.Lock()
        self._waiting = FairQueue(sys.maxsize)
        self._current: Optional[Turn] = None

    def let_go(self) -> None:
        """Forget all turns in a forked process, where no thread waits or would pass one on."""
        self._lock = threading.Lock()
        self._waiting.clear()
        self._current = None

    def begin(self, sender: str, left: Callable[[], bool] = lambda: False) -> Turn:
        """Wait for a turn of *sender*, and return it; the caller ends it. The next goes to another sender, if one waits.

        :param left: returns whether the client has left, so that its message need not wait any longer.
        :raises RemoteError: it has left, or the turn has not come in time.
        """
        turn = Turn(self, sender)
        with undo(lambda: self.end(turn)):
            with self._lock:
                at_once = self._current is None
                if at_once:
                    self._begin(turn)
                else:
                    self._waiting.add(turn)
            if not at_once:
                self._wait(turn, left)
                if turn.pauses:
                    time.sleep(_PAUSE_SECONDS)
                    turn.since = time.monotonic()
            return turn

    def _wait(self, turn: Turn, left: Callable[[], bool]) -> None:
        deadline = Deadline(self._seconds)
        while not turn.begun.wait(_LOOK_SECONDS):
            if deadline.expired or left():
                raise RemoteError("Server busy: too many large messages wait; try again later", code=SERVER_BUSY)
            current = self._current
            if current is not None and time.monotonic() - current.since > _LONGEST_SECONDS:
                self.end(current)

    def _begin(self, turn: Turn) -> None:
        # Called with the lock held.
        self._current, turn.since = turn, time.monotonic()

    def end(self, turn: Turn) -> None:
        """End a turn, or the waiting for it, and pass it on; idempotent."""
        with self._lock:
            if self._current is not turn:
                self._waiting.discard(turn)
                return
            self._current = None
            if not self._waiting.count:
                return
            # Counted as if it still ran, so that another sender is next.
            following = cast(Optional[Turn], self._waiting.take([turn], EVERYONE, lambda waiting: True))
            if following is not None:
                self._begin(following)
                following.pauses = following.since - turn.since > _PAUSE_SECONDS
                following.begun.set()
