"""What is left of the limits of a call that waits for a session."""

import math
import time

import pytest

from mcplite.client.features.waiting import Waiting
from mcplite.errors import Cancelled, RequestTimeout
from mcplite.rpc.cancel import CancelToken


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
    assert Waiting(5, None, spent=7).least(60) == 5
    assert Waiting(5, 9, spent=7).least(60) == 2


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
    waiting = Waiting(timeout=0.2)
    answers = [False] * 8 + [True]
    waiting.wait(lambda seconds: time.sleep(seconds) or answers.pop(0), "the server", lambda: 7.0)
    assert waiting.spent == 0
    with pytest.raises(ZeroDivisionError), waiting.counting(iter([1.0, 1.1]).__next__):
        raise ZeroDivisionError
    assert 0.09 < waiting.least(None) < 0.11
