"""Tools as attributes: ``client.tools.add(a=1, b=2)``, for notebooks, where names and arguments are completed."""

import inspect
import keyword
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ..errors import MCPError
from ..protocol.error_text import did_you_mean
from ..protocol.schema.type_signature import arguments_of, result_of
from ..types import CallToolResult, Tool

__all__ = ["ToolFunction", "Tools"]


class _Words(str):
    """A type in words, which signatures show without quotes."""

    def __repr__(self) -> str:
        return str(self)


class ToolFunction:
    """One tool as a function of its arguments, which are all keywords.

    :attr:`tool` is its definition. ``help()`` and editors get the signature and the description from it.
    """

    def __init__(self, tool: Tool, call: Callable[[str, Dict[str, Any]], CallToolResult]) -> None:
        self.tool = tool
        self._call = call
        self.__name__ = self.__qualname__ = tool.name
        self.__doc__ = tool.description or tool.title
        self.__signature__ = _signature(tool)

    def __call__(self, /, *positional: Any, **arguments: Any) -> CallToolResult:
        """Call the tool and return its result; ``.data`` is the value that it returned.

        :raises ToolError: the tool failed.
        :raises TypeError: an argument is given without its name.
        """
        if positional:
            raise TypeError(f"the arguments of a tool have names: {self}")
        return self._call(self.tool.name, arguments).raise_for_error()

    def __str__(self) -> str:
        found = ", ".join(map(str, arguments_of(self.tool.input_schema)))
        end = "" if self.tool.output_schema is None else f" -> {result_of(self.tool.output_schema)}"
        return f"{self.tool.name}({found}){end}"

    def __repr__(self) -> str:
        return f"<tool {self}>"


class Tools:
    """The tools of a server by their names: ``tools.add(a=1, b=2)``, ``tools["weather.forecast"](city="Rome")``.

    The server is asked for its list on the first use, when it says that the list has changed, and for an unknown name.
    Each call is :meth:`Features.call_tool`, and raises ``ToolError`` when the tool fails.

    :param list_tools: lists the tools; ``fresh=True`` ignores the cache.
    :param call: calls a tool by its name.
    :param changes: returns how often the list has changed.
    """

    def __init__(self, list_tools: Callable[..., List[Tool]], call: Callable[[str, Dict[str, Any]], CallToolResult],
                 changes: Callable[[], int]) -> None:
        self._list_tools = list_tools
        self._call = call
        self._changes = changes
        #: The functions by name, and the number of changes before they were listed; replaced as a whole.
        self._listed: Optional[Tuple[int, Dict[str, ToolFunction]]] = None

    def _functions(self, fresh: bool = False) -> Dict[str, ToolFunction]:
        listed = self._listed
        changes = self._changes()
        if fresh or listed is None or listed[0] != changes:
            found = self._list_tools(fresh=True) if fresh else self._list_tools()
            listed = self._listed = changes, {tool.name: ToolFunction(tool, self._call) for tool in found}
        return listed[1]

    def __getitem__(self, name: str) -> ToolFunction:
        """Return the function of one tool.

        :raises KeyError: the server has no such tool.
        """
        found = self._functions()
        if name not in found:
            found = self._functions(fresh=True)
        if name not in found:
            raise KeyError(f"the server has no tool {name!r}{did_you_mean(str(name), found)}")
        return found[name]

    def __getattr__(self, name: str) -> ToolFunction:
        # Notebooks try many names that begin with an underscore on every object, so a tool with such a name is reached only as
        # tools["_name"].
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except (KeyError, MCPError) as error:
            raise AttributeError(error.args[0] if error.args else str(error)) from error

    def __dir__(self) -> List[str]:
        try:
            names = list(self._functions())
        except MCPError:
            names = []  # completion shows what there is, and the call itself reports the error
        return sorted([*object.__dir__(self), *(name for name in names if _can_be_attribute(name))])

    def _ipython_key_completions_(self) -> List[str]:
        return list(self._functions())

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._functions()))

    def __len__(self) -> int:
        return len(self._functions())

    def __contains__(self, name: object) -> bool:
        return name in self._functions()

    def __repr__(self) -> str:
        try:
            return "\n".join(map(str, self._functions().values())) or "<no tools>"
        except MCPError as error:
            return f"<the tools cannot be listed: {error}>"


def _can_be_attribute(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def _signature(tool: Tool) -> inspect.Signature:
    """Return the signature of a tool; arguments whose names are no identifiers are taken as ``**others``."""
    parameters = []
    others = False
    for one in arguments_of(tool.input_schema):
        if not one.name.isidentifier() or keyword.iskeyword(one.name):
            others = True
            continue
        default: Any = inspect.Parameter.empty
        if not one.required:
            default = _Words(one.default or "...")
        parameters.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default,
                                            annotation=_Words(one.words)))
    if others:
        parameters.append(inspect.Parameter("others", inspect.Parameter.VAR_KEYWORD))
    end = inspect.Signature.empty if tool.output_schema is None else _Words(result_of(tool.output_schema))
    return inspect.Signature(parameters, return_annotation=end)
