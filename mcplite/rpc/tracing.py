"""Every message both ways, for whoever wants to see: time, direction, size, secrets masked (NS-31).

May import: nothing of ours.
"""

import logging
import os
import re
import threading
import time
from typing import Callable, Optional, Union

__all__ = ["Trace", "mask", "trace_for"]

_SECRET_KEYS = re.compile(
    rb'("[^"\\]{0,64}(?:authorization|token|password|passwd|secret|api_?-?key|credential|cookie)[^"\\]{0,64}"\s*:\s*)'
    rb'("(?:[^"\\]|\\.)*"|[^\s,}\]]+)', re.IGNORECASE)
#: Names that only look like secrets.
_HARMLESS = re.compile(rb'"(?:progressToken|maxTokens|elicitationId)"', re.IGNORECASE)
_SHOWN = 2000
_VARIABLE = "MCPLITE_DEBUG"


def mask(data: bytes) -> bytes:
    """Return a JSON text with the values of keys that name secrets replaced."""

    def replace(match: "re.Match[bytes]") -> bytes:
        if _HARMLESS.match(match.group(1)):
            return match.group(0)
        return match.group(1) + b'"***"'

    return _SECRET_KEYS.sub(replace, data)


class Trace:
    """Writes one line for each message.

    :param name: of the peer.
    :param write: takes a line.
    """

    def __init__(self, name: str, write: Callable[[str], object]) -> None:
        self._name = name
        self._write = write

    def __call__(self, direction: str, data: bytes) -> None:
        """Note one message: direction is "->" for sent and "<-" for received."""
        # Masked before it is cut, so that a cut cannot leave half of a secret; cut before that to a
        # multiple, so that a megabyte of text costs no megabyte of matching.
        text = mask(data[:20 * _SHOWN]).decode("utf-8", "backslashreplace")
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
        now = time.time()
        stamp = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
        self._write(f"{stamp} {self._name} {direction} {len(data)} bytes {shown}")


class _File:
    """Appends lines to a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: Keeps one line whole; held while it is written.
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        with self._lock, open(self._path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def trace_for(debug: Union[None, bool, str], name: str) -> Optional[Trace]:
    """Return what notes the messages of one connection, or None when nobody asked.

    :param debug: True logs to the logger ``<package>.wire`` and, when that has no handler, to stderr; a
        string is a file to append to; None asks the environment variable MCPLITE_DEBUG ("1" or a file);
        False is off whatever the environment says.
    :param name: of the peer.
    """
    if debug is None:
        asked = os.environ.get(_VARIABLE, "")
        debug = asked in ("1", "true", "yes") if asked.lower() in ("", "0", "1", "true", "yes", "no", "false") else asked
    if not debug:
        return None
    if isinstance(debug, str):
        return Trace(name, _File(debug).write)
    logger = logging.getLogger(__name__.rpartition(".rpc.")[0] + ".wire")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.propagate = False
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    return Trace(name, logger.info)
