"""The extensions of one server: what they declare, and what they add to lists, to the filter of listeners, to headers.

The catalog has one. Their methods and notifications stand in the registry, beside those of ``Server.add_method``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ...errors import RegistrationError
from ...protocol.meta import LIST_CHANGES, RESOURCE_SUBSCRIPTIONS
from ...revisions import Revision
from ...rpc.extension import Extension, ListenKind, claim, overrides, protocol_names
from ...types import ClientCapabilities
from .registry import Registry


class ExtensionMethod:
    """The handler of one method of an extension: of a request that it answers, or of a notification that it takes."""

    __slots__ = ("extension", "_handler", "_method")

    def __init__(self, extension: Extension, method: str, handler: Callable[..., Any]) -> None:
        self.extension = extension
        self._method = method
        self._handler = handler

    def exists(self, revision: Revision, identified: bool) -> bool:
        """Whether the method exists for a client."""
        return self.extension.has_method(self._method, revision, identified)

    def __call__(self, params: Dict[str, Any], context: Any) -> Any:
        return self._handler(params, context)


class ServerExtensions:
    """What the extensions of one server add. Its fields are replaced, never changed, so that readers need no lock.

    :param registry: gets the methods and notifications.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: In the order in which they were registered.
        self.all: Tuple[Extension, ...] = ()
        #: By method: the member of the params that ``Mcp-Name`` repeats.
        self.names: Dict[str, str] = {}
        #: The kinds of changes that clients can listen to, by their members of the filter of ``subscriptions/listen``.
        self.listens: Dict[str, ListenKind] = {}
        #: The extensions that change lists.
        self.listers: Tuple[Extension, ...] = ()

    def add(self, extension: Extension) -> None:
        """Add an extension; the caller holds a lock, so that one is added after another.

        :raises RegistrationError: the server, another extension or the protocol has its identifier, or one of its methods,
            notifications or kinds of changes. Then nothing is added.
        """
        registry, identifier = self._registry, extension.identifier
        claim(extension, "identifier", [identifier], {other.identifier: type(other).__name__ for other in self.all})
        answered, taken, listens = extension.methods(), extension.notifications(), extension.listens()
        claim(extension, "method", answered, {**protocol_names("client_requests"), **_owners(answered, registry.methods)})
        claim(extension, "notification", taken,
              {**protocol_names("client_notifications"), **_owners(taken, registry.notifications)})
        members = [change.filter for change in LIST_CHANGES.values()] + [RESOURCE_SUBSCRIPTIONS]
        claim(extension, "member of the filter", [kind.member for kind in listens],
              {**dict.fromkeys(members, "the protocol"), **dict.fromkeys(self.listens, "another extension")})
        claim(extension, "notification", [kind.notification for kind in listens],
              {**protocol_names("server_notifications"),
               **dict.fromkeys((kind.notification for kind in self.listens.values()), "another extension")})
        for method, handler in (*answered.items(), *taken.items()):
            if not callable(handler):
                raise RegistrationError(f"the extension {identifier!r} needs a function for {method!r}, not {handler!r:.100}")
        registry.methods.update({name: ExtensionMethod(extension, name, handler) for name, handler in answered.items()})
        registry.notifications.update({name: ExtensionMethod(extension, name, handler) for name, handler in taken.items()})
        self.names = {**self.names, **extension.names}
        self.listens = {**self.listens, **{kind.member: kind for kind in listens}}
        if overrides(extension, "lists"):
            self.listers = (*self.listers, extension)
        self.all = (*self.all, extension)

    def find(self, identifier: str) -> Optional[Extension]:
        """Return the extension of this identifier; None if there is none."""
        return next((extension for extension in self.all if extension.identifier == identifier), None)

    def declared(self, revision: Revision) -> Optional[Dict[str, Any]]:
        """Return what is declared in a revision, with settings by identifier; None for nothing."""
        found = {extension.identifier: extension.declares(revision) for extension in self.all}
        return {name: dict(settings) for name, settings in found.items() if settings is not None} or None

    def capabilities(self, revision: Revision, identified: bool) -> Dict[str, Any]:
        """Return the members that extensions add to the capabilities, beside those of the protocol."""
        return {name: value for extension in self.all for name, value in extension.capabilities(revision, identified).items()}

    def declared_by(self, client: ClientCapabilities) -> Tuple[bool, ...]:
        """Return for each of :attr:`listers` whether a client declares it."""
        given = client.extensions or {}
        return tuple(extension.identifier in given for extension in self.listers)

    def seen(self, kind: str, entries: Mapping[str, Any], revision: Revision, declared: Tuple[bool, ...]
             ) -> Tuple[Mapping[str, Any], Dict[str, Dict[str, Any]]]:
        """Return the entries of a list that a client sees, and the members that extensions add to each, by name.

        :param declared: for each of :attr:`listers`: whether the client declares it.
        """
        added: Dict[str, Dict[str, Any]] = {}
        for extension, known in zip(self.listers, declared):
            kept: Dict[str, Any] = {}
            for name, entry in entries.items():
                members = extension.lists(kind, entry, revision, known)
                if members is not None:
                    kept[name] = entry
                    if members:
                        added[name] = {**added.get(name, {}), **members}
            entries = kept
        return entries, added


def _owners(names: Mapping[str, Any], handlers: Mapping[str, Any]) -> Dict[str, str]:
    """Return the owners of the names that are registered already, by name."""
    return {name: f"the extension {handlers[name].extension.identifier!r}" if isinstance(handlers[name], ExtensionMethod)
            else "Server.add_method()" for name in names if isinstance(name, str) and name in handlers}
