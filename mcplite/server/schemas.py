"""From an annotation to a JSON Schema (2020-12) and to the converter that checks by the same rules.

May import: errors, protocol.validation

A converter takes a JSON value and returns the Python value or raises :class:`Mismatch`; it accepts what
jsonschema accepts under the schema, as far as the value can be converted (a bad date is a string to
jsonschema).
"""

import base64
import binascii
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import typing
import uuid
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union, get_args, get_origin

from ..errors import RegistrationError
from ..protocol.validation import Validator
from .docstrings import parse

__all__ = ["Form", "Mismatch", "Node", "Schemas", "form_type", "unwrap_annotated"]

Convert = Callable[[Any], Any]
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "format"})


class Mismatch(ValueError):
    """A value does not fit; ``path`` leads to the place inside of it."""

    def __init__(self, message: str, path: Tuple[Union[str, int], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def below(self, step: Union[str, int]) -> "Mismatch":
        """Return the same for the value that contains this one under *step*."""
        return Mismatch(self.message, (step, *self.path))

    def sentence(self, name: str = "") -> str:
        """Return one sentence with the whole path."""
        text = name
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else step)
        return f"{text}: {self.message}" if text else self.message


class Node(NamedTuple):
    """A compiled annotation."""

    schema: Dict[str, Any]
    convert: Convert


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _expect(kind: type, what: str) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(f"{_shown(value)} is not {what}")
        return value

    return convert


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch(f"{_shown(value)} is not an integer")


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("the number is too large") from None
    raise Mismatch(f"{_shown(value)} is not a number")


def _to_none(value: Any) -> None:
    if value is not None:
        raise Mismatch(f"{_shown(value)} is not null")


def _from_text(parse_text: Callable[[str], Any], what: str) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise Mismatch(f"{_shown(value)} is not a string")
        try:
            return parse_text(value)
        except (ValueError, ArithmeticError):
            raise Mismatch(f"{_shown(value)} is not {what}") from None

    return convert


def _moment(text: str) -> datetime.datetime:
    # Before 3.11 fromisoformat does not know Z.
    return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)


def _to_decimal(value: Any) -> decimal.Decimal:
    if type(value) in (int, float):
        return decimal.Decimal(repr(value))
    if type(value) is str:
        try:
            number = decimal.Decimal(value)
        except decimal.InvalidOperation:
            raise Mismatch(f"{_shown(value)} is not a decimal number") from None
        if number.is_finite():
            return number
    raise Mismatch(f"{_shown(value)} is not a decimal number")


def _to_bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise Mismatch(f"{_shown(value)} is not a string")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Mismatch(f"{_shown(value)} is not base64") from None


#: Annotations that need no building.
_SIMPLE: Dict[Any, Node] = {
    str: Node({"type": "string"}, _expect(str, "a string")),
    int: Node({"type": "integer"}, _to_int),
    float: Node({"type": "number"}, _to_float),
    bool: Node({"type": "boolean"}, _expect(bool, "true or false")),
    type(None): Node({"type": "null"}, _to_none),
    None: Node({"type": "null"}, _to_none),
    Any: Node({}, lambda value: value),
    object: Node({}, lambda value: value),
    datetime.datetime: Node({"type": "string", "format": "date-time"}, _from_text(_moment, "a date and time (ISO 8601)")),
    datetime.date: Node({"type": "string", "format": "date"}, _from_text(datetime.date.fromisoformat, "a date (YYYY-MM-DD)")),
    datetime.time: Node({"type": "string", "format": "time"}, _from_text(datetime.time.fromisoformat, "a time (HH:MM:SS)")),
    uuid.UUID: Node({"type": "string", "format": "uuid"}, _from_text(uuid.UUID, "a UUID")),
    decimal.Decimal: Node({"type": ["string", "number"]}, _to_decimal),
    pathlib.Path: Node({"type": "string", "format": "path"}, _from_text(pathlib.Path, "a path")),
    bytes: Node({"type": "string", "contentEncoding": "base64"}, _to_bytes),
}
_ARRAYS: Dict[Any, Callable[[List[Any]], Any]] = {
    list: list, collections.abc.Sequence: list, collections.abc.Iterable: list, collections.abc.Collection: list,
    collections.abc.MutableSequence: list, set: set, frozenset: frozenset, collections.abc.Set: set, tuple: tuple,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNIONS = (Union, getattr(sys.modules["types"], "UnionType", Union)) if "types" in sys.modules else (Union,)


def unwrap_annotated(annotation: Any) -> Tuple[Any, Tuple[Any, ...]]:
    """Return X and the extras for ``Annotated[X, ...]``; any other annotation with no extras."""
    if hasattr(annotation, "__metadata__"):
        return annotation.__origin__, tuple(annotation.__metadata__)
    return annotation, ()


class Schemas:
    """Compiles the annotations of one function; recursive classes end up in ``definitions``.

    :param where: how errors call the function, such as "tool 'add'".
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.definitions: Dict[str, Any] = {}
        self._open: Dict[Any, str] = {}
        self._recursive: Dict[Any, str] = {}
        self._done: Dict[Any, Node] = {}

    def refuse(self, name: str, reason: str) -> RegistrationError:
        """Return the error for what cannot be served."""
        return RegistrationError(f"{self._where}: parameter {name!r} {reason}")

    def compile(self, annotation: Any, name: str) -> Node:
        """Return the node of *annotation*.

        :param name: of the parameter, for errors.
        :raises RegistrationError: JSON has no form of it; with the parameter, the reason and the fix.
        """
        try:
            node = _SIMPLE.get(annotation)
        except TypeError:
            node = None  # not hashable, such as Literal[[]]
        if node is not None:
            return node
        base, extras = unwrap_annotated(annotation)
        if extras:
            return self._annotated(base, extras, name)
        origin = get_origin(annotation)
        if origin in _UNIONS:
            return self._union(get_args(annotation), name)
        if origin is typing.Literal or _is_named(origin, "Literal"):
            return self._enumeration(list(get_args(annotation)), {}, name)
        if origin in _ARRAYS or annotation in (list, set, frozenset, tuple):
            return self._array(origin or annotation, get_args(annotation), name)
        if origin in _MAPPINGS or annotation is dict:
            return self._mapping(get_args(annotation), name)
        if hasattr(annotation, "__supertype__"):
            return self.compile(annotation.__supertype__, name)
        if _is_named(origin, "Required", "NotRequired", "ReadOnly", "Final", "ClassVar"):
            return self.compile(get_args(annotation)[0], name)
        if isinstance(annotation, type):
            return self._class(annotation, name)
        if isinstance(annotation, typing.TypeVar):
            return self.compile(annotation.__bound__ or Any, name)
        if isinstance(annotation, (str, typing.ForwardRef)):
            raise self.refuse(name, f"is annotated with the name {annotation!r}, which is not defined where the"
                                    f" function is; define it at module level before it is registered")
        raise self.refuse(name, f"is annotated with {annotation!r}, which has no form in JSON; use builtins,"
                                f" dataclasses, TypedDict, Literal or Enum")

    def _annotated(self, base: Any, extras: Tuple[Any, ...], name: str) -> Node:
        node = self.compile(base, name)
        schema = dict(node.schema)
        limits: Dict[str, Any] = {}
        for extra in extras:
            if isinstance(extra, str):
                schema["description"] = extra
            elif isinstance(extra, Mapping):
                limits.update({key: value for key, value in extra.items() if key not in _NOTES})
                schema.update(extra)
        if not limits:
            return Node(schema, node.convert)
        validator, convert = Validator(limits), node.convert

        def checked(value: Any) -> Any:
            result = convert(value)
            problems = validator.problems(value)
            if problems:
                raise Mismatch(problems[0])
            return result

        return Node(schema, checked)

    def _union(self, members: Tuple[Any, ...], name: str) -> Node:
        nodes = [self.compile(member, name) for member in members]
        converts = [node.convert for node in nodes]
        schemas: List[Dict[str, Any]] = []
        for node in nodes:
            if node.schema not in schemas:
                schemas.append(node.schema)
        exact = {str: str, int: int, float: float, bool: bool, type(None): None}
        direct = {member for member in members if member in exact} if all(_hashable(m) for m in members) else set()

        def convert(value: Any) -> Any:
            # A value that is of one member's very type stays what it is: 1 in Union[float, int] is an int.
            if type(value) in direct:
                return value
            first: Optional[Mismatch] = None
            for attempt in converts:
                try:
                    return attempt(value)
                except Mismatch as error:
                    if first is None or len(error.path) > len(first.path):
                        first = error
            assert first is not None
            if first.path:
                raise first
            raise Mismatch(f"{_shown(value)} fits none of the {len(converts)} possible types")

        return Node({"anyOf": schemas}, convert)

    def _enumeration(self, values: List[Any], members: Dict[Any, Any], name: str) -> Node:
        flat: List[Any] = []
        for value in values:
            if isinstance(value, enum.Enum):
                members[(type(value.value), value.value)] = value
                value = value.value
            if type(value) not in (str, int, float, bool, type(None)):
                raise self.refuse(name, f"has the choice {value!r}, which is no JSON value; use strings or numbers")
            flat.append(value)
        schema: Dict[str, Any] = {"enum": flat}
        kinds = {type(value) for value in flat}
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        if len(kinds) == 1 and next(iter(kinds)) in names:
            schema = {"type": names[next(iter(kinds))], "enum": flat}

        def convert(value: Any) -> Any:
            kind = type(value)
            alike = (int, float) if kind in (int, float) else (kind,)
            for known in flat:
                if type(known) in alike and known == value:
                    return members.get((type(known), known), known)
            raise Mismatch(f"{_shown(value)} is none of {', '.join(map(repr, flat[:20]))}")

        return Node(schema, convert)

    def _array(self, origin: Any, arguments: Tuple[Any, ...], name: str) -> Node:
        build = _ARRAYS[origin]
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return self._tuple(() if arguments == ((),) else arguments, name)
        item = self.compile(arguments[0], name) if arguments else _SIMPLE[Any]
        schema: Dict[str, Any] = {"type": "array"}
        if item.schema:
            schema["items"] = item.schema
        each, unique = item.convert, build in (set, frozenset)
        validator = None
        if unique:
            schema["uniqueItems"] = True
            validator = Validator({"uniqueItems": True})

        def convert(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"{_shown(value)} is not a list")
            if validator is not None and not validator.is_valid(value):
                raise Mismatch("an item comes more than once")
            result = []
            for index, child in enumerate(value):
                try:
                    result.append(each(child))
                except Mismatch as error:
                    raise error.below(index) from None
            try:
                return result if build is list else build(result)
            except TypeError:
                raise Mismatch("its items cannot be members of a set") from None

        return Node(schema, convert)

    def _tuple(self, arguments: Tuple[Any, ...], name: str) -> Node:
        nodes = [self.compile(argument, name) for argument in arguments]
        schema: Dict[str, Any] = {"type": "array", "minItems": len(nodes), "maxItems": len(nodes)}
        if nodes:
            schema["prefixItems"] = [node.schema for node in nodes]

        def convert(value: Any) -> Any:
            if type(value) is not list or len(value) != len(nodes):
                raise Mismatch(f"{_shown(value)} is not a list of {len(nodes)} items")
            result = []
            for index, (node, child) in enumerate(zip(nodes, value)):
                try:
                    result.append(node.convert(child))
                except Mismatch as error:
                    raise error.below(index) from None
            return tuple(result)

        return Node(schema, convert)

    def _mapping(self, arguments: Tuple[Any, ...], name: str) -> Node:
        if not arguments:
            return Node({"type": "object"}, _expect(dict, "an object"))
        key, _ = unwrap_annotated(arguments[0])
        if key not in (str, Any):
            raise self.refuse(name, f"is a mapping with keys of {key!r}, but JSON's keys are strings; use Dict[str, ...]")
        item = self.compile(arguments[1], name)
        schema: Dict[str, Any] = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"{_shown(value)} is not an object")
            result = {}
            for step, child in value.items():
                try:
                    result[step] = item.convert(child)
                except Mismatch as error:
                    raise error.below(step) from None
            return result

        return Node(schema, convert)

    def _class(self, cls: type, name: str) -> Node:
        if issubclass(cls, enum.Enum):
            return self._enumeration(list(cls), {}, name)
        if cls in self._done:
            return self._done[cls]
        if cls in self._open:
            label = self._recursive.setdefault(cls, self._open[cls])
            return Node({"$ref": f"#/$defs/{label}"}, lambda value: self._done[cls].convert(value))
        fields = _fields(cls)
        if fields is None:
            for base in (int, str, float):
                if issubclass(cls, base) and not issubclass(cls, bool):
                    convert, kind = _SIMPLE[base].convert, cls
                    return Node(_SIMPLE[base].schema, lambda value: kind(convert(value)))
            if issubclass(cls, pathlib.PurePath):
                return _SIMPLE[pathlib.Path]
            raise self.refuse(name, f"is of the class {cls.__name__}, which has no form in JSON; make it a dataclass"
                                    f" or TypedDict, or take its parts as parameters")
        self._open[cls] = cls.__name__ if cls.__name__ not in self.definitions else f"{cls.__name__}{len(self._open)}"
        try:
            node = self._object(cls, fields, name)
        finally:
            label = self._open.pop(cls)
        self._done[cls] = node
        if cls in self._recursive:
            self.definitions[label] = node.schema
            node = Node({"$ref": f"#/$defs/{label}"}, node.convert)
        return node

    def _object(self, cls: type, fields: "List[_Field]", name: str) -> Node:
        described = parse(cls.__doc__ if dataclasses.is_dataclass(cls) or not hasattr(cls, "_fields") else None).parameters
        plan: List[Tuple[str, Convert, bool]] = []
        properties: Dict[str, Any] = {}
        for field in fields:
            node = self.compile(field.annotation, f"{name}.{field.name}")
            schema = dict(node.schema)
            if field.name in described and "description" not in schema:
                schema["description"] = described[field.name]
            if field.default is not _NOTHING:
                shown = _json_default(field.default)
                if shown is not _NOTHING:
                    schema["default"] = shown
            properties[field.name] = schema
            plan.append((field.name, node.convert, field.required))
        known = set(properties)
        is_dict = not dataclasses.is_dataclass(cls) and not hasattr(cls, "_fields")
        result_schema: Dict[str, Any] = {"type": "object", "properties": properties,
                                         "required": [item for item, _, required in plan if required],
                                         "additionalProperties": False}
        if not result_schema["required"]:
            del result_schema["required"]

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"{_shown(value)} is not an object")
            members: Dict[str, Any] = {}
            for item, each, required in plan:
                if item in value:
                    try:
                        members[item] = each(value[item])
                    except Mismatch as error:
                        raise error.below(item) from None
                elif required:
                    raise Mismatch("is required", (item,))
            if len(members) < len(value):
                extra = next(key for key in value if key not in known)
                raise Mismatch(f"is not a member of {cls.__name__}", (extra,))
            if is_dict:
                return members
            try:
                return cls(**members)
            except (TypeError, ValueError) as error:
                # A dataclass may check itself in __post_init__.
                raise Mismatch(f"{error}") from error

        return Node(result_schema, convert)


_NOTHING: Any = object()


class _Field(NamedTuple):
    name: str
    annotation: Any
    required: bool
    default: Any


def _fields(cls: type) -> Optional[List[_Field]]:
    """Return the members of a dataclass, TypedDict or NamedTuple; None for any other class."""
    if dataclasses.is_dataclass(cls):
        hints = _hints(cls)
        return [_Field(field.name, hints[field.name],
                       field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
                       field.default if field.default is not dataclasses.MISSING else _NOTHING)
                for field in dataclasses.fields(cls) if field.init]
    if issubclass(cls, dict) and hasattr(cls, "__total__"):
        hints = _hints(cls)
        required = set(getattr(cls, "__required_keys__", hints))
        for key, hint in hints.items():
            # typing of 3.9 and 3.10 does not look for these inside of string annotations.
            if _is_named(get_origin(hint), "NotRequired"):
                required.discard(key)
            elif _is_named(get_origin(hint), "Required"):
                required.add(key)
        return [_Field(key, hint, key in required, _NOTHING) for key, hint in hints.items()]
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints = _hints(cls)
        defaults = getattr(cls, "_field_defaults", {})
        return [_Field(key, hints.get(key, Any), key not in defaults, defaults.get(key, _NOTHING))
                for key in cls._fields]
    return None


def _hints(cls: type) -> Dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise RegistrationError(f"the class {cls.__name__} is annotated with {error.name if hasattr(error, 'name') else error},"
                                f" which is not defined at module level; define it there") from error


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_named(origin: Any, *names: str) -> bool:
    # typing_extensions has its own objects of these names on old Pythons.
    return getattr(origin, "_name", None) in names or getattr(origin, "__name__", None) in names


def _json_default(value: Any) -> Any:
    """Return a default as JSON for the schema, or nothing when it has no form there."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or type(value) in (str, int, bool):
        return value
    if type(value) is float:
        return value if value == value and value not in (float("inf"), float("-inf")) else _NOTHING
    if type(value) in (list, tuple) and all(type(item) in (str, int, float, bool) for item in value):
        return list(value)
    return {} if value == {} else _NOTHING


def json_default(value: Any) -> Tuple[bool, Any]:
    """Return whether a default can stand in a schema, and how."""
    shown = _json_default(value)
    return shown is not _NOTHING, None if shown is _NOTHING else shown


class Form(NamedTuple):
    """What ``ctx.elicit`` asks for: the form, and how its answer becomes the Python value."""

    schema: Dict[str, Any]
    convert: Convert


def form_type(wanted: Any) -> Form:
    """Return the form for a dataclass, TypedDict, plain type or JSON Schema.

    A plain type is asked for as the one field ``value``. None is a form without fields.

    :raises RegistrationError: JSON has no form of it.
    """
    if wanted is None:
        return Form({"type": "object", "properties": {}}, lambda content: None)
    if isinstance(wanted, Mapping):
        return Form(dict(wanted), lambda content: content)
    base, _ = unwrap_annotated(wanted)
    schemas = Schemas("elicitation")
    if isinstance(base, type) and _fields(base) is not None:
        node = schemas.compile(base, base.__name__)
        properties = {name: _without_null(field) for name, field in node.schema["properties"].items()}
        schema = {"type": "object", "properties": properties}
        if "required" in node.schema:
            schema["required"] = [name for name in node.schema["required"] if not _is_optional(node.schema["properties"][name])]
        return Form(schema, _of(node, list(properties)))
    node = schemas.compile(wanted, "value")
    return Form({"type": "object", "properties": {"value": _without_null(node.schema)}, "required": ["value"]},
                lambda content: node.convert(content["value"]))


def _of(node: Node, known: List[str]) -> Convert:
    def convert(content: Any) -> Any:
        return node.convert({name: content[name] for name in known if name in content})

    return convert


def _is_optional(field: Dict[str, Any]) -> bool:
    return {"type": "null"} in field.get("anyOf", ())


def _without_null(field: Dict[str, Any]) -> Dict[str, Any]:
    """Forms know no null: a field that may be None is one that may be left out."""
    if not _is_optional(field):
        return field
    left = [item for item in field["anyOf"] if item != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}
