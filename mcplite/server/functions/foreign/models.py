"""Types of other libraries, used by ``Schemas`` where no rule of its own matches.

Here are those of pydantic (models, dataclasses, and what ``TypeAdapter`` makes of annotations; models of pydantic 1), the
structs of msgspec, and the classes of attrs, whose validators become keywords of JSON Schema; those of numpy and pandas stand
in :mod:`.arrays`.
"""

import re
from typing import Annotated, Any, Callable, Dict, Iterator, List, Optional, Tuple, Union, get_origin

from ....errors import RegistrationError
from ....protocol.jsonrpc import encode_json
from ....protocol.library_values import attrs_name, library_of, loaded
from ....protocol.schema.ecma import problem_of
from ....protocol.schema.references import rebuilt
from ..class_fields import NOTHING, Field, hints_of
from ..converters import Compiler, Mismatch, Node, reason_of
from .adapters import adapted, cut, no_schema
from .arrays import array_node, frame_node

#: What pydantic writes before the text of a validator's exception.
_PREFIXES = ("Value error, ", "Assertion failed, ")
_MOST_PROBLEMS = 10


def adapter_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of an annotation as pydantic 2 understands it; None if the process has no pydantic 2.

    :raises RegistrationError: pydantic has no schema for it.
    """
    make = getattr(loaded("pydantic"), "TypeAdapter", None)
    if make is None:
        return None
    mode = "serialization" if compiler.returned else "validation"
    try:
        adapter = make(annotation)
        schema: Dict[str, Any] = adapter.json_schema(by_alias=True, mode=mode)
    except Exception as error:  # pydantic runs the hooks of the type, which can raise anything
        raise no_schema(name, f"annotated with {_shown(annotation)}", "pydantic", error, compiler) from error

    def load(value: Any) -> Any:
        try:
            # As JSON, so that a strict model takes what JSON has no types for, such as dates.
            return adapter.validate_json(encode_json(value))
        except (ValueError, TypeError) as error:
            raise _mismatch(error) from error

    return adapted(schema, getattr(annotation, "__name__", ""), load, name, compiler, patterns=False)


def _old_model_node(cls: Any, name: str, compiler: Compiler) -> Node:
    """Return the node of a model of pydantic 1.

    :raises RegistrationError: pydantic has no schema for it.
    """
    try:
        schema = dict(cls.schema(by_alias=True, ref_template="#/$defs/{model}"))
    except Exception as error:  # as above
        raise no_schema(name, f"of the class {cls.__name__}", "pydantic", error, compiler) from error
    if "definitions" in schema:
        schema["$defs"] = schema.pop("definitions")

    def load(value: Any) -> Any:
        try:
            return cls.parse_obj(value)
        except (ValueError, TypeError) as error:
            raise _mismatch(error) from error

    return adapted(rebuilt(schema, _newer), cls.__name__, load, name, compiler, patterns=True)


def _newer(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema of draft-07 with the tuples of 2020-12."""
    return {"prefixItems" if keyword == "items" and isinstance(value, list) else keyword: value
            for keyword, value in schema.items()}


def _shown(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or repr(annotation)[:200]


def _mismatch(error: Exception) -> Mismatch:
    errors = getattr(error, "errors", None)
    if errors is None:
        return Mismatch(cut(reason_of(error)))
    try:
        found: List[Dict[str, Any]] = errors(include_url=False, include_context=False, include_input=False)
    except TypeError:
        found = errors()  # pydantic 1
    problems = [Mismatch(_text(item), _path(item.get("loc", ()))) for item in found[:_MOST_PROBLEMS]]
    first, *more = problems or [Mismatch(cut(str(error)))]
    return Mismatch(first.message, first.path, more)


def _text(item: Dict[str, Any]) -> str:
    text = cut(str(item.get("msg", "is not valid")))
    for prefix in _PREFIXES:
        if text.startswith(prefix):
            return text[len(prefix):]
    return text


def _path(location: Any) -> Tuple[Any, ...]:
    return tuple(step for step in location if isinstance(step, (str, int)) and step != "__root__")


#: The place in the text of a ValidationError.
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`\Z", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


def _struct_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a Struct, or of a union of Structs with tags; None if the process has no msgspec.

    :raises RegistrationError: msgspec has no schema for it.
    """
    msgspec = loaded("msgspec")
    if msgspec is None:
        return None
    label = _shown(annotation)
    try:
        schema: Dict[str, Any] = msgspec.json.schema(annotation)
    except Exception as error:  # msgspec evaluates annotations, which can raise anything
        raise no_schema(name, f"annotated with {label}", "msgspec", error, compiler) from error

    def load(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation)
        except msgspec.ValidationError as error:
            plain = _whole_numbers(value)
            if plain == value and repr(plain) == repr(value):
                raise _struct_mismatch(error) from error
        try:
            return msgspec.convert(plain, annotation)
        except msgspec.ValidationError as error:
            raise _struct_mismatch(error) from error

    return adapted(schema, label, load, name, compiler, patterns=True)


def _whole_numbers(value: Any) -> Any:
    """Return a JSON value with 2 in place of 2.0, which JSON Schema does not tell apart, and msgspec does."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return value


def _struct_mismatch(error: Exception) -> Mismatch:
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return Mismatch(cut(text))
    return Mismatch(cut(text[:place.start()]), tuple(int(found.group(2)) if found.group(2) else found.group(1) or "..."
                                                     for found in _STEP.finditer(place.group(1))))


#: The class of attrs' "no default", in one version and the other.
_NOTHINGS = ("_Nothing", "NothingType")
_COMPARISONS = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}


def attrs_members(cls: Any, *, returned: bool) -> List[Field]:
    """Return the members of a class of attrs, by the names that its constructor takes.

    If the annotations of a converter say what it takes, a member that is passed to the constructor has that type.

    :param returned: whether the members are read from an object; otherwise they are passed to the constructor.
    :raises Unresolved: an annotation cannot be evaluated.
    """
    hints = hints_of(cls)
    found = []
    for attribute in cls.__attrs_attrs__:
        if not (attribute.init or returned):
            continue
        annotation = hints.get(attribute.name, Any if attribute.type is None else attribute.type)
        if not returned:
            annotation = _taken(attribute.converter, annotation)
        # attrs validates a value after its converter, so the keywords do not hold for a value that is passed to a converter.
        keywords = dict(_attrs_keywords(attribute.validator, annotation)) if returned or attribute.converter is None else {}
        found.append(Field(attrs_name(attribute), Annotated[annotation, keywords] if keywords else annotation,
                           type(attribute.default).__name__ in _NOTHINGS, _attrs_default(attribute.default)))
    return found


def _taken(converter: Any, annotation: Any) -> Any:
    """Return the annotation of what a converter takes; that of the attribute if the converter does not say."""
    converter = getattr(converter, "converter", converter)  # attrs.Converter
    if converter is None or isinstance(converter, type):
        return annotation
    import inspect  # as attrs does

    try:
        taken = next(iter(inspect.signature(converter).parameters.values())).annotation
    except (TypeError, ValueError, StopIteration):
        return annotation
    return annotation if taken in (None, inspect.Parameter.empty) or isinstance(taken, str) else taken


def _attrs_default(default: Any) -> Any:
    kind = type(default).__name__
    if kind == "Factory":
        return default.factory() if default.factory in (list, dict) else NOTHING
    return NOTHING if kind in _NOTHINGS else default


def _attrs_keywords(validator: Any, annotation: Any) -> "Iterator[tuple[str, Any]]":
    """Yield the JSON Schema keywords of attrs' own validators; the others check in the constructor alone."""
    kind = type(validator).__name__
    if type(validator).__module__ not in ("attr.validators", "attr._make"):
        return
    if kind == "_AndValidator":
        for each in validator._validators:
            yield from _attrs_keywords(each, annotation)
    elif kind == "_OptionalValidator":
        yield from _attrs_keywords(validator.validator, annotation)
    elif kind == "_NumberValidator" and validator.compare_op in _COMPARISONS and type(validator.bound) in (int, float):
        yield _COMPARISONS[validator.compare_op], validator.bound
    elif kind in ("_MinLengthValidator", "_MaxLengthValidator") and _unit(annotation):
        least = kind == "_MinLengthValidator"
        yield ("min" if least else "max") + _unit(annotation), validator.min_length if least else validator.max_length
    elif kind == "_InValidator" and all(type(option) in (str, int) for option in validator.options):
        yield "enum", list(validator.options)
    elif kind == "_MatchesReValidator" and getattr(validator.match_func, "__name__", "") in ("fullmatch", "match", "search"):
        pattern = validator.pattern.pattern
        pattern = {"fullmatch": f"^(?:{pattern})$", "match": f"^(?:{pattern})"}.get(validator.match_func.__name__, pattern)
        if not problem_of(pattern):  # a pattern that only Python understands is checked by the constructor alone
            yield "pattern", pattern


def _unit(annotation: Any) -> str:
    """Return what the length of a value counts, as in "minItems"; an empty text if it has another form in JSON."""
    if annotation in (str, Optional[str]):
        return "Length"
    return "Items" if get_origin(annotation) in (list, tuple) or annotation in (list, tuple) else ""


_NODES: Dict[str, Callable[[Any, str, Compiler], Optional[Node]]] = {
    "pydantic": adapter_node, "pydantic 1": _old_model_node, "msgspec": _struct_node, "numpy": array_node, "pandas": frame_node,
}
def foreign_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a class of pydantic, msgspec, numpy or pandas, or of an alias of one; None for any other.

    :raises RegistrationError: its library has no schema for it; the text has the reason and the fix.
    """
    make = _NODES.get(library_of(get_origin(annotation) or annotation))
    return None if make is None else make(annotation, name, compiler)


def foreign_union(parts: Tuple[Any, ...], name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a union of several models, or of several structs; None if its library does not know all parts."""
    make = adapter_node if any(library_of(part) == "pydantic" for part in parts) else _struct_node
    try:
        return make(Union[parts], name, compiler)
    except RegistrationError:
        return None  # the caller compiles part by part, and its error names the part
