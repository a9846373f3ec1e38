"""Facts about the protocol's methods that hold in every revision.

Facts that differ between revisions stand in ``revisions``.
"""

from typing import Dict, Tuple

from ..types.lazy_dataclass import Record, record

__all__ = ["Change", "LIST_CHANGES", "REPEATABLE", "RESOURCE_SUBSCRIPTIONS", "RESOURCE_UPDATED"]

#: Requests that may run twice without harm, so that they are sent again when it is unknown whether they ran.
REPEATABLE = frozenset({
    "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
    "completion/complete", "server/discover", "subscriptions/listen", "logging/setLevel", "resources/subscribe",
    "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/list", "tasks/update",
})


@record(frozen=True)
class Change(Record):
    """A kind of list whose changes are notified.

    :param capability: the server's capability for it.
    :param filter: the member that asks for it in the filter of ``subscriptions/listen``.
    :param lists: the requests whose results the change makes stale.
    """

    capability: str
    filter: str
    lists: Tuple[str, ...]


#: By the notification of the change.
LIST_CHANGES: Dict[str, Change] = {
    "notifications/tools/list_changed": Change("tools", "toolsListChanged", ("tools/list",)),
    "notifications/prompts/list_changed": Change("prompts", "promptsListChanged", ("prompts/list",)),
    "notifications/resources/list_changed": Change(
        "resources", "resourcesListChanged", ("resources/list", "resources/templates/list")),
}
#: The notification that one resource has changed, and the filter's member that lists the URIs to watch.
RESOURCE_UPDATED = "notifications/resources/updated"
RESOURCE_SUBSCRIPTIONS = "resourceSubscriptions"
