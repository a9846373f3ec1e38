"""What a new session has to be told."""

from mcplite.client.sessions.legacy import Remembered
from mcplite.protocol.methods import REPEATABLE


def test_the_last_level_and_the_present_subscriptions():
    remembered = Remembered()
    assert list(remembered.again()) == []
    for method, params in (
            ("resources/subscribe", {"uri": "a"}), ("logging/setLevel", {"level": "info"}), ("resources/subscribe", {"uri": "b"}),
            ("resources/unsubscribe", {"uri": "a"}), ("logging/setLevel", {"level": "debug"}), ("resources/unsubscribe", {"uri": "c"}),
            ("resources/subscribe", None), ("resources/subscribe", {"uri": 5}), ("tools/list", {"cursor": "x"})):
        remembered.note(method, params)
    assert list(remembered.again()) == [("logging/setLevel", {"level": "debug"}), ("resources/subscribe", {"uri": "b"})]


def test_a_tool_is_never_called_twice_by_itself():
    assert "tools/call" not in REPEATABLE and "initialize" not in REPEATABLE
