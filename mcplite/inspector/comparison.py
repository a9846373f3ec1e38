"""The same server in the eyes of others: of clients of each revision, and of the APIs of models.

A comparison opens a connection for each revision, all at the same time; their messages are not recorded. :mod:`mcplite.llm`
makes the declaration that an API would get. The differences between it and the server's own definition are the problems.
"""

import json
from typing import Any, Callable, Dict, List, Set

from ..errors import MCPError, UnsupportedVersion
from ..llm import anthropic_tools, gemini_tools, openai_tools
from ..llm.tool_rules import CHARACTERS_PER_TOKEN, MOST_TOOLS, refusals
from ..protocol.error_text import printable
from ..revisions import REVISIONS
from ..rpc.threads import start_thread
from ..types import Tool, codec
from .inspected_server import InspectedServer, items_of
from .page_questions import InspectorError

__all__ = ["ESTIMATE", "compare", "kits"]

#: How the page explains the sizes.
ESTIMATE = ("The size is an estimate: a quarter of the characters of the declaration as JSON. Each model counts in its own way,"
            " mostly within a third of it.")
#: Seconds of one request of a comparison, and of opening the server in one revision.
_SECONDS = 20.0
#: Keywords of a schema that a declaration need not have: they say nothing to a model, or are replaced by the schema that they
#: refer to.
_SILENT = frozenset({"$schema", "$id", "$comment", "title", "examples", "$ref", "$defs", "definitions", "additionalProperties"})
#: Keywords that "nullable" can replace, and keywords that are written into the description, since Gemini's schema lacks them.
_SAID_OTHERWISE = frozenset({"anyOf", "oneOf"})
_TOLD = frozenset({"default", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"})


def compare(server: InspectedServer) -> Dict[str, Any]:
    """Return what a client of each revision sees, by the revision's name; an error if it cannot read the server."""
    found: Dict[str, Any] = {}

    def look(revision: str) -> None:
        try:
            found[revision] = _seen_in(server, revision)
        except UnsupportedVersion:
            found[revision] = {"error": "the server does not speak this revision"}
        except (InspectorError, MCPError) as error:
            found[revision] = {"error": printable(str(error))[:1000]}

    threads = [start_thread(lambda name=one.name: look(name), f"mcplite inspector compares {one.name}")  # type: ignore[misc]
               for one in REVISIONS]
    for thread in threads:
        thread.join()  # the thread ends, since each of its requests has a time limit
    return {one.name: found.get(one.name, {"error": "it could not be read"}) for one in reversed(REVISIONS)}


def _seen_in(server: InspectedServer, revision: str) -> Dict[str, Any]:
    with server.borrowed(revision, _SECONDS) as client:
        seen: Dict[str, Any] = {
            "info": codec.encode(client.server_info, client.revision),
            "capabilities": codec.encode(client.server_capabilities, client.revision), "instructions": client.instructions}
        for kind in ("tools", "resources", "templates", "prompts"):
            seen[kind] = items_of(client, kind)
        return seen


class _ListedTools:
    """A list of tools in place of a client: a kit asks its client for this list only."""

    def __init__(self, tools: List[Tool]) -> None:
        self._tools = tools

    def list_tools(self) -> List[Tool]:
        """Return the tools."""
        return self._tools


def kits(server: InspectedServer) -> Dict[str, Any]:
    """Return each tool as the APIs of models get it, with its size and what an API would refuse.

    :raises InspectorError: the server is not open, or does not list its tools.
    """
    client = server.client()
    try:
        tools = client.list_tools(fresh=True) if client.server_capabilities.tools is not None else []
    except MCPError as error:
        raise InspectorError(printable(str(error)), 502) from error
    found: List[Dict[str, Any]] = [{"name": tool.name} for tool in tools]
    for api, declare in _APIS.items():
        for one, tool in zip(found, tools):
            # Each tool is declared alone, so that a tool that cannot be declared does not affect the others.
            one[api] = _declared(tool, declare, api)
    if len(tools) > MOST_TOOLS:
        for one in found:
            one["openai"]["problems"].append(f"OpenAI takes {MOST_TOOLS} tools in a request, and the server has {len(tools)}")
    return {"tools": found, "estimate": ESTIMATE}


#: By API: a function that returns the declarations that the API gets, of a client or of a list in place of one.
_APIS: Dict[str, Callable[[Any], List[Any]]] = {
    "openai": lambda listed: openai_tools(listed).tools, "anthropic": lambda listed: anthropic_tools(listed).tools,
    "gemini": lambda listed: gemini_tools(listed).tools[0]["functionDeclarations"]}


def _declared(tool: Tool, declare: Callable[[Any], List[Any]], api: str) -> Dict[str, Any]:
    try:
        declaration = declare(_ListedTools([tool]))[0]
    except Exception as error:  # the schema was not foreseen; the page shows this error, and the other tools
        return {"declaration": None, "tokens": 0, "problems": [f"it cannot be declared: {printable(str(error))[:300]}"]}
    size = len(json.dumps(declaration, ensure_ascii=False))
    return {"declaration": declaration, "tokens": -(-size // CHARACTERS_PER_TOKEN),
            "problems": _problems(tool, declaration, api)}


def _problems(tool: Tool, declaration: Any, api: str) -> List[str]:
    """Return texts about what the API would refuse of a tool, and what its declaration changes or leaves out."""
    problems = [one.text for one in refusals(tool) if api in one.apis]
    shown = _name_in(declaration)
    if shown != tool.name:
        problems.append(f"it is declared as {shown!r}")
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    given = _keywords(declaration, 0)
    said = _SILENT | (_SAID_OTHERWISE if "nullable" in given else set()) | (_TOLD if api == "gemini" else set())
    lost = sorted(_keywords(schema, 0) - given - said)
    if lost and schema.get("properties"):  # without a parameter there is nothing to describe
        problems.append(f"the API does not get these words of the schema: {', '.join(lost[:20])}")
    return problems


def _name_in(declaration: Any) -> Any:
    inner = declaration.get("function", declaration) if isinstance(declaration, dict) else {}
    return inner.get("name")


def _keywords(value: Any, depth: int) -> Set[str]:
    """Return the keywords of a schema, without the names of its members."""
    if depth > 30:
        return set()
    if isinstance(value, list):
        return {word for item in value for word in _keywords(item, depth + 1)}
    if not isinstance(value, dict):
        return set()
    found = set()
    for word, inside in value.items():
        found.add(str(word))
        if word in ("properties", "$defs", "definitions", "patternProperties") and isinstance(inside, dict):
            for item in inside.values():
                found |= _keywords(item, depth + 1)
        elif word not in ("enum", "const", "default", "examples", "required"):
            found |= _keywords(inside, depth + 1)
    return found
