"""The signature of a handler: its parameters with resolved annotations, and what it returns, read once when it is registered.

A tool's return annotation, or the output schema given instead, becomes the schema of its structured result.
"""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Literal, Optional, Tuple, Union

from ...errors import RegistrationError
from ...protocol.jsonrpc import encode_json
from ...revisions import Revision
from ...types import NULL, Model
from .class_fields import Unresolved, resolve
from .converters import SIMPLE
from .schemas import UNIONS, ImpossibleKey, Schemas, unwrap_annotated

# ``inspect`` is imported with the first handler that is no plain function: it takes longer to import than most servers do to
# register their tools. Other modules that neither a start nor a list needs are imported by the functions that use them, too.
if TYPE_CHECKING:
    import inspect

    from ...protocol.jsonrpc import Encoded
    from ...protocol.schema.validation import Validator

#: Stands for "no annotation" and "no default".
MISSING: Any = object()
_CHANGED = ("__wrapped__", "__signature__")
#: What the first parameter of a function in a class body is called.
_BOUND = frozenset({"self", "cls"})
#: The classes of annotations that have no forward references: a class that is no generic alias, and None.
_RESOLVED = frozenset({type, type(None)})
#: The flags of code with parameters that are not simply positional or named, and of code that is async: CO_VARARGS,
#: CO_VARKEYWORDS; CO_COROUTINE, CO_ASYNC_GENERATOR.
_VARIADIC = 0x4 | 0x8
_ASYNC = 0x80 | 0x200
_GENERATOR = 0x20
_CALLED = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


class Signature:
    """The parameters and the return annotation of a handler.

    :param names: of the parameters, in order.
    :param annotations: of the parameters that have one.
    :param defaults: of the parameters that have one.
    :param returns: the return annotation; MISSING if there is none.
    :param owner: the function that has the annotations.
    :param rest: the name of ``**kwargs``; None without.
    """

    __slots__ = ("names", "annotations", "defaults", "returns", "owner", "rest")

    def __init__(self, names: Tuple[str, ...], annotations: Dict[str, Any], defaults: Dict[str, Any], returns: Any, owner: Any,
                 rest: Optional[str] = None) -> None:
        self.names, self.annotations, self.defaults = names, annotations, defaults
        self.returns, self.owner, self.rest = returns, owner, rest


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
    if type(function) is types.FunctionType and not function.__dict__:  # without __wrapped__ it stands for no other function
        refused = bool(function.__code__.co_flags & _ASYNC)
    else:
        import inspect

        target = inspect.unwrap(target_of(function))
        refused = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
    if refused:
        raise RegistrationError(f"{where} is an async function; this library has no event loop. Make it a plain def:"
                                f" blocking calls are fine, each handler has a thread of its own")


def is_generator(function: Any) -> str:
    """Return "plain" if a call of *function* makes a generator, "async" if its result needs an event loop, "" otherwise.

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
    return Signature(names, annotations, dict(zip(names[len(names) - len(given):], given)),
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
    annotations: Dict[str, Any] = {}
    defaults: Dict[str, Any] = {}
    rest = None
    for name, item in signature.parameters.items():
        if item.kind is item.VAR_POSITIONAL:
            raise RegistrationError(f"{where}: parameter {name!r} is *args, but arguments come by name; take a list instead")
        if item.kind is item.POSITIONAL_ONLY:
            raise RegistrationError(f"{where}: parameter {name!r} is positional-only, but arguments come by name; drop the '/'")
        if item.kind is item.VAR_KEYWORD:
            rest = name
        if item.annotation is not item.empty:
            annotations[name] = _resolved(item.annotation, owner, where, name)
        if item.default is not item.empty:
            defaults[name] = item.default
    returns = signature.return_annotation
    return Signature(tuple(signature.parameters), annotations, defaults,
                     MISSING if returns is signature.empty else _resolved(returns, owner, where, "return"), owner, rest)


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
    """Return a decorator that registers with *add*; if *name* is a function, register that, and return it."""

    def register(function: Any) -> Any:
        add(function, None if name is function else name)  # type: ignore[arg-type]
        return function

    return register(name) if callable(name) else register


#: What ``structured_output=`` of a tool may be.
StructuredOutput = Union[None, bool, Literal["bare"]]
_TEXT = (None, type(None), str, bytes)
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
_BARE = (MISSING, *_TEXT, Any, object, dict, set, *_LISTS)


class Output:
    """The declared output of a tool.

    :param schema: of the structured result, an object; None if no schema is declared.
    :param wrapped: whether the structured result is ``{"result": value}``, since the value is not an object.
    :param off: whether structured content is switched off.
    :param exact: a type whose instances always fit the schema, so that they are not checked.
    :param bare: the schema of a wrapped value itself, which then is the structured result in the revisions that allow it;
        None wraps it in all of them.
    """

    def __init__(self, schema: Optional[Dict[str, Any]] = None, *, wrapped: bool = False, off: bool = False,
                 exact: Optional[type] = None, bare: Optional[Dict[str, Any]] = None) -> None:
        self.schema = schema
        self.wrapped = wrapped
        self.off = off
        self.exact = exact
        self.bare = bare
        #: The writers of the results, by revision; see :func:`~.results.result_writer`.
        self.writers: Dict[Revision, Callable[[Any, str], Optional[Encoded]]] = {}
        self._validator: Optional[Validator] = None

    @property
    def validator(self) -> Optional[Validator]:
        """Checks what a handler returns; None if no schema is declared. Made, and the rules of schemas loaded, on first use."""
        if self._validator is None and self.schema is not None:
            from ...protocol.schema.validation import Validator

            self._validator = Validator(self.schema)
        return self._validator

    def schema_for(self, revision: Revision) -> Optional[Dict[str, Any]]:
        """Return the schema to declare in a revision."""
        return self.schema if self.bare is None or revision.object_output_only else self.bare

    def value_for(self, structured: Any, revision: Revision) -> Any:
        """Return the structured result in the form of a revision (TOOL-40); None if the revision has no such form."""
        if not revision.structured_output:
            return None
        if revision.object_output_only:
            return structured if isinstance(structured, dict) else None
        if self.bare is None or not isinstance(structured, dict):
            return structured
        value = structured.get("result")
        return NULL if value is None else value

    def problems(self, structured: Any) -> List[str]:
        """Return what is wrong with a structured result under the declared schema, one sentence each."""
        validator = self.validator
        return [] if validator is None else validator.problems(structured)


def checked_text(value: Any, what: str, member: str) -> Any:
    """Return a text of a definition as a string, and None as it is.

    :param what: names the definition in errors, such as "tool 'add'".
    :param member: the keyword that has the value.
    :raises RegistrationError: it is no text, and does not stand for one.
    """
    if value is None or type(value) is str:
        return value
    from .definitions import definition_text  # for the few that are lazy translations

    return definition_text(value, what, member)


def written_schema(schema: Any, what: str) -> Any:
    """Return a schema that an author wrote as JSON: itself, or a copy with the texts of objects that stand for texts.

    :param what: names it in errors, such as "tool 'add': input_schema".
    :raises RegistrationError: it is not JSON.
    """
    try:
        encode_json(schema)
        return schema
    except (TypeError, ValueError):
        from .definitions import definition_json  # for those that have more in it

    try:
        return definition_json(schema)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}{error}") from error


def compile_output(annotation: Any, schema: Optional[Dict[str, Any]], structured: StructuredOutput, where: str,
                   owner: Any = None) -> Output:
    """Return the output that a return annotation, or *schema* instead of it, declares.

    :param structured: None decides by the annotation: objects and plain data are structured, text and content are
        not. True requires a schema, False switches structured content off. "bare" is True, and does not wrap a value
        that is not an object, in the revisions that allow that.
    :param where: names the tool in errors.
    :param owner: the function, whose module and variables have the names in the annotation.
    :raises RegistrationError: the schema is not valid, or *structured* is True and the annotation declares none.
    """
    if structured not in (None, True, False, "bare"):
        raise RegistrationError(f"{where}: structured_output is True, False, 'bare' or None, not {structured!r}")
    if structured is False:
        if schema is not None:
            raise RegistrationError(f"{where}: structured_output=False and output_schema contradict each other")
        return Output(off=True)
    bare = structured == "bare"
    if schema is not None:
        from ...protocol.schema.validation import check_schema

        schema = written_schema(schema, f"{where}: output_schema")
        check_schema(schema, what=f"{where}: output_schema")
        from ...protocol.schema.rules import as_object, in_result

        whole = as_object(schema)
        if whole is not None:
            return Output(whole)
        return Output(in_result(schema), wrapped=True, bare=dict(schema) if bare else None)
    if type(annotation) is type and (annotation in (int, float, bool) or annotation is str and structured is None):
        return _scalar_output(annotation, bare)
    base, _ = unwrap_annotated(annotation)
    if structured is None and (_is_bare(base) or _has_content(base)):
        return Output()
    if structured and (base is MISSING or _has_content(base)):
        raise RegistrationError(f"{where}: structured_output={structured!r} needs a return annotation of plain data, such as a"
                                f" dataclass, or output_schema=")
    schemas = Schemas(where, returned=True, owner=owner)
    try:
        node = schemas.compile(annotation, "")
    except ImpossibleKey:
        raise  # each call would fail
    except RegistrationError:
        if structured:
            raise
        return Output()
    built = dict(node.schema)
    if "$ref" in built:
        # Older clients expect "properties" at the top level.
        built = {**schemas.definitions[built.pop("$ref").rpartition("/")[2]], **built}
    if schemas.definitions:
        built["$defs"] = schemas.definitions
    return Output(built) if built.get("type") == "object" else _wrapping(built, bare)


@functools.lru_cache(maxsize=None)
def _scalar_output(annotation: type, bare: bool) -> Output:
    """Return the output of a str, int, float or bool. It depends on the arguments alone, so all such tools share it."""
    return Output() if annotation is str else _wrapping(SIMPLE[annotation].schema, bare, annotation)


def _wrapping(schema: Dict[str, Any], bare: bool, exact: Optional[type] = None) -> Output:
    """Return the output for a value that is not an object, which clients get as ``{"result": value}``.

    :param bare: whether they get the value itself in the revisions that allow it.
    """
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapped: Dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    for key in ("$defs", "$schema"):  # references are resolved from the top level
        if key in schema:
            wrapped[key] = schema[key]
    return Output(wrapped, wrapped=True, exact=exact, bare=dict(schema) if bare else None)


def _is_bare(annotation: Any) -> bool:
    if any(annotation is item for item in _BARE):
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in UNIONS:
        return any(_is_bare(item) for item in arguments if item not in _TEXT)
    # A list of Any can also hold images.
    return origin in _LISTS and all(item in (Any, object, Ellipsis) for item in arguments) or origin is dict and not arguments


def _has_content(annotation: Any) -> bool:
    """Whether a content class occurs in the annotation."""
    from ...types.media import Audio, Image

    base, _ = unwrap_annotated(annotation)
    if isinstance(base, type) and not typing.get_args(base):
        return issubclass(base, (Model, Image, Audio)) or base.__name__ == "InputRequired" or base is bytes
    return any(_has_content(item) for item in typing.get_args(base) if item is not Ellipsis)
