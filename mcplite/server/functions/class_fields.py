"""The members of a dataclass, TypedDict or NamedTuple, with their resolved annotations."""

from __future__ import annotations

import sys
import typing
from typing import Any, Dict, List, Optional, Tuple, get_args, get_origin

from ...types.lazy_dataclass import Record, record

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
    """Whether *value* is a dataclass or an instance of one. A server without dataclasses does not import ``dataclasses``."""
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
        # A class and a type alias have no globals of their own.
        module = sys.modules.get(getattr(owner, "__module__", None) or "")
        self.__globals__ = getattr(owner, "__globals__", {} if module is None else vars(module))
        self.__type_params__ = getattr(owner, "__type_params__", ())


def resolve(annotation: Any, owner: Any) -> Any:
    """Return an annotation of *owner*, a function, a class or a type alias, with its forward references resolved.

    :raises Unresolved: a name is not defined, or the text cannot be evaluated on this Python.
    """
    return _hints(_Holder(annotation, owner), owner)["it"]


def hints_of(cls: type) -> Dict[str, Any]:
    """Return the annotations of a class, with their forward references resolved.

    :raises Unresolved: as for :func:`resolve`.
    """
    return _hints(cls, cls)


def _hints(annotated: Any, owner: Any) -> Dict[str, Any]:
    try:
        try:
            return typing.get_type_hints(annotated, include_extras=True)
        except NameError:
            around = _variables_around(owner)
            if not around:
                raise
            return typing.get_type_hints(annotated, None, around, include_extras=True)
    except NameError as error:
        raise Unresolved(f"a name that is not defined at module level or in a running function around it ({error});"
                         " define it there, and not only under TYPE_CHECKING, before the function is registered") from error
    except TypeError as error:
        # For example ``int | None``, written as a string, on Python 3.9.
        raise Unresolved(f"an expression that cannot be evaluated on Python {sys.version_info[0]}.{sys.version_info[1]}"
                         f" ({error}); write Optional[X] or Union[X, Y] for X | Y") from error
    except Exception as error:
        # Evaluating an annotation runs the user's code, which can raise anything.
        raise Unresolved(f"an expression that cannot be evaluated ({type(error).__name__}: {error}); correct it") from error


def _variables_around(owner: Any) -> Dict[str, Any]:
    """Return the variables beside those of the module that annotations of a function or class can name.

    Those are the class itself, the variables of outer functions that the function has captured, and all variables of the
    outer functions that are still running, such as a function that defines a tool and registers it.
    """
    found: Dict[str, Any] = {}
    names = {*getattr(owner, "__qualname__", "").split(".")[:-1]}  # of functions and of class bodies
    frame = sys._getframe(1) if names else None
    while frame is not None:
        if frame.f_code.co_name in names and frame.f_globals.get("__name__") == getattr(owner, "__module__", None):
            found = {**frame.f_locals, **found}  # the variables of inner functions hide those of outer ones
        frame = frame.f_back
    code, closure = getattr(owner, "__code__", None), getattr(owner, "__closure__", None) or ()
    for name, cell in zip(getattr(code, "co_freevars", ()), closure):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    if isinstance(owner, type):
        found[owner.__name__] = owner
    return found


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
    given = {name: hint for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar) and not returned}
    return found + [Field(name, hint.type, not hasattr(cls, name), getattr(cls, name, NOTHING)) for name, hint in given.items()]


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


def type_arguments(annotation: Any) -> Dict[str, Dict[Any, Any]]:
    """Return, by the names of its members, what type variables stand for in a generic class, or in one derived from it.

    For ``class IntBox(Box[int])``, the entry of the member ``value: T`` of ``Box`` says that T is int.

    :param annotation: the class, or an alias such as ``Box[int]``.
    """
    found: Dict[str, Dict[Any, Any]] = {}

    def walk(annotation: Any, chosen: Dict[Any, Any]) -> None:
        cls = get_origin(annotation) or annotation
        if not isinstance(cls, type) or cls is object:
            return
        variables = getattr(cls, "__parameters__", ())
        given = [with_arguments(argument, chosen) for argument in get_args(annotation)]
        own = dict(zip(variables, given))
        for name in _annotated_names(cls):
            found.setdefault(name, own)
        for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
            if get_origin(base) not in (typing.Generic, typing.Protocol):
                # A TypedDict repeats the members of its bases as its own.
                repeated = is_typed_dict(cls) and hasattr(get_origin(base), "__total__")
                for name in _annotated_names(get_origin(base) or base) if repeated else ():
                    if found.get(name) is own:
                        del found[name]
                walk(base, own)

    walk(annotation, {})
    return found


def _annotated_names(cls: Any) -> Tuple[str, ...]:
    if sys.version_info >= (3, 10):
        return tuple(getattr(cls, "__annotations__", ()))
    return tuple(cls.__dict__.get("__annotations__", ()))


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
