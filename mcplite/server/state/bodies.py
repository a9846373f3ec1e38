"""Bodies of responses that are event streams, as the hosts read them; and what such a stream begins and ends with."""

import time
from typing import Callable, Hashable, Iterator, Optional

from ..handling.http_request import never_disconnected
from ..limits import Limits

__all__ = [
    "KEEP_ALIVE", "OPENING", "PROBE_SECONDS", "EndingBody", "StreamingBody", "do_nothing", "priming_event", "retry_event",
]

#: Comments of an event stream.
KEEP_ALIVE = b": keep-alive\n\n"
OPENING = b": open\n\n"
#: Seconds between two checks whether the client of a waiting body has disconnected.
PROBE_SECONDS = 5.0


def do_nothing() -> None:
    """The default of optional callbacks."""


class StreamingBody:
    """The body of a streaming response; each piece is sent at once.

    One thread iterates and closes it.
    """

    #: Whether the piece returned last is the final one, so that the end of the response can be sent with it.
    last: bool = False
    #: Whether the response lasts until one side ends it, and the client begins another one then.
    lasting: bool = False

    @property
    def complete(self) -> bool:
        """Whether all pieces are already there, so that iterating does not block."""
        return False

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError

    def stop(self) -> None:
        """End the iteration, from any thread, because the client has disconnected."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the body, after the response has been sent or has failed. Idempotent."""
        raise NotImplementedError


class EndingBody(StreamingBody):
    """The body of an event stream, which ends with the stream, with its client, or at a certain time."""

    #: Set to end this body after the messages that are there.
    ending = False
    #: When the body must end, by the monotonic clock.
    _due: Optional[float] = None
    #: Called at that time.
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
    """Return what tells a client when to come back (HTTP-16)."""
    return b"retry: %d\n\n" % round(seconds * 1000)
