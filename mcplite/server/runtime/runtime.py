"""Holds what lives as long as the server: worker threads, lifespan, open sessions, calls that wait for clients.

Sessions, endpoints and transports share it; a module of its own so that none of them owns the others.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, FrozenSet, List, Optional, Set, Tuple, Union

from ...errors import ConnectionClosed, RegistrationError, TransportError
from ...protocol import jsonrpc
from ...protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ...rpc.deadline import undo
from ...rpc.fair_queue import QueuedJob, Turns
from ...rpc.forks import on_fork, renew
from ...rpc.request import MUCH
from ...rpc.threads import CallQueue, Workers
from ...rpc.tracing import get_logger
from ..catalog.registry import Needed, Provider, Service, may_be_told
from ..eviction import ByteBudget
from .processes import Fleet, Processes
from .subscriptions import ListenRequests, Subscribers

if TYPE_CHECKING:
    from ...revisions import Revision
    from ...rpc.extension import Extension
    from ...rpc.peer import Peer
    from ..catalog.catalog import Catalog
    from ..limits import Limits
    from ..principals import Principal
    from .extension_host import ServerHost
    from .observer import ServerObserver

__all__ = ["OpenSession", "Runtime"]

_log = get_logger(__name__)


class OpenSession:
    """An open session, as the runtime sees it: it sends notifications to its client outside of requests."""

    peer: Peer
    revision: Revision
    principal: "Optional[Principal]"
    #: The scopes of its client, which is not told of what they do not allow; None if nothing is hidden from it.
    granted: Optional[FrozenSet[str]] = None

    @property
    def followed(self) -> Set[str]:
        """The URIs of the resources that its client subscribes to."""
        raise NotImplementedError

    def publish(self, method: str, uri: Optional[str], capability: str, written: Dict[Optional[str], bytes]) -> None:
        """Send a change notification, if the client declared or subscribed to it; *written* keeps its text for others."""
        raise NotImplementedError

    def log(self, level: str, data: Any, logger: Optional[str] = None) -> None:
        """Send a log message outside of a request."""
        raise NotImplementedError


class _NotificationJob(QueuedJob):
    """The call of the user's handler of a notification."""

    __slots__ = ("execute", "sender", "size", "queued_size")

    def __init__(self, run: Callable[[], object], sender: str, size: int) -> None:
        self.execute = run  # type: ignore[method-assign]
        self.sender = sender  # type: ignore[misc]
        self.queued_size, self.size = size, size if size >= MUCH else 0


#: Clients that the thread tells that reports a change.
_FEW_CLIENTS = 64


class Runtime:
    """The state that the sessions, endpoints and transports of one server share.

    :param catalog: what the server offers.
    :param limits: all limits.
    :param lifespan: returns the context manager that is entered before the first client is served and left after the last.
    :param on_roots_changed: called with a session whose client announces that its roots have changed.
    :param mask_errors: hides the text of a tool's exceptions from clients.
    :param auth: the ``Authorizer`` of the endpoints over HTTP, or None; read when an endpoint is created.
    :param fleet: what the processes of a fleet share; None for a server in one process.
    :param debug: logs every message.
    """

    def __init__(self, catalog: Catalog, limits: Limits, lifespan: Optional[Callable[[], ContextManager[Any]]] = None,
                 on_roots_changed: Optional[Callable[[Any], object]] = None, mask_errors: bool = False,
                 auth: Any = None, fleet: "Optional[Fleet]" = None,
                 debug: Union[None, bool, str] = None) -> None:
        self.catalog = catalog
        self.limits = limits
        self.mask_errors = mask_errors
        self.auth = auth
        self.fleet = fleet
        self.debug = debug
        #: They see sessions and questions; the requests they see as middleware.
        self.observers: List[ServerObserver] = []
        #: Called around each handler of a pipe: on its thread, with a function that runs it; returns what that returns.
        self.around: Optional[Callable[[Callable[[], Any]], Any]] = None
        self._lifespan = lifespan
        self._on_roots_changed = on_roots_changed
        #: The limits of incoming JSON.
        self.json_limits = jsonrpc.JSONLimits(nesting=limits.json_nesting, elements=limits.json_elements, batch=limits.batch)
        #: What the streams of all clients hold.
        self.unread = ByteBudget(limits.unread_bytes_at_once)
        #: Large messages over HTTP are decoded and checked in turns.
        self.turns = Turns(limits.queue_seconds)
        #: The connections of all clients.
        self.peers: "weakref.WeakSet[Any]" = weakref.WeakSet()
        #: Guards changes of the fields below; held for list and dictionary operations, while a lifespan is entered or left, and
        #: while a service begins or ends. What their threads use is read without it.
        self._lock = threading.RLock()
        self._sessions: List[OpenSession] = []
        self._users = 0
        #: Whether the server is closed for good.
        self._ended = False
        self._exit: Optional[contextlib.ExitStack] = None
        #: The lifespan of the process that this one was forked from: kept, since dropping it would leave it.
        self._inherited: Optional[contextlib.ExitStack] = None
        self._workers: Optional[Workers] = None
        #: The calls whose handlers wait for their clients, of the layer above; None until there is one.
        self.suspended_calls: Any = None
        #: What runs while there are clients: by the URI of a directory, or the name of a mount.
        self._services: Dict[str, Service] = {}
        #: Called with each change notification, its method, the URI of a resource, and who may be told of a list: the servers
        #: that mount this one.
        self.listeners: List[Callable[[str, Optional[str], Needed], object]] = []
        #: Called with a session and True when its client's roots have changed, and False when it has ended: the mounts that
        #: have a connection for each client.
        self.followers: List[Callable[[OpenSession, bool], object]] = []
        #: Called with a session whose handshake is complete, on the reader's thread.
        self.greeters: List[Callable[[OpenSession], object]] = []
        #: Counts the values of ``ctx.store`` in the memory of this process; None while there are none.
        self.value_budget: Any = None
        #: The value of the lifespan; None if there is none, or it is not entered.
        self.lifespan_value: Any = None
        #: Counts the subscriptions to each resource, for the user's hook and for mounts.
        self.subscribers = Subscribers()
        #: The server as each of its extensions sees it, by identifier.
        self._hosts: "Dict[str, ServerHost]" = {}
        #: The extensions with a hook around ``tools/call``.
        self.tool_hooks: "Tuple[Extension, ...]" = ()
        #: How the server has tasks, as the user gave it; None for the defaults.
        self.tasks: Any = None
        #: The other processes of the server, and the backend that they share; one process has its own memory.
        self.processes = Processes()
        if fleet is not None and fleet.backend is not None:
            from ...rooms import load

            self.processes = load("a shared backend")(self, fleet.backend)  # fleet.fleet_processes.FleetProcesses
        #: The ``subscriptions/listen`` requests that are open.
        self.subscriptions = self._create_subscriptions()
        #: The changes that many clients are told of.
        self._reports = CallQueue("reports of changes", self._tell)
        on_fork(self, Runtime._let_go)

    def _create_subscriptions(self) -> ListenRequests:
        return ListenRequests(self.catalog, self.limits, lambda task: self.workers.spawn(task), self.subscribers)

    def count_subscriptions(self, hook: Callable[[str, int], object], awaited: bool = False) -> None:
        """Call *hook* with each change of the number of subscriptions to a URI.

        :param awaited: whether a client is told that it has subscribed after the hook was called, and not before.
        """
        self.subscribers.hooks.append(hook)
        self.subscribers.awaited = self.subscribers.awaited or awaited

    def _let_go(self, owner: int) -> None:
        # In a forked process: clients and threads belong to the parent process. So does the lifespan, and this process must not
        # exit it. Until this process enters a lifespan of its own, ``lifespan_value`` is that of the parent.
        renew(self.catalog, self.catalog.registry, self.unread)
        self.turns.let_go()
        self.processes.let_go()
        self.subscribers.let_go()
        for service in self._services.values():
            service.let_go()
        for peer in list(self.peers):
            peer.let_go(owner)
        self._sessions, self.suspended_calls, self._workers, self.value_budget = [], None, None, None
        self.subscriptions = self._create_subscriptions()
        self._reports = CallQueue("reports of changes", self._tell)
        self._inherited, self._exit, self._users = self._exit or self._inherited, None, 0

    # --- threads and the lifespan ---------------------------------------------------------------------

    @property
    def workers(self) -> Workers:
        """The threads that run handlers; created with the first client, and again in a forked process."""
        workers = self._workers
        if workers is None:
            with self._lock:
                limits = self.limits
                workers = self._workers = self._workers or Workers(
                    limits.running, limits.queued, "mcplite worker",
                    running_bytes=limits.running_bytes, queued_bytes=limits.queued_bytes)
        return workers

    def enter(self) -> None:
        """Count one more user; the first enters the lifespan."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                with undo(self._uncount):
                    self._start_listening()
            if self._lifespan is None or self._exit is not None:
                return
            stack = contextlib.ExitStack()
            with undo(self._uncount):
                entered = self._lifespan()
                if not hasattr(type(entered), "__enter__"):
                    raise TypeError(f"decorate the function of lifespan= with @contextlib.contextmanager: it returned"
                                    f" {type(entered).__name__}, which is no context manager")
                self.lifespan_value = stack.enter_context(entered)
            self._exit = stack

    def _uncount(self) -> None:
        # With the lock held.
        self._users -= 1
        if not self._users:
            self._stop_listening()
            self._close_backend()

    def add_service(self, name: str, service: Service) -> None:
        """Let *service* run while there are clients, in place of another one of this name."""
        with self._lock:
            before, self._services[name] = self._services.get(name), service
            if before is not None:
                before.stop()
            if self._users:
                service.start()

    def offer(self, provider: Provider) -> None:
        """Have the entries of a provider among the server's own, and let it run while there are clients.

        :raises RegistrationError: a name is taken; nothing is offered then.
        """
        registry, entries = self.catalog.registry, provider.entries()
        for kind, found in entries.items():
            taken = next((name for name in found if name in registry.all(kind)), None)
            if taken is not None:
                raise RegistrationError(f"the {kind[:-1]} {taken!r} of {provider.name} is registered already; give one of"
                                        " the two another name")
        for kind, found in entries.items():
            registry.provide(provider, kind, found)
        if isinstance(provider, Service):
            self.add_service(f"provider {id(provider)}", provider)

    def add_extension(self, extension: "Extension", known: bool = False) -> None:
        """Register an extension; it is started at once if there are clients.

        :param known: returns without an error if there is one of this identifier.
        :raises RegistrationError: see :meth:`ServerExtensions.add`.
        """
        from ...rpc.extension import overrides
        from .extension_host import ServerHost

        with self._lock:
            if known and extension.identifier in self._hosts:
                return
            host = ServerHost(self, extension)
            extension.attach(host)
            self.catalog.add_extension(extension)
            if overrides(extension, "handle_tool"):
                self.tool_hooks = (*self.tool_hooks, extension)
            self._hosts = {**self._hosts, extension.identifier: host}
            self.add_service(extension.identifier, host)

    def extension(self, identifier: str) -> "Optional[Extension]":
        """Return the extension of this identifier; None if it is not registered."""
        return None if self.catalog.extensions is None else self.catalog.extensions.find(identifier)

    def remove_service(self, name: str) -> None:
        """Stop the service of this name, if there is one."""
        with self._lock:
            service = self._services.pop(name, None)
        if service is not None:
            service.stop()

    def _start_listening(self) -> None:
        """Begin to look for changes of files and in other processes, since there is a client to tell."""
        for service in list(self._services.values()):  # a mount may add an extension, which is started with that
            service.start()
        self.processes.start()

    def _stop_listening(self) -> None:
        parts: List[Any] = [*self._services.values(), self.processes]
        for part in parts:
            try:
                part.stop()
            except Exception:  # the others are stopped all the same
                _log.exception("a part of %r failed at its end: %s", self.catalog.name, type(part).__name__.lower())

    def leave(self) -> None:
        """Count one user less; the last leaves the lifespan and ends the workers."""
        with self._lock:
            self._uncount()
            if self._users:
                return
            self._stop_workers()  # the last client is gone; the next one gets new threads
            if self._exit is None:
                return
            stack, self._exit = self._exit, None
            try:
                stack.close()
            except Exception:
                _log.exception("the lifespan of %r failed at its end", self.catalog.name)
            self.lifespan_value = None

    def close(self) -> None:
        """End every session, leave the lifespan, and stop the worker threads; idempotent."""
        for session in self.sessions:
            self.subscriptions.end(session.peer)
            session.peer.close()
        for host in self._hosts.values():
            host.close()
        self._stop_workers()

    def end(self) -> None:
        """Close, and have the backend closed that was opened for the server, once its last user has left."""
        self.close()
        with self._lock:
            self._ended = True
            if not self._users:
                self._close_backend()

    def _close_backend(self) -> None:
        # With the lock held. The number of this process is given back before.
        if self._ended and self.fleet is not None:
            self.fleet.close()

    def _stop_workers(self) -> None:
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.stop()

    # --- sessions ---------------------------------------------------------------------------------------

    @property
    def sessions(self) -> List[OpenSession]:
        """The sessions that are open now."""
        return list(self._sessions)  # without the lock: a lifespan may wait for a thread that logs to all clients

    def session_opened(self, session: OpenSession) -> None:
        """Add a session whose opener has called :meth:`enter`, until :meth:`session_closed`."""
        with self._lock:
            self._sessions.append(session)
        with undo(lambda: self.session_closed(session, ConnectionClosed("the session was refused by an observer"))):
            for observer in self.observers:
                observer.session_opened(session)

    def session_closed(self, session: OpenSession, error: Exception) -> None:
        """Remove a session."""
        with self._lock:
            if session not in self._sessions:
                return
            self._sessions.remove(session)
        _log.debug("a session ended: %s", error)
        told: List[Callable[[], object]] = [functools.partial(one.session_closed, session, error) for one in self.observers]
        told += [functools.partial(follower, session, False) for follower in self.followers]
        for tell in told:
            try:
                tell()
            except Exception:  # the others are told all the same, and the lifespan is left
                _log.exception("the end of a session could not be told")
        self.leave()

    def list_changed(self, kind: str, needed: Needed = None, always: bool = True) -> None:
        """Notify clients that "tools", "resources" or "prompts" have changed, if the server says that it does so.

        :param needed: the scopes of the entries that have changed; None if that is not known, so that every client is told.
        :param always: False leaves out the clients of other processes while this one serves none: it registers what each
            of them has registered for itself.
        """
        method = f"notifications/{kind}/list_changed"
        self.deliver(method, None, needed)
        if always or self._users:
            self.processes.publish(method, None, needed)

    def resource_updated(self, uri: str) -> None:
        """Notify clients that subscribed to *uri*, or listen to it, of its change; in any form of the URI."""
        from ...protocol.uris import normal_uri  # for servers that have resources

        uri = normal_uri(uri)
        self.deliver(RESOURCE_UPDATED, uri)
        self.processes.publish(RESOURCE_UPDATED, uri)

    def deliver(self, method: str, uri: Optional[str], needed: Needed = None) -> None:
        """Notify the clients of this process, and the servers that mount this one; those from whom the change is hidden not.

        If there are many clients, a thread does it, and this one goes on: each client costs some microseconds.
        """
        for listener in self.listeners:
            listener(method, uri, needed)
        if not self._sessions and not self.subscriptions:
            return  # as when a program registers its tools; a session that is opened now reads what has changed
        capability = "resources" if uri is not None else LIST_CHANGES[method].capability
        if uri is None and capability not in self.catalog.description.flags.list_changed:
            return
        if not self.catalog.hides:
            needed = None
        elif uri is not None:
            needed = self.catalog.needed(uri)
        if len(self._sessions) + len(self.subscriptions) > _FEW_CLIENTS:
            try:
                self._reports.put((method, uri, capability, needed), once=True)
                self._reports.begin()
                return
            except TransportError as error:
                _log.warning("the thread that reports a change tells all clients of it: %s", error)
        self._tell((method, uri, capability, needed))

    def _tell(self, change: Tuple[str, Optional[str], str, Needed]) -> None:
        method, uri, capability, needed = change
        sessions = self.sessions
        if needed is not None:
            sessions = [session for session in sessions if may_be_told(session.granted, needed)]
        written: Dict[Optional[str], bytes] = {}
        for session in sessions:
            session.publish(method, uri, capability, written)
        self.subscriptions.publish(method, uri, needed)

    def everything_changed(self) -> None:
        """Notify the clients of this process that any list may have changed, and each resource that they follow."""
        for method in LIST_CHANGES:
            self.deliver(method, None)
        followed = self.subscriptions.uris().union(*(session.followed for session in self.sessions))
        for uri in followed:
            self.deliver(RESOURCE_UPDATED, uri)

    @property
    def pushes(self) -> bool:
        """Whether a client with a session may be sent what belongs to none of its requests."""
        catalog, flags = self.catalog, self.catalog.description.flags
        told = {change.capability for change in LIST_CHANGES.values()} & flags.list_changed
        if any(map(catalog.offers, told)):
            return True
        if flags.asked_logging or (flags.subscribe and catalog.offers("resources")):
            return True
        if self._on_roots_changed is not None:
            return True
        return bool(self.followers or self.greeters or catalog.extensions or catalog.description.experimental)

    def roots_changed(self, session: OpenSession) -> None:
        """Pass a client's roots change on to the user's callback, on a worker."""
        callback = self._on_roots_changed
        if callback is not None:
            self.notified("notifications/roots/list_changed", lambda: callback(session))
        for follower in self.followers:
            self.notified("notifications/roots/list_changed", functools.partial(follower, session, True))

    def notified(self, method: str, handler: Callable[[], object], sender: str = "", size: int = 0) -> None:
        """Run the user's handler of a notification on a worker; it is dropped if too much is queued.

        :param sender: the key under which limits count it; empty for a client on a pipe.
        :param size: its bytes of memory; 0 if they are not counted, as on a pipe.
        """

        def run() -> None:
            try:
                handler()
            except Exception:
                _log.exception("the handler of %r failed", method)

        self.workers.enqueue(_NotificationJob(run, sender, size))

    # --- calls that wait for their clients ----------------------------------------------------------------

    def keep_suspended_calls(self, make: "Callable[[Runtime], Any]") -> Any:
        """Return the suspended calls, which *make* returns if there are none yet."""
        with self._lock:
            if self.suspended_calls is None:
                self.suspended_calls = make(self)
            return self.suspended_calls

    def cancel_suspended(self, peer: Peer, reason: str) -> None:
        """Cancel the handlers that wait for clients of a connection that has ended."""
        if self.suspended_calls is not None:
            self.suspended_calls.cancel(lambda call: call.peer is peer, reason)
