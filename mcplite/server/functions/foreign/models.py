"""Types of pydantic 2: models, dataclasses, and what ``TypeAdapter`` makes of annotations; and models of pydantic 1."""

import json
from typing import Any, Dict, List, Optional, Tuple

from ....protocol.jsonio import encode_json
from ..converters import Mismatch, Node, reason_of
from .adapters import adapted, without_own_title
from .base import Compiler, cut, first_line, loaded

__all__ = ["adapter_node", "is_model", "is_old_model", "model_value", "old_model_node"]

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
        raise compiler.refuse(name, f"is annotated with {_shown(annotation)}, of which pydantic makes no JSON Schema"
                                    f" ({first_line(error)}); change the field, or give the schema as input_schema=") from error

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
        raise compiler.refuse(name, f"is of the class {cls.__name__}, of which pydantic makes no JSON Schema"
                                    f" ({first_line(error)}); change the field, or give the schema as input_schema=") from error
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
