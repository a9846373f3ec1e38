"""Metadata in ``Annotated``: annotated_types, Field and Meta become keywords and checks."""

import collections
import datetime
import decimal
from typing import Annotated, Any, Dict, List, Optional

import pytest

from mcplite.errors import RegistrationError
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.function import BadArguments, compile_function
from tests.support.agreement import agree, compiled
from tests.support.names import named

at = pytest.importorskip("annotated_types", reason="it is used by those who have it")


def library(name):
    return pytest.importorskip(name, reason="it is used by those who have it")


@pytest.mark.parametrize("annotation, schema, accepted, rejected, unconvertible", [
    (Annotated[int, at.Ge(1)], {"type": "integer", "minimum": 1}, ["1", "2.0"], ["0", '"1"'], []),
    (Annotated[float, at.Gt(0), at.Le(1)], {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, ["0.5"], ["0", "1.5"], []),
    (Annotated[int, at.Interval(ge=1, lt=5), at.MultipleOf(2)],
     {"type": "integer", "minimum": 1, "exclusiveMaximum": 5, "multipleOf": 2}, ["2", "4"], ["0", "3", "6"], []),
    (Annotated[int, at.Ge(1), at.Ge(3)], {"type": "integer", "minimum": 1, "allOf": [{"minimum": 3}]}, ["3"], ["1", "0"], []),
    (Annotated[int, at.Ge(decimal.Decimal("1"))], {"type": "integer", "minimum": 1}, ["1"], ["0"], ()),
    (Annotated[str, at.Len(2, 3)], {"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"'], ['"a"', '"abcd"', "2"], []),
    (Annotated[List[int], at.MinLen(1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}, ["[1]"], ["[]"], []),
    (Annotated[Dict[str, int], at.MaxLen(1)],
     {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1}, ["{}"], ['{"a": 1, "b": 2}'], []),
    (Annotated[Optional[int], at.Ge(1)], {"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 1}, ["null", "1"], ["0"],
     []),
    (Optional[Annotated[int, at.Ge(1)]], {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, ["null", "1"], ["0"],
     []),
    (List[Annotated[str, at.MinLen(1)]], {"type": "array", "items": {"type": "string", "minLength": 1}}, ['["a"]'], ['[""]'],
     []),
    (Annotated[Any, at.Ge(1)], {"minimum": 1}, ["1"], ["0"], []),
    (Annotated[bytes, at.MaxLen(2)], {"type": "string", "contentEncoding": "base64"}, ['"YWI="'], [], ['"YWJj"']),
    (Annotated[datetime.date, at.Ge(datetime.date(2020, 1, 1))], {"type": "string", "format": "date"}, ['"2020-01-01"'], [],
     ['"2019-12-31"']),
    (Annotated[decimal.Decimal, at.Gt(0)], {"type": ["string", "number"], "exclusiveMinimum": 0}, ["1", '"0.1"'], ["0"],
     ['"0"', '"-1"']),
    (Annotated[str, at.Predicate(str.islower)], {"type": "string"}, ['"a"'], [], ['"A"']),
    (at.LowerCase[str], {"type": "string"}, ['"a"'], [], ['"A"']),
    (Annotated[datetime.datetime, at.Timezone(...)], {"type": "string", "format": "date-time"}, ['"2024-05-06T07:08:09Z"'], [],
     ['"2024-05-06T07:08:09"']),
    (Annotated[datetime.datetime, at.Timezone(None)], {"type": "string", "format": "date-time"}, ['"2024-05-06T07:08:09"'], [],
     ['"2024-05-06T07:08:09Z"']),
    (Annotated[datetime.datetime, at.Timezone("UTC")], {"type": "string", "format": "date-time"}, ['"2024-05-06T07:08:09Z"'],
     [], ['"2024-05-06T07:08:09+02:00"']),
    (Annotated[datetime.datetime, at.Timezone(datetime.timezone(datetime.timedelta(hours=2)))],
     {"type": "string", "format": "date-time"}, ['"2024-05-06T07:08:09+02:00"'], [], ['"2024-05-06T07:08:09Z"']),
    (Annotated[float, at.Unit("m"), "Height"], {"type": "number", "description": "Height (in m)"}, ["1"], [], []),
    (Annotated[float, at.Unit("m")], {"type": "number", "description": "in m"}, ["1"], [], []),
    (Annotated[int, at.doc("How many"), {"maximum": 3}], {"type": "integer", "description": "How many", "maximum": 3}, ["3"],
     ["4"], []),
    (Annotated[int, object(), at.Ge(1), print], {"type": "integer", "minimum": 1}, ["1"], ["0"], []),
], ids=named(50))
def test_annotated_types(annotation, schema, accepted, rejected, unconvertible):
    assert agree(annotation, accepted, rejected, unconvertible) == schema


def test_a_lazy_translation_is_the_description():
    assert compiled(Annotated[int, collections.UserString("How many")])[1]["description"] == "How many"


def test_errors_name_the_argument_and_the_bound():
    def plant(many: Annotated[int, at.Ge(1)], since: Annotated[datetime.date, at.Ge(datetime.date(2020, 1, 1))],
              name: Annotated[str, at.Predicate(str.islower)]) -> None: ...

    with pytest.raises(BadArguments) as caught:
        compile_function(plant).bind({"many": 0, "since": "2019-05-06", "name": "A"})
    assert caught.value.problems == ["many: 0 is less than the minimum of 1", "since: 2019-05-06 is less than 2020-01-01",
                                     "name: 'A' does not fulfil str.islower"]


@pytest.mark.parametrize("annotation, reason", [
    (Annotated[int, at.MinLen(1)], "minLength 1 in Annotated, which does not apply to integer"),
    (Annotated[bool, at.Ge(1)], "minimum 1 in Annotated, which does not apply to boolean"),
    (Annotated[List[int], at.Gt(2)], "exclusiveMinimum 2 in Annotated, which does not apply to array"),
])
def test_a_constraint_that_does_not_apply_is_refused(annotation, reason):
    def it(bad): ...

    it.__annotations__["bad"] = annotation
    with pytest.raises(RegistrationError, match=f"^tool 'it': parameter 'bad' has the constraint {reason}; remove it"):
        compile_function(it)


def test_an_error_about_a_length_does_not_repeat_the_value():
    with pytest.raises(Mismatch, match="^a value of length 3 is longer than 2$"):
        compiled(Annotated[bytes, at.MaxLen(2)])[0].convert("YWJj")


def test_a_named_time_zone():
    pytest.importorskip("zoneinfo")
    import zoneinfo

    try:
        zoneinfo.ZoneInfo("Europe/Rome")
    except zoneinfo.ZoneInfoNotFoundError:
        pytest.skip("the system has no time zones")
    agree(Annotated[datetime.datetime, at.Timezone("Europe/Rome")], ['"2024-07-01T12:00:00+02:00"'], [],
          ['"2024-07-01T12:00:00+01:00"', '"2024-07-01T12:00:00"'])


def test_a_time_zone_that_does_not_exist_is_refused():
    def it(at: Annotated[datetime.datetime, at.Timezone("Nowhere/Atlantis")]) -> None: ...

    with pytest.raises(RegistrationError, match="^tool 'it': parameter 'at' has the time zone 'Nowhere/Atlantis'"):
        compile_function(it)


def test_a_predicate_that_fails_is_a_problem_of_the_value():
    with pytest.raises(Mismatch, match="does not fulfil the condition of its annotation: "):
        compiled(Annotated[int, at.Predicate(lambda value: 1 / value > 0)])[0].convert(0)
    with pytest.raises(Mismatch, match="cannot be compared"):
        compiled(Annotated[str, at.Ge(1)])[0].convert("x")


def test_doc_of_typing_extensions_is_the_description():
    extensions = library("typing_extensions")
    assert compiled(Annotated[int, extensions.Doc("How many")])[1] == {"type": "integer", "description": "How many"}


def test_field_of_pydantic():
    Field = library("pydantic").Field
    annotation = Annotated[int, Field(ge=1, le=5, description="How many", title="Count", examples=[2], deprecated=True,
                                      json_schema_extra={"x-unit": "m"})]
    assert agree(annotation, ["1"], ["0", "6"]) == {
        "type": "integer", "minimum": 1, "maximum": 5, "title": "Count", "description": "How many", "examples": [2],
        "deprecated": True, "x-unit": "m"}
    agree(Annotated[str, Field(min_length=2, strict=True)], ['"ab"'], ['"a"', "1"])
    agree(Annotated[List[int], Field(max_length=1)], ["[1]"], ["[1, 2]"])
    agree(Optional[Annotated[float, Field(gt=0, multiple_of=0.5)]], ["1.5", "null"], ["0", "0.7"])
    _, changed = compiled(Annotated[int, Field(json_schema_extra=lambda schema: schema.update({"x-changed": True}))])
    assert changed == {"type": "integer", "x-changed": True}


def test_what_only_pydantic_understands_is_left_to_it():
    pydantic = library("pydantic")
    code = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1, to_upper=True), "Code"]
    assert compiled(code)[0].convert(" a ") == "A"
    # The library refuses what is only white space; the schema does not know.
    assert agree(code, ['"a"'], ['""', "1"], ['" "']) == {"type": "string", "minLength": 1, "description": "Code"}
    both = Annotated[int, pydantic.Field(ge=1, title="N"), pydantic.AfterValidator(lambda value: value + 1)]
    assert agree(both, {"1": 2}, ["0"]) == {"type": "integer", "minimum": 1, "title": "N"}


def test_field_of_pydantic_1():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Field = pytest.importorskip("pydantic.v1", reason="pydantic 1 is not there").Field
    annotation = Annotated[str, Field(min_length=1, regex="^a", description="Name", example="ab")]
    assert agree(annotation, ['"ab"'], ['""', '"b"']) == {
        "type": "string", "minLength": 1, "pattern": "^a", "description": "Name", "example": "ab"}
    agree(Annotated[List[int], Field(min_items=1)], ["[1]"], ["[]"])


def test_meta_of_msgspec():
    Meta = library("msgspec").Meta
    annotation = Annotated[int, Meta(ge=1, lt=5, title="Count", description="How many", examples=[2],
                                     extra_json_schema={"x-unit": "m"})]
    assert agree(annotation, ["1"], ["0", "5"]) == {
        "type": "integer", "minimum": 1, "exclusiveMaximum": 5, "title": "Count", "description": "How many", "examples": [2],
        "x-unit": "m"}
    agree(Annotated[str, Meta(pattern="^a", min_length=2)], ['"ab"'], ['"a"', '"ba"'])
    agree(Annotated[datetime.datetime, Meta(tz=True)], ['"2024-05-06T07:08:09Z"'], [], ['"2024-05-06T07:08:09"'])


def test_constraints_hold_in_results():
    from mcplite.server.functions.results import BadOutput, tool_result

    def share() -> Annotated[float, at.Le(1)]: ...

    function = compile_function(share)
    assert function.output.schema["properties"]["result"] == {"type": "number", "maximum": 1}
    with pytest.raises(BadOutput, match="2.0 is greater than the maximum of 1"):
        tool_result(2.0, function)
