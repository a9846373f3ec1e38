"""Types of other libraries, used by ``Schemas`` and ``jsonable`` where no rule of their own matches.

Here are those of pydantic (models, dataclasses, and what ``TypeAdapter`` makes of annotations; models of pydantic 1) and the
structs of msgspec; those of numpy and pandas stand in :mod:`.arrays`.
"""

import json
import re
from typing import Any, Dict, List, Optional, Tuple, Union, get_origin

from ....errors import RegistrationError
from ....protocol.jsonrpc import encode_json
from ..class_fields import attrs_value
from ..converters import Mismatch, Node, reason_of
from .adapters import Compiler, adapted, cut, libraries_of, loaded, no_schema, without_own_title
from .arrays import array_node, array_value, frame_node, frame_value, is_numpy, is_pandas

__all__ = [
    "adapter_node", "foreign_node", "foreign_union", "is_foreign", "is_model", "is_old_model", "is_struct", "model_value",
    "old_model_node", "plain_value", "struct_node", "struct_value",
]

#: What pydantic writes before the text of a validator's exception.
_PREFIXES = ("Value error, ", "Assertion failed, ")
_MOST_PROBLEMS = 10


def is_model(cls: Any) -> bool:
    """Whether pydantic 2 knows how to validate *cls*: a model, a dataclass of pydantic, or a class with a hook for it."""
    return hasattr(cls, "__pydantic_validator__") or hasattr(cls, "__get_pydantic_core_schema__")


def is_old_model(cls: Any) -> bool:
    """Whether *cls* is a model of pydantic 1, which ``pydantic.v1`` has too."""
    return hasattr(cls, "__fields__") and hasattr(cls, "parse_obj") and hasattr(cls, "schema") and not is_model(cls)


def adapter_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of an annotation as pydantic 2 understands it; None if the process has no pydantic 2.

    :raises RegistrationError: pydantic has no schema for it.
    """
    make = getattr(loaded("pydantic"), "TypeAdapter", None)
    if make is None:
        return None
    mode = "serialization" if compiler.returned else "validation"
    try:
        adapter = make(annotation)
        schema: Dict[str, Any] = adapter.json_schema(by_alias=True, mode=mode)
    except Exception as error:  # pydantic runs the hooks of the type, which can raise anything
        raise no_schema(name, f"annotated with {_shown(annotation)}", "pydantic", error, compiler) from error

    def load(value: Any) -> Any:
        try:
            # As JSON, so that a strict model takes what JSON has no types for, such as dates.
            return adapter.validate_json(encode_json(value))
        except (ValueError, TypeError) as error:
            raise _mismatch(error) from error

    return adapted(without_own_title(schema, getattr(annotation, "__name__", "")), load, name, compiler, patterns=False)


def old_model_node(cls: Any, name: str, compiler: Compiler) -> Node:
    """Return the node of a model of pydantic 1.

    :raises RegistrationError: pydantic has no schema for it.
    """
    try:
        schema = dict(cls.schema(by_alias=True, ref_template="#/$defs/{model}"))
    except Exception as error:  # as above
        raise no_schema(name, f"of the class {cls.__name__}", "pydantic", error, compiler) from error
    if "definitions" in schema:
        schema["$defs"] = schema.pop("definitions")

    def load(value: Any) -> Any:
        try:
            return cls.parse_obj(value)
        except (ValueError, TypeError) as error:
            raise _mismatch(error) from error

    return adapted(without_own_title(_newer(schema), cls.__name__), load, name, compiler, patterns=True)


def _newer(schema: Any) -> Any:
    """Return a schema of draft-07 with the tuples of 2020-12."""
    if isinstance(schema, list):
        return [_newer(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {keyword: _newer(value) for keyword, value in schema.items()}
    if isinstance(changed.get("items"), list):
        changed["prefixItems"] = changed.pop("items")
    return changed


def _shown(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or repr(annotation)[:200]


def _mismatch(error: Exception) -> Mismatch:
    errors = getattr(error, "errors", None)
    if errors is None:
        return Mismatch(cut(reason_of(error)))
    try:
        found: List[Dict[str, Any]] = errors(include_url=False, include_context=False, include_input=False)
    except TypeError:
        found = errors()  # pydantic 1
    problems = [Mismatch(_text(item), _path(item.get("loc", ()))) for item in found[:_MOST_PROBLEMS]]
    first, *more = problems or [Mismatch(cut(str(error)))]
    return Mismatch(first.message, first.path, more)


def _text(item: Dict[str, Any]) -> str:
    text = cut(str(item.get("msg", "is not valid")))
    for prefix in _PREFIXES:
        if text.startswith(prefix):
            return text[len(prefix):]
    return text


def _path(location: Any) -> Tuple[Any, ...]:
    return tuple(step for step in location if isinstance(step, (str, int)) and step != "__root__")


def model_value(value: Any) -> Any:
    """Return the value of a model, or of another class of pydantic, as JSON data.

    :raises ValueError, TypeError: it holds what pydantic cannot write as JSON.
    """
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is not None:
        return serializer.to_python(value, mode="json", by_alias=True)
    if is_old_model(type(value)):
        return json.loads(value.json(by_alias=True))
    return loaded("pydantic_core").to_jsonable_python(value, by_alias=True)  # type: ignore[union-attr]


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
    label = _shown(annotation)
    try:
        schema: Dict[str, Any] = msgspec.json.schema(annotation)
    except Exception as error:  # msgspec evaluates annotations, which can raise anything
        raise no_schema(name, f"annotated with {label}", "msgspec", error, compiler) from error

    def load(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation)
        except msgspec.ValidationError as error:
            plain = _whole_numbers(value)
            if plain == value and repr(plain) == repr(value):
                raise _struct_mismatch(error) from error
        try:
            return msgspec.convert(plain, annotation)
        except msgspec.ValidationError as error:
            raise _struct_mismatch(error) from error

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


def _struct_mismatch(error: Exception) -> Mismatch:
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


def foreign_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a class of pydantic, msgspec, numpy or pandas, or of an alias of one; None for any other.

    :raises RegistrationError: its library has no schema for it; the text has the reason and the fix.
    """
    cls = get_origin(annotation) or annotation
    if not isinstance(cls, type):
        return None
    if is_model(cls):
        return adapter_node(annotation, name, compiler)
    if is_old_model(cls):
        return old_model_node(cls, name, compiler)
    if is_struct(cls):
        return struct_node(annotation, name, compiler)
    if is_numpy(cls):
        return array_node(annotation, name, compiler)
    if is_pandas(cls):
        return frame_node(cls, name, compiler)
    return None


def foreign_union(parts: Tuple[Any, ...], name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a union of several models, or of several structs; None if its library does not know all parts."""
    make = adapter_node if any(is_model(part) for part in parts) else struct_node
    try:
        return make(Union[parts], name, compiler)
    except RegistrationError:
        return None  # compiled part by part, with an error that names the one


_PYDANTIC = frozenset({"pydantic", "pydantic_core", "pydantic_extra_types"})


def plain_value(value: Any) -> Any:
    """Return a value of pydantic, attrs, msgspec, numpy or pandas as plain data.

    :raises ValueError: it is too large, or has a part without a form in JSON.
    :raises TypeError: its class has none, or is of no library that is known here.
    """
    cls = type(value)
    if is_model(cls) or is_old_model(cls):
        return model_value(value)
    if hasattr(cls, "__attrs_attrs__"):
        return attrs_value(value)
    if is_struct(cls):
        return struct_value(value)
    libraries = libraries_of(cls)
    if "pandas" in libraries:
        return frame_value(value)
    if "numpy" in libraries and hasattr(value, "dtype"):
        return array_value(value)
    if libraries & _PYDANTIC:
        return model_value(value)
    raise TypeError(f"a value of the class {cls.__name__} cannot be sent as JSON; return a dict, a dataclass or a string")


def is_foreign(value: Any) -> bool:
    """Whether *value* is an object of a class that checks its own values: a model, a struct, a class of attrs, an array."""
    cls = type(value)
    return (is_model(cls) or is_old_model(cls) or hasattr(cls, "__attrs_attrs__") or is_struct(cls)
            or not libraries_of(cls).isdisjoint({"numpy", "pandas"}))
