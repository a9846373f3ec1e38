"""Mounted: the base of both kinds of mounts, which puts the entries of one into the registry of the server."""

from typing import Any, Dict, List, Mapping

from ..errors import InvalidParams
from ..protocol.jsonio import object_of
from ..protocol.uris import normal_uri
from ..protocol.uritemplate import normal_template
from ..rpc.tracing import get_logger
from ..server.catalog.provider import ProvidedEntry, Provider
from ..server.handling.request_context import RequestContext
from ..server.runtime.runtime import Runtime
from .names import Names

__all__ = ["Mounted"]

_log = get_logger(__name__)
KINDS = ("tools", "resources", "templates", "prompts")


class Mounted(Provider):
    """One mounted server.

    :param hub: the runtime of the server that mounts it.
    :param names: of its entries.
    """

    def __init__(self, hub: Runtime, names: Names) -> None:
        self.hub = hub
        self.names = names

    def put(self, kind: str, entries: Mapping[str, ProvidedEntry], announced: bool = True) -> Dict[str, str]:
        """Put the present entries of a kind into the registry; return the names that others have, with their own names.

        :param entries: by the mounted server's own names, or URIs.
        :param announced: whether clients are notified.
        """
        if kind in ("tools", "prompts"):
            names = self.names.named(kind, entries)
        else:
            names = {normal_template(own) if kind == "templates" else normal_uri(own): own for own in entries}
        taken = self._provide(kind, names, entries, announced)
        if taken and kind in ("resources", "templates") and self.names.prefix:
            # Another has the same URI; this one is resolved with the prefix before it.
            names = {(self.names.other_uri(seen) or seen) if seen in taken else seen: own for seen, own in names.items()}
            taken = self._provide(kind, names, entries, announced)
        return {seen: names[seen] for seen in taken}

    def _provide(self, kind: str, names: Mapping[str, str], entries: Mapping[str, ProvidedEntry], announced: bool
                 ) -> List[str]:
        for seen, own in names.items():
            entries[own].seen = seen
        return self.hub.catalog.registry.provide(self, kind, {seen: entries[own] for seen, own in names.items()},
                                                 announced)

    def report(self, kind: str, taken: Mapping[str, str]) -> None:
        """Log the names that others have, of entries that came while clients are served."""
        for seen, own in taken.items():
            _log.warning("the %s %.200r of %s is left out, since another has the name %.200r; mount it with another prefix=%s",
                         kind[:-1], own, self.name, seen, " or tool=" if kind == "tools" else "")

    def use_tasks(self) -> None:
        """Have tasks on the hub, as the mounted server has."""
        from ..server.tasks.service import start_tasks  # for servers that have tasks

        start_tasks(self.hub)

    def as_task(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        """Make a call a task of the hub that runs it, and return the result that says so; None if it becomes none.

        :raises RemoteError: it must, and the client cannot have tasks; or it cannot, and the client asks for one.
        """
        tasks, arguments = context.session.runtime.tasks, object_of(context.params.get("arguments"))
        if tasks is None or not tasks.takes(context, entry):
            return None
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidParams("params.arguments must be an object")
        return tasks.create(context, entry, arguments or {})

    def seen_contents(self, result: Any) -> Any:
        """Change the URIs in an encoded result to those that clients see; return it.

        :param result: of a tool, a prompt or a resource, as JSON data.
        """
        if self.names.changes_uris and isinstance(result, dict):
            for block in result.get("content") or ():
                self._change(block)
            for contents in result.get("contents") or ():
                self._change(contents)
            for message in result.get("messages") or ():
                self._change(message.get("content"))
        return result

    def _change(self, block: Any) -> None:
        if isinstance(block, dict):
            if isinstance(block.get("uri"), str):
                block["uri"] = self.names.seen_uri(block["uri"])
            self._change(block.get("resource"))
