"""Kept sessions: a process in the background keeps a server connected, and later commands use it as the target ``@NAME``.

``--keep NAME`` starts the process (:mod:`.session_keeper`), which is a bridge with one connection to the server::

    mcplite call @NAME ... ── socket ── kept process ── the server, with its session and its state
    mcplite list @NAME     ── socket ──┘

The files of a session are in a folder that only the user can read: ``NAME.json`` with its target and its secret, ``NAME.log``
of its process, and the Unix socket ``NAME.sock``. If the system has no such sockets (Windows), or the path is too long for one,
the process listens at a port of the loopback interface. A client begins with a line: the secret, and the word "serve", "look"
or "stop". The command that starts the process passes its options by stdin, so that no secret is in a command line.
"""

import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from typing import Any, Dict, List, Optional

from ..auth.login.file_store import FileLocks, data_folder, open_file
from ..errors import AuthError, MCPError, TransportError
from ..rpc.channels import StreamChannel
from .parser import STATUS, UsageError
from .printing import as_json, clean_line, table

__all__ = ["HELP", "GREETING_SECONDS", "add_arguments", "file_of", "keep", "kept_channel",
           "list_sessions", "remove_files", "stop_sessions"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
#: Seconds within which a client sends its first line, and within which the client gets the answer to it.
GREETING_SECONDS = 5.0
#: The options of a command that are about its server.
_OF_SERVER = ("config", "cwd", "debug", "env", "header", "max_timeout", "revision", "root", "server")


# --- files -------------------------------------------------------------------------------------------


def _folder() -> str:
    return os.path.join(data_folder(), "sessions")


def file_of(name: str, ending: str) -> str:
    """Return the path of a file of a session.

    :raises UsageError: *name* cannot be the name of a session.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a session: write up to 32 letters, digits, dots, hyphens and underscores")
    return os.path.join(_folder(), f"{name}.{ending}")


def _record(name: str) -> Optional[Dict[str, Any]]:
    """Return the record that the process of a session has written; None if there is none."""
    try:
        descriptor = open_file(file_of(name, "json"), os.O_RDONLY)
    except FileNotFoundError:
        return None
    except (AuthError, OSError) as error:
        raise UsageError(f"the session {name} cannot be used: {error}") from error
    with open(descriptor, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except ValueError:
            return None  # the file is not complete, as after a crash of the system
    return found if isinstance(found, dict) else None


def remove_files(name: str) -> None:
    """Remove the files of a session that has ended."""
    for ending in ("json", "sock", "log"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file_of(name, ending))


# --- commands that use one ---------------------------------------------------------------------------


def _connect(name: str, word: str) -> socket.socket:
    """Connect to a session, and return the connection once the session has accepted the first line.

    :param word: what the client wants: "serve", "look" or "stop".
    :raises UsageError: there is no such session.
    :raises TransportError: its process does not answer.
    """
    record = _record(name)
    if record is None:
        there = ", ".join(f"@{one}" for one in _names()) or "none"
        raise UsageError(f"there is no session @{name}: begin it with --keep {name} (there is {there})")
    connection = None
    try:
        if record.get("port"):
            connection = socket.create_connection(("127.0.0.1", record["port"]), GREETING_SECONDS)
        else:
            connection = socket.socket(getattr(socket, "AF_UNIX"))  # Windows has none
            connection.settimeout(GREETING_SECONDS)
            connection.connect(file_of(name, "sock"))
        connection.sendall(f"{record['secret']} {word}\n".encode())
        if connection.recv(3) != b"ok\n":
            raise ConnectionError("it does not know this client")
    except OSError as error:
        if connection is not None:
            connection.close()
        if isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
            remove_files(name)  # its process was killed
            raise TransportError(f"the session @{name} has ended: begin it again with --keep {name}") from error
        raise TransportError(f"the session @{name} does not answer ({error}): end its process, {record.get('pid')}") from error
    connection.settimeout(None)
    return connection


def kept_channel(name: str) -> StreamChannel:
    """Return a channel to the server of a session.

    :raises UsageError: there is no such session.
    :raises TransportError: its process does not answer.
    """
    connection = _connect(name, "serve")
    return StreamChannel(connection, connection, name=f"the session @{name}")


def _names() -> List[str]:
    try:
        return sorted(name[:-5] for name in os.listdir(_folder()) if name.endswith(".json"))
    except FileNotFoundError:
        return []


def _living() -> Dict[str, Dict[str, Any]]:
    """Return the records of the sessions that answer, by name."""
    found = {}
    for name in _names():
        record = _record(name)
        with contextlib.suppress(MCPError, UsageError):
            _connect(name, "look").close()
            found[name] = record or {}
    return found


HELP = """\
--keep NAME on any command keeps its server connected when the command has ended; @NAME is the TARGET of
later commands, which find the same session and the state of the server. It ends by stop, or after --idle
minutes without a command, 30 unless given.

examples:
  %(prog)s call browser.py open url=https://example.com --keep web
  %(prog)s call @web click text=More
  %(prog)s sessions
  %(prog)s stop web

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of a command about sessions to its parser."""
    if command == "sessions":
        one.add_argument("--json", action="store_true", help="print the sessions as JSON")


def list_sessions(words: List[str], options: argparse.Namespace) -> int:
    """Print the sessions that are kept; return the exit status."""
    found = _living()
    shown = {name: {key: value for key, value in record.items() if key not in ("secret", "port")}
             for name, record in found.items()}
    if options.json:
        print(as_json({"sessions": shown}))
    elif shown:
        print(table([(f"@{name}", f"{record['target']}  (process {record['pid']}, since {record['since']}, ends after"
                                  f" {record['idle']:g} minutes without a command)") for name, record in shown.items()],
                    indent=""))
    else:
        print("no session is kept; --keep NAME on any command begins one")
    return 0


def stop_sessions(names: List[str], options: argparse.Namespace) -> int:
    """End sessions; return the exit status.

    :raises UsageError: there is no such session.
    """
    for given in names:
        name = given.lstrip("@")
        with _connect(name, "stop") as connection:
            connection.settimeout(None)
            # The end of the process closes this connection. By then its files are removed, and its server has ended.
            while connection.recv(1):
                continue
        print(clean_line(f"ended @{name}"))
    return 0


def keep(words: List[str], options: argparse.Namespace) -> str:
    """Begin a session, unless there is one of this name for the same server; return the target ``@NAME``.

    :param words: TARGET is taken from them.
    :raises UsageError: the name is in use for another server.
    :raises TransportError: the server cannot be reached; the text has the end of the process's log.
    """
    name, idle = options.keep, options.idle
    own = {key: getattr(options, key) for key in _OF_SERVER}
    target = [] if options.config else [words.pop(0)]
    if target and target[0].startswith("@"):
        raise UsageError(f"{target[0]} is kept already: leave out --keep")
    shown = target[0] if target else f"{options.config}:{options.server}" if options.server else options.config
    with contextlib.ExitStack() as stack:
        lock_file = os.path.basename(file_of(name, "lock"))
        try:
            # If two commands begin one session at once, the second waits, and then uses the session of the first.
            stack.enter_context(FileLocks(_folder()).hold(lock_file, lambda: None))
        except (AuthError, OSError) as error:
            raise UsageError(f"--keep: {error}") from error
        record = _living().get(name) if _record(name) is not None else None
        if record is None:
            _begin(name, {"name": name, "shown": shown, "words": target, "idle": idle, "own": own})
        elif record["target"] != shown:
            raise UsageError(f"@{name} is kept for {record['target']}: choose another name, or end it with `stop {name}`")
    return f"@{name}"


def _begin(name: str, given: Dict[str, Any]) -> None:
    """Start the process of a session, and return when it can be used.

    :param given: what the process reads from its stdin.
    :raises TransportError: the server cannot be reached; the text has the end of the process's log.
    """
    remove_files(name)
    root = os.path.abspath(os.path.join(__file__, *[os.pardir] * (1 + __name__.count("."))))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}
    detached: Dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        detached = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    with open(open_file(file_of(name, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as log:
        process = subprocess.Popen([sys.executable, "-m", f"{__package__}.session_keeper"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, env=env, **detached)
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    with process.stdin, process.stdout:
        with contextlib.suppress(OSError):  # the process has ended already, and its log has the reason
            process.stdin.write(json.dumps(given).encode())
            process.stdin.close()
        ready = process.stdout.readline() == b"ready\n"
    if ready:
        process.returncode = 0  # the process goes on; with a return code, Popen does not warn that it still runs
        return
    status = process.wait()
    with open(open_file(file_of(name, "log"), os.O_RDONLY), encoding="utf-8", errors="backslashreplace") as file:
        said = file.read()[-2000:].strip()
    remove_files(name)
    raise TransportError(f"the session @{name} did not begin: {said or f'its process ended with the status {status}'}")
