"""The annotations that are one JSON scalar each: their schemas and the converters that check by the same rules.

May import: nothing of ours.

A converter takes a JSON value and returns the Python value or raises :class:`Mismatch`. Nothing is guessed:
text is no number, true is no number, but 1.0 is an integer, as JSON Schema has it (SEC-85, NS-43).
"""

import base64
import datetime
import decimal
import pathlib
import re
import uuid
from typing import Any, Callable, Dict, NamedTuple, Tuple, Union

__all__ = ["Convert", "Mismatch", "Node", "SIMPLE", "duration_text", "expect", "from_text", "shown"]

Convert = Callable[[Any], Any]


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
            text += f"[{step}]" if isinstance(step, int) else (f".{step[:100]}" if text else step[:100])
        return f"{text}: {self.message}" if text else self.message


class Node(NamedTuple):
    """A compiled annotation."""

    schema: Dict[str, Any]
    convert: Convert


def shown(value: Any) -> str:
    """Return a value as errors quote it."""
    if type(value) in (list, dict) and len(value) > 20:
        return f"{'a list' if type(value) is list else 'an object'} of {len(value)}"
    text = repr(value[:100] if type(value) is str else value)
    return text if len(text) <= 80 else text[:77] + "..."


def expect(kind: type, what: str) -> Convert:
    """Return the converter that accepts one type and changes nothing."""

    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(f"{shown(value)} is not {what}")
        return value

    return convert


def from_text(parse: Callable[[str], Any], what: str) -> Convert:
    """Return the converter for what is written as text."""

    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise Mismatch(f"{shown(value)} is not a string")
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise Mismatch(f"{shown(value)} is not {what}") from None

    return convert


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch(f"{shown(value)} is not an integer")


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("the number is too large") from None
    raise Mismatch(f"{shown(value)} is not a number")


def _to_none(value: Any) -> None:
    if value is not None:
        raise Mismatch(f"{shown(value)} is not null")


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:[.,]([0-9]+))?([Zz]|[+-][0-9]{2}:?[0-9]{2})?")
_DURATION = re.compile(r"(-?)P(?=.)(?:([0-9]+)W)?(?:([0-9]+)D)?"
                       r"(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,6})?)S)?)?")


def _date(text: str) -> datetime.date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return datetime.date.fromisoformat(text)


def _time(text: str) -> datetime.time:
    # What fromisoformat takes depends on the version of Python, so the text is brought into the form that all know.
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    clock, fraction, zone = match.group(1), match.group(2), match.group(3) or ""
    if zone in ("Z", "z"):
        zone = "+00:00"
    elif zone and ":" not in zone:
        zone = zone[:3] + ":" + zone[3:]
    if len(clock) == 5:
        clock += ":00"
    return datetime.time.fromisoformat(clock + ("." + fraction[:6].ljust(6, "0") if fraction else "") + zone)


def _moment(text: str) -> datetime.datetime:
    date = _date(text[:10])
    if len(text) == 10:
        return datetime.datetime(date.year, date.month, date.day)
    if text[10] not in "Tt ":
        raise ValueError(text)
    return datetime.datetime.combine(date, _time(text[11:]))


def _duration(text: str) -> datetime.timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, weeks, days, hours, minutes, seconds = match.groups()
    whole, _, fraction = (seconds or "0").partition(".")
    length = datetime.timedelta(weeks=int(weeks or 0), days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0),
                                seconds=int(whole), microseconds=int(fraction.ljust(6, "0") or 0))
    return -length if sign else length


def duration_text(length: datetime.timedelta) -> str:
    """Return a length of time in ISO 8601, such as "P1DT2H" or "PT0.5S"."""
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


def _to_decimal(value: Any) -> decimal.Decimal:
    if type(value) in (int, float, str):
        try:
            number = decimal.Decimal(value if type(value) is not float else repr(value))
        except (decimal.InvalidOperation, ValueError):
            raise Mismatch(f"{shown(value)} is not a decimal number") from None
        if number.is_finite():
            return number
    raise Mismatch(f"{shown(value)} is not a decimal number")


#: Annotations that need no building.
SIMPLE: Dict[Any, Node] = {
    str: Node({"type": "string"}, expect(str, "a string")),
    int: Node({"type": "integer"}, _to_int),
    float: Node({"type": "number"}, _to_float),
    bool: Node({"type": "boolean"}, expect(bool, "true or false")),
    type(None): Node({"type": "null"}, _to_none),
    None: Node({"type": "null"}, _to_none),
    Any: Node({}, lambda value: value),
    object: Node({}, lambda value: value),
    datetime.datetime: Node({"type": "string", "format": "date-time"}, from_text(_moment, "a date and time (ISO 8601)")),
    datetime.date: Node({"type": "string", "format": "date"}, from_text(_date, "a date (YYYY-MM-DD)")),
    datetime.time: Node({"type": "string", "format": "time"}, from_text(_time, "a time (HH:MM:SS)")),
    datetime.timedelta: Node({"type": "string", "format": "duration"},
                             from_text(_duration, "a duration (ISO 8601, as in PT1H30M)")),
    uuid.UUID: Node({"type": "string", "format": "uuid"}, from_text(uuid.UUID, "a UUID")),
    decimal.Decimal: Node({"type": ["string", "number"]}, _to_decimal),
    pathlib.Path: Node({"type": "string", "format": "path"}, from_text(pathlib.Path, "a path")),
    bytes: Node({"type": "string", "contentEncoding": "base64"},
                from_text(lambda text: base64.b64decode(text, validate=True), "base64")),
}
