import dataclasses
import functools
import json
import typing
from dataclasses import MISSING, dataclass
from typing import List

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mcplite import types
from mcplite.errors import ProtocolError
from mcplite.revisions import JULY_2026, JUNE_2025, MARCH_2025, NOVEMBER_2024, NOVEMBER_2025, REVISIONS
from mcplite.types import (
    NULL,
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ClientCapabilities,
    CompleteResult,
    Completion,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    Implementation,
    InitializeResult,
    ListToolsResult,
    LogMessage,
    Model,
    Progress,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    SamplingMessage,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
    lazy_dataclass,
    user,
)
from mcplite.types.codec import decode, decode_own, encode
from mcplite.types.lazy_dataclass import changed

CLASSES = sorted((item for item in (getattr(types, name) for name in types.__all__)
                  if isinstance(item, type) and dataclasses.is_dataclass(item) and item is not UnknownContent),
                 key=lambda cls: cls.__name__)
SCHEMA = {"type": "object"}


# --- encoding ---------------------------------------------------------------------------------------


def test_defaults_that_absence_means_are_left_out():
    assert encode(CallToolResult(), NOVEMBER_2025) == {"content": []}
    assert encode(CallToolResult(is_error=True), NOVEMBER_2025) == {"content": [], "isError": True}
    assert encode(ElicitRequest("m", requested_schema=SCHEMA), JUNE_2025) == {"message": "m", "requestedSchema": SCHEMA}


def test_falsy_values_are_not_absent():
    assert encode(Progress(0, total=0, message=""), MARCH_2025) == {"progress": 0, "total": 0, "message": ""}
    assert encode(ServerCapabilities(tools={}), MARCH_2025) == {"tools": {}}
    assert encode(CallToolResult(structured_content=False), JULY_2026)["structuredContent"] is False


def test_null_where_it_is_a_value():
    assert encode(LogMessage("info", None), MARCH_2025) == {"level": "info", "data": None}
    assert decode(LogMessage, {"level": "info", "data": None}) == LogMessage("info", None)
    assert encode(CallToolResult(structured_content=NULL), JULY_2026) == {"content": [], "structuredContent": None}
    block = ToolResultContent("1", structured_content=NULL)
    assert encode(block, NOVEMBER_2025)["structuredContent"] is None
    assert decode(CallToolResult, {"content": [], "structuredContent": None}).structured_content is None
    with pytest.raises(ProtocolError, match="'data' is missing"):
        decode(LogMessage, {"level": "info"})


def test_lists_dicts_and_plain_values_are_encoded_as_they_are_found():
    icon = Icon("data:,")
    assert encode([icon, (icon, 1), {"a": icon}, "x", None], NOVEMBER_2025) == [
        {"src": "data:,"}, [{"src": "data:,"}, 1], {"a": {"src": "data:,"}}, "x", None]
    # A dict or a tuple also does where a class or a list is expected.
    assert encode(Tool("t", SCHEMA, icons=({"src": "data:,"},)), NOVEMBER_2025)["icons"] == [{"src": "data:,"}]


def test_a_subclass_is_encoded_like_its_parent():
    @dataclass
    class Shouting(TextContent):
        def __post_init__(self):
            self.text = self.text.upper()

    assert encode([Shouting("x")], NOVEMBER_2025) == [{"type": "text", "text": "X"}]


def test_big_json_is_not_copied():
    schema, structured = {"type": "object"}, {"rows": [{}]}
    assert encode(Tool("t", schema), NOVEMBER_2025)["inputSchema"] is schema
    assert encode(CallToolResult(structured_content=structured), NOVEMBER_2025)["structuredContent"] is structured


# --- sampling ---------------------------------------------------------------------------------------


def test_several_sampling_blocks_need_a_revision_that_has_them():
    message = SamplingMessage("user", [TextContent("x"), TextContent("y")])
    for revision in REVISIONS:
        if revision.sampling_tools:
            assert [block["text"] for block in encode(message, revision)["content"]] == ["x", "y"]
            assert encode(SamplingMessage("user", []), revision)["content"] == []
        else:
            for wrong in (message, SamplingMessage("user", [])):
                with pytest.raises(ValueError, match=f"exactly one content block in {revision}"):
                    encode(CreateMessageRequest([wrong], 1), revision)


@pytest.mark.parametrize("wrong", ["text", None, 5, ["text"]])
def test_invalid_sampling_content_is_named(wrong):
    with pytest.raises(ValueError, match=f"cannot hold '{type(wrong[0] if type(wrong) is list else wrong).__name__}'"):
        encode(SamplingMessage("user", wrong), NOVEMBER_2025)


def test_a_block_may_also_be_set_later():
    message = SamplingMessage("user", [])
    message.content = TextContent("x")
    assert encode(message, JUNE_2025)["content"] == {"type": "text", "text": "x"}
    message.content = AudioContent("", "audio/wav")
    with pytest.raises(ValueError, match="'audio'"):
        encode(message, NOVEMBER_2024)


def test_prompt_messages_serve_as_sampling_messages():
    assert encode(CreateMessageRequest([user("x")], 1), NOVEMBER_2024) == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "x"}}], "maxTokens": 1}


def test_both_forms_of_sampling_content_are_read():
    one, block = {"role": "user", "content": {"type": "text", "text": "x"}}, {"type": "text", "text": "x"}
    assert decode(SamplingMessage, one) == decode(SamplingMessage, {**one, "content": [block]})
    assert decode(SamplingMessage, one).content == [TextContent("x")]
    assert one["content"] == block, "what came in is left alone"
    assert decode(CreateMessageResult, {**one, "model": "m"}).text == "x"


# --- capabilities and questions ---------------------------------------------------------------------


def test_a_url_question_needs_a_revision_that_has_it():
    request = ElicitRequest("m", mode="url", url="https://example.com")
    with pytest.raises(ValueError, match=f"{JUNE_2025} can be asked by form only, not by 'url'"):
        encode(request, JUNE_2025)


# --- decoding ---------------------------------------------------------------------------------------


def test_nested_objects_become_instances():
    result = decode(CallToolResult, {"content": [
        {"type": "text", "text": "x", "annotations": {"audience": ["user"]}},
        {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
        {"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}},
        {"type": "resource_link", "uri": "a:b", "name": "n", "icons": [{"src": "data:,"}]},
        {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "y"}]},
    ]})
    assert result == CallToolResult([
        TextContent("x", annotations=Annotations(audience=["user"])),
        EmbeddedResource(TextResourceContents("a:b", "t")),
        EmbeddedResource(BlobResourceContents("a:b", "AA==")),
        ResourceLink("a:b", "n", icons=[Icon("data:,")]),
        ToolResultContent("1", [TextContent("y")]),
    ])
    assert result.is_error is False and result.meta is None


def test_each_decoded_object_has_lists_of_its_own():
    first, second = decode(CallToolResult, {}), decode(CallToolResult, {})
    first.content.append(TextContent("x"))
    assert second.content == []


def test_unknown_content_is_kept_as_it_came():
    raw = {"type": "video", "frames": [1, {"a": None}]}
    result = decode(CallToolResult, {"content": [raw]})
    assert result.content == [UnknownContent(raw)] and result.content[0].wire_type == "video"
    assert encode(result, NOVEMBER_2025) == {"content": [raw]}
    assert decode(UnknownContent, raw) == UnknownContent(raw)


def test_unknown_members_are_kept_and_sent_along():
    wire = {"name": "t", "inputSchema": SCHEMA, "x-new": {"a": [1]}, "type": "tool",
            "annotations": {"costHint": None, "title": "T"}}
    tool = decode(Tool, wire)
    assert tool.extra == {"x-new": {"a": [1]}, "type": "tool"}
    assert tool.annotations.extra == {"costHint": None}
    assert encode(tool, NOVEMBER_2025) == wire


def test_null_is_absent():
    wire = {"tools": [], "nextCursor": None, "_meta": None}
    assert decode(ListToolsResult, wire) == ListToolsResult([])
    assert decode(CallToolResult, {"content": None, "isError": None}) == CallToolResult()


def test_contents_with_a_null_are_read_by_what_is_there():
    assert decode(ReadResourceResult, {"contents": [{"uri": "a:b", "text": None, "blob": "AA=="}]}).bytes == b"\0"


def test_whole_numbers_may_come_as_floats():
    assert decode(Completion, {"values": [], "total": 3.0}).total == 3
    assert type(decode(Completion, {"values": [], "total": 3.0}).total) is int


@pytest.mark.parametrize("cls, wire, message", [
    (Tool, [1], "Tool: expected an object, got an array"),
    (Tool, None, "Tool: expected an object, got null"),
    (Tool, "x", "Tool: expected an object, got 'x'"),
    (Tool, {}, "Tool: the member 'name' is missing"),
    (Tool, {"name": "t"}, "Tool: the member 'inputSchema' is missing"),
    (Tool, {"name": None, "inputSchema": {}}, "Tool: the member 'name' is missing"),
    (Tool, {"name": 5, "inputSchema": {}}, "Tool.name: expected a string, got 5"),
    (Tool, {"name": "t", "inputSchema": [1]}, "Tool.inputSchema: expected an object, got an array"),
    (Tool, {"name": [], "inputSchema": {"properties": {}}}, "Tool.name: expected a string, got an array"),
    (ListToolsResult, {"tools": [], "nextCursor": 2}, "ListToolsResult.nextCursor: expected a string, got 2"),
    (CallToolResult, {"content": [], "isError": "false"}, "CallToolResult.isError: expected a boolean, got 'false'"),
    (ImageContent, {"data": "", "mimeType": 5}, "ImageContent.mimeType: expected a string, got 5"),
    (Progress, {"progress": "1"}, "Progress.progress: expected a number, got '1'"),
    (Progress, {"progress": False}, "Progress.progress: expected a number, got False"),
    (Completion, {"values": ["a", 5]}, r"Completion.values\[\]: expected a string, got 5"),
    (CallToolResult, {"content": {}}, "CallToolResult.content: expected an array, got an object"),
    (CallToolResult, {"content": ["x"]}, "content: expected an object, got 'x'"),
    (CallToolResult, {"content": [{}]}, "content.type: expected a string, got null"),
    (CallToolResult, {"content": [{"type": ["text"]}]}, "content.type: expected a string, got an array"),
    (CallToolResult, {"content": [{"type": "text"}]}, "TextContent: the member 'text' is missing"),
    (TextContent, {"type": "image", "text": "x"}, "TextContent.type: expected 'text', got 'image'"),
    (PromptMessage, {"role": "user", "content": []}, "content: expected an object, got an array"),
    (ReadResourceResult, {"contents": [{"uri": "a:b"}]}, "resource contents: the member 'text' or 'blob' is missing"),
    (ReadResourceResult, {"contents": [5]}, "resource contents: expected an object, got 5"),
    (ReadResourceResult, {"contents": [{"text": "t"}]}, "TextResourceContents: the member 'uri' is missing"),
    (InitializeResult, {"protocolVersion": "x", "capabilities": 5, "serverInfo": {}}, "ServerCapabilities: expected"),
    (SamplingMessage, {"role": "user", "content": "x"}, "SamplingMessage.content: expected an array, got 'x'"),
])
def test_a_wrong_shape_names_the_class_and_the_member(cls, wire, message):
    with pytest.raises(ProtocolError, match=message) as caught:
        decode(cls, wire)
    assert len(str(caught.value)) < 200


OWN_ONLY = [
    (Tool, {"name": "t", "inputSchema": []}, "Tool.inputSchema: expected an object, got an array"),
    (Tool, {"name": "t", "inputSchema": {}, "_meta": 1}, "Tool._meta: expected an object, got 1"),
    (Tool, {"name": "t", "inputSchema": {}, "icons": {}}, "Tool.icons: expected an array, got an object"),
    (Tool, {"name": "t", "inputSchema": {}, "icons": [None]}, "Icon: expected an object, got null"),
    (Tool, {"name": "t", "inputSchema": {}, "annotations": True}, "ToolAnnotations: expected an object, got True"),
    (ToolAnnotations, {"readOnlyHint": "no"}, "ToolAnnotations.readOnlyHint: expected a boolean, got 'no'"),
    (ToolAnnotations, {"readOnlyHint": 1}, "ToolAnnotations.readOnlyHint: expected a boolean, got 1"),
    (Resource, {"uri": "a:b", "name": "n", "size": 1.5}, "Resource.size: expected an integer, got 1.5"),
    (Resource, {"uri": "a:b", "name": "n", "size": True}, "Resource.size: expected an integer, got True"),
    (PromptMessage, {"role": "user", "content": {"type": "text", "text": "x", "annotations": {"audience": "user"}}},
     "Annotations.audience: expected an array, got 'user'"),
]


@pytest.mark.parametrize("cls, wire, message", OWN_ONLY)
def test_a_wrong_shape_of_our_own_is_refused_and_that_of_another_side_read(cls, wire, message):
    with pytest.raises(ProtocolError, match=message):
        decode_own(cls, wire)
    decode(cls, wire)


ICON = {"src": "https://example.com/i.png"}
TOOL = {"name": "t", "inputSchema": {}}
TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize("cls, wire, given, read", [
    (Implementation, {"name": "n", "version": "1"}, {"icons": [{**ICON, "sizes": "48x48"}]}, {"icons": [Icon(ICON["src"])]}),
    (Implementation, {"name": "n", "version": "1"}, {"icons": [ICON["src"], ICON, {"mimeType": "image/png"}, {"src": 5}, []]},
     {"icons": [Icon(ICON["src"])]}),
    (Implementation, {"name": "n", "version": "1"}, {"icons": ICON, "title": 5, "description": [], "websiteUrl": {}}, {}),
    (Tool, TOOL, {"title": 5, "description": {}, "icons": "x", "annotations": "x", "_meta": "x", "execution": True,
                  "outputSchema": True}, {}),
    (Tool, TOOL, {"annotations": {"title": 5, "readOnlyHint": "true", "openWorldHint": False}},
     {"annotations": ToolAnnotations(open_world_hint=False)}),
    (Tool, TOOL, {"annotations": [], "_meta": [], "outputSchema": [], "execution": []},
     {"annotations": ToolAnnotations(), "meta": {}, "output_schema": {}, "execution": {}}),
    (Tool, TOOL, {"icons": [{**ICON, "sizes": ["48x48", 5], "theme": 1}]}, {"icons": [Icon(ICON["src"], sizes=["48x48"])]}),
    (Tool, TOOL, {"outputSchema": {"type": "object", "properties": []}},
     {"output_schema": {"type": "object", "properties": {}}}),
    (Resource, {"uri": "a:b", "name": "n"},
     {"size": "12", "mimeType": 5, "annotations": {"priority": "high", "audience": "user"}}, {"annotations": Annotations()}),
    (ResourceTemplate, {"uriTemplate": "a:{b}", "name": "n"}, {"title": ["x"], "icons": [5], "annotations": 0}, {"icons": []}),
    (Prompt, {"name": "p"}, {"description": 1.5, "arguments": [{"name": "a", "required": "yes", "title": 2}]},
     {"arguments": [PromptArgument("a")]}),
    (TextContent, TEXT, {"annotations": {"audience": ["user", 5], "lastModified": 1760000000, "priority": 1}, "_meta": 5},
     {"annotations": Annotations(["user"], 1)}),
    (ResourceLink, {"type": "resource_link", "uri": "a:b", "name": "n"}, {"size": "12", "title": False, "icons": None}, {}),
    (GetPromptResult, {"messages": []}, {"description": 5, "_meta": True}, {}),
    (ListToolsResult, {"tools": []}, {"ttlMs": "long", "cacheScope": 5}, {}),
    (CompleteResult, {"completion": {"values": []}}, {"completion": {"values": ["a"], "total": "1", "hasMore": "no"}},
     {"completion": Completion(["a"])}),
    (Progress, {"progress": 1}, {"total": "x", "message": 5}, {}),
    (LogMessage, {"level": "info", "data": 1}, {"logger": 5}, {}),
    (InitializeResult, {"protocolVersion": "x", "capabilities": [], "serverInfo": {"name": "n", "version": "1"}},
     {"instructions": ["x"], "capabilities": {"tools": [], "experimental": "x"}},
     {"capabilities": ServerCapabilities(tools={})}),
])
def test_what_only_decorates_costs_only_itself(cls, wire, given, read):
    assert decode(cls, {**wire, **given}) == changed(decode(cls, wire), **read)


@pytest.mark.parametrize("given, name, version", [
    ({"name": "n", "version": 1.0}, "n", "1.0"), ({"name": "n", "version": 2}, "n", "2"), ({"name": 5}, "", ""),
    ({"name": "n", "version": True}, "n", ""), ([], "", ""), (None, "", ""), ("n", "", ""), ({"version": ["1"]}, "", ""),
])
def test_what_a_server_says_of_itself_costs_no_connection(given, name, version):
    found = decode(InitializeResult, {"protocolVersion": "x", "capabilities": {}, "serverInfo": given}).server_info
    assert (found.name, found.version) == (name, version)


def test_errors_quote_values_shortened():
    with pytest.raises(ProtocolError) as caught:
        decode(Tool, {"name": ["x" * 10_000] * 100, "inputSchema": {}})
    assert len(str(caught.value)) < 200 and len(caught.value.raw) < 500


# --- every class, generated -------------------------------------------------------------------------

TEXT = st.text(max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
                    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
                    max_leaves=8)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)


def values_of(hint):
    """Return a strategy for values of a field's type."""
    if typing.get_origin(hint) is typing.Union:
        parts = [part for part in typing.get_args(hint) if part is not UnknownContent]
        return st.one_of([values_of(part) for part in parts])
    if typing.get_origin(hint) is list:
        return st.lists(values_of(typing.get_args(hint)[0]), max_size=2)
    if typing.get_origin(hint) is dict:
        return OBJECTS
    plain = {str: TEXT, bool: st.booleans(), int: st.integers(), type(None): st.none(), typing.Any: JSON,
             float: st.integers() | st.floats(allow_nan=False, allow_infinity=False)}
    return plain[hint] if hint in plain else st.deferred(lambda: instances(hint))


#: Where the type allows more than can be sent, or has no end.
LIMITED = {
    SamplingMessage: (TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent),
    CreateMessageResult: (TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent),
    ToolResultContent: (TextContent, EmbeddedResource, ResourceLink),
}


@functools.lru_cache(maxsize=None)
def instances(cls):
    """Return a strategy for instances of a class, unknown members included."""
    hints = typing.get_type_hints(cls)
    if cls in LIMITED:
        hints["content"] = List[typing.Union[LIMITED[cls]]]
    made = st.builds(cls, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(cls)})
    unknown = st.dictionaries(TEXT.map(lambda name: "x-" + name), JSON, max_size=1)
    return st.builds(with_extra, made, unknown)


def with_extra(instance, members):
    if members:
        instance.extra.update(members)
    return instance


def trimmed(value, revision):
    """Return what is left of an instance when it has been to a peer of this revision and back."""
    if isinstance(value, list):
        return [trimmed(item, revision) for item in value]
    if not isinstance(value, Model):
        return value
    members = {}
    for field in dataclasses.fields(value):
        if revision.has(field.metadata.get("since"), field.metadata.get("until")):
            members[field.name] = trimmed(getattr(value, field.name), revision)
        elif field.default is not MISSING:
            members[field.name] = field.default
    if isinstance(value, ClientCapabilities):
        urls_only = value.elicitation and "form" not in value.elicitation
        if value.elicitation is not None and not revision.elicitation_modes:
            members["elicitation"] = None if urls_only or members["elicitation"] is None else {}
        if value.sampling is not None and not revision.sampling_tools:
            members["sampling"] = {}
        if value.roots is not None and revision.modern:
            members["roots"] = {}
    return with_extra(type(value)(**members), vars(value).get("_extra"))


def has_no_form(value, revision):
    """Tell whether an instance says what a revision has no words for."""
    if isinstance(value, list):
        return any(has_no_form(item, revision) for item in value)
    if isinstance(value, ElicitRequest) and value.mode != "form" and not revision.elicitation_modes:
        return True
    if isinstance(value, (SamplingMessage, CreateMessageResult)):
        kinds = revision.content_kinds & {"text", "image", "audio"}
        kinds |= {"tool_use", "tool_result"} if revision.sampling_tools else set()
        if any(block.wire_type not in kinds for block in value.content):
            return True
        if len(value.content) != 1 and not revision.sampling_tools:
            return True
    return isinstance(value, Model) and any(
        has_no_form(getattr(value, field.name), revision) for field in dataclasses.fields(value)
        if revision.has(field.metadata.get("since"), field.metadata.get("until")))


def extras(value):
    """Return the unknown members of an instance and of all that it holds, in order."""
    if isinstance(value, list):
        return [found for item in value for found in extras(item)]
    if not isinstance(value, Model):
        return []
    held = [found for field in dataclasses.fields(value) for found in extras(getattr(value, field.name))]
    return [members for members in [vars(value).get("_extra")] if members] + held


generated = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@generated
@given(data=st.data())
@pytest.mark.slow
def test_encoded_objects_are_decoded(cls, data):
    value = data.draw(instances(cls))
    for revision in REVISIONS:
        if has_no_form(value, revision):
            with pytest.raises(ValueError):
                value.to_dict(revision)
            continue
        wire = json.loads(json.dumps(value.to_dict(revision)))
        again = cls.from_dict(wire)
        assert again == trimmed(value, revision)
        assert encode(again, revision) == wire
        assert extras(again) == extras(trimmed(value, revision)), "which == does not compare"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@generated
@given(wire=JSON)
@pytest.mark.slow
def test_arbitrary_json_is_read_or_refused(cls, wire):
    try:
        value = decode(cls, wire)
    except ProtocolError:
        return
    assert isinstance(value, cls)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@generated
@given(data=st.data())
@pytest.mark.slow
def test_one_wrong_member_is_read_or_refused(cls, data):
    wire = json.loads(json.dumps(encode(data.draw(instances(cls)), NOVEMBER_2025)))
    places = list(containers(wire))
    place = data.draw(st.sampled_from(places))
    if isinstance(place, list):
        place.append(data.draw(JSON))
    else:
        known = [lazy_dataclass.wire_name(field) for field in dataclasses.fields(cls)]
        place[data.draw(st.sampled_from([*known, "type", *place]))] = data.draw(JSON)
    try:
        again = decode(cls, wire)
    except ProtocolError:
        return
    if not has_no_form(again, JULY_2026):
        assert decode(cls, json.loads(json.dumps(encode(again, JULY_2026)))) == trimmed(again, JULY_2026)


def containers(wire):
    """Yield all objects and arrays of a JSON value."""
    if isinstance(wire, (dict, list)):
        yield wire
        for item in (wire.values() if isinstance(wire, dict) else wire):
            yield from containers(item)
