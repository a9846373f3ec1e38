"""What a request says of its sender, as a client writes it."""

import pytest

from mcplite.protocol import jsonrpc, meta
from mcplite.revisions import JULY_2026, REVISIONS
from mcplite.types import ClientCapabilities, Implementation

PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, INFO, LEVEL = (
    PREFIX + name for name in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel"))


def test_stamping_keeps_what_is_there_and_changes_nothing():
    # STAT-01, STAT-02, STAT-24
    members = meta.members(JULY_2026, ClientCapabilities(roots={"listChanged": True}), Implementation("c", "1"), "error")
    assert members == {VERSION: JULY_2026.name, CAPABILITIES: {"roots": {}}, INFO: {"name": "c", "version": "1"},
                       LEVEL: "error"}
    given = {"name": "x", "_meta": {"com.example/a": 1}}
    assert meta.stamp(given, members) == {"name": "x", "_meta": {"com.example/a": 1, **members}}
    assert given == {"name": "x", "_meta": {"com.example/a": 1}}
    assert meta.stamp(None, members) == {"_meta": members}


@pytest.mark.parametrize("given", [{}, {"name": "Ätna"}, {"a": {"_meta": 1}, "b": [1.5, None, "\ud800\u2028"]},
                                   *({"text": "ä\ud800" * (jsonrpc.LONG // 2) + "x" * more} for more in range(-12, 4))])
def test_params_whose_envelope_is_encoded_once_are_the_same_text(given):
    fixed = {VERSION: JULY_2026.name, CAPABILITIES: {"roots": {}}, INFO: {"name": "\"c\"", "version": "1"}}
    encoded = jsonrpc.Encoded(fixed)
    for _ in range(2):
        assert jsonrpc.dump_request(7, "m", meta.Stamped(given, encoded)) == jsonrpc.dump(
            jsonrpc.Request(7, "m", meta.stamp(given, fixed)))
    with pytest.raises(TypeError, match="object cannot be sent as JSON"):
        jsonrpc.dump_request(7, "m", meta.Stamped({"a": object()}, encoded))
    assert INFO not in meta.members(JULY_2026, ClientCapabilities(), None)


def test_trace_context_is_sent_as_it_is_written():
    # META-08
    good = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=opaque",
            "baggage": "userId=alice,serverNode=DF%2028"}
    assert meta.checked_trace(good) == good
    bad = {"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "tracestate": "line\nbreak", "baggage": "", "other": "x"}
    assert meta.checked_trace(bad) == {}
    assert meta.checked_trace({**good, "traceparent": 7}) == {key: good[key] for key in ("tracestate", "baggage")}


def test_repeatable_methods_are_requests_of_a_client():
    known = {method for revision in REVISIONS for method in revision.client_requests | revision.task_requests}
    assert meta.REPEATABLE < known
    # A tool has effects, a second handshake would begin another session, and a task is cancelled once.
    assert known - meta.REPEATABLE == {"initialize", "tools/call", "tasks/cancel"}
