"""Values of the classes of libraries as plain data: dates, UUIDs and decimals of the standard library, and those of others.

A module of its own because it is imported only with the first such value: most programs never have one, and the modules of
the standard library would be a third of what a server loads.
"""

import datetime
import decimal
import json
import sys
import uuid
from typing import Any, Callable, Dict, Optional, Set

_PYDANTIC = frozenset({"pydantic", "pydantic_core", "pydantic_extra_types"})
#: The most values of an array or a table in one result: a model cannot read more than this, and clients limit messages.
MOST_VALUES = 250_000


# --- the standard library ---------------------------------------------------------------------------


def text_of(value: Any) -> Optional[str]:
    """Return the JSON text of a date, a time, a duration, a UUID or a decimal; None for any other value.

    :raises ValueError: the value is NaT, which stands for no time.
    """
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        text = value.isoformat()
        if text == "NaT":  # pandas' missing time, which is a datetime
            raise ValueError("NaT is not a time; use None or a string instead")
        return text
    if isinstance(value, datetime.timedelta):
        return duration_text(value)
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    return None


def duration_text(length: datetime.timedelta) -> str:
    """Return a duration in ISO 8601, such as "P1DT2H" or "PT0.5S"."""
    sign, length = ("-", -length) if length < datetime.timedelta(0) else ("", length)
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{length.days}D" if length.days else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if length.microseconds:
        clock += f"{seconds}.{length.microseconds:06d}".rstrip("0") + "S"
    elif seconds or not (text or clock):
        clock += f"{seconds}S"
    return f"{sign}P{text}" + (f"T{clock}" if clock else "")


# --- other libraries --------------------------------------------------------------------------------


def loaded(library: str) -> Optional[Any]:
    """Return a library that the process has imported already; None if it has not."""
    return sys.modules.get(library)


def libraries_of(cls: type) -> Set[str]:
    """Return the top-level packages of a class and of its bases."""
    return {str(base.__module__).partition(".")[0] for base in cls.__mro__}


def library_of(cls: Any) -> str:
    """Return the library that a class belongs to, of those that are known here; an empty text for any other class.

    "pydantic" stands for version 2: a model, a dataclass of pydantic, or a class with a hook for pydantic. "pydantic 1" stands
    for models alone, including those of ``pydantic.v1``.
    """
    if hasattr(cls, "__pydantic_validator__") or hasattr(cls, "__get_pydantic_core_schema__"):
        return "pydantic"
    if hasattr(cls, "__fields__") and hasattr(cls, "parse_obj") and hasattr(cls, "schema"):
        return "pydantic 1"
    if hasattr(cls, "__attrs_attrs__"):
        return "attrs"
    if hasattr(cls, "__struct_fields__"):
        return "msgspec"
    libraries = libraries_of(cls) if isinstance(cls, type) else set()
    return next((name for name in ("pandas", "numpy") if name in libraries), "")


def _model_value(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is not None:
        return serializer.to_python(value, mode="json", by_alias=True)
    return loaded("pydantic_core").to_jsonable_python(value, by_alias=True)  # type: ignore[union-attr]


def attrs_name(attribute: Any) -> str:
    """Return the name that the constructor of a class of attrs takes for an attribute."""
    return getattr(attribute, "alias", None) or str(attribute.name).lstrip("_")


def _attrs_value(value: Any) -> Dict[str, Any]:
    """Return the attributes of an object, by the names that its constructor takes."""
    return {attrs_name(attribute): getattr(value, attribute.name) for attribute in type(value).__attrs_attrs__}


def _array_value(value: Any) -> Any:
    """Return an array as nested lists, and a scalar as the value of Python that it stands for.

    :raises ValueError: the array is too large, or the scalar stands for no time (NaT).
    :raises TypeError: complex numbers have no form in JSON.
    """
    kind = value.dtype.kind
    if kind == "c":
        raise TypeError("complex numbers cannot be sent as JSON; use the real and the imaginary parts")
    if value.size > MOST_VALUES:
        raise ValueError(f"an array of {value.size} values is too large to send; use a part, a summary or a file"
                         f" ({MOST_VALUES} values at most)")
    if kind in "mM":
        # Python's classes have microseconds at the finest; for finer values ``tolist`` returns plain integers.
        value = value.astype(value.dtype.kind + "8[us]")
    if value.dtype.names and value.ndim == 1:
        return [dict(zip(value.dtype.names, row)) for row in value.tolist()]
    plain = value.tolist()
    if value.dtype.names and value.ndim == 0:
        return dict(zip(value.dtype.names, plain))
    if plain is None:
        raise ValueError("NaT is not a time; use None or a string instead")
    return plain


def is_of_pandas(cls: type, name: str) -> bool:
    """Whether a class is pandas' class *name*, or one derived from it."""
    return any(base.__name__ == name and str(base.__module__).partition(".")[0] == "pandas" for base in cls.__mro__)


def _frame_value(value: Any) -> Any:
    """Return a frame as a list of records, a series as a list, and a missing value as None.

    An index is part of the records if it has a name, or labels that are not numbers; a series with such an index becomes
    a list of records, too.

    :raises ValueError: the table is too large, or two columns have the same name.
    :raises TypeError: the class has no form in JSON.
    """
    cls = type(value)
    if is_of_pandas(cls, "DataFrame"):
        return _records(value)
    if is_of_pandas(cls, "Series"):
        if _is_labelled(value.index):
            return _records(value.rename("value").to_frame() if value.name is None else value.to_frame())
        _check_size(value.size)
        return _without_gaps(value).tolist()
    if cls.__name__ == "NAType":
        return None
    if is_of_pandas(cls, "Index") or cls.__name__.endswith("Array") or cls.__name__ == "Categorical":
        _check_size(value.size)
        return _without_gaps(loaded("pandas").Series(value)).tolist()  # type: ignore[union-attr]
    if cls.__name__ in ("Period", "Interval"):
        return str(value)
    raise TypeError(f"a value of pandas' class {cls.__name__} cannot be sent as JSON; use a frame, a series or a list")


def _is_labelled(index: Any) -> bool:
    return any(label is not None for label in index.names) or index.dtype.kind not in "iu"


def _check_size(size: int) -> None:
    if size > MOST_VALUES:
        raise ValueError(f"a table of {size} values is too large to send; use a part, a summary or a file"
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


#: By library: the function that returns a value as plain data, with the names and tags that it has in JSON.
_VALUES: Dict[str, Callable[[Any], Any]] = {
    "pydantic": _model_value, "pydantic 1": lambda value: json.loads(value.json(by_alias=True)), "attrs": _attrs_value,
    "msgspec": lambda value: loaded("msgspec").to_builtins(value),  # type: ignore[union-attr]
    "numpy": _array_value, "pandas": _frame_value,
}


def plain_value(value: Any) -> Any:
    """Return a value of pydantic, attrs, msgspec, numpy or pandas as plain data.

    :raises ValueError: it is too large, or has a part without a form in JSON.
    :raises TypeError: its class has no form in JSON, or belongs to none of these libraries.
    """
    cls = type(value)
    write = _VALUES.get(library_of(cls))
    if write is None and libraries_of(cls) & _PYDANTIC:
        write = _model_value
    if write is None or write is _array_value and not hasattr(value, "dtype"):
        instead = "a list" if hasattr(cls, "__iter__") else "a dict, a dataclass or a string"
        raise TypeError(f"a value of the class {cls.__name__} cannot be sent as JSON; use {instead}")
    return write(value)
