"""Tasks in RQ: ``ServerOptions(tasks=RQTasks(queue, "shop:mcp"))`` has the workers of a queue run them."""

import importlib
from typing import Any, Callable

from ..errors import RegistrationError
from ..tasks.server_tasks import QueueRunner

__all__ = ["RQTasks"]


class RQTasks(QueueRunner):
    """Hands the tasks of a server to the workers of an RQ queue.

    :param queue: the ``rq.Queue``.
    :param server: where the workers find the server, as ``"module:name"``. It needs a backend that they can reach.
    :param options: for ``Queue.enqueue``, such as ``job_timeout=3600``: RQ ends a job after three minutes by default.
    :raises RegistrationError: *server* has another form.
    """

    def __init__(self, queue: Any, server: str, **options: Any) -> None:
        module, colon, name = server.partition(":")
        if not module or not colon or not name:
            raise RegistrationError(f"RQTasks needs the place of the server as 'module:name', not {server!r}")
        self._queue = queue
        self._server = server
        self._options = options

    def attach(self, run: Callable[[str], None], shared: bool) -> None:
        """Check the backend of the server.

        :raises RegistrationError: the workers cannot reach it.
        """
        if not shared:
            raise RegistrationError("RQTasks needs a backend that the workers reach: Server(backend='redis://...',"
                                    " state_keys=[...])")

    def submit(self, name: str, payload: str) -> object:
        # The result is in the server's backend, where clients look for it.
        options = {"result_ttl": 0, "description": f"{name} {payload}", **self._options}
        return self._queue.enqueue(run_task, self._server, payload, **options)


def run_task(server: str, payload: str) -> None:
    """Run a task, in a worker; this is the function of the jobs.

    :param server: where the server is, as ``"module:name"``.
    """
    module, _, name = server.partition(":")
    getattr(importlib.import_module(module), name).run_task(payload)
