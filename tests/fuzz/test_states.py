"""States that travel through a client: they are read only unchanged, in time and with their own request."""

import json

import pytest
from hypothesis import example, given, strategies as st

from mcplite.backend.memory import MemoryBackend
from mcplite.protocol.opaque import ReplayLog, bound_to
from tests.support.fakes import Clock
from tests.support.suspended import make_calls

OLD, NEW = b"an old key of some bytes", b"a new key of some bytes"
#: Also what no UTF-8 has: JSON can say it, in an escape.
TEXT = st.text(max_size=8) | st.lists(st.sampled_from(["\ud800", "a", "\0"]), max_size=3).map("".join)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
WHO = st.none() | TEXT
METHODS = st.sampled_from(["tools/call", "prompts/get", "resources/read"])
PARAMS = st.fixed_dictionaries({"name": TEXT, "arguments": OBJECTS}, optional={
    "_meta": OBJECTS, "inputResponses": OBJECTS})
#: The letters of the text itself, what stands for the same values elsewhere, and what does not belong there.
LETTERS = st.sampled_from("AQgwBCDabc019-_+/=. \n\ud800") | st.characters()


@st.composite
def journals(draw):
    journal = ReplayLog()
    journal.rounds = draw(st.lists(st.tuples(TEXT, OBJECTS), max_size=3))
    journal.once_results = draw(OBJECTS)
    journal.entered = draw(st.integers(0, 9))
    return journal


def states(*keys, clock=None, stored=None):
    return make_calls(keys or (NEW,), stored, clock or Clock())


def by(who, method, params, server="shop"):
    """Return what a state is bound to."""
    return bound_to(server, who, method, params)


def content(journal):
    return None if journal is None else (journal.rounds, journal.once_results, journal.entered)


@given(journals(), WHO, METHODS, PARAMS, OBJECTS)
@pytest.mark.slow
def test_a_state_is_read_unchanged(journal, who, method, params, later):
    state = states().seal(journal, by(who, method, params))
    assert state.isascii() and state.isprintable() and " " not in state
    # The retry has answers, and may say other things of itself.
    retry = {**json.loads(json.dumps(params)), "inputResponses": later, "requestState": state, "_meta": later}
    assert content(states().open(state, by(who, method, retry))) == content(journal)


@given(journals(), WHO, METHODS, PARAMS, st.data())
def test_a_state_belongs_to_one_request_of_one_principal(journal, who, method, params, data):
    # MRTR-14, MRTR-16
    state = states().seal(journal, by(who, method, params))
    another = data.draw(WHO.filter(lambda other: other != who))
    assert states().open(state, by(another, method, params)) is None
    another = data.draw((METHODS | TEXT).filter(lambda other: other != method))
    assert states().open(state, by(who, another, params)) is None
    name = data.draw(TEXT.filter(lambda other: other != params["name"]))
    assert states().open(state, by(who, method, {**params, "name": name})) is None
    arguments = data.draw(OBJECTS.filter(lambda other: json.dumps(other, sort_keys=True) != json.dumps(
        params["arguments"], sort_keys=True)))
    assert states().open(state, by(who, method, {**params, "arguments": arguments})) is None
    assert states().open(state, by(who, method, {**params, "more": data.draw(JSON)})) is None
    assert states().open(state, by(who, method, {"arguments": params["arguments"]})) is None
    assert states().open(state, by(who, method, params, "shop2")) is None


@given(journals(), st.data())
def test_any_changed_character_is_detected(journal, data):
    # MRTR-12, MRTR-13
    state = states().seal(journal, by("ada", "tools/call", {"name": "pay"}))
    at = data.draw(st.integers(0, len(state) - 1) | st.sampled_from([0, len(state) - 1]))
    letter = data.draw(LETTERS)
    for changed in (state[:at] + letter + state[at + 1:], state[:at] + letter + state[at:], state[:at] + state[at + 1:],
                    state[:at], state + letter):
        if changed != state:
            assert states().open(changed, by("ada", "tools/call", {"name": "pay"})) is None, (at, letter)


@pytest.mark.parametrize("notes", [{}, {"a": 1}, {"a": 10}])
def test_a_state_has_only_one_encoding(notes):
    """Base64 has more than one text for the same bytes; a count or comparison of states must not be deceived."""
    journal = ReplayLog()
    journal.once_results = notes
    for entered in range(20):
        journal.entered = entered
        journal.once_results["b"] = "?>" * entered
        state = states().seal(journal, by(None, "tools/call", {}))
        others = {state[:-1] + letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"}
        others |= {state + "=", state + "==", state + "\n", " " + state}
        others |= {state.replace("-", "+"), state.replace("_", "/")}
        opened = [other for other in others - {state} if states().open(other, by(None, "tools/call", {})) is not None]
        assert opened == []


@given(journals(), st.floats(0, 10 ** 6))
def test_a_state_expires(journal, seconds):
    # MRTR-15
    clock = Clock()
    kept = states(clock=clock)
    state = kept.seal(journal, by(None, "tools/call", {}))
    clock.now += seconds
    opened = kept.open(state, by(None, "tools/call", {}))
    assert content(opened) == (content(journal) if seconds <= 60 else None)


@given(journals())
def test_keys_can_be_replaced(journal):
    # MRTR-18
    before, between, after = states(OLD), states(NEW, OLD), states(NEW)
    old, new = before.seal(journal, by(None, "tools/call", {})), between.seal(journal, by(None, "tools/call", {}))
    opened = [[reader.open(state, by(None, "tools/call", {})) is not None for reader in (before, between, after)]
              for state in (old, new)]
    assert opened == [[True, True, False], [False, True, True]]
    assert old != new


@given(TEXT | st.text("AZaz09-_", max_size=200) | st.binary(max_size=60).map(repr), st.booleans())
@example("A" * 200_000, False)
@example("é" * 64, True)
@example("\ud800", True)
def test_any_other_text_is_no_state(text, kept):
    read = states(stored=MemoryBackend()).take_stored if kept else states().open
    assert read(text, by(None, "tools/call", {})) is None


@given(journals(), WHO, PARAMS)
def test_a_stored_state_is_valid_once(journal, who, params):
    # MRTR-17
    kept = states(stored=MemoryBackend(Clock()))

    def store():
        return kept.store(kept.seal(journal, by(who, "tools/call", params)), "ann")

    handle = store()
    assert len(handle) <= 64 and handle.isascii()
    assert kept.take_stored(handle + "x", by(who, "tools/call", params)) is None
    assert content(kept.take_stored(handle, by(who, "tools/call", params))) == content(journal)
    assert kept.take_stored(handle, by(who, "tools/call", params)) is None
    assert kept.take_stored(store(), by("eve", "tools/call", params)) is None


@given(st.integers(0, 120_000))
@example(48_000)
@example(50_000)
def test_a_state_is_sent_or_too_long(size):
    journal = ReplayLog()
    journal.once_results = {"a": "x" * size}
    try:
        state = states().seal(journal, by(None, "tools/call", {}))
    except ValueError as error:
        assert size > 45_000 and "can travel" in str(error)
    else:
        assert len(state) <= 65_536
        assert states().open(state, by(None, "tools/call", {})).once_results == journal.once_results
