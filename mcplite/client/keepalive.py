"""KeepAlive: pings an idle server, so that a client notices early when it is gone.

A client with ``ping_interval`` starts one; it ends with the client.
"""

from __future__ import annotations

import threading
from typing import Callable, Optional

from ..errors import ConnectionClosed, MCPError, RemoteError, RequestTimeout
from ..rpc.threads import start_thread
from ..rpc.tracing import FaultLog, get_logger

__all__ = ["KeepAlive"]

_log = get_logger(__name__)


class KeepAlive:
    """One daemon thread that pings an open client.

    The client starts it once it is open. It ends with :meth:`stop`, with the connection, or after a ping without an
    answer. It blocks on its interval and on the ping.

    :param ping: sends a ping and waits for the answer.
    :param received: returns how many messages the server has sent so far.
    :param fail: called with the reason if a ping got no answer; closes the connection.
    :param interval: seconds without traffic before a ping.
    :param timeout: seconds that *ping* waits, for the text of the reason (PING-06).
    """

    def __init__(self, ping: Callable[[], object], received: Callable[[], int], fail: Callable[[Exception], object],
                 interval: float, timeout: float) -> None:
        self._ping = ping
        self._received = received
        self._fail = fail
        self._interval = interval
        self._timeout = timeout
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._faults = FaultLog(_log, self._stop.wait)

    def start(self) -> None:
        """Start the thread.

        :raises TransportError: the system has no thread for it.
        """
        self._thread = start_thread(self._run, "mcplite keep-alive")

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()

    def _run(self) -> None:
        self._faults.keep_running(self._ping_while_idle, "a ping could not be sent")

    def _ping_while_idle(self) -> None:
        received = self._received()
        while not self._stop.wait(self._interval):
            now = self._received()
            if now != received:
                received = now  # PING-07: other traffic shows that the server is alive
                continue
            try:
                self._ping()
            except RemoteError as error:
                _log.debug("a ping was answered with an error, which shows that the server is alive: %s", error)
            except MCPError as error:
                cause: Exception = error
                if isinstance(error, RequestTimeout):
                    cause = ConnectionClosed(
                        f"the server did not answer a ping within {self._timeout:g} s, so the connection was closed")
                if not self._stop.is_set():
                    self._fail(cause)
                return
            received = self._received()
