"""Tool search: a model finds the tools that it needs, in place of reading the declarations of all.

Two tools are declared to the model, ``search_tools`` and ``describe_tool``. The tools that these two find are declared from the
next request on, so that the model calls them as any other tool. A server can offer such a search to all clients:
``Server.mount(search=True)``.
"""

import threading
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, Union

from ..client.call import DEFAULT
from ..protocol.tool_index import ToolIndex
from ..types import CallToolResult, Tool
from .tool_names import Choice, check_source, chooser

if TYPE_CHECKING:
    from ..client import Client
    from ..client.group import Group

__all__ = ["ToolSearch"]

#: The most tools that are declared at once besides the two: those that were found last.
_MOST_DECLARED = 50


class ToolSearch:
    """The tools of a client behind a search; it takes the client's place in a kit: ``anthropic_tools(ToolSearch(client))``.

    One object is for one conversation, since it knows what the model has found. Read ``kit.tools`` for each request: it has
    the two tools, and up to fifty that were found last.

    :param client: a ``Client``, or a ``Group`` of several.
    :param limit: how many tools one search finds; default 5.
    :param only, exclude: as for :func:`mcplite.llm.anthropic_tools`; other tools are neither found nor called.
    :raises ValueError: *limit* is not positive.
    """

    def __init__(self, client: "Union[Client, Group]", *, limit: int = 5, only: Choice = None, exclude: Choice = None) -> None:
        if type(limit) is not int or limit < 1:
            raise ValueError(f"limit= is how many tools a search finds, 1 or more, not {limit!r}")
        check_source(client)
        self._client = client
        self._limit = limit
        self._only, self._exclude = chooser("only", only), chooser("exclude", exclude)
        #: Guards the two fields below; held for work in memory only.
        self._lock = threading.Lock()
        self._index = ToolIndex([])
        #: The names of the tools that were found, the latest last.
        self._found: Dict[str, None] = {}

    def list_tools(self) -> List[Tool]:
        """Return the two tools of the search, and those that were found.

        :raises MCPError: the tools cannot be listed.
        """
        index = self._refreshed()
        with self._lock:
            found = list(self._found)[-_MOST_DECLARED:]
        by_name = {tool.name: tool for tool in index.tools}
        return [*self._own(by_name), *(by_name[name] for name in found if name in by_name)]

    def search(self, query: str) -> List[Tool]:
        """Return the tools that fit a question best; they are declared to the model from the next request on."""
        tools = self._refreshed().search(query, self._limit)
        self._remember(tools)
        return tools

    def call_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *, timeout: Optional[float] = DEFAULT,
                  max_timeout: Optional[float] = DEFAULT, cancel: Any = None, on_progress: Any = None) -> CallToolResult:
        """Answer a call of one of the two tools, or call a tool of the client; keywords are as for ``client.call_tool``."""
        index = self._refreshed()
        by_name = {tool.name: tool for tool in index.tools}
        searching, describing = (tool.name for tool in self._own(by_name))
        given = dict(arguments or {})
        if name == searching:
            answer, found = index.answer_search(given.get("query"), self._limit, "You may call these tools from now on:")
        elif name == describing:
            answer, found = index.answer_description(given.get("name"))
        elif name in by_name:
            return self._client.call_tool(name, given, timeout=timeout, max_timeout=max_timeout, cancel=cancel,
                                          on_progress=on_progress)
        else:
            return index.no_such_tool(name)
        self._remember(found)
        return answer

    def _refreshed(self) -> ToolIndex:
        """Return the index of the tools as they are now; it is made again when the list has changed."""
        tools = [tool for tool in self._client.list_tools() if self._only(tool, True) and not self._exclude(tool, False)]
        with self._lock:
            index = self._index
        index = index.refreshed(tools)
        with self._lock:
            self._index = index
        return index

    def _remember(self, tools: List[Tool]) -> None:
        with self._lock:
            names = [tool.name for tool in tools]
            self._found = {name: None for name in (*(one for one in self._found if one not in names), *reversed(names))}

    def _own(self, by_name: Mapping[str, Tool]) -> Tuple[Tool, Tool]:
        """Return the two tools of the search, under names that no tool of the client has."""
        search, describe = (next(name for name in (word, f"{word}_here", f"mcplite_{word}_here") if name not in by_name)
                            for word in ("search_tools", "describe_tool"))
        return ToolIndex.declarations(search, describe, f"among {len(by_name)}", "What is found can be called from then on.")
