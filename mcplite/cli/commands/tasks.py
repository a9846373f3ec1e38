"""The command ``task``, which lists, shows, waits for and cancels the tasks of a server; and ``call --task``."""

import argparse
import sys
from typing import Any, Dict, List

from ..description.examples import pasted
from ..printing import as_json, clean_line, table
from ..result_output import show_call, wire

__all__ = ["start", "task"]


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
        return _list(client, options)
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


def _list(client: Any, options: argparse.Namespace) -> int:
    tasks = client.list_tasks()
    if options.json:
        print(as_json({"tasks": [wire(one.state, client) for one in tasks]}))
    elif tasks:
        print(table([(one.id, f"{one.status}  {one.status_message or ''}") for one in tasks], indent=""))
    else:
        print("you have no tasks at this server")
    return 0
