"""Each request is held against its document by another library, with arguments that a program makes up."""

import dataclasses
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

pytest.importorskip("openapi_core")

from hypothesis import HealthCheck, given, settings, strategies  # noqa: E402
from openapi_core import OpenAPI  # noqa: E402
from openapi_core.testing import MockRequest  # noqa: E402

from mcplite.openapi.document import Document  # noqa: E402
from mcplite.openapi.operations import operations_of  # noqa: E402
from mcplite.openapi.request_building import build_request  # noqa: E402

from .conftest import document  # noqa: E402

pytestmark = pytest.mark.one_python

TEXTS = strategies.text("abc \u00e9&=+%,;", min_size=1, max_size=6)
LIST = {"type": "array", "items": {"type": "integer"}}


def parameter(name, place, schema, **more):
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **more}


PATHS = {"/shops/{shop}/pets": {
    "parameters": [parameter("shop", "path", {"type": "string"})],
    "post": {"operationId": "addPet", "responses": {"200": {"description": "fine"}}, "parameters": [
        parameter("limit", "query", {"type": "integer", "minimum": 1}), parameter("ids", "query", LIST),
        parameter("few", "query", LIST, style="form", explode=False), parameter("deep", "query", {"type": "boolean"}),
        parameter("X-Trace", "header", {"type": "string"})],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {
            "type": "object", "required": ["name"], "additionalProperties": False,
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": LIST}}}}}}}}
SPEC = document(PATHS, servers=[{"url": "https://api.example"}])
ARGUMENTS = strategies.fixed_dictionaries(
    {"shop": TEXTS, "name": TEXTS},
    optional={"limit": strategies.integers(1, 9), "ids": strategies.lists(strategies.integers(), min_size=1, max_size=3),
              "few": strategies.lists(strategies.integers(), min_size=1, max_size=3), "deep": strategies.booleans(),
              "X-Trace": strategies.text("abc", min_size=1), "age": strategies.integers(),
              "tags": strategies.lists(strategies.integers(), max_size=3)})


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(ARGUMENTS)
def test_requests_are_what_the_document_says(arguments):
    (operation,) = operations_of(Document(SPEC), None)
    request = build_request(operation, arguments)
    parts = urlsplit(request.target)
    seen = OpenAPI.from_dict(SPEC).unmarshal_request(MockRequest(
        "https://api.example", request.method.lower(), parts.path, path_pattern=operation.path,
        args=_grouped(parse_qsl(parts.query, keep_blank_values=True)), headers=request.headers, data=request.body,
        content_type=request.headers["Content-Type"]))
    found = {**seen.parameters.query, **seen.parameters.header}
    for name in ("limit", "ids", "few", "deep", "X-Trace"):
        assert found.get(name) == arguments.get(name)
    body = dataclasses.asdict(seen.body) if dataclasses.is_dataclass(seen.body) else dict(seen.body)
    assert {name: value for name, value in body.items() if value is not None} == {
        name: value for name, value in arguments.items() if name in ("name", "age", "tags")}
    assert unquote(parts.path) == f"/shops/{arguments['shop']}/pets"


def _grouped(pairs):
    from werkzeug.datastructures import ImmutableMultiDict

    return ImmutableMultiDict(pairs)
