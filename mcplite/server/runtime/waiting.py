"""The table of calls whose handlers wait for their client to return."""

import secrets
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from ...errors import SERVER_BUSY, InvalidParams, RemoteError
from ...protocol.state import bound_to
from ..handling.asker import Asked

if TYPE_CHECKING:
    from ...rpc.incoming import Incoming
    from ..handling.context import Context
    from ..handling.session import Session
    from ..limits import Limits

__all__ = ["WaitingCalls", "refused_state"]


def refused_state() -> InvalidParams:
    """Return the error for every state that cannot be gone on with; nobody learns why (MRTR-13)."""
    return InvalidParams("Invalid or expired requestState: send the request again without it")


class WaitingCall:
    """One handler that waits for its client.

    :param bound: what the handle is good for.
    :param asked: what it waits for.
    """

    def __init__(self, context: "Context", bound: str, asked: Mapping[str, Asked]) -> None:
        self.context = context
        self.bound = bound
        self.asked = asked
        self.peer = context.incoming.peer
        self.owner = context.session.owner
        #: Set when the client is back, and when the handler has to go on without it.
        self.woken = threading.Event()
        self.responses: Optional[Dict[str, Any]] = None


class WaitingCalls:
    """The handlers of one server that wait for their clients, by handle.

    A handle is good for one return (MRTR-17).
    """

    def __init__(self, limits: "Limits") -> None:
        self._limits = limits
        #: Guards ``_calls``; held for dictionary work only.
        self._lock = threading.Lock()
        self._calls: Dict[str, WaitingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def file(self, call: WaitingCall) -> str:
        """Note a call and return its handle.

        :raises RemoteError: too many wait already.
        """
        handle = secrets.token_urlsafe(24)
        with self._lock:
            full = len(self._calls) >= self._limits.waiting_calls or (
                call.owner is not None and sum(other.owner == call.owner for other in self._calls.values())
                >= self._limits.waiting_per_principal)
            if not full:
                self._calls[handle] = call
        if full:
            raise RemoteError("Server busy: too many calls wait for answers of their clients; try again later",
                              code=SERVER_BUSY)
        return handle

    def withdraw(self, handle: str) -> bool:
        """Forget a handle; False when the client has come back with it."""
        with self._lock:
            return self._calls.pop(handle, None) is not None

    def claim(self, handle: str, session: "Session", incoming: "Incoming", responses: Dict[str, Any]) -> bool:
        """Let a call go on that waits under this handle; False when there is none that this request may go on with.

        :param session: the client, as it presents itself now.
        :param incoming: its request, which the call answers from now on.
        :raises InvalidParams: what it brings is no answer; the handle stays good.
        """
        bound = bound_to(session.app.name, session.owner, incoming.method, incoming.params)
        call = self._calls.get(handle)
        if call is None or call.bound != bound:
            return False
        from ..handling.wait import read_answers
        read_answers(call.asked, responses)
        with self._lock:
            if self._calls.pop(handle, None) is not call:
                return False
        call.context.go_on(session, incoming)
        call.responses = responses
        call.woken.set()
        return True

    def drop(self, peer: Any, reason: str) -> None:
        """Wake the calls of a conversation that is over; they end as cancelled."""
        with self._lock:
            gone: List[WaitingCall] = [call for call in self._calls.values() if call.peer is peer]
        for call in gone:
            call.context.token.cancel(reason)
