"""Members of classes, in a module whose annotations are all strings; test_schemas has their schemas."""

from __future__ import annotations

import collections
import dataclasses
import typing
from typing import Annotated, Any, ClassVar, Generic, List, NamedTuple, Optional, TypedDict, TypeVar

import pytest

from mcplite.server.functions.class_fields import NOTHING, Unresolved, members, resolve, type_arguments


@dataclasses.dataclass
class Base:
    first: int
    kind: ClassVar[str] = "base"


@dataclasses.dataclass
class Data(Base):
    second: Optional[List[Data]] = None
    third: dict = dataclasses.field(default_factory=dict)
    fourth: set = dataclasses.field(default_factory=set)
    computed: int = dataclasses.field(init=False, default=1)


class Options(TypedDict, total=False):
    a: int


class More(Options):
    b: Annotated[str, "text"]


class Pair(NamedTuple):
    left: Data
    right: str = "r"


class Nested:
    class Inner:
        pass

    @dataclasses.dataclass
    class Data:
        x: Nested.Inner


def names(found):
    return [(item.name, item.annotation, item.required, item.default) for item in found]


def test_a_dataclass_has_its_own_and_inherited_fields():
    assert names(members(Data)) == [
        ("first", int, True, NOTHING), ("second", Optional[List[Data]], False, None), ("third", dict, False, {}),
        ("fourth", set, False, NOTHING)]
    assert [item.name for item in members(Data, returned=True)] == ["first", "second", "third", "fourth", "computed"]


def test_a_typed_dict_has_required_and_optional_members():
    assert names(members(Options)) == [("a", int, False, NOTHING)]
    assert names(members(More)) == [("a", int, False, NOTHING), ("b", Annotated[str, "text"], True, NOTHING)]


@pytest.mark.skipif(not hasattr(typing, "NotRequired"), reason="it is in typing from 3.11 on")
def test_not_required_is_found_in_string_annotations():
    made = TypedDict("made", {"a": "typing.NotRequired[int]", "b": "Annotated[typing.NotRequired[int], 'text']", "c": "int"})
    assert [(item.name, item.required) for item in members(made)] == [("a", False), ("b", False), ("c", True)]


def test_a_named_tuple_has_its_fields():
    assert names(members(Pair)) == [("left", Data, True, NOTHING), ("right", str, False, "r")]
    assert names(members(collections.namedtuple("Bare", "a b", defaults=[1]))) == [
        ("a", Any, True, NOTHING), ("b", Any, False, 1)]


@pytest.mark.parametrize("cls", [int, dict, tuple, Nested, Exception])
def test_other_classes_have_no_members(cls):
    assert members(cls) is None


def test_names_are_resolved_in_the_module():
    assert names(members(Nested.Data)) == [("x", Nested.Inner, True, NOTHING)]


def local_classes():
    @dataclasses.dataclass
    class Sibling:
        x: int

    @dataclasses.dataclass
    class Local:
        x: Sibling
        y: Local

    assert names(members(Local)) == [("x", Sibling, True, NOTHING), ("y", Local, True, NOTHING)]
    return Local


def test_names_are_found_in_the_functions_that_run_around_a_class():
    with pytest.raises(Unresolved, match="a name that is not defined at module level .*'Sibling'.*; define it there"):
        members(local_classes())


def test_names_are_found_in_the_closure_of_a_function():
    def made():
        @dataclasses.dataclass
        class Kept:
            x: int

        def function(kept: Kept, other: List[Kept]) -> object:
            return Kept(kept.x)

        return function, Kept

    function, kept = made()
    assert resolve("Kept", function) is kept and resolve("List[Kept]", function) == List[kept]
    with pytest.raises(Unresolved, match="'NoSuchName'"):
        resolve("NoSuchName", function)


T = TypeVar("T")


class Box(Generic[T]):
    value: T


class Whole(Box[int]):
    more: str


class Both(Box[List[T]], Generic[T]):
    other: T


@pytest.mark.parametrize("annotation, expected", [
    (Box, {"value": {}}), (Box[str], {"value": {T: str}}), (Whole, {"more": {}, "value": {T: int}}),
    (Both[str], {"other": {T: str}, "value": {T: List[str]}}), (int, {}),
])
def test_type_arguments_are_those_of_the_class_that_has_the_member(annotation, expected):
    assert type_arguments(annotation) == expected
