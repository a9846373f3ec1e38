"""Arrays and scalars of numpy, and frames and series of pandas: as JSON lists, values and records, and the other way round."""

from typing import Any, Dict, List, Optional, get_args, get_origin

from ..converters import SIMPLE, Compiler, Convert, Mismatch, Node, summary
from .adapters import loaded

#: Values of an array or a table in one result; more than this is not for a model to read, and clients bound messages.
MOST_VALUES = 250_000
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


def array_value(value: Any) -> Any:
    """Return an array as nested lists, and a scalar as the value of Python that it stands for.

    :raises ValueError: the array is too large, or the scalar stands for no time (NaT).
    :raises TypeError: complex numbers have no form in JSON.
    """
    kind = value.dtype.kind
    if kind == "c":
        raise TypeError("complex numbers cannot be sent as JSON; return the real and the imaginary parts")
    if value.size > MOST_VALUES:
        raise ValueError(f"an array of {value.size} values is too large to send; return a part, a summary or a file"
                         f" ({MOST_VALUES} values at most)")
    if kind in "mM":
        # Python's classes end at microseconds; numpy gives plain integers for what is finer.
        value = value.astype(value.dtype.kind + "8[us]")
    if value.dtype.names and value.ndim == 1:
        return [dict(zip(value.dtype.names, row)) for row in value.tolist()]
    plain = value.tolist()
    if value.dtype.names and value.ndim == 0:
        return dict(zip(value.dtype.names, plain))
    if plain is None:
        raise ValueError("NaT is not a time; return None or a string instead")
    return plain


def _is(cls: type, name: str) -> bool:
    return any(base.__name__ == name and str(base.__module__).partition(".")[0] == "pandas" for base in cls.__mro__)


def frame_node(annotation: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a DataFrame, a Series, a Timestamp or a Timedelta; None for another class."""
    cls, pandas = get_origin(annotation) or annotation, loaded("pandas")
    if pandas is None:
        return None
    if _is(cls, "DataFrame"):
        def frame(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"{summary(value)} is not a list of records")
            for at, record in enumerate(value):
                if type(record) is not dict:
                    raise Mismatch(f"{summary(record)} is not an object", (at,))
            return cls(pandas.DataFrame.from_records(value))

        return Node({"type": "array", "items": {"type": "object"}}, frame)
    if _is(cls, "Series"):
        def series(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"{summary(value)} is not a list")
            # Without a type, an empty list is a warning in pandas 1 and 2.
            return cls(value) if value else cls(value, dtype=object)

        return Node({"type": "array"}, series)
    for known in ("Timestamp", "Timedelta"):
        if _is(cls, known):
            import datetime

            plain = compiler.compile(datetime.datetime if known == "Timestamp" else datetime.timedelta, name)
            return Node(plain.schema, lambda value: cls(plain.convert(value)))
    return None


def frame_value(value: Any) -> Any:
    """Return a frame as a list of records, a series as a list, and a missing value as None.

    An index is part of the records if it has a name, or labels that are not numbers; a series with such an index becomes
    a list of records, too.

    :raises ValueError: the table is too large, or two columns have the same name.
    :raises TypeError: the class has no form in JSON.
    """
    cls = type(value)
    if _is(cls, "DataFrame"):
        return _records(value)
    if _is(cls, "Series"):
        if _is_labelled(value.index):
            return _records(value.rename("value").to_frame() if value.name is None else value.to_frame())
        _check_size(value.size)
        return _without_gaps(value).tolist()
    if cls.__name__ == "NAType":
        return None
    if _is(cls, "Index") or cls.__name__.endswith("Array") or cls.__name__ == "Categorical":
        _check_size(value.size)
        return _without_gaps(loaded("pandas").Series(value)).tolist()  # type: ignore[union-attr]
    if cls.__name__ in ("Period", "Interval"):
        return str(value)
    raise TypeError(f"a value of pandas' class {cls.__name__} cannot be sent as JSON; return a frame, a series or a list")


def _is_labelled(index: Any) -> bool:
    return any(label is not None for label in index.names) or index.dtype.kind not in "iu"


def _check_size(size: int) -> None:
    if size > MOST_VALUES:
        raise ValueError(f"a table of {size} values is too large to send; return a part, a summary or a file"
                         f" ({MOST_VALUES} values at most)")


def _without_gaps(table: Any) -> Any:
    """Return a table with None for each missing value (NaN, NaT, NA)."""
    return table.astype(object).where(table.notna(), None)


def _records(frame: Any) -> Any:
    _check_size(frame.size)
    if _is_labelled(frame.index) and len(frame.index):
        frame = frame.reset_index()
    names = [_text(label) for label in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns of the frame have the name {twice!r}; rename one of them")
    plain = _without_gaps(frame)
    columns = [plain.iloc[:, at].tolist() for at in range(len(names))]
    return [dict(zip(names, row)) for row in zip(*columns)]


def _text(label: Any) -> str:
    """Return the label of a column as the key of an object; the levels of several are joined with underscores."""
    if isinstance(label, tuple):
        return "_".join(str(part) for part in label if part != "")
    return str(label)
