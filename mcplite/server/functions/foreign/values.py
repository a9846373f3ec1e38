"""Values of other libraries as data that ``jsonable`` knows; used by it where no rule of its own matches."""

from typing import Any

from .arrays import array_value
from .attrs_classes import attrs_value
from .compiler import libraries_of
from .frames import frame_value
from .models import is_model, is_old_model, model_value
from .structs import is_struct, struct_value

__all__ = ["is_foreign", "plain_value"]

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
