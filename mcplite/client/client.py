"""Client: one server, its connection and what is known of it; the calls of its features are in ``calls``.

``connect()`` returns one. The state of the connection is drawn in ``sessions/connecting``.
"""

from __future__ import annotations

import functools
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, Union

from .. import types
from ..errors import ConnectionClosed, MCPError, NotSupported, RegistrationError, RemoteError, RequestTimeout
from ..revisions import Revision
from ..rpc.forks import foreign_error, on_fork, renew
from ..rpc.interfaces import Channel
from ..rpc.threads import Loop
from ..rpc.tracing import Counters, get_logger
from ..types.lazy_dataclass import changed
from ..version import __version__
from .cache import Cache
from .call import DEFAULT, RequestOptions, Waiting
from .calls import Features
from .client_options import ClientSettings
from .handlers import Handlers, checked_roots
from .sessions.base import ClientObserver, ClientSession, SessionOptions, headers_of
from .sessions.connecting import SessionOpener, prior_of

if TYPE_CHECKING:
    from ..rooms import ClientSkills
    from ..rpc.extension import Extension
    from .handler_types import Roots
    from .subscription import Event, Filter, Following, Subscription, Subscriptions

__all__ = ["Client"]

_log = get_logger(__name__)
#: Seconds for which :meth:`Client.follow` waits for an acknowledgement if there is no timeout.
_FOLLOWED_SECONDS = 60.0


class Client(Features):
    """One server, to be used from any number of threads at once.

    It is made by :func:`connect`, opened by ``with`` or :meth:`open`, and closed by leaving the block or by
    :meth:`close`, from any thread. Besides the exceptions in its own documentation, every call raises ``RemoteError``
    if the server answers with an error, ``RequestTimeout``, ``Cancelled``, ``ConnectionClosed`` if the connection is
    over or ends meanwhile, ``ProtocolError`` if an answer breaks the rules, and ``NotSupported`` (nothing was sent) if
    the server did not declare the feature. Over HTTP it raises ``TransportError`` if the server cannot be reached,
    ``HTTPStatusError`` if the server answers with a status in place of an answer, and ``AuthError`` if it wants another token
    than can be obtained.

    If a server's process ends, the next call starts it again in revisions without a handshake (from July 2026 on), up to
    three times in a minute. Calls that were running fail, since their effect is unknown.

    :param transport: makes a channel; called by :meth:`open`, and again for each channel that is opened in place of a lost or
        unusable one.
    :param settings: how the client works; None for the defaults.
    :param handlers: of the server's questions and notifications; None for none.
    """

    def __init__(self, transport: Callable[[], Channel], settings: Optional[ClientSettings] = None,
                 handlers: Optional[Handlers] = None) -> None:
        settings = settings or ClientSettings()
        self._transport = transport
        super().__init__(settings)
        self._settings = settings
        self._cache = Cache(settings.cache)
        self._handlers = handlers or Handlers(settings)
        self._custom: Dict[str, Callable[[Dict[str, Any]], Any]] = {}
        if settings.extensions:
            from ..rpc.extension import extensions_of
            from .client_extensions import ClientExtensions  # for clients that have one

            self._extensions = ClientExtensions(self, self._custom)
            for extension in extensions_of(settings.extensions):
                self._extensions.add(extension)
            self._adds_params = bool(self._extensions.adding)
        #: The observers of calls and questions; the sessions have this list as well, not a copy.
        self._observers: List[ClientObserver] = []
        #: The session that the observers know of; None before it is open and after its end.
        self._observed: Optional[ClientSession] = None
        #: Guards the creation of ``_extensions`` and ``_subscriptions``, and the end of ``_observed``; held for assignments,
        #: and while an extension is added.
        self._lock = threading.Lock()
        info = settings.client_info or types.Implementation(name=__name__.partition(".")[0], version=__version__)
        self._opener = SessionOpener(transport, SessionOptions(
            settings, info, self._handlers, self._custom, self._cache, self.list_tools, self._observers, self._extensions,
            self._on_notification, self._on_connection_closed), self._use, self._opened)
        #: All subscriptions, made with the first one.
        self._subscriptions: Optional[Subscriptions] = None
        #: Ends the thread that pings the server.
        self._ping_stop = threading.Event()
        on_fork(self, Client._let_go)

    # --- opening and closing ---------------------------------------------------------------------------------------

    def open(self) -> "Client":
        """Start the transport and open the session; return the client itself.

        If this fails, nothing is left behind: the child process and the threads have ended.

        :raises TransportError: the server cannot be started or reached.
        :raises AuthError: the server wants a token that was not given, or could not be obtained.
        :raises ConnectionClosed: the server ended before it answered; the text has the end of its stderr.
        :raises RequestTimeout: no session within ``open_timeout``; a process is ended before this is raised.
        :raises UnsupportedVersion: client and server have no revision in common.
        :raises RuntimeError: the client was opened before.
        """
        self._opener.open()
        return self

    def _opened(self, session: ClientSession, waiting: Waiting) -> None:
        if self._settings.ping_interval is not None:
            Loop("keep-alive", self._keep_alive, self._ping_stop.wait).start()
        _log.info("connected to %s, %s", session.name, session.revision.name)
        self._observed = session
        for observer in self._observers:
            observer.opened(session)
        if self._subscriptions is not None or session.change_streams and any(self._handlers.interests().values()):
            self._all_subscriptions().open_for_handlers(session, waiting.least(self._timeout))
        if self._extensions is not None:
            try:
                for extension in self._extensions.all:
                    extension.start(self)
            except Exception:
                self.close()
                raise

    def _keep_alive(self) -> None:
        """Ping an idle server; on a thread that ends with the client, with the connection, or after a ping without an answer.

        It starts once the client is open, and blocks on its interval and on the ping.
        """
        seconds, received = self._settings.ping_timeout, self.counters.messages_received
        while not self._ping_stop.wait(self._settings.ping_interval):
            before, received = received, self.counters.messages_received
            if received != before:
                continue  # PING-07: other traffic shows that the server is alive
            session = self._opener.session
            alive = session is not None and session.restartable and not session.peer.closed
            try:
                self.ping(timeout=seconds)  # PING-06
            except RemoteError as error:
                _log.debug("a ping was answered with an error, which shows that the server is alive: %s", error)
            except MCPError as error:
                cause: Exception = error
                if alive and session is not None and session.peer.closed:
                    continue  # its process has ended meanwhile, and another one can be started
                if isinstance(error, RequestTimeout):
                    cause = ConnectionClosed(f"the server did not answer a ping within {seconds:g} s, so the connection was"
                                             " closed")
                # A connection that has ended meanwhile has a cause of its own, which is the one to report.
                if not self._ping_stop.is_set() and self.state == "open":
                    _log.warning("a ping failed, so the connection is closed: %s", cause)
                    self.fail(cause)
                return
            received = self.counters.messages_received

    def use_extension(self, identifier: str, make: "Callable[[], Extension]") -> "Extension":
        from .client_extensions import ClientExtensions  # for clients that have one

        with self._lock:
            extensions = self._extensions or ClientExtensions(self, self._custom)
            found = extensions.find(identifier)
            if found is None:
                found = make()
                extensions.add(found)
            self._extensions = extensions
        return found

    def sibling(self, handlers: Any, cache: bool = True, client_info: Optional[types.Implementation] = None) -> "Client":
        """Return another client, which is not open, for the same server, with the same options and other handlers.

        A server that mounts this client opens siblings of it, one for each of its own clients.

        :param handlers: a :class:`Handlers`.
        :param cache: whether it may keep results.
        :param client_info: its name and version; by default those of this client.
        """
        settings = changed(self._settings, cache=cache and self._settings.cache,
                           client_info=client_info or self._settings.client_info)
        return Client(self._transport, settings, handlers)

    def _let_go(self, owner: int) -> None:
        # In a forked process the connection cannot be shared. If the transport allows it, the next call opens another one here.
        name = self._opener.name
        if self._opener.let_go(foreign_error(name, owner, "open a client in this process"), owner):
            self._ping_stop = threading.Event()
            renew(self._cache, self._handlers, self._schemas)
            if self._subscriptions is not None:
                self._subscriptions.let_go(foreign_error(name, owner, "subscribe in this process"))

    def _use(self, session: ClientSession, lost: Optional[ClientSession]) -> None:
        """Called with each session before a call uses it, and with the one that it replaces."""
        if lost is not None and session.restartable:
            self._cache.clear()
            self._forget_tools()
        self._set_revision(session)

    def _on_notification(self, method: str, params: Dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._forget_tools()
        uri = params.get("uri")
        self._cache.changed(method, uri if isinstance(uri, str) else None)
        if self._subscriptions is not None:
            self._subscriptions.on_notification(method, params, self._opener.connection)

    def _on_connection_closed(self) -> None:
        opener, session = self._opener, self._opener.session
        if opener.state != "open" or session is None or not session.restartable:
            error = opener.error if opener.state == "closed" or session is None else session.peer.last_error
            with self._lock:
                observed, self._observed = self._observed, None
            if observed is not None:
                for observer in self._observers:
                    observer.closed(observed, error)
                for extension in () if self._extensions is None else self._extensions.all:
                    extension.stop(self)
            self._lose_subscriptions()

    def _lose_subscriptions(self) -> None:
        if self._subscriptions is not None:
            self._subscriptions.lost(self._opener.name)

    def close(self) -> None:
        """Close the connection and end the server's process; idempotent, from any thread and any callback.

        Waiting calls fail at once with ``ConnectionClosed``.
        """
        self._opener.change("closed")
        self._ping_stop.set()
        if self._opener.session is not None:
            self._lose_subscriptions()  # before the connection ends, so that none of them logs a failure
        self._opener.close()

    def fail(self, error: Exception) -> None:
        """Close because of *error*, which waiting calls raise."""
        self._opener.close(error)

    def __enter__(self) -> "Client":
        return self.open() if self._opener.state in ("new", "closed") else self  # open() refuses a closed one

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
        ready = self._opener.ready
        if ready is not None and ready.peer.closed:
            return "closed"
        return "open" if self._opener.state == "inherited" else self._opener.state

    @property
    def skills(self) -> "ClientSkills":
        """The server's skills: texts for a model, with files (SEP-2640); ``list()``, ``get(uri)``, ``load(skill)``."""
        from ..rooms import load

        return load("Client.skills")(self, lambda: self._opener.name)  # type: ignore[no-any-return]

    @property
    def last_error(self) -> Optional[Exception]:
        """The error that ended the connection or kept it from opening; None if there was none."""
        connection = self._opener.connection
        return self._opener.error or (connection.peer.last_error if connection is not None else None)

    @property
    def counters(self) -> Counters:
        """The messages and bytes that the latest connection has sent and received."""
        import copy  # for the few programs that ask

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
        """What the client found out about the server, as JSON; with ``ClientOptions(prior=)`` the next one skips the probe
        (ERA-16)."""
        return prior_of(self._known_session())

    @property
    def server_info(self) -> types.Implementation:
        """The server's name and version."""
        return self._handshake().server_info

    @property
    def server_capabilities(self) -> types.ServerCapabilities:
        """What the server declared."""
        return self._handshake().capabilities

    @property
    def instructions(self) -> Optional[str]:
        """The server's instructions on how to use it, for a model to read."""
        return self._handshake().instructions

    def _known_session(self) -> ClientSession:
        """Return the session, open or not.

        :raises ConnectionClosed: the client never had one.
        """
        if self._opener.state == "connecting":
            self._open_session()
        session = self._opener.session
        if session is None:
            raise self._opener.closed_error()
        return session

    def _handshake(self) -> types.InitializeResult:
        result = self._known_session().result
        assert result is not None, "the session is open"
        return result

    def _open_session(self) -> ClientSession:
        """Return the open session, for a caller without time limits of its own."""
        return self._opener.wait(Waiting())

    # --- handlers of the user's own -----------------------------------------------------------------------

    def on(self, method: str, handler: Callable[[Dict[str, Any]], Any]) -> None:
        """Register ``handler(params)`` for a request or notification that is not part of the protocol.

        A request is answered with the dict that the handler returns (None for an empty one) or the ``RemoteError`` that it
        raises; the handler runs on a worker thread. For notifications the handler runs on the thread of notifications, in their
        order.

        :raises TypeError: the handler cannot be called.
        :raises RegistrationError: an extension of the client takes *method*.
        """
        if not callable(handler):
            raise TypeError(f"the handler of {method!r} must be a function, not {type(handler).__name__}")
        owner = None if self._extensions is None else self._extensions.owners.get(method)
        if owner is not None:
            raise RegistrationError(f"choose another name than {method!r} for Client.on(): {owner} has it already")
        self._custom[method] = handler

    # --- telemetry ----------------------------------------------------------------------------------------

    def observe(self, observer: ClientObserver) -> None:
        """Have *observer* see the calls of this client, the questions that it answers, and its session.

        The observer that was added first is the outermost one. The time that an observer takes counts to the call. Telemetry
        uses this method.
        """
        self._observers.append(observer)
        if self._opener.channel is not None:
            self._opener.channel.accompany(functools.partial(headers_of, self._observers))
        if self._observed is not None:
            observer.opened(self._observed)

    # --- changes ------------------------------------------------------------------------------------------

    def listen(self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False,
               resources: Sequence[str] = (), timeout: Optional[float] = DEFAULT) -> "Subscription":
        """Return a subscription to iterate over: ``with client.listen(tools=True) as events: for event in events: ...``.

        It works in every revision that has such notifications. Each change after the return yields an event; if a list or a
        resource changes again before its event is read, there is one event.

        :param tools, prompts, resource_list: whether to include changes of these lists.
        :param resources: URIs whose updates to include.
        :param timeout: seconds for the server to acknowledge it; by default the client's.
        :raises ValueError: nothing is included.
        """
        from .subscription import Filter  # for clients that have a subscription

        return self._listen(Filter(tools, prompts, resource_list, resources), None, timeout)

    def subscribe(self, callback: "Callable[[Event], object]", *, tools: bool = False, prompts: bool = False,
                  resource_list: bool = False, resources: Sequence[str] = (), timeout: Optional[float] = DEFAULT
                  ) -> Callable[[], None]:
        """Call *callback* with each event, one after another on the thread of notifications.

        Return a function that ends the subscription.

        :param callback: gets a :class:`ToolsChanged`, :class:`PromptsChanged`, :class:`ResourcesChanged` or
            :class:`ResourceUpdated`. The other parameters are those of :meth:`listen`.
        """
        from .subscription import Filter

        return self._listen(Filter(tools, prompts, resource_list, resources), callback, timeout).close

    def follow(self, filter: Mapping[str, Any], callback: "Callable[[str, Dict[str, Any]], object]", *,
               timeout: Optional[float] = DEFAULT) -> "Following":
        """Receive notifications that an extension of the server adds, in revisions without a handshake (from July 2026 on).

        Servers with a session send such notifications without being asked; register a handler for them with :meth:`on`.

        :param filter: the members of the filter of ``subscriptions/listen`` that the extension adds, with their values.
        :param callback: called with the method and the params of each notification, on the thread of notifications.
        :param timeout: seconds for the server to acknowledge it; by default the client's.
        :returns: an object whose ``close()``, or the end of a ``with`` block, ends the stream. The stream ends with the
            connection as well.
        :raises NotSupported: the revision has no such streams, or the server does not acknowledge the filter.
        :raises RequestTimeout: there is no acknowledgement in time.
        """
        from .subscription import Following  # for clients that follow one

        session, options = self._session_for(RequestOptions(timeout))
        if not session.change_streams:
            raise NotSupported(f"use client.on(): {session.name} speaks {session.revision}, in which servers send notifications"
                               " without a subscription")
        following = Following(session, filter, callback)
        following.open(self._left_of(options) or _FOLLOWED_SECONDS)
        return following

    def _listen(self, filter: "Filter", callback: "Optional[Callable[[Event], object]]", timeout: Optional[float]
                ) -> "Subscription":
        session, options = self._session_for(RequestOptions(timeout))
        if filter.uris and not session.change_streams:
            options = self._require(options, "resources", "resources/subscribe", "subscribe")[1]
        return self._all_subscriptions().open(self._open_session(), filter, callback, self._left_of(options))

    def _all_subscriptions(self) -> Subscriptions:
        from .subscription import Subscriptions  # for clients that have a subscription

        with self._lock:
            self._subscriptions = self._subscriptions or Subscriptions(self, self._handlers, self._open_session)
        return self._subscriptions

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and notify the server (ROOT-03).

        :raises ValueError: the client was made without roots, or a root is not a file.
        """
        self._handlers.set_roots(roots)
        self._notify_roots()

    def add_root(self, root: "Union[str, os.PathLike[str], types.Root]") -> None:
        """Add one root, unless it is there already, and notify the server (ROOT-03).

        :param root: a path, a ``file://`` URI or a ``Root``.
        :raises ValueError: it is not a file, or the client was made without roots or with a function of them.
        """
        (added,) = checked_roots([root])
        if self._handlers.change_roots(lambda roots: roots if added in roots else [*roots, added]):
            self._notify_roots()

    def remove_root(self, root: "Union[str, os.PathLike[str], types.Root]") -> None:
        """Remove one root, and notify the server (ROOT-03).

        :param root: as it was added: a path, a ``file://`` URI or a ``Root``.
        :raises ValueError: there is no such root, or the client was made without roots or with a function of them.
        """
        (removed,) = checked_roots([root])
        if not self._handlers.change_roots(lambda roots: [one for one in roots if one.uri != removed.uri]):
            raise ValueError(f"{removed.uri} is not one of the roots")
        self._notify_roots()

    def _notify_roots(self) -> None:
        if self.state == "open" and "notifications/roots/list_changed" in self.revision.client_notifications:
            self.notify("notifications/roots/list_changed")
