"""A compiled handler: signature to schema, arguments to call.

May import: errors, protocol.validation, server.docstrings, server.outputs, server.schemas
"""

import functools
import inspect
import typing
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..errors import RegistrationError
from ..protocol.validation import Validator, check_schema
from .docstrings import Documentation, parse
from .outputs import Output, compile_output
from .schemas import Mismatch, Node, Schemas, json_default, unwrap_annotated

__all__ = ["BadArguments", "Function", "compile_function"]

_NOTHING: Any = inspect.Parameter.empty
_PLAIN = frozenset({str, int, float, bool})


class BadArguments(ValueError):
    """The arguments do not fit; ``problems`` says why, one sentence each."""

    def __init__(self, problems: List[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Parameter(NamedTuple):
    name: str
    node: Node
    required: bool
    default: Any


class Function:
    """A handler with what is known of its arguments and of its result.

    Made by :func:`compile_function`. ``wants_context`` names the parameter that gets the context and
    ``questions`` the declared ones; neither is part of the schema.
    """

    def __init__(self, function: Callable[..., Any], name: str, description: Optional[str]) -> None:
        self.function = function
        self.name = name
        self.wants_context: Optional[str] = None
        self.questions: Dict[str, Tuple[Any, Any]] = {}
        self.output: Output = Output(None, False, False)
        self._description = description
        self._documentation: Optional[Documentation] = None
        self._parameters: List[_Parameter] = []
        self._rest: Optional[Node] = None
        self._definitions: Dict[str, Any] = {}
        self._schema: Optional[Dict[str, Any]] = None
        #: For a schema of the user's own: its validator, and the parameter that gets the whole object.
        self._validator: Optional[Validator] = None
        self._whole: Optional[str] = None
        self._accepted: "Optional[frozenset[str]]" = None

    def __repr__(self) -> str:
        return f"<Function {self.name!r}>"

    @property
    def documentation(self) -> Documentation:
        """What the docstring says; read on first use."""
        if self._documentation is None:
            function = self.function.func if isinstance(self.function, functools.partial) else self.function
            self._documentation = parse(function.__doc__)
        return self._documentation

    @property
    def description(self) -> Optional[str]:
        """As given, or the docstring's text."""
        return self._description if self._description is not None else self.documentation.text

    @property
    def parameters(self) -> List[Tuple[str, bool, Optional[str]]]:
        """Name, whether it is required, and description of each parameter that a caller fills in."""
        described = self.documentation.parameters
        return [(item.name, item.required, item.node.schema.get("description") or described.get(item.name))
                for item in self._parameters]

    @property
    def input_schema(self) -> Dict[str, Any]:
        """The JSON Schema of the arguments."""
        if self._schema is None:
            self._schema = self._build_schema()
        return self._schema

    @property
    def output_schema(self) -> Optional[Dict[str, Any]]:
        """The JSON Schema of the structured result; None when there is none."""
        return self.output.schema

    @property
    def wrapped(self) -> bool:
        """Whether the structured result is ``{"result": value}``."""
        return self.output.wrapped

    def _build_schema(self) -> Dict[str, Any]:
        described = self.documentation.parameters
        properties: Dict[str, Any] = {}
        for item in self._parameters:
            schema = dict(item.node.schema)
            if "description" not in schema and described.get(item.name):
                schema["description"] = described[item.name]
            if not item.required:
                shown, value = json_default(item.default)
                if shown:
                    schema["default"] = value
            properties[item.name] = schema
        built: Dict[str, Any] = {"type": "object", "properties": properties}
        required = [item.name for item in self._parameters if item.required]
        if required:
            built["required"] = required
        built["additionalProperties"] = False if self._rest is None else (self._rest.schema or True)
        if self._definitions:
            built["$defs"] = self._definitions
        return built

    def bind(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the keyword arguments for a call, checked and converted.

        :raises BadArguments: something is missing, unknown, or of the wrong type.
        """
        if self._validator is not None:
            return self._bind_raw(arguments)
        kwargs: Dict[str, Any] = {}
        problems: List[str] = []
        for name, node, required, _ in self._parameters:
            if name in arguments:
                try:
                    kwargs[name] = node.convert(arguments[name])
                except Mismatch as error:
                    problems.append(error.sentence(name))
                    kwargs[name] = None
            elif required:
                problems.append(f"{name}: is required")
        if len(kwargs) < len(arguments):
            self._bind_rest(arguments, kwargs, problems)
        if problems:
            raise BadArguments(problems)
        return kwargs

    def _bind_rest(self, arguments: Mapping[str, Any], kwargs: Dict[str, Any], problems: List[str]) -> None:
        known = [item.name for item in self._parameters]
        for name, value in arguments.items():
            if name in known:
                continue
            if self._rest is None:
                import difflib  # on the error path only

                close = difflib.get_close_matches(name[:100], known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known) or 'none'}"
                problems.append(f"unknown argument {name[:100]!r}{hint}")
            elif name == self.wants_context or name in self.questions:
                problems.append(f"{name}: is not an argument")
            else:
                try:
                    kwargs[name] = self._rest.convert(value)
                except Mismatch as error:
                    problems.append(error.sentence(name))

    def _bind_raw(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        assert self._validator is not None
        problems = self._validator.problems(arguments)
        if problems:
            raise BadArguments(problems)
        if self._whole is not None:
            return {self._whole: dict(arguments)}
        if self._accepted is not None:
            unknown = [name for name in arguments if name not in self._accepted]
            if unknown:
                raise BadArguments([f"unknown argument {name[:100]!r}" for name in unknown])
        return dict(arguments)

    def call(self, kwargs: Mapping[str, Any]) -> Any:
        """Call the handler."""
        return self.function(**kwargs)


def compile_function(function: Callable[..., Any], *, name: Optional[str] = None, description: Optional[str] = None,
                     input_schema: Optional[Dict[str, Any]] = None, output_schema: Optional[Dict[str, Any]] = None,
                     structured_output: Optional[bool] = None, kind: str = "tool") -> Function:
    """Return the compiled form of a handler.

    With *input_schema* the arguments are checked against it and passed by name; a function whose only
    parameter (besides the context) is not annotated, or is a dict, gets all of them as one dict.

    :param kind: "tool", "prompt", "resource" or "completion"; arguments of prompts and resources are
        strings, which are converted to what is annotated.
    :raises RegistrationError: it cannot be served; with the parameter, the reason and the fix.
    """
    if not callable(function):
        raise RegistrationError(f"a {kind} must be a function, not {function!r}")
    label = name or getattr(function, "__name__", None) or type(function).__name__
    if label == "<lambda>":
        raise RegistrationError(f"a lambda has no name; give it one: name='...'")
    where = f"{kind} {label!r}"
    _refuse_async(function, where)
    compiled = Function(function, label, description)
    try:
        signature = _simple_signature(function) or _full_signature(function, where)
    except (ValueError, TypeError) as error:
        if isinstance(error, RegistrationError):
            raise
        raise RegistrationError(f"{where}: its signature cannot be read ({error}); wrap it in a def with annotations") from error
    schemas = Schemas(where)
    _compile_parameters(compiled, signature, schemas, kind, raw=input_schema is not None)
    compiled._definitions = schemas.definitions
    if input_schema is not None:
        _use_raw_schema(compiled, signature, input_schema, where)
    if kind == "tool":
        compiled.output = compile_output(signature.returns, output_schema, structured_output, where)
    return compiled


class _Signature(NamedTuple):
    #: (name, kind, annotation, default)
    parameters: List[Tuple[str, Any, Any, Any]]
    returns: Any


def _refuse_async(function: Any, where: str) -> None:
    target = function.func if isinstance(function, functools.partial) else function
    if not inspect.isroutine(target) and not inspect.isclass(target) and hasattr(target, "__call__"):
        target = target.__call__
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        raise RegistrationError(f"{where} is an async function; this library has no event loop. Make it a plain def:"
                                f" blocking calls are fine, each handler has a thread of its own")


def _simple_signature(function: Any) -> Optional[_Signature]:
    """Read a plain function with builtin annotations off its code object, which is ten times cheaper."""
    if type(function) is not type(_simple_signature) or hasattr(function, "__wrapped__"):
        return None
    code = function.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_posonlyargcount or code.co_kwonlyargcount:
        return None
    names = code.co_varnames[:code.co_argcount]
    annotations = function.__annotations__
    returns = annotations.get("return", _NOTHING)
    if returns is not _NOTHING and returns is not None and not _is_plain(returns):
        return None
    if not all(_is_plain(annotations.get(name)) for name in names):
        return None
    defaults = function.__defaults__ or ()
    first = len(names) - len(defaults)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return _Signature([(name, keyword, annotations[name], defaults[at - first] if at >= first else _NOTHING)
                       for at, name in enumerate(names)], returns)


def _is_plain(annotation: Any) -> bool:
    return type(annotation) is type and annotation in _PLAIN


def _full_signature(function: Any, where: str) -> _Signature:
    signature = inspect.signature(function)
    target = function.func if isinstance(function, functools.partial) else function
    if inspect.isclass(target):
        target = target.__init__
    elif not inspect.isroutine(target):
        target = type(target).__call__
    try:
        hints = typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except NameError as error:
        raise RegistrationError(f"{where}: an annotation uses a name that is not defined at module level ({error});"
                                f" define it there, before the function is registered") from error
    except TypeError as error:
        # ``int | None`` written as a string on Python 3.9, say.
        raise RegistrationError(f"{where}: an annotation cannot be evaluated on this Python ({error});"
                                f" write Optional[X] or Union[X, Y] for X | Y") from error
    parameters = [(parameter.name, parameter.kind, _no_implicit(hints.get(parameter.name, parameter.annotation),
                   parameter.annotation), parameter.default) for parameter in signature.parameters.values()]
    return _Signature(parameters, hints.get("return", signature.return_annotation))


def _no_implicit(hint: Any, written: Any) -> Any:
    """Undo what typing does before 3.11: it makes Optional of whatever has None as its default."""
    if isinstance(written, str) or written is _NOTHING:
        return hint
    return written if not _mentions_text(written) else hint


def _mentions_text(annotation: Any) -> bool:
    if isinstance(annotation, (str, typing.ForwardRef)):
        return True
    return any(_mentions_text(item) for item in typing.get_args(annotation) if item is not Ellipsis) and \
        typing.get_origin(annotation) is not typing.Literal


def _is_context(annotation: Any) -> bool:
    base, _ = unwrap_annotated(annotation)
    for candidate in (base, *typing.get_args(base)):
        if isinstance(candidate, type) and getattr(candidate, "__mcplite_context__", False):
            return True
    return False


def _compile_parameters(compiled: Function, signature: _Signature, schemas: Schemas, kind: str, raw: bool) -> None:
    for name, how, annotation, default in signature.parameters:
        if _is_context(annotation):
            compiled.wants_context = name
            continue
        base, extras = unwrap_annotated(annotation)
        question = next((extra for extra in extras if getattr(extra, "__mcplite_question__", False)), None)
        if question is not None:
            compiled.questions[name] = (base, question)
            continue
        if raw:
            continue
        if how is inspect.Parameter.VAR_POSITIONAL:
            raise schemas.refuse(name, "is *args, but arguments come by name; take a list instead")
        if how is inspect.Parameter.POSITIONAL_ONLY:
            raise schemas.refuse(name, "is positional-only, but arguments come by name; drop the '/'")
        node = schemas.compile(Any if annotation is _NOTHING else annotation, name)
        if kind in ("prompt", "resource"):
            node = _textual(node)
        if how is inspect.Parameter.VAR_KEYWORD:
            compiled._rest = node
            continue
        if default is not _NOTHING and kind == "tool":
            _check_default(name, node, default, schemas)
        compiled._parameters.append(_Parameter(name, node, default is _NOTHING, default))


def _check_default(name: str, node: Node, default: Any, schemas: Schemas) -> None:
    shown, value = json_default(default)
    if not shown or default is None:
        return  # None as "not given" is common, whatever the annotation says
    try:
        node.convert(value)
    except Mismatch as error:
        raise schemas.refuse(name, f"has a default that does not fit its annotation: {error.message};"
                                   f" change one of them") from error


def _textual(node: Node) -> Node:
    """Return the node for an argument that arrives as a string (PRMT-17)."""
    kinds = _kinds(node.schema)
    convert = node.convert
    if "string" in kinds or not kinds:
        return node
    import json

    def from_text(value: Any) -> Any:
        if type(value) is not str:
            return convert(value)
        text = value.strip()
        if kinds == {"boolean"} and text.lower() in ("true", "false", "yes", "no", "1", "0"):
            return text.lower() in ("true", "yes", "1")
        try:
            return convert(json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, Mismatch):
                raise
            raise Mismatch(f"{value[:80]!r} is not {' or '.join(sorted(kinds))}") from None

    return Node(node.schema, from_text)


def _kinds(schema: Mapping[str, Any]) -> "set[str]":
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind} if isinstance(kind, str) else set()
    for branch in schema.get("anyOf", ()):
        kinds |= _kinds(branch)
    return kinds


def _use_raw_schema(compiled: Function, signature: _Signature, schema: Dict[str, Any], where: str) -> None:
    check_schema(schema, what=f"{where}: input_schema")
    if schema.get("type") != "object":
        raise RegistrationError(f"{where}: input_schema must have \"type\": \"object\" (TOOL-08)")
    own = [item for item in signature.parameters
           if item[0] != compiled.wants_context and item[0] not in compiled.questions]
    compiled._schema = schema
    compiled._validator = Validator(schema)
    properties = schema.get("properties") or {}
    takes_all = any(how is inspect.Parameter.VAR_KEYWORD for _, how, _, _ in own)
    if len(own) == 1 and not takes_all and own[0][0] not in properties:
        annotation = own[0][2]
        if annotation is _NOTHING or annotation is dict or annotation is Any or \
                typing.get_origin(annotation) in (dict, Mapping, typing.get_origin(typing.Mapping[str, Any])):
            compiled._whole = own[0][0]
            return
    if takes_all:
        return
    names = frozenset(name for name, _, _, _ in own)
    missing = [name for name in properties if name not in names]
    if missing:
        raise RegistrationError(f"{where}: input_schema has the properties {missing}, which the function does not take;"
                                f" add parameters, or take one dict with all of them")
    unfilled = [name for name, how, _, default in own if default is _NOTHING and name not in schema.get("required", ())]
    if unfilled:
        raise RegistrationError(f"{where}: the parameters {unfilled} have no default, but input_schema does not require"
                                f" them; give defaults or list them under \"required\"")
    compiled._accepted = names
