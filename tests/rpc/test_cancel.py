"""A cancel token: set once, waitable, with callbacks and a reason."""

import threading

import pytest

from mcplite.errors import Cancelled
from mcplite.rpc.cancel import CancelToken, check_token
from tests.support.faults import every_fault, lines


def test_a_token_keeps_the_first_reason():
    token = CancelToken()
    token.check()
    assert token.cancel("enough")
    assert not token.cancel("later")
    assert token.cancelled and token.reason == "enough" and token.wait(0)
    with pytest.raises(Cancelled, match="enough") as caught:
        token.check()
    assert caught.value.reason == "enough"


def test_token_callbacks_run_once_and_can_be_removed(caplog):
    token, seen = CancelToken(), []
    token.add_callback(lambda: seen.append("first"))
    token.add_callback(lambda: 1 / 0)
    token.add_callback(lambda: seen.append("removed"))()
    token.add_callback(lambda: seen.append("last"))
    token.cancel()
    token.cancel()
    assert seen == ["first", "last"]
    assert "a cancel callback failed" in caplog.text
    token.add_callback(lambda: seen.append("late"))()
    assert seen[-1] == "late"


def test_token_wakes_a_waiter():
    token = CancelToken()
    threading.Timer(0.01, token.cancel).start()
    assert token.wait(20)
    assert not CancelToken().wait(0)


@every_fault
def test_a_callback_that_raises_anything_keeps_nothing_from_the_others(caplog, fault):
    token, seen = CancelToken(), []

    def fail():
        raise fault()

    token.add_callback(fail)
    token.add_callback(lambda: seen.append("second"))
    token.add_callback(fail)
    token.add_callback(lambda: seen.append("last"))
    if issubclass(type(fault()), Exception):
        assert token.cancel()
        assert lines(caplog, "a cancel callback failed") == 2
    else:  # Ctrl-C, or a callback that exits
        with pytest.raises(type(fault())):
            token.cancel()
    assert seen == ["second", "last"] and token.cancelled and not token.cancel()


def test_what_is_no_token():
    check_token(CancelToken())
    with pytest.raises(TypeError, match=r"^cancel= takes an mcplite.CancelToken\(\), whose cancel\(\) ends the call, not <"):
        check_token(threading.Event())
