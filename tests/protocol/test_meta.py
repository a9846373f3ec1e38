"""What a request says of its sender, read and written."""

import copy

import pytest

from mcplite.errors import InvalidParams, UnsupportedVersion
from mcplite.protocol import jsonrpc, meta
from mcplite.revisions import JULY_2026, LEGACY, NOVEMBER_2025, REVISIONS
from mcplite.types import ClientCapabilities, Implementation

PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, INFO, LEVEL = (
    PREFIX + name for name in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel"))


def params(**changes):
    meta = {VERSION: JULY_2026.name, CAPABILITIES: {}, **{PREFIX + name: value for name, value in changes.items()}}
    return {"_meta": {key: value for key, value in meta.items() if value is not ...}}


def test_the_version_in_meta_makes_a_request_modern():
    # ERA-18
    assert meta.claims(params()) and meta.claims({"_meta": {VERSION: 7}})
    for given in (None, {}, {"_meta": None}, {"_meta": "x"}, {"_meta": {"progressToken": 1}}):
        assert not meta.claims(given)


def test_the_members_of_an_envelope():
    read = meta.read(params(clientInfo={"name": "c", "version": "1", "title": "C"}, clientCapabilities={
        "elicitation": {"url": {}}, "extensions": {"com.example/x": {"a": 1}}}, logLevel="info"))
    assert (read.version, read.log_level) == (JULY_2026.name, "info")
    assert read.info == Implementation("c", "1", title="C")
    assert read.capabilities == ClientCapabilities(elicitation={"url": {}}, extensions={"com.example/x": {"a": 1}})
    assert read.capabilities is read.capabilities


def test_a_client_may_keep_its_name_to_itself():
    # STAT-05
    read = meta.read(params())
    assert (read.info, read.log_level, read.capabilities) == (None, None, ClientCapabilities())


@pytest.mark.parametrize("given", [
    None, {}, {"_meta": None}, {"_meta": []}, params(protocolVersion=...), params(clientCapabilities=...),
    params(protocolVersion=1), params(clientCapabilities=[1]), params(clientCapabilities=None),
    params(clientCapabilities={"roots": 5}), params(clientInfo="me"), params(clientInfo={"name": "me"}),
    params(clientInfo={"name": 1, "version": "1"}), params(clientInfo=None), params(logLevel=7),
])
def test_members_that_are_missing_or_wrong(given):
    # STAT-03
    with pytest.raises(InvalidParams, match="_meta"):
        meta.read(given)


@pytest.mark.parametrize("version", ["2099-01-01", "", NOVEMBER_2025.name, "x" * 500])
def test_versions_that_are_not_served(version):
    # STAT-16, ERA-23
    with pytest.raises(UnsupportedVersion) as caught:
        meta.revision_of(meta.read(params(protocolVersion=version)), REVISIONS)
    assert caught.value.code == -32022
    assert caught.value.data == {"supported": [known.name for known in reversed(REVISIONS)], "requested": version[:200]}


def test_the_version_that_is():
    read = meta.read(params())
    assert meta.revision_of(read, REVISIONS) is JULY_2026
    with pytest.raises(UnsupportedVersion):
        meta.revision_of(read, LEGACY)


def test_a_sender_that_says_the_same_again_need_not_be_checked_again():
    senders = meta.AcceptedSenders()
    given = params(clientInfo={"name": "c", "version": "1"}, clientCapabilities={"roots": {"listChanged": True}},
                   logLevel="info")
    assert senders.find(given) is None
    senders.note(meta.read(given), JULY_2026)
    again = copy.deepcopy(given)
    found, revision = senders.find({"name": "x", **again})
    read = meta.read(given)
    assert revision is JULY_2026 and found.meta is again["_meta"]
    assert (found.version, found.log_level, found.info, found.capabilities) == (
        read.version, read.log_level, read.info, read.capabilities)


@pytest.mark.parametrize("other", [
    None, {}, {"_meta": None}, {"_meta": {}}, params(clientInfo=["c"]), params(clientCapabilities=None), params(logLevel=7),
    params(protocolVersion="2024-11-05"), {"_meta": {**params()["_meta"], "progressToken": 1}},
])
def test_a_sender_that_says_something_else_is_checked(other):
    senders = meta.AcceptedSenders()
    assert senders.find(other) is None
    senders.note(meta.read(params()), JULY_2026)
    assert senders.find(other) is None and senders.find(params()) is not None


def test_what_a_handler_does_to_its_meta_is_not_what_was_accepted():
    senders, given = meta.AcceptedSenders(), params(clientInfo={"name": "c", "version": "1"})
    senders.note(meta.read(given), JULY_2026)
    given["_meta"][INFO]["name"] = 7
    assert senders.find(given) is None


def test_a_sender_that_says_much_is_not_remembered():
    senders, long = meta.AcceptedSenders(), params(clientInfo={"name": "c" * 10_000, "version": "1"})
    senders.note(meta.read(params()), JULY_2026)
    senders.note(meta.read(long), JULY_2026)
    assert senders.find(long) is None and senders.find(params()) is not None


def test_stamping_keeps_what_is_there_and_changes_nothing():
    # STAT-01, STAT-02, STAT-24
    members = meta.members(JULY_2026, ClientCapabilities(roots={"listChanged": True}), Implementation("c", "1"), "error")
    assert members == {VERSION: JULY_2026.name, CAPABILITIES: {"roots": {}}, INFO: {"name": "c", "version": "1"},
                       LEVEL: "error"}
    given = {"name": "x", "_meta": {"com.example/a": 1}}
    assert meta.stamp(given, members) == {"name": "x", "_meta": {"com.example/a": 1, **members}}
    assert given == {"name": "x", "_meta": {"com.example/a": 1}}
    assert meta.stamp(None, members) == {"_meta": members}


@pytest.mark.parametrize("given", [{}, {"name": "Ätna"}, {"a": {"_meta": 1}, "b": [1.5, None, "\ud800\u2028"]}])
def test_params_whose_envelope_is_encoded_once_are_the_same_text(given):
    fixed = {VERSION: JULY_2026.name, CAPABILITIES: {"roots": {}}, INFO: {"name": "\"c\"", "version": "1"}}
    encoded = jsonrpc.Encoded(fixed)
    for _ in range(2):
        assert jsonrpc.dump_request(7, "m", meta.Stamped(given, encoded)) == jsonrpc.dump(
            jsonrpc.Request(7, "m", meta.stamp(given, fixed)))
    with pytest.raises(TypeError, match="object is not JSON"):
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
