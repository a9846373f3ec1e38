"""Resumption of an event stream: its last event id, and the backoff between its connections.

The GET stream and the response of each call resume by the same rules, so the rules stand here.
"""

import random
import re
from typing import Callable, Optional

from ...protocol.http.sse import EventParser

__all__ = ["ResumableStream"]

#: Seconds of the longest backoff, however many attempts have failed.
_LONGEST_DELAY = 30.0
#: Bounds in seconds of the delay that a server asks for; the lower one so that the client does not spin (REL-46).
_SHORTEST_RETRY, _LONGEST_RETRY = 0.1, 60.0


class ResumableStream:
    """One event stream, across the connections that carry it.

    :param limit: bytes that one message may have.
    :param receive: takes each message.
    """

    def __init__(self, limit: int, receive: Callable[[bytes], None]) -> None:
        self._limit = limit
        self._receive = receive
        self._parser = EventParser(limit)
        #: The id of the last event as it came; empty when there is nothing to resume from.
        self._id = ""
        #: Attempts that have failed since the last one that succeeded.
        self.failures = 0
        #: Seconds that the server asks to wait (HTTP-17); None while it has not said.
        self.retry: Optional[float] = None

    @property
    def last_id(self) -> Optional[str]:
        """The id of the last event, to resume behind it (RES-04); None when there is nothing to resume from.

        It is as a header has it, which is sent as Latin-1: the bytes of the id, as they came. Control characters cannot
        stand in a header.
        """
        written = self._id.encode("utf-8", "surrogateescape").decode("latin-1")
        return re.sub(r"[\x00-\x1f\x7f]", "", written).strip(" ") or None

    def forget_id(self) -> None:
        """Drop the id of the last event, which the server no longer has: the stream begins with what comes from now on."""
        self._id = ""

    def begin(self) -> None:
        """Note that a new connection carries the stream from here; an unfinished event is dropped."""
        self._parser = EventParser(self._limit)

    def feed(self, data: bytes) -> bool:
        """Parse what a connection has brought; return whether there was a message in it.

        :raises ProtocolError: an event is too large.
        """
        useful = False
        for event in self._parser.feed(data):
            if event.id is not None:
                self._id = event.id
            if event.retry is not None:
                self.retry = min(max(event.retry / 1000, _SHORTEST_RETRY), _LONGEST_RETRY)
            if event.data and event.event == "message":
                useful = True
                self._receive(event.data)
        return useful

    def delay(self) -> float:
        """Return the seconds until the next attempt: what the server asks for, doubled with each failure, with jitter."""
        if self.retry is not None and not self.failures:
            return self.retry
        backoff = min((self.retry or 1.0) * 2.0 ** max(self.failures - 1, 0), _LONGEST_DELAY)
        return max(self.retry or 0.0, backoff * random.uniform(0.75, 1.25))
