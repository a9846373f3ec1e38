"""Change notifications between the processes of a fleet: each appends them to one log, and reads those of the others."""

import json
import logging
import secrets
import threading
from typing import Any, Callable, Optional

from ...backend.interface import Backend
from ...errors import BackendError
from ...rpc.forks import new_lock
from ...rpc.tracing import PeerLog

__all__ = ["News", "append_news"]

_log = logging.getLogger(__name__)
_LOG = "news/changes"
#: Seconds for which a notification is kept, and how many are: as long as a process may need to read them.
_SECONDS = 600.0
_KEEP = 10_000
#: Seconds of one wait for the log, after which the thread looks whether it shall end.
_WAIT_SECONDS = 0.5
#: Seconds before the next attempt to read a store that cannot be reached.
_AWAY_SECONDS = 1.0


def append_news(backend: Backend, server: Optional[str], method: str, uri: Optional[str], sender: str = "") -> None:
    """Tell the processes of a server of a change.

    :param server: the name of the server; None for all servers on this backend.
    :param method: of the notification.
    :param uri: of the resource that has changed; None for lists.
    :param sender: the process that has told its own clients already.
    :raises BackendError: the store failed.
    """
    news = {"server": server, "method": method, "uri": uri, "sender": sender}
    backend.append(_LOG, json.dumps(news, separators=(",", ":")).encode("ascii"), _SECONDS, _KEEP)


class News:
    """The change notifications of one process of a fleet.

    :param backend: sealed, so that what it holds was written by a process with the keys.
    :param server: the name of the server.
    :param deliver: called on the reading thread with the method and the URI of each change elsewhere.
    :param missed: called on the reading thread when changes were missed.
    :param log: takes what fails.
    """

    def __init__(self, backend: Backend, server: str, deliver: Callable[[str, Optional[str]], object],
                 missed: Callable[[], object], log: PeerLog) -> None:
        self._backend = backend
        self._server = server
        self._deliver = deliver
        self._missed = missed
        self._peer_log = log
        self._sender = secrets.token_hex(8)
        #: Guards the start and the end of the reading thread; held while the first number is read.
        self._lock = new_lock()
        #: Set when the present thread shall end; None without a thread.
        self._ended: Optional[threading.Event] = None

    def publish(self, method: str, uri: Optional[str] = None) -> None:
        """Tell the other processes of a change. A store that fails is logged: the clients of this process were told."""
        try:
            append_news(self._backend, self._server, method, uri, self._sender)
        except BackendError as error:
            self._peer_log.log(_log, logging.WARNING, "the clients of other processes were not told of a change: %s", error)

    def start(self) -> None:
        """Begin to read what other processes tell from now on; until :meth:`stop`."""
        with self._lock:
            if self._ended is not None:
                return
            ended = self._ended = threading.Event()
            try:
                number: Optional[int] = self._backend.last(_LOG)
            except BackendError:
                number = None  # the thread tells, and goes on trying
            # It ends half a second after stop() at the latest, since it blocks on the backend for no longer.
            threading.Thread(target=self._read, args=(number, ended), name="mcplite news", daemon=True).start()

    def stop(self) -> None:
        """Read no more."""
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()

    def let_go(self) -> None:
        """Forget the thread of the process that this one was forked from."""
        self._ended = None
        self._sender = secrets.token_hex(8)

    def _read(self, number: Optional[int], ended: threading.Event) -> None:
        known = 0 if number is None else number
        while not ended.is_set():
            try:
                if not self._backend.wait({_LOG: known}, _WAIT_SECONDS):
                    continue
                entries = self._backend.since(_LOG, known)
                if entries is None:
                    known = self._backend.last(_LOG)
                    self._missed()
                    continue
                if not entries:
                    # What was appended was not sealed by this server, and is passed over.
                    last = self._backend.last(_LOG)
                    entries = self._backend.since(_LOG, known) or [(last, b"")]
            except BackendError as error:
                self._peer_log.log(_log, logging.WARNING, "changes in other processes are not read: %s", error)
                ended.wait(_AWAY_SECONDS)
                continue
            for at, entry in entries:
                known = at
                if entry:
                    self._receive(json.loads(entry))

    def _receive(self, news: Any) -> None:
        if news["sender"] != self._sender and news["server"] in (None, self._server):
            self._deliver(news["method"], news["uri"])
