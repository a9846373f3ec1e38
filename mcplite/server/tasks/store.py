"""Keeps tasks in the backend: a record, the call and the result of each, and a list for each client.

A record is changed by comparing and replacing, so that of a cancellation and a result that come at once one counts.
"""

import json
import re
import secrets
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...backend.interface import Backend
from ...errors import SERVER_BUSY, RemoteError
from ...protocol.state import digest
from .record import TaskCall, TaskRecord

__all__ = ["TaskStore"]

#: What :func:`secrets.token_urlsafe` makes of 24 bytes. Anything else is not looked up.
_ID = re.compile(r"[A-Za-z0-9_-]{32}")
#: Attempts to replace a value that other processes change at the same time.
_ATTEMPTS = 1000
#: Seconds between two attempts, after the first few.
_PAUSE_SECONDS = 0.002


class TaskStore:
    """The tasks of one server.

    :param backend: shared by the processes of the server, or the memory of this one.
    :param server: its name.
    :param most: how many tasks are kept for one client.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, backend: Backend, server: str, most: int, clock: Callable[[], float] = time.time) -> None:
        self.backend = backend
        self._server = server
        self._most = most
        self._clock = clock

    @staticmethod
    def new_id() -> str:
        """Return an id that cannot be guessed (TSK-42): the right to a task where there is no authentication."""
        return secrets.token_urlsafe(24)

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._clock()

    # --- one task ---------------------------------------------------------------------------------------

    def create(self, record: TaskRecord, call: TaskCall) -> None:
        """Store a new task.

        :raises RemoteError: the client has as many unfinished ones as it may.
        """
        self._enlist(record)
        self.backend.put(_key(record.id, "call"), call.dump(), record.ttl)
        self.backend.put(_key(record.id, "record"), record.dump(), record.ttl)

    def get(self, task_id: Any) -> Optional[TaskRecord]:
        """Return a task; None if there is none, or its time is over."""
        if not isinstance(task_id, str) or not _ID.fullmatch(task_id):
            return None
        data = self.backend.get(_key(task_id, "record"))
        record = None if data is None else TaskRecord.load(data)
        return record if record is not None and record.server == self._server and record.expires > self._clock() else None

    def change(self, task_id: str, change: Callable[[TaskRecord], bool]) -> Optional[TaskRecord]:
        """Change a task, and return it as it is then; None if there is none, or nothing was changed.

        :param change: changes the record that it gets, and returns whether it did; called again if another process was
            faster.
        """
        for attempt in range(_ATTEMPTS):
            data = self.backend.get(_key(task_id, "record"))
            if data is None:
                return None
            record = TaskRecord.load(data)
            left = record.expires - self._clock()
            if left <= 0 or not change(record):
                return None
            record.updated = self._clock()
            if self.backend.swap(_key(task_id, "record"), data, record.dump(), left):
                return record
            if attempt > 2:
                time.sleep(_PAUSE_SECONDS)
        raise RemoteError("Server busy: the task is being changed too often", code=SERVER_BUSY)

    def drop(self, record: TaskRecord) -> None:
        """Remove a task."""
        for part in ("record", "call", f"result-{record.run}"):
            self.backend.take(_key(record.id, part))
        self._replace_list(record, lambda data, now: _write_list(
            [item for item in _read_list(data, now) if item[0] != record.id]))

    def call(self, task_id: str) -> Optional[TaskCall]:
        """Return the call that became a task."""
        data = self.backend.get(_key(task_id, "call"))
        return None if data is None else TaskCall.load(data)

    def put_result(self, record: TaskRecord, result: Dict[str, Any]) -> None:
        """Store a result, before the record says that the task is completed.

        :raises TypeError, ValueError: it is not JSON.
        """
        text, left = json.dumps(result, separators=(",", ":"), allow_nan=False), record.expires - self._clock()
        self.backend.put(_key(record.id, f"result-{record.run}"), text.encode("ascii"), max(1.0, left))

    def result(self, record: TaskRecord) -> Optional[Dict[str, Any]]:
        """Return the result of a completed task."""
        data = self.backend.get(_key(record.id, f"result-{record.run}"))
        found: Optional[Dict[str, Any]] = None if data is None else json.loads(data)
        return found

    def claim(self, record: TaskRecord, key: str) -> bool:
        """Whether the caller is the one to send a question to the client; the others get False until :meth:`release`."""
        left = max(1.0, record.expires - self._clock())
        return self.backend.swap(_key(record.id, f"claim-{digest(key)}"), None, b"1", left)

    def release(self, record: TaskRecord, key: str) -> None:
        """Let another caller send the question."""
        self.backend.take(_key(record.id, f"claim-{digest(key)}"))

    # --- the tasks of one client ------------------------------------------------------------------------------

    def list(self, owner: str) -> List[str]:
        """Return the ids of the tasks of a principal, oldest first; some may be gone."""
        return [item for item, _ in _read_list(self.backend.get(self._list_key(owner, "")), self._clock())]

    def _enlist(self, record: TaskRecord) -> None:
        def add(data: Optional[bytes], now: float) -> bytes:
            if data is not None and data.count(b"\n") <= self._most:
                return _append(data, record)  # what is over stays in it until there is no more room
            listed = _read_list(data, now)
            if len(listed) >= self._most:
                listed = self._make_room(listed)
            return _write_list([*listed, (record.id, record.expires)])

        self._replace_list(record, add)

    def _make_room(self, listed: List[Tuple[str, float]]) -> List[Tuple[str, float]]:
        """Return the list without its oldest task that is finished, which is removed."""
        for item in listed:
            found = self.get(item[0])
            if found is None or found.finished:
                for part in ("record", "call", *(() if found is None else (f"result-{found.run}",))):
                    self.backend.take(_key(item[0], part))
                return [other for other in listed if other is not item]
        raise RemoteError(f"Server busy: you have {self._most} unfinished tasks, which is the most; wait for one, or cancel"
                          " one", code=SERVER_BUSY)

    def _replace_list(self, record: TaskRecord, change: Callable[[Optional[bytes], float], bytes]) -> None:
        key = self._list_key(record.owner, record.sender)
        for attempt in range(_ATTEMPTS):
            data, now = self.backend.get(key), self._clock()
            changed = change(data, now)
            if self.backend.swap(key, data, changed, max(1.0, _latest(changed) - now)):
                return
            if attempt > 2:
                time.sleep(_PAUSE_SECONDS)
        raise RemoteError("Server busy: the list of tasks is being changed too often", code=SERVER_BUSY)

    def _list_key(self, owner: Optional[str], sender: str) -> str:
        return f"tasks-{digest([self._server, owner, '' if owner is not None else sender])}/list"


def _key(task_id: str, part: str) -> str:
    return f"task-{task_id}/{part}"


# A list of tasks is a line with the time when the last of them is over, and one for each: its id, and when it is over. A task
# is added without reading the others, since a client may have a thousand.


def _read_list(data: Optional[bytes], now: float) -> List[Tuple[str, float]]:
    """Return the tasks of a list that are not over."""
    lines = [] if data is None else data.decode("ascii").splitlines()[1:]
    listed = [(id, float(until)) for id, until in (line.split(" ") for line in lines)]
    return [item for item in listed if item[1] > now]


def _write_list(listed: List[Tuple[str, float]]) -> bytes:
    latest = max((until for _, until in listed), default=0.0)
    return "".join([f"{latest!r}\n", *(f"{id} {until!r}\n" for id, until in listed)]).encode("ascii")


def _append(data: bytes, record: TaskRecord) -> bytes:
    line = f"{record.id} {record.expires!r}\n".encode("ascii")
    if record.expires <= _latest(data):
        return data + line
    return f"{record.expires!r}\n".encode("ascii") + data[data.index(b"\n") + 1:] + line


def _latest(data: bytes) -> float:
    return float(data[:data.index(b"\n")])
