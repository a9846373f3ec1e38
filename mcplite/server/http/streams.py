"""Event streams: what one request, or none, has to say to a client, and the response bodies that carry it.

A stream is written by handlers and read by one body at a time, which the thread of an HTTP request
iterates. The body may end and the stream live on: the handler's messages are kept then, and another
body takes over when the client comes back (RES-05, HTTP-20).
"""

import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, Iterator, List, Optional

from ...protocol.http.sse import encode_event
from ...rpc.interfaces import Outlet
from ..limits import Limits
from .event_store import EventStore

__all__ = ["EventBody", "EventStream", "StreamSet"]

_KEEP_ALIVE = b": keep-alive\n\n"
_OPENING = b": open\n\n"
#: How often a body that waits looks whether its client is still there.
_PROBE_SECONDS = 5.0
#: The same where somebody has to be told.
_SOON_SECONDS = 0.5
#: Finished streams of one session that can still be resumed; one more forgets the oldest.
_FINISHED = 64


class StreamSet:
    """The streams of one session, by number; the one that belongs to no request has the number 0.

    :param key: names the session in the store.
    :param store: keeps events for resumption; None when nothing can be resumed.
    """

    def __init__(self, key: str, store: Optional[EventStore], limits: Limits) -> None:
        self.key = key
        self.store = store
        self.limits = limits
        #: Whether a stream begins with an empty event, so that it can be resumed before it says anything (HTTP-15).
        self.priming = False
        #: Guards the three fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._streams: Dict[int, EventStream] = {}
        self._finished: Deque[int] = deque()
        self._count = 0
        self.common = EventStream(self, common=True)
        self._streams[0] = self.common

    def add(self, stream: "EventStream") -> int:
        """Note a stream that has something to say before its answer, and return its number."""
        with self._lock:
            self._count += 1
            self._streams[self._count] = stream
            return self._count

    def find(self, number: int) -> "Optional[EventStream]":
        """Return the stream with this number, if it can be resumed."""
        return self._streams.get(number)

    def name(self, number: int) -> str:
        """Return what the store calls a stream."""
        return f"{self.key}/{number}"

    def finished(self, number: int) -> None:
        """Keep a finished stream for a while."""
        forget: List[int] = []
        with self._lock:
            self._finished.append(number)
            while len(self._finished) > _FINISHED:
                forget.append(self._finished.popleft())
        for old in forget:
            self._forget(old)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._streams.pop(number, None)
        if self.store is not None:
            self.store.forget(self.name(number))

    def close(self) -> None:
        """End every stream and forget what was kept (SESS-12)."""
        with self._lock:
            streams = list(self._streams.items())
        for number, stream in streams:
            stream.end()
            self._forget(number)


class EventStream(Outlet):
    """One stream of messages.

    :param home: the streams of the session.
    :param common: True for the stream that belongs to no request: nobody reads it at first, and it
        never has an answer.
    """

    def __init__(self, home: StreamSet, common: bool = False) -> None:
        self._home = home
        self._common = common
        #: Guards every field below; a body waits on it for messages, a handler for room.
        self._changed = threading.Condition(threading.Lock())
        #: None as long as the answer may be all that is said.
        self._number: Optional[int] = 0 if common else None
        self._event = 0
        self._queue: Deque[bytes] = deque()
        self._queued = 0
        #: The body that reads the stream. One is there from the start for the request that began it.
        self._body: Optional[EventBody] = None if common else EventBody(self)
        #: The same, for that request's thread, whoever reads by then.
        self.first = self._body
        self._finished = False
        #: Whether the client has not read for so long that nobody waits for it any more.
        self._given_up = False
        self.begun = False
        #: Called when the client has closed the response of an unfinished stream, where that means something.
        self.on_hang_up: Optional[Callable[[], object]] = None
        #: The answer, and the code of its error, when nothing else was said.
        self.answer: Optional[bytes] = None
        self.code: Optional[int] = None

    # --- what handlers do -------------------------------------------------------------------------

    def begin(self) -> None:
        self.begun = True

    def send(self, data: bytes) -> bool:
        with self._changed:
            if self._finished:
                return False
            self._open()
            sent = self._put(data)
            given_up = self._given_up
        if given_up:
            self.hang_up()
        return sent

    def offer(self, data: bytes) -> bool:
        with self._changed:
            if self._finished:
                return True
            limits = self._home.limits
            if self._queue and (len(self._queue) >= limits.unread_messages or self._queued + len(data) > limits.unread_bytes):
                return False
            self._open()
            self._put(data)
            return True

    def say(self, event: bytes) -> None:
        """Send an event that is no message; it is not kept."""
        with self._changed:
            self._queue.append(event)
            self._changed.notify_all()

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        with self._changed:
            if self._finished:
                return
            if self._number is None:
                self.answer, self.code = data, code
            elif data is not None:
                self._put(data)
            self._finish()

    def pause(self, retry: Optional[float]) -> bool:
        """Tell the client when to come back, and end the body that reads the stream (HTTP-14, HTTP-16)."""
        with self._changed:
            if self._finished or not self._home.priming or self._home.store is None:
                return False
            self._open()
            body = self._body
            if body is not None:
                seconds = self._home.limits.retry_seconds if retry is None else retry
                self._queue.append(b"retry: %d\n\n" % round(seconds * 1000))
                body.ending = True
                self._changed.notify_all()
            return True

    def end(self) -> None:
        """End the stream without an answer; bodies end."""
        with self._changed:
            if not self._finished:
                self._finish()

    # --- inside, with the lock held ---------------------------------------------------------------

    def _finish(self) -> None:
        self._finished = True
        if self._number:
            self._home.finished(self._number)
        self._changed.notify_all()

    def _open(self) -> None:
        if self._number is None:
            self._number = self._home.add(self)
            self._prime()
            self._changed.notify_all()

    def _prime(self) -> None:
        if self._home.priming and self._home.store is not None:
            retry = round(self._home.limits.retry_seconds * 1000)
            self._queue.append(b"id: %s\nretry: %d\ndata:\n\n" % (self._id().encode("ascii"), retry))

    def _begin_body(self) -> None:
        # Many a WSGI host sends the headers of a response with the first bytes of its body.
        if not self._queue:
            self._queue.append(_OPENING)

    def _id(self) -> str:
        return f"{self._number}-{self._event}"

    def _put(self, data: bytes) -> bool:
        self._make_room(len(data))
        store = self._home.store
        self._event += 1
        event = encode_event(data, None if store is None else self._id())
        if store is not None:
            store.append(self._home.name(self._number or 0), self._event, event)
        if self._body is not None or self._common:
            self._queue.append(event)
            self._queued += len(event)
            self._changed.notify_all()
            return True
        return store is not None

    def _make_room(self, size: int) -> None:
        limits = self._home.limits
        deadline: Optional[float] = None
        while self._queue and (len(self._queue) >= limits.unread_messages or self._queued + size > limits.unread_bytes):
            if self._common:
                # News must not wait for one client: a slow reader is cut off and can come back for what it
                # missed; when nobody reads, the oldest goes.
                if self._body is not None:
                    self._leave(self._body)
                else:
                    self._queued -= len(self._queue.popleft())
                continue
            if self._body is None:
                return
            if deadline is None:
                deadline = time.monotonic() + limits.unread_seconds
            left = deadline - time.monotonic()
            if left > 0:
                self._changed.wait(left)
                continue
            self._leave(self._body)  # a client that does not read is as good as gone
            self._given_up = True

    def _leave(self, body: "EventBody") -> None:
        if self._body is body:
            self._body = None
            if not self._common:
                self._queue.clear()
                self._queued = 0
            self._changed.notify_all()

    # --- what the threads of HTTP requests do --------------------------------------------------------

    def wait_first(self, timeout: float) -> bool:
        """Wait until it is known how the response begins; return whether it is.

        Afterwards :attr:`streaming` says whether it is a stream; if not, :attr:`answer` is all.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._finished or self._number is not None, timeout)

    @property
    def streaming(self) -> bool:
        """Whether something was said before the answer."""
        return self._number is not None

    def commit(self) -> bool:
        """Make it a stream although nothing was said yet; False when it is finished."""
        with self._changed:
            if self._finished and self._number is None:
                return False
            self._open()
            self._begin_body()
            return True

    @property
    def finished(self) -> bool:
        """Whether everything was said."""
        return self._finished

    @property
    def reader(self) -> "Optional[EventBody]":
        """The body that reads the stream now."""
        return self._body

    def attach(self, after: Optional[int] = None) -> "Optional[EventBody]":
        """Return a new body for the stream; the one before it ends.

        :param after: the number of the last event that the client has; None for a client that has none.
        :returns: None when the events behind it are not there any more.
        """
        with self._changed:
            replay: List[bytes] = []
            store = self._home.store
            if after is not None:
                if after == self._event:
                    kept: Optional[List[bytes]] = []
                else:
                    kept = None if store is None or after > self._event else store.after(
                        self._home.name(self._number or 0), after)
                if kept is None:
                    return None
                replay = kept
                self._queue.clear()
                self._queued = 0
            body = self._body = EventBody(self)
            if after is None:
                waiting, self._queue = self._queue, deque()
                self._prime()
                self._queue.extend(waiting)
                self._begin_body()
            else:
                self._queue.extend(replay)
                self._queued = sum(map(len, replay))
            self._changed.notify_all()
            return body

    def is_over(self, after: int) -> bool:
        """Whether nothing is behind the event with this number, and nothing will be."""
        with self._changed:
            return self._finished and after == self._event

    def take(self, body: "EventBody") -> Optional[bytes]:
        """Return the next bytes for *body*; None at its end."""
        quiet_until = time.monotonic() + self._home.limits.keep_alive_seconds
        with self._changed:
            while True:
                if self._body is not body:
                    return None
                due = body.left
                if due is not None and due <= 0:
                    return None  # the body knows what is to be said at its end
                if self._queue:
                    data = b"".join(self._queue)
                    self._queue.clear()
                    self._queued = 0
                    body.last = self._finished or body.ending
                    self._changed.notify_all()
                    return data
                if self._finished or body.ending:
                    self._leave(body)
                    return None
                left = quiet_until - time.monotonic()
                if left <= 0:
                    return _KEEP_ALIVE
                if due is not None:
                    left = min(left, due)
                probe = _PROBE_SECONDS if self.on_hang_up is None else _SOON_SECONDS
                if not self._changed.wait(min(left, probe)) and body.departed():
                    break
        self.leave(body)
        return None

    def leave(self, body: "EventBody") -> None:
        """Note that *body* is not read any more; the stream lives on, unless its client wants it no more (H26-10)."""
        with self._changed:
            left = self._body is body
            self._leave(body)
            hung_up = left and not self._finished
        if hung_up:
            self.hang_up()

    def hang_up(self) -> None:
        """Note that the client has closed the response."""
        if self.on_hang_up is not None:
            self.on_hang_up()


class EventBody(Iterator[bytes]):
    """The body of one response: what a stream says from now on, with comments in between to keep it alive."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        #: Set when the stream wants this body to end once it has said what there is.
        self.ending = False
        #: When it has to end at the latest, by the monotonic clock, and who is told before.
        self._due: Optional[float] = None
        self._on_due: Callable[[], object] = bool
        #: Whether what was given last is all, so that the end can be sent along.
        self.last = False
        #: Tells whether the client has gone; the host knows.
        self.departed: Callable[[], bool] = bool
        #: Called once when the body is over.
        self.on_close: Optional[Callable[[], object]] = None

    def __iter__(self) -> "EventBody":
        return self

    def end_after(self, seconds: float, end: Callable[[], object]) -> None:
        """Have the body end after a time; before anybody reads it.

        :param end: called then: what it has the stream say still goes out.
        """
        self._due, self._on_due = time.monotonic() + seconds, end

    @property
    def left(self) -> Optional[float]:
        """The seconds until it has to end; None for no such time."""
        return None if self._due is None or self.ending else self._due - time.monotonic()

    def __next__(self) -> bytes:
        data = self._stream.take(self)
        if data is None and self.left is not None and self.left <= 0:
            self.ending = True
            self._on_due()
            data = self._stream.take(self)
        if data is None:
            raise StopIteration
        return data

    @property
    def complete(self) -> bool:
        """Whether there is nothing more to come than what is there."""
        return self._stream.finished

    def leave(self) -> None:
        """End the body, whose client has gone, from any thread; its thread closes it."""
        self._stream.leave(self)

    def close(self) -> None:
        """Called by the host when the response is over or the client is gone; idempotent."""
        self._stream.leave(self)
        callback, self.on_close = self.on_close, None
        if callback is not None:
            callback()

