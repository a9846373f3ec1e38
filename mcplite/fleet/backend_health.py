"""Whether the backend can be reached, as all threads of one process find, and what waits for it until it can be again."""

import threading
import time
from typing import Callable, Dict, Hashable, Tuple

from ..errors import BackendError, TransportError
from ..rpc.deadline import Deadline, undo
from ..rpc.forks import renew
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from ..server.runtime.processes import away_error

__all__ = ["KNOWN_SECONDS", "Outage", "Retries"]

_log = get_logger(__name__)
#: Seconds after an outage in which another one is taken for the same: threads do not all find at once that it is over.
_CALM_SECONDS = 10.0
#: Seconds after a failure in which the backend is not tried for each request: somewhat longer than an operation may take. The
#: thread that reads messages finds the end sooner.
KNOWN_SECONDS = 6.0


class Outage:
    """The present outage of a backend, if there is one.

    Threads that use the backend again and again tell it what they find, so that an outage is one warning, however many
    threads meet it and however long it lasts.

    :param clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._present = False
        #: When an operation failed last, and when the last outage was over.
        self._found = self._passed = float("-inf")

    def __bool__(self) -> bool:
        return self._present

    def found(self, error: BackendError) -> None:
        """Note that an operation has failed."""
        with self._lock:
            before, self._present = self._present, True
            self._found = self._clock()
            same = self._found - self._passed < _CALM_SECONDS
        if not before and not same:
            _log.warning("what this server shares with other processes is away; what needs it waits or is refused until it is"
                         " back: %s", error)

    def check(self) -> None:
        """Refuse what needs the backend at once, if that has failed a moment ago: a store that hangs costs seconds each time.

        :raises RemoteError: as of :func:`away_error`.
        """
        if self._present and self._clock() - self._found < KNOWN_SECONDS:
            raise away_error()

    def passed(self) -> None:
        """Note that an operation has succeeded."""
        if not self._present:
            return
        with self._lock:
            before, self._present = self._present, False
            self._passed = self._clock()
        if before:
            _log.info("what this server shares with other processes is back")


#: Seconds between two attempts, at first and at most.
_AGAIN_SECONDS = (0.5, 2.0)


class Retries:
    """What the store did not take: one thread tries again, in this order, until it is taken or its time is over.

    :param name: of the thread, for the log.
    :param lost: says in the log what has not taken place when it gives up.
    :param seconds: for which it tries to store each of them.
    :param most: that wait; beyond that the oldest is given up.
    """

    def __init__(self, name: str, lost: str, seconds: float, most: int) -> None:
        self._name = name
        self._lost = lost
        self._seconds = seconds
        self._most = most
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        #: What is to be stored, the oldest first, and for how long it is tried.
        self._due: Dict[Hashable, Tuple[Callable[[], object], Deadline]] = {}
        #: Whether a thread tries again.
        self.running = False
        #: Set when that thread shall end, after a last attempt.
        self._ended = threading.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: Hashable, store: Callable[[], object]) -> None:
        """Call *store* until it does not raise BackendError; one with a key that waits already takes its place."""
        with self._lock:
            self._due[key] = store, Deadline(self._seconds)
            if len(self._due) > self._most:
                del self._due[next(iter(self._due))]
            begins, self.running = not self.running, True
        ended = self._ended
        if begins:
            try:
                with undo(self._not_running):
                    # It ends when nothing is due any more, or in stop(); it blocks for one operation of the store.
                    Loop(self._name, lambda: self._run(ended), ended.wait).start()
            except TransportError as error:
                _log.warning("%s, and is tried with the next one: %s", self._lost, error)

    def clear(self) -> None:
        """Forget what waits."""
        with self._lock:
            self._due = {}

    def _not_running(self) -> None:
        self.running = False  # the next one tries to start the thread again

    def stop(self) -> None:
        """Try once more, and give up."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()

    def let_go(self) -> None:
        """Forget, in a forked process, what the other one tries."""
        renew(self)
        self._begin()

    def _run(self, ended: threading.Event) -> None:
        pause = _AGAIN_SECONDS[0]
        while True:
            last = ended.wait(pause)
            try:
                while self._store_one():
                    pass
                return
            except BackendError as error:
                pause = min(2 * pause, _AGAIN_SECONDS[1])
                with self._lock:
                    left = {key: due for key, due in self._due.items() if not (last or due[1].expired)}
                    lost, self._due = len(left) < len(self._due), left
                    goes_on = self.running = bool(left)
                if lost:
                    _log.warning("%s: %s", self._lost, error)
                if not goes_on:
                    return

    def _store_one(self) -> bool:
        """Store what is due first; False once that is nothing, and the thread ends.

        :raises BackendError: the store failed.
        """
        with self._lock:
            if not self._due:
                self.running = False
                return False
            # Taken out before it is stored: it may become due again while that takes place, and is stored again.
            key = next(iter(self._due))
            due = self._due.pop(key)
        with undo(lambda: self._put_back(key, due)):
            due[0]()
        return True

    def _put_back(self, key: Hashable, due: Tuple[Callable[[], object], Deadline]) -> None:
        with self._lock:
            self._due = {key: due, **self._due}
