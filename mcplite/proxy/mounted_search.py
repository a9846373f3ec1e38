"""MountedSearch: three tools in place of those of mounted servers, which a model finds by words.

``Server.mount(search=True)`` loads it. The tools of such a mount are entries of the parent server as those of any mount, but in
no list: they keep their scopes, their tasks and their names, and a client that knows a name can call it. Hosts let a model call
only what is listed, so ``call_tool`` calls them, too::

    tools/call call_tool {"name": "maps_route", "arguments": {...}}
        the scopes of maps_route, as of each request that names it, also of one that continues the call
            middleware of the parent server, for maps_route alone, as if the client had called it
                the mounted server

A search takes the tools from a ``tools/list`` of its own that passes the same middleware, so that it finds no tool that the
caller would not see.
"""

import functools
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..protocol import jsonrpc
from ..protocol.jsonrpc import object_of
from ..protocol.tool_index import ToolIndex
from ..revisions import Revision
from ..rpc.request import Incoming
from ..server.catalog.catalog import Catalog, Target
from ..server.catalog.registry import ProvidedEntry, Provider
from ..server.handling.context import RequestContext, visible_catalog
from ..server.handling.dispatch import dispatch
from ..server.handling.handler_calls import tool_error
from ..server.runtime.runtime import Runtime
from ..types import Tool, ToolAnnotations, codec

__all__ = ["NAMES", "MountedSearch", "offer_search"]

#: How many tools a search finds.
_LIMIT = 5
#: The names of the three tools.
NAMES = _SEARCH, _DESCRIBE, _CALL = "search_tools", "describe_tool", "call_tool"


class MountedSearch(Provider):
    """The three tools of one server, for all of its mounts with ``search=True``.

    :param parent: the runtime of that server.
    """

    name = "the search among mounted tools"

    def __init__(self, parent: Runtime) -> None:
        self._parent = parent
        search, describe = ToolIndex.declarations(_SEARCH, _DESCRIBE, "of this server that are not listed",
                                                  f"{_CALL} calls what is found.")
        search.annotations = describe.annotations = ToolAnnotations(read_only_hint=True)
        arguments = {"type": "object", "description": "As describe_tool shows them"}
        call = Tool(_CALL, {"type": "object", "properties": {"name": {"type": "string"}, "arguments": arguments},
                            "required": ["name"]}, description="Call a tool that search_tools has found.")
        self._tools = {tool.name: tool for tool in (search, describe, call)}
        #: The index of the latest search. It is replaced in one step, and may be that of any thread: it is compared with the
        #: tools before it is used.
        self._index = ToolIndex([])

    def entries(self) -> Dict[str, Dict[str, ProvidedEntry]]:
        made = {name: ProvidedEntry(self, ("tools", name, tool)) for name, tool in self._tools.items()}
        for name, entry in made.items():
            entry.name = name
        made[_CALL].passes_on, made[_CALL].call_scopes = True, self._call_scopes
        return {"tools": made}

    def listed(self, entry: ProvidedEntry, revision: Revision) -> Tool:
        return self._tools[entry.name]

    def find(self, kind: str, name: str, granted: Any = None) -> None:
        return None

    def run(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        given = object_of(context.params.get("arguments"))
        arguments: Dict[str, Any] = given if isinstance(given, dict) else {}
        if entry.name == _CALL:
            return self._call(arguments.get("name"), object_of(arguments.get("arguments")), context)
        index = self._index = self._index.refreshed(self._visible(context))
        if entry.name == _SEARCH:
            result, _ = index.answer_search(arguments.get("query"), _LIMIT, f"Call these tools with {_CALL}:")
        else:
            result, _ = index.answer_description(arguments.get("name"))
        return codec.encode(result, context.session.revision)

    def _call(self, name: Any, arguments: Any, context: RequestContext) -> Any:
        target = _called(visible_catalog(context), name)
        refused: Any = None
        if target is None:
            refused = codec.encode(self._index.no_such_tool(name), context.session.revision)
        elif arguments is not None and not isinstance(arguments, dict):
            refused = tool_error(context, f"The arguments of {name} must be an object, as {_DESCRIBE} shows them.")
        if refused is not None:
            return dispatch(context, None, lambda: refused)
        rename = functools.partial(_own_params, name, arguments)
        with context.within(context.runtime, rename, False):
            return dispatch(context, target)

    def _call_scopes(self, params: Mapping[str, Any]) -> Tuple[str, ...]:
        """Return the scopes of the tool that a call of ``call_tool`` names."""
        arguments = params.get("arguments")
        target = _called(self._parent.catalog, arguments.get("name") if isinstance(arguments, dict) else None)
        return () if target is None else target.scopes

    def _visible(self, context: RequestContext) -> List[Tool]:
        """Return the tools that a search may find: those that middleware leaves of a list of them."""
        incoming = context.incoming
        request = jsonrpc.Request(incoming.id, "tools/list", {})
        listing = RequestContext(context.session, Incoming(incoming.peer, request, None, incoming.outlet, incoming.facts))
        listing.runtime = context.runtime
        result = dispatch(listing, None, functools.partial(_found_tools, listing))
        return [codec.decode(Tool, tool) for tool in result["tools"]]


def _called(catalog: Catalog, name: Any) -> Optional[Target]:
    """Return the tool of a name; None if the search does not find it, as with the three tools themselves: calls do not nest."""
    target = catalog.resolve("tools/call", {"name": name})
    return target if target.entry is not None and target.entry.unlisted else None


def _own_params(name: str, arguments: Any, params: Dict[str, Any]) -> Dict[str, Any]:
    return {**params, "name": name, "arguments": arguments or {}}


def _found_tools(context: RequestContext) -> Dict[str, Any]:
    revision = context.session.revision
    entries = visible_catalog(context).registry.all("tools").values()
    return {"tools": [codec.encode(entry.listed(revision), revision) for entry in entries if entry.unlisted]}


def offer_search(parent: Runtime) -> None:
    """Give a server the three tools, unless it has them.

    :raises RegistrationError: it has a tool of one of these names.
    """
    if not any(isinstance(provider, MountedSearch) for provider in parent.catalog.registry.providers):
        parent.offer(MountedSearch(parent))
