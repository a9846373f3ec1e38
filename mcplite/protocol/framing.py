"""Newline framing: chunks of bytes in, whole lines out, with a bound on their length.

A long line takes linear time: its chunks are collected and joined once. The state changes with one assignment, so
that an exception between two bytecodes, from a signal handler, leaves the buffer as it was before or after a step.
"""

from __future__ import annotations

from collections import deque
from typing import Deque, List, Optional, Tuple

__all__ = ["LineBuffer"]

_BOM = b"\xef\xbb\xbf"
#: White space of a line has no byte above this one.
_SPACE = b" "
_State = Tuple[Deque[bytes], int, List[bytes], int, int, bool]


class LineBuffer:
    """Cuts a byte stream into lines.

    Blank lines are skipped; a carriage return before the line end and a byte order mark at the start are removed
    (STD-25). A line of more than *limit* bytes is discarded as it arrives, and reported once by
    :meth:`take_oversize`.

    :param limit: bytes of one line, without its end.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("limit must be at least 1 byte")
        self.limit = limit
        #: The whole lines; the number of lines that were too long; the chunks of the unfinished line and, behind
        #: them, the new chunks; the number of chunks that were scanned; their bytes; whether the line is discarded.
        self._state: _State = (deque(), 0, [], 0, 0, False)
        self._started = False
        self._ended = False
        #: Whether a line was too long, or the stream has ended: a reader that takes lines has to look at both.
        self.noted = False

    @property
    def arrived(self) -> List[bytes]:
        """The list that a reader may append chunks to, in one step; an empty chunk is the end."""
        return self._state[2]

    @property
    def ended(self) -> bool:
        """Whether the stream has ended."""
        self._absorb()
        return self._ended

    @property
    def pending(self) -> int:
        """Bytes of the unfinished line."""
        return self._absorb()[4]

    @property
    def ready(self) -> bool:
        """Whether there is a whole line."""
        return bool(self._state[0] or self._absorb()[0])

    def feed(self, chunk: bytes) -> None:
        """Add a chunk; an empty chunk is the end."""
        self._state[2].append(chunk)

    def first(self) -> Optional[bytes]:
        """Return the oldest whole line and keep it; None if there is none."""
        lines, _, chunks, seen, _, _ = self._state
        if len(chunks) > seen:
            lines = self._absorb()[0]
        return lines[0] if lines else None

    def drop(self) -> None:
        """Remove the line that :meth:`first` returned."""
        self._state[0].popleft()

    def next(self) -> Optional[bytes]:
        """Return the oldest whole line and remove it; None if there is none."""
        lines = self._absorb()[0]
        return lines.popleft() if lines else None

    @property
    def oversize(self) -> int:
        """The number of lines over the limit that :meth:`take_oversize` has not reported yet."""
        return self._state[1]

    def take_oversize(self) -> bool:
        """Whether a line was longer than the limit; True once for each."""
        lines, oversize, *rest = self._absorb()
        if oversize:
            self._state = (lines, oversize - 1, *rest)  # type: ignore[assignment]
        else:
            self.noted = self._ended
        return oversize > 0

    def _absorb(self) -> "_State":
        """Scan the new chunks, and return the state."""
        lines, oversize, chunks, _, size, discarding = state = self._state
        if len(chunks) == 1 and not (size or discarding or lines) and self._started:
            # One whole line, as a peer that answers sends it.
            chunk = chunks[0]
            line = chunk[:-1]
            if chunk.find(b"\n") == len(line) <= self.limit and line[-1:] > _SPACE:
                state = self._state = (deque((line,)), oversize, [], 0, 0, False)
                return state
        while len(state[2]) > state[3]:
            lines, oversize, chunks, seen, size, discarding = state
            chunk = chunks[seen]
            if not chunk:
                self._ended = self.noted = True
                del chunks[seen]
                continue
            if b"\n" not in chunk:
                size += len(chunk)
                seen += 1
                # One byte more than the limit may be the carriage return of the line end, three may be the mark.
                if discarding or size > self.limit + (1 if self._started else 1 + len(_BOM)):
                    # Counted now, since the line may never end (SEC-60).
                    oversize += not discarding
                    self.noted = True
                    chunks, seen, discarding = chunks[seen:], 0, True
                state = self._state = (lines, oversize, chunks, seen, size, discarding)
                continue
            # All new chunks at once, so that each line is copied once: behind a long line there is little.
            stop = seen + 1
            while stop < len(chunks) and chunks[stop]:
                stop += 1
            fresh = b"".join(chunks[seen:stop]) if stop > seen + 1 else chunk
            parts = fresh.split(b"\n")
            tail = parts.pop()
            if seen:
                parts[0] = b"".join([*chunks[:seen], parts[0]])
            lines = deque(lines)
            rest = chunks[stop:]
            if self._started and not seen and not discarding and len(fresh) <= self.limit and b"\r" not in fresh:
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
                    self.noted = True
                    discarding = False
                elif part and not part.isspace():
                    lines.append(part)
            state = self._state = (lines, oversize, [tail, *rest] if tail else rest, 0, 0, False)
        return state
