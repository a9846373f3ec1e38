"""Session ids that say what is known of a client."""

import json

from hypothesis import given, strategies as st

from mcplite.protocol.state import seal
from mcplite.revisions import LEGACY, NEWEST_LEGACY
from mcplite.server.http.session_ids import ClientDescription, SessionIds
from mcplite.types import ClientCapabilities, Implementation

KEY = b"sixteen bytes or more"


def tickets(keys=(KEY,), purpose="p", seconds=100.0, now=0.0):
    return SessionIds(list(keys), purpose, seconds, clock=lambda: now)


def test_what_was_issued_is_read_by_whoever_has_the_key():
    for revision in LEGACY:
        known = ClientDescription(revision, Implementation(name="c", version="1"), ClientCapabilities(sampling={}))
        read = tickets([b"another key of bytes", KEY]).read(tickets().issue(known, "ada"), "ada")
        assert read.revision is revision and read.info.name == "c" and read.capabilities.sampling is not None


def test_what_is_not_for_us_is_not_read():
    id = tickets().issue(ClientDescription(NEWEST_LEGACY), "ada")
    assert tickets().read(id, "ada") is not None
    assert tickets().read(id, "bob") is None and tickets().read(id, None) is None
    assert tickets(purpose="q").read(id, "ada") is None
    assert tickets([b"another key of bytes"]).read(id, "ada") is None
    assert tickets(now=101.0).read(id, "ada") is None
    assert tickets().read("x" * 10_000, "ada") is None


def test_large_capabilities_are_left_out():
    large = ClientCapabilities(experimental={"x": {"y": "z" * 5000}})
    id = tickets().issue(ClientDescription(NEWEST_LEGACY, None, large), None)
    assert len(id) < 1000 and tickets().read(id, None).capabilities.experimental is None


def test_a_key_in_wrong_hands_does_no_more_than_that():
    for content in ({"r": "1999-01-01", "e": 99, "n": ""}, {"r": NEWEST_LEGACY.name, "e": 99, "i": 5, "n": ""},
                    {"r": NEWEST_LEGACY.name, "e": 99, "c": [1], "n": ""}):
        forged = seal(json.dumps(content).encode(), KEY, tickets()._binding(None))
        assert tickets().read(forged, None) is None


@given(st.text(max_size=200))
def test_anything_else_is_no_ticket(text):
    assert tickets().read(text, None) is None
