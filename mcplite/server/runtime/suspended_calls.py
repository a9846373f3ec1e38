"""The table of calls whose handlers wait for their client to return.

Handlers are added in handling/wait.py and are found by the client's next request; the runtime cancels those of a
connection that has ended. Loaded with the first handler that waits.
"""

import secrets
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ...errors import SERVER_BUSY, InvalidParams, RemoteError
from ..eviction import Shares
from ..limits import Limits

__all__ = ["WaitingCall", "WaitingCalls", "refused_state"]

#: Bytes that the thread of a waiting handler takes.
_THREAD_BYTES = 32_768


def refused_state() -> InvalidParams:
    """Return the error for a requestState that cannot be used.

    One text for every cause, so that it leaks nothing (MRTR-13).
    """
    return InvalidParams("Invalid or expired requestState: send the request again without it")


def _read_nothing(responses: Dict[str, Any]) -> Dict[str, Any]:
    raise refused_state()


def _continue_nothing(session: Any, incoming: Any, answers: Dict[str, Any]) -> None:
    raise refused_state()


class WaitingCall(NamedTuple):
    """One handler that waits for its client.

    :param sender: whose share it counts to.
    :param size: the bytes of memory of what its request has brought.
    :param peer: the connection of the request.
    :param cancel: called with a reason if the client cannot return, or another one needs the room.
    :param owner: the key of the principal, for its limit; None without authentication.
    :param bound: a digest of the request and the client that may use the handle; empty if no request may.
    :param read: converts the client's answers; raises InvalidParams if one is not valid.
    :param continue_call: called with the session, the request and the answers; continues the handler.
    :param number: of this process, if the state names it, so that other processes pass on what the client sends; else 0.
    """

    sender: str
    size: int
    peer: object
    cancel: Callable[[str], object]
    owner: Optional[str] = None
    bound: str = ""
    read: Callable[[Dict[str, Any]], Dict[str, Any]] = _read_nothing
    continue_call: Callable[[Any, Any, Dict[str, Any]], object] = _continue_nothing
    number: int = 0


class WaitingCalls:
    """The handlers of one server that wait for their clients, by handle.

    A handle can be used once (MRTR-17). At a limit the oldest waiting handler of the sender with the most is cancelled.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shares: "Shares[str]" = Shares(limits.waiting_calls, limits.waiting_bytes)
        #: Guards ``_calls``; held for dictionary operations only.
        self._lock = threading.Lock()
        self._calls: Dict[str, WaitingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: WaitingCall, handle: str = "") -> str:
        """Add a call and return its handle.

        :param handle: by default a new one.
        :raises RemoteError: what it keeps is larger than all waiting calls together may be.
        """
        handle = handle or secrets.token_urlsafe(24)
        with self._lock:
            # Before its share is counted: from then on another thread may remove it.
            self._calls[handle] = call
            going = self._beyond_principal(call.owner)
        evicted = self._shares.add(handle, call.sender, call.size + _THREAD_BYTES)
        if evicted is None:
            self.remove(handle)
            raise RemoteError("Server busy: the arguments of this call are too large to be kept until its questions are"
                              " answered", code=SERVER_BUSY)
        for old in going + evicted:
            self.evict(old)
        return handle

    def evict(self, handle: str) -> None:
        """Cancel a call, if it is there, for the sake of others."""
        with self._lock:
            gone = self._calls.pop(handle, None)
        self._shares.remove(handle)
        if gone is not None:
            gone.cancel("the server needed the room for the questions of other calls")

    def _beyond_principal(self, owner: Optional[str]) -> List[str]:
        """Return the oldest handles of a principal, as many as it has too many."""
        if owner is None:
            return []
        handles = [handle for handle, call in self._calls.items() if call.owner == owner]
        return handles[:max(0, len(handles) - self._limits.waiting_per_principal)]

    def find(self, handle: str, bound: str) -> Optional[WaitingCall]:
        """Return the call of a handle, if this request may use it; it stays in the table."""
        call = self._calls.get(handle)
        return call if call is not None and call.bound == bound else None

    def remove(self, handle: str) -> bool:
        """Remove a handle; False if it was removed before."""
        with self._lock:
            removed = self._calls.pop(handle, None) is not None
        self._shares.remove(handle)
        return removed

    def cancel(self, peer: object, reason: str) -> None:
        """Cancel the calls of a connection that has ended."""
        with self._lock:
            gone: List[WaitingCall] = [call for call in self._calls.values() if call.peer is peer]
        for call in gone:
            call.cancel(reason)

    def cancel_numbered(self, number: int, reason: str) -> None:
        """Cancel the calls whose states name this process by a number that it has lost."""
        with self._lock:
            gone = [call for call in self._calls.values() if call.number == number]
        for call in gone:
            call.cancel(reason)
