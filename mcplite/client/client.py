"""Client: one server, its connection and what is known of it.

May import: client.calls, client.handlers, client.keepalive, client.outputs, client.sessions, errors, protocol.codec,
    revisions, rpc.cancel, rpc.channel, rpc.peer, rpc.tracing, types, version
"""

import copy
import logging
import threading
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Sequence, Type, Union

from ..errors import ConnectionClosed, TransportError
from ..protocol import codec
from ..revisions import NEWEST_LEGACY, Revision, find
from ..rpc.cancel import CancelToken
from ..rpc.channel import Channel
from ..rpc.peer import Counters
from ..rpc.tracing import trace_for
from ..types import Implementation, InitializeResult, Progress, ServerCapabilities
from ..version import __version__
from .calls import DEFAULT, Calls, OnProgress
from .handlers import Handlers, Roots
from .keepalive import KeepAlive
from .outputs import Outputs
from .sessions import LegacySession

__all__ = ["Client"]

_log = logging.getLogger(__name__)
Middleware = Callable[[str, Optional[Dict[str, Any]], Callable[[], Dict[str, Any]]], Dict[str, Any]]


class Client(Calls):
    """One server, to be used from any number of threads at once.

    It is made by :func:`connect`, opened by ``with`` or :meth:`open`, and closed by leaving the block or by
    :meth:`close`, from any thread. Every call raises, besides what it says itself: ``RemoteError`` when
    the server answers with an error, ``RequestTimeout``, ``Cancelled``, ``ConnectionClosed`` when the
    connection is over or ends meanwhile, ``ProtocolError`` when an answer breaks the rules, and
    ``NotSupported`` (nothing was sent) when the server did not declare the feature.

    :param transport: makes the channel; called once, by :meth:`open`.
    :param revision: the only protocol revision to accept, as a name or a ``Revision``; None offers the
        newest and takes whichever the server answers with.
    :param timeout: seconds for each call, unless it says otherwise; progress starts them anew. Default 60.
    :param max_timeout: seconds for each call in all, whatever its progress. Default 300.
    :param open_timeout: seconds for the server's first answer; a package runner may download first. Default 60.
    :param client_info: who this client is; by default this package.
    :param validate: whether structured results are checked against the declared schema. Default True.
    :param middleware: callables ``(method, params, proceed)`` around every request, the first one
        outermost: the place for approval, audit and rate limits (LIFE-29). Raise to stop a request.
    :param max_handlers: how many of the handlers may run at once; default 16.
    :param questions_per_minute: how many questions of the server are taken in any minute; more are refused.
        Default 1,000, which is for programs that answer; None for any number.
    :param ping_interval: seconds without traffic after which the server is pinged; a ping that is not
        answered within *ping_timeout* closes the connection. None, the default, never pings.
    :param ping_timeout: seconds; default 10.
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
                 timeout: Optional[float] = 60.0, max_timeout: Optional[float] = 300.0, open_timeout: float = 60.0,
                 client_info: Optional[Implementation] = None, validate: bool = True,
                 middleware: Sequence[Middleware] = (), max_handlers: int = 16,
                 questions_per_minute: Optional[int] = 1000,
                 ping_interval: Optional[float] = None, ping_timeout: float = 10.0,
                 debug: Union[None, bool, str] = None, **handlers: Any) -> None:
        self._transport = transport
        self._pinned = _revision(revision)
        for name, seconds in (("timeout", timeout), ("max_timeout", max_timeout), ("open_timeout", open_timeout),
                              ("ping_interval", ping_interval), ("ping_timeout", ping_timeout),
                              ("max_handlers", max_handlers), ("questions_per_minute", questions_per_minute)):
            _check_positive(name, seconds)
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
        self._session: Optional[LegacySession] = None
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
            session = self._begin(self._transport())
        except BaseException as error:
            self._end("closed", error if isinstance(error, Exception) else None)
            raise
        if not self._end("open", None):
            session.close()
            raise self._closed_error()
        if self._ping_interval is not None:
            self._keepalive = KeepAlive(self, self._ping_interval, self._ping_timeout)
            self._keepalive.start()
        _log.info("connected to %s, %s", self._name, self.protocol_version)
        return self

    def _begin(self, channel: Channel) -> LegacySession:
        """Do the handshake over *channel*, or over another one to the same server (LSSE-12)."""
        self._channel = channel
        session: Optional[LegacySession] = None
        try:
            session = self._session = LegacySession(
                channel, self._handlers, self._info, places=self._max_handlers, per_minute=self._per_minute,
                on_notification=self._told, custom=self._custom, trace=trace_for(self._debug, channel.name))
            if self._state == "closed":
                raise self._closed_error()
            session.open(self._pinned or NEWEST_LEGACY, self._pinned is not None, self._open_timeout)
            return session
        except BaseException as error:
            if session is not None:
                session.close()
            else:
                channel.close()
            other = self._alternative(channel, error)
            if other is None:
                raise
        return self._begin(other)

    def _alternative(self, channel: Channel, error: BaseException) -> Optional[Channel]:
        if self._state == "closed" or not isinstance(error, Exception):
            return None
        try:
            return channel.alternative(error)
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
            session = self._session
        self._settled.set()
        if self._keepalive is not None:
            self._keepalive.stop()
        if session is not None:
            session.close()

    def fail(self, error: Exception) -> None:
        """Close because of *error*, which is what calls that wait will raise."""
        with self._lock:
            self._last_error = error
            session = self._session
            self._state = "closed"
        if session is not None:
            session.close(error)

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
        session = self._session
        if self._state == "open" and session is not None and session.peer.closed:
            return "closed"
        return self._state

    @property
    def last_error(self) -> Optional[Exception]:
        """What ended the connection, or kept it from being made; None while all is well."""
        return self._last_error or (self._session.peer.last_error if self._session is not None else None)

    @property
    def counters(self) -> Counters:
        """Messages and bytes both ways."""
        return copy.copy(self._session.peer.counters) if self._session is not None else Counters()

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

    def _open_session(self) -> LegacySession:
        self._wait_settled()
        session = self._session
        if session is None or self._state != "open":
            raise self._closed_error()
        return session

    # --- the generic layer ------------------------------------------------------------------------------

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = DEFAULT,
                max_timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Send any request and return its result as it came.

        :param timeout: seconds; by default the client's. None waits for ever.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token; cancelling it raises ``Cancelled`` here and tells the server.
        :param on_progress: called with each :class:`Progress` on this thread; all of them before this
            method returns. Giving it is what asks the server for progress.
        :param meta: goes into ``params._meta``.
        :raises TypeError, ValueError: the params are no JSON, or a time is not positive; nothing was sent.
        """
        session = self._open_session()
        if timeout is not DEFAULT:
            _check_positive("timeout", timeout)
        if max_timeout is not DEFAULT:
            _check_positive("max_timeout", max_timeout)
        if meta:
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        seconds = self._timeout if timeout is DEFAULT else timeout
        most = self._max_timeout if max_timeout is DEFAULT else max_timeout
        if seconds is None and max_timeout is DEFAULT:
            most = None  # for ever is for ever
        elif most is not None and seconds is not None and most < seconds:
            most = seconds
        progress = None
        if on_progress is not None:
            report = on_progress

            def progress(given: Dict[str, Any]) -> None:
                report(codec.decode(Progress, {key: value for key, value in given.items() if key != "progressToken"}))

        if not self._middleware:
            return session.request(method, params, timeout=seconds, max_timeout=most, cancel=cancel, on_progress=progress)

        def proceed(index: int) -> Dict[str, Any]:
            if index == len(self._middleware):
                return session.request(method, params, timeout=seconds, max_timeout=most, cancel=cancel,
                                       on_progress=progress)
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
        """Return when the server has answered a ping."""
        self.request("ping", timeout=timeout)

    def _open_handshake(self) -> InitializeResult:
        self._open_session()
        return self._handshake()

    @property
    def _name(self) -> str:
        return self._channel.name if self._channel is not None else "the server"

    def _told(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._outputs.forget()

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and tell the server (ROOT-03).

        :raises ValueError: the client was made without roots, or one is no file.
        """
        self._handlers.set_roots(roots)
        if self.state == "open":
            self.notify("notifications/roots/list_changed")


def _check_positive(name: str, value: Optional[float]) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}")


def _revision(wanted: Union[None, str, Revision]) -> Optional[Revision]:
    if wanted is None or isinstance(wanted, Revision):
        revision = wanted
    else:
        revision = find(wanted)
        if revision is None:
            raise ValueError(f"{wanted!r} is no protocol revision that this package speaks")
    if revision is not None and revision.modern:
        raise ValueError(f"this version of the package does not speak {revision} yet")
    return revision
