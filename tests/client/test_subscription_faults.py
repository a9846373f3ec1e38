"""The thread of a subscription goes on after any one fault."""

import threading

import pytest

from mcplite import ToolsChanged
from mcplite.client.subscription import Subscription
from tests.client.test_subscription import LIMIT, TOOLS, ChangeServer
from tests.support.faults import every_fault, lines, strike


@every_fault
@pytest.mark.parametrize("method", ["_acknowledge", "_pause"])
@pytest.mark.slow
def test_a_subscription_is_resumed_after_a_fault(monkeypatch, caplog, method, fault):
    with ChangeServer() as fake, fake.connect() as client, client.listen(tools=True) as events:
        struck = strike(monkeypatch, Subscription, method, fault)
        fake.end()
        while events.get(LIMIT) != ToolsChanged(missed=True):
            pass
        assert struck.is_set()
        fake.say(TOOLS, 2)
        assert events.get(LIMIT) == ToolsChanged() and events.error is None
    assert lines(caplog, "listener of ") == 1


@every_fault
@pytest.mark.slow
def test_a_session_that_cannot_be_had_for_a_moment_is_asked_for_again(monkeypatch, fault):
    with ChangeServer() as fake, fake.connect() as client:
        ending = threading.Event()
        struck = strike(monkeypatch, client, "_open_session", fault, ending.is_set)
        events = client.listen(tools=True)
        ending.set()
        fake.end()
        assert events.get(LIMIT) == ToolsChanged(missed=True) and struck.is_set()
