"""Starting a child process, or saying plainly why it cannot be started."""

import errno
import os
import subprocess
import sys
from typing import Any, Dict, List, Mapping, Optional

from ...errors import TransportError
from . import windows
from ..environment import label

__all__ = ["spawn"]


def spawn(arguments: List[str], *, env: Dict[str, str], cwd: Optional[str], stdin: int, stdout: int,
          stderr: Optional[int]) -> "subprocess.Popen[bytes]":
    """Start a program without a shell, as the leader of a session and process group of its own.

    :param arguments: from ``child_arguments``.
    :param env: the whole environment.
    :param cwd: the working directory; None is ours.
    :param stdin: the descriptor that becomes the child's stdin; likewise *stdout* and *stderr*.
    :param stderr: None lets the child write to our own stderr.
    :raises TransportError: it cannot be started; the text says why and what to try. Nothing is left behind.
    """
    options: Dict[str, Any] = {}
    if sys.platform == "win32":
        arguments = windows.resolve(arguments, env)
        options["creationflags"] = windows.CREATION_FLAGS
    else:
        options["start_new_session"] = True
    try:
        return subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, env=env, cwd=cwd,
                                close_fds=True, **options)
    except (OSError, ValueError) as error:
        raise TransportError(f"cannot start {label(arguments)}: {_reason(error, arguments[0], env, cwd)}") from error


def _reason(error: Exception, program: str, env: Mapping[str, str], cwd: Optional[str]) -> str:
    """Return why the program did not start and what to do, with absolute paths (NS-33, NS-34)."""
    if cwd is not None and not os.path.isdir(cwd):
        there = "is not a directory" if os.path.exists(cwd) else "does not exist"
        return f"the working directory {_absolute(cwd)} {there}; correct cwd"
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.E2BIG:
        return "its arguments and environment are too long for this system; pass less"
    if number == errno.ENOEXEC:
        return (f"{_absolute(program, cwd)} is not a program for this machine: it has another architecture,"
                f" or is a script without a '#!' line; start it with its interpreter")
    if os.path.dirname(program):
        path = _absolute(program, cwd)
        if os.path.isdir(path):
            return f"{path} is a directory; name the program in it"
        if not os.path.exists(path):
            return f"there is no file {path}; give its absolute path"
        if number in (errno.EACCES, errno.EPERM):
            return (f"{path} is not executable; run chmod +x on it, or start it with its interpreter, such as"
                    f" [{sys.executable!r}, {path!r}]")
        if number == errno.ENOENT:
            return f"the interpreter that the '#!' line of {path} names does not exist; correct that line"
    elif number in (errno.ENOENT, errno.ENOTDIR):
        hint = f" (the Python that runs this program is {sys.executable})" if program.startswith("python") else ""
        return (f"there is no program {program!r} on the child's PATH, which is {env.get('PATH', os.defpath)};"
                f" install it, give its absolute path{hint}, or set PATH in env")
    elif number in (errno.EACCES, errno.EPERM):
        return (f"{program!r} on the child's PATH, which is {env.get('PATH', os.defpath)}, is not executable,"
                f" or a directory of that PATH may not be searched")
    return str(error)


def _absolute(path: str, base: Optional[str] = None) -> str:
    try:
        return os.path.abspath(os.path.join(base or "", path))
    except OSError:
        return path  # our own working directory was removed; there is no absolute form
