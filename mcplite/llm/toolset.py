"""Toolset: the tools of a client as a model sees them, and the way of a call to the server and back.

All APIs share these steps: which tools there are, under which names, and how a call is run so that every failure becomes an
answer that the model can read. :class:`Kit` is a toolset for the loop of a program that talks to a model's API itself; each API
has a subclass, which knows the API's objects.
"""

import json
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Pattern, Set, Tuple, Union

from ..client.call import DEFAULT, OnProgress
from ..errors import Cancelled, ConnectionClosed, MCPError, ToolError, TransportError
from ..protocol.error_text import abridged, did_you_mean, one_line, well_formed
from ..rpc.cancel import CancelToken
from ..rpc.tracing import get_logger
from ..types import CallToolResult, TextContent, Tool
from .result_content import FAILED, Part, never, parts_of
from .tool_names import PARAMETERS, TOOLS, Choice, NameMap, check_source, chooser
from .tool_schemas import Schema, portable

if TYPE_CHECKING:
    from ..client import Client
    from ..client.group import Group
    from .tool_search import ToolSearch

__all__ = ["BadModelArguments", "CallOptions", "Choice", "DEFAULT", "Entry", "Kit", "Outcome", "Source", "ToolUse", "Toolset",
           "field"]

_log = get_logger(__name__)
#: The objects that have tools.
Source = Union["Client", "Group", "ToolSearch"]
_MOST_LISTED = 50


class CallOptions(NamedTuple):
    """How long a call may take, what cancels it, and who gets its progress."""

    timeout: Optional[float] = DEFAULT
    max_timeout: Optional[float] = DEFAULT
    cancel: Optional[CancelToken] = None
    on_progress: Optional[OnProgress] = None


class ToolUse(NamedTuple):
    """A model's request for a call, read from the object of its API."""

    id: Optional[str]
    name: str
    #: A dict; text that should be the JSON of one, as OpenAI has it; or None.
    arguments: Any


class Entry(NamedTuple):
    """One tool as a model sees it."""

    tool: Tool
    #: The name by which the model knows it.
    name: str
    #: The text about it that the model reads.
    description: str
    #: The portable schema, with the names of parameters that the API takes.
    schema: Schema
    #: By the names in *schema*: the server's names of the parameters that were renamed.
    own_parameters: Dict[str, str]


class Outcome(NamedTuple):
    """The outcome of a call: the parts of its result, or the text of an error."""

    parts: List[Part]
    is_error: bool
    #: None if there was no call, or it failed without a result.
    result: Optional[CallToolResult] = None


class Toolset(ABC):
    """The tools of a client for one API; may be used from any thread.

    The list is taken from the client whenever :attr:`tools` is read, so that it follows the server's changes; the client
    keeps it for as long as the server allows.
    """

    #: Names of tools and of parameters that the API takes.
    _tool_names: Pattern[str] = TOOLS
    _parameter_names: Pattern[str] = PARAMETERS

    def __init__(self, client: Source, only: Choice, exclude: Choice, timeout: Optional[float]) -> None:
        check_source(client)
        self._client = client
        self._only = chooser("only", only)
        self._exclude = chooser("exclude", exclude)
        self._timeout = timeout
        #: Guards the three fields below; held for work in memory only.
        self._lock = threading.Lock()
        self._names = NameMap(self._tool_names)
        self._entries: Dict[str, Entry] = {}
        self._unknown: Set[str] = set()

    # --- what is declared ------------------------------------------------------------------------------

    @property
    def tools(self) -> List[Any]:
        """The tools in the API's form, for its ``tools`` parameter.

        :raises MCPError: the tools cannot be listed, as with ``client.list_tools()``.
        """
        return [self._declare(entry) for entry in self._list()]

    def tool(self, name: str) -> Tool:
        """Return the server's tool for the name that a model uses, as for asking the user before a call.

        :raises KeyError: the model knows no such tool.
        """
        entry = self._find(name)
        if entry is None:
            raise KeyError(name)
        return entry.tool

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def _list(self) -> List[Entry]:
        """Return the tools as they are now."""
        listed = self._client.list_tools()
        chosen = [tool for tool in listed if self._only(tool, True) and not self._exclude(tool, False)]
        self._warn_of_unknown({tool.name for tool in listed})
        with self._lock:
            self._names.add(tool.name for tool in chosen)
            names = [self._names.shown(tool.name) for tool in chosen]
        # A group may list a name twice; an API refuses that, and no call could tell the two apart.
        entries = {name: self._entry(tool, name) for tool, name in zip(chosen, names)}
        with self._lock:
            self._entries = entries
        return list(entries.values())

    def _entry(self, tool: Tool, name: str) -> Entry:
        schema = portable(tool.input_schema)
        names = NameMap(self._parameter_names)
        names.add(schema["properties"])
        raw = {well_formed(name): name for name in _members(tool.input_schema)}
        renamed = {names.shown(own): raw.get(own, own) for own in schema["properties"] if names.shown(own) != own}
        if renamed:
            schema["properties"] = {names.shown(own): one for own, one in schema["properties"].items()}
            if "required" in schema:
                schema["required"] = [names.shown(own) for own in schema["required"]]
        text = tool.description if tool.description and tool.description.strip() else tool.display_name
        return Entry(tool, name, well_formed(text), schema, renamed)

    def _warn_of_unknown(self, listed: Set[str]) -> None:
        wanted = {name for chooser in (self._only, self._exclude) for name in chooser.names or ()}
        with self._lock:
            unknown = wanted - listed - self._unknown
            self._unknown |= unknown
        for name in sorted(unknown):
            _log.warning("only= or exclude= names the tool %r, which is not listed; there is: %s", name,
                         ", ".join(sorted(listed)[:_MOST_LISTED]) or "none")

    def _find(self, name: str) -> Optional[Entry]:
        """Return the tool of a name that a model uses, from the tools that were declared last or that are listed now."""
        with self._lock:
            entry = self._entries.get(name)
        if entry is None:
            # Models sometimes use the name that they read in a text of the server.
            entries = self._list()
            entry = next((one for one in entries if name == one.name), None)
            entry = entry or next((one for one in entries if name == one.tool.name), None)
        return entry

    @abstractmethod
    def _declare(self, entry: Entry) -> Any:
        """Return a tool in the API's form."""

    # --- calls -----------------------------------------------------------------------------------------

    def _run(self, use: ToolUse, options: CallOptions) -> Outcome:
        """Run a call, and return its parts or the text of what went wrong."""
        try:
            entry = self._find(use.name)
            if entry is None:
                return self._no_such_tool(use.name)
            arguments = self._arguments(use.arguments, entry)
            result = self._client.call_tool(
                entry.tool.name, arguments, timeout=self._timeout if options.timeout is DEFAULT else options.timeout,
                max_timeout=options.max_timeout, cancel=options.cancel, on_progress=options.on_progress)
        except (MCPError, BadModelArguments) as error:
            return _failed(error, use.name, options.cancel)
        return Outcome(parts_of(result), bool(result.is_error), result)

    def _arguments(self, given: Any, entry: Entry) -> Dict[str, Any]:
        """Return arguments with the server's names of the parameters.

        :raises BadModelArguments: they are no object.
        """
        arguments = given
        if isinstance(given, (str, bytes)):
            try:
                arguments = json.loads(given) if given.strip() else {}
            except (ValueError, RecursionError) as error:
                raise BadModelArguments(f"the arguments are not valid JSON: {error}") from error
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise BadModelArguments(f"the arguments must be a JSON object, not {type(arguments).__name__}")
        try:
            json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode("utf-8")
        except (TypeError, ValueError, RecursionError) as error:
            raise BadModelArguments(f"the arguments cannot be sent as JSON: {error}") from error
        return {entry.own_parameters.get(str(name), str(name)): value for name, value in arguments.items()}

    def _no_such_tool(self, name: str) -> Outcome:
        with self._lock:
            names = list(self._entries)
        hint = did_you_mean(name, names, 3) or f". There is: {', '.join(names[:_MOST_LISTED]) or 'none'}."
        return Outcome([Part("text", f"There is no tool {one_line(name, 100)}{hint}")], True)


def _members(schema: Any) -> List[str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


class BadModelArguments(Exception):
    """A model's arguments are no JSON object."""


def _failed(error: Exception, name: str, cancel: Optional[CancelToken]) -> Outcome:
    """Return the answer for a call that failed.

    :raises Cancelled: by the caller, who does not want an answer.
    """
    if isinstance(error, Cancelled) and cancel is not None and cancel.cancelled:
        raise error
    if isinstance(error, ToolError):
        # A client that raises errors for failed tools has raised it, or a middleware.
        return Outcome(parts_of(CallToolResult([TextContent(error.message or FAILED), *error.content])), True)
    if isinstance(error, TransportError):
        _log.warning("the tool %r could not be called: %s", name, error)
    # The last lines of a child's stderr are not for the model: they may hold anything.
    text = str(error.args[0]) if isinstance(error, ConnectionClosed) and error.args else str(error)
    return Outcome([Part("text", f"The tool could not be called: {one_line(text, 1000) or type(error).__name__}")], True)


class Kit(Toolset):
    """The tools of a client for one API, and the calls that a model asks for; may be used from any thread."""

    def call(self, tool_use: Any, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
             cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None) -> Any:
        """Run the call that a model asks for, and return the result in the API's form.

        The model gets an answer for each failure: a name of no tool that was declared, arguments that are no object or that the
        server refuses, a tool that fails or takes too long, and a server that cannot be reached (which is logged, too). A
        middleware of the client may raise ``ToolError`` to stop a call; its text is what the model reads.

        :param tool_use: the object of the API's SDK, or a dict of the same form.
        :param timeout, max_timeout, cancel, on_progress: as for ``client.call_tool``. By default the timeout of the kit,
            or that of the client if the kit has none.
        :raises Cancelled: by *cancel*.
        :raises TypeError: *tool_use* is something else.
        """
        use = self._checked(tool_use)
        return self._answer(tool_use, use, self._run(use, CallOptions(timeout, max_timeout, cancel, on_progress)), never)[0]

    def answers(self, reply: Any, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None) -> List[Any]:
        """Run all calls that a reply asks for, one after another, and return what to append to the conversation.

        The list is empty if the reply asks for no call: the conversation waits for the user then. Content that the API
        does not take inside a tool's result follows behind the results, if it takes it at all.

        :param reply: the reply of the API's SDK, or a dict of the same form.
        :param timeout, max_timeout, cancel, on_progress: for each call, as for :meth:`call`.
        :raises Cancelled: by *cancel*.
        """
        options = CallOptions(timeout, max_timeout, cancel, on_progress)
        done = []
        for given in self._uses(reply):
            use = self._checked(given)
            done.append(self._answer(given, use, self._run(use, options), self._follows))
        return self._messages([answer for answer, _ in done], [part for _, rest in done for part in rest]) if done else []

    def _checked(self, given: Any) -> ToolUse:
        use = self._read(given)
        if not isinstance(use.name, str):
            raise TypeError(f"a call without the name of a tool: {abridged(given)}")
        return use

    # --- the objects of the API ----------------------------------------------------------------------------

    @abstractmethod
    def _uses(self, reply: Any) -> List[Any]:
        """Return the objects of a reply that ask for calls."""

    @abstractmethod
    def _read(self, tool_use: Any) -> ToolUse:
        """Read the API's object.

        :raises TypeError: it is something else.
        """

    @abstractmethod
    def _answer(self, given: Any, use: ToolUse, outcome: Outcome, follows: Callable[[Part], bool]
                ) -> Tuple[Any, List[Part]]:
        """Return the API's result of a call, and the parts that it cannot hold and *follows* accepts."""

    def _follows(self, part: Part) -> bool:
        """Tell whether a part that a result cannot hold can be put behind the results."""
        return False

    @abstractmethod
    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        """Return what to append to a conversation: the results, and what follows them."""


def field(value: Any, name: str, default: Any = None) -> Any:
    """Return a member of an SDK's object, or of a dict of the same shape."""
    return value.get(name, default) if isinstance(value, dict) else getattr(value, name, default)
