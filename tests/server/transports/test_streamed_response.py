"""Event streams without threads: who sends the pieces, slow and vanished clients, what is due, and the end of the server."""

import contextlib
import selectors
import threading
import time
from collections import deque

import pytest

import mcplite
from mcplite.server.http.messages import HTTPResponse
from mcplite.server.state.response_bodies import StreamingBody
from mcplite.server.transports import httpd, poller as poller_module
from mcplite.server.transports.httpd import HTTPServer
from tests.support.children import LIMIT, wait_until
from tests.support.rawhttp import Wire, request
from tests.support.tight import tight

#: More than the buffers of both sockets take.
LARGE = b"x" * (1 << 24)


class Body(StreamingBody):
    """Pieces that the test puts in; ``threads`` are those that have taken any."""

    lasting = True

    def __init__(self):
        self.pieces = deque()
        self.threads = []
        self.comment_at = self.look_at = time.monotonic() + 3600
        self.over = False
        self.gone, self.closed = threading.Event(), threading.Event()

    def put(self, *pieces):
        self.pieces.extend(pieces)
        self.on_ready()

    def put_here(self, wire):
        """Put pieces in until this thread has sent one itself: the leader sends what comes while it passes the stream on."""
        end = time.monotonic() + LIMIT
        while threading.current_thread().name not in self.threads:
            assert time.monotonic() < end
            self.put(b"one")
            assert wire.piece() == b"one"

    def take(self):
        if self.pieces:
            self.threads.append(threading.current_thread().name)
            piece = self.pieces.popleft()
            if isinstance(piece, BaseException):
                raise piece
            return piece
        if self.over:
            return None
        if time.monotonic() >= self.comment_at:
            self.comment_at = self.look_at = time.monotonic() + 3600
            return b":quiet"
        return b""

    def end(self):
        self.over = True
        self.on_ready()

    def stop(self):
        self.gone.set()
        self.end()

    def close(self):
        assert not self.closed.is_set()
        self.closed.set()


class Host:
    """An HTTP server whose path /stream answers with the next body of the test; other paths tell themselves."""

    def __init__(self, **limits):
        self.server = mcplite.serve(mcplite.Server("streams", limits=tight(**{"grace": 0.2, **limits})), port=0)
        self.server.answer = self.answer
        self.bodies = deque()

    def answer(self, asked):
        if asked.path == "/stream":
            return HTTPResponse(200, [("Content-Type", "text/event-stream")], self.bodies.popleft(), streaming=True)
        return HTTPResponse(200, [], [asked.path.encode()])

    @contextlib.contextmanager
    def stream(self, version="1.1", **options):
        """Open a stream; the test gets its body and its connection, behind the head."""
        body = Body()
        self.bodies.append(body)
        with Wire(self.server.port, **options) as wire:
            wire.send(request("GET", "/stream", version=version))
            assert wire.head().status == 200
            yield body, wire
            body.end()

    @property
    def open(self):
        return len(self.server._connections)


@pytest.fixture(params=[None, selectors.SelectSelector], ids=["epoll", "select"])
def host(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(poller_module.selectors, "DefaultSelector", request.param)
    made = []

    def make(**limits):
        made.append(Host(**limits))
        return made[-1]

    yield make
    for one in made:
        one.server.close()


def test_the_thread_that_has_a_piece_sends_it_and_the_connection_goes_on(host, monkeypatch):
    monkeypatch.setattr(poller_module, "_KEEP_THREADS", 0)  # those that have served a request on a busy machine
    made = host()
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(made.stream()) for _ in range(20)]
        assert wait_until(lambda: threading.active_count() <= before + 1)
        for body, wire in streams:
            body.put_here(wire)
            body.end()
            assert wire.piece() == b"" and body.closed.wait(LIMIT)
            assert wire.ask("GET", "/next").body == b"/next"


def test_what_many_threads_put_in_comes_once_and_in_order(host):
    made = host()
    with made.stream() as (body, wire):
        lock, count = threading.Lock(), 4 * 500
        numbers = iter(range(count))

        def put():
            for _ in range(count // 4):
                with lock:
                    body.pieces.append(b"%d " % next(numbers))
                body.on_ready()

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        text = b""
        while text.count(b" ") < count:
            text += wire.piece()
        for thread in threads:
            thread.join(LIMIT)
        assert text == b"".join(b"%d " % number for number in range(count))


def test_a_slow_reader_blocks_no_thread_and_gets_all_of_it(host):
    made = host()
    with made.stream(small=True) as (body, wire), made.stream() as (other, reader):
        body.put(LARGE, b"behind")  # returns at once
        assert body.pieces
        other.put(b"not disturbed")
        assert reader.piece() == b"not disturbed"
        assert wire.piece() == LARGE and wire.piece() == b"behind"
        body.put(b"more")
        assert wire.piece() == b"more"


def test_a_reader_that_takes_nothing_loses_the_stream(host):
    made = host(write_seconds=0.3)
    with made.stream(small=True) as (body, _):
        body.put(LARGE)
        assert body.closed.wait(LIMIT) and not body.gone.is_set()
        assert wait_until(lambda: made.open == 0)


@pytest.mark.parametrize("leave", [Wire.close, Wire.reset, Wire.finish])
@pytest.mark.parametrize("full", [False, True])
def test_a_client_that_leaves_ends_its_stream(host, leave, full):
    made = host()
    with made.stream(small=True) as (body, wire):
        if full:
            body.put(LARGE)
        leave(wire)
        assert body.closed.wait(LIMIT)
        assert wait_until(lambda: made.open == 0)


def test_what_is_due_is_sent_at_its_time(host):
    made = host()
    with made.stream() as (_, first):
        body = Body()
        body.comment_at = body.look_at = time.monotonic() + 0.1
        made.bodies.append(body)
        with Wire(made.server.port) as wire:
            wire.send(request("GET", "/stream"))
            assert wire.head().status == 200 and wire.piece() == b":quiet"
            assert not body.threads
        first.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            first.sock.recv(1)


def test_a_body_that_fails_costs_its_connection(host, caplog):
    made = host()
    with made.stream() as (body, wire), made.stream() as (other, reader):
        body.put(b"one", RuntimeError("a defect"))  # does not raise here
        assert wire.piece() == b"one" and wire.ended()
        assert body.closed.wait(LIMIT) and "a defect" in caplog.text
        other.put(b"not disturbed")
        assert reader.piece() == b"not disturbed"


def test_an_interrupt_of_the_thread_that_sends_ends_the_stream_and_is_raised(host):
    made = host()
    with made.stream() as (body, wire):
        body.put_here(wire)
        with pytest.raises(KeyboardInterrupt):
            body.put(KeyboardInterrupt())
        assert wire.ended() and body.closed.wait(LIMIT)


def test_the_next_request_waits_behind_the_stream(host):
    made = host()
    with made.stream() as (body, wire):
        wire.send(request("GET", "/next"))
        body.put(b"one")
        assert wire.piece() == b"one"
        body.end()
        assert wire.piece() == b"" and wire.reply().body == b"/next"


def test_a_client_without_chunks_gets_the_stream_up_to_the_end_of_the_connection(host):
    made = host()
    with made.stream(version="1.0") as (body, wire):
        body.put(b"one", b"two")
        body.end()
        assert wire.rest() == b"onetwo" and body.closed.wait(LIMIT)


@pytest.mark.parametrize("full", [False, True])
def test_streams_end_with_the_server(host, full, monkeypatch):
    monkeypatch.setattr(httpd, "_FLUSH_SECONDS", LIMIT)  # a loaded machine does not pass 16 MiB on in a second
    made = host()
    with made.stream(small=True) as (body, wire):
        if full:
            body.put(LARGE)
        closing = threading.Thread(target=made.server.close)
        closing.start()
        body.put(b"last")
        body.end()
        if full:
            assert wire.piece() == LARGE
        assert wire.piece() == b"last" and wire.piece() == b"" and wire.ended()
        closing.join(LIMIT)
        assert body.closed.is_set() and made.open == 0


def test_a_stream_that_does_not_end_is_cut_off_with_the_server(host):
    made = host()
    with made.stream() as (body, wire):
        made.server.close()
        assert wire.ended() and body.closed.wait(LIMIT)


def test_streams_go_on_while_the_server_is_shut_down_and_after(host):
    made = host()
    with made.stream(small=True) as (body, wire), made.stream() as (other, reader):
        body.put(LARGE)
        made.server.shutdown()
        assert wire.piece() == LARGE
        other.put(b"one")
        assert reader.piece() == b"one"
        body.end()
        assert wire.piece() == b"" and body.closed.wait(LIMIT)
        made.server.start()
        other.put(b"two")
        assert reader.piece() == b"two"
        assert wire.ask("GET", "/next").body == b"/next"


def test_a_socket_that_cannot_be_watched_for_room_gets_a_thread(host, monkeypatch):
    made = host()
    with made.stream(small=True) as (body, wire):
        def fail(*arguments):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(type(made.server.poller._selector), "modify", fail)
        body.put(LARGE, b"behind")
        assert wire.piece() == LARGE and wire.piece() == b"behind"


def test_handle_request_streams_on_its_thread():
    body = Body()
    plain = HTTPServer(mcplite.Server("one").runtime, port=0)
    plain.answer = lambda asked: HTTPResponse(200, [], body, streaming=True)
    thread = threading.Thread(target=plain.handle_request)
    thread.start()
    try:
        with Wire(plain.port) as wire:
            wire.send(request("GET", "/stream"))
            assert wire.head().status == 200
            body.put(b"one")
            assert wire.piece() == b"one"
            body.end()
            assert wire.piece() == b""
        thread.join(LIMIT)
        assert not thread.is_alive() and body.closed.is_set()
    finally:
        plain.close()
