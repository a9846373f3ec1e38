"""The table of calls whose handlers wait for their client to return.

Handlers are added in handling/wait.py and are found by the client's next request; the runtime cancels those of a
connection that has ended. Loaded with the first handler that waits.
"""

import secrets
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ...errors import SERVER_BUSY, InvalidParams, RemoteError
from ..limits import Limits

__all__ = ["WaitingCall", "WaitingCalls", "refused_state"]


def refused_state() -> InvalidParams:
    """Return the error for a requestState that cannot be used.

    One text for every cause, so that it leaks nothing (MRTR-13).
    """
    return InvalidParams("Invalid or expired requestState: send the request again without it")


class WaitingCall(NamedTuple):
    """One handler that waits for its client.

    :param bound: a digest of the request and the client that may use the handle.
    :param owner: the key of the principal, for its limit; None without authentication.
    :param peer: the connection of the request.
    :param read: converts the client's answers; raises InvalidParams if one is not valid.
    :param continue_call: called with the session, the request and the answers; continues the handler.
    :param cancel: called with a reason if the client cannot return.
    """

    bound: str
    owner: Optional[str]
    peer: object
    read: Callable[[Dict[str, Any]], Dict[str, Any]]
    continue_call: Callable[[Any, Any, Dict[str, Any]], object]
    cancel: Callable[[str], object]


class WaitingCalls:
    """The handlers of one server that wait for their clients, by handle.

    A handle can be used once (MRTR-17).
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Guards ``_calls``; held for dictionary operations only.
        self._lock = threading.Lock()
        self._calls: Dict[str, WaitingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: WaitingCall) -> str:
        """Add a call and return its handle.

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

    def find(self, handle: str, bound: str) -> Optional[WaitingCall]:
        """Return the call of a handle, if this request may use it; it stays in the table."""
        call = self._calls.get(handle)
        return call if call is not None and call.bound == bound else None

    def remove(self, handle: str) -> bool:
        """Remove a handle; False if it was removed before."""
        with self._lock:
            return self._calls.pop(handle, None) is not None

    def cancel(self, peer: object, reason: str) -> None:
        """Cancel the calls of a connection that has ended."""
        with self._lock:
            gone: List[WaitingCall] = [call for call in self._calls.values() if call.peer is peer]
        for call in gone:
            call.cancel(reason)
