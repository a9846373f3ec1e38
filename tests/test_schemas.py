"""The schema oracle: it accepts the official examples and refuses other messages."""

import json

import pytest

from mcplite.revisions import JULY_2026, JUNE_2025, LEGACY, MARCH_2025, NOVEMBER_2025, REVISIONS
from tests.support import schemas

validate = schemas.validate_message
needs_schemas = pytest.mark.skipif(schemas.FOLDER is None, reason=schemas.REASON)


def request(method, params=None, **more):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
    return message if params is None else {**message, "params": params}


def answer(result, **more):
    return {"jsonrpc": "2.0", "id": 1, "result": result, **more}


def failure(code, message="m", **more):
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message, **more}}


def without(message, name):
    return {key: item for key, item in message.items() if key != name}


CALL = request("tools/call", {"name": "t", "arguments": {"a": 1}, "_meta": {"progressToken": 1}})
RESULT = answer({"content": [{"type": "text", "text": "x"}]})
TOOLS = answer({"tools": [
    {"name": "t", "inputSchema": {"type": "object", "$defs": {}, "additionalProperties": False}}]})
INITIALIZE = request("initialize", {"protocolVersion": "x", "capabilities": {"roots": {"listChanged": True}},
                                    "clientInfo": {"name": "c", "version": "1"}})
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}


@needs_schemas
def test_official_examples_are_accepted():
    # Two of them do not fit their own definitions: a request with an id, which it no longer has since it rides inside
    # of a result, and a result without the cache fields, so that it can only be read as one that asks for input.
    wrong = []
    for path in sorted((schemas.FOLDER / JULY_2026.name / "examples").glob("*/*.json")):
        try:
            schemas.check(JULY_2026, path.parent.name, json.loads(path.read_text("utf-8")))
        except AssertionError:
            wrong.append(path.parent.name)
    assert wrong == ["ListRootsRequest", "ReadResourceResultResponse"]


@needs_schemas
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_common_messages_are_fine_in_every_legacy_revision(revision):
    validate(revision, "client", INITIALIZE)
    validate(revision.name, "client", json.dumps(CALL).encode())
    validate(revision, "client", request("ping"))
    validate(revision, "server", request("ping", id="a"))
    validate(revision, "server", answer({}), "ping")
    validate(revision, "server", RESULT, "tools/call")
    validate(revision, "server", RESULT, {1: "tools/call", 2: "ping"})
    validate(revision, "server", TOOLS, "tools/list")
    validate(revision, "server", answer({}), "logging/setLevel")
    validate(revision, "client", PROGRESS)
    validate(revision, "server", PROGRESS)
    validate(revision, "client", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    validate(revision, "client", answer({"roots": []}), "roots/list")
    validate(revision, "server", failure(-32601))
    validate(revision, "client", failure(-1, data={"any": "thing"}))


@needs_schemas
def test_batches_are_messages_of_one_revision():
    validate(MARCH_2025, "client", [CALL, PROGRESS])
    validate(MARCH_2025, "server", [RESULT, failure(-32600)], {1: "tools/call"})
    for wrong in ([], [CALL, RESULT], [CALL, {"jsonrpc": "1.0", "id": 1, "method": "ping"}]):
        with pytest.raises(AssertionError):
            validate(MARCH_2025, "client", wrong, "tools/call")
    with pytest.raises(AssertionError, match="has no batches"):
        validate(JUNE_2025, "client", [CALL])


@needs_schemas
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_an_error_to_an_unreadable_id_has_null_or_no_id(revision):
    nameless = without(failure(-32700), "id")
    if revision.error_id_optional:
        validate(revision, "server", nameless)
    else:
        validate(revision, "server", {**nameless, "id": None})
        with pytest.raises(AssertionError, match="'id' is a required property"):
            validate(revision, "server", nameless)


@needs_schemas
@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.parametrize("direction, message, method, reason", [
    ("client", 5, None, "a message is an object"),
    ("client", {"jsonrpc": "2.0"}, None, "none of the members"),
    ("client", without(CALL, "jsonrpc"), None, "'jsonrpc' is a required property"),
    ("client", {**CALL, "id": None}, None, "None is not"),
    ("client", {**CALL, "more": 1}, None, "no such member"),
    ("client", request("tools/call", {"arguments": {}}), None, "'name' is a required property"),
    ("client", request("tools/call", {"name": "t", "arguments": []}), None, "not of type 'object'"),
    ("client", request("tools/call", {"name": "t", "more": 1}), None, "params.more: .* no such member"),
    ("client", request("tools/call"), None, "'params' is a required property"),
    ("client", request("tools/call", {"name": "t", "_meta": 5}), None, "_meta.*not of type 'object'"),
    ("server", CALL, None, "may send"),
    ("client", request("roots/list"), None, "may send"),
    ("client", request(5), None, "may send"),
    ("client", {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "t"}}, None, "no notification"),
    ("server", RESULT, None, "request_method must say"),
    ("server", RESULT, {2: "tools/call"}, "request_method must say"),
    ("client", RESULT, "tools/call", "cannot ask for"),
    ("server", answer({}), "tools/call", "'content' is a required property"),
    ("server", answer({"content": [], "more": 1}), "tools/call", r"\$.result.more: .* no such member"),
    ("server", answer({"content": [{"type": "text", "text": "x", "more": 1}]}), "tools/call", r"content\[0\].more"),
    ("server", answer({"tools": [{"name": "t", "inputSchema": {"type": "array"}}]}), "tools/list", "inputSchema"),
    ("server", answer([]), "ping", "not of type 'object'"),
    ("server", without(answer({}), "id"), "ping", "'id' is a required property"),
    ("server", {**failure(-32601), "error": {"code": "x", "message": "m"}}, None, "not of type 'integer'"),
    ("server", {**failure(-32601), "more": 1}, None, "no such member"),
])
def test_invalid_messages_are_explained(revision, direction, message, method, reason):
    with pytest.raises(AssertionError, match=reason):
        validate(revision, direction, message, method)


@needs_schemas
def test_members_of_a_later_revision_are_refused_unless_asked_not_to():
    titled = answer({"tools": [{"name": "t", "title": "T", "inputSchema": {"type": "object"}}]})
    validate(JUNE_2025, "server", titled, "tools/list")
    with pytest.raises(AssertionError, match=r"tools\[0\].title: .* has no such member"):
        validate(MARCH_2025, "server", titled, "tools/list")
    validate(MARCH_2025, "server", titled, "tools/list", strict=False)


@needs_schemas
def test_the_error_that_asks_for_a_url_has_its_own_data():
    wanted = {"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "e"}
    validate(NOVEMBER_2025, "server", failure(-32042, data={"elicitations": [wanted]}))
    with pytest.raises(AssertionError, match="elicitationId"):
        validate(NOVEMBER_2025, "server", failure(-32042, data={"elicitations": [without(wanted, "elicitationId")]}))
