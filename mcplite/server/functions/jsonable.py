"""Converts Python data to JSON data: the reverse of converting arguments.

Handlers return such data, and authors write it in definitions, where less is converted.
"""

from __future__ import annotations

import base64
import collections.abc
import enum
import math
import os
import types
from typing import Any, Optional

from ...errors import RegistrationError
from ...protocol.error_text import quoted
from ...protocol.jsonrpc import encode_json
from ...revisions import NEWEST
from ...types.codec import encode
from ...types.lazy_dataclass import Marked
from .converters import OTHERS
from .media import Audio, Image

#: Types whose values are JSON data as they are.
SCALARS = frozenset({str, int, bool, type(None)})
_MAX_DEPTH = 200
_RESULTS = frozenset({"CallToolResult", "GetPromptResult", "ReadResourceResult", "CompleteResult"})
#: What has a ``__str__`` of its own and stands for no text.
_NO_TEXTS = (bytes, bytearray, memoryview, collections.abc.Mapping, collections.abc.Set, list, tuple, range, BaseException,
             os.PathLike)


def jsonable(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data.

    Dataclasses and named tuples become objects, tuples and sets become lists (sets sorted), keys texts, enumerations
    their values, dates and durations ISO 8601, bytes base64, and UUIDs, decimals and paths strings. Objects of pydantic,
    attrs, msgspec, numpy and pandas become what :func:`~.foreign.models.plain_value` makes of them.

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
    from .foreign.models import plain_value  # for values that no rule here knows

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
    if isinstance(value, (Image, Audio)):
        raise _content_in_data(type(value).__name__)
    text = string_of(value)
    return _foreign(value, depth) if text is None else text


def string_of(value: Any) -> Optional[str]:
    """Return the text of a string, or of an object with the methods of one, such as a lazy translation; None for others."""
    if isinstance(value, str) or hasattr(value, "casefold") and hasattr(value, "encode"):
        return as_text(value)
    return None


def _wire(value: Marked) -> Any:
    """Return a definition, or another part of the vocabulary, in its form in the protocol.

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
        return encode_json(plain)
    raise TypeError(f"the key {quoted(key)} has no text in JSON, whose keys are texts; use a text or a number as the key")


# --- definitions --------------------------------------------------------------------------------------


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
    import numbers  # for the few that are no texts

    cls = type(value)
    shown: Any = cls.__str__
    if shown is object.__str__ or isinstance(value, (numbers.Number, *_NO_TEXTS)):
        return False
    if not OTHERS.isdisjoint(base.__module__ for base in cls.__mro__):
        return False
    return not hasattr(cls, "__iter__") or hasattr(value, "encode")  # what can be iterated is a text, or a container


def definition_text(value: Any, what: str, member: str) -> Any:
    """Return a text of a definition, which may be given as an object that stands for one; None as it is.

    :param what: names the definition in errors, such as "tool 'add'".
    :param member: the keyword that has the value.
    :raises RegistrationError: it is no text.
    """
    if value is None or type(value) is str:
        return value
    try:
        text = as_text(value)
    except Exception as error:  # the user's own __str__, which can raise anything
        raise RegistrationError(f"{what}: {member}= has no text now: str() of it raised {type(error).__name__}: {error}"
                                ) from error
    if text is None:
        advice = f"; write {member}={str(value)!r}" if type(value) in (int, float) else ""
        raise RegistrationError(f"{what}: {member}= must be a text, not {quoted(value)}{advice}")
    return text


def definition_json(value: Any, place: str = "", depth: int = 0) -> Any:
    """Return a copy of what an author wrote as JSON, with the texts of objects that stand for texts.

    Nothing else is converted: what is not JSON is a mistake in a definition.

    :param place: of the value, for errors.
    :param depth: of *value* within the outermost one.
    :raises TypeError: a part of it is not JSON; the text names the place.
    :raises ValueError: it holds NaN or an infinity, contains itself, or is nested too deeply.
    """
    kind = type(value)
    if kind in SCALARS:
        return value
    if isinstance(value, enum.Enum):
        return definition_json(value.value, place, depth)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place}: {value} is not a JSON number; leave it out, or write a string")
        return float.__float__(value)
    if depth > _MAX_DEPTH:
        raise ValueError(f"{place[:100]}: the value is nested too deeply, or contains itself")
    if isinstance(value, Marked):
        return definition_json(encode(value, NEWEST), place, depth)
    if isinstance(value, collections.abc.Mapping):
        made = {}
        for key, item in value.items():
            name = as_text(key)
            if name is None:
                raise TypeError(f"{place}: the key {quoted(key)} must be a text")
            made[name] = definition_json(item, f"{place}[{quoted(name)}]", depth + 1)
        return made
    if isinstance(value, (list, tuple)):
        return [definition_json(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(value)]
    text = as_text(value)
    if text is None:
        raise TypeError(f"{place}: {quoted(value)} is not JSON; write it as a text, a number, a list or a dict")
    return text
