"""ConnectionToServer: one channel to a server, its peer, the threads of the user's handlers; ClientSession: the talk over it.

The client makes a connection for each channel that it opens, and again when the server's process is started again::

    Client ─ SessionOpener ─ ConnectionToServer ─ Peer ─ Channel
                   └─ ModernClientSession or LegacyClientSession, which the connection calls on the reader's thread

:class:`ClientSession` is the base of the sessions of both eras. A :class:`ClientObserver`, such as telemetry, sees calls and
questions.
"""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from ...errors import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, ProtocolError, TransportError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import memory_size
from ...rpc.cancel import CancelToken
from ...rpc.deadline import Deadline
from ...rpc.peer import Peer
from ...rpc.pending import Clock
from ...rpc.request import Incoming, MessageHandler
from ...rpc.threads import Mailbox, Workers, start_thread, wait_for_end
from ...rpc.tracing import get_logger, trace_for
from ...types.lazy_dataclass import Record, record
from ..call import Call, RateLimit, Waiting

if TYPE_CHECKING:
    from ...revisions import Revision
    from ...rpc.interfaces import Channel
    from ...types import Implementation, InitializeResult, ServerCapabilities, Tool
    from ..cache import Cache
    from ..client_extensions import ClientExtensions
    from ..client_options import ClientSettings
    from ..handlers import Handlers

__all__ = [
    "MODERN_ERRORS", "ClientObserver", "ClientSession", "ConnectionToServer", "SessionOptions", "SessionPart", "Subscriber",
    "headers_of",
]

_log = get_logger(__name__)
#: Errors that only servers without a handshake send (ERA-03); they may come without a request id.
MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
#: The limits on a server's messages are loose, since the server decides how long its lists are. Half a million keys and items
#: take some 100 MiB.
_LIMITS = jsonrpc.JSONLimits(elements=500_000, duplicate_keys=True)
#: If a message has at most this many bytes, the memory that it takes is not measured: the bound on the number of messages is
#: enough.
_SMALL = 256
#: Numbers the connections of this process, for ``on_message``.
_NUMBERS = itertools.count(1)
#: How long closing waits for callbacks of notifications that were received before.
_FLUSH_SECONDS = 1.0
#: How long closing waits for the callbacks that run, of whatever kind.
_CALLBACK_SECONDS = 2.0


@record(frozen=True)
class SessionOptions(Record):
    """What a client gives to its connections and sessions."""

    #: How the client works.
    settings: ClientSettings
    #: Name and version of this client.
    info: Implementation
    #: The user's callbacks.
    handlers: Handlers
    #: The user's handlers of methods that are not part of the protocol, by method.
    custom: Dict[str, Callable[[Dict[str, Any]], Any]]
    #: The cached results of the client.
    cache: Cache
    #: Reads the list of tools again; takes the keywords of :meth:`Features.request`.
    list_tools: Callable[..., List[Tool]]
    #: The observers of each request and each question; the client adds to the list.
    observers: List[ClientObserver]
    #: The extensions of the protocol that the client supports; None without any.
    extensions: Optional[ClientExtensions]
    #: Called with each notification for the whole client, on the reader's thread, before its handler.
    on_notification: Callable[[str, Dict[str, Any]], object]
    #: Called when either side has closed a connection.
    on_close: Callable[[], object]


class ClientObserver:
    """Sees what one client does. The methods do nothing here; subclasses override those that they need.

    If a method raises an exception, the call or the answer that it observes ends with it. ``Client.observe`` adds an observer.
    A client without an observer does none of this work.
    """

    def request(self, session: ClientSession, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        """Return the result of one call, which is ``send(call)``; on the caller's thread.

        A result from the cache is not observed. The questions of a call are answered within ``send``.

        :param call: a copy with another ``id`` (from ``session.peer.new_id()``) or other params may be sent in its place.
        """
        return send(call)

    def question(self, session: ClientSession, method: str, params: Dict[str, Any], id: Any,
                 answer: Callable[[], Any]) -> Any:
        """Return the answer to one question of the server, which is ``answer()``; on the handler's thread.

        :param id: of the server's request; None if the question came in the result of a call.
        """
        return answer()

    def headers(self) -> Mapping[str, str]:
        """Return headers for each message over HTTP; on the thread that sends it."""
        return {}

    def opened(self, session: ClientSession) -> None:
        """Called when the client is open, or at once for a client that is open already."""

    def closed(self, session: ClientSession, error: Optional[Exception]) -> None:
        """Called once for an open client, when it is closed or has lost its connection.

        :param error: what ended it; None for ``close()``.
        """


def headers_of(observers: List[ClientObserver]) -> Dict[str, str]:
    """Return the headers of all observers for a message."""
    return {name: value for observer in observers for name, value in observer.headers().items()}


def _watcher(settings: ClientSettings, name: str) -> Optional[Callable[[str, bytes], object]]:
    """Return what passes each message of a connection to the trace and to ``on_message``; None if there is neither."""
    trace, on_message = trace_for(settings.debug, name), settings.on_message
    if on_message is None:
        return trace
    number, report = next(_NUMBERS), on_message

    def watch(direction: str, data: bytes) -> None:
        if trace is not None:
            trace(direction, data)
        try:
            report(number, direction, data)
        except Exception:  # the message is sent, or processed, all the same
            _log.exception("%s: on_message failed", name)

    return watch


class Subscriber:
    """Takes the messages of one subscription, on the reader's thread."""

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification of this subscription."""
        raise NotImplementedError

    def on_ended(self) -> None:
        """Called when the server has ended the subscription."""
        raise NotImplementedError


class SessionPart:
    """The part of an extension that belongs to one session; it is called on the reader's thread."""

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification, which the client's handlers get as well."""

    def take_progress(self, token: Any, params: Dict[str, Any], size: int) -> bool:
        """Take progress that belongs to no pending request; False if it is not for this part.

        :param token: as the server sent it, of any type.
        :param size: of the message, in bytes.
        """
        return False

    def close(self) -> None:
        """Called when the connection has ended."""


class ConnectionToServer(MessageHandler):
    """One connection to a server, in either era.

    :param channel: the transport.
    :param options: what the client gives.
    :param clock: of all calls of the client.
    """

    def __init__(self, channel: Channel, options: SessionOptions, clock: Clock) -> None:
        self.channel = channel
        self.options = options
        self.handlers = options.handlers
        self.max_handlers = options.settings.max_handlers
        self.workers = Workers(self.max_handlers, 1024, "mcplite handler")
        self._mailbox = Mailbox("notifications", why=f"{channel.name}: handlers are slower than what arrives")
        self._closing = False
        self._closer: Optional[threading.Thread] = None
        if options.observers:
            channel.accompany(partial(headers_of, options.observers))
        self.peer = Peer(channel, self, workers=self.workers, limits=_LIMITS, clock=clock,
                         trace=_watcher(options.settings, channel.name))
        #: The session of one of the eras takes its place before anything is read.
        self.session = ClientSession(self)

    @property
    def name(self) -> str:
        """The server's name in errors."""
        return self.channel.name

    def stderr_tail(self) -> str:
        """Return the end of the server's stderr, for an error; empty if there is none."""
        from ...protocol.error_text import printable  # imported for child processes only

        tail = printable(str(getattr(self.channel, "stderr_tail", ""))[-2000:]).strip()
        return f"\n--- last lines of its stderr ---\n{tail}" if tail else ""

    def post(self, task: Callable[[], object], size: int = 0) -> None:
        """Run a callback on the thread of notifications, after those before it.

        :param size: the bytes of memory that the callback keeps until it runs.
        """
        self._mailbox.post(task, size)

    def note_change(self, method: str, params: Dict[str, Any]) -> None:
        """Drop cached state of session and client that a notification makes stale."""
        self.session.on_change(method)
        self.options.on_notification(method, params)

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
        custom = self.options.custom.get(method)
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
            self.options.on_close()
            if lost and error is not None:
                self._disconnected(error)
            # Notifications from before the end are still delivered, unless a callback hangs or is itself closing.
            self._mailbox.wait(_FLUSH_SECONDS)
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


class ClientSession:
    """A session with a server, over one connection; the sessions of both eras subclass it.

    Constructors of subclasses end with ``connection.session = self``: from then on the reader's thread calls the
    methods from :meth:`on_request` on.

    :param connection: to the server.
    """

    #: "legacy" or "modern".
    era = ""
    #: The revision agreed on; None before that.
    agreed: Optional[Revision] = None
    #: The revision in use, which may be one that is tried.
    revision: Revision
    #: Declared by the server.
    capabilities: ServerCapabilities
    #: Whether the server notifies changes only on streams that the client opens, one for each subscription.
    change_streams = False
    #: Whether a new session with a new process of the server can replace this one.
    restartable = False
    #: The server's answer to ``initialize``, or an equivalent made of ``server/discover``; None until the session is open.
    result: Optional[InitializeResult] = None
    #: The level of log messages that each request asks for; None asks for no messages.
    log_level: Optional[str] = None

    def __init__(self, connection: ConnectionToServer) -> None:
        self.connection = connection
        self.peer = connection.peer
        self._channel = connection.channel
        self.name = connection.channel.name
        self._handlers = connection.handlers
        self._options = connection.options
        self._observers = self._options.observers
        #: Limits the number of the server's questions (ELIC-22, SAMP-21).
        self.question_rate = RateLimit(self._options.settings.questions_per_minute)
        #: Cancelled when the connection ends.
        self.ended = CancelToken()
        #: The parts of extensions, by a name that the extension chooses; added from any thread, and kept until the session
        #: ends.
        self.parts: Dict[str, SessionPart] = {}

    def request(self, call: Call) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`."""
        raise NotImplementedError

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        raise NotImplementedError

    def _observed(self, call: Call, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        """Return the result of a call, seen by the client's observers; the first one is the outermost."""
        for observer in reversed(self._observers):
            send = self._around(observer, send)
        return send(call)

    def _around(self, observer: ClientObserver, send: Callable[[Call], Dict[str, Any]]) -> Callable[[Call], Dict[str, Any]]:
        return lambda call: observer.request(self, call, send)

    def observed_question(self, method: str, params: Dict[str, Any], id: Any, answer: Callable[[], Any]) -> Any:
        """Return the answer to a question, seen by the client's observers.

        :param id: of the server's request; None if the question came in the result of a call.
        """
        for observer in reversed(self._observers):
            answer = partial(observer.question, self, method, params, id, answer)
        return answer()

    def now(self) -> float:
        """Return the seconds that count for time limits; they stand still while a question of the server is answered."""
        return self.peer.now()

    def usable_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called over this session."""
        return tools

    def set_level(self, level: str) -> bool:
        """Make each later request ask for log messages of a level; False where the level needs a request of its own."""
        return False

    def answer_inputs(self, requests: Dict[str, Any], cancel: Optional[CancelToken]) -> Dict[str, Any]:
        """Return the answers of the client's handlers to questions outside of a call, by key; see :class:`InputRounds`."""
        raise NotImplementedError

    def listen(self, subscriber: Subscriber, filter: Dict[str, Any], cancel: CancelToken) -> None:
        """Open one stream of changes and return when the server ends it; only with :attr:`change_streams`."""
        raise NotImplementedError

    def take_over(self, lost: ClientSession, waiting: Waiting) -> None:
        """Take over what was set in *lost*, a session that has ended, or that of another process.

        :param waiting: of the call that needs this one.
        """

    def _opened(self, result: InitializeResult, revision: Revision) -> None:
        self._handlers.server_info = result.server_info
        self.capabilities = result.capabilities
        self.result, self.revision, self.agreed = result, revision, revision

    # --- what the server sends, on the reader's thread --------------------------------------------------------------

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
        self.ended.cancel("the connection is over")
