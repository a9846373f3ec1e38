"""ServerConnection: the channel and peer of one server, the threads of the user's handlers, and the session on top.

``SessionOpener`` creates one for each channel; when the process is started again, it creates another. A client with
``ping_interval`` has a :class:`KeepAlive`, which pings an idle server, so that it notices early when the server is gone.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Optional

from ...errors import ConnectionClosed, MCPError, ProtocolError, RemoteError, RequestTimeout, TransportError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import memory_size
from ...revisions import Revision
from ...rpc.deadline import Deadline
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.request import Incoming, MessageHandler
from ...rpc.threads import Loop, Mailbox, Workers, start_thread, wait_for_end
from ...rpc.tracing import Trace, get_logger
from ..handlers import Handlers

__all__ = ["ConnectionHandler", "KeepAlive", "ServerConnection"]

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
        self._loop = Loop("keep-alive", self._run, self._stop.wait)

    def start(self) -> None:
        """Start the thread.

        :raises TransportError: the system has no thread for it.
        """
        self._loop.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()

    def _run(self) -> None:
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


#: Loose, since the size of a server's lists is the server's decision. Half a million keys and items take some 100 MiB.
_LIMITS = jsonrpc.JSONLimits(elements=500_000, duplicate_keys=True)
#: Bytes of a message up to which its memory is not counted; the number of messages bounds those.
_SMALL = 256
#: How long closing waits for callbacks of notifications that were received before.
_FLUSH_SECONDS = 1.0
#: How long closing waits for the callbacks that run, of whatever kind.
_CALLBACK_SECONDS = 2.0
OnNotification = Callable[[str, Dict[str, Any]], object]


class ConnectionHandler:
    """The callbacks of a connection; sessions implement them. They run on the reader's thread."""

    #: "legacy" or "modern"; empty before there is a session.
    era = ""

    @property
    def agreed(self) -> Optional[Revision]:
        """The revision agreed on; None before that."""
        raise NotImplementedError

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        """See :meth:`MessageHandler.on_request`."""
        raise NotImplementedError

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        """See :meth:`MessageHandler.cancel_notice`."""
        return jsonrpc.Notification("notifications/cancelled", {"requestId": id, "reason": reason[:500]})

    def take_notification(self, method: str, params: Dict[str, Any]) -> bool:
        """Take a notification that belongs to one subscription; False when it is for the whole client."""
        return False

    def take_progress(self, token: Any, params: Dict[str, Any], size: int) -> bool:
        """Take progress that belongs to no pending request; False when it belongs to no task either."""
        return False

    def on_change(self, method: str) -> None:
        """Called with each notification for the whole client, before the user's handlers."""

    def on_cancelled(self, params: Dict[str, Any]) -> None:
        """Called when the server cancels a request of its own, or ends a subscription."""

    def on_end(self) -> None:
        """Called when the connection closes; wakes every thread that waits in the session."""


class ServerConnection(MessageHandler):
    """One connection to a server, in either era.

    :param channel: the transport.
    :param handlers: the user's callbacks.
    :param max_handlers: how many handlers of questions may run at once.
    :param on_notification: called with each notification for the whole client, on the reader's thread, before its handler.
    :param on_close: called when either side has closed the connection.
    :param custom: the user's handlers of methods that are not part of the protocol, by method.
    :param trace: called with every message.
    """

    def __init__(self, channel: Channel, handlers: Handlers, *, max_handlers: int, on_notification: OnNotification,
                 on_close: Callable[[], object], custom: Dict[str, Callable[[Dict[str, Any]], Any]],
                 trace: Optional[Trace]) -> None:
        self.channel = channel
        self.handlers = handlers
        self.custom = custom
        self._on_notification = on_notification
        self._on_close = on_close
        self.max_handlers = max_handlers
        self.workers = Workers(max_handlers, 1024, "mcplite handler")
        self._mailbox = Mailbox("notifications", source=channel.name)
        self._closing = False
        self._closer: Optional[threading.Thread] = None
        self.session = ConnectionHandler()
        self.peer = Peer(channel, self, workers=self.workers, limits=_LIMITS, trace=trace)

    @property
    def name(self) -> str:
        """The server's name in errors."""
        return self.peer.name

    def stderr_tail(self) -> str:
        """Return the end of the server's stderr, for an error; empty if there is none."""
        from ...protocol.error_text import printable  # imported for child processes only

        tail = printable(str(getattr(self.channel, "stderr_tail", ""))[-2000:]).strip()
        return f"\n--- last lines of its stderr ---\n{tail}" if tail else ""

    def post(self, task: Callable[[], object], size: int = 0) -> None:
        """Run a callback on the thread of notifications, after those before it.

        :param size: the bytes that it holds.
        """
        self._mailbox.post(task, size)

    def note_change(self, method: str, params: Dict[str, Any]) -> None:
        """Drop cached state of session and client that a notification makes stale."""
        self.session.on_change(method)
        self._on_notification(method, params)

    def deliver(self, method: str, params: Dict[str, Any], size: int = 0) -> None:
        """Take a notification for the whole client, and run the user's callback for it.

        :param size: of the message, in bytes.
        """
        self.note_change(method, params)
        try:
            task = self.handlers.callback_for(method, params)
        except ProtocolError as error:
            _log.warning("%s: %s", self.name, error)
            return
        custom = self.custom.get(method)
        if custom is not None:
            task = lambda: custom(params)  # noqa: E731
        if task is not None:
            self.post(task, memory_size(params, self._mailbox.byte_limit) if size > _SMALL else size)

    def close(self, error: Optional[Exception] = None) -> None:
        """Close the connection; see :meth:`Peer.close`.

        No callback of the user begins after it has returned. It waits a moment for those that run, unless it is called by one.
        """
        self.peer.silence()
        lost, self._closing = error is not None and not self._closing, True
        try:
            self.peer.close(error)
            self.session.on_end()
            self._on_close()
            if lost and error is not None:
                self._disconnected(error)
            # Notifications from before the end are still delivered, unless a callback hangs or is itself closing.
            self._mailbox.flush(_FLUSH_SECONDS)
        finally:
            self._mailbox.stop()
            self.workers.stop()
        deadline = Deadline(_CALLBACK_SECONDS)
        ended = [self._mailbox.join(deadline), self.workers.join(deadline), self.peer.wait_for_callbacks(deadline)]
        # The thread of on_close() waits for the callbacks as well, so none of them waits for it.
        if self._closer is not None and not (self._mailbox.owns_current_thread() or self.workers.owns_current_thread()
                                             or self.peer.in_callback()):
            wait_for_end(self._closer, Deadline(_CALLBACK_SECONDS))
        if not all(ended):
            _log.warning("%s was closed, but a callback still runs %g s later", self.name, _CALLBACK_SECONDS)

    # --- MessageHandler: on the reader's thread --------------------------------------------------------------

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        return self.session.on_request(incoming)

    def on_notification(self, message: jsonrpc.Notification) -> None:
        method, params = message.method, message.params or {}
        if method == "notifications/progress":
            token = params.get("progressToken")
            if type(params.get("progress")) not in (int, float):
                _log.debug("%s sent progress that is not a number", self.name)
            elif not (self.peer.progress(token, params, message.size)
                      or self.session.take_progress(token, params, message.size)):
                _log.debug("%s sent progress for a request that is not running: %.100r", self.name, token)
        elif method == "notifications/cancelled":
            self.session.on_cancelled(params)
        elif not self.session.take_notification(method, params):
            self.deliver(method, params, message.size)

    def on_close(self, error: Exception) -> None:
        self.workers.stop()
        if self._closing:
            return
        self._disconnected(error)
        # The thread that noticed the end may be reading, and closing the channel waits until no thread reads; that may
        # take seconds for a child that does not end. The thread started here ends when the channel is closed.
        try:
            self._closer = start_thread(self.close, "mcplite closer")
        except TransportError as failure:
            _log.warning("%s is closed later, with its client: %s", self.name, failure)

    def _disconnected(self, error: Exception) -> None:
        if self.session.agreed is not None:
            self.post(lambda: self.handlers.disconnected(error))

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return self.session.cancel_notice(id, reason)

    def accepts_batches(self) -> bool:
        agreed = self.session.agreed
        return agreed is not None and agreed.batches

    def answers_invalid_input(self) -> bool:
        return self.session.era != "modern"  # STAT-22

    def names_unreadable_ids(self) -> bool:
        agreed = self.session.agreed
        return agreed is None or not agreed.error_id_optional
