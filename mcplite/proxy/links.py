"""Links: the connections to one mounted server, and which of them carries a call.

A server that needs no handshake gets all calls over one connection, each with the capabilities of its own client. One with a
handshake knows one client for each connection, and its questions do not say which call they belong to. So each client that
began with a handshake has a connection of its own, with its own capabilities, for as long as its session lasts. A call of a
client without a session has a connection for itself while it runs, if the client can be asked anything.
"""

import contextlib
import json
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..client.client import Client
from ..client.features.observer import ClientObserver
from ..errors import ConnectionClosed, MCPError, RemoteError
from ..protocol import codec
from ..protocol.envelope import bounded_info
from ..revisions import NEWEST
from ..rpc.forks import new_lock
from ..server.handling.request_context import RequestContext
from ..server.runtime.runtime import OpenSession
from ..server.sessions.legacy import LegacySession
from ..types import ClientCapabilities, Implementation
from .relay import EVERYTHING, RelayedCall, RelayHandlers

__all__ = ["OWN", "Link", "Links", "declared_by", "info_of"]

#: How the names of the protocol's own extensions begin, and those of the members of ``_meta`` that belong to one connection.
OWN = "io.modelcontextprotocol/"
#: Connections that wait for the next call of a client without a session; more are closed.
_IDLE = 4
Key = Tuple[Optional[str], str]


def declared_by(context: RequestContext) -> ClientCapabilities:
    """Return what the client of a request can be asked."""
    session = context.session
    if not session.askable:
        return ClientCapabilities()
    declared = session.client_capabilities
    # The protocol's own extensions change how results come, which has to be known here.
    extensions = {name: settings for name, settings in (declared.extensions or {}).items() if not name.startswith(OWN)}
    return ClientCapabilities(roots=declared.roots, sampling=declared.sampling, elicitation=declared.elicitation,
                              extensions=extensions or None)


def info_of(context: RequestContext) -> Optional[Implementation]:
    """Return the name and version of the client of a request; None if it does not say."""
    info = context.client_info
    return None if info is None else bounded_info(info)


class Link:
    """One connection to a mounted server.

    :param client: not open yet.
    :param handlers: of that client.
    """

    def __init__(self, client: Client, handlers: RelayHandlers) -> None:
        self.client = client
        self.handlers = handlers
        #: Guards the fields below; held for arithmetic only.
        self._lock = new_lock()
        #: The tasks that were started over the connection, and are followed.
        self._tasks = 0
        self._over = False

    def hold(self) -> None:
        """Keep the connection open for a task, until :meth:`release`."""
        with self._lock:
            self._tasks += 1

    def release(self) -> None:
        """Close the connection after its last task, if its client has left."""
        with self._lock:
            self._tasks -= 1
            ended = self._over and not self._tasks
        if ended:
            self.client.close()

    def close(self) -> None:
        """Close the connection, now or after its last task."""
        with self._lock:
            self._over = True
            if self._tasks:
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
        #: The connection for lists and changes, which :class:`~.keeper.Keeper` keeps; None while the server is down.
        self.main: Optional[Link] = None
        #: Sees the requests of that connection.
        self.observer: Optional[ClientObserver] = None
        #: Guards the fields below; held for dictionary work only.
        self._lock = new_lock()
        self._own: Dict[OpenSession, Link] = {}
        #: By principal: what serves clients without a session that cannot be asked.
        self._plain: Dict[Optional[str], Link] = {}
        #: Held by the call that opens a connection of these two kinds, so that there is one; by session or principal.
        self._opening: Dict[Any, threading.Lock] = {}
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

    def _plain_link(self, owner: Optional[str]) -> Link:
        """Return the connection for the calls of clients without a session that cannot be asked."""
        with self._lock:
            opening = self._opening.setdefault(owner, new_lock())
        with opening:
            link = self._plain.get(owner)
            if link is None or not link.usable:
                link = self.create(ClientCapabilities())
                link.open()
                with self._lock:
                    self._plain[owner] = link
            return link

    @contextlib.contextmanager
    def lease(self, call: RelayedCall) -> Iterator[Link]:
        """Run the block with the connection for a call.

        :raises MCPError: there is none, and it cannot be opened.
        """
        main = self.main
        if main is None:
            raise ConnectionClosed(f"{self._name} cannot be reached at present")
        context = call.context
        if main.client.era == "modern" or self.shared:
            with _noted(main, call):
                yield main
        elif context.session.persistent and isinstance(context.session, LegacySession):
            with self._own_link(context.session, call) as link:
                yield link
        else:
            declared, info = declared_by(context), info_of(context)
            text = json.dumps(codec.encode(declared, NEWEST), sort_keys=True)
            if text == "{}":
                plain = self._plain_link(context.session.owner)
                with _noted(plain, call):
                    yield plain
            else:
                if info is not None:
                    text += json.dumps(codec.encode(info, NEWEST), sort_keys=True)
                with self._exclusive((context.session.owner, text), declared, info, call) as link:
                    yield link

    @contextlib.contextmanager
    def _own_link(self, session: LegacySession, call: RelayedCall) -> Iterator[Link]:
        with self._lock:
            opening = self._opening.setdefault(session, new_lock())
        with opening:
            link = self._own.get(session)
            fresh = link is None or not link.usable
            if link is None or not link.usable:
                link = self.create(declared_by(call.context), session, session.client_info)
                link.handlers.add(call)  # a server may ask as soon as the connection is open
                try:
                    link.open()
                except BaseException:
                    link.handlers.remove(call)
                    raise
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
        try:
            with _noted(link, call):
                if not opened:
                    link.open()
                yield link
        except RemoteError:
            self._give_back(key, link, True)
            raise
        except BaseException:
            self._give_back(key, link, False)  # it is not certain what the server still does for this call
            raise
        self._give_back(key, link, True)

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
        self.main, self._own, self._plain, self._opening, self._idle = None, {}, {}, {}, []

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            links = [*self._own.values(), *self._plain.values(), *(link for _, link in self._idle)]
            self._own, self._plain, self._opening, self._idle = {}, {}, {}, []
        main, self.main = self.main, None
        for link in links if main is None else [main, *links]:
            link.client.close()


@contextlib.contextmanager
def _noted(link: Link, call: RelayedCall) -> Iterator[None]:
    link.handlers.add(call)
    try:
        yield
    finally:
        link.handlers.remove(call)
