"""Self-contained session ids."""

import json

from hypothesis import given, strategies as st

from mcplite.protocol.state import seal
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


def test_malformed_content_under_a_valid_signature_is_refused():
    for content in ({"r": "1999-01-01", "e": 99, "n": ""}, {"r": NEWEST_LEGACY.name, "e": 99, "i": 5, "n": ""},
                    {"r": NEWEST_LEGACY.name, "e": 99, "c": [1], "n": ""}):
        forged = seal(json.dumps(content).encode(), KEY, session_ids()._binding(None))
        assert session_ids().read(forged, None) is None


@given(st.text(max_size=200))
def test_other_text_is_not_a_session_id(text):
    assert session_ids().read(text, None) is None
