"""Client: one server, its connection and what is known of it."""

import copy
import logging
import threading
import time
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, Union

from ..errors import AuthError, ConnectionClosed, TransportError
from ..protocol import codec
from ..protocol.envelope import check_extension, check_meta
from ..revisions import Revision
from ..rpc.cancel import CancelToken
from ..rpc.interfaces import Channel
from ..rpc.peer import Counters
from ..rpc.tracing import trace_for
from ..types import Implementation, InitializeResult, Progress, ServerCapabilities, Tool
from ..version import __version__
from .features.cache import Cache
from .features.methods import DEFAULT, Calls, OnProgress
from .features.output_schemas import Outputs
from .handlers import Handlers, Roots
from .keepalive import KeepAlive
from .options import check_positive, revision_of
from .sessions.connection import Line
from .sessions.legacy import LegacySession
from .sessions.modern import ModernSession
from .sessions.negotiation import Negotiation, Session, prior_of
from .sessions.rate_limit import Pace
from .subscriptions.events import Event, Filter
from .subscriptions.manager import Subscriptions
from .subscriptions.subscription import Listening

__all__ = ["Client"]

_log = logging.getLogger(__name__)
#: How often in a minute a server's process that ends by itself is started again.
_RESTARTS = 3
#: Seconds before that, the second time; the third time twice as long.
_BACK_OFF = 0.5
Middleware = Callable[[str, Optional[Dict[str, Any]], Callable[[], Dict[str, Any]]], Dict[str, Any]]


class Client(Calls):
    """One server, to be used from any number of threads at once.

    It is made by :func:`connect`, opened by ``with`` or :meth:`open`, and closed by leaving the block or by
    :meth:`close`, from any thread. Every call raises, besides what it says itself: ``RemoteError`` when
    the server answers with an error, ``RequestTimeout``, ``Cancelled``, ``ConnectionClosed`` when the
    connection is over or ends meanwhile, ``ProtocolError`` when an answer breaks the rules, and
    ``NotSupported`` (nothing was sent) when the server did not declare the feature.

    A server's process that ends by itself is started again by the next call where there is no handshake (from July
    2026 on), up to three times in a minute; the calls that were under way fail, since nobody knows what they have done.

    :param transport: makes the channel; called once, by :meth:`open`.
    :param revision: the only protocol revision to accept, as a name or a ``Revision``; None finds out what the
        server speaks: first without a handshake (from July 2026 on), then with one, and takes the newest.
    :param era: "legacy" always begins with a handshake, "modern" never; None, the default, asks the server.
    :param prior: what ``client.prior`` of an earlier client of the same server gave; nothing is asked then.
    :param probe_timeout: seconds of silence on a pipe after which a server is taken for one that shakes hands; default 5.
    :param timeout: seconds for each call, unless it says otherwise; progress starts them anew. Default 60.
    :param max_timeout: seconds for each call in all, whatever its progress. Default 300.
    :param open_timeout: seconds for the server's first answer; a package runner may download first. Default 60.
    :param client_info: who this client is; by default this package.
    :param cache: whether results are kept for as long as the server says that they are good (from July 2026 on).
        Default True.
    :param extensions: those of the protocol that this client supports, with their settings (from July 2026 on).
    :param result_types: result types that these extensions add.
    :param trace_context: called for each request; returns what to send along (``traceparent``, ...; from July 2026 on).
    :param validate: whether structured results are checked against the declared schema. Default True.
    :param middleware: callables ``(method, params, proceed)`` around every request, the first one
        outermost: the place for approval, audit and rate limits (LIFE-29). Raise to stop a request.
    :param max_handlers: how many of the handlers may run at once; default 16.
    :param questions_per_minute: how many questions of the server are taken in any minute; more are refused.
        Default 1,000, which is for programs that answer; None for any number.
    :param ping_interval: seconds without traffic after which the server is pinged; a ping that is not
        answered within *ping_timeout* (default 10) closes the connection. None, the default, never pings.
    :param debug: True logs every message to the logger ``<package>.wire``, a string is a file to append to; None asks
        the environment variable MCPLITE_DEBUG.
    :param handlers: keywords of :class:`Handlers`: ``elicitation_handler``, ``url_elicitation_handler``,
        ``sampling_handler``, ``sampling_tools``, ``roots``, ``log_handler``, ``on_tools_changed``,
        ``on_resources_changed``, ``on_prompts_changed``, ``on_resource_updated``, ``on_elicitation_complete``,
        ``on_disconnect``, ``experimental``.
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
        self._transport = transport
        self._pinned = revision_of(revision)
        if era not in (None, "legacy", "modern"):
            raise ValueError(f"era is 'legacy', 'modern' or None for both, not {era!r}")
        if self._pinned is not None and era is not None and self._pinned.modern != (era == "modern"):
            raise ValueError(f"era={era!r} and revision={self._pinned.name!r} contradict each other")
        for extension, settings in (extensions or {}).items():
            check_extension(extension, settings)
        self._era, self._prior, self._probe_timeout, self._cache = era, prior, probe_timeout, Cache(cache)
        self._extensions, self._result_types, self._trace_context = extensions, tuple(result_types), trace_context
        for name, seconds in (("timeout", timeout), ("max_timeout", max_timeout), ("open_timeout", open_timeout),
                              ("probe_timeout", probe_timeout), ("ping_interval", ping_interval), ("ping_timeout", ping_timeout),
                              ("max_handlers", max_handlers), ("questions_per_minute", questions_per_minute)):
            check_positive(name, seconds)
        self._timeout, self._max_timeout, self._open_timeout = timeout, max_timeout, open_timeout
        self._info = client_info or Implementation(name=__name__.partition(".")[0], version=__version__)
        self._outputs = Outputs(validate)
        self._middleware = tuple(middleware)
        self._max_handlers, self._per_minute = max_handlers, questions_per_minute
        self._ping_interval, self._ping_timeout = ping_interval, ping_timeout
        self._debug = debug
        self._handlers = Handlers(**handlers)
        self._custom: Dict[str, Callable[[Dict[str, Any]], Any]] = {}
        #: Guards ``_state`` and what comes with it; held for assignments only.
        self._lock = threading.Lock()
        self._state = "new"
        self._opener: Optional[int] = None
        self._settled = threading.Event()
        self._line: Optional[Line] = None
        self._session: Optional[Session] = None
        #: Held by the one thread that starts a server again; for as long as that takes.
        self._restarting = threading.Lock()
        self._restarts = Pace(_RESTARTS)
        self._subscriptions = Subscriptions(
            self._handlers, self._open_session, lambda uri, timeout: super(Client, self).subscribe_resource(uri, timeout=timeout),
            lambda uri: super(Client, self).unsubscribe_resource(uri))
        self._last_error: Optional[Exception] = None
        self._channel: Optional[Channel] = None
        self._keepalive: Optional[KeepAlive] = None

    # --- life ---------------------------------------------------------------------------------------

    def open(self) -> "Client":
        """Start the transport and do the handshake; return the client itself.

        Whatever fails, nothing is left behind: the child has ended, the threads are gone.

        :raises TransportError: the server cannot be started or reached.
        :raises ConnectionClosed: it ended before it answered; with its last words.
        :raises RequestTimeout: no answer within ``open_timeout``.
        :raises UnsupportedVersion: there is no common revision.
        :raises RuntimeError: the client was opened before.
        """
        with self._lock:
            if self._state != "new":
                raise RuntimeError(f"this client is {self._state}; a client is opened once, so make a new one")
            self._state, self._opener = "connecting", threading.get_ident()
        try:
            self._begin(self._transport())
        except BaseException as error:
            self._end("closed", error if isinstance(error, Exception) else None)
            raise
        if not self._end("open", None):
            self._hang_up()
            raise self._closed_error()
        if self._ping_interval is not None:
            self._keepalive = KeepAlive(self, self._ping_interval, self._ping_timeout)
            self._keepalive.start()
        _log.info("connected to %s, %s", self._name, self.protocol_version)
        if isinstance(self._session, ModernSession):
            self._subscriptions.for_handlers(self._session, self._timeout)
        return self

    def _begin(self, channel: Channel, era: Optional[str] = None) -> None:
        """Open a session over *channel*, or over another one to the same server (LSSE-12, ERA-07).

        :param era: the only one to try, when it is known.
        """
        self._channel = channel
        line = negotiation = None
        try:
            channel.open()
            line = self._line = Line(channel, self._handlers, places=self._max_handlers, told=self._told, ended=self._line_ended,
                                     custom=self._custom, trace=trace_for(self._debug, channel.name))
            if self._state == "closed":
                raise self._closed_error()
            negotiation = Negotiation(
                line, lambda line: LegacySession(line, self._info, self._per_minute), self._modern_session,
                pinned=self._pinned, era=era or self._era, prior=self._prior, open_timeout=self._open_timeout,
                probe_timeout=self._probe_timeout)
            self._session = negotiation.run()
            return
        except BaseException as error:
            if line is not None:
                line.close()
            else:
                channel.close()
            again = (isinstance(error, ConnectionClosed) and negotiation is not None and negotiation.probing
                     and channel.restartable and self._state != "closed")
            only_modern = negotiation is not None and negotiation.era == "modern"
            other = None if again or only_modern else self._alternative(channel, error)
            if other is None and not again:
                raise
        if other is None:
            _log.info("%s has ended at a request that it does not know; it is started again", channel.name)
            other = self._transport()
        self._begin(other, "legacy")

    def _modern_session(self, line: Line, revision: Revision) -> ModernSession:
        session = ModernSession(line, revision, self._info, cache=self._cache, per_minute=self._per_minute,
                                extensions=self._extensions, result_types=self._result_types,
                                trace_context=self._trace_context)
        session.relist = self.list_tools
        return session

    def _hang_up(self, error: Optional[Exception] = None) -> None:
        line = self._line
        if line is not None:
            line.close(error)
        elif self._channel is not None:
            self._channel.close()  # which is being opened

    def _line_ended(self) -> None:
        if self._state != "open" or self._session is None or not self._session.restartable:
            self._subscriptions.lost(self._name)

    def _alternative(self, channel: Channel, error: BaseException) -> Optional[Channel]:
        if self._state == "closed" or not isinstance(error, Exception):
            return None
        try:
            other = channel.alternative(error)
            if other is not None:
                self._channel, self._line = other, None
                other.open()
            return other
        except AuthError:
            raise
        except TransportError as failure:
            _log.debug("there is no other way to %s: %s", channel.name, failure)
            return None

    def _end(self, state: str, error: Optional[Exception]) -> bool:
        with self._lock:
            self._opener = None
            alive = self._state != "closed"
            if alive or state == "closed":
                self._state = state
            if error is not None:
                self._last_error = error
        self._settled.set()
        return alive

    def close(self) -> None:
        """End the conversation and the server's process; idempotent, from any thread and any callback.

        Calls that wait fail at once with ``ConnectionClosed``.
        """
        with self._lock:
            self._state = "closed"
        self._settled.set()
        if self._keepalive is not None:
            self._keepalive.stop()
        self._hang_up()

    def fail(self, error: Exception) -> None:
        """Close because of *error*, which is what calls that wait will raise."""
        with self._lock:
            self._last_error = error
            self._state = "closed"
        self._hang_up(error)

    def __enter__(self) -> "Client":
        return self.open() if self._state == "new" else self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        name = self._channel.name if self._channel is not None else "not connected"
        return f"<Client {name} ({self.state})>"

    # --- what is known --------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """ "new", "connecting", "open" or "closed"."""
        line = self._line
        if self._state == "open" and line is not None and line.peer.closed:
            return "closed"
        return self._state

    @property
    def last_error(self) -> Optional[Exception]:
        """What ended the connection, or kept it from being made; None while all is well."""
        return self._last_error or (self._line.peer.last_error if self._line is not None else None)

    @property
    def counters(self) -> Counters:
        """Messages and bytes both ways."""
        return copy.copy(self._line.peer.counters) if self._line is not None else Counters()

    @property
    def stderr_tail(self) -> str:
        """The last that the server's process wrote to stderr; empty when it is no process."""
        return str(getattr(self._channel, "stderr_tail", ""))

    @property
    def revision(self) -> Revision:
        """The revision agreed on; still there when the connection is over.

        :raises ConnectionClosed: the client was never open.
        """
        self._handshake()
        assert self._session is not None
        return self._session.revision

    @property
    def protocol_version(self) -> str:
        """The name of the revision agreed on."""
        return self.revision.name

    @property
    def era(self) -> str:
        """ "modern" when requests stand for themselves, "legacy" when there was a handshake."""
        self._handshake()
        assert self._session is not None
        return self._session.era

    @property
    def prior(self) -> Dict[str, Any]:
        """What was found out about the server, as JSON: ``connect(target, prior=)`` asks nothing again (ERA-16)."""
        self._handshake()
        assert self._session is not None
        return prior_of(self._session)

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
        """How the server wants to be used, for a model to read."""
        return self._handshake().instructions

    @property
    def _result(self) -> Optional[InitializeResult]:
        return self._session.result if self._session is not None else None

    def _handshake(self) -> InitializeResult:
        self._wait_settled()
        result = self._result
        if result is None:
            raise self._closed_error()
        return result

    def _closed_error(self) -> Exception:
        if self._state == "new":
            return ConnectionClosed("this client is not open yet: use it in a with block, or call open()")
        if isinstance(self._last_error, ConnectionClosed):
            return copy.copy(self._last_error)
        return ConnectionClosed("this client is closed")

    def _wait_settled(self) -> None:
        if self._state == "connecting" and self._opener != threading.get_ident():
            self._settled.wait()  # LIFE-05: calls of other threads wait for the handshake

    def _open_session(self) -> Session:
        self._wait_settled()
        session = self._session
        if session is None or self._state != "open":
            raise self._closed_error()
        if session.line.peer.closed and session.restartable:
            session = self._started_again(session)
        return session

    def _started_again(self, lost: Session) -> Session:
        """Start a server again whose process has ended by itself (STD-13); nothing that was under way is repeated.

        :raises ConnectionClosed: it has ended too often, or the client is closed.
        """
        with self._restarting:
            session = self._session
            if session is not None and session is not lost:
                return session  # another thread has done it
            if self._state != "open":
                raise self._closed_error()
            if not self._restarts.admit():
                raise ConnectionClosed(f"{self._name} has ended again, after it was started {_RESTARTS} times within a minute"
                                       f"{lost.line.last_words()}")
            _log.warning("%s has ended by itself (%s); it is started again", self._name, lost.line.peer.last_error)
            lost.line.close()  # until the old process is gone
            time.sleep(_BACK_OFF * (self._restarts.recent - 1))
            assert isinstance(lost, ModernSession)
            self._prior = prior_of(lost)
            self._begin(self._transport(), lost.era)
            session = self._session
            assert isinstance(session, ModernSession)
            session.take_over(lost)
            self._cache.clear()
            self._outputs.forget()
        if self._state == "closed":
            self._hang_up()
            raise self._closed_error()
        return session

    # --- the generic layer ------------------------------------------------------------------------------

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = DEFAULT,
                max_timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None, rounds: bool = True,
                fresh: bool = False, input_responses: Optional[Mapping[str, Any]] = None, request_state: Optional[str] = None) -> Dict[str, Any]:
        """Send any request and return its result as it came.

        :param timeout: seconds; by default the client's. None waits for ever.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token; cancelling it raises ``Cancelled`` here and tells the server.
        :param on_progress: called with each :class:`Progress` on this thread; all of them before this
            method returns. Giving it is what asks the server for progress.
        :param meta: goes into ``params._meta``.
        :param rounds: whether the client's handlers answer what the server asks before it goes on (from July 2026 on).
            False raises :class:`InputNeeded` instead, and the call is made again, here or in another process, with
        :param input_responses: the answers by key, as on the wire, and
        :param request_state: the state that came with the questions.
        :param fresh: whether a result that was kept from before will not do.
        :raises TypeError, ValueError: the params are no JSON, a time is not positive, or *meta* has a key that is none
            (META-01); nothing was sent.
        """
        session = self._open_session()
        if timeout is not DEFAULT:
            check_positive("timeout", timeout)
        if max_timeout is not DEFAULT:
            check_positive("max_timeout", max_timeout)
        if meta:
            check_meta(meta, session.revision, reserved=True)
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        if input_responses is not None:
            params = {**(params or {}), "inputResponses": dict(input_responses)}
        if request_state is not None:
            params = {**(params or {}), "requestState": request_state}
        seconds = self._timeout if timeout is DEFAULT else timeout
        most = self._max_timeout if max_timeout is DEFAULT else max_timeout
        if seconds is None and max_timeout is DEFAULT:
            most = None  # for ever is for ever
        elif most is not None and seconds is not None and most < seconds:
            most, seconds = (seconds, seconds) if max_timeout is DEFAULT else (most, most)
        progress = None
        if on_progress is not None:
            report = on_progress

            def progress(given: Dict[str, Any]) -> None:
                report(codec.decode(Progress, {key: value for key, value in given.items() if key != "progressToken"}))

        if not self._middleware:
            return session.request(method, params, timeout=seconds, max_timeout=most, cancel=cancel, on_progress=progress,
                                   rounds=rounds, fresh=fresh)

        def proceed(index: int) -> Dict[str, Any]:
            if index == len(self._middleware):
                return session.request(method, params, timeout=seconds, max_timeout=most, cancel=cancel,
                                       on_progress=progress, rounds=rounds, fresh=fresh)
            return self._middleware[index](method, params, lambda: proceed(index + 1))

        return proceed(0)

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send any notification."""
        self._open_session().notify(method, params, self._timeout)

    def on(self, method: str, handler: Callable[[Dict[str, Any]], Any]) -> None:
        """Have ``handler(params)`` answer a request, or take a notification, of the server's own making.

        Requests are answered with the dict that it returns (None for an empty one) or the ``RemoteError``
        that it raises, on a worker thread; notifications come in order, on their own thread.

        :raises TypeError: the handler cannot be called.
        """
        if not callable(handler):
            raise TypeError(f"the handler of {method!r} must be a function, not {type(handler).__name__}")
        self._custom[method] = handler

    def ping(self, *, timeout: Optional[float] = DEFAULT) -> None:
        """Return when the server has answered: a ping, or, where there is none any more, what it is."""
        self.request("ping" if "ping" in self.revision.client_requests else "server/discover", timeout=timeout)

    def _open_handshake(self) -> InitializeResult:
        self._open_session()
        return self._handshake()

    @property
    def _name(self) -> str:
        return self._channel.name if self._channel is not None else "the server"

    def _told(self, method: str, params: Dict[str, Any]) -> None:
        session = self._session
        if method == "notifications/tools/list_changed":
            self._outputs.forget()
            if isinstance(session, ModernSession):
                session.forget_marks()
        uri = params.get("uri")
        self._cache.changed(method, uri if isinstance(uri, str) else None)
        if isinstance(session, LegacySession):
            self._subscriptions.heard(method, params)

    # --- changes ------------------------------------------------------------------------------------------

    def listen(self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False,
               resources: Sequence[str] = (), timeout: Optional[float] = DEFAULT) -> Listening:
        """Return a subscription to iterate over: ``with client.listen(tools=True) as events: for event in events: ...``.

        It works in every revision that has such news. When it returns, whatever changes from then on is told.

        :param tools, prompts, resource_list: whether changes of these lists are told.
        :param resources: the URIs whose updates are told.
        :param timeout: seconds for the server to acknowledge it; by default the client's.
        :raises ValueError: it asks for nothing.
        """
        return self._listen(Filter(tools, prompts, resource_list, resources), None, timeout)

    def subscribe(self, callback: Callable[[Event], object], *, tools: bool = False, prompts: bool = False,
                  resource_list: bool = False, resources: Sequence[str] = (), timeout: Optional[float] = DEFAULT
                  ) -> Callable[[], None]:
        """Have *callback* called with each event, one after another on the thread of notifications; return what ends that.

        :param callback: gets a :class:`ToolsChanged`, :class:`PromptsChanged`, :class:`ResourcesChanged` or
            :class:`ResourceUpdated`. The other parameters are those of :meth:`listen`.
        """
        return self._listen(Filter(tools, prompts, resource_list, resources), callback, timeout).close

    def _listen(self, filter: Filter, sink: Optional[Callable[[Event], object]], timeout: Optional[float]) -> Listening:
        return self._subscriptions.open(self._open_session(), filter, sink, self._timeout if timeout is DEFAULT else timeout)

    def subscribe_resource(self, uri: str, **options: Any) -> None:
        """Have ``on_resource_updated`` called when the resource changes; takes the keywords of :meth:`request`.

        From July 2026 on each such subscription is a stream of its own: for many URIs use :meth:`subscribe`.
        """
        session = self._open_session()
        if isinstance(session, ModernSession):
            self._require("resources", "subscriptions/listen", "subscribe")
            self._subscriptions.watch(session, uri, options.get("timeout", self._timeout))
        else:
            super().subscribe_resource(uri, **options)

    def unsubscribe_resource(self, uri: str, **options: Any) -> None:
        """End a subscription."""
        if isinstance(self._open_session(), ModernSession):
            self._subscriptions.unwatch(uri)
        else:
            super().unsubscribe_resource(uri, **options)

    def set_log_level(self, level: str, **options: Any) -> None:
        """Set the least urgent level of log messages that the server sends.

        From July 2026 on nothing is sent for it: each later request asks for them. A client with a log handler asks
        for "info" from the start, one without for none.

        :param level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        """
        session = self._open_session()
        if isinstance(session, ModernSession):
            session.set_level(level)
        else:
            super().set_log_level(level, **options)

    def learn_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called here, and remember which parameters travel in headers (MHDR-18)."""
        session = self._session
        if not isinstance(session, ModernSession) or not session.line.channel.carries_beside:
            return tools
        from ..protocol.http.routing_headers import marks

        good, found = [], {}
        for tool in tools:
            try:
                found[tool.name] = marks(tool.input_schema)
                good.append(tool)
            except ValueError as error:
                _log.warning("%s: the tool %.100r cannot be used and is left out: %s", self._name, tool.name, error)
        session.learn_marks(found)
        return good

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and tell the server (ROOT-03).

        :raises ValueError: the client was made without roots, or one is no file.
        """
        self._handlers.set_roots(roots)
        if self.state == "open" and "notifications/roots/list_changed" in self.revision.client_notifications:
            self.notify("notifications/roots/list_changed")
