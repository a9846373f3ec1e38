"""HTTP/1.1 responses: parses the head, and decides how the body ends.

The client's connections read every response by it, those of ``requests`` as well as our own. It is as strict as
:mod:`.http1`: where two readers of one response could disagree about its end, bytes of one answer would be taken for
another one's.
"""

import re
from typing import Dict, List, Optional, Tuple

from .http1 import BadRequest, HeadLimits, find_head, keeps_alive, parse_fields

__all__ = ["BadResponse", "ResponseHead", "find_response_head", "parse_response_head"]

_STATUS_LINE = re.compile("HTTP/1\\.([0-9]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
_LENGTH = re.compile(r"[0-9]{1,15}")
#: The lines of a response's head: few servers keep to the limits of requests.
_LIMITS = HeadLimits(line=65_536, total=65_536, count=1000)


class BadResponse(Exception):
    """The bytes are not a response that can be read; its connection is closed."""


class ResponseHead:
    """The status line and the headers of one response.

    :param fields: the raw names and values.
    :raises BadResponse: it does not say how the body ends.
    """

    __slots__ = ("status", "reason", "version", "fields", "headers", "length", "chunked", "keep_alive")

    def __init__(self, status: int, reason: str, version: Tuple[int, int], fields: List[Tuple[str, str]]) -> None:
        self.status = status
        self.reason = reason
        self.version = version
        self.fields = fields
        #: By name in lower case; the values of repeated fields are joined by commas.
        self.headers: Dict[str, str] = {}
        headers = self.headers
        for name, value in fields:
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
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
        else:
            self.keep_alive = False

    def without_body(self) -> None:
        """Note that the response has no body, whatever its headers say: by its status, or as the answer to HEAD."""
        if self.status == 204 and (self.chunked or self.length):
            self.keep_alive = False  # it must not have these fields, so that a body may follow
        elif self.length is None and not self.chunked:
            self.keep_alive = keeps_alive(self.version, self.headers.get("connection"))
        self.length, self.chunked = 0, False


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
        fields = [(name, value.rstrip(" \t")) for name, value in parse_fields(lines, _LIMITS)]
    except BadRequest as error:
        raise BadResponse(str(error)) from None
    if status < 200 and status != 101:
        fields = []  # those of an interim response are not the answer's (RFC 9110, section 15.2)
    head = ResponseHead(status, (reason or "").strip(" \t"), (1, min(int(minor), 1)), fields)
    if status in (204, 304) or method == "HEAD":
        head.without_body()
    return head
