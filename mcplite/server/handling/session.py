"""What a context, an asker and the dispatcher need of a session; both eras derive from it."""

import threading
import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from ...errors import METHOD_NOT_FOUND, RemoteError
from ...revisions import Revision
from ...rpc.incoming import Incoming
from ...rpc.peer import Peer
from ...types import ClientCapabilities, Implementation, Root
from ..catalog.targets import Target
from ..runtime.runtime import Runtime

if TYPE_CHECKING:
    from ..auth.principals import Principal
    from ..limits import Limits

__all__ = ["Arrival", "KnownRoots", "Session", "Throttle"]


class Throttle:
    """Says whether one more message may go out now; not thread-safe, its owner locks.

    :param rate: messages a second; None for no bound.
    :param burst: messages that may go out at once before the rate counts; one at least.
    """

    __slots__ = ("_rate", "_burst", "_tokens", "_last")

    def __init__(self, rate: Optional[float], burst: float) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._tokens = self._burst
        self._last = time.monotonic()

    def allow(self) -> bool:
        """Take a token if there is one."""
        if self._rate is None:
            return True
        if self._tokens < 1:
            # The clock is read only when the burst is spent: a short run of messages costs nothing.
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
            self._last = now
            if self._tokens < 1:
                return False
        self._tokens -= 1
        return True


class Arrival:
    """How a request came over HTTP, as far as the endpoint knows.

    :param principal: who has sent it, as its token or the host says.
    :param target: what it is about; None where that was not looked up.
    """

    __slots__ = ("principal", "target")

    def __init__(self, principal: "Optional[Principal]", target: Optional[Target]) -> None:
        self.principal = principal
        self.target = target


class Session:
    """What handlers ask of a client, whichever era it is of; they meet it as ``ctx.session``."""

    runtime: Runtime
    peer: Peer
    #: The revision that the client is served under.
    revision: Revision
    client_info: Optional[Implementation]
    client_capabilities: ClientCapabilities
    #: Who it is, or who has begun what lasts, over HTTP where callers are known; else None.
    principal: "Optional[Principal]" = None
    #: Whether there is a way back to the client: without one it can neither be asked nor notified.
    lasting = False

    @property
    def limits(self) -> "Limits":
        """The server's bounds."""
        return self.runtime.limits

    @property
    def owner(self) -> Optional[str]:
        """What is kept for this client is bound to this: the key of its principal; None for a client that is not known."""
        return None if self.principal is None else self.principal.key

    def sender_of(self, incoming: Incoming) -> "Optional[Principal]":
        """Return who has sent a request."""
        return self.principal

    @property
    def sends_progress_message(self) -> bool:
        """Whether this revision's progress notifications have a ``message`` (PROG-06)."""
        return self.revision.progress_message

    def throttle(self) -> Throttle:
        """Return a fresh bucket for one request's progress or log messages."""
        rate = self.limits.messages_per_second
        return Throttle(rate, 10 * rate if rate is not None else 0)

    def wants_log(self, level: str) -> bool:
        """Whether the client wants messages of this level."""
        raise NotImplementedError

    def finish(self, result: Any) -> Any:
        """Return the result of a request as it is sent."""
        return result

    def refuse(self, error: RemoteError) -> RemoteError:
        """Return the error of a handler as it is sent."""
        return error

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell this client, and no other, that a URL question was answered; where the revision has a word for it."""

    # What a session remembers from one request to the next; where nothing lasts, there are no such methods.

    def subscribe(self, uri: str) -> None:
        """Have the client notified of updates to *uri*.

        :raises RemoteError: nothing lasts beyond this request.
        """
        raise _no_method("resources/subscribe")

    def unsubscribe(self, uri: str) -> None:
        """Stop that.

        :raises RemoteError: nothing lasts beyond this request.
        """
        raise _no_method("resources/unsubscribe")

    def set_level(self, level: str) -> None:
        """Set the least urgent log level that this client wants.

        :raises RemoteError: nothing lasts beyond this request.
        """
        raise _no_method("logging/setLevel")


def _no_method(method: str) -> RemoteError:
    return RemoteError(f"Method not found: {method}", code=METHOD_NOT_FOUND)


class KnownRoots:
    """A client's roots as it last told them, kept until it says that they have changed (ROOT-14, ROOT-15)."""

    def __init__(self) -> None:
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._roots: Optional[List[Root]] = None
        #: Counts the changes, so that a list asked for before one is not kept after it.
        self._epoch = 0

    def get(self, ask: Callable[[], List[Root]]) -> List[Root]:
        """Return the roots.

        :param ask: called without the lock when they are not known.
        """
        with self._lock:
            roots, epoch = self._roots, self._epoch
        if roots is None:
            roots = ask()
            with self._lock:
                if epoch == self._epoch:
                    self._roots = roots
        return list(roots)

    def forget(self) -> None:
        """Ask again next time."""
        with self._lock:
            self._epoch += 1
            self._roots = None
