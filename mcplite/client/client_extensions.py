"""The extensions of one client: what they declare, and what they add to calls, headers and results.

A client without extensions does not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, Mapping, Optional, Tuple

from ..rpc.extension import Declared, Extension, claim, overrides, protocol_names

if TYPE_CHECKING:
    from ..revisions import Revision

__all__ = ["ClientExtensions"]

Custom = Callable[[Dict[str, Any]], Any]


class ClientExtensions:
    """What the extensions of one client add.

    Its public fields are replaced as a whole, never changed in place, so that readers need no lock.

    :param client: the client; the extensions and their handlers get it.
    :param custom: the handlers of the client's own requests and notifications, by method; those of the extensions are added.
    """

    def __init__(self, client: Any, custom: Dict[str, Custom]) -> None:
        #: In the order in which they were added.
        self.all: Tuple[Extension, ...] = ()
        self._client = client
        self._custom = custom
        #: By method of a request or notification: words for an error that name the extension which handles it.
        self.owners: Dict[str, str] = {}
        #: By method: the member of the params that ``Mcp-Name`` repeats.
        self.names: Dict[str, str] = {}
        #: By the value of ``resultType``: the methods whose results may have it.
        self.result_types: Dict[str, Collection[str]] = {}
        #: The extensions with a hook around calls of tools, those that add to params, and those that read lists of tools.
        self.hooks: Tuple[Extension, ...] = ()
        self.adding: Tuple[Extension, ...] = ()
        self.learning: Tuple[Extension, ...] = ()

    def add(self, extension: Extension) -> None:
        """Add an extension; the caller holds the client's lock, or is the constructor of the client.

        :raises RegistrationError: another extension, or the protocol, has one of its methods or notifications.
        """
        answered, taken = extension.methods(), extension.notifications()
        claim(extension, "method", answered, {**protocol_names("server_requests"), **self.owners})
        claim(extension, "notification", taken, {**protocol_names("server_notifications"), **self.owners})
        extension.attach(self._client)
        for method, handler in (*answered.items(), *taken.items()):
            self._custom[method] = self._bound(handler)
        self.owners = {**self.owners, **dict.fromkeys((*answered, *taken), f"the extension {extension.identifier!r}")}
        self.names = {**self.names, **extension.names}
        self.result_types = {**self.result_types, **extension.result_types}
        if overrides(extension, "send_tool"):
            self.hooks = (*self.hooks, extension)
        if overrides(extension, "params"):
            self.adding = (*self.adding, extension)
        if overrides(extension, "learn_tools"):
            self.learning = (*self.learning, extension)
        self.all = (*self.all, extension)

    def find(self, identifier: str) -> Optional[Extension]:
        """Return the extension of this identifier that does more than to declare itself; None if there is none."""
        return next((extension for extension in self.all if extension.identifier == identifier
                     and type(extension) is not Declared), None)

    def _bound(self, handler: Callable[..., Any]) -> Custom:
        return lambda params: handler(params, self._client)

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

    def params(self, method: str, params: Optional[Mapping[str, Any]], revision: Revision) -> Dict[str, Any]:
        """Return the params of a request with those that extensions add; a param of the caller replaces one of an extension."""
        added: Dict[str, Any] = {}
        for extension in self.adding:
            added.update(extension.params(method, revision))
        return {**added, **(params or {})}
