"""The table of revisions: every fact that differs between them; the only module with dates.

A difference between revisions is a column of this table, or a mark of a field, ``wire(since=...)``, that names one of its
rows. Each row but the first states what differs from the one before. Code asks for a fact by name and never compares
revisions.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Mapping, Optional, Tuple

from .errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
)

__all__ = [
    "Revision", "NOVEMBER_2024", "MARCH_2025", "JUNE_2025", "NOVEMBER_2025", "JULY_2026",
    "TASKS_EXTENSION", "REGISTRY_SCHEMA", "REVISIONS", "LEGACY", "NEWEST", "NEWEST_LEGACY", "DEFAULT_HTTP", "find_revision",
]

_CLIENT_REQUESTS = frozenset({
    "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/read",
    "resources/templates/list", "completion/complete",
})
_SERVER_NOTIFICATIONS = frozenset({
    "notifications/cancelled", "notifications/progress", "notifications/message",
    "notifications/tools/list_changed", "notifications/prompts/list_changed",
    "notifications/resources/list_changed", "notifications/resources/updated",
})
#: The extension by which both sides declare tasks, in a revision where tasks are not a part of the protocol itself.
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
#: The version of the schema of server.json, the registry's file. Its dates are not those of revisions of the protocol.
REGISTRY_SCHEMA = "2025-12-11"


class Revision:
    """One revision of the protocol: a row of facts. It cannot be changed."""

    name: str
    #: Position in time; the protocol's own code reads it only by :meth:`has`, for the marks of fields.
    rank: int
    #: Each request carries its own ``_meta``, in place of a handshake and a session.
    modern: bool
    #: JSON arrays on the wire (RPC-21 to RPC-29).
    batches: bool
    #: A stream begins with an empty event, so that it can be resumed at once (HTTP-15).
    priming_event: bool
    #: What a server does with ``MCP-Protocol-Version``: it is "unknown" to the revision, "checked", or "must-match-body".
    version_header: str
    #: The error code for a resource that does not exist.
    not_found: int
    #: Arguments that break a tool's schema are an "error" (-32602) or a "result" with ``isError`` (TOOL-32).
    bad_arguments: str
    #: ``structuredContent`` and ``outputSchema`` exist (TOOL-42).
    structured_output: bool
    #: ``structuredContent`` must be an object (TOOL-40).
    object_output_only: bool
    #: The kinds of content that exist (TOOL-22).
    content_kinds: FrozenSet[str]
    #: Progress notifications have a ``message`` (PROG-06).
    progress_message: bool
    #: Sampling messages may hold lists of blocks, tool use and tool results (SAMP-04).
    sampling_tools: bool
    #: Elicitation requests have a ``mode``, which may be a URL.
    elicitation_modes: bool
    #: URL elicitations have an ``elicitationId``, and -32042 exists (URLE-02, URLE-15).
    elicitation_ids: bool
    #: "none", "names" (``enum`` + ``enumNames``) or "titled" (``oneOf``, multi-select, defaults everywhere).
    elicitation_enums: str
    #: The server declares completions as a capability (COMP-01).
    completions_capability: bool
    #: Completion requests carry the arguments that are filled in already (COMP-06).
    completion_context: bool
    #: An error response to an unreadable id may omit the id (RPC-11).
    error_id_optional: bool
    client_requests: FrozenSet[str]
    client_notifications: FrozenSet[str]
    server_requests: FrozenSet[str]
    server_notifications: FrozenSet[str]
    #: The requests that ``inputRequests`` may hold.
    input_requests: FrozenSet[str] = frozenset()
    #: The requests that a server may answer with ``inputRequests`` (MRTR-02, MRTR-03).
    asking_methods: FrozenSet[str] = frozenset()
    #: Requests about tasks, which clients send, and in November 2025 servers as well.
    task_requests: FrozenSet[str] = frozenset()
    #: The notification of a task's status; empty in revisions without tasks.
    task_notification: str = ""
    #: A missing capability of the client is an error of the protocol, not of a tool (MRTR-11).
    capability_errors: bool = False
    #: The HTTP status of JSON-RPC codes, where the revision fixes one, for errors found before a handler runs.
    http_status: Mapping[int, int] = {}

    # The methods of a dataclass, written by hand: dataclasses would take longer to generate them than all rows take to make.

    def __init__(self, **facts: Any) -> None:
        unstated = [name for name in type(self).__annotations__ if name not in facts and not hasattr(type(self), name)]
        if unstated or not facts.keys() <= type(self).__annotations__.keys():
            raise TypeError(f"a revision states all facts and no others; missing: {', '.join(unstated) or 'none'}")
        vars(self).update(facts)

    def amended(self, **changes: Any) -> "Revision":
        """Return the row that follows this one, and differs from it in these facts alone."""
        return Revision(**{**vars(self), "rank": self.rank + 1, **changes})

    def __setattr__(self, name: str, value: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def has(self, since: Optional["Revision"], until: Optional["Revision"] = None) -> bool:
        """Whether a field marked *since* and *until* (both inclusive) exists in this revision."""
        return (since is None or self.rank >= since.rank) and (until is None or self.rank <= until.rank)

    def __repr__(self) -> str:
        return f"<Revision {self.name}>"

    def __str__(self) -> str:
        return self.name


NOVEMBER_2024 = Revision(
    name="2024-11-05", rank=0, modern=False, batches=False,
    priming_event=False, version_header="unknown", not_found=RESOURCE_NOT_FOUND, bad_arguments="error",
    structured_output=False, object_output_only=True, progress_message=False, sampling_tools=False,
    content_kinds=frozenset({"text", "image", "resource"}),
    elicitation_modes=False, elicitation_ids=False, elicitation_enums="none",
    completions_capability=False, completion_context=False, error_id_optional=False,
    client_requests=_CLIENT_REQUESTS | {
        "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
    },
    client_notifications=frozenset({
        "notifications/initialized", "notifications/cancelled", "notifications/progress",
        "notifications/roots/list_changed",
    }),
    server_requests=frozenset({"ping", "roots/list", "sampling/createMessage"}),
    server_notifications=_SERVER_NOTIFICATIONS,
)
MARCH_2025 = NOVEMBER_2024.amended(
    name="2025-03-26", batches=True, progress_message=True, completions_capability=True,
    content_kinds=NOVEMBER_2024.content_kinds | {"audio"},
)
JUNE_2025 = MARCH_2025.amended(
    name="2025-06-18", batches=False, version_header="checked", structured_output=True,
    content_kinds=MARCH_2025.content_kinds | {"resource_link"},
    elicitation_enums="names", completion_context=True,
    server_requests=MARCH_2025.server_requests | {"elicitation/create"},
)
NOVEMBER_2025 = JUNE_2025.amended(
    name="2025-11-25", priming_event=True, bad_arguments="result", sampling_tools=True,
    elicitation_modes=True, elicitation_ids=True, elicitation_enums="titled", error_id_optional=True,
    server_notifications=_SERVER_NOTIFICATIONS | {"notifications/elicitation/complete"},
    task_requests=frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"}),
    task_notification="notifications/tasks/status",
)
JULY_2026 = NOVEMBER_2025.amended(
    name="2026-07-28", modern=True, priming_event=False, version_header="must-match-body", not_found=INVALID_PARAMS,
    object_output_only=False, elicitation_ids=False,
    client_requests=_CLIENT_REQUESTS | {"server/discover", "subscriptions/listen"},
    client_notifications=frozenset({"notifications/cancelled"}),
    server_requests=frozenset(),
    server_notifications=_SERVER_NOTIFICATIONS | {"notifications/subscriptions/acknowledged"},
    input_requests=frozenset({"elicitation/create", "sampling/createMessage", "roots/list"}),
    asking_methods=frozenset({"tools/call", "prompts/get", "resources/read"}),
    task_requests=frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
    task_notification="notifications/tasks",
    capability_errors=True,
    http_status={HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400, UNSUPPORTED_VERSION: 400, METHOD_NOT_FOUND: 404},
)

#: Oldest first.
REVISIONS: Tuple[Revision, ...] = (NOVEMBER_2024, MARCH_2025, JUNE_2025, NOVEMBER_2025, JULY_2026)
#: The revisions that begin with a handshake, oldest first.
LEGACY: Tuple[Revision, ...] = tuple(revision for revision in REVISIONS if not revision.modern)
NEWEST = REVISIONS[-1]
NEWEST_LEGACY = LEGACY[-1]
#: The revision to offer to a server that has refused another one with an error about versions, and has named no other one in
#: that error.
WIDESPREAD_LEGACY = JUNE_2025
#: The revision of an HTTP request that names none (HDR-03).
DEFAULT_HTTP = MARCH_2025
_BY_NAME: Dict[str, Revision] = {revision.name: revision for revision in REVISIONS}


def find_revision(name: object) -> Optional[Revision]:
    """Return the revision with this name; None if it is not in the table."""
    return _BY_NAME.get(name) if isinstance(name, str) else None
