"""A logging handler that forwards Python log records to the client.

:meth:`Server.logging_handler` loads it.
"""

import contextlib
import logging

from ...errors import MCPError
from ..runtime.runtime import Runtime
from .context import CURRENT

__all__ = ["ClientLogHandler", "level_name"]


def level_name(number: int) -> str:
    """Return the protocol's level for a level of Python's logging (LOG-02)."""
    if number >= logging.CRITICAL:
        return "critical"
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


class ClientLogHandler(logging.Handler):
    """Sends records to the client of the present request, or outside of a request to every client.

    Authenticated clients get no records from outside of a request, since these may be about another client's request, and
    quote its token.

    Records of this package's own loggers are left out: forwarding one may cause the next.

    :param runtime: of the server.
    :param level: as for every ``logging.Handler``.
    """

    def __init__(self, runtime: Runtime, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._runtime = runtime
        self._own = __name__.rpartition(".server.")[0]

    def emit(self, record: logging.LogRecord) -> None:
        """Forward one record; a client that has disconnected is not an error."""
        if record.name == self._own or record.name.startswith(self._own + "."):
            return
        try:
            level, text = level_name(record.levelno), self.format(record)
            context = CURRENT.get()
            if context is not None:
                context.log(level, text, record.name)
                return
            for session in self._runtime.sessions:
                if session.principal is None:
                    with contextlib.suppress(MCPError):  # it has disconnected; the others get the record
                        session.log(level, text, record.name)
        except MCPError:
            return  # cancelled or disconnected
        except Exception:
            self.handleError(record)
