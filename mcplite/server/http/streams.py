"""Event streams: the messages for one request, or for the session's GET stream, and the response bodies that send them.

Handlers write to a stream. One body at a time reads it, iterated by the thread of an HTTP request. When the body ends
before the stream, messages are kept in the event store, and another body continues when the client reconnects (RES-05,
HTTP-20).
"""

import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional

from ...protocol import jsonrpc
from ...protocol.http.sse import encode_event
from ...rpc.interfaces import Outlet
from ..eviction import ByteBudget
from ..limits import Limits
from .event_store import EventStore
from .messages import KEEP_ALIVE, OPENING, PROBE_SECONDS, EndingBody, priming_event, retry_event
from .open_streams import OpenStreams

__all__ = ["EventBody", "EventStream", "StreamSet"]

#: The same if the disconnection cancels a call.
_SOON_SECONDS = 0.5
#: Finished streams of one session that can still be resumed; beyond that the oldest is dropped.
_FINISHED = 64
#: The common stream of a session keeps this part of the limit while the client does not read it.
_WITHOUT_READER = 64
#: Seconds that a notification waits for room on the common stream: it must not block on one client, but the thread that
#: sends to a client that reads may be waiting for its turn in Python.
_MOMENT_SECONDS = 0.02
#: Seconds that a response waits for its client's answer to a question before it ends, where it must not be held: programs
#: answer sooner, people do not.
_ANSWER_SECONDS = 1.0
#: Bytes of a stream that count to no budget; most streams never hold as many.
_UNCOUNTED_BYTES = 65_536


class StreamSet:
    """The streams of one session, by number. Number 0 is the common stream, which belongs to no request.

    :param key: names the session in the store.
    :param store: keeps events for resumption; None if streams cannot be resumed.
    :param sender: whose share the events count to.
    :param unread: of all streams of the server; by default of these alone.
    """

    def __init__(self, key: str, store: Optional[EventStore], limits: Limits, sender: str = "",
                 unread: Optional[ByteBudget] = None) -> None:
        self.unread = unread or ByteBudget(limits.unread_bytes_at_once)
        self.key = key
        self.sender = sender
        self.store = store
        self.limits = limits
        #: Whether a stream begins with an empty event, so that it can be resumed before its first message (HTTP-15).
        self.priming = False
        #: Where responses must not be held for an answer: the open streams, among which they count meanwhile.
        self.held: Optional[OpenStreams] = None
        #: Guards the three fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._streams: Dict[int, EventStream] = {}
        self._finished: Deque[int] = deque()
        self._count = 0
        self.common = EventStream(self, common=True)
        self._streams[0] = self.common

    def new_stream(self, message: jsonrpc.Message) -> "EventStream":
        """Return the stream for the responses to a message."""
        return EventStream(self)

    def add(self, stream: "EventStream") -> int:
        """Add a stream that has messages before its response, and return its number."""
        with self._lock:
            self._count += 1
            self._streams[self._count] = stream
            return self._count

    def find(self, number: int) -> "Optional[EventStream]":
        """Return the stream with this number; None if it cannot be resumed."""
        return self._streams.get(number)

    def name(self, number: int) -> str:
        """Return the name of a stream in the store."""
        return f"{self.key}/{number}"

    def finished(self, number: int) -> None:
        """Note that a stream has finished; it can be resumed until enough others have finished."""
        expired: List[int] = []
        with self._lock:
            self._finished.append(number)
            while len(self._finished) > _FINISHED:
                expired.append(self._finished.popleft())
        for old in expired:
            self._forget(old)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._streams.pop(number, None)
        if self.store is not None:
            self.store.forget(self.name(number))

    def close(self) -> None:
        """End every stream and drop its events (SESS-12)."""
        with self._lock:
            streams = list(self._streams.items())
        for number, stream in streams:
            stream.end()
            self._forget(number)
        if self.held is not None:
            self.held.forget(self.key)


class EventStream(Outlet):
    """One stream of messages.

    :param streams: the streams of the session.
    :param common: True for the common stream, which belongs to no request: it has no body at first, and never a
        response.
    """

    #: Whether the client reads no event streams, so that its response is JSON, and what would come before is left out.
    plain = False
    #: How many answers of the client its handler waits for, and since when if the response must not be held for them.
    _asking = 0
    _asked_at = 0.0

    def __init__(self, streams: StreamSet, common: bool = False) -> None:
        self._streams = streams
        self._common = common
        #: Guards every field below.
        self._lock = threading.Lock()
        #: What a body waits on for messages, and a handler for room in the queue. Created by the first that waits, since
        #: most streams are finished when their request's thread comes to read them.
        self._waited: Optional[threading.Condition] = None
        #: None until the stream has a message before its response.
        self._number: Optional[int] = 0 if common else None
        #: Whether there was a message before the response.
        self.streaming = common
        self._event = 0
        self._queue: Deque[bytes] = deque()
        self._queued = 0
        #: Bytes that the body has taken, and is sending.
        self._sending = 0
        #: What of both counts to the budget of all streams.
        self._counted = 0
        #: The body that reads the stream. The request that begins the stream has one from the start.
        self._body: Optional[EventBody] = None if common else EventBody(self)
        #: That first body, for the request's thread; another body may read by then.
        self.first = self._body
        self._finished = False
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
        with self._lock:
            if self._finished or self.plain:
                return self.plain
            self._open()
            sent = self._put(data)
            given_up = self._given_up
        if given_up:
            self.hang_up()
        return sent

    def send_of_request(self, data: bytes, wanted: Callable[[], bool]) -> bool:
        """Send a message of a request on the common stream, as :meth:`send` does on the stream of the request itself.

        :param wanted: asked when there is room; the message is dropped if it returns False.
        """
        with self._lock:
            if not self._finished:
                self._make_room(len(data), patient=True)
            if self._finished or not wanted():
                return False
            self._put(data)
            return True

    def offer(self, data: bytes) -> bool:
        with self._lock:
            if self._finished or self.plain:
                return True
            limits = self._streams.limits
            if self._queue and (len(self._queue) >= limits.unread_messages or self._queued + len(data) > self._most_unread()):
                return False
            self._open()
            self._put(data)
            return True

    def send_event(self, event: bytes) -> None:
        """Send an event that is not a message; it is not kept for resumption."""
        with self._lock:
            self._queue.append(event)
            self._notify()

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        with self._lock:
            if self._finished:
                return
            if self._number is None:
                self.answer, self.code = data, code
            else:
                self._put_last(data)
            self._finish()
            if not self.streaming:
                # No body will read: its reference back would keep the response until the garbage collector comes.
                self._body = self.first = None

    def close_connection(self, retry: Optional[float]) -> bool:
        """Tell the client when to reconnect, and end the body that reads the stream (HTTP-14, HTTP-16)."""
        with self._lock:
            if self._finished or self.plain or not self._streams.priming or not self.resumable:
                return False
            self._open()
            if self._body is not None:
                self._end_for_now(self._body, self._streams.limits.retry_seconds if retry is None else retry)
            return True

    def awaits_answer(self, waits: bool) -> None:
        with self._lock:
            self._asking += 1 if waits else -1
            body = self.first
            held = self._streams.held
            if self._asking != waits or held is None or body is None or self._finished:
                return
            if waits:
                self._open()
                body.must_stay = not (self._streams.priming and self.resumable)
                if not body.must_stay:
                    self._asked_at = time.monotonic()
                body.name, body.on_close = (self._streams.key, self._id().rpartition("-")[0]), lambda: held.remove(body)
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
            if self._body is body and not self._finished:
                self._end_for_now(body, max(seconds, self._streams.limits.retry_seconds), end)

    def end(self) -> None:
        """End the stream and its body without a response."""
        with self._lock:
            if not self._finished:
                self._finish()

    # --- with the lock held -----------------------------------------------------------------------

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
        self._finished = True
        if self._number:
            self._streams.finished(self._number)
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
        if self._number is None:
            self._number = self._streams.add(self)
            self.streaming = True
            self._prime()
            self._notify()

    def _prime(self) -> None:
        if self._streams.priming and self.resumable:
            self._queue.append(priming_event(self._id(), self._streams.limits))

    def _begin_body(self) -> None:
        # Many WSGI hosts send the headers of a response with the first bytes of its body.
        if not self._queue:
            self._queue.append(OPENING)

    def _id(self) -> str:
        return f"{self._number}-{self._event}"

    def _put(self, data: bytes) -> bool:
        self._make_room(len(data))
        self._event += 1
        event = self._keep(data)
        if self._body is not None or self._common:
            self._queue.append(event)
            self._queued += len(event)
            self._count_unread()
            self._notify()
            return True
        return self.resumable

    def _put_last(self, data: Optional[bytes]) -> None:
        """Put the response; None if there is none."""
        if data is not None:
            self._put(data)

    def _keep(self, data: bytes) -> bytes:
        """Keep a message for resumption, if that is possible, and return its event."""
        store = self._streams.store
        if store is None:
            return encode_event(data, None)
        event = encode_event(data, self._id())
        store.append_for(self._streams.sender, self._streams.name(self._number or 0), self._event, event)
        return event

    def _make_room(self, size: int, patient: bool = False) -> None:
        limits = self._streams.limits
        # What waits on the common stream leaves half of it to what does not wait.
        part = 2 if patient else 1
        deadline: Optional[float] = None
        while self._queue and (len(self._queue) * part >= limits.unread_messages
                               or (self._queued + size) * part > self._most_queued()):
            if self._body is None:
                if not self._common:
                    return
                self._queued -= len(self._queue.popleft())  # without a reader, the oldest message is dropped
                continue
            if deadline is None:
                deadline = time.monotonic() + (_MOMENT_SECONDS if self._common and not patient else limits.unread_seconds)
            left = deadline - time.monotonic()
            if left > 0:
                self._changed.wait(left)
                continue
            # A client that does not read is considered gone. Over Streamable HTTP it can resume the common stream.
            self._detach(self._body)
            self._given_up = not self._common

    def _most_queued(self) -> int:
        if self._common and self._body is None:
            # A session without a reader may never have one, and a client can have a thousand of them.
            return self._streams.limits.unread_bytes // _WITHOUT_READER
        return self._most_unread()

    def _detach(self, body: "EventBody") -> None:
        if self._body is body:
            self._body = None
            self._sending = 0
            if not self._common or self._finished:
                self._clear()
            self._count_unread()
            self._notify()

    # --- for the threads of HTTP requests ------------------------------------------------------------

    def wait_first(self, timeout: float) -> bool:
        """Wait until it is known whether the HTTP response is a stream; return whether it is known.

        Then :attr:`streaming` tells. If it is not a stream, :attr:`answer` is the whole response.
        """
        with self._lock:
            if self._finished or self._number is not None:
                return True
            return self._changed.wait_for(lambda: self._finished or self._number is not None, timeout)

    def commit(self) -> bool:
        """Make the HTTP response a stream although there is no message yet; False if it is there already, or must be JSON."""
        with self._lock:
            if self.plain or (self._finished and self._number is None):
                return False
            self._open()
            self._begin_body()
            return True

    @property
    def resumable(self) -> bool:
        """Whether the messages are kept, so that their events have ids."""
        return self._streams.store is not None

    @property
    def finished(self) -> bool:
        """Whether no more messages follow."""
        return self._finished

    @property
    def unread_bytes(self) -> int:
        """The bytes that wait for the client."""
        return self._queued

    @property
    def reader(self) -> "Optional[EventBody]":
        """The body that reads the stream at present."""
        return self._body

    def attach(self, after: Optional[int] = None) -> "Optional[EventBody]":
        """Return a new body for the stream; the present one ends.

        :param after: the number of the last event that the client has received; None if it has received none.
        :returns: None if the events after that one are not kept any more.
        """
        with self._lock:
            replay: List[bytes] = []
            store = self._streams.store
            if after is not None:
                if after == self._event:
                    kept: Optional[List[bytes]] = []
                else:
                    kept = None if store is None or after > self._event else store.after(
                        self._streams.name(self._number or 0), after)
                if kept is None:
                    return None
                replay = kept
                self._clear()
            body = self._body = EventBody(self)
            if after is None:
                waiting, self._queue = self._queue, deque()
                self._prime()
                self._queue.extend(waiting)
                self._begin_body()
            else:
                self._queue.extend(replay)
                self._queued = sum(map(len, replay))
            self._count_unread()
            self._notify()
            return body

    def is_over(self, after: int) -> bool:
        """Whether the event with this number is the last one, and the stream has finished."""
        with self._lock:
            return self._finished and after == self._event

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
                    body.last = self._finished or body.ending
                    self._notify()
                    return data
                if self._finished or body.ending:
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
            hung_up = attached and not self._finished
        if hung_up:
            self.hang_up()

    def hang_up(self) -> None:
        """Note that the client has closed the response."""
        if self.on_hang_up is not None:
            self.on_hang_up()


class EventBody(EndingBody):
    """The body of one response: the messages of a stream from now on, and keep-alive comments."""

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
