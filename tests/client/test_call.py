"""One value for a call: which time limits hold, and how progress is read.

What is left of the limits of a call that waits for a session.
"""

import datetime
import math
import threading
import time

import pytest

from mcplite.client.call import DEFAULT, Waiting, progress_reader, time_limits
from mcplite.errors import Cancelled, ProtocolError, RequestTimeout
from mcplite.rpc.cancel import CancelToken
from mcplite.types import Progress, codec


@pytest.mark.parametrize("timeout, max_timeout, limits", [
    (DEFAULT, DEFAULT, (60, 300)), (10, DEFAULT, (10, 300)), (DEFAULT, 100, (60, 100)), (10, 20, (10, 20)),
    (400, DEFAULT, (400, 400)),  # the given timeout exceeds the default maximum
    (DEFAULT, 5, (None, 5)),  # the maximum is the limit that holds, and that an error names
    (20, 5, (None, 5)), (5, 5, (5, 5)), (None, DEFAULT, (None, None)), (None, 5, (None, 5)), (DEFAULT, None, (60, None)),
    (None, None, (None, None)),
])
def test_a_given_time_wins_over_a_default(timeout, max_timeout, limits):
    assert time_limits(timeout, max_timeout, (60, 300)) == limits


def test_a_client_without_a_timeout_has_no_limit_in_all():
    assert time_limits(DEFAULT, DEFAULT, (None, 300)) == (None, None)
    assert time_limits(3, DEFAULT, (None, 300)) == (3, 300)


@pytest.mark.parametrize("times", [(0, DEFAULT), (-1, DEFAULT), (DEFAULT, 0), (DEFAULT, float("nan"))])
def test_times_must_be_positive(times):
    with pytest.raises(ValueError, match="timeout must be positive"):
        time_limits(*times, (60, 300))


@pytest.mark.parametrize("given", ["5", [5], datetime.timedelta(seconds=5)])
def test_times_must_be_numbers(given):
    with pytest.raises(TypeError, match="^timeout must be a positive number or None, not "):
        time_limits(given, DEFAULT, (60, 300))


def test_a_wait_takes_tokens_alone():
    with pytest.raises(TypeError, match=r"^cancel= takes an mcplite.CancelToken\(\)"):
        Waiting(cancel=threading.Event())


@pytest.mark.parametrize("params", [
    {"progressToken": 3, "progress": 1, "total": 2}, {"progressToken": "t", "total": 2.5, "progress": 0.5},
    {"progressToken": 3, "progress": 1}, {"progressToken": 3, "progress": 1, "total": None},
    {"progressToken": 3, "progress": 1, "total": 2, "message": "half"}, {"progress": 1, "total": 2},
    {"progressToken": 3, "progress": 1, "total": True}, {"progressToken": 3, "progress": 1, "total": "2"},
    {"progressToken": 3, "progress": True, "total": 2}, {"progressToken": 3, "total": 2},
    {"progressToken": 3, "progress": 1, "x": 2},
])
def test_usual_progress_is_read_as_the_decoder_reads_it(params):
    def outcome(read):
        try:
            made = read()
        except ProtocolError as error:
            return str(error)
        return vars(made), repr(made), made.extra

    seen, before = [], dict(params)
    others = {name: value for name, value in params.items() if name != "progressToken"}
    read = outcome(lambda: (progress_reader(seen.append)(params), seen[0])[1])
    assert read == outcome(lambda: codec.decode(Progress, others))
    assert params == before


def never(seconds):
    time.sleep(seconds)
    return False


@pytest.mark.parametrize("limits, text", [
    ({"timeout": 0.1}, r"within 0\.1 s \(timeout\)"), ({"max_timeout": 0.1}, r"within 0\.1 s in all \(max_timeout\)"),
    ({"timeout": 0.1, "max_timeout": 60}, r"\(timeout\)"), ({"timeout": 60, "max_timeout": 0.1}, r"\(max_timeout\)"),
    ({"timeout": 0.1, "max_timeout": 0.1}, r"\(timeout\)"), ({"timeout": 60, "max_timeout": 30.1, "spent": 30}, r"30\.1 s in")])
def test_the_limit_that_ends_the_wait_is_named(limits, text):
    waiting = Waiting(what="did not sing", **limits)
    with pytest.raises(RequestTimeout, match=rf"the server did not sing .*{text}"):
        waiting.wait(never, "the server")
    assert waiting.over


def test_a_timeout_that_has_passed_was_restarted_by_progress():
    assert Waiting(5, None, spent=7, now=lambda: 1.0).least(60) == 5
    assert Waiting(5, 9, spent=7, now=lambda: 1.0).least(60) == 2


def test_what_has_no_limit_waits_until_it_is_over():
    waiting, answers = Waiting(), [False, False, True]
    waiting.wait(lambda seconds: answers.pop(0), "the server")
    assert answers == [] and waiting.least(None) == math.inf and waiting.least(7) == 7 and not waiting.over


def test_a_token_ends_the_wait():
    token = CancelToken()
    waiting = Waiting(cancel=token)
    with pytest.raises(Cancelled, match="enough"):
        waiting.wait(lambda seconds: token.cancel("enough") and False, "the server")
    assert waiting.over


def test_time_that_stands_still_does_not_count():
    clock = [7.0]
    waiting = Waiting(timeout=0.2, now=lambda: clock[0])
    answers = [False] * 8 + [True]
    waiting.wait(lambda seconds: time.sleep(seconds) or answers.pop(0), "the server")
    assert waiting.spent == 0
    clock[0] = 7.1
    assert 0.09 < waiting.least(None) < 0.11
