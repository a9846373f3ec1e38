"""Reads the files of a configuration: their text, and the variables of the file that ``envFile`` names."""

import os
import re
import stat
from typing import Dict

from ...errors import TransportError

__all__ = ["read_env_file", "read_text"]

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r"""'([^']*)'\s*(?:#.*)?\Z|"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z""")
#: Bytes of a configuration file; those of hosts have some thousands.
_MOST_BYTES = 16 << 20
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_text(path: str, what: str = "file") -> str:
    """Return the text of a configuration file, without a byte order mark.

    :param what: what an error calls it.
    :raises TransportError: it cannot be read: it is missing, larger than 16 MiB, not UTF-8, or no regular file. A pipe or a
        device could give text without an end, and keep the program that only wants to look at it.
    """
    try:
        # O_NONBLOCK: opening a pipe without a writer would wait for one.
        with open(path, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TransportError(f"write the variables or servers into a regular file: {path} is a pipe, a device or a"
                                     " socket")
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise TransportError(f"there is no {what} {path}") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise TransportError(f"cannot read the {what} {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > _MOST_BYTES:
        raise TransportError(f"{path} is larger than {_MOST_BYTES >> 20} MiB, which no configuration is")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TransportError(f"{path} is not UTF-8 text (byte {error.start})") from error


def read_env_file(path: str) -> Dict[str, str]:
    """Return the variables of a file with lines such as ``NAME=value``.

    ``export`` before a name, quotes around a value, empty lines and comments are understood. Inside of double quotes
    ``\\n`` is a line end. Other variables are not filled in.

    :raises TransportError: the file cannot be read, or a line is none of these; its text is not in the error.
    """
    lines = read_text(path).splitlines()
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
