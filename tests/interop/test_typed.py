"""pydantic's types over the wire: the official SDK's client calls our server, and its server makes equivalent schemas."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from mcplite.server.functions.foreign.adapters import Inliner

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent
SECONDS = 180


def report(installed, sdk, *arguments):
    """Return what the script prints in the environment of an SDK."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    ran = subprocess.run([installed.python(sdk), str(HERE / "typed.py"), *arguments], env=environment, timeout=SECONDS,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
    return json.loads(ran.stdout)


@pytest.mark.parametrize("sdk", ["mcp1", "mcp2"])
def test_the_client_of_the_sdk_sends_and_gets_models(installed, sdk):
    seen = report(installed, sdk, "call")
    assert seen["tools"] == ["register", "search", "plant"]
    assert seen["same"] is True
    assert seen["register"]["structuredContent"] == {**seen["sent"], "age": 4}
    assert seen["search"]["structuredContent"] == {"result": [{"zip_code": "00100", "city": "tea 10 age"}]}
    assert seen["plant"]["structuredContent"] == {"value": 3, "children": [{"value": 1, "children": []}]}
    assert seen["bad"]["isError"] is True
    text = seen["bad"]["content"][0]["text"]
    assert "user.name: x is no name" in text and "user.addresses[0].zip_code: String should match pattern" in text


def comparable(schema):
    """Return a schema without what may differ: where parts stand, titles, and objects that are closed."""
    inliner = Inliner(schema.get("$defs", {}), lambda wanted: wanted)
    expanded = inliner.expand(schema)
    return simplified({**expanded, **({"$defs": inliner.definitions} if inliner.definitions else {})})


def simplified(schema, names=False):
    if isinstance(schema, list):
        return [simplified(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    left = {key: simplified(value, not names and key in ("properties", "$defs")) for key, value in schema.items()
            if names or key != "discriminator" and (key, value) != ("additionalProperties", False)
            and (key != "title" or value == "ZIP")}
    if "$ref" in left:
        left.pop("type", None)  # ours repeats it beside the reference
    return left


@pytest.mark.parametrize("sdk", ["mcp1", "mcp2"])
def test_the_schemas_are_those_of_the_sdk_but_for_titles_and_places(installed, sdk):
    made = report(installed, sdk, "schemas")
    assert set(made["ours"]) == set(made["theirs"]) == {"register", "search", "plant"}
    for name, ours in made["ours"].items():
        for side, schema in ours.items():
            jsonschema.Draft202012Validator.check_schema(schema)
            theirs = made["theirs"][name][side]
            if "Tree" not in json.dumps(theirs):
                assert comparable(schema) == comparable(theirs), f"{name} {side}"
            # Where a model contains itself, the two place it differently; they still allow the same values.
            for value in VALUES[name]:
                assert allows(schema, value) == allows(theirs, value), f"{name} {side}: {value}"


def allows(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


TREE = {"value": 1, "children": [{"value": 2, "children": []}]}
VALUES = {
    "register": [{"user": {"name": "Ann"}}, {"user": {"name": ""}}, {"user": {"name": "A", "age": 151}}, {"user": {}},
                 {"user": {"name": "A", "addresses": [{"zip_code": "1"}]}}, {"user": {"name": "A", "color": "green"}}, {}],
    "search": [{"text": "ab"}, {"text": "a"}, {"text": "ab", "limit": 0}, {"text": "ab", "size": 0}, {"result": []}, {}],
    "plant": [{"tree": TREE, "pet": {"kind": "cat"}, "numbers": [1]}, {"tree": TREE, "pet": {"kind": "cow"}, "numbers": [1]},
              {"tree": {"value": 1, "children": [{}]}, "pet": {"kind": "cat"}, "numbers": []},
              {"tree": TREE, "pet": {"kind": "cat"}, "numbers": ["1"]}, TREE, {"value": "1"}],
}
