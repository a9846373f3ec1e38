"""The command ``watch``: prints the changes of a server's lists and resources, a line each, until Ctrl-C."""

import argparse
import json
import sys
from typing import Any, List

from ..errors import NotSupported
from .printing import clean_line

__all__ = ["run"]


#: The parameters of ``client.listen`` for the lists, and the words for these lists in messages.
_LISTS = {"tools": "tools", "prompts": "prompts", "resource_list": "resources"}


def run(client: Any, words: List[str], options: argparse.Namespace) -> int:
    """Print changes until Ctrl-C; return the exit status.

    :param client: connected. A list is watched if the server declares that it announces the changes of this list.
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
        return 0  # Ctrl-C is how a user ends this command
    return 0


def _line(event: Any, as_json: bool) -> str:
    if as_json:
        text = json.dumps({"method": event.method, "params": event.params, "missed": event.missed})
        return text.replace("\x7f", "\\u007f")
    changed = event.params.get("uri") or f"the list of {event.method.split('/')[1]}"
    return clean_line(f"{changed} {'may have changed while the connection was interrupted' if event.missed else 'has changed'}")
