"""Compiles the classes of other libraries; used by ``Schemas`` where no rule of its own matches."""

from typing import Any, Optional, Tuple, Union, get_origin

from ....errors import RegistrationError
from ..nodes import Node
from .arrays import array_node, is_numpy
from .compiler import Compiler
from .frames import frame_node, is_pandas
from .models import adapter_node, is_model, is_old_model, old_model_node
from .structs import is_struct, struct_node

__all__ = ["foreign_node", "foreign_union"]


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
