import json

import jsonschema
import pytest
from hypothesis import given, strategies as st

import mcplite
from mcplite import llm
from mcplite.llm.openai import strict_schema, without_nulls
from mcplite.llm.tool_schemas import portable
from tests.llm.test_tool_schemas import REFERENCES, SCHEMAS, TYPES
from tests.support.models import PDF, PNG, WAV, canned_api, completion, response

USES = (("t1", "chart", {"city": "Rome"}), ("t2", "fails", {"city": "Ur"}))
URL = f"data:image/png;base64,{PNG}"


@pytest.fixture
def sdk():
    return pytest.importorskip("openai")


def use(name, arguments="{}"):
    return {"id": "t", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_tools(client):
    assert llm.openai_tools(client).tools[0] == {"type": "function", "function": {
        "name": "weather__forecast", "description": "The forecast for a city.", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
            "required": ["city"], "additionalProperties": False}}}


def test_strict_tools_where_the_schema_can_be_strict(client):
    server = mcplite.Server("odd")

    @server.tool()
    def free(anything: dict) -> str:
        return repr(anything)

    @server.tool(input_schema={"type": "object", "properties": {"$a": {"type": "integer"}, "b": {"type": "string"},
                                                                "c": {"type": ["string", "null"]}}, "required": ["b"]})
    def closed(**arguments) -> str:
        return repr(sorted(arguments.items()))

    with mcplite.connect(server) as other:
        kit = llm.openai_tools(other, strict=True)
        first, second = [tool["function"] for tool in kit.tools]
        assert "strict" not in first
        assert second["strict"] is True and second["parameters"] == {
            "type": "object", "additionalProperties": False, "required": ["_a", "b", "c"], "properties": {
                "_a": {"type": ["integer", "null"]}, "b": {"type": "string"}, "c": {"type": ["string", "null"]}}}
        # What was optional is null in the strict mode.
        answer = kit.call(use("closed", '{"_a": null, "b": "x", "c": null}'))
        assert answer["content"] == "[('b', 'x'), ('c', None)]"
        assert kit.call(use("free", '{"anything": {"a": null}}'))["content"] == "{'a': None}"


def test_long_descriptions_are_cut():
    server = mcplite.Server("odd")
    server.add_tool(lambda: "x", name="long", description="x" * 2000)
    with mcplite.connect(server) as client:
        description = llm.openai_tools(client).tools[0]["function"]["description"]
    assert len(description) == 1024 and description.endswith("x…")


def test_one_call(client):
    kit = llm.openai_tools(client)
    assert kit.call(use("weather__forecast", '{"city": "Rome"}')) == {
        "role": "tool", "tool_call_id": "t", "content": "Rome: sun for 3 days"}
    assert kit.call(use("fails", '{"city": "Ur"}'))["content"] == "Error: no station in Ur"
    assert kit.call(use("fails", '{"city": '))["content"].startswith(
        "Error: The tool could not be called: the arguments are not valid JSON")
    assert kit.call(use("nothing", ""))["content"] == ""
    assert kit.call(use("chart", '{"city": "Rome"}'))["content"] == (
        "Chart of Rome\n[image (image/png, 68 bytes) is left out: this API takes no such content here]")
    assert kit.call({"id": "t", "type": "custom", "custom": {"name": "sql", "input": "select"}})["content"].startswith(
        "Error: There is no tool sql.")


def test_media_follow_in_a_message_of_the_user(client):
    reply = {"role": "assistant", "content": None, "tool_calls": [use("everything"), use("nothing")]}
    first, second, media = llm.openai_tools(client).answers(reply)
    assert first["content"].splitlines() == [
        "words", "[image (image/png, 68 bytes) follows after the results]",
        "[audio (audio/wav, 4 bytes) follows after the results]",
        "[file file:///a/report.pdf (application/pdf, 4 bytes) follows after the results]",
        "Link to the resource log, file:///a/log.txt (text/plain)"]
    assert second == {"role": "tool", "tool_call_id": "t", "content": ""}
    assert media == {"role": "user", "content": [
        {"type": "text", "text": "Content that the tools returned, in the order of their results:"},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}]}


def test_what_is_no_call(client):
    kit = llm.openai_tools(client)
    with pytest.raises(TypeError, match="an item of 'tool_calls' was expected, not dict"):
        kit.call({"type": "function"})
    with pytest.raises(TypeError, match="a completion, or a message of the role 'assistant', was expected, not int"):
        kit.answers(3)
    assert kit.answers({"role": "assistant", "content": "text"}) == []
    assert kit.answers({"choices": []}) == []


def test_the_sdk_knows_what_is_made(client, sdk):
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    pydantic = pytest.importorskip("pydantic")
    for strict in (False, True):
        kit = llm.openai_tools(client, strict=strict)
        for tool in kit.tools:
            pydantic.TypeAdapter(ChatCompletionToolParam).validate_python(tool)
    for message in kit.answers({"role": "assistant", "tool_calls": [use("everything"), use("fails"), use("unknown")]}):
        pydantic.TypeAdapter(ChatCompletionMessageParam).validate_python(message)


def test_a_loop_with_the_sdk(client, sdk):
    kit = llm.openai_tools(client)
    messages = [{"role": "user", "content": "Rome and Ur?"}]
    with canned_api([completion(*USES), completion()]) as api:
        with sdk.OpenAI(base_url=api.url, api_key="key", max_retries=0) as openai:
            while True:
                reply = openai.chat.completions.create(model="gpt", messages=messages, tools=kit.tools)
                messages.append(reply.choices[0].message)
                answers = kit.answers(reply)
                if not answers:
                    break
                messages += answers
    assert reply.choices[0].message.content == "Here you are."
    assert [message["role"] for message in api.bodies[1]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert api.bodies[1]["messages"][3] == {"role": "tool", "tool_call_id": "t2", "content": "Error: no station in Ur"}
    assert api.bodies[1]["messages"][4]["content"][1] == {"type": "image_url", "image_url": {"url": URL}}
    assert json.loads(api.bodies[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}


def strict(properties, **more):
    return strict_schema(portable({"type": "object", "properties": properties, **more}))


def test_every_member_is_required_and_optional_ones_may_be_null():
    assert strict({"city": {"type": "string"}, "days": {"type": "integer", "default": 3}, "unit": {"enum": ["c", "f"]},
                   "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
                   "kind": {"const": "a"}}, required=["city", "kind"]) == {
        "type": "object", "additionalProperties": False, "required": ["city", "days", "unit", "tags", "kind"], "properties": {
            "city": {"type": "string"}, "days": {"type": ["integer", "null"]},
            "unit": {"type": ["string", "null"], "enum": ["c", "f", None]},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {"type": "null"}]},
            "kind": {"type": "string", "enum": ["a"]}}}


def test_definitions():
    found = strict({"one": {"$ref": "#/$defs/Node", "description": "x"}, "two": {"$ref": "#/$defs/Node"}}, required=["one"],
                   **{"$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}})
    assert found["properties"] == {"one": {"$ref": "#/$defs/Node"},
                                   "two": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}
    assert found["$defs"]["Node"]["additionalProperties"] is False


def test_keywords_beyond_the_subset_are_left_to_the_server():
    assert strict({"a": {"type": "string", "minLength": 1, "format": "uri", "pattern": "(?=x)"},
                   "b": {"type": "string", "format": "date", "pattern": "^x$"},
                   "c": {"type": "integer", "minimum": 1, "multipleOf": 2}}, required=["a", "b", "c"])["properties"] == {
        "a": {"type": "string"}, "b": {"type": "string", "format": "date", "pattern": "^x$"},
        "c": {"type": "integer", "minimum": 1, "multipleOf": 2}}


@pytest.mark.parametrize("schema", [
    {}, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}, {"type": "array"},
    {"allOf": [{"type": "string"}]}, {"type": "string", "not": {"enum": ["a"]}}, {"type": "array", "prefixItems": [{}]},
    {"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]}, {"type": "string", "enum": [str(n) for n in range(1001)]},
    {"$ref": "#/$defs/Free"},
])
def test_what_has_no_strict_form(schema):
    assert strict({"x": schema}, **{"$defs": {"Free": {"type": "object"}}}) is None


def test_nulls_of_optional_members_are_taken_out():
    schema = portable({"properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "zone": {"type": ["string", "null"]},
        "free": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "where": {"$ref": "#/$defs/Where"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Where"}}, "unit": {"enum": ["c", None]}},
        "required": ["city"], "$defs": {"Where": {"type": "object", "properties": {
            "x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]}}})

    def cleaned(value):
        return without_nulls(value, schema, schema)

    assert cleaned({"city": None, "days": None, "zone": None, "free": None, "unit": None, "where": None}) == {
        "city": None, "zone": None, "free": None, "unit": None}
    assert cleaned({"city": "a", "where": {"x": 1, "y": None}, "list": [{"x": None, "y": None}, None]}) == {
        "city": "a", "where": {"x": 1}, "list": [{"x": None}, None]}
    assert cleaned({"other": None}) == {"other": None}
    loop = portable({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}})
    assert without_nulls({"a": {"b": None}}, loop, loop) == {"a": {"b": None}}


@st.composite
def schemas(draw, depth=2):
    """Schemas that can be strict."""
    kinds = [st.just({"type": "string"}), st.just({"type": "integer", "minimum": 0}), st.just({"type": ["boolean", "null"]}),
             st.just({"enum": ["a", "b"]})]
    if depth:
        inner = schemas(depth - 1)
        kinds += [inner.map(lambda one: {"type": "array", "items": one, "maxItems": 2}),
                  st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).flatmap(
                      lambda found: st.sets(st.sampled_from(sorted(found))).map(lambda required: {
                          "type": "object", "properties": found, "required": sorted(required), "additionalProperties": False}))]
    return draw(st.one_of(kinds))


def instance(draw, schema):
    """Return a value that fits a strict schema."""
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        return {name: instance(draw, one) for name, one in schema["properties"].items()}
    if kind == "array":
        return [instance(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
    return {"string": "x", "integer": 1, "boolean": True, "null": None}[kind]


@given(st.data())
@pytest.mark.slow
def test_what_fits_the_strict_form_fits_the_tool_without_its_nulls(data):
    schema = portable({"type": "object", "additionalProperties": False, "properties": {
        name: data.draw(schemas()) for name in "xy"}, "required": data.draw(st.sampled_from([[], ["x"], ["x", "y"]]))})
    found = strict_schema(schema)
    value = instance(data.draw, found)
    jsonschema.validate(value, found)
    jsonschema.validate(without_nulls(value, schema, schema), schema)


def check(schema):
    """Fail unless each rule of the API holds for a schema and those in it."""
    if "$ref" in schema:
        assert set(schema) == {"$ref"}
        return
    assert "type" in schema or "enum" in schema or "anyOf" in schema
    assert not {"allOf", "oneOf", "not", "const", "default", "patternProperties", "prefixItems"} & set(schema)
    if "object" in schema.get("type", ()):
        assert schema["additionalProperties"] is False and schema["required"] == list(schema["properties"])
    if "array" in schema.get("type", ()):
        assert "items" in schema
    inner = [*schema.get("anyOf", ()), *schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for one in [*inner, *([schema["items"]] if "items" in schema else [])]:
        check(one)


@given(SCHEMAS, REFERENCES, TYPES)
@pytest.mark.slow
def test_whatever_comes_keeps_the_rules_or_is_not_strict(schema, reference, type):
    found = strict_schema(portable({"properties": {"a": {**schema, "$ref": reference}, "b": {**schema, "type": type}},
                                    "$defs": {"a": schema}, **schema}))
    if found is not None:
        check(found)


IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
OUTPUTS = [
    {"type": "function_call_output", "call_id": "t1", "output": [{"type": "input_text", "text": "Chart of Rome"}, IMAGE]},
    {"type": "function_call_output", "call_id": "t2", "output": "Error: no station in Ur"},
]


def responses_use(name, arguments="{}"):
    return {"type": "function_call", "call_id": "t", "name": name, "arguments": arguments}


def test_responses_tools(client):
    assert llm.openai_responses_tools(client).tools[1] == {
        "type": "function", "name": "chart", "description": "A chart of the last day.", "strict": False, "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
    strict = llm.openai_responses_tools(client, strict=True).tools[0]
    assert strict["strict"] is True and strict["parameters"]["required"] == ["city", "days"]


def test_content_of_each_kind(client):
    assert llm.openai_responses_tools(client).call(responses_use("everything"))["output"] == [
        {"type": "input_text", "text": "words"}, IMAGE,
        {"type": "input_text", "text": "[audio (audio/wav, 4 bytes) is left out: this API takes no such content here]"},
        {"type": "input_file", "filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_text", "text": "Link to the resource log, file:///a/log.txt (text/plain)"}]


def test_responses_the_sdk_knows_what_is_made(client, sdk):
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput

    pydantic = pytest.importorskip("pydantic")
    kit = llm.openai_responses_tools(client, strict=True)
    for tool in kit.tools:
        pydantic.TypeAdapter(FunctionToolParam).validate_python(tool)
    for name in ("everything", "fails", "nothing", "unknown"):
        pydantic.TypeAdapter(FunctionCallOutput).validate_python(kit.call(responses_use(name, '{"city": "Rome"}')))


def test_responses_a_loop_with_the_sdk(client, sdk):
    kit = llm.openai_responses_tools(client)
    items = [{"role": "user", "content": "Rome and Ur?"}]
    with canned_api([response(*USES), response()]) as api:
        with sdk.OpenAI(base_url=api.url, api_key="key", max_retries=0) as openai:
            while True:
                reply = openai.responses.create(model="gpt", input=items, tools=kit.tools)
                items += reply.output
                answers = kit.answers(reply)
                if not answers:
                    break
                items += answers
    assert reply.output_text == "Here you are."
    assert api.bodies[1]["input"][3:] == OUTPUTS


def test_the_tool_runner_of_the_sdk(client, sdk):
    runners = pytest.importorskip("openai.lib.responses_tool_runner", reason="this version of openai has no tool runner")
    runner = runners.ResponsesToolRunner(functions=llm.openai_responses_tools(client).runnable_tools())
    with canned_api([response(*USES), response()]) as api:
        with sdk.OpenAI(base_url=api.url, api_key="key", max_retries=0) as openai:
            last = runner.run(openai, {"model": "gpt", "input": "Rome and Ur?"})
        runner.close()
    assert last.output_text == "Here you are."
    assert [item for item in api.bodies[1]["input"] if item.get("type") == "function_call_output"] == OUTPUTS
