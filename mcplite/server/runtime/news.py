"""Change notifications between the processes of a fleet: each appends them to one log, and reads those of the others."""

import json
import secrets
from typing import Callable, Optional

from ...backend.interface import Backend
from ...errors import BackendError
from ...rpc.tracing import WARNING, PeerLog, get_logger
from .letters import Letters

__all__ = ["LOG", "News", "append_news"]

_log = get_logger(__name__)
#: The log of all processes.
LOG = "news/changes"
#: Seconds for which a notification is kept, and how many are: as long as a process may need to read them.
_SECONDS = 600.0
_KEEP = 10_000


def append_news(backend: Backend, server: Optional[str], method: str, uri: Optional[str], sender: str = "") -> None:
    """Tell the processes of a server of a change.

    :param server: the name of the server; None for all servers on this backend.
    :param method: of the notification.
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
    :param log: takes what fails.
    """

    def __init__(self, backend: Backend, letters: Letters, server: str, deliver: Callable[[str, Optional[str]], object],
                 missed: Callable[[], object], log: PeerLog) -> None:
        self._backend = backend
        self._server = server
        self._deliver = deliver
        self._peer_log = log
        self._sender = secrets.token_hex(8)
        letters.read(LOG, self._receive, missed)

    def publish(self, method: str, uri: Optional[str] = None) -> None:
        """Tell the other processes of a change. A store that fails is logged: the clients of this process were told."""
        try:
            append_news(self._backend, self._server, method, uri, self._sender)
        except BackendError as error:
            self._peer_log.log(_log, WARNING, "the clients of other processes were not told of a change: %s", error)

    def let_go(self) -> None:
        """Be another sender than the process that this one was forked from."""
        self._sender = secrets.token_hex(8)

    def _receive(self, entry: bytes) -> None:
        news = json.loads(entry)
        if news["sender"] != self._sender and news["server"] in (None, self._server):
            self._deliver(news["method"], news["uri"])
