"""The streams of requests: the messages for one request of a client, and the body of its response.

The handler feeds the response directly. If the client can come back for the rest, each message is in a log of the backend as
well, which is made with the first message before the answer; most calls never make one. When a client resumes the stream,
whichever process gets that request follows the log (RES-05, HTTP-20).
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
from .response_bodies import KEEP_ALIVE, OPENING, PROBE_SECONDS, OpenStreams, StreamingBody, priming_event, retry_event

__all__ = ["EventBody", "EventStream", "RequestStreams", "StreamsChannel", "failures"]

_log = get_logger(__name__)
#: Seconds between two checks whether the client has disconnected, if the disconnection cancels a call.
_SOON_SECONDS = 0.5
#: Finished streams of one session that can still be resumed; beyond that the oldest is dropped.
_FINISHED = 64
#: Seconds that a response waits for its client's answer to a question before it ends, where it must not be held: programs
#: answer sooner, people do not.
_ANSWER_SECONDS = 1.0
#: Bytes of a stream that count to no budget; most streams never hold as many.
_UNCOUNTED_BYTES = 65_536
_ENDED = ("the server's process that ran this call has ended before it answered; it is not known whether the call took effect")


class RequestStreams:
    """The streams of the requests of one session, in this process.

    :param key: the id of the session.
    :param sender: whose share their bytes count to.
    :param unread: of all streams of the server; by default of these alone.
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
        #: Where responses must not be held for an answer: the open streams, among which they count meanwhile.
        self.held: Optional[OpenStreams] = None
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        #: The open streams that have a log, by their label.
        self._open: Dict[str, EventStream] = {}
        self._finished: List[RequestLog] = []

    def new_stream(self, message: jsonrpc.Message) -> "EventStream":
        """Return the stream for the responses to a message."""
        return EventStream(self, message)

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

    def _forget(self, logs: "List[RequestLog]") -> None:
        for log in logs:
            assert self.logs is not None
            self.logs.forget(log)

    def resume(self, label: str, event: int) -> Optional[RequestLogBody]:
        """Return the rest of a stream after an event; it is ending if the client has all events, None if they are not kept.

        The response of this process that the client has left ends.

        :raises BackendError: the store failed.
        """
        logs, name = self.logs, f"{self.prefix}/{label}"
        assert logs is not None
        entries, stream = logs.backend.since(name, event), self._open.get(label)
        if entries is None:
            # The handler may have been silent since, for longer than an event is kept.
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
            stream.release()

    def close(self) -> None:
        """End every stream and drop its events (SESS-12)."""
        for stream in list(self._open.values()):
            stream.end()
        with self._lock:
            finished, self._finished = self._finished, []
        self._forget(finished)
        if self.held is not None:
            self.held.forget(self.key)


class EventStream(Outlet):
    """The stream of one message of a client.

    It is *quiet* until there is a message before the answer; if none comes, the answer is the whole response. Else it is
    *streaming*: the response is an event stream, and the messages are in a log if the client can resume it. It is *finished*
    with the answer, or with the end of the session.

    :param streams: the streams of the session.
    :param message: of the client.
    """

    #: Whether the client reads no event streams, so that its response is JSON, and what would come before is left out.
    plain = False
    #: How many answers of the client its handler waits for, and since when if the response must not be held for them.
    _asking = 0
    _asked_at = 0.0

    def __init__(self, streams: RequestStreams, message: Optional[jsonrpc.Message] = None) -> None:
        self._streams = streams
        #: Until the stream is open, or has finished.
        self._message = message
        #: Guards every field below.
        self._lock = threading.Lock()
        #: What a body waits on for messages, and a handler for room in the queue. Created by the first that waits, since
        #: most streams are finished when their request's thread comes to read them.
        self._waited: Optional[threading.Condition] = None
        #: Whether there was a message before the response.
        self.streaming = False
        #: None until then, if the stream cannot be resumed, and if the store failed at that time: then events have no ids.
        self.log: Optional[RequestLog] = None
        self._event = 0
        self._queue: Deque[bytes] = deque()
        self._queued = 0
        #: Bytes that the body has taken, and is sending.
        self._sending = 0
        #: What of both counts to the budget of all streams.
        self._counted = 0
        #: The body of the response; None when it has ended.
        self._body: Optional[EventBody] = EventBody(self)
        #: That body, for the thread of the request, as long as the thread needs it.
        self.first: Optional[EventBody] = self._body
        #: Whether no more messages follow.
        self.finished = False
        #: Whether the client has not read for so long that it is considered gone.
        self._given_up = False
        self.begun = False
        #: Called when the client has closed the response of an unfinished stream, if that cancels something.
        self.on_hang_up: Optional[Callable[[], object]] = None
        #: The response and its error code, if there was no message before it.
        self.answer: Optional[bytes] = None
        self.code: Optional[int] = None

    # --- for handlers -----------------------------------------------------------------------------

    def handler_started(self) -> None:
        self.begun = True

    def send(self, data: bytes) -> bool:
        log = self.log
        if log is not None and self._body is None:
            log.wait_for_room(len(data), self._streams.limits.unread_seconds)
        with self._lock:
            if self.finished or self.plain:
                return self.plain
            if not self.streaming:
                self._open()
            sent = self._put(data)
            given_up = self._given_up
        if given_up:
            self.hang_up()
        return sent

    def offer(self, data: bytes) -> bool:
        with self._lock:
            if self.finished or self.plain:
                return True
            limits = self._streams.limits
            if self._queue and (len(self._queue) >= limits.unread_messages or self._queued + len(data) > self._most_unread()):
                return False
            if self.log is not None and self._body is None and not self.log.wait_for_room(len(data), 0.0):
                return False
            self._open()
            self._put(data)
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
            if not self.streaming:
                # No body will read: its reference back would keep the response until the garbage collector comes.
                self._body = self.first = None

    def close_connection(self, retry: Optional[float]) -> bool:
        """Tell the client when to reconnect, and end the body that reads the stream (HTTP-14, HTTP-16)."""
        with self._lock:
            if self.finished or self.plain or not self._streams.priming:
                return False
            self._open()
            if self.log is None:
                return False
            if self._body is not None:
                self._end_for_now(self._body, self._streams.limits.retry_seconds if retry is None else retry)
            return True

    def awaits_answer(self, waits: bool) -> None:
        with self._lock:
            self._asking += 1 if waits else -1
            body = self.first
            held = self._streams.held
            if self._asking != waits or held is None or body is None or self.finished:
                return
            if waits:
                self._open()
                body.must_stay = not (self._streams.priming and self.log is not None)
                if not body.must_stay:
                    self._asked_at = time.monotonic()
                body.name = self._streams.key, "" if self.log is None else self.log.label
                body.on_close = lambda: held.remove(body)
                self._notify()
        if waits:
            held.add(body, self._streams.sender)
        else:
            held.remove(body)

    def tell_return(self, body: "EventBody", seconds: float, end: bool) -> None:
        """Tell the client of *body* after how many seconds to come back.

        :param end: whether that body ends then, after the messages that are there; else the stream does.
        """
        with self._lock:
            if self._body is body and not self.finished:
                self._end_for_now(body, max(seconds, self._streams.limits.retry_seconds), end)

    def end(self) -> None:
        """End the stream and its body without a response."""
        with self._lock:
            if not self.finished:
                if self.log is not None:
                    # For those who follow the log: the session, or this process, ends before the handler has answered.
                    self.log.write(FINAL + failures(json.loads(self.described())))
                self._finish()

    # --- with the lock held -----------------------------------------------------------------------

    def described(self) -> bytes:
        """Return the ids of the requests, as other processes need them to answer for this one."""
        message = self._message
        items = message.items if type(message) is jsonrpc.Batch else [message]
        ids = [item.id for item in items if type(item) is jsonrpc.Request]
        return json.dumps({"ids": ids, "batch": type(message) is jsonrpc.Batch}).encode("ascii")

    def _end_for_now(self, body: "EventBody", seconds: float, end: bool = True) -> None:
        self._queue.append(retry_event(seconds))
        body.ending = body.ending or end
        self._notify()

    def _seconds_to_answer(self, body: "EventBody") -> Optional[float]:
        """Return the seconds that the response still waits for the client's answer; None if it may be held."""
        if not self._asking or not self._asked_at or body is not self.first:
            return None
        return self._asked_at + _ANSWER_SECONDS - time.monotonic()

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
        if self._body is None:
            self._clear()
        self._notify()

    def _clear(self) -> None:
        self._queue.clear()
        self._queued = self._sending = 0
        self._count_unread()

    def _count_unread(self) -> None:
        held = self._queued + self._sending
        counted = held if held > _UNCOUNTED_BYTES else 0
        if counted != self._counted:
            self._streams.unread.change(counted - self._counted)
            self._counted = counted

    def _most_unread(self) -> int:
        # While all streams together hold too much, each gets by with little: a client that reads does not notice.
        return self._streams.limits.unread_bytes if not self._streams.unread.full else _UNCOUNTED_BYTES

    def _open(self) -> None:
        if self.streaming:
            return
        streams = self._streams
        self.log = streams.open_log(self)
        self.streaming = True
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
        if self._body is None:
            return log is not None
        event = encode_event(data, name)
        self._queue.append(event)
        self._queued += len(event)
        if self._counted or self._queued + self._sending > _UNCOUNTED_BYTES:
            self._count_unread()
        if self._waited is not None:
            self._waited.notify_all()
        return True

    def _make_room(self, size: int) -> None:
        limits = self._streams.limits
        deadline: Optional[float] = None
        while self._body is not None and self._queue and (
                len(self._queue) >= limits.unread_messages or self._queued + size > self._most_unread()):
            if deadline is None:
                deadline = time.monotonic() + limits.unread_seconds
            left = deadline - time.monotonic()
            if left > 0:
                self._changed.wait(left)
                continue
            # A client that does not read is considered gone. Over Streamable HTTP it can resume the stream.
            self._detach(self._body)
            self._given_up = True

    def _detach(self, body: "EventBody") -> None:
        if self._body is body:
            self._body = None
            self._clear()
            self._notify()

    # --- for the threads of HTTP requests ------------------------------------------------------------

    def wait_first(self, timeout: float) -> bool:
        """Wait until it is known whether the HTTP response is a stream; return whether it is known.

        Then :attr:`streaming` tells. If it is not a stream, :attr:`answer` is the whole response.
        """
        with self._lock:
            if self.finished or self.streaming:
                return True
            return self._changed.wait_for(lambda: self.finished or self.streaming, timeout)

    def commit(self) -> bool:
        """Make the HTTP response a stream although there is no message yet; False if it is there already, or must be JSON."""
        with self._lock:
            if self.plain or (self.finished and not self.streaming):
                return False
            self._open()
            # Many WSGI hosts send the headers of a response with the first bytes of its body.
            if not self._queue:
                self._queue.append(OPENING)
            return True

    def take(self, body: "EventBody") -> Optional[bytes]:
        """Return the next bytes for *body*; None at its end."""
        quiet_until = time.monotonic() + self._streams.limits.keep_alive_seconds
        with self._lock:
            while True:
                if self._body is not body:
                    return None
                if self._sending:
                    self._sending = 0  # it was sent
                    self._count_unread()
                due = body.left
                if due is not None and due <= 0:
                    return None  # the body sends its last messages then
                if self._queue:
                    data = b"".join(self._queue)
                    self._queue.clear()
                    self._queued, self._sending = 0, len(data)
                    self._count_unread()
                    body.last = self.finished or body.ending
                    self._notify()
                    return data
                if self.finished or body.ending:
                    self._detach(body)
                    return None
                left = quiet_until - time.monotonic()
                if left <= 0:
                    return KEEP_ALIVE
                if due is not None:
                    left = min(left, due)
                answer = self._seconds_to_answer(body)
                if answer is not None and answer <= 0:
                    assert self._streams.held is not None
                    self._end_for_now(body, max(self._streams.held.leave(body.name), self._streams.limits.retry_seconds))
                    continue
                if answer is not None:
                    left = min(left, answer)
                probe = PROBE_SECONDS if self.on_hang_up is None else _SOON_SECONDS
                if not self._changed.wait(min(left, probe)) and body.disconnected():
                    break
        self.detach(body)
        return None

    def detach(self, body: "EventBody") -> None:
        """End *body*. The stream continues, unless closing its response cancels the call (H26-10)."""
        with self._lock:
            attached = self._body is body
            self._detach(body)
            hung_up = attached and not self.finished
        if hung_up:
            self.hang_up()

    def release(self) -> None:
        """End the body, since the client has resumed the stream: its messages are read from the log from now on."""
        body = self._body
        if body is not None:
            self.detach(body)

    def hang_up(self) -> None:
        """Note that the client has closed the response."""
        if self.on_hang_up is not None:
            self.on_hang_up()


class EventBody(StreamingBody):
    """The body of the response to a request: the messages of its stream, and keep-alive comments."""

    #: Ends the stream when this body must make room; None if the stream goes on without a body.
    on_return: Optional[Callable[[], object]] = None

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def __iter__(self) -> "EventBody":
        return self

    def __next__(self) -> bytes:
        data = self._stream.take(self)
        if data is None and self.left is not None and self.left <= 0:
            self.ending = True
            self.on_due()
            data = self._stream.take(self)
        if data is None:
            raise StopIteration
        return data

    @property
    def complete(self) -> bool:
        return self._stream.finished

    def stop(self) -> None:
        self._stream.detach(self)

    def end_for_now(self, seconds: float) -> None:
        self._stream.tell_return(self, seconds, self.on_return is None)
        if self.on_return is not None:
            self.on_return()

    def close(self) -> None:
        self._stream.detach(self)
        self.closed()


class StreamsChannel(Channel):
    """The channel of clients that have no stream for what belongs to none of their requests, so that it is left out.

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
