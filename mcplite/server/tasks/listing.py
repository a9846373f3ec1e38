"""The text of a client's list of tasks, as it is stored.

A list begins with a line that has the time when the last of its tasks is over, and their bytes. Each further line is a task:
its id, when it is over, and its bytes. A task is added without reading the others, since a client may have a thousand.
"""

from typing import List, NamedTuple, Optional, Tuple

__all__ = ["ListedTask", "append_task", "latest_end", "listed_totals", "read_list", "write_list"]


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
