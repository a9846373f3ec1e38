"""Converts Python data to JSON data: what handlers return, and what a client sends as arguments."""

from __future__ import annotations

import base64
import collections.abc
import enum
import json
import math
import os
import types
from typing import Any, Optional

from ..revisions import NEWEST
from ..types.codec import TEXT_MODULES, encode
from ..types.lazy_dataclass import Marked
from ..types.media import Audio, Image
from .error_text import quoted

#: Types whose values are JSON data as they are.
SCALARS = frozenset({str, int, bool, type(None)})
MAX_DEPTH = 200
_RESULTS = frozenset({"CallToolResult", "GetPromptResult", "ReadResourceResult", "CompleteResult"})
#: Classes with a ``__str__`` of their own whose objects stand for no text.
_NO_TEXTS = (bytes, bytearray, memoryview, collections.abc.Mapping, collections.abc.Set, list, tuple, range, BaseException,
             os.PathLike)


def jsonable(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data.

    Dataclasses and named tuples become objects, tuples and sets become lists (sets sorted), keys texts, enumerations
    their values, dates and durations ISO 8601, bytes base64, and UUIDs, decimals and paths strings. Objects of pydantic,
    attrs, msgspec, numpy and pandas become what :func:`~.library_values.plain_value` makes of them.

    :param depth: the depth of *value* within the outermost value.
    :raises TypeError: the value, or something in it, has no form in JSON.
    :raises ValueError: it holds NaN or an infinity, contains itself, or is nested too deeply.
    """
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise ValueError(f"{value} is not a JSON number; use None or a string instead")
    if depth > MAX_DEPTH:
        raise ValueError("the value is nested too deeply, or contains itself")
    if kind is dict or isinstance(value, collections.abc.Mapping):
        return _object(value, depth)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: jsonable(item, depth + 1) for name, item in zip(value._fields, value)}
    if isinstance(value, (list, tuple)):
        return [jsonable(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return [jsonable(item, depth + 1) for item in sorted(value, key=lambda item: (type(item).__name__, str(item)))]
    if isinstance(value, Marked):
        return jsonable(_wire(value), depth + 1)
    if hasattr(kind, "__dataclass_fields__"):
        if "__pydantic_serializer__" in kind.__dict__:
            return _foreign(value, depth)
        import dataclasses

        return {field.name: jsonable(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return jsonable(value.value, depth + 1)
    return _scalar(value, depth)


def _foreign(value: Any, depth: int) -> Any:
    from .library_values import plain_value  # for values that no rule here knows

    return jsonable(plain_value(value), depth + 1)


def _scalar(value: Any, depth: int) -> Any:
    # A subclass is sent as its base class; __str__ and __float__ of the subclass are ignored.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return jsonable(float.__float__(value))
    if not TEXT_MODULES.isdisjoint(base.__module__ for base in type(value).__mro__):
        from .library_values import text_of

        text = text_of(value)
        if text is not None:
            return text
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, types.GeneratorType):
        raise TypeError("a generator cannot be sent; use a list, or report progress for partial results")
    if isinstance(value, types.CoroutineType):
        value.close()  # avoids the warning "coroutine was never awaited"
        raise TypeError("a coroutine cannot be sent; the handler calls an async function, so call a blocking one instead")
    if isinstance(value, (Image, Audio)):
        raise _content_in_data(type(value).__name__)
    text = string_of(value)
    return _foreign(value, depth) if text is None else text


def string_of(value: Any) -> Optional[str]:
    """Return the text of a string, or of an object with its methods, such as a lazy translation; None for any other value."""
    if isinstance(value, str) or hasattr(value, "casefold") and hasattr(value, "encode"):
        return as_text(value)
    return None


def _wire(value: Marked) -> Any:
    """Return an object of :mod:`mcplite.types`, such as a definition, in its form in the protocol.

    :raises TypeError: it is content, or a whole result, which data cannot hold.
    """
    name = type(value).__name__
    if hasattr(value, "wire_type") or name in ("TextResourceContents", "BlobResourceContents"):
        raise _content_in_data(name)
    if name in _RESULTS:
        raise TypeError(f"return the {name} alone, or what it holds: it is a whole result, and cannot stand inside of data or a"
                        " list")
    return encode(value, NEWEST)


def _content_in_data(name: str) -> TypeError:
    return TypeError(f"a value of the class {name} cannot be sent inside of data, since it is content; return a list of"
                     f" content, such as [data, {name}(...)]")


def _object(value: collections.abc.Mapping[Any, Any], depth: int) -> Any:
    made = {key if type(key) is str else key_text(key): jsonable(item, depth + 1) for key, item in value.items()}
    if len(made) < len(value):
        raise ValueError("two keys are the same text in JSON; make them different, or return a list of pairs")
    return made


def key_text(key: Any) -> str:
    """Return a key as the text that it is in JSON, as ``json.dumps`` and pydantic do."""
    plain = jsonable(key)
    if isinstance(plain, str):
        return plain
    if plain is None or isinstance(plain, (int, float)):
        return json.dumps(plain)
    raise TypeError(f"the key {quoted(key)} has no text in JSON, whose keys are texts; use a text or a number as the key")


def as_text(value: Any) -> Optional[str]:
    """Return the text that *value* is or stands for; None if it is no text.

    A lazy translation, of Django, Flask-Babel or another library, stands for its ``str()``: an object that is no number, no
    bytes, no container and no date, and has a ``__str__`` of its own.
    """
    cls = type(value)
    if issubclass(cls, str):
        return str.__str__(value)
    if isinstance(value, enum.Enum):
        return as_text(value.value)
    return str.__str__(str(value)) if isinstance(value, str) or _stands_for_text(value) else None


def _stands_for_text(value: Any) -> bool:
    import numbers  # for the few values that are not strings

    cls = type(value)
    shown: Any = cls.__str__
    if shown is object.__str__ or isinstance(value, (numbers.Number, *_NO_TEXTS)):
        return False
    if not TEXT_MODULES.isdisjoint(base.__module__ for base in cls.__mro__):
        return False
    return not hasattr(cls, "__iter__") or hasattr(value, "encode")  # an iterable is a container, unless it can be encoded
