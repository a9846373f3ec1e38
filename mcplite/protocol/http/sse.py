"""Server-sent events: a parser that takes chunks of bytes, and the encoder of one event.

The client's streams use the parser, the server's streams the encoder.
"""

import re
from typing import List, Optional

from ...errors import ProtocolError

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
#: A value of at least so many bytes is cut out of the buffer with one copy; for a smaller value, two copies are faster.
_LARGE = 65_536
#: Thirty days, in milliseconds; longer times are cut. The client decides how long it really waits.
_MAX_RETRY = 30 * 86_400_000


class StreamEvent:
    """One event of a stream.

    :param event: its type, "message" by default.
    :param data: the raw bytes, which need not be UTF-8; JSON is read from bytes.
    :param id: the event's own ``id`` field; None without one.
    :param retry: the ``retry`` field in milliseconds; None without one.
    """

    __slots__ = ("event", "data", "id", "retry")

    def __init__(self, event: str, data: bytes, id: Optional[str], retry: Optional[int]) -> None:
        self.event = event
        self.data = data
        self.id = id
        self.retry = retry


class EventParser:
    """Parses an event stream by the rules of the WHATWG, with two differences that MCP needs.

    An event without data is returned if it has an id or a retry time (HTTP-15), and an id belongs to its own event
    only, not to those that follow.

    :param limit: bytes that one event may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._begun = False
        #: Whether the last byte was a CR, which a following LF belongs to.
        self._after_cr = False
        self._reset()

    def _reset(self) -> None:
        self._event = ""
        self._data: List[bytes] = []
        self._id: Optional[str] = None
        self._retry: Optional[int] = None
        self._size = 0

    def feed(self, chunk: bytes) -> List[StreamEvent]:
        """Return the events that *chunk* completes.

        :raises ProtocolError: an event has more bytes than the limit.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        buffer = self._buffer
        scanned = len(buffer)
        buffer += chunk
        if self._begun and b"\n" not in chunk and b"\r" not in chunk:
            # The chunk is in the middle of a large event: the search for line ends with the expression would take most of the
            # time of reading it.
            self._check(len(buffer))
            return []
        if not self._begun:
            if len(buffer) < 3 and _BOM.startswith(bytes(buffer)):
                return []
            self._begun = True
            scanned = 0
            if buffer.startswith(_BOM):
                del buffer[:3]
        events: List[StreamEvent] = []
        position = 0
        end = len(buffer)
        for match in _LINE_END.finditer(buffer, scanned):
            start, position, begin = match.start(), match.end(), position
            if start == begin:
                self._dispatch(events)
            else:
                self._size += start - begin
                self._check(0)
                self._line(begin, start)
        if position == end and end and buffer[-1] == 13:
            self._after_cr = True
        del buffer[:position]
        self._check(len(buffer))
        return events

    def _check(self, unfinished: int) -> None:
        if self._size + unfinished > self._limit:
            raise ProtocolError(f"an event has more than {self._limit} bytes (line_limit=)")

    def _line(self, begin: int, end: int) -> None:
        """Process the line at this place of the buffer."""
        buffer = self._buffer
        colon = buffer.find(b":", begin, end)
        if colon == begin:
            return  # a comment, which keeps the connection alive
        name, at = (buffer[begin:end], end) if colon < 0 else (buffer[begin:colon], colon + 1)
        if at < end and buffer[at] == 32:
            at += 1
        if end - at < _LARGE:
            value = bytes(buffer[at:end])
        else:
            with memoryview(buffer) as whole, whole[at:end] as part:
                value = bytes(part)
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "surrogateescape")  # it is sent back as the bytes that came
        elif name == b"retry" and value.isdigit() and len(value) < 12:
            self._retry = min(int(value), _MAX_RETRY)

    def _dispatch(self, events: List[StreamEvent]) -> None:
        if self._data or self._id is not None or self._retry is not None:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(StreamEvent(self._event or "message", data, self._id, self._retry))
        self._reset()


def encode_event(data: bytes, id: Optional[str] = None, event: str = "message") -> bytes:
    """Return one event; *data* has no line breaks, which JSON text never has (HTTP-39)."""
    head = b"event: message\ndata: " if event == "message" else b"event: %s\ndata: " % event.encode("ascii")
    if id is not None:
        head = b"id: %s\n%s" % (id.encode("ascii"), head)
    return b"".join((head, data, b"\n\n"))
