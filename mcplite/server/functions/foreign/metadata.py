"""The metadata of other libraries in ``Annotated``: annotated_types, pydantic's Field and msgspec's Meta.

A constraint that JSON Schema can express becomes a keyword, which the binder checks; any other is checked on the Python value.
A ``Field(...)`` of pydantic may also be the default of a parameter.
"""

import collections.abc
import copy
import datetime
import decimal
import functools
import math
from typing import Annotated, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ....protocol.jsonable import jsonable, string_of
from ....protocol.library_values import libraries_of, loaded
from ....protocol.schema.ecma import problem_of
from ....protocol.schema.quickcheck import is_multiple
from ....protocol.schema.validation import Validator
from ..class_fields import NOTHING, with_metadata
from ..converters import Compiler, Mismatch, Node, kinds_of, summary
from ..definitions import definition_json
from ..keywords import add_keywords, enforced
from .adapters import cut
from .models import adapter_node


class FieldParameter(NamedTuple):
    """A parameter with a Field."""

    #: The annotation, with the Field in its metadata.
    annotation: Any
    #: The default for the schema; NOTHING if it has no fixed one, *missing* if the argument is required.
    default: Any
    #: Makes the value for a call without the argument; None if the argument is required, or Python has the default.
    make: Optional[Callable[[], Any]]
    #: The name of the argument for clients; None if it is the parameter's.
    alias: Optional[str]


def is_field(value: Any) -> bool:
    """Whether *value* is a ``Field(...)`` of pydantic 1 or 2, or of a library that extends it."""
    return any(base.__name__ == "FieldInfo" and str(base.__module__).partition(".")[0] == "pydantic"
               for base in type(value).__mro__)


def is_undefined(value: Any) -> bool:
    """Whether *value* stands for "not given" in a Field."""
    return value is Ellipsis or type(value).__name__ in ("PydanticUndefinedType", "UndefinedType")


def read_field(annotation: Any, extras: Tuple[Any, ...], default: Any, missing: Any) -> Optional[FieldParameter]:
    """Return a parameter with a Field; None for one without.

    :param extras: the metadata of the annotation.
    :param missing: stands for "no default".
    :raises ValueError: a part of the Field has no meaning for an argument; the text says what to do.
    """
    fields = [extra for extra in extras if is_field(extra)]
    if is_field(default):
        fields.append(default)
        annotation = Annotated[annotation, default]
        default = missing
    if not fields:
        return None
    alias = next((found for found in map(_alias, reversed(fields)) if found is not None), None)
    make: Optional[Callable[[], Any]] = None
    shown = default
    if default is missing:
        for field in reversed(fields):
            factory = getattr(field, "default_factory", None)
            if factory is not None:
                if getattr(field, "default_factory_takes_validated_data", False):
                    raise ValueError("has a default_factory that takes the other values; take them in the function")
                make, shown = factory, factory() if factory in (list, dict) else NOTHING
                break
            if not is_undefined(field.default):
                make, shown = functools.partial(copy.deepcopy, field.default), field.default
                break
    return FieldParameter(annotation, shown, make, alias)


def _alias(field: Any) -> Optional[str]:
    alias = getattr(field, "validation_alias", None) or getattr(field, "alias", None)
    if alias is not None and not isinstance(alias, str):
        raise ValueError(f"has the alias {alias!r}, but an argument has one name; write Field(alias=\"name\")")
    return alias


#: The attributes of bounds, of whichever library (in the order of their keywords in a schema): the keyword of JSON Schema, the
#: words of the error, and the check of a Python value.
_BOUNDS: Dict[str, Tuple[str, str, Callable[[Any, Any], bool]]] = {
    "ge": ("minimum", "less than", lambda value, bound: value >= bound),
    "gt": ("exclusiveMinimum", "not greater than", lambda value, bound: value > bound),
    "le": ("maximum", "greater than", lambda value, bound: value <= bound),
    "lt": ("exclusiveMaximum", "not less than", lambda value, bound: value < bound),
    "multiple_of": ("multipleOf", "not a multiple of", lambda value, bound: (
        value % bound == 0 if _number(bound) is None else is_multiple(value, bound))),
    "min_length": ("minLength", "shorter than", lambda value, bound: len(value) >= bound),
    "max_length": ("maxLength", "longer than", lambda value, bound: len(value) <= bound),
}
#: What pydantic 1 calls the lengths of lists.
_ITEMS = {"min_items": "min_length", "max_items": "max_length"}
_LENGTHS = {"minLength": {"string": "minLength", "array": "minItems", "object": "minProperties"},
            "maxLength": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}}
#: Checks a Python value; raises Mismatch.
Check = Callable[[Any], None]


class _NoZone(Exception):
    """The system does not know a time zone."""


class _Found:
    """What the metadata of one annotation says."""

    def __init__(self) -> None:
        #: Pairs of an attribute, as in ``_BOUNDS``, and its value.
        self.bounds: List[Tuple[str, Any]] = []
        self.patterns: List[str] = []
        self.notes: Dict[str, Any] = {}
        self.changes: List[Callable[[Dict[str, Any]], Any]] = []
        self.extra: List[Mapping[str, Any]] = []
        self.checks: List[Check] = []
        #: Whether some metadata is understood by pydantic alone; and the metadata, in its order, that pydantic then gets.
        self.only_pydantic = False
        self.for_pydantic: List[Any] = []

    def read(self, extra: Any) -> None:
        """Read one object of the metadata; objects of unknown libraries are ignored."""
        cls = type(extra)
        libraries = libraries_of(cls)
        documentation = getattr(extra, "documentation", None)
        if is_field(extra):
            self._read_field(extra)
        elif getattr(extra, "__is_annotated_types_grouped_metadata__", False) and isinstance(extra, collections.abc.Iterable):
            for part in extra:
                self.read(part)
        elif "msgspec" in libraries and any(base.__name__ == "Meta" for base in cls.__mro__):
            self._read_bounds(extra)
            if extra.tz is not None:
                self.checks.append(_timezone(... if extra.tz else None))
            if extra.extra_json_schema:
                self.extra.append(extra.extra_json_schema)
        elif isinstance(documentation, str):  # annotated_types.doc, typing_extensions.Doc
            self.notes["description"] = documentation
        elif "pydantic" in libraries or hasattr(cls, "__get_pydantic_core_schema__"):
            self.for_pydantic.append(extra)
            # Strict and AllowInfNan do not need pydantic: the binder is strict in any case, and JSON has no NaN.
            self.only_pydantic |= cls.__name__ not in ("Strict", "AllowInfNan")
        elif "annotated_types" in libraries:
            self.for_pydantic.append(extra)
            self._read_bounds(extra)
            if hasattr(extra, "func"):
                self.checks.append(_predicate(extra.func))
            elif hasattr(extra, "tz"):
                self.checks.append(_timezone(extra.tz))
            elif hasattr(extra, "unit"):
                self.notes["unit"] = str(extra.unit)

    def _read_bounds(self, extra: Any) -> None:
        """Read the attributes that mean the same in all libraries."""
        for attribute in (*_BOUNDS, *_ITEMS):
            if getattr(extra, attribute, None) is not None:
                self.bounds.append((_ITEMS.get(attribute, attribute), getattr(extra, attribute)))
        pattern = getattr(extra, "pattern", None) or getattr(extra, "regex", None)
        if pattern is not None:
            self.patterns.append(pattern)
        for attribute in ("title", "description", "examples"):
            value = getattr(extra, attribute, None)
            if value is not None and not is_undefined(value):
                self.notes[attribute] = value
        if getattr(extra, "deprecated", None):
            self.notes["deprecated"] = True

    def _read_field(self, field: Any) -> None:
        for item in getattr(field, "metadata", ()):
            self.read(item)
        if getattr(field, "discriminator", None) is not None:
            self.only_pydantic = True
            self.for_pydantic.append(loaded("pydantic").Field(discriminator=field.discriminator))  # type: ignore[union-attr]
        self._read_bounds(field)
        extra = getattr(field, "json_schema_extra", None) or getattr(field, "extra", None)  # the second is that of pydantic 1
        if isinstance(extra, Mapping):
            self.extra.append(extra)
        elif callable(extra):
            self.changes.append(extra)


def annotated_node(base: Any, extras: Tuple[Any, ...], name: str, compiler: Compiler) -> Node:
    """Return the node of ``Annotated[base, *extras]``; metadata of unknown libraries is ignored.

    :param extras: the metadata; a text is the description, a dict has keywords.
    :raises RegistrationError: a constraint does not apply to the type, or pydantic has no schema for it.
    """
    found = _Found()
    for extra in extras:
        text = string_of(extra)
        if text is not None:
            found.notes["description"] = text
        elif isinstance(extra, Mapping):
            found.extra.append(extra)
        else:
            try:
                found.read(extra)
            except _NoZone as error:
                raise compiler.refuse(name, str(error)) from error
    node: Optional[Node] = None
    if found.only_pydantic:
        node = adapter_node(with_metadata(base, tuple(found.for_pydantic)), name, compiler)
    if node is not None:
        done = _Found()
        for extra in found.for_pydantic:
            done.read(extra)
        found.bounds, found.checks = [bound for bound in found.bounds if bound not in done.bounds], []
    else:
        node = compiler.compile(base, name)
    return _noted(_bounded(node, found, name, compiler), found, name, compiler)


def _bounded(node: Node, found: _Found, name: str, compiler: Compiler) -> Node:
    """Return *node* with the constraints: as keywords, and as checks where JSON Schema has no keyword."""
    checks = list(found.checks)
    sets: List[Dict[str, Any]] = [{}]
    for pattern in found.patterns:
        if problem_of(pattern):  # only Python has it, so it is checked, but not put into the schema
            validator = Validator({"pattern": pattern})
            compiler.validators.append(validator)
            node = Node(node.schema, enforced(node.convert, validator))
        else:
            sets.append({"pattern": pattern})
    kinds = kinds_of(node.schema)
    is_text = "string" in kinds and not node.schema.keys() & {"format", "contentEncoding"}
    for attribute, bound in found.bounds:
        keyword, words, holds = _BOUNDS[attribute]
        number = _number(bound)
        if keyword in _LENGTHS:
            keywords = {own: bound for kind, own in _LENGTHS[keyword].items()
                        if not kinds or kind in kinds and (kind != "string" or is_text)}
            by_value = "string" in kinds and not (is_text and kinds <= {"string", "null"})
        else:
            keywords = {keyword: number} if number is not None and (not kinds or kinds & {"number", "integer"}) else {}
            by_value = "string" in kinds or number is None
        if not keywords and not by_value:
            raise compiler.refuse(name, f"has the constraint {keyword} {bound!r} in Annotated, which does not apply to"
                                        f" {' or '.join(sorted(kinds))}; remove it, or change the type")
        for each, value in keywords.items():
            if each in sets[0]:
                sets.append({each: value})
            else:
                sets[0][each] = value
        if by_value:
            checks.append(_comparison(bound, words, holds, keyword in _LENGTHS))
    for keywords_of_set in filter(None, sets):
        node = add_keywords(node, keywords_of_set, compiler.place(name), compiler.validators)
    return Node(node.schema, _checked(node.convert, checks)) if checks else node


def _number(bound: Any) -> Any:
    """Return a bound as a number of JSON; None if it is none."""
    if type(bound) is int or type(bound) is float and math.isfinite(bound):
        return bound
    if isinstance(bound, decimal.Decimal) and bound.is_finite():
        return int(bound) if bound == bound.to_integral_value() else float(bound)
    return None


def _checked(convert: Callable[[Any], Any], checks: List[Check]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        made = convert(value)
        if made is not None:
            for check in checks:
                check(made)
        return made

    return checked


def _comparison(bound: Any, words: str, holds: Callable[[Any, Any], bool], of_length: bool) -> Check:
    def check(value: Any) -> None:
        try:
            fits = holds(value, bound)
        except TypeError as error:
            raise Mismatch(f"{summary(value)} cannot be compared with {bound}: {error}") from error
        if not fits:
            shown = f"a value of length {len(value)}" if of_length else cut(str(value))
            raise Mismatch(f"{shown} is {words} {bound}")

    return check


def _predicate(function: Callable[[Any], Any]) -> Check:
    label = getattr(function, "__qualname__", None) or repr(function)
    said = "the condition of its annotation" if "<lambda>" in label else label

    def check(value: Any) -> None:
        try:
            holds = function(value)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise Mismatch(f"{summary(value)} does not fulfil {said}: {error}") from error
        if not holds:
            raise Mismatch(f"{summary(value)} does not fulfil {said}")

    return check


def _timezone(wanted: Any) -> Check:
    """Return the check of annotated_types.Timezone.

    :param wanted: None allows no time zone, an ellipsis allows any, a text or a tzinfo only the zone that it names.
    :raises _NoZone: the system does not know the zone of this name.
    """
    zone: Optional[datetime.tzinfo] = None
    if isinstance(wanted, str):
        if wanted.upper() == "UTC":
            zone = datetime.timezone.utc
        else:
            import zoneinfo  # for those that name a zone

            try:
                zone = zoneinfo.ZoneInfo(wanted)
            except (KeyError, ValueError, OSError) as error:
                raise _NoZone(f"has the time zone {wanted!r} in Annotated, which this system does not know; correct it,"
                              f" or install tzdata") from error
    elif isinstance(wanted, datetime.tzinfo):
        zone = wanted

    def check(value: Any) -> None:
        if wanted is None:
            if value.tzinfo is not None:
                raise Mismatch(f"{value.isoformat()!r} has a time zone; leave it out")
        elif value.tzinfo is None:
            raise Mismatch(f"{value.isoformat()!r} has no time zone; write it behind the time, as in +02:00")
        elif zone is not None and value.utcoffset() != value.astimezone(zone).utcoffset():
            raise Mismatch(f"{value.isoformat()!r} is not in the time zone {wanted}")

    return check


def _noted(node: Node, found: _Found, name: str, compiler: Compiler) -> Node:
    """Return *node* with title, description, examples and further members of its schema."""
    notes = dict(found.notes)
    unit = notes.pop("unit", None)
    schema = {**node.schema, **notes}
    if unit is not None:
        schema["description"] = f"{schema['description']} (in {unit})" if "description" in schema else f"in {unit}"
    for change in found.changes:
        change(schema)
    if notes or found.changes:
        try:
            if "examples" in notes:
                schema["examples"] = jsonable(notes["examples"])
            schema = definition_json(schema)
        except (TypeError, ValueError) as error:
            raise compiler.refuse(name, f"has a title, a description or examples in Annotated that are not JSON: {error}"
                                  ) from error
    node = Node(schema, node.convert, node.exact)
    for extra in found.extra:
        node = add_keywords(node, extra, compiler.place(name), compiler.validators)
    return node
