"""The wait for new entries of logs: what this process was told of them, and the threads that wait.

Each backend has one watch. The backend learns of new entries in its own way (announcements of its store, or reading it) and
passes the numbers to the watch. An announcement may come from any program that can write to the channel. So it only wakes a
thread, which then reads its log. The number in the announcement counts only if the store confirms it:

    number of the store  --announced, larger-->  believed  --the thread that was woken found it-->  number of the store
                                                     |
                   the thread waits again, and has found nothing: the number is read from the store
                                                     |
             false: announcements of this log are compared with the store only once in a pause, which grows
"""

import threading
import time
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..errors import BackendError
from ..rpc.deadline import Deadline, wait_interruptibly
from ..rpc.forks import on_fork

__all__ = ["LogWatch"]

#: The end of a wait forgets logs for which no thread waits only if more logs are watched than this number and twice the logs
#: that the wait has named.
_SPARE = 100
#: For so many seconds after a false announcement, further ones of its log are not compared with the store: at first, and at
#: most.
_PAUSE_SECONDS = (0.25, 2.0)


class _Watched:
    """One log: what the store says of it, and what was announced.

    :ivar number: the last number that the store has said; None until it is known.
    :ivar announced: another number that an announcement has named, and that the store has not confirmed; None if there is none.
        A number smaller than that of the store is never believed: it comes late, or the store has lost its data.
    :ivar woken: the number that a thread knew when it was last woken by an announcement, and the announced number.
    """

    def __init__(self) -> None:
        self.number: Optional[int] = None
        self.announced: Optional[int] = None
        self.woken: Optional[Tuple[int, int]] = None
        #: Seconds of the present pause; 0 while no announcement was false.
        self.pause = 0.0
        #: When the announcement may be compared with the store.
        self.ready_at = 0.0

    def set(self, number: int, now: float) -> None:
        """Note the last number that the store says."""
        before, self.number = self.number, number
        if self.announced is not None:
            if self.announced > number:
                self.pause = min(max(_PAUSE_SECONDS[0], 2 * self.pause), _PAUSE_SECONDS[1])
                self.ready_at = now + self.pause
            elif before is not None and self.announced < before:
                self.ready_at = now + _PAUSE_SECONDS[0]
            else:
                self.pause = 0.0
            self.announced = None

    def take_known(self, known: int) -> None:
        """Note up to which number a thread has read the log: this confirms an announcement up to this number."""
        if self.announced is not None and (self.number or 0) < self.announced <= known:
            self.number, self.announced, self.pause = self.announced, None, 0.0

    def is_doubted(self, known: int) -> bool:
        """Whether the announcement has to be compared with the store: it has woken a thread already, or others were false."""
        return self.announced is not None and (
            self.pause > 0 or self.announced < (self.number or 0) or self.woken == (known, self.announced))


class LogWatch:
    """The last numbers of the logs for which threads of this process wait.

    :param follow: called with the names of logs that are new here: begins to report their entries, and returns their
        last numbers. It may raise BackendError.
    :param read: called with the names of logs that are followed; returns their last numbers. By default *follow*.
    :param forget: called with the names of logs for which no thread waits any more.
    :param forked: called in a forked process: the backend that has the watch begins with connections of its own.
    """

    def __init__(self, follow: Callable[[List[str]], Mapping[str, int]],
                 forget: Callable[[List[str]], object] = lambda logs: None,
                 read: Optional[Callable[[List[str]], Mapping[str, int]]] = None,
                 forked: Callable[[], object] = lambda: None) -> None:
        self._follow = follow
        self._read = read or follow
        self._forget = forget
        #: Guards the fields below; threads wait on it for reports. Held for dictionary work only.
        self._changed = threading.Condition()
        self._watched: Dict[str, _Watched] = {}
        #: The logs that each waiting thread has named.
        self._waiting: List[Mapping[str, int]] = []
        self._closed = False
        self._forked = forked
        on_fork(self, LogWatch._let_go)

    def _let_go(self, owner: int) -> None:
        self._watched.clear()
        self._waiting.clear()
        self._forked()

    @property
    def logs(self) -> List[str]:
        """The names of the watched logs."""
        with self._changed:
            return list(self._watched)

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        """See :meth:`Backend.wait`."""
        deadline = Deadline(timeout)
        with self._changed:
            self._waiting.append(logs)
            new = [log for log in logs if log not in self._watched]
            self._watched.update((log, _Watched()) for log in new)
            for log, known in logs.items():
                self._watched[log].take_known(known)
        try:
            if new:
                self._add(new)
            while True:
                found, doubted = self._wait_once(logs, deadline.remaining() or 0.0)
                if found or not doubted:
                    return found
                self.report(self._read(doubted))
        finally:
            self._leave(logs)

    def _wait_once(self, logs: Mapping[str, int], seconds: float) -> Tuple[Set[str], List[str]]:
        """Wait; return the logs that have another number, and those whose announcements are to be compared with the store."""
        found: Set[str] = set()
        doubted: List[str] = []

        def is_ready() -> bool:
            return self._closed or bool(self._different(logs)) or bool(self._doubted(logs))

        def wait(seconds: float) -> bool:
            with self._changed:
                # No thread is notified when a pause ends. So this wait ends with the pause, to look at the announcements that
                # were held back.
                now = time.monotonic()
                paused = [one.ready_at - now for one in map(self._watched.get, logs)
                          if one is not None and one.number is not None and one.announced is not None]
                self._changed.wait_for(is_ready, max(0.0, min([seconds, *paused])))
                found.update(self._different(logs))
                doubted[:] = self._doubted(logs)
                for log in found:
                    watched = self._watched[log]
                    if watched.announced is not None:
                        watched.woken = logs[log], watched.announced
                return self._closed or bool(found) or bool(doubted)

        wait_interruptibly(wait, seconds)
        return found, doubted

    def _add(self, new: List[str]) -> None:
        try:
            self.report(self._follow(new), only_new=True)
        except BackendError:
            if not self._closed:  # close() ends a wait without an error
                raise
        finally:
            with self._changed:
                for log in new:
                    watched = self._watched.get(log)
                    if watched is not None and watched.number is None:
                        del self._watched[log]  # after an error: the next wait asks again

    def _leave(self, logs: Mapping[str, int]) -> None:
        with self._changed:
            self._waiting[:] = [other for other in self._waiting if other is not logs]
            if len(self._watched) <= 2 * len(logs) + _SPARE:
                return
            named: Set[str] = set(logs).union(*self._waiting)
            unused = [log for log in self._watched if log not in named]
            for log in unused:
                del self._watched[log]
        self._forget(unused)
        with self._changed:
            again = [log for log in unused if log in self._watched]
        if again:
            # Another thread has begun to wait for them meanwhile, and may have followed them before they were forgotten.
            self.report(self._follow(again))

    def _different(self, logs: Mapping[str, int]) -> Set[str]:
        """Return the logs whose number is another one, by the store, or by an announcement that is believed."""
        found = set()
        for log, known in logs.items():
            watched = self._watched.get(log)
            if watched is not None and watched.number is not None and (
                    watched.number != known
                    or watched.announced is not None and watched.announced != known and not watched.is_doubted(known)):
                found.add(log)
        return found

    def _doubted(self, logs: Mapping[str, int]) -> List[str]:
        now = time.monotonic()
        return [log for log, known in logs.items()
                for watched in [self._watched.get(log)] if watched is not None and watched.number is not None
                and watched.is_doubted(known) and now >= watched.ready_at]

    def report(self, numbers: Mapping[str, int], only_new: bool = False) -> None:
        """Note the last numbers of logs, as the store has said them; those that are not watched are left out.

        :param only_new: leaves out logs whose number is known already, since the known number may be newer.
        """
        now = time.monotonic()
        with self._changed:
            for log, number in numbers.items():
                watched = self._watched.get(log)
                if watched is not None and not (only_new and watched.number is not None):
                    watched.set(number, now)
            self._changed.notify_all()

    def announce(self, log: str, number: object) -> None:
        """Take an announcement, which any program may have sent: it wakes the threads that wait for this log.

        :param number: the last number of the log, as text; a text that is no number is ignored, and so is the number that the
            store has said.
        """
        try:
            announced = int(number)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            return
        with self._changed:
            watched = self._watched.get(log)
            if watched is not None and announced != watched.number and (
                    watched.announced is None or announced > watched.announced):
                watched.announced = announced
                self._changed.notify_all()

    def refresh(self) -> None:
        """Read the numbers of all watched logs, since announcements may have been missed.

        A log that a thread is about to follow is left out: that thread reads its number itself, when the store already reports
        new entries.

        :raises BackendError: the store cannot be reached.
        """
        with self._changed:
            logs = [log for log, watched in self._watched.items() if watched.number is not None]
        if logs:
            self.report(self._read(logs))

    def close(self) -> None:
        """End all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def grouped(items: Iterable[str], size: int) -> Iterable[List[str]]:
    """Yield the items in lists of at most *size*, as a store takes them in one request."""
    chunk: List[str] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
