"""Reads the signature of a handler, with its annotations resolved, once, when it is registered."""

import functools
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, Union

from ...errors import RegistrationError
from .class_fields import Unresolved, resolve

# ``inspect`` is imported with the first handler that is no plain function: it takes longer to import than most servers do to
# register their tools.
if TYPE_CHECKING:
    import inspect

__all__ = [
    "BY_NAME", "MISSING", "POSITIONAL_ONLY", "Signature", "VAR_KEYWORD", "VAR_POSITIONAL", "decorated", "inner_of",
    "is_generator", "name_of", "read_signature", "refuse_async", "target_of",
]

#: Stands for "no annotation" and "no default".
MISSING: Any = object()
_CHANGED = ("__wrapped__", "__signature__")
#: What the first parameter of a function in a class body is called.
_BOUND = frozenset({"self", "cls"})
#: The classes of annotations that have no forward references: a class that is no generic alias, and None.
_RESOLVED = frozenset({type, type(None)})
#: The kinds of parameters: the values of ``inspect.Parameter.kind``.
POSITIONAL_ONLY, _NAMED, VAR_POSITIONAL, _KEYWORD_ONLY, VAR_KEYWORD = range(5)
#: The kinds of those that take one argument, which may come by its name.
BY_NAME = frozenset({_NAMED, _KEYWORD_ONLY})
#: The flags of code with parameters that are not simply positional or named, and of code that is async: CO_VARARGS,
#: CO_VARKEYWORDS; CO_COROUTINE, CO_ASYNC_GENERATOR.
_VARIADIC = 0x4 | 0x8
_ASYNC = 0x80 | 0x200
_GENERATOR = 0x20
_CALLED = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


class Signature:
    """The parameters and the return annotation of a handler.

    :param kinds: of the parameters by name, in order.
    :param annotations: of the parameters that have one.
    :param defaults: of the parameters that have one.
    :param returns: the return annotation; MISSING if there is none.
    :param owner: the function that has the annotations.
    """

    def __init__(self, kinds: Dict[str, int], annotations: Dict[str, Any], defaults: Dict[str, Any], returns: Any,
                 owner: Any = None) -> None:
        self.kinds = kinds
        self.annotations = annotations
        self.defaults = defaults
        self.returns = returns
        self.owner = owner


def inner_of(function: Any) -> Any:
    """Return the callable inside ``functools.partial`` objects; any other object as it is."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def target_of(function: Any) -> Any:
    """Return the function that a partial, or an object with ``__call__``, calls."""
    function = inner_of(function)
    if type(function) is types.FunctionType or isinstance(function, _CALLED):
        return function
    import inspect

    if inspect.isroutine(function):
        return function
    return getattr(type(function), "__call__", function)


def name_of(function: Any) -> str:
    """Return the name of a handler: that of the function, also inside a partial, or that of the object's class."""
    function = inner_of(function)
    return str(getattr(function, "__name__", None) or type(function).__name__)


def refuse_async(function: Any, where: str) -> None:
    """Refuse async functions, since there is no event loop.

    :raises RegistrationError: *function* is async.
    """
    if type(function) is types.FunctionType and not function.__dict__:  # nothing that stands for another function
        refused = bool(function.__code__.co_flags & _ASYNC)
    else:
        import inspect

        target = inspect.unwrap(target_of(function))
        refused = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
    if refused:
        raise RegistrationError(f"{where} is an async function; this library has no event loop. Make it a plain def:"
                                f" blocking calls are fine, each handler has a thread of its own")


def is_generator(function: Any) -> str:
    """Return "plain" if a call of *function* makes a generator, "async" if what it makes needs an event loop, else "".

    A function that ``contextlib.contextmanager`` has decorated makes no generator.
    """
    function = inner_of(function)
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    wrapped = function
    while hasattr(wrapped, "__wrapped__"):
        wrapped = wrapped.__wrapped__
    if getattr(getattr(wrapped, "__code__", None), "co_flags", 0) & _ASYNC:
        return "async"
    return "plain" if flags & _GENERATOR else ""


def read_signature(function: Callable[..., Any], where: str) -> Signature:
    """Return the signature of a handler.

    :raises RegistrationError: the signature cannot be read; the text gives the reason and the fix.
    """
    return _simple(function, where) or _full(function, where)


def _simple(function: Any, where: str) -> Optional[Signature]:
    """Read the signature of a plain function from its code object: ten times cheaper."""
    if type(function) is not types.FunctionType:
        return None
    if function.__dict__ and any(name in function.__dict__ for name in _CHANGED):
        return None
    code = function.__code__
    if code.co_flags & _VARIADIC or code.co_posonlyargcount or code.co_kwonlyargcount:
        return None
    names = code.co_varnames[:code.co_argcount]
    if not _BOUND.isdisjoint(names):  # it may be a method, which is refused
        return None
    annotations = function.__annotations__
    if not _RESOLVED.issuperset(map(type, annotations.values())):
        annotations = {name: _resolved(annotation, function, where, name) for name, annotation in annotations.items()
                       if name in names or name == "return"}
    given = function.__defaults__ or ()
    return Signature(dict.fromkeys(names, _NAMED), annotations, dict(zip(names[len(names) - len(given):], given)),
                     annotations.get("return", MISSING), function)


def _full(function: Any, where: str) -> Signature:
    import inspect

    if hasattr(function, "register") and getattr(function, "__globals__", {}).get("__name__") == "functools":
        raise RegistrationError(f"{where}: functools.singledispatch takes its first argument by position, but arguments come by"
                                " name; register a plain def that calls it")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise RegistrationError(f"{where}: its signature cannot be read ({error});"
                                f" wrap it in a def with annotations") from error
    target = target_of(function)
    if inspect.isclass(target):
        target = target.__init__
    owner = inspect.unwrap(target)
    _refuse_unbound(owner, function, signature, where)
    kinds: Dict[str, int] = {}
    annotations: Dict[str, Any] = {}
    defaults: Dict[str, Any] = {}
    for name, item in signature.parameters.items():
        kinds[name] = int(item.kind)
        if item.annotation is not item.empty:
            annotations[name] = _resolved(item.annotation, owner, where, name)
        if item.default is not item.empty:
            defaults[name] = item.default
    returns = signature.return_annotation
    return Signature(kinds, annotations, defaults,
                     MISSING if returns is signature.empty else _resolved(returns, owner, where, "return"), owner)


def _refuse_unbound(owner: Any, function: Any, signature: "inspect.Signature", where: str) -> None:
    first: Tuple[str, ...] = tuple(signature.parameters)[:1]
    if first in (("self",), ("cls",)) and isinstance(function, types.FunctionType):
        home = owner.__qualname__.rpartition(".")[0]
        if home and not home.endswith("<locals>") and signature.parameters[first[0]].annotation is signature.empty:
            raise RegistrationError(f"{where}: parameter {first[0]!r} takes the object, but a function in a class body"
                                    f" is not bound to one; register a bound method, as in add_tool(thing.method)")


def _resolved(annotation: Any, owner: Any, where: str, name: str) -> Any:
    """Return an annotation of the parameter *name*, or of what is returned, with its forward references resolved."""
    if type(annotation) in _RESOLVED:
        return annotation
    try:
        return resolve(annotation, owner)
    except Unresolved as error:
        what = "the returned value" if name == "return" else f"parameter {name!r}"
        raise RegistrationError(f"{where}: {what} is annotated with {error}") from error


def decorated(name: Union[None, str, Callable[..., Any]], add: Callable[[Any, Optional[str]], None]) -> Any:
    """Return a decorator that registers with *add*; or the function itself, registered, if it stands for the name."""

    def register(function: Any) -> Any:
        add(function, None if name is function else name)  # type: ignore[arg-type]
        return function

    return register(name) if callable(name) else register
