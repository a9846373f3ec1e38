"""Return values of handlers as results: text, images, data, structured content, resources and messages."""

import base64
import collections
import dataclasses
import datetime
import enum
import json
from typing import Any, Dict, List, NamedTuple, Optional, Set, TypedDict

import jsonschema
import pytest
from hypothesis import given, strategies as st

from mcplite.server import Audio, Image
from mcplite.server.functions.function import compile_function
from mcplite.server.functions.results import (
    BadOutput,
    completion_of,
    prompt_messages,
    resource_contents,
    resource_result,
    tool_result,
)
from mcplite.types import (
    NULL,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CompleteResult,
    Completion,
    CreateMessageResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    user as user_message,
)
from tests.support.names import named

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")
TEXT = TextResourceContents(uri="a://b", text="t")
LINK = ResourceLink(uri="a://b", name="b")


@dataclasses.dataclass
class Day:
    date: datetime.date
    high: float = 1.5


class Pair(NamedTuple):
    left: int
    right: str


class Color(enum.Enum):
    RED = "red"


class City(TypedDict):
    name: str


class Text(str):
    def __str__(self):
        return "something else"


def blob(data):
    return EmbeddedResource(resource=BlobResourceContents(
        uri="data:application/octet-stream", blob=base64.b64encode(data).decode(), mime_type="application/octet-stream"))


def handler(annotation=None, **options):
    def it(): ...

    if annotation is not None:
        it.__annotations__["return"] = annotation
    return compile_function(it, **options)


def result_of(value, annotation=None, **options):
    return tool_result(value, handler(annotation, **options))


def texts(*items):
    return [TextContent(text=item) for item in items]


# --- tools without a promise -----------------------------------------------------------------------------

CONTENT = [
    ("text", texts("text"), None),
    ("", texts(""), None),
    (Text("text"), texts("text"), None),
    (None, [], None),
    (TextContent("t"), texts("t"), None),
    (Image(PNG), [IMAGE], None),
    (Audio(b"x", "audio/x"), [AudioContent(data="eA==", mime_type="audio/x")], None),
    (IMAGE, [IMAGE], None),
    (LINK, [LINK], None),
    (Resource(uri="a://b", name="b", title="B", size=3, mime_type="text/x"),
     [ResourceLink(uri="a://b", name="b", title="B", size=3, mime_type="text/x")], None),
    (TEXT, [EmbeddedResource(resource=TEXT)], None),
    (EmbeddedResource(resource=TEXT), [EmbeddedResource(resource=TEXT)], None),
    (b"\0\1", [blob(b"\0\1")], None),
    (bytearray(b"ab"), [blob(b"ab")], None),
    (memoryview(b"ab"), [blob(b"ab")], None),
    (["above:", Image(PNG), {"a": 1}, 5, None], texts("above:") + [IMAGE] + texts('{"a":1}', "5", "null"), None),
    ((Image(PNG), [LINK, "x"]), [IMAGE, LINK] + texts("x"), None),
    ([b"x", TEXT], [blob(b"x"), EmbeddedResource(resource=TEXT)], None),
    ([], texts("[]"), None),
    (["a", "b"], texts('["a","b"]'), None),
    ([1, [2]], texts("[1,[2]]"), None),
    (5, texts("5"), None), (1.5, texts("1.5"), None), (True, texts("true"), None),
    (2 ** 70, texts(str(2 ** 70)), None),
    ({"ä": 1}, texts('{"ä":1}'), {"ä": 1}),
    ({}, texts("{}"), {}),
    (Day(datetime.date(2024, 5, 6)), texts('{"date":"2024-05-06","high":1.5}'), {"date": "2024-05-06", "high": 1.5}),
    (Pair(1, "r"), texts('{"left":1,"right":"r"}'), {"left": 1, "right": "r"}),
    (collections.OrderedDict(b=1, a=2), texts('{"b":1,"a":2}'), {"b": 1, "a": 2}),
    (datetime.date(2024, 5, 6), texts("2024-05-06"), None),
    (Color.RED, texts("red"), None),
    ({3, 1, 2}, texts("[1,2,3]"), None),
]


@pytest.mark.parametrize("value, content, structured", CONTENT, ids=named(40))
def test_a_tools_return_value_becomes_content(value, content, structured):
    assert result_of(value) == CallToolResult(content=content, structured_content=structured)


def test_without_structured_output_there_is_only_text():
    for annotation, value in [(None, {"a": 1}), (Day, Day(datetime.date(2024, 5, 6))), (int, 5), (Dict[str, int], {})]:
        result = result_of(value, annotation, structured_output=False)
        assert result.structured_content is None and len(result.content) == 1


# --- tools with a promise --------------------------------------------------------------------------------

PROMISED = [
    (int, 5, {"result": 5}, "5"),
    (int, True, None, None),
    (bool, True, {"result": True}, "true"),
    (float, 1.5, {"result": 1.5}, "1.5"),
    (float, 2, {"result": 2}, "2"),
    (float, "2", None, None),
    (Optional[str], "text", {"result": "text"}, "text"),
    (Optional[str], None, {"result": None}, "null"),
    (List[int], [1, 2], {"result": [1, 2]}, "[1,2]"),
    (List[int], (1, 2), {"result": [1, 2]}, "[1,2]"),
    (List[int], [1, "2"], None, None),
    (List[int], None, None, None),
    (Day, Day(datetime.date(2024, 5, 6)), {"date": "2024-05-06", "high": 1.5}, '{"date":"2024-05-06","high":1.5}'),
    (Day, {"date": "2024-05-06", "high": 1, "more": 2}, {"date": "2024-05-06", "high": 1, "more": 2},
     '{"date":"2024-05-06","high":1,"more":2}'),
    (Day, {"high": 1}, None, None),
    (Day, None, None, None),
    (Day, "text", None, None),
    (City, {"name": "Rome"}, {"name": "Rome"}, '{"name":"Rome"}'),
    (City, {}, None, None),
    (Pair, Pair(1, "r"), {"left": 1, "right": "r"}, '{"left":1,"right":"r"}'),
    (Dict[str, int], {"a": 1}, {"a": 1}, '{"a":1}'),
    (Dict[str, int], {"a": "1"}, None, None),
    (Color, Color.RED, {"result": "red"}, "red"),
    (datetime.date, datetime.date(2024, 5, 6), {"result": "2024-05-06"}, "2024-05-06"),
]


@pytest.mark.parametrize("annotation, value, structured, text", PROMISED, ids=lambda value: str(value)[:30])
def test_results_are_checked_against_the_output_schema(annotation, value, structured, text):
    if structured is None:
        with pytest.raises(BadOutput):
            result_of(value, annotation)
    else:
        assert result_of(value, annotation) == CallToolResult(content=texts(text), structured_content=structured)


def test_schema_errors_name_the_path():
    with pytest.raises(BadOutput, match=r"^result\[1\]: '2' is not of type 'integer'; result\[2\]: "):
        result_of([1, "2", "3", "4", "5"], List[int])


def test_only_the_first_three_problems_are_listed():
    with pytest.raises(BadOutput) as caught:
        result_of(list("abcdef"), List[int])
    assert str(caught.value).count("is not of type") == 3


OWN = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_given_output_schema_is_checked():
    assert result_of({"n": 1}, output_schema=OWN).structured_content == {"n": 1}
    with pytest.raises(BadOutput, match="^'n' is a required property$"):
        result_of({}, output_schema=OWN)
    with pytest.raises(BadOutput):
        result_of("text", output_schema=OWN)


# --- results by hand -------------------------------------------------------------------------------------


def test_a_call_tool_result_is_passed_on_as_a_copy():
    kept = CallToolResult(content=["text", Image(PNG), {"a": 1}], meta={"k": 1}, structured_content={"day": Day(None)})
    result = result_of(kept)
    assert result is not kept and kept.content[0] == "text"
    assert result.content == texts("text") + [IMAGE] + texts('{"a":1}') and result.meta == {"k": 1}
    assert result.structured_content == {"day": {"date": None, "high": 1.5}}
    assert result_of(kept) == result
    assert result_of(CallToolResult(structured_content=NULL)).structured_content is NULL


def test_given_structured_content_gets_a_text_block():
    assert result_of(CallToolResult(structured_content={"n": 1}), output_schema=OWN).content == texts('{"n":1}')
    assert result_of(CallToolResult(content=texts("one"), structured_content={"n": 1}),
                     output_schema=OWN).content == texts("one")


def test_given_structured_content_is_checked():
    with pytest.raises(BadOutput, match="^n: 'x' is not of type 'integer'$"):
        result_of(CallToolResult(structured_content={"n": "x"}), output_schema=OWN)
    with pytest.raises(BadOutput, match="an output schema is declared, but the result has no structured_content"):
        result_of(CallToolResult(content=texts("one")), output_schema=OWN)
    with pytest.raises(BadOutput):
        result_of(CallToolResult(structured_content=NULL), output_schema=OWN)


def test_an_error_result_needs_no_structured_content():
    failed = CallToolResult(content=texts("no"), is_error=True)
    assert result_of(failed, output_schema=OWN) == failed == result_of(failed, int)


# --- what cannot be sent (REL-59) --------------------------------------------------------------------------

CYCLIC: List[Any] = []
CYCLIC.append(CYCLIC)

UNSENDABLE = [
    (float("nan"), ValueError, "^nan is not a JSON number; use None or a string instead$"),
    (CYCLIC, ValueError, "contains itself"),
    ({"a": [float("inf")]}, ValueError, "inf is not a JSON number"), (Day, TypeError, "class type"),
    ([Image(PNG), object()], TypeError, "a value of the class object"),
    (CallToolResult(structured_content={"a": object()}), TypeError, "class object"),
    (CallToolResult(content=[object()]), TypeError, "class object"),
]


@pytest.mark.parametrize("value, kind, text", UNSENDABLE, ids=lambda value: str(type(value).__name__))
@pytest.mark.parametrize("annotation", [None, float, List[float], Dict[str, Any]])
def test_values_that_cannot_be_sent_are_refused_with_a_reason(value, kind, text, annotation):
    with pytest.raises(kind if annotation is None else (TypeError, ValueError), match=text if annotation is None else None):
        result_of(value, annotation)


#: Some can be sent, some not; whichever it is, the next call works.
ODD = [10 ** 5000, "\ud800", {"\udfff": "\ud800"}, float("nan"), object(), CYCLIC, {1, 2}, b"\xff", (n for n in ())]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("annotation", [Any, None, int, float, List[int], Dict[str, Any]], ids=str)
def test_a_value_that_cannot_be_sent_fails_only_its_call(connect, server, value, annotation):
    def odd():
        return value

    if annotation is not None:
        odd.__annotations__["return"] = annotation
    server.add_tool(odd)
    server.add_resource("odd://one", odd)
    server.add_prompt(odd)
    client = connect(server)
    answer = client.ask("tools/call", {"name": "odd", "arguments": {}})
    assert answer["result"]["content"], "a tool's own failure is a result with isError"
    for method, params in [("resources/read", {"uri": "odd://one"}), ("prompts/get", {"name": "odd"})]:
        answer = client.ask(method, params)
        assert ("error" in answer) != ("result" in answer)
    assert client.result("ping") == {} and client.others == []


# --- resources ---------------------------------------------------------------------------------------------

URI = "a://b"
RESOURCES = [
    (None, []),
    ("text", [TextResourceContents(uri=URI, text="text", mime_type="text/plain")]),
    (b"\0", [BlobResourceContents(uri=URI, blob="AA==", mime_type="application/octet-stream")]),
    (bytearray(b"\0"), [BlobResourceContents(uri=URI, blob="AA==", mime_type="application/octet-stream")]),
    ({"a": Color.RED}, [TextResourceContents(uri=URI, text='{"a":"red"}', mime_type="application/json")]),
    ([1, "ä"], [TextResourceContents(uri=URI, text='[1,"ä"]', mime_type="application/json")]),
    ([], [TextResourceContents(uri=URI, text="[]", mime_type="application/json")]),
    (5, [TextResourceContents(uri=URI, text="5", mime_type="application/json")]),
    (Image(PNG), [BlobResourceContents(uri=URI, blob=IMAGE.data, mime_type="image/png")]),
    (TEXT, [TEXT]), ([TEXT, TEXT], [TEXT, TEXT]), ((TEXT,), [TEXT]),
    (EmbeddedResource(resource=TEXT), [TEXT]), ([EmbeddedResource(resource=TEXT), TEXT], [TEXT, TEXT]),
]


@pytest.mark.parametrize("value, contents", RESOURCES, ids=lambda value: str(value)[:30])
def test_a_resources_return_value_becomes_contents(value, contents):
    assert resource_contents(value, URI, None) == contents


@pytest.mark.parametrize("value", ["text", b"\0", {"a": 1}, Image(PNG)], ids=lambda value: type(value).__name__)
def test_the_declared_mime_type_is_used(value):
    assert [item.mime_type for item in resource_contents(value, URI, "x/y")] == ["x/y"]


@pytest.mark.parametrize("value", [object(), float("nan"), CYCLIC, {(1,): 2}], ids=lambda value: type(value).__name__)
def test_contents_that_cannot_be_sent_are_refused(value):
    with pytest.raises((TypeError, ValueError)):
        resource_contents(value, URI, None)


# --- prompts -----------------------------------------------------------------------------------------------


def user(content):
    return PromptMessage("user", content)


def assistant(content):
    return PromptMessage("assistant", content)


PROMPTS = [
    (None, []), ([], []), ("text", [user(TextContent("text"))]), (TextContent("t"), [user(TextContent("t"))]),
    (user(TextContent("t")), [user(TextContent("t"))]), (Image(PNG), [user(IMAGE)]), (IMAGE, [user(IMAGE)]),
    (TEXT, [user(EmbeddedResource(resource=TEXT))]), (b"x", [user(blob(b"x"))]),
    (Resource(uri="a://b", name="b"), [user(LINK)]),
    (assistant("text"), [assistant(TextContent("text"))]),
    (assistant(["text", Image(PNG)]), [assistant(TextContent("text")), assistant(IMAGE)]),
    (["a", assistant("b"), ["c", [IMAGE]]],
     [user(TextContent("a")), assistant(TextContent("b")), user(TextContent("c")), user(IMAGE)]),
    (("a", "b"), [user(TextContent("a")), user(TextContent("b"))]),
    ({"role": "assistant", "content": "text"}, [assistant(TextContent("text"))]),
    ({"role": "user", "content": {"type": "text", "text": "t"}}, [user(TextContent("t"))]),
    ({"role": "user", "content": Image(PNG)}, [user(IMAGE)]),
    ([{"role": "user", "content": ["a", TEXT]}], [user(TextContent("a")), user(EmbeddedResource(resource=TEXT))]),
]


@pytest.mark.parametrize("value, messages", PROMPTS, ids=lambda value: str(value)[:30])
def test_a_prompts_return_value_becomes_messages(value, messages):
    assert prompt_messages(value) == messages


@pytest.mark.parametrize("value, kind, text", [
    (5, TypeError, "a prompt returns strings, messages and content, not int"),
    ([object()], TypeError, "a prompt returns strings, messages and content, not object"),
    ({"a": 1}, TypeError, "a prompt returns strings, messages and content, not dict"),
    (Pair(1, "r"), TypeError, "a prompt returns strings, messages and content, not Pair"),
    ({"role": "system", "content": "x"}, ValueError, "a message's role is 'user' or 'assistant', not 'system'"),
    ({"role": [], "content": "x"}, ValueError, r"a message's role is 'user' or 'assistant', not \[\]"),
    (PromptMessage("tool", TextContent("x")), ValueError, "a message's role is 'user' or 'assistant', not 'tool'"),
    ({"role": "user", "content": {"type": "text"}}, ValueError, "a message's content is not valid: "),
    ({"role": "user", "content": {}}, ValueError, "a message's content is not valid: "),
    ({"role": "user", "content": object()}, TypeError, "class object cannot be sent"),
], ids=named(30))
def test_other_values_are_not_messages(value, kind, text):
    with pytest.raises(kind, match=f"^{text}" if kind is ValueError else text):
        prompt_messages(value)


@pytest.mark.parametrize("annotation, values", [
    (float, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-2 ** 53, 2 ** 53)),
    (Optional[int], st.none() | st.integers()),
    (Day, st.builds(Day, st.dates(), st.floats(allow_nan=False, allow_infinity=False))),
    (List[Pair], st.lists(st.builds(Pair, st.integers(), st.text()))), (datetime.timedelta, st.timedeltas()),
    (Dict[str, Set[int]], st.dictionaries(st.text(), st.sets(st.integers()))),
], ids=str)
def test_values_of_the_annotated_type_fit_the_schema_and_round_trip(annotation, values):
    def it(value): ...

    it.__annotations__ = {"value": annotation, "return": annotation}
    compiled = compile_function(it)
    validator = jsonschema.Draft202012Validator(compiled.output.schema)

    @given(values)
    def check(value):
        result = tool_result(value, compiled)
        validator.validate(result.structured_content)
        data = result.structured_content["result"] if compiled.output.wrapped else result.structured_content
        assert compiled.bind({"value": data}) == {"value": value}
        assert result.text == data if isinstance(data, str) else json.loads(result.text) == data

    check()


# --- values in the wrong place ------------------------------------------------------------------------

GIF = {"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}
WORDS = {"type": "text", "text": "a"}


@pytest.mark.parametrize("content, kinds", [
    ("hello", ["text"]), (TextContent("a"), ["text"]), (WORDS, ["text"]), ([WORDS, GIF, "b"], ["text", "image", "text"]),
    (Image(PNG), ["image"]), (("a", "b"), ["text", "text"]), (iter(["a"]), ["text"]), (None, []), (5, ["text"]),
    (b"x", ["resource"]), (PromptMessage("user", TextContent("a")), ["text"]), ({"a": 1}, ["text"]),
    (CreateMessageResult("assistant", [TextContent("a"), TextContent("b")], "m"), ["text", "text"]),
])
def test_content_that_is_no_list_is_not_taken_apart(content, kinds):
    result = result_of(CallToolResult(content=content))
    assert [block.wire_type for block in result.content] == kinds
    if content == "hello":
        assert result.content[0].text == "hello"


@pytest.mark.parametrize("value, reason", [
    (CallToolResult(content={"type": "text"}), "^the content is not valid: TextContent: the member 'text' is missing"),
    (CallToolResult(content=[CallToolResult()]), "return the CallToolResult alone"),
    (CallToolResult(content=[TextContent(5)]), "^TextContent takes a text, not 5"),
    (CallToolResult(is_error="yes"), "^is_error of a CallToolResult is True or False, not 'yes'"),
    (CallToolResult(meta=5), "^meta of a CallToolResult is a dict, not 5"), ([CallToolResult()], "return the CallToolResult"),
    ({"a": TextContent("x")}, "cannot be sent inside of data"), ([[TextContent("x")]], "cannot be sent inside of data"),
])
def test_values_in_the_wrong_place_are_refused(value, reason):
    with pytest.raises((TypeError, ValueError), match=reason):
        result_of(value)


def test_results_of_other_requests_are_understood():
    contents = TextResourceContents("a://b", "x")
    assert result_of(ReadResourceResult(contents=[contents])).content == [EmbeddedResource(contents)]
    assert [block.text for block in result_of([PromptMessage("user", TextContent("a")), "b"]).content] == ["a", "b"]
    assert result_of(Tool("t", {})).structured_content == {"name": "t", "inputSchema": {}}


@pytest.mark.parametrize("value, expected", [
    ({"role": "user", "content": [WORDS]}, [("user", "text")]),
    ({"role": "user", "content": [WORDS, GIF]}, [("user", "text"), ("user", "image")]),
    ([{"role": "assistant", "content": (WORDS,)}], [("assistant", "text")]),
    ([WORDS, GIF], [("user", "text"), ("user", "image")]),
    (WORDS, [("user", "text")]), (user_message([WORDS, Image(PNG), "x"]), [("user", "text"), ("user", "image"),
    ("user", "text")]),
    (SamplingMessage("assistant", [TextContent("a"), TextContent("b")]), [("assistant", "text"), ("assistant", "text")]),
    (collections.UserString("lazy"), [("user", "text")]),
])
def test_messages_with_several_contents(value, expected):
    assert [(message.role, message.content.wire_type) for message in prompt_messages(value)] == expected


@pytest.mark.parametrize("value", [
    {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, {"role": "user", "content": [{"a": 1}]},
    {"role": "user", "content": None}, {"role": "user", "content": [WORDS], "name": "x"}, {"role": "user"}, {},
    [GetPromptResult(messages=[])], CallToolResult(content=["x"]), {"messages": []}, ReadResourceResult(contents=[]),
])
def test_messages_of_other_forms_are_refused(value):
    with pytest.raises((TypeError, ValueError)):
        prompt_messages(value)


@pytest.mark.parametrize("contents, texts", [
    ([TextResourceContents("a://b", "x")], ["x"]), (TextResourceContents("a://b", "x"), ["x"]), ("x", ["x"]),
    (["x", "y"], ["x", "y"]), ({"uri": "a://b", "text": "x"}, ["x"]), ([{"uri": "a://b", "blob": "eA=="}], ["eA=="]),
    (b"x", ["eA=="]), (None, []), ([], []),
    (EmbeddedResource(TextResourceContents("a://b", "x")), ["x"]), ([TextContent("x"), {"a": 1}], ["x", '{"a":1}']),
])
def test_a_resource_may_return_its_whole_result(contents, texts):
    given = ReadResourceResult(contents=contents, meta={"a": 1}, ttl_ms=5)
    result = resource_result(given, "a://b", None)
    assert [getattr(item, "text", getattr(item, "blob", None)) for item in result.contents] == texts
    assert (result.meta, result.ttl_ms, given.contents) == ({"a": 1}, 5, contents)


@pytest.mark.parametrize("value", [
    CallToolResult(content=["x"]), [CallToolResult()], ReadResourceResult(contents=[{"uri": 5, "text": "x"}]),
    ReadResourceResult(contents=["x"], meta=5), ResourceLink("a://b", "n"), [ReadResourceResult(contents=["x"])],
    GetPromptResult(messages=[]), TextContent(5), {"a": TextResourceContents("a://b", "x")},
])
def test_other_results_are_no_contents(value):
    with pytest.raises((TypeError, ValueError)):
        resource_result(value, "a://b", None)


def test_content_in_a_list_becomes_contents():
    found = resource_contents([TextContent("x"), Image(PNG), TextResourceContents("a://c", "y"), "z"], "a://b", None)
    assert [item.uri for item in found] == ["a://b", "a://b", "a://c", "a://b"] and found[0].text == "x"


@pytest.mark.parametrize("value, values", [
    ("Rome", ["Rome"]), (Completion("Rome"), ["Rome"]), (CompleteResult(Completion("Rome")), ["Rome"]), (None, []), ([], []),
    ({"values": ["a"]}, ["a"]), ({"completion": {"values": "a"}}, ["a"]), (["a", 5, True, 1.5], ["a", "5", "true", "1.5"]),
    (iter("ab"), ["a", "b"]), ({"a": 1}.keys(), ["a"]), ([Color.RED], ["red"]), (Color.RED, ["red"]), (range(2), ["0", "1"]),
    (collections.UserString("lazy"), ["lazy"]), ([datetime.date(2024, 5, 6)], ["2024-05-06"]),
])
def test_completions(value, values):
    assert completion_of(value).values == values


@pytest.mark.parametrize("value", [
    5, True, b"a", [b"a"], {"a": 1}, [["a"]], [{"a": 1}], [None], TextContent("a"), [TextContent("a")], object(),
    Completion(["a"], total="5"), {"values": 5}, user_message("x"),
], ids=named(None))
def test_other_values_are_no_completions(value):
    with pytest.raises(TypeError):
        completion_of(value)
