"""Functions on their own threads: results, errors, and callers that stop waiting."""

import contextvars
import threading

import pytest

from mcplite.auth.login.user_agent import BackgroundCall

LIMIT = 30


def test_the_result_of_a_function():
    call = BackgroundCall(lambda *words: "-".join(words), "a", "b", name="mcplite background")
    assert call.wait(LIMIT) and call.done
    assert call.result() == "a-b"


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_the_error_of_a_function_is_raised_by_result(error):
    def fail():
        raise error

    call = BackgroundCall(fail, name="mcplite background")
    assert call.wait(LIMIT)
    with pytest.raises(type(error)) as raised:
        call.result()
    assert raised.value is error


def test_a_call_can_be_abandoned():
    enough = threading.Event()
    call = BackgroundCall(enough.wait, LIMIT, name="mcplite background")
    try:
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "mcplite background"]
        assert thread.daemon
        assert not call.wait(0) and not call.done
    finally:
        enough.set()
    assert call.wait(LIMIT) and call.done


def test_a_function_sees_a_copy_of_the_callers_context():
    who = contextvars.ContextVar("who")
    who.set("me")

    def look():
        seen = who.get()
        who.set("another")
        return seen

    call = BackgroundCall(look, name="mcplite background")
    assert call.wait(LIMIT)
    assert (call.result(), who.get()) == ("me", "me")
