"""A compiled handler: signature to schema, arguments to call.

Registering a tool, prompt, resource or completion compiles its function once, with :func:`compile_function`. Every
request then uses :meth:`Function.bind` and calls ``Function.function``.
"""

from __future__ import annotations

import collections.abc
import typing
from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, FrozenSet, List, Mapping, Optional, Tuple

from ...errors import RegistrationError
from ...protocol.error_text import did_you_mean
from ...protocol.jsonrpc import encode_json, load
from ...rpc.tracing import get_logger
from ...types.lazy_dataclass import Record, record
from .class_fields import NOTHING, is_dataclass, with_metadata
from .converters import SIMPLE, Mismatch, Node, kinds_of
from .docstrings import parse
from .schemas import Schemas, as_default, described_schema, description_of, only_ours, unwrap_annotated
from .signature import (
    MISSING,
    Output,
    Signature,
    StructuredOutput,
    checked_text,
    compile_output,
    inner_of,
    name_of,
    read_signature,
    refuse_async,
    target_of,
    written_schema,
)

# Modules that neither the start of a server nor a list needs are imported by the functions that use them.
if TYPE_CHECKING:
    from ...protocol.schema.validation import Validator
    from ...types import PromptArgument
    from .docstrings import Documentation
    from .foreign.metadata import FieldParameter

_log = get_logger(__name__)
#: Types of defaults that are no ``Field(...)`` and no objects of another library. ``object`` is the type of MISSING.
_PLAIN_DEFAULTS = frozenset({object, type, type(None), bool, int, float, str, tuple, list, dict})
#: Types of schemas that contain no other schema, if the type is their only keyword.
_SCALARS = ("string", "integer", "number", "boolean", "null")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _with_items(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema, with ``items`` if it is one of a list or tuple: several clients and models' APIs refuse it otherwise."""
    kinds = schema.get("type")
    if "items" in schema or "array" not in (kinds if isinstance(kinds, list) else [kinds]):
        return schema
    first = schema.get("prefixItems") or [{}]
    closed = schema.get("maxItems") == len(first) and all(one == first[0] for one in first)
    return {**schema, "items": first[0] if closed else {}}


def textual(node: Node) -> Node:
    """Return a node that also converts text to the number, boolean or JSON value that *node* takes.

    If the annotation includes str, text is left as it is.
    """
    schema, convert = node.schema, node.convert
    if kinds_of(schema) <= {"string"}:
        return node
    return Node(schema, lambda value: convert(_parsed(value, schema)))


def _parsed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value that a text stands for under *schema*; the text itself if it stands for none."""
    if type(value) is list and isinstance(schema.get("items"), dict):
        return [_parsed(item, schema["items"]) for item in value]
    if type(value) is not str:
        return value
    kinds = kinds_of(schema)
    if not kinds or "string" in kinds:
        return value
    text = value.strip()
    if "boolean" in kinds and kinds <= {"boolean", "null"} and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return load(text.encode("utf-8"))
    except ValueError:
        return value  # the converter reports what is wrong with it


def _choices(schema: Mapping[str, Any]) -> Optional[List[str]]:
    """Return the texts that :func:`textual` takes for a schema; None if they cannot be listed."""
    kinds = kinds_of(schema)
    if "enum" in schema:  # if texts are taken as they are, no text stands for another value
        return [value if isinstance(value, str) else encode_json(value) for value in schema["enum"]
                if isinstance(value, str) or value is not None and kinds and "string" not in kinds]
    if "anyOf" in schema:
        parts = [_choices(branch) for branch in schema["anyOf"] if branch.get("type") != "null"]
        return None if None in parts else [text for part in parts for text in part or ()]
    return ["true", "false"] if kinds == {"boolean"} else None


#: Characters of a schema or of choices in the description of a prompt's argument.
_MOST_SAID = 300
#: Problems that an error names. There may be as many as arguments, and each takes a search for a similar name.
_MAX_PROBLEMS = 10


class BadArguments(ValueError):
    """The arguments do not fit the function; ``problems`` lists the reasons, one sentence each; of very many the first ones."""

    def __init__(self, problems: List[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@record(frozen=True)
class _GivenSchema(Record):
    """An input schema of the user's own, and how the arguments that it allows are passed."""

    schema: Dict[str, Any]
    validator: "Validator"
    #: The parameter that gets all arguments as one dict.
    whole: Optional[str] = None
    #: The names that the function takes; None with ``**kwargs``.
    accepted: Optional[FrozenSet[str]] = None


class Function:
    """A handler with its compiled arguments and result, made by :func:`compile_function`.

    ``wants_context`` names the parameter that gets the context, ``questions`` the parameters with a declared
    question; neither is part of the schema.
    """

    #: Whether clients get the descriptions of parameters apart from that of the function; a template has no place for them.
    parameters_have_descriptions = True

    def __init__(self, function: Callable[..., Any], name: str, description: Optional[str]) -> None:
        self.function = function
        self.name = name
        #: The parameter that gets the context.
        self.wants_context: Optional[str] = None
        #: The parameters that get the user's answer to a declared question: annotation and question.
        self.questions: Dict[str, Tuple[Any, Any]] = {}
        self.output = Output()
        self._description = description
        self._documentation: "Optional[Documentation]" = None
        #: The nodes of the parameters that the caller fills in, by their names for the caller.
        self._arguments: Dict[str, Node] = {}
        #: The defaults of the arguments that are not required; NOTHING for a default that is made for each call.
        self._defaults: Dict[str, Any] = {}
        #: The node of each ``**kwargs`` value; None without ``**kwargs``.
        self._rest: Optional[Node] = None
        #: The schemas of recursive classes.
        self._definitions: Dict[str, Any] = {}
        self._given: Optional[_GivenSchema] = None
        self._schema: Optional[Dict[str, Any]] = None

    def __repr__(self) -> str:
        return f"<Function {self.name!r}>"

    @property
    def documentation(self) -> "Documentation":
        """The parsed docstring; parsed on first use."""
        if self._documentation is None:
            docstring = (getattr(target_of(self.function), "__doc__", None)
                         or getattr(inner_of(self.function), "__doc__", None))
            self._documentation = self._parse(docstring)
        return self._documentation

    def _parse(self, docstring: Any) -> "Documentation":
        return parse(docstring, self._documented())

    def _documented(self) -> Collection[str]:
        """Return the parameters that the text need not describe: the schema does, or the caller does not fill them in."""
        if (self._given is None and self.wants_context is None and not self.questions and self.parameters_have_descriptions
                and hasattr(self.function, "__code__")):
            return self._arguments  # the caller fills in all of them
        found = {*self.questions} if self.wants_context is None else {*self.questions, self.wants_context}
        if self._given is not None:
            properties = self._given.schema.get("properties") or {}
            found.update(name for name, schema in properties.items() if isinstance(schema, dict) and "description" in schema)
        elif self.parameters_have_descriptions:
            # Parameters of its code that are not among the arguments have values already, such as from functools.partial.
            code = getattr(target_of(self.function), "__code__", None)
            found.update(self._arguments, () if code is None else code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])
        return found

    @property
    def description(self) -> Optional[str]:
        """The description as given; otherwise the docstring's text."""
        return self._description if self._description is not None else self.documentation[0]

    @property
    def parameters(self) -> List[Tuple[str, bool, Optional[str]]]:
        """The name, whether it is required, and the description of each parameter that the caller fills in."""
        described = self.documentation[1]
        return [(name, name not in self._defaults, description_of(node.schema, described.get(name)))
                for name, node in self._arguments.items()]

    def choices(self, name: str) -> List[str]:
        """Return the texts that a parameter takes, as for an Enum, a Literal or a bool; none if it also takes others."""
        node = self._arguments.get(name)
        return [] if node is None else _choices(node.schema) or []

    @property
    def has_choices(self) -> bool:
        """Whether a parameter takes only texts of a list."""
        return any(map(self.choices, self._arguments))

    def prompt_arguments(self) -> "List[PromptArgument]":
        """Return the parameters as arguments of a prompt, which are texts; one for a list or an object takes its JSON.

        The descriptions name the texts that are taken, if they are few.
        """
        from ...types import PromptArgument  # for servers that have prompts

        found = []
        for name, required, description in self.parameters:
            schema = self._arguments[name].schema
            kinds, said = kinds_of(schema), ", ".join(self.choices(name))
            if kinds & {"array", "object"} and "string" not in kinds:
                text = encode_json({key: value for key, value in schema.items() if key not in ("title", "description")})
                said = f"As JSON of this schema: {text}" if len(text) <= _MOST_SAID else "As JSON"
            elif said:
                said = f"One of: {said}" if len(said) <= _MOST_SAID else ""
            description = " ".join(filter(None, (description, said)))
            found.append(PromptArgument(name, description or None, required, schema.get("title")))
        return found

    @property
    def input_schema(self) -> Dict[str, Any]:
        """The JSON Schema of the arguments."""
        if self._schema is None:
            self._schema = self._build_schema()
        return self._schema

    def mentions(self, word: str) -> bool:
        """Whether *word* occurs in the argument types' schemas (descriptions from the docstring are not searched)."""
        if self._schema is not None:
            return word in repr(self._schema)
        schemas = (one.schema for one in self._arguments.values() if len(one.schema) > 1 or "type" not in one.schema)
        return any(word in repr(schema) for schema in (*schemas, self._definitions))

    def take_parameters(self, signature: Signature, schemas: Schemas, kind: str, input_schema: Optional[Dict[str, Any]]
                        ) -> "Dict[str, FieldParameter]":
        """Take the parameters: the context, answers to questions, and the caller's arguments; return those with a Field.

        :param input_schema: one of the user's own, to check the arguments against; None makes one from the annotations.
        :raises RegistrationError: one cannot be filled in; the text names it, the reason and the fix.
        """
        fields: Dict[str, FieldParameter] = {}
        raw = input_schema is not None
        # The nodes of parameters whose annotation is only a class. Only tools without an ``input_schema`` use them, since the
        # texts for other kinds are converted; and only before the first Field, whose alias can be the name of a parameter.
        direct = SIMPLE if kind == "tool" and not raw else {}
        for parameter in signature.names:
            annotation = signature.annotations.get(parameter, MISSING)
            default = signature.defaults.get(parameter, MISSING)
            node = direct.get(annotation) if type(annotation) is type else None
            if node is not None and parameter != signature.rest and (default is MISSING or type(default) is annotation):
                self._arguments[parameter] = node
                if default is not MISSING:
                    self._defaults[parameter] = default
                continue
            if _is_context(annotation):
                if self.wants_context is not None:
                    raise schemas.refuse(parameter, f"is a second context, beside {self.wants_context!r}; keep one of them")
                self.wants_context = parameter
                continue
            base, extras = unwrap_annotated(annotation)
            question = next((extra for extra in extras if getattr(extra, "__mcplite_question__", False)), None)
            if question is not None:
                others = tuple(extra for extra in extras if extra is not question)
                self.questions[parameter] = (with_metadata(base, others) if others else base, question)
                continue
            name = parameter
            if type(default) not in _PLAIN_DEFAULTS or extras and not only_ours(extras):
                field = _field(parameter, annotation, default, extras, schemas)
                if field is not None:
                    fields[parameter] = field._replace(alias=None) if raw else field
                    direct = {}
                    name, annotation, default = field.alias or parameter, field.annotation, field.default
            if raw:
                continue
            if annotation is MISSING and parameter == "ctx":
                _log.warning("%s is an argument that clients give, since it has no annotation; for the context write"
                             " ctx: mcplite.Context", schemas.place(parameter))
            node = schemas.compile(Any if annotation is MISSING else annotation, name)
            if default is not MISSING:
                _check_default(name, node, default, schemas)
            if kind in ("prompt", "resource"):
                node = textual(node)
            if parameter == signature.rest:
                self._rest = node
                continue
            if name in self._arguments:
                raise schemas.refuse(name, "has the same name as another one for clients; change the alias in its Field")
            self._arguments[name] = node
            if default is not MISSING:
                self._defaults[name] = default
        self._definitions = schemas.definitions
        if input_schema is not None:
            self._given = _given_schema(self, signature, input_schema, schemas.where)
            self._schema = self._given.schema
            schemas.validators.append(self._given.validator)
        return fields

    def _build_schema(self) -> Dict[str, Any]:
        described, defaults = self.documentation[1], self._defaults
        properties = {name: described_schema(node, described.get(name), defaults.get(name, NOTHING))
                      for name, node in self._arguments.items()}
        required = [name for name in properties if name not in defaults]
        built: Dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            built["required"] = required
        built["additionalProperties"] = False if self._rest is None else (self._rest.schema or True)
        if self._rest is not None and self._hidden():
            built["propertyNames"] = {"not": {"enum": self._hidden()}}
        if self._definitions:
            built["$defs"] = self._definitions
        if self._definitions or any(len(one.schema) > 1 or one.schema.get("type") not in _SCALARS
                                    for one in self._arguments.values()):
            from ...protocol.schema.references import rebuilt

            built = rebuilt(built, _with_items)
        return built

    def _hidden(self) -> List[str]:
        """Return the names of the parameters that the caller must not fill in."""
        return [*self.questions] + ([] if self.wants_context is None else [self.wants_context])

    def bind(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the keyword arguments for a call, checked and converted.

        :raises BadArguments: something is missing, unknown, or of the wrong type.
        """
        if self._given is not None:
            return self._bind_given(self._given, arguments)
        kwargs: Dict[str, Any] = {}
        problems: List[str] = []
        for name, node in self._arguments.items():
            if name in arguments:
                value = arguments[name]
                if type(value) is node.exact:
                    kwargs[name] = value
                    continue
                try:
                    kwargs[name] = node.convert(value)
                except Mismatch as error:
                    problems.append(error.sentence(name))
                    kwargs[name] = None
            elif name not in self._defaults:
                problems.append(f"{name}: is required")
        if len(kwargs) < len(arguments):
            self._bind_rest(arguments, kwargs, problems)
        if problems:
            raise BadArguments(problems)
        return kwargs

    def _bind_rest(self, arguments: Mapping[str, Any], kwargs: Dict[str, Any], problems: List[str]) -> None:
        known = self._arguments
        for name, value in arguments.items():
            if name in known:
                continue
            if len(problems) >= _MAX_PROBLEMS:
                return
            if self._rest is None or name in self._hidden():
                problems.append(_unknown(name, list(known)))
                continue
            try:
                kwargs[name] = self._rest.convert(value)
            except Mismatch as error:
                problems.append(error.sentence(name[:100]))

    def _bind_given(self, given: _GivenSchema, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        problems = given.validator.problems(arguments)
        if problems:
            raise BadArguments(problems)
        if given.whole is not None:
            return {given.whole: dict(arguments)}
        known = given.accepted
        unknown = [name for name in arguments if name in self._hidden() or known is not None and name not in known]
        if unknown:
            raise BadArguments([_unknown(name, sorted(known or ())) for name in unknown[:_MAX_PROBLEMS]])
        return dict(arguments)


class _FieldFunction(Function):
    """A function with parameters whose default, or whose name for clients, is in a ``Field(...)``.

    It is a class of its own, so that binding the arguments of other functions takes no longer.
    """

    def __init__(self, plain: Function, fields: "Dict[str, FieldParameter]") -> None:
        vars(self).update(vars(plain))
        self._makes = {parameter: field.make for parameter, field in fields.items() if field.make is not None}
        self._aliases = {field.alias: parameter for parameter, field in fields.items() if field.alias is not None}

    def _parse(self, docstring: Any) -> "Documentation":
        text, described = parse(docstring, {*self._documented(), *self._aliases.values()})
        for alias, parameter in self._aliases.items():
            if parameter in described:
                described.setdefault(alias, described.pop(parameter))
        return text, described

    def bind(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        aliases = self._aliases
        kwargs = {aliases.get(name, name): value for name, value in super().bind(arguments).items()}
        for parameter, make in self._makes.items():
            if parameter not in kwargs:
                kwargs[parameter] = make()
        return kwargs


def _unknown(name: str, known: List[str]) -> str:
    return f"unknown argument {name[:100]!r}" + (did_you_mean(name, known) or f"; there are: {', '.join(known) or 'none'}")


def compile_function(function: Callable[..., Any], *, name: Optional[str] = None, description: Optional[str] = None,
                     input_schema: Optional[Dict[str, Any]] = None, output_schema: Optional[Dict[str, Any]] = None,
                     structured_output: StructuredOutput = None, kind: str = "tool",
                     trusted_patterns: bool = False) -> Function:
    """Return the compiled form of a handler.

    With *input_schema* the arguments are checked against it and passed by name, unconverted. A function whose only
    parameter (besides the context) has no annotation, or is a dict, gets all arguments as one dict, unless the schema
    has a property of that name.

    :param kind: "tool", "prompt", "resource" or "completion"; arguments of prompts and resources are strings, which
        are converted to the annotated type.
    :param trusted_patterns: whether its regular expressions are matched against long texts, even if they are not safe.
    :raises RegistrationError: the function cannot be served; the text names the parameter, the reason and the fix.
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    if not callable(function):
        advice = "; register the method of the finished class" if isinstance(function, classmethod) else ""
        raise RegistrationError(f"a {kind} must be a function, not {function!r}{advice}")
    name = checked_text(name, f"a {kind}", "name")
    label = name_of(function) if name is None else name
    if label == "<lambda>":
        raise RegistrationError("a lambda has no name; give it one: name='...'")
    where = f"{kind} {label!r}"
    description = checked_text(description, where, "description")
    refuse_async(function, where)
    signature = read_signature(function, where)
    made = Function(function, label, description)
    schemas = Schemas(where, owner=signature.owner)
    fields = made.take_parameters(signature, schemas, kind, input_schema)
    if kind == "tool":
        made.output = compile_output(signature.returns, output_schema, structured_output, where, signature.owner)
        if made.output.exact is None and made.output.validator is not None:
            schemas.validators.append(made.output.validator)
    for validator in schemas.validators:
        _judge_patterns(validator, where, trusted_patterns)
    made.parameters_have_descriptions = kind != "resource"
    return _FieldFunction(made, fields) if fields else made


def _judge_patterns(validator: "Validator", where: str, trusted: bool) -> None:
    if trusted:
        validator.trust_patterns()
        return
    from ...protocol.schema.patterns import UNSAFE_SUBJECT

    for pattern, reason in validator.unsafe_patterns():
        _log.warning("%s: the pattern %.200r could be matched for hours, since %s; so it is matched against at most %d"
                     " characters. Write it so that the next character decides each choice, or say trusted_patterns=True",
                     where, pattern, reason, UNSAFE_SUBJECT)


def _is_context(annotation: Any) -> bool:
    base, _ = unwrap_annotated(annotation)
    return any(isinstance(one, type) and getattr(one, "__mcplite_context__", False) for one in (base, *typing.get_args(base)))


def _field(name: str, annotation: Any, default: Any, extras: Tuple[Any, ...], schemas: Schemas) -> "Optional[FieldParameter]":
    """Return what a ``Field(...)`` says of a parameter; None if it has none."""
    if not any(hasattr(item, "default_factory") for item in (*extras, default)):
        return None
    from .foreign.metadata import read_field  # for those that use pydantic

    try:
        return read_field(Any if annotation is MISSING else annotation, extras, default, MISSING)
    except ValueError as error:
        raise schemas.refuse(name, str(error)) from error


def _check_default(name: str, node: Node, default: Any, schemas: Schemas) -> None:
    # None often stands for "not given", whatever the annotation says, and sentinels without a JSON form do as well.
    # A dataclass checks its own values.
    value = NOTHING if default is None or is_dataclass(default) else as_default(default)
    if value is NOTHING:
        return
    try:
        node.convert(value)
    except Mismatch as error:
        if type(default) not in _PLAIN_DEFAULTS:
            from ...protocol.library_values import library_of

            if library_of(type(default)):
                return  # its library has checked it, too, and may not take from JSON what it writes to JSON
        raise schemas.refuse(name, f"has a default that does not fit its annotation: {error.sentence()};"
                                   f" change one of them") from error


def _given_schema(function: Function, signature: Signature, schema: Dict[str, Any], where: str) -> _GivenSchema:
    from ...protocol.schema.validation import Validator, check_schema

    schema = written_schema(schema, f"{where}: input_schema")
    check_schema(schema, what=f"{where}: input_schema")
    if schema.get("type") != "object":  # TOOL-08
        raise RegistrationError(f"{where}: input_schema must have \"type\": \"object\"")
    own = [name for name in signature.names if name != function.wants_context and name not in function.questions]
    validator = Validator(schema)
    properties = schema.get("properties") or {}
    if signature.rest is not None:
        return _GivenSchema(schema, validator)
    names = frozenset(own)
    if len(own) == 1 and names.isdisjoint(properties):
        whole, = own
        annotation = signature.annotations.get(whole, MISSING)
        if annotation in (MISSING, Any, dict) or typing.get_origin(annotation) in (dict, collections.abc.Mapping):
            return _GivenSchema(schema, validator, whole=whole)
    missing = [name for name in properties if name not in names]
    if missing:
        raise RegistrationError(f"{where}: input_schema has the properties {missing}, which the function does not take;"
                                f" add parameters, or take one dict with all of them")
    unfilled = [name for name in own if name not in signature.defaults and name not in schema.get("required", ())]
    if unfilled:
        raise RegistrationError(f"{where}: the parameters {unfilled} have no default, but input_schema does not require"
                                f" them; give defaults or list them under \"required\"")
    return _GivenSchema(schema, validator, accepted=names)
