"""Structs of msgspec: their schema, how they are read from JSON data, and how they become JSON data."""

import re
from typing import Any, Dict, List, Optional, Tuple, Union

from ..converters import Mismatch, Node
from .adapters import adapted, without_own_title
from .base import Compiler, cut, first_line, loaded

__all__ = ["is_struct", "struct_node", "struct_value"]

#: The place in the text of a ValidationError.
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`\Z", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


def is_struct(cls: Any) -> bool:
    """Whether *cls* is a Struct of msgspec, or the alias of a generic one."""
    return hasattr(cls, "__struct_fields__")


def struct_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a Struct, or of a union of Structs with tags; None if the process has no msgspec.

    :raises RegistrationError: msgspec has no schema for it.
    """
    msgspec = loaded("msgspec")
    if msgspec is None:
        return None
    label = getattr(annotation, "__name__", None) or repr(annotation)[:200]
    try:
        schema: Dict[str, Any] = msgspec.json.schema(annotation)
    except Exception as error:  # msgspec evaluates annotations, which can raise anything
        raise compiler.refuse(name, f"is annotated with {label}, of which msgspec makes no JSON Schema"
                                    f" ({first_line(error)}); change the field, or give the schema as input_schema=") from error

    def load(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation)
        except msgspec.ValidationError as error:
            plain = _whole_numbers(value)
            if plain == value and repr(plain) == repr(value):
                raise _mismatch(error) from error
        try:
            return msgspec.convert(plain, annotation)
        except msgspec.ValidationError as error:
            raise _mismatch(error) from error

    return adapted(without_own_title(schema, label), load, name, compiler, patterns=True)


def _whole_numbers(value: Any) -> Any:
    """Return a JSON value with 2 in place of 2.0, which JSON Schema does not tell apart, and msgspec does."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return value


def _mismatch(error: Exception) -> Mismatch:
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return Mismatch(cut(text))
    path: List[Union[str, int]] = []
    for found in _STEP.finditer(place.group(1)):
        path.append(int(found.group(2)) if found.group(2) else found.group(1) or "...")
    steps: Tuple[Union[str, int], ...] = tuple(path)
    return Mismatch(cut(text[:place.start()]), steps)


def struct_value(value: Any) -> Any:
    """Return a Struct as JSON data, with the names and the tag that it has in JSON.

    :raises TypeError: it holds what msgspec cannot write.
    """
    return loaded("msgspec").to_builtins(value)  # type: ignore[union-attr]
