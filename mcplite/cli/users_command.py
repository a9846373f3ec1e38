"""The command ``users``: who may log in at a server that issues its own tokens, in a file of names and hashed passwords.

At a terminal, a password is read twice, without an echo. If stdin is no terminal, its first line is the password, so that a
deployment can pipe it.
"""

import argparse
import getpass
import os
import sys
from typing import List, Optional

from ..auth.issuer.users import PasswordFile, change_user, remove_user
from ..rpc.stdio.descriptors import is_terminal
from .parser import STATUS, UsageError
from .printing import as_json, clean_line

__all__ = ["HELP", "add_arguments", "run"]

#: The fewest characters of a password (NIST SP 800-63B).
_SHORTEST = 8


HELP = """\
FILE has a line for each user, with the name and the hashed password; add makes it, readable for you alone.
A server reads it again when it changes: Server(auth=Issuer(URL, users=PasswordFile(FILE))). At a terminal
the password is asked for twice; elsewhere it is the first line of stdin.

examples:
  %(prog)s users add users.txt ann
  %(prog)s users add users.txt bob --scope notes:read --scope notes:write
  %(prog)s users change users.txt ann < password.txt
  %(prog)s users change users.txt bob --scope notes:read
  %(prog)s users remove users.txt bob
  %(prog)s users list users.txt

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("--scope", action="append", default=[], metavar="SCOPE",
                     help="add, change: a scope that the user may grant, by default all; repeatable, '' is none")
    one.add_argument("--json", action="store_true", help="print the result as JSON")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Add, change, remove or list users; return the exit status.

    :param words: the path of the file, and a name.
    :param options: with the ``verb`` and the options of the command.
    :raises UsageError: the file, the name or the password is refused; the text says why.
    """
    path = words[0]
    try:
        if options.verb == "list":
            return _list(path, options)
        name = words[1]
        if options.verb == "remove":
            remove_user(path, name)
        else:
            new = options.verb == "add"
            if new and os.path.exists(path) and PasswordFile(path).find(name):
                raise UsageError(f"{path} has a user {name!r}; change the password with 'users change'")
            scopes = [one for given in options.scope for one in given.split()] if options.scope else None
            # With scopes alone, a change keeps the password.
            password = _password(name) if new or scopes is None else None
            change_user(path, name, password, scopes, new=new)
    except OSError as error:
        text = str(error) if error.filename is None else f"{error.filename}: {error.strerror}"
        raise UsageError(f"users {options.verb}: {text}") from error
    done = {"add": "added", "change": "changed", "remove": "removed"}[options.verb]
    print(as_json({"user": name, "file": path, "done": done}) if options.json else f"{done} {clean_line(name)} in {path}")
    return 0


def _list(path: str, options: argparse.Namespace) -> int:
    users = PasswordFile(path).users()
    rows = [{"name": user.subject, "scopes": None if user.scopes is None else sorted(user.scopes)} for user in users]
    if options.json:
        print(as_json(rows))
        return 0
    for row in rows:
        scopes = "all scopes" if row["scopes"] is None else " ".join(row["scopes"]) or "no scopes"
        print(f"{clean_line(str(row['name']))}: {scopes}")
    return 0


def _password(name: str) -> str:
    if not is_terminal(sys.stdin):
        line = sys.stdin.readline() if sys.stdin else ""
        return _checked(line.rstrip("\r\n"), "the first line of stdin")
    first = _checked(getpass.getpass(f"Password of {clean_line(name)}: "), "the password")
    if getpass.getpass("Again: ") != first:
        raise UsageError("the two passwords differ; nothing has changed")
    return first


def _checked(password: str, what: str) -> str:
    problem: Optional[str] = None
    if not password:
        problem = "is empty"
    elif len(password) < _SHORTEST:
        problem = f"has {len(password)} characters, which can be guessed; it needs at least {_SHORTEST}"
    if problem:
        raise UsageError(f"{what} {problem}; nothing has changed")
    return password
