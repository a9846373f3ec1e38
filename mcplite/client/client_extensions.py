"""The extensions of one client: what they declare, and what they add to calls, headers and results.

A client without extensions does not load it.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, Mapping, Optional, Sequence, Tuple

from ..errors import Cancelled, MCPError, NotSupported, RequestTimeout
from ..rpc.cancel import CancelToken
from ..rpc.extension import Declared, Extension, claim, overrides, protocol_names
from ..rpc.threads import start_thread
from ..rpc.tracing import get_logger
from ..types import Tool
from .call import FeatureSession, RequestOptions

if TYPE_CHECKING:
    from ..revisions import Revision

__all__ = ["ClientExtensions", "Following", "ToolCall"]

_log = get_logger(__name__)
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
Custom = Callable[[Dict[str, Any]], Any]


class ToolCall:
    """One call of a tool, for :meth:`Extension.send_tool`.

    :param client: that calls.
    :param session: its session.
    :param params: of the request, with ``name`` and ``arguments``; they may be changed.
    :param options: the keywords of the call.
    """

    def __init__(self, client: Any, session: FeatureSession, params: Dict[str, Any], options: RequestOptions) -> None:
        self.client = client
        self.session = session
        self.params = params
        self.options = options

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        return self.session.revision


class Following:
    """One ``subscriptions/listen`` for the changes of an extension, on a thread of its own; a ``with`` block ends it.

    The thread starts with :meth:`open`, blocks on the stream, and ends with :meth:`close` or with the stream.

    :param session: with the server, in a revision without a handshake.
    :param filter: what to hear of.
    :param take: called with the method and the params of each notification, on the client's thread of notifications.
    """

    def __init__(self, session: Any, filter: Mapping[str, Any], take: Callable[[str, Dict[str, Any]], object]) -> None:
        self._session = session
        self._filter = dict(filter)
        self._take = take
        self._token = CancelToken()
        #: Set when the server has acknowledged the filter, or the stream is over; the fields below are set before.
        self._answered = threading.Event()
        self._honoured: Mapping[str, Any] = {}
        self._error: Optional[Exception] = None

    def open(self, seconds: float) -> None:
        """Open the stream, and return when the server has acknowledged it.

        :raises NotSupported: the server does not tell of such changes.
        :raises MCPError: the server refuses the filter, or the connection is lost.
        :raises RequestTimeout: there is no acknowledgement in time.
        """
        start_thread(self._run, "mcplite follows")
        if not self._answered.wait(seconds):
            self.close()
            raise RequestTimeout(f"{self._session.name} did not acknowledge the filter {self._filter} within {seconds:g} s")
        if self._error is not None:
            raise self._error
        missing = [member for member in self._filter if member not in self._honoured]
        if missing:
            self.close()
            raise NotSupported(f"{self._session.name} does not tell of {', '.join(map(repr, missing))}")

    def _run(self) -> None:
        try:
            self._session.listen(self, self._filter, self._token)
        except Cancelled:
            _log.debug("the stream of %s was closed", self._filter)
        except MCPError as error:
            self._error = error
        finally:
            self._answered.set()

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification of the stream, on the reader's thread."""
        if method != _ACKNOWLEDGED:
            self._session.connection.post(lambda: self._take(method, params))
            return
        given = params.get("notifications")
        self._honoured = given if isinstance(given, dict) else {}
        self._answered.set()

    def on_ended(self) -> None:
        """Called when the server has ended the stream."""
        self._token.cancel("the server has ended the subscription")

    def close(self) -> None:
        """End the stream; idempotent, from any thread."""
        self._token.cancel("the caller follows it no more")

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class ClientExtensions:
    """What the extensions of one client add. Its fields are replaced, never changed, so that readers need no lock.

    :param client: gets their handlers; they get it.
    :param custom: the handlers of the client's own requests and notifications, by method; those of the extensions are added.
    """

    def __init__(self, client: Any, custom: Dict[str, Custom]) -> None:
        #: In the order in which they were added.
        self.all: Tuple[Extension, ...] = ()
        self._client = client
        self._custom = custom
        #: Which extension has a handler, by method.
        self.owners: Dict[str, str] = {}
        #: By method: the member of the params that ``Mcp-Name`` repeats.
        self.names: Dict[str, str] = {}
        #: By the value of ``resultType``: the methods whose results may have it.
        self.result_types: Dict[str, Collection[str]] = {}
        #: Those with a hook around calls of tools, those that add to params, and those that read lists of tools.
        self._hooks: Tuple[Extension, ...] = ()
        self._adding: Tuple[Extension, ...] = ()
        self._learning: Tuple[Extension, ...] = ()

    def add(self, extension: Extension) -> None:
        """Add an extension; the caller has a lock for it, or makes the client.

        :raises RegistrationError: another one, or the protocol, has one of its methods or notifications.
        """
        answered, taken = extension.methods(), extension.notifications()
        claim(extension, "method", answered, {**protocol_names("server_requests"), **self.owners})
        claim(extension, "notification", taken, {**protocol_names("server_notifications"), **self.owners})
        extension.attach(self._client)
        for method, handler in (*answered.items(), *taken.items()):
            self._custom[method] = functools.partial(self._handle, handler)
        self.owners = {**self.owners, **dict.fromkeys((*answered, *taken), f"the extension {extension.identifier!r}")}
        self.names = {**self.names, **extension.names}
        self.result_types = {**self.result_types, **extension.result_types}
        if overrides(extension, "send_tool"):
            self._hooks = (*self._hooks, extension)
        if overrides(extension, "params"):
            self._adding = (*self._adding, extension)
        if overrides(extension, "learn_tools"):
            self._learning = (*self._learning, extension)
        self.all = (*self.all, extension)

    def find(self, identifier: str) -> Optional[Extension]:
        """Return the extension of this identifier that does more than to declare itself; None if there is none."""
        return next((extension for extension in self.all if extension.identifier == identifier
                     and type(extension) is not Declared), None)

    def learn_tools(self, tools: Sequence[Tool]) -> None:
        """Pass a page of listed tools on."""
        for extension in self._learning:
            extension.learn_tools(tools)

    def tools_listed(self, changes: int) -> None:
        """Say that all pages were listed; see :meth:`Extension.tools_listed`."""
        for extension in self._learning:
            extension.tools_listed(changes)

    def forget_tools(self) -> None:
        """Say that the list of tools has changed."""
        for extension in self._learning:
            extension.forget_tools()

    def _handle(self, handler: Callable[..., Any], params: Dict[str, Any]) -> Any:
        return handler(params, self._client)

    def declare(self, capabilities: Dict[str, Any], revision: Revision) -> None:
        """Add what the extensions declare to encoded capabilities."""
        found = {extension.identifier: extension.declares(revision) for extension in self.all}
        declared = {name: dict(settings) for name, settings in found.items() if settings is not None}
        if declared:
            capabilities["extensions"] = {**capabilities.get("extensions", {}), **declared}
        for extension in self.all:
            capabilities.update(extension.capabilities(revision, False))

    def may_answer(self, kind: Any, method: str) -> bool:
        """Whether an extension says that a result of a method may have this ``resultType``."""
        return isinstance(kind, str) and method in self.result_types.get(kind, ())

    @property
    def adds_params(self) -> bool:
        """Whether any of them adds to the params of requests."""
        return bool(self._adding)

    @property
    def hooks_tools(self) -> bool:
        """Whether any of them has a hook around calls of tools."""
        return bool(self._hooks)

    def params(self, method: str, params: Optional[Mapping[str, Any]], revision: Revision) -> Dict[str, Any]:
        """Return the params of a request with those that extensions add; the caller's own win."""
        added: Dict[str, Any] = {}
        for extension in self._adding:
            added.update(extension.params(method, revision))
        return {**added, **(params or {})}

    def call_tool(self, call: ToolCall, send: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """Return the result of a call of a tool that is sent within the hooks of extensions.

        :param send: sends the call, and returns its result.
        :raises TypeError: a hook returns no object.
        """
        for hook in reversed(self._hooks):
            send = functools.partial(hook.send_tool, call, send)
        result = send()
        if not isinstance(result, dict):
            raise TypeError(f"return an object or proceed() from send_tool() of an extension, not {type(result).__name__}")
        return result

    def start(self) -> None:
        """Tell the extensions that the client is open."""
        for extension in self.all:
            extension.start(self._client)

    def stop(self) -> None:
        """Tell the extensions that the client is closed."""
        for extension in self.all:
            extension.stop(self._client)
