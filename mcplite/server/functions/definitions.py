"""What authors write in definitions, as JSON data: objects that stand for texts become texts, and nothing else is converted."""

import collections.abc
import enum
import math
from typing import Any

from ...errors import RegistrationError
from ...protocol.error_text import quoted
from ...protocol.jsonable import MAX_DEPTH, SCALARS, as_text
from ...revisions import NEWEST
from ...types.codec import encode
from ...types.lazy_dataclass import Marked


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
    if depth > MAX_DEPTH:
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
