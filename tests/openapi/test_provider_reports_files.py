"""What users have reported, replayed: documents of several files, and what ``test_provider_reports.py`` has no room for."""

import json

import pytest

import mcplite
from mcplite.openapi import OpenAPIProvider, from_openapi

from .conftest import document

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
PET = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "friend": {"$ref": "#/Pet"}}}
LIMIT = {"name": "limit", "in": "query", "schema": INTEGER}


def posts(schema):
    return {"post": {"operationId": "send", "requestBody": {"required": True, "content": {"application/json": {
        "schema": schema}}}}}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")
    return folder / "api.json"


SEND = "send", {"name": "Tom", "friend": {"name": "Tim"}}, "POST /a", {"name": "Tom", "friend": {"name": "Tim"}}


@pytest.mark.parametrize("files, called", [
    ({"api.json": document({"/a": posts({"$ref": "pet.json#/Pet"})}), "pet.json": {"Pet": PET}}, SEND),
    ({"api.json": document({"/a": posts({"$ref": "./pet.json#/Pet"})}), "pet.json": {"Pet": PET}}, SEND),
    ({"api.json": document({"/a": posts({"$ref": "deep/er/pet.json#/Pet"})}), "deep/er/pet.json": {"Pet": PET}}, SEND),
    # A reference of another file is relative to that file, and may lead back.
    ({"api.json": document({"/a": posts({"$ref": "deep/pet.json#/Pet"})}, names={"Name": TEXT}), "deep/pet.json": {"Pet": {
        "type": "object", "properties": {"name": {"$ref": "../api.json#/names/Name"}, "friend": {"$ref": "#/Pet"}}}}}, SEND),
    ({"api.json": document({"/a": posts({"$ref": "one.json#/Pet"})}), "one.json": {"Pet": {"$ref": "two.json#/Pet"}},
      "two.json": {"Pet": PET}}, SEND),
    # Two files that refer to each other.
    ({"api.json": document({"/a": posts({"$ref": "one.json"})}),
      "one.json": {"type": "object", "properties": {"name": TEXT, "friend": {"$ref": "two.json"}}},
      "two.json": {"allOf": [{"$ref": "one.json"}, {"type": "object", "required": ["name"]}]}}, SEND),
    # Parts that are no schemas.
    ({"api.json": document({"/a": {"$ref": "paths.json#/send"}}), "paths.json": {"send": posts({"$ref": "pet.json#/Pet"})},
      "pet.json": {"Pet": PET}}, SEND),
    ({"api.json": document({"/a": {"post": {"operationId": "send", "requestBody": {"$ref": "bodies.json#/Pet"}}}}),
      "bodies.json": {"Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "pet.json#/Pet"}}}}},
      "pet.json": {"Pet": PET}}, SEND),
    ({"api.json": document({"/a": {"get": {"operationId": "list", "parameters": [{"$ref": "parameters.json#/Limit"}]}}}),
      "parameters.json": {"Limit": LIMIT}}, ("list", {"limit": 5}, "GET /a?limit=5", None)),
    ({"api.json": document({"/a": {"get": {"operationId": "list"}, "parameters": [{"$ref": "parameters.json#/all~1Limit"}]}}),
      "parameters.json": {"all/Limit": LIMIT}}, ("list", {"limit": 5}, "GET /a?limit=5", None)),
    ({"api.json": document({"/a": posts({"$ref": "a%20pet.json#/Pet"})}), "a pet.json": {"Pet": PET}}, SEND),
    ({"api.json": document({"/a": posts({"allOf": [{"$ref": "pet.json#/Pet"}, {"type": "object"}]})}),
      "pet.json": {"Pet": PET}}, ("send", {"body": {"name": "Tom"}}, "POST /a", {"name": "Tom"})),
])
def test_a_document_of_several_files(tmp_path, connected, api, files, called):
    name, arguments, line, body = called
    client = connected(write(tmp_path, files))
    assert client.call_tool(name, arguments).structured_content == {"ok": True}
    assert f"{api.last.method} {api.last.target}" == line and (body is None or api.last.json == body)


@pytest.mark.parametrize("reference", [
    "../secret.json#/Pet", "/etc/hostname", "file:///etc/hostname", "http://127.0.0.1:1/pet.json#/Pet", "//127.0.0.1/pet.json",
    "https://other.example/pet.json", "deep/../../secret.json#/Pet", "none.json#/Pet", "#/none", "%2e%2e/secret.json#/Pet"])
def test_a_part_that_may_not_or_cannot_be_loaded_does_not_take_the_others_with_it(tmp_path, connected, api, caplog, reference):
    """Nothing is read outside: a schema that is not there allows anything, and a parameter that is not there is left out."""
    write(tmp_path, {"secret.json": {"Pet": {"type": "string", "enum": ["secret"]}}})
    paths = {"/a": posts({"type": "object", "properties": {"pet": {"$ref": reference}}}),
             "/b": {"get": {"operationId": "list", "parameters": [{"$ref": reference}, LIMIT]}}}
    client = connected(write(tmp_path / "docs", {"api.json": document(paths)}))
    tools = {tool.name: tool.input_schema for tool in client.list_tools()}
    assert tools["send"]["properties"] == {"pet": {}} and list(tools["list"]["properties"]) == ["limit"]
    assert "secret" not in json.dumps(tools)
    assert not client.call_tool("list", {"limit": 1}).is_error and "left out" in caplog.text


def test_routes_that_share_a_path_item(tmp_path, connected, api):
    """All but the first were lost."""
    item = {"parameters": [{"name": "petId", "in": "path", "required": True, "schema": INTEGER}], "get": {}}
    paths = {path: {"$ref": "./pet.json"} for path in ("/pets/{petId}", "/archived-pets/{petId}")}
    client = connected(write(tmp_path, {"api.json": document(paths), "pet.json": item}))
    for tool in client.list_tools():
        client.call_tool(tool.name, {"petId": 5})
    assert [request.target for request in api.requests] == ["/pets/5", "/archived-pets/5"]


def test_a_server_that_is_relative_to_the_document(api):
    """The path of the server was lost."""
    spec = document({"/users": {"get": {"operationId": "users"}}}, servers=[{"url": "/myapp"}])
    api.answer = lambda request: spec if request.path == "/docs/openapi.json" else {"ok": True}
    with mcplite.connect(from_openapi(api.url + "/docs/openapi.json")) as client:
        client.call_tool("users")
    assert api.last.target == "/myapp/users"


@pytest.mark.parametrize("style, query", [("pipeDelimited", "ids=a%7Cb"), ("spaceDelimited", "ids=a%20b"),
                                          ("form", "ids=a&ids=b"), (None, "ids=a&ids=b")])
def test_a_style_says_whether_lists_are_exploded(called, style, query):
    more = {} if style is None else {"style": style}
    node = {"parameters": [{"name": "ids", "in": "query", "schema": {"type": "array", "items": TEXT}, **more}]}
    assert called("get", "/x", node, {"ids": ["a", "b"]}).query == query


@pytest.mark.parametrize("schema, arguments, body", [
    # Null was dropped, so that no member could be cleared.
    ({"type": "object", "properties": {"note": {"type": "string", "nullable": True}, "name": TEXT}}, {"note": None},
     {"note": None}),
    # A dictionary was sent within another one.
    ({"type": "object", "additionalProperties": TEXT}, {"body": {"team": "infra"}}, {"team": "infra"}),
    # A body with one member was sent as its value alone.
    ({"type": "object", "properties": {"title": TEXT, "body": TEXT}}, {"body": "Test"}, {"body": "Test"}),
    ({"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}, "name": TEXT}}, {"name": "x"},
     {"name": "x"}),
    ({"type": "object", "properties": {"name": {"type": "string", "nullable": False}}}, {"name": "x"}, {"name": "x"}),
    ({"type": "object", "properties": {"tags": {"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}}},
     {"tags": ["a"]}, {"tags": ["a"]}),
    ({"type": "object", "properties": {"size": {"anyOf": [{"type": "array", "minItems": 2, "prefixItems": [TEXT, TEXT]},
                                                          {"type": "null"}]}}}, {"size": ["a", "b"]}, {"size": ["a", "b"]}),
])
def test_bodies(called, schema, arguments, body):
    node = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    assert called("post", "/x", node, arguments, version="3.1.0" if "anyOf" in str(schema) else "3.0.3").json == body


def test_a_get_with_a_body(called):
    node = {"requestBody": {"required": True, "content": {"application/json": {"schema": {
        "type": "object", "required": ["zone"], "properties": {"zone": TEXT}}}}}}
    received = called("get", "/clock", node, {"zone": "Berlin"})
    assert received.method == "GET" and received.json == {"zone": "Berlin"}


def test_a_default_that_is_empty(called):
    node = {"parameters": [{"name": "user", "in": "query", "schema": {"type": "string", "default": ""}},
                           {"name": "maxResults", "in": "query", "schema": {"type": "integer", "default": 20}}]}
    assert called("post", "/x", node, {}).query == ""


def test_a_template_with_several_parameters(connected, api):
    """All but the last were lost."""
    path = "/{kind}/{id}"
    node = {"operationId": "one", "parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT}
                                                 for name in ("kind", "id")]}
    client = connected(document({path: {"get": node}}), resources=True)
    assert client.list_resource_templates()[0].uri_template == api.url + path
    client.read_resource(api.url + "/pet/7")
    assert api.last.target == "/pet/7"


def test_names_of_a_part_of_a_server_are_short_too(api):
    name = "tool_with_a_very_long_and_verbose_name_that_should_be_truncated_verbose_tool_get"
    hub = mcplite.Server("hub")
    hub.mount(OpenAPIProvider(document({"/a": {"get": {"operationId": name}}, "/b": {"get": {"operationId": name + "_2"}}}),
                              base_url=api.url), "a_prefix")
    with mcplite.connect(hub) as client:
        names = [tool.name for tool in client.list_tools()]
        assert len(set(names)) == 2 and all(len(one) <= 64 and one.startswith("a_prefix_") for one in names)
        assert [client.call_tool(one).is_error for one in names] == [False, False]
    assert [request.target for request in api.requests] == ["/a", "/b"]


def test_a_header_that_the_document_declares_for_authorization_is_left_to_the_program(api):
    """As a parameter, the model would have to give it."""
    spec = document({"/x": {"get": {"operationId": "get", "parameters": [{
        "name": "authorization", "in": "header", "required": True, "schema": TEXT}]}}})
    mcp = from_openapi(spec, base_url=api.url, headers=lambda ctx: {"Authorization": ctx.http.headers["x-token"]})
    with mcplite.serve(mcp) as served, mcplite.connect(served.url, headers={"X-Token": "Bearer Foo"}) as client:
        (tool,) = client.list_tools()
        assert tool.input_schema["properties"] == {} and not client.call_tool("get").is_error
    assert api.last.headers["authorization"] == "Bearer Foo"
