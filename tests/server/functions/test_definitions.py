import collections
import datetime
import decimal
import fractions
import math
import pathlib
import uuid

import pytest

from mcplite.errors import RegistrationError
from mcplite.protocol.jsonable import as_text
from mcplite.server.functions.definitions import definition_json, definition_text
from tests.support.odd_values import Color, Level, Loud, Name


class Lazy:
    """As lazy translations are: no string, with a text of its own."""

    def __init__(self, text="lazy"):
        self.text = text

    def __str__(self):
        return self.text


class LikeAString(Lazy):
    """As those that pass on all methods of the string."""

    def __iter__(self):
        return iter(self.text)

    def __len__(self):
        return len(self.text)

    def __getattr__(self, name):
        return getattr(self.text, name)


class Disguised(Lazy):
    """As a proxy that says that it is a string."""

    __class__ = str


@pytest.mark.parametrize("value, text", [
    ("a", "a"), (Loud("a"), "a"), (Lazy(), "lazy"), (LikeAString(), "lazy"), (Disguised(), "lazy"), (Name.A, "a"),
    (Color.RED, "red"), (collections.UserString("u"), "u"), ("", ""),
], ids=lambda value: type(value).__name__)
def test_texts_and_what_stands_for_them(value, text):
    assert as_text(value) == text and type(as_text(value)) is str
    assert definition_text(value, "tool 'a'", "title") == text
    assert definition_json({"a": [value]}) == {"a": [text]}


@pytest.mark.parametrize("value", [
    5, 1.5, True, 1j, b"a", bytearray(b"a"), [], {}, (), {1}, range(3), decimal.Decimal(1), fractions.Fraction(1), object(),
    datetime.date(2024, 5, 6), uuid.UUID(int=1), pathlib.PurePath("a"), ValueError("a"), int, print, Level.LOW,
], ids=lambda value: type(value).__name__)
def test_other_values_are_no_texts(value):
    assert as_text(value) is None
    with pytest.raises(RegistrationError, match="^tool 'a': title= must be a text, not "):
        definition_text(value, "tool 'a'", "title")


def test_a_text_that_cannot_be_made_is_refused():
    class Early:
        def __str__(self):
            raise RuntimeError("no translation is active")

    with pytest.raises(RegistrationError, match=r"tool 'a': title= has no text now: str\(\) of it raised RuntimeError: no tr"):
        definition_text(Early(), "tool 'a'", "title")


def test_json_of_definitions_is_a_copy():
    given = {"a": [1, 1.5, None, True, ("b",)], "c": {"d": Level.LOW}}
    made = definition_json(given)
    assert made == {"a": [1, 1.5, None, True, ["b"]], "c": {"d": 1}} and made is not given and made["a"] is not given["a"]


@pytest.mark.parametrize("value, kind, reason", [
    ({"a": {1}}, TypeError, r"^meta\['a'\]: \{1\} is not JSON"), ({"a": [b"x"]}, TypeError, r"^meta\['a'\]\[0\]: b'x' is not"),
    ({1: 2}, TypeError, "^meta: the key 1 must be a text"), ({"a": math.nan}, ValueError, r"^meta\['a'\]: nan is not a JSON"),
    ({"a": datetime.date(2024, 5, 6)}, TypeError, r"^meta\['a'\]: datetime.date"), ({"a": Lazy}, TypeError, "is not JSON"),
])
def test_what_is_no_json_is_refused_with_its_place(value, kind, reason):
    with pytest.raises(kind, match=reason):
        definition_json(value, "meta")


def test_a_definition_that_contains_itself_is_refused():
    loop = {}
    loop["a"] = loop
    with pytest.raises(ValueError, match="nested too deeply, or contains itself"):
        definition_json(loop)
