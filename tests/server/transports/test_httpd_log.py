"""What clients can write into the log of an HTTP server: a bounded number of lines, and no traceback."""

import contextlib
import logging
import time

import pytest

import mcplite
from mcplite.server.http import endpoint as endpoint_module
from tests.support.children import wait_until
from tests.support.rawhttp import BOTH, Wire, begin, call, chunked, initialize, post, request

#: Times that each thing is done.
TIMES = 60
HEADERS = {"Content-Type": "application/json", "Accept": BOTH}


@pytest.fixture
def server():
    mcp = mcplite.Server("noisy")

    @mcp.tool(scopes=["never"])
    def guarded() -> str:
        return "no"

    with mcplite.serve(mcp) as running:
        yield running


def reset_in_body(wire, number):
    wire.send(request(headers={**HEADERS, "Content-Length": "1000"}) + b"{")
    wire.reset()


def reset_in_chunks(wire, number):
    wire.send(request(headers={**HEADERS, "Transfer-Encoding": "chunked"}) + chunked(b"{" * 10)[:-5])
    wire.reset()


def reset_in_head(wire, number):
    wire.send(b"POST /mcp HTTP/1.1\r\nHost")
    wire.reset()


def reset_before_the_answer(wire, number):
    wire.send(post(initialize()))
    wire.reset()


def short_body(wire, number):
    wire.send(request(headers={**HEADERS, "Content-Length": "1000"}) + b"{").finish()


def no_http(wire, number):
    wire.send(b"\x16\x03\x01" + b"x" * 200 + b"\r\n\r\n")


def no_json(wire, number):
    wire.post(b"\xff{" * 50)


def stray_answer(wire, number):
    wire.post({"jsonrpc": "2.0", "id": number, "result": {"x": "y" * 1000}}, begin(wire))


def strange_message(wire, number):
    wire.post({"jsonrpc": "2.0", "id": [number]}, begin(wire))


def no_scope(wire, number):
    wire.post(call("guarded"), begin(wire))


def long_path(wire, number):
    wire.ask("GET", "/" + "x" * 5000)


DEEDS = [reset_in_body, reset_in_chunks, reset_in_head, reset_before_the_answer, short_body, no_http, no_json, stray_answer,
         strange_message, no_scope, long_path]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_a_flood_writes_little(server, caplog, deed):
    caplog.set_level(logging.INFO)
    for name in ("mcplite.access", "mcplite.server.sessions.legacy", "mcplite.server.http.access"):
        caplog.set_level(logging.WARNING, name)
    began = time.monotonic()
    for number in range(TIMES):
        with Wire(server.port) as wire, contextlib.suppress(ConnectionError):
            deed(wire, number)
    assert wait_until(lambda: not server._connections)
    seconds = int(time.monotonic() - began) + 2
    assert "Traceback" not in caplog.text
    # At most ten lines a second of one cause: a flood could send thousands.
    assert len(caplog.records) <= 11 * seconds and sum(len(one.getMessage()) for one in caplog.records) <= 3000 * seconds
    if deed not in (stray_answer, strange_message, no_scope):
        assert caplog.records == []


def test_a_fault_of_ours_has_few_tracebacks(server, caplog, monkeypatch):
    def fail(request, rules):
        raise KeyError("no")

    monkeypatch.setattr(endpoint_module, "decide", fail)
    for _ in range(20):
        with Wire(server.port) as wire:
            assert wire.post(initialize()).status == 500
    assert 1 <= caplog.text.count("Traceback") <= 5


def test_a_want_of_memory_is_said_without_a_traceback(server, caplog, monkeypatch):
    def fail(request, rules):
        raise MemoryError

    monkeypatch.setattr(endpoint_module, "decide", fail)
    for _ in range(20):
        with Wire(server.port) as wire:
            reply = wire.post(initialize())
            assert reply.status == 503 and reply.headers["retry-after"] == "1"
    assert "Traceback" not in caplog.text and "for want of memory" in caplog.text
