"""Documents of well-known APIs, as they are published: each becomes a server that clients and models' APIs take."""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import mcplite
from mcplite.llm import anthropic_tools, openai_tools
from mcplite.openapi import OpenAPIProvider, from_openapi
from mcplite.openapi.http_calls import is_same_origin
from mcplite.openapi.request_building import build_request
from tests.openapi.conftest import API

from .conftest import ROOT, Installed

pytestmark = [pytest.mark.interop, pytest.mark.one_python]

FOLDER = Installed.home / "documents"
DOCUMENTS = sorted(path for suffix in ("json", "yaml") for path in FOLDER.glob(f"*/**/*.{suffix}"))
#: Those of a directory that have what the others of it lack.
FEW = {"adyen.com", "amazonaws.com", "azure.com", "discourse.local.json", "openai.com.json", "slack.com.json",
       "stripe.com.json", "zoom.us.json"}


def parameters(documents):
    """Return documents as parameters of a test, by their names; most of those in a directory are further ones."""
    return [pytest.param(path, id=path.relative_to(FOLDER).as_posix(), marks=[pytest.mark.further] * (
        path.relative_to(FOLDER).parts[0] == "directory" and FEW.isdisjoint(path.parts))) for path in documents]
GITHUB = FOLDER / "github" / "api.github.com.json"
KUBERNETES = FOLDER / "kubernetes" / "specs" / "swagger-1.13.json"
#: Operations of one document whose schemas are held against the dialect, which takes long.
CHECKED = 4
META = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)


def example(schema, whole, depth=0):
    """Return a small value that a schema allows, as far as its types say."""
    if not isinstance(schema, dict) or depth > 12:
        return "x"
    if "$ref" in schema:
        return example(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, depth + 1)
    for word in ("default", "const"):
        if word in schema:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "allOf"):
        if word in schema and "type" not in schema:
            return example(schema[word][0], whole, depth + 1)
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        required = schema.get("required", ())
        return {name: example(part, whole, depth + 1) for name, part in schema.get("properties", {}).items()
                if name in required}
    return {"integer": max(1, int(schema.get("minimum", 1))), "number": 1.5, "boolean": True, "null": None,
            "array": [example(schema.get("items", {}), whole, depth + 1)] * max(1, schema.get("minItems", 1))
            if depth < 6 else []}.get(kind, "x")


@pytest.mark.parametrize("path", parameters(DOCUMENTS))
def test_a_document_that_is_published(path, caplog):
    with caplog.at_level(logging.ERROR):
        provider = OpenAPIProvider(path, base_url="https://api.example", output_schemas="strict")
        mcp = mcplite.Server("api")
        mcp.mount(provider)
        with mcplite.connect(mcp) as client:
            tools = client.list_tools()
        assert len(tools) == len(provider.operations) >= 1
    assert caplog.text == ""  # no tool is left out of the list
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) for tool in tools)
    for at in range(0, len(tools), len(tools) // CHECKED + 1):
        tool, operation = tools[at], provider.operations[at]
        for schema in filter(None, (tool.input_schema, tool.output_schema)):
            assert next(META.iter_errors(schema), None) is None and schema["type"] == "object"
        request = build_request(operation, example(tool.input_schema, tool.input_schema))
        assert "{" not in request.path and is_same_origin("https://api.example" + request.target, "https://api.example")


@pytest.mark.parametrize("name", ["directory/stripe.com.json", "directory/slack.com.json"])
def test_models_get_the_tools_of_a_document(name):
    if not (FOLDER / name).exists():
        pytest.skip("tests/interop/install.sh installs it")
    with mcplite.connect(from_openapi(FOLDER / name, base_url="https://api.example", include="GET /*",
                                      output_schemas="none")) as client:
        listed = client.list_tools()
        for declared in (anthropic_tools(client).tools, openai_tools(client).tools):
            assert len(declared) == len(listed)


#: Starts a server of a document, whose API is at a URL.
SERVER = "import sys; from mcplite.openapi import from_openapi; from_openapi(sys.argv[1], base_url=sys.argv[2]).run()"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sdk, path, name, arguments, line", [
    ("mcp1", GITHUB, "repos_get", {"owner": "ada", "repo": "mcplite"}, "GET /repos/ada/mcplite"),
    ("mcp2", KUBERNETES, "readCoreV1NamespacedPod", {"namespace": "shop", "name": "web-1", "pretty": "true"},
     "GET /api/v1/namespaces/shop/pods/web-1?pretty=true")], ids=["github", "kubernetes"])
def test_the_official_sdk_lists_and_calls_an_api_of_a_thousand_operations(sdk, path, name, arguments, line, installed):
    if not path.exists():
        pytest.skip("tests/interop/install.sh installs it")
    python = installed.python(sdk)
    api = API()
    api.answer = lambda request: {"id": 1, "name": "mcplite", "private": None, "owner": {"login": "ada"}}
    try:
        ran = subprocess.run(
            [python, str(Path(__file__).with_name("official_openapi.py")),
             json.dumps([sys.executable, "-c", SERVER, str(path), api.url]), "{}", json.dumps([(name, arguments)])],
            stdout=subprocess.PIPE, timeout=240, cwd=ROOT)
        seen = json.loads(ran.stdout)
    finally:
        api.close()
    print(f"{len(seen['tools'])} tools, {seen['bytes']:,} bytes, {seen['times'][0]:.1f} s and {seen['times'][1]:.1f} s")
    assert len(seen["tools"]) > 1000 and name in seen["tools"]
    (result,) = seen["results"]
    assert result["structuredContent"]["name"] == "mcplite" and not result["isError"]
    assert [f"{request.method} {request.target}" for request in api.requests] == [line]
