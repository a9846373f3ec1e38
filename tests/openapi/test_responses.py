"""Results: media and files as content, and which output schemas are listed. Others are in ``test_provider_reports.py``."""

import base64

import pytest

from mcplite import types
from mcplite.openapi.document import Document
from mcplite.openapi.operations import operations_of
from mcplite.openapi.responses import APIResponse, accepted, output_of

from .conftest import document


def operation(responses, version="3.0.3", **more):
    return operations_of(Document(document({"/x": {"get": {"responses": responses, **more}}}, version)), None)[0]


def responding(**content):
    media = {kind.replace("_", "/"): {"schema": schema} for kind, schema in content.items()}
    return {"200": {"description": "", "content": media}}


def result(data, content_type, how="lenient", responses=None, status=200, **headers):
    fields = {"content-type": content_type, **headers} if content_type else headers
    return output_of(operation(responses or {}), how).result(APIResponse(status, fields, data, "http://a/x"))


@pytest.mark.parametrize("kind, cls", [("image/png", types.ImageContent), ("audio/wav", types.AudioContent)])
def test_media(kind, cls):
    (block,) = result(b"\x00\xff", kind + "; q=1").content
    assert isinstance(block, cls) and base64.b64decode(block.data) == b"\x00\xff" and block.mime_type == kind


@pytest.mark.parametrize("kind", ["application/pdf", "application/octet-stream", ""])
def test_files(kind):
    (block,) = result(b"\x00\xff", kind).content
    assert base64.b64decode(block.resource.blob) == b"\x00\xff" and block.resource.uri == "http://a/x"


@pytest.mark.parametrize("kind", ["text/html", "application/xml", "application/atom+xml", "application/yaml", ""])
def test_texts(kind):
    assert result(b"<a/>", kind).text == "<a/>"


def test_the_charset_of_a_text():
    assert result("n\u00e9".encode("latin-1"), "text/plain; charset=ISO-8859-1").text == "n\u00e9"
    for charset in ("no-such", "idna", "undefined"):
        assert result("n\u00e9".encode("utf-8"), f"text/plain; charset={charset}").text == "n\u00e9"


def test_json_without_a_schema_is_structured_if_it_is_an_object():
    assert result(b'{"a": 1}', "application/json").structured_content == {"a": 1}
    assert result(b"[1]", "application/json").structured_content is None
    assert result(b'{"a": 12345678901234567890}', "application/problem+json").structured_content == {"a": 12345678901234567890}


@pytest.mark.parametrize("data", [b"{broken", b"[NaN]", b'{"a": Infinity}', b'{"a": 1e999}', b"[" * 100_000])
def test_json_that_is_none_is_a_text(data):
    made = result(data, "application/json")
    assert made.structured_content is None and made.text == data.decode("ascii")


def test_a_redirect_that_is_not_followed_says_where_to():
    assert result(b"", "", status=302, location="https://b.example/file").text == "302 Found: https://b.example/file"


OBJECT = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}


@pytest.mark.parametrize("responses, how, listed", [
    (responding(application_json=OBJECT), "lenient", {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}),
    (responding(application_json=OBJECT), "strict", OBJECT),
    (responding(application_json=OBJECT), "none", None),
    (responding(text_plain={"type": "string"}), "lenient", None),
    (responding(application_json=OBJECT, text_csv={}), "lenient", None),
    ({"default": responding(application_json=OBJECT)["200"]}, "strict", OBJECT),
    ({"2XX": responding(application_json=OBJECT)["200"], "404": {}}, "strict", OBJECT),
    ({"404": responding(application_json=OBJECT)["200"]}, "strict", None),
    ({"200": responding(application_json=OBJECT)["200"], "204": {}}, "strict", None),
    ({"200": {"description": ""}}, "lenient", None),
    ({}, "lenient", None),
    (responding(application_json={}), "lenient", None),
])
def test_the_output_schema(responses, how, listed):
    assert output_of(operation(responses), how).schema == listed


def test_two_responses_with_schemas():
    responses = {"200": responding(application_json=OBJECT)["200"],
                 "202": responding(application_json={"type": "object", "properties": {"task": {"type": "string"}}})["200"]}
    schema = output_of(operation(responses), "strict").schema
    assert schema["type"] == "object" and len(schema["anyOf"]) == 2


def test_a_response_that_is_empty_fits_a_lenient_schema():
    made = result(b"", "", responses=responding(application_json=OBJECT), status=204)
    assert made.structured_content == {} and made.text == "204 No Content"
    listed = result(b"", "", responses=responding(application_json={"type": "array", "items": {}}), status=204)
    assert listed.structured_content == {"result": None}


def test_members_that_are_write_only_are_not_listed():
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "password": {"type": "string", "writeOnly": True}}}
    assert list(output_of(operation(responding(application_json=schema)), "strict").schema["properties"]) == ["name"]


def test_responses_of_swagger():
    made = operation({"200": {"description": "", "schema": OBJECT}}, "2.0", produces=["application/json"])
    assert output_of(made, "strict").schema == OBJECT and accepted(made) == "application/json, */*;q=0.1"
    assert output_of(operation({"200": {"schema": {"type": "file"}}}, "2.0"), "strict").schema is None
    assert output_of(operation({"200": {"schema": OBJECT}}, "2.0", produces=["text/csv"]), "strict").schema is None


def test_what_is_asked_for():
    assert accepted(operation(responding(text_csv={}, application_json={}))) == "application/json, text/csv, */*;q=0.1"
    assert accepted(operation({})) == "application/json, */*;q=0.5"
