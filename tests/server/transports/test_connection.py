"""One connection, over real sockets: what is served on it, in which order, and how it ends when the client misbehaves.

The handler is the test's own, so everything here is HTTP, and nothing is MCP.
"""

import contextlib
import email.utils
import json
import logging
import socket
import ssl
import threading
import time

import pytest
from hypothesis import example, given, strategies as st

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.http1 import HeadLimits
from mcplite.server import Context
from mcplite.server.http.messages import HTTPResponse, UnreadableBody
from mcplite.server.limits import Limits
from mcplite.server.state.response_bodies import StreamingBody
from mcplite.server.transports import client_socket
from mcplite.server.transports.client_socket import BodyBudget, ClientSocket, State
from mcplite.server.transports.connection import Connection
from mcplite.server.transports.tls import TLSClientSocket, TLSSocket
from tests.support.children import wait_until
from tests.support.rawhttp import LIMIT, Wire, begin, call, chunked, post, request
from tests.support.tight import tight

#: Of a body, as the handlers here read it.
BODY = 100_000


class Handler:
    """Echoes the request, unless a test sets another answer."""

    def __init__(self):
        self.seen = []
        self.answer = None

    def __call__(self, asked):
        self.seen.append(asked.path)
        if self.answer is not None:
            return self.answer(asked)
        return echo(asked)


def echo(asked):
    """Return the request as JSON; an unreadable body is refused as by the endpoint."""
    try:
        body = asked.read(BODY).decode("latin-1")
    except UnreadableBody as error:
        return HTTPResponse(error.status, [("Connection", "close")], [str(error).encode()])
    told = {"method": asked.method, "path": asked.path, "query": asked.query, "headers": asked.headers.items(), "body": body,
            "remote": asked.remote}
    return HTTPResponse(200, [("Content-Type", "application/json")], [json.dumps(told).encode()])


def plain(status=200, text=b"fine", **headers):
    return lambda asked: HTTPResponse(status, list(headers.items()), [text])


class Body(StreamingBody):
    """A streaming body of given pieces; of a list it knows the last one. ``closed`` is set by close()."""

    def __init__(self, pieces):
        self._pieces, self._left = iter(pieces), len(pieces) if isinstance(pieces, list) else 0
        self.closed = threading.Event()

    def take(self):
        self._left -= 1
        self.last = self._left == 0
        return next(self._pieces, None)

    def stop(self):
        """Called when the client disconnects, which is not watched here."""

    def close(self):
        self.closed.set()


def streamed(body):
    return lambda asked: HTTPResponse(200, [("Content-Type", "text/event-stream")], body, streaming=True)


class Server:
    """What a connection uses of its server."""

    proxies, crowded, server_port, client_socket = None, frozenset(), None, ClientSocket

    class poller:
        """No connection waits in it, and no disconnect is watched for."""

        may_park = staticmethod(lambda: False)
        may_own = staticmethod(lambda: False)

    def __init__(self, limits=None):
        self.limits = limits = limits or Limits()
        self.head_limits = HeadLimits(limits.header_line_bytes, limits.header_bytes, limits.headers)
        self.budget = BodyBudget(limits)
        self.handler, self.closing = Handler(), False

    def answer(self, asked):
        return self.handler(asked)

    def note_served(self, connection):
        """Nothing chooses among these connections."""

    def handle_error(self, sock, address):
        logging.getLogger("mcplite.server").exception("a response to %s:%s failed", *address)


class Host(Server):
    """A listener that makes connections the way the server does."""

    def __init__(self, limits, made_of=Connection, tls=None):
        super().__init__(limits)
        self.made_of = made_of
        self.tls = tls
        if tls is not None:
            self.client_socket = TLSClientSocket
        self.connections, self.threads = [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.server_port = self._listener.getsockname()[1]

    def open(self, **options):
        """Return a client, and begin to serve it."""
        wire = Wire(self.port, **options)
        sock, _ = self._listener.accept()
        if self.tls is not None:
            sock = TLSSocket(sock, self.tls.certificates.context())
        connection = self.made_of(sock, ("192.0.2.1", 5), self)
        thread = threading.Thread(target=connection.handle, daemon=True)
        thread.start()
        self.connections.append(connection)
        self.threads.append(thread)
        return wire if self.tls is None else wire.secure(self.tls.client)

    def over(self):
        """Wait until every connection has ended; return whether they have."""
        for thread in self.threads:
            thread.join(LIMIT)
        return not any(thread.is_alive() for thread in self.threads)

    def close(self):
        self._listener.close()
        for connection, thread in zip(self.connections, self.threads):
            if thread.is_alive():
                connection.hang_up()
        assert self.over()


@pytest.fixture(params=["plain", "TLS"])
def host(request):
    """Make hosts with limits; their connections are closed after the test."""
    tls = request.getfixturevalue("tls") if request.param == "TLS" else None
    with contextlib.ExitStack() as stack:

        def host(**bounds):
            made = Host(tight(**bounds), tls=tls)
            stack.callback(made.close)
            return made

        yield host


# --- requests and responses ----------------------------------------------------------------------------


def test_a_request_reaches_the_handler_and_its_answer_the_client(host):
    with host().open() as wire:
        reply = wire.ask("POST", "/m%63p?a=1", b"hello", {"X-Tag": " a\tb "})
        assert (reply.status, reply.reason, reply.headers["content-type"]) == (200, "OK", "application/json")
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert reply.json == {"method": "POST", "path": "/mcp", "query": "a=1", "body": "hello", "remote": "192.0.2.1:5",
                              "headers": [["host", "localhost"], ["content-length", "5"], ["x-tag", "a\tb"]]}


@pytest.mark.parametrize("fields", [
    "Content-Length: {0}", "content-length:{0}", "A: content-length: 7\r\nContent-Length: {0}", "Content-Length: 0{0}",
    "Content-Length: {0} ", "Content-Length: {0}\r\nX: 1\r\nExpect: 100-continue", "Content-Length: {0}\r\nContent-Length: {0}",
    "Content-Length: {0}\r\nContent-Length: 7", "Content-Length: 7\r\nContent-Length: {0}",
    "Content-Length: {0}\r\nTransfer-Encoding: chunked", "Content-Length: {0}x", "Content-Length: -{0}"])
def test_heads_that_differ_in_their_length_are_read_as_any_other(host, fields):
    # SEC-12
    made = host()

    def asked(wire, size):
        wire.send(f"POST /x HTTP/1.1\r\nHost: x\r\n{fields.format(size)}\r\n\r\n".encode() + b"b" * size)
        reply = wire.reply()
        if reply.status == 100:
            reply = wire.reply()
        return reply.status, reply.body

    with made.open() as kept:
        for size in (7, 7, 12, 0, 12, 7, 99, 7):
            with made.open() as fresh:
                expected = asked(fresh, size)
            assert asked(kept, size) == expected
            if expected[0] >= 400:
                assert kept.ended()
                break


def test_a_response_has_the_time(host):
    with host().open() as wire:
        before = int(time.time())
        said = wire.ask().headers["date"]
        at = email.utils.parsedate_to_datetime(said).timestamp()
        assert before <= at <= time.time() and said == email.utils.formatdate(at, usegmt=True)


def test_requests_in_one_segment_are_answered_in_order(host):
    # SEC-15
    with host().open() as wire:
        chunks = {"Content-Length": None, "Transfer-Encoding": "chunked"}
        third = request(path="/3", body=chunked(b"th", b"ree"), headers=chunks)
        wire.send(request(path="/1", body=b"one") + request("GET", "/2") + third + b"\r\n\r\n" + request("GET", "/4"))
        told = [wire.reply().json for _ in range(4)]
    assert [(one["path"], one["body"]) for one in told] == [("/1", "one"), ("/2", ""), ("/3", "three"), ("/4", "")]


class Script:
    """A socket that receives given pieces one by one, and sends a few bytes at a time."""

    def __init__(self, pieces, takes):
        self._pieces, self._takes = [piece for piece in pieces if piece], takes
        self.sent = b""

    def recv(self, size, flags=0):
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if len(piece) > size:
            self._pieces.insert(0, piece[size:])
        return piece[:size]

    def send(self, data):
        taken = bytes(data[:self._takes])
        self.sent += taken
        return len(taken)

    def fileno(self):
        return 3

    def setsockopt(self, *arguments):
        pass

    settimeout = shutdown = close = setsockopt


def answers(pieces, takes=1 << 20):
    sock = Script(pieces, takes)
    Connection(sock, ("192.0.2.1", 5), Server()).handle()
    return [line for line in sock.sent.split(b"\r\n") if not line.startswith(b"Date: ")]


GOOD = [request(path="/1", body=b"hello"), request("GET", "/2"), b"\r\n" + request("GET", "/3"), request("HEAD", "/4"),
        request(path="/5", body=chunked(b"a", b"bc"), headers={"Content-Length": None, "Transfer-Encoding": "chunked"})]
BAD = [request(path="/bad", headers={"Content-Length": "+1"}), b"rubbish\r\n\r\n",
       request(path="/late", body=b"x", version="1.0"), request("GET", "/short")[:-2],
       request(path="/short", headers={"Content-Length": "9"}) + b"123"]


@given(st.lists(st.sampled_from(GOOD + BAD), max_size=4), st.lists(st.integers(0, 10_000), max_size=6), st.integers(1, 200))
@example(GOOD + BAD, [], 1)
def test_the_answers_are_the_same_however_the_bytes_are_cut(requests, places, takes):
    data = b"".join(requests)
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    whole = answers([data])
    assert answers([data[start:stop] for start, stop in zip(at, at[1:])], takes) == whole
    assert answers([bytes([byte]) for byte in data]) == whole


# --- shapes of requests that two parsers would read in two ways --------------------------------------------


HIDDEN = request("GET", "/hidden")
SHAPES = [
    (request(body=b"hello", headers={"Transfer-Encoding": "chunked"}) + chunked() + HIDDEN, 400),  # SEC-01
    (request(headers={"Transfer-Encoding": "chunked", "Content-Length": "0"}) + chunked(HIDDEN), 400),
    (request(headers={"Transfer-Encoding": "xchunked"}) + HIDDEN, 501),  # SEC-02
    (request(headers={"Transfer-Encoding": "chunked, identity", "Content-Length": None}) + HIDDEN, 501),
    (request(headers={"Transfer-Encoding": "\x0bchunked"}) + HIDDEN, 400),
    (request(headers={"Transfer-Encoding": "chunked"}, version="1.0") + chunked() + HIDDEN, 400),
    (request(headers={"Content-Length": "5", "content-length": "6"}) + b"hello" + HIDDEN, 400),  # SEC-03
    (request(headers={"Content-Length": "5", "CONTENT-LENGTH": "5"}) + b"hello" + HIDDEN, 400),
    (request(headers={"Content-Length": "5, 5"}) + b"hello" + HIDDEN, 400),
    (request(headers={"Content-Length": "-1"}) + HIDDEN, 400),
    (request(headers={"Content-Length": "1_0"}) + b"0123456789" + HIDDEN, 400),
    (request(headers={"Content-Length ": "5"}) + b"hello" + HIDDEN, 400),  # SEC-04
    (request(headers={"": "5"}) + HIDDEN, 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n" + HIDDEN, 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: 1\r\n Content-Length: 50\r\n\r\n" + HIDDEN, 400),  # SEC-05
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: 1\rContent-Length: 50\r\n\r\n" + HIDDEN, 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: 1\nContent-Length: 50\r\n\r\n" + HIDDEN, 400),
    (b"GET / HTTP/1.1\nHost: localhost\n\n" + HIDDEN, 400),
    (b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n" + HIDDEN, 400),
    (b"GET / HTTP/1.1\r\n\r\n" + HIDDEN, 400),  # SEC-12
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + HIDDEN, 400),
    (b"GET /\r\n\r\n" + HIDDEN, 400),  # SEC-13
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + HIDDEN, 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN, 505),
    (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n" + HIDDEN, 505),
]


@pytest.mark.parametrize("data, status", SHAPES)
def test_ambiguous_requests_are_refused(host, data, status):
    made = host()
    with made.open() as wire:
        reply = wire.send(data).reply()
        assert (reply.status, reply.headers["connection"]) == (status, "close")
        assert reply.headers["content-type"] == "text/plain; charset=utf-8" and reply.body.endswith(b"\n")
        assert wire.ended()  # one answer, and nothing behind it is looked at
    assert made.handler.seen == [] and made.over()


@pytest.mark.parametrize("chunks", [
    b"-1\r\n", b"0x5\r\nhello\r\n", b"1_0\r\n", b"F" * 40 + b"\r\n", b"5\r\nhelloo\r\n", b"5\nhello\r\n", b"5;a\0\r\nhello\r\n",
    b"1;" + b"e" * 300 + b"\r\n", b"0\r\nX-Trailer: 1\r\n\r\n", b"0\r\n" + b"X: 1\r\n" * 1000 + b"\r\n",
])
def test_malformed_chunks(host, chunks):
    # SEC-06
    made = host()
    with made.open() as wire:
        reply = wire.send(request(headers={"Transfer-Encoding": "chunked"}) + chunks + HIDDEN).reply()
        assert (reply.status, reply.headers["connection"]) == (400, "close")
        assert wire.ended()
    assert made.handler.seen == ["/mcp"] and made.over()


def test_a_header_with_an_underscore_is_another_header(host):
    # SEC-19
    with host().open() as wire:
        told = wire.ask("GET", headers={"Content_Length": "5", "Mcp_Session_Id": "x"}).json
        assert told["body"] == "" and ["mcp_session_id", "x"] in told["headers"]


# --- too much ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data, status", [
    (b"GET /" + b"x" * 2000, 414), (b"x" * 300_000, 414), (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2000, 431),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: %s\r\n" % (b"x" * 900) * 20, 431),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 11 + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 20_000, 431),
])
def test_a_head_that_is_too_long(host, data, status):
    # SEC-07: refused without waiting for its end.
    made = host(header_line_bytes=1000, header_bytes=8000, headers=10)
    with made.open() as wire:
        assert wire.send(data).reply().status == status
        assert wire.ended()
    assert made.handler.seen == [] and made.over()


def test_an_endless_line_is_not_buffered(host):
    made = host()
    kept = []
    with made.open() as wire:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(128):  # eight MiB
                kept.append(len(made.connections[0]._socket.buffer))
                wire.send(b"x" * 65536)
        wire.rest()
    assert made.over() and max(kept) <= 200_000


@pytest.mark.parametrize("headers", [{}, {"Expect": "100-continue"}])
def test_a_body_that_is_declared_too_long_is_refused_at_once(host, headers):
    # SEC-08, SEC-17: the answer comes before any of the body, and no 100 asks for it.
    made = host()
    with made.open() as wire:
        reply = wire.ask(headers={"Content-Length": str(10 << 30), **headers})
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert wire.ended()
    assert made.over()


def test_an_endless_body_in_chunks(host):
    # SEC-09
    made = host()
    with made.open() as wire:
        wire.send(request(headers={"Transfer-Encoding": "chunked"}))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 500 * BODY and not wire.answered(0.001):
                wire.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                sent += 4096
        assert wire.reply().status == 413
        wire.finish()
        wire.rest()
    assert made.over() and sent < 500 * BODY


def test_bodies_of_just_the_limit(host):
    body = b"x" * BODY
    with host().open() as wire:
        assert len(wire.ask(body=body).json["body"]) == BODY
        reply = wire.ask(body=chunked(body[:50_000], body[50_000:]),
                         headers={"Content-Length": None, "Transfer-Encoding": "chunked"})
        assert len(reply.json["body"]) == BODY
        assert wire.ask(body=body + b"x").status == 413


# --- too slow -------------------------------------------------------------------------------------------------


def dribble(wire, data, pause=0.02):
    """Send bytes one by one until an answer comes or the connection ends."""
    with contextlib.suppress(ConnectionError):
        for byte in data:
            wire.send(bytes([byte]))
            if wire.answered(pause):
                return


@pytest.mark.parametrize("data", [request(headers={"X": "x" * 4000}), b"\r\n" * 2000], ids=["headers", "blank lines"])
def test_a_head_that_takes_too_long(host, data):
    # SEC-11
    made = host(header_seconds=0.3)
    with made.open() as wire:
        dribble(wire, data)
        reply = wire.reply()
        assert (reply.status, reply.headers["connection"]) == (408, "close") and b"0.3 s" in reply.body
        wire.finish()
        wire.rest()
    assert made.handler.seen == [] and made.over()


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n\r\n\r\n"])
def test_a_client_that_sends_nothing_is_disconnected(host, sent):
    made = host(idle_seconds=0.2, header_seconds=0.2)
    with made.open() as wire:
        wire.send(sent)
        assert wire.ended()  # without a word: nothing was asked
    assert made.over()


@pytest.mark.parametrize("headers, body", [({"Content-Length": "50"}, b"x"), ({"Content-Length": "50"}, b""),
                                           ({"Transfer-Encoding": "chunked"}, b"32\r\nx"),
                                           ({"Transfer-Encoding": "chunked"}, b"")])
@pytest.mark.slow
def test_a_body_that_stalls(host, headers, body):
    made = host(body_seconds=0.3)
    with made.open() as wire:
        reply = wire.send(request(headers=headers) + body).reply()
        assert (reply.status, reply.headers["connection"]) == (408, "close") and b"0.3 s" in reply.body
        assert wire.ended()
    assert made.over()


@pytest.mark.slow
def test_a_body_that_comes_too_slowly(host, monkeypatch):
    monkeypatch.setattr(client_socket, "_RATE_AFTER_SECONDS", 0.2)
    made = host(body_rate=1000)
    with made.open() as wire:
        dribble(wire, request(headers={"Content-Length": "4000"}) + b"x" * 4000)
        reply = wire.reply()
        assert reply.status == 408 and b"at less than 1000 bytes a second" in reply.body
        wire.finish()
        wire.rest()
    assert made.over()


def test_a_client_that_does_not_read_is_given_up(host):
    # REL-34
    body = Body([b"x" * 1_000_000] * 100)
    made = host(write_seconds=0.3)
    made.handler.answer = streamed(body)
    with made.open(small=True) as wire:
        wire.send(request("GET"))
        assert body.closed.wait(LIMIT)
        assert made.over()


def test_a_client_that_reads_slowly_gets_everything(host):
    made = host(write_seconds=5)
    text = bytes(range(256)) * 8000
    made.handler.answer = plain(text=text)
    with made.open(small=True) as wire:
        wire.send(request("GET"))
        assert wire.head().status == 200
        received = b""
        while len(received) < len(text):
            received += wire._exactly(min(100_000, len(text) - len(received)))
            time.sleep(0.005)
    assert received == text and made.over()


# --- peers that leave ------------------------------------------------------------------------------------------


def test_a_peer_that_has_closed_its_side_is_answered(host):
    made = host()
    with made.open() as wire:
        wire.send(request(body=b"hello"))
        wire.finish()
        assert wire.reply().json["body"] == "hello"
        assert wire.ended()
    assert made.over()


@pytest.mark.parametrize("data", [b"", b"GET", request("GET")[:-2]])
def test_half_a_head_gets_no_response(host, data):
    made = host()
    with made.open() as wire:
        wire.send(data)
        wire.finish()
        assert wire.ended()
    assert made.handler.seen == [] and made.over()


@pytest.mark.parametrize("data", [request(headers={"Content-Length": "6"}) + b"hello",
                                  request(headers={"Transfer-Encoding": "chunked"}) + b"5\r\nhello\r\n"])
def test_half_a_body_is_refused(host, data):
    # SEC-16
    made = host()
    with made.open() as wire:
        wire.send(data)
        wire.finish()
        reply = wire.reply()
        assert (reply.status, reply.body) == (400, b"the body ended early")
        assert wire.ended()
    assert made.over()


def _stages():
    full = request(body=b"hello" * 100)
    return {"nothing": b"", "head": full[:20], "body": full[:-100], "request": full, "two": full + full}


@pytest.mark.parametrize("stage", _stages())
def test_a_reset_at_any_stage_is_not_an_error(host, stage, caplog):
    # REL-31
    caplog.set_level(logging.INFO)
    made = host()
    for _ in range(10):
        wire = made.open()
        wire.send(_stages()[stage])
        wire.reset()
    assert made.over()
    assert [record.getMessage() for record in caplog.records if record.name != "mcplite.access"] == []


def test_a_handler_can_tell_that_its_client_has_disconnected(host):
    made = host()
    told, go = [], threading.Event()

    def watch(asked):
        asked.read(BODY)
        told.append(asked.disconnected())
        go.set()
        assert wait_until(asked.disconnected)
        return HTTPResponse(200, [], [b""])

    made.handler.answer = watch
    wire = made.open()
    wire.send(request(body=b"hello"))
    assert go.wait(LIMIT)
    wire.close()
    assert made.over() and told == [False]


def test_a_client_with_a_pipelined_request_is_connected(host):
    made = host()
    told = []

    def watch(asked):
        told.append(asked.disconnected() if asked.path == "/1" else wait_until(asked.disconnected))
        return HTTPResponse(200, [], [b""])

    made.handler.answer = watch
    with made.open() as wire:
        wire.send(request("GET", "/1") + request("GET", "/2"))
        wire.finish()
        assert [wire.reply().status for _ in range(2)] == [200, 200]
    assert made.over() and told == [False, True]


# --- going on, or not --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version, asked, kept, said", [
    ("1.1", None, True, None), ("1.1", "keep-alive", True, None), ("1.1", "close", False, "close"),
    ("1.1", "x, Close", False, "close"), ("1.0", None, False, "close"), ("1.0", "keep-alive", True, "keep-alive"),
    ("1.0", "close", False, "close"),
])
def test_keep_alive(host, version, asked, kept, said):
    # HTTP-46
    made = host()
    with made.open() as wire:
        for _ in range(2):
            reply = wire.ask(body=b"hello", headers={"Connection": asked}, version=version)
            assert (reply.status, reply.json["body"], reply.headers.get("connection")) == (200, "hello", said)
            if not kept:
                assert wire.ended()
                break
    assert made.over()


def test_each_response_has_its_own_head(host):
    made = host()
    headers = [("X-Tag", "1")]
    answers = [plain(200, b"a", **{"X-Tag": "1"}), plain(200, b"bcd", **{"X-Tag": "1"}), plain(404, b"a", **{"X-Tag": "1"}),
               plain(404, b"a", **{"X-Tag": "2"}), plain(404, b"a"), plain(204, b"", **{"X-Tag": "2"}),
               streamed(Body([b"piece"])), plain(200, b"", **{"Content-Type": "text/event-stream"}),
               lambda asked: HTTPResponse(200, headers, [b"a"])]
    shown = []
    with made.open() as wire:
        for answer in [*answers, answers[-1]]:
            made.handler.answer = answer
            reply = wire.send(request("GET")).reply()
            shown.append((reply.status, reply.headers.get("x-tag"), reply.headers.get("content-length"),
                          reply.headers.get("transfer-encoding"), reply.body))
            headers[:] = [("X-Tag", "3")] if answer is answers[-1] else headers
    assert shown == [
        (200, "1", "1", None, b"a"), (200, "1", "3", None, b"bcd"), (404, "1", "1", None, b"a"), (404, "2", "1", None, b"a"),
        (404, None, "1", None, b"a"), (204, "2", None, None, b""), (200, None, None, "chunked", b"piece"),
        (200, None, "0", None, b""), (200, "1", "1", None, b"a"), (200, "3", "1", None, b"a")]
    assert made.over()


def test_a_response_can_close_the_connection(host):
    made = host()
    made.handler.answer = plain(403, Connection="close")
    with made.open() as wire:
        reply = wire.send(request("GET") + HIDDEN).reply()
        assert (reply.status, reply.headers["connection"]) == (403, "close")
        assert wire.ended()
    assert made.handler.seen == ["/mcp"] and made.over()


@pytest.mark.parametrize("body", [b"x" * 10, b"x" * 500_000])
@pytest.mark.parametrize("how", [{}, {"Content-Length": None, "Transfer-Encoding": "chunked"}], ids=["length", "chunks"])
def test_an_unread_body_is_not_parsed_as_a_request(host, body, how):
    made = host()
    made.handler.answer = plain(404, b"not here")
    with made.open() as wire:
        wire.send(request(body=body if not how else chunked(body), headers=how) + HIDDEN)
        reply = wire.reply()
        assert (reply.status, reply.body, reply.headers["connection"]) == (404, b"not here", "close")
        wire.finish()
        assert wire.ended()
    assert made.handler.seen == ["/mcp"] and made.over()


def test_an_empty_body_need_not_be_read(host):
    made = host()
    made.handler.answer = plain()
    with made.open() as wire:
        for headers in ({}, {"Content-Length": "0"}):
            assert wire.ask("GET", headers=headers).status == 200


def test_the_last_response_of_a_stopping_server_closes_the_connection(host):
    made = host()
    with made.open() as wire:
        assert "connection" not in wire.ask().headers
        made.handler.answer = lambda asked: setattr(made, "closing", True) or HTTPResponse(200, [], [b"last"])
        reply = wire.ask()
        assert (reply.body, reply.headers["connection"]) == (b"last", "close")
        assert wire.ended()
    assert made.over()


def test_an_idle_connection_is_ended_from_another_thread(host):
    made = host()
    with made.open() as wire:
        assert wire.ask().status == 200
        assert wait_until(lambda: made.connections[0].state in (State.NEW, State.IDLE))
        made.closing = True
        made.connections[0].stop_reading()
        assert wire.ended()
        assert made.over()
    made.connections[0].stop_reading()  # of one that is closed
    made.connections[0].hang_up()


@pytest.mark.parametrize("host", ["plain"], indirect=True)  # over TLS there is no answer, either
def test_a_stopping_server_does_not_wait_for_requests(host):
    made = host()
    made.closing = True
    with made.open() as wire:
        assert wire.ended()
    assert made.over()


def test_a_busy_connection_is_cut_off_from_another_thread(host):
    made = host()
    body = Body([b"x" * 1_000_000] * 100)
    made.handler.answer = streamed(body)
    with made.open(small=True) as wire:
        wire.send(request("GET"))
        assert wire.head().status == 200
        made.connections[0].hang_up()
        assert body.closed.wait(LIMIT) and made.over()


# --- kinds of responses --------------------------------------------------------------------------------------------


def test_head_has_everything_but_the_body(host):
    made = host()
    made.handler.answer = plain(text=b"0123456789")
    with made.open() as wire:
        reply = wire.send(request("HEAD")).reply("HEAD")
        assert (reply.status, reply.headers["content-length"]) == (200, "10")
        assert wire.ask("GET").body == b"0123456789"
        made.handler.answer = streamed(Body([b"a"]))
        assert wire.send(request("HEAD")).reply("HEAD").headers["transfer-encoding"] == "chunked"
        made.handler.answer = None
        assert wire.ask().status == 200  # nothing of a body came in between


@pytest.mark.parametrize("status, length", [(204, None), (304, None), (202, "0"), (200, "0")])
def test_responses_without_a_body(host, status, length):
    made = host()
    made.handler.answer = plain(status, b"")
    with made.open() as wire:
        assert wire.ask().headers.get("content-length") == length
        assert wire.ask().status == status


def test_an_unknown_status_has_a_reason(host):
    made = host()
    made.handler.answer = plain(299)
    with made.open() as wire:
        reply = wire.ask()
        assert (reply.status, reply.reason) == (299, "Status")


def test_a_stream_is_chunked_and_the_connection_is_kept(host):
    made = host()
    go = threading.Event()

    def pieces():
        yield b"first"
        assert go.wait(LIMIT)
        yield b"second"

    body = Body(pieces())
    made.handler.answer = streamed(body)
    with made.open() as wire:
        head = wire.send(request("GET")).head()
        assert head.headers["transfer-encoding"] == "chunked" and "connection" not in head.headers
        assert wire.piece() == b"first"  # HTTP-47: at once
        go.set()
        assert (wire.piece(), wire.piece()) == (b"second", b"")
        made.handler.answer = streamed(Body([b"one", b"two"]))
        assert wire.ask("GET").body == b"onetwo"  # the end comes with the last piece
        made.handler.answer = None
        assert wire.ask().status == 200
    assert body.closed.is_set()


@pytest.mark.parametrize("asked", [None, "keep-alive"])
def test_a_stream_for_an_old_client_ends_with_the_connection(host, asked):
    made = host()
    made.handler.answer = streamed(Body([b"one", b"two"]))
    with made.open() as wire:
        reply = wire.send(request("GET", version="1.0", headers={"Connection": asked})).reply()
        assert "transfer-encoding" not in reply.headers
        assert (reply.headers["connection"], reply.body) == ("close", b"onetwo")
    assert made.over()


@pytest.mark.parametrize("answer", [
    plain(**{"X-Tag": "a\r\nSet-Cookie: b"}), plain(**{"X-Tag": "a\nb"}), plain(**{"X-Tag": "a\rb"}),
    plain(**{"X-Tag": "\u20ac"}), plain(**{"X\r\nSet-Cookie": "b"}), plain(text="text"),
], ids=["CR LF", "LF", "CR", "no Latin-1", "name", "no bytes"])
def test_a_response_that_cannot_be_sent_is_not_sent(host, answer, caplog):
    # SEC-18
    made = host()
    made.handler.answer = answer
    with made.open() as wire:
        wire.send(request("GET"))
        assert wire.ended()
    assert made.over()
    record, = caplog.records
    assert record.levelno == logging.ERROR and "192.0.2.1:5" in record.getMessage()


def test_a_body_that_fails_ends_the_connection_in_the_middle(host, caplog):
    made = host()

    def pieces():
        yield b"first"
        raise RuntimeError("no more")

    body = Body(pieces())
    made.handler.answer = streamed(body)
    with made.open() as wire:
        assert wire.send(request("GET")).head().status == 200
        assert wire.piece() == b"first"
        assert wire.ended()  # and no last chunk, which would say that this was all
    assert made.over() and body.closed.is_set()
    assert "no more" in caplog.text


# --- 100-continue -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
def test_expect_100_continue_is_answered_when_the_body_is_read(host, expect):
    with host().open() as wire:
        for _ in range(2):
            wire.send(request(headers={"Content-Length": "5", "Expect": expect}))
            assert wire.reply().status == 100
            wire.send(b"hello")
            assert wire.reply().json["body"] == "hello"
        wire.send(request(headers={"Transfer-Encoding": "chunked", "Expect": expect}))
        assert wire.reply().status == 100
        assert wire.send(chunked(b"hello")).reply().json["body"] == "hello"


@pytest.mark.parametrize("data", [
    request(body=b"hello", headers={"Expect": "100-continue"}),  # the body has come already
    request(headers={"Content-Length": "0", "Expect": "100-continue"}), request("GET", headers={"Expect": "100-continue"}),
])
def test_no_100_continue_when_the_body_has_arrived(host, data):
    with host().open() as wire:
        assert wire.send(data).reply().status == 200


def test_no_100_continue_for_http_1_0(host):
    with host().open() as wire:
        wire.send(request(headers={"Content-Length": "5", "Expect": "100-continue"}, version="1.0"))
        assert not wire.answered(0.1)
        assert wire.send(b"hello").reply().json["body"] == "hello"


def test_no_100_continue_when_the_body_is_not_read(host):
    made = host()
    made.handler.answer = plain(401, b"who are you")
    with made.open() as wire:
        reply = wire.send(request(headers={"Content-Length": "5", "Expect": "100-continue"})).reply()
        assert (reply.status, reply.headers["connection"]) == (401, "close")
        assert wire.ended()
    assert made.over()


# --- the log ------------------------------------------------------------------------------------------------------


def test_the_access_log_has_one_line_per_request_without_the_query(host, caplog):
    caplog.set_level(logging.INFO, logger="mcplite.access")
    made = host()
    with made.open() as wire:
        wire.ask("GET", "/mcp?token=secret")
        made.handler.answer = plain(404, b"")
        wire.ask("POST", "/a%0A%1bb/" + "x" * 300 + "?secret")
        wire.send(b"GET /?secret HTTP/1.1\r\n\x1b\r\n\r\n").reply()
        wire.finish()
        assert wire.ended() and made.over()
    first, second, third = [record.getMessage() for record in caplog.records]
    assert first.startswith("192.0.2.1:5 GET '/mcp' 200 ") and first.endswith(" ms")
    assert second.startswith("192.0.2.1:5 POST '/a\\n\\x1bb/xxx") and " 404 " in second
    assert len(second) < 300 and second.isprintable()
    assert third == "192.0.2.1:5 - 400" and "secret" not in caplog.text  # SEC-13


def test_changed_headers_are_parsed_again(host):
    # The cache of the last head compares bytes.
    with host().open() as wire:
        for tag in ("a", "a", "b", "a"):
            assert Headers(map(tuple, wire.ask(headers={"X-Tag": tag}).json["headers"])).get("x-tag") == tag


# --- answers that their clients do not read have a budget: the oldest is cut off ------------------


#: Characters of an answer; more than the kernel takes for a client with a small buffer.
SIZE = 12_000_000


@pytest.fixture
def unread():
    with contextlib.ExitStack() as stack:
        def unread(**bounds):
            server = mcplite.Server("unread", limits=tight(grace=5.0, commit_seconds=60.0, **bounds))

            @server.tool()
            def plain() -> str:
                return "x" * SIZE

            @server.tool()
            def streamed(ctx: Context) -> str:
                ctx.info("it takes a moment")
                return "x" * SIZE

            @server.tool()
            def small() -> str:
                return "x"

            return stack.enter_context(mcplite.serve(server))

        yield unread


def ended_early(wire):
    """Return whether a connection ended in the middle of its response."""
    with pytest.raises((AssertionError, OSError)):
        wire.reply()
    return True


@pytest.mark.parametrize("tool", ["plain", "streamed"])
@pytest.mark.slow
def test_the_oldest_answer_that_is_not_read_is_cut_off(unread, tool):
    made = unread(body_bytes_at_once=5 * SIZE // 2)
    with contextlib.ExitStack() as stack:
        with Wire(made.port) as control:
            session = begin(control)
        wires, shares, newest = [], made.budget.shares, None
        for number in range(4):
            wires.append(stack.enter_context(Wire(made.port, small=True)).send(post(call(tool, id=number), session)))
            assert wait_until(lambda last=newest: shares.items()[-1:] not in ([], [last]))
            newest, = shares.items()[-1:]
            assert len(shares) == min(len(wires), 2)
        assert made.budget.shares.bytes <= 5 * SIZE // 2
        assert ended_early(wires[0])
        reply = wires[3].reply()
        assert reply.status == 200 and len(reply.body) > SIZE
        with Wire(made.port) as wire:
            assert wire.post(call("small"), session).status == 200
    assert wait_until(lambda: len(made.budget.shares) == 0)


@pytest.mark.parametrize("tool", ["plain", "streamed"])
def test_an_answer_larger_than_the_budget_is_sent(unread, tool):
    made = unread(body_bytes_at_once=100_000)
    with Wire(made.port, small=True) as wire:
        session = begin(wire)
        for number in range(2):
            reply = wire.post(call(tool, id=number), session)
            assert reply.status == 200 and len(reply.body) > SIZE
        assert wait_until(lambda: len(made.budget.shares) == 0)


def test_answers_that_are_read_count_to_nothing(unread):
    made, counted = unread(), []
    add = made.budget.shares.add
    made.budget.shares.add = lambda *given: counted.append(given) or add(*given)
    with Wire(made.port) as wire:
        session = begin(wire)
        assert wire.post(call("small"), session).status == 200
    assert counted == []
