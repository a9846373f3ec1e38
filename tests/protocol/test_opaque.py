"""Sealed values, the states of requests among them, and how they are written."""

import json

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.opaque import ReplayLog, base64url_decode, base64url_encode, bound_to, digest, open_sealed, seal

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
                    max_leaves=8)
CALL = {"name": "pay", "arguments": {"amount": 5, "to": "me"}}


def test_the_params_of_a_retry_do_not_change_the_binding():
    # MRTR-27, and the order of members decides nothing. A state of any other request is refused: tests/fuzz/test_states.py.
    later = {**CALL, "_meta": {"progressToken": 9}, "inputResponses": {"a": {}}, "requestState": "x"}
    bound = bound_to("shop", None, "tools/call", CALL)
    assert bound_to("shop", None, "tools/call", later) == bound
    assert bound_to("shop", None, "tools/call", {"arguments": {"to": "me", "amount": 5}, "name": "pay"}) == bound


@given(JSON)
def test_equal_values_have_equal_digests(value):
    assert digest(value) == digest(json.loads(json.dumps(value)))
    assert digest(value) != digest([value])


@pytest.mark.parametrize("note", [{1, 2}, float("nan"), object()])
def test_a_note_must_be_json(note):
    log = ReplayLog()
    log.once_results = {"a": note}
    with pytest.raises((TypeError, ValueError)):
        log.dump(0)


def test_every_release_writes_and_reads_the_same():
    """The processes of a fleet run different releases while one replaces the other."""
    log = ReplayLog()
    log.rounds, log.once_results, log.entered = [("d", {"k": {"action": "accept"}})], {"o": 1}, 2
    assert log.dump(1000.9) == b'{"e":1000,"r":[["d",{"k":{"action":"accept"}}]],"o":{"o":1},"n":2}'
    assert digest({"b": [1, 2.5, None], "a": "\u00e9"}) == "84afbf1d4853005f9dd0c81cb1819b53"
    sealed = "cO6U0PoegapxIdbbl9_3_uvu_bsAQTNvUqU_4u3W041jb250ZW50"
    assert seal(b"content", b"a key of enough bytes", "context") == sealed
    assert open_sealed(sealed, [b"a key of enough bytes"], "context") == b"content"


def test_a_log_is_valid_in_its_last_second():
    assert ReplayLog.load(ReplayLog().dump(1000), 1000) is not None and ReplayLog.load(ReplayLog().dump(1000), 1000.5) is None


OLD, NEW = b"an old key of some bytes", b"a new key of some bytes"


@given(st.binary(max_size=100), st.text(max_size=20))
def test_sealed_content_is_opened(content, context):
    sealed = seal(content, NEW, context)
    assert sealed.isascii() and sealed.isprintable() and " " not in sealed
    assert open_sealed(sealed, [OLD, NEW], context) == content
    assert open_sealed(sealed, [OLD], context) is None
    assert open_sealed(sealed, [NEW], context + "x") is None


def test_the_context_cannot_run_into_the_content():
    assert open_sealed(seal(b"bc", NEW, "a"), [NEW], "ab") is None
    one, other = seal(b"1:x", NEW, ""), seal(b"x", NEW, "1:")
    assert one[:40] != other[:40]


@given(st.binary())
def test_encoded_bytes_are_decoded(data):
    text = base64url_encode(data)
    assert base64url_decode(text) == data and set(text).isdisjoint("+/=")


@pytest.mark.parametrize("data, text", [(b"", ""), (b"\xfb\xff", "-_8"), (b"a", "YQ"), (b"abc", "YWJj")])
def test_the_alphabet_is_that_of_urls(data, text):
    assert base64url_encode(data) == text and base64url_decode(text) == data


@pytest.mark.parametrize("text", ["YQ==x", "Y", "Y Q", "\u00fc"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError):
        base64url_decode(text)
