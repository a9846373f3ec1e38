"""The commands that use a server: each takes a connected client, and returns the exit status.

Results of tools are shown as text, as JSON, as a table, or go into a file. ``watch`` prints the changes of the server's lists
and resources, a line each, until Ctrl-C. ``task`` lists, shows, waits for and cancels tasks, and ``call --task`` starts one.
``list``, ``describe`` and ``ping`` take a configuration file too, and treat its servers one after the other.
"""

import argparse
import contextlib
import io
import json
import shutil
import sys
import textwrap
from typing import Any, Callable, Dict, List, Optional

from ..errors import MCPError, NotSupported
from ..protocol.schema.references import Extent
from ..protocol.schema.type_signature import arguments_of, result_of
from ..rpc.stdio.descriptors import is_terminal
from .description import Found, chosen, described, examples_of, is_number, offered_by, pasted, server_record
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
    wrapped,
)
from .target import connected, server_names

__all__ = ["ACTIONS", "is_overview", "row_table", "rows_of", "show_all"]

#: The narrowest that a column becomes on a terminal.
_NARROW = 8
#: A table of more cannot be read; its JSON is shown.
_MOST_CELLS, _MOST_CHARACTERS = 200_000, 20_000_000


def rows_of(value: Any) -> Optional[List[Dict[str, Any]]]:
    """Return the rows of a value: a list of flat objects, its JSON, or an object with nothing but that list.

    None for anything else, and for what is too large.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, list) or not value:
        return None
    longest: Dict[str, int] = {}
    for row in value:
        if not isinstance(row, dict) or not row or any(isinstance(cell, (dict, list)) for cell in row.values()):
            return None
        for name, cell in row.items():
            longest[name] = max(longest.get(name, len(name)), len(cell) if isinstance(cell, str) else 1)
    # Each row has a cell of each name, as wide as the widest of them.
    fits = Extent(_MOST_CELLS, _MOST_CHARACTERS).take(len(value) * len(longest), len(value) * sum(longest.values()))
    return value if fits else None


def row_table(rows: List[Dict[str, Any]], width: Optional[int]) -> str:
    """Return rows as a table with a line of names; numbers are at the right, and a missing value or null is empty.

    :param width: columns of the terminal, in which long cells are wrapped; None for one line a row.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[clean_line(name) for name in names], *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(1, *(len(line[column]) for line in cells)) for column in range(len(names))]
    if width is not None:
        room = width - 2 * (len(widths) - 1)
        most = max(widths)
        if sum(widths) > room:
            # The widest columns give way until the rest fits.
            fitting = (one for one in range(min(most, width), _NARROW, -1) if sum(min(own, one) for own in widths) <= room)
            most = next(fitting, min(most, _NARROW))
        widths = [min(one, most) for one in widths]
    right = [all(row.get(name) is None or is_number(row[name]) for row in rows) for name in names]
    lines: List[str] = []
    for number, line in enumerate(cells):
        lines += _wrapped(line, widths, right)
        if number == 0:
            lines.append("  ".join("-" * one for one in widths))
    return "\n".join(lines)


def _wrapped(cells: List[str], widths: List[int], right: List[bool]) -> List[str]:
    parts = [wrapped(cell, width) for cell, width in zip(cells, widths)]
    lines = []
    for number in range(max(map(len, parts))):
        line = [part[number] if number < len(part) else "" for part in parts]
        lines.append("  ".join(text.rjust(width) if at_right else text.ljust(width)
                               for text, width, at_right in zip(line, widths, right)).rstrip())
    return lines


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return clean_line(value) if isinstance(value, str) else json.dumps(value)


#: How Python begins one.
_TRACEBACK = "Traceback (most recent call last):"


def wire(value: Any, client: Any) -> Any:
    """Return an object of the vocabulary as it is on the wire, in the revision of the client."""
    from ..types import codec

    return codec.encode(value, client.revision)


def _print(result: Any, options: argparse.Namespace) -> None:
    rows = rows_of(result.data) if options.table else None
    if rows is not None:
        print(row_table(rows, shutil.get_terminal_size((80, 24)).columns if is_terminal(sys.stdout) else None))
        return
    print_result(result, sys.stdout)
    if options.table:
        print("--table: the result is not a list of flat objects", file=sys.stderr)


def show_call(client: Any, call: Callable[[], Any], options: argparse.Namespace) -> int:
    """Run a call that shows its progress, and show the result; return the exit status.

    :param call: returns the result of a tool.
    """
    before = client.stderr_tail.count(_TRACEBACK)
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
        if not options.debug and client.stderr_tail.count(_TRACEBACK) > before:
            print("the server logged a traceback; --debug shows it", file=sys.stderr)
    elif not options.output:
        _print(result, options)
    return 1 if result.is_error else 0


def settle(client: Any, options: argparse.Namespace, failed: bool = False) -> None:
    """Close the client before its result is printed, where lines of the server belong above it.

    Log messages and the server's stderr are read by other threads; after the end all of them have come. Without them a
    result is printed at once, as a server may take seconds to end.

    :param failed: whether the server's stderr is looked at for a traceback.
    """
    if options.log_level or options.debug or failed:
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


#: The parameters of ``client.listen`` for the lists, and what they are called.
_LISTS = {"tools": "tools", "prompts": "prompts", "resource_list": "resources"}


def watch(client: Any, words: List[str], options: argparse.Namespace) -> int:
    """Print changes until Ctrl-C; return the exit status.

    :param client: connected; it asks for the changes of the lists that the server announces.
    :param words: URIs of resources to watch besides.
    :raises NotSupported: the server announces no changes of its lists, and there are no URIs.
    """
    offered = client.server_capabilities
    kinds = {"tools": offered.tools, "prompts": offered.prompts, "resource_list": offered.resources}
    lists = {name: True for name, kind in kinds.items() if kind is not None and kind.get("listChanged")}
    if not lists and not words:
        raise NotSupported(f"{client.server_info.display_name} announces no changes of its lists; to watch resources, give"
                           " their URIs: watch TARGET URI ...")
    try:
        with client.listen(resources=words, **lists) as events:
            watched = ", ".join([*(f"the list of {_LISTS[name]}" for name in lists), *words])
            print(clean_line(f"watching {watched} (Ctrl-C ends it)"), file=sys.stderr, flush=True)
            for event in events:
                print(_line(event, options.json), flush=True)
    except KeyboardInterrupt:
        return 0  # the way to end it
    return 0


def _line(event: Any, as_json: bool) -> str:
    if as_json:
        text = json.dumps({"method": event.method, "params": event.params, "missed": event.missed})
        return text.replace("\x7f", "\\u007f")
    changed = event.params.get("uri") or f"the list of {event.method.split('/')[1]}"
    return clean_line(f"{changed} {'may have changed while the connection was interrupted' if event.missed else 'has changed'}")


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
    return bool(options.config) or options.target[0].startswith(("http://", "https://"))


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


def _list(client: Any, words: List[str], options: argparse.Namespace) -> int:
    found = offered_by(client)
    if options.json:
        print(as_json(_record(client, found)))
        return 0
    info = client.server_info
    print(clean_line(f"{info.display_name} {info.version} (protocol {client.protocol_version})"))
    for kind, items in found.items():
        if items:
            print(f"\n{kind}:")
            print(table((_label(item), item.description or item.title or "") for item in items))
    if not any(found.values()):
        print("the server offers no tools, resources or prompts")
    return 0


def _record(client: Any, found: Found) -> Dict[str, Any]:
    return {**server_record(client, lambda value: wire(value, client)),
            **{_member(kind): [wire(item, client) for item in items] for kind, items in found.items()}}


def _member(kind: str) -> str:
    """Return the name of a kind of entries in JSON, where the protocol's own names stand beside it."""
    return {"resource templates": "resourceTemplates"}.get(kind, kind)


def _describe(client: Any, words: List[str], options: argparse.Namespace) -> int:
    found = offered_by(client)
    if words:
        found = chosen(found, words[0])
    if options.json:
        examples = {_member(kind): one for kind, one in examples_of(found, options.target).items()}
        print(as_json({**_record(client, found), "examples": examples}))
    else:
        print(described(client, found, options.target, not words))
    return 0


def _label(item: Any) -> str:
    if hasattr(item, "input_schema"):
        end = "" if item.output_schema is None else f" -> {result_of(item.output_schema)}"
        return f"{item.name}({', '.join(map(str, arguments_of(item.input_schema)))}){end}"
    if hasattr(item, "arguments"):
        return f"{item.name}({', '.join(a.name if a.required else a.name + '?' for a in item.arguments or ())})"
    return str(getattr(item, "uri", None) or item.uri_template)


def _call(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    if options.table and options.json:
        raise UsageError("--table and --json are two forms of the result; write one of them")
    schema = next((tool.input_schema for tool in client.list_tools() if tool.name == name), None)
    arguments = parse_arguments(words, schema)
    if options.task:
        return start(client, name, arguments, options)
    return show_call(client, lambda: client.call_tool(name, arguments, on_progress=options.bar), options)


def _read(client: Any, words: List[str], options: argparse.Namespace) -> int:
    result = client.read_resource(words[0])
    save(result.contents, options)
    whole = wire(result, client) if options.json else None
    settle(client, options)
    if options.json:
        print(as_json(whole))
    elif not options.output:
        print_content(result.contents, sys.stdout)
    return 0


def _prompt(client: Any, words: List[str], options: argparse.Namespace) -> int:
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


def _complete(client: Any, words: List[str], options: argparse.Namespace) -> int:
    target, argument, *words = words
    where = {"resource": target} if "://" in target or "{" in target else {"prompt": target}
    value = words.pop(0) if words else ""
    result = client.complete(argument=argument, value=value, context=parse_strings(words), **where)
    if options.json:
        print(as_json(wire(result, client)))
    else:
        for value in result.values:
            print(clean(value))
    return 0


def _ping(client: Any, words: List[str], options: argparse.Namespace) -> int:
    client.ping()
    info = client.server_info
    if options.json:
        print(as_json({"server": wire(info, client), "protocolVersion": client.protocol_version}))
    else:
        print(clean_line(f"{info.display_name} {info.version} answers (protocol {client.protocol_version})"))
    return 0


def _request(client: Any, words: List[str], options: argparse.Namespace) -> int:
    method, *words = words
    result = client.request(method, parse_arguments(words) or None)
    settle(client, options)
    print(as_json(result))
    return 0


#: By command. An action takes the client, the words after TARGET and the options, and returns the exit status.
ACTIONS: Dict[str, Callable[[Any, List[str], argparse.Namespace], int]] = {
    "list": _list, "describe": _describe, "call": _call, "read": _read, "prompt": _prompt, "complete": _complete, "ping": _ping,
    "request": _request, "task": task, "watch": watch,
}


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
