"""HTTP/1.1 requests as bytes: the head of one, the plan for its body, the chunks of it.

Stricter than most, because a proxy in front may read a message that bends the rules in another way
than we do, and take one request for two (SEC-12). There is no I/O here: bytes in, values out.
"""

import re
from typing import List, Optional, Tuple
from urllib.parse import unquote_to_bytes

from .headers import Headers

__all__ = ["BadRequest", "ChunkedDecoder", "HeadLimits", "RequestHead", "body_plan", "find_head", "parse_head"]

_REQUEST_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
# Values may have bytes above 0x7f (obs-text), but no control character; a line that begins with a blank
# (a folded one) and a blank before the colon do not match.
_FIELD = re.compile("([!#$%&'*+\\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
#: Of one line with a chunk's size and its extensions.
_CHUNK_LINE = 256


class BadRequest(Exception):
    """What came is no request that can be served; the connection is closed behind the answer.

    :param status: to answer with.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HeadLimits:
    """The bounds of a request's head.

    :param line: bytes of the request line and of each header line.
    :param total: bytes of all lines.
    :param count: of header lines.
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
        #: As it came.
        self.target = target
        self.version = version
        self.headers = headers
        #: Whether the sender means to send another request on the connection.
        self.keep_alive = _keep_alive(version, headers)
        path, _, self.query = target.partition("?")
        if not path.startswith("/") and path != "*":
            # The absolute form, which is meant for proxies, names what the Host names.
            path = "/" + path.partition("://")[2].partition("/")[2]
        #: Decoded, without the query.
        self.path = path if "%" not in path else unquote_to_bytes(path).decode("utf-8", "replace")


def find_head(buffer: bytearray, limits: HeadLimits) -> Optional[int]:
    """Return where the head in *buffer* ends, behind its empty line; None when more has to come.

    :raises BadRequest: it is too long already, or a line has ended in a way that no line may (SEC-07, SEC-12).
    """
    end = buffer.find(b"\r\n\r\n")
    if end >= 0:
        if end > limits.total:
            raise _too_long(buffer, limits)
        return end + 4
    # The CR of a line whose LF is on its way does not count, nor does what has come of the empty line.
    if len(buffer) > limits.total + 3 or len(buffer) - (buffer.rfind(b"\n") + 1) > limits.line + 1:
        raise _too_long(buffer, limits)
    if b"\n\n" in buffer or b"\n\r\n" in buffer:
        # The sender takes this for an empty line, and would wait for us while we wait for it.
        raise BadRequest(400, "header lines end with CR LF")
    return None


def _too_long(buffer: bytearray, limits: HeadLimits) -> BadRequest:
    line = buffer.find(b"\n")
    if line < 0 or line > limits.line + 1:
        return BadRequest(414, f"the request line has more than {limits.line} bytes")
    return BadRequest(431, f"a header line may have {limits.line} bytes, all of them {limits.total}")


def parse_head(block: bytes, limits: HeadLimits) -> RequestHead:
    """Return the head that *block* is, its empty line included.

    :raises BadRequest: it is not one, or is longer than the limits.
    """
    lines = block[:-4].decode("latin-1").split("\r\n")
    first = lines[0]
    if len(first) > limits.line:
        raise BadRequest(414, f"the request line has more than {limits.line} bytes")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadRequest(400, f"no request line: {first[:60]!r}")
    method, target, major, minor = match.groups()
    if major != "1" or minor not in "01":
        raise BadRequest(505, "HTTP/1.1 is spoken here")
    if len(lines) > limits.count + 1:
        raise BadRequest(431, f"a request may have {limits.count} headers")
    pairs: List[Tuple[str, str]] = []
    for line in lines[1:]:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise BadRequest(400, f"no header: {line[:60]!r}")
        if len(line) > limits.line:
            raise BadRequest(431, f"a header line may have {limits.line} bytes")
        pairs.append((found.group(1), found.group(2)))
    headers = Headers(pairs)
    version = (1, int(minor))
    hosts = len(headers.all("host"))
    if hosts > 1 or (not hosts and version == (1, 1)):
        raise BadRequest(400, "a request has one Host header")
    if not (target.startswith("/") or target == "*" or target.lower().startswith(("http://", "https://"))):
        raise BadRequest(400, f"no target of a request: {target[:60]!r}")
    return RequestHead(method, target, version, headers)


def body_plan(head: RequestHead) -> Optional[int]:
    """Return how many bytes the body has, or None when it comes in chunks.

    :raises BadRequest: the headers do not say it beyond doubt (SEC-12).
    """
    encodings = head.headers.all("transfer-encoding")
    lengths = head.headers.all("content-length")
    if encodings:
        if lengths:
            raise BadRequest(400, "a request has a Content-Length or a Transfer-Encoding, not both")
        if head.version == (1, 0):
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
        if len(encodings) > 1 or encodings[0].lower() != "chunked":
            raise BadRequest(501, f"the transfer encoding {', '.join(encodings)[:60]!r} is not read; 'chunked' is")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadRequest(400, f"no Content-Length: {', '.join(lengths)[:60]!r}")
    return int(lengths[0])


def _keep_alive(version: Tuple[int, int], headers: Headers) -> bool:
    value = headers.get("connection")
    if value is None:
        return version == (1, 1)
    options = {option.strip(" \t") for option in value.lower().split(",")}
    return "close" not in options and (version == (1, 1) or "keep-alive" in options)


class ChunkedDecoder:
    """Takes a body that comes in chunks apart.

    :param limit: bytes that the body may have, decoded.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._total = 0
        #: Of the present chunk; None between chunks.
        self._left: Optional[int] = None
        #: Whether the body has ended.
        self.done = False

    @property
    def rest(self) -> bytes:
        """What came behind the end of the body."""
        return bytes(self._buffer) if self.done else b""

    def feed(self, data: bytes) -> bytes:
        """Return what *data* adds to the body.

        :raises BadRequest: it is not in chunks, has trailers, or has more than the limit (SEC-05).
        """
        self._buffer += data
        out = bytearray()
        while not self.done and self._step(out):
            continue
        return bytes(out)

    def _step(self, out: bytearray) -> bool:
        """Take one part off the buffer; False when more has to come."""
        if self._left is None:
            return self._size()
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
                raise BadRequest(400, "no size of a chunk")
            return False
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise BadRequest(400, f"no size of a chunk: {bytes(line[:40])!r}")
        size = int(match.group(1), 16)
        self._total += size
        if self._total > self._limit:
            raise BadRequest(413, f"the body has more than {self._limit} bytes")
        if size:
            del self._buffer[:len(line) + 2]
            self._left = size
            return True
        return self._last(len(line) + 2)

    def _last(self, at: int) -> bool:
        end = bytes(self._buffer[at:at + 2])
        if len(end) == 2 and end != b"\r\n" or end[:1] not in (b"", b"\r"):
            raise BadRequest(400, "headers behind a body are not read")
        if len(end) < 2:
            return False
        del self._buffer[:at + 2]
        self.done = True
        return True
