import dataclasses
import datetime
import enum
import uuid
from typing import Annotated, List, Literal, NamedTuple, Optional, Set, TypedDict, Union

import pytest

from mcplite.errors import RegistrationError
from mcplite.protocol.elicitation_forms import check_form
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.forms import form_type


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Confirm:
    ok: Annotated[bool, "Really?"]
    note: Optional[str] = None
    count: int = 3
    color: Color = Color.RED


@dataclasses.dataclass
class Asked:
    name: Optional[str]
    day: Optional[datetime.date]
    id: uuid.UUID
    size: Annotated[Optional[int], "How big"] = None


class Typed(TypedDict, total=False):
    a: int


class Named(NamedTuple):
    a: int
    b: Literal["x", "y"] = "x"


class Stars(enum.IntEnum):
    ONE = 1
    TWO = 2


class Levels(enum.Enum):
    OFF = False
    HALF = 0.5
    FULL = "full"


@dataclasses.dataclass
class Review:
    stars: Stars
    all: List[Stars] = dataclasses.field(default_factory=lambda: [Stars.ONE])
    size: Annotated[Literal[10, 20], "How big", {"minimum": 1}] = 10
    level: Optional[Levels] = None
    old: Literal[1, None] = None


@dataclasses.dataclass
class Tree:
    next: "Optional[Tree]" = None


def value_of(schema):
    return {"type": "object", "properties": {"value": schema}, "required": ["value"]}


CONFIRM = {"type": "object", "properties": {
    "ok": {"type": "boolean", "description": "Really?"}, "note": {"type": "string"}, "count": {"type": "integer", "default": 3},
    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"}}, "required": ["ok"]}


@pytest.mark.parametrize("wanted, schema, answers", [
    (None, {"type": "object", "properties": {}}, [({}, None), ({"x": 1}, None)]),
    (Confirm, CONFIRM, [({"ok": True}, Confirm(True)), ({"ok": False, "note": "n", "color": "blue", "other": 1},
                                                      Confirm(False, "n", 3, Color.BLUE))]),
    (Annotated[Confirm, "ignored"], CONFIRM, [({"ok": True, "count": 4.0}, Confirm(True, None, 4))]),
    (Asked, {"type": "object", "properties": {"name": {"type": "string"}, "day": {"type": "string", "format": "date"},
                                              "id": {"type": "string"}, "size": {"type": "integer", "description": "How big"}},
             "required": ["id"]},
     [({"id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "day": "2024-05-06"},
       Asked(None, datetime.date(2024, 5, 6), uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")))]),
    (Typed, {"type": "object", "properties": {"a": {"type": "integer"}}}, [({}, {}), ({"a": 1, "b": 2}, {"a": 1})]),
    (Named, {"type": "object",
             "properties": {"a": {"type": "integer"}, "b": {"type": "string", "enum": ["x", "y"], "default": "x"}},
             "required": ["a"]}, [({"a": 1}, Named(1))]),
    (str, {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}, [({"value": "x"}, "x")]),
    (Annotated[int, "Age", {"minimum": 0}],
     {"type": "object", "properties": {"value": {"type": "integer", "description": "Age", "minimum": 0}},
      "required": ["value"]},
     [({"value": 5.0}, 5)]),
    (Optional[int], {"type": "object", "properties": {"value": {"type": "integer"}}}, [({"value": 5}, 5), ({}, None)]),
    (Color, {"type": "object", "properties": {"value": {"type": "string", "enum": ["red", "blue"]}}, "required": ["value"]},
     [({"value": "red"}, Color.RED)]),
    ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "object", "properties": {"n": {"type": "integer"}}},
     [({"n": 5.0, "m": 1}, {"n": 5.0, "m": 1})]),
    # choices that are no texts
    (Stars, value_of({"type": "string", "enum": ["1", "2"]}), [({"value": "2"}, Stars.TWO)]),
    (Literal[True, False], value_of({"type": "string", "enum": ["true", "false"]}), [({"value": "false"}, False)]),
    (Literal[-1, 0, "none"], value_of({"type": "string", "enum": ["-1", "0", "none"]}),
     [({"value": "-1"}, -1), ({"value": "none"}, "none")]),
    (Union[Stars, Literal["none"]], value_of({"type": "string", "enum": ["1", "2", "none"]}), [({"value": "1"}, Stars.ONE)]),
    (Set[Levels], value_of({"type": "array", "uniqueItems": True, "items": {"type": "string", "enum": ["false", "0.5",
     "full"]}}),
     [({"value": ["0.5", "false"]}, {Levels.HALF, Levels.OFF}), ({"value": []}, set())]),
    (Review, {"type": "object", "required": ["stars"], "properties": {
        "stars": {"type": "string", "enum": ["1", "2"]}, "all": {"type": "array", "items": {"type": "string", "enum": ["1",
         "2"]}},
        "size": {"type": "string", "enum": ["10", "20"], "description": "How big", "default": "10"},
        "level": {"type": "string", "enum": ["false", "0.5", "full"]}, "old": {"type": "string", "enum": ["1"]}}},
     [({"stars": "2"}, Review(Stars.TWO)), ({"stars": "1", "all": ["2"], "size": "20", "level": "false", "old": "1"},
                                           Review(Stars.ONE, [Stars.TWO], 20, Levels.OFF, 1))]),
    ({"type": "object", "properties": {"a": {"enum": [1, 2], "enumNames": ["x", "y"], "default": 2}, "b": {"const": 5},
                                       "c": {"type": "array", "items": {"anyOf": [{"const": 1.5, "title": "X"}]},
                                        "default": [1.5]}, "d": {"oneOf": [{"const": 1, "title": "One"}]}}},
     {"type": "object", "properties": {"a": {"type": "string", "enum": ["1", "2"], "enumNames": ["x", "y"], "default": "2"},
                                       "b": {"type": "string", "enum": ["5"]},
                                       "c": {"type": "array", "items": {"type": "string", "anyOf": [{"const": "1.5",
                                        "title": "X"}]},
                                             "default": ["1.5"]},
                                       "d": {"type": "string", "oneOf": [{"const": "1", "title": "One"}]}}},
     [({"a": "1", "b": "5", "c": ["1.5"], "d": "1", "e": "1"}, {"a": 1, "b": 5, "c": [1.5], "d": 1, "e": "1"})]),
])
def test_a_type_becomes_a_form_and_its_answer_the_type(wanted, schema, answers):
    form = form_type(wanted)
    assert form.schema == schema
    check_form(form.schema)
    for content, value in answers:
        assert form.convert(content) == value


def test_a_given_schema_is_copied():
    given = {"type": "object", "properties": {}}
    assert form_type(given).schema is not given


@pytest.mark.parametrize("wanted, content, reason", [
    (Confirm, {}, "is required"), (Confirm, {"ok": "yes"}, "'yes' is not true or false"),
    (int, {"value": "5"}, "not an integer"), (int, {}, "null is not an integer"),
    (datetime.date, {"value": "soon"}, "is not a date"),
])
def test_an_answer_that_does_not_fit_is_refused(wanted, content, reason):
    with pytest.raises(Mismatch, match=reason):
        form_type(wanted).convert(content)


@pytest.mark.parametrize("wanted, reason", [
    (Tree, "Tree.* contains itself, but forms are flat; ask for its members one by one"),
    (Literal[1, "1"], "some read alike"), (object(), "has no form in JSON"), (List["Nowhere"], "Nowhere"),  # noqa: F821
])
def test_types_without_a_form_are_refused(wanted, reason):
    with pytest.raises(RegistrationError, match=f"^elicitation: .*{reason}"):
        form_type(wanted)


def test_types_that_forms_lack_are_refused_by_the_check_of_forms():
    for wanted in (Union[int, str], List[int]):
        with pytest.raises(ValueError, match="the form field 'value'"):
            check_form(form_type(wanted).schema)
