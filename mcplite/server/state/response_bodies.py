"""Bodies of responses that are event streams, as the hosts read them, and the limit on those that clients hold open.

A host either iterates a body on a thread of its own, as WSGI hosts do, or takes what there is when the body says so::

    a handler, or a change --> the body --on_ready--> the host --take--> bytes, none for now, or the end
                                                         ^
                                       look_at: the time has come for a comment, or for the end

When there are too many, the limit ends one of them for another, and says when its client may come back. Under a WSGI host all
endpoints of a process share one limit (:class:`OpenStreams`).
"""

import threading
import time
from typing import Callable, Dict, Hashable, Iterator, Optional

from ...rpc.deadline import WakeSignal
from ...rpc.forks import renew
from ..eviction import Shares
from ..handling.http_request import never_disconnected
from ..limits import Limits

__all__ = [
    "KEEP_ALIVE", "OPENING", "OpenStreams", "PROBE_SECONDS", "StreamingBody", "do_nothing", "priming_event",
    "retry_event",
]

#: Comments of an event stream.
KEEP_ALIVE = b": keep-alive\n\n"
OPENING = b": open\n\n"
#: Seconds between two checks whether the client of a waiting body has disconnected.
PROBE_SECONDS = 5.0


def do_nothing() -> None:
    """The default of optional callbacks."""


class StreamingBody:
    """The body of a response that is an event stream, which ends with the stream, with its client, or at a certain time.

    Each piece is sent at once. One thread at a time takes the pieces, and one closes the body.
    """

    #: Whether the piece returned last is the final one, so that the end of the response can be sent with it.
    last: bool = False
    #: Whether that piece was all that there is, so that :meth:`take` can wait until :attr:`on_ready` is called, or ``look_at``.
    drained: bool = False
    #: Whether the response lasts until one side ends it, and the client begins another one then.
    lasting: bool = False
    #: Whether :meth:`take` never waits for a store, so that it may be called on a thread that serves other clients, too.
    immediate = True
    #: Called when :meth:`take` may have more to return; from any thread, which holds no lock of the body. It is set by
    #: ``StreamedResponse.pass_on`` for our own HTTP server, and by :meth:`wait` for a host that iterates.
    on_ready: Callable[[], object] = staticmethod(do_nothing)
    #: When :meth:`take` must be called although nothing is ready, by the monotonic clock.
    look_at = 0.0
    #: Whether the host notices by itself that the client has left, and calls :meth:`stop` then.
    watched = False
    #: What a thread that iterates waits on.
    _signal: Optional[WakeSignal] = None

    #: Set to end this body after the messages that are there.
    ending = False
    #: When the body must end, by the monotonic clock.
    _due: Optional[float] = None
    #: Called when that time has come.
    on_due: Callable[[], object] = staticmethod(do_nothing)
    #: Returns whether the client has disconnected, as far as the host can tell.
    disconnected: Callable[[], bool] = staticmethod(never_disconnected)
    #: Called once when the response has ended.
    on_close: Optional[Callable[[], object]] = None
    #: Names the stream, so that its client is known when it comes back; None if it cannot be.
    name: Hashable = None
    #: Whether the session ends with this body, so that its client cannot come back.
    ends_session = False
    #: Whether its client could not get the rest of the stream by another body.
    must_stay = False

    def take(self) -> Optional[bytes]:
        """Return what can be sent now: empty if there is nothing yet, None at the end; sets ``look_at``."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while True:
            data = self.take()
            if data:
                return data
            if data is None:
                raise StopIteration
            self.wait()

    def wait(self) -> None:
        """Wait until :meth:`take` may have more, on the one thread that waits for this body; the first call returns at once."""
        signal = self._signal
        if signal is None:
            signal = self._signal = WakeSignal()
            self.on_ready = signal.set
        else:
            self._wait(signal, max(self.look_at - time.monotonic(), 0.0))

    def _wait(self, signal: WakeSignal, seconds: float) -> None:
        signal.wait(seconds)

    def stop(self) -> None:
        """End the iteration, from any thread, because the client has disconnected."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the body, after the response has been sent or has failed. Idempotent."""
        raise NotImplementedError

    def end_after(self, seconds: float, end: Callable[[], object]) -> None:
        """End the body after a time; called before it is iterated.

        :param end: called at that time; messages that it sends are still delivered.
        """
        self._due, self.on_due = time.monotonic() + seconds, end

    def end_for_now(self, seconds: float) -> None:
        """End the body after the messages that are there; from any thread.

        :param seconds: after which the client should come back, at least.
        """
        raise NotImplementedError

    @property
    def left(self) -> Optional[float]:
        """The seconds until the body must end; None for no limit."""
        return None if self._due is None or self.ending else self._due - time.monotonic()

    def closed(self) -> None:
        """Call :attr:`on_close`, the first time."""
        callback, self.on_close = self.on_close, None
        if callback is not None:
            callback()


def priming_event(id: str, limits: Limits) -> bytes:
    """Return the empty event at the beginning of a stream, after which it can be resumed (HTTP-15)."""
    return b"id: %s\nretry: %d\ndata:\n\n" % (id.encode("ascii"), round(limits.retry_seconds * 1000))


def retry_event(seconds: float) -> bytes:
    """Return the event that tells a client when to come back (HTTP-16)."""
    return b"retry: %d\n\n" % round(seconds * 1000)


#: If the streams of clients have ended for those of others, so many of these clients are to come back in a second.
_RETURNS_PER_SECOND = 6.0
#: Seconds after the time to come back for which a client still counts as one that waits.
_LATE_SECONDS = 5.0


class OpenStreams:
    """The event streams that are open; when there are too many, the oldest ends.

    A stream whose session ends with it ends only if there is no other one that can. A stream that must stay does not end. If no
    other stream can end, the new one ends.

    :param most: streams at once.
    :param in_turns: whether a client comes back when its stream has ended for another one, since there may be more clients than
        *most*. It is then told when to come back: the more clients wait, the later, so that few come back in one second.
    """

    def __init__(self, most: int, in_turns: bool = False) -> None:
        self._in_turns = in_turns
        self._open: Shares[StreamingBody] = Shares(most, busy=lambda body: body.ends_session or body.must_stay,
                                                  lasting=lambda body: body.ends_session)
        #: Guards ``_away``; held for dictionary work only.
        self._lock = threading.Lock()
        #: Until when a client counts as one that waits, by the name of its stream.
        self._away: Dict[Hashable, float] = {}

    def let_go(self) -> None:
        """Forget all streams in a forked process; the responses belong to the parent process."""
        renew(self, self._open)
        self._open.clear()
        self._away.clear()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, body: StreamingBody, sender: str) -> None:
        """Add a stream until :meth:`remove`."""
        if body.name is not None:
            with self._lock:
                self._away.pop(body.name, None)
        going = self._open.add(body, sender)
        for old in [body] if going is None else going:
            if old.must_stay:
                continue
            if self._in_turns and not old.ends_session:
                old.end_for_now(self.leave(old.name))
            else:
                old.stop()

    def remove(self, body: StreamingBody) -> None:
        """Note that a stream has ended."""
        self._open.remove(body)

    def leave(self, name: Hashable = None) -> float:
        """Note that a client waits to come back; return the seconds until it should.

        :param name: of its stream; None if it cannot be told when it has come back.
        """
        now = time.monotonic()
        with self._lock:
            self._away = {known: until for known, until in self._away.items() if until > now}
            seconds = (len(self._away) + (name not in self._away)) / _RETURNS_PER_SECOND
            self._away[object() if name is None else name] = now + seconds + (0.0 if name is None else _LATE_SECONDS)
        return seconds

    def forget(self, session: str) -> None:
        """Note that a session has ended: its client does not come back."""
        with self._lock:
            for name in [name for name in self._away if name == session or type(name) is tuple and name[0] == session]:
                del self._away[name]
