"""Tells whether a stream is a terminal, where a person may read and type.

The command lines of server and client and the login of OAuth ask it, so it is a module below all of them.
"""

import sys
from typing import Optional, TextIO

__all__ = ["is_terminal"]


def is_terminal(stream: Optional[TextIO]) -> bool:
    """Return whether a stream is a terminal. Windows calls its null device one as well, on which there is no user to ask.

    :param stream: None, as ``sys.stdin`` may be, is no terminal; neither is one that is closed.
    """
    try:
        return stream is not None and stream.isatty() and not _is_null_device(stream)
    except ValueError:  # it is closed
        return False


def _is_null_device(stream: TextIO) -> bool:
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        try:
            handle = msvcrt.get_osfhandle(stream.fileno())
        except (AttributeError, OSError, ValueError):
            return False  # an object of the program's own, which knows what it is
        return not ctypes.windll.kernel32.GetConsoleMode(ctypes.c_void_p(handle), ctypes.byref(ctypes.c_ulong()))
    return False
