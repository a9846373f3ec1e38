"""The state that a renewed session restores."""

from mcplite.client.sessions.legacy import ServerState
from mcplite.protocol.methods import REPEATABLE


def test_the_last_level_and_the_current_subscriptions():
    state = ServerState()
    assert list(state.requests()) == []
    for method, params in (
            ("resources/subscribe", {"uri": "a"}), ("logging/setLevel", {"level": "info"}),
            ("resources/subscribe", {"uri": "b"}), ("resources/unsubscribe", {"uri": "a"}),
            ("logging/setLevel", {"level": "debug"}), ("resources/unsubscribe", {"uri": "c"}), ("resources/subscribe", None),
            ("resources/subscribe", {"uri": 5}), ("tools/list", {"cursor": "x"})):
        state.remember(method, params)
    assert list(state.requests()) == [("logging/setLevel", {"level": "debug"}), ("resources/subscribe", {"uri": "b"})]


def test_tool_calls_are_not_repeatable():
    assert "tools/call" not in REPEATABLE and "initialize" not in REPEATABLE
