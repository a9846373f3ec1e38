"""The events that a subscription yields, and the filter that selects them."""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Sequence, Tuple, Type

__all__ = ["Event", "Filter", "PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged"]


@dataclass(frozen=True)
class Event:
    """Something that has changed.

    :param missed: whether that is only known to be possible: nobody listened for a moment.
    """

    missed: bool = False
    #: The notification that tells it.
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
    """A resource has changed; the URI may be of something below the one that was asked for (RSRC-14)."""

    uri: str = ""
    method = "notifications/resources/updated"

    @property
    def params(self) -> Dict[str, Any]:
        return {"uri": self.uri}

_KINDS: Dict[str, Tuple[str, Type[Event]]] = {
    ToolsChanged.method: ("toolsListChanged", ToolsChanged),
    PromptsChanged.method: ("promptsListChanged", PromptsChanged),
    ResourcesChanged.method: ("resourcesListChanged", ResourcesChanged),
}
_UPDATED = ResourceUpdated.method
_URIS = "resourceSubscriptions"

class Filter:
    """What somebody wants to know.

    :param tools, prompts, resource_list: whether changes of these lists are.
    :param resources: the URIs whose updates are.
    :raises TypeError: the URIs are one string.
    :raises ValueError: it asks for nothing.
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
            self.wire[_URIS] = self.uris
        if not self.wire:
            raise ValueError("say what to listen to: tools=True, prompts=True, resource_list=True, resources=[uri, ...]")

    def wants(self, method: str) -> bool:
        """Whether a notification is asked for."""
        if method == _UPDATED:
            return bool(self.uris)
        return method in _KINDS and _KINDS[method][0] in self.wire

    def everything(self) -> List[Event]:
        """Return an event for each thing that may have changed unseen (SUBS-15)."""
        events: List[Event] = [kind(missed=True) for name, kind in _KINDS.values() if name in self.wire]
        return [*events, *(ResourceUpdated(missed=True, uri=uri) for uri in self.uris)]
