"""The session of a client with a handshake over HTTP, whose state is a record in the backend; this object has a copy."""

import itertools
from typing import Any, Callable, Dict, Iterator, Optional

from ...errors import BackendError
from ...protocol.jsonrpc import memory_size
from ...protocol.uris import normal_uri
from ...types import ClientCapabilities
from ..runtime.processes import Processes
from ..runtime.runtime import Runtime
from .legacy import LegacySession
from .records import SessionRecord

__all__ = ["COUNT_BITS", "QuestionIds", "StoredLegacySession"]

#: A request id of the server's own has the number of its process above these bits, which count.
COUNT_BITS = 32


class QuestionIds(Iterator[int]):
    """The ids of questions, from which every process reads which one has asked."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._counts = itertools.count(1)

    def __next__(self) -> int:
        try:
            number = self._processes.number
        except BackendError as error:
            from ..runtime.processes import away_error

            self._processes.failed(error)
            raise away_error() from error
        return number << COUNT_BITS | next(self._counts) % (1 << COUNT_BITS)


class StoredLegacySession(LegacySession):
    """The session of a client over HTTP: what changes is stored, so that any process can serve its requests.

    Where there are several, change notifications reach the client from the one that serves its GET stream, see
    :mod:`..state.get_stream`.
    """

    #: Whether all processes are told of changes, among them the one with the stream of this client.
    told_by_all = False

    #: Called with a function that changes this object; stores what it has changed.
    share: Callable[[Callable[[], object]], object]

    def __init__(self, runtime: Runtime, on_close: Optional[Callable[[], object]] = None, persistent: bool = True) -> None:
        super().__init__(runtime, on_close, persistent)
        #: The version of the record that this object has the state of, and how often the roots had changed by then.
        self._version = self._roots_changed = 0

    def publish(self, method: str, params: Optional[Dict[str, Any]], capability: str) -> None:
        if not self.told_by_all:
            super().publish(method, params, capability)

    def subscribe(self, uri: str) -> None:
        self.share(lambda: super(StoredLegacySession, self).subscribe(uri))

    def unsubscribe(self, uri: str) -> None:
        self.share(lambda: super(StoredLegacySession, self).unsubscribe(uri))

    def set_level(self, level: str) -> None:
        self.share(lambda: super(StoredLegacySession, self).set_level(level))

    def confirm(self) -> None:
        """Note that the client has confirmed the handshake."""
        self._ready = self.agreed is not None

    def change_roots(self) -> None:
        """Note that the client has announced a change of its roots."""
        self._roots_changed += 1

    def restore(self, record: SessionRecord) -> None:
        """Take the state over that any process has stored, unless this object has a newer one."""
        with self._lock:
            if record.version <= self._version or self._closed:
                return
            self._version = record.version
            if not record.begun:
                return
            declared = self.agreed, self.client_info, self.client_capabilities
            if declared != (record.revision, record.info, record.capabilities):
                self.client_info, self.client_capabilities = record.info, record.capabilities or ClientCapabilities()
                self._declare(record.revision)
                self.revision = self.agreed = record.revision
            self._level, self._ready = record.level, record.ready
            given = {normal_uri(uri): uri for uri in record.uris}
            uris, known = set(given), set(self._subscriptions)
            if uris != known:
                most = self.limits.subscription_bytes
                self._report(uris - known, known - uris)
                self._subscriptions = given
                self._subscribed_bytes = sum(memory_size(uri, most) for uri in record.uris)
            changed, self._roots_changed = record.roots != self._roots_changed, record.roots
        if changed:
            self._roots.forget()
        self._tell_subscribers()

    def store(self, record: SessionRecord, touched: float = 0.0, reader: int = 0) -> SessionRecord:
        """Return the record that has the state of this object, as the next version of another one.

        :param touched: when it is stored; 0 for a session that begins.
        :param reader: the number of this process, if the session ends with it.
        """
        with self._lock:
            return record.changed(
                revision=self.revision, begun=self.agreed is not None, info=self.client_info,
                capabilities=self.client_capabilities, level=self._level, uris=tuple(self._subscriptions.values()),
                ready=self._ready, roots=self._roots_changed, touched=touched, reader=reader or record.reader)

    def stored(self, record: SessionRecord) -> None:
        """Note that this object has the state of a record."""
        with self._lock:
            self._version = max(self._version, record.version)
