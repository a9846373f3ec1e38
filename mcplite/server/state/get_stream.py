"""The common stream of a session: the messages that belong to no request of its client, in a log that one response reads.

A message without a reader stays in the log until the client opens its GET stream, and a client resumes after an event:

    peer --write--> CommonLogChannel --append--> the log of the session --> CommonStream (LogBody) --> the GET response

The stream of the transport with two endpoints is this one, too: there the responses to requests are on it (CommonOutlet).
"""

from typing import Any, Dict, Optional, Set

from ...backend.interface import Backend
from ...errors import ConnectionClosed
from ...protocol.http.sse import encode_event
from ...rpc.interfaces import Outlet
from ...rpc.tracing import get_logger
from ..limits import Limits
from .logs import NOTHING, LogBody, StreamLog, read_log
from .response_bodies import OPENING, priming_event
from .streams import RequestStreams, StreamsChannel

__all__ = ["CommonLogChannel", "CommonOutlet", "CommonStream"]

_log = get_logger(__name__)
#: Seconds that a notification waits for a client that reads slowly: it must not block on one client, but the thread that
#: sends to a client that reads may be waiting for its turn in Python.
_MOMENT_SECONDS = 0.02


class CommonLogChannel(StreamsChannel):
    """Sends the messages that belong to no request of the client: they are in the log of the common stream.

    :param streams: of the session in this process.
    :param log: of the common stream.
    """

    def __init__(self, streams: RequestStreams, log: StreamLog) -> None:
        super().__init__(streams)
        self._log = log

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._log.wait_for_room(len(data), _MOMENT_SECONDS)
        self.store(data)

    def store(self, data: bytes) -> None:
        """Append a message.

        :raises ConnectionClosed: the session has ended, or the message could not be stored.
        """
        if self._closed:
            raise ConnectionClosed(f"the session of {self.name} has ended")
        self._log.append(data)


class CommonOutlet(Outlet):
    """The messages of one request, on the common stream of a client that has no other: a handler waits while it reads slowly.

    What waits here leaves half of the room to notifications, which do not wait.
    """

    def __init__(self, channel: CommonLogChannel, log: StreamLog, seconds: float) -> None:
        self._channel = channel
        self._log = log
        self._seconds = seconds
        #: Set before the response is sent.
        self._finished = False

    def send(self, data: bytes) -> bool:
        self._wait(data)
        return not self._finished and self._store(data)

    def offer(self, data: bytes) -> bool:
        if self._finished:
            return True
        return self._log.wait_for_room(len(data), 0.0) and self._store(data)

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        self._finished = True
        if data is not None:
            self._wait(data)
            self._store(data)

    def _wait(self, data: bytes) -> None:
        if not self._log.wait_for_room(len(data), self._seconds, 2):
            self._log.drop_slowest()  # a client that does not read is considered gone

    def _store(self, data: bytes) -> bool:
        try:
            self._channel.store(data)
        except ConnectionClosed as error:
            _log.debug("a message was not sent: %s", error)
            return False
        return True


class CommonStream(LogBody):
    """The body of the response that reads the common stream of a session; the session has one reader at a time.

    :param session: an :class:`.HTTPSession` with a log.
    :param number: of the last entry that was read.
    """

    #: Sent before everything else, for a client that cannot resume: then events have no ids.
    first = b""

    def __init__(self, session: Any, backend: Backend, limits: Limits, number: int) -> None:
        super().__init__(backend, limits)
        self._session = session
        self._log = session.log.name
        self.number = number
        session.reader = self
        session.log.follow(self)

    def close(self) -> None:
        session = self._session
        session.log.unfollow(self)
        if session.reader is self:
            session.reader = None
            self.leave()
        super().close()

    def leave(self) -> None:
        """Note how far the stream was read, for the next reader."""
        self._session.read_to = self.number

    @property
    def position(self) -> str:
        """The id of the last event that was read: after it, the client continues."""
        return f"0.0-{self.number}"

    def event(self, data: bytes) -> bytes:
        """Return a message as an event."""
        return encode_event(data, None if self.first else self.position)

    def opening(self) -> bytes:
        if self.first:
            return self.first
        return priming_event(self.position, self._limits) if self._session.session.revision.priming_event else OPENING

    def numbers(self) -> Dict[str, int]:
        return {self._log: self.number}

    def read(self, grown: Set[str]) -> bytes:
        entries, last, missing = read_log(self._backend, self._log, self.number)
        if missing:
            _log.info("a client has missed messages, since it did not read its stream in time or the store was emptied")
        events = []
        for self.number, entry in entries:
            if self.is_message(entry):
                events.append(self.event(entry))
            if self.ending:
                break
        else:
            self.number = last
        self._session.log.was_read()
        return b"".join(events)

    def is_message(self, entry: bytes) -> bool:
        """Whether an entry is a message to the client; another one is handled here."""
        return entry != NOTHING
