"""What a request's state says, and what it is bound to."""

import json

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.opaque import ReplayLog, bound_to, digest, open_sealed, seal

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
                    max_leaves=8)
CALL = {"name": "pay", "arguments": {"amount": 5, "to": "me"}}


def test_a_state_belongs_to_one_request():
    # MRTR-14, MRTR-16
    bound = bound_to("shop", "alice", "tools/call", CALL)
    assert bound == bound_to("shop", "alice", "tools/call", {"arguments": {"to": "me", "amount": 5}, "name": "pay"})
    others = [("shop2", "alice", "tools/call", CALL), ("shop", "bob", "tools/call", CALL), ("shop", None, "tools/call", CALL),
              ("shop", "alice", "prompts/get", CALL), ("shop", "alice", "tools/call", {**CALL, "name": "get"}),
              ("shop", "alice", "tools/call", {**CALL, "arguments": {"amount": 6, "to": "me"}}),
              ("shop", "alice", "tools/call", {**CALL, "arguments": {"amount": "5", "to": "me"}})]
    assert len({bound, *(bound_to(*other) for other in others)}) == len(others) + 1


def test_the_params_of_a_retry_do_not_change_the_binding():
    # MRTR-27
    later = {**CALL, "_meta": {"progressToken": 9}, "inputResponses": {"a": {}}, "requestState": "x"}
    assert bound_to("shop", None, "tools/call", later) == bound_to("shop", None, "tools/call", CALL)


@given(JSON)
def test_equal_values_have_equal_digests(value):
    assert digest(value) == digest(json.loads(json.dumps(value)))
    assert digest(value) != digest([value])


@given(st.lists(st.tuples(st.text(max_size=4), st.dictionaries(st.text(max_size=3), JSON, max_size=3)), max_size=3),
       st.dictionaries(st.text(max_size=3), JSON, max_size=3), st.integers(0, 9))
def test_a_log_comes_back_as_it_was(rounds, notes, entered):
    log = ReplayLog()
    log.rounds, log.once_results, log.entered = rounds, notes, entered
    back = ReplayLog.load(log.dump(1000.5), 999)
    assert (back.rounds, back.once_results, back.entered) == (rounds, notes, entered)
    assert ReplayLog.load(log.dump(1000.5), 1001) is None  # MRTR-15


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
