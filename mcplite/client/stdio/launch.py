"""Starts a child process: its arguments, its environment, and the reason when it cannot be started.

Apart from :mod:`.child`, which is about a process that runs.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...errors import TransportError
from ...protocol.error_text import Option, OptionText

__all__ = ["DEFAULT_ENVIRONMENT", "child_arguments", "child_environment", "label", "spawn"]

if sys.platform == "win32":
    _NAMES = (
        "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
    )
    _PROXIES: Tuple[str, ...] = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
else:
    _NAMES = (
        "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
    )
    _PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")

#: The files with the certificates of those that a program trusts. Behind a proxy that opens TLS, npx and uvx need them.
_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
#: The variables that each child inherits (STD-28, NS-32, SEC-61): those by which a program finds its files, its
#: helpers, its encoding and its way to the network. A proxy with a user name or a password is not inherited. All others,
#: and so every credential in our own environment, reach a child only through ``env=``.
DEFAULT_ENVIRONMENT = (*_NAMES, *_PROXIES, *_CERTIFICATES)

#: Arguments that are not private, and stand before the one that names the server.
_PLAIN_FLAGS = {"-m", "-u", "-y", "--yes"}
_LABEL_LENGTH = 80
#: The module by which files are served.
_SERVER = __name__.rpartition(".client.")[0] + ".server"
#: An address without its scheme.
_ADDRESS = r"((?P<here>localhost|127(\.\d+){3}|\[::1\])|[\w-]+(\.[\w-]+)*\.[a-z]{2,})(:\d+)?(?P<path>/.*)?"


def child_environment(env: Optional[Mapping[str, str]] = None,
                      source: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """Return the whole environment of a child.

    Values that begin with ``()`` are shell functions and are not inherited. Neither is a proxy with an ``@``, which stands
    behind a user name or a password, nor ``HTTP_PROXY`` in a CGI script, where a request's header of that name sets it.

    :param env: added to the defaults, which it overrides; ``os.environ`` passes all variables on.
    :param source: where the defaults come from; our own environment when None.
    :raises TypeError: *env* has a name or a value that is not a string.
    :raises TransportError: *env* has a name or a value that no environment can hold.
    """
    inherited = os.environ if source is None else source
    result = {name: inherited[name] for name in DEFAULT_ENVIRONMENT
              if name in inherited and not inherited[name].startswith("()")
              and not (name in _PROXIES and "@" in inherited[name])}
    if "REQUEST_METHOD" in inherited:
        result.pop("HTTP_PROXY", None)
    for name, value in ({} if env is None else env).items():
        # The value may be a secret: it is never part of a message.
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env: {name!r} must be a string with a string value, not {type(value).__name__}")
        if not name or "=" in name or "\0" in name + value:
            raise TransportError(f"env: {name!r} cannot be an environment variable: a name is not empty and has"
                                 f" no '=', and neither name nor value has a NUL character")
        result[name.upper() if sys.platform == "win32" else name] = value
    return result


def child_arguments(command: Sequence[str]) -> List[str]:
    """Return *command* as a list that can be started.

    :param command: the program and its arguments; no shell is involved, so nothing needs quoting.
    :raises TypeError: it is one string, or has an item that is neither a string nor a path.
    :raises TransportError: it is empty, or an item has a NUL character.
    """
    if isinstance(command, (str, bytes)):
        raise TypeError(f"command must be a list such as ['python', 'server.py'], not the {type(command).__name__}"
                        f" {command!r}; shlex.split() makes a list of a command line")
    arguments = []
    for item in command:
        text = os.fspath(item) if isinstance(item, os.PathLike) else item
        if not isinstance(text, str):
            raise TypeError(f"command: {item!r} must be a string, not {type(item).__name__}")
        if "\0" in text:
            raise TransportError(f"command: {text!r} has a NUL character, which no argument can hold")
        arguments.append(text)
    if not arguments or not arguments[0]:
        raise TransportError("command is empty: give the program and its arguments, such as ['python', 'server.py']")
    return arguments


def label(arguments: Sequence[str]) -> str:
    """Return how errors and logs name a command: the program and what it runs, but no further arguments.

    Arguments may hold keys and passwords, and names go to logs.
    """
    if list(arguments[1:3]) == ["-m", _SERVER] and len(arguments) > 3:
        arguments = arguments[3:]  # what it serves says more than how
    words = [os.path.basename(arguments[0]) or arguments[0]]
    for argument in arguments[1:]:
        if argument in _PLAIN_FLAGS:
            words.append(argument)
            continue
        if not argument.startswith("-") and "://" not in argument:
            words.append(argument)
        break
    text = " ".join(word if word.isprintable() else repr(word) for word in words)
    return text if len(text) <= _LABEL_LENGTH else text[:_LABEL_LENGTH] + "..."


def spawn(arguments: List[str], *, env: Dict[str, str], cwd: Optional[str], stdin: int, stdout: int,
          stderr: Optional[int]) -> "subprocess.Popen[bytes]":
    """Start a program without a shell, as the leader of a session and process group of its own.

    :param arguments: from ``child_arguments``.
    :param env: the whole environment.
    :param cwd: the working directory; None is ours.
    :param stdin: the descriptor that becomes the child's stdin; likewise *stdout* and *stderr*.
    :param stderr: None lets the child write to our own stderr.
    :raises TransportError: it cannot be started; the text says why and what to try. No process and no descriptor is left.
    """
    options: Dict[str, Any] = {}
    if sys.platform == "win32":
        from . import windows

        arguments = windows.resolve(arguments, env)
        options["creationflags"] = windows.CREATION_FLAGS
    else:
        options["start_new_session"] = True
    try:
        return subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, env=env, cwd=cwd,
                                close_fds=True, **options)
    except (OSError, ValueError) as error:
        reason = _reason(error, arguments[0], env, cwd)
        raise TransportError(OptionText(f"cannot start {label(arguments)}: ", reason)) from error


def _reason(error: Exception, program: str, env: Mapping[str, str], cwd: Optional[str]) -> str:
    """Return why the program did not start and what to do, with absolute paths (NS-33, NS-34)."""
    if cwd is not None and not os.path.isdir(cwd):
        there = "is not a directory" if os.path.exists(cwd) else "does not exist"
        return OptionText(f"the working directory {_absolute(cwd)} {there}; correct ", Option("cwd", "cwd"))
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
            return f"{_meant(program) or 'give its absolute path'}; there is no file {path}"
        if number in (errno.EACCES, errno.EPERM):
            return (f"{path} is not executable; run chmod +x on it, or start it with its interpreter, such as"
                    f" [{sys.executable!r}, {path!r}]")
        if number == errno.ENOENT:
            return f"the interpreter that the '#!' line of {path} names does not exist; correct that line"
    elif number in (errno.ENOENT, errno.ENOTDIR):
        hint = f" (the Python that runs this program is {sys.executable})" if program.startswith("python") else ""
        meant = _meant(program)
        if meant:
            return f"{meant}; there is no program of this name"
        return OptionText(f"install the program {program!r}, give its absolute path{hint}, or ",
                          Option("env", "set PATH in env", "PATH=..."),
                          f"; there is none of this name on the child's PATH, which is {env.get('PATH', os.defpath)}")
    elif number in (errno.EACCES, errno.EPERM):
        return (f"make {program!r} executable, or its directory searchable, on the child's PATH, which is"
                f" {env.get('PATH', os.defpath)}")
    meant = _meant(program)
    return f"{meant}; {error}" if meant else str(error)  # Windows refuses names with a colon in words of its own


def _meant(program: str) -> str:
    """Return what a target may have meant that is no program: an address, a file or a module; empty for nothing."""
    found = re.fullmatch(_ADDRESS, program)
    if found:
        scheme = "http" if found["here"] else "https"
        return f"for the server at this address write {scheme}://{program}{'' if found['path'] else '/mcp'}"
    if os.path.isfile(program + ".py"):
        return f"for the file {program}.py write its whole name"
    if program.isidentifier() and find_spec(program) is not None:
        return f"for a server in the module {program} write {program}:name, where name is that of the Server object"
    return ""


def _absolute(path: str, base: Optional[str] = None) -> str:
    try:
        return os.path.abspath(os.path.join(base or "", path))
    except OSError:
        return path  # our own working directory was removed; there is no absolute form
