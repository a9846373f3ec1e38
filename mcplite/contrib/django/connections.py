"""Database connections around handlers: Django closes old and broken ones around a request, on its own thread only.

A module of its own because views and the command use it.
"""

import threading
from typing import Any, Callable, Optional

from ...server.handling.http_request import Around

__all__ = ["close_around"]


def close_around(thread: Optional[int] = None) -> Around:
    """Return a function that runs a handler, and closes old and broken database connections of its thread before and after.

    :param thread: the thread of a request of Django. On this thread, Django itself closes old connections, and the function
        closes broken ones only.
    """

    def around(run: Callable[[], Any]) -> Any:
        from django.db import close_old_connections

        own = threading.get_ident() != thread
        if own:
            close_old_connections()
        try:
            return run()
        finally:
            _close_broken()
            if own:
                close_old_connections()

    return around


def _close_broken() -> None:
    """Close each connection that has raised an error.

    Django keeps such a connection if it says that it is still usable, and a connection of SQLite always says so. A new
    connection costs less than another call that fails. A connection inside of a transaction, as in a TestCase, stays open.
    """
    from django.db import connections

    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close()
