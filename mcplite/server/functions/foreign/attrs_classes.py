"""Classes of attrs: their members as those of a dataclass, with the constraints of their validators."""

import inspect
from typing import Annotated, Any, Dict, Iterator, List, Optional, get_origin

from ....protocol.schema.ecma import problem_of
from ..class_fields import NOTHING, Field, hints_of

__all__ = ["attrs_members", "attrs_value"]

_COMPARISONS = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}


def attrs_members(cls: Any, *, returned: bool) -> Optional[List[Field]]:
    """Return the members of a class of attrs, by the names that its constructor takes; None for any other class.

    A member has the type of what its converter takes, where the converter says so.

    :param returned: whether the members are read from an object; otherwise they are passed to the constructor.
    :raises Unresolved: an annotation cannot be evaluated.
    """
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is None:
        return None
    hints = hints_of(cls)
    found = []
    for attribute in attributes:
        if not (attribute.init or returned):
            continue
        annotation = hints.get(attribute.name, Any if attribute.type is None else attribute.type)
        if not returned:
            annotation = _taken(attribute.converter, annotation)
        # What a converter changes is validated after it.
        keywords = dict(_keywords(attribute.validator, annotation)) if returned or attribute.converter is None else {}
        found.append(Field(_name(attribute), Annotated[annotation, keywords] if keywords else annotation,
                           _is_nothing(attribute.default), _default(attribute.default)))
    return found


def _name(attribute: Any) -> str:
    return getattr(attribute, "alias", None) or str(attribute.name).lstrip("_")


def _taken(converter: Any, annotation: Any) -> Any:
    """Return the annotation of what a converter takes; that of the attribute if the converter does not say."""
    converter = getattr(converter, "converter", converter)  # attrs.Converter
    if converter is None or isinstance(converter, type):
        return annotation
    try:
        first = next(iter(inspect.signature(converter).parameters.values()), None)
    except (TypeError, ValueError):
        return annotation
    taken = None if first is None else first.annotation
    return annotation if taken in (None, inspect.Parameter.empty) or isinstance(taken, str) else taken


def _is_nothing(default: Any) -> bool:
    return type(default).__name__ in ("_Nothing", "NothingType") or repr(default) == "NOTHING"


def _default(default: Any) -> Any:
    if _is_nothing(default):
        return NOTHING
    factory = getattr(default, "factory", None) if type(default).__name__ == "Factory" else None
    if factory is not None:
        return factory() if factory in (list, dict) else NOTHING
    return default


def _keywords(validator: Any, annotation: Any) -> "Iterator[tuple[str, Any]]":
    """Yield the JSON Schema keywords of attrs' own validators; the others check in the constructor alone."""
    kind = type(validator).__name__
    if type(validator).__module__ not in ("attr.validators", "attr._make"):
        return
    if kind == "_AndValidator":
        for each in validator._validators:
            yield from _keywords(each, annotation)
    elif kind == "_OptionalValidator":
        yield from _keywords(validator.validator, annotation)
    elif kind == "_NumberValidator" and validator.compare_op in _COMPARISONS and type(validator.bound) in (int, float):
        yield _COMPARISONS[validator.compare_op], validator.bound
    elif kind in ("_MinLengthValidator", "_MaxLengthValidator") and _unit(annotation):
        least = kind == "_MinLengthValidator"
        yield ("min" if least else "max") + _unit(annotation), validator.min_length if least else validator.max_length
    elif kind == "_InValidator" and all(type(option) in (str, int) for option in validator.options):
        yield "enum", list(validator.options)
    elif kind == "_MatchesReValidator" and getattr(validator.match_func, "__name__", "") in ("fullmatch", "match", "search"):
        pattern = _anchored(validator.pattern.pattern, validator.match_func.__name__)
        if not problem_of(pattern):  # else only Python understands it, and the constructor checks it alone
            yield "pattern", pattern


def _unit(annotation: Any) -> str:
    """Return what the length of a value counts, as in "minItems"; an empty text if it has another form in JSON."""
    if annotation in (str, Optional[str]):
        return "Length"
    return "Items" if get_origin(annotation) in (list, tuple) or annotation in (list, tuple) else ""


def _anchored(pattern: str, how: str) -> str:
    return {"fullmatch": f"^(?:{pattern})$", "match": f"^(?:{pattern})"}.get(how, pattern)


def attrs_value(value: Any) -> Dict[str, Any]:
    """Return the attributes of an object, by the names that its constructor takes."""
    return {_name(attribute): getattr(value, attribute.name) for attribute in type(value).__attrs_attrs__}
