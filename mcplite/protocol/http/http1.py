"""HTTP/1.1: parses the heads of requests and of responses, the lengths of their bodies, and chunked bodies.

Stricter than most parsers: a proxy in front may interpret a malformed message differently and see one request where
this side sees two, which is request smuggling (SEC-12).
"""

import re
from typing import Dict, List, Optional, Tuple
from urllib.parse import unquote_to_bytes

from .headers import Headers

_REQUEST_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
# Values may have bytes above 0x7f (obs-text), but no control characters. A folded line, and a blank before the
# colon, do not match.
_FIELD = re.compile("([!#$%&'*+\\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_STATUS_LINE = re.compile("HTTP/1\\.([0-9]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
_LENGTH = re.compile(r"[0-9]{1,15}")
#: What stands before the length of a body in a head, and the length.
_LENGTH_FIELD = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})(?=\r\n)", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
#: Bytes of one line with a chunk's size and its extensions.
_CHUNK_LINE = 256
#: Chunks of one body: each costs time, and a sender of many tiny ones wants just that.
_MOST_CHUNKS = 65_536
#: The target of a request to a proxy, which any server must understand (RFC 9112, section 3.2.2).
_ABSOLUTE = re.compile(r"https?://([^/?#@]+)(?=[/?]|$)", re.IGNORECASE)


class BadRequest(Exception):
    """The bytes are not HTTP that can be read; a server closes the connection after its response.

    :param status: the status of that response.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HeadLimits:
    """The limits of a head.

    :param line: bytes of the first line and of each header line.
    :param total: bytes of all lines.
    :param count: number of header lines.
    """

    __slots__ = ("line", "total", "count")

    def __init__(self, line: int = 8192, total: int = 32_768, count: int = 100) -> None:
        self.line = line
        self.total = total
        self.count = count


class RequestHead:
    """The request line and the headers of one request."""

    __slots__ = ("method", "target", "path", "query", "version", "headers", "keep_alive")

    def __init__(self, method: str, target: str, version: Tuple[int, int], headers: Headers) -> None:
        self.method = method
        #: The raw target.
        self.target = target
        self.version = version
        self.headers = headers
        #: Whether the connection stays open for another request.
        self.keep_alive = keeps_alive(version, headers.get("connection"))
        path, _, self.query = target.partition("?")
        if not path.startswith("/") and path != "*":
            path = "/" + path.partition("://")[2].partition("/")[2]
        #: The decoded path, without the query.
        self.path = path if "%" not in path else unquote_to_bytes(path).decode("utf-8", "replace")

    def with_length(self, digits: str) -> "RequestHead":
        """Return a head like this one, whose body has another length."""
        head: RequestHead = object.__new__(RequestHead)
        head.method, head.target, head.path, head.query = self.method, self.target, self.path, self.query
        head.version, head.keep_alive, head.headers = self.version, self.keep_alive, self.headers.with_length(digits)
        return head


#: The bytes of a head before and behind the length of its body.
Form = Tuple[bytes, bytes]


def split_length(block: bytes) -> Tuple[Optional[Form], str]:
    """Return the form of a head and its digits of a length; None if it has none.

    The heads of a row of messages most often differ in the length of the body only. If the form of a head is that of a head
    that was parsed, each of its other bytes was parsed then. A head may have a second length in its form: only one whose length
    was found to be that of its body may be kept for this.
    """
    found = _LENGTH_FIELD.search(block)
    if found is None:
        return None, ""
    start, end = found.span(1)
    return (block[:start], block[end:]), found[1].decode("ascii")


def find_head(buffer: bytearray, limits: HeadLimits) -> Optional[int]:
    """Return the end of the head in *buffer*, behind its empty line; None if it is incomplete.

    :raises BadRequest: it is too long, or has a malformed line end (SEC-07, SEC-12).
    """
    end = buffer.find(b"\r\n\r\n")
    if end >= 0:
        if end > limits.total:
            raise _too_long(buffer, limits)
        return end + 4
    # A CR whose LF has not arrived yet does not count, nor does the start of the empty line.
    if len(buffer) > limits.total + 3 or len(buffer) - (buffer.rfind(b"\n") + 1) > limits.line + 1:
        raise _too_long(buffer, limits)
    if b"\n\n" in buffer or b"\n\r\n" in buffer:
        # The sender takes this for the empty line and waits for a response.
        raise BadRequest(400, "header lines end with CR LF")
    return None


def _too_long(buffer: bytearray, limits: HeadLimits) -> BadRequest:
    line = buffer.find(b"\n")
    if line < 0 or line > limits.line + 1:
        return BadRequest(414, f"the first line has more than {limits.line} bytes")
    return BadRequest(431, f"a header line may have {limits.line} bytes, and all lines together {limits.total}")


def parse_head(block: bytes, limits: HeadLimits) -> RequestHead:
    """Return the head in *block*, which includes the empty line.

    :raises BadRequest: it is malformed, or longer than the limits.
    """
    lines = block[:-4].decode("latin-1").split("\r\n")
    first = lines[0]
    if len(first) > limits.line:
        raise BadRequest(414, f"the request line has more than {limits.line} bytes")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadRequest(400, f"malformed request line: {first[:60]!r}")
    method, target, major, minor = match.groups()
    if major != "1" or minor not in "01":
        raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 are supported")
    pairs = parse_fields(lines, limits)
    headers = Headers(pairs)
    version = (1, int(minor))
    hosts = len(headers.all("host"))
    if hosts > 1 or (not hosts and version == (1, 1)):
        raise BadRequest(400, "a request must have exactly one Host header")
    if not (target.startswith("/") or target == "*"):
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            raise BadRequest(400, f"malformed request target: {target[:60]!r}")
        # The target's authority counts, whatever Host says (RFC 9112, section 3.2.2).
        headers = Headers([("host", absolute.group(1)), *((name, value) for name, value in pairs if name.lower() != "host")])
    return RequestHead(method, target, version, headers)


def parse_fields(lines: List[str], limits: HeadLimits) -> List[Tuple[str, str]]:
    """Return the fields of a head; their values may end with blanks.

    :param lines: the first line of the head, and one for each field.
    :raises BadRequest: one is malformed, or there are more than the limits allow.
    """
    if len(lines) > limits.count + 1:
        raise BadRequest(431, f"a head may have {limits.count} headers")
    found = [*map(_FIELD.fullmatch, lines[1:])]
    if None in found or len(max(lines, key=len)) > limits.line:
        for line, match in zip(lines[1:], found):
            if match is None:
                raise BadRequest(400, f"malformed header line: {line[:60]!r}")
            if len(line) > limits.line:
                raise BadRequest(431, f"a header line may have {limits.line} bytes")
    return [match.groups() for match in found]  # type: ignore[union-attr, misc]


def body_plan(head: RequestHead) -> Optional[int]:
    """Return the length of the body; None for a chunked body.

    :raises BadRequest: the headers are malformed or ambiguous (SEC-12).
    """
    encodings = head.headers.all("transfer-encoding")
    lengths = head.headers.all("content-length")
    if encodings:
        if lengths:
            raise BadRequest(400, "a request has a Content-Length or a Transfer-Encoding, not both")
        if head.version == (1, 0):
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
        if len(encodings) > 1 or encodings[0].lower() != "chunked":
            raise BadRequest(501, f"the transfer encoding {', '.join(encodings)[:60]!r} is not supported; 'chunked' is")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadRequest(400, f"malformed Content-Length: {', '.join(lengths)[:60]!r}")
    return int(lengths[0])


def keeps_alive(version: Tuple[int, int], value: Optional[str]) -> bool:
    """Return whether the connection stays open behind a message.

    :param value: of its Connection field; None without one.
    """
    if value is None:
        return version == (1, 1)
    options = {option.strip(" \t") for option in value.lower().split(",")}
    return "close" not in options and (version == (1, 1) or "keep-alive" in options)


class ChunkedDecoder:
    """Decodes a chunked body.

    :param limit: bytes of the decoded body; None for any number of bytes and of chunks.
    :param trailers: bytes of the trailer fields, which are dropped; 0 to refuse them.
    """

    def __init__(self, limit: Optional[int], trailers: int = 0) -> None:
        self._limit = limit
        self._trailers, self._refuses_trailers = trailers, not trailers
        self._buffer = bytearray()
        self._total = 0
        self._chunks = 0
        #: Bytes left of the current chunk; None between chunks.
        self._left: Optional[int] = None
        #: Whether the last chunk has come, behind which trailers may stand.
        self._ending = False
        #: Whether the body has ended.
        self.done = False

    @property
    def rest(self) -> bytes:
        """The bytes behind the end of the body."""
        return bytes(self._buffer) if self.done else b""

    def feed(self, data: bytes) -> bytes:
        """Return the decoded part of the body that *data* completes.

        :raises BadRequest: the chunks are malformed, have trailers, or exceed the limit (SEC-05).
        """
        if self._left and len(data) <= self._left and not self._buffer:
            self._left -= len(data)  # all of it is in the middle of one chunk
            return data
        self._buffer += data
        out = bytearray()
        while not self.done and self._step(out):
            continue
        return bytes(out)

    def _step(self, out: bytearray) -> bool:
        """Take one part off the buffer; False if it is incomplete."""
        if self._left is None:
            return self._trailer() if self._ending else self._size()
        buffer = self._buffer
        if self._left:
            piece = buffer[:self._left]
            del buffer[:len(piece)]
            out += piece
            self._left -= len(piece)
            return not self._left
        if len(buffer) < 2:
            return False
        if buffer[:2] != b"\r\n":
            raise BadRequest(400, "a chunk is longer than its size says")
        del buffer[:2]
        self._left = None
        return True

    def _size(self) -> bool:
        line, separator, _ = self._buffer[:_CHUNK_LINE + 2].partition(b"\r\n")
        if not separator:
            if len(self._buffer) > _CHUNK_LINE + 1 or b"\n" in line:
                raise BadRequest(400, "malformed chunk size")
            return False
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise BadRequest(400, f"malformed chunk size: {bytes(line[:40])!r}")
        size = int(match.group(1), 16)
        if self._limit is not None:
            self._total += size
            if self._total > self._limit:
                raise BadRequest(413, "send less in one message, or raise Limits.message_bytes of the server: the body has"
                                      f" more than {self._limit} bytes")
            self._chunks += 1
            if self._chunks > _MOST_CHUNKS:
                raise BadRequest(413, f"the body has more than {_MOST_CHUNKS} chunks")
        del self._buffer[:len(line) + 2]
        if size:
            self._left = size
        else:
            self._ending = True
        return True

    def _trailer(self) -> bool:
        line, separator, _ = self._buffer[:self._trailers + 2].partition(b"\r\n")
        if self._refuses_trailers and line.lstrip(b"\r"):
            raise BadRequest(400, "trailers are not supported")
        if not separator:
            if len(self._buffer) > self._trailers + 1 or b"\n" in line:
                raise BadRequest(400, "malformed trailers, or more of them than are read")
            return False
        if line and _FIELD.fullmatch(line.decode("latin-1")) is None:
            raise BadRequest(400, f"malformed trailer: {bytes(line[:40])!r}")
        del self._buffer[:len(line) + 2]
        self._trailers -= len(line)
        self.done = not line
        return True


#: The limits of the lines of a response's head: few servers keep to the limits of requests.
_LIMITS = HeadLimits(line=65_536, total=65_536, count=1000)


class BadResponse(Exception):
    """The bytes are not a response that can be read; its connection is closed."""


class ResponseHead:
    """The status line and the headers of one response.

    :param fields: the raw names and values, which may end with blanks.
    :param bare: whether it has no body, whatever its headers say: by its status, or as the answer to HEAD.
    :raises BadResponse: it does not say how the body ends.
    """

    __slots__ = ("status", "reason", "headers", "kind", "length", "chunked", "keep_alive")

    def __init__(self, status: int, reason: str, version: Tuple[int, int], fields: List[Tuple[str, str]], bare: bool) -> None:
        self.status = status
        self.reason = reason
        #: By name in lower case; the values of repeated fields are joined by commas.
        self.headers: Dict[str, str] = {}
        headers = self.headers
        for name, value in fields:
            name, value = name.lower(), value.rstrip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        #: The media type, without parameters and in lower case.
        self.kind = media_type(headers)
        #: Bytes of the body; None if it is chunked, or ends with the connection.
        self.length: Optional[int] = None
        self.chunked = False
        #: Whether the connection can serve another request behind the body.
        self.keep_alive = keeps_alive(version, headers.get("connection"))
        encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if encoding is not None:
            if encoding.lower() != "chunked":
                raise BadResponse(f"the transfer encoding {encoding[:60]!r} is not supported; 'chunked' is")
            self.chunked = True
            if length is not None or version == (1, 0):
                self.keep_alive = False  # another reader on the way may have found another end (RFC 9112, section 6.1)
        elif length is not None:
            lengths = {value.strip(" \t") for value in length.split(",")}  # one that was repeated (RFC 9110, section 8.6)
            if len(lengths) > 1 or not _LENGTH.fullmatch(next(iter(lengths))):
                raise BadResponse(f"malformed Content-Length: {length[:60]!r}")
            self.length = int(lengths.pop())
        elif not bare:
            self.keep_alive = False
        if bare:
            if status == 204 and (self.chunked or self.length):
                self.keep_alive = False  # it must not have these fields, so that a body may follow
            self.length, self.chunked = 0, False

    def with_length(self, digits: str) -> "ResponseHead":
        """Return a head like this one, whose body has another length."""
        head: ResponseHead = object.__new__(ResponseHead)
        head.status, head.reason, head.kind = self.status, self.reason, self.kind
        head.headers, head.length = {**self.headers, "content-length": digits}, int(digits)
        head.chunked, head.keep_alive = self.chunked, self.keep_alive
        return head


class ResponseHeads:
    """Parses the heads of one server's responses; any thread may use it."""

    def __init__(self) -> None:
        #: The method and the form of a head, and what it was parsed to. Both are set in one step, so that no lock is needed.
        self._last: Tuple[Optional[Tuple[str, Form]], Optional[ResponseHead]] = (None, None)

    def parse(self, block: bytes, method: str) -> ResponseHead:
        """Return the head in *block*, as :func:`parse_response_head` does."""
        form, digits = split_length(block)
        if form is None:
            return parse_response_head(block, method)
        last, head = self._last
        if head is not None and last == (method, form):
            return head.with_length(digits)
        head = parse_response_head(block, method)
        # One with two lengths, or whose length does not count, as that of an answer to HEAD, is parsed each time.
        if head.length and str(head.length) == digits == head.headers.get("content-length"):
            self._last = (method, form), head
        return head


def media_type(headers: Dict[str, str]) -> str:
    """Return the media type of a body, without parameters and in lower case; empty for none.

    :param headers: by name in lower case.
    """
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def find_response_head(buffer: bytearray) -> Optional[int]:
    """Return the end of the head in *buffer*, behind its empty line; None if it is incomplete.

    :raises BadResponse: it is too long, or has a malformed line end.
    """
    try:
        return find_head(buffer, _LIMITS)
    except BadRequest as error:
        raise BadResponse(str(error)) from None


def parse_response_head(block: bytes, method: str) -> ResponseHead:
    """Return the head in *block*, which includes the empty line.

    :param method: of the request.
    :raises BadResponse: it is malformed, or longer than the limits.
    """
    lines = block[:-4].decode("latin-1").split("\r\n")
    match = _STATUS_LINE.fullmatch(lines[0])
    if match is None:
        raise BadResponse(f"malformed status line: {lines[0][:60]!r}")
    minor, code, reason = match.groups()
    status = int(code)
    try:
        fields = parse_fields(lines, _LIMITS)
    except BadRequest as error:
        raise BadResponse(str(error)) from None
    if status < 200 and status != 101:
        fields = []  # those of an interim response are not the answer's (RFC 9110, section 15.2)
    return ResponseHead(status, (reason or "").strip(" \t"), (1, min(int(minor), 1)), fields,
                        status in (204, 304) or method == "HEAD")
