"""Reads the file of variables that ``envFile`` of a configuration names."""

import re
from typing import Dict

from ...errors import TransportError

__all__ = ["read_env_file"]

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r"""'([^']*)'\s*(?:#.*)?\Z|"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: str) -> Dict[str, str]:
    """Return the variables of a file with lines such as ``NAME=value``.

    ``export`` before a name, quotes around a value, empty lines and comments are understood. Inside of double quotes
    ``\\n`` is a line end. Other variables are not filled in.

    :raises TransportError: the file cannot be read, or a line is none of these; its text is not in the error.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except FileNotFoundError as error:
        raise TransportError(f"there is no file {path}") from error
    except OSError as error:
        raise TransportError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TransportError(f"{path} is not UTF-8 text (byte {error.start})") from error
    found: Dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.match(text)
        if match is None:
            raise TransportError(f"{path}, line {number}: write NAME=value")
        found[match.group(1)] = _value(match.group(2), f"{path}, line {number}")
    return found


def _value(text: str, where: str) -> str:
    if text[:1] not in ("'", '"'):
        return re.split(r"\s+#", " " + text if text.startswith("#") else text, maxsplit=1)[0].strip()
    match = _QUOTED.match(text)
    if match is None:
        raise TransportError(f"{where}: the quote does not end, or text follows it")
    if match.group(1) is not None:
        return match.group(1)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), match.group(2))
