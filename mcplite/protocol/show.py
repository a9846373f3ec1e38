"""Cuts and cleans what a peer wrote, for a message, a log or a terminal.

The one place that decides how much of a foreign text an error may repeat, and in which form.
"""

import re
import reprlib
from typing import Any, Optional

__all__ = ["abridged", "one_line", "printable", "quoted", "shown"]

_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]"


def quoted(value: Any, most: int = 80) -> str:
    """Return a value as errors quote it: its ``repr``, of at most *most* characters."""
    text = repr(value[:most] if type(value) is str else value)
    return text if len(text) <= most else text[:most - 3] + "..."


def abridged(value: Any) -> str:
    """Return the ``repr`` of a nested value, cut at each level, so that a huge one is never written out whole."""
    return reprlib.repr(value)


def shown(url: str) -> str:
    """Return a URL as errors and logs show it: without credentials and query, which may be secrets."""
    from urllib.parse import urlsplit  # for those that have URLs

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def printable(text: str) -> str:
    """Return *text* with its control characters spelled out, so that it cannot steer a terminal or a log."""
    return re.sub(_UNPRINTABLE, lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, most: Optional[int] = None) -> str:
    """Return *text* as one printable line.

    :param most: characters of the result; None for any number.
    """
    return printable(" ".join(text.split()))[:most]
