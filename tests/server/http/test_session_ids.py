"""Self-contained session ids."""

import json

import pytest
from hypothesis import given, strategies as st

from mcplite import Limits
from mcplite.protocol.opaque import seal
from mcplite.revisions import LEGACY, NEWEST_LEGACY
from mcplite.server.http.session_ids import ClientDescription, SessionIds
from mcplite.types import ClientCapabilities, Implementation

KEY = b"sixteen bytes or more"


def session_ids(keys=(KEY,), purpose="p", seconds=100.0, now=0.0):
    return SessionIds(list(keys), purpose, seconds, clock=lambda: now)


def test_an_issued_id_is_read_with_any_of_the_keys():
    for revision in LEGACY:
        known = ClientDescription(revision, Implementation(name="c", version="1"), ClientCapabilities(sampling={}))
        read = session_ids([b"another key of bytes", KEY]).read(session_ids().issue(known, "ada"), "ada")
        assert read.revision is revision and read.info.name == "c" and read.capabilities.sampling is not None


def test_each_id_is_another():
    known = ClientDescription(NEWEST_LEGACY)
    assert session_ids().issue(known, "ada") != session_ids().issue(known, "ada")


def test_an_id_is_valid_up_to_its_last_second():
    id = session_ids().issue(ClientDescription(NEWEST_LEGACY), "ada")
    assert session_ids(now=100.0).read(id, "ada") is not None and session_ids(now=100.5).read(id, "ada") is None


def test_ids_for_others_are_not_valid():
    id = session_ids().issue(ClientDescription(NEWEST_LEGACY), "ada")
    assert session_ids().read(id, "ada") is not None
    assert session_ids().read(id, "bob") is None and session_ids().read(id, None) is None
    assert session_ids(purpose="q").read(id, "ada") is None
    assert session_ids([b"another key of bytes"]).read(id, "ada") is None
    assert session_ids(now=101.0).read(id, "ada") is None
    assert session_ids().read("x" * 10_000, "ada") is None


def test_large_capabilities_are_left_out():
    large = ClientCapabilities(experimental={"x": {"y": "z" * 5000}})
    id = session_ids().issue(ClientDescription(NEWEST_LEGACY, None, large), None)
    assert len(id) < 1000 and session_ids().read(id, None).capabilities.experimental is None


def capabilities_of(length):
    """Return capabilities whose JSON has so many characters."""
    bare = len(json.dumps({"experimental": {"x": {"y": ""}}}))
    return ClientCapabilities(experimental={"x": {"y": "z" * (length - bare)}})


@pytest.mark.parametrize("length, kept", [(2047, True), (2048, False)])
def test_capabilities_of_less_than_two_kibibytes_are_kept(length, kept):
    id = session_ids().issue(ClientDescription(NEWEST_LEGACY, None, capabilities_of(length)), None)
    assert (session_ids().read(id, None).capabilities.experimental is not None) is kept


@pytest.mark.parametrize("character", ["a", "\0", '"', "\u00e9", "\U0001f600", "\ud800"])
def test_the_id_of_any_client_fits_into_a_header_line(character):
    # An initialize keeps 256 characters of each.
    name = Implementation(character * 256, character * 256)
    id = session_ids().issue(ClientDescription(NEWEST_LEGACY, name, capabilities_of(2047)), "ada")
    assert len("Mcp-Session-Id: " + id) < Limits().header_line_bytes
    assert session_ids().read(id, "ada").info == name


def test_a_signed_text_of_more_than_a_header_line_is_not_a_session_id():
    content = json.dumps({"r": NEWEST_LEGACY.name, "e": 99}).encode()
    padded = {length: seal(content + b" " * (length * 3 // 4 - len(content) - 32), KEY, session_ids()._binding(None))
              for length in (8192, 8196)}
    assert {length: len(id) for length, id in padded.items()} == {8192: 8192, 8196: 8196}
    assert session_ids().read(padded[8192], None) is not None and session_ids().read(padded[8196], None) is None


def test_malformed_content_under_a_valid_signature_is_refused():
    for content in ({"r": "1999-01-01", "e": 99, "n": ""}, {"r": NEWEST_LEGACY.name, "e": 99, "i": 5, "n": ""},
                    {"r": NEWEST_LEGACY.name, "e": 99, "c": [1], "n": ""}):
        forged = seal(json.dumps(content).encode(), KEY, session_ids()._binding(None))
        assert session_ids().read(forged, None) is None


@given(st.text(max_size=200))
def test_other_text_is_not_a_session_id(text):
    assert session_ids().read(text, None) is None
