"""What a request looks like for each way in which a document can describe it, in ten ways each."""

import json

import pytest

from mcplite.openapi.document import Document
from mcplite.openapi.operations import operations_of
from mcplite.openapi.provider import OpenAPIProvider, server_of
from mcplite.openapi.request_building import build_request

from .conftest import document
from .test_request_building import parts_of

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
LIST, OBJECT = {"type": "array", "items": {}}, {"type": "object"}


def built(node, arguments, path="/a", method="post", version="3.0.3", item=(), **more):
    (operation,) = operations_of(Document(document({path: {method: node, **dict(item)}}, version, **more)), None)
    assert operation.shape.input_schema["type"] == "object"
    return build_request(operation, arguments)


def parameter(name, where, schema=TEXT, **more):
    return {"name": name, "in": where, "required": where == "path", "schema": schema, **more}


@pytest.mark.parametrize("value, pairs", [
    ({"a": 1}, ["q[a]=1"]), ({"a": 1, "b": "x y"}, ["q[a]=1", "q[b]=x%20y"]), ({"a": {"b": {"c": True}}}, ["q[a][b][c]=true"]),
    ({"a": [1, 2]}, ["q[a][0]=1", "q[a][1]=2"]), ({"a": [{"b": 1}]}, ["q[a][0][b]=1"]), ({"a": None, "b": 2}, ["q[b]=2"]),
    ({}, []), ({"a": {}}, []), ({"a b": "&="}, ["q[a%20b]=%26%3D"]), ({"a": "\u00e9"}, ["q[a]=%C3%A9"]),
    ({"a": 1.0}, ["q[a]=1"]), ({"$gt": "2024-01-01"}, ["q[%24gt]=2024-01-01"])])
@pytest.mark.parametrize("explode", [True, False, None])
def test_deep_objects(value, pairs, explode):
    more = {} if explode is None else {"explode": explode}
    request = built({"parameters": [parameter("q", "query", OBJECT, style="deepObject", **more)]}, {"q": value})
    assert request.query == [pair.replace("[", "%5B").replace("]", "%5D") for pair in pairs]


@pytest.mark.parametrize("style, explode, value, target", [
    ("form", True, [1, 2], "q=1&q=2"), ("form", False, [1, 2], "q=1,2"), ("form", True, {"a": 1, "b": 2}, "a=1&b=2"),
    ("form", False, {"a": 1, "b": 2}, "q=a,1,b,2"), ("spaceDelimited", False, [1, 2], "q=1%202"),
    ("spaceDelimited", False, {"a": 1, "b": 2}, "q=a%201%20b%202"), ("pipeDelimited", False, [1, 2], "q=1%7C2"),
    ("pipeDelimited", False, {"a": 1, "b": 2}, "q=a%7C1%7Cb%7C2"), ("spaceDelimited", True, [1, 2], "q=1&q=2"),
    ("pipeDelimited", True, ["x y", "z"], "q=x%20y&q=z"), ("form", False, ["a,b"], "q=a%2Cb"), ("form", True, "", "q="),
    ("form", True, [], ""), ("form", False, [], "")])
def test_styles_of_the_query(style, explode, value, target):
    made = built({"parameters": [parameter("q", "query", {}, style=style, explode=explode)]}, {"q": value})
    assert made.target == "/a" + ("?" + target if target else "")


@pytest.mark.parametrize("style, explode, value, segment", [
    ("simple", False, "x", "x"), ("simple", False, [1, 2], "1,2"), ("simple", True, [1, 2], "1,2"),
    ("simple", False, {"a": 1, "b": 2}, "a,1,b,2"), ("simple", True, {"a": 1, "b": 2}, "a=1,b=2"),
    ("label", False, "x", ".x"), ("label", True, [1, 2], ".1.2"), ("label", True, {"a": 1, "b": 2}, ".a=1.b=2"),
    ("matrix", False, "x", ";q=x"), ("matrix", False, [1, 2], ";q=1,2"), ("matrix", True, [1, 2], ";q=1;q=2"),
    ("matrix", False, {"a": 1, "b": 2}, ";q=a,1,b,2"), ("matrix", True, {"a": 1, "b": 2}, ";a=1;b=2")])
def test_styles_of_the_path(style, explode, value, segment):
    node = {"parameters": [parameter("q", "path", {}, style=style, explode=explode)]}
    assert built(node, {"q": value}, "/x/{q}/y").target == f"/x/{segment}/y"


@pytest.mark.parametrize("where, media_type, value, sent", [
    ("query", "application/json", {"a": [1]}, "q=%7B%22a%22%3A%5B1%5D%7D"), ("query", "application/json", "x", "q=%22x%22"),
    ("query", "application/json", [1, "b"], "q=%5B1%2C%22b%22%5D"), ("query", "application/vnd.own+json", True, "q=true"),
    ("query", "text/plain", "x y", "q=x%20y"), ("query", "application/json", {}, "q=%7B%7D"),
    ("header", "application/json", {"a": 1}, '{"a":1}'), ("header", "application/json", [1, 2], "[1,2]"),
    ("header", "text/plain", "x", "x"), ("cookie", "application/json", {"a": 1}, "q=%7B%22a%22%3A1%7D"),
    ("path", "application/json", {"a": 1}, "%7B%22a%22%3A1%7D")])
def test_parameters_with_content(where, media_type, value, sent):
    node = {"parameters": [{"name": "q", "in": where, "required": where == "path", "content": {media_type: {"schema": {}}}}]}
    made = built(node, {"q": value}, "/a/{q}" if where == "path" else "/a")
    assert {"query": "&".join(made.query), "header": made.headers.get("q"), "cookie": "".join(made.cookies),
            "path": made.path.rpartition("/")[2]}[where] == sent


@pytest.mark.parametrize("item, own, arguments, target, headers", [
    ([parameter("id", "path")], [], {"id": "7"}, "/x/7", {}),
    ([parameter("id", "path"), parameter("q", "query")], [], {"id": "7", "q": "a"}, "/x/7?q=a", {}),
    # The operation's own parameter stands for that of the path.
    ([parameter("id", "path"), parameter("q", "query", {"type": "string"})], [parameter("q", "query", INTEGER)],
     {"id": "7", "q": 5}, "/x/7?q=5", {}),
    ([parameter("id", "path", LIST)], [parameter("id", "path", LIST, explode=True, style="label")], {"id": [1, 2]}, "/x/.1.2",
     {}),
    # The same name in another place is another parameter.
    ([parameter("id", "path")], [parameter("id", "query")], {"path_id": "7", "query_id": "8"}, "/x/7?id=8", {}),
    ([parameter("id", "path"), parameter("X-Own", "header")], [], {"id": "7", "X-Own": "a"}, "/x/7", {"X-Own": "a"}),
    # Names of headers are the same in capital and small letters.
    ([parameter("id", "path"), parameter("X-Own", "header")], [parameter("x-own", "header", INTEGER)], {"id": "7", "x-own": 5},
     "/x/7", {"x-own": "5"}),
    ([{"$ref": "#/components/parameters/Id"}], [], {"id": "7"}, "/x/7", {}),
    ([{"$ref": "#/components/parameters/Id"}], [{"$ref": "#/components/parameters/Again"}], {"id": 7}, "/x/7", {}),
    ([parameter("id", "path"), parameter("", "query"), {"in": "query"}, {"$ref": "#/none"}], [], {"id": "7"}, "/x/7", {}),
    ([parameter("id", "path"), parameter("id", "path")], [], {"id": "7"}, "/x/7", {})])
def test_parameters_of_the_path_item(item, own, arguments, target, headers):
    components = {"parameters": {"Id": parameter("id", "path"), "Again": parameter("id", "path", INTEGER)}}
    made = built({"parameters": own}, arguments, "/x/{id}", item={"parameters": item}, components=components)
    assert made.target == target and made.headers == headers


@pytest.mark.parametrize("schema, encoding, value, sent", [
    ({"type": "array", "items": INTEGER}, None, [1, 2], b"q=1&q=2"),
    ({"type": "array", "items": INTEGER}, {"explode": False}, [1, 2], b"q=1,2"),
    ({"type": "array", "items": TEXT}, {"style": "spaceDelimited", "explode": False}, ["a", "b"], b"q=a%20b"),
    ({"type": "array", "items": TEXT}, {"style": "pipeDelimited", "explode": False}, ["a", "b"], b"q=a%7Cb"),
    ({"type": "array", "items": OBJECT}, None, [{"a": 1}], b"q=%7B%22a%22%3A1%7D"),
    ({"type": "array", "items": TEXT}, {"contentType": "application/json"}, ["a"], b"q=%5B%22a%22%5D"),
    (OBJECT, None, {"a": 1}, b"q=%7B%22a%22%3A1%7D"), (OBJECT, {"style": "deepObject"}, {"a": 1}, b"q%5Ba%5D=1"),
    (OBJECT, {"style": "form", "explode": True}, {"a": 1}, b"a=1"), (OBJECT, {"style": "form", "explode": False}, {"a": 1},
                                                                  b"q=a,1"),
    ({"type": "array", "items": TEXT}, None, [], b""), (TEXT, None, "a&b=c d", b"q=a%26b%3Dc%20d"),
    ({"type": "boolean"}, None, False, b"q=false"), ({"type": "string", "nullable": True}, None, None, b"")])
def test_forms(schema, encoding, value, sent):
    media = {"schema": {"type": "object", "properties": {"q": schema}}, "encoding": {} if encoding is None else {"q": encoding}}
    node = {"requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": media}}}
    assert built(node, {"q": value}).body == sent


@pytest.mark.parametrize("how, value, body", [
    ("csv", ["a", "b"], b"q=a,b"), (None, ["a", "b"], b"q=a,b"), ("ssv", ["a", "b"], b"q=a%20b"),
    ("tsv", ["a", "b"], b"q=a%09b"), ("pipes", ["a", "b"], b"q=a%7Cb"), ("multi", ["a", "b"], b"q=a&q=b")])
@pytest.mark.parametrize("place", ["query", "formData", "multipart"])
def test_lists_of_swagger(how, value, body, place):
    more = {} if how is None else {"collectionFormat": how}
    node = {"parameters": [{"name": "q", "in": "query" if place == "query" else "formData", "type": "array", "items": TEXT,
                            **more}], "consumes": ["multipart/form-data" if place == "multipart" else
                                                   "application/x-www-form-urlencoded"]}
    made = built(node, {"q": value}, version="2.0")
    if place == "query":
        assert made.target.encode() == b"/a?" + body
    elif place == "formData":
        assert made.body == body
    else:
        between = {"ssv": b" ", "tsv": b"\t", "pipes": b"|"}.get(how, b",")
        assert [part[3] for part in parts_of(made)] == ([b"a", b"b"] if how == "multi" else [between.join([b"a", b"b"])])


FILE = {"type": "string", "format": "binary"}
BYTES = {"base64": "AP8=", "filename": "a.bin"}


@pytest.mark.parametrize("schema, encoding, value, parts", [
    (FILE, None, BYTES, [("a.bin", "application/octet-stream", b"\0\xff")]),
    (FILE, {"contentType": "image/png"}, BYTES, [("a.bin", "image/png", b"\0\xff")]),
    # A list of media types, or a range: the caller says which it is.
    (FILE, {"contentType": "image/png, image/jpeg"}, {**BYTES, "type": "image/jpeg"}, [("a.bin", "image/jpeg", b"\0\xff")]),
    (FILE, {"contentType": "image/*"}, BYTES, [("a.bin", "application/octet-stream", b"\0\xff")]),
    (FILE, {"contentType": "text/csv"}, "a,b", [("q", "text/csv", b"a,b")]),
    (TEXT, {"contentType": "image/png"}, BYTES, [("a.bin", "image/png", b"\0\xff")]),
    (TEXT, {"contentType": "text/csv"}, "a,b", [(None, "text/csv", b"a,b")]),
    (OBJECT, {"contentType": "application/vnd.own+json"}, {"a": 1}, [(None, "application/vnd.own+json", b'{"a":1}')]),
    (OBJECT, None, {"a": 1}, [(None, "application/json", b'{"a":1}')]),
    (TEXT, {"contentType": "application/json"}, "a", [(None, "application/json", b'"a"')]),
    ({"type": "array", "items": FILE}, None, [BYTES, "x"], [("a.bin", "application/octet-stream", b"\0\xff"),
                                                            ("q", "text/plain", b"x")]),
    ({"type": "array", "items": OBJECT}, None, [{"a": 1}, {"b": 2}], [(None, "application/json", b'{"a":1}'),
                                                                     (None, "application/json", b'{"b":2}')]),
    ({"type": "array", "items": TEXT}, None, ["a", "b"], [(None, "text/plain", b"a"), (None, "text/plain", b"b")]),
    ({"type": "array", "items": TEXT}, {"style": "form", "explode": False}, ["a", "b"], [(None, "text/plain", b"a,b")]),
    # A file that may be left out, as frameworks describe it.
    ({"anyOf": [FILE, {"type": "null"}]}, None, BYTES, [("a.bin", "application/octet-stream", b"\0\xff")]),
    ({"anyOf": [{"type": "array", "items": FILE}, {"type": "null"}]}, None, [BYTES], [("a.bin", "application/octet-stream",
                                                                                       b"\0\xff")]),
    ({"type": ["string", "null"], "format": "binary"}, None, "x", [("q", "text/plain", b"x")]),
    ({"type": ["array", "null"], "items": FILE}, None, ["x"], [("q", "text/plain", b"x")]),
    ({"allOf": [FILE]}, None, "x", [("q", "text/plain", b"x")]),
    ({"type": "string", "contentMediaType": "application/octet-stream"}, None, BYTES,
     [("a.bin", "application/octet-stream", b"\0\xff")]),
    ({"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"}, None, "AP8=",
     [(None, "text/plain", b"AP8=")]),
    ({"type": "string", "contentMediaType": "application/xml"}, None, "<a/>", [(None, "text/plain", b"<a/>")]),
    ({"type": "string", "format": "byte"}, None, "AP8=", [(None, "text/plain", b"AP8=")]),
    ({"$ref": "#/components/schemas/File"}, None, "x", [("q", "text/plain", b"x")])])
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_multipart(schema, encoding, value, parts, version):
    media = {"schema": {"type": "object", "properties": {"q": schema}}, "encoding": {} if encoding is None else {"q": encoding}}
    node = {"requestBody": {"required": True, "content": {"multipart/form-data": media}}}
    made = built(node, {"q": value}, version=version, components={"schemas": {"File": FILE}})
    assert parts_of(made) == [("q", *part) for part in parts]


@pytest.mark.parametrize("body, value, media_type, sent", [
    ({"image/png": {"schema": FILE}}, BYTES, "image/png", b"\0\xff"), ({"application/octet-stream": {}}, "x",
                                                                      "application/octet-stream", b"x"),
    ({"application/pdf": {"schema": {}}}, {"base64": "AP8="}, "application/pdf", b"\0\xff"),
    ({"text/csv": {"schema": TEXT}}, "a,b", "text/csv", b"a,b"), ({"application/xml": {"schema": TEXT}}, "<a/>",
                                                                "application/xml", b"<a/>"),
    ({"*/*": {"schema": {"type": "array"}}}, [1], "application/json", b"[1]"),
    ({"application/json": {"schema": FILE}}, "x", "application/json", b'"x"'),
    ({"image/png": {"schema": FILE}, "application/json": {"schema": TEXT}}, "x", "application/json", b'"x"'),
    ({"application/json; charset=utf-8": {"schema": TEXT}}, "\u00e9", "application/json; charset=utf-8", '"\u00e9"'.encode()),
    ({"application/x-ndjson": {"schema": TEXT}}, "{}\n{}", "application/x-ndjson", b"{}\n{}")])
def test_bodies_of_other_kinds(body, value, media_type, sent):
    made = built({"requestBody": {"required": True, "content": body}}, {"body": value})
    assert (made.headers["Content-Type"], made.body) == (media_type, sent)


@pytest.mark.parametrize("required, given, sent", [
    # A required member that the schema does not describe is an argument of any kind.
    (["name", "grant"], {"name": "a", "grant": "b"}, {"name": "a", "grant": "b"}),
    (["grant"], {"grant": {"a": 1}}, {"grant": {"a": 1}}), (["name"], {"name": "a"}, {"name": "a"}),
    ([], {}, {}), ([5, None], {}, {}), ("name", {}, {})])
def test_members_that_are_required(required, given, sent):
    schema = {"type": "object", "required": required, "properties": {"name": TEXT}}
    node = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    assert json.loads(built(node, given).body) == sent


def test_a_member_that_is_never_there_is_no_argument():
    """``additionalProperties: false`` among the properties, one level too deep."""
    schema = {"type": "object", "properties": {"name": TEXT, "additionalProperties": False}}
    node = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    (operation,) = operations_of(Document(document({"/a": {"post": node}}, "3.1.0")), None)
    assert list(operation.shape.input_schema["properties"]) == ["name"]


@pytest.mark.parametrize("server, url", [
    ({"url": "https://a.example/v1"}, "https://a.example/v1"), ({"url": "https://{host}/v1", "variables": {"host": {
        "default": "a.example"}}}, "https://a.example/v1"),
    ({"url": "{scheme}://a.example:{port}/{base}", "variables": {
        "scheme": {"default": "https", "enum": ["http", "https"]}, "port": {"default": "8443"}, "base": {"default": "v2"}}},
     "https://a.example:8443/v2"),
    ({"url": "https://a.example:{port}", "variables": {"port": {"default": 8443}}}, "https://a.example:8443"),
    ({"url": " https://a.example "}, "https://a.example"), ({"url": "//a.example/v1"}, "https://a.example/v1"),
    ({"url": "https://a.example/{base}", "variables": {"base": {"default": ""}}}, "https://a.example/"),
    ({"url": "/v1"}, "/v1"), ({}, ""), ({"url": "https://{host}/", "variables": {"host": None}}, "https://{host}/")])
def test_variables_of_a_server(server, url):
    assert server_of(Document(document({}, servers=[server, {"url": "https://other.example"}]))) == url


@pytest.mark.parametrize("more, url", [
    ({"host": "a.example"}, "https://a.example/"), ({"host": "a.example", "basePath": "/v1"}, "https://a.example/v1"),
    ({"host": "a.example", "schemes": ["http"]}, "http://a.example/"),
    ({"host": "a.example:8080", "schemes": ["http", "https"]}, "https://a.example:8080/"),
    ({"basePath": "/v1"}, "/v1"), ({}, "/")])
def test_the_server_of_swagger(more, url):
    assert server_of(Document(document({}, "2.0", **more))) == url


def test_a_server_whose_variable_has_no_default_needs_a_base_url():
    spec = document({"/a": {"get": {}}}, servers=[{"url": "{protocol}://a.example"}])
    assert OpenAPIProvider(spec, base_url="https://a.example").operations
    with pytest.raises(Exception, match="give base_url="):
        OpenAPIProvider(spec)
