"""Bodies that a session's connections bring, and how a caller that stops waiting ends them."""

import gc
import threading
import time
import weakref

import pytest
import requests

from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.origin_client import OriginClient
from mcplite.net.settings import HTTPSettings
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


def ended(sock):
    """Wait for the end of a connection, and return whether it came."""
    sock.settimeout(LIMIT)
    return sock.recv(1) == b""


class Waiting(WebScript):
    """Begins a response, and waits for the end of the connection; ``begun`` and ``over`` say so."""

    def __init__(self, begin):
        super().__init__(self.respond)
        self._begin = begin
        self.begun, self.over = threading.Event(), threading.Event()

    def respond(self, request, answer):
        answer.raw(self._begin)
        self.begun.set()
        if ended(answer._sock):
            self.over.set()
        answer.cut()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
BEGINNINGS = {
    "a body of known length": HEAD + b"Content-Length: 10\r\n\r\n12345",
    "a long body": HEAD + b"Content-Length: 1000000\r\n\r\n12345",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n123", "a body to the end": HEAD + b"\r\n12345",
}


@pytest.mark.parametrize("begin", list(BEGINNINGS.values()), ids=list(BEGINNINGS))
def test_a_caller_that_is_interrupted_ends_the_connection(session, begin):
    # Closing the response cancels the call, so that the server has to see it.
    with Waiting(begin) as server:
        client = OriginClient(server.url, HTTPSettings(session=session))
        exchange = Exchange(lambda: float(LIMIT))
        threading.Thread(target=lambda: (server.begun.wait(LIMIT), time.sleep(0.05), exchange.interrupt())).start()
        with pytest.raises(Stopped):
            client.send(exchange, "GET", None, {}).read(100)
        assert server.over.wait(LIMIT)
        client.close()


@pytest.mark.parametrize("whole", [False, True])
def test_a_response_that_is_over_keeps_nothing_of_the_session(session, whole):
    # Its pool closes the connections when it goes.
    with WebScript(lambda request, answer: answer.status(200, "here")) as script:
        client = OriginClient(script.url, HTTPSettings(session=session))
        reply = client.send(Exchange(lambda: float(LIMIT)), "GET", None, {})
        if whole:
            assert reply.read(100) == b"here"
        reply.close()
        client.close()
        pools = session.get_adapter(script.url).poolmanager.pools
        kept = [weakref.ref(pools[key]) for key in pools.keys()]
        session.close()
        until = time.monotonic() + LIMIT
        while kept[0]() is not None and time.monotonic() < until:  # the thread may just be ending
            time.sleep(0.01)
            gc.collect()
        assert [pool() for pool in kept] == [None] and reply.status == 200


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_of_all_sizes_arrive_and_connections_are_kept(session, size, chunked):
    body = bytes(index % 251 for index in range(size))

    def respond(request, answer):
        if not chunked:
            return answer.status(200, body)
        answer.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, size, 50_000):
            piece = body[at:at + 50_000]
            answer.raw(b"%x\r\n%b\r\n" % (len(piece), piece))
        answer.end()

    with WebScript(respond) as script:
        client = OriginClient(script.url, HTTPSettings(session=session))
        for _ in range(3):
            assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(1_000_000) == body
        client.close()
        assert script.connections == 1
