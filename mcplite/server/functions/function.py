"""A compiled handler: signature to schema, arguments to call."""

import collections.abc
import dataclasses
import inspect
import typing
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from ...errors import RegistrationError
from ...protocol.jsonio import load
from ...protocol.schema.validation import Validator, check_schema
from .docstrings import Documentation, parse
from .members import NOTHING
from .nodes import Mismatch, Node
from .returns import Output, compile_output
from .schemas import Schemas, as_default, described_schema, unwrap_annotated
from .signature import MISSING, Signature, inner_of, is_plain, name_of, read_signature, refuse_async, target_of

__all__ = ["BadArguments", "Function", "compile_function", "textual"]

_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def textual(node: Node) -> Node:
    """Return the node that also takes the text of a number, of true or false, or of JSON.

    Where text is among what is annotated, text stays what it is.
    """
    schema, convert = node
    if _kinds(schema) <= {"string"}:
        return node
    return Node(schema, lambda value: convert(_parsed(value, schema)))


def _parsed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return what a text stands for, or the text itself when it stands for nothing that is wanted."""
    if type(value) is list and isinstance(schema.get("items"), dict):
        return [_parsed(item, schema["items"]) for item in value]
    if type(value) is not str:
        return value
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return value
    text = value.strip()
    if "boolean" in kinds and kinds <= {"boolean", "null"} and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return load(text.encode("utf-8"))
    except ValueError:
        return value  # the converter says what is wrong with it


def _kinds(schema: Mapping[str, Any]) -> Set[str]:
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind} if isinstance(kind, str) else set()
    for branch in schema.get("anyOf", ()):
        kinds |= _kinds(branch)
    return kinds


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
        self.output: Output = Output(None, None, False)
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
            target, inner = target_of(self.function), inner_of(self.function)
            self._documentation = parse(getattr(target, "__doc__", None) or getattr(inner, "__doc__", None))
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

    def mentions(self, word: str) -> bool:
        """Whether a word occurs in the schema of the arguments, as far as that is a matter of their types."""
        if self._schema is not None:
            return word in repr(self._schema)
        return any(word in repr(item.node.schema) for item in self._parameters) or (
            bool(self._definitions) and word in repr(self._definitions))

    def _build_schema(self) -> Dict[str, Any]:
        described = self.documentation.parameters
        built: Dict[str, Any] = {"type": "object", "properties": {
            item.name: described_schema(item.node, described.get(item.name), item.default) for item in self._parameters}}
        required = [item.name for item in self._parameters if item.required]
        if required:
            built["required"] = required
        built["additionalProperties"] = False if self._rest is None else (self._rest.schema or True)
        if self._rest is not None and self._hidden():
            built["propertyNames"] = {"not": {"enum": self._hidden()}}
        if self._definitions:
            built["$defs"] = self._definitions
        return built

    def _hidden(self) -> List[str]:
        """Return the names that are parameters, but not for callers to fill in."""
        return [*self.questions] + ([] if self.wants_context is None else [self.wants_context])

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
            if self._rest is None or name in self._hidden():
                problems.append(_unknown(name, known))
                continue
            try:
                kwargs[name] = self._rest.convert(value)
            except Mismatch as error:
                problems.append(error.sentence(name[:100]))

    def _bind_raw(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        assert self._validator is not None
        problems = self._validator.problems(arguments)
        if problems:
            raise BadArguments(problems)
        if self._whole is not None:
            return {self._whole: dict(arguments)}
        known = self._accepted
        unknown = [name for name in arguments if name in self._hidden() or known is not None and name not in known]
        if unknown:
            raise BadArguments([_unknown(name, sorted(known or ())) for name in unknown])
        return dict(arguments)

    def call(self, kwargs: Mapping[str, Any]) -> Any:
        """Call the handler."""
        return self.function(**kwargs)


def _unknown(name: str, known: List[str]) -> str:
    import difflib  # on the error path only

    close = difflib.get_close_matches(name[:100], known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known) or 'none'}"
    return f"unknown argument {name[:100]!r}{hint}"


def compile_function(function: Callable[..., Any], *, name: Optional[str] = None, description: Optional[str] = None,
                     input_schema: Optional[Dict[str, Any]] = None, output_schema: Optional[Dict[str, Any]] = None,
                     structured_output: Optional[bool] = None, kind: str = "tool") -> Function:
    """Return the compiled form of a handler.

    With *input_schema* the arguments are checked against it and passed by name, just as they came; a
    function whose only parameter (besides the context) is not annotated, or is a dict, gets all of them
    as one dict, unless the schema has a property of that name.

    :param kind: "tool", "prompt", "resource" or "completion"; arguments of prompts and resources are
        strings, which are converted to what is annotated.
    :raises RegistrationError: it cannot be served; with the parameter, the reason and the fix.
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    if not callable(function):
        advice = "; register the method of the finished class" if isinstance(function, classmethod) else ""
        raise RegistrationError(f"a {kind} must be a function, not {function!r}{advice}")
    label = name or name_of(function)
    if label == "<lambda>":
        raise RegistrationError("a lambda has no name; give it one: name='...'")
    where = f"{kind} {label!r}"
    refuse_async(function, where)
    compiled = Function(function, label, description)
    signature = read_signature(function, where)
    schemas = Schemas(where)
    _compile_parameters(compiled, signature, schemas, kind, raw=input_schema is not None)
    compiled._definitions = schemas.definitions
    if input_schema is not None:
        _use_raw_schema(compiled, signature, input_schema, where)
    if kind == "tool":
        compiled.output = compile_output(signature.returns, output_schema, structured_output, where)
    return compiled


def _is_context(annotation: Any) -> bool:
    base, _ = unwrap_annotated(annotation)
    for candidate in (base, *typing.get_args(base)):
        if isinstance(candidate, type) and getattr(candidate, "__mcplite_context__", False):
            return True
    return False


def _compile_parameters(compiled: Function, signature: Signature, schemas: Schemas, kind: str, raw: bool) -> None:
    for name, how, annotation, default in signature.parameters:
        if how is inspect.Parameter.VAR_POSITIONAL:
            raise schemas.refuse(name, "is *args, but arguments come by name; take a list instead")
        if how is inspect.Parameter.POSITIONAL_ONLY:
            raise schemas.refuse(name, "is positional-only, but arguments come by name; drop the '/'")
        plain = is_plain(annotation)
        if not plain and _is_context(annotation):
            if compiled.wants_context is not None:
                raise schemas.refuse(name, f"is a second context, beside {compiled.wants_context!r}; keep one of them")
            compiled.wants_context = name
            continue
        base, extras = (annotation, ()) if plain else unwrap_annotated(annotation)
        question = next((extra for extra in extras if getattr(extra, "__mcplite_question__", False)), None)
        if question is not None:
            compiled.questions[name] = (base, question)
            continue
        if raw:
            continue
        node = schemas.compile(Any if annotation is MISSING else annotation, name)
        if default is not MISSING:
            _check_default(name, node, default, schemas)
        if kind in ("prompt", "resource"):
            node = textual(node)
        if how is inspect.Parameter.VAR_KEYWORD:
            compiled._rest = node
        elif default is MISSING:
            compiled._parameters.append(_Parameter(name, node, True, NOTHING))
        else:
            compiled._parameters.append(_Parameter(name, node, False, default))


def _check_default(name: str, node: Node, default: Any, schemas: Schemas) -> None:
    # None as "not given" is common, whatever the annotation says, and so are marks that JSON has no form of.
    # A dataclass says by itself what it can be made of.
    value = NOTHING if default is None or dataclasses.is_dataclass(default) else as_default(default)
    if value is NOTHING:
        return
    try:
        node.convert(value)
    except Mismatch as error:
        raise schemas.refuse(name, f"has a default that does not fit its annotation: {error.sentence()};"
                                   f" change one of them") from error


def _use_raw_schema(compiled: Function, signature: Signature, schema: Dict[str, Any], where: str) -> None:
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
        if annotation in (MISSING, Any, dict) or typing.get_origin(annotation) in (dict, collections.abc.Mapping):
            compiled._whole = own[0][0]
            return
    if takes_all:
        return
    names = frozenset(name for name, _, _, _ in own)
    missing = [name for name in properties if name not in names]
    if missing:
        raise RegistrationError(f"{where}: input_schema has the properties {missing}, which the function does not take;"
                                f" add parameters, or take one dict with all of them")
    unfilled = [name for name, how, _, default in own if default is MISSING and name not in schema.get("required", ())]
    if unfilled:
        raise RegistrationError(f"{where}: the parameters {unfilled} have no default, but input_schema does not require"
                                f" them; give defaults or list them under \"required\"")
    compiled._accepted = names
