"""Placeholders, and inputs of a configuration: what the user is asked."""

import os

import pytest

from mcplite.client.config import ConfigInput, Placeholders, input_values
from mcplite.errors import TransportError

ENVIRON = {"TOKEN": "t0k", "EMPTY": "", "ProgramFiles(x86)": "C:\\P", "NESTED": "${TOKEN}"}


@pytest.mark.parametrize("text, expected", [
    ("plain", "plain"), ("${TOKEN}", "t0k"), ("Bearer ${TOKEN}!${TOKEN}", "Bearer t0k!t0k"), ("${env:TOKEN}", "t0k"),
    ("${env:ProgramFiles(x86)}", "C:\\P"), ("${EMPTY}", ""), ("${EMPTY:-other}", "other"), ("${MISSING:-other:-x}", "other:-x"),
    ("${MISSING:-}", ""), ("${TOKEN:-other}", "t0k"), ("${NESTED}", "${TOKEN}"), ("${workspaceFolder}/x", "/work space/x"),
    ("${userHome}/x", os.path.expanduser("~") + "/x"), ("$TOKEN $$ $ {TOKEN} ${", "$TOKEN $$ $ {TOKEN} ${"),
    ("${env:MISSING:-x}", "x"), ("${MISSING:-${TOKEN}}", "t0k"), ("${MISSING:-a${ALSO_MISSING:-b${TOKEN}c}d}e", "abt0kcde"),
    ("${MISSING:-${EMPTY:-${env:TOKEN}}}/${TOKEN}", "t0k/t0k"), ("${TOKEN:-${NO_SUCH_VARIABLE}}", "t0k"),
    ("${MISSING:-${NESTED}}", "${TOKEN}"), ('${MISSING:-{"a": {"b": 1}}}', '{"a": {"b": 1}}'),
    ("${MISSING:-${userHome}}", os.path.expanduser("~")), ("${{ secrets.TOKEN }} ${TOKEN}", "${{ secrets.TOKEN }} t0k"),
    ("} ${TOKEN} {", "} t0k {"), ("${ without end, ${TOKEN}", "${ without end, t0k"),
    ("${workspaceFolderBasename}${pathSeparator}${/}", f"work space{os.sep}{os.sep}"),
])
def test_placeholders_are_replaced(text, expected):
    assert Placeholders(ENVIRON, "/work space").fill(text) == expected


@pytest.mark.parametrize("text, message", [
    ("${MISSING}", "variable MISSING is not set"),
    ("${env:MISSING}", "variable MISSING is not set"),
    ("${input:key}", r"\$\{input:key\} would ask the user"),
    ("${command:x}", r"\$\{command:x\} is not supported"),
    ("${}", r"\$\{\} is not supported"),
    ("${a b}", "is not supported"),
    ("${workspaceFolder}", "not in a file"),
    ("${MISSING:-${ALSO_MISSING}}", "variable ALSO_MISSING is not set"),
    ("${A:-" * 50 + "x" + "}" * 50, "more than 20 defaults"),
])
def test_unsupported_placeholders_are_errors(text, message):
    with pytest.raises(TransportError, match=message):
        Placeholders(ENVIRON, None).fill(text)


@pytest.mark.parametrize("piece", ["${", "${A", "{", "}", "${{", "$"])
def test_braces_without_an_end_take_linear_time(piece):
    text = piece * 200_000
    assert Placeholders(ENVIRON, None).fill(text) == text


def test_inputs_with_all_their_members():
    asked = []
    values = input_values({"inputs": [
        5, {"id": "key", "type": "promptString", "description": "The key", "password": True, "default": "d"},
        {"id": "pick", "type": "pickString", "options": ["a", {"value": "b", "label": "B"}]}]},
        lambda one: asked.append(one) or "x")
    assert [values(name) for name in ("key", "pick", "key")] == ["x", "x", "x"]
    assert asked == [ConfigInput("key", "The key", True, "d"), ConfigInput("pick", options=[("a", "a"), ("b", "B")])]


@pytest.mark.parametrize("document, problem", [
    ({}, "no entry with the id 'key'"), ([], "no entry"), ({"inputs": {}}, "no entry"), ({"inputs": [{"id": "x"}]}, "no entry"),
    ({"inputs": [{"id": "key", "type": "command"}]}, "type 'command' works in an editor only"),
])
def test_inputs_that_cannot_be_asked_for(document, problem):
    with pytest.raises(TransportError, match=problem):
        input_values(document, lambda one: "x")("key")
