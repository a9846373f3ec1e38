"""The commands that use a server: each takes a connected client, and returns the exit status.

Results of tools are shown as text, as JSON, as a table, or go into a file. ``task`` is about tasks, and ``call --task`` starts
one. If ``list``, ``describe`` or ``ping`` gets a configuration file without the name of a server, it runs for all of its
servers, one after the other.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import sys
import textwrap
from typing import Any, Callable, Dict, List

from ..errors import INTERNAL_ERROR, MCPError, RemoteError
from ..rpc.stdio.descriptors import is_terminal
from .command_table import load
from .description import pasted
from .parser import UsageError, parse_arguments, parse_strings
from .printing import (
    as_json,
    clean,
    clean_line,
    first_binary,
    print_content,
    print_result,
    record_of,
    status_of,
    table,
    text_of,
)
from .target import connected, server_names

__all__ = ["act", "add_arguments", "run"]


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of a command to its parser."""
    if command in ("call", "task"):
        of_task = "with wait: " if command == "task" else ""
        one.add_argument("--table", action="store_true", help=f"{of_task}print a list of flat objects as a table")
    if command == "call":
        one.add_argument("--task", action="store_true",
                         help="start the tool as a task, print its id, and do not wait for the result")
    if command in ("call", "read", "task"):
        one.add_argument("--output", metavar="FILE", help="save the first binary content, or the text")


#: The first line of a traceback of Python, and patterns for its lines about a call and about the exception.
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(.+)", line (\d+)')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?$")


def _logged(before: str, stderr: str) -> str:
    """Return what a server has logged of an exception, as a line; empty if it has logged none.

    :param before: the text of its stderr before the call.
    :param stderr: the text of its stderr now. If that is long, both texts have only its end.
    """
    new = stderr[len(before):] if stderr.startswith(before) else stderr
    _, found, traceback = new.rpartition(_TRACEBACK)
    if not found:
        return ""
    place = ""
    for line in traceback.splitlines()[1:]:
        frame = _FRAME.match(line)
        if frame:
            place = f" ({os.path.basename(frame.group(1))}, line {frame.group(2)})"
        elif _EXCEPTION.match(line):
            return f"the server logged {clean_line(line[:500] + place)}; --debug shows its traceback"
    return "the server logged a traceback; --debug shows it"


def wire(value: Any, client: Any) -> Any:
    """Return an object of :mod:`~mcplite.types` as JSON of the protocol, in the revision of the client."""
    from ..types import codec

    return codec.encode(value, client.revision)


def _print(result: Any, options: argparse.Namespace) -> None:
    if not options.table:
        print_result(result, sys.stdout)
        return
    from .row_tables import row_table, rows_of

    rows = rows_of(result.data)
    if rows is not None:
        print(row_table(rows, shutil.get_terminal_size((80, 24)).columns if is_terminal(sys.stdout) else None))
        return
    print_result(result, sys.stdout)
    print("--table: the result is not a list of flat objects", file=sys.stderr)


def show_call(client: Any, call: Callable[[], Any], options: argparse.Namespace) -> int:
    """Run a call that shows its progress, and show the result; return the exit status.

    :param call: returns the result of a tool.
    """
    before = client.stderr_tail
    try:
        result = call()
    finally:
        options.bar.done()
    if not result.is_error:
        save(result.content, options)
    whole = wire(result, client) if options.json else None
    settle(client, options, result.is_error)
    if options.json:
        print(as_json(whole))
    elif result.is_error:
        print_result(result, sys.stderr)
        _show_logged(before, client, options)
    elif not options.output:
        _print(result, options)
    return 1 if result.is_error else 0


def _show_logged(before: str, client: Any, options: argparse.Namespace) -> None:
    line = "" if options.debug else _logged(before, client.stderr_tail)
    if line:
        print(line, file=sys.stderr)


def settle(client: Any, options: argparse.Namespace, failed: bool = False) -> None:
    """Close the client before its result is printed, if log messages or stderr of the server are wanted.

    They are wanted with ``--log-level`` and ``--debug``, and after a failure. Other threads read them; once the client is
    closed, all of them have been read. In other cases the client stays open here, so that the result is printed at once: a
    server may take seconds to end. In the shell the client always stays open.

    :param failed: whether the result is an error, so that the server's stderr is searched for a traceback.
    """
    if (options.log_level or options.debug or failed) and not getattr(options, "lasting", False):
        client.close()


def save(items: List[Any], options: argparse.Namespace) -> None:
    """Write the first binary content, or the text, to the file of ``--output``, if that was given.

    :raises UsageError: there is no content, or the file cannot be written.
    """
    if options.output:
        data = first_binary(items)
        if data is None:
            raise UsageError("--output: the result has no content to save")
        try:
            with open(options.output, "wb") as file:
                file.write(data)
        except OSError as error:
            raise UsageError(f"--output: cannot write {options.output}: {error.strerror}") from error


def start(client: Any, name: str, arguments: Dict[str, Any], options: argparse.Namespace) -> int:
    """Start a tool as a task and print its id, or its result if the server has answered the call at once."""
    started = client.start_tool(name, arguments)
    if not started.id:
        return show_call(client, started.result, options)
    if options.json:
        print(as_json(wire(started.state, client)))
        return 0
    print(clean_line(started.id))
    print(f"started; its result: {pasted(['task', 'wait', *options.target], started.id)}", file=sys.stderr)
    if not _is_elsewhere(options):
        print("the server ends with this command, and so does the task, unless the server keeps its tasks", file=sys.stderr)
    return 0


def _is_elsewhere(options: argparse.Namespace) -> bool:
    return bool(options.config) or options.target[0].startswith(("http://", "https://", "@"))


def task(client: Any, words: List[str], options: argparse.Namespace) -> int:
    """Run one of the commands about tasks; return the exit status."""
    if options.verb == "list":
        return _list_tasks(client, options)
    found = client.task(words[0], on_progress=getattr(options, "bar", None))
    if options.verb == "wait":
        return show_call(client, found.result, options)
    if options.verb == "cancel":
        found.cancel()
        found.refresh()
    if options.json:
        print(as_json(wire(found.state, client)))
        return 0
    state = found.state
    rows = [("id", state.task_id), ("status", state.status), ("message", state.status_message),
            ("created", state.created_at), ("updated", state.last_updated_at),
            ("kept", "without limit" if state.ttl_ms is None else f"{state.ttl_ms / 1000:g} s")]
    print(table([(name, text) for name, text in rows if text], indent=""))
    return 0


def _list_tasks(client: Any, options: argparse.Namespace) -> int:
    tasks = client.list_tasks()
    if options.json:
        print(as_json({"tasks": [wire(one.state, client) for one in tasks]}))
    elif tasks:
        print(table([(one.id, f"{one.status}  {one.status_message or ''}") for one in tasks], indent=""))
    else:
        print("you have no tasks at this server")
    return 0


def call(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    if options.table and options.json:
        raise UsageError("--table and --json are two forms of the result; write one of them")
    schema = next((tool.input_schema for tool in client.list_tools() if tool.name == name), None)
    arguments = parse_arguments(words, schema)
    if options.task:
        return start(client, name, arguments, options)
    return show_call(client, lambda: client.call_tool(name, arguments, on_progress=options.bar), options)


def read(client: Any, words: List[str], options: argparse.Namespace) -> int:
    result = client.read_resource(words[0])
    save(result.contents, options)
    whole = wire(result, client) if options.json else None
    settle(client, options)
    if options.json:
        print(as_json(whole))
    elif not options.output:
        print_content(result.contents, sys.stdout)
    return 0


def prompt(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    result = client.get_prompt(name, parse_arguments(words))
    whole = wire(result, client) if options.json else None
    settle(client, options)
    if options.json:
        print(as_json(whole))
        return 0
    for message in result.messages:
        print(f"{clean_line(message.role)}:")
        print_content([message.content], sys.stdout)
    return 0


def complete(client: Any, words: List[str], options: argparse.Namespace) -> int:
    target, argument, *words = words
    where = {"resource": target} if "://" in target or "{" in target else {"prompt": target}
    argument, given, value = argument.partition("=")  # key=value, as in the other commands; no name has a "="
    if not given and words:
        value = words.pop(0)
    result = client.complete(argument=argument, value=value, context=parse_strings(words), **where)
    if options.json:
        print(as_json(wire(result, client)))
    else:
        for value in result.values:
            print(clean(value))
    return 0


def ping(client: Any, words: List[str], options: argparse.Namespace) -> int:
    client.ping()
    info = client.server_info
    if options.json:
        print(as_json({"server": wire(info, client), "protocolVersion": client.protocol_version}))
    else:
        print(clean_line(f"{info.display_name} {info.version} answers (protocol {client.protocol_version})"))
    return 0


def request(client: Any, words: List[str], options: argparse.Namespace) -> int:
    method, *words = words
    result = client.request(method, parse_arguments(words) or None)
    settle(client, options)
    print(as_json(result))
    return 0


def act(client: Any, words: List[str], options: argparse.Namespace) -> int:
    """Run a command that needs a client; return the exit status.

    The text of an internal error does not say what has failed, so the line that the server has logged about it is shown, too.

    :param client: connected.
    :param words: those after TARGET.
    """
    before = client.stderr_tail
    _, function = load(options.command)
    try:
        status: int = function(client, words, options)
        return status
    except RemoteError as error:
        if error.code == INTERNAL_ERROR:
            settle(client, options, failed=True)
            _show_logged(before, client, options)
        raise


def run(words: List[str], options: argparse.Namespace) -> int:
    """Connect, and run a command that needs a client; return the exit status.

    :param words: without TARGET if the server comes from a file.
    :raises UsageError: the options do not fit together.
    :raises MCPError: the server cannot be reached, or refuses.
    """
    if is_overview(words, options):
        return show_all(options)
    with connected(words, options) as client:
        return act(client, words, options)


#: The commands that can run for all servers of a file.
_COMMANDS = ("list", "describe", "ping")


def is_overview(words: List[str], options: argparse.Namespace) -> bool:
    """Return whether the command is to run for all servers of a file, of which more than one is enabled.

    :raises UsageError: the file cannot be read.
    """
    return bool(options.config and not options.server and not words and options.command in _COMMANDS
                and sum(server_names(options).values()) > 1)


def show_all(options: argparse.Namespace) -> int:
    """Run the command for each server; one that fails does not stop the others.

    :returns: the exit status of the first that failed; 0 if none did.
    :raises UsageError: an option is for one server.
    """
    if options.record or options.keep:
        raise UsageError(f"{'--record' if options.record else '--keep'} is for one server: name it, as in"
                         f" {options.config}:NAME")
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
        act(client, [], own)
    return out.getvalue()
