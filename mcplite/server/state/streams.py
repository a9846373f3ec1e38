"""The streams of requests: the messages for one request of a client, and the body of its response.

The handler feeds the response directly. If the client can resume the stream, each message is also stored in a log of the
backend. The log is made when the response becomes an event stream: with the first message before the answer, or after a while
without one. Most calls need no log. When a client resumes the stream, whichever process gets that request follows the log
(RES-05, HTTP-20).
"""

import json
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional

from ...errors import INTERNAL_ERROR, ConnectionClosed
from ...protocol import jsonrpc
from ...protocol.http.sse import encode_event
from ...rpc.interfaces import Channel, Network, Outlet
from ...rpc.reading import PushedReading
from ...rpc.threads import Workers
from ...rpc.tracing import get_logger
from ..eviction import ByteBudget
from ..limits import Limits
from .logs import FINAL, MESSAGE, RequestLog, RequestLogBody, StreamLogs
from .response_bodies import (
    KEEP_ALIVE,
    OPENING,
    PROBE_SECONDS,
    OpenStreams,
    StreamingBody,
    do_nothing,
    priming_event,
    retry_event,
)

__all__ = ["EventStream", "RequestStreams", "StreamsChannel", "failures"]

_log = get_logger(__name__)
#: Seconds between two checks whether the client has disconnected, if the disconnection cancels a call.
_SOON_SECONDS = 0.5
#: Seconds between two looks at a request that was not answered yet.
_UNANSWERED_PROBE_SECONDS = 0.25
#: Finished streams of one session that can still be resumed; beyond that the oldest is dropped.
_FINISHED = 64
#: If responses must not be held open, as under a WSGI host, a response that can be resumed waits this many seconds for the
#: answer of its client to a question, and then ends. A program answers sooner, a person does not.
_ANSWER_SECONDS = 1.0
#: If a stream holds no more unread bytes than this, they do not count to the budget of all streams. Most streams never hold
#: more.
_UNCOUNTED_BYTES = 65_536
_ENDED = ("the server's process that ran this call has ended before it answered; it is not known whether the call took effect")


class RequestStreams:
    """The streams of the requests of one session, in this process.

    :param key: the id of the session.
    :param sender: whose share their bytes count to.
    :param unread: the budget of the unread bytes of all streams of the server; by default one for these streams alone.
    :param prefix: of the names of their logs.
    :param logs: of all streams; None if these cannot be resumed.
    """

    def __init__(self, key: str, limits: Limits, sender: str = "", unread: Optional[ByteBudget] = None,
                 prefix: str = "", logs: Optional[StreamLogs] = None) -> None:
        self.unread = unread or ByteBudget(limits.unread_bytes_at_once)
        self.key = key
        self.sender = sender
        self.limits = limits
        self.prefix = prefix
        self.logs = logs
        #: Whether a stream begins with an empty event, so that it can be resumed before its first message (HTTP-15).
        self.priming = False
        #: Whether the session has ended.
        self.closed = False
        #: Called when a stream ends, and so the session begins to be idle.
        self.note_use: Callable[[], object] = do_nothing
        #: If responses must not be held open while they wait for an answer of the client: the limit on open streams, to which a
        #: response counts while it waits. Otherwise None.
        self.held: Optional[OpenStreams] = None
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        #: The open streams that have a log, by their label.
        self._open: Dict[str, EventStream] = {}
        self._finished: List[RequestLog] = []

    def open_log(self, stream: "EventStream") -> Optional[RequestLog]:
        """Begin the log of a stream; None if it cannot be resumed."""
        if self.logs is None:
            return None
        made = self.logs.open(self.prefix, self.sender, stream.described)
        if made is not None:
            with self._lock:
                self._open[made.label] = stream
        return made

    def finished(self, log: "RequestLog") -> None:
        """Note that a stream has finished; it can be resumed until enough others have finished."""
        with self._lock:
            self._open.pop(log.label, None)
            self._finished.append(log)
            expired = self._finished[:-_FINISHED]
            del self._finished[:-_FINISHED]
        self._forget(expired)
        self.note_use()

    def _forget(self, logs: "List[RequestLog]") -> None:
        for log in logs:
            assert self.logs is not None
            self.logs.forget(log)

    def resume(self, label: str, event: int) -> Optional[RequestLogBody]:
        """Return the body with the rest of a stream after an event; None if a later one is gone, or there is no such event.

        If the event was the last one of the stream, the body ends at once. If a response of this process still sends the
        stream, it ends: its client has left it.

        :raises BackendError: the store failed.
        """
        logs, name = self.logs, f"{self.prefix}/{label}"
        assert logs is not None
        entries, stream = logs.backend.since(name, event), self._open.get(label)
        if entries is None:
            # The last event of the client may have expired, for instance because the handler was silent for longer than an
            # event is kept. If no later event is gone, the stream can be resumed.
            if logs.backend.since(name, event + 1) is None:
                return None
        elif not entries or entries[0][0] != event + 1:
            return None
        over = entries is not None and entries[0][1][:1] == FINAL
        body = logs.follow(name, label, event, None if over or stream is None else stream.log)
        body.ending = over
        if not over:
            self.release(label)
        return body

    def release(self, label: str) -> None:
        """End the response of a stream that the client has resumed; the stream goes on in its log."""
        stream = self._open.get(label)
        if stream is not None:
            stream.stop()

    def close(self) -> None:
        """End every stream and drop its events (SESS-12)."""
        self.closed = True
        for stream in list(self._open.values()):
            stream.end()
        with self._lock:
            finished, self._finished = self._finished, []
        self._forget(finished)
        if self.held is not None:
            self.held.forget(self.key)


class EventStream(StreamingBody, Outlet):
    """The stream of one message of a client: its handler sends to it, and the host of its response reads it.

        quiet --a message before the answer, or a while without one--> streaming --the answer, or the end--> finished
          \\--------------- the answer, which is the whole response then ------------------------------------/

    A streaming response is an event stream, and the messages are in a log if the client can resume it. The response may end
    before the stream: the client has left, does not read, or has resumed the stream. Then the stream goes on in its log.

    :param streams: the streams of the session.
    :param message: of the client, until the stream has finished; its ids stand in the log.
    :param plain: whether the client reads no event streams, so that its response is JSON.
    """

    #: Whether a handler has begun; until then the request waits for a place.
    begun = False
    #: Whether the response is an event stream, and whether no more messages follow.
    streaming = finished = False
    #: The answer to the message, and its error code, if the HTTP response is this answer alone, and no event stream.
    answer: Optional[bytes] = None
    code: Optional[int] = None
    #: None until the stream is streaming. It stays None if the stream cannot be resumed, or if the store failed when the stream
    #: began; then events have no ids.
    log: Optional[RequestLog] = None
    _event = 0
    #: Called when the client has closed the response of an unfinished stream, if that cancels something.
    on_hang_up: Optional[Callable[[], object]] = None
    #: Called when the response must make room for another one, and ends the stream. None if the stream goes on without a
    #: response.
    on_return: Optional[Callable[[], object]] = None
    #: Whether the response has not ended.
    _attached = True
    #: Whether the client has not read for so long that it is considered gone.
    _given_up = False
    #: What the response waits on for messages, and a handler for room in the queue. Created by the first that waits, since most
    #: streams are finished when their request's thread comes to read them.
    _waited: Optional[threading.Condition] = None
    #: The bytes of the queue; those that the response has taken, and is sending; and what of both counts to the budget of all
    #: streams.
    _queued = _sending = _counted = 0
    #: How many answers of the client its handler waits for, and since when if the response must not be held for them.
    _asking = 0
    _asked_at = 0.0
    #: When the response sends a comment, since it was quiet, and when it looks again whether its client has left.
    _quiet_until = _probe_at = 0.0

    def __init__(self, streams: RequestStreams, message: Optional[jsonrpc.Message] = None, plain: bool = False) -> None:
        self._streams = streams
        self._message = message
        self.plain = plain
        #: Guards every field but those of the base class.
        self._lock = threading.Lock()
        # Every answer reads these defaults, so they are set on the object as well: Python finds an attribute of the object
        # sooner than one of its class.
        self.begun = self.streaming = self.finished = False
        self.answer = self.code = self.log = self._waited = None

    # --- for handlers -----------------------------------------------------------------------------

    def handler_started(self) -> None:
        self.begun = True

    def send(self, data: bytes) -> bool:
        log = self.log
        if log is not None and not self._attached:
            log.wait_for_room(len(data), self._streams.limits.unread_seconds)
        with self._lock:
            if self.finished or self.plain:
                return self.plain
            self._open()
            sent = self._put(data)
            given_up = self._given_up
        self.on_ready()
        if given_up:
            self.hang_up()
        return sent

    def offer(self, data: bytes) -> bool:
        with self._lock:
            if self.finished or self.plain:
                return True
            self._open()
            if self._is_full(len(data)) or (
                    self.log is not None and not self._attached and not self.log.wait_for_room(len(data), 0.0)):
                return False
            self._put(data)
        self.on_ready()
        return True

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        with self._lock:
            if self.finished:
                return
            if not self.streaming:
                self.answer, self.code = data, code
            elif data is not None:
                self._put(data, FINAL)
            elif self.log is not None:
                self.log.write(FINAL)
            self._finish()
        if self.streaming:  # if the response is no event stream, no host waits for pieces
            self.on_ready()

    def close_connection(self, retry: Optional[float]) -> bool:
        """Tell the client when to reconnect, and end the response (HTTP-14, HTTP-16)."""
        with self._lock:
            if self.finished or self.plain or not self._streams.priming:
                return False
            self._open()
            if self.log is None:
                return False
            if self._attached:
                self._end_for_now(self._streams.limits.retry_seconds if retry is None else retry)
        self.on_ready()
        return True

    def awaits_answer(self, waits: bool) -> None:
        with self._lock:
            self._asking += 1 if waits else -1
            held = self._streams.held
            if self._asking != waits or held is None or self.finished:
                return
            if waits:
                self._open()
                self.must_stay = not (self._streams.priming and self.log is not None)
                if not self.must_stay:
                    self._asked_at = time.monotonic()
                self.name = self._streams.key, "" if self.log is None else self.log.label
                self.on_close = lambda: held.remove(self)
                self._notify()
        self.on_ready()
        if waits:
            held.add(self, self._streams.sender)
        else:
            held.remove(self)

    def end(self) -> None:
        """End the stream and its response without an answer."""
        with self._lock:
            if not self.finished:
                if self.log is not None:
                    # Responses that follow the log get errors as the answer, since the session, or this process, ends before
                    # the handler has answered.
                    self.log.write(FINAL + failures(json.loads(self.described())))
                self._finish()
        self.on_ready()

    # --- with the lock held -----------------------------------------------------------------------

    def described(self) -> bytes:
        """Return the ids of the requests, as other processes need them to answer for this one."""
        message = self._message
        items = message.items if type(message) is jsonrpc.Batch else [message]
        ids = [item.id for item in items if type(item) is jsonrpc.Request]
        return json.dumps({"ids": ids, "batch": type(message) is jsonrpc.Batch}).encode("ascii")

    def _open(self) -> None:
        if self.streaming:
            return
        streams = self._streams
        self.log = streams.open_log(self)
        self.streaming = True
        self._queue: Deque[bytes] = deque()
        if streams.priming and self.log is not None:
            self._queue.append(priming_event(f"{self.log.label}-0", streams.limits))
        self._notify()

    def _put(self, data: bytes, kind: bytes = MESSAGE) -> bool:
        self._make_room(len(data))
        self._event += 1
        log, name = self.log, None
        if log is not None:
            log.write(kind + data)
            name = f"{log.label}-{self._event}"
        if not self._attached:
            return log is not None
        event = encode_event(data, name)
        self._queue.append(event)
        self._queued += len(event)
        if self._counted or self._queued + self._sending > _UNCOUNTED_BYTES:
            self._count_unread()
        self._notify()
        return True

    def _is_full(self, size: int) -> bool:
        if not self._attached or not self._queue:
            return False
        limits = self._streams.limits
        # While all streams together hold too many bytes, each stream may hold only 64 KiB. A client that reads does not notice
        # that.
        most = _UNCOUNTED_BYTES if self._streams.unread.full else limits.unread_bytes
        return len(self._queue) >= limits.unread_messages or self._queued + size > most

    def _make_room(self, size: int) -> None:
        seconds = self._streams.limits.unread_seconds
        if self._is_full(size) and not self._changed.wait_for(lambda: not self._is_full(size), seconds):
            # A client that does not read is considered gone. Over Streamable HTTP it can resume the stream.
            self._detach()
            self._given_up = True

    def _end_for_now(self, seconds: float, end: bool = True) -> None:
        self._queue.append(retry_event(seconds))
        self.ending = self.ending or end
        self._notify()

    @property
    def _changed(self) -> threading.Condition:
        if self._waited is None:
            self._waited = threading.Condition(self._lock)
        return self._waited

    def _notify(self) -> None:
        if self._waited is not None:
            self._waited.notify_all()

    def _finish(self) -> None:
        self.finished = True
        self._message = None
        if self.log is not None:
            self._streams.finished(self.log)
        if self._waited is not None:
            self._waited.notify_all()

    def _detach(self) -> None:
        if self._attached:
            self._attached = False
            self._queue.clear()
            self._queued = self._sending = 0
            self._count_unread()
            self._notify()

    def _count_unread(self) -> None:
        held = self._queued + self._sending
        counted = held if held > _UNCOUNTED_BYTES else 0
        if counted != self._counted:
            self._streams.unread.change(counted - self._counted)
            self._counted = counted

    # --- for the thread of the HTTP request ----------------------------------------------------------

    def commit(self) -> None:
        """Make the response an event stream before its first message, unless it must be JSON or the answer is there already."""
        with self._lock:
            if self.plain or (self.finished and not self.streaming):
                return
            self._open()
            # Many WSGI hosts send the headers of a response with the first bytes of its body.
            if not self._queue:
                self._queue.append(OPENING)

    def wait_until_known(self, refuse: Callable[[], object]) -> None:
        """Wait until it is known whether the response is an event stream, or its client has left.

        If the handler runs for longer than ``commit_seconds``, the response becomes an event stream.

        :param refuse: called when the request is still queued after ``queue_seconds``: it must not be queued forever (REL-37).
        """
        limits, waited = self._streams.limits, 0.0
        probe = min(_UNANSWERED_PROBE_SECONDS, limits.commit_seconds)
        while True:
            with self._lock:
                if self._changed.wait_for(lambda: self.finished or self.streaming, probe):
                    return
            waited += probe
            if self.on_hang_up is not None and self.disconnected():
                self.on_hang_up()
            elif self.on_hang_up is None and self.plain and (self._streams.closed or self.disconnected()):
                return
            if not self.begun and type(self._message) is not jsonrpc.Batch:
                if waited >= limits.queue_seconds:
                    refuse()
            elif waited >= limits.commit_seconds:
                self.commit()

    def take(self) -> Optional[bytes]:
        now = time.monotonic()
        data = self._take(now)
        if data is None and self.left is not None and self.left <= 0:
            self.ending = True
            self.on_due()
            data = self._take(now)
        return data

    def _take(self, now: float) -> Optional[bytes]:
        """Return what :meth:`take` returns.

        If the time of the response is over, return None as well; then :meth:`take` ends the response and returns its last
        messages.
        """
        with self._lock:
            while self._attached:
                if self._sending:
                    self._sending = 0  # it was sent
                    self._count_unread()
                due = self._due
                if due is not None and due <= now and not self.ending:
                    return None
                if self._queue:
                    data = b"".join(self._queue)
                    self._queue.clear()
                    self._queued, self._sending = 0, len(data)
                    self._count_unread()
                    self.last = self.finished or self.ending
                    self.drained = not self._counted and not self._asking
                    self._quiet_until = now + self._streams.limits.keep_alive_seconds
                    self._notify()
                    return data
                if self.finished or self.ending:
                    self._detach()
                    return None
                if self._quiet_until <= now:
                    quiet, self._quiet_until = self._quiet_until, now + self._streams.limits.keep_alive_seconds
                    if quiet:
                        return KEEP_ALIVE
                answer = self._asked_at + _ANSWER_SECONDS if self._asking and self._asked_at else None
                if answer is not None and answer <= now:
                    held = self._streams.held
                    assert held is not None
                    self._end_for_now(max(held.leave(self.name), self._streams.limits.retry_seconds))
                    continue
                if not self.watched and self._probe(now):
                    break
                times = [self._quiet_until, due, answer, None if self.watched else self._probe_at]
                self.look_at = min(at for at in times if at is not None)
                return b""
        self.stop()
        return None

    def _probe(self, now: float) -> bool:
        """Ask the host now and then whether the client has left, and return that; False in between, and the first time."""
        if now < self._probe_at:
            return False
        first = not self._probe_at
        self._probe_at = now + (PROBE_SECONDS if self.on_hang_up is None else _SOON_SECONDS)
        return not first and self.disconnected()

    def stop(self) -> None:
        """End the response, from any thread. The stream goes on, unless closing its response cancels the call (H26-10)."""
        with self._lock:
            hung_up = self._attached and not self.finished
            self._detach()
        self.on_ready()
        if hung_up:
            self.hang_up()

    def end_for_now(self, seconds: float) -> None:
        with self._lock:
            if self._attached and not self.finished:
                self._end_for_now(max(seconds, self._streams.limits.retry_seconds), self.on_return is None)
        self.on_ready()
        if self.on_return is not None:
            self.on_return()

    def close(self) -> None:
        self.stop()
        self.closed()

    def hang_up(self) -> None:
        """Note that the client has closed the response."""
        if self.on_hang_up is not None:
            self.on_hang_up()


class StreamsChannel(Channel):
    """The channel of clients without a stream for the messages that belong to none of their requests. It drops such messages.

    :param streams: of the requests, which end with the channel.
    """

    def __init__(self, streams: RequestStreams, name: str = "the client") -> None:
        self._streams = streams
        self.name = name
        self._closed = False

    @property
    def network(self) -> Network:
        return Network("tcp", "http")

    @property
    def session_id(self) -> str:
        return self._streams.key

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> PushedReading:
        return PushedReading(self, workers)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        if self._closed:
            raise ConnectionClosed(f"the session of {self.name} has ended")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._streams.close()


def failures(opened: Any) -> bytes:
    """Return the error responses to the requests of a process that has ended."""
    failures = [jsonrpc.dump(jsonrpc.Failure(id, INTERNAL_ERROR, _ENDED, None)) for id in opened["ids"]]
    return b"[" + b",".join(failures) + b"]" if opened["batch"] else b"".join(failures)
