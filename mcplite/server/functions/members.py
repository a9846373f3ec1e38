"""The members of a dataclass, TypedDict or NamedTuple, with their resolved annotations.

Used by signatures and schemas; it knows classes, but not JSON Schema.
"""

import sys
import typing
from typing import Any, Dict, List, Optional, Tuple, get_args, get_origin

from ...types.records import Record, record

__all__ = ["Field", "NOTHING", "Unresolved", "hints_of", "is_dataclass", "is_named", "is_typed_dict", "members", "resolve",
           "with_arguments", "with_metadata"]

#: Stands for "no default".
NOTHING: Any = object()
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Annotated")


class Unresolved(Exception):
    """An annotation cannot be evaluated; the text says why and what to do."""


@record(frozen=True)
class Field(Record):
    """One member of a class."""

    name: str
    annotation: Any
    required: bool
    default: Any


def is_named(origin: Any, *names: str) -> bool:
    """Whether *origin* is one of typing's special forms. Compared by name: typing_extensions defines its own objects."""
    return getattr(origin, "_name", None) in names or getattr(origin, "__name__", None) in names


def is_dataclass(value: Any) -> bool:
    """Whether *value* is a dataclass or an instance of one. ``dataclasses`` is not imported for those that have none."""
    return hasattr(value if isinstance(value, type) else type(value), "__dataclass_fields__")


def is_typed_dict(cls: type) -> bool:
    """Whether *cls* is a TypedDict."""
    return issubclass(cls, dict) and hasattr(cls, "__total__")


class _Holder:
    """An object that ``get_type_hints`` accepts as a function without defaults.

    Before Python 3.11 ``get_type_hints`` changes X to Optional[X] for a parameter whose default is None.
    """

    def __init__(self, annotation: Any, owner: Any) -> None:
        self.__annotations__ = {"it": annotation}
        self.__globals__ = getattr(owner, "__globals__", {})
        self.__type_params__ = getattr(owner, "__type_params__", ())


def resolve(annotation: Any, owner: Any) -> Any:
    """Return an annotation of the function *owner* with its forward references resolved.

    :raises Unresolved: a name is not defined, or the text cannot be evaluated on this Python.
    """
    return hints_of(_Holder(annotation, owner))["it"]


def hints_of(owner: Any) -> Dict[str, Any]:
    """Return the annotations of a class or a function, with their forward references resolved.

    :raises Unresolved: as for :func:`resolve`.
    """
    try:
        try:
            return typing.get_type_hints(owner, include_extras=True)
        except NameError:
            if not isinstance(owner, type):
                raise
            # A class that is defined in a function and refers to itself.
            return typing.get_type_hints(owner, None, {owner.__name__: owner}, include_extras=True)
    except NameError as error:
        raise Unresolved(f"a name that is not defined at module level ({error}); define it there, and not only"
                         f" under TYPE_CHECKING, before the function is registered") from error
    except TypeError as error:
        # For example ``int | None``, written as a string, on Python 3.9.
        raise Unresolved(f"an expression that cannot be evaluated on Python {sys.version_info[0]}.{sys.version_info[1]}"
                         f" ({error}); write Optional[X] or Union[X, Y] for X | Y") from error
    except Exception as error:
        # Evaluating an annotation runs the user's code, which can raise anything.
        raise Unresolved(f"an expression that cannot be evaluated ({type(error).__name__}: {error}); correct it") from error


def members(cls: type, *, returned: bool = False) -> Optional[List[Field]]:
    """Return the members of a dataclass, TypedDict or NamedTuple; None for any other class.

    :param returned: whether the members are read from an object; otherwise they are passed to its constructor.
    :raises Unresolved: an annotation cannot be evaluated.
    """
    if is_dataclass(cls):
        return _of_dataclass(cls, returned)
    if is_typed_dict(cls):
        return _of_typed_dict(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints = hints_of(cls)
        defaults = getattr(cls, "_field_defaults", {})
        return [Field(key, hints.get(key, Any), key not in defaults, defaults.get(key, NOTHING))
                for key in cls._fields]
    return None


def _of_dataclass(cls: Any, returned: bool) -> List[Field]:
    import dataclasses

    hints = hints_of(cls)
    found = []
    for field in dataclasses.fields(cls):
        if not (field.init or returned):
            continue
        default = NOTHING if field.default is dataclasses.MISSING else field.default
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.default_factory in (list, dict):
            default = field.default_factory()
        found.append(Field(field.name, hints[field.name], required, default))
    if not returned:
        for name, hint in hints.items():
            if isinstance(hint, dataclasses.InitVar):
                default = getattr(cls, name, NOTHING)
                found.append(Field(name, hint.type, default is NOTHING, default))
    return found


def _of_typed_dict(cls: type) -> List[Field]:
    hints = hints_of(cls)
    required = set(getattr(cls, "__required_keys__", hints))
    for key, hint in hints.items():
        # __required_keys__ is wrong before Python 3.11, and wherever the annotations are strings.
        while is_named(get_origin(hint), *_QUALIFIERS) or hasattr(hint, "__metadata__"):
            if is_named(get_origin(hint), "NotRequired"):
                required.discard(key)
            elif is_named(get_origin(hint), "Required"):
                required.add(key)
            hint = hint.__origin__ if hasattr(hint, "__metadata__") else get_args(hint)[0]
    return [Field(key, hint, key in required, NOTHING) for key, hint in hints.items()]


def with_arguments(annotation: Any, chosen: Dict[Any, Any]) -> Any:
    """Return an annotation of a generic class with its type variables replaced.

    :param chosen: by type variable.
    """
    if isinstance(annotation, typing.TypeVar):
        return chosen.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if not variables or isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation
    return annotation[tuple(chosen.get(variable, variable) for variable in variables)]


def with_metadata(annotation: Any, extras: Tuple[Any, ...]) -> Any:
    """Return ``Annotated[annotation, *extras]``, which older Pythons and mypy do not read."""
    parts = (annotation, *extras)
    return typing.Annotated[parts]
