"""The common stream of a session in a shared backend: any process can write to it, and one response on any process reads it.

It joins two logs: what was sent to this session, and the changes that all processes tell (:mod:`..runtime.changes`). The id
of an event has the number of each, so that a client can resume both, on any process.
"""

import json
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Protocol, Set

from ...errors import BackendError, ConnectionClosed
from ...protocol import jsonrpc
from ...protocol.http.sse import encode_event
from ...protocol.methods import LIST_CHANGES, RESOURCE_UPDATED
from ...rpc.tracing import get_logger
from ..runtime.changes import Changes, ToldChange
from ..runtime.leases import Leases
from ..sessions.legacy import LegacySession
from ..sessions.records import SessionRecord, SessionRecords
from .log_bodies import LogBody, read_log
from .messages import OPENING, priming_event
from .sessions import StreamsChannel
from .streams import StreamSet

__all__ = ["CommonLogChannel", "CommonStream", "ReadSession", "end_common"]

_log = get_logger(__name__)
#: The first byte of an entry: a message to the client; the end of the session; a question whether the reader is still
#: connected, and its answer; the reader that has taken the stream over.
_MESSAGE, _ENDED, _ASKED, _STAYS, _TAKEN = b"m", b"e", b"a", b"s", b"t"
#: The least number of entries that are kept, however large they are.
_FEW = 16
#: Seconds that a reader has to answer; one that is stuck in sending is considered gone.
_ANSWER_SECONDS = 2.0
#: Seconds for which a message waits for a store that is away.
_PATIENCE = 0.5


def _append(records: SessionRecords, id: str, entry: bytes) -> int:
    limits = records.limits
    keep = min(limits.stream_events, max(_FEW, limits.stream_bytes // max(len(entry), 1)))
    return records.backend.append(records.name(id, "common"), entry, limits.store_seconds, keep)


def end_common(records: SessionRecords, id: str) -> None:
    """Tell the reader of the stream, wherever it is, that the session has ended.

    :raises BackendError: the store failed.
    """
    _append(records, id, _ENDED)


class CommonLogChannel(StreamsChannel):
    """Sends the messages that belong to no request of the client: they are in the log of the common stream.

    :param streams: of the session in this process.
    :param patient: whether a message waits for a store that is away, since a response has no other way.
    """

    def __init__(self, streams: StreamSet, records: SessionRecords, patient: bool) -> None:
        super().__init__(streams)
        self._records = records
        self._patient = patient

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        deadline = time.monotonic() + (self._records.limits.unread_seconds if self._patient else 0.0)
        while True:
            if self._closed:
                raise ConnectionClosed(f"the session of {self.name} has ended")
            try:
                _append(self._records, self._streams.key, _MESSAGE + data)
                return
            except BackendError as error:
                if time.monotonic() >= deadline:
                    raise ConnectionClosed(f"a message to {self.name} could not be stored: {error}") from error
                time.sleep(_PATIENCE)


class ReadSession(Protocol):
    """What the common stream needs of its session."""

    id: str
    records: SessionRecords
    record: SessionRecord
    #: The responses of this process that read its common stream.
    bodies: Set[LogBody]

    @property
    def session(self) -> LegacySession:
        """What decides which changes the client gets."""
        raise NotImplementedError

    def reload(self) -> bool:
        """Read the stored state; False if the session has ended.

        :raises BackendError: the store failed.
        """
        raise NotImplementedError

    def renew(self) -> bool:
        """Have the session last, if that is due; False if it has ended.

        :raises BackendError: the store failed.
        """
        raise NotImplementedError


class _Reader(NamedTuple):
    """Who reads the common stream, as all processes know it.

    :param at: the number of the process and of the response; empty if it is not read.
    :param news: the number of the last change that was read when the reader began, or left.
    :param common: the same in the log of the session.
    """

    at: str
    news: int
    common: int

    def dump(self) -> bytes:
        return json.dumps(self).encode("ascii")

    @property
    def process(self) -> int:
        return int(self.at.partition(".")[0])


class CommonStream(LogBody):
    """The body of the response that reads the common stream of a session; made by :meth:`open` and :meth:`resume`."""

    def __init__(self, session: ReadSession, changes: Changes, reader: _Reader, since: int) -> None:
        super().__init__(session.records.backend, session.records.limits)
        self._session = session
        self._records = session.records
        self._changes = changes
        self._log = session.records.name(session.id, "common")
        self._reader = reader
        #: The number of the last entry before this reader began: earlier ones are not about it.
        self._since = since
        self._news, self._common = reader.news, reader.common
        #: Sent before everything else, for a client that cannot resume: then events have no ids.
        self.first = b""
        session.bodies.add(self)

    # --- who reads ------------------------------------------------------------------------------------

    @classmethod
    def open(cls, session: ReadSession, changes: Changes, leases: Leases,
             labels: Iterator[int]) -> "Optional[CommonStream]":
        """Return a body that continues where the last one has ended; None if the session has a reader that is connected.

        :raises BackendError: the store failed.
        """
        records, backend = session.records, session.records.backend
        key, log, at = records.name(session.id, "reader"), records.name(session.id, "common"), f"{leases.number}.{next(labels)}"
        asked, deadline = 0, 0.0
        while True:
            held = backend.get(key)
            known = _Reader("", session.record.news, 0) if held is None else _Reader(*json.loads(held)[:len(_Reader._fields)])
            if not known.at or (asked and time.monotonic() >= deadline) or not leases.alive(known.process):
                mine, since = known._replace(at=at), backend.last(log)
                if backend.swap(key, held, mine.dump(), records.limits.session_seconds):
                    if known.at:
                        _append(records, session.id, _TAKEN + at.encode("ascii"))
                    return cls(session, changes, mine, since)
                continue
            if not asked:
                asked, deadline = _append(records, session.id, _ASKED), time.monotonic() + _ANSWER_SECONDS
            if any(entry == _STAYS + known.at.encode("ascii") for _, entry in backend.since(log, asked) or ()):
                return None  # each of two readers would miss the other's messages (HTTP-31, SEC-55)
            backend.wait({log: backend.last(log)}, max(min(deadline - time.monotonic(), 0.1), 0.001))

    @classmethod
    def resume(cls, session: ReadSession, changes: Changes, at: str, news: int, common: int) -> "Optional[CommonStream]":
        """Return a body that continues after an event; the present one ends. None if the events are not kept any more.

        :param at: the number of this process, and of the response.
        :raises BackendError: the store failed.
        """
        records = session.records
        if records.backend.since(records.name(session.id, "common"), common) is None:
            return None
        mine = _Reader(at, news, common)
        records.backend.put(records.name(session.id, "reader"), mine.dump(), records.limits.session_seconds)
        return cls(session, changes, mine, _append(records, session.id, _TAKEN + at.encode("ascii")))

    def close(self) -> None:
        super().close()
        if self in self._session.bodies:
            self._session.bodies.discard(self)
            self._leave()

    def _leave(self) -> None:
        """Note how far the stream was read, for the next reader."""
        left = self._reader._replace(at="", news=self._news, common=self._common)
        try:
            self._backend.swap(self._records.name(self._session.id, "reader"), self._reader.dump(), left.dump(),
                               self._limits.session_seconds)
        except BackendError as error:
            _log.debug("the end of a stream was not stored: %s", error)  # the next reader asks this one, which is gone

    # --- what it reads --------------------------------------------------------------------------------

    def _event(self, data: bytes) -> bytes:
        return encode_event(data, None if self.first else self._id)

    @property
    def _id(self) -> str:
        return f"0.{self._news}-{self._common}"

    def opening(self) -> bytes:
        if self.first:
            return self.first
        return priming_event(self._id, self._limits) if self._session.session.revision.priming_event else OPENING

    def numbers(self) -> Dict[str, int]:
        return {self._log: self._common, self._changes.log: self._news}

    def read(self, grown: Set[str]) -> bytes:
        events: List[bytes] = []
        if self._log in grown:
            self._read_common(events)
        if self._changes.log in grown and not self.ending:
            self._read_changes(events)
        return b"".join(events)

    def idle(self) -> bytes:
        if not self._session.renew():
            self.ending = True  # the session has expired, or was ended
        return b""

    def _read_common(self, events: List[bytes]) -> None:
        entries, self._common, missing = read_log(self._backend, self._log, self._common)
        if missing:
            _log.info("a client has missed messages, since it did not read its stream in time or the store was emptied")
        last = self._common
        for at, entry in entries:
            self._common = at
            kind, rest = entry[:1], entry[1:]
            if kind == _MESSAGE:
                events.append(self._event(rest))
            elif kind == _ASKED and at > self._since:
                self._answer()
            elif kind in (_ENDED, _TAKEN) and at > self._since and rest.decode("ascii") != self._reader.at:
                self.ending = True
            if self.ending:
                return
        self._common = last

    def _answer(self) -> None:
        """Tell another reader whether the client of this one is connected."""
        if self.disconnected():
            self.ending = True
        else:
            _append(self._records, self._session.id, _STAYS + self._reader.at.encode("ascii"))

    def _read_changes(self, events: List[bytes]) -> None:
        changes, last, missing = self._changes.since(self._news)
        wanted = self._all() if missing else changes
        initialized = self._session.session.initialized
        if not missing and any(change.uri is not None or not initialized for change in wanted):
            self._session.reload()  # its client may have subscribed, or unsubscribed, on another process
        for change in wanted:
            self._news = change.number if not missing else self._news
            if self._is_wanted(change):
                params = None if change.uri is None else {"uri": self._session.session.subscribed(change.uri)}
                events.append(self._event(jsonrpc.dump_notification(change.method, params)))
        self._news = last

    def _all(self) -> List[ToldChange]:
        """Return the changes that may have been missed."""
        self._session.reload()
        lists = [ToldChange(0, method, None) for method in LIST_CHANGES]
        return lists + [ToldChange(0, RESOURCE_UPDATED, uri) for uri in sorted(self._session.session.followed)]

    def _is_wanted(self, change: ToldChange) -> bool:
        session = self._session.session
        if change.uri is not None:
            return session.wants_change(change.uri, "resources")
        found = LIST_CHANGES.get(change.method)
        announced = session.runtime.catalog.description.flags.list_changed
        return found is not None and found.capability in announced and session.wants_change(None, found.capability)
