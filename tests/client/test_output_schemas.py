"""Schemas of results; what is remembered of listed tools is bounded, whatever names the server invents."""

import builtins
import logging

import pytest

from mcplite.client import output_schemas
from mcplite.client.output_schemas import Listed, OutputSchema
from mcplite.errors import ProtocolError
from mcplite.types import CallToolResult

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def outputs(schema=NUMBER):
    known = Listed()
    known.learn(["count", "plain"], {"count": OutputSchema("count", schema)}, known.epoch)
    return known


def check(known, content, tool="count", is_error=False):
    schema = known.found.get(tool)
    if schema is not None:
        schema.check(CallToolResult(structured_content=content, is_error=is_error), "the server")


def test_results_are_checked():
    known = outputs()
    check(known, {"n": 1})
    check(known, None, is_error=True)
    check(known, None, tool="plain")
    check(known, None, tool="unheard of")
    with pytest.raises(ProtocolError, match="the server: the result of the tool 'count'.*'x'") as caught:
        check(known, {"n": "x"})
    assert caught.value.raw == {"n": "x"}
    with pytest.raises(ProtocolError, match="no structuredContent"):
        check(known, None)


def test_a_later_listing_replaces_schemas():
    known = outputs()
    known.learn(["other"], {"other": OutputSchema("other", NUMBER)}, known.epoch)
    with pytest.raises(ProtocolError):
        check(known, {"n": "x"})
    with pytest.raises(ProtocolError):
        check(known, {"n": "x"}, tool="other")
    known.learn(["count"], {}, known.epoch)
    check(known, {"n": "x"})


@pytest.mark.parametrize("most, size", [("_MOST_TOOLS", 5), ("_MOST_BYTES", 10_000)])
def test_schemas_of_ever_new_names_are_bounded(monkeypatch, most, size):
    monkeypatch.setattr(output_schemas, most, size)
    known = outputs()
    for n in range(100):
        known.learn([f"t{n}"], {f"t{n}": OutputSchema(f"t{n}", NUMBER)}, known.epoch)
    check(known, {"n": "x"})  # listed longest ago, and no longer known
    for tool in "t97", "t98", "t99":
        with pytest.raises(ProtocolError, match="does not fit"):
            check(known, {"n": "x"}, tool=tool)


def test_a_list_from_before_a_change_is_ignored():
    known = Listed()
    epoch = known.epoch
    known.forget()
    known.learn(["count"], {"count": OutputSchema("count", NUMBER)}, epoch)
    check(known, {"n": "x"})


@pytest.mark.parametrize("schema", [
    {"type": 3}, {"type": "string", "pattern": "(a+)+$"}, {"type": "string", "pattern": "("},
    {"type": "string", "pattern": "x" * 600}, {"allOf": [{"description": "x" * 300_000}]},
], ids=lambda schema: str(schema)[:30])
def test_an_unusable_schema_is_logged_once(schema, caplog):
    known = outputs(schema)
    check(known, {"n": "x"})
    check(known, None)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and "count" in warnings[0].getMessage()


INNER = {"type": "object", "$defs": {"S": {"type": "integer"}}, "properties": {"b": {"$ref": "#/$defs/S"}}}


@pytest.mark.parametrize("schema, text", [
    ({"$ref": "http://127.0.0.1:9/schema"}, "never fetched"), ({"$ref": "#/nowhere"}, "no part of the schema"),
    ({"$ref": "#nowhere"}, "no part of the schema"), ({"properties": {"a": {"$ref": "#/components/schemas/Pet"}}}, "no part"),
    ({"properties": {"a": INNER}}, "no part of the schema"), ({"$ref": "other.json"}, "other.json"), ({"$ref": "#"}, "itself"),
    ({"$schema": "http://example.com/mine"}, "dialect 'http://example.com/mine' is not supported"),
    ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect"),
    ({"$schema": "https://json-schema.org/draft/next/schema"}, "dialect"),
    ({"$schema": "https://spec.openapis.org/oas/3.1/dialect/base"}, "dialect")])
def test_a_schema_that_cannot_be_resolved_lets_results_pass_with_one_warning(schema, text, caplog):
    # JSCH-04, JSCH-11: the tool has run, and its result counts
    known = outputs(schema)
    for _ in range(2):
        check(known, {"n": "x"})
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and "count" in warnings[0] and text in warnings[0]


def test_without_the_validator_results_pass_unchecked(monkeypatch, caplog):
    real = builtins.__import__

    def missing(name, *arguments, **options):
        if name == "jsonschema":
            raise ImportError("no module named jsonschema")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    check(outputs(), {"n": "x"})
    assert "jsonschema" in caplog.text


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(output_schemas, "_MOST_TOOLS", 5)
    monkeypatch.setattr(output_schemas, "_MOST_BYTES", 20_000)


def test_a_tool_that_is_listed_again_is_not_the_oldest(small):
    known = Listed()
    for n in range(100):
        known.learn(["used", f"a{n}"], {"used": n, f"a{n}": n})
    assert known.found["used"] == 99 and "a0" not in known.found


def test_the_newest_page_is_whole(small):
    known = Listed()
    known.learn(["old"], {"old": 0})
    page = {f"a{n}": "x" * 5000 for n in range(20)}
    known.learn(list(page), page)
    assert known.found == page
