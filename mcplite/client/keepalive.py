"""Pings while nothing else is said, for whoever wants to know early that a server is gone."""

import logging
import threading
from typing import TYPE_CHECKING

from ..errors import ConnectionClosed, MCPError, RemoteError, RequestTimeout

if TYPE_CHECKING:
    from .client import Client

__all__ = ["KeepAlive"]

_log = logging.getLogger(__name__)


class KeepAlive:
    """One daemon thread that pings an open client.

    It is started when the client was opened, ended by :meth:`stop`, by the end of the connection or by a
    ping without an answer, and blocks on its interval and on the ping.

    :param client: to ping.
    :param interval: seconds without traffic before a ping.
    :param timeout: seconds for its answer (PING-06).
    """

    def __init__(self, client: "Client", interval: float, timeout: float) -> None:
        self._client = client
        self._interval = interval
        self._timeout = timeout
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mcplite keep-alive", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()

    def _run(self) -> None:
        received = self._client.counters.messages_received
        while not self._stop.wait(self._interval):
            now = self._client.counters.messages_received
            if now != received:
                received = now  # PING-07: other traffic has shown that the server is there
                continue
            try:
                self._client.ping(timeout=self._timeout)
            except RemoteError as error:
                _log.debug("a ping was answered with an error, which is an answer too: %s", error)
            except MCPError as error:
                cause: Exception = error
                if isinstance(error, RequestTimeout):
                    cause = ConnectionClosed(
                        f"the server did not answer a ping within {self._timeout:g} s, so the connection was closed")
                # A connection that ended by itself has a cause of its own, which is the one to report.
                if not self._stop.is_set() and self._client.state == "open":
                    _log.warning("a ping failed, so the connection is closed: %s", error)
                    self._client.fail(cause)
                return
            received = self._client.counters.messages_received
