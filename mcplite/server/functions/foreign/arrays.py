"""Arrays and scalars of numpy, and frames and series of pandas: from JSON lists, values and records."""

from typing import Any, Dict, List, Optional, get_args, get_origin

from ....protocol.library_values import is_of_pandas, loaded
from ..converters import SIMPLE, Compiler, Convert, Mismatch, Node, summary

_ANY_NUMBER = Node({"type": ["number", "boolean"]}, lambda value: _number_or_boolean(value))


def _number_or_boolean(value: Any) -> Any:
    if type(value) not in (int, float, bool):
        raise Mismatch(f"{summary(value)} is not a number")
    return value


def array_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of an array, such as ``NDArray[numpy.float64]``, or of a scalar class; None for other classes.

    :raises RegistrationError: its items have no form in JSON.
    """
    numpy = loaded("numpy")
    cls = get_origin(annotation) or annotation
    if numpy is None:
        return None
    if issubclass(cls, numpy.generic):
        leaf = _leaf(cls, name, compiler, numpy)
        make: Convert = cls if _is_concrete(cls, numpy) else (lambda value: value)
        return Node(leaf.schema, lambda value: make(leaf.convert(value)))
    if not issubclass(cls, numpy.ndarray):
        return None
    shape, dtype = (*get_args(annotation), Any, Any)[:2]
    kinds = get_args(dtype)
    kind = (get_origin(kinds[0]) or kinds[0]) if kinds else None
    if kind is Any or not isinstance(kind, type) or kind is numpy.generic:
        kind = None  # Any is a class from Python 3.11 on; a type variable is none
    leaf = _leaf(kind, name, compiler, numpy)
    sizes = get_args(shape)
    depth = len(sizes) if sizes and Ellipsis not in sizes else None
    schema: Dict[str, Any] = leaf.schema
    if depth is None:
        below: List[Any] = [schema, {"type": "array"}] if schema else []
        schema = {"type": "array", "items": {"anyOf": below}} if below else {"type": "array"}
    for _ in range(depth or 0):
        schema = {"type": "array", "items": schema}
    exact = kind if kind is not None and _is_concrete(kind, numpy) else None
    return Node(schema, _array(leaf.convert, depth, exact, numpy))


def _is_concrete(kind: Any, numpy: Any) -> bool:
    """Whether *kind* is the class of one type of items; the others, such as ``numpy.integer``, are bases of several."""
    abstract = ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating",
                "complexfloating", "flexible", "character")
    return not any(kind is getattr(numpy, name) for name in abstract)


def _array(leaf: Convert, depth: Optional[int], kind: Any, numpy: Any) -> Convert:
    def items(value: Any, left: Optional[int]) -> Any:
        if type(value) is list and left != 0:
            found = []
            for at, item in enumerate(value):
                try:
                    found.append(items(item, None if left is None else left - 1))
                except Mismatch as error:
                    raise error.below(at) from None
            return found
        if left:
            raise Mismatch(f"{summary(value)} is not a list")
        return leaf(value)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch(f"{summary(value)} is not a list")
        checked = items(value, depth)
        try:
            with numpy.errstate(over="raise"):
                return numpy.array(checked, dtype=kind, ndmin=depth or 1)
        except (ValueError, OverflowError, FloatingPointError, TypeError) as error:
            text = "its lists have different lengths" if "inhomogeneous" in str(error) else str(error)
            raise Mismatch(f"the list is not an array: {text}") from error

    return convert


def _leaf(kind: Any, name: str, compiler: Compiler, numpy: Any) -> Node:
    """Return the node of one item of the class *kind*; of a number or boolean if *kind* is None."""
    if kind is None or kind is numpy.object_:
        return SIMPLE[Any] if compiler.returned or kind is numpy.object_ else _ANY_NUMBER
    if issubclass(kind, numpy.bool_):
        return SIMPLE[bool]
    if issubclass(kind, numpy.integer) and not issubclass(kind, numpy.timedelta64):
        return _integer(kind, numpy) if _is_concrete(kind, numpy) else SIMPLE[int]
    if issubclass(kind, numpy.number) and not issubclass(kind, (numpy.complexfloating, numpy.timedelta64)):
        return SIMPLE[float]
    if issubclass(kind, numpy.str_):
        return SIMPLE[str]
    if issubclass(kind, numpy.datetime64):
        return _moment(numpy)
    fix = "use float64, an integer type, bool_, str_ or datetime64, or take the parts as lists"
    raise compiler.refuse(name, f"has items of numpy's {kind.__name__}, which have no form in JSON; {fix}")


def _integer(kind: Any, numpy: Any) -> Node:
    least, most = int(numpy.iinfo(kind).min), int(numpy.iinfo(kind).max)
    plain = SIMPLE[int].convert

    def convert(value: Any) -> int:
        number: int = plain(value)
        if not least <= number <= most:
            raise Mismatch(f"{number} is not between {least} and {most}")
        return number

    return Node({"type": "integer", "minimum": least, "maximum": most}, convert)


def _moment(numpy: Any) -> Node:
    import datetime

    from ..datetimes import nodes  # needed by few servers

    node = nodes()[datetime.datetime]
    plain = node.convert

    def convert(value: Any) -> Any:
        moment = plain(value)
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return numpy.datetime64(moment)

    return Node(node.schema, convert)


def frame_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a DataFrame, a Series, a Timestamp or a Timedelta; None for another class."""
    cls, pandas = get_origin(annotation) or annotation, loaded("pandas")
    if pandas is None:
        return None
    if is_of_pandas(cls, "DataFrame"):
        def frame(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"{summary(value)} is not a list of records")
            for at, record in enumerate(value):
                if type(record) is not dict:
                    raise Mismatch(f"{summary(record)} is not an object", (at,))
            return cls(pandas.DataFrame.from_records(value))

        return Node({"type": "array", "items": {"type": "object"}}, frame)
    if is_of_pandas(cls, "Series"):
        def series(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"{summary(value)} is not a list")
            # Without a type, an empty list is a warning in pandas 1 and 2.
            return cls(value) if value else cls(value, dtype=object)

        return Node({"type": "array"}, series)
    for known in ("Timestamp", "Timedelta"):
        if is_of_pandas(cls, known):
            import datetime

            plain = compiler.compile(datetime.datetime if known == "Timestamp" else datetime.timedelta, name)
            return Node(plain.schema, lambda value: cls(plain.convert(value)))
    return None
