"""Tasks: calls of tools that go on when their client has left, in both generations of the protocol and on both sides."""

from typing import Any, Optional

from ..errors import RegistrationError
from ..types.lazy_dataclass import Record, record

__all__ = ["Tasks"]


@record(frozen=True)
class Tasks(Record):
    """How a server has tasks: ``Server("nightly", options=ServerOptions(tasks=Tasks(running=8, keep=24 * 3600)))``.

    :param runner: makes tasks run elsewhere, by ``submit(name, payload)``: ``CeleryTasks``, ``RQTasks``, or an object of yours
        whose job calls :meth:`Server.run_task`. By default they run on threads of this process.
    :param running: tasks that run at once in one process, each on a thread, apart from ``Limits.running``; further ones are
        queued. Default 32.
    :param queued: tasks that wait for such a thread; one more is refused. Default 4096.
    :param kept: tasks that are kept for one principal, or for one remote address without authentication. One more removes the
        oldest finished task; if none is finished, the new task is refused. Default 1000.
    :param keep: seconds for which a task is kept after its creation; a client may ask for less. Default 3600.
    :param bytes: bytes that all tasks take in one process: the arguments of the unfinished ones, records and results. If a new
        task needs more, the oldest finished task of the client with the most bytes is removed. With a shared backend, the
        records and results are stored there, and this bounds what the tasks of one client take there. By default a sixteenth of
        ``Limits.memory_bytes``.
    :param poll: seconds at most that clients are asked to wait between two looks at a task; for a young task it is half its
        age. Default 0.5.
    :raises RegistrationError: a limit is not positive.
    """

    runner: Any = None
    running: int = 32
    queued: int = 4096
    kept: int = 1000
    keep: float = 3600.0
    bytes: Optional[int] = None
    poll: float = 0.5

    def __post_init__(self) -> None:
        for name in ("running", "queued", "kept", "keep", "bytes", "poll"):
            value = getattr(self, name)
            if name == "bytes" and value is None:
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
                raise RegistrationError(f"Tasks: {name} must be positive, not {value!r}")
