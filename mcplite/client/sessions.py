"""The ways of talking to a server: LegacySession, which begins with a handshake.

May import: client.handlers, client.pace, client.renewal, client.stderr, errors, protocol.codec, protocol.jsonrpc, revisions, rpc.cancel, rpc.channel,
    rpc.incoming, rpc.mailbox, rpc.peer, rpc.workers, types
"""

import contextlib
import logging
import threading
from typing import Any, Callable, Dict, Iterator, Optional

from ..errors import (
    INVALID_PARAMS, INVALID_REQUEST, SERVER_BUSY, ProtocolError, RemoteError, RequestTimeout, SessionLost,
    UnsupportedVersion, UrlElicitationRequired,
)
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
from .pace import Pace
from .renewal import REPEATABLE, Remembered

__all__ = ["LegacySession"]

_log = logging.getLogger(__name__)
#: A server's list may be long and its structure is not ours to bound tightly; the line limit comes first.
_LIMITS = jsonrpc.JSONLimits(elements=2_000_000, duplicate_keys=True)
OnProgress = Callable[[Dict[str, Any]], object]
#: How often a lost session is opened anew in a minute, before the server is taken for one that keeps none (REL-47).
_RENEWALS = 3
#: How long a question that overtook the answer to ``initialize`` waits for it.
_HANDSHAKE_SECONDS = 30.0
#: How long closing waits for notifications that have come but were not handed over yet.
_FLUSH_SECONDS = 1.0


class _Pause:
    """Keeps the clock of all calls still while a handler runs, but not while it calls the server itself.

    A person may be typing, so the handler's own time does not count; a call that it makes meanwhile has a
    timeout like any other.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._held = peer.paused()

    def __enter__(self) -> None:
        self._held.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(None, None, None)

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Let the clock run for the time of the block."""
        self._held.__exit__(None, None, None)
        try:
            yield
        finally:
            self._held = self._peer.paused()
            self._held.__enter__()


class LegacySession(Handler):
    """One conversation with a server of the handshake era.

    :param channel: the transport.
    :param handlers: answer what the server asks.
    :param info: who this client is.
    :param places: how many handlers may run at once.
    :param per_minute: how many questions the server may ask in a minute; None for any number.
    :param on_notification: called with the method of each notification, on the reader, before its handler.
    :param custom: handlers of methods of the user's own, by method.
    :param trace: notes every message.
    """

    def __init__(self, channel: Channel, handlers: Handlers, info: Implementation, *, places: int,
                 per_minute: Optional[int],
                 on_notification: Callable[[str], object], custom: Dict[str, Callable[[Dict[str, Any]], Any]],
                 trace: Optional[Trace]) -> None:
        self._channel = channel
        self._handlers = handlers
        self._info = info
        self._told = on_notification
        self._custom = custom
        self._pace = Pace(per_minute)
        self._workers = Workers(places, 1024, "mcplite handler")
        self._mailbox = Mailbox("mcplite notifications")
        self._revision: Optional[Revision] = None
        #: Set once the revision is agreed on, or nothing will be any more.
        self._settled = threading.Event()
        self._closing = False
        #: The pause that the handler on the current thread keeps up.
        self._mine = threading.local()
        #: The server's answer to the handshake; the last one, when a session was lost.
        self.result: Optional[InitializeResult] = None
        self._remembered = Remembered()
        #: Held by the one thread that opens a lost session anew, for as long as that takes; others wait for it.
        self._renewing = threading.Lock()
        self._renewals = Pace(_RENEWALS)
        self._handshake: Callable[[], InitializeResult]
        channel.on_lost = self.renew
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
        self._handshake = lambda: self._shake(wanted, pinned, timeout)
        return self._handshake()

    def _shake(self, wanted: Revision, pinned: bool, timeout: float) -> InitializeResult:
        params = {"protocolVersion": wanted.name, "capabilities": codec.encode(self._handlers.capabilities(), wanted),
                  "clientInfo": codec.encode(self._info, wanted)}
        try:
            answer = self.peer.call("initialize", params, timeout=timeout, cancel_notice=False)
        except RequestTimeout as error:
            raise RequestTimeout(f"{self.peer.name} did not answer 'initialize' within {timeout:g} s; a first start"
                                 f" may take longer (open_timeout=), and a program that is no MCP server never"
                                 f" answers{self._last_words()}") from error
        except RemoteError as error:
            raise self._refused(error, wanted) from error
        try:
            result = codec.decode(InitializeResult, answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self.peer.name} answered 'initialize' with what is no valid result: {error}",
                                error.raw) from error
        revision = find(result.protocol_version)
        if revision is None or revision.modern or (pinned and revision is not wanted):
            ours = wanted.name if pinned else ", ".join(item.name for item in LEGACY)
            raise UnsupportedVersion(f"{self.peer.name} answered with the revision {result.protocol_version[:50]!r};"
                                     f" this client was to speak {ours}",
                                     data={"supported": [result.protocol_version], "requested": wanted.name})
        self._handlers.server_info = result.server_info
        self._revision, self.result = revision, result
        self._settled.set()
        self._channel.agreed(revision.name if revision.version_header == "checked" else None)
        self.peer.notify("notifications/initialized", timeout=timeout)
        self._channel.listen()
        return result

    def renew(self, lost: str) -> None:
        """Open a new session in the place of one that the server has lost (SESS-09); once, whoever finds out.

        :param lost: the session that was lost; when there is another one by now, nothing is done.
        :raises SessionLost: that has happened too often of late.
        :raises RemoteError, ProtocolError, RequestTimeout, TransportError: as for :meth:`open`.
        """
        with self._renewing:
            if self._channel.session != lost or self.peer.closed:
                return
            if not self._renewals.admit():
                raise SessionLost(f"{self.peer.name} loses our session again and again: {_RENEWALS} times within a minute",
                                  session=lost, unserved=False)
            _log.info("%s has lost our session; a new one is opened", self.peer.name)
            self._handshake()
            for method, params in self._remembered.again():
                self.peer.call(method, params, timeout=_HANDSHAKE_SECONDS)
        self._told("notifications/tools/list_changed")  # it may be another version of the server

    def _last_words(self) -> str:
        from .stderr import printable  # only for servers that have one

        tail = printable(str(getattr(self._channel, "stderr_tail", ""))[-2000:]).strip()
        return f"\n--- last lines of its stderr ---\n{tail}" if tail else ""

    def _refused(self, error: RemoteError, wanted: Revision) -> RemoteError:
        # LIFE-19: some servers refuse a revision with an error instead of answering with another.
        if error.code == INVALID_PARAMS and isinstance(error.data, dict) and "supported" in error.data:
            return UnsupportedVersion(f"{self.peer.name} does not speak {wanted}: {error.message[:200]}", data=error.data)
        return error

    def request(self, method: str, params: Optional[Dict[str, Any]], *, timeout: Optional[float],
                max_timeout: Optional[float], cancel: Optional[CancelToken],
                on_progress: Optional[OnProgress]) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`.

        When the server has lost our session, a new one is opened, and what was certainly not served or does no
        harm if it was is sent again.

        :raises TypeError, ValueError: the params are no JSON; nothing was sent.
        """
        try:
            result = self._call(method, params, timeout, max_timeout, cancel, on_progress)
        except SessionLost as error:
            if not error.unserved and method not in REPEATABLE:
                raise
            self.renew(error.session)
            result = self._call(method, params, timeout, max_timeout, cancel, on_progress)
        self._remembered.note(method, params)
        return result

    def _call(self, method: str, params: Optional[Dict[str, Any]], timeout: Optional[float], max_timeout: Optional[float],
              cancel: Optional[CancelToken], on_progress: Optional[OnProgress]) -> Dict[str, Any]:
        id = None
        if on_progress is not None:
            # The request's id is unique, so it serves as its progress token as well (PROG-02).
            id = self.peer.new_id()
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": id}
        pause: Optional[_Pause] = getattr(self._mine, "pause", None)
        try:
            if pause is None:
                return self.peer.call(method, params, id=id, timeout=timeout,  # type: ignore[no-any-return]
                                      max_timeout=max_timeout, cancel=cancel, on_progress=on_progress)
            # A handler calls back: its place goes to others meanwhile, since the answer may need one (REL-56).
            with self._workers.suspended(), pause.lifted():
                return self.peer.call(method, params, id=id, timeout=timeout,  # type: ignore[no-any-return]
                                      max_timeout=max_timeout, cancel=cancel, on_progress=on_progress)
        except UrlElicitationRequired as error:
            self._handlers.expect(error.urls)
            raise
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{method!r} was not sent to {self.peer.name}, since its params are no JSON: {error}") from error

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        try:
            self.peer.notify(method, params, timeout=timeout)
        except SessionLost as error:
            self.renew(error.session)
            self.peer.notify(method, params, timeout=timeout)

    def close(self, error: Optional[Exception] = None) -> None:
        """End the conversation; see :meth:`Peer.close`."""
        lost, self._closing = error is not None and not self._closing, True
        self.peer.close(error)
        self._settled.set()
        if lost and error is not None:
            self._disconnected(error)
        # What has come before the end is still told, unless a callback hangs or is the one that closes.
        self._mailbox.flush(_FLUSH_SECONDS)
        self._mailbox.stop()
        self._workers.stop()

    # --- Handler: on the reader's thread --------------------------------------------------------------

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        if incoming.method == "ping":
            incoming.respond({})
            return None
        if not self._pace.admit():
            incoming.fail(SERVER_BUSY, "the client takes no more questions for now; ask again in a minute")
            return None
        return lambda: self._answer(incoming)

    def _answer(self, incoming: Incoming) -> None:
        # On a worker.
        self._settled.wait(_HANDSHAKE_SECONDS)
        if self._revision is None:
            incoming.fail(INVALID_REQUEST, f"{incoming.method[:200]!r} came before the answer to 'initialize'")
            return
        pause = _Pause(self.peer)
        with pause:
            self._mine.pause = pause
            try:
                custom = self._custom.get(incoming.method)
                if custom is None:
                    result = self._handlers.answer(incoming.method, incoming.params, self._revision, incoming.token)
                else:
                    result = custom(incoming.params)
            finally:
                self._mine.pause = None
        incoming.respond({} if result is None else result)

    def on_notification(self, message: jsonrpc.Notification) -> None:
        method, params = message.method, message.params or {}
        if method == "notifications/progress":
            token = params.get("progressToken")
            if type(params.get("progress")) not in (int, float):
                _log.debug("%s sent progress that is no number", self.peer.name)
            elif not self.peer.progress(token, params):
                _log.debug("%s sent progress for a request that is not running: %.100r", self.peer.name, token)
            return
        if method == "notifications/cancelled":
            self.peer.cancel_incoming(params.get("requestId"), params.get("reason"))
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
        if self._closing:
            return
        self._disconnected(error)
        # Whoever noticed the end may be reading, and nobody may read when the channel is closed, which may
        # take seconds for a child that does not end. This thread ends when it is closed.
        threading.Thread(target=self.close, name="mcplite closer", daemon=True).start()

    def _disconnected(self, error: Exception) -> None:
        if self._revision is not None:
            self._mailbox.post(lambda: self._handlers.disconnected(error))

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return jsonrpc.Notification("notifications/cancelled", {"requestId": id, "reason": reason[:500]})

    def accepts_batches(self) -> bool:
        return self._revision is not None and self._revision.batches

    def names_unreadable_ids(self) -> bool:
        return self._revision is None or not self._revision.error_id_optional
