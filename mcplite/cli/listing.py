"""The commands ``list`` and ``describe``: what a server offers, in lines, in words or as JSON."""

import argparse
from typing import Any, Dict, List

from ..protocol.error_text import did_you_mean
from ..protocol.schema.type_signature import arguments_of, result_of
from .commands import wire
from .description import Found, described, examples_of, markdown_of, names_of
from .parser import UsageError
from .printing import as_json, clean_line, styled, table

__all__ = ["add_arguments", "chosen", "fitting", "offered_by"]


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of a command to its parser."""
    if command == "list":
        one.add_argument("--search", metavar="WORDS", help="list only what has one of these words, the best first")
    else:
        one.add_argument("--markdown", action="store_true", help="print Markdown, such as for a README")


def offered_by(client: Any) -> Found:
    """Return all that a server offers, by kind; a kind that it does not declare is absent."""
    found: Found = {}
    offered = client.server_capabilities
    if offered.tools is not None:
        found["tools"] = client.list_tools()
    if offered.resources is not None:
        found["resources"] = client.list_resources()
        found["resource templates"] = client.list_resource_templates()
    if offered.prompts is not None:
        found["prompts"] = client.list_prompts()
    return found


def fitting(found: Found, words: str) -> Found:
    """Return the definitions that have one of some words in their names, descriptions or arguments, the best first.

    :raises UsageError: there is no word to search for.
    """
    from ..protocol.tool_index import ToolIndex, words_of
    from ..types import Tool

    if not words_of(words):
        raise UsageError("--search: give some words, such as --search 'send mail'")
    ranked: Found = {}
    for kind, items in found.items():
        # The index takes tools only. So each definition of another kind is searched as a tool that has its words.
        tools = [Tool(" ".join(names_of(item)), getattr(item, "input_schema", None) or {"properties": {
            one.name: {"description": one.description or ""} for one in getattr(item, "arguments", None) or ()}},
            title=item.title, description=item.description) for item in items]
        of_tool = {id(tool): item for tool, item in zip(tools, items)}
        ranked[kind] = [of_tool[id(tool)] for tool in ToolIndex(tools).search(words, len(tools))]
    return ranked


def chosen(found: Found, name: str) -> Found:
    """Return the definitions with a name, a URI or a template.

    :raises UsageError: there are none; the text names similar ones.
    """
    matching = {kind: [item for item in items if name in names_of(item)] for kind, items in found.items()}
    if any(matching.values()):
        return {kind: items for kind, items in matching.items() if items}
    names = [key for items in found.values() for item in items for key in names_of(item)]
    there = f"; it has {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else "; it offers nothing"
    hint = did_you_mean(name, names, 3) or there
    raise UsageError(f"the server has no tool, prompt, resource or template {name!r}{hint}")


def show_lists(client: Any, words: List[str], options: argparse.Namespace) -> int:
    offered = offered_by(client)
    found = offered if options.search is None else fitting(offered, options.search)
    if options.json:
        print(as_json(_record(client, found)))
        return 0
    info = client.server_info
    print(styled(clean_line(f"{info.display_name} {info.version} (protocol {client.protocol_version})"), "heading"))
    for kind, items in found.items():
        if items:
            print("\n" + styled(f"{kind}:", "heading"))
            print(table((_label(item), item.description or item.title or "") for item in items))
    if any(offered.values()) and not any(found.values()):
        print(f"nothing of this server has a word of {clean_line(options.search)!r}; list without --search shows all")
    elif not any(found.values()):
        print("the server offers no tools, resources or prompts")
    return 0


def _record(client: Any, found: Found) -> Dict[str, Any]:
    record = {"server": wire(client.server_info, client), "protocolVersion": client.protocol_version,
              "capabilities": wire(client.server_capabilities, client)}
    if client.instructions:
        record["instructions"] = client.instructions
    return {**record, **{_member(kind): [wire(item, client) for item in items] for kind, items in found.items()}}


def _member(kind: str) -> str:
    """Return the member of a JSON record that has the definitions of a kind, spelled as the protocol spells it."""
    return {"resource templates": "resourceTemplates"}.get(kind, kind)


def describe(client: Any, words: List[str], options: argparse.Namespace) -> int:
    found = offered_by(client)
    if words:
        found = chosen(found, words[0])
    if options.json and options.markdown:
        raise UsageError("--json and --markdown are two forms of the description; write one of them")
    if options.json:
        examples = {_member(kind): one for kind, one in examples_of(found, options.target).items()}
        print(as_json({**_record(client, found), "examples": examples}))
    else:
        print((markdown_of if options.markdown else described)(client, found, options.target, not words))
    return 0


def _label(item: Any) -> str:
    if hasattr(item, "input_schema"):
        end = "" if item.output_schema is None else f" -> {result_of(item.output_schema)}"
        return f"{item.name}({', '.join(map(str, arguments_of(item.input_schema)))}){end}"
    if hasattr(item, "arguments"):
        return f"{item.name}({', '.join(a.name if a.required else a.name + '?' for a in item.arguments or ())})"
    return str(getattr(item, "uri", None) or item.uri_template)
