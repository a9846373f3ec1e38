"""Tasks in Celery: ``ServerOptions(tasks=CeleryTasks(app))`` has the workers of a Celery application run them."""

from typing import Any, Callable

from ..errors import RegistrationError
from ..tasks.server_tasks import QueueRunner

__all__ = ["CeleryTasks"]


class CeleryTasks(QueueRunner):
    """Hands the tasks of a server to Celery.

    The workers have to import the module of the server, since this registers a task in the application. The server needs a
    backend that the workers can reach.

    :param app: the ``celery.Celery``.
    :param name: of the task in the application.
    :param options: for ``apply_async``, such as ``queue="slow"``.
    """

    def __init__(self, app: Any, name: str = "mcplite.run_task", **options: Any) -> None:
        self._app = app
        self._name = name
        self._options = options

    def attach(self, run: Callable[[str], None], shared: bool) -> None:
        """Register the task.

        :raises RegistrationError: the workers cannot reach the server's backend.
        """
        if not shared:
            raise RegistrationError("CeleryTasks needs a backend that the workers reach: Server(backend='redis://...',"
                                    " state_keys=[...])")

        def run_task(payload: str) -> None:
            run(payload)

        # The result is in the server's backend, where clients look for it.
        self._app.task(run_task, name=self._name, ignore_result=True)

    def submit(self, name: str, payload: str) -> object:
        return self._app.send_task(self._name, args=[payload], ignore_result=True, **self._options)
