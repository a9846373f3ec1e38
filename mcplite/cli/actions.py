"""The commands that use a server: each takes a connected client, and returns the exit status."""

import argparse
import shutil
import sys
from typing import Any, Callable, Dict, List

from ..protocol.schema.words import arguments_of, result_of
from .arguments import UsageError, parse_arguments, parse_strings
from .description.describing import Found, chosen, described, examples_of, offered_by, server_record
from .printing import as_json, clean, clean_line, first_binary, print_content, print_result, table
from .rows import row_table, rows_of
from .watch import watch

__all__ = ["ACTIONS"]

#: How Python begins one.
_TRACEBACK = "Traceback (most recent call last):"


def _wire(value: Any, client: Any) -> Any:
    from ..protocol import codec

    return codec.encode(value, client.revision)


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
    return {**server_record(client, lambda value: _wire(value, client)),
            **{key.replace(" ", "_"): [_wire(item, client) for item in items] for key, items in found.items()}}


def _describe(client: Any, words: List[str], options: argparse.Namespace) -> int:
    found = offered_by(client)
    if words:
        found = chosen(found, words[0])
    if options.json:
        examples = {key.replace(" ", "_"): one for key, one in examples_of(found, options.target).items()}
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


def _print(result: Any, options: argparse.Namespace) -> None:
    rows = rows_of(result.data) if options.table else None
    if rows is not None:
        print(row_table(rows, shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None))
        return
    print_result(result, sys.stdout)
    if options.table:
        print("--table: the result is not a list of flat objects", file=sys.stderr)


def _call(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    if options.table and options.json:
        raise UsageError("--table and --json are two forms of the result; write one of them")
    schema = next((tool.input_schema for tool in client.list_tools() if tool.name == name), None)
    arguments = parse_arguments(words, schema)
    before = client.stderr_tail.count(_TRACEBACK)
    try:
        result = client.call_tool(name, arguments, on_progress=options.bar)
    finally:
        options.bar.done()
    if not result.is_error:
        _save(result.content, options)
    whole = _wire(result, client) if options.json else None
    _settle(client, options, result.is_error)
    if options.json:
        print(as_json(whole))
    elif result.is_error:
        print_result(result, sys.stderr)
        if not options.debug and client.stderr_tail.count(_TRACEBACK) > before:
            print("the server logged a traceback; --debug shows it", file=sys.stderr)
    elif not options.output:
        _print(result, options)
    return 1 if result.is_error else 0


def _settle(client: Any, options: argparse.Namespace, failed: bool = False) -> None:
    """Close the client before its result is printed, where lines of the server belong above it.

    Log messages and the server's stderr are read by other threads; after the end all of them have come. Without them a
    result is printed at once, as a server may take seconds to end.

    :param failed: whether the server's stderr is looked at for a traceback.
    """
    if options.log_level or options.debug or failed:
        client.close()


def _save(items: List[Any], options: argparse.Namespace) -> None:
    if options.output:
        data = first_binary(items)
        if data is None:
            raise UsageError("--output: the result has no content to save")
        try:
            with open(options.output, "wb") as file:
                file.write(data)
        except OSError as error:
            raise UsageError(f"--output: cannot write {options.output}: {error.strerror}") from error


def _read(client: Any, words: List[str], options: argparse.Namespace) -> int:
    result = client.read_resource(words[0])
    _save(result.contents, options)
    whole = _wire(result, client) if options.json else None
    _settle(client, options)
    if options.json:
        print(as_json(whole))
    elif not options.output:
        print_content(result.contents, sys.stdout)
    return 0


def _prompt(client: Any, words: List[str], options: argparse.Namespace) -> int:
    name, *words = words
    result = client.get_prompt(name, parse_arguments(words))
    whole = _wire(result, client) if options.json else None
    _settle(client, options)
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
        print(as_json(_wire(result, client)))
    else:
        for value in result.values:
            print(clean(value))
    return 0


def _ping(client: Any, words: List[str], options: argparse.Namespace) -> int:
    client.ping()
    info = client.server_info
    if options.json:
        print(as_json({"server": _wire(info, client), "protocolVersion": client.protocol_version}))
    else:
        print(clean_line(f"{info.display_name} {info.version} answers (protocol {client.protocol_version})"))
    return 0


def _request(client: Any, words: List[str], options: argparse.Namespace) -> int:
    method, *words = words
    result = client.request(method, parse_arguments(words) or None)
    _settle(client, options)
    print(as_json(result))
    return 0


#: By command. An action takes the client, the words after TARGET and the options, and returns the exit status.
ACTIONS: Dict[str, Callable[[Any, List[str], argparse.Namespace], int]] = {
    "list": _list, "describe": _describe, "call": _call, "read": _read, "prompt": _prompt, "complete": _complete, "ping": _ping,
    "request": _request, "watch": watch,
}
