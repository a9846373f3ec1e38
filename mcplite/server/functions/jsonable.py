"""Converts Python data to JSON data: the reverse of converting arguments."""

from __future__ import annotations

import base64
import collections.abc
import enum
import math
import os
import types
from typing import Any

from ...protocol.show import quoted
from .scalars import OTHERS

__all__ = ["SCALARS", "jsonable"]

#: Types whose values are JSON data as they are.
SCALARS = frozenset({str, int, bool, type(None)})
_MAX_DEPTH = 200


def jsonable(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data.

    Dataclasses and named tuples become objects, tuples and sets become lists (sets sorted), enumerations
    their values, dates and durations ISO 8601, bytes base64, and UUIDs, decimals and paths strings. Objects of pydantic,
    attrs, msgspec, numpy and pandas become what :func:`~.foreign.values.plain_value` makes of them.

    :param depth: of *value* within the outermost one.
    :raises TypeError: the value, or something in it, has no form in JSON.
    :raises ValueError: it holds NaN or an infinity, contains itself, or is nested too deeply.
    """
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise ValueError(f"{value} is not a JSON number; return None or a string instead")
    if depth > _MAX_DEPTH:
        raise ValueError("the value is nested too deeply, or contains itself")
    if kind is dict or isinstance(value, collections.abc.Mapping):
        return {_key(key): jsonable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: jsonable(item, depth + 1) for name, item in zip(value._fields, value)}
    if isinstance(value, (list, tuple)):
        return [jsonable(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return [jsonable(item, depth + 1) for item in sorted(value, key=lambda item: (type(item).__name__, str(item)))]
    if hasattr(kind, "__dataclass_fields__"):
        if "__pydantic_serializer__" in kind.__dict__:
            return _foreign(value, depth)
        import dataclasses

        return {field.name: jsonable(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return jsonable(value.value, depth + 1)
    return _scalar(value, depth)


def _foreign(value: Any, depth: int) -> Any:
    from .foreign.values import plain_value  # for values that no rule here knows

    return jsonable(plain_value(value), depth + 1)


def _scalar(value: Any, depth: int) -> Any:
    # A subclass is sent as its base class; __str__ and __float__ of the subclass are ignored.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return jsonable(float.__float__(value))
    if not OTHERS.isdisjoint(base.__module__ for base in type(value).__mro__):
        from .datetimes import text_of

        text = text_of(value)
        if text is not None:
            return text
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, types.GeneratorType):
        raise TypeError("a generator cannot be sent; return a list, or report progress for partial results")
    if isinstance(value, types.CoroutineType):
        value.close()  # avoids the warning "coroutine was never awaited"
        raise TypeError("a coroutine cannot be sent; the handler calls an async function, so call a blocking one instead")
    return _foreign(value, depth)


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise TypeError(f"the key {quoted(key)} is not a string, which JSON requires; convert it")
    return str.__str__(key)
