"""Signs, stores and reads the states that travel with questions (``requestState``), and bounds those that are stored.

Only the servers of a fleet load it; in one process a state is a random handle, see :mod:`.waiting`.
"""

import contextlib
import secrets
import threading
import time
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

from ...backend.interface import Backend
from ...errors import BackendError
from ...protocol.opaque import Journal, bound_to, open_sealed, seal
from ...rpc.forks import renew
from ..eviction import Shares
from ..limits import Limits

__all__ = ["KeptStates", "States"]

#: Characters of a state, which travels in the body of a request.
_MAX_LENGTH = 65_536
#: Seconds between two searches for states whose time is over.
_SWEEP_SECONDS = 1.0


class KeptStates:
    """The states that this process has stored, within ``fleet_states`` and ``fleet_state_bytes``.

    At a limit the oldest one of the sender with the most goes from the store. One that another process has taken counts
    until its time is over; it is older than those that still wait, so it goes before them.

    :param backend: keeps them, so that only a random handle travels, which can be used once.
    :param seconds: their lifetime.
    :param evicted: called with the handle of one that has gone for another one.
    :param clock: returns seconds.
    """

    def __init__(self, backend: Backend, limits: Limits, seconds: float, evicted: Callable[[str], object],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._limits = limits
        self._seconds = seconds
        self._evicted = evicted
        self._clock = clock
        #: Guards ``_swept``; held for an assignment.
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        limits = self._limits
        self._shares: "Shares[str]" = Shares(limits.fleet_states, limits.fleet_state_bytes, clock=self._clock)
        self._swept = self._clock()

    def let_go(self) -> None:
        """Count, in a forked process, only what it stores itself."""
        renew(self)
        self._begin()

    def keep(self, text: str, sender: str) -> str:
        """Store a text, and return its handle.

        :param sender: whose share it counts to.
        :raises ValueError: it is larger than all of them may be.
        """
        if len(text) > self._limits.fleet_state_bytes:
            raise ValueError(f"the answers and the results of ctx.once in this call take {len(text)} bytes, and"
                             f" {self._limits.fleet_state_bytes} can be stored (an eighth of Limits.memory_bytes); return"
                             " less from ctx.once")
        self._sweep()
        handle = secrets.token_urlsafe(24)
        self._backend.put(handle, text.encode("ascii"), self._seconds)
        for old in self._shares.add(handle, sender, len(text)) or ():
            with contextlib.suppress(BackendError):  # then it stays until its time is over
                self._backend.take(old)
            self._evicted(old)
        return handle

    def take(self, handle: str) -> Optional[str]:
        """Remove the text of a handle from the store and return it; None if there is none."""
        self._shares.remove(handle)
        data = self._backend.take(handle) if len(handle) <= 64 and handle.isascii() else None
        return None if data is None else data.decode("ascii")

    def _sweep(self) -> None:
        now = self._clock()
        with self._lock:
            if now - self._swept < _SWEEP_SECONDS:
                return
            self._swept = now
        for handle in self._shares.idle(self._seconds, self._seconds):
            self._shares.remove(handle)


class States:
    """Creates and reads the states of one server.

    :param keys: secrets; the first signs, all of them verify.
    :param server: its name, to which a state is bound.
    :param seconds: the lifetime of a state.
    :param kept: stores the states; None lets them travel whole.
    :param clock: returns seconds since 1970, since other processes read the state.
    """

    def __init__(self, keys: Sequence[bytes], server: str, seconds: float, kept: Optional[KeptStates] = None,
                 clock: Callable[[], float] = time.time) -> None:
        self._keys = list(keys)
        self._server = server
        self._seconds = seconds
        self._kept = kept
        self._clock = clock

    def let_go(self) -> None:
        """Count, in a forked process, only what it stores itself."""
        if self._kept is not None:
            self._kept.let_go()

    def write(self, journal: Journal, owner: Optional[str], method: str, params: Mapping[str, Any], sender: str = "") -> str:
        """Return the state of a request.

        :param owner: the key of the principal that may use it; None without authentication.
        :param sender: whose share of what is stored it counts to.
        :raises ValueError: it is too long to travel, or to be stored.
        """
        content = journal.dump(self._clock() + self._seconds)
        text = seal(content, self._keys[0], bound_to(self._server, owner, method, params))
        if self._kept is not None:
            return self._kept.keep(text, sender)
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"the answers and the results of ctx.once in this call take {len(text)} bytes, and {_MAX_LENGTH}"
                             " can travel; return less from ctx.once, or keep them in a backend:"
                             " Server(backend=...)")
        return text

    def name_process(self, handle: str, number: int, owner: Optional[str], method: str, params: Mapping[str, Any]) -> str:
        """Return a state that names a stored state and the process in which its handler waits; it is signed, not stored."""
        content = f"{number} {handle} {int(self._clock() + self._seconds)}"
        return seal(content.encode("ascii"), self._keys[0], self._waits(owner, method, params))

    def named_process(self, state: str, owner: Optional[str], method: str, params: Mapping[str, Any]) -> Tuple[int, str, bool]:
        """Return the number of the process that a state names, the stored state, and whether that is valid no longer.

        The number is 0 if it names none.

        A state without a number is the handle of a stored state: of a process that had no room for a waiting handler.
        """
        content = open_sealed(state, self._keys, self._waits(owner, method, params)) if len(state) > 64 else None
        if content is None:
            return 0, state, False
        number, handle, expires = content.decode("ascii").split(" ")
        return int(number), handle, int(expires) < self._clock()

    def _waits(self, owner: Optional[str], method: str, params: Mapping[str, Any]) -> str:
        return "waits " + bound_to(self._server, owner, method, params)

    def open(self, state: str, owner: Optional[str], method: str, params: Mapping[str, Any]) -> Optional[Journal]:
        """Return the journal in a state; None if it is forged, expired, used already, or for another request or owner."""
        if self._kept is None and len(state) > _MAX_LENGTH:
            return None
        text = state if self._kept is None else self._kept.take(state)
        if text is None:
            return None
        content = open_sealed(text, self._keys, bound_to(self._server, owner, method, params))
        return None if content is None else Journal.load(content, self._clock())
