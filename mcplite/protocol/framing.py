"""Newline framing: chunks of bytes in, whole lines out, with a bound on their length.

Long lines cost linear time: their chunks are collected and joined once. All state changes with one
assignment, so that an exception which strikes between two bytecodes (a signal handler that raises)
leaves the buffer as it was before or after a step, never in between.
"""

from collections import deque
from typing import Deque, List, Optional, Tuple

__all__ = ["LineBuffer"]

_BOM = b"\xef\xbb\xbf"
_State = Tuple[Deque[bytes], int, List[bytes], int, int, bool]


class LineBuffer:
    """Cuts a byte stream into lines.

    Blank lines are skipped, a carriage return before the line end and a byte order mark at the very
    start are stripped (STD-25). A line of more than *limit* bytes is thrown away while it streams in
    and reported once by :meth:`take_oversize`.

    :param limit: bytes that one line may have, without its end.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("limit must be at least 1 byte")
        self.limit = limit
        #: Whole lines; how many were too long; the chunks of the unfinished line, then those that nobody
        #: has looked at yet; how many were looked at; their bytes; whether the line is thrown away.
        self._state: _State = (deque(), 0, [], 0, 0, False)
        self._started = False
        self._ended = False

    @property
    def arrived(self) -> List[bytes]:
        """Where a reader may put chunks by itself, in one step; an empty chunk is the end."""
        return self._state[2]

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was seen."""
        self._absorb()
        return self._ended

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun and not ended."""
        return self._absorb()[4]

    @property
    def ready(self) -> bool:
        """Whether a whole line is there."""
        return bool(self._absorb()[0])

    def feed(self, chunk: bytes) -> None:
        """Take in what arrived; an empty chunk is the end."""
        self._state[2].append(chunk)

    def first(self) -> Optional[bytes]:
        """Return the oldest whole line and keep it; None when there is none."""
        lines = self._absorb()[0]
        return lines[0] if lines else None

    def drop(self) -> None:
        """Forget the line that :meth:`first` returned."""
        self._state[0].popleft()

    def next(self) -> Optional[bytes]:
        """Return the oldest whole line and forget it; None when there is none."""
        lines = self._absorb()[0]
        return lines.popleft() if lines else None

    @property
    def oversize(self) -> int:
        """How many lines were longer than the limit and not yet taken note of."""
        return self._state[1]

    def take_oversize(self) -> bool:
        """Tell, once for each, that a line was longer than the limit."""
        lines, oversize, *rest = self._absorb()
        if oversize:
            self._state = (lines, oversize - 1, *rest)  # type: ignore[assignment]
        return oversize > 0

    def _absorb(self) -> "_State":
        """Look at what has arrived, and return the state."""
        state = self._state
        while len(state[2]) > state[3]:
            lines, oversize, chunks, seen, size, discarding = state
            chunk = chunks[seen]
            if not chunk:
                self._ended = True
                del chunks[seen]
                continue
            if b"\n" not in chunk:
                size += len(chunk)
                seen += 1
                # One byte more than the limit may be the carriage return of the line end, three may be the mark.
                if discarding or size > self.limit + (1 if self._started else 1 + len(_BOM)):
                    # Said at once, not when the line ends: it may never end (SEC-60).
                    oversize += not discarding
                    chunks, seen, discarding = chunks[seen:], 0, True
                state = self._state = (lines, oversize, chunks, seen, size, discarding)
                continue
            # All that is there up to the end, so that the lines are copied once however many chunks have gathered.
            stop = seen + 1
            while stop < len(chunks) and chunks[stop]:
                stop += 1
            head = b"".join(chunks[:stop]) if stop > 1 else chunk
            parts = head.split(b"\n")
            tail = parts.pop()
            lines = deque(lines)
            rest = chunks[stop:]
            if self._started and not discarding and len(head) <= self.limit and b"\r" not in head:
                lines.extend(filter(bytes.strip, parts))
                state = self._state = (lines, oversize, [tail, *rest] if tail else rest, 0, 0, False)
                continue
            for part in parts:
                if part[-1:] == b"\r":
                    part = part[:-1]
                if not self._started:
                    self._started = True
                    if part.startswith(_BOM):
                        part = part[len(_BOM):]
                if discarding or len(part) > self.limit:
                    oversize += not discarding
                    discarding = False
                elif part and not part.isspace():
                    lines.append(part)
            state = self._state = (lines, oversize, [tail, *rest] if tail else rest, 0, 0, False)
        return state
