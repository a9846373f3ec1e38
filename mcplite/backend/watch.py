"""The wait for new entries of logs: what this process was told of them, and the threads that wait.

Each backend has one watch. The backend learns of new entries in its own way (a notification of its store, or a look at
it) and reports them here.
"""

from typing import Callable, Dict, Iterable, List, Mapping, Optional, Set

from ..errors import BackendError
from ..rpc.deadline import Deadline, wait_interruptibly
from ..rpc.forks import new_condition, on_fork

__all__ = ["LogWatch"]

#: Logs that are watched although no thread waits for them at present, besides twice as many as a wait names.
_SPARE = 100


class LogWatch:
    """The last numbers of the logs for which threads of this process wait.

    :param follow: called with the names of logs that are new here: begins to report their entries, and returns their
        last numbers. It may raise BackendError.
    :param read: called with the names of logs that are followed; returns their last numbers. By default *follow*.
    :param forget: called with the names of logs for which no thread waits any more.
    """

    def __init__(self, follow: Callable[[List[str]], Mapping[str, int]],
                 forget: Callable[[List[str]], object] = lambda logs: None,
                 read: Optional[Callable[[List[str]], Mapping[str, int]]] = None) -> None:
        self._follow = follow
        self._read = read or follow
        self._forget = forget
        #: Guards the fields below; threads wait on it for reports. Held for dictionary work only.
        self._changed = new_condition()
        #: None until the number of a log is known.
        self._numbers: Dict[str, Optional[int]] = {}
        #: The logs that each waiting thread has named.
        self._waiting: List[Mapping[str, int]] = []
        self._closed = False
        on_fork(self, LogWatch._forked)

    def _forked(self, owner: int) -> None:
        self._numbers.clear()
        self._waiting.clear()

    @property
    def logs(self) -> List[str]:
        """The names of the watched logs."""
        with self._changed:
            return list(self._numbers)

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        """See :meth:`Backend.wait`."""
        deadline = Deadline(timeout)
        with self._changed:
            self._waiting.append(logs)
            new = [log for log in logs if log not in self._numbers]
            self._numbers.update(dict.fromkeys(new))
        try:
            if new:
                self._add(new)
            found: Set[str] = set()

            def wait(seconds: float) -> bool:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or bool(self._different(logs)), seconds)
                    found.update(self._different(logs))
                    return self._closed or bool(found)

            wait_interruptibly(wait, deadline.remaining())
            return found
        finally:
            self._leave(logs)

    def _add(self, new: List[str]) -> None:
        try:
            self.report(self._follow(new), only_new=True)
        except BaseException as error:
            with self._changed:
                for log in new:
                    if self._numbers.get(log, 0) is None:
                        del self._numbers[log]  # the next wait asks again
                if self._closed and isinstance(error, BackendError):
                    return  # closed meanwhile, which ends a wait without an error
            raise

    def _leave(self, logs: Mapping[str, int]) -> None:
        with self._changed:
            self._waiting[:] = [other for other in self._waiting if other is not logs]
            if len(self._numbers) <= 2 * len(logs) + _SPARE:
                return
            named: Set[str] = set(logs).union(*self._waiting)
            unused = [log for log in self._numbers if log not in named]
            for log in unused:
                del self._numbers[log]
        self._forget(unused)
        with self._changed:
            again = [log for log in unused if log in self._numbers]
        if again:
            # Another thread has begun to wait for them meanwhile, and may have followed them before they were forgotten.
            self.report(self._follow(again))

    def _different(self, logs: Mapping[str, int]) -> Set[str]:
        numbers = self._numbers
        return {log for log, number in logs.items() if numbers.get(log) not in (None, number)}

    def report(self, numbers: Mapping[str, int], only_new: bool = False) -> None:
        """Note the last numbers of logs; those that are not watched are left out.

        :param only_new: leaves out logs whose number is known already, since that one may be newer.
        """
        with self._changed:
            for log, number in numbers.items():
                if log in self._numbers and not (only_new and self._numbers[log] is not None):
                    self._numbers[log] = number
            self._changed.notify_all()

    def refresh(self) -> None:
        """Read the numbers of all watched logs, since reports may have been missed.

        What a thread is about to follow is left out: that thread reads the number, once nothing later can be missed.

        :raises BackendError: the store cannot be reached.
        """
        with self._changed:
            logs = [log for log, number in self._numbers.items() if number is not None]
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
