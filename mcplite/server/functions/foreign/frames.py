"""pandas: frames as lists of records, series as lists, and the other way round."""

from typing import Any, Optional

from ..nodes import Mismatch, Node, summary
from .arrays import MOST_VALUES
from .compiler import Compiler, libraries_of, loaded

__all__ = ["frame_node", "frame_value", "is_pandas"]


def is_pandas(cls: type) -> bool:
    """Whether *cls* is a class of pandas, or derived from one."""
    return "pandas" in libraries_of(cls)


def _is(cls: type, name: str) -> bool:
    return any(base.__name__ == name and str(base.__module__).partition(".")[0] == "pandas" for base in cls.__mro__)


def frame_node(cls: Any, name: str, compiler: Compiler) -> Optional[Node]:
    """Return the node of a DataFrame, a Series, a Timestamp or a Timedelta; None for another class."""
    pandas = loaded("pandas")
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
        return _without_gaps(value.to_series() if _is(cls, "Index") else loaded("pandas").Series(value)).tolist()  # type: ignore[union-attr]
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
