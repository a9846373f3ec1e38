"""Change notifications between the processes of a fleet: each appends them to one log, and reads those of the others.

The latest changes that processes of a fleet have told, read from the backend once for all streams of this process.
"""

import json
import secrets
import threading
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from ..backend.interface import Backend
from ..errors import BackendError, TransportError
from ..rpc.deadline import Deadline, undo
from ..rpc.forks import renew
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from .process_messages import Letters

__all__ = ["Changes", "EVERYTHING", "LOG", "News", "ToldChange", "append_news"]

_log = get_logger(__name__)
#: The log of all processes.
LOG = "news/changes"
#: Seconds for which a notification is kept, and how many are: as long as a process may need to read them.
_SECONDS = 600.0
_KEEP = 10_000
#: In the place of a method: anything may have changed.
EVERYTHING = "*"
#: Changes that wait for the store; more are told as one, that anything may have changed.
_MOST_UNTOLD = 1000
#: Seconds between two attempts to tell them, at first and at most.
_AGAIN_SECONDS = (0.5, 2.0)


def append_news(backend: Backend, server: Optional[str], method: str, uri: Optional[str], sender: str = "") -> None:
    """Tell the processes of a server of a change.

    :param server: the name of the server; None for all servers on this backend.
    :param method: of the notification; or EVERYTHING.
    :param uri: of the resource that has changed; None for lists.
    :param sender: the process that has told its own clients already.
    :raises BackendError: the store failed.
    """
    news = {"server": server, "method": method, "uri": uri, "sender": sender}
    backend.append(LOG, json.dumps(news, separators=(",", ":")).encode("ascii"), _SECONDS, _KEEP)


class News:
    """The change notifications of one process of a fleet; they are read on the thread of :class:`Letters`.

    :param backend: sealed, so that what it holds was written by a process with the keys.
    :param letters: reads the log.
    :param server: the name of the server.
    :param deliver: called on the reading thread with the method and the URI of each change elsewhere.
    :param missed: called on the reading thread when changes were missed.
    """

    def __init__(self, backend: Backend, letters: Letters, server: str, deliver: Callable[[str, Optional[str]], object],
                 missed: Callable[[], object]) -> None:
        self._backend = backend
        self._server = server
        self._deliver = deliver
        self._missed = missed
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._begin()
        letters.read(LOG, self._receive, missed)

    def _begin(self) -> None:
        self._sender = secrets.token_hex(8)
        #: The changes that the store did not take, each once, and whether a thread waits for the store to take them.
        self._untold: Dict[Tuple[str, Optional[str]], None] = {}
        self._telling = False
        #: Set when that thread shall end.
        self._stopped = threading.Event()

    def publish(self, method: str, uri: Optional[str] = None) -> None:
        """Tell the other processes of a change; what the store does not take is told once, when the store is back."""
        if self._telling and self._keep(method, uri):
            return
        try:
            append_news(self._backend, self._server, method, uri, self._sender)
        except BackendError as error:
            _log.warning("the clients of other processes are told of a change when the store is back: %s", error)
            if not self._keep(method, uri, begin=True):
                self._start()

    def _keep(self, method: str, uri: Optional[str], begin: bool = False) -> bool:
        """Keep a change until it can be told; return whether a thread waits for that already.

        :param begin: keeps it if no thread does, too.
        """
        with self._lock:
            before, self._telling = self._telling, self._telling or begin
            if self._telling and len(self._untold) < _MOST_UNTOLD:
                self._untold[method, uri] = None
            elif self._telling and (method, uri) not in self._untold:
                self._untold = {(EVERYTHING, None): None}
            return before

    def _start(self) -> None:
        stopped, deadline = self._stopped, Deadline(_SECONDS)
        try:
            with undo(self._stop_telling):
                # It ends when all is told, after some minutes, or in stop(); it blocks on the backend for one operation.
                Loop("sender of changes", lambda: self._tell_later(stopped, deadline), stopped.wait).start()
        except TransportError as error:
            _log.warning("the clients of other processes were not told of a change: %s", error)

    def _stop_telling(self) -> None:
        self._telling = False  # the next change tries again

    def _tell_later(self, stopped: threading.Event, deadline: Deadline) -> None:
        pause = _AGAIN_SECONDS[0]
        while True:
            last = stopped.wait(pause) or deadline.expired
            try:
                if self._tell():
                    return
            except Exception as error:
                if not last and not isinstance(error, BackendError):
                    raise
                pause = min(2 * pause, _AGAIN_SECONDS[1])
                if last:
                    _log.warning("the clients of other processes were not told of a change: %s", error)
                    self._give_up()
                    return

    def _tell(self) -> bool:
        """Tell what is kept; True once that is nothing, and the thread ends.

        :raises BackendError: the store failed.
        """
        while True:
            with self._lock:
                if not self._untold:
                    self._telling = False
                    return True
                # Taken out before it is told: the same change may come again while that takes place, and is told again.
                method, uri = next(iter(self._untold))
                del self._untold[method, uri]
            self._tell_or_keep(method, uri)

    def _tell_or_keep(self, method: str, uri: Optional[str]) -> None:
        with undo(lambda: self._keep(method, uri)):
            append_news(self._backend, self._server, method, uri, self._sender)

    def _give_up(self) -> None:
        with self._lock:
            self._untold, self._telling = {}, False

    def stop(self) -> None:
        """Wait for the store no more, but for one last attempt."""
        stopped, self._stopped = self._stopped, threading.Event()
        stopped.set()

    def let_go(self) -> None:
        """Be another sender than the process that this one was forked from."""
        renew(self)
        self._begin()

    def _receive(self, entry: bytes) -> None:
        news = json.loads(entry)
        if news["sender"] == self._sender or news["server"] not in (None, self._server):
            return
        if news["method"] == EVERYTHING:
            self._missed()
        else:
            self._deliver(news["method"], news["uri"])


#: Changes that are remembered for streams that have not read them yet.
_MOST = 1000


class ToldChange(NamedTuple):
    """One change.

    :param method: of its notification; empty for one that another server has told.
    :param uri: of the resource; None for a list.
    """

    number: int
    method: str
    uri: Optional[str]


class Changes:
    """The log of changes, as the streams of one process read it.

    :param backend: sealed.
    :param server: the name of the server.
    """

    log = LOG
    change = ToldChange

    def __init__(self, backend: Backend, server: str) -> None:
        self._backend = backend
        self._server = server
        #: Guards ``_latest``; held while the log is read, so that of many streams one reads it.
        self._lock = threading.Lock()
        self._latest: Deque[ToldChange] = deque(maxlen=_MOST)

    def last(self) -> int:
        """Return the number of the last change.

        :raises BackendError: the store failed.
        """
        return self._backend.last(LOG)

    def since(self, number: int) -> Tuple[List[ToldChange], int, bool]:
        """Return the changes after a number, the number up to which that is, and whether anything may have changed,
        since some are gone or a process says so.

        :raises BackendError: the store failed.
        """
        with self._lock:
            latest = self._latest
            if latest and latest[0].number - 1 <= number < latest[-1].number:
                found = [change for change in latest if change.number > number]
                return found, latest[-1].number, _any_change(found)
            entries = self._backend.since(LOG, number)
            if entries is None or not entries:
                last = self._backend.last(LOG)
                entries = [] if last == number else self._backend.since(LOG, number)
                if entries is None:
                    latest.clear()
                    return [], last, True
                if not entries:
                    return [], last, False  # what was appended was not sealed by this server
            changes = [self._change(at, entry) for at, entry in entries]
            if latest and latest[-1].number != number:
                latest.clear()
            latest.extend(changes)
            return changes, changes[-1].number, _any_change(changes)

    def _change(self, number: int, entry: bytes) -> ToldChange:
        news = json.loads(entry)
        ours = news["server"] in (None, self._server)
        return ToldChange(number, news["method"] if ours else "", news["uri"])


def _any_change(changes: List[ToldChange]) -> bool:
    return any(change.method == EVERYTHING for change in changes)
