"""Change notifications between the processes of a fleet: each appends them to one log, and reads those of the others.

The thread that reads messages tells the clients of this process that have subscriptions/listen; the GET streams of sessions
read the log for themselves, since a client may resume one anywhere. It is read once for all of them. A process that does not
serve (a Celery task, cron, ``manage.py``) tells the clients by a :class:`Publisher`.
"""

import json
import os
import secrets
import threading
from collections import deque
from types import TracebackType
from typing import Callable, Deque, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..backend.from_url import open_shared_backend
from ..backend.interface import Backend
from ..errors import BackendError, RegistrationError
from ..protocol.meta import RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..rpc.tracing import get_logger
from ..server.runtime.processes import read_keys
from ..server.state.logs import read_log
from .backend_health import Retries
from .process_messages import ProcessMessages

__all__ = ["ChangeBroadcast", "Changes", "EVERYTHING", "LOG", "Publisher", "ToldChange", "append_news", "publisher"]

_log = get_logger(__name__)
#: The log of all processes.
LOG = "changes/log"
#: Seconds for which a notification is kept, and how many are: as long as a process may need to read them.
_SECONDS = 600.0
_KEEP = 10_000
#: In the place of a method: anything may have changed.
EVERYTHING = "*"
#: Changes that wait for the store; more are told as one, that anything may have changed.
_MOST_UNTOLD = 1000


def append_news(backend: Backend, server: Optional[str], method: str, uri: Optional[str], sender: str = "") -> None:
    """Tell the processes of a server of a change.

    :param server: the name of the server; None for all servers on this backend.
    :param method: of the notification; or EVERYTHING.
    :param uri: of the resource that has changed; None for lists.
    :param sender: the process that has told its own clients already.
    :raises BackendError: the store failed.
    """
    change = {"server": server, "method": method, "uri": uri, "sender": sender}
    backend.append(LOG, json.dumps(change, separators=(",", ":")).encode("ascii"), _SECONDS, _KEEP)


class ChangeBroadcast:
    """The change notifications of one process of a fleet; they are read on the thread of :class:`ProcessMessages`.

    :param backend: sealed, so that what it holds was written by a process with the keys.
    :param messages: reads the log.
    :param server: the name of the server.
    :param deliver: called on the reading thread with the method and the URI of each change elsewhere.
    :param missed: called on the reading thread when changes were missed.
    """

    def __init__(self, backend: Backend, messages: ProcessMessages, server: str,
                 deliver: Callable[[str, Optional[str]], object], missed: Callable[[], object]) -> None:
        self._backend = backend
        self._server = server
        self._deliver = deliver
        self._missed = missed
        #: The changes that the store did not take, each once.
        self._later = Retries("sender of changes", "the clients of other processes were not told of a change", _SECONDS,
                              _MOST_UNTOLD)
        self._begin()
        messages.read(LOG, self._receive, missed)

    def _begin(self) -> None:
        self._sender = secrets.token_hex(8)

    def publish(self, method: str, uri: Optional[str] = None) -> None:
        """Tell the other processes of a change; what the store does not take is told once, when the store is back."""
        later = self._later
        if not later.running:
            try:
                append_news(self._backend, self._server, method, uri, self._sender)
                return
            except BackendError as error:
                _log.warning("the clients of other processes are told of a change when the store is back: %s", error)
        if len(later) >= _MOST_UNTOLD:
            later.clear()
            method, uri = EVERYTHING, None
        later.add((method, uri), lambda: append_news(self._backend, self._server, method, uri, self._sender))

    def stop(self) -> None:
        """Wait for the store no more, but for one last attempt."""
        self._later.stop()

    def let_go(self) -> None:
        """Be another sender than the process that this one was forked from."""
        self._begin()
        self._later.let_go()

    def _receive(self, entry: bytes) -> None:
        change = json.loads(entry)
        if change["sender"] == self._sender or change["server"] not in (None, self._server):
            return
        if change["method"] == EVERYTHING:
            self._missed()
        else:
            self._deliver(change["method"], change["uri"])


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
        return ToldChange(number, change["method"] if ours else "", change["uri"])


class Publisher:
    """Tells the clients of the servers on one backend of changes; made by :func:`publisher`.

    Safe to use from many threads. Each method returns once the backend has stored the change; the processes that serve pass
    it on to their clients.
    """

    def __init__(self, backend: Backend, server: Optional[str], owned: bool) -> None:
        self._backend = backend
        self._server = server
        self._owned = owned

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that follow a resource that it has changed.

        :raises BackendError: the backend failed.
        """
        append_news(self._backend, self._server, RESOURCE_UPDATED, normal_uri(uri))

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
        append_news(self._backend, self._server, f"notifications/{kind}/list_changed", None)

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
    """Return what tells the clients of a server of changes, from any process.

    :param backend: the URL of the server's backend, as in :func:`open_backend`, or a backend.
    :param state_keys: the server's keys; by default those of the variable MCPLITE_STATE_KEYS.
    :param server: the name of the server; by default all servers on this backend are told.
    :raises RegistrationError: there are no keys, the URL is of no backend, or the backend is in the memory of this process.
    :raises BackendError: the store cannot be opened.
    """
    shared = open_shared_backend(backend, read_keys(state_keys, os.environ))
    if shared is None:
        raise RegistrationError("a backend in memory has no other processes: name the one that the server uses")
    return Publisher(shared, server, owned=isinstance(backend, str))
