"""Arguments of prompts and variables of templates arrive as text (PRMT-17)."""

import dataclasses
import datetime
import enum
from typing import Any, Dict, List, Literal, Optional, Set, Tuple, Union

import pytest

from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.function import textual
from mcplite.server.functions.schemas import Schemas


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Tree:
    value: int
    children: "List[Tree]" = dataclasses.field(default_factory=list)


def read(annotation, value):
    return textual(Schemas("prompt 'it'").compile(annotation, "a")).convert(value)


@pytest.mark.parametrize("annotation, text, value", [
    (str, "5", "5"), (str, " x ", " x "), (str, "", ""), (int, "5", 5), (int, " -5 ", -5), (int, "5.0", 5), (float, "5", 5.0),
    (float, "1e3", 1000.0), (bool, "true", True), (bool, "True", True), (bool, "no", False), (bool, "0", False),
    (bool, " YES ", True), (Optional[bool], "yes", True), (Optional[bool], "null", None),
    (Optional[int], "5", 5), (Optional[int], "null", None), (Optional[str], "null", "null"), (Union[int, str], "5", "5"),
    (Union[int, bool], "1", 1), (Union[int, bool], "true", True),
    (Any, "5", "5"), (Literal["a", "b"], "a", "a"), (Literal[1, 2], "2", 2), (Literal["a", 1], "a", "a"),
    (Color, "red", Color.RED), (Level, "1", Level.LOW), (datetime.date, "2024-05-06", datetime.date(2024, 5, 6)),
    (List[int], "[1, 2]", [1, 2]), (List[int], ["1", "2"], [1, 2]), (List[str], ["1", "2"], ["1", "2"]),
    (List[str], '["1"]', ["1"]), (List[bool], ["yes", "0"], [True, False]), (List[Any], ["1"], ["1"]),
    (Set[int], ["1", "2"], {1, 2}), (Tuple[int, int], "[1, 2]", (1, 2)), (Dict[str, int], '{"a": 1}', {"a": 1}),
    (Tree, '{"value": 1, "children": [{"value": 2}]}', Tree(1, [Tree(2)])), (Optional[Tree], "null", None),
    (int, 5, 5),
])
def test_text_is_converted_to_the_annotated_type(annotation, text, value):
    result = read(annotation, text)
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize("annotation, text, reason", [
    (int, "five", "'five' is not an integer"), (int, "", "'' is not an integer"), (int, "5.5", "5.5 is not an integer"),
    (int, "true", "true is not an integer"), (int, "007", "'007' is not an integer"), (int, "9" * 9999, "is not an integer"),
    (float, "NaN", "'NaN' is not a number"), (float, "Infinity", "'Infinity' is not a number"),
    (float, "1e999", "'1e999' is not"), (float, "1,5", "'1,5' is not a number"), (float, "\ud800", "is not a number"),
    (bool, "maybe", "'maybe' is not true or false"), (bool, "null", "null is not true or false"),
    (Literal[1, 2], "3", "3 is not one of 1, 2"), (Color, "blue", "'blue' is not 'red'"), (List[int], "1", "1 is not a list"),
    (List[int], ["1", "x"], "'x' is not an integer"), (List[int], "[" * 5000, "is not a list"),
    (Dict[str, int], '{"a": 1, "a": 2}', "is not an object"), (datetime.date, "today", "'today' is not a date"),
    (Optional[int], "x", "'x' is not an integer"),
])
def test_text_that_does_not_fit_is_refused(annotation, text, reason):
    with pytest.raises(Mismatch) as caught:
        read(annotation, text)
    assert reason in caught.value.message
