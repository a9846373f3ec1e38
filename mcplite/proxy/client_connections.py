"""The connections to one mounted server, and which of them carries a call.

A server that needs no handshake gets all calls over one connection, each with the capabilities of its own client. A server with
a handshake knows one client for each connection, and its questions do not say which call they belong to. So each client that
began with a handshake has a connection of its own, with its own capabilities, for as long as its session lasts. A call of a
client without a session has a connection for itself while it runs, if the client can be asked anything.

The mounted server is told what a client can be asked, and its name, unless several clients share a connection with a handshake.
Without a handshake it is also told the log level that the client wants.
"""

import contextlib
import json
import threading
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Tuple

from ..client.call import OpeningLock, Waiting
from ..client.client import Client
from ..client.sessions.base import ClientObserver
from ..errors import ConnectionClosed, RemoteError
from ..revisions import NEWEST, Revision
from ..rpc.deadline import undo
from ..rpc.forks import renew
from ..rpc.threads import start_thread
from ..server.handling.context import RequestContext
from ..server.runtime.runtime import OpenSession
from ..server.sessions.legacy import LegacySession
from ..types import ClientCapabilities, Implementation, codec
from .forwarded_calls import EVERYTHING, RelayedCall, RelayHandlers, Upstream, declared_by, pass_over

__all__ = ["UpstreamPool", "pass_call"]


#: Connections that wait for the next call of a client without a session; more are closed.
_IDLE = 4
#: Connections for the clients without a session that cannot be asked, one for each principal: for one more, the connection that
#: was used longest ago is closed.
_PLAIN = 16
Key = Tuple[Optional[str], str]


class UpstreamPool:
    """The connections to one mounted server.

    :param template: the client as it was mounted; never opened itself.
    :param name: of the server, for errors.
    :param shared: whether clients share one connection, whatever the revision.
    """

    def __init__(self, template: Client, name: str, shared: bool) -> None:
        self._template = template
        self._name = name
        self.shared = shared
        #: The connection for lists and changes, which :class:`MainUpstream` keeps; None while the server is down.
        self.main: Optional[Upstream] = None
        #: Sees the requests of the main connection; None for no observer.
        self.observer: Optional[ClientObserver] = None
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._own: Dict[OpenSession, Upstream] = {}
        #: By principal: the connection for its clients without a session that cannot be asked.
        self._plain: Dict[Optional[str], Upstream] = {}
        #: By session or principal: held by the call that opens a connection of these two kinds, so that only one is opened.
        self._opening: Dict[Any, OpeningLock] = {}
        self._idle: List[Tuple[Key, Upstream]] = []

    def create(self, declared: ClientCapabilities, session: Optional[LegacySession] = None,
               info: Optional[Implementation] = None, **callbacks: Any) -> Upstream:
        """Return a connection that is not open yet.

        :param info: the name that the server gets; None for that of the mounted client.
        """
        callbacks.setdefault("on_change", None)
        callbacks.setdefault("on_lost", lambda error: None)
        handlers = RelayHandlers(self._name, declared, session, **callbacks)
        return Upstream(self._template.sibling(handlers, cache=False, client_info=info), handlers)

    def create_main(self, **callbacks: Any) -> Upstream:
        """Return a connection for lists and changes; servers list some tools only if the client can be asked."""
        upstream = self.create(EVERYTHING, **callbacks)
        if self.observer is not None:
            upstream.client.observe(self.observer)
        return upstream

    def _open(self, upstream: Upstream, call: RelayedCall) -> None:
        """Open a connection for a call; it is closed if the call is cancelled before that is done."""
        # The client is closed on a thread of its own: closing may take long, and the callback may run on the thread that reads.
        uncancel = call.context.token.add_callback(lambda: start_thread(upstream.client.close, "mcplite closer"))
        try:
            upstream.open()
        finally:
            uncancel()
        call.context.token.check()

    def lease(self, call: RelayedCall) -> ContextManager[Upstream]:
        """Return a block with the connection for a call.

        :raises MCPError: there is none, or it cannot be opened; the latter when the block is entered.
        """
        main = self.main
        if main is None:
            error = ConnectionClosed(f"{self._name} cannot be reached at present")
            error.unsent = True
            raise error
        session = call.context.session
        if self.shared or main.client.revision.modern:
            return _Noted(main, call)
        if session.persistent and isinstance(session, LegacySession):
            return self._kept(call, session)
        declared, info = declared_by(call.context), call.context.client_info
        text = json.dumps(codec.encode(declared, NEWEST), sort_keys=True)
        if text == "{}":
            return self._kept(call, None)
        if info is not None:
            text += json.dumps(codec.encode(info, NEWEST), sort_keys=True)
        return self._exclusive((session.owner, text), declared, info, call)

    def _kept(self, call: RelayedCall, session: Optional[LegacySession]) -> ContextManager[Upstream]:
        """Return a block with the connection that is kept for a session, or for clients of a principal that cannot be asked."""
        key: Any = call.context.session.owner if session is None else session
        upstream = self._take(self._plain if session is None else self._own, key)
        return self._opened(call, session, key) if upstream is None else _Noted(upstream, call, True)

    def _take(self, kept: Dict[Any, Upstream], key: Any) -> Optional[Upstream]:
        """Return a connection that is kept, held for a call; None if there is none that can be used."""
        with self._lock:
            upstream = kept.pop(key, None)
            if upstream is None or not upstream.usable:
                return None
            kept[key] = upstream  # at the end, behind those that were used longer ago
            upstream.hold()
            return upstream

    @contextlib.contextmanager
    def _opened(self, call: RelayedCall, session: Optional[LegacySession], key: Any) -> Iterator[Upstream]:
        """Return a block with a connection that this call has opened, or another call meanwhile."""
        kept: Dict[Any, Upstream] = self._plain if session is None else self._own
        with contextlib.ExitStack() as stack:
            with self._lock:
                opening = self._opening.setdefault(key, OpeningLock())
            with opening.hold(Waiting(cancel=call.context.token), self._name) as failure:
                upstream = self._take(kept, key)
                if upstream is not None:
                    stack.enter_context(_Noted(upstream, call, True))
                elif failure is not None:
                    raise failure
                else:
                    upstream = (self.create(ClientCapabilities()) if session is None
                                else self.create(declared_by(call.context), session, session.client_info))
                    upstream.hold()
                    stack.enter_context(_Noted(upstream, call, True))  # a server may ask as soon as the connection is open
                    with undo(lambda: self._opening.pop(key, None)):
                        self._open(upstream, call)
                    self._keep(kept, key, upstream)
            if session is not None and session.peer.closed:
                self.forget(session)
            yield upstream

    def _keep(self, kept: Dict[Any, Upstream], key: Any, upstream: Upstream) -> None:
        with self._lock:
            # Another call may have opened a connection meanwhile, if the lock was dropped with an eviction while this one was
            # opened.
            surplus = [kept.pop(key, None)]
            kept[key] = upstream
            for other in list(self._plain)[:-_PLAIN]:
                surplus.append(self._plain.pop(other))
                self._opening.pop(other, None)
        for left in surplus:
            if left is not None:
                left.close()

    @contextlib.contextmanager
    def _exclusive(self, key: Key, declared: ClientCapabilities, info: Optional[Implementation], call: RelayedCall
                   ) -> Iterator[Upstream]:
        upstream: Optional[Upstream] = None
        with self._lock:
            for index, (known, idle) in enumerate(self._idle):
                if known == key and idle.usable:
                    upstream = idle
                    del self._idle[index]
                    break
        opened = upstream is not None
        upstream = upstream or self.create(declared, info=info)
        answered = False  # until then the server may still work on this call
        try:
            with _Noted(upstream, call):
                if not opened:
                    self._open(upstream, call)
                yield upstream
            answered = True
        except RemoteError:
            answered = True
            raise
        finally:
            self._give_back(key, upstream, answered)

    def _give_back(self, key: Key, upstream: Upstream, usable: bool) -> None:
        """Keep a connection for the next call, or close it."""
        if not usable or not upstream.usable or self.main is None:
            upstream.close()
            return
        with self._lock:
            self._idle.append((key, upstream))
            surplus = [left for _, left in self._idle[:-_IDLE]]
            del self._idle[:-_IDLE]
        for left in surplus:
            left.close()

    def of(self, session: OpenSession) -> Optional[Upstream]:
        """Return the connection of a session; None if it has none."""
        return self._own.get(session)

    def forget(self, session: OpenSession) -> None:
        """Close the connection of a session that has ended."""
        with self._lock:
            upstream = self._own.pop(session, None)
            self._opening.pop(session, None)
        if upstream is not None:
            upstream.close()

    def let_go(self) -> None:
        """Forget all connections in a forked process; they belong to the first process."""
        renew(self)
        self.main, self._own, self._plain, self._opening, self._idle = None, {}, {}, {}, []

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            pool = [*self._own.values(), *self._plain.values(), *(upstream for _, upstream in self._idle)]
            self._own, self._plain, self._opening, self._idle = {}, {}, {}, []
        main, self.main = self.main, None
        for upstream in pool if main is None else [main, *pool]:
            upstream.client.close()


class _Noted(ContextManager[Upstream]):
    """A block in which the handlers of a connection know of a call. It is no generator, to save time with each call.

    :param held: whether the connection is held for the call, until the end of the block.
    """

    __slots__ = ("_upstream", "_call", "_held")

    def __init__(self, upstream: Upstream, call: RelayedCall, held: bool = False) -> None:
        self._upstream = upstream
        self._call = call
        self._held = held

    def __enter__(self) -> Upstream:
        self._upstream.handlers.add(self._call)
        return self._upstream

    def __exit__(self, *error: object) -> None:
        self._upstream.handlers.remove(self._call)
        if self._held:
            self._upstream.release()


def pass_call(pool: UpstreamPool, context: RequestContext, params: Dict[str, Any]) -> Tuple[Dict[str, Any], Revision]:
    """Return the result of a request of a client, as a mounted server gave it, and that server's revision.

    :param params: with the mounted server's own names, without ``_meta``.
    :raises RemoteError: an error for the client.
    :raises MCPError: there is no answer.
    """
    call = RelayedCall(context)
    with pool.lease(call) as upstream:
        return pass_over(upstream, call, params), upstream.client.revision
