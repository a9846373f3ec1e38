"""pydantic's ``Field(...)`` at a parameter: as its default, or in ``Annotated``."""

import copy
from typing import Annotated, Any, Callable, NamedTuple, Optional, Tuple

from ..members import NOTHING

__all__ = ["FieldParameter", "is_field", "is_undefined", "read_field"]


class FieldParameter(NamedTuple):
    """A parameter with a Field."""

    #: With the Field in its metadata.
    annotation: Any
    #: The default for the schema; NOTHING if it has no fixed one, *missing* if the argument is required.
    default: Any
    #: Makes the value for a call without the argument; None if the argument is required, or Python has the default.
    make: Optional[Callable[[], Any]]
    #: The name of the argument for clients; None if it is the parameter's.
    alias: Optional[str]


def is_field(value: Any) -> bool:
    """Whether *value* is a ``Field(...)`` of pydantic 1 or 2, or of a library that extends it."""
    return any(base.__name__ == "FieldInfo" and str(base.__module__).partition(".")[0] == "pydantic"
               for base in type(value).__mro__)


def is_undefined(value: Any) -> bool:
    """Whether *value* stands for "not given" in a Field."""
    return value is Ellipsis or type(value).__name__ in ("PydanticUndefinedType", "UndefinedType")


def read_field(annotation: Any, extras: Tuple[Any, ...], default: Any, missing: Any) -> Optional[FieldParameter]:
    """Return a parameter with a Field; None for one without.

    :param extras: the metadata of the annotation.
    :param missing: stands for "no default".
    :raises ValueError: a part of the Field has no meaning for an argument; the text says what to do.
    """
    fields = [extra for extra in extras if is_field(extra)]
    if is_field(default):
        fields.append(default)
        annotation = Annotated[annotation, default]
        default = missing
    if not fields:
        return None
    alias = next((found for found in map(_alias, reversed(fields)) if found is not None), None)
    make: Optional[Callable[[], Any]] = None
    shown = default
    if default is missing:
        for field in reversed(fields):
            factory = getattr(field, "default_factory", None)
            if factory is not None:
                if getattr(field, "default_factory_takes_validated_data", False):
                    raise ValueError("has a default_factory that takes the other values; take them in the function")
                make, shown = factory, factory() if factory in (list, dict) else NOTHING
                break
            if not is_undefined(field.default):
                make, shown = _copier(field.default), field.default
                break
    return FieldParameter(annotation, shown, make, alias)


def _copier(default: Any) -> Callable[[], Any]:
    return lambda: copy.deepcopy(default)


def _alias(field: Any) -> Optional[str]:
    alias = getattr(field, "validation_alias", None) or getattr(field, "alias", None)
    if alias is not None and not isinstance(alias, str):
        raise ValueError(f"has the alias {alias!r}, but an argument has one name; write Field(alias=\"name\")")
    return alias
