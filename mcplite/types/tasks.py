"""Tasks: requests that go on when their client has left, in both generations of the protocol.

In November 2025 they are a part of the protocol that either side may offer, from July 2026 on an extension for the tools of
servers. The classes have the names of July 2026, and the codec writes and reads the members of either.

Not among the names of ``mcplite.types``, since most programs have no tasks.
"""

from typing import Any, Dict, List, Mapping, Optional

from ..revisions import JULY_2026, TASKS_EXTENSION, Revision
from .codec import Model
from .lazy_dataclass import record, wire
from .lifecycle import ServerCapabilities

__all__ = [
    "CANCELLED", "COMPLETED", "CreateTaskResult", "DetailedTask", "FAILED", "IMMEDIATE_RESPONSE", "INPUT_REQUIRED",
    "ListTasksResult", "RELATED_TASK", "TASK_IDS", "TASKS_EXTENSION", "TERMINAL", "WORKING", "related_task",
    "runs_tool_tasks",
]

#: The key in ``_meta`` of a message that belongs to a task, in November 2025.
RELATED_TASK = "io.modelcontextprotocol/related-task"
#: The key in ``_meta`` of a :class:`CreateTaskResult` for a text that the model gets while the task runs (TSK-47).
IMMEDIATE_RESPONSE = "io.modelcontextprotocol/model-immediate-response"
#: The member of the filter of ``subscriptions/listen`` that lists the tasks to hear of.
TASK_IDS = "taskIds"

WORKING, INPUT_REQUIRED = "working", "input_required"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"
#: The statuses that are final (TSK-17).
TERMINAL = frozenset({COMPLETED, FAILED, CANCELLED})

#: The members of a task in November 2025, and what they are called since.
_RENAMED = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}


def related_task(task_id: str) -> Dict[str, Any]:
    """Return the members of ``_meta`` that say which task a message belongs to (TSK-24)."""
    return {RELATED_TASK: {"taskId": task_id}}


def runs_tool_tasks(capabilities: ServerCapabilities, revision: Revision) -> bool:
    """Whether a server of these capabilities runs tools as tasks."""
    if revision.modern:
        return TASKS_EXTENSION in (capabilities.extensions or {})
    requests = (capabilities.tasks or {}).get("requests") or {}
    tools = requests.get("tools") if isinstance(requests, dict) else None
    return bool(revision.task_requests) and isinstance(tools, dict) and tools.get("call") is not None


def _finish_task(revision: Revision, state: Mapping[str, Any], out: Dict[str, Any]) -> None:
    out.setdefault("ttlMs", None)  # null is a value of its own: the task is kept without limit
    if not revision.modern:
        for old, new in _RENAMED.items():
            if new in out:
                out[old] = out.pop(new)


def _adapt_task(wire: Dict[str, Any]) -> Dict[str, Any]:
    if not any(old in wire for old in _RENAMED):
        return wire
    # The new name counts if a message has both; then the old one is a member that the class does not know.
    return {_RENAMED[name] if name in _RENAMED and _RENAMED[name] not in wire else name: value
            for name, value in wire.items()}


@record
class DetailedTask(Model):
    """The state of a task: the result of ``tasks/get``, and the params of the notifications about it.

    In November 2025 it is the result of ``tasks/cancel`` as well, and ``result``, ``error`` and ``input_requests`` do not
    exist: the result comes with ``tasks/result``, and questions come as requests.

    :param status: "working", "input_required", "completed", "failed" or "cancelled"; the last three are final.
    :param created_at: an ISO 8601 timestamp, as is ``last_updated_at``.
    :param ttl_ms: for how long after its creation the task is kept, in milliseconds; None without limit.
    :param poll_interval_ms: how long to wait between two requests for the status, in milliseconds.
    :param status_message: a text about the present status, for people and models.
    :param result: what the request would have returned, once the status is "completed".
    :param error: the JSON-RPC error, once the status is "failed": ``code``, ``message`` and ``data``.
    :param input_requests: the questions to answer with ``tasks/update``, by key, while the status is "input_required".
    """

    _finish = staticmethod(_finish_task)
    _meant = frozenset({"ttlMs"})  # None says that the task is kept without limit
    _adapt = staticmethod(_adapt_task)
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: Optional[int] = None
    poll_interval_ms: Optional[int] = None
    status_message: Optional[str] = None
    result: Optional[Dict[str, Any]] = wire(since=JULY_2026)
    error: Optional[Dict[str, Any]] = wire(since=JULY_2026)
    input_requests: Optional[Dict[str, Any]] = wire(since=JULY_2026)
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)

    @property
    def finished(self) -> bool:
        """Whether the status is final."""
        return self.status in TERMINAL


def _finish_creation(revision: Revision, state: Mapping[str, Any], out: Dict[str, Any]) -> None:
    if revision.modern:
        out.update(out.pop("task"))
        out["resultType"] = "task"


def _adapt_creation(wire: Dict[str, Any]) -> Dict[str, Any]:
    if "task" in wire or "taskId" not in wire:
        return wire
    members = {name: value for name, value in wire.items() if name not in ("_meta", "resultType")}
    return {name: value for name, value in (("task", members), ("_meta", wire.get("_meta"))) if value is not None}


@record
class CreateTaskResult(Model):
    """The response to a request that became a task; the result of the request comes later.

    In November 2025 the task is a member of the result, from July 2026 on the result is the task.
    """

    _finish = staticmethod(_finish_creation)
    _adapt = staticmethod(_adapt_creation)
    task: DetailedTask
    meta: Optional[Dict[str, Any]] = wire("_meta")

    @staticmethod
    def describes(result: Any) -> bool:
        """Whether the result of a request, as on the wire, says that the request became a task."""
        return isinstance(result, dict) and (result.get("resultType") == "task" or "task" in result and "content" not in result)


@record
class ListTasksResult(Model):
    """One page of tasks (TSK-34); November 2025 alone has the list."""

    tasks: List[DetailedTask] = wire(factory=list)
    next_cursor: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")
