"""Dates, times, UUIDs, decimals and paths from JSON.

A module of its own because it is imported only when a handler uses one of these classes: most servers never do, and
the five standard library modules would be a third of what a server loads.
"""

import datetime
import decimal
import functools
import pathlib
import re
import uuid
from typing import Any, Dict

from .converters import Mismatch, Node, from_text, summary

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:[.,]([0-9]+))?([Zz]|[+-][0-9]{2}:?[0-9]{2})?")
_DURATION = re.compile(r"(-?)P(?=.)(?:([0-9]+)W)?(?:([0-9]+)D)?"
                       r"(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,6})?)S)?)?")


def _date(text: str) -> datetime.date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return datetime.date.fromisoformat(text)


def _time(text: str) -> datetime.time:
    # Before Python 3.11 fromisoformat accepts fewer forms; normalize to one that every version accepts.
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


def _datetime(text: str) -> datetime.datetime:
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


def _to_decimal(value: Any) -> decimal.Decimal:
    if type(value) in (int, float, str):
        try:
            number = decimal.Decimal(value if type(value) is not float else repr(value))
        except (decimal.InvalidOperation, ValueError):
            raise Mismatch(f"{summary(value)} is not a decimal number") from None
        if number.is_finite():
            return number
    raise Mismatch(f"{summary(value)} is not a decimal number")


@functools.lru_cache(maxsize=None)
def nodes() -> Dict[Any, Node]:
    """Return the nodes by class."""
    return {
        datetime.datetime: Node({"type": "string", "format": "date-time"}, from_text(_datetime, "a date and time (ISO 8601)")),
        datetime.date: Node({"type": "string", "format": "date"}, from_text(_date, "a date (YYYY-MM-DD)")),
        datetime.time: Node({"type": "string", "format": "time"}, from_text(_time, "a time (HH:MM:SS)")),
        datetime.timedelta: Node({"type": "string", "format": "duration"},
                                 from_text(_duration, "a duration (ISO 8601, as in PT1H30M)")),
        uuid.UUID: Node({"type": "string", "format": "uuid"}, from_text(uuid.UUID, "a UUID")),
        decimal.Decimal: Node({"type": ["string", "number"]}, _to_decimal),
        pathlib.Path: Node({"type": "string", "format": "path"}, from_text(pathlib.Path, "a path")),
    }
