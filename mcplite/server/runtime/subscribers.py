"""Counts the subscriptions to each resource, and tells the user's hook, so that a server knows what to watch.

Sessions and the open ``subscriptions/listen`` requests report here what begins and what ends.
"""

from collections import Counter, deque
from typing import Callable, Deque, Iterable, Tuple

from ...errors import TransportError
from ...rpc.forks import new_condition, on_fork
from ...rpc.threads import start_thread
from ...rpc.tracing import FaultLog, PeerLog, get_logger

__all__ = ["Subscribers"]

_log = get_logger(__name__)


class Subscribers:
    """The number of subscriptions to each URI, of all clients together.

    The hook is called for one change after another, in their order, on a thread that is started for them and ends when there
    are no more. The hook may block; it delays only the changes behind its own.

    :param hook: called with a URI and the number of subscriptions to it, after each change of that number.
    """

    def __init__(self, hook: Callable[[str, int], object]) -> None:
        self._hooks = [hook]
        #: Whether a client is told that it has subscribed only after the hooks were called.
        self.awaited = False
        #: Guards the fields below; held for dictionary operations only. Sessions hold their own lock around it. Waited on for
        #: the end of the calls.
        self._lock = new_condition()
        self._counts: "Counter[str]" = Counter()
        self._changes: Deque[Tuple[str, int]] = deque()
        #: Whether a thread calls the hook.
        self._telling = False
        self._faults = FaultLog(_log)
        self._failures = PeerLog()
        on_fork(self, Subscribers._let_go)

    def _let_go(self, owner: int) -> None:
        # In a forked process: the clients, and the thread, belong to the other one.
        self._counts, self._changes, self._telling = Counter(), deque(), False

    def add_hook(self, hook: Callable[[str, int], object]) -> None:
        """Call one more hook, after the others."""
        self._hooks.append(hook)

    def add(self, uris: Iterable[str]) -> None:
        """Count one subscription more to each URI; :meth:`tell` comes afterwards, without a lock."""
        self._count(uris, 1)

    def remove(self, uris: Iterable[str]) -> None:
        """Count one subscription less to each URI; :meth:`tell` comes afterwards, without a lock."""
        self._count(uris, -1)

    def _count(self, uris: Iterable[str], step: int) -> None:
        with self._lock:
            for uri in uris:
                self._counts[uri] += step
                self._changes.append((uri, self._counts[uri]))
                if not self._counts[uri]:
                    del self._counts[uri]

    def tell(self) -> None:
        """Have the hook called for the changes that it was not called for, and return."""
        with self._lock:
            if self._telling or not self._changes:
                return
            self._telling = True
        try:
            start_thread(lambda: self._faults.keep_running(self._tell, "on_subscribe was not called for a change"),
                         "mcplite subscribers")
        except BaseException as error:
            with self._lock:
                self._telling = False  # the next change tries again, and tells of this one as well
            if not isinstance(error, TransportError):
                raise
            _log.warning("on_subscribe is called later: %s", error)

    def wait_told(self, seconds: float) -> None:
        """Wait until the hooks were called for all changes so far, but no longer than *seconds*."""
        with self._lock:
            self._lock.wait_for(lambda: not self._telling, seconds)

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._changes:
                    self._lock.notify_all()
                    self._telling = False
                    return
                uri, subscriptions = self._changes.popleft()
            for hook in list(self._hooks):
                try:
                    hook(uri, subscriptions)
                except BaseException:
                    self._failures.failure(_log, "on_subscribe failed for %.200r", uri)
