"""What users of other libraries have reported about servers made of OpenAPI documents, replayed.

Each test is one or several public reports: a document, a call, and what the API must receive or the client must see.
"""

import pytest

import mcplite
from mcplite.openapi import OpenAPIProvider

from .conftest import document

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def query(name="q", schema=STRING, **more):
    return {"parameters": [{"name": name, "in": "query", "schema": schema, **more}]}


def body(schema, media_type="application/json", required=True, **more):
    return {"requestBody": {"required": required, "content": {media_type: {"schema": schema, **more}}}}


LIST = {"type": "array", "items": STRING}
OBJECT = {"type": "object", "properties": {"id": STRING, "type": STRING}}
TARGET = {"target": {"id": "57dc", "type": "organisation"}}


@pytest.mark.parametrize("operation, arguments, expected", [
    # Lists that are not exploded were sent as one pair for each value, or as the text of a Python list.
    (query("tags", LIST, style="form", explode=False), {"tags": ["red", "blue"]}, "tags=red,blue"),
    (query("tags", LIST, style="form", explode=True), {"tags": ["red", "blue"]}, "tags=red&tags=blue"),
    (query("tags", LIST), {"tags": ["red", "blue"]}, "tags=red&tags=blue"),
    (query("tags", LIST, style="pipeDelimited", explode=False), {"tags": ["a", "b"]}, "tags=a%7Cb"),
    (query("tags", LIST, style="spaceDelimited", explode=False), {"tags": ["a", "b"]}, "tags=a%20b"),
    (query("tags", LIST), {"tags": []}, ""),
    # A comma or an ampersand within a value became another value.
    (query("tags", LIST, explode=False), {"tags": ["a,b", "c&d=e"]}, "tags=a%2Cb,c%26d%3De"),
    # deepObject lost the name of the parameter, or was sent as the text of a Python dict.
    (query("target", OBJECT, style="deepObject", explode=True), TARGET, "target%5Bid%5D=57dc&target%5Btype%5D=organisation"),
    (query("filter", {"type": "object"}, style="deepObject"), {"filter": {"a": {"b": 1}, "c": [1, 2]}},
     "filter%5Ba%5D%5Bb%5D=1&filter%5Bc%5D%5B0%5D=1&filter%5Bc%5D%5B1%5D=2"),
    # Objects in the style "form".
    (query("target", OBJECT), TARGET, "id=57dc&type=organisation"),
    (query("target", OBJECT, explode=False), TARGET, "target=id,57dc,type,organisation"),
    # Booleans were sent as Python writes them, and None as a text.
    (query("deep", {"type": "boolean"}), {"deep": True}, "deep=true"),
    (query("deep", {"type": "object"}), {"deep": {"on": False, "off": None}}, "on=false"),
    (query("q", {"type": "string", "nullable": True}), {"q": None}, ""),
    # A number without a fraction is an integer in JSON, and no API takes "3.0" for one.
    (query("n", INTEGER), {"n": 3.0}, "n=3"),
    (query("q", allowEmptyValue=True), {"q": ""}, "q="),
    # A parameter with content is JSON.
    ({"parameters": [{"name": "f", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}]},
     {"f": {"a": 1}}, "f=%7B%22a%22%3A1%7D"),
    (query("filter[name]"), {"filter[name]": "x"}, "filter%5Bname%5D=x"),
    (query("url", allowReserved=True), {"url": "https://a/b?c=d&e"}, "url=https://a/b?c%3Dd%26e"),
    # An optional parameter that is not given is not sent, not even with its default.
    (query("limit", {"type": "integer", "default": 20}), {}, ""),
    # A required one with a default can be left out, and its default is sent.
    (query("version", {"type": "string", "default": "v2"}, required=True), {}, "version=v2"),
])
def test_values_of_the_query(called, operation, arguments, expected):
    assert called("get", "/things", operation, arguments).query == expected


@pytest.mark.parametrize("path, parameters, arguments, expected", [
    ("/users/{id}", [("id", INTEGER, {})], {"id": 7}, "/users/7"),
    ("/users/{id}", [("id", STRING, {})], {"id": "a b/c?d#e%"}, "/users/a%20b%2Fc%3Fd%23e%25"),
    ("/users/{ids}", [("ids", LIST, {})], {"ids": ["a", "b"]}, "/users/a,b"),
    ("/users{ids}", [("ids", LIST, {"style": "label"})], {"ids": ["a", "b"]}, "/users.a,b"),
    ("/users{ids}", [("ids", LIST, {"style": "label", "explode": True})], {"ids": ["a", "b"]}, "/users.a.b"),
    ("/users{ids}", [("ids", LIST, {"style": "matrix"})], {"ids": ["a", "b"]}, "/users;ids=a,b"),
    ("/users{ids}", [("ids", LIST, {"style": "matrix", "explode": True})], {"ids": ["a", "b"]}, "/users;ids=a;ids=b"),
    # A part of the path that the document does not declare.
    ("/users/{id}/{name}.json", [("id", INTEGER, {})], {"id": 7, "name": "ada"}, "/users/7/ada.json"),
])
def test_values_of_the_path(called, path, parameters, arguments, expected):
    declared = [{"name": name, "in": "path", "required": True, "schema": schema, **more} for name, schema, more in parameters]
    assert called("get", path, {"parameters": declared}, arguments).target == expected


def test_a_name_in_two_places_gets_the_place_before_it(called):
    """The one in the path was lost, or the one in the body."""
    operation = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": INTEGER}],
                 **body({"type": "object", "properties": {"id": INTEGER, "name": STRING}, "required": ["id"]})}
    received = called("put", "/users/{id}", operation, {"path_id": 1, "body_id": 2, "name": "Ada"})
    assert (received.path, received.json) == ("/users/1", {"id": 2, "name": "Ada"})


def test_a_parameter_that_is_called_body_does_not_replace_the_body(called):
    operation = {**query("body"), **body(LIST)}
    received = called("post", "/values", operation, {"query_body": "active", "body_body": ["a"]})
    assert (received.query, received.json) == ("body=active", ["a"])


@pytest.mark.parametrize("schema, value", [
    (LIST, ["a", "b"]), (STRING, "text"), (INTEGER, 5), ({"anyOf": [STRING, LIST]}, ["x"]),
    ({"oneOf": [OBJECT, {"type": "object", "properties": {"name": STRING}}]}, {"id": "1"}),
    ({"type": "object", "additionalProperties": STRING}, {"any": "thing"}),
])
def test_a_body_that_is_no_object_with_members_is_one_argument(called, schema, value):
    """Such bodies were left out of the schema, so that the API could not be called at all."""
    assert called("post", "/values", body(schema), {"body": value}).json == value


@pytest.mark.parametrize("schema, value", [
    # A member with anyOf got one arbitrary type besides.
    ({"anyOf": [{"type": "object"}, {"type": "array", "items": {}}]}, [1]),
    ({"anyOf": [{"type": "object"}, {"type": "array", "items": {}}]}, {"a": 1}),
    ({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]}, None),
    ({"type": "string", "nullable": True}, None),
    ({"allOf": [{"$ref": "#/components/schemas/Kind"}], "nullable": True}, None),
    ({"$ref": "#/components/schemas/Kind"}, "a"),
    ({"allOf": [{"$ref": "#/components/schemas/Kind"}], "default": "a"}, "b"),
    ({"type": "string", "nullable": True, "enum": ["x"]}, None),
    # Two kinds that overlap, under oneOf.
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 3),
    ({"type": "string", "enum": ["a", "a", "b"]}, "b"),
    # Patterns that only other languages have.
    ({"type": "string", "pattern": "(?i)^[a-z]+$"}, "ABC"),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2),
])
def test_members_of_the_body(called, schema, value):
    components = {"schemas": {"Kind": {"type": "string", "enum": ["a", "b"]}}}
    operation = body({"type": "object", "properties": {"value": schema}, "required": ["value"]})
    assert called("post", "/values", operation, {"value": value}, components=components).json == {"value": value}


def test_a_boundary_that_draft_4_excludes_is_excluded(connected, api):
    operation = query("n", {"type": "integer", "minimum": 1, "exclusiveMinimum": True})
    client = connected(document({"/things": {"get": {"operationId": "things", **operation}}}))
    assert client.call_tool("things", {"n": 1}).is_error and api.requests == []


NODE = {"type": "object", "required": ["text"], "properties": {
    "text": STRING, "comments": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}}


def test_a_schema_that_refers_to_itself(called):
    """Such documents ended in a RecursionError, or in a value that no client could print."""
    value = {"text": "a", "comments": [{"text": "b", "comments": [{"text": "c"}]}]}
    operation = body({"$ref": "#/components/schemas/Node"})
    assert called("post", "/posts", operation, value, components={"schemas": {"Node": NODE}}).json == value


def test_a_schema_that_refers_to_itself_is_checked_at_each_level(connected, api):
    operation = {"operationId": "post", **body({"$ref": "#/components/schemas/Node"})}
    client = connected(document({"/posts": {"post": operation}}, components={"schemas": {"Node": NODE}}))
    result = client.call_tool("post", {"text": "a", "comments": [{"text": "b", "comments": [{"no": "text"}]}]})
    assert result.is_error and "text" in result.text and api.requests == []


def test_a_member_that_is_called_ref(called):
    schema = {"type": "object", "properties": {"$ref": STRING, "other": {"$ref": "#/components/schemas/Kind"}}}
    components = {"schemas": {"Kind": STRING}}
    assert called("post", "/x", body(schema), {"$ref": "y", "other": "z"}, components=components).json == {
        "$ref": "y", "other": "z"}


def test_references_outside_of_the_components(called):
    schema = {"type": "object", "properties": {"guid": {"$ref": "#/x-common/guid", "description": "of the user"}}}
    assert called("post", "/x", body(schema), {"guid": "1"}, **{"x-common": {"guid": STRING}}).json == {"guid": "1"}


def test_a_reference_of_a_parameter_and_of_a_body(called):
    components = {"parameters": {"Limit": {"name": "limit", "in": "query", "schema": INTEGER}},
                  "requestBodies": {"Pet": body({"$ref": "#/components/schemas/Pet"})["requestBody"]},
                  "schemas": {"Pet": {"type": "object", "properties": {"name": STRING}}}}
    operation = {"parameters": [{"$ref": "#/components/parameters/Limit"}],
                 "requestBody": {"$ref": "#/components/requestBodies/Pet"}}
    received = called("post", "/pets", operation, {"limit": 3, "name": "Rex"}, components=components)
    assert (received.query, received.json) == ("limit=3", {"name": "Rex"})


def test_all_of_is_spread(called):
    components = {"schemas": {"Pet": {"type": "object", "properties": {"name": STRING}, "required": ["name"]}}}
    schema = {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "object", "properties": {"id": INTEGER}}]}
    assert called("post", "/pets", body(schema), {"name": "Rex", "id": 1}, components=components).json == {
        "name": "Rex", "id": 1}


def test_members_that_are_read_only_are_no_arguments(connected):
    schema = {"type": "object", "required": ["id", "name"], "properties": {"id": {**INTEGER, "readOnly": True}, "name": STRING}}
    (tool,) = connected(document({"/pets": {"post": body(schema)}})).list_tools()
    assert tool.input_schema["properties"] == {"name": {"type": "string"}} and tool.input_schema["required"] == ["name"]


def test_parameters_of_the_path_item_hold_for_its_operations(connected, api):
    item = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": STRING}, query("deep")["parameters"][0]],
            "get": {"operationId": "read", "parameters": [{"name": "deep", "in": "query", "schema": INTEGER}]}}
    connected(document({"/x/{id}": item})).call_tool("read", {"id": "a", "deep": 2})
    assert api.last.target == "/x/a?deep=2"


def test_the_base_url_keeps_its_path(called, api):
    """It was lost, since the path of an operation begins with a slash."""
    received = called("get", "/pets", {}, {}, options={"base_url": api.url + "/api/v3/"})
    assert received.path == "/api/v3/pets"


def test_headers_and_cookies(called):
    operation = {"parameters": [{"name": "X-Trace", "in": "header", "schema": STRING},
                                {"name": "X-Ids", "in": "header", "schema": LIST},
                                {"name": "session", "in": "cookie", "schema": STRING}]}
    received = called("get", "/x", operation, {"X-Trace": "abc", "X-Ids": ["1", "2"], "session": "s;1"})
    assert (received.headers["x-trace"], received.headers["x-ids"]) == ("abc", "1,2")
    assert received.headers["cookie"] == "session=s%3B1"


def test_a_form(called):
    schema = {"type": "object", "properties": {"a": STRING, "list": LIST, "deep": {"type": "object"}}}
    media = {"encoding": {"deep": {"style": "deepObject", "explode": True}}}
    received = called("post", "/x", body(schema, "application/x-www-form-urlencoded", **media),
                      {"a": "b&c", "list": ["1", "2"], "deep": {"x": [1]}})
    assert received.body == b"a=b%26c&list=1&list=2&deep%5Bx%5D%5B0%5D=1"
    assert received.headers["content-type"] == "application/x-www-form-urlencoded"


def test_an_optional_body_that_is_not_given_is_not_sent(called):
    received = called("post", "/x", body(OBJECT, required=False), {})
    assert received.body == b"" and "content-type" not in received.headers


def test_a_required_body_without_members_is_an_empty_object(called):
    assert called("post", "/x", body(OBJECT), {}).json == {}


@pytest.mark.parametrize("content", ["application/json;charset=utf-8", "application/vnd.api+json", "text/json"])
def test_media_types_that_are_json_too(called, content):
    received = called("post", "/x", body(OBJECT, content), {"id": "1"})
    assert received.json == {"id": "1"} and received.headers["content-type"] == content


@pytest.mark.parametrize("ids", [
    ["users/list", "users.list", "users list"],
    ["a" * 90 + "b", "a" * 90 + "c"],
    ["same", "same"],
    ["list_users_api_v1_users__get", None],
])
def test_names_are_those_that_models_take_and_each_is_there(ids):
    """Characters that models' APIs refuse, long names, and two operations of one name, of which one was lost."""
    paths = {f"/p{at}": {"get": {} if one is None else {"operationId": one}} for at, one in enumerate(ids)}
    names = list(OpenAPIProvider(document(paths), base_url="http://x").entries()["tools"])
    assert len(names) == len(ids)
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names)


def test_a_document_without_ids_gets_names_of_method_and_path(connected):
    client = connected(document({"/pets/{petId}": {"get": {}, "delete": {}}, "/pets": {"get": {}}}))
    assert [tool.name for tool in client.list_tools()] == ["get_pets_by_petId", "delete_pets_by_petId", "get_pets"]


# --- responses ------------------------------------------------------------------------------------------------


def answers(schema, **more):
    return {"operationId": "get", "responses": {"200": {"description": "", "content": {"application/json": {
        "schema": schema}}}}, **more}


RESPONSES = {"type": "object", "required": ["id", "name"], "additionalProperties": False,
             "properties": {"id": INTEGER, "name": STRING, "kind": {"type": "string", "enum": ["a"]}}}


@pytest.mark.parametrize("answer", [
    {"id": 1, "name": None},                        # null where the document has a text
    {"id": 1},                                      # a required member is missing
    {"id": 1, "name": "x", "more": True},           # a member that the document does not know
    {"id": 1, "name": "x", "kind": "new"},          # a value that has been added since
])
def test_a_response_that_most_clients_would_refuse_is_delivered(connected, api, answer):
    """An output schema that is as strict as the document made calls fail that had succeeded."""
    api.answer = lambda request: answer
    result = connected(document({"/x": {"get": answers(RESPONSES)}})).call_tool("get")
    assert not result.is_error and result.structured_content == answer


def test_a_strict_output_schema_refuses_it_and_shows_the_response(connected, api):
    api.answer = lambda request: {"id": 1, "name": None}
    result = connected(document({"/x": {"get": answers(RESPONSES)}}), output_schemas="strict").call_tool("get")
    assert result.is_error and "does not allow" in result.text and '"name": null' in result.content[1].text


def test_a_response_of_another_kind_is_an_error_with_the_response(connected, api):
    api.answer = lambda request: [1, 2]
    result = connected(document({"/x": {"get": answers(RESPONSES)}})).call_tool("get")
    assert result.is_error and result.content[1].text == "[1, 2]"


@pytest.mark.parametrize("schema, answer, structured", [
    (LIST, ["a"], {"result": ["a"]}), (STRING, "text", {"result": "text"}), (INTEGER, 5, {"result": 5}),
    ({"anyOf": [OBJECT, LIST]}, ["a"], {"result": ["a"]}), (OBJECT, {"id": "1"}, {"id": "1"}),
    ({"allOf": [OBJECT]}, {"id": "1"}, {"id": "1"}),
    ({"$ref": "#/components/schemas/Node"}, {"text": "a", "comments": []}, {"text": "a", "comments": []}),
])
def test_structured_content_is_an_object_as_its_schema_says(connected, api, schema, answer, structured):
    api.answer = lambda request: answer
    client = connected(document({"/x": {"get": answers(schema)}}, components={"schemas": {"Node": NODE}}))
    (tool,) = client.list_tools()
    result = client.call_tool("get")
    assert tool.output_schema["type"] == "object" and result.structured_content == structured


def test_a_response_without_a_body(connected, api):
    api.answer = lambda request: (204, {}, b"")
    operation = {"operationId": "drop", "responses": {"204": {"description": "gone"}}}
    result = connected(document({"/x": {"delete": operation}})).call_tool("drop")
    assert not result.is_error and result.text == "204 No Content"


def test_an_error_has_status_and_body(connected, api):
    """The text was only that of the HTTP library, and the model could not see what was wrong."""
    api.answer = lambda request: (422, {"Content-Type": "application/json"}, b'{"detail": "name is too long"}')
    result = connected(document({"/x": {"get": answers(OBJECT)}})).call_tool("get")
    assert result.is_error and result.text == '422 Unprocessable Entity: {"detail": "name is too long"}'.replace(
        "Unprocessable Entity", result.text[4:result.text.index(":")])


def test_the_problem_of_an_argument_names_it(connected, api):
    client = connected(document({"/x": {"get": {"operationId": "get", **query("limit", INTEGER, required=True)}}}))
    assert "limit" in client.call_tool("get", {"limit": "many"}).text
    assert "limit" in client.call_tool("get", {}).text and api.requests == []


def test_a_header_of_the_caller_travels_on(api):
    """Headers of a server were the same for all users."""
    from mcplite.openapi import from_openapi

    mcp = from_openapi(document({"/x": {"get": {"operationId": "get"}}}), base_url=api.url,
                       headers=lambda ctx: {"X-Tenant": ctx.http.headers["x-tenant"]})
    with mcplite.serve(mcp) as served:
        for tenant in ("acme", "umbrella"):
            with mcplite.connect(served.url, headers={"X-Tenant": tenant}) as client:
                client.call_tool("get")
                assert api.last.headers["x-tenant"] == tenant


def test_a_large_list_of_enumerations_that_repeat_themselves(connected):
    (tool,) = connected(document({"/x": {"get": query("kind", {"type": "string", "enum": ["a", "b", "a"]})}})).list_tools()
    assert tool.input_schema["properties"]["kind"]["enum"] == ["a", "b"]


def test_a_list_without_items_gets_some(connected):
    schema = {"type": "object", "properties": {"text": {"anyOf": [STRING, {"type": "array"}]}}}
    (tool,) = connected(document({"/x": {"post": body(schema)}})).list_tools()
    assert tool.input_schema["properties"]["text"]["anyOf"][1] == {"type": "array", "items": {}}
