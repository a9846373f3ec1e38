"""URLs of backends: their options, and their form for errors and logs, without the password."""

from typing import Tuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["take_option", "without_password"]


def take_option(url: str, name: str, default: str) -> Tuple[str, str]:
    """Return a URL without one option of its query, and the value of this option."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    value = dict(options).get(name, default)
    rest = urlencode([(key, text) for key, text in options if key != name])
    return urlunsplit(parts._replace(query=rest)), value


def without_password(url: str) -> str:
    """Return a URL as errors and logs show it: without user, password and options."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
