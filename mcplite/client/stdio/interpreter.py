"""The Python that runs a server's file: inside of an application ``sys.executable`` may be the application."""

from __future__ import annotations

import os
import re
import sys
from typing import List

from ...errors import TransportError

__all__ = ["interpreter"]

#: Names of interpreters: python3.11, pypy3, mayapy, hython and so on; not blender, qgis-bin, houdini or a frozen program.
_INTERPRETER = re.compile(r"py|hython")


def interpreter() -> str:
    """Return the path of a Python interpreter like the one that runs this program.

    It is ``sys.executable``. Where that is an application which embeds Python (QGIS, Houdini, Maya), it is the
    interpreter that the application has brought with it: starting the application again would open another window.

    :raises TransportError: there is none, as in a frozen program.
    """
    executable = sys.executable or ""
    name = os.path.basename(executable).lower()
    if not getattr(sys, "frozen", False):
        if _INTERPRETER.search(name):
            return executable
        for path in _beside(sys.prefix) + _beside(sys.base_prefix):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    where = f"this program is {executable}" if executable else "Python does not know which program it runs in"
    raise TransportError(f"no Python interpreter to run the server with: {where}, and there is none in {sys.prefix}; give"
                         " the whole command, as in connect(['/path/to/python', 'server.py'])")


def _beside(prefix: str) -> List[str]:
    """Return where an installation has its interpreter, the most exact name first."""
    if os.name == "nt":
        return [os.path.join(prefix, "python.exe"), os.path.join(prefix, "Scripts", "python.exe")]
    exact = "python{}.{}".format(*sys.version_info)
    return [os.path.join(prefix, "bin", name) for name in (exact, "python3", "python")]
