"""Client: one server, its connection and what is known of it; the calls of its features are in ``features.methods``.

``connect()`` returns one. Opening, closing and handlers stand here, apart from the calls, so that neither class is too
large.
"""

import copy
import functools
import logging
import threading
from types import TracebackType
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Type, Union

from ..errors import ConnectionClosed
from ..protocol.envelope import check_extension
from ..revisions import Revision, find_revision
from ..rpc.deadline import wait_interruptibly
from ..rpc.forks import foreign_error, new_event, new_lock, on_fork
from ..rpc.interfaces import Channel
from ..rpc.tracing import Counters, trace_for
from ..types import Implementation, InitializeResult, ServerCapabilities
from ..version import __version__
from .features.cache import Cache
from .features.call import DEFAULT, check_positive
from .features.methods import Features, Middleware
from .handlers import Handlers, Roots
from .keepalive import KeepAlive
from .sessions.base import ClientSession, SessionOptions
from .sessions.connection import ServerConnection
from .sessions.negotiation import NegotiationOptions, prior_of
from .sessions.opening import SessionOpener
from .subscriptions.events import Event, Filter
from .subscriptions.manager import Subscriptions
from .subscriptions.subscription import Subscription

__all__ = ["Client"]

_log = logging.getLogger(__name__)


class Client(Features):
    """One server, to be used from any number of threads at once.

    It is made by :func:`connect`, opened by ``with`` or :meth:`open`, and closed by leaving the block or by
    :meth:`close`, from any thread. Besides the exceptions in its own documentation, every call raises ``RemoteError``
    if the server answers with an error, ``RequestTimeout``, ``Cancelled``, ``ConnectionClosed`` if the connection is
    over or ends meanwhile, ``ProtocolError`` if an answer breaks the rules, and ``NotSupported`` (nothing was sent) if
    the server did not declare the feature.

    If a server's process ends, the next call starts it again in revisions without a handshake (from July 2026 on), up to
    three times in a minute. Calls that were running fail, since their effect is unknown.

    :param transport: makes the channel; called once, by :meth:`open`.
    :param revision: the only protocol revision to accept, as a name or a ``Revision``. None takes the newest that the
        server supports: the client tries first without a handshake (from July 2026 on), then with one.
    :param era: "legacy" always begins with a handshake, "modern" never; None, the default, finds out.
    :param prior: ``client.prior`` of an earlier client of the same server; the server is then not probed.
    :param probe_timeout: seconds without an answer on a pipe after which the client tries a handshake, half of
        ``open_timeout`` at most. Default 5.
    :param timeout: seconds for each call, unless the call says otherwise; progress restarts them. Default 60.
    :param max_timeout: seconds for each call in all, whatever its progress. Default 300.
    :param open_timeout: seconds for opening in all: the probe, the handshake, and the start of another process or the other
        transport if they fail. A package runner may download first. The time in which a user logs in does not count, nor
        does the end of a process, which takes ``grace`` and four seconds at most. Default 60.
    :param client_info: name and version of this client; by default this package's.
    :param cache: whether results are cached for as long as the server allows (from July 2026 on). Default True.
    :param extensions: protocol extensions that this client supports, with their settings (from July 2026 on).
    :param result_types: result types that these extensions add.
    :param trace_context: called for each request; returns the trace context to send (``traceparent``, ...; from July
        2026 on).
    :param validate: whether structured results are checked against the declared schema. Default True.
    :param middleware: callables ``(method, params, proceed)`` around every request, the first one
        outermost: the place for approval, audit and rate limits (LIFE-29). Raise to stop a request.
    :param max_handlers: how many of the handlers may run at once; default 16.
    :param questions_per_minute: how many questions of the server are accepted in any minute; more are refused.
        Default 1,000, which suits programs that answer; None for any number.
    :param ping_interval: seconds without traffic after which the server is pinged; a ping without an answer
        within *ping_timeout* (default 10) closes the connection. None, the default, never pings.
    :param debug: True logs every message to the logger ``<package>.wire``, a string is a file to append to; None reads
        the environment variable MCPLITE_DEBUG.
    :param handlers: keywords of :class:`Handlers`: ``elicitation_handler``, ``url_elicitation_handler``,
        ``sampling_handler``, ``sampling_tools``, ``sampling_context``, ``roots``, ``log_handler``,
        ``on_tools_changed``, ``on_resources_changed``, ``on_prompts_changed``, ``on_resource_updated``,
        ``on_elicitation_complete``, ``on_disconnect``, ``experimental``.
    :raises ValueError: the revision is unknown, or a number is not positive.
    :raises TypeError: a handler cannot be called.
    """

    def __init__(self, transport: Callable[[], Channel], *, revision: Union[None, str, Revision] = None,
                 era: Optional[str] = None, prior: Optional[Mapping[str, Any]] = None, probe_timeout: float = 5.0,
                 cache: bool = True, extensions: Optional[Dict[str, Any]] = None, result_types: Sequence[str] = (),
                 trace_context: Optional[Callable[[], Mapping[str, str]]] = None,
                 timeout: Optional[float] = 60.0, max_timeout: Optional[float] = 300.0, open_timeout: float = 60.0,
                 client_info: Optional[Implementation] = None, validate: bool = True,
                 middleware: Sequence[Middleware] = (), max_handlers: int = 16,
                 questions_per_minute: Optional[int] = 1000,
                 ping_interval: Optional[float] = None, ping_timeout: float = 10.0,
                 debug: Union[None, bool, str] = None, **handlers: Any) -> None:
        pinned = _revision_of(revision)
        if era not in (None, "legacy", "modern"):
            raise ValueError(f"era is 'legacy', 'modern' or None for both, not {era!r}")
        if pinned is not None and era is not None and pinned.modern != (era == "modern"):
            raise ValueError(f"era={era!r} and revision={pinned.name!r} contradict each other")
        for extension, settings in (extensions or {}).items():
            check_extension(extension, settings)
        for name, number in (("timeout", timeout), ("max_timeout", max_timeout), ("open_timeout", open_timeout),
                             ("probe_timeout", probe_timeout), ("ping_interval", ping_interval),
                             ("ping_timeout", ping_timeout), ("max_handlers", max_handlers),
                             ("questions_per_minute", questions_per_minute)):
            check_positive(name, number)
        super().__init__(timeout, max_timeout, middleware, validate)
        self._cache = Cache(cache)
        self._max_handlers = max_handlers
        self._ping_interval, self._ping_timeout = ping_interval, ping_timeout
        self._debug = debug
        self._handlers = Handlers(**handlers)
        self._custom: Dict[str, Callable[[Dict[str, Any]], Any]] = {}
        #: Guards ``_state`` and what comes with it; held for assignments only.
        self._lock = new_lock()
        self._state = "new"
        self._opening_thread: Optional[int] = None
        #: Set when opening has succeeded or failed.
        self._opening_done = new_event()
        info = client_info or Implementation(name=__name__.partition(".")[0], version=__version__)
        self._opener = SessionOpener(
            transport, self._connect, NegotiationOptions(pinned, era, prior, open_timeout, probe_timeout),
            SessionOptions(info, questions_per_minute, self._cache, self.list_tools, extensions, tuple(result_types),
                           trace_context), self._on_restart)
        self._subscriptions = Subscriptions(self._handlers, self._open_session, self._request_subscription,
                                            super().unsubscribe_resource)
        self._last_error: Optional[Exception] = None
        self._keepalive: Optional[KeepAlive] = None
        on_fork(self, Client._let_go)

    # --- opening and closing ---------------------------------------------------------------------------------------

    def open(self) -> "Client":
        """Start the transport and open the session; return the client itself.

        If this fails, nothing is left behind: the child process and the threads have ended.

        :raises TransportError: the server cannot be started or reached.
        :raises ConnectionClosed: the server ended before it answered; the text has the end of its stderr.
        :raises RequestTimeout: no session within ``open_timeout``; a process is ended before this is raised.
        :raises UnsupportedVersion: client and server have no revision in common.
        :raises RuntimeError: the client was opened before.
        """
        with self._lock:
            if self._state != "new":
                raise RuntimeError(f"this client is {self._state}; a client is opened once, so make a new one")
            self._state, self._opening_thread = "connecting", threading.get_ident()
        try:
            session = self._opener.open()
        except BaseException as error:
            self._end("closed", error if isinstance(error, Exception) else None)
            raise
        if not self._end("open", None):
            self._opener.close()
            raise self._closed_error()
        self._opened(session)
        return self

    def _opened(self, session: ClientSession) -> None:
        if self._ping_interval is not None:
            self._keepalive = KeepAlive(functools.partial(self.ping, timeout=self._ping_timeout),
                                        lambda: self.counters.messages_received, self._ping_failed,
                                        self._ping_interval, self._ping_timeout)
            self._keepalive.start()
        _log.info("connected to %s, %s", session.name, session.revision.name)
        self._subscriptions.open_for_handlers(session, self._timeout)

    # --- forks -----------------------------------------------------------------------------------------------------

    def _let_go(self, owner: int) -> None:
        # In a forked process. What cannot be shared is opened there by the next call, if the transport allows it.
        if self._state not in ("open", "connecting"):
            return
        channel = self._opener.channel
        reopens = self._state == "open" and channel is not None and channel.reopens_after_fork
        error = foreign_error(self._name, owner, "open a client in this process")
        self._state = "inherited" if reopens else "closed"
        self._last_error = None if reopens else error
        self._keepalive = None
        self._opening_done.set()
        self._opener.let_go(None if reopens else error)
        self._subscriptions.let_go(foreign_error(self._name, owner, "subscribe in this process"))

    def _reopen(self) -> ClientSession:
        session = self._opener.reopen()
        with self._lock:
            first = self._state == "inherited"
            if first:
                self._state = "open"
        if first:
            self._opened(session)
            self._subscriptions.watch_again(session, self._timeout)
        return session

    def _connect(self, channel: Channel) -> ServerConnection:
        return ServerConnection(channel, self._handlers, max_handlers=self._max_handlers,
                                on_notification=self._on_notification, on_close=self._on_connection_closed,
                                custom=self._custom, trace=trace_for(self._debug, channel.name))

    def _on_notification(self, method: str, params: Dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._output_schemas.forget()
        uri = params.get("uri")
        self._cache.changed(method, uri if isinstance(uri, str) else None)
        self._subscriptions.on_notification(method, params)

    def _on_connection_closed(self) -> None:
        session = self._opener.session
        if self._state != "open" or session is None or not session.restartable:
            self._subscriptions.lost(self._name)

    def _on_restart(self) -> None:
        self._cache.clear()
        self._output_schemas.forget()

    def _ping_failed(self, error: Exception) -> None:
        # A connection that has ended meanwhile has a cause of its own, which is the one to report.
        if self.state == "open":
            _log.warning("a ping failed, so the connection is closed: %s", error)
            self.fail(error)

    def _end(self, state: str, error: Optional[Exception]) -> bool:
        with self._lock:
            self._opening_thread = None
            alive = self._state != "closed"
            if alive or state == "closed":
                self._state = state
            if error is not None:
                self._last_error = error
        self._opening_done.set()
        return alive

    def close(self) -> None:
        """Close the connection and end the server's process; idempotent, from any thread and any callback.

        Waiting calls fail at once with ``ConnectionClosed``.
        """
        with self._lock:
            self._state = "closed"
        self._opening_done.set()
        if self._keepalive is not None:
            self._keepalive.stop()
        self._opener.close()

    def fail(self, error: Exception) -> None:
        """Close because of *error*, which waiting calls raise."""
        with self._lock:
            self._last_error = error
            self._state = "closed"
        self._opener.close(error)

    def __enter__(self) -> "Client":
        return self.open() if self._state == "new" else self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        channel = self._opener.channel
        name = channel.name if channel is not None else "not connected"
        return f"<Client {name} ({self.state})>"

    # --- state and server --------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """ "new", "connecting", "open" or "closed"."""
        connection = self._opener.connection
        if self._state == "open" and connection is not None and connection.peer.closed:
            return "closed"
        return "open" if self._state == "inherited" else self._state

    @property
    def last_error(self) -> Optional[Exception]:
        """The error that ended the connection or kept it from opening; None if there was none."""
        connection = self._opener.connection
        return self._last_error or (connection.peer.last_error if connection is not None else None)

    @property
    def counters(self) -> Counters:
        """The messages and bytes sent and received."""
        connection = self._opener.connection
        return copy.copy(connection.peer.counters) if connection is not None else Counters()

    @property
    def stderr_tail(self) -> str:
        """The end of what the server's process wrote to stderr; empty for a server that is not a child process."""
        return str(getattr(self._opener.channel, "stderr_tail", ""))

    @property
    def revision(self) -> Revision:
        """The revision agreed on; still there when the connection is over.

        :raises ConnectionClosed: the client was never open.
        """
        return self._known_session().revision

    @property
    def protocol_version(self) -> str:
        """The name of the revision agreed on."""
        return self.revision.name

    @property
    def era(self) -> str:
        """ "legacy" if there was a handshake, "modern" if each request stands for itself."""
        return self._known_session().era

    @property
    def prior(self) -> Dict[str, Any]:
        """What the client found out about the server, as JSON; ``connect(target, prior=)`` then skips the probe (ERA-16)."""
        return prior_of(self._known_session())

    @property
    def server_info(self) -> Implementation:
        """The server's name and version."""
        return self._handshake().server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server declared."""
        return self._handshake().capabilities

    @property
    def instructions(self) -> Optional[str]:
        """The server's instructions on how to use it, for a model to read."""
        return self._handshake().instructions

    @property
    def _name(self) -> str:
        return self._opener.channel.name if self._opener.channel is not None else "the server"

    def _known_session(self) -> ClientSession:
        """Return the session, open or not.

        :raises ConnectionClosed: the client never had one.
        """
        self._wait_opened()
        session = self._opener.session
        if session is None:
            raise self._closed_error()
        return session

    def _handshake(self) -> InitializeResult:
        result = self._known_session().result
        assert result is not None, "the session is open"
        return result

    def _closed_error(self) -> Exception:
        if self._state == "new":
            return ConnectionClosed("this client is not open yet: use it in a with block, or call open()")
        if isinstance(self._last_error, ConnectionClosed):
            return copy.copy(self._last_error)
        return ConnectionClosed("this client is closed")

    def _wait_opened(self) -> None:
        if self._state == "connecting" and self._opening_thread != threading.get_ident():
            wait_interruptibly(self._opening_done.wait, None)  # LIFE-05: calls of other threads wait for the handshake

    def _open_session(self) -> ClientSession:
        if self._state != "open":
            self._wait_opened()
            if self._state == "inherited":
                return self._reopen()
        session = self._opener.session
        if session is None or self._state != "open":
            raise self._closed_error()
        if session.restartable and session.peer.closed:
            return self._opener.restart(session)
        return session

    # --- handlers of the user's own -----------------------------------------------------------------------

    def on(self, method: str, handler: Callable[[Dict[str, Any]], Any]) -> None:
        """Register ``handler(params)`` for a request or notification that is not part of the protocol.

        A request is answered with the dict that the handler returns (None for an empty one) or the ``RemoteError``
        that it raises; the handler runs on a worker thread. For notifications it runs on their own thread, in order.

        :raises TypeError: the handler cannot be called.
        """
        if not callable(handler):
            raise TypeError(f"the handler of {method!r} must be a function, not {type(handler).__name__}")
        self._custom[method] = handler

    # --- changes ------------------------------------------------------------------------------------------

    def listen(self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False,
               resources: Sequence[str] = (), timeout: Optional[float] = DEFAULT) -> Subscription:
        """Return a subscription to iterate over: ``with client.listen(tools=True) as events: for event in events: ...``.

        It works in every revision that has such notifications. Every change after the return yields an event.

        :param tools, prompts, resource_list: whether to include changes of these lists.
        :param resources: URIs whose updates to include.
        :param timeout: seconds for the server to acknowledge it; by default the client's.
        :raises ValueError: nothing is included.
        """
        return self._listen(Filter(tools, prompts, resource_list, resources), None, timeout)

    def subscribe(self, callback: Callable[[Event], object], *, tools: bool = False, prompts: bool = False,
                  resource_list: bool = False, resources: Sequence[str] = (), timeout: Optional[float] = DEFAULT
                  ) -> Callable[[], None]:
        """Call *callback* with each event, one after another on the thread of notifications.

        Return a function that ends the subscription.

        :param callback: gets a :class:`ToolsChanged`, :class:`PromptsChanged`, :class:`ResourcesChanged` or
            :class:`ResourceUpdated`. The other parameters are those of :meth:`listen`.
        """
        return self._listen(Filter(tools, prompts, resource_list, resources), callback, timeout).close

    def _listen(self, filter: Filter, callback: Optional[Callable[[Event], object]], timeout: Optional[float]) -> Subscription:
        timeout = self._timeout if timeout is DEFAULT else timeout
        return self._subscriptions.open(self._open_session(), filter, callback, timeout)

    def _request_subscription(self, uri: str, timeout: Optional[float]) -> None:
        super().subscribe_resource(uri, timeout=timeout)

    def subscribe_resource(self, uri: str, **options: Any) -> None:
        """Call ``on_resource_updated`` when the resource changes; takes the keywords of :meth:`request`.

        From July 2026 on each such subscription is a stream of its own: for many URIs use :meth:`subscribe`.

        :param uri: the resource's URI.
        :param options: the keywords of :meth:`request`; from July 2026 on only *timeout* counts.
        :raises NotSupported: the server did not declare such subscriptions; nothing was sent.
        :raises ConnectionClosed: the connection is not open.
        """
        session = self._open_session()
        if session.change_streams:
            self._require("resources", "subscriptions/listen", "subscribe")
            self._subscriptions.watch(session, uri, options.get("timeout", self._timeout))
        else:
            super().subscribe_resource(uri, **options)

    def unsubscribe_resource(self, uri: str, **options: Any) -> None:
        """End a subscription."""
        if self._open_session().change_streams:
            self._subscriptions.unwatch(uri)
        else:
            super().unsubscribe_resource(uri, **options)

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and notify the server (ROOT-03).

        :raises ValueError: the client was made without roots, or one is not a file.
        """
        self._handlers.set_roots(roots)
        if self.state == "open" and "notifications/roots/list_changed" in self.revision.client_notifications:
            self.notify("notifications/roots/list_changed")


def _revision_of(wanted: Union[None, str, Revision]) -> Optional[Revision]:
    if wanted is None or isinstance(wanted, Revision):
        return wanted
    revision = find_revision(wanted)
    if revision is None:
        raise ValueError(f"{wanted!r} is not a protocol revision that this package supports")
    return revision
