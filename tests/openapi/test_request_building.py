"""Requests: a value stays where it belongs, and bodies other than JSON. Styles are in ``test_provider_reports.py``."""

import base64
import email
import email.policy

import pytest
from hypothesis import given, settings, strategies

from mcplite.errors import ToolError
from mcplite.openapi.document import Document
from mcplite.openapi.operations import operations_of
from mcplite.openapi.request_building import build_request
from mcplite.protocol.uris import normal_uri

from .conftest import document


def operation(node, path="/a", method="post", version="3.0.3"):
    return operations_of(Document(document({path: {method: node}}, version)), None)[0]


IN_PATH = operation({"parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
                                    {"name": "at", "in": "path", "required": True, "schema": {}}]}, "/users/{id}/x{at}")


@pytest.mark.parametrize("value", ["..", ".", "../admin", "a/../b", "..\\admin", "%2e%2e", "%2E%2E%2fadmin", "%252e%252e/x", "",
                                   "a/..", "..?x", "x\0", "%00"])
@pytest.mark.parametrize("decoded", [False, True])
def test_a_value_that_leads_to_another_path_is_refused(value, decoded):
    with pytest.raises(ToolError, match="part of the path"):
        build_request(IN_PATH, {"id": value, "at": "1"}, decoded)


def test_a_value_with_a_slash_is_refused_where_the_path_is_decoded():
    assert build_request(IN_PATH, {"id": "group/project", "at": 1}).target == "/users/group%2Fproject/x1"
    with pytest.raises(ToolError, match="one segment"):
        build_request(IN_PATH, {"id": "group/project", "at": 1}, True)


def test_a_value_that_makes_a_step_with_the_text_around_it_is_refused():
    node = {"parameters": [{"name": "a", "in": "path", "required": True, "schema": {}}]}
    with pytest.raises(ToolError, match="another path"):
        build_request(operation(node, "/x/.{a}"), {"a": []})


@settings(max_examples=300, deadline=None)
@given(strategies.text(min_size=1, max_size=20))
def test_no_value_leaves_its_segment(value):
    try:
        target = build_request(IN_PATH, {"id": value, "at": "1"}).target
    except ToolError:
        return
    # What a proxy makes of it, which resolves dots and decodes what needs no escape.
    parts = normal_uri("http://a" + target)[len("http://a"):].split("/")
    assert len(parts) == 4 and parts[1] == "users" and parts[3] == "x1" and "?" not in target and "#" not in target


@settings(max_examples=200, deadline=None)
@given(strategies.text(max_size=20), strategies.text(max_size=20))
def test_no_value_of_the_query_becomes_another_parameter(one, other):
    node = {"parameters": [{"name": name, "in": "query", "schema": {}} for name in ("one", "other")]}
    pairs = build_request(operation(node), {"one": one, "other": other}).query
    assert len(pairs) == 2 and all("&" not in pair and "#" not in pair and pair.count("=") == 1 for pair in pairs)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "\u20ac"])
def test_a_value_that_cannot_stand_in_a_header_is_refused(value):
    node = {"parameters": [{"name": "X-Trace", "in": "header", "schema": {}}]}
    with pytest.raises(ToolError, match="X-Trace has characters"):
        build_request(operation(node), {"X-Trace": value})


def with_body(media_type, schema):
    return operation({"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}})


FILE = {"type": "string", "format": "binary"}


def parts_of(request):
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode("ascii")
    message = email.message_from_bytes(head + request.body, policy=email.policy.HTTP)
    return [(part.get_param("name", header="content-disposition"), part.get_filename(), part.get_content_type(),
             part.get_payload(decode=True)) for part in message.iter_parts()]


def test_files():
    made = with_body("multipart/form-data", {"type": "object", "properties": {
        "file": FILE, "more": {"type": "array", "items": FILE}, "note": {"type": "string"}, "data": {"type": "object"}}})
    data = base64.b64encode(b"\x00\xff").decode("ascii")
    request = build_request(made, {"file": {"base64": data, "filename": 'a"b.bin', "type": "application/x-own"},
                                   "more": ["text", {"text": "x", "filename": "x.txt"}], "note": "n\u00e9", "data": {"a": 1}})
    assert parts_of(request) == [
        ("file", "a%22b.bin", "application/x-own", b"\x00\xff"), ("more", "more", "text/plain", b"text"),
        ("more", "x.txt", "text/plain", b"x"), ("note", None, "text/plain", "n\u00e9".encode("utf-8")),
        ("data", None, "application/json", b'{"a":1}')]


@pytest.mark.parametrize("value, words", [({"base64": "no base64!"}, "base64 cannot be read"),
                                          ({"text": "x", "type": "a\r\nb"}, "no media type")])
def test_files_that_cannot_be_sent(value, words):
    with pytest.raises(ToolError, match=words):
        build_request(with_body("multipart/form-data", {"type": "object", "properties": {"file": FILE}}), {"file": value})


@pytest.mark.parametrize("media_type, schema, value, sent", [
    ("application/octet-stream", FILE, {"base64": "AP8="}, b"\x00\xff"),
    ("application/octet-stream", FILE, "text", b"text"),
    ("text/plain", {"type": "string"}, "n\u00e9", "n\u00e9".encode("utf-8")),
    ("application/xml", {"type": "string"}, "<a/>", b"<a/>"),
    ("image/png", {}, {"base64": "AP8="}, b"\x00\xff"),
    ("application/x-www-form-urlencoded", {"type": "object"}, {"a": "b c", "d": [1, 2]}, b"a=b%20c&d=1&d=2"),
])
def test_other_bodies(media_type, schema, value, sent):
    request = build_request(with_body(media_type, schema), {"body": value})
    assert request.body == sent and request.headers["Content-Type"] == media_type
