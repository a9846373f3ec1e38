"""Keeps tasks in the backend: a record, the call and the result of each, and a list for each client.

A record is changed by comparing and replacing: of a cancellation and a result that come at once, one counts.

Two bounds in bytes hold. A :class:`TaskBudget` counts what tasks take in the memory of this process, with a share for each
client: the arguments that a run holds, and the stored parts if the store is this memory. In a store that processes share, the
list of each client bounds that client's tasks. The first line of a list has the time when its last task is over, and the bytes
of all; each further line has a task's id, when it is over, and its bytes. So a task is added without a look at the others,
of which a client may have a thousand.
"""

import json
import re
import secrets
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..backend.interface import Backend
from ..errors import INTERNAL_ERROR, SERVER_BUSY, RemoteError
from ..protocol.opaque import digest
from ..rpc.deadline import undo
from ..server.eviction import Shares
from . import Tasks
from .task_record import TaskCall, TaskRecord, dump_json

__all__ = ["ListedTask", "TaskBudget", "TaskStore", "append_task", "latest_end", "listed_totals", "read_list", "write_list"]


class ListedTask(NamedTuple):
    """One task of a list.

    :param expires: seconds since 1970.
    :param size: the bytes that are stored of it, roughly.
    """

    id: str
    expires: float
    size: int


def read_list(data: Optional[bytes], now: float) -> List[ListedTask]:
    """Return the tasks of a list that are not over."""
    lines = [] if data is None else data.decode("ascii").splitlines()[1:]
    listed = [ListedTask(id, float(expires), int(size)) for id, expires, size in (line.split(" ") for line in lines)]
    return [task for task in listed if task.expires > now]


def write_list(listed: List[ListedTask]) -> bytes:
    """Return the text of a list."""
    latest = max((task.expires for task in listed), default=0.0)
    lines = [f"{task.id} {task.expires!r} {task.size}\n" for task in listed]
    return "".join([f"{latest!r} {sum(task.size for task in listed)}\n", *lines]).encode("ascii")


def append_task(data: bytes, task: ListedTask) -> bytes:
    """Return a list with one more task; what is over stays in it."""
    latest, total = _head(data)
    head = f"{max(latest, task.expires)!r} {total + task.size}\n".encode("ascii")
    return head + data[data.index(b"\n") + 1:] + f"{task.id} {task.expires!r} {task.size}\n".encode("ascii")


def listed_totals(data: bytes) -> Tuple[int, int]:
    """Return the number of the tasks in a list and their bytes, with those that are over."""
    return data.count(b"\n") - 1, _head(data)[1]


def latest_end(data: bytes) -> float:
    """Return when the last task of a list is over."""
    return _head(data)[0]


def _head(data: bytes) -> Tuple[float, int]:
    latest, total = data[:data.index(b"\n")].split(b" ")
    return float(latest), int(total)


#: Bytes that the entries of a task take besides what is stored: its keys, its place in a list and here.
_ENTRY_BYTES = 1024
#: Seconds between two searches for tasks whose time is over.
_SWEEP_SECONDS = 1.0


@dataclass
class _CountedTask:
    held: int
    stored: int
    finished: bool
    expires: float

    @property
    def size(self) -> int:
        return self.held + self.stored + _ENTRY_BYTES


class TaskBudget:
    """The tasks that take memory in this process.

    A finished task is idle, so the oldest of them goes first, of the client with the most. One that is not finished goes
    only for another client, from one that has a quarter of all bytes or more.

    :param most: bytes of all tasks together.
    :param in_memory: whether what is stored lies in the memory of this process.
    :param evict: ends a task that has to go; called with its id, without a lock held.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, most: int, in_memory: bool, evict: Callable[[str], object],
                 clock: Callable[[], float] = time.time) -> None:
        self._most = most
        self._in_memory = in_memory
        self._evict = evict
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Count no tasks yet, as in a forked process, which has its own."""
        #: Without a lock: each change is one step in C.
        self._counted: Dict[str, _CountedTask] = {}
        self._shares: "Shares[str]" = Shares(sys.maxsize, self._most, busy=self._unfinished)
        self._swept = self._clock()

    @property
    def bytes(self) -> int:
        """The bytes of all tasks."""
        return self._shares.bytes

    def add(self, task: TaskRecord, held: int, stored: int) -> bool:
        """Count a task; False if there is no room for it.

        :param held: bytes that its run holds.
        :param stored: bytes that are stored of it.
        """
        self._sweep()
        self.remove(task.id)
        counted = _CountedTask(held, stored if self._in_memory else 0, task.finished, task.expires)
        self._counted[task.id] = counted
        going = self._shares.add(task.id, task.client, counted.size)
        if going is None:
            del self._counted[task.id]
            return False
        self._evict_all(going)
        return True

    def count(self, task: TaskRecord, stored: int) -> bool:
        """Set the bytes that are stored of a task; False if there is no room for them: then it is not counted any more."""
        if not self._in_memory:
            return True
        counted = self._counted.get(task.id)
        if counted is None:
            return self.add(task, 0, stored)
        counted.stored, counted.finished = stored, task.finished
        going = [task.id] if counted.size > self._most else self._shares.resize(task.id, counted.size)
        self._evict_all([other for other in going if other != task.id])
        if task.id in going:
            self.remove(task.id)
        return task.id not in going

    def release(self, task_id: str) -> None:
        """Note that the run of a task has ended: it holds nothing any more."""
        counted = self._counted.get(task_id)
        if counted is None:
            return
        counted.held = 0
        if self._in_memory:
            self._shares.resize(task_id, counted.size)
        else:
            self.remove(task_id)

    def remove(self, task_id: str) -> None:
        """Note that a task is gone."""
        self._shares.remove(task_id)
        self._counted.pop(task_id, None)

    def _unfinished(self, task_id: str) -> bool:
        counted = self._counted.get(task_id)
        return counted is not None and not counted.finished

    def _evict_all(self, going: List[str]) -> None:
        for task_id in going:
            self._counted.pop(task_id, None)
            self._evict(task_id)

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept < _SWEEP_SECONDS:
            return
        self._swept = now
        for task_id, counted in list(self._counted.items()):
            if counted.expires <= now and not counted.held:
                self.remove(task_id)


#: What :func:`secrets.token_urlsafe` makes of 24 bytes. Anything else is not looked up.
_ID = re.compile(r"[A-Za-z0-9_-]{32}")
#: Attempts to replace a value that other processes change at the same time.
_ATTEMPTS = 1000
#: Seconds between two attempts, after the first few.
_PAUSE_SECONDS = 0.002
#: The steps in which a list notes the bytes of a task, so that few changes of a task are changes of the list as well.
_LISTED_STEP = 4096


class TaskStore:
    """The tasks of one server.

    :param backend: shared by the processes of the server, or the memory of this one.
    :param server: its name.
    :param settings: how many tasks are kept for one client, and how many bytes, which are given here.
    :param evict: called with the id of a task that has to go for another one, and may run; it is
        ``ServerTasks._make_way``. By default that task is dropped.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, backend: Backend, server: str, settings: Tasks, evict: Optional[Callable[[str], object]] = None,
                 clock: Callable[[], float] = time.time) -> None:
        self.backend = backend
        self._server = server
        self._most = settings.kept
        assert settings.bytes is not None, "the server has put a share of its memory there"
        self.most_bytes = settings.bytes
        #: The bytes that a client's list may note; one in the memory of this process is bounded by the budget.
        self._most_listed = settings.bytes if backend.shared else sys.maxsize
        self._clock = clock
        #: What the tasks take of this process.
        self.budget = TaskBudget(settings.bytes, not backend.shared, evict or self._drop_found, clock)

    @staticmethod
    def new_id() -> str:
        """Return an id that cannot be guessed (TSK-42): the right to a task where there is no authentication."""
        return secrets.token_urlsafe(24)

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._clock()

    # --- one task ---------------------------------------------------------------------------------------

    def create(self, record: TaskRecord, call: Optional[TaskCall], held: int = 0) -> None:
        """Store a new task.

        :param call: None if no other process, and no later run, needs it.
        :param held: bytes that its run holds in this process.
        :raises RemoteError: the client has as many unfinished ones as it may, or they take as many bytes.
        """
        text = b"" if call is None else call.dump()
        record.call_bytes = len(text)
        size, data = self._measure(record)
        if not self.budget.add(record, held, size):
            raise RemoteError("Server busy: unfinished tasks take the bytes that are kept for tasks; wait for one, or cancel"
                              " one", code=SERVER_BUSY)
        with undo(lambda: self.budget.remove(record.id)):
            self._enlist(record)
            if call is not None:
                self.backend.put(_key(record.id, "call"), text, record.ttl)
            self.backend.put(_key(record.id, "record"), data, record.ttl)

    def _measure(self, record: TaskRecord) -> Tuple[int, bytes]:
        """Note in a record what its list should say of its bytes; return them, and the record as it is stored."""
        data = record.dump()
        size = len(data) + record.call_bytes + record.result_bytes
        listed = -(-size // _LISTED_STEP) * _LISTED_STEP
        if self.backend.shared and listed != record.listed:
            record.listed = listed
            data = record.dump()
        return size, data

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
            had_call, listed = record.call_bytes, record.listed
            if record.finished:
                record.call_bytes = 0
            size, changed = self._measure(record)
            if self.backend.swap(_key(task_id, "record"), data, changed, left):
                if had_call and record.finished:
                    self.backend.take(_key(task_id, "call"))
                fits = record.listed == listed or self._relist(record)
                return record if self.budget.count(record, size) and fits else self._end_too_large(record)
            if attempt > 2:
                time.sleep(_PAUSE_SECONDS)
        raise RemoteError("Server busy: the task is being changed too often", code=SERVER_BUSY)

    def _end_too_large(self, record: TaskRecord) -> Optional[TaskRecord]:
        """End a task whose record has grown too large; if it is small, there is no room for any."""
        if record.call_bytes + record.result_bytes + len(record.dump()) <= _LISTED_STEP:
            self.drop(record)
            return None

        def fail(found: TaskRecord) -> bool:
            found.result_bytes = 0
            found.fail(INTERNAL_ERROR, "the task was ended: its questions, answers, results and errors take more bytes than"
                                       " the server keeps for tasks (Tasks.bytes)")
            return True

        self.backend.take(_key(record.id, f"result-{record.run}"))
        return self.change(record.id, fail)

    def drop(self, record: TaskRecord) -> None:
        """Remove a task."""
        self._take_parts(record.id, record)
        self._replace_list(record, lambda data, now: write_list(
            [task for task in read_list(data, now) if task.id != record.id]))

    def _drop_found(self, task_id: str) -> None:
        record = self.get(task_id)
        if record is not None:
            self.drop(record)

    def _take_parts(self, task_id: str, record: Optional[TaskRecord]) -> None:
        for part in ("record", "call", *(() if record is None else (f"result-{record.run}",))):
            self.backend.take(_key(task_id, part))
        self.budget.remove(task_id)

    def call(self, task_id: str, last: bool = False) -> Optional[TaskCall]:
        """Return the call that became a task.

        :param last: whether no other run needs it, so that it is removed.
        """
        data = (self.backend.take if last else self.backend.get)(_key(task_id, "call"))
        return None if data is None else TaskCall.load(data)

    def put_result(self, record: TaskRecord, result: Dict[str, Any]) -> bool:
        """Store a result, before the record says that the task is completed; False if there is no room for it.

        :param record: gets the bytes, for the record that says so.
        :raises TypeError, ValueError: it is not JSON.
        """
        data, left = dump_json(result), record.expires - self._clock()
        before, record.result_bytes, record.call_bytes = record.listed, len(data), 0
        size, _ = self._measure(record)
        if not self.budget.count(record, size) or (record.listed != before and not self._relist(record)):
            return False
        self.backend.put(_key(record.id, f"result-{record.run}"), data, max(1.0, left))
        return True

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
        return [task.id for task in read_list(self.backend.get(self._list_key(owner, "")), self._clock())]

    def _enlist(self, record: TaskRecord) -> None:
        new = ListedTask(record.id, record.expires, record.listed)

        def add(data: Optional[bytes], now: float) -> bytes:
            if data is not None:
                number, total = listed_totals(data)
                if number < self._most and total + new.size <= self._most_listed:
                    return append_task(data, new)  # what is over stays in it until there is no more room
            return write_list([*self._make_room(read_list(data, now), new), new])

        self._replace_list(record, add)

    def _relist(self, record: TaskRecord) -> bool:
        """Note the bytes of a task in its client's list; False if the list has no room for them."""
        new = ListedTask(record.id, record.expires, record.listed)

        def replace(data: Optional[bytes], now: float) -> Optional[bytes]:
            listed = read_list(data, now)
            others = [task for task in listed if task.id != record.id]
            if len(others) == len(listed):
                return None  # it was dropped
            grown = any(task.id == record.id and task.size < new.size for task in listed)
            kept = {record.id, *(task.id for task in (self._make_room(others, new) if grown else others))}
            return write_list([new if task.id == record.id else task for task in listed if task.id in kept])

        try:
            self._replace_list(record, replace)
        except RemoteError:
            return False
        return True

    def _make_room(self, listed: List[ListedTask], new: ListedTask) -> List[ListedTask]:
        """Return the list without its oldest tasks that are finished, as many as have to go; they are removed.

        :raises RemoteError: that is not enough.
        """
        left, total = len(listed), new.size + sum(task.size for task in listed)
        going: Dict[str, Optional[TaskRecord]] = {}
        for task in listed:
            if left < self._most and total <= self._most_listed or new.size > self._most_listed:
                break
            found = self.get(task.id)
            if found is None or found.finished:
                left, total = left - 1, total - task.size
                going[task.id] = found
        if left >= self._most:
            raise RemoteError(f"Server busy: you have {self._most} unfinished tasks, which is the most; wait for one, or cancel"
                              " one", code=SERVER_BUSY)
        if total > self._most_listed:
            raise RemoteError("Server busy: your unfinished tasks take the bytes that are kept for you; wait for one, or"
                              " cancel one", code=SERVER_BUSY)
        for task_id, found in going.items():
            self._take_parts(task_id, found)
        return [task for task in listed if task.id not in going]

    def _replace_list(self, record: TaskRecord, change: Callable[[Optional[bytes], float], Optional[bytes]]) -> None:
        key = self._list_key(record.owner, record.sender)
        for attempt in range(_ATTEMPTS):
            data, now = self.backend.get(key), self._clock()
            changed = change(data, now)
            if changed is None or self.backend.swap(key, data, changed, max(1.0, latest_end(changed) - now)):
                return
            if attempt > 2:
                time.sleep(_PAUSE_SECONDS)
        raise RemoteError("Server busy: the list of tasks is being changed too often", code=SERVER_BUSY)

    def _list_key(self, owner: Optional[str], sender: str) -> str:
        return f"tasks-{digest([self._server, owner, '' if owner is not None else sender])}/list"


def _key(task_id: str, part: str) -> str:
    return f"task-{task_id}/{part}"
