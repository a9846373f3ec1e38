"""The line to one server: its channel and peer, the threads of handlers, and who gives messages their meaning."""

import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ...errors import ProtocolError
from ...protocol import jsonrpc
from ...rpc.incoming import Handler, Incoming
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.threads import Mailbox, Workers
from ...rpc.tracing import Trace
from ..handlers import Handlers
from .base import Speaker

if TYPE_CHECKING:
    pass

__all__ = ["Line"]

_log = logging.getLogger(__name__)
#: A server's list may be long and its structure is not ours to bound tightly; the line limit comes first.
_LIMITS = jsonrpc.JSONLimits(elements=2_000_000, duplicate_keys=True)
#: How long closing waits for notifications that have come but were not handed over yet.
_FLUSH_SECONDS = 1.0
Told = Callable[[str, Dict[str, Any]], object]


class Line(Handler):
    """One connection, whichever era is spoken on it.

    :param channel: the transport.
    :param handlers: get the news.
    :param places: how many handlers of questions may run at once.
    :param told: called with each notification that is news, on the reader, before its handler.
    :param ended: called when it is closed, from whichever side.
    :param custom: handlers of methods of the user's own, by method.
    :param trace: notes every message.
    """

    def __init__(self, channel: Channel, handlers: Handlers, *, places: int, told: Told, ended: Callable[[], object],
                 custom: Dict[str, Callable[[Dict[str, Any]], Any]], trace: Optional[Trace]) -> None:
        self.channel = channel
        self.handlers = handlers
        self.custom = custom
        self.told = told
        self._ended = ended
        self.places = places
        self.workers = Workers(places, 1024, "mcplite handler")
        self._mailbox = Mailbox("mcplite notifications")
        self._closing = False
        self.speaker = Speaker()
        self.peer = Peer(channel, self, workers=self.workers, limits=_LIMITS, trace=trace)

    @property
    def name(self) -> str:
        """How errors call the server."""
        return self.peer.name

    def last_words(self) -> str:
        """Return the end of what the server has written to stderr, for an error; empty when it has none."""
        from ...protocol.show import printable  # only for servers that have one

        tail = printable(str(getattr(self.channel, "stderr_tail", ""))[-2000:]).strip()
        return f"\n--- last lines of its stderr ---\n{tail}" if tail else ""

    def post(self, task: Callable[[], object]) -> None:
        """Have a callback run after those before it."""
        self._mailbox.post(task)

    def news(self, method: str, params: Dict[str, Any]) -> None:
        """Tell whoever wants to know."""
        self.told(method, params)
        try:
            task = self.handlers.news(method, params)
        except ProtocolError as error:
            _log.warning("%s: %s", self.name, error)
            return
        custom = self.custom.get(method)
        if custom is not None:
            task = lambda: custom(params)  # noqa: E731
        if task is not None:
            self.post(task)

    def close(self, error: Optional[Exception] = None) -> None:
        """End the conversation; see :meth:`Peer.close`."""
        lost, self._closing = error is not None and not self._closing, True
        self.peer.close(error)
        self.speaker.on_end()
        self._ended()
        if lost and error is not None:
            self._disconnected(error)
        # What has come before the end is still told, unless a callback hangs or is the one that closes.
        self._mailbox.flush(_FLUSH_SECONDS)
        self._mailbox.stop()
        self.workers.stop()

    # --- Handler: on the reader's thread --------------------------------------------------------------

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        return self.speaker.on_request(incoming)

    def on_notification(self, message: jsonrpc.Notification) -> None:
        method, params = message.method, message.params or {}
        if method == "notifications/progress":
            token = params.get("progressToken")
            if type(params.get("progress")) not in (int, float):
                _log.debug("%s sent progress that is no number", self.name)
            elif not self.peer.progress(token, params):
                _log.debug("%s sent progress for a request that is not running: %.100r", self.name, token)
        elif method == "notifications/cancelled":
            self.speaker.on_cancelled(params)
        elif not self.speaker.take(method, params):
            self.news(method, params)

    def on_close(self, error: Exception) -> None:
        self.workers.stop()
        if self._closing:
            return
        self._disconnected(error)
        # Whoever noticed the end may be reading, and nobody may read when the channel is closed, which may
        # take seconds for a child that does not end. This thread ends when it is closed.
        threading.Thread(target=self.close, name="mcplite closer", daemon=True).start()

    def _disconnected(self, error: Exception) -> None:
        if self.speaker.agreed is not None:
            self.post(lambda: self.handlers.disconnected(error))

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return self.speaker.cancel_notice(id, reason)

    def accepts_batches(self) -> bool:
        agreed = self.speaker.agreed
        return agreed is not None and agreed.batches

    def answers_noise(self) -> bool:
        return self.speaker.era != "modern"  # STAT-22

    def names_unreadable_ids(self) -> bool:
        agreed = self.speaker.agreed
        return agreed is None or not agreed.error_id_optional
