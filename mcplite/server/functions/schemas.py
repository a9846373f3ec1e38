"""Compiles an annotation to a JSON Schema (2020-12) and a converter that checks by the same rules.

A converter accepts a value if it is valid under the schema and can be converted. (To jsonschema a bad date is a valid
string.)
"""

from __future__ import annotations

import collections.abc
import enum
import itertools
import math
import types
import typing
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union, get_args, get_origin

from ...errors import RegistrationError
from ...protocol.error_text import json_words
from ...protocol.jsonrpc import load
from ...types.codec import TEXT_MODULES
from ...types.lazy_dataclass import changed
from .class_fields import NOTHING, Field, Unresolved, is_named, is_typed_dict, members, resolve, type_arguments, with_arguments
from .converters import SIMPLE, Compiler, Convert, Mismatch, Node, expect, from_text, kinds_of, reason_of, summary
from .docstrings import parse

_ARRAYS: Dict[Any, Callable[[List[Any]], Any]] = {
    list: list, collections.abc.Sequence: list, collections.abc.Iterable: list, collections.abc.Collection: list,
    collections.abc.MutableSequence: list, set: set, frozenset: frozenset, collections.abc.Set: set,
    collections.abc.MutableSet: set, tuple: tuple,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
#: The results of ``get_origin`` for Union[X, Y] and X | Y.
UNIONS = (Union, getattr(types, "UnionType", Union))
#: Attributes of classes that their library validates, and of classes that their library tells apart in a union.
_VALIDATING = ("__pydantic_validator__", "__get_pydantic_core_schema__")
_TAGGED = ("__pydantic_validator__", "__struct_fields__")
#: Classes whose values are JSON data as they are.
_PLAIN = frozenset({str, int, bool, type(None)})
#: The beginning of the description that is made for a class of flags. If the author has written a text, that comes first.
_SUM_OF = "A sum of "
_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def unwrap_annotated(annotation: Any) -> Tuple[Any, Tuple[Any, ...]]:
    """Return X and the metadata of ``Annotated[X, ...]``; any other annotation with empty metadata."""
    if hasattr(annotation, "__metadata__"):
        return annotation.__origin__, tuple(annotation.__metadata__)
    return annotation, ()


def only_ours(extras: Tuple[Any, ...]) -> bool:
    """Whether the metadata of an annotation is texts and dicts alone."""
    return all(type(extra) in (str, dict) or isinstance(extra, (str, Mapping)) for extra in extras)


def as_default(value: Any) -> Any:
    """Return a default as JSON data; NOTHING if it has no form in JSON."""
    if type(value) in _PLAIN:
        return value
    from ...protocol.jsonable import jsonable

    try:
        return jsonable(value)
    except (TypeError, ValueError):
        return NOTHING


def _scalar(annotation: Any) -> Optional[Node]:
    node = SIMPLE.get(annotation)
    if node is None and getattr(annotation, "__module__", None) in TEXT_MODULES:
        from .datetimes import nodes

        return nodes().get(annotation)
    return node


def _is_hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False  # for example Literal[[]]
    return True


class ImpossibleKey(RegistrationError):
    """The keys of a mapping have no text in JSON, so that no value with such keys can ever be sent."""


class Schemas(Compiler):
    """Compiles annotations of builtins and of the standard library; :mod:`.foreign` compiles those of other libraries for it.

    :param owner: the function; names in its annotations are looked up in its module, and in its variables.
    """

    def __init__(self, where: str, *, returned: bool = False, owner: Any = None) -> None:
        super().__init__(where, returned)
        #: The function, and the classes and aliases that are being compiled, the innermost last; with what their type
        #: variables stand for.
        self._owners: List[Tuple[Any, Dict[Any, Any]]] = [] if owner is None else [(owner, {})]
        #: The classes and aliases that are being compiled, each with its name in ``definitions`` if it is recursive.
        self._open: Dict[Any, str] = {}
        self._recursive: Dict[Any, str] = {}
        self._done: Dict[Any, Node] = {}

    def compile(self, annotation: Any, name: str) -> Node:
        hashable = _is_hashable(annotation)
        node = _scalar(annotation) if hashable else None
        if node is not None:
            return node
        base, extras = unwrap_annotated(annotation)
        if extras:
            return self._annotated(base, extras, name)
        origin = get_origin(annotation)
        if origin in UNIONS:
            return self._union(get_args(annotation), name)
        if is_named(origin, "Literal"):
            return self._enumeration(list(get_args(annotation)), name)
        if origin in _ARRAYS or hashable and annotation in _ARRAYS:
            return self._array(origin or annotation, get_args(annotation), getattr(annotation, "__args__", None) == (), name)
        if origin in _MAPPINGS or any(annotation is item for item in _MAPPINGS):
            return self._mapping(get_args(annotation), name)
        if hasattr(annotation, "__supertype__"):
            return self.compile(annotation.__supertype__, name)
        if is_named(origin, "Required", "NotRequired", "ReadOnly", "Final"):
            return self.compile(get_args(annotation)[0], name)
        if isinstance(origin or annotation, type):
            return self._class(annotation, name)
        if isinstance(annotation, typing.TypeVar):
            return self.compile(Union[annotation.__constraints__] if annotation.__constraints__
                                else annotation.__bound__ or Any, name)
        if type(origin or annotation).__name__ == "TypeAliasType":
            return self._alias(annotation, name)
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._forward(annotation, name)
        raise self._unknown(annotation, name)

    def _unknown(self, annotation: Any, name: str) -> RegistrationError:
        return self.refuse(name, f"is annotated with {annotation!r}, which has no form in JSON; use builtins,"
                                 f" dataclasses, TypedDict, Literal or Enum")

    def _annotated(self, base: Any, extras: Tuple[Any, ...], name: str) -> Node:
        if not only_ours(extras):
            from .foreign.metadata import annotated_node  # for those that have more than texts and keywords

            return annotated_node(base, extras, name, self)
        node = self.compile(base, name)
        for extra in extras:
            if isinstance(extra, str):
                node = Node({**node.schema, "description": _joined(node.schema, extra)}, node.convert, node.exact)
            elif isinstance(extra, Mapping):
                from .keywords import add_keywords

                node = add_keywords(node, extra, self.place(name), self.validators)
        return node

    def _alias(self, annotation: Any, name: str) -> Node:
        """Return the node of a type alias, as ``type X = ...`` and TypeAliasType make it, or of one with arguments."""
        seen = self._seen(annotation, {})
        if seen is not None:
            return seen
        alias = get_origin(annotation) or annotation
        # If the namespace that defines an alias has no ``__name__``, the alias has no module.
        if (alias.__module__ or "").partition(".")[0] == "pydantic":  # JsonValue, which has marks that only pydantic reads
            from .foreign.models import adapter_node

            node = adapter_node(alias, name, self)
            if node is not None:
                return node
        chosen = dict(zip(alias.__type_params__, get_args(annotation)))
        self._owners.append((alias, chosen))
        try:
            value = with_arguments(alias.__value__, chosen)
            return self._opened(annotation, alias.__name__, {}, name, lambda: self.compile(value, name))
        except NameError as error:  # the value of ``type X = ...`` is evaluated here
            raise self.refuse(name, f"is annotated with {alias.__name__}, whose value has a name that is not defined ({error});"
                                    " define it before the function is registered") from error
        finally:
            self._owners.pop()

    def _forward(self, reference: Any, name: str) -> Node:
        """Return the node of a name within an annotation, which often is that of the annotation itself."""
        text = reference if isinstance(reference, str) else reference.__forward_arg__
        for owner, chosen in reversed(self._owners):
            key = (text, id(owner), repr(chosen))
            seen = self._seen(key, {})
            if seen is not None:
                return seen
            try:
                meant = with_arguments(resolve(text, owner), chosen)
            except Unresolved:
                continue
            if not isinstance(meant, (str, typing.ForwardRef)):
                return self._opened(key, text if text.isidentifier() else "Alias", {}, name,
                                    lambda found=meant: self.compile(found, name))  # type: ignore[misc]
        raise self.refuse(name, f"is annotated with the name {text!r}, which is not defined where the"
                                f" function is; define it at module level before it is registered")

    def _union(self, parts: Tuple[Any, ...], name: str) -> Node:
        if len(parts) > 2 or type(None) not in parts:
            # Models and structs have metaclasses of their own; their library knows best which of several a value is.
            tagged = [part for part in parts if type(part) is not type and any(hasattr(part, mark) for mark in _TAGGED)]
            if len(tagged) > 1:
                from .foreign.models import foreign_union

                node = foreign_union(parts, name, self)
                if node is not None:
                    return node
        nodes = [self.compile(part, name) for part in parts]
        converts = [node.convert for node in nodes]
        schemas = [node.schema for at, node in enumerate(nodes) if all(node.schema != other.schema for other in nodes[:at])]
        direct = {part for part in parts if _is_hashable(part) and part in _KINDS}
        real = [at for at, part in enumerate(parts) if part is not type(None)]

        def convert(value: Any) -> Any:
            # A value whose exact type is a member is not converted: 1 in Union[float, int] stays an int.
            if type(value) in direct:
                return value
            failures: List[Mismatch] = []
            for attempt in converts:
                try:
                    return attempt(value)
                except Mismatch as error:
                    failures.append(error)
            if len(real) == 1:
                raise failures[real[0]]
            told = self._tagged(value, [node.schema for node in nodes], failures)
            if told is not None:
                raise told
            deepest = max(failures, key=lambda error: len(error.path))
            if deepest.path:
                raise deepest
            raise Mismatch(f"{summary(value)} does not fit any of the {len(converts)} possible types")

        schema: Dict[str, Any] = {"anyOf": schemas}
        if len(real) == 1 and "description" in nodes[real[0]].schema:
            # Put the description of Optional[Annotated[X, "text"]] at the top, where form builders look (NS-38).
            schema["anyOf"] = [{key: text for key, text in item.items() if key != "description"} for item in schemas]
            schema["description"] = nodes[real[0]].schema["description"]
        return Node(schema, convert)

    def _tagged(self, value: Any, schemas: List[Dict[str, Any]], failures: List[Mismatch]) -> Optional[Mismatch]:
        """Return why a value fits none of several classes; None if no tag tells the classes apart.

        It is the failure of the class whose tag the value has, or says that the tag is missing or unknown.

        :param schemas: of the classes; a tag is a member whose choices differ from class to class.
        :param failures: of the same classes.
        """
        if type(value) is not dict:
            return None
        choices = [_choices(self._definition(schema)) for schema in schemas]
        for tag in dict.fromkeys(member for found in choices for member in found):
            places = [at for at, found in enumerate(choices) if tag in found]
            every = [choice for at in places for choice in choices[at][tag]]
            if len(places) < 2 or len(set(every)) < len(every):
                continue
            if tag not in value:
                needed = all(tag in self._definition(schemas[at]).get("required", ()) for at in places)
                if needed and len(places) == len([found for found in choices if found]):
                    return Mismatch(f"is required; it is {_one_of(every)}", (tag,))
                return None
            given = value[tag]
            fitting = [at for at in places if type(given) in (str, int) and given in choices[at][tag]]
            return failures[fitting[0]] if fitting else Mismatch(f"{summary(given)} is not {_one_of(every)}", (tag,))
        return None

    def _definition(self, schema: Dict[str, Any]) -> Dict[str, Any]:
        """Return a schema, or what it refers to."""
        found: Dict[str, Any] = self.definitions.get(str(schema.get("$ref")).rpartition("/")[2], schema)
        return found

    def _enumeration(self, values: List[Any], name: str) -> Node:
        flat: List[Any] = []
        choices: Dict[Any, Any] = {}
        for value in values:
            plain = value.value if isinstance(value, enum.Enum) else value
            if type(plain) not in _KINDS or plain != plain or plain in (math.inf, -math.inf):
                raise self.refuse(name, f"has the choice {plain!r}, which is not a JSON value; use strings or numbers")
            if (type(plain) is bool, plain) not in choices:
                flat.append(plain)
            # True and 1 are different choices, 1.0 and 1 are the same.
            choices.setdefault((type(plain) is bool, plain), value)
        if not flat:
            raise self.refuse(name, "is an enumeration without members; give it some")
        kinds = list(dict.fromkeys(_KINDS[type(value)] for value in flat))

        def convert(value: Any) -> Any:
            if type(value) in _KINDS and (type(value) is bool, value) in choices:
                return choices[type(value) is bool, value]
            raise Mismatch(f"{summary(value)} is not {_one_of(flat)}")

        return Node({"type": kinds[0] if len(kinds) == 1 else kinds, "enum": flat}, convert)

    def _flags(self, cls: Any, name: str) -> Node:
        """Return the node of a class of flags, whose values are sums of its members' values."""
        named = {key: member.value for key, member in cls.__members__.items()}
        if not named or any(type(value) is not int or value < 0 for value in named.values()):
            raise self.refuse(name, f"is of the flags {cls.__name__}, which have"
                                    f" {'other values than 0, 1, 2, 4, ...' if named else 'no members'}; correct them")
        every = 0
        for value in named.values():
            every |= value
        whole = SIMPLE[int].convert

        def convert(value: Any) -> Any:
            number = whole(value)
            if number & ~every or number < 0:
                raise Mismatch(f"{summary(value)} is not a sum of {shown}")
            return cls(number)

        shown = ", ".join(f"{value} ({key})" for key, value in named.items())
        return Node({"type": "integer", "minimum": 0, "maximum": every, "description": f"{_SUM_OF}{shown}"}, convert)

    def _array(self, origin: Any, arguments: Tuple[Any, ...], empty: bool, name: str) -> Node:
        build = _ARRAYS[origin]
        if origin is tuple and (empty or arguments and arguments[-1] is not Ellipsis):
            return self._tuple(() if empty or arguments == ((),) else arguments, name)
        item = self.compile(arguments[0], name) if arguments else SIMPLE[Any]
        schema: Dict[str, Any] = {"type": "array"}
        if item.schema:
            schema["items"] = item.schema
        each = item.convert
        validator = None
        if build in (set, frozenset):
            schema["uniqueItems"] = True
            from ...protocol.schema.validation import Validator

            validator = Validator({"uniqueItems": True})

        def convert(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"{summary(value)} is not a list")
            if validator is not None and not validator.is_valid(value):
                raise Mismatch("an item occurs more than once")
            result = _converted(value, itertools.repeat(each))
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
        converts = [node.convert for node in nodes]

        def convert(value: Any) -> Any:
            if type(value) is not list or len(value) != len(nodes):
                raise Mismatch(f"{summary(value)} is not a list of {len(nodes)} items")
            return tuple(_converted(value, converts))

        return Node(schema, convert)

    def _mapping(self, arguments: Tuple[Any, ...], name: str) -> Node:
        if not arguments:
            return Node({"type": "object"}, expect(dict, "an object"))
        schema: Dict[str, Any] = {"type": "object"}
        key = None if arguments[0] in (str, Any) else self._key(arguments[0], name, schema)
        item = self.compile(arguments[1], name)
        if item.schema:
            schema["additionalProperties"] = item.schema

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"{summary(value)} is not an object")
            result = {}
            for step, child in value.items():
                try:
                    made = item.convert(child)
                except Mismatch as error:
                    raise error.below(step) from None
                try:
                    result[step if key is None else key(step)] = made
                except Mismatch as error:
                    raise Mismatch(f"its key {error.message}") from None
            if len(result) < len(value):
                raise Mismatch("two of its keys mean one and the same value")
            return result

        return Node(schema, convert)

    def _key(self, annotation: Any, name: str, schema: Dict[str, Any]) -> Convert:
        """Return the converter of the keys of a mapping, which are texts in JSON; add keywords for the keys to *schema*.

        :raises ImpossibleKey: they have no text.
        """
        node = self.compile(annotation, name)
        kinds = kinds_of(node.schema)
        if kinds & {"array", "object"} or not kinds and "$ref" in node.schema:
            raise ImpossibleKey(f"{self.place(name)} is a mapping with keys of {annotation!r}, but JSON's keys are strings; use"
                                " keys that are strings or numbers, or a list of pairs")
        if kinds <= {"string"}:
            if node.schema.keys() - {"type"}:
                schema["propertyNames"] = node.schema
            return node.convert
        if "enum" in node.schema:
            from ...protocol.jsonable import key_text

            schema["propertyNames"] = {"enum": list(map(key_text, node.schema["enum"]))}
        elif kinds == {"integer"}:
            schema["propertyNames"] = {"pattern": "^-?[0-9]+$"}

        def convert(text: str) -> Any:
            if "string" in kinds:
                try:
                    return node.convert(text)
                except Mismatch:
                    pass  # the text of a number, or of another scalar
            try:
                value = load(text.encode("utf-8"))
            except ValueError:
                value = text  # the converter reports what is wrong with it
            return node.convert(value)

        return convert

    def _class(self, annotation: Any, name: str) -> Node:
        """Return the node of a class, or of the alias of a generic one, such as ``Box[int]``."""
        cls = get_origin(annotation) or annotation
        if issubclass(cls, enum.Flag):
            return self._flags(cls, name)
        if issubclass(cls, enum.Enum):
            return self._enumeration(list(cls), name)
        seen = self._seen(annotation, {"type": "object"})
        if seen is not None:
            return seen
        if any(hasattr(cls, mark) for mark in _VALIDATING):
            from .foreign.models import foreign_node  # for classes that no rule here knows

            foreign = foreign_node(annotation, name, self)
            if foreign is not None:
                self._done[annotation] = foreign
                return foreign
        try:
            fields = self._members(annotation, cls)
        except Unresolved as error:
            raise self.refuse(name, f"is of the class {cls.__name__}, which is annotated with {error}") from error
        if fields is None:
            return self._based(annotation, cls, name)
        self._owners.append((cls, {}))
        try:
            return self._opened(annotation, cls.__name__, {"type": "object"}, name, lambda: self._object(cls, fields, name))
        finally:
            self._owners.pop()

    def _seen(self, key: Any, known: Dict[str, Any]) -> Optional[Node]:
        """Return the node of a class or alias that was compiled, or a reference to one that is being compiled; otherwise None.

        :param known: keywords beside the reference. The type is repeated for form builders, which do not follow it (NS-38).
        """
        if key in self._open:
            label = self._recursive.setdefault(key, self._open[key])
            return Node({**known, "$ref": f"#/$defs/{label}"}, lambda value: self._done[key].convert(value))
        return self._done.get(key)

    def _opened(self, key: Any, label: str, known: Dict[str, Any], name: str, make: Callable[[], Node]) -> Node:
        """Return the node of a class or alias that *make* compiles, in ``definitions`` if it contains itself."""
        self._open[key] = self.free_label(label)
        try:
            node = make()
        finally:
            label = self._open.pop(key)
        if key in self._recursive:
            if node.schema.get("$ref") == f"#/$defs/{label}":
                raise self.refuse(name, "is annotated with an alias that stands for itself alone; name the types that it has")
            self.definitions[label] = node.schema
            node = Node({**known, "$ref": f"#/$defs/{label}"}, node.convert, node.exact)
        self._done[key] = node
        return node

    def _members(self, annotation: Any, cls: Any) -> Optional[List[Field]]:
        fields = members(cls, returned=self.returned)
        if fields is None and hasattr(cls, "__attrs_attrs__"):
            from .foreign.models import attrs_members  # for those that have classes of attrs

            fields = attrs_members(cls, returned=self.returned)
        if fields is not None and (annotation is not cls or hasattr(cls, "__orig_bases__")):
            chosen = type_arguments(annotation)
            fields = [changed(field, annotation=with_arguments(field.annotation, chosen.get(field.name, {})))
                      for field in fields]
        return fields

    def free_label(self, wanted: str) -> str:
        taken = {*self.definitions, *self._open.values()}
        label, number = wanted, 1
        while label in taken:
            number += 1
            label = f"{wanted}{number}"
        return label

    def _based(self, annotation: Any, cls: Any, name: str) -> Node:
        """Return the node of a subclass of int, str, float or a path class, or of a class of another library."""
        if any(base.__name__ == "PurePath" and base.__module__.startswith("pathlib") for base in cls.__mro__):
            return Node({"type": "string", "format": "path"}, from_text(cls, "a path"))
        for base in (int, str, float):
            if issubclass(cls, base):
                schema, plain = SIMPLE[base].schema, SIMPLE[base].convert

                def convert(value: Any) -> Any:
                    value = plain(value)
                    try:
                        return cls(value)
                    except (TypeError, ValueError) as error:
                        raise Mismatch(f"{summary(value)} is not a {cls.__name__}: {error}") from error

                return Node(schema, convert)
        from .foreign.models import foreign_node  # for classes that no rule here knows

        foreign = foreign_node(annotation, name, self)
        if foreign is not None:
            return foreign
        if annotation is not cls:
            raise self._unknown(annotation, name)
        raise self.refuse(name, f"is of the class {cls.__name__}, which has no form in JSON; make it a dataclass"
                                f" or TypedDict, or take its parts as parameters")

    def _object(self, cls: Any, fields: List[Field], name: str) -> Node:
        described = parse(cls.__doc__)[1]
        plan: List[Tuple[str, Convert, bool]] = []
        properties: Dict[str, Any] = {}
        for field in fields:
            node = self.compile(field.annotation, f"{name}.{field.name}")
            plan.append((field.name, node.convert, field.required))
            properties[field.name] = described_schema(node, described.get(field.name), field.default)
        schema: Dict[str, Any] = {"type": "object", "properties": properties}
        required = [item for item, _, needed in plan if needed]
        if required:
            schema["required"] = required
        if not self.returned:
            schema["additionalProperties"] = False
        make = None if is_typed_dict(cls) else cls

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"{summary(value)} is not an object")
            found: Dict[str, Any] = {}
            for item, each, needed in plan:
                if item in value:
                    try:
                        found[item] = each(value[item])
                    except Mismatch as error:
                        raise error.below(item) from None
                elif needed:
                    raise Mismatch("is required", (item,))
            if len(found) < len(value):
                raise Mismatch(f"is not a member of {cls.__name__}", (next(key for key in value if key not in found),))
            if make is None:
                return found
            try:
                return make(**found)
            except (TypeError, ValueError) as error:
                # A dataclass can check its values in __post_init__.
                raise Mismatch(reason_of(error)) from error

        return Node(schema, convert)


def _converted(values: List[Any], converts: Iterable[Convert]) -> List[Any]:
    """Return the items of a list, each converted by its own converter.

    :raises Mismatch: one does not fit; the path begins with its index.
    """
    result: List[Any] = []
    try:
        for value, convert in zip(values, converts):
            result.append(convert(value))
    except Mismatch as error:
        raise error.below(len(result)) from None
    return result


def _one_of(choices: List[Any]) -> str:
    listed = json_words(", ".join(map(repr, choices[:20]))) + (", ..." if len(choices) > 20 else "")
    return f"{'one of ' if len(choices) > 1 else ''}{listed}"


def _choices(schema: Mapping[str, Any]) -> Dict[str, List[Any]]:
    """Return the members of an object that have few values, such as a Literal, with these values."""
    found: Dict[str, List[Any]] = {}
    for name, member in schema.get("properties", {}).items():
        values = [member["const"]] if "const" in member else member.get("enum")
        if isinstance(values, list) and all(type(value) in (str, int) for value in values):
            found[name] = values
    return found


def _joined(schema: Mapping[str, Any], text: str) -> str:
    own = schema.get("description", "")
    return f"{text} ({own})" if own.startswith(_SUM_OF) else text


def description_of(schema: Mapping[str, Any], text: Optional[str]) -> Optional[str]:
    """Return the description of a member: that in its annotation; if there is none, *text*, which is from the docstring."""
    own: Optional[str] = schema.get("description")
    return own if own and not own.startswith(_SUM_OF) else _joined(schema, text) if text else own


def described_schema(node: Node, description: Optional[str], default: Any) -> Dict[str, Any]:
    """Return the schema of one member, with its description unless it has one, and with its default if that fits.

    :param default: NOTHING if the member has no default.
    """
    schema = dict(node.schema)
    if description:
        schema["description"] = description_of(schema, description) if "description" in schema else description
    value = NOTHING if default is NOTHING else as_default(default)
    if value is not NOTHING:
        try:
            node.convert(value)
        except Mismatch:
            return schema
        schema["default"] = value
    return schema
