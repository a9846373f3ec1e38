"""The extensions of one client: what they declare, and what they add to calls, headers and results.

A client without extensions does not load it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, Mapping, Optional, Sequence, Tuple

from ..rpc.extension import Declared, Extension, claim, overrides, protocol_names
from ..types import Tool

if TYPE_CHECKING:
    from ..revisions import Revision

__all__ = ["ClientExtensions"]

Custom = Callable[[Dict[str, Any]], Any]


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
        self.hooks: Tuple[Extension, ...] = ()
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
            self.hooks = (*self.hooks, extension)
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

    def params(self, method: str, params: Optional[Mapping[str, Any]], revision: Revision) -> Dict[str, Any]:
        """Return the params of a request with those that extensions add; the caller's own win."""
        added: Dict[str, Any] = {}
        for extension in self._adding:
            added.update(extension.params(method, revision))
        return {**added, **(params or {})}

    def start(self) -> None:
        """Tell the extensions that the client is open."""
        for extension in self.all:
            extension.start(self._client)

    def stop(self) -> None:
        """Tell the extensions that the client is closed."""
        for extension in self.all:
            extension.stop(self._client)
