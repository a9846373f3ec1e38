"""Newline framing: chunks of bytes in, whole lines out, with a bound on their length.

A long line takes linear time: its chunks are collected and joined once. The state changes with one assignment, so
that an exception between two bytecodes, from a signal handler, leaves the buffer as it was before or after a step.

If a line is too long, its two ends show the id of its message, and whether it is a request. So only this call fails, and the
connection stays open.
"""

from __future__ import annotations

import json
import operator
import re
from collections import deque
from typing import Any, Deque, Dict, Iterable, List, Optional, Tuple, Union

from ..errors import INVALID_REQUEST
from .jsonrpc import DEFAULT_LIMITS, Batch, Id, Invalid, JSONLimits, Message, Request, encode_json, parse, refuse_constant

#: Bytes of a line over the limit that are kept from its beginning, and from its end.
KEPT_BYTES = 65_536
#: A line counts as one without an end if it is longer than this many times the limit, and longer than this many bytes.
_ENDLESS_TIMES, _ENDLESS_BYTES = 64, 64 << 20
#: Chunks of a line over the limit that are collected before they are cut to the last ``KEPT_BYTES``.
_GATHERED = 32
#: The bytes of a line without a message: white space, and byte order marks.
_BLANK = b" \t\r\v\f\xef\xbb\xbf"
#: Returns a line without these bytes at its ends; empty for a line without a message. It is written in C, since it is called
#: for each line.
_message_in = operator.methodcaller("strip", _BLANK)
_State = Tuple[Deque[bytes], List[bytes], int, int, Optional[bytes]]


class CutLine(bytes):
    """The beginning of a line that was over the limit; of the rest, only the last bytes were kept as it arrived.

    :param head: its first bytes. This object has a NUL behind them: no JSON text has one, so this object is never read as JSON.
    :param tail: its last bytes, without those in *head*.
    :param size: how many bytes the line had.
    :param limit: how many bytes a line may have.
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

    Blank lines are skipped, and a carriage return before the line end is removed (STD-25). A byte order mark stays: the reader
    of the JSON skips it. Of a line of more than *limit* bytes, only the first and last 64 KiB are kept while it arrives; when
    it ends, a :class:`CutLine` takes its place among the lines (SEC-60).

    :param limit: bytes of one line, without its end.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("limit must be at least 1 byte")
        self.limit = limit
        #: The bytes up to which an unfinished line is kept whole. The one byte above the limit may be the carriage return.
        self._most_kept = max(limit + 1, KEPT_BYTES)
        self._endless_bytes = max(_ENDLESS_BYTES, _ENDLESS_TIMES * limit)
        #: The whole lines; the chunks of the unfinished line and, behind them, the new chunks; the number of chunks that were
        #: scanned; the bytes of the unfinished line; its head if it is over the limit, or None. With a head, the scanned chunks
        #: have only the latest bytes of the line.
        self._state: _State = (deque(), [], 0, 0, None)
        #: Whether the scan of the chunks has come to the end of the stream.
        self.ended = False
        #: Whether the unfinished line is so long that a reader should not wait for its end: the peer floods (SEC-60).
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
        if not lines and len(chunks) > seen:
            if len(chunks) == 1 and not size:
                # The chunk is one whole line, as most answers come.
                chunk = chunks[0]
                line = chunk[:-1]
                if chunk.find(b"\n") == len(line) <= self.limit and line[-1:] == b"}":
                    return line
            lines = self._absorb()[0]
        return lines[0] if lines else None

    def drop(self) -> None:
        """Remove the line that :meth:`first` returned."""
        lines, chunks, _, _, _ = self._state
        if lines:
            lines.popleft()
        else:
            del chunks[0]

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
            # All new chunks are joined and split in one step, so that each line is copied once. Few bytes follow the end of a
            # long line.
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
        """Add a line to *lines*, unless it is blank.

        :param line: the whole line; only its latest bytes if there is a *head*.
        :param size: the bytes of the whole line.
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


#: A pattern of the members that may follow a long member of a message, and how many of its matches are tried, from the end on.
_MEMBER = r'(?<!\\)"(?:id|jsonrpc|method)"\s*:'
_MOST_PLACES = 64
#: The white space of JSON.
_BLANKS = frozenset(" \t\r\n")
#: Stands for a value that was cut.
_CUT = object()


def refuse_unread(head: bytes, tail: bytes, invalid: Invalid, answers: bool, limits: JSONLimits = DEFAULT_LIMITS,
                  ) -> Union[Invalid, Batch]:
    """Return the refused message, or a batch of them, for a text that is not read as a whole, with the ids that its ends show.

    An id counts if it is certain that it is a member of a message itself, and not of its params.

    :param head, tail: the beginning and the end of the text; they may overlap.
    :param invalid: says why it is refused; returned as it is if the ends show neither an id nor a notification.
    :param answers: whether a message is a response if its ends show no method, params, result or error.
    """
    front, back = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n"), tail.decode("utf-8", "replace")
    if front[:1] == "[":  # an array of messages
        first, last = _messages_in_front(front), _messages_behind(back)
        if first and last and "id" not in first[-1]:
            first[-1].update(last.pop(0))
        read = [_refusal(members, invalid, answers, limits) for members in first + last]
        found: Dict[Id, Message] = {refused.id: refused for refused in reversed(read) if refused.id is not None}
        return Batch([*reversed(found.values())]) if found else invalid
    if front[:1] != "{":
        return invalid
    members, _ = _members(front, 1)
    behind = _messages_behind(back)
    return _refusal({**behind[0], **members} if len(behind) == 1 else members, invalid, answers, limits)


def _refusal(members: Dict[str, Any], invalid: Invalid, answers: bool, limits: JSONLimits) -> Invalid:
    method = members.get("method")
    if "method" in members or "params" in members:
        answers = False
    elif "result" in members or "error" in members:
        answers = True
    if members.get("id", _CUT) is not _CUT:
        read = parse(encode_json({"jsonrpc": "2.0", "id": members["id"], "method": ""}).encode("utf-8", "replace"), limits)
        if isinstance(read, Request):
            return Invalid(read.id, INVALID_REQUEST, invalid.message, answers, invalid.oversized)
    if type(method) is str and method.startswith("notifications/"):
        return Invalid(None, invalid.code, invalid.message, True, invalid.oversized)
    return invalid


def _members(text: str, at: int) -> Tuple[Dict[str, Any], int]:
    """Return the members of an object, as far as the text has them, and the place behind the object; 0 if it is cut.

    :param at: the place behind its first brace, or the beginning of one of its members.
    """
    members: Dict[str, Any] = {}
    decode = json.JSONDecoder(parse_constant=refuse_constant).raw_decode
    try:
        while True:
            key, at = decode(text, _behind_blanks(text, at))
            at = _behind_blanks(text, at)
            if type(key) is not str or text[at] != ":":
                break
            members[key] = _CUT
            value, at = decode(text, _behind_blanks(text, at + 1))
            end = _behind_blanks(text, at)
            sign = text[end]  # IndexError at the end of the text: the number might go on
            if sign not in ",}":
                break
            members[key], at = value, end + 1
            if sign == "}":
                return members, at
    except (ValueError, IndexError, RecursionError):
        pass  # the text is cut here
    return members, 0


def _behind_blanks(text: str, at: int) -> int:
    while text[at:at + 1] in _BLANKS:
        at += 1
    return at


def _messages_in_front(text: str) -> List[Dict[str, Any]]:
    """Return the members of the messages at the beginning of an array; the last one may be cut."""
    found = []
    at = _behind_blanks(text, 1)
    while at and text[at:at + 1] == "{":
        members, at = _members(text, at + 1)
        found.append(members)
        if at:
            at = _behind_blanks(text, at)
            at = _behind_blanks(text, at + 1) if text[at:at + 1] == "," else 0
    return found


def _messages_behind(text: str) -> List[Dict[str, Any]]:
    """Return the members of the messages at the end of a text: of one, or of an array. The first message may lack members.

    The text may begin in the middle of a string. A place is right if the text from there to its end is the rest of a message or
    of an array.
    """
    for place in list(re.finditer(_MEMBER, text))[-_MOST_PLACES:]:
        members, at = _members(text, place.start())
        found = [members]
        while at:
            at = _behind_blanks(text, at)
            if at == len(text) or text[at] == "]" and not text[at + 1:].strip():
                return found
            at = _behind_blanks(text, at + 1) if text[at] == "," else 0
            if not at or text[at:at + 1] != "{":
                break
            members, at = _members(text, at + 1)
            found.append(members)
    return []
