"""What is stored of a task: its record, and the call that another process needs to run it.

The call has the arguments, the client, and the time for which the task is kept. The views of a record in both generations of
the protocol are made here, so that each process answers alike.
"""

import json
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Union

from ..errors import InvalidParams
from ..protocol.jsonrpc import encode_json, object_of
from ..revisions import Revision
from ..server.catalog.registry import ProvidedEntry, ToolEntry
from ..server.handling.context import RequestContext
from ..server.principals import principal_members
from ..types import codec
from ..types.lazy_dataclass import from_members
from ..types.tasks import COMPLETED, FAILED, TERMINAL, WORKING, DetailedTask

__all__ = ["Entry", "TaskCall", "TaskRecord", "call_of", "dump_json", "error_members", "lifetime", "timestamp"]

#: The poll interval that a client is given is this part of the age of the task, but at least ``_SOONEST_POLL`` seconds and at
#: most ``Tasks.poll``. So a client soon sees that a short task has ended, and does not poll a long task often.
_SOONEST_POLL, _POLL_SHARE = 0.01, 0.5
#: The most characters of a status message: it may be shown to a person on one line.
_MOST_MESSAGE = 500


def timestamp(seconds: float) -> str:
    """Return a time, in seconds since 1970, as ISO 8601 with milliseconds."""
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1000):03d}Z"


def error_members(code: int, message: str, data: Any) -> Dict[str, Any]:
    """Return a JSON-RPC error as an object."""
    return {"code": code, "message": message} if data is None else {"code": code, "message": message, "data": data}


@dataclass
class TaskCall:
    """The call that became a task, as plain JSON: what a process needs to run it.

    :param arguments: of the tool.
    :param declared: the users' answers to the declared questions, by parameter; they were asked before the task existed.
    :param meta: the ``_meta`` of the request, without the members that the protocol defines.
    :param capabilities: of the client, in the form of *revision*; *info* is its name and version.
    :param principal: the members of the authenticated sender; None without authentication.
    """

    tool: str
    revision: str
    arguments: Dict[str, Any]
    declared: Dict[str, Any]
    meta: Dict[str, Any]
    capabilities: Dict[str, Any]
    info: Optional[Dict[str, Any]]
    principal: Optional[Dict[str, Any]]

    def dump(self) -> bytes:
        return dump_json(vars(self))

    @classmethod
    def load(cls, data: bytes) -> "TaskCall":
        return from_members(cls, json.loads(data))


@dataclass
class TaskRecord:
    """One task, without its result: that is stored by itself, since it may be large and the record changes often.

    :param server: the name of the server, since several may share a backend.
    :param owner: the key of the principal that may use the task; None without authentication.
    :param sender: the sender of the call.
    :param revision: the name of the revision in which the result and the questions are encoded.
    :param created: seconds since 1970, as is *updated*.
    :param ttl: seconds for which the task is kept, from its creation.
    :param poll: the most seconds that its clients are asked to wait between two looks.
    :param askable: whether questions can reach the client.
    """

    id: str
    server: str
    tool: str
    owner: Optional[str]
    sender: str
    revision: str
    created: float
    updated: float
    ttl: float
    poll: float
    restartable: bool = False
    askable: bool = True
    status: str = WORKING
    message: Optional[str] = None
    #: Whether the tool answered with an ``isError`` result: in November 2025 that is a failed task (TSK-38).
    is_error: bool = False
    #: The JSON-RPC error of a failed task.
    error: Optional[Dict[str, Any]] = None
    #: The questions that have no answer yet, by key: ``method`` and ``params``.
    inputs: Dict[str, Any] = field(default_factory=dict)
    #: By key: a digest of each question that was ever asked, and the answers: ``{"result": ...}`` or ``{"error": ...}``.
    asked: Dict[str, str] = field(default_factory=dict)
    answers: Dict[str, Any] = field(default_factory=dict)
    #: The results of ``ctx.once``, for a run that begins again.
    once: Dict[str, Any] = field(default_factory=dict)
    #: The number of the process that runs the task; 0 while no process runs it, and always if the backend is not shared.
    process: int = 0
    #: How often the task was begun. A run with a lower number has lost the task to a later run.
    run: int = 0
    #: The bytes that are stored beside the record: of the call while it is needed, and of the result.
    call_bytes: int = 0
    result_bytes: int = 0
    #: The bytes that the list of the client notes for the task, in steps; 0 if the backend is not shared.
    listed: int = 0

    def dump(self) -> bytes:
        return dump_json(vars(self))

    @classmethod
    def load(cls, data: bytes) -> "TaskRecord":
        return from_members(cls, json.loads(data))

    @property
    def finished(self) -> bool:
        """Whether the status is final."""
        return self.status in TERMINAL

    @property
    def expires(self) -> float:
        """The end of its lifetime, in seconds since 1970."""
        return self.created + self.ttl

    @property
    def client(self) -> str:
        """The client that the task counts to in limits: the principal, or without authentication the sender."""
        return self.sender if self.owner is None else self.owner

    def say(self, message: Optional[str]) -> None:
        """Set the text about the present status."""
        self.message = message if message is None or len(message) <= _MOST_MESSAGE else message[:_MOST_MESSAGE - 1] + "…"

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """End it with a JSON-RPC error."""
        self.error = error_members(code, message, data)
        self.end(FAILED, message)

    def end(self, status: str, message: Optional[str]) -> None:
        """Set the final status, and drop what only a run needs: the questions, the answers and the results of ``ctx.once``."""
        self.status, self.inputs, self.asked, self.answers, self.once = status, {}, {}, {}, {}
        self.say(message)

    def view(self, revision: Revision, now: Optional[float] = None) -> DetailedTask:
        """Return the task as a client of *revision* sees it, without its result.

        :param now: seconds since 1970, for the age of an unfinished task; by default the time of its last change.
        """
        age = (self.updated if now is None or self.finished else now) - self.created
        poll = min(self.poll, max(_SOONEST_POLL, age * _POLL_SHARE))
        failed = self.status == COMPLETED and self.is_error and not revision.modern
        return DetailedTask(
            self.id, FAILED if failed else self.status, timestamp(self.created), timestamp(self.updated),
            round(self.ttl * 1000), round(poll * 1000), self.message, input_requests=dict(self.inputs) or None)


def dump_json(value: Any) -> bytes:
    """Return a value as compact JSON in UTF-8, with lone surrogates as escapes.

    :raises TypeError, ValueError: it is not JSON.
    """
    return encode_json(value).encode("utf-8", "backslashreplace")


#: The tool that is called.
Entry = Union[ToolEntry, ProvidedEntry]


def lifetime(context: RequestContext, most: float) -> float:
    """Return for how many seconds a task is kept: as many as its client asks for, but at most *most*.

    :param most: the seconds for which the server keeps a task; returned if the client does not ask, or cannot.
    :raises InvalidParams: the client asks for something that is not valid.
    """
    wanted = object_of(context.params.get("task")) if not context.session.revision.modern else None
    ttl = wanted.get("ttl") if isinstance(wanted, dict) else None
    if wanted is not None and not isinstance(wanted, dict):
        raise InvalidParams("params.task must be an object")
    if ttl is None:
        return most
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl < 1e15:
        raise InvalidParams("params.task.ttl must be a positive number of milliseconds")
    return min(most, ttl / 1000)


def call_of(context: RequestContext, entry: Entry, arguments: Dict[str, Any], declared: Dict[str, Any]) -> TaskCall:
    """Return what is stored of a call that becomes a task.

    :param declared: the answers to the declared questions, by name.
    """
    session, revision, info = context.session, context.session.revision, context.session.client_info
    return TaskCall(
        entry.name, revision.name, arguments, declared,
        {key: value for key, value in context.meta.items() if not key.startswith("io.modelcontextprotocol/")},
        codec.encode(session.client_capabilities, revision), None if info is None else codec.encode(info, revision),
        principal_members(context.principal))
