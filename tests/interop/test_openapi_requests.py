"""Calls of well-known APIs, held against their documents by another program: Prism stands in for the API.

It answers each request from the document, and says of a request what the document does not allow. A sample of the operations of
each document is called twice: with what is required, and with all arguments.
"""

import contextlib
import json
import logging
import re

import jsonschema
import pytest
import requests

import mcplite
from mcplite.openapi import OpenAPIProvider
from mcplite.openapi.document import Document
from tests.support.processes import free_port

from .conftest import ServerProcess
from .test_openapi import DOCUMENTS, FOLDER, parameters

pytestmark = [pytest.mark.interop, pytest.mark.one_python, pytest.mark.timeout(400)]

#: Operations of one document.
CALLED = 8
#: Documents of more bytes take the stand-in minutes.
MOST_BYTES = 1_000_000
#: What the stand-in says of right requests, by document, and why it is wrong; None where it ends.
KNOWN = {
    # Its paths differ after "#" only.
    "directory/amazonaws.com/s3.json": None,
    # It takes several files of one name for one.
    "workflows/workflow_execution_service.swagger.yaml": {"type"},
}
FORMATS = {"date-time": "2024-01-02T03:04:05Z", "date": "2024-01-02", "uuid": "0b5a3f2e-8e2b-4c1e-9f57-0a5d8e2f8a11",
           "email": "ada@example.com", "uri": "https://example.com/a", "url": "https://example.com/a", "ipv4": "10.0.0.1",
           "byte": "AP8=", "hostname": "example.com", "ipv6": "::1", "uri-reference": "/a"}
TEXTS = ("x", "1", "a1", "abcdef", "2024-01-02", "https://example.com", "0b5a3f2e-8e2b-4c1e-9f57-0a5d8e2f8a11", "12345", "ABC",
         "+12025550123", "10.0.0.0/8", "#ffffff", "a/b", "1.2.3", "ada@example.com", "aaaaaaaaaaaaaaaaaaaa")


def text_for(schema):
    """Return a text that a schema allows, or any where none is known."""
    least, most, pattern = schema.get("minLength", 0), schema.get("maxLength", 1 << 20), schema.get("pattern", "")
    form = FORMATS.get(schema.get("format"))
    # As the identifiers of some APIs: two letters and digits.
    known = [pattern.lstrip("^")[:2] + "a" * 32, *TEXTS, "x" * least]
    return next((text for text in ([form] if form else []) + known if least <= len(text) <= most and re.search(pattern, text)),
                "x")


def example(schema, whole, everything, depth=0):
    """Return a value that a schema allows in most cases.

    :param everything: whether objects near the top have all members, and not only those that are required.
    """
    if not isinstance(schema, dict) or depth > 14:
        return "x"
    if "$ref" in schema:
        return example(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, everything, depth + 1)
    for word in ("default", "const"):
        if schema.get(word) is not None:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    parts = [*schema.get("allOf", ()), *schema.get("anyOf", ())[:1]]
    kind = schema.get("type", "object" if "properties" in schema or "required" in schema else None)
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or kind is None and parts:
        values = [example(part, whole, everything, depth + 1) for part in parts]
        if values and not all(isinstance(value, dict) for value in values):
            return values[0]
        made = {name: value for one in values for name, value in one.items()}
        required, members = schema.get("required", ()), schema.get("properties", {})
        for name in dict.fromkeys([*required, *(members if everything and depth < 2 else ())]):
            made[name] = example(members.get(name, {}), whole, everything, depth + 1)
        return made
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        value = min(max(1, least), schema.get("maximum", 1 << 53))
        step = schema.get("multipleOf", 1)
        return -(-value // step) * step if kind == "integer" else value
    if kind == "array":
        return [example(schema.get("items", {}), whole, everything, depth + 1)] * max(1, schema.get("minItems", 1))
    return {"boolean": True, "null": None}.get(kind, text_for(schema))


@contextlib.contextmanager
def stand_in(path, installed):
    """Run the stand-in for the API of a document; yields its URL."""
    port = free_port()
    program = installed.program("prism", "@stoplight/prism-cli/dist/index.js", "mock", "-p", str(port), str(path))
    server = ServerProcess(program, {})
    try:
        assert server.heard("is listening on"), server.output
        yield f"http://127.0.0.1:{port}"
    finally:
        server.end()


def problems_of(response):
    """Return what the stand-in says of a request: pairs of a code and a text."""
    said = json.loads(response.headers.get("sl-violations") or "[]")
    found = [(one["code"], one["message"]) for one in said if one["location"][0] == "request"]
    if not found and "stoplight.io/prism/errors" in response.text and response.status_code < 500:
        found.append((response.json()["title"], response.text))
    return found


SMALL = [path for path in DOCUMENTS if path.stat().st_size <= MOST_BYTES
         and KNOWN.get(path.relative_to(FOLDER).as_posix(), ()) is not None]


@pytest.mark.parametrize("path", parameters(SMALL))
def test_each_request_is_one_that_the_document_allows(path, installed, caplog):
    caplog.set_level(logging.CRITICAL)
    known = KNOWN.get(path.relative_to(FOLDER).as_posix(), set())
    answers, session = [], requests.Session()
    session.hooks["response"].append(lambda response, *arguments, **options: answers.append(response))
    schemes = Document(path).root
    schemes = schemes.get("securityDefinitions") or schemes.get("components", {}).get("securitySchemes") or {}
    sent, wrong = 0, []
    with stand_in(path, installed) as url:
        provider = OpenAPIProvider(path, base_url=url, session=session, output_schemas="none",
                                   credentials=dict.fromkeys(schemes, "secret"))
        mcp = mcplite.Server("api")
        mcp.mount(provider)
        with session, mcplite.connect(mcp) as client:
            tools = client.list_tools()
            chosen = range(0, len(tools), len(tools) // CALLED + 1)
            for at in chosen:
                for everything in (False, True):
                    tool, operation = tools[at], provider.operations[at]
                    arguments = example(tool.input_schema, tool.input_schema, everything)
                    if not jsonschema.Draft202012Validator(tool.input_schema).is_valid(arguments):
                        continue  # no example of ours fits
                    answers.clear()
                    result = client.call_tool(tool.name, arguments)
                    assert answers, (tool.name, arguments, result.text)
                    sent += 1
                    wrong += [(operation, code, text, answers[-1].request.url) for code, text in problems_of(answers[-1])
                              if code not in known]
    assert wrong == []
    assert sent >= len(chosen) * 1.5, f"{sent} of {2 * len(chosen)} calls have an example"


def test_there_are_documents_of_each_version():
    if len(DOCUMENTS) < 30:
        pytest.skip("tests/interop/install.sh installs them")
    versions = [Document(path).version for path in DOCUMENTS]
    assert len(versions) >= 35 and versions.count("2") >= 8 and versions.count("3.0") >= 20
    assert len(SMALL) >= 25
