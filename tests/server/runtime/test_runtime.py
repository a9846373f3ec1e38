"""The serving half: the lifespan, and the end of every conversation."""

import logging
import threading
from contextlib import contextmanager

import pytest

import mcplite
from mcplite.server import Server
from mcplite.server.catalog.registry import Service
from tests.support.children import wait_until


def test_a_lifespan_that_fails_to_begin_is_raised_and_one_that_fails_to_end_is_logged(connect, caplog):
    @contextmanager
    def broken(server):
        raise ValueError("no database")
        yield

    with pytest.raises(ValueError, match="no database"):
        connect(Server("x", lifespan=broken))

    @contextmanager
    def half(server):
        yield 1
        raise ValueError("cannot close")

    client = connect(Server("x", lifespan=half))
    client.close()
    assert "lifespan" in caplog.text


def test_a_lifespan_and_a_service_may_wait_for_a_thread_that_uses_the_server(server):
    seen, logger = [], logging.getLogger("test.lifespan")

    def use(when, spawn=lambda task: None):
        def run():
            logger.error("for all clients")
            spawn(lambda: None)
            seen.append((when, len(server.sessions)))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(20)

    class Part(Service):
        def start(self):
            pass

        def stop(self):
            use("stopped", lambda task: server.runtime.workers.spawn(task))

    @contextmanager
    def lifespan():
        use("entered")
        yield
        use("left")

    server.runtime._lifespan = lifespan
    server.runtime.add_service("part", Part())
    handler = server.logging_handler()
    logger.addHandler(handler)
    try:
        with mcplite.connect(server, revision="2025-11-25") as client:
            client.ping()
            assert seen == [("entered", 0)]
        assert wait_until(lambda: len(seen) == 3)
    finally:
        logger.removeHandler(handler)
    assert seen[1:] == [("stopped", 0), ("left", 0)]


def test_close_ends_every_connection(connect, server):
    clients = [connect(server) for _ in range(3)]
    server.close()
    for client in clients:
        assert client.peer.wait_closed(20)
    server.close()


def test_a_part_that_fails_at_its_end_does_not_keep_the_others(connect, caplog):
    class Part:
        def __init__(self, error=None):
            self.error, self.stopped = error, False

        def start(self):
            pass

        def stop(self):
            self.stopped = True
            if self.error is not None:
                raise self.error

    server = Server("parts")
    parts = Part(MemoryError()), Part(OSError("no descriptor")), Part()
    for number, part in enumerate(parts):
        server.runtime.add_service(str(number), part)
    connect(server).close()
    assert all(part.stopped for part in parts) and server.runtime._workers is None
    assert caplog.text.count("a part of 'parts' failed at its end: part") == 2
