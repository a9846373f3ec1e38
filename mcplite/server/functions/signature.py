"""Reads the signature of a handler, with its annotations resolved, once, when it is registered."""

import functools
import types
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Tuple, Union

from ...errors import RegistrationError
from .members import Unresolved, resolve

# ``inspect`` is imported with the first handler that is no plain function: it takes longer to import than most servers do to
# register their tools.
if TYPE_CHECKING:
    import inspect

__all__ = [
    "MISSING", "POSITIONAL_ONLY", "Parameter", "Signature", "VAR_KEYWORD", "VAR_POSITIONAL", "decorated", "inner_of",
    "is_plain", "name_of", "read_signature", "refuse_async", "target_of",
]

#: Stands for "no annotation" and "no default".
MISSING: Any = object()
_PLAIN = frozenset({str, int, float, bool})
_CHANGED = ("__wrapped__", "__signature__")
#: The kinds of parameters: the values of ``inspect.Parameter.kind``.
POSITIONAL_ONLY, _NAMED, VAR_POSITIONAL, _KEYWORD_ONLY, VAR_KEYWORD = range(5)
#: The flags of code with parameters that are not simply positional or named, and of code that is async: CO_VARARGS,
#: CO_VARKEYWORDS; CO_COROUTINE, CO_ASYNC_GENERATOR.
_VARIADIC = 0x4 | 0x8
_ASYNC = 0x80 | 0x200
_CALLED = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


class Parameter(NamedTuple):
    """One parameter; ``how`` is its kind."""

    name: str
    how: int
    annotation: Any
    default: Any


class Signature:
    """The parameters in order, and the return annotation."""

    def __init__(self, parameters: List[Parameter], returns: Any) -> None:
        self.parameters = parameters
        self.returns = returns


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
    annotations = function.__annotations__
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    parameters = []
    for at, name in enumerate(code.co_varnames[:code.co_argcount]):
        annotation = annotations.get(name, MISSING)
        if annotation is MISSING and name in ("self", "cls"):
            return None
        if not is_plain(annotation):
            annotation = _resolved(annotation, function, f"{where}: parameter {name!r}")
        parameters.append(Parameter(name, _NAMED, annotation, defaults[at - first] if at >= first else MISSING))
    returns = annotations.get("return", MISSING)
    return Signature(parameters, returns if is_plain(returns) else _resolved(returns, function, _returned(where)))


def is_plain(annotation: Any) -> bool:
    """Whether *annotation* is str, int, float or bool, which need no resolving."""
    return type(annotation) is type and annotation in _PLAIN


def _full(function: Any, where: str) -> Signature:
    import inspect

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
    def stated(given: Any) -> Any:
        return MISSING if given is inspect.Parameter.empty else given

    parameters = [Parameter(item.name, int(item.kind), _resolved(stated(item.annotation), owner,
                                                                 f"{where}: parameter {item.name!r}"), stated(item.default))
                  for item in signature.parameters.values()]
    return Signature(parameters, _resolved(stated(signature.return_annotation), owner, _returned(where)))


def _returned(where: str) -> str:
    return f"{where}: the returned value"


def _refuse_unbound(owner: Any, function: Any, signature: "inspect.Signature", where: str) -> None:
    first: Tuple[str, ...] = tuple(signature.parameters)[:1]
    if first in (("self",), ("cls",)) and isinstance(function, types.FunctionType):
        home = owner.__qualname__.rpartition(".")[0]
        if home and not home.endswith("<locals>") and signature.parameters[first[0]].annotation is signature.empty:
            raise RegistrationError(f"{where}: parameter {first[0]!r} takes the object, but a function in a class body"
                                    f" is not bound to one; register a bound method, as in add_tool(thing.method)")


def _resolved(annotation: Any, owner: Any, what: str) -> Any:
    if annotation is MISSING or annotation is None:
        return annotation
    try:
        return resolve(annotation, owner)
    except Unresolved as error:
        raise RegistrationError(f"{what} is annotated with {error}") from error


def decorated(name: Union[None, str, Callable[..., Any]], add: Callable[[Any, Optional[str]], None]) -> Any:
    """Return a decorator that registers with *add*; or the function itself, registered, if it stands for the name."""

    def register(function: Any) -> Any:
        add(function, None if name is function else name)  # type: ignore[arg-type]
        return function

    return register(name) if callable(name) else register
