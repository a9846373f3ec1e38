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
#: An outage that begins within this many seconds after the last one counts as a part of it, and has no warning: some threads
#: notice later than others that the backend is back.
_CALM_SECONDS = 10.0
#: For this many seconds after a failure requests that need the backend are refused without an attempt: somewhat longer than an
#: operation may take. If the outage ends sooner, the thread that reads messages notices it.
KNOWN_SECONDS = 6.0


class Outage:
    """The present outage of a backend, if there is one.

    Threads that use the backend again and again note here whether it works. So an outage is one warning, however many threads
    meet it and however long it lasts.

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
        """Refuse a request that needs the backend, if an operation has failed less than ``KNOWN_SECONDS`` ago.

        With a store that hangs, each attempt would take seconds.

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
    """Operations that have failed with the store: one thread repeats them, in order, until they succeed or the time is over.

    :param name: of the thread, for the log.
    :param lost: the text for the log that says what has not taken place when the thread gives up.
    :param seconds: for which the thread repeats each operation.
    :param most: operations that wait at once; for one more the oldest is given up.
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
        #: The operations that wait, the oldest first, each with the time for which it is repeated.
        self._due: Dict[Hashable, Tuple[Callable[[], object], Deadline]] = {}
        #: Whether a thread repeats them.
        self.running = False
        #: Set when the thread shall end, after a last attempt.
        self._ended = threading.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: Hashable, store: Callable[[], object]) -> None:
        """Call *store* until it does not raise BackendError; it replaces an operation with an equal key that waits already."""
        with self._lock:
            self._due[key] = store, Deadline(self._seconds)
            if len(self._due) > self._most:
                del self._due[next(iter(self._due))]
            begins, self.running = not self.running, True
        ended = self._ended
        if begins:
            try:
                with undo(self._not_running):
                    # The thread ends when nothing waits any more, or after stop(). It blocks for one operation of the store.
                    Loop(self._name, lambda: self._run(ended), ended.wait).start()
            except TransportError as error:
                _log.warning("%s, and is tried with the next one: %s", self._lost, error)

    def clear(self) -> None:
        """Forget the operations that wait."""
        with self._lock:
            self._due = {}

    def _not_running(self) -> None:
        self.running = False  # the next add() tries to start the thread again

    def stop(self) -> None:
        """Have the thread try once more, and then give up."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()

    def let_go(self) -> None:
        """Forget, in a forked process, the operations that the parent process repeats."""
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
        """Repeat the operation that waits for longest; False if none waits, and the thread is to end.

        :raises BackendError: the store failed.
        """
        with self._lock:
            if not self._due:
                self.running = False
                return False
            # Removed before the call: meanwhile add() may add an operation with an equal key, which must be called, too.
            key = next(iter(self._due))
            due = self._due.pop(key)
        with undo(lambda: self._put_back(key, due)):
            due[0]()
        return True

    def _put_back(self, key: Hashable, due: Tuple[Callable[[], object], Deadline]) -> None:
        with self._lock:
            self._due = {key: due, **self._due}
