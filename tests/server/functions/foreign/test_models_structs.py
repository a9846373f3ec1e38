"""msgspec: structs as parameters and results."""

import datetime
from typing import Annotated, Any, Dict, Generic, List, Optional, TypeVar, Union

import pytest

from mcplite.errors import RegistrationError
from mcplite.server.functions.function import BadArguments, compile_function
from mcplite.server.functions.results import tool_result
from tests.support.agreement import agree, compiled

msgspec = pytest.importorskip("msgspec", reason="it is used by those who have it")
T = TypeVar("T")


class Person(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first_name: Annotated[str, msgspec.Meta(min_length=1, description="Given name")]
    age: Annotated[int, msgspec.Meta(ge=0)] = 3
    born: Optional[datetime.date] = None
    scores: List[float] = []


class Tree(msgspec.Struct):
    value: int
    children: List["Tree"] = []


class Get(msgspec.Struct, tag="get"):
    key: str


class Put(msgspec.Struct, tag="put"):
    key: str
    value: Any = None


class Pair(msgspec.Struct, array_like=True):
    left: int
    right: str


class Box(msgspec.Struct, Generic[T]):
    item: T


class Even(msgspec.Struct):
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


@pytest.mark.parametrize("annotation, accepted, rejected, unconvertible", [
    (Person, {'{"firstName": "Ann"}': Person("Ann"), '{"firstName": "A", "age": 4.0, "scores": [1, 2.5], "born": "2024-05-06"}':
              Person("A", 4, datetime.date(2024, 5, 6), [1.0, 2.5])},
     ["{}", '{"firstName": ""}', '{"firstName": "A", "age": "4"}', '{"firstName": "A", "age": -1}',
      '{"firstName": "A", "x": 1}', "null", "[]"], ['{"firstName": "A", "born": "soon"}']),
    (Optional[Person], {"null": None}, ["1"], []),
    (List[Get], {'[{"type": "get", "key": "k"}]': [Get("k")]}, ['[{"type": "put", "key": "k"}]', "{}"], []),
    (Dict[str, Even], {'{"a": {"number": 2}}': {"a": Even(2)}}, ['{"a": {}}'], ['{"a": {"number": 1}}']),
    (Union[Get, Put], {'{"type": "put", "key": "k", "value": [2.0]}': Put("k", [2.0])}, ['{"type": "del"}', '{"type": "put"}'],
     []),
    (Union[Get, Put, None], {"null": None, '{"type": "get", "key": "k"}': Get("k")}, ["1"], []),
    (Tree, {'{"value": 1, "children": [{"value": 2}]}': Tree(1, [Tree(2)])}, ['{"value": 1, "children": [{}]}'], []),
    (Pair, {'[1, "a"]': Pair(1, "a")}, ['["a", 1]', "{}"], []),
    (Box[int], {'{"item": 1}': Box(1)}, ['{"item": "1"}'], []),
], ids=lambda value: str(value)[:40])
def test_the_binder_agrees_with_the_schema(annotation, accepted, rejected, unconvertible):
    agree(annotation, accepted, rejected, unconvertible)


def test_the_schema_has_the_names_and_the_tags_of_json():
    assert compiled(Person)[1] == {
        "type": "object", "additionalProperties": False, "required": ["firstName"], "properties": {
            "firstName": {"type": "string", "minLength": 1, "description": "Given name"},
            "age": {"type": "integer", "minimum": 0, "default": 3},
            "born": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "scores": {"type": "array", "items": {"type": "number"}, "default": []}}}
    assert compiled(Get)[1]["properties"]["type"] == {"enum": ["get"]}
    assert compiled(Tree)[1]["$ref"] == "#/$defs/Tree"


def test_errors_have_the_place():
    def it(person: Person, tree: Tree) -> None: ...

    given = {"person": {"firstName": "A", "age": "3"}, "tree": {"value": 1, "children": [{"value": "x"}]}}
    with pytest.raises(BadArguments) as caught:
        compile_function(it).bind(given)
    assert caught.value.problems == ["person.age: Expected `int`, got `str`",
                                     "tree.children[0].value: Expected `int`, got `str`"]


def test_a_struct_is_a_structured_result():
    def it() -> Person:
        return Person("Ann", born=datetime.date(2024, 5, 6))

    function = compile_function(it)
    assert tool_result(it(), function).structured_content == {"firstName": "Ann", "age": 3, "born": "2024-05-06", "scores": []}

    def several() -> List[Get]:
        return [Get("k")]

    assert tool_result(several(), compile_function(several)).structured_content == {"result": [{"type": "get", "key": "k"}]}
    with pytest.raises(ValueError, match="nan is not a JSON number"):
        tool_result(Person("Ann", scores=[float("nan")]), function)


def test_a_struct_of_what_msgspec_does_not_know_is_refused():
    class Bad(msgspec.Struct):
        thing: type(lambda: 0)

    def it(bad): ...

    it.__annotations__["bad"] = Bad
    with pytest.raises(RegistrationError, match="^tool 'it': parameter 'bad' .* msgspec makes no JSON Schema .*; change"):
        compile_function(it)


def test_an_unsafe_pattern_is_bounded_and_reported(caplog):
    class Word(msgspec.Struct):
        text: Annotated[str, msgspec.Meta(pattern="^(a+)+$")]

    def it(word): ...

    it.__annotations__["word"] = Word
    function = compile_function(it)
    assert "could be matched for hours" in caplog.text
    with pytest.raises(BadArguments, match="is not matched against"):
        function.bind({"word": {"text": "a" * 40 + "b"}})
