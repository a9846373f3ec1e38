"""Keywords in ``Annotated``; test_schemas shows that converter and schema agree on them."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Dict, List, Literal, Tuple

import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.schemas import Schemas

ROOT = Path(mcplite.__file__).resolve().parent.parent


def compiled(annotation):
    return Schemas("tool 'it'").compile(annotation, "a")


@pytest.mark.parametrize("annotation, schema", [
    (Annotated[int, {"minimum": 1}], {"type": "integer", "minimum": 1}),
    (Annotated[int, {"minimum": 1}, {"maximum": 3}], {"type": "integer", "minimum": 1, "maximum": 3}),
    (Annotated[int, {"minimum": 1}, {"minimum": 3}], {"type": "integer", "minimum": 1, "allOf": [{"minimum": 3}]}),
    (Annotated[Literal["a", "b"], {"enum": ["a"]}], {"type": "string", "enum": ["a", "b"], "allOf": [{"enum": ["a"]}]}),
    (Annotated[str, {"format": "email", "description": "Whose"}],
     {"type": "string", "format": "email", "description": "Whose"}),
    (Annotated[str, {"title": "T", "examples": ["a"], "x-mcp-header": "Region"}],
     {"type": "string", "title": "T", "examples": ["a"], "x-mcp-header": "Region"}),
    (Annotated[Any, {"type": "string", "minLength": 1}], {"type": "string", "minLength": 1}),
    (Annotated[dict, {"properties": {"a": {"type": "integer"}}, "required": ["a"]}],
     {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
    (Annotated[List[int], {"minItems": 1}], {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
    (Annotated[List[int], {"items": {"minimum": 1}}],
     {"type": "array", "items": {"type": "integer"}, "allOf": [{"items": {"minimum": 1}}]}),
    (Annotated[Dict[str, int], {"properties": {"a": True}, "maxProperties": 1}],
     {"type": "object", "additionalProperties": {"type": "integer"},
      "allOf": [{"properties": {"a": True}, "maxProperties": 1}]}),
    (Annotated[Tuple[int, int], {"items": False}, {"not": {"const": [1, 1]}}],
     {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer"}, {"type": "integer"}],
      "allOf": [{"items": False}, {"not": {"const": [1, 1]}}]}),
])
def test_keywords_are_merged_where_that_means_the_same(annotation, schema):
    assert compiled(annotation).schema == schema


@pytest.mark.parametrize("keywords, good, bad, reason", [
    ({"minimum": 1}, 1, 0, "0 is less than the minimum of 1"),
    ({"maximum": 14}, 14, 99, "99 is greater than the maximum of 14"),
    ({"exclusiveMinimum": 0}, 0.5, 0, "0 is less than or equal to the minimum of 0"),
    ({"exclusiveMaximum": 1}, 0.5, 1, "1 is greater than or equal to the maximum of 1"),
    ({"multipleOf": 5}, 10, 7, "7 is not a multiple of 5"),
    ({"multipleOf": 0.5}, 1.5, 1.7, "1.7 is not a multiple of 0.5"),
    ({"minLength": 2}, "ab", "a", "'a' is too short"),
    ({"maxLength": 2}, "ab", "abc", "'abc' is too long"),
    ({"pattern": "^[a-z]+$"}, "ab", "A", r"'A' does not match '\^\[a-z\]\+\$'"),
    ({"minItems": 1}, [1], [], r"\[\] (is too short|should be non-empty)"),
    ({"maxItems": 1}, [1], [1, 2], r"\[1, 2\] is too long"),
    ({"uniqueItems": True}, [1, True, "1"], [1, 1.0], "1.0 comes more than once"),
    ({"uniqueItems": True}, [[1], [2]], [[1], [1]], r"\[1\] comes more than once"),
    ({"uniqueItems": False}, [1, 1], None, None),
    ({"minProperties": 1}, {"a": 1}, {}, r"{} (does not have enough properties|should be non-empty)"),
    ({"enum": ["x", 2]}, 2, "y", r"'y' is not one of \['x', 2\]"),
    ({"const": 1}, 1, 2, "1 was expected"),
    ({"not": {"type": "string"}}, 1, "x", "'x' should not be valid under|is not allowed for 'x'"),
    ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, 0, 2, "2 is valid under each of"),
    ({"if": {"minimum": 5}, "then": {"multipleOf": 2}}, 6, 7, "7 is not a multiple of 2"),
])
def test_keywords_are_enforced(keywords, good, bad, reason):
    convert = compiled(Annotated[Any, keywords]).convert
    assert convert(good) == good
    if reason is not None:
        with pytest.raises(Mismatch, match=reason):
            convert(bad)


@pytest.mark.parametrize("keywords, reason", [
    ({"minimum": "0"}, "has 'minimum' in Annotated with '0', which is not a number; correct it"),
    ({"maximum": True}, "has 'maximum' in Annotated with True"), ({"minLength": -1}, "is not a count"),
    ({"minItems": 1.5}, "is not a count"), ({"multipleOf": 0}, "is not a number above 0"),
    ({"pattern": "("}, "is not a regular expression"), ({"pattern": 5}, "is not a regular expression"),
    ({"enum": "ab"}, "is not a list of values"), ({"enum": []}, "is not a list of values"),
    ({"uniqueItems": 1}, "is not true or false"), ({"type": "text"}, "its keywords in Annotated: it is not valid JSON Schema"),
    ({"items": 5}, "its keywords in Annotated: it is not valid"),
    ({"maximum": math.inf}, "keywords in Annotated that are not JSON"), ({"enum": [object()]}, "that are not JSON"),
    ({"x-mine": {1, 2}}, "that are not JSON"), ({"$ref": "#/$defs/x"}, "has '\\$ref' in Annotated, which cannot stand inside"),
    ({"anyOf": [{"$ref": "#"}]}, "has '\\$ref'"), ({"$defs": {}}, "has '\\$defs'"), ({"not": {"$id": "x"}}, "has '\\$id'"),
])
def test_invalid_keywords_are_refused_at_registration(keywords, reason):
    with pytest.raises(RegistrationError, match=f"^tool 'it': parameter 'a'.*{reason}"):
        compiled(List[Annotated[Any, keywords]])


def test_text_that_looks_like_a_reference_is_allowed():
    assert compiled(Annotated[str, {"enum": ['"$ref":', "$ref"]}]).convert('"$ref":') == '"$ref":'


def test_common_keywords_need_no_jsonschema():
    code = """
import sys
from typing import Annotated, List, Set
from mcplite.server.functions.schemas import Schemas
compiled = Schemas("it").compile
compiled(Annotated[int, {"minimum": 1, "maximum": 5, "multipleOf": 2}], "a").convert(4)
compiled(Annotated[str, {"pattern": "^a", "maxLength": 3}], "a").convert("ab")
compiled(Annotated[List[int], {"uniqueItems": True, "minItems": 1}], "a").convert([1, 2])
compiled(Set[str], "a").convert(["a", "b"])
assert "jsonschema" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
