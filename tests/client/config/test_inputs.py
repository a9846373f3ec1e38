"""Inputs of a configuration: what the user is asked."""

import pytest

from mcplite.client.config.inputs import ConfigInput, InputValues
from mcplite.errors import TransportError


def test_inputs_with_all_their_members():
    asked = []
    values = InputValues({"inputs": [
        5, {"id": "key", "type": "promptString", "description": "The key", "password": True, "default": "d"},
        {"id": "pick", "type": "pickString", "options": ["a", {"value": "b", "label": "B"}]}]},
        lambda one: asked.append(one) or "x")
    assert [values.value(name) for name in ("key", "pick", "key")] == ["x", "x", "x"]
    assert asked == [ConfigInput("key", "The key", True, "d"), ConfigInput("pick", options=[("a", "a"), ("b", "B")])]


@pytest.mark.parametrize("document, problem", [
    ({}, "no entry with the id 'key'"), ([], "no entry"), ({"inputs": {}}, "no entry"), ({"inputs": [{"id": "x"}]}, "no entry"),
    ({"inputs": [{"id": "key", "type": "command"}]}, "type 'command' works in an editor only"),
])
def test_inputs_that_cannot_be_asked_for(document, problem):
    with pytest.raises(TransportError, match=problem):
        InputValues(document, lambda one: "x").value("key")
