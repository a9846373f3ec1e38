"""The events that a subscription yields, and the filter that selects them, in the words of users and of the wire."""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, Sequence, Tuple, Type

from ...protocol.methods import LIST_CHANGES, RESOURCE_SUBSCRIPTIONS, RESOURCE_UPDATED

__all__ = ["Event", "Filter", "PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged", "event_of"]


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

    @property
    def characters(self) -> int:
        """The number of characters of the URI; 0 without one."""
        return 0


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
    method = RESOURCE_UPDATED

    @property
    def params(self) -> Dict[str, Any]:
        return {"uri": self.uri}

    @property
    def characters(self) -> int:
        return len(self.uri)


_LISTS: Tuple[Type[Event], ...] = (ToolsChanged, PromptsChanged, ResourcesChanged)
_BY_METHOD = {kind.method: kind for kind in _LISTS}


def event_of(method: str, params: Mapping[str, Any]) -> Event:
    """Return the event that a change notification tells."""
    return ResourceUpdated(uri=str(params.get("uri"))) if method == RESOURCE_UPDATED else _BY_METHOD[method]()


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
        for kind, wanted in zip(_LISTS, (tools, prompts, resource_list)):
            if wanted:
                self.wire[LIST_CHANGES[kind.method].filter] = True
        if self.uris:
            self.wire[RESOURCE_SUBSCRIPTIONS] = self.uris
        if not self.wire:
            raise ValueError("nothing to listen to: give tools=True, prompts=True, resource_list=True, resources=[uri, ...]")

    def includes(self, method: str) -> bool:
        """Whether a notification is included."""
        if method == RESOURCE_UPDATED:
            return bool(self.uris)
        return method in LIST_CHANGES and LIST_CHANGES[method].filter in self.wire

    def missed_events(self) -> List[Event]:
        """Return an event for each included change, marked as possibly missed (SUBS-15)."""
        events: List[Event] = [kind(missed=True) for kind in _LISTS if self.includes(kind.method)]
        return [*events, *(ResourceUpdated(missed=True, uri=uri) for uri in self.uris)]
