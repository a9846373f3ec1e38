"""attrs: classes as parameters and results, with the constraints of their validators."""

import datetime
from typing import Any, Generic, List, Optional, TypeVar

import pytest

from mcplite.server.functions.function import BadArguments, compile_function
from mcplite.server.functions.results import tool_result
from tests.support.agreement import agree, compiled

attrs = pytest.importorskip("attrs", reason="it is used by those who have it")
validators = attrs.validators
T = TypeVar("T")


def upper(text: str) -> str:
    return text.upper()


def from_parts(parts: List[int]) -> datetime.date:
    return datetime.date(*parts)


@attrs.define
class Person:
    """A person.

    Attributes:
        name: Full name.
    """

    name: str = attrs.field(validator=[validators.min_len(1), validators.max_len(9)])
    age: int = attrs.field(default=3, validator=validators.and_(validators.ge(0), validators.lt(150)))
    size: Optional[float] = attrs.field(default=None, validator=validators.optional(validators.gt(0)))
    kind: str = attrs.field(default="a", validator=validators.in_(["a", "b"]))
    code: str = attrs.field(default="A", converter=upper, validator=validators.matches_re("[A-Z]"))
    born: Optional[datetime.date] = None
    tags: List[str] = attrs.field(factory=list, validator=validators.max_len(2))
    _secret: int = 7
    total: int = attrs.field(init=False, default=9)


@attrs.define
class Tree:
    value: int
    children: List["Tree"] = attrs.Factory(list)


@attrs.frozen
class Box(Generic[T]):
    item: T
    more: List[T] = attrs.Factory(list)


@attrs.define
class Even:
    number: int = attrs.field()

    @number.validator
    def check(self, attribute, value):
        if value % 2:
            raise ValueError(f"{value} is odd")


@attrs.define
class Day:
    date: datetime.date = attrs.field(converter=from_parts)


@attrs.define
class Known:
    name: str = attrs.field(validator=validators.instance_of(str))
    kind: Any = attrs.field(default="a", validator=validators.in_([None, "a"]))


@pytest.mark.parametrize("annotation, accepted, rejected, unconvertible", [
    (Person, {'{"name": "Ann"}': Person("Ann"),
              '{"name": "A", "age": 4.0, "size": 1, "code": "B", "born": "2024-05-06", "tags": ["t"], "secret": 8}':
              Person("A", 4, 1.0, "a", "B", datetime.date(2024, 5, 6), ["t"], 8)},
     ["{}", '{"name": ""}', '{"name": "A", "age": "4"}', '{"name": "A", "age": 150}', '{"name": "A", "size": 0}',
      '{"name": "A", "kind": "c"}', '{"name": "A", "tags": ["a", "b", "c"]}', '{"name": "A", "total": 1}',
      '{"name": "A", "_secret": 1}', "null", '["A"]'], ['{"name": "A", "born": "soon"}']),
    (Optional[Person], {"null": None}, ["1"], []),
    (Tree, {'{"value": 1, "children": [{"value": 2}]}': Tree(1, [Tree(2)])}, ['{"value": 1, "children": [{}]}'], []),
    (Box[int], {'{"item": 1, "more": [2]}': Box(1, [2])}, ['{"item": "1"}', '{"item": 1, "more": ["2"]}'], []),
    (Box[List[Even]], {'{"item": [{"number": 2}]}': Box([Even(2)])}, ['{"item": 1}'], ['{"item": [{"number": 1}]}']),
    (Day, {'{"date": [2024, 5, 6]}': Day([2024, 5, 6])}, ['{"date": "2024-05-06"}'], ['{"date": [2024, 13, 1]}']),
    (Known, {'{"name": "a"}': Known("a")}, ["{}"], ['{"name": "a", "kind": "b"}']),
], ids=lambda value: str(value)[:40])
def test_the_binder_agrees_with_the_schema(annotation, accepted, rejected, unconvertible):
    agree(annotation, accepted, rejected, unconvertible)


def test_validators_are_keywords_of_the_schema():
    properties = compiled(Person)[1]["properties"]
    assert list(properties) == ["name", "age", "size", "kind", "code", "born", "tags", "secret"]
    assert properties["name"] == {"type": "string", "minLength": 1, "maxLength": 9, "description": "Full name."}
    assert properties["age"] == {"type": "integer", "minimum": 0, "exclusiveMaximum": 150, "default": 3}
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}, "maxItems": 2, "default": []}
    # The pattern is of the converted text; what comes in is converted first.
    assert properties["code"] == {"type": "string", "default": "A"}
    assert compiled(Person)[0].convert({"name": "A", "code": "b"}).code == "B"


def test_the_text_of_a_validator_is_the_error():
    def it(even: Even, known: Known) -> None: ...

    with pytest.raises(BadArguments) as caught:
        compile_function(it).bind({"even": {"number": 1}, "known": {"name": "n", "kind": "b"}})
    assert caught.value.problems == ["even: 1 is odd", "known: 'kind' must be in [None, 'a'] (got 'b')"]


def test_an_object_is_a_structured_result_by_the_names_of_its_constructor():
    def it() -> Person:
        return Person("Ann", born=datetime.date(2024, 5, 6))

    function = compile_function(it)
    assert tool_result(it(), function).structured_content == {
        "name": "Ann", "age": 3, "size": None, "kind": "a", "code": "A", "born": "2024-05-06", "tags": [], "secret": 7,
        "total": 9}
    assert function.output.schema["properties"]["total"] == {"type": "integer", "default": 9}

    def box() -> Box[int]:
        return Box(1)

    function = compile_function(box)
    assert function.output.schema["properties"]["item"] == {"type": "integer"}
    assert tool_result(Box(1), function).structured_content == {"item": 1, "more": []}


def test_the_older_spelling_is_known():
    import attr

    @attr.s
    class Old:
        a = attr.ib(type=int)
        b = attr.ib(default=attr.Factory(dict))

    node, schema = compiled(Old)
    assert schema["properties"] == {"a": {"type": "integer"}, "b": {"default": {}}} and schema["required"] == ["a"]
    assert node.convert({"a": 1}) == Old(1)


def test_a_default_that_is_an_object_is_in_the_schema():
    def it(box: Box[int] = Box(1)) -> None: ...  # noqa: B008

    assert compile_function(it).input_schema["properties"]["box"]["default"] == {"item": 1, "more": []}
