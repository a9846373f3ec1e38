"""Calls of tools: arguments, results, structured results and their schemas."""

import logging
import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.errors import ProtocolError
from mcplite.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    UnknownContent,
)
from tests.support.fakes import LIMIT, Fake, Refusal

LEGACY = [revision.name for revision in revisions.LEGACY]
STRUCTURED = [revision.name for revision in revisions.LEGACY if revision.structured_output]
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tool(name="count", **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


# --- tools ---------------------------------------------------------------------------------------------


def test_every_kind_of_content_becomes_an_object():
    content = [
        {"type": "text", "text": "hello"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "a://b", "name": "b"},
        {"type": "resource", "resource": {"uri": "a://c", "text": "c"}},
        {"type": "video", "frames": [1]},
        {"type": "text", "text": "world", "annotations": {"priority": 1}, "com.example": 1},
    ]
    with Fake({"tools/call": {"content": content, "_meta": {"a": 1}, "new": True}}) as fake, fake.connect() as client:
        result = client.call_tool("show")
        assert [type(item) for item in result.content] == [
            TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent, TextContent]
        assert result.text == "hello\nworld" and result.content[1].bytes == b"hi"
        assert result.content[5].raw == {"type": "video", "frames": [1]}  # TOOL-24
        assert result.content[6].extra == {"com.example": 1}  # RPC-20
        assert result.meta == {"a": 1} and result.extra == {"new": True}
        assert result.raise_for_error() is result
        assert isinstance(result.content[4].resource, TextResourceContents)


@pytest.mark.parametrize("arguments, sent", [(None, {}), ({}, {}), ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})])
def test_arguments_arrive_unchanged(arguments, sent):
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        client.call_tool("x", arguments)
        assert fake.got("tools/call")["params"] == {"name": "x", "arguments": sent}  # TOOL-20


def test_arguments_may_be_any_mapping():
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        from types import MappingProxyType
        client.call_tool("x", MappingProxyType({"a": 1}))
        assert fake.got("tools/call")["params"]["arguments"] == {"a": 1}
        for wrong in ([1], [("a", 1)], "a", 3):
            with pytest.raises(TypeError, match="the arguments of the tool 'x' must be a dict"):
                client.call_tool("x", wrong)
        with pytest.raises((TypeError, ValueError), match="'tools/call' was not sent"):
            client.call_tool("x", {"a": object()})
        assert fake.methods().count("tools/call") == 1


def test_a_tool_error_is_a_result_and_a_refused_call_an_error():
    def call(params):
        if params["name"] == "fails":
            return {"content": [{"type": "text", "text": "no such city"}], "isError": True}
        raise Refusal(-32602, "Unknown tool: nothing")

    with Fake({"tools/call": call}) as fake, fake.connect() as client:
        result = client.call_tool("fails")
        assert result.is_error  # TOOL-45
        with pytest.raises(mcplite.ToolError, match="no such city"):
            result.raise_for_error()
        with pytest.raises(mcplite.errors.InvalidParams, match="Unknown tool"):
            client.call_tool("nothing")


def test_meta_of_a_call_is_sent():
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        client.call_tool("x", meta={"com.example/trace": "1"})
        assert fake.got("tools/call")["params"]["_meta"] == {"com.example/trace": "1"}


def test_each_call_is_in_the_log_without_its_arguments(caplog):
    caplog.set_level(logging.INFO)
    with Fake({"tools/call": {"content": []}}) as fake, fake.connect() as client:
        client.call_tool("login", {"pin": "31415926"})
    assert "calling the tool 'login'" in caplog.text and "31415926" not in caplog.text  # TOOL-50


@pytest.mark.parametrize("answer", [{"content": {}}, {"content": [{"type": "text"}]}, {"content": ["x"]},
                                    {"content": [], "isError": "yes"}])
def test_an_invalid_result_names_server_and_method(answer):
    with Fake({"tools/call": answer}) as fake, fake.connect() as client:
        with pytest.raises(ProtocolError, match="the fake server answered 'tools/call' with an invalid result"):
            client.call_tool("x")
        client.ping()


@pytest.mark.slow
def test_a_client_may_raise_for_each_tool_that_fails():
    mcp = mcplite.Server("strict")

    @mcp.tool()
    def half(n: int) -> int:
        if n % 2:
            raise mcplite.ToolError(f"{n} is odd")
        return n // 2

    with mcplite.connect(mcp, raise_for_error=True) as client:
        assert client.call_tool("half", {"n": 4}).text == "2"
        with pytest.raises(mcplite.ToolError, match="3 is odd"):
            client.call_tool("half", {"n": 3})
    with mcplite.connect(mcp) as client:
        assert client.call_tool("half", {"n": 3}).is_error


def test_url_elicitations_that_are_required_are_a_typed_error():
    wanted = [{"mode": "url", "message": "Sign in", "url": "https://example.com/a", "elicitationId": "e1"}]
    notified, ids = threading.Event(), []
    with Fake({"tools/call": Refusal(-32042, "Sign in first", {"elicitations": wanted})}) as fake:
        with fake.connect(on_elicitation_complete=lambda id: (ids.append(id), notified.set())) as client:
            with pytest.raises(mcplite.errors.UrlElicitationRequired) as caught:
                client.call_tool("x")
            assert caught.value.urls == wanted  # URLE-14
            fake.tell("notifications/elicitation/complete", {"elicitationId": "other"})  # URLE-08
            fake.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
            assert notified.wait(LIMIT) and ids == ["e1"]


# --- structured results -------------------------------------------------------------------------------------


def promising(result, **options):
    answers = {"tools/list": {"tools": [tool(outputSchema=NUMBER), tool("plain")]}, "tools/call": result}
    return Fake(answers, **options)


def test_a_result_that_fits_its_schema_is_returned():
    with promising({"content": [], "structuredContent": {"n": 1}}) as fake, fake.connect() as client:
        client.list_tools()
        assert client.call_tool("count").structured_content == {"n": 1}


@pytest.mark.parametrize("version", STRUCTURED)
@pytest.mark.parametrize("result, text", [
    ({"content": [], "structuredContent": {"n": "one"}}, "'one'"),
    ({"content": [], "structuredContent": {}}, "'n'"),
    ({"content": []}, "structuredContent"),
])
def test_a_result_that_does_not_fit_is_an_error_that_names_the_tool(result, text, version):
    with promising(result, version=version) as fake, fake.connect() as client:
        client.list_tools()
        with pytest.raises(ProtocolError) as caught:
            client.call_tool("count")  # TOOL-38, TOOL-44
        assert "'count'" in str(caught.value) and text in str(caught.value) and "fake server" in str(caught.value)
        client.call_tool("plain")


@pytest.mark.parametrize("revision", [revision.name for revision in revisions.REVISIONS if revision.structured_output])
@pytest.mark.parametrize("declared, anything", [
    ({"type": "object", "properties": []}, {}), ({"type": "array"}, []), ({}, []), (None, [])])
def test_an_empty_array_is_an_empty_object_where_an_object_is_due(declared, anything, revision):
    # PHP writes both in this way.
    known = revisions.find_revision(revision)
    common = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": []}
    empty = {"type": "object", "properties": []}
    answers = {"tools/list": {**common, "tools": [{"name": "count", "inputSchema": empty, "outputSchema": declared}]},
               "tools/call": {**common, "content": [], "structuredContent": []},
               "server/discover": {**common, "supportedVersions": [revision], "capabilities": {"tools": []}}}
    fitting = declared != {"type": "array"} or not known.object_output_only
    with Fake(answers, version=revision) as fake, fake.connect(revision=revision, validate=fitting) as client:
        assert client.list_tools()[0].input_schema == {"type": "object", "properties": {}}
        assert client.call_tool("count").structured_content == ({} if known.object_output_only else anything)
        assert client.call_tool("count").meta == {}


def test_results_of_unlisted_tools_are_not_checked():
    with promising({"content": [], "structuredContent": {"n": "one"}}) as fake, fake.connect() as client:
        assert client.call_tool("count").structured_content == {"n": "one"}


def test_error_results_are_not_checked():
    with promising({"content": [], "isError": True}) as fake, fake.connect() as client:
        client.list_tools()
        assert client.call_tool("count").is_error  # TOOL-43


def test_checks_can_be_left_out():
    with promising({"content": [], "structuredContent": {"n": "one"}}) as fake, fake.connect(validate=False) as client:
        client.list_tools()
        client.call_tool("count")


@pytest.mark.parametrize("version", [name for name in LEGACY if name not in STRUCTURED])
def test_before_june_2025_there_are_no_output_schemas(version):
    with promising({"content": []}, version=version) as fake, fake.connect() as client:
        client.list_tools()
        client.call_tool("count")


def test_schemas_are_forgotten_when_the_list_changes():
    heard = threading.Event()
    with promising({"content": [], "structuredContent": {"n": "one"}}) as fake:
        with fake.connect(on_tools_changed=heard.set) as client:
            client.list_tools()
            fake.tell("notifications/tools/list_changed")
            assert heard.wait(LIMIT)
            client.call_tool("count")


def test_a_list_from_before_a_change_has_no_schemas():
    heard = threading.Event()

    def listing(params):
        fake.tell("notifications/tools/list_changed")
        assert heard.wait(LIMIT)
        return {"tools": [tool(outputSchema=NUMBER)]}

    with promising({"content": []}) as fake, fake.connect(on_tools_changed=heard.set) as client:
        fake.answers["tools/list"] = listing
        client.list_tools()
        client.call_tool("count")
