"""Signatures, in a module whose annotations are all strings."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import typing
from typing import Any, Dict, List, Optional

import pytest

from mcplite.errors import RegistrationError
from mcplite.server.functions.signature import MISSING, name_of, read_signature, refuse_async

if typing.TYPE_CHECKING:
    from decimal import Decimal


def read(function):
    signature = read_signature(function, "tool 'it'")
    return {name: signature.annotations.get(name, MISSING) for name in signature.names}, signature.returns


def plain(a: int, b: Optional[str] = None, *, c: "List[int]" = (), d=1, **more: float) -> Dict[str, Any]:
    return {}


def implicit(a: int = None) -> None:
    pass


class Thing:
    def method(self, a: int) -> str:
        return str(a)

    @classmethod
    def of_class(cls, a: int) -> str:
        return str(a)

    @staticmethod
    def of_none(a: int) -> str:
        return str(a)

    def __call__(self, a: int) -> str:
        return str(a)


class Made:
    def __init__(self, a: int) -> None:
        self.a = a


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
@logged
def wrapped(a: int) -> str:
    return str(a)


def with_signature(*args, **kwargs):
    return kwargs


with_signature.__signature__ = inspect.signature(wrapped)


def without_text():
    space: Dict[str, Any] = {}
    exec(compile("def simple(a: int, b: float = 1.5) -> float: return a\ndef bare(a, b=1): pass\ndef nothing(): pass",
                 "simple.py", "exec", dont_inherit=True), space)
    return space["simple"], space["bare"], space["nothing"]


simple, bare, nothing = without_text()


@pytest.mark.parametrize("function, parameters, returns", [
    (simple, {"a": int, "b": float}, float), (bare, {"a": MISSING, "b": MISSING}, MISSING), (nothing, {}, MISSING),
    (plain, {"a": int, "b": Optional[str], "c": List[int], "d": MISSING, "more": float}, Dict[str, Any]),
    (implicit, {"a": int}, type(None)),
    (Thing().method, {"a": int}, str), (Thing.of_class, {"a": int}, str), (Thing.of_none, {"a": int}, str),
    (Thing(), {"a": int}, str), (wrapped, {"a": int}, str), (with_signature, {"a": int}, str),
    (functools.partial(plain, c=[1]), {"a": int, "b": Optional[str], "c": List[int], "d": MISSING, "more": float},
     Dict[str, Any]),
    (functools.partial(plain, 1), {"b": Optional[str], "c": List[int], "d": MISSING, "more": float}, Dict[str, Any]),
    (functools.partial(Thing().method), {"a": int}, str),
])
def test_annotations_are_resolved_for_every_kind_of_callable(function, parameters, returns):
    assert read(function) == (parameters, returns)


def test_a_class_has_the_signature_of_its_constructor():
    assert read(Made)[0] == {"a": int}


def test_defaults_are_read():
    signature = read_signature(plain, "it")
    assert signature.defaults == {"b": None, "c": (), "d": 1} and signature.rest == "more"
    assert read_signature(simple, "it").defaults == {"b": 1.5} and read_signature(simple, "it").rest is None


def test_an_annotation_without_a_parameter_is_not_resolved():
    def local(a: int) -> str:
        return str(a)

    local.__annotations__["b"] = "Undefined"
    assert read(local) == ({"a": int}, str)


@pytest.mark.parametrize("function, name", [
    (plain, "plain"), (functools.partial(functools.partial(plain, 1), 2), "plain"), (Thing(), "Thing"),
    (Thing().method, "method"), (wrapped, "wrapped"), (len, "len"), (lambda: 1, "<lambda>"),
    (functools.partial(Thing()), "Thing"), (Made, "Made"),
])
def test_the_name_is_that_of_the_function(function, name):
    assert name_of(function) == name


def unknown(a: int, b: NoSuchName) -> str:  # noqa: F821
    return ""


def unknown_result(a: int) -> NoSuchName:  # noqa: F821
    pass


def for_checkers(a: Decimal) -> None:
    pass


def broken(a: "not a type") -> None:  # noqa: F722
    pass


def attribute(a: typing.NoSuchName) -> None:
    pass


def called(a: [][0]) -> None:
    pass


@pytest.mark.parametrize("function, reason", [
    (unknown, "parameter 'b' is annotated with a name that is not defined at module level .*NoSuchName.*; define it there"),
    (unknown_result, "the returned value is annotated with a name that is not defined.*NoSuchName"),
    (for_checkers, "parameter 'a' is annotated with a name .*Decimal.* not only under TYPE_CHECKING"),
    (broken, "parameter 'a' is annotated with an expression that cannot be evaluated .SyntaxError"),
    (attribute, "parameter 'a' is annotated with an expression that cannot be evaluated .AttributeError.*NoSuchName"),
    (called, "parameter 'a' is annotated with an expression that cannot be evaluated .IndexError"),
    (Thing.method, "parameter 'self' takes the object, .* register a bound method, as in add_tool.thing.method"),
    (dict, "its signature cannot be read .*; wrap it in a def with annotations"),
    (operator.itemgetter(1), "its signature cannot be read|"),
])
def test_unreadable_signatures_are_refused_with_the_reason_and_the_fix(function, reason):
    if function is dict or isinstance(function, operator.itemgetter):
        try:
            inspect.signature(function)
        except (ValueError, TypeError):
            pass
        else:
            return  # this Python knows it
    with pytest.raises(RegistrationError, match=f"^tool 'it': {reason}"):
        read(function)


def test_unions_with_a_bar_are_explained_on_old_pythons():
    def barred(a: int | None) -> None:
        pass

    try:
        assert read(barred)[0] == {"a": Optional[int]}
    except RegistrationError as error:
        assert "cannot be evaluated on Python 3.9" in str(error) and "write Optional[X] or Union[X, Y] for X | Y" in str(error)


def test_a_local_function_can_have_a_parameter_self():
    def local(self: int, b: int) -> int:
        return self

    def untyped(self, b):
        return self

    assert read(local)[0] == {"self": int, "b": int} and read(untyped)[0] == {"self": MISSING, "b": MISSING}


async def later(a: int) -> int:
    return a


async def many(a: int):
    yield a


class Later:
    async def __call__(self, a: int) -> int:
        return a

    async def method(self) -> int:
        return 1


@pytest.mark.parametrize("function", [
    later, many, functools.partial(later, 1), Later(), Later().method, logged(later), functools.partial(Later()),
])
def test_async_functions_are_refused_with_advice(function):
    with pytest.raises(RegistrationError,
                       match="^tool 'it' is an async function; .* Make it a plain def: blocking calls are fine"):
        refuse_async(function, "tool 'it'")


@pytest.mark.parametrize("function", [plain, Thing(), Thing().method, functools.partial(plain, 1), len, Made, math.hypot])
def test_other_functions_are_not_refused(function):
    refuse_async(function, "tool 'it'")
