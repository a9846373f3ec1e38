"""Members of classes, in a module whose annotations are all strings; test_schemas has their schemas."""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, List, TypedDict

import pytest

from mcplite.server.functions.class_fields import NOTHING, Unresolved, members, resolve


class Nested:
    class Inner:
        pass

    @dataclasses.dataclass
    class Data:
        x: Nested.Inner


def names(found):
    return [(item.name, item.annotation, item.required, item.default) for item in found]


@pytest.mark.skipif(not hasattr(typing, "NotRequired"), reason="it is in typing from 3.11 on")
def test_not_required_is_found_in_string_annotations():
    made = TypedDict("made", {"a": "typing.NotRequired[int]", "b": "Annotated[typing.NotRequired[int], 'text']", "c": "int"})
    assert [(item.name, item.required) for item in members(made)] == [("a", False), ("b", False), ("c", True)]


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
