"""The commands that use a server: each takes a connected client, and returns the exit status.

``watch`` prints the changes of the server's lists and resources, a line each, until Ctrl-C. ``task`` lists, shows, waits for
and cancels tasks, and ``call --task`` starts one.
"""

import argparse
import json
import sys
from typing import Any, Callable, Dict, List

from ..errors import NotSupported
from ..protocol.schema.type_signature import arguments_of, result_of
from .arguments import UsageError, parse_arguments, parse_strings
from .description import Found, chosen, described, examples_of, offered_by, pasted, server_record
from .printing import as_json, clean, clean_line, print_content, table
from .result_output import save, settle, show_call, wire

__all__ = ["ACTIONS", "start", "task", "watch"]

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
