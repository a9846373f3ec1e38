"""The common stream of a session: what belongs to no request of its client. Any process writes it, one response reads it.

It is the log of the session. Where several processes share a backend it joins a second one, the changes that all processes
tell (:mod:`..runtime.changes`); in one process a change is written to the log of each session that wants it. The id of an
event has the number of each log, so that a client can resume both, on any process.
"""

import json
import time
from typing import Any, Dict, List, NamedTuple, Optional, Protocol, Set

from ...errors import BackendError, ConnectionClosed
from ...protocol import jsonrpc
from ...protocol.http.sse import encode_event
from ...protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ...rpc.interfaces import Outlet
from ...rpc.tracing import get_logger
from ..sessions.legacy import LegacySession
from ..sessions.records import SessionRecord, SessionRecords
from .logs import LogBody, StreamLog, StreamLogs, read_log
from .response_bodies import OPENING, priming_event
from .streams import RequestStreams, StreamsChannel

__all__ = ["CommonLogChannel", "CommonOutlet", "CommonStream", "ReadSession", "end_common"]

_log = get_logger(__name__)
#: The first byte of an entry: a message to the client; the end of the session; a question whether the reader is still
#: connected, and its answer; the reader that has taken the stream over.
_MESSAGE, _ENDED, _ASKED, _STAYS, _TAKEN = b"m", b"e", b"a", b"s", b"t"
#: Seconds that a reader has to answer; one that is stuck in sending is considered gone.
_ANSWER_SECONDS = 2.0
#: Seconds for which a message waits for a store that is away.
_PATIENCE = 0.5
#: Seconds that a notification waits for a client that reads slowly: it must not block on one client, but the thread that
#: sends to a client that reads may be waiting for its turn in Python.
_MOMENT_SECONDS = 0.02


def end_common(records: SessionRecords, id: str) -> None:
    """Tell the reader of the stream, wherever it is, that the session has ended.

    :raises BackendError: the store failed.
    """
    limits = records.limits
    records.backend.append(records.name(id, "common"), _ENDED, limits.store_seconds, limits.stream_events)


class CommonLogChannel(StreamsChannel):
    """Sends the messages that belong to no request of the client: they are in the log of the common stream.

    :param streams: of the session in this process.
    :param log: of the common stream.
    :param patient: whether the stream carries responses, which have no other way: then a message waits for a store that is
        away.
    """

    def __init__(self, streams: RequestStreams, log: StreamLog, patient: bool) -> None:
        super().__init__(streams)
        self._log = log
        self._patient = patient

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._log.wait_for_room(len(data), _MOMENT_SECONDS)
        self.store(data)

    def store(self, data: bytes) -> None:
        """Append a message.

        :raises ConnectionClosed: the session has ended, or the message could not be stored.
        """
        deadline = time.monotonic() + (self._streams.limits.unread_seconds if self._patient else 0.0)
        while True:
            if self._closed:
                raise ConnectionClosed(f"the session of {self.name} has ended")
            try:
                self._log.append(_MESSAGE + data)
                return
            except BackendError as error:
                if time.monotonic() >= deadline:
                    raise ConnectionClosed(f"a message to {self.name} could not be stored: {error}") from error
                time.sleep(_PATIENCE)


class CommonOutlet(Outlet):
    """The messages of one request, on the common stream of a client that has no other: a handler waits while it reads slowly.

    What waits here leaves half of the room to notifications, which do not wait.
    """

    def __init__(self, channel: CommonLogChannel, log: StreamLog, seconds: float) -> None:
        self._channel = channel
        self._log = log
        self._seconds = seconds
        #: Set before the response is sent.
        self._finished = False

    def send(self, data: bytes) -> bool:
        self._wait(data)
        return not self._finished and self._store(data)

    def offer(self, data: bytes) -> bool:
        if self._finished:
            return True
        return self._log.wait_for_room(len(data), 0.0) and self._store(data)

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        self._finished = True
        if data is not None:
            self._wait(data)
            self._store(data)

    def _wait(self, data: bytes) -> None:
        if not self._log.wait_for_room(len(data), self._seconds, 2):
            self._log.drop_slowest()  # a client that does not read is considered gone

    def _store(self, data: bytes) -> bool:
        try:
            self._channel.store(data)
        except ConnectionClosed as error:
            _log.debug("a message was not sent: %s", error)
            return False
        return True


class ReadSession(Protocol):
    """What the common stream needs of its session."""

    id: str
    records: SessionRecords
    record: SessionRecord
    #: The log of the stream.
    log: StreamLog
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
    :param common: the number of the last entry of the session's log that was read then.
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
    """The body of the response that reads the common stream of a session; made by :meth:`open` and :meth:`resume`.

    :param changes: of all processes; None in one process.
    :param reader: what is stored of this body.
    :param since: the number of the last entry before this reader began: earlier ones are not about it.
    """

    def __init__(self, session: ReadSession, changes: Any, reader: _Reader, since: int) -> None:
        super().__init__(session.records.backend, session.records.limits)
        self._session = session
        self._records = session.records
        self._changes = changes
        self._log = session.log.name
        self._reader = reader
        self._since = since
        self._news, self._common = reader.news, reader.common
        #: Sent before everything else, for a client that cannot resume: then events have no ids.
        self.first = b""
        session.bodies.add(self)
        session.log.follow(self)

    # --- who reads ------------------------------------------------------------------------------------

    @classmethod
    def open(cls, session: ReadSession, changes: Any, logs: StreamLogs) -> "Optional[CommonStream]":
        """Return a body that continues where the last one has ended; None if the session has a reader that is connected.

        :raises BackendError: the store failed.
        """
        records, backend, processes = session.records, session.records.backend, logs.processes
        key, log, at = records.name(session.id, "reader"), session.log.name, f"{processes.number}.{next(logs.labels)}"
        asked, deadline = 0, 0.0
        while True:
            held = backend.get(key)
            known = _Reader("", session.record.news, 0) if held is None else _Reader(*json.loads(held)[:len(_Reader._fields)])
            here = next((body for body in session.bodies if isinstance(body, cls) and body.reads_as(known.at)), None)
            if here is not None and not (here.over or here.disconnected()):
                return None  # each of two readers would miss the other's messages (HTTP-31, SEC-55)
            silent = asked and time.monotonic() >= deadline
            if not known.at or here is not None or silent or not processes.alive(known.process):
                mine, since = known._replace(at=at), backend.last(log)
                if here is not None:
                    mine = here.reader_at(at)
                    here.stop()
                if backend.swap(key, held, mine.dump(), records.limits.session_seconds):
                    if known.at:
                        session.log.append(_TAKEN + at.encode("ascii"))
                    return cls(session, changes, mine, since)
                continue
            if not asked:
                asked, deadline = session.log.append(_ASKED), time.monotonic() + _ANSWER_SECONDS
            if any(entry == _STAYS + known.at.encode("ascii") for _, entry in backend.since(log, asked) or ()):
                return None  # it is connected, on another process
            backend.wait({log: backend.last(log)}, max(min(deadline - time.monotonic(), 0.1), 0.001))

    @classmethod
    def resume(cls, session: ReadSession, changes: Any, logs: StreamLogs, news: int,
               common: int) -> "Optional[CommonStream]":
        """Return a body that continues after an event; the present one ends. None if the events are not kept any more.

        :raises BackendError: the store failed.
        """
        records = session.records
        if records.backend.since(session.log.name, common) is None:
            return None
        mine = _Reader(f"{logs.processes.number}.{next(logs.labels)}", news, common)
        records.backend.put(records.name(session.id, "reader"), mine.dump(), records.limits.session_seconds)
        return cls(session, changes, mine, session.log.append(_TAKEN + mine.at.encode("ascii")))

    def reads_as(self, at: str) -> bool:
        """Whether this is the reader that is stored."""
        return bool(at) and self._reader.at == at

    def reader_at(self, at: str) -> _Reader:
        """Return what is stored of a reader that continues where this one is."""
        return _Reader(at, self._news, self._common)

    def close(self) -> None:
        super().close()
        if self in self._session.bodies:
            self._session.bodies.discard(self)
            self._session.log.unfollow(self)
            self._leave()

    def _leave(self) -> None:
        """Note how far the stream was read, for the next reader."""
        try:
            self._backend.swap(self._records.name(self._session.id, "reader"), self._reader.dump(), self.reader_at("").dump(),
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
        if self._changes is None:
            return {self._log: self._common}
        return {self._log: self._common, self._changes.log: self._news}

    def read(self, grown: Set[str]) -> bytes:
        events: List[bytes] = []
        if self._log in grown:
            self._read_common(events)
            self._session.log.was_read()
        if self._changes is not None and self._changes.log in grown and not self.ending:
            self._read_changes(events, self._changes)
        return b"".join(events)

    def idle(self) -> bytes:
        if not self._session.renew():
            self.ending = True  # the session has expired, or was ended
        return b""

    def _read_common(self, events: List[bytes]) -> None:
        entries, last, missing = read_log(self._backend, self._log, self._common)
        if missing:
            _log.info("a client has missed messages, since it did not read its stream in time or the store was emptied")
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
            self._session.log.append(_STAYS + self._reader.at.encode("ascii"))

    def _read_changes(self, events: List[bytes], told: Any) -> None:
        changes, last, missing = told.since(self._news)
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

    def _all(self) -> List[Any]:
        """Return the changes that may have been missed."""
        self._session.reload()
        change = self._changes.change
        lists = [change(0, method, None) for method in LIST_CHANGES]
        return lists + [change(0, RESOURCE_UPDATED, uri) for uri in sorted(self._session.session.followed)]

    def _is_wanted(self, change: Any) -> bool:
        session = self._session.session
        if change.uri is not None:
            return session.wants_change(change.uri, "resources")
        found = LIST_CHANGES.get(change.method)
        announced = session.runtime.catalog.description.flags.list_changed
        return found is not None and found.capability in announced and session.wants_change(None, found.capability)
