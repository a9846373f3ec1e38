"""The commands that use a server: each takes a connected client, and returns the exit status."""

import argparse
import sys
from typing import Any, Callable, Dict, List

from ...protocol.schema.type_signature import arguments_of, result_of
from ..arguments import UsageError, parse_arguments, parse_strings
from ..description.describing import Found, chosen, described, examples_of, offered_by, server_record
from ..printing import as_json, clean, clean_line, print_content, table
from ..result_output import save, settle, show_call, wire
from .tasks import start, task
from .watch import watch

__all__ = ["ACTIONS"]


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
