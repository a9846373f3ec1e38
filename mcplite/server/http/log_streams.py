"""The streams of requests in a shared backend: each message is in a log, so that any process can continue a stream.

The process that runs the handler feeds the response of the request directly, as with one process, and writes the log. When
a client resumes the stream, whichever process gets that request follows the log.
"""

import json
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Set

from ...errors import INTERNAL_ERROR, BackendError, TransportError
from ...protocol import jsonrpc
from ...protocol.http.sse import encode_event
from ...rpc.deadline import Deadline
from ...rpc.forks import new_event, new_lock
from ...rpc.threads import start_thread
from ...rpc.tracing import FaultLog, get_logger
from ..eviction import ByteBudget
from ..runtime.leases import Leases
from ..runtime.outage import Outage
from ..sessions.records import SessionRecords
from .log_bodies import LogBody, read_log
from .streams import EventStream, StreamSet

__all__ = ["Backlog", "LoggedStream", "LoggedStreams", "RequestLogBody", "resume_request"]

_log = get_logger(__name__)
#: Logs of finished streams that wait for the store, the seconds for which they do, and between two attempts.
_MOST_BEHIND = 256
_BEHIND_SECONDS = 60.0
_AGAIN_SECONDS = 0.5
#: The first byte of an entry: the ids of the requests, a message, or the last message, which is empty for a cancelled call.
_OPENED, _MESSAGE, _FINAL = b"o", b"m", b"f"
_ENDED = ("the server's process that ran this call has ended before it answered; it is not known whether the call took effect")


class _RequestLog:
    """The log of one stream, as the process that runs the handler writes it.

    An entry that the store does not take is kept here, and goes before the next one.

    :param label: names the stream in the ids of its events.
    """

    def __init__(self, records: SessionRecords, id: str, label: str) -> None:
        self._backend = records.backend
        self._limits = records.limits
        self.label = label
        self._name = records.name(id, label)
        self._unstored: List[bytes] = []
        #: Whether an entry may have been stored although the store failed.
        self._doubtful = False
        self._stored = 0
        #: The bytes of the latest entries, as many as are kept.
        self._sizes: Deque[int] = deque()

    def append(self, entry: bytes) -> None:
        """Store an entry.

        :raises BackendError: the store failed; the entry is stored with the next one.
        """
        self._unstored.append(entry)
        del self._unstored[:-self._limits.stream_events]
        self.flush()

    def flush(self) -> None:
        """Store the entries that the store did not take.

        :raises BackendError: the store failed.
        """
        while self._unstored:
            self._store(self._unstored[0])
            del self._unstored[0]

    def _store(self, entry: bytes) -> None:
        if self._doubtful and self._backend.last(self._name) > self._stored:
            self._doubtful = False
            self._stored += 1  # there is no other writer
            return
        sizes, limits = self._sizes, self._limits
        sizes.append(len(entry))
        while len(sizes) > 1 and (len(sizes) > limits.stream_events or sum(sizes) > limits.stream_bytes):
            sizes.popleft()
        try:
            self._stored = self._backend.append(self._name, entry, limits.store_seconds, len(sizes))
        except BackendError:
            sizes.pop()
            self._doubtful = True
            raise
        self._doubtful = False


class Backlog:
    """The logs of finished streams whose last entries the store did not take; one thread stores them when it is back.

    A client that was disconnected meanwhile would wait for the answer else.
    """

    def __init__(self) -> None:
        #: Guards the fields below; held for list work only.
        self._lock = new_lock()
        self._logs: Deque[_RequestLog] = deque(maxlen=_MOST_BEHIND)
        self._running = False
        self._closed = new_event()
        self._faults = FaultLog(_log, self._closed.wait)

    def add(self, log: _RequestLog) -> None:
        """Have the rest of a log stored."""
        with self._lock:
            self._logs.append(log)
            if self._running:
                return
            self._running = True
        try:
            deadline = Deadline(_BEHIND_SECONDS)
            # It ends when all is stored, after a minute, or in close(); it may block on the backend for one operation.
            start_thread(lambda: self._faults.keep_running(lambda: self._run(deadline), "the end of a stream could not be"
                                                           " stored, which is tried again"), "mcplite streams")
        except BaseException as error:
            self._running = False  # the next stream tries again
            if not isinstance(error, TransportError):
                raise
            _log.warning("the end of a stream is stored later: %s", error)

    def close(self) -> None:
        """Give up."""
        self._closed.set()

    def _run(self, deadline: Deadline) -> None:
        while True:
            closed = self._closed.wait(_AGAIN_SECONDS)
            with self._lock:
                if closed or deadline.expired or not self._logs:
                    self._logs.clear()
                    self._running = False
                    return
                log = self._logs[0]
            try:
                log.flush()
            except BackendError:
                continue  # it was logged when the outage began
            with self._lock:
                if self._logs and self._logs[0] is log:
                    self._logs.popleft()


class LoggedStreams(StreamSet):
    """The streams of one session that any process may serve.

    :param records: where the session is stored.
    :param id: of the session.
    :param leases: knows the number of this process.
    :param outage: is told when the backend fails: then messages are not kept, and the response goes on.
    :param labels: numbers the streams of this process.
    :param backlog: stores what the store did not take.
    """

    def __init__(self, records: SessionRecords, id: str, leases: Leases, sender: str, unread: ByteBudget, outage: Outage,
                 labels: Iterator[int], backlog: Backlog) -> None:
        super().__init__(id, None, records.limits, sender, unread)
        self.records = records
        self._leases = leases
        self.outage = outage
        self._labels = labels
        self.backlog = backlog
        #: The open streams of this process, by their label.
        self._by_label: Dict[str, LoggedStream] = {}

    def new_stream(self, message: jsonrpc.Message) -> "LoggedStream":
        items = message.items if type(message) is jsonrpc.Batch else [message]
        return LoggedStream(self, [item.id for item in items if type(item) is jsonrpc.Request], type(message) is jsonrpc.Batch)

    def open_log(self, stream: "LoggedStream") -> _RequestLog:
        """Begin the log of a stream.

        :raises BackendError: the store failed.
        """
        made = _RequestLog(self.records, self.key, f"{self._leases.number}.{next(self._labels)}")
        made.append(_OPENED + json.dumps({"ids": stream.ids, "batch": stream.batch}).encode("ascii"))
        self._by_label[made.label] = stream
        return made

    def forget_label(self, label: str) -> None:
        """Note that a stream has finished."""
        self._by_label.pop(label, None)

    def finished(self, number: int) -> None:
        self._forget(number)  # its log can be followed

    def let_go(self, label: str) -> None:
        """End the response of a stream that the client has resumed elsewhere; the stream goes on in its log."""
        stream = self._by_label.get(label)
        if stream is not None:
            body = stream.reader
            if body is not None:
                stream.detach(body)


class LoggedStream(EventStream):
    """The stream of one message of a client, whose log any process can follow.

    :param ids: of the requests in the message.
    """

    _streams: LoggedStreams

    def __init__(self, streams: LoggedStreams, ids: List[jsonrpc.Id], batch: bool = False) -> None:
        super().__init__(streams)
        self.ids = ids
        self.batch = batch
        #: None until the stream has opened.
        self._log: Optional[_RequestLog] = None
        #: Whether the store failed when the stream opened: then its events have no ids.
        self._without_log = False
        self._last = False

    @property
    def resumable(self) -> bool:
        return not self._without_log

    # --- with the lock held -----------------------------------------------------------------------

    def _open(self) -> None:
        if self._number is None:
            try:
                self._log = self._streams.open_log(self)
            except BackendError as error:
                self._without_log = True
                self._streams.outage.found(error)
        super()._open()

    def _id(self) -> str:
        assert self._log is not None
        return f"{self._log.label}-{self._event}"

    def _keep(self, data: bytes) -> bytes:
        log = self._log
        if log is None:
            return encode_event(data, None)
        self._append(log, (_FINAL if self._last else _MESSAGE) + data)
        return encode_event(data, self._id())

    def _append(self, log: _RequestLog, entry: bytes) -> None:
        try:
            log.append(entry)
        except BackendError as error:
            self._streams.outage.found(error)
            if self._last:
                self._streams.backlog.add(log)

    def _put_last(self, data: Optional[bytes]) -> None:
        self._last = True
        if data is not None:
            self._put(data)
        elif self._log is not None:
            self._append(self._log, _FINAL)

    def _finish(self) -> None:
        log = self._log
        if log is not None:
            self._streams.forget_label(log.label)
            if not self._last:
                # The session, or this process, ends before the handler has answered.
                self._last = True
                self._append(log, _FINAL + _failures(self.ids, self.batch))
        super()._finish()


def _failures(ids: List[jsonrpc.Id], batch: bool) -> bytes:
    """Return the error responses to the requests of a process that has ended."""
    failures = [jsonrpc.dump(jsonrpc.Failure(id, INTERNAL_ERROR, _ENDED, None)) for id in ids]
    return b"[" + b",".join(failures) + b"]" if batch else b"".join(failures)


class RequestLogBody(LogBody):
    """The rest of a stream, for a client that has resumed it.

    :param label: of the stream.
    :param event: the number of the last event that the client has.
    """

    def __init__(self, records: SessionRecords, id: str, label: str, event: int, leases: Leases) -> None:
        super().__init__(records.backend, records.limits)
        self._leases = leases
        self._label = label
        self._log = records.name(id, label)
        #: The opening is entry 1, and event 0.
        self._number = event + 1

    def numbers(self) -> Dict[str, int]:
        return {self._log: self._number}

    def read(self, grown: Set[str]) -> bytes:
        entries, self._number, missing = read_log(self._backend, self._log, self._number)
        if missing:
            self.ending = True  # the client asks again, and is told that the events are not kept
            return b""
        events: List[bytes] = []
        for at, entry in entries:
            if entry[:1] != _OPENED and len(entry) > 1:
                events.append(encode_event(entry[1:], f"{self._label}-{at - 1}"))
            if entry[:1] == _FINAL:
                self.ending = True
                break
        return b"".join(events)

    def idle(self) -> bytes:
        if self._leases.alive(int(self._label.partition(".")[0])):
            return b""
        rest = self.read({self._log})
        if rest or self.ending:
            return rest
        first = self._backend.since(self._log, 0)
        if not first or first[0][1][:1] != _OPENED:
            self.ending = True
            return b""
        opened: Any = json.loads(first[0][1][1:])
        limits = self._limits
        # For all who follow the stream, so that they see one end.
        self._backend.append(self._log, _FINAL + _failures(opened["ids"], opened["batch"]), limits.store_seconds,
                             limits.stream_events)
        return self.read({self._log})


def resume_request(records: SessionRecords, id: str, label: str, event: int, leases: Leases) -> Optional[RequestLogBody]:
    """Return the body of a resumed stream; it is complete if the client has all events, None if they are not kept.

    :raises BackendError: the store failed.
    """
    backend, log = records.backend, records.name(id, label)
    entries = backend.since(log, event)
    if entries is None:
        # The handler may have been silent since, for longer than an event is kept.
        if backend.since(log, event + 1) is None:
            return None
    elif not entries or entries[0][0] != event + 1:
        return None
    body = RequestLogBody(records, id, label, event, leases)
    body.ending = entries is not None and entries[0][1][:1] == _FINAL
    return body
