import base64
import json

import pytest
from hypothesis import given

import mcplite
from mcplite import llm
from mcplite.llm.gemini import gemini_schema
from mcplite.llm.tool_schemas import portable
from tests.llm.test_tool_schemas import REFERENCES, SCHEMAS, TYPES
from tests.support.models import PDF, PNG, WAV, canned_api, gemini_reply

USES = (("t1", "chart", {"city": "Rome"}), ("t2", "fails", {"city": "Ur"}))
IMAGE = {"inlineData": {"mimeType": "image/png", "data": PNG}}


@pytest.fixture
def sdk():
    return pytest.importorskip("google.genai")


def use(name, args=None):
    return {"functionCall": {"id": "t", "name": name, "args": args or {}}}


def test_tools(client):
    (tool,) = llm.gemini_tools(client, only=["weather.forecast", "nothing"]).tools
    assert tool == {"functionDeclarations": [
        {"name": "weather__forecast", "description": "The forecast for a city.", "parameters": {
            "type": "OBJECT", "required": ["city"], "properties": {
                "city": {"type": "STRING"}, "days": {"type": "INTEGER", "description": "default: 3."}}}},
        {"name": "nothing", "description": "No parameters, no result."}]}
    assert llm.gemini_tools(client, only=[]).tools == []


def test_names_of_parameters():
    server = mcplite.Server("odd")

    @server.tool(name="9", input_schema={"type": "object", "properties": {"user-id": {"type": "string"}}})
    def find(**arguments) -> str:
        return repr(arguments)

    with mcplite.connect(server) as client:
        kit = llm.gemini_tools(client)
        (declared,) = kit.tools[0]["functionDeclarations"]
        assert declared["name"] == "_9" and list(declared["parameters"]["properties"]) == ["user_id"]
        assert kit.call(use("_9", {"user_id": "x"}))["functionResponse"]["response"] == {"output": "{'user-id': 'x'}"}


def test_calls(client):
    kit = llm.gemini_tools(client)
    assert kit.call(use("weather__forecast", {"city": "Rome"})) == {"functionResponse": {
        "id": "t", "name": "weather__forecast", "response": {"output": "Rome: sun for 3 days"}}}
    assert kit.call({"name": "fails", "args": {"city": "Ur"}}) == {"functionResponse": {
        "name": "fails", "response": {"error": "no station in Ur"}}}
    assert kit.call({"function_call": {"name": "nothing"}})["functionResponse"]["response"] == {"output": ""}


def test_content_of_each_kind(client):
    (content,) = llm.gemini_tools(client).answers({"role": "model", "parts": [{"text": "Let me see"}, use("everything")]})
    assert content["role"] == "user"
    response, sound = content["parts"]
    assert response["functionResponse"]["parts"] == [IMAGE, {"inlineData": {"mimeType": "application/pdf", "data": PDF}}]
    assert response["functionResponse"]["response"]["output"].splitlines() == [
        "words", "[audio (audio/wav, 4 bytes) follows after the results]",
        "Link to the resource log, file:///a/log.txt (text/plain)"]
    assert sound == {"inlineData": {"mimeType": "audio/wav", "data": WAV}}


def test_media_behind_the_responses_for_older_models(client):
    kit = llm.gemini_tools(client, media_inside=False)
    (content,) = kit.answers({"role": "model", "parts": [use("everything"), use("nothing")]})
    first, second, *media = content["parts"]
    assert "parts" not in first["functionResponse"] and second["functionResponse"]["name"] == "nothing"
    assert [part["inlineData"]["mimeType"] for part in media] == ["image/png", "audio/wav", "application/pdf"]


def test_what_is_no_call(client):
    kit = llm.gemini_tools(client)
    with pytest.raises(TypeError, match="a function call, or a part with one, was expected, not dict"):
        kit.call({"text": "x"})
    for wrong in (3, {"text": "x"}):
        with pytest.raises(TypeError, match="a response, or its content, was expected"):
            kit.answers(wrong)
    assert kit.answers(gemini_reply()) == []
    assert kit.answers({"candidates": [{"content": {"role": "model"}}]}) == []
    assert kit.answers({"candidates": [{"finishReason": "SAFETY"}]}) == []
    assert kit.answers({"promptFeedback": {"blockReason": "SAFETY"}}) == []


def test_the_sdk_knows_what_is_made(client, sdk):
    kit = llm.gemini_tools(client)
    config = sdk.types.GenerateContentConfig(tools=kit.tools)
    assert config.tools[0].function_declarations[0].parameters.properties["days"].type == sdk.types.Type.INTEGER
    part = kit.call(use("everything"))
    assert sdk.types.Part.model_validate_json(json.dumps(part)).function_response.id == "t"


def test_the_sdks_objects(client, sdk):
    kit = llm.gemini_tools(client)
    assert kit.answers(sdk.types.GenerateContentResponse()) == []
    assert kit.answers(sdk.types.GenerateContentResponse(candidates=[sdk.types.Candidate()])) == []
    assert kit.answers(sdk.types.Content(role="model")) == []
    call = sdk.types.FunctionCall(name="chart", args={"city": "Rome"})
    for sent in (call, sdk.types.Part(function_call=call)):
        part = kit.call(sent)
        assert isinstance(part, sdk.types.Part)
        assert part.function_response.parts[0].inline_data.data == base64.b64decode(PNG)


def test_a_loop_with_the_sdk(client, sdk):
    kit = llm.gemini_tools(client)
    contents = [sdk.types.Content(role="user", parts=[sdk.types.Part(text="Rome and Ur?")])]
    with canned_api([gemini_reply(*USES), gemini_reply()]) as api:
        gemini = sdk.Client(api_key="key", http_options={"base_url": api.url})
        while True:
            reply = gemini.models.generate_content(model="gemini", contents=contents, config={"tools": kit.tools})
            contents.append(reply.candidates[0].content)
            answers = kit.answers(reply)
            if not answers:
                break
            contents += answers
        gemini.close()
    assert reply.text == "Here you are."
    assert [tool["name"] for tool in api.bodies[0]["tools"][0]["functionDeclarations"]][:2] == ["weather__forecast", "chart"]
    first, second = [part["functionResponse"] for part in api.bodies[1]["contents"][2]["parts"]]
    assert (first["id"], first["response"]) == ("t1", {"output": "Chart of Rome"})
    # The SDK writes this part with names in either form, and with either alphabet of base64, which the API reads alike.
    image = sdk.types.FunctionResponsePart.model_validate_json(json.dumps(first["parts"][0])).inline_data
    assert (image.mime_type, image.data) == ("image/png", base64.b64decode(PNG))
    assert (second["id"], second["response"]) == ("t2", {"error": "no station in Ur"})


KEYWORDS = {"type", "format", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
            "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum", "maximum"}


def written(schema, **more):
    """Return what the schema of one parameter becomes."""
    return gemini_schema(portable({"properties": {"x": schema}, **more}))["properties"]["x"]


@pytest.mark.parametrize("schema, expected", [
    ({"type": "string"}, {"type": "STRING"}),
    ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
    ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
    ({"type": "null"}, {"type": "STRING", "nullable": True}),
    ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "Days"},
     {"type": "INTEGER", "minimum": 1, "nullable": True, "description": "Days"}),
    ({"oneOf": [{"type": "string", "description": "A"}, {"type": "boolean"}]},
     {"anyOf": [{"type": "STRING", "description": "A"}, {"type": "BOOLEAN"}]}),
    ({"allOf": [{"type": "string"}, {"minLength": 1}], "description": "D"},
     {"type": "STRING", "minLength": 1, "description": "D"}),
    ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
    ({"enum": ["a", "b", None]}, {"type": "STRING", "enum": ["a", "b"], "nullable": True}),
    ({"type": "integer", "enum": [1, 2], "description": "How."}, {"type": "INTEGER", "description": "How. One of: 1, 2."}),
    ({"enum": ["", "a"]}, {"type": "STRING", "description": 'One of: "", "a".'}),
    ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    ({"type": "string", "format": "uri"}, {"type": "STRING", "description": "Format: uri."}),
    ({"type": "integer", "exclusiveMinimum": 0, "default": 3},
     {"type": "INTEGER", "description": "exclusiveMinimum: 0. default: 3."}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3},
     {"type": "INTEGER", "nullable": True, "description": "default: 3."}),
    ({"type": "array"}, {"type": "ARRAY", "items": {"anyOf": [
        {"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}, {"type": "OBJECT"}]}}),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 3},
     {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 3}),
    ({"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
     {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}}),
    ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]},
     {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
    ({"items": {"type": "string"}}, {"type": "ARRAY", "items": {"type": "STRING"}}),
    ({}, {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}, {"type": "OBJECT"}]}),
])
def test_schemas(schema, expected):
    assert written(schema) == expected


def test_a_recursive_schema_ends():
    found = written({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": {"type": "object", "properties": {
        "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}}})
    assert str(found).count("children") == 6
    assert written({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}) == {"type": "OBJECT"}
    lists = {"$defs": {"L": {"type": "array", "items": {"$ref": "#/$defs/L"}}}}
    assert str(written({"$ref": "#/$defs/L"}, **lists)).count("ARRAY") == 7


def check(schema):
    """Fail unless each rule of the API holds for a schema and those in it."""
    assert set(schema) <= KEYWORDS
    assert ("type" in schema) != ("anyOf" in schema)
    assert schema.get("anyOf", [1])
    kind = schema.get("type")
    assert kind in (None, "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT")
    assert "enum" not in schema or (kind == "STRING" and all(isinstance(value, str) and value for value in schema["enum"]))
    assert (kind == "ARRAY") == ("items" in schema)
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    assert schema.get("properties", [1])
    items = [schema["items"]] if "items" in schema else []
    for inner in (*schema.get("anyOf", ()), *schema.get("properties", {}).values(), *items):
        check(inner)


@given(SCHEMAS, REFERENCES, TYPES)
def test_whatever_comes_keeps_the_rules(schema, reference, type):
    found = gemini_schema(portable({"properties": {"a": {**schema, "$ref": reference}, "b": {**schema, "type": type}},
                                    "$defs": {"a": schema}, **schema}))
    assert found["type"] == "OBJECT"
    check({**found, "properties": found.get("properties") or {"x": {"type": "STRING"}}})
