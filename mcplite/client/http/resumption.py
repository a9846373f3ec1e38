"""An event stream that is followed across its connections: the place to go on from, and the time to wait."""

import random
from typing import Callable, Optional

from ...protocol.http.sse import EventParser

__all__ = ["Following"]

#: Seconds that an attempt waits at most, however many have failed.
_MOST = 30.0
#: The same where the server says how long, and at least, so that nobody spins (REL-46).
_SAID_MOST, _SAID_LEAST = 60.0, 0.1


class Following:
    """One stream, whichever connection carries it.

    :param limit: bytes that one message may have.
    :param receive: takes each message.
    """

    def __init__(self, limit: int, receive: Callable[[bytes], None]) -> None:
        self._limit = limit
        self._receive = receive
        self._parser = EventParser(limit)
        #: Of the last event, to go on behind it (RES-04); None when there is nothing to go on from.
        self.last_id: Optional[str] = None
        #: Attempts that have failed since the last one that did not.
        self.failures = 0
        #: Seconds to wait, when the server has said so (HTTP-17).
        self._said: Optional[float] = None

    def begin(self) -> None:
        """Note that a new connection carries the stream from here; an unfinished event is dropped."""
        self._parser = EventParser(self._limit)

    def take(self, data: bytes) -> None:
        """Deal with what a connection has brought.

        :raises ProtocolError: an event is too large.
        """
        for event in self._parser.feed(data):
            if event.id is not None:
                self.last_id = event.id
            if event.retry is not None:
                self._said = min(max(event.retry / 1000, _SAID_LEAST), _SAID_MOST)
            if event.data and event.event == "message":
                self._receive(event.data)

    def delay(self) -> float:
        """Return the seconds until the next attempt: as the server said, and longer with each failure, with some chance."""
        if self._said is not None and not self.failures:
            return self._said
        grown = min((self._said or 1.0) * 2.0 ** max(self.failures - 1, 0), _MOST)
        return max(self._said or 0.0, grown * random.uniform(0.75, 1.25))
