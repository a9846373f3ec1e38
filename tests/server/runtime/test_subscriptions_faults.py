"""A fault while one client is told of a change keeps nothing from the others, and from that one only until the next change."""

import pytest

from mcplite.errors import TransportError
from mcplite.rpc.request import Incoming
from tests.server.runtime.test_subscriptions import Stream, make
from tests.support.faults import lines, strike
from tests.support.stateless import Web

TOOLS, PROMPTS = "notifications/tools/list_changed", "notifications/prompts/list_changed"


@pytest.fixture
def listening():
    web = Web(make())
    streams = [Stream(web, {"toolsListChanged": True, "promptsListChanged": True}, id) for id in (1, 2)]
    for stream in streams:
        assert stream.get()["method"] == "notifications/subscriptions/acknowledged"
    yield web, streams
    for stream in streams:
        stream.leave()
    web.close()


@pytest.mark.parametrize("fault", [MemoryError, RuntimeError])
def test_what_was_not_sent_is_sent_with_the_next_change(listening, monkeypatch, caplog, fault):
    web, (first, second) = listening
    struck = strike(monkeypatch, Incoming, "offer", fault)
    web.mcp.tools_changed()
    assert struck.is_set() and second.get()["method"] == TOOLS
    web.mcp.prompts_changed()
    assert {first.get()["method"] for _ in range(2)} == {TOOLS, PROMPTS}
    assert second.get()["method"] == PROMPTS
    assert lines(caplog, "a client is told of a change with the next one") == 1


def test_a_slow_client_is_told_once_the_system_has_a_thread(listening, monkeypatch, caplog):
    web, (first, second) = listening
    runtime = web.mcp.runtime
    monkeypatch.setattr(Incoming, "offer", lambda *arguments: False)
    refused = strike(monkeypatch, type(runtime.workers), "spawn", lambda: TransportError("no thread"))
    web.mcp.tools_changed()
    assert refused.is_set() and second.get()["method"] == TOOLS
    web.mcp.prompts_changed()
    assert {first.get()["method"] for _ in range(2)} == {TOOLS, PROMPTS}
    assert lines(caplog, "a client is told of a change with the next one") == 1
