"""Event streams that any process of a server may write or read: their logs are in the shared backend.

A message to a client that belongs to no request goes into the log of the client's session; any process may write it. The
changes that all processes announce are in another log (:class:`Changes`). The process that sends the GET response of the client
reads both logs.
The id of an event has the numbers of the last entries of both, so that a client can resume on any process. A session has one
reader: a new one asks, by an entry in the log of the session, whether the last reader is still connected.
"""

import json
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from ..errors import BackendError, ConnectionClosed
from ..protocol import jsonrpc
from ..protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ..rpc.tracing import get_logger
from ..server.catalog.registry import may_be_told
from ..server.limits import Limits
from ..server.state.logs import FINAL, OPENED, RequestLog, RequestLogBody, StreamLog, StreamLogs
from ..server.state.sessions import CommonLogChannel, CommonStream
from ..server.state.streams import failures
from .backend_health import Retries
from .fleet_processes import FleetProcesses, ToldChange

__all__ = ["ENDED", "SharedCommonStream", "SharedLogChannel", "SharedLogs"]

_log = get_logger(__name__)
#: The first byte of an entry that is no message to the client: the end of the session; the question whether the reader is still
#: connected; the answer of a reader that is; the note that another reader has taken the stream over.
ENDED, _ASKED, _STAYS, _TAKEN = b"e", b"a", b"s", b"t"
#: Seconds that a reader has to answer. A reader that does not, for example because it blocks while it sends, counts as gone.
_ANSWER_SECONDS = 2.0
#: Seconds between two attempts to store a message while the store is away.
_PATIENCE = 0.5
#: Seconds for which the end of a stream waits for the store, and the most ends that wait.
_BEHIND_SECONDS = 60.0
_MOST_BEHIND = 256


class SharedLogs(StreamLogs):
    """The logs that one process writes into the shared backend, where their entries expire."""

    def __init__(self, processes: FleetProcesses, limits: Limits) -> None:
        super().__init__(processes.backend, limits)
        self.processes = processes
        #: Stores the ends of streams that the store did not take. A client that was disconnected meanwhile would otherwise wait
        #: for an answer that never comes.
        self.later = Retries("storage of streams", "the end of a stream was not stored", _BEHIND_SECONDS, _MOST_BEHIND)

    @property
    def number(self) -> int:  # type: ignore[override]
        return self.processes.number

    def open(self, prefix: str, sender: str, described: Callable[[], bytes]) -> Optional[RequestLog]:
        try:
            label = self.label()
            made = _SharedRequestLog(self, f"{prefix}/{label}", sender, label)
            # The ids of the requests: if this process ends, another one answers the requests with errors.
            made.append(OPENED + described())
        except BackendError as error:
            self.processes.failed(error)
            return None
        return made

    def follow(self, name: str, label: str, event: int, written: Optional[StreamLog]) -> RequestLogBody:
        return _SharedRequestLogBody(self, name, label, event, written)

    def grown(self, log: StreamLog) -> None:
        log.counted = sys.maxsize  # the store bounds what it keeps

    def forget(self, log: StreamLog) -> None:
        """Do nothing: other processes may follow the log, and its entries expire in the store."""

    def sweep(self) -> bool:
        return False


class _SharedRequestLog(RequestLog):
    """The log of one stream of requests; an entry that the store does not take is stored before the next one."""

    def __init__(self, logs: SharedLogs, name: str, sender: str, label: str) -> None:
        super().__init__(logs, name, sender, label)
        self._processes, self._later = logs.processes, logs.later
        self._unstored: List[bytes] = []
        #: Whether an entry may have been stored although the store failed.
        self._doubtful = False

    def write(self, entry: bytes) -> None:
        self._unstored.append(entry)
        del self._unstored[:-self._logs.limits.stream_events]
        try:
            self._flush()
        except BackendError as error:
            self._processes.failed(error)
            if entry[:1] == FINAL:
                self._later.add(self, self._flush)

    def _flush(self) -> None:
        """Store the entries that the store did not take.

        :raises BackendError: the store failed.
        """
        while self._unstored:
            if self._doubtful and self._backend.last(self.name) > self.last:
                self.last += 1  # the entry was stored: no other process writes this log
            else:
                self._doubtful = True
                self.append(self._unstored[0])
            self._doubtful = False
            del self._unstored[0]


class _SharedRequestLogBody(RequestLogBody):
    """The rest of a stream of requests; if the process that runs the handler has ended, this ends the stream with errors."""

    def __init__(self, logs: SharedLogs, name: str, label: str, event: int, written: Optional[StreamLog]) -> None:
        super().__init__(logs, name, label, event, written)
        self._processes = logs.processes

    def idle(self) -> bytes:
        if self._processes.alive(int(self._label.partition(".")[0])):
            return b""
        rest = self.read({self._log})
        if rest or self.ending:
            return rest
        first = self._backend.since(self._log, 0)
        if not first or first[0][1][:1] != OPENED:
            self.ending = True
            return b""
        limits = self._limits
        # Written into the log, so that all readers of the stream get this end.
        self._backend.append(self._log, FINAL + failures(json.loads(first[0][1][1:])), limits.store_seconds,
                             limits.stream_events)
        return self.read({self._log})


# --- the common stream of a session -----------------------------------------------------------------


class SharedLogChannel(CommonLogChannel):
    """Sends the messages that belong to no request into the log of the session."""

    #: Seconds for which a message waits for a store that is away. It is 0, except for the transport with two endpoints, whose
    #: stream also carries the responses.
    patient_seconds = 0.0

    def store(self, data: bytes) -> None:
        deadline = time.monotonic() + self.patient_seconds
        while True:
            try:
                super().store(data)
                return
            except BackendError as error:
                if time.monotonic() >= deadline:
                    raise ConnectionClosed(f"a message to {self.name} could not be stored: {error}") from error
                time.sleep(_PATIENCE)


class _Reader(NamedTuple):
    """The reader of the common stream, as it is stored for all processes.

    :param at: the label of its response; empty if the stream has no reader.
    :param change: the number of the last change that was read when the reader began, or left.
    :param common: the number of the last entry of the session's log that was read at that time.
    """

    at: str
    change: int
    common: int

    def dump(self) -> bytes:
        return json.dumps(self).encode("ascii")


class SharedCommonStream(CommonStream):
    """The body of the response that reads the common stream of a session, and the changes that all processes announce.

    :param session: as this process knows it.
    :param logs: of all streams.
    :param reader: what is stored of this body.
    :param since: the number of the last entry of the session's log before this reader began. A question, an end or a note up to
        that number is not for this reader.
    """

    def __init__(self, session: Any, logs: SharedLogs, reader: _Reader, since: int) -> None:
        super().__init__(session, logs.backend, logs.limits, reader.common)
        self._changes = logs.processes.changes
        self._stored = reader
        self._since = since
        self._change = reader.change

    @classmethod
    def open(cls, session: Any, logs: SharedLogs) -> "Optional[SharedCommonStream]":
        """Return a body that continues where the last one has ended; None if the session has a reader that is connected.

        :raises BackendError: the store failed.
        """
        backend, log, at = logs.backend, session.log.name, logs.label()
        key, seconds = session.records.name(session.id, "reader"), logs.limits.session_seconds
        asked, deadline = 0, 0.0
        while True:
            held = backend.get(key)
            known = _Reader("", session.record.change, 0) if held is None else _Reader(*json.loads(held)[:len(_Reader._fields)])
            here = session.reader
            if here is not None and (not known.at or here._stored.at != known.at):
                here = None  # this reader has ended, or another reader has taken the stream over
            if here is not None and not (here.over or here.disconnected()):
                return None  # each of two readers would miss the other's messages (HTTP-31, SEC-55)
            silent = asked and time.monotonic() >= deadline
            if not known.at or here is not None or silent or not logs.processes.alive(int(known.at.partition(".")[0])):
                mine, since = known._replace(at=at), backend.last(log)
                if here is not None:
                    mine = here.reader_at(at)
                    here.stop()
                if backend.swap(key, held, mine.dump(), seconds):
                    if known.at:
                        session.log.append(_TAKEN + at.encode("ascii"))
                    return cls(session, logs, mine, since)
                continue
            if not asked:
                asked, deadline = session.log.append(_ASKED), time.monotonic() + _ANSWER_SECONDS
            if any(entry == _STAYS + known.at.encode("ascii") for _, entry in backend.since(log, asked) or ()):
                return None  # it is connected, on another process
            backend.wait({log: backend.last(log)}, max(min(deadline - time.monotonic(), 0.1), 0.001))

    @classmethod
    def resume(cls, session: Any, logs: SharedLogs, change: int, common: int) -> "Optional[SharedCommonStream]":
        """Return a body that continues after an event, and end the present reader; None if the events are not kept any more.

        :raises BackendError: the store failed.
        """
        backend = logs.backend
        if backend.since(session.log.name, common) is None:
            return None
        mine = _Reader(logs.label(), change, common)
        backend.put(session.records.name(session.id, "reader"), mine.dump(), logs.limits.session_seconds)
        return cls(session, logs, mine, session.log.append(_TAKEN + mine.at.encode("ascii")))

    def reader_at(self, at: str) -> _Reader:
        """Return what is stored of a reader that continues where this one is."""
        return _Reader(at, self._change, self.number)

    def leave(self) -> None:
        session = self._session
        try:
            self._backend.swap(session.records.name(session.id, "reader"), self._stored.dump(), self.reader_at("").dump(),
                               self._limits.session_seconds)
        except BackendError as error:
            _log.debug("the end of a stream was not stored: %s", error)  # the next reader will ask, and get no answer from here

    @property
    def position(self) -> str:
        return f"0.{self._change}-{self.number}"

    def numbers(self) -> Dict[str, int]:
        return {self._log: self.number, self._changes.log: self._change}

    def read(self, grown: Set[str]) -> bytes:
        data = super().read(grown) if self._log in grown else b""
        return data + self._read_changes() if self._changes.log in grown and not self.ending else data

    def idle(self) -> bytes:
        if not self._session.renew():
            self.ending = True  # the session has expired, or was ended
        return b""

    def is_message(self, entry: bytes) -> bool:
        kind, at = entry[:1], self._stored.at.encode("ascii")
        if self.number > self._since:
            if kind == _ASKED and not self.disconnected():
                self._session.log.append(_STAYS + at)
            elif kind == _ASKED or (kind in (ENDED, _TAKEN) and entry[1:] != at):
                self.ending = True
        return kind in (b"{", b"[")

    def _read_changes(self) -> bytes:
        changes, last, missing = self._changes.since(self._change)
        session, events = self._session.session, []
        if missing or any(change.uri is not None or not session.initialized for change in changes):
            self._session.reload()  # its client may have subscribed, or unsubscribed, on another process
        if missing:
            changes = [ToldChange(self._change, method, None) for method in LIST_CHANGES]
            changes += [ToldChange(self._change, RESOURCE_UPDATED, uri) for uri in sorted(session.followed)]
        for change in changes:
            self._change = change.number
            if self._is_wanted(change):
                params = None if change.uri is None else {"uri": session.subscribed(change.uri)}
                events.append(self.event(jsonrpc.dump_notification(change.method, params)))
        self._change = last
        return b"".join(events)

    def _is_wanted(self, change: ToldChange) -> bool:
        session = self._session.session
        catalog = session.runtime.catalog
        needed = change.needed if change.uri is None else catalog.needed(change.uri)
        if not may_be_told(session.granted, needed):
            return False
        if change.uri is not None:
            return bool(session.wants_change(change.uri, "resources"))
        found = LIST_CHANGES.get(change.method)
        announced = catalog.description.flags.list_changed
        return found is not None and found.capability in announced and session.wants_change(None, found.capability)
