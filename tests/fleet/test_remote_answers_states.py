"""What the processes of a fleet store of suspended calls: bounds, and states that name the process whose handler waits."""

import pytest

from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.protocol.opaque import bound_to
from tests.support.suspended import journal, make_calls

KEY = b"a key of some bytes"
CALL = bound_to("shop", "ada", "tools/call", {"name": "pay"})
#: As long as those of stored logs.
HANDLE = "abcdefghijklmnopqrstuvwxyz-_0123"


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


def at(now=1000.0, keys=(KEY,), **options):
    """Return the suspended calls of a process, at a time."""
    return make_calls(keys, Store(), lambda: now, **options)


# --- states that name the process whose handler waits --------------------------------------------------------


def test_a_process_is_named_to_all_that_have_a_key():
    state = at(keys=[b"new", b"old"]).name_process(HANDLE, 7, CALL)
    assert state.isascii()
    for keys in ([b"new"], [b"newest", b"new"]):
        assert at(keys=keys).named_process(state, CALL) == (7, HANDLE, False)
    assert at(keys=[b"old"]).named_process(state, CALL) == (0, state, False)


@pytest.mark.parametrize("later, over", [(0, False), (60, False), (61, True), (100_000, True)])
def test_a_named_process_is_known_when_its_time_is_over(later, over):
    state = at().name_process(HANDLE, 7, CALL)
    assert at(1000.0 + later).named_process(state, CALL) == (7, HANDLE, over)


@pytest.mark.parametrize("call", [
    ("shop", "eve", "tools/call", {"name": "pay"}), ("shop", None, "tools/call", {"name": "pay"}),
    ("shop", "ada", "prompts/get", {"name": "pay"}), ("shop", "ada", "tools/call", {"name": "steal"}),
    ("other shop", "ada", "tools/call", {"name": "pay"}),
])
def test_a_named_process_is_bound_to_its_request_owner_and_server(call):
    state = at().name_process(HANDLE, 7, CALL)
    assert at().named_process(state, bound_to(*call)) == (0, state, False)


@pytest.mark.parametrize("state", ["", "a" * 32, "a" * 64, "a" * 65, "a" * 200, "7 handle 99999999999"])
def test_what_names_no_process_is_a_handle(state):
    assert at().named_process(state, CALL) == (0, state, False)


def test_the_two_kinds_of_states_are_not_taken_for_each_other():
    named, whole = at().name_process(HANDLE, 7, CALL), make_calls([KEY]).seal(journal(), CALL)
    assert make_calls([KEY]).open(named, CALL) is None
    assert at().named_process(whole, CALL) == (0, whole, False)


# --- logs that are stored -----------------------------------------------------------------------------------


class Process:
    """A process that stores five logs or 1,000 bytes of them."""

    def __init__(self, store=None, **limits):
        self.now = 1000.0
        self.store = store or MemoryBackend(self.clock)
        self.calls = make_calls([KEY], self.store, self.clock, **{"fleet_states": 5, "fleet_state_bytes": 1000, **limits})

    def clock(self):
        return self.now

    def keep(self, sender, size=10):
        self.now += 0.01
        return self.calls.store("x" * size, sender)

    def there(self, handle):
        """Tell whether a log is stored."""
        return self.store.get(handle) is not None


def test_only_a_handle_of_192_random_bits_travels():
    process = Process(Store())
    handles = {process.keep("ann") for _ in range(3)}
    assert len(handles) == 3 and {len(handle) for handle in handles} == {32}
    assert process.store.kept == {handle: (b"x" * 10, 60) for handle in handles}


def test_a_stored_log_can_be_longer_than_one_that_travels():
    process = Process(fleet_state_bytes=1_000_000)
    handle = process.calls.store(process.calls.seal(journal(200_000), CALL), "ann")
    assert process.calls.take_stored(handle, CALL).once_results == journal(200_000).once_results


@pytest.mark.parametrize("who, later", [("eve", 0), ("ada", 61)])
def test_a_stored_log_is_bound_to_its_request_and_its_time(who, later):
    process = Process(Store())
    handle = process.calls.store(process.calls.seal(journal(), CALL), "ann")
    process.now += later
    assert process.calls.take_stored(handle, bound_to("shop", who, "tools/call", {"name": "pay"})) is None


def test_a_store_is_asked_for_short_ascii_handles_only():
    process = Process(Store())
    for handle in ("a" * 64, "a" * 65, "\u00e9", ""):
        assert process.calls.take_stored(handle, CALL) is None
    assert process.store.taken == ["a" * 64, ""]


def test_the_oldest_of_the_sender_with_the_most_goes():
    process = Process()
    ann, bob = [process.keep("ann") for _ in range(4)], process.keep("bob")
    more = process.keep("bob")
    assert [process.there(handle) for handle in (*ann, bob, more)] == [False, True, True, True, True, True]
    process.keep("ann")
    assert not process.there(ann[1]) and process.there(bob), "bob's is older, and he has fewer"


def test_their_bytes_are_bounded_too():
    process = Process()
    logs = [process.keep("ann", 400), process.keep("ann", 300), process.keep("bob", 200), process.keep("ann", 300)]
    assert list(map(process.there, logs)) == [False, True, True, True]


def test_one_that_is_larger_than_all_may_be():
    process = Process()
    handle = process.keep("ann")
    with pytest.raises(ValueError, match="take 1001 bytes, and 1000 can be stored"):
        process.keep("ann", 1001)
    assert process.there(handle)
    assert process.keep("ann", 1000)


def test_what_was_taken_or_is_over_makes_no_other_go():
    process = Process()
    for _ in range(10):
        process.calls.take_stored(process.keep("ann"), CALL)
    kept = [process.keep("ann") for _ in range(5)]
    assert all(map(process.there, kept))
    process.now += 61
    assert all(map(process.there, [process.keep("ann") for _ in range(5)])) and not process.there(kept[0])


def test_a_store_that_is_away_does_not_stop_a_new_one():
    class Away(MemoryBackend):
        def take(self, key):
            raise BackendError("away")

    process = Process(Away())
    assert all(process.there(handle) for handle in [process.keep("ann") for _ in range(6)])
