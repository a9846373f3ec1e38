"""Newline framing: chunks of bytes in, whole lines out, with a bound on their length.

A long line takes linear time: its chunks are collected and joined once. The state changes with one assignment, so
that an exception between two bytecodes, from a signal handler, leaves the buffer as it was before or after a step.
"""

from __future__ import annotations

import operator
from collections import deque
from typing import Deque, Iterable, List, Optional, Tuple

__all__ = ["CutLine", "KEPT_BYTES", "LineBuffer"]

#: Bytes of a line over the limit that are kept from its beginning, and from its end.
KEPT_BYTES = 65_536
#: A line of so many times the limit, and of so many bytes, counts as one without an end.
_ENDLESS_TIMES, _ENDLESS_BYTES = 64, 64 << 20
#: Chunks of such a line that gather before they are cut to the bytes that are kept.
_GATHERED = 32
#: What a line without a message consists of: white space, and byte order marks.
_BLANK = b" \t\r\v\f\xef\xbb\xbf"
#: Returns what else is in a line. Written in C, since it is asked of each one.
_message_in = operator.methodcaller("strip", _BLANK)
_State = Tuple[Deque[bytes], List[bytes], int, int, Optional[bytes]]


class CutLine(bytes):
    """The beginning of a line that was over the limit; the rest was dropped as it arrived.

    :param head: its first bytes. This object has one more, which is part of no JSON text, so that it is none itself.
    :param tail: its last bytes, without those in *head*.
    :param size: how many it had.
    :param limit: how many it may have.
    """

    tail: bytes
    size: int
    limit: int

    def __new__(cls, head: bytes, tail: bytes, size: int, limit: int) -> CutLine:
        line = super().__new__(cls, head + b"\0")
        line.tail, line.size, line.limit = tail, size, limit
        return line


class LineBuffer:
    """Cuts a byte stream into lines.

    Blank lines are skipped, and a carriage return before the line end is removed (STD-25). A byte order mark stays: what
    reads JSON skips it. Of a line of more than *limit* bytes, only the first and last 64 KiB are kept while it arrives; at
    its end it is a :class:`CutLine` among the others (SEC-60).

    :param limit: bytes of one line, without its end.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("limit must be at least 1 byte")
        self.limit = limit
        #: The bytes up to which an unfinished line is kept whole. One byte more than the limit may be the carriage return.
        self._most_kept = max(limit + 1, KEPT_BYTES)
        self._endless_bytes = max(_ENDLESS_BYTES, _ENDLESS_TIMES * limit)
        #: The whole lines; the chunks of the unfinished line and, behind them, the new chunks; the number of chunks that were
        #: scanned; the bytes of the unfinished line; its head, if it is over the limit: its chunks are its latest bytes then.
        self._state: _State = (deque(), [], 0, 0, None)
        #: Whether the stream has ended, as far as it was looked at.
        self.ended = False
        #: Whether the unfinished line is so long that its end need not be waited for: the peer floods (SEC-60).
        self.endless = False

    @property
    def arrived(self) -> List[bytes]:
        """The list that a reader may append chunks to, in one step; an empty chunk is the end."""
        return self._state[1]

    @property
    def pending(self) -> int:
        """Bytes of the unfinished line."""
        return self._absorb()[3]

    @property
    def ready(self) -> bool:
        """Whether there is a whole line."""
        return bool(self._state[0] or self._absorb()[0])

    def feed(self, chunk: bytes) -> None:
        """Add a chunk; an empty chunk is the end."""
        self._state[1].append(chunk)

    def first(self) -> Optional[bytes]:
        """Return the oldest whole line and keep it; None if there is none."""
        lines, chunks, seen, size, _ = self._state
        if len(chunks) > seen:
            if len(chunks) == 1 and not (size or lines):
                # One whole line, as a peer that answers sends it.
                chunk = chunks[0]
                line = chunk[:-1]
                if chunk.find(b"\n") == len(line) <= self.limit and line[-1:] == b"}":
                    self._state = (deque((line,)), [], 0, 0, None)
                    return line
            lines = self._absorb()[0]
        return lines[0] if lines else None

    def drop(self) -> None:
        """Remove the line that :meth:`first` returned."""
        self._state[0].popleft()

    def next(self) -> Optional[bytes]:
        """Return the oldest whole line and remove it; None if there is none."""
        lines = self._absorb()[0]
        return lines.popleft() if lines else None

    def _absorb(self) -> "_State":
        """Scan the new chunks, and return the state."""
        state = self._state
        while len(state[1]) > state[2]:
            lines, chunks, seen, size, head = state
            chunk = chunks[seen]
            if not chunk:
                self.ended = True
                del chunks[seen]
                continue
            if b"\n" not in chunk:
                size += len(chunk)
                seen += 1
                if head is None and size > self._most_kept:
                    head = _first(chunks)
                if head is not None and seen >= _GATHERED:
                    chunks, seen = [_last(chunks[:seen]), *chunks[seen:]], 1
                state = self._state = (lines, chunks, seen, size, head)
                self.endless = size > self._endless_bytes
                continue
            # All new chunks at once, so that each line is copied once: behind a long line there is little.
            stop = seen + 1
            while stop < len(chunks) and chunks[stop]:
                stop += 1
            fresh = b"".join(chunks[seen:stop]) if stop > seen + 1 else chunk
            parts = fresh.split(b"\n")
            tail = parts.pop()
            lines = deque(lines)
            rest = chunks[stop:]
            if seen:
                end = parts.pop(0)
                self._add(lines, b"".join([*chunks[:seen], end]), size + len(end), head)
            if len(fresh) <= self.limit and b"\r" not in fresh:
                lines.extend(filter(_message_in, parts))
            else:
                for part in parts:
                    self._add(lines, part, len(part), None)
            state = self._state = (lines, [tail, *rest] if tail else rest, 0, 0, None)
            self.endless = False
        return state

    def _add(self, lines: Deque[bytes], line: bytes, size: int, head: Optional[bytes]) -> None:
        """Add a line to others, unless it is blank.

        :param line: the whole of it, or its latest bytes if it has a *head*.
        :param size: its bytes in all.
        """
        if line[-1:] == b"\r":
            line, size = line[:-1], size - 1
        if size <= self.limit:
            if line.strip(_BLANK):
                lines.append(line)
            return
        if head is None:
            head = line[:KEPT_BYTES]
        tail = line[len(line) - min(size - len(head), KEPT_BYTES):]
        if head.strip(_BLANK) or tail.strip(_BLANK):
            lines.append(CutLine(head, tail, size, self.limit))


def _first(chunks: Iterable[bytes]) -> bytes:
    """Return the first bytes of a line that are kept."""
    return b"".join(_enough(chunks))[:KEPT_BYTES]


def _last(chunks: List[bytes]) -> bytes:
    """Return the last bytes of a line that are kept."""
    return b"".join(reversed(_enough(reversed(chunks))))[-KEPT_BYTES:]


def _enough(chunks: Iterable[bytes]) -> List[bytes]:
    kept: List[bytes] = []
    size = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        if size >= KEPT_BYTES:
            break
    return kept
