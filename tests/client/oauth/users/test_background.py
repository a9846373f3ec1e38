"""Functions that run aside: what becomes of their results, their errors, and of who does not wait for them."""

import contextvars
import threading

import pytest

from mcplite.client.oauth.users.background import Aside

LIMIT = 30


def test_what_a_function_returns_is_the_result():
    aside = Aside(lambda *words: "-".join(words), "a", "b", name="mcplite aside")
    assert aside.wait(LIMIT) and aside.over
    assert aside.result() == "a-b"


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_what_a_function_raises_is_raised_for_who_asks(error):
    def fail():
        raise error

    aside = Aside(fail, name="mcplite aside")
    assert aside.wait(LIMIT)
    with pytest.raises(type(error)) as raised:
        aside.result()
    assert raised.value is error


def test_nobody_has_to_wait_for_the_end():
    enough = threading.Event()
    aside = Aside(enough.wait, LIMIT, name="mcplite aside")
    try:
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "mcplite aside"]
        assert thread.daemon
        assert not aside.wait(0) and not aside.over
    finally:
        enough.set()
    assert aside.wait(LIMIT) and aside.over


def test_a_function_sees_the_context_of_who_starts_it_and_does_not_change_it():
    who = contextvars.ContextVar("who")
    who.set("me")

    def look():
        seen = who.get()
        who.set("somebody else")
        return seen

    aside = Aside(look, name="mcplite aside")
    assert aside.wait(LIMIT)
    assert (aside.result(), who.get()) == ("me", "me")
