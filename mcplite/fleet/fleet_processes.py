"""The processes of a server that share a backend: what the core asks for the others, and what they tell each other.

    a process                   the backend that they share             another process
    Leases          --renew-->  a lease for each process     <--look--  Leases
    ProcessMessages --append->  a log for each, and for all  --wait-->  ProcessMessages --> what the kind names
    publish()       --append->  the log of changes           --wait-->  ProcessMessages --> clients of subscriptions/listen
                                                             --wait-->  Changes --> GET streams of sessions
    Outage          learns from all of them whether the backend works

A message has a kind, which names the module that handles it, and a body of JSON. The backend is sealed, so a message was
written by a process with the keys. One thread of each process waits for all these logs.

The thread that reads messages sends the changes to the clients of this process that have subscriptions/listen. The GET streams
of sessions read the log of changes by themselves, since a client may resume a stream at any process; :class:`Changes` reads the
log once for all GET streams of a process. A process that does not serve (a Celery task, cron, ``manage.py``) announces changes
with a :class:`Publisher`.
"""

import json
import os
import secrets
import threading
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..backend.from_url import open_shared_backend
from ..backend.interface import Backend
from ..errors import BackendError, RegistrationError
from ..protocol.meta import RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..rpc.deadline import undo
from ..rpc.forks import renew
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from ..server.catalog.registry import Needed
from ..server.runtime.processes import Processes, read_keys
from ..server.state.logs import read_log
from .backend_health import Outage, Retries
from .leases import Leases

if TYPE_CHECKING:
    from ..server.runtime.runtime import Runtime

__all__ = [
    "Changes", "EVERYTHING", "FleetProcesses", "LOG", "ProcessMessages", "Publisher", "ToldChange",
    "append_change", "publisher",
]

_log = get_logger(__name__)
_ALL = "messages-all/in"
#: Seconds for which a message is kept in a log, and the most entries that a log keeps.
_SECONDS = 60.0
_KEEP = 10_000
#: Seconds of one wait for the logs, after which the thread looks whether it shall end.
_WAIT_SECONDS = 0.25
#: Seconds after which the log of this process is read without a notification.
_LOOK_SECONDS = 2.0
#: Seconds before the next attempt to read a store that cannot be reached, at first and at most.
_AWAY_SECONDS = (0.1, 1.0)


#: Two functions for a log: one is called with each entry, and the other when entries were missed.
_ReadLog = Tuple[Callable[[bytes], object], Callable[[], object]]


class ProcessMessages:
    """Sends messages to other processes, and gives each message from them to the function of its kind.

    :param backend: sealed.
    :param leases: knows the number of this process.
    :param server: the name of the server; a message to all processes is for the processes of the server with this name.
    :param outage: gets the failures of the backend.
    """

    def __init__(self, backend: Backend, leases: Leases, server: str, outage: Outage) -> None:
        self._backend = backend
        self._leases = leases
        self._server = server
        self._outage = outage
        self._kinds: Dict[str, Callable[[Any], object]] = {}
        self._on_missed: List[Callable[[], object]] = []
        self._logs: Dict[str, _ReadLog] = {_ALL: (self._receive, self._missed)}
        #: Guards the start and the end of the reading thread; held while the last number of each log is read.
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        #: Set when the reading thread shall end; None without such a thread.
        self._ended: Optional[threading.Event] = None
        #: When the log of this process was last read without a notification.
        self._looked = 0.0
        #: Marks the changes and the messages to all that this process writes, so that it ignores them when it reads them.
        self.sender = secrets.token_hex(8)

    def let_go(self) -> None:
        """Begin again in a forked process: with another sender, and without the reading thread of the parent process."""
        renew(self)
        self._begin()

    # --- sending ----------------------------------------------------------------------------------------

    def send(self, number: int, kind: str, body: Any) -> None:
        """Send a message to one process, which need not run any more; return when the message is stored.

        :param number: of the process, see :class:`Leases`; with its own number, this process gets the message.
        :param body: JSON.
        :raises BackendError: the store failed.
        """
        self._append(_log_of(number), {"kind": kind, "body": body})

    def broadcast(self, kind: str, body: Any) -> None:
        """Send a message to all other processes of this server.

        :raises BackendError: the store failed.
        """
        self._append(_ALL, {"kind": kind, "body": body, "server": self._server, "sender": self.sender})

    def _append(self, log: str, message: Any) -> None:
        self._backend.append(log, json.dumps(message, separators=(",", ":")).encode("ascii"), _SECONDS, _KEEP)

    # --- receiving --------------------------------------------------------------------------------------

    def on(self, kind: str, receive: Callable[[Any], object]) -> None:
        """Call *receive* with the body of each message of a kind.

        It runs on the reading thread and must not block: work that takes long, or that uses the backend, belongs on a worker.
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
        """Begin to read messages, until :meth:`stop`. Each message that is sent from now on is given to its function.

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
                self._outage.found(error)  # the thread reads the numbers when the store is back
            with undo(ended.set):
                # The thread ends half a second after stop() at the latest, since it does not block on the backend for longer.
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
        """Wait for entries once, and give them to the functions of their logs."""
        if self._outage:  # wait() does not show whether the store is back
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
        # The store may lose a notification when it loses its connection, and requests wait for the messages in this log.
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
        ours = message.get("server", self._server) == self._server and message.get("sender") != self.sender
        if ours and receive is not None:  # a newer version of the package may send unknown kinds during an update
            receive(message["body"])

    def _missed(self) -> None:
        _log.warning("messages of other processes were lost: the store was emptied, or this process was paused for too long")
        for callback in self._on_missed:
            callback()


def _log_of(number: int) -> str:
    return f"messages-{number}/in"


#: The log of the changes that all processes announce.
LOG = "changes/log"
#: Seconds for which a change is kept in the log: longer than a process may need to read it. If the store does not take a
#: change, a process tries to store it for as long.
_CHANGE_SECONDS = 600.0
#: Stands in place of the method in a change that says that anything may have changed.
EVERYTHING = "*"
#: The most changes that wait for a store that is away. If there would be more, one change replaces them: EVERYTHING.
_MOST_UNTOLD = 1000


def append_change(backend: Backend, server: Optional[str], method: str, uri: Optional[str], sender: str = "",
                  needed: Needed = None) -> None:
    """Announce a change to the processes of a server.

    :param server: the name of the server; None for all servers on this backend.
    :param method: of the notification; or EVERYTHING.
    :param uri: of the resource that has changed; None for lists.
    :param sender: the mark of the process that has notified its own clients already; empty for none.
    :param needed: which clients may be notified of the change of a list.
    :raises BackendError: the store failed.
    """
    change = {"server": server, "method": method, "uri": uri, "sender": sender, "needed": needed}
    backend.append(LOG, json.dumps(change, separators=(",", ":")).encode("ascii"), _CHANGE_SECONDS, _KEEP)


#: The latest changes that are kept in memory for streams that have not read them yet.
_MOST = 1000


class ToldChange(NamedTuple):
    """One change.

    :param number: of its entry in the log.
    :param method: of its notification; empty if the change is of another server.
    :param uri: of the resource; None for a list.
    :param needed: which clients may be notified of the change of a list.
    """

    number: int
    method: str
    uri: Optional[str]
    needed: Needed = None


class Changes:
    """The log of changes, as the streams of one process read it.

    :param backend: sealed.
    :param server: the name of the server.
    """

    log = LOG
    def __init__(self, backend: Backend, server: str) -> None:
        self._backend = backend
        self._server = server
        #: Guards ``_latest``; held while the log is read, so that only one of many streams reads an entry from the store.
        self._lock = threading.Lock()
        self._latest: Deque[ToldChange] = deque(maxlen=_MOST)

    def last(self) -> int:
        """Return the number of the last change.

        :raises BackendError: the store failed.
        """
        return self._backend.last(LOG)

    def since(self, number: int) -> Tuple[List[ToldChange], int, bool]:
        """Return the changes after a number, the number of the last entry that was read, and whether anything may have changed.

        Anything may have changed if some changes are gone from the log, or if a change says so.

        :raises BackendError: the store failed.
        """
        with self._lock:
            latest = self._latest
            if latest and latest[0].number - 1 <= number < latest[-1].number:
                changes = [change for change in latest if change.number > number]
            else:
                entries, last, missing = read_log(self._backend, LOG, number)
                if missing or (latest and latest[-1].number != number):
                    latest.clear()
                if missing or not entries:
                    return [], last, missing
                changes = [self._change(at, entry) for at, entry in entries]
                latest.extend(changes)
        return changes, changes[-1].number, any(change.method == EVERYTHING for change in changes)

    def _change(self, number: int, entry: bytes) -> ToldChange:
        change = json.loads(entry)
        ours = change["server"] in (None, self._server)
        return ToldChange(number, change["method"] if ours else "", change["uri"], change.get("needed"))


class Publisher:
    """Notifies the clients of the servers on one backend of changes; made by :func:`publisher`.

    Safe to use from many threads. Each method returns when the backend has stored the change; the processes that serve pass
    the change on to their clients.
    """

    def __init__(self, backend: Backend, server: Optional[str], owned: bool) -> None:
        self._backend = backend
        self._server = server
        self._owned = owned

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that follow a resource that it has changed.

        :raises BackendError: the backend failed.
        """
        append_change(self._backend, self._server, RESOURCE_UPDATED, normal_uri(uri))

    def tools_changed(self) -> None:
        """Notify all clients that the list of tools has changed.

        :raises BackendError: the backend failed.
        """
        self._list_changed("tools")

    def resources_changed(self) -> None:
        """Notify all clients that the list of resources or templates has changed; see :meth:`tools_changed`."""
        self._list_changed("resources")

    def prompts_changed(self) -> None:
        """Notify all clients that the list of prompts has changed; see :meth:`tools_changed`."""
        self._list_changed("prompts")

    def _list_changed(self, kind: str) -> None:
        append_change(self._backend, self._server, f"notifications/{kind}/list_changed", None)

    def close(self) -> None:
        """Close the backend, if it was given as a URL. Idempotent."""
        if self._owned:
            self._backend.close()

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def publisher(backend: Union[str, Backend], *, state_keys: Sequence[Union[str, bytes]] = (),
              server: Optional[str] = None) -> Publisher:
    """Return a :class:`Publisher`, with which any process notifies the clients of a server of changes.

    :param backend: the URL of the server's backend, as in :func:`open_backend`, or a backend.
    :param state_keys: the server's keys; by default those of the variable MCPLITE_STATE_KEYS.
    :param server: the name of the server; by default the clients of all servers on this backend are notified.
    :raises RegistrationError: there are no keys, the URL is of no backend, or the backend is in the memory of this process.
    :raises BackendError: the store cannot be opened.
    """
    shared = open_shared_backend(backend, read_keys(state_keys, os.environ))
    if shared is None:
        raise RegistrationError("a backend in memory has no other processes: name the one that the server uses")
    return Publisher(shared, server, owned=isinstance(backend, str))


class FleetProcesses(Processes):
    """The processes that share a backend. Made with the server, before that has clients; making it reads and stores nothing.

    :param backend: sealed.
    """

    shared = True

    def __init__(self, runtime: "Runtime", backend: Backend) -> None:
        name = runtime.catalog.name
        self._backend = backend
        self._runtime = runtime
        self.outage = Outage()
        self.leases = Leases(backend, self.outage)
        self.messages = ProcessMessages(backend, self.leases, name, self.outage)
        self.messages.read(LOG, self._receive_change, runtime.everything_changed)
        #: The changes that the store did not take; equal changes wait once.
        self._later = Retries("sender of changes", "the clients of other processes were not told of a change", _CHANGE_SECONDS,
                              _MOST_UNTOLD)
        #: The changes that all processes announce, as the GET streams of this process read them.
        self.changes = Changes(backend, name)
        self.leases.on_doubt = lambda number: self.messages.broadcast("ended?", number)
        self.messages.on("ended?", lambda number: runtime.workers.spawn(lambda: self._judge(number)))

    def _judge(self, number: int) -> None:
        """Look whether a process has ended; another process has asked for that, because it cannot be sure itself."""
        try:
            self.leases.judge(number)
        except BackendError as error:
            self.failed(error)

    @property
    def candidate(self) -> int:
        """The number that this process has, or will have when it first needs one."""
        return self.leases.candidate

    @property
    def number(self) -> int:
        return self.leases.number

    def alive(self, number: int) -> bool:
        return self.leases.alive(number)

    def broadcast(self, kind: str, body: Any) -> None:
        self.messages.broadcast(kind, body)

    def on(self, kind: str, receive: Callable[[Any], object]) -> None:
        self.messages.on(kind, receive)

    def publish(self, method: str, uri: Optional[str] = None, needed: Needed = None) -> None:
        """Announce a change to the other processes. If the store is away, the change is stored once, when the store is back."""
        def append() -> None:
            append_change(self.backend, self._runtime.catalog.name, method, uri, self.messages.sender, needed)

        later = self._later
        if not later.running:
            try:
                append()
                return
            except BackendError as error:
                _log.warning("the clients of other processes are told of a change when the store is back: %s", error)
        if len(later) >= _MOST_UNTOLD:
            later.clear()
            method, uri, needed = EVERYTHING, None, None
        later.add((method, uri, repr(needed)), append)

    def _receive_change(self, entry: bytes) -> None:
        """Notify the clients of this process of a change in another process; on the thread that reads messages."""
        change = json.loads(entry)
        if change["sender"] == self.messages.sender or change["server"] not in (None, self._runtime.catalog.name):
            return
        if change["method"] == EVERYTHING:
            self._runtime.everything_changed()
        else:
            self._runtime.deliver(change["method"], change["uri"], change.get("needed"))

    def failed(self, error: BackendError) -> None:
        self.outage.found(error)

    def check(self) -> None:
        self.outage.check()

    def start(self) -> None:
        self.messages.start()

    def stop(self) -> None:
        self.messages.stop()
        self.leases.stop()
        self._later.stop()

    def let_go(self) -> None:
        renew(self.outage, self.changes)
        for part in (self.leases, self.messages, self._later):
            part.let_go()
