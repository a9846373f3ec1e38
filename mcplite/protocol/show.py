"""Cuts and cleans text of a peer for a message or a terminal."""

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:

    pass


__all__ = ["printable", "shown"]


def shown(url: str) -> str:
    """Return a URL as errors and logs show it: without credentials and query, which may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]"

def printable(text: str) -> str:
    """Return *text* with its control characters spelled out, so that it cannot steer a terminal or a log."""
    return re.sub(_UNPRINTABLE, lambda found: found.group().encode("unicode_escape").decode("ascii"), text)
