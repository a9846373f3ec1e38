"""The states of a fleet: bounds, keys, and the store that may keep them; ``tests/fuzz/test_states.py`` has made-up ones."""

import time

import pytest

from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.protocol.opaque import Journal, bound_to, seal
from mcplite.server.limits import Limits
from mcplite.server.runtime.request_states import KeptStates, States
from tests.support.tight import tight

KEY = b"a key of some bytes"
CALL = ("ada", "tools/call", {"name": "pay"})
#: As long as those of stored states.
HANDLE = "abcdefghijklmnopqrstuvwxyz-_0123"


class Clock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class Store:
    """A store that notes what it is asked."""

    def __init__(self):
        self.kept = {}
        self.taken = []

    def put(self, key, value, seconds):
        self.kept[key] = (value, seconds)

    def take(self, key):
        self.taken.append(key)
        return self.kept.pop(key, (None,))[0]


def states(stored=None, clock=None, keys=(KEY,)):
    clock = clock or Clock()
    kept = None if stored is None else KeptStates(stored, Limits(), 60, print, clock)
    return States(list(keys), "shop", 60, kept, clock)


def journal(characters=0):
    made = Journal()
    made.once_results = {"a": "x" * characters}
    return made


# --- states that travel whole -------------------------------------------------------------------------------


def test_a_state_of_65536_characters_travels():
    longest = max(size for size in range(48_900, 49_200) if len(_written(size)) <= 65_536)
    state = _written(longest)
    assert len(state) == 65_536
    assert states().open(state, *CALL).once_results == journal(longest).once_results


def _written(size):
    try:
        return states().write(journal(size), *CALL)
    except ValueError:
        return "x" * 65_537


def test_a_longer_state_is_not_written():
    with pytest.raises(ValueError, match=r"take \d{6} bytes, and 65536 can travel.*backend="):
        states().write(journal(100_000), *CALL)


def test_a_longer_state_is_not_read():
    """The server never writes one; a program with its key could."""
    context = bound_to("shop", *CALL)
    content = journal().dump(2000)
    # Blanks behind the JSON do not change what it says.
    exact, longer = (seal(content + b" " * (length * 3 // 4 - 32 - len(content)), KEY, context) for length in (65_536, 65_540))
    assert (len(exact), len(longer)) == (65_536, 65_540)
    assert states().open(exact, *CALL) is not None and states().open(longer, *CALL) is None


def test_a_state_is_valid_for_its_time():
    state = states().write(journal(), *CALL)
    assert states(clock=Clock(1060.0)).open(state, *CALL) is not None
    assert states(clock=Clock(1061.0)).open(state, *CALL) is None


def test_the_clock_is_the_one_that_other_processes_have_too():
    before = time.time()
    state = States([KEY], "shop", 600).write(journal(), *CALL)
    assert states(clock=Clock(before)).open(state, *CALL) is not None
    assert states(clock=Clock(before + 600 + 3600)).open(state, *CALL) is None


def test_the_first_key_signs_and_all_verify():
    state = states(keys=[b"new", b"old"]).write(journal(), *CALL)
    assert states(keys=[b"new"]).open(state, *CALL) is not None and states(keys=[b"old"]).open(state, *CALL) is None
    assert states(keys=[b"newest", b"new"]).open(state, *CALL) is not None


# --- states that name the process whose handler waits --------------------------------------------------------


def test_a_process_is_named_to_all_that_have_a_key():
    state = states(keys=[b"new", b"old"]).name_process(HANDLE, 7, *CALL)
    assert state.isascii()
    for keys in ([b"new"], [b"newest", b"new"]):
        assert states(keys=keys).named_process(state, *CALL) == (7, HANDLE, False)
    assert states(keys=[b"old"]).named_process(state, *CALL) == (0, state, False)


@pytest.mark.parametrize("later, over", [(0, False), (59, False), (60, False), (61, True), (100_000, True)])
def test_a_named_process_is_known_when_its_time_is_over(later, over):
    state = states().name_process(HANDLE, 7, *CALL)
    assert states(clock=Clock(1000.0 + later)).named_process(state, *CALL) == (7, HANDLE, over)


@pytest.mark.parametrize("call", [
    ("eve", *CALL[1:]), (None, *CALL[1:]), ("ada", "prompts/get", CALL[2]), ("ada", "tools/call", {"name": "steal"}),
])
def test_a_named_process_is_bound_to_its_request_and_owner(call):
    state = states().name_process(HANDLE, 7, *CALL)
    assert states().named_process(state, *call) == (0, state, False)
    assert States([KEY], "other shop", 60).named_process(state, *CALL) == (0, state, False)


@pytest.mark.parametrize("state", ["", "a" * 32, "a" * 64, "a" * 65, "a" * 200, "7 handle 99999999999"])
def test_what_names_no_process_is_a_handle(state):
    assert states().named_process(state, *CALL) == (0, state, False)


def test_the_two_kinds_of_states_are_not_taken_for_each_other():
    named, whole = states().name_process(HANDLE, 7, *CALL), states().write(journal(), *CALL)
    assert states().open(named, *CALL) is None
    assert states().named_process(whole, *CALL) == (0, whole, False)


# --- states that are stored ---------------------------------------------------------------------------------


def test_only_a_handle_of_192_random_bits_travels():
    store = Store()
    kept = states(store)
    handles = {kept.write(journal(), *CALL) for _ in range(3)}
    assert len(handles) == 3 and {len(handle) for handle in handles} == {32}
    assert set(store.kept) == handles and {seconds for _, seconds in store.kept.values()} == {60}
    assert all(type(value) is bytes for value, _ in store.kept.values())


def test_a_stored_state_can_be_longer_than_one_that_travels():
    kept = states(MemoryBackend(Clock()))
    handle = kept.write(journal(200_000), *CALL)
    assert kept.open(handle, *CALL).once_results == journal(200_000).once_results


def test_a_stored_state_is_bound_to_its_request_and_its_time():
    for who, later in (("eve", 0), ("ada", 61)):
        clock = Clock()
        kept = states(Store(), clock)
        handle = kept.write(journal(), *CALL)
        clock.now += later
        assert kept.open(handle, who, *CALL[1:]) is None


def test_a_store_is_asked_for_short_ascii_handles_only():
    store = Store()
    kept = states(store)
    for handle in ("a" * 64, "a" * 65, "\u00e9", ""):
        assert kept.open(handle, *CALL) is None
    assert store.taken == ["a" * 64, ""]


# --- the bounds of what one process stores -------------------------------------------------------------------


class Process:
    """A process that stores five states or 1,000 bytes of them."""

    def __init__(self, store=None):
        self.now, self.gone = 1000.0, []
        self.store = store or MemoryBackend(self.clock)
        limits = tight(fleet_states=5, fleet_state_bytes=1000)
        self.states = KeptStates(self.store, limits, 60, self.gone.append, self.clock)

    def clock(self):
        return self.now

    def keep(self, sender, size=10):
        self.now += 0.01
        return self.states.keep("x" * size, sender)


def test_the_oldest_of_the_sender_with_the_most_goes():
    process = Process()
    ann, bob = [process.keep("ann") for _ in range(4)], process.keep("bob")
    more = process.keep("bob")
    assert process.gone == [ann[0]] and process.states.take(ann[0]) is None
    assert all(process.states.take(handle) for handle in (*ann[1:], bob, more))


def test_a_sender_makes_room_for_itself():
    process = Process()
    bob, *ann = process.keep("bob"), *(process.keep("ann") for _ in range(4))
    process.keep("ann")
    assert process.gone == ann[:1] and process.states.take(bob), "bob's is older, and he has fewer"


def test_a_state_counts_to_the_sender_of_its_request():
    process = Process()
    states = States([KEY], "shop", 60, process.states, process.clock)

    def write(sender):
        process.now += 0.01
        return states.write(journal(), *CALL, sender)

    bob, *ann = write("bob"), *(write("ann") for _ in range(4))
    write("ann")
    assert process.gone == ann[:1] and states.open(bob, *CALL) is not None


def test_their_bytes_are_bounded_too():
    process = Process()
    first, second, other = process.keep("ann", 400), process.keep("ann", 300), process.keep("bob", 200)
    third = process.keep("ann", 300)
    assert process.gone == [first]
    assert [len(process.states.take(handle)) for handle in (second, other, third)] == [300, 200, 300]


def test_one_that_is_larger_than_all_may_be():
    process = Process()
    handle = process.keep("ann")
    with pytest.raises(ValueError, match="take 1001 bytes, and 1000 can be stored"):
        process.keep("ann", 1001)
    assert process.gone == [] and process.states.take(handle)
    assert process.keep("ann", 1000)


def test_what_was_taken_or_is_over_makes_no_other_go():
    process = Process()
    for _ in range(10):
        assert process.states.take(process.keep("ann"))
    kept = [process.keep("ann") for _ in range(5)]
    assert process.gone == []
    process.now += 61
    assert [process.keep("ann") for _ in range(5)] and process.gone == []
    assert process.states.take(kept[0]) is None


def test_a_store_that_is_away_does_not_stop_a_new_one():
    class Store(MemoryBackend):
        def take(self, key):
            raise BackendError("away")

    process = Process(Store())
    handles = [process.keep("ann") for _ in range(6)]
    assert process.gone == handles[:1]
