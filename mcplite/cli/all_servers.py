"""All servers of a configuration file, one after the other: what ``list``, ``describe`` and ``ping`` say of each."""

import argparse
import contextlib
import io
import json
import sys
import textwrap
from typing import Any, Dict, List

from ..errors import MCPError
from .commands import ACTIONS
from .configuration import server_names
from .printing import as_json, clean, clean_line, record_of, status_of, text_of
from .target import connected

__all__ = ["is_overview", "show_all"]

#: The commands that can be about several servers.
_COMMANDS = ("list", "describe", "ping")


def is_overview(words: List[str], options: argparse.Namespace) -> bool:
    """Return whether the command is about all servers of a file, of which there are several.

    :raises UsageError: the file cannot be read.
    """
    return bool(options.config and not options.server and not words and options.command in _COMMANDS
                and sum(server_names(options).values()) > 1)


def show_all(options: argparse.Namespace) -> int:
    """Run the command for each server; one that fails does not stop the others.

    :returns: the exit status of the first that failed; 0 if none did.
    """
    status = 0
    records: Dict[str, Any] = {}
    for name, in_use in server_names(options).items():
        if not in_use:
            records[name] = {"disabled": True}
            if not options.json:
                print(f"{clean_line(name)}:\n  disabled in the file\n", flush=True)
            continue
        try:
            text = _one(name, options)
            records[name] = json.loads(text) if options.json else None
            if not options.json:
                print(f"{clean_line(name)}:\n{textwrap.indent(text, '  ')}", flush=True)
        except (MCPError, ValueError, TypeError) as error:
            status = status or status_of(error)
            records[name] = {"error": record_of(error)}
            if not options.json:
                print(f"{clean_line(name)}:\n  failed, see the error\n", flush=True)
                print(clean(f"{clean_line(name)}: {text_of(error, options.debug)}"), file=sys.stderr, flush=True)
    if options.json:
        print(as_json({"servers": records}))
    return status


def _one(name: str, options: argparse.Namespace) -> str:
    """Return what the command prints for one server."""
    own = argparse.Namespace(**{**vars(options), "server": name})
    out = io.StringIO()
    with connected([], own) as client, contextlib.redirect_stdout(out):
        ACTIONS[options.command](client, [], own)
    return out.getvalue()
