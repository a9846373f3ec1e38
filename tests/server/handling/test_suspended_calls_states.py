"""The sealed logs that travel as a state: length, time, keys; ``tests/fuzz/test_states.py`` has made-up ones."""

import time

import pytest

from mcplite.protocol.opaque import bound_to, seal
from tests.support.suspended import journal, make_calls

KEY = b"a key of some bytes"
CALL = bound_to("shop", "ada", "tools/call", {"name": "pay"})


def at(now=1000.0, keys=(KEY,)):
    """Return the suspended calls of a process, at a time."""
    return make_calls(keys, clock=lambda: now)


def test_a_state_of_65536_characters_travels():
    longest = max(size for size in range(48_900, 49_200) if len(_written(size)) <= 65_536)
    state = _written(longest)
    assert len(state) == 65_536
    assert at().open(state, CALL).once_results == journal(longest).once_results


def _written(size):
    try:
        return at().seal(journal(size), CALL)
    except ValueError:
        return "x" * 65_537


def test_a_longer_state_is_not_written():
    with pytest.raises(ValueError, match=r"take \d{6} bytes, and 65536 can travel.*backend="):
        at().seal(journal(100_000), CALL)


def test_a_longer_state_is_not_read():
    """The server never writes one; a program with its key could."""
    content = journal().dump(2000)
    # Blanks behind the JSON do not change what it says.
    exact, longer = (seal(content + b" " * (length * 3 // 4 - 32 - len(content)), KEY, CALL) for length in (65_536, 65_540))
    assert (len(exact), len(longer)) == (65_536, 65_540)
    assert at().open(exact, CALL) is not None and at().open(longer, CALL) is None


def test_the_clock_is_the_one_that_other_processes_have_too():
    before = time.time()
    state = make_calls([KEY], waiting_seconds=600).seal(journal(), CALL)
    assert at(before).open(state, CALL) is not None
    assert at(before + 600 + 3600).open(state, CALL) is None
