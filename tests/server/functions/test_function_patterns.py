"""Regular expressions of registered tools: one that is not safe is no switch that strangers can turn."""

from typing import Annotated, TypedDict

import pytest

import mcplite
from mcplite.protocol.schema.patterns import UNSAFE_SUBJECT
from tests.support.results import text_of

EMAIL = "^([a-zA-Z0-9]+[-._]?)+@example[.]com$"
ATTACK = "a" * 30
NAMES = {"type": "object", "properties": {"given": {"type": "object", "patternProperties": {"^(x+)+$": {"type": "integer"}}}}}


def by_annotation(server, **options):
    @server.tool(name="take", **options)
    def take(given: Annotated[str, {"pattern": EMAIL}]) -> str:
        return "taken"


def by_schema(server, **options):
    @server.tool(name="take", input_schema={"type": "object", "properties": {"given": {"type": "string", "pattern": EMAIL}}},
                 **options)
    def take(given: str = "") -> str:
        return "taken"


def by_union(server, **options):
    schema = {"type": "object", "properties": {"given": {"oneOf": [{"type": "string", "pattern": EMAIL}, {"type": "integer"}]}}}

    @server.tool(name="take", input_schema=schema, **options)
    def take(given: str = "") -> str:
        return "taken"


@pytest.mark.parametrize("register", [by_annotation, by_schema, by_union])
def test_a_pattern_that_is_not_safe_is_matched_against_short_texts_and_its_author_is_warned(server, connect, caplog, register):
    register(server)
    warning, = caplog.messages
    assert "tool 'take'" in warning and EMAIL in warning and "trusted_patterns=True" in warning
    assert "a repeat of {1,} times overlaps" in warning and f"at most {UNSAFE_SUBJECT} characters" in warning
    client = connect(server)
    assert text_of(client.call("take", {"given": "ada@example.com"})) == "taken"
    for text in ("a" * UNSAFE_SUBJECT, ATTACK, "a" * 10_000):
        assert "take" in text_of(client.call("take", {"given": text})) and client.result("ping") == {}
    refusal = text_of(client.call("take", {"given": ATTACK}))
    assert "30 characters" in refusal or register is by_union


def test_names_are_matched_against_such_a_pattern_in_the_same_way(server, connect, caplog):
    @server.tool(input_schema=NAMES)
    def take(given: dict = {}) -> str:  # noqa: B006
        return "taken"

    assert "^(x+)+$" in caplog.text
    client = connect(server)
    assert text_of(client.call("take", {"given": {"xxx": 1, "y": 2}})) == "taken"
    assert "names of more than 20 characters" in text_of(client.call("take", {"given": {"x" * 40 + "y": 1}}))


def test_what_a_tool_returns_is_matched_in_the_same_way(server, connect, caplog):
    class Found(TypedDict):
        text: Annotated[str, {"pattern": "^(x+x+)+y$"}]

    @server.tool()
    def echo(text: str) -> Found:
        return {"text": text}

    assert "(x+x+)+y" in caplog.text
    client = connect(server)
    assert client.call("echo", {"text": "xxy"})["structuredContent"] == {"text": "xxy"}
    assert client.call("echo", {"text": "x" * 40})["isError"] is True


@pytest.mark.parametrize("pattern", ["^[a-z0-9]+(-[a-z0-9]+)*$", "^[^@]+@[^@]+$", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"])
def test_an_ordinary_pattern_is_matched_against_long_texts_without_a_warning(server, connect, caplog, pattern):
    @server.tool(input_schema={"type": "object", "properties": {"given": {"type": "string", "pattern": pattern}}})
    def take(given: str = "") -> str:
        return "taken"

    assert caplog.messages == []
    problem = text_of(connect(server).call("take", {"given": "@" * 500}))
    assert "does not match" in problem


@pytest.mark.parametrize("make", [lambda: (mcplite.Server("x"), {"trusted_patterns": True}),
                                  lambda: (mcplite.Server("x", options=mcplite.ServerOptions(trusted_patterns=True)), {})])
@pytest.mark.parametrize("register", [by_annotation, by_schema, by_union])
def test_an_author_may_say_that_patterns_are_trusted(connect, caplog, make, register):
    server, options = make()
    register(server, **options)
    assert caplog.messages == []
    long = "-".join(["a"] * 50) + "@example.com"
    assert text_of(connect(server).call("take", {"given": long})) == "taken"
