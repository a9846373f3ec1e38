"""Newline framing: chunks of bytes in, whole lines out, with a bound on their length.

May import: nothing of ours.

Long lines cost linear time: their chunks are collected and joined once. All state changes with one
assignment, so that an exception which strikes between two bytecodes (a signal handler that raises)
leaves the buffer as it was before or after a step, never in between.
"""

from collections import deque
from typing import Deque, List, Optional, Tuple

__all__ = ["LineBuffer"]

_BOM = b"\xef\xbb\xbf"


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
        self._lines: Deque[bytes] = deque()
        #: Chunks of the unfinished line, then chunks that nobody has looked at yet; how many were
        #: looked at; their bytes; whether the line is being thrown away.
        self._state: Tuple[List[bytes], int, int, bool] = ([], 0, 0, False)
        self._oversize = 0
        self._started = False
        self._ended = False

    @property
    def arrived(self) -> List[bytes]:
        """Where a reader may put chunks by itself, in one step; an empty chunk is the end."""
        return self._state[0]

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was seen."""
        self._absorb()
        return self._ended

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun and not ended."""
        self._absorb()
        return self._state[2]

    @property
    def ready(self) -> bool:
        """Whether a whole line is there."""
        self._absorb()
        return bool(self._lines)

    def feed(self, chunk: bytes) -> None:
        """Take in what arrived; an empty chunk is the end."""
        self._state[0].append(chunk)

    def first(self) -> Optional[bytes]:
        """Return the oldest whole line and keep it; None when there is none."""
        self._absorb()
        return self._lines[0] if self._lines else None

    def drop(self) -> None:
        """Forget the line that :meth:`first` returned."""
        self._lines.popleft()

    def next(self) -> Optional[bytes]:
        """Return the oldest whole line and forget it; None when there is none."""
        self._absorb()
        return self._lines.popleft() if self._lines else None

    def take_oversize(self) -> bool:
        """Tell, once for each, that a line was longer than the limit."""
        if self._oversize:
            self._oversize -= 1
            return True
        return False

    def _absorb(self) -> None:
        chunks, seen, size, discarding = self._state
        while len(chunks) > seen:
            chunk = chunks[seen]
            if not chunk:
                self._ended = True
                del chunks[seen]
                continue
            if b"\n" not in chunk:
                size += len(chunk)
                seen += 1
                # One byte more than the limit may be the carriage return of the line end.
                if discarding or size > self.limit + 1:
                    del chunks[:seen]
                    seen, discarding = 0, True
                self._state = (chunks, seen, size, discarding)
                continue
            head = b"".join(chunks[:seen + 1]) if seen else chunk
            parts = head.split(b"\n")
            tail = parts.pop()
            lines, oversize = self._lines.copy(), self._oversize
            for part in parts:
                if part.endswith(b"\r"):
                    part = part[:-1]
                if not self._started:
                    self._started = True
                    if part.startswith(_BOM):
                        part = part[len(_BOM):]
                if discarding or len(part) > self.limit:
                    oversize += 1
                    discarding = False
                elif part and not part.isspace():
                    lines.append(part)
            rest = ([tail] if tail else []) + chunks[seen + 1:]
            self._lines, self._oversize, self._state = lines, oversize, (rest, 0, 0, False)
            chunks, seen, size, discarding = self._state
