"""What a request says of its sender, read by a server."""

import copy

import pytest

from mcplite.errors import InvalidParams, UnsupportedVersion
from mcplite.revisions import JULY_2026, LEGACY, NOVEMBER_2025, REVISIONS
from mcplite.server.sessions.modern import AcceptedSenders, names_revision, read_envelope, revision_of
from mcplite.types import ClientCapabilities, Implementation

PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, INFO = (PREFIX + name for name in ("protocolVersion", "clientCapabilities", "clientInfo"))


def params(**changes):
    meta = {VERSION: JULY_2026.name, CAPABILITIES: {}, **{PREFIX + name: value for name, value in changes.items()}}
    return {"_meta": {key: value for key, value in meta.items() if value is not ...}}


def test_the_version_in_meta_makes_a_request_modern():
    # ERA-18
    assert names_revision(params()) and names_revision({"_meta": {VERSION: 7}})
    for given in (None, {}, {"_meta": None}, {"_meta": "x"}, {"_meta": {"progressToken": 1}}):
        assert not names_revision(given)


def test_the_members_of_an_envelope():
    read = read_envelope(params(clientInfo={"name": "c", "version": "1", "title": "C"}, clientCapabilities={
        "elicitation": {"url": {}}, "extensions": {"com.example/x": {"a": 1}}}, logLevel="info"))
    assert (read.version, read.log_level) == (JULY_2026.name, "info")
    assert read.info == Implementation("c", "1", title="C")
    assert read.capabilities == ClientCapabilities(elicitation={"url": {}}, extensions={"com.example/x": {"a": 1}})
    assert read.capabilities is read.capabilities


def test_a_client_may_keep_its_name_to_itself():
    # STAT-05
    read = read_envelope(params())
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
        read_envelope(given)


@pytest.mark.parametrize("version", ["2099-01-01", "", NOVEMBER_2025.name, "x" * 500])
def test_versions_that_are_not_served(version):
    # STAT-16, ERA-23
    with pytest.raises(UnsupportedVersion) as caught:
        revision_of(read_envelope(params(protocolVersion=version)), REVISIONS)
    assert caught.value.code == -32022
    assert caught.value.data == {"supported": [known.name for known in reversed(REVISIONS)], "requested": version[:200]}


def test_the_version_that_is():
    read = read_envelope(params())
    assert revision_of(read, REVISIONS) is JULY_2026
    with pytest.raises(UnsupportedVersion):
        revision_of(read, LEGACY)


def test_a_sender_that_says_the_same_again_need_not_be_checked_again():
    senders = AcceptedSenders()
    given = params(clientInfo={"name": "c", "version": "1"}, clientCapabilities={"roots": {"listChanged": True}},
                   logLevel="info")
    assert senders.find(given) is None
    senders.note(read_envelope(given), JULY_2026)
    again = copy.deepcopy(given)
    found, revision = senders.find({"name": "x", **again})
    read = read_envelope(given)
    assert revision is JULY_2026 and found.meta is again["_meta"]
    assert (found.version, found.log_level, found.info, found.capabilities) == (
        read.version, read.log_level, read.info, read.capabilities)


@pytest.mark.parametrize("other", [
    None, {}, {"_meta": None}, {"_meta": {}}, params(clientInfo=["c"]), params(clientCapabilities=None), params(logLevel=7),
    params(protocolVersion="2024-11-05"), {"_meta": {**params()["_meta"], "progressToken": 1}},
])
def test_a_sender_that_says_something_else_is_checked(other):
    senders = AcceptedSenders()
    assert senders.find(other) is None
    senders.note(read_envelope(params()), JULY_2026)
    assert senders.find(other) is None and senders.find(params()) is not None


def test_what_a_handler_does_to_its_meta_is_not_what_was_accepted():
    senders, given = AcceptedSenders(), params(clientInfo={"name": "c", "version": "1"})
    senders.note(read_envelope(given), JULY_2026)
    given["_meta"][INFO]["name"] = 7
    assert senders.find(given) is None


def test_a_sender_that_says_much_is_not_remembered():
    senders, long = AcceptedSenders(), params(clientInfo={"name": "c" * 10_000, "version": "1"})
    senders.note(read_envelope(params()), JULY_2026)
    senders.note(read_envelope(long), JULY_2026)
    assert senders.find(long) is None and senders.find(params()) is not None
