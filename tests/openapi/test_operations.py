"""Which operations there are, what they are called, and what they take."""

import pytest

from mcplite.errors import RegistrationError
from mcplite.openapi.document import Document
from mcplite.openapi.operations import operations_of

from .conftest import document

PATHS = {
    "/pets": {"get": {"operationId": "listPets", "tags": ["pets", "read"]},
              "post": {"operationId": "addPet", "tags": ["pets"]}},
    "/pets/{id}": {"get": {"operationId": "getPet", "tags": ["pets", "read"]}},
    "/store": {"get": {"operationId": "store", "tags": ["store"]}, "head": {}, "options": {}, "trace": {}},
    "x-extension": {"get": {}},
}


def names(include=None, paths=None, **more):
    made = Document(document(PATHS if paths is None else paths, **more))
    return [operation.name for operation in operations_of(made, include)]


@pytest.mark.parametrize("include, found", [
    (None, ["listPets", "addPet", "getPet", "store"]),
    ("tag:read", ["listPets", "getPet"]),
    ("tag:s*", ["store"]),
    ("/pets*", ["listPets", "addPet", "getPet"]),
    ("/pets/{id}", ["getPet"]),
    ("GET /pets*", ["listPets", "getPet"]),
    ("get /store", ["store"]),
    ("* /pets", ["listPets", "addPet"]),
    (["addPet", "tag:store"], ["addPet", "store"]),
    ("*Pet", ["addPet", "getPet"]),
    (lambda operation: operation.method == "POST", ["addPet"]),
    ("nothing", []),
])
def test_which_are_included(include, found):
    assert names(include) == found


@pytest.mark.parametrize("include", [[1], [""], [None], 5])
def test_what_is_no_pattern(include):
    with pytest.raises(RegistrationError, match="include="):
        names(include)


def test_x_mcp_renames_hides_and_describes():
    paths = {"/a": {"get": {"operationId": "a", "x-mcp": {"name": "first", "title": "The first", "description": "Reads it",
                                                         "annotations": {"openWorldHint": False}}}},
             "/b": {"get": {"operationId": "b", "x-mcp": False}, "put": {"x-mcp": {"hidden": True}}},
             "/c": {"x-mcp": {"hidden": True}, "get": {}, "put": {"operationId": "c", "x-mcp": {"hidden": False}}}}
    first, last = operations_of(Document(document(paths)), None)
    assert (first.name, first.title, first.description) == ("first", "The first", "Reads it")
    assert first.annotations == {"readOnlyHint": True, "openWorldHint": False} and last.name == "c"


@pytest.mark.parametrize("node, text", [
    ({"summary": "Short", "description": "Long."}, "Short\n\nLong."),
    ({"summary": "A", "description": "A long one"}, "A long one"),
    ({"description": " Long. "}, "Long."), ({}, "GET /a"), ({"summary": "Old", "deprecated": True}, "Deprecated. Old")])
def test_the_description(node, text):
    assert operations_of(Document(document({"/a": {"get": node}})), None)[0].description == text


@pytest.mark.parametrize("method, hints", [
    ("get", {"readOnlyHint": True}), ("post", {}), ("patch", {}), ("put", {"idempotentHint": True, "destructiveHint": True}),
    ("delete", {"idempotentHint": True, "destructiveHint": True})])
def test_hints_follow_from_the_method(method, hints):
    assert operations_of(Document(document({"/a": {method: {}}})), None)[0].annotations == hints


def shape(operation, path="/a", method="post", version="3.0.3", **more):
    return operations_of(Document(document({path: {method: operation}}, version, **more)), None)[0].shape


def test_parameters_that_belong_to_other_parts_are_no_arguments():
    headers = ["Accept", "Content-Type", "Authorization", "Host", "Cookie", "Content-Length", "Connection", "X-Own"]
    parameters = [{"name": name, "in": "header", "schema": {}} for name in headers]
    parameters += [{"name": "gone", "in": "path", "schema": {}}, {"name": "odd", "in": "elsewhere"}, {"in": "query"}, 5]
    assert [one.name for one in shape({"parameters": parameters}).arguments] == ["X-Own"]


def test_x_mcp_of_a_parameter():
    parameters = [{"name": "q", "in": "query", "schema": {"type": "string"}, "x-mcp": {"name": "words", "description": "What"}},
                  {"name": "key", "in": "query", "required": True, "schema": {}, "x-mcp": {"hidden": True, "value": "v1"}}]
    assert shape({"parameters": parameters}).input_schema == {
        "type": "object", "properties": {"words": {"type": "string", "description": "What"}}, "additionalProperties": False}


def test_json_comes_before_other_media_types():
    content = {kind: {"schema": {"type": "object", "properties": {"a": {}}}} for kind in (
        "application/xml", "application/x-www-form-urlencoded", "application/json")}
    assert shape({"requestBody": {"content": content}}).body.media_type == "application/json"


def test_members_that_the_schema_does_not_name():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    made = shape({"requestBody": {"content": {"application/json": {"schema": schema}}}})
    assert made.body.open and made.input_schema["additionalProperties"] is True


# --- Swagger 2 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how, style, explode", [
    ("csv", "form", False), (None, "form", False), ("multi", "form", True), ("ssv", "spaceDelimited", False),
    ("pipes", "pipeDelimited", False)])
def test_lists_of_swagger(how, style, explode):
    parameter = {"name": "q", "in": "query", "type": "array", "items": {"type": "string"}}
    (argument,) = shape({"parameters": [{**parameter, **({} if how is None else {"collectionFormat": how})}]},
                        version="2.0").arguments
    assert (argument.style, argument.explode) == (style, explode)


def test_a_body_of_swagger():
    parameter = {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    name = {"type": "string", "x-nullable": True}
    definitions = {"Pet": {"type": "object", "required": ["name"], "properties": {"name": name}}}
    made = shape({"parameters": [parameter]}, version="2.0", definitions=definitions)
    assert made.input_schema["properties"] == {"name": {"type": ["string", "null"]}}
    assert made.input_schema["required"] == ["name"]


def test_a_form_of_swagger():
    parameters = [{"name": "file", "in": "formData", "type": "file", "required": True},
                  {"name": "note", "in": "formData", "type": "string"}]
    made = shape({"parameters": parameters, "consumes": ["multipart/form-data"]}, version="2.0")
    assert made.body.media_type == "multipart/form-data"
    assert [argument.is_file for argument in made.arguments] == [True, False] and made.input_schema["required"] == ["file"]
