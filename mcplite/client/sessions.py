"""The ways of talking to a server: LegacySession, which begins with a handshake.

May import: client.handlers, errors, protocol.codec, protocol.jsonrpc, revisions, rpc.cancel, rpc.channel, rpc.incoming, rpc.mailbox, rpc.peer, rpc.workers, types
"""

import logging
from typing import Any, Callable, Dict, Optional

from ..errors import INVALID_PARAMS, ProtocolError, RemoteError, RequestTimeout, UnsupportedVersion
from ..protocol import codec, jsonrpc
from ..revisions import LEGACY, Revision, find
from ..rpc.cancel import CancelToken
from ..rpc.channel import Channel
from ..rpc.incoming import Incoming
from ..rpc.mailbox import Mailbox
from ..rpc.peer import Handler, Peer, Trace
from ..rpc.workers import Workers
from ..types import Implementation, InitializeResult
from .handlers import Handlers

__all__ = ["LegacySession"]

_log = logging.getLogger(__name__)
#: A server's list may be long and its structure is not ours to bound tightly; the line limit comes first.
_LIMITS = jsonrpc.JSONLimits(elements=2_000_000, duplicate_keys=True)
OnProgress = Callable[[Dict[str, Any]], object]


class LegacySession(Handler):
    """One conversation with a server of the handshake era.

    :param channel: the transport.
    :param handlers: answer what the server asks.
    :param info: who this client is.
    :param places: how many handlers may run at once.
    :param on_notification: called with the method of each notification, on the reader, before its handler.
    :param custom: handlers of methods of the user's own, by method.
    :param trace: notes every message.
    """

    def __init__(self, channel: Channel, handlers: Handlers, info: Implementation, *, places: int,
                 on_notification: Callable[[str], object], custom: Dict[str, Callable[[Dict[str, Any]], Any]],
                 trace: Optional[Trace]) -> None:
        self._handlers = handlers
        self._info = info
        self._told = on_notification
        self._custom = custom
        self._workers = Workers(places, 1024, "mcplite handler")
        self._mailbox = Mailbox("mcplite notifications")
        self._revision: Optional[Revision] = None
        self.peer = Peer(channel, self, workers=self._workers, limits=_LIMITS, trace=trace)

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        assert self._revision is not None, "the handshake is not complete"
        return self._revision

    def open(self, wanted: Revision, pinned: bool, timeout: float) -> InitializeResult:
        """Do the handshake.

        :param wanted: the revision to offer.
        :param pinned: whether any other answer is an error.
        :param timeout: seconds for the server's answer.
        :raises UnsupportedVersion: the server speaks none of ours, or not the pinned one.
        :raises RequestTimeout: no answer in time; nothing is cancelled, the channel is to be closed (TIME-07).
        :raises ProtocolError: the answer breaks the rules.
        :raises ConnectionClosed, RemoteError: as for every call.
        """
        self.peer.start()
        params = {"protocolVersion": wanted.name, "capabilities": codec.encode(self._handlers.capabilities(), wanted),
                  "clientInfo": codec.encode(self._info, wanted)}
        try:
            answer = self.peer.call("initialize", params, timeout=timeout, cancel_notice=False)
        except RequestTimeout as error:
            raise RequestTimeout(f"{self.peer.name} did not answer 'initialize' within {timeout:g} s; a first start"
                                 f" may take longer (open_timeout=), and a program that is no MCP server never"
                                 f" answers") from error
        except RemoteError as error:
            raise self._refused(error, wanted) from error
        result = codec.decode(InitializeResult, answer)
        revision = find(result.protocol_version)
        if revision is None or revision.modern or (pinned and revision is not wanted):
            ours = wanted.name if pinned else ", ".join(item.name for item in LEGACY)
            raise UnsupportedVersion(f"{self.peer.name} answered with the revision {result.protocol_version[:50]!r};"
                                     f" this client was to speak {ours}",
                                     data={"supported": [result.protocol_version], "requested": wanted.name})
        self._revision = revision
        self._handlers.server_info = result.server_info
        self.peer.notify("notifications/initialized", timeout=timeout)
        return result

    def _refused(self, error: RemoteError, wanted: Revision) -> RemoteError:
        # LIFE-19: some servers refuse a revision with an error instead of answering with another.
        if error.code == INVALID_PARAMS and isinstance(error.data, dict) and "supported" in error.data:
            return UnsupportedVersion(f"{self.peer.name} does not speak {wanted}: {error.message[:200]}", data=error.data)
        return error

    def request(self, method: str, params: Optional[Dict[str, Any]], *, timeout: Optional[float],
                max_timeout: Optional[float], cancel: Optional[CancelToken],
                on_progress: Optional[OnProgress]) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`."""
        if on_progress is None:
            return self.peer.call(method, params, timeout=timeout, cancel=cancel)  # type: ignore[no-any-return]
        # The request's id is unique, so it serves as its progress token as well (PROG-02).
        id = self.peer.new_id()
        params = dict(params or {})
        params["_meta"] = {**params.get("_meta", {}), "progressToken": id}
        return self.peer.call(method, params, id=id, timeout=timeout, max_timeout=max_timeout,  # type: ignore[no-any-return]
                              cancel=cancel, on_progress=on_progress)

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        self.peer.notify(method, params, timeout=timeout)

    def close(self, error: Optional[Exception] = None) -> None:
        """End the conversation; see :meth:`Peer.close`."""
        self.peer.close(error)
        self._mailbox.stop()
        self._workers.stop()

    # --- Handler: on the reader's thread --------------------------------------------------------------

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        if incoming.method == "ping":
            incoming.respond({})
            return None
        return lambda: self._answer(incoming)

    def _answer(self, incoming: Incoming) -> None:
        # On a worker. A person may be asked, so the clock of the calls that wait stands still.
        with self.peer.paused():
            custom = self._custom.get(incoming.method)
            if custom is not None:
                result = custom(incoming.params)
                incoming.respond({} if result is None else result)
                return
            incoming.respond(self._handlers.answer(incoming.method, incoming.params, self.revision))

    def on_notification(self, message: jsonrpc.Notification) -> None:
        method, params = message.method, message.params or {}
        if method == "notifications/progress":
            token = params.get("progressToken")
            if isinstance(token, (int, str)) and not self.peer.progress(token, params):
                _log.debug("progress for a request that is not running: %.100r", token)
            return
        if method == "notifications/cancelled":
            id, reason = params.get("requestId"), params.get("reason")
            if isinstance(id, (int, str)) and not isinstance(id, bool):
                self.peer.cancel_incoming(id, reason if isinstance(reason, str) else None)
            return
        self._told(method)
        try:
            task = self._handlers.news(method, params)
        except ProtocolError as error:
            _log.warning("%s: %s", self.peer.name, error)
            return
        custom = self._custom.get(method)
        if custom is not None:
            task = lambda: custom(params)  # noqa: E731
        if task is not None:
            self._mailbox.post(task)

    def on_close(self, error: Exception) -> None:
        self._workers.stop()

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return jsonrpc.Notification("notifications/cancelled", {"requestId": id, "reason": reason[:500]})

    def accepts_batches(self) -> bool:
        return self._revision is not None and self._revision.batches

    def names_unreadable_ids(self) -> bool:
        return self._revision is None or not self._revision.error_id_optional
