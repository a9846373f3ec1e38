"""The events that a subscription yields, and the filter that selects them, in the words of users and of the wire."""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Sequence, Tuple, Type

__all__ = ["LIST_CHANGES", "UPDATED", "URIS", "Event", "Filter", "PromptsChanged", "ResourceUpdated", "ResourcesChanged",
           "ToolsChanged"]


@dataclass(frozen=True)
class Event:
    """A change at the server.

    :param missed: True if the change is only possible: the subscription was interrupted and may have missed it.
    """

    missed: bool = False
    #: The notification of this change.
    method: ClassVar[str] = ""

    @property
    def params(self) -> Dict[str, Any]:
        """The params of that notification."""
        return {}


@dataclass(frozen=True)
class ToolsChanged(Event):
    """The list of tools has changed."""

    method = "notifications/tools/list_changed"


@dataclass(frozen=True)
class PromptsChanged(Event):
    """The list of prompts has changed."""

    method = "notifications/prompts/list_changed"


@dataclass(frozen=True)
class ResourcesChanged(Event):
    """The list of resources, or of templates, has changed."""

    method = "notifications/resources/list_changed"


@dataclass(frozen=True)
class ResourceUpdated(Event):
    """A resource has changed; its URI may be below the one subscribed to (RSRC-14)."""

    uri: str = ""
    method = "notifications/resources/updated"

    @property
    def params(self) -> Dict[str, Any]:
        return {"uri": self.uri}


#: By the notification of a changed list: the member of the filter on the wire, and the event.
LIST_CHANGES: Dict[str, Tuple[str, Type[Event]]] = {
    ToolsChanged.method: ("toolsListChanged", ToolsChanged),
    PromptsChanged.method: ("promptsListChanged", PromptsChanged),
    ResourcesChanged.method: ("resourcesListChanged", ResourcesChanged),
}
UPDATED = ResourceUpdated.method
#: The member of the filter that has the URIs.
URIS = "resourceSubscriptions"


class Filter:
    """The changes that a subscription includes.

    :param tools, prompts, resource_list: whether to include changes of these lists.
    :param resources: URIs whose updates to include.
    :raises TypeError: the URIs are one string.
    :raises ValueError: nothing is included.
    """

    def __init__(self, tools: bool = False, prompts: bool = False, resource_list: bool = False,
                 resources: Sequence[str] = ()) -> None:
        if isinstance(resources, str):
            raise TypeError(f"resources is a list of URIs: write [{resources!r}]")
        self.uris: List[str] = list(dict.fromkeys(resources))
        self.wire: Dict[str, Any] = {}
        for name, wanted in (("toolsListChanged", tools), ("promptsListChanged", prompts),
                             ("resourcesListChanged", resource_list)):
            if wanted:
                self.wire[name] = True
        if self.uris:
            self.wire[URIS] = self.uris
        if not self.wire:
            raise ValueError("nothing to listen to: give tools=True, prompts=True, resource_list=True, resources=[uri, ...]")

    def includes(self, method: str) -> bool:
        """Whether a notification is included."""
        if method == UPDATED:
            return bool(self.uris)
        return method in LIST_CHANGES and LIST_CHANGES[method][0] in self.wire

    def missed_events(self) -> List[Event]:
        """Return an event for each included change, marked as possibly missed (SUBS-15)."""
        events: List[Event] = [event(missed=True) for name, event in LIST_CHANGES.values() if name in self.wire]
        return [*events, *(ResourceUpdated(missed=True, uri=uri) for uri in self.uris)]
