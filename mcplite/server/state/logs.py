"""The logs of event streams in a backend, as this process writes them, and the bodies of responses that follow them.

    a handler --append--> StreamLog --> backend --since, wait--> LogBody --> the client
                            | ^                                    ^ |
                            | +-- waits for room ------- has read -|-+
                            +-- tells of it, in one process -------+

The process that runs the handler writes the log of a request; any process writes the log of the common stream of a session. A
body in any process can follow a log. In one process the backend is a memory, whose bytes are bounded here, and the writer tells
the bodies of each entry.
"""

import itertools
import sys
import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Set, Tuple, Union

from ...backend.interface import Backend, Entry
from ...errors import BackendError
from ...protocol.http.sse import encode_event
from ...rpc.deadline import WakeSignal
from ...rpc.tracing import get_logger
from ..eviction import Shares
from ..limits import Limits
from .response_bodies import KEEP_ALIVE, OPENING, PROBE_SECONDS, StreamingBody, retry_event

__all__ = [
    "FINAL", "LogBody", "MESSAGE", "NOTHING", "OPENED", "RequestLog", "RequestLogBody", "StreamLog", "StreamLogs", "read_log",
]

_log = get_logger(__name__)
#: Seconds of one wait for logs that other processes write, after which the body looks whether it shall end.
_WAIT_SECONDS = 0.5
#: Seconds before the next attempt to read a store that cannot be reached.
_AWAY_SECONDS = 1.0
#: Bytes that an event and a log cost besides their content, roughly, so that many small ones are bounded as well.
_EVENT_COST = 200
_LOG_COST = 1000
#: If several processes write a log, at least this many of its entries are kept: no process knows the sizes of the entries of
#: the others.
_FEW = 16
#: Seconds between two searches for logs whose last entry is too old.
_SWEEP_SECONDS = 1.0
#: An entry that says nothing, in the place of those that had to go.
NOTHING = b"-"
#: The first byte of an entry of a stream of requests: the ids of the requests, a message, or the last message, which is empty
#: for a cancelled call.
OPENED, MESSAGE, FINAL = b"o", b"m", b"f"


class StreamLogs:
    """The logs that the process of one endpoint writes, within ``stream_events``, ``stream_bytes`` and ``store_seconds``.

    They are in the memory of this process, and bounded together by ``store_bytes``: the sender with the most bytes loses the
    events of one of its streams, the one whose last event is the oldest. Several processes use the class of
    ``fleet/shared_streams.py``.

    :param clock: returns seconds.
    """

    #: The number of this process, which begins the labels of its streams.
    number = 1

    def __init__(self, backend: Backend, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.backend = backend
        self.limits = limits
        #: Numbers the streams of this process.
        self._labels = itertools.count(1)
        self._shares: Shares[StreamLog] = Shares(sys.maxsize, limits.store_bytes, clock=clock)
        self._clock = clock
        self._swept = clock()

    def __len__(self) -> int:
        return len(self._shares)

    def label(self) -> str:
        """Return the label of one more stream.

        :raises BackendError: this process has no number yet, and the store failed.
        """
        return f"{self.number}.{next(self._labels)}"

    def open(self, prefix: str, sender: str, described: Callable[[], bytes]) -> "Optional[RequestLog]":
        """Begin the log of one more stream of requests; None if the store failed.

        :param prefix: of the name.
        :param sender: whose share its bytes count to.
        :param described: returns the ids of the requests, which other processes need.
        """
        label = self.label()
        made = RequestLog(self, f"{prefix}/{label}", sender, label)
        made.append(OPENED)
        return made

    def follow(self, name: str, label: str, event: int, written: "Optional[StreamLog]") -> "RequestLogBody":
        """Return the rest of a stream of requests."""
        return RequestLogBody(self, name, label, event, written)

    def grown(self, log: "StreamLog") -> None:
        """Count the size that a log has grown to.

        Other logs lose their entries to make room for it. If that does not give enough room, the log loses its own.
        """
        shares = self._shares
        # More is counted than the log takes: an eighth of its size, but at least _LOG_COST. So the count changes only after
        # several entries.
        size = log.size
        log.counted = size = size + max(size >> 3, _LOG_COST)
        going = shares.resize(log, size) if log in shares else shares.add(log, log.sender, size)
        shares.use(log)
        for old in [log] if going is None else going:
            old.evict()

    def forget(self, log: "StreamLog") -> None:
        """Drop a log that is not written any more."""
        if log.last:  # most logs have no entry
            self._shares.remove(log)
            self.backend.forget(log.name)

    def sweep(self) -> bool:
        """Drop the logs that have expired; return whether there are others that can expire."""
        shares, now, seconds = self._shares, self._clock(), self.limits.store_seconds
        if now - self._swept >= _SWEEP_SECONDS:
            self._swept = now
            for log in shares.idle(seconds, seconds):
                if log.fresh:
                    log.fresh = False
                    shares.use(log)
                else:
                    shares.remove(log)
                    log.expire()
        return len(shares) > 0


class StreamLog:
    """One log, as this process writes it.

    :param logs: of all streams.
    :param name: in the backend.
    :param sender: whose share its bytes count to.
    """

    def __init__(self, logs: StreamLogs, name: str, sender: str) -> None:
        self._logs = logs
        self._backend = logs.backend
        self.name = name
        self.sender = sender
        #: The bytes for which the log is counted among all; 0 if it is not.
        self.counted = 0
        #: Whether there is an entry since the last search for logs that have expired.
        self.fresh = True
        #: Guards the fields below, and keeps the entries of this process in order: it is held during one operation of the
        #: backend.
        self._lock = threading.Lock()
        #: What a writer waits on until readers have read more; the first writer that waits creates it. And the number at which
        #: the slowest reader stood when a writer waited in vain: while it still stands there, further writers do not wait.
        self._room: Optional[threading.Condition] = None
        self._stalled = -1
        #: The number of the last entry, and whether another process has written any.
        self.last = 0
        self._alone = True
        #: The bytes of the latest entries, as far as this process knows, and of all these.
        self._sizes: Union[Deque[int], Tuple[()]] = ()  # most logs have no entry
        self._bytes = 0
        #: The bodies of this process that follow the log.
        self._followers: List[LogBody] = []

    @property
    def size(self) -> int:
        """The bytes of memory that the log takes, roughly."""
        return _LOG_COST + self._bytes + _EVENT_COST * len(self._sizes)

    def append(self, entry: bytes) -> int:
        """Append an entry, and return its number.

        :raises BackendError: the store failed.
        """
        limits, size = self._logs.limits, len(entry)
        with self._lock:
            sizes = self._sizes = self._sizes or deque()
            keep = limits.stream_events
            if self._bytes + size > limits.stream_bytes:
                keep = self._kept_with(size)
            number = self._backend.append(self.name, entry, limits.store_seconds, keep)
            if number != self.last + 1:
                self._alone = False
                # Entries that other processes have written, or that were written before this process knew the log, count as
                # empty: their sizes are not known here.
                sizes.extend([0] * min(number - self.last - 1, limits.stream_events))
            self.last = number
            self.fresh = True
            sizes.append(size)
            self._bytes += size
            while len(sizes) > keep:
                self._bytes -= sizes.popleft()
        if self._bytes + _EVENT_COST * len(sizes) + _LOG_COST > self.counted:
            self._logs.grown(self)
        if self._followers:
            self._tell()
        return number

    def _kept_with(self, size: int) -> int:
        """Return how many entries are kept, the new one included, when an entry of *size* bytes is appended.

        The oldest entries go until the bytes are within ``stream_bytes``, and the entries within ``stream_events``.
        """
        limits = self._logs.limits
        total, kept = self._bytes + size, len(self._sizes) + 1
        for old in self._sizes:
            if total <= limits.stream_bytes and kept <= limits.stream_events:
                break
            total, kept = total - old, kept - 1
        return kept if self._alone else max(kept, min(_FEW, limits.stream_events))

    # --- the room of all logs -------------------------------------------------------------------------

    def evict(self) -> None:
        """Drop the entries to make room for other logs: those that were not read yet are lost.

        Further entries can be appended, with the next numbers.
        """
        with self._lock:
            self._backend.append(self.name, NOTHING, self._logs.limits.store_seconds, 1)
            self.last += 1
        self.expire()
        self._tell()

    def expire(self) -> None:
        """Note that the entries have expired; further ones are counted again."""
        with self._lock:
            self._sizes = ()
            self._bytes = 0
            self.counted = 0

    # --- those who read -------------------------------------------------------------------------------

    def follow(self, body: "LogBody") -> None:
        """Add a body of this process that follows the log, until :meth:`unfollow`."""
        with self._lock:
            self._followers = [*self._followers, body]

    def unfollow(self, body: "LogBody") -> None:
        """Note that a body has ended."""
        with self._lock:
            self._followers = [other for other in self._followers if other is not body]
            self._notify()

    def _tell(self) -> None:
        for body in self._followers:
            body.told()

    def was_read(self) -> None:
        """Note that a body has read further."""
        if self._room is not None:
            with self._lock:
                self._notify()

    def _notify(self) -> None:
        if self._room is not None:
            self._room.notify_all()

    def wait_for_room(self, size: int, seconds: float, part: int = 1) -> bool:
        """Wait until the bodies of this process have read so much that one more message fits.

        :param size: bytes of the message.
        :param seconds: that the wait may take.
        :param part: divides ``unread_messages`` and ``unread_bytes``: with 2, the caller uses at most half of them, and leaves
            the other half to other writers of the log.
        :returns: whether it fits. If no body of this process reads the log, it always fits.
        """
        limits = self._logs.limits
        if not self._followers or (len(self._sizes) * part < limits.unread_messages
                                   and (self._bytes + size) * part <= limits.unread_bytes):
            return True
        with self._lock:
            if self._fits(size, part):
                return True
            if self._stalled == self._least_read():
                return False
            if self._room is None:
                self._room = threading.Condition(self._lock)
            fits = self._room.wait_for(lambda: self._fits(size, part), seconds)
            self._stalled = -1 if fits or not seconds else self._least_read()
            return fits

    def _least_read(self) -> int:
        """Return the number up to which all bodies of this process have read."""
        return min([self.last, *(body.numbers()[self.name] for body in self._followers)])

    def drop_slowest(self) -> None:
        """End all bodies of this process that have not read the last entry: their clients do not read."""
        for body in list(self._followers):
            if body.numbers()[self.name] < self.last:
                body.stop()

    def _fits(self, size: int, part: int) -> bool:
        unread = self.last - self._least_read()
        if unread <= 0:
            return True
        limits, sizes = self._logs.limits, self._sizes
        if unread * part >= limits.unread_messages:
            return False
        unread_bytes = sum(itertools.islice(reversed(sizes), unread))
        return (unread_bytes + size) * part <= limits.unread_bytes


def read_log(backend: Backend, log: str, number: int) -> Tuple[List[Entry], int, bool]:
    """Return the entries of a log after a number, the number up to which that is, and whether entries are missing.

    :raises BackendError: the store failed.
    """
    entries = backend.since(log, number)
    if entries:
        return entries, entries[-1][0], False
    # No entry can be read after *number*. Either there is no newer one; or the newer ones were not sealed by this server, and
    # are skipped; or they are gone; or the log was dropped, and its numbers begin again.
    last = backend.last(log)
    if last == number:
        return [], number, False
    if last < number:
        return backend.since(log, 0) or [], last, True
    later = backend.since(log, number) if entries is not None else _latest(backend, log, number, last)
    return later or [], later[-1][0] if later else last, entries is None


def _latest(backend: Backend, log: str, gone: int, last: int) -> List[Entry]:
    """Return the entries that a log still has, after its first ones are gone.

    :param gone: a number after which entries are gone.
    """
    found: List[Entry] = []
    while last - gone > 1:
        middle = (gone + last) // 2
        entries = backend.since(log, middle)
        if entries is None:
            gone = middle
        else:
            found, last = entries, middle
    return found


class LogBody(StreamingBody):
    """The body of a response that follows logs.

    In one process the writers tell it of new entries. The thread of the request reads what several processes share, and waits
    for it. While the store cannot be reached the body sends keep-alive comments, and goes on when the store is back.

    :param backend: sealed if other programs can reach it.
    """

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self._backend = backend
        self._limits = limits
        self.immediate = not backend.shared
        #: Whether the body shall end.
        self._stopped = False
        #: The logs that have grown since they were read; None for all.
        self._grown: Optional[Set[str]] = None
        self._begun = False
        #: When the store is asked again, if it could not be reached, when the next comment is due, and when the body looks
        #: again whether its client has left.
        self._back_at = self._quiet_until = self._probe_at = 0.0
        #: If another body needs the room of this one: the last piece, which tells the client when to come back.
        self._farewell = b""

    # --- what follows ---------------------------------------------------------------------------------

    def numbers(self) -> Dict[str, int]:
        """Return the number up to which each log was read."""
        raise NotImplementedError

    def read(self, grown: Set[str]) -> bytes:
        """Read the logs that have grown, and return what is to be sent; sets ``ending`` at the end of the stream.

        :raises BackendError: the store failed.
        """
        raise NotImplementedError

    def idle(self) -> bytes:
        """Called after each wait, while there is nothing to send; returns like :meth:`read`.

        :raises BackendError: the store failed.
        """
        return b""

    def opening(self) -> bytes:
        """Return what is sent first: many WSGI hosts send the headers of a response with the first bytes of its body."""
        return OPENING

    # --- for the host -----------------------------------------------------------------------------------

    def take(self) -> Optional[bytes]:
        now = time.monotonic()
        if not self._begun:
            self._begun, self._quiet_until = True, now + self._limits.keep_alive_seconds
            return self.opening()
        data, farewell = self._read_once(now), self._farewell
        if farewell and not self.ending:
            data, self.ending = data + farewell, True
        if data:
            self.last, self.drained = self.ending, True
            self._quiet_until = now + self._limits.keep_alive_seconds
            return data
        if self._ends(now):
            return None
        if now >= self._quiet_until:
            self._quiet_until = now + self._limits.keep_alive_seconds
            return KEEP_ALIVE
        times = [self._quiet_until, self._due, self._back_at or None, None if self.watched else self._probe_at]
        self.look_at = min(at for at in times if at is not None)
        return b""

    def _read_once(self, now: float) -> bytes:
        if self.over or now < self._back_at:
            return b""
        try:
            grown, self._grown = self._grown, set()
            if grown is None:
                grown = set(self.numbers())
            data = self.read(grown) if grown else b""
            if not data and not self.ending:
                data = self.idle()
            self._back_at = 0.0
            return data
        except BackendError:
            self._away(now)
            return b""

    def _away(self, now: float) -> None:
        self._grown = None  # all are read again
        self._back_at = now + _AWAY_SECONDS

    def _ends(self, now: float) -> bool:
        due = self._due
        if self.over or (due is not None and due <= now):
            return True
        if self.watched or now < self._probe_at:
            return False
        self._probe_at = now + min(PROBE_SECONDS, self._limits.keep_alive_seconds)
        return self.disconnected()

    def _wait(self, signal: WakeSignal, seconds: float) -> None:
        if self.immediate or self._back_at:
            signal.wait(seconds)
            return
        seconds = max(min(seconds, _WAIT_SECONDS), 0.001)
        began = time.monotonic()
        try:
            grown = self._backend.wait(self.numbers(), seconds)
        except BackendError:
            self._away(time.monotonic())
            return
        if self._grown is not None:
            self._grown.update(grown)
        if not grown and time.monotonic() - began < seconds / 2:
            signal.wait(seconds)  # the backend is closed

    def told(self) -> None:
        """Note that a log has grown, or was dropped; from any thread."""
        if self.immediate:
            self._grown = None
            self.on_ready()

    @property
    def over(self) -> bool:
        """Whether nothing more is read, although the response may not have ended yet."""
        return self.ending or self._stopped

    def stop(self) -> None:
        self._stopped = True
        self.on_ready()

    def end_for_now(self, seconds: float) -> None:
        # The next take() reads the logs once more, and sends what they have before the farewell. When the client comes back,
        # the logs are followed from there on.
        self._farewell = retry_event(max(seconds, self._limits.retry_seconds))
        self.on_ready()

    def close(self) -> None:
        self._stopped = True
        self.closed()


class RequestLog(StreamLog):
    """The log of one stream of requests, which only the process that runs the handler writes.

    :param label: names the stream in the ids of its events.
    """

    #: Whether it had to give way to others: then its events are not kept.
    _lost = False

    def __init__(self, logs: StreamLogs, name: str, sender: str, label: str) -> None:
        super().__init__(logs, name, sender)
        self.label = label

    def write(self, entry: bytes) -> None:
        """Store an entry."""
        if not self._lost:
            self.append(entry)

    def evict(self) -> None:
        self._lost = True
        self._logs.forget(self)
        self._tell()

    def expire(self) -> None:
        self.evict()


class RequestLogBody(LogBody):
    """The rest of a stream of requests, for a client that has resumed it.

    :param name: of the log.
    :param label: of the stream.
    :param event: the number of the last event that the client has.
    :param written: the log, if this process writes it.
    """

    def __init__(self, logs: StreamLogs, name: str, label: str, event: int, written: Optional[StreamLog]) -> None:
        super().__init__(logs.backend, logs.limits)
        self._label = label
        self._log = name
        #: The number of the last entry that was read. Entry 1 is the opening, which is event 0, so an entry has a number one
        #: higher than its event.
        self._number = event + 1
        self._written = written
        if written is not None:
            written.follow(self)

    def numbers(self) -> Dict[str, int]:
        return {self._log: self._number}

    def close(self) -> None:
        if self._written is not None:
            self._written.unfollow(self)
        super().close()

    def read(self, grown: Set[str]) -> bytes:
        entries, self._number, missing = read_log(self._backend, self._log, self._number)
        if self._written is not None:
            self._written.was_read()
        if missing:
            self.ending = True  # the client asks again, and is told that the events are not kept
            return b""
        events: List[bytes] = []
        for at, entry in entries:
            if entry[:1] != OPENED and len(entry) > 1:
                events.append(encode_event(entry[1:], f"{self._label}-{at - 1}"))
            if entry[:1] == FINAL:
                self.ending = True
                break
        return b"".join(events)
