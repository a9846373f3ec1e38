"""Errors of the command line: the exit status of each, and its record for ``--json``."""

from typing import Any, Dict

from ..errors import MCPError, RemoteError, RequestTimeout, TransportError
from ..protocol.error_text import worded
from .parser import NAMES

__all__ = ["record_of", "status_of", "text_of"]


def text_of(error: Exception, debug: bool = False) -> str:
    """Return the text of an error for the terminal: whether the server or this program says it shows at once.

    :param debug: whether the code of the server's error is shown.
    """
    if isinstance(error, RemoteError) and error.code is not None:
        return f"the server answered: {error.message}{f' (code {error.code})' if debug else ''}"
    return worded(error, NAMES)


def status_of(error: Exception) -> int:
    """Return the exit status for an error."""
    if isinstance(error, RequestTimeout):
        return 5
    if isinstance(error, TransportError):
        return 4
    return 3 if isinstance(error, MCPError) else 2


def record_of(error: Exception) -> Dict[str, Any]:
    """Return an error for JSON, with the code and the data of one that came from the server."""
    record: Dict[str, Any] = {"type": type(error).__name__, "message": worded(error, NAMES), "status": status_of(error)}
    if isinstance(error, RemoteError):
        record["code"] = error.code
        if error.data is not None:
            record["data"] = error.data
    return record
