"""What one process of a fleet tells another, or all others; and the one thread that waits for the logs of all processes.

A message has a kind, which names the module that handles it, and a body of JSON. The backend is sealed, so a message was
written by a process with the keys.
"""

import json
import secrets
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..backend.interface import Backend
from ..errors import BackendError
from ..rpc.deadline import undo
from ..rpc.forks import renew
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from ..server.state.logs import read_log
from .backend_health import Outage
from .leases import Leases

__all__ = ["ProcessMessages"]

_log = get_logger(__name__)
_ALL = "messages-all/in"
#: Seconds for which a message is kept, and how many are.
_SECONDS = 60.0
_KEEP = 10_000
#: Seconds of one wait for the logs, after which the thread looks whether it shall end.
_WAIT_SECONDS = 0.25
#: Seconds after which the own log is read without a notification.
_LOOK_SECONDS = 2.0
#: Seconds before the next attempt to read a store that cannot be reached, at first and at most.
_AWAY_SECONDS = (0.1, 1.0)


#: What is called with each entry of a log, and when entries were missed.
_ReadLog = Tuple[Callable[[bytes], object], Callable[[], object]]


class ProcessMessages:
    """Sends messages to other processes, and hands on those that come.

    :param backend: sealed.
    :param leases: knows the number of this process.
    :param server: the name of the server; messages to all go to the processes of this name.
    :param outage: is told when the backend fails.
    """

    def __init__(self, backend: Backend, leases: Leases, server: str, outage: Outage) -> None:
        self._backend = backend
        self._leases = leases
        self._server = server
        self._outage = outage
        self._kinds: Dict[str, Callable[[Any], object]] = {}
        self._on_missed: List[Callable[[], object]] = []
        self._logs: Dict[str, _ReadLog] = {_ALL: (self._receive, self._missed)}
        #: Guards the start and the end of the reading thread; held while the first numbers are read.
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        #: Set when the present thread shall end; None without a thread.
        self._ended: Optional[threading.Event] = None
        #: When the own log was read without a notification.
        self._looked = 0.0
        #: Tells this process's messages to all from others'.
        self._sender = secrets.token_hex(8)

    def let_go(self) -> None:
        """Be another process than the one that this was forked from."""
        renew(self)
        self._begin()

    # --- sending ----------------------------------------------------------------------------------------

    def send(self, number: int, kind: str, body: Any) -> None:
        """Send a message to one process, which need not run any more; returns when it is stored.

        :param number: of the process, see :class:`Leases`; a message to the own number comes back.
        :param body: JSON.
        :raises BackendError: the store failed.
        """
        self._append(_log_of(number), {"kind": kind, "body": body})

    def broadcast(self, kind: str, body: Any) -> None:
        """Send a message to all other processes of this server.

        :raises BackendError: the store failed.
        """
        self._append(_ALL, {"kind": kind, "body": body, "server": self._server, "sender": self._sender})

    def _append(self, log: str, message: Any) -> None:
        self._backend.append(log, json.dumps(message, separators=(",", ":")).encode("ascii"), _SECONDS, _KEEP)

    # --- receiving --------------------------------------------------------------------------------------

    def on(self, kind: str, receive: Callable[[Any], object]) -> None:
        """Call *receive* with the body of each message of a kind. It runs on the reading thread and must not block; what takes
        long, and what uses the backend, belongs on a worker.
        """
        self._kinds[kind] = receive

    def on_missed(self, callback: Callable[[], object]) -> None:
        """Call *callback* when messages were lost; on the reading thread, so it must not block."""
        self._on_missed.append(callback)

    def read(self, log: str, receive: Callable[[bytes], object], missed: Callable[[], object]) -> None:
        """Read one more log on the same thread, from its end on; called before :meth:`start`.

        :param receive: called with each entry; must not block.
        :param missed: called when entries were missed.
        """
        self._logs[log] = receive, missed

    def start(self) -> None:
        """Begin to read; until :meth:`stop`. Messages that are sent from now on are handed on.

        :raises TransportError: the system has no thread for it.
        """
        with self._lock:
            if self._ended is not None:
                return
            ended = threading.Event()
            known: Dict[str, Optional[int]] = dict.fromkeys(self._logs)
            try:
                for log in known:
                    known[log] = self._backend.last(log)
            except BackendError as error:
                self._outage.found(error)  # the thread goes on trying
            with undo(ended.set):
                # It ends half a second after stop() at the latest, since it blocks on the backend for no longer.
                Loop("reader of messages", lambda: self._run(known, ended), ended.wait).start()
                self._ended = ended

    def stop(self) -> None:
        """Read no more."""
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()

    def _run(self, known: Dict[str, Optional[int]], ended: threading.Event) -> None:
        pause = _AWAY_SECONDS[0]
        while not ended.is_set():
            own = _log_of(self._leases.candidate)
            if own not in known:
                # The log of a number that is new, or that no process has used for a long time, is empty.
                for log in [log for log in known if log not in self._logs]:
                    del known[log]
                known[own] = 0
            try:
                self._read(known, own, ended)
            except BackendError as error:
                if not ended.is_set():
                    self._outage.found(error)
                    ended.wait(pause)
                    pause = min(2 * pause, _AWAY_SECONDS[1])
                continue
            pause = _AWAY_SECONDS[0]

    def _read(self, known: Dict[str, Optional[int]], own: str, ended: threading.Event) -> None:
        """Wait for entries once, and hand them on."""
        if self._outage:  # a wait does not tell that the store is there again
            self._backend.last(_ALL)
            self._outage.passed()
        for log, number in known.items():
            if number is None:  # the store could not be read at the beginning
                known[log] = self._backend.last(log)
                self._logs[log][1]()
        numbers = {log: number for log, number in known.items() if number is not None}
        began = time.monotonic()
        grown = self._backend.wait(numbers, _WAIT_SECONDS)
        if not grown and time.monotonic() - began < _WAIT_SECONDS / 2:
            ended.wait(_WAIT_SECONDS)  # the backend is closed
        # A notification of the store can be lost with its connection, and requests hang on these messages.
        if self._leases.held and time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            if self._backend.last(own) != numbers[own]:
                grown = {*grown, own}
        for log in grown:
            if ended.is_set():
                return
            receive, missed = self._logs.get(log) or (self._receive, self._missed)
            entries, last, lost = read_log(self._backend, log, numbers[log])
            if lost:
                self._call(missed)
            for known[log], entry in entries:
                self._call(receive, entry)
            known[log] = last

    def _call(self, receive: Callable[..., object], *arguments: bytes) -> None:
        try:
            receive(*arguments)
        except Exception:
            _log.exception("what another process has told could not be handled")

    def _receive(self, entry: bytes) -> None:
        message = json.loads(entry)
        receive = self._kinds.get(message["kind"])
        ours = message.get("server", self._server) == self._server and message.get("sender") != self._sender
        if ours and receive is not None:  # another kind is of a newer version of the package, during an update
            receive(message["body"])

    def _missed(self) -> None:
        _log.warning("messages of other processes were lost: the store was emptied, or this process was paused for too long")
        for callback in self._on_missed:
            callback()


def _log_of(number: int) -> str:
    return f"messages-{number}/in"
