"""The base of both eras' sessions: what a context, an asker and the dispatcher need of the client.

A module of its own so that the code which runs handlers need not know the eras, which import it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ...errors import MethodNotFound, NotSupported, RemoteError
from ...protocol.jsonrpc import memory_size
from ...revisions import REVISIONS, Revision
from ...rpc.peer import Peer
from ...rpc.request import Incoming, MessageFacts
from ...types import ClientCapabilities, Implementation
from ..limits import Limits
from ..runtime.runtime import Runtime

if TYPE_CHECKING:
    from ...types import Root
    from ..principals import Principal

__all__ = ["KnownRoots", "Session", "Throttle", "check_own_method", "check_own_notification", "is_of_protocol"]


class Throttle:
    """A token bucket that limits the rate of messages; not thread-safe, its owner locks.

    :param rate: messages a second; None for no limit.
    :param burst: messages that may be sent at once before the rate applies; at least one.
    """

    __slots__ = ("_rate", "_burst", "_tokens", "_last")

    def __init__(self, rate: Optional[float], burst: float) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._tokens = self._burst
        self._last = time.monotonic()

    def allow(self) -> bool:
        """Take a token; False if there is none."""
        if self._rate is None:
            return True
        if self._tokens < 1:
            # The clock is read only when the burst is used up, so a short run of messages costs nothing.
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
            self._last = now
            if self._tokens < 1:
                return False
        self._tokens -= 1
        return True


class Session:
    """One client, of either era; handlers see it as ``ctx.session``."""

    runtime: Runtime
    peer: Peer
    #: The protocol revision in use.
    revision: Revision
    client_info: Optional[Implementation]
    client_capabilities: ClientCapabilities
    #: The authenticated client that started the session; None without authentication, as on stdio.
    principal: "Optional[Principal]" = None
    #: The key under which limits count the session (:mod:`mcplite.server.eviction`). Over HTTP it is the key of its principal,
    #: or without one the remote address of its first request. On a pipe, which has one client, it is empty.
    sender = ""
    #: The end of the JSON text of each complete result: the members that every result of this era has, and the brace.
    result_end = "}"
    #: Names the session in ``ctx.store``. Over HTTP it is the id of the session. Otherwise it is made at the first use, and is
    #: empty before that.
    store_key = ""
    #: Whether the session outlives one message; only then can the server send requests and notifications of its own.
    persistent = False

    @property
    def client_facts(self) -> Any:
        """The capabilities and the info that the client sends; equal for requests of clients that send equal ones."""
        return self.client_capabilities, self.client_info

    @property
    def askable(self) -> bool:
        """Whether a question can reach the client at all."""
        return self.persistent or self.revision.modern

    @property
    def limits(self) -> Limits:
        """The limits of the server."""
        return self.runtime.limits

    @property
    def owner(self) -> Optional[str]:
        """The key of the principal, to which sessions, states and waiting calls are bound; None without authentication."""
        return None if self.principal is None else self.principal.key

    def principal_of(self, incoming: Incoming) -> "Optional[Principal]":
        """Return the authenticated sender of a request."""
        return self.principal

    def note_scopes(self, principal: "Optional[Principal]") -> None:
        """Note the scopes of a principal: they decide which changes the client is notified of between its requests."""

    def sender_of(self, incoming: Incoming) -> str:
        """Return the key under which limits count a request, with all that is kept for it."""
        facts: Optional[MessageFacts] = incoming.facts
        return self.sender if facts is None else facts.sender

    def forget_request(self) -> None:
        """Forget what belongs to the present request alone; called while its handler waits."""

    def create_asker(self, context: Any) -> Any:
        """Return what asks a handler's questions, an ``Asker``, from the ``RequestContext`` of its request.

        ``LegacySession`` returns a ``BackChannelAsker``, and ``ModernSession`` a ``ResultAsker``, or a ``NoAsker`` where its
        client cannot answer. The types stand in modules that import this one.
        """
        raise NotImplementedError

    def throttle(self) -> Throttle:
        """Return a new throttle for the progress or the log messages of one request."""
        rate = self.limits.messages_per_second
        return Throttle(rate, 10 * rate if rate is not None else 0)

    def wants_log(self, level: str) -> bool:
        """Whether the client wants messages of this level."""
        raise NotImplementedError

    @property
    def log_level(self) -> Optional[str]:
        """The least urgent level of log messages that the client wants; None for no messages."""
        raise NotImplementedError

    def complete_result(self, result: Any) -> Any:
        """Add the members that every result of this era has, and return the result."""
        return result

    def translate_error(self, error: RemoteError) -> RemoteError:
        """Return the error that this era sends for an error of a handler."""
        return error

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify this client that a URL question was answered, if the revision has such a notification."""

    # --- messages of the server's own -----------------------------------------------------------------

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send a notification of your own, outside of any request; ``client.on(method, ...)`` takes it at mcplite's client.

        A client with a session gets it, in each revision with a handshake; in July 2026 only a client on a pipe does. Within
        a request :meth:`Context.notify` reaches every client.

        :param method: a name that the protocol does not have, such as ``"notifications/acme/moved"``.
        :param params: any JSON object; None for none.
        :raises ValueError: the protocol has this name, or the params are not JSON.
        :raises TypeError: the params are no dict, or hold what is not JSON.
        :raises NotSupported: nothing connects the server with its client between two requests.
        :raises ConnectionClosed: the client is gone.
        """
        check_own_notification(method, params)
        self._notify(method, params)

    def _notify(self, method: str, params: Optional[Dict[str, Any]]) -> None:
        raise NotSupported(f"use ctx.notify() while a request is served: this client of revision {self.revision} cannot be"
                           " reached between two requests")

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Send a request of your own, outside of any request of the client, and return its result.

        ``client.on(method, ...)`` answers it at mcplite's client, or a method of an :class:`mcplite.extend.Extension`.

        :param method: a name that the protocol does not have, such as ``"acme/confirm"``.
        :param params: any JSON object; None for none.
        :param timeout: seconds to wait for the answer; by default ``Limits.ask_seconds``.
        :raises NotSupported: the revision has no requests of servers (July 2026), or the client has no session.
        :raises RemoteError: the client has answered with an error.
        :raises RequestTimeout, ConnectionClosed: there is no answer.
        :raises TypeError, ValueError: the protocol has this name, or the params are no JSON object.
        """
        raise NotSupported(f"this client of revision {self.revision} cannot be sent requests: only one with a session, which"
                           " begins with a handshake, can")

    def ping(self, timeout: Optional[float] = None) -> None:
        """Ask the client for a sign of life, outside of any request, and return when it has answered.

        :param timeout: seconds to wait for the answer; by default ``Limits.ask_seconds``.
        :raises NotSupported: the revision has no ping of the server (July 2026), or the client has no session.
        :raises RequestTimeout: the client did not answer in time.
        :raises ConnectionClosed: the client is gone.
        """
        raise NotSupported(f"this client of revision {self.revision} cannot be pinged: only one with a session, which begins"
                           " with a handshake, can")

    # State from one request to the next. A session of one request has none, so these methods do not exist there.

    def subscribe(self, uri: str) -> None:
        """Notify the client of updates to *uri* from now on.

        :raises RemoteError: the session has no state.
        """
        raise MethodNotFound("Method not found: resources/subscribe")

    def unsubscribe(self, uri: str) -> None:
        """Stop notifying the client of updates to *uri*.

        :raises RemoteError: the session has no state.
        """
        raise MethodNotFound("Method not found: resources/unsubscribe")

    def set_level(self, level: str) -> None:
        """Set the least urgent level of log messages for this client.

        :raises RemoteError: the session has no state.
        """
        raise MethodNotFound("Method not found: logging/setLevel")


def is_of_protocol(method: str) -> bool:
    """Whether a notification is the protocol's own, in any revision."""
    return any(method in revision.server_notifications or method in revision.client_notifications
               or method == revision.task_notification for revision in REVISIONS)


def check_own_notification(method: str, params: Any) -> None:
    """Refuse a notification that is the protocol's, or that has no object for its params.

    :raises ValueError, TypeError: it is.
    """
    _check_own("notification", "notifications/acme/moved", method, params)
    if is_of_protocol(method):
        raise ValueError(f"choose another name than {method!r}, which is the protocol's own: ctx.report_progress(), ctx.log(),"
                         " Server.resource_updated() and the changes of entries send what the protocol has")


def check_own_method(method: str, params: Any) -> None:
    """Refuse a request that is the protocol's, or that has no object for its params.

    :raises ValueError, TypeError: it is.
    """
    _check_own("request", "acme/confirm", method, params)
    if any(method in revision.server_requests for revision in REVISIONS):
        raise ValueError(f"choose another name than {method!r}, which is the protocol's own: ctx.elicit(), ctx.sample(),"
                         " ctx.list_roots() and session.ping() send what the protocol has")


def _check_own(kind: str, example: str, method: Any, params: Any) -> None:
    if not isinstance(method, str) or not method:
        raise TypeError(f"the name of a {kind} is a text such as {example!r}, not {method!r}")
    if params is not None and not isinstance(params, dict):
        raise TypeError(f"the params of {method!r} are a dict, not {type(params).__name__}")


#: Bytes of memory of the roots that are cached for a session: some fifty. A longer list is requested each time.
_MAX_ROOTS = 16_384


class KnownRoots:
    """A cache of a client's roots, valid until the client announces a change (ROOT-14, ROOT-15)."""

    def __init__(self) -> None:
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._roots: "Optional[List[Root]]" = None
        #: Counts the changes: a list that was requested before a change is not kept after it.
        self._epoch = 0

    def get(self, ask: "Callable[[], List[Root]]") -> "List[Root]":
        """Return the roots.

        :param ask: requests them from the client; called without the lock, if they are not cached.
        """
        with self._lock:
            roots, epoch = self._roots, self._epoch
        if roots is None:
            roots = ask()
            small = memory_size([dict(vars(root)) for root in roots], _MAX_ROOTS) <= _MAX_ROOTS
            with self._lock:
                if small and epoch == self._epoch:
                    self._roots = roots
        return list(roots)

    def forget(self) -> None:
        """Discard the cached list."""
        with self._lock:
            self._epoch += 1
            self._roots = None
