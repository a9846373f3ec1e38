"""The connections to one mounted server, and which of them carries a call.

A server that needs no handshake gets all calls over one connection, each with the capabilities of its own client. One with a
handshake knows one client for each connection, and its questions do not say which call they belong to. So each client that
began with a handshake has a connection of its own, with its own capabilities, for as long as its session lasts. A call of a
client without a session has a connection for itself while it runs, if the client can be asked anything.

The mounted server is told of a client what it can be asked, its name, and the log level that it wants (:class:`Senders`).
"""

import contextlib
import json
import threading
from functools import partial
from typing import Any, ContextManager, Dict, Iterator, List, Mapping, Optional, Tuple

from ..client.call import OpeningLock, Waiting
from ..client.client import Client
from ..client.sessions.base import ClientObserver
from ..errors import ConnectionClosed, MCPError, RemoteError
from ..protocol.meta import CAPABILITIES, CLIENT_INFO, LOG_LEVEL
from ..revisions import NEWEST, TASKS_EXTENSION, Revision
from ..rpc.deadline import undo
from ..rpc.forks import renew
from ..rpc.threads import start_thread
from ..server.handling.context import RequestContext
from ..server.runtime.runtime import OpenSession
from ..server.sessions.legacy import LegacySession
from ..types import ClientCapabilities, Implementation, codec
from .question_relay import EVERYTHING, RelayedCall, RelayHandlers

__all__ = ["Link", "Links", "OWN", "Senders", "passed_on"]

#: How the names of the protocol's own extensions begin, and those of the members of ``_meta`` that belong to one connection.
OWN = "io.modelcontextprotocol/"


def declared_by(context: RequestContext) -> ClientCapabilities:
    """Return what the client of a request can be asked."""
    session = context.session
    return passed_on(session.client_capabilities) if session.askable else ClientCapabilities()


def passed_on(declared: ClientCapabilities) -> ClientCapabilities:
    """Return those of the capabilities of a client that a mounted server is told.

    Tasks are not among them, since questions are passed on as ordinary ones.
    """
    # The protocol's own extensions change how results come, which has to be known here.
    extensions = {name: settings for name, settings in (declared.extensions or {}).items() if not name.startswith(OWN)}
    return ClientCapabilities(roots=declared.roots, sampling=declared.sampling, elicitation=declared.elicitation,
                              extensions=extensions or None)


class Senders:
    """The members of ``_meta`` by which each request of one connection names its sender.

    Those of the last request are kept, since most requests follow one of the same client.
    """

    def __init__(self) -> None:
        #: What they were made of, and the members. Replaced as a whole, so that it needs no lock.
        self._last: Tuple[Any, Dict[str, Any]] = None, {}

    def members(self, context: RequestContext, revision: Revision, tasks: bool) -> Mapping[str, Any]:
        """Return the members for a request, in a revision of the mounted server.

        :param tasks: whether the result may say that the call has become a task.
        """
        session = context.session
        made_of = session.client_facts, session.askable, session.log_level, revision, tasks
        known, members = self._last
        if known != made_of:
            declared, info = declared_by(context), context.client_info
            if tasks:
                declared.extensions = {TASKS_EXTENSION: {}, **(declared.extensions or {})}
            members = {CAPABILITIES: codec.encode(declared, revision), LOG_LEVEL: session.log_level,
                       CLIENT_INFO: None if info is None else codec.encode(info, revision)}
            self._last = made_of, members
        return members


#: Connections that wait for the next call of a client without a session; more are closed.
_IDLE = 4
#: Connections for the clients without a session that cannot be asked, one for each principal: the one that was used longest ago
#: goes for another.
_PLAIN = 16
Key = Tuple[Optional[str], str]


class Link:
    """One connection to a mounted server.

    :param client: not open yet.
    :param handlers: of that client.
    """

    def __init__(self, client: Client, handlers: RelayHandlers) -> None:
        self.client = client
        self.handlers = handlers
        #: Name the sender of each request, on a connection without a handshake.
        self.senders = Senders()
        #: Guards the fields below; held for arithmetic only.
        self._lock = threading.Lock()
        #: The calls and the tasks for which it is kept open.
        self._held = 0
        self._over = False

    def hold(self) -> None:
        """Keep the connection open for a call or a task, until :meth:`release`."""
        with self._lock:
            self._held += 1

    def release(self) -> None:
        """Close the connection after the last call and task, if :meth:`close` was called meanwhile."""
        with self._lock:
            self._held -= 1
            ended = self._over and not self._held
        if ended:
            self.client.close()

    def close(self) -> None:
        """Close the connection, now or after the last call and task for which it is held."""
        with self._lock:
            self._over = True
            if self._held:
                return
        self.client.close()

    def open(self) -> None:
        """Open the connection.

        :raises MCPError: the server cannot be reached.
        """
        self.client.open()
        capabilities = self.client.server_capabilities
        if self.client.era == "legacy" and capabilities.logging is not None:
            # All of them: which a client wants is decided for each client.
            try:
                self.client.set_log_level("debug")
            except MCPError:
                if self.client.state != "open":
                    raise

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return self.client.state == "open"


class Links:
    """The connections to one mounted server.

    :param template: the client as it was mounted; never opened itself.
    :param name: of the server, for errors.
    :param shared: whether clients share one connection, whatever the revision.
    """

    def __init__(self, template: Client, name: str, shared: bool) -> None:
        self._template = template
        self._name = name
        self.shared = shared
        #: The connection for lists and changes, which :class:`~.reconnecting.Keeper` keeps; None while the server is down.
        self.main: Optional[Link] = None
        #: Sees the requests of that connection.
        self.observer: Optional[ClientObserver] = None
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._own: Dict[OpenSession, Link] = {}
        #: By principal: what serves clients without a session that cannot be asked.
        self._plain: Dict[Optional[str], Link] = {}
        #: Held by the call that opens a connection of these two kinds, so that there is one; by session or principal.
        self._opening: Dict[Any, OpeningLock] = {}
        self._idle: List[Tuple[Key, Link]] = []

    def create(self, declared: ClientCapabilities, session: Optional[LegacySession] = None,
               info: Optional[Implementation] = None, **callbacks: Any) -> Link:
        """Return a connection that is not open yet.

        :param info: the name that the server gets; None for that of the mounted client.
        """
        callbacks.setdefault("on_change", None)
        callbacks.setdefault("on_lost", lambda error: None)
        handlers = RelayHandlers(self._name, declared, session, **callbacks)
        return Link(self._template.sibling(handlers, cache=False, client_info=info), handlers)

    def create_main(self, **callbacks: Any) -> Link:
        """Return a connection for lists and changes; servers list some tools only if the client can be asked."""
        link = self.create(EVERYTHING, **callbacks)
        if self.observer is not None:
            link.client.observe(self.observer)
        return link

    def _open(self, link: Link, call: RelayedCall) -> None:
        """Open a connection for a call; it is closed if the call is cancelled before that is done."""
        # On a thread, since closing may take long, and this may be the thread that reads.
        uncancel = call.context.token.add_callback(lambda: start_thread(link.client.close, "mcplite closer"))
        try:
            link.open()
        finally:
            uncancel()
        call.context.token.check()

    def _hold_plain(self, owner: Optional[str], call: RelayedCall) -> Link:
        """Return the connection for the calls of clients without a session that cannot be asked, held for one of them."""
        with self._lock:
            opening = self._opening.setdefault(owner, OpeningLock())
        with opening.hold(Waiting(cancel=call.context.token), self._name) as failure:
            with self._lock:
                link = self._plain.pop(owner, None)
                if link is not None and link.usable:
                    self._plain[owner] = link  # at the end, behind those that were used longer ago
                    link.hold()
                    return link
            if failure is not None:
                raise failure
            link = self.create(ClientCapabilities())
            link.hold()
            with undo(lambda: self._opening.pop(owner, None)):
                self._open(link, call)
            with self._lock:
                # The owner has one already, if it lost its place while this one was opened.
                surplus = [self._plain.pop(owner, None)]
                self._plain[owner] = link
                for other in list(self._plain)[:-_PLAIN]:
                    surplus.append(self._plain.pop(other))
                    self._opening.pop(other, None)
        for left in surplus:
            if left is not None:
                left.close()
        return link

    def lease(self, call: RelayedCall) -> ContextManager[Link]:
        """Return a block with the connection for a call.

        :raises MCPError: there is none, or it cannot be opened; the latter when the block is entered.
        """
        main = self.main
        if main is None:
            raise ConnectionClosed(f"{self._name} cannot be reached at present")
        session = call.context.session
        if self.shared or main.client.revision.modern:
            return _Noted(main, call)
        if session.persistent and isinstance(session, LegacySession):
            return self._own_link(session, call)
        return self._link_without_session(call)

    @contextlib.contextmanager
    def _link_without_session(self, call: RelayedCall) -> Iterator[Link]:
        context = call.context
        declared, info = declared_by(context), context.client_info
        text = json.dumps(codec.encode(declared, NEWEST), sort_keys=True)
        if text == "{}":
            link = self._hold_plain(context.session.owner, call)
            try:
                with _Noted(link, call):
                    yield link
            finally:
                link.release()
            return
        if info is not None:
            text += json.dumps(codec.encode(info, NEWEST), sort_keys=True)
        with self._exclusive((context.session.owner, text), declared, info, call) as link:
            yield link

    @contextlib.contextmanager
    def _own_link(self, session: LegacySession, call: RelayedCall) -> Iterator[Link]:
        with self._lock:
            opening = self._opening.setdefault(session, OpeningLock())
        with opening.hold(Waiting(cancel=call.context.token), self._name) as failure:
            link = self._own.get(session)
            fresh = link is None or not link.usable
            if link is None or not link.usable:
                if failure is not None:
                    raise failure
                link = self.create(declared_by(call.context), session, session.client_info)
                link.handlers.add(call)  # a server may ask as soon as the connection is open
                with undo(partial(link.handlers.remove, call)):
                    self._open(link, call)
                with self._lock:
                    self._own[session] = link
        if session.peer.closed:
            self.forget(session)
        if not fresh:
            link.handlers.add(call)
        try:
            yield link
        finally:
            link.handlers.remove(call)

    @contextlib.contextmanager
    def _exclusive(self, key: Key, declared: ClientCapabilities, info: Optional[Implementation], call: RelayedCall
                   ) -> Iterator[Link]:
        link: Optional[Link] = None
        with self._lock:
            for index, (known, idle) in enumerate(self._idle):
                if known == key and idle.usable:
                    link = idle
                    del self._idle[index]
                    break
        opened = link is not None
        link = link or self.create(declared, info=info)
        answered = False  # else it is not certain what the server still does for this call
        try:
            with _Noted(link, call):
                if not opened:
                    self._open(link, call)
                yield link
            answered = True
        except RemoteError:
            answered = True
            raise
        finally:
            self._give_back(key, link, answered)

    def _give_back(self, key: Key, link: Link, usable: bool) -> None:
        """Keep a connection for the next call, or close it."""
        if not usable or not link.usable or self.main is None:
            link.close()
            return
        with self._lock:
            self._idle.append((key, link))
            surplus = [left for _, left in self._idle[:-_IDLE]]
            del self._idle[:-_IDLE]
        for left in surplus:
            left.close()

    def of(self, session: OpenSession) -> Optional[Link]:
        """Return the connection of a session; None if it has none."""
        return self._own.get(session)

    def forget(self, session: OpenSession) -> None:
        """Close the connection of a session that has ended."""
        with self._lock:
            link = self._own.pop(session, None)
            self._opening.pop(session, None)
        if link is not None:
            link.close()

    def let_go(self) -> None:
        """Forget all connections in a forked process; they belong to the other one."""
        renew(self)
        self.main, self._own, self._plain, self._opening, self._idle = None, {}, {}, {}, []

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            links = [*self._own.values(), *self._plain.values(), *(link for _, link in self._idle)]
            self._own, self._plain, self._opening, self._idle = {}, {}, {}, []
        main, self.main = self.main, None
        for link in links if main is None else [main, *links]:
            link.client.close()


class _Noted(ContextManager[Link]):
    """A block in which the handlers of a connection know of a call. Not a generator, since each call has one."""

    __slots__ = ("_link", "_call")

    def __init__(self, link: Link, call: RelayedCall) -> None:
        self._link = link
        self._call = call

    def __enter__(self) -> Link:
        self._link.handlers.add(self._call)
        return self._link

    def __exit__(self, *error: object) -> None:
        self._link.handlers.remove(self._call)
