"""Annotations to schemas and converters: tables of what each accepts, and the proof that both sides agree."""

import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import math
import pathlib
import sys
import typing
import uuid
from typing import (
    Annotated,
    Any,
    Collection,
    Dict,
    FrozenSet,
    Generic,
    Iterable,
    List,
    Literal,
    Mapping,
    MutableMapping,
    NamedTuple,
    NewType,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import TypeAliasType

from mcplite.errors import RegistrationError
from mcplite.protocol.schema.validation import check_schema
from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.function import BadArguments, compile_function
from mcplite.server.functions.schemas import Schemas


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 1
    YES = True
    NOTHING = None


class Share(enum.Enum):
    HALF = 0.5
    WHOLE = 1


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Path:
    name: Annotated[str, "What it is called"]
    points: List[Point]
    tags: Dict[str, str] = dataclasses.field(default_factory=dict)
    color: Color = Color.RED


class Options(TypedDict, total=False):
    verbose: bool
    level: int


class City(TypedDict):
    name: str
    size: Optional[int]


class Capital(City, total=False):
    country: str


class Pair(NamedTuple):
    left: int
    right: str = "r"


Untyped = collections.namedtuple("Untyped", "a b", defaults=[None])


@dataclasses.dataclass
class Tree:
    value: int
    children: List["Tree"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Husband:
    wife: "Optional[Wife]" = None


@dataclasses.dataclass
class Wife:
    husband: Optional[Husband] = None


@dataclasses.dataclass
class Even:
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


@dataclasses.dataclass
class WithInit:
    shown: int
    raw: dataclasses.InitVar[str]
    hint: dataclasses.InitVar[int] = 3
    total: int = dataclasses.field(init=False, default=0)
    shared: typing.ClassVar[int] = 9

    def __post_init__(self, raw, hint):
        self.total = len(raw) + hint


UserId = NewType("UserId", int)
Bound = TypeVar("Bound", bound=int)
Constrained = TypeVar("Constrained", int, str)
Free = TypeVar("Free")


class Meters(float):
    pass


class Positive(int):
    def __new__(cls, value):
        if value <= 0:
            raise ValueError("must be positive")
        return super().__new__(cls, value)


def compiled(annotation, **options):
    schemas = Schemas("tool 'it'", **options)
    node = schemas.compile(annotation, "arg")
    return node, {**node.schema, **({"$defs": schemas.definitions} if schemas.definitions else {})}


INTEGER, STRING, NUMBER, BOOLEAN, NULL = ({"type": kind} for kind in ("integer", "string", "number", "boolean", "null"))
POINT = {"type": "object", "properties": {"x": INTEGER, "y": {"type": "integer", "default": 0}}, "required": ["x"],
         "additionalProperties": False}
BIG = 2 ** 70
MOMENT = datetime.datetime(2024, 5, 6, 7, 8, 9)
UTC = datetime.timezone.utc
ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

#: Annotation, schema, {accepted value as JSON text: converted}, rejected values as JSON texts.
TABLE = [
    (str, STRING, {'""': "", '"1"': "1"}, ["1", "null", "true", "[]", "{}"]),
    (int, INTEGER, {"1": 1, "-0": 0, "1.0": 1, str(BIG): BIG, "1e3": 1000}, ["1.5", '"1"', "true", "false", "null", "[1]"]),
    (float, NUMBER, {"1": 1.0, "1.5": 1.5, "-2e-3": -0.002}, ['"1.5"', "true", "null", "[1.5]"]),
    (bool, BOOLEAN, {"true": True, "false": False}, ["1", "0", '"true"', "null"]),
    (None, NULL, {"null": None}, ["0", '""', "false"]),
    (type(None), NULL, {"null": None}, ["0"]),
    (Any, {}, {"1": 1, "null": None, '{"a": [1]}': {"a": [1]}}, []),
    (object, {}, {"1.5": 1.5}, []),
    (Free, {}, {"1": 1}, []),
    (Bound, INTEGER, {"1": 1}, ['"1"']),
    (Constrained, {"anyOf": [INTEGER, STRING]}, {"1": 1, '"1"': "1"}, ["1.5"]),
    (UserId, INTEGER, {"1": 1}, ['"1"']),
    (Meters, NUMBER, {"1": Meters(1)}, ['"1"']),
    (Positive, INTEGER, {"1": Positive(1)}, ["1.5"]),

    (Optional[int], {"anyOf": [INTEGER, NULL]}, {"1": 1, "null": None}, ['"1"', "1.5"]),
    (Union[int, str], {"anyOf": [INTEGER, STRING]}, {"1": 1, '"1"': "1", "2.0": 2}, ["1.5", "null"]),
    (Union[float, int], {"anyOf": [NUMBER, INTEGER]}, {"1": 1, "1.0": 1.0, "1.5": 1.5}, ['"1"']),
    (Union[int, float], {"anyOf": [INTEGER, NUMBER]}, {"1": 1, "1.0": 1.0, "1.5": 1.5}, ["true"]),
    (Union[bool, int, None], {"anyOf": [BOOLEAN, INTEGER, NULL]}, {"true": True, "1": 1, "null": None}, ['"x"']),
    (Union[Point, List[int]], {"anyOf": [POINT, {"type": "array", "items": INTEGER}]}, {'{"x": 1}': Point(1), "[1]": [1]},
     ['{"x": "1"}', '["1"]', "1"]),
    (Union[List[int], Sequence[int]], {"anyOf": [{"type": "array", "items": INTEGER}]}, {"[1]": [1]}, ['["1"]']),
    (Optional[Annotated[int, "How many"]], {"anyOf": [INTEGER, NULL], "description": "How many"}, {"1": 1, "null": None},
     ['"1"']),

    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, {'"a"': "a"}, ['"c"', "1", "null", '["a"]']),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, {"1": 1, "2.0": 2}, ["3", "true", '"1"']),
    (Literal[True], {"type": "boolean", "enum": [True]}, {"true": True}, ["1", "1.0", "false"]),
    (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}, {'"a"': "a", "1": 1, "null": None},
     ["true", "0", '"None"']),
    (Literal[Color.RED, "x"], {"type": "string", "enum": ["red", "x"]}, {'"red"': Color.RED, '"x"': "x"}, ['"blue"']),
    (Literal[Level.LOW, 1, 2], {"type": "integer", "enum": [1, 2]}, {"1": Level.LOW, "2": 2}, ["3"]),
    (Color, {"type": "string", "enum": ["red", "blue"]}, {'"red"': Color.RED}, ['"RED"', '"green"', "1"]),
    (Level, {"type": "integer", "enum": [1, 2]}, {"1": Level.LOW, "2.0": Level.HIGH}, ["3", '"LOW"', "true"]),
    (Mixed, {"type": ["string", "integer", "null"], "enum": ["a", 1, None]},
     {'"a"': Mixed.TEXT, "1": Mixed.NUMBER, "null": Mixed.NOTHING}, ["true", "2"]),
    (Share, {"type": ["number", "integer"], "enum": [0.5, 1]}, {"0.5": Share.HALF, "1": Share.WHOLE, "1.0": Share.WHOLE},
     ["0", '"HALF"']),

    (list, {"type": "array"}, {"[]": [], '[1, "a"]': [1, "a"]}, ["{}", '"ab"', "null"]),
    (List, {"type": "array"}, {"[1]": [1]}, ["{}"]),
    (List[int], {"type": "array", "items": INTEGER}, {"[]": [], "[1, 2.0]": [1, 2]}, ['["1"]', "[1, null]", "1"]),
    (list[int], {"type": "array", "items": INTEGER}, {"[1]": [1]}, ['["1"]']),
    (List[Any], {"type": "array"}, {"[1, null]": [1, None]}, ["1"]),
    (Sequence[str], {"type": "array", "items": STRING}, {'["a"]': ["a"]}, ['"a"', "[1]"]),
    (Iterable[str], {"type": "array", "items": STRING}, {'["a"]': ["a"]}, ['"a"', "[1]"]),
    (Collection[str], {"type": "array", "items": STRING}, {'["a"]': ["a"]}, ['"a"', "[1]"]),
    (collections.abc.Sequence, {"type": "array"}, {"[1]": [1]}, ["1"]),
    (List[List[float]], {"type": "array", "items": {"type": "array", "items": NUMBER}}, {"[[1], []]": [[1.0], []]},
     ["[1]", '[["1"]]']),
    (set, {"type": "array", "uniqueItems": True}, {"[1, 2]": {1, 2}}, ["[1, 1]", "[1, 1.0]", '[{}, {}]', "{}"]),
    (Set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}, {"[1, 2]": {1, 2}, "[]": set()},
     ["[1, 1]", "[1, 1.0]", '["1"]', "1"]),
    (FrozenSet[str], {"type": "array", "items": STRING, "uniqueItems": True}, {'["a"]': frozenset("a")}, ['["a", "a"]']),
    (tuple, {"type": "array"}, {"[1, 2]": (1, 2)}, ["1"]),
    (Tuple, {"type": "array"}, {"[1]": (1,)}, ["1"]),
    (Tuple[int, ...], {"type": "array", "items": INTEGER}, {"[]": (), "[1, 2]": (1, 2)}, ['["1"]']),
    (Tuple[int, str], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING]}, {'[1, "a"]': (1, "a")},
     ["[1]", '["a", 1]', '[1, "a", 2]', "{}"]),
    (Tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, {"[]": ()}, ["[1]"]),

    (dict, {"type": "object"}, {'{"a": 1}': {"a": 1}}, ["[]", "null"]),
    (Dict, {"type": "object"}, {"{}": {}}, ["[]"]),
    (Dict[str, Any], {"type": "object"}, {'{"a": null}': {"a": None}}, ["[]"]),
    (Dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {'{"a": 1.0}': {"a": 1}}, ['{"a": "1"}', "[]"]),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {'{"a": 1}': {"a": 1}}, ['{"a": "1"}']),
    (Mapping[str, List[int]], {"type": "object", "additionalProperties": {"type": "array", "items": INTEGER}},
     {'{"a": [1]}': {"a": [1]}}, ['{"a": 1}']),
    (MutableMapping[str, str], {"type": "object", "additionalProperties": STRING}, {"{}": {}}, ["[]"]),
    (collections.abc.Mapping, {"type": "object"}, {"{}": {}}, ["[]"]),

    (Point, POINT, {'{"x": 1}': Point(1), '{"x": 1, "y": 2.0}': Point(1, 2)},
     ["{}", '{"x": "1"}', '{"x": 1, "z": 2}', "[1, 2]", "null"]),
    (Path, {"type": "object", "properties": {
        "name": {"type": "string", "description": "What it is called"}, "points": {"type": "array", "items": POINT},
        "tags": {"type": "object", "additionalProperties": STRING, "default": {}},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"}},
        "required": ["name", "points"], "additionalProperties": False},
     {'{"name": "n", "points": [{"x": 1}], "color": "blue"}': Path("n", [Point(1)], {}, Color.BLUE)},
     ['{"name": "n", "points": [{}]}', '{"name": "n"}']),
    (WithInit, {"type": "object", "properties": {"shown": INTEGER, "raw": STRING, "hint": {"type": "integer", "default": 3}},
                "required": ["shown", "raw"], "additionalProperties": False},
     {'{"shown": 1, "raw": "ab"}': None}, ['{"shown": 1}', '{"shown": 1, "raw": "ab", "total": 1}']),
    (Options, {"type": "object", "properties": {"verbose": BOOLEAN, "level": INTEGER}, "additionalProperties": False},
     {"{}": {}, '{"level": 1.0}': {"level": 1}}, ['{"level": "1"}', '{"other": 1}', "[]"]),
    (City, {"type": "object", "properties": {"name": STRING, "size": {"anyOf": [INTEGER, NULL]}}, "required": ["name", "size"],
            "additionalProperties": False},
     {'{"name": "Rome", "size": null}': {"name": "Rome", "size": None}}, ['{"name": "Rome"}']),
    (Capital, {"type": "object", "properties": {"name": STRING, "size": {"anyOf": [INTEGER, NULL]}, "country": STRING},
               "required": ["name", "size"], "additionalProperties": False},
     {'{"name": "Rome", "size": 1}': {"name": "Rome", "size": 1}}, ['{"country": "Italy"}']),
    (Pair, {"type": "object", "properties": {"left": INTEGER, "right": {"type": "string", "default": "r"}},
            "required": ["left"], "additionalProperties": False},
     {'{"left": 1}': Pair(1), '{"left": 1, "right": "x"}': Pair(1, "x")}, ['[1, "x"]', '{"right": "x"}']),
    (Untyped, {"type": "object", "properties": {"a": {}, "b": {"default": None}}, "required": ["a"],
               "additionalProperties": False}, {'{"a": [1]}': Untyped([1])}, ["{}"]),

    (Annotated[int, "How many"], {"type": "integer", "description": "How many"}, {"1": 1}, ['"1"']),
    (Annotated[int, {"minimum": 1, "maximum": 3}, "Few"], {"type": "integer", "minimum": 1, "maximum": 3, "description": "Few"},
     {"1": 1, "3.0": 3}, ["0", "4", '"1"']),
    (List[Annotated[str, {"minLength": 1}]], {"type": "array", "items": {"type": "string", "minLength": 1}}, {'["a"]': ["a"]},
     ['[""]', "[1]"]),
    (Annotated[Any, object(), 5], {}, {"1": 1}, []),
]


def fits(schema, value):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def accepts(node, value):
    try:
        node.convert(value)
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize("annotation, schema, accepted, rejected", TABLE, ids=lambda value: str(value)[:40])
def test_each_annotation_has_a_schema_that_agrees_with_its_converter(annotation, schema, accepted, rejected):
    node, whole = compiled(annotation)
    assert json.dumps(whole) == json.dumps(schema), "also in the order of its members, which is what people see"
    check_schema(whole, what="it")
    for text, converted in accepted.items():
        value = json.loads(text)
        assert fits(whole, value), text
        result = node.convert(value)
        if converted is not None or text == "null":
            assert result == converted and type(result) is type(converted), text
    for text in rejected:
        value = json.loads(text)
        assert not fits(whole, value), text
        with pytest.raises(Mismatch):
            node.convert(value)


def test_a_dataclass_takes_the_parameters_of_its_constructor():
    made = compiled(WithInit)[0].convert({"shown": 1, "raw": "abc"})
    assert (made.shown, made.total) == (1, 6)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | Y exists at run time from 3.10 on")
def test_unions_can_be_written_with_a_bar():
    node, schema = compiled(eval_annotation("int | None"))
    assert schema == {"anyOf": [INTEGER, NULL]} and node.convert(None) is None and accepts(node, 1) and not accepts(node, "1")


def eval_annotation(text):
    return typing.get_type_hints(type("Holder", (), {"__annotations__": {"it": text}}))["it"]


@pytest.mark.skipif(not hasattr(typing, "NotRequired"), reason="they are in typing from 3.11 on")
def test_members_can_be_required_or_not_individually():
    both = TypedDict("both", {"a": typing.NotRequired[int], "b": Annotated[typing.NotRequired[str], "text"],
                              "c": typing.Required[bool]})
    node, schema = compiled(both)
    assert schema["required"] == ["c"] and schema["properties"]["b"] == {"type": "string", "description": "text"}
    assert node.convert({"c": True}) == {"c": True} and not accepts(node, {"a": 1})


def test_special_forms_of_typing_extensions_are_supported():
    extensions = pytest.importorskip("typing_extensions", reason="it is used by those who have it")
    mixed = extensions.TypedDict("mixed", {"a": extensions.NotRequired[int], "b": extensions.Annotated[str, "text"],
                                           "c": extensions.Literal["x", "y"], "d": extensions.Required[bool]})
    node, schema = compiled(mixed)
    assert schema == {"type": "object", "properties": {
        "a": INTEGER, "b": {"type": "string", "description": "text"}, "c": {"type": "string", "enum": ["x", "y"]},
        "d": BOOLEAN}, "required": ["b", "c", "d"], "additionalProperties": False}
    assert node.convert({"b": "", "c": "x", "d": True}) == {"b": "", "c": "x", "d": True}
    half = TypedDict("half", {"a": extensions.NotRequired[int], "b": str})
    assert compiled(half)[1]["required"] == ["b"]


# --- texts that stand for something -------------------------------------------------------------------

TEXTS = [
    (datetime.datetime, "date-time", {"2024-05-06T07:08:09": MOMENT, "2024-05-06 07:08:09": MOMENT,
                                      "2024-05-06T07:08:09Z": MOMENT.replace(tzinfo=UTC),
                                      "2024-05-06t07:08:09.5z": MOMENT.replace(microsecond=500000, tzinfo=UTC),
                                      "2024-05-06T07:08:09.123456789+00:00": MOMENT.replace(microsecond=123456, tzinfo=UTC),
                                      "2024-05-06": datetime.datetime(2024, 5, 6)},
     ["", "x", "2024-13-01T00:00:00", "2024-05-06T24:00:00", "20240506T070809", "2024-05-06T", "2024-05-06X07:08:09",
      "2024-05-06T07:08:09+25:00", "1715000000"]),
    (datetime.date, "date", {"2024-05-06": datetime.date(2024, 5, 6)},
     ["", "2024-5-6", "20240506", "2024-W01-1", "2024-02-30", "2024-05-06T00:00:00", "2024-05-06\n", "２０２４-05-06"]),
    (datetime.time, "time", {"07:08": datetime.time(7, 8), "07:08:09": datetime.time(7, 8, 9),
                             "07:08:09.25": datetime.time(7, 8, 9, 250000), "07:08:09Z": datetime.time(7, 8, 9, tzinfo=UTC),
                             "07:08:09+0000": datetime.time(7, 8, 9, tzinfo=UTC)},
     ["", "7:8", "25:00", "07", "070809", "07:08:09 "]),
    (datetime.timedelta, "duration", {"PT90S": datetime.timedelta(seconds=90), "P1DT2H3M": datetime.timedelta(1, 7380),
                                      "PT0.25S": datetime.timedelta(milliseconds=250), "-P1W": datetime.timedelta(-7),
                                      "PT0S": datetime.timedelta(0)},
     ["", "P", "PT", "P1DT", "1D", "P1Y", "P1M", "PT1.5H", "pt1s", "PT1S2H", "P99999999999D"]),
    (uuid.UUID, "uuid", {ID: uuid.UUID(ID), ID.upper(): uuid.UUID(ID)}, ["", "x", ID[:-1]]),
    (pathlib.Path, "path", {"": pathlib.Path(), "/a/b": pathlib.Path("/a/b")}, []),
    (pathlib.PurePosixPath, "path", {"a": pathlib.PurePosixPath("a")}, []),
    (bytes, None, {"": b"", "AAH/": b"\0\1\xff"}, ["A", "AAH", "AA H/", "AAH_", "ä"]),
]


@pytest.mark.parametrize("annotation, form, good, bad", TEXTS, ids=lambda value: getattr(value, "__name__", ""))
def test_texts_are_converted_or_refused(annotation, form, good, bad):
    node, schema = compiled(annotation)
    assert schema == ({"type": "string", "format": form} if form else {"type": "string", "contentEncoding": "base64"})
    for text, value in good.items():
        result = node.convert(text)
        assert result == value and isinstance(result, annotation) and fits(schema, text)
    for text in bad:
        with pytest.raises(Mismatch, match="is not a|is not base64"):
            node.convert(text)
    for other in (1, None, True, []):
        assert not accepts(node, other) and not fits(schema, other)


@pytest.mark.parametrize("value, number", [(1, "1"), ("1.10", "1.10"), (0.1, "0.1"), ("-3e2", "-300"), (BIG, str(BIG))])
def test_decimals_keep_their_digits(value, number):
    node, schema = compiled(decimal.Decimal)
    assert schema == {"type": ["string", "number"]} and fits(schema, value)
    assert node.convert(value) == decimal.Decimal(number)


@pytest.mark.parametrize("value", ["", "x", "NaN", "Infinity", "-inf", True, None, []])
def test_other_than_decimal_numbers_is_refused(value):
    assert not accepts(compiled(decimal.Decimal)[0], value)


# --- classes that contain themselves ------------------------------------------------------------------


def test_a_recursive_class_is_defined_once():
    node, schema = compiled(Tree)
    assert schema == {"type": "object", "$ref": "#/$defs/Tree", "$defs": {"Tree": {
        "type": "object", "properties": {"value": INTEGER, "children": {
            "type": "array", "items": {"type": "object", "$ref": "#/$defs/Tree"}, "default": []}},
        "required": ["value"], "additionalProperties": False}}}
    value = {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}
    assert fits(schema, value) and node.convert(value) == Tree(1, [Tree(2, [Tree(3)])])
    value["children"][0]["children"][0]["value"] = "3"
    assert not fits(schema, value)
    with pytest.raises(Mismatch) as caught:
        node.convert(value)
    assert caught.value.sentence("tree") == "tree.children[0].children[0].value: '3' is not an integer"


def test_classes_may_contain_each_other():
    node, schema = compiled(Husband)
    assert fits(schema, {"wife": {"husband": {"wife": None}}}) and not fits(schema, {"wife": {"husband": 1}})
    assert node.convert({"wife": {"husband": {}}}) == Husband(Wife(Husband(None)))
    assert list(schema["$defs"]) == ["Husband"]


def recursive(name, member, annotation):
    """Return a class that contains itself, or another one of the same name."""
    cls = type(name, (), {"__annotations__": {member: annotation}, member: None, "__module__": __name__})
    return dataclasses.dataclass(cls)


def test_classes_with_the_same_name_get_different_names():
    inner = recursive("Node", "b", None)
    inner.__annotations__["b"] = Optional[inner]
    outer = recursive("Node", "a", None)
    outer.__annotations__["a"] = Union[outer, inner, None]
    node, schema = compiled(outer)
    assert sorted(schema["$defs"]) == ["Node", "Node2"]
    for value, good in [({"a": {"a": None}}, True), ({"a": {"b": {"b": None}}}, True), ({"a": {"b": {"a": None}}}, False)]:
        assert fits(schema, value) is good and accepts(node, value) is good


def test_a_class_in_a_function_can_refer_to_itself():
    @dataclasses.dataclass
    class Local:
        next: "Optional[Local]" = None

    node, schema = compiled(Local)
    assert node.convert({"next": {}}) == Local(Local()) and list(schema["$defs"]) == ["Local"]


# --- members -------------------------------------------------------------------------------------------


def test_members_are_described_by_the_docstring_of_their_class():
    @dataclasses.dataclass
    class Described:
        """Something.

        Attributes:
            a: from the docstring
            b: not this one
        """

        a: int
        b: Annotated[int, "from the annotation"]
        c: int = 0

    properties = compiled(Described)[1]["properties"]
    assert [properties[name].get("description") for name in "abc"] == ["from the docstring", "from the annotation", None]


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int


def test_defaults_that_json_can_express_are_in_the_schema():
    @dataclasses.dataclass
    class Defaults:
        day: datetime.date = datetime.date(2024, 5, 6)
        items: List[int] = dataclasses.field(default_factory=list)
        made: List[int] = dataclasses.field(default_factory=lambda: [1])
        odd: Any = object()
        far: float = math.inf
        wrong: int = None
        nested: Frozen = Frozen(1)
        pair: Tuple[int, int] = (1, 2)

    properties = compiled(Defaults)[1]["properties"]
    assert {name: item["default"] for name, item in properties.items() if "default" in item} == {
        "day": "2024-05-06", "items": [], "nested": {"x": 1}, "pair": [1, 2]}


def test_errors_of_a_class_are_passed_on():
    node, schema = compiled(List[Even])
    assert node.convert([{"number": 2}]) == [Even(2)]
    with pytest.raises(Mismatch) as caught:
        node.convert([{"number": 2}, {"number": 3}])
    assert caught.value.sentence("numbers") == "numbers[1]: 3 is odd"
    with pytest.raises(Mismatch, match="-1 is not a Positive: must be positive"):
        compiled(Positive)[0].convert(-1)


def test_schemas_of_return_values_have_computed_members_and_are_open():
    _, schema = compiled(WithInit, returned=True)
    assert schema == {"type": "object", "properties": {"shown": INTEGER, "total": {"type": "integer", "default": 0}},
                      "required": ["shown"]}
    assert "additionalProperties" not in compiled(List[City], returned=True)[1]["items"]


# --- messages -----------------------------------------------------------------------------------------

MESSAGES = [
    (int, "5", "a: '5' is not an integer"),
    (int, True, "a: true is not an integer"),
    (float, None, "a: null is not a number"),
    (float, 10 ** 400, "a: the number is too large"),
    (str, 5, "a: 5 is not a string"),
    (bool, 1, "a: 1 is not true or false"),
    (None, 1, "a: 1 is not null"),
    (Optional[int], "x", "a: 'x' is not an integer"),
    (Optional[Point], {"x": "1"}, "a.x: '1' is not an integer"),
    (Union[int, str], 1.5, "a: 1.5 does not fit any of the 2 possible types"),
    (Union[Point, List[int]], {"x": "s"}, "a.x: 's' is not an integer"),
    (Literal["a", "b"], "c", "a: 'c' is not one of 'a', 'b'"),
    (Literal["a"], "c", "a: 'c' is not 'a'"),
    (Color, None, "a: null is not one of 'red', 'blue'"),
    (List[int], 5, "a: 5 is not a list"),
    (List[List[int]], [[1], [2, "3"]], "a[1][1]: '3' is not an integer"),
    (Set[int], [1, 1], "a: an item occurs more than once"),
    (Set[Any], [[]], "a: its items cannot be members of a set"),
    (Tuple[int, str], [1], "a: [1] is not a list of 2 items"),
    (Tuple[int, str], [1, 2], "a[1]: 2 is not a string"),
    (Dict[str, int], {"k": "v"}, "a.k: 'v' is not an integer"),
    (Dict[str, int], [], "a: [] is not an object"),
    (Point, {}, "a.x: is required"),
    (Point, {"x": 1, "z": 1}, "a.z: is not a member of Point"),
    (Point, "x", "a: 'x' is not an object"),
    (datetime.date, "soon", "a: 'soon' is not a date (YYYY-MM-DD)"),
    (datetime.datetime, "soon", "a: 'soon' is not a date and time (ISO 8601)"),
    (decimal.Decimal, "x", "a: 'x' is not a decimal number"),
    (bytes, "?", "a: '?' is not base64"),
    (uuid.UUID, 5, "a: 5 is not a string"),
    (Annotated[int, {"maximum": 14}], 99, "a: 99 is greater than the maximum of 14"),
    (List[Annotated[str, {"maxLength": 2}]], ["abc"], "a[0]: 'abc' is too long"),
    (int, "x" * 1000, "a: '" + "x" * 76 + "... is not an integer"),
    (int, list(range(1000)), "a: a list of 1000 is not an integer"),
    (int, {str(key): key for key in range(1000)}, "a: an object of 1000 is not an integer"),
]


@pytest.mark.parametrize("annotation, value, sentence", MESSAGES, ids=[item[2][:40] for item in MESSAGES])
def test_errors_are_one_sentence_with_the_path(annotation, value, sentence):
    with pytest.raises(Mismatch) as caught:
        compiled(annotation)[0].convert(value)
    assert caught.value.sentence("a") == sentence


def test_a_long_enumeration_is_cut():
    with pytest.raises(Mismatch) as caught:
        compiled(Literal[tuple(range(30))])[0].convert(99)
    assert caught.value.sentence() == "99 is not one of " + ", ".join(map(str, range(20))) + ", ..."


class Plain:
    pass


class Binary(enum.Enum):
    DATA = b"x"


class Nan(enum.Enum):
    NAN = math.nan


class Empty(enum.Enum):
    pass


@dataclasses.dataclass
class Lost:
    it: "NoSuchName"  # noqa: F821


@dataclasses.dataclass
class Holding:
    it: List[Plain]


REFUSED = [
    (Plain, "'arg' is of the class Plain, which has no form in JSON; make it a dataclass or TypedDict"),
    (complex, "'arg' is of the class complex, which has no form in JSON"),
    (Holding, "'arg.it' is of the class Plain"),
    (List[Plain], "'arg' is of the class Plain"),
    (Dict[Tuple[int], str], r"'arg' is a mapping with keys of typing.Tuple\[int\], but JSON's keys are strings; use keys that"),
    (Binary, "'arg' has the choice b'x', which is not a JSON value; use strings or numbers"),
    (Literal[b"x"], "'arg' has the choice b'x'"),
    (Nan, "'arg' has the choice nan"),
    (Empty, "'arg' is an enumeration without members"),
    (Lost, "'arg' is of the class Lost, which is annotated with a name that is not defined at module level.*NoSuchName"),
    ("NoSuchName", "'arg' is annotated with the name 'NoSuchName', which is not defined"),
    (5, "'arg' is annotated with 5, which has no form in JSON"),
    (typing.Callable[[], int], "'arg' is annotated with .*Callable.*, which has no form in JSON"),
    (typing.Type[int], "'arg' is annotated with typing.Type.int., which has no form in JSON"),
]


@pytest.mark.parametrize("annotation, reason", REFUSED, ids=str)
def test_types_without_a_form_in_json_are_refused_with_the_reason_and_the_fix(annotation, reason):
    with pytest.raises(RegistrationError, match=f"^tool 'it': parameter {reason}"):
        compiled(annotation)


def test_errors_name_the_returned_value():
    with pytest.raises(RegistrationError, match="^tool 'it': the returned value.it is of the class Plain"):
        Schemas("tool 'it'", returned=True).compile(Holding, "")


@pytest.mark.skipif(not hasattr(typing, "TypeAliasType"), reason="aliases are objects from 3.12 on")
def test_an_alias_without_a_module_may_contain_itself_but_not_be_itself():
    space = {}
    exec("type Nested = list[Nested]; type Looped = Looped", space)  # the syntax is not there before
    node, _ = compiled(space["Nested"])
    assert node.convert([[], [[]]]) == [[], [[]]]
    with pytest.raises(Mismatch):
        node.convert([[1]])
    with pytest.raises(RegistrationError, match="an alias that stands for itself alone"):
        compiled(space["Looped"])


# --- the binder's verdict is jsonschema's ---------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "d"])
json_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-3, 3).map(float), st.sampled_from(["", "a", "b", "red", "1", "true", "2024-05-06"]), st.text(max_size=5))
json_values = st.recursive(
    json_scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12)

#: Annotation, and values that mostly fit. None of them converts text, so that the verdicts must be equal.
plain_leaves = st.sampled_from([
    (str, st.text(max_size=5)), (int, st.integers()), (int, st.integers(-9, 9).map(float)), (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)), (float, st.integers(-9, 9)), (None, st.none()),
    (Any, json_values), (dict, st.dictionaries(names, json_scalars)), (list, st.lists(json_scalars)),
    (Color, st.sampled_from(["red", "blue", "green"])), (Level, st.sampled_from([1, 2, 1.0, 3, True])),
    (Mixed, st.sampled_from(["a", 1, None, True])), (Share, st.sampled_from([0.5, 1, 1.0])),
    (Literal["a", "b"], st.sampled_from(["a", "b", "c"])), (Literal[0, 1, False], st.sampled_from([0, 1, False, True, 0.0])),
    (Annotated[int, {"minimum": 1, "maximum": 5}], st.integers(0, 6)),
    (Annotated[int, {"multipleOf": 3}], st.integers(-9, 9) | st.integers(-9, 9).map(float)),
    (Annotated[float, {"exclusiveMinimum": 0, "exclusiveMaximum": 1}], st.floats(-1, 2)),
    (Annotated[str, {"minLength": 1, "maxLength": 3}], st.text(max_size=5)),
    (Annotated[str, {"pattern": "^[a-c]+$"}], st.text("abcd", max_size=4)),
    (Annotated[str, {"enum": ["x", "y"]}], st.sampled_from(["x", "y", "z"])),
    (Annotated[Literal["a", "b", "c"], {"enum": ["a", "b"]}], st.sampled_from(["a", "b", "c"])),
    (Annotated[List[int], {"minItems": 1, "maxItems": 3, "uniqueItems": True}], st.lists(st.integers(0, 3), max_size=4)),
    (Annotated[List[int], {"items": {"minimum": 1}}], st.lists(st.integers(0, 2), max_size=3)),
    (Annotated[List[int], {"contains": {"const": 1}}], st.lists(st.integers(0, 2), max_size=3)),
    (Annotated[Dict[str, int], {"properties": {"a": {"minimum": 1}}, "required": ["a"]}],
     st.dictionaries(names, st.integers(0, 2))),
    (Annotated[Dict[str, int], {"minProperties": 1, "propertyNames": {"enum": ["a", "b"]}}],
     st.dictionaries(names, st.integers(0, 2), max_size=2)),
    (Annotated[Point, {"additionalProperties": True, "properties": {"x": {"maximum": 2}}}],
     st.fixed_dictionaries({"x": st.integers(0, 3)}, optional={"y": st.integers(), "z": st.integers()})),
    (Annotated[Any, {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}],
     st.lists(st.integers(), max_size=2)),
    (Annotated[Tuple[int, int], {"items": {"maximum": 1}}], st.lists(st.integers(0, 2), min_size=2, max_size=2)),
    (Annotated[Annotated[int, {"minimum": 1}], {"minimum": 3}, {"not": {"const": 4}}], st.integers(0, 6)),
    (Set[int], st.lists(st.integers(0, 5), max_size=4)), (Set[Union[int, float]], st.lists(st.sampled_from([0, 0.0, 1]))),
    (FrozenSet[str], st.lists(st.sampled_from("abc"), max_size=3)), (Tree, st.deferred(lambda: tree_values)),
    (Point, st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.integers()})),
    (Options, st.fixed_dictionaries({}, optional={"verbose": st.booleans(), "level": st.integers()})),
])
tree_values = st.fixed_dictionaries({"value": st.integers(0, 3) | json_scalars},
                                    optional={"children": st.lists(st.deferred(lambda: tree_values), max_size=2)})


KINDS = ["list", "sequence", "tuple", "tuples", "dict", "optional", "dataclass", "typed", "named", "annotated"]


def union_of(annotations):
    try:
        return Union[tuple(annotations)]
    except TypeError:
        return annotations[0]  # before 3.13 no union can hold Annotated with a dict, which has no hash


@st.composite
def containers(draw, parts, kinds):
    """Return an annotation made of others, with values that mostly fit it."""
    kind = draw(st.sampled_from(kinds))
    count = draw(st.integers(1, 3))
    chosen = [draw(parts) for _ in range(count)]
    (first, values), annotations = chosen[0], [annotation for annotation, _ in chosen]
    keys = ["a", "b", "c"][:count]
    members = {key: inner for key, (_, inner) in zip(keys, chosen)}
    if kind == "list":
        return List[first], st.lists(values, max_size=3)
    if kind == "sequence":
        return Sequence[first], st.lists(values, max_size=3)
    if kind == "tuple":
        return Tuple[tuple(annotations)], st.tuples(*(inner for _, inner in chosen)).map(list)
    if kind == "tuples":
        return Tuple[first, ...], st.lists(values, max_size=3)
    if kind == "dict":
        return Dict[str, first], st.dictionaries(names, values, max_size=3)
    if kind == "optional":
        return union_of([first, None]), values | st.none()
    if kind == "union":
        return union_of(annotations), st.one_of(*(inner for _, inner in chosen))
    if kind == "annotated":
        return Annotated[first, "described", {"title": "T", "x-more": 1}], values
    if kind == "named":
        return NamedTuple("Named", list(zip(keys, annotations))), st.fixed_dictionaries(members)
    if kind == "typed":
        total = draw(st.booleans())
        given = st.fixed_dictionaries(members) if total else st.fixed_dictionaries({}, optional=members)
        return TypedDict("Typed", dict(zip(keys, annotations)), total=total), given
    optional = draw(st.booleans())
    fields = [(key, annotation, dataclasses.field(default=None)) if optional else (key, annotation)
              for key, annotation in zip(keys, annotations)]
    return dataclasses.make_dataclass("Data", fields), st.fixed_dictionaries(
        {} if optional else members, optional=members if optional else None)


@st.composite
def with_value(draw, leaves, kinds):
    annotation, values = draw(st.recursive(leaves, lambda parts: containers(parts, kinds), max_leaves=6))
    value = draw(values | json_values)
    if isinstance(value, dict) and draw(st.integers(0, 5)) == 0:
        value = {**value, draw(names): draw(json_scalars)}
    if isinstance(value, dict) and value and draw(st.integers(0, 5)) == 0:
        value = {key: item for key, item in value.items() if key != draw(st.sampled_from(sorted(value)))}
    return annotation, value


def as_json(value):
    return json.loads(json.dumps(value))


@given(with_value(plain_leaves, KINDS + ["union"]))
@settings(max_examples=150, deadline=None)
def test_the_converter_accepts_what_jsonschema_accepts(given_pair):
    annotation, value = given_pair
    node, schema = compiled(annotation)
    try:
        node.convert(value)
        verdict = True
    except Mismatch as error:
        verdict = False
        if str(error) == "the number is too large":
            return
    assert verdict == fits(schema, as_json(value)), schema


class FakeContext:
    __mcplite_context__ = True


@st.composite
def with_arguments(draw):
    """Return a function, and arguments that mostly fit it."""
    kind, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    chosen = [draw(plain_leaves | containers(plain_leaves, KINDS)) for _ in range(draw(st.integers(0, 3)))]
    parameters, arguments = [], {}
    for name, (annotation, values) in zip("abc", chosen):
        parameters.append(inspect.Parameter(name, kind, annotation=annotation, default=draw(st.sampled_from([empty, None]))))
        if draw(st.integers(0, 5)):
            arguments[name] = draw(values | json_scalars)
    if draw(st.booleans()):
        parameters.append(inspect.Parameter("d", kind, annotation=FakeContext))
    if draw(st.booleans()):
        parameters.append(inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD, annotation=draw(plain_leaves)[0]))
    if draw(st.integers(0, 3)) == 0:
        arguments.update(draw(st.dictionaries(names | st.just("rest"), json_scalars, max_size=2)))

    def it(**arguments):
        return arguments

    it.__signature__ = inspect.Signature(parameters)
    return it, arguments


@given(with_arguments())
@settings(max_examples=150, deadline=None)
def test_arguments_are_bound_when_jsonschema_accepts_them(given_pair):
    function, arguments = given_pair
    compiled = compile_function(function)
    check_schema(compiled.input_schema, what="it")
    verdict = fits(compiled.input_schema, as_json(arguments))
    try:
        bound = compiled.bind(arguments)
    except BadArguments as error:
        assert not verdict or error.problems == ["the number is too large"], (compiled.input_schema, error.problems)
    else:
        assert verdict and bound.keys() == arguments.keys(), compiled.input_schema


# --- flags, keys, aliases, generic classes, tags ------------------------------------------------------


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 8


class Mode(enum.IntFlag):
    NONE = 0
    A = 1
    B = 2
    AB = 3


def test_flags_are_sums():
    node, schema = compiled(Access)
    assert schema == {"type": "integer", "minimum": 0, "maximum": 11, "description": "A sum of 1 (READ), 2 (WRITE), 8 (RUN)"}
    assert [node.convert(value) for value in (0, 1, 3, 11, 9.0)] == [
        Access(0), Access.READ, Access.READ | Access.WRITE, Access(11), Access.READ | Access.RUN]
    assert compiled(Mode)[0].convert(3) is Mode.AB


@pytest.mark.parametrize("value", [4, 16, -1, 1.5, "READ", True, None, [1]])
def test_other_values_are_no_flags(value):
    with pytest.raises(Mismatch):
        compiled(Access)[0].convert(value)


def test_the_texts_of_an_author_stand_before_those_of_flags():
    assert compiled(Annotated[Access, "Who may."])[1]["description"] == "Who may. (A sum of 1 (READ), 2 (WRITE), 8 (RUN))"

    def it(access: Access = Access.READ | Access.WRITE):
        """Do it.

        Args:
            access: Who may.
        """

    described = compile_function(it).input_schema["properties"]["access"]
    assert (described["default"], described["description"]) == (3, "Who may. (A sum of 1 (READ), 2 (WRITE), 8 (RUN))")


def test_flags_without_members_are_refused():
    with pytest.raises(RegistrationError, match="flags Empty, which have no members"):
        compiled(enum.Flag("Empty", []))


@pytest.mark.parametrize("annotation, given, made", [
    (Dict[int, str], {"1": "x", "-2": "y"}, {1: "x", -2: "y"}), (Dict[float, int], {"0.5": 1, "1": 2}, {0.5: 1, 1.0: 2}),
    (Dict[bool, int], {"true": 1}, {True: 1}), (Dict[None, int], {"null": 1}, {None: 1}),
    (Dict[Color, int], {"red": 1}, {Color.RED: 1}), (Dict[Level, int], {"2": 1}, {Level.HIGH: 1}),
    (Dict[Mixed, int], {"a": 1, "1": 2}, {Mixed.TEXT: 1, Mixed.NUMBER: 2}), (Dict[uuid.UUID, int], {ID: 1}, {uuid.UUID(ID): 1}),
    (Dict[Access, int], {"3": 1}, {Access.READ | Access.WRITE: 1}),
    (Dict[Optional[int], int], {"1": 1, "null": 2}, {1: 1, None: 2}), (Dict[Union[int, str], int], {"1": 1}, {"1": 1}),
    (Dict[Annotated[str, {"pattern": "^a"}], int], {"ab": 1}, {"ab": 1}),
    (Dict[str, Dict[int, int]], {"a": {"1": 2}}, {"a": {1: 2}}),
    (Dict[decimal.Decimal, int], {"1.5": 1}, {decimal.Decimal("1.5"): 1}), (Dict[Any, int], {"1": 1}, {"1": 1}),
])
def test_keys_are_converted(annotation, given, made):
    converted = compiled(annotation)[0].convert(given)
    assert converted == made and list(map(type, converted)) == list(map(type, made))


@pytest.mark.parametrize("annotation, given, reason", [
    (Dict[int, str], {"a": "x"}, "its key 'a' is not an integer"),
    (Dict[int, str], {"01": "x"}, "its key '01' is not an integer"),
    (Dict[int, str], {"1": "x", "1.0": "y"}, "two of its keys mean one and the same value"),
    (Dict[int, str], {"": "x"}, "its key"), (Dict[Level, int], {"3": 1}, "its key 3 is not one of 1, 2"),
    (Dict[uuid.UUID, int], {"x": 1}, "its key 'x' is not a UUID"),
    (Dict[Annotated[str, {"pattern": "^a"}], int], {"b": 1}, "its key 'b' does not match"),
    (Dict[bool, int], {"1": 1}, "its key 1"),
])
def test_keys_that_do_not_fit_are_refused(annotation, given, reason):
    with pytest.raises(Mismatch, match=f"^{reason}"):
        compiled(annotation)[0].convert(given)


T = TypeVar("T")
Json = Union[None, bool, int, float, str, List["Json"], Dict[str, "Json"]]
First, Second = List["Second"], Union[int, "First"]


def aliases():
    made = TypeAliasType("Twigs", Union[int, List["Twigs"]])
    nested = TypeAliasType("Nested", Union[T, List["Nested[T]"]], type_params=(T,))
    pairs = TypeAliasType("Pairs", List[Tuple[T, T]], type_params=(T,))
    alone = TypeAliasType("Alone", "Alone")
    return made, nested, pairs, alone


Twigs, Nested, Pairs, Alone = aliases()


@pytest.mark.parametrize("annotation, good, bad", [
    (Json, [1, [2, {"a": None}]], None), (Dict[str, Json], {"a": [{"b": 1.5}]}, [1]), (First, [1, [2]], ["x"]),
    (Twigs, [1, [2, [3]]], [1, ["x"]]), (Dict[str, Twigs], {"a": [1]}, {"a": "x"}), (Nested[int], [1, [2]], [1, ["x"]]),
    (Nested[str], ["a", ["b"]], ["a", [1]]), (Optional[Nested[int]], None, "x"),
])
def test_aliases_that_contain_themselves(annotation, good, bad):
    schemas = Schemas("tool 'it'", owner=aliases)
    node = schemas.compile(annotation, "arg")
    assert node.convert(good) == good
    check_schema({**node.schema, "$defs": schemas.definitions}, what="it")
    jsonschema.Draft202012Validator({**node.schema, "$defs": schemas.definitions}).validate(good)
    if bad is not None:
        with pytest.raises(Mismatch):
            node.convert(bad)


def test_other_aliases():
    assert compiled(Pairs[int])[0].convert([[1, 2]]) == [(1, 2)]
    with pytest.raises(RegistrationError, match="'arg' is annotated with an alias that stands for itself alone"):
        compiled(Alone)


def test_json_of_pydantic_is_any_json():
    pydantic = pytest.importorskip("pydantic", minversion="2.5")
    node, schema = compiled(Dict[str, pydantic.JsonValue])
    assert schema == {"type": "object"} and node.convert({"a": [1, None]}) == {"a": [1, None]}


@dataclasses.dataclass
class Box(Generic[T]):
    value: T


@dataclasses.dataclass
class IntBox(Box[int]):
    pass


@dataclasses.dataclass
class Labelled(Box[int], Generic[T]):
    label: T


@dataclasses.dataclass
class Deep(Labelled[str]):
    more: bool = False


@dataclasses.dataclass
class ListBox(Box[List[T]]):
    pass


@pytest.mark.parametrize("annotation, properties", [
    (IntBox, {"value": INTEGER}), (Box[str], {"value": STRING}), (Box, {"value": {}}),
    (Labelled[str], {"value": INTEGER, "label": STRING}),
    (Deep, {"value": INTEGER, "label": STRING, "more": {**BOOLEAN, "default": False}}),
    (ListBox[int], {"value": {"type": "array", "items": INTEGER}}),
])
def test_generic_classes_have_their_parameters_filled_in(annotation, properties):
    assert compiled(annotation)[1]["properties"] == properties


@dataclasses.dataclass
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclasses.dataclass
class Square:
    side: float
    kind: Literal["square", "box"]
    size: Literal["s", "m"] = "s"


class Group(TypedDict):
    kind: Literal["group"]
    parts: List["Shape"]
    size: Literal["s", "m"]


Shape = Union[Circle, Square, Group]


@pytest.mark.parametrize("value, message", [
    ({"kind": "circle", "radius": "x"}, "a.radius: 'x' is not a number"), ({"kind": "box"}, "a.side: is required"),
    ({"kind": "square", "side": 1, "radius": 1}, "a.radius: is not a member of Square"),
    ({"kind": "square", "side": 1, "size": "x"}, "a.size: 'x' is not one of 's', 'm'"),
    ({"kind": "line"}, "a.kind: 'line' is not one of 'circle', 'square', 'box', 'group'"),
    ({"kind": None}, "a.kind: null is not one of 'circle', 'square', 'box', 'group'"),
    ({"kind": "group", "size": "s", "parts": [{"kind": "circle", "radius": None}]}, "a.parts[0].radius: null is not a number"),
    (5, "a: 5 does not fit any of the 3 possible types"),
])
def test_errors_speak_of_the_class_whose_tag_fits(value, message):
    with pytest.raises(Mismatch) as caught:
        compiled(Shape)[0].convert(value)
    assert caught.value.sentence("a") == message


def test_a_missing_tag_is_named():
    with pytest.raises(Mismatch) as caught:
        compiled(Union[Square, Group])[0].convert({"side": 1})
    assert caught.value.sentence("a") == "a.kind: is required; it is one of 'square', 'box', 'group'"
