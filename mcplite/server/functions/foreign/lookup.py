"""Compiles the classes of other libraries; used by ``Schemas`` where no rule of its own matches.

Values of other libraries as data that ``jsonable`` knows; used by it where no rule of its own matches.
"""

from typing import Any, Optional, Tuple, Union, get_origin

from ....errors import RegistrationError
from ..converters import Node
from .arrays import array_node, array_value, frame_node, frame_value, is_numpy, is_pandas
from .attrs_classes import attrs_value
from .base import Compiler, libraries_of
from .models import adapter_node, is_model, is_old_model, model_value, old_model_node
from .structs import is_struct, struct_node, struct_value

__all__ = ["foreign_node", "foreign_union", "is_foreign", "plain_value"]


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
