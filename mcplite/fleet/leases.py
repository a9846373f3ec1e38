"""Tells which processes of a fleet are running: each holds a number for as long as it renews its lease.

A process of the same machine is found ended at once, however it ended: it has held a socket without a file, which is gone with
it. One of another machine is found ended when its lease expires. Other modules name a process by its number: in ids of
requests and streams, and in states.
"""

import contextlib
import functools
import hashlib
import os
import secrets
import socket
import sys
import threading
import time
from typing import Callable, Dict, List, Optional

from ..backend.interface import Backend
from ..errors import BackendError, TransportError
from ..rpc.deadline import undo
from ..rpc.forks import release_socket, renew
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from ..server.runtime.processes import NUMBERS
from .backend_health import Outage

__all__ = ["LEASE_SECONDS", "Leases", "Presence", "has_ended"]

_log = get_logger(__name__)
#: Seconds for which a lease lasts; it is renewed three times in that time.
LEASE_SECONDS = 6.0
#: Seconds between two attempts to renew it while the store is away.
_RETRY_SECONDS = 0.5
#: For this many seconds after its lease was seen, a process counts as running.
_SEEN_SECONDS = 1.0
#: If another process has no lease, this process takes it for ended only after it has held its own lease, without a gap, for
#: this part of the seconds of a lease. After an outage of the store all leases may have expired, and each process first needs
#: time to renew its own.
_STEADY = 0.6
#: The value that is stored in place of the lease of a process that has ended. It stays for ``_ENDED_SECONDS``, at least as long
#: as the logs of the process go on counting, so that no process takes the number before that.
_ENDED = b"ended"
#: Bytes that tell a lease from others of the same number; the mark of its process follows them.
_TOKEN_BYTES = 8
_ENDED_SECONDS = 7200.0
#: Numbers that are remembered as running.
_MOST_SEEN = 4096
#: Identifies this boot of the machine, and the network that this process sees; names of sockets are of such a network.
_BOOT, _NETWORK = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/net"
#: Bytes of the two parts of a mark: the place, and the name of the socket.
_PLACE_BYTES, _NAME_BYTES = 12, 12


class Leases:
    """The number of this process, and whether processes of other numbers are running.

    A forked process has a number of its own.

    :param backend: sealed.
    :param outage: is told when the backend fails.
    :param seconds: for which a lease lasts.
    """

    def __init__(self, backend: Backend, outage: Outage, seconds: float = LEASE_SECONDS) -> None:
        self._backend = backend
        self._outage = outage
        self._seconds = seconds
        self._on_lost: List[Callable[[int], object]] = []
        #: Called with the number of a process that has no lease, if this process has not held its own lease for long enough to
        #: be sure that the other has ended. It runs on the thread that asks. Other processes may be sure: see :meth:`judge`.
        self.on_doubt: Callable[[int], object] = lambda number: None
        #: Guards the taking and the giving back of the lease, and the start of its thread; held for one operation of the
        #: backend.
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        #: The number that this process has, or will have when it first needs one.
        self.candidate = _random_number()
        #: The stored value, which tells this lease from others of the same number; None without a lease.
        self._token: Optional[bytes] = None
        #: Lets other processes of this machine see that this process is running; None without a lease.
        self._presence: Optional[Presence] = None
        #: Set when the present thread shall end.
        self._ended = threading.Event()
        #: Since when the lease was renewed without a gap, and when it was renewed last.
        self._steady = self._renewed = float("-inf")
        #: When the lease of another process was seen, by its number.
        self._seen: Dict[int, float] = {}

    def let_go(self) -> None:
        """Forget, in a forked process, the lease of the parent process, and begin with another number."""
        renew(self)
        if self._presence is not None:
            self._presence.let_go()
        self._begin()

    # --- the own lease --------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of this process, from 1 to 2**20 - 1, which no other running process has; taken on the first use.

        It changes only when the lease was lost, see :meth:`on_lost`.

        :raises BackendError: there is no number yet, and the store failed.
        """
        if self._token is None:
            self._take()
        return self.candidate

    @property
    def held(self) -> bool:
        """Whether this process has a number at present."""
        return self._token is not None

    def _take(self) -> None:
        with self._lock:
            while self._token is None:
                # Before the lease is stored: other processes look for it from then on.
                presence = self._presence = self._presence or Presence()
                token = secrets.token_bytes(_TOKEN_BYTES) + presence.mark
                with undo(self._give_back):  # stop() closes nothing while there is no lease
                    taken = self._backend.swap(_key(self.candidate), None, token, self._seconds)
                if not taken:
                    self.candidate = _random_number()
                    continue
                self._steady = self._renewed = time.monotonic()
                ended = self._ended = threading.Event()
                try:
                    with undo(self._give_back):
                        # It ends in stop(), when the lease is lost, or with the process. It blocks on the backend for one
                        # operation.
                        Loop("renewal of the lease", functools.partial(self._keep, token, ended), ended.wait).start()
                except TransportError as error:
                    raise BackendError(f"this process cannot be known to others: {error}") from error
                self._token = token

    def on_lost(self, callback: Callable[[int], object]) -> None:
        """Call *callback* with the old number when other processes have taken this one for ended, since it was paused for too
        long. It runs on the lease's thread and must not block. What waits under the old number cannot be reached any more.
        """
        self._on_lost.append(callback)

    def _keep(self, token: bytes, ended: threading.Event) -> None:
        # After a fault it is renewed at once.
        pause = max(0.0, self._renewed + self._seconds / 3 - time.monotonic())
        while not ended.wait(pause):
            try:
                if not self._renew(token):
                    return
            except BackendError as error:
                self._steady = time.monotonic()
                if not ended.is_set():
                    self._outage.found(error)
                pause = _RETRY_SECONDS
            else:
                self._outage.passed()
                pause = self._seconds / 3

    def _renew(self, token: bytes) -> bool:
        """Renew the lease; False if it is lost."""
        number = self.candidate
        with self._lock:
            if self._token != token:
                return False  # it was given back at this moment
            held = self._backend.swap(_key(number), token, token, self._seconds)
            if not held:
                # It has expired, since the store or this process stood still for a time, or the store has lost it. The
                # number stays if no other process has noticed.
                held = self._backend.swap(_key(number), None, token, self._seconds)
                self._steady = time.monotonic()
            if held:
                self._renewed = time.monotonic()
                return True
            self._give_back()
        _log.warning("this process was paused for more than %g s, and other processes have taken it for ended: the calls that"
                     " wait in it for clients fail", self._seconds)
        for callback in list(self._on_lost):
            try:
                callback(number)
            except Exception:
                _log.exception("the loss of a lease could not be handled")
        return False

    def stop(self) -> None:
        """Give the number back: other processes find at once that this one has ended. The next use takes a new one."""
        with self._lock:
            token, number = self._token, self.candidate
            if token is None:
                return
            self._give_back()
            self._ended.set()
            if not self._outage:
                with contextlib.suppress(BackendError):  # then it expires
                    self._backend.swap(_key(number), token, _ENDED, _ENDED_SECONDS)

    def _give_back(self) -> None:
        """Have no number; called with the lock held."""
        presence, self._presence = self._presence, None
        self._token, self.candidate = None, _random_number()
        if presence is not None:
            with contextlib.suppress(OSError):  # it is closed all the same
                presence.close()

    # --- those of others --------------------------------------------------------------------------------

    def alive(self, number: int) -> bool:
        """Whether a process is running, or was a second ago. A process that was killed is found ended within ten seconds, on
        the same machine within one.

        Once this is False, it stays so for all processes: one that was only paused finds its lease lost. *number* must be
        from data that this server has sealed or stored, since a number without a lease is noted as that of an ended process.

        :raises BackendError: the store failed.
        """
        if self._token is not None and number == self.candidate:
            return True
        seen = self._seen.get(number)
        if seen is not None and time.monotonic() - seen < _SEEN_SECONDS:
            return True
        if self._token is None:
            # This process needs a lease of its own to notice that all leases have expired.
            self._take()
        found = self._look(number)
        if found == _ENDED:
            self._seen.pop(number, None)
            return False
        if found is None:
            self.on_doubt(number)
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[number] = time.monotonic()
        return True

    def judge(self, number: int) -> None:
        """Note for all processes that one has ended, if this process is sure of it.

        :raises BackendError: the store failed.
        """
        if self._token is not None and number != self.candidate:
            self._look(number)

    def _look(self, number: int) -> Optional[bytes]:
        """Return what is stored for a process: _ENDED if it has ended, otherwise its lease.

        Return None if nothing is stored, and this process cannot be sure that the other has ended.
        """
        found = self._backend.get(_key(number))
        if found is None:
            ended = self._is_steady()
        else:
            # Nothing renews the lease of an ended process, so it may expire at any time.
            ended = has_ended(found[_TOKEN_BYTES:])
        if not ended:
            return found
        for old in [found] if found is None else [found, None]:
            if self._backend.swap(_key(number), old, _ENDED, _ENDED_SECONDS):
                return _ENDED
        return self._backend.get(_key(number))

    def _is_steady(self) -> bool:
        now = time.monotonic()
        if self._backend.get(_key(self.candidate)) is None:
            self._steady = now  # the store has lost all leases a moment ago
        return now - self._steady >= _STEADY * self._seconds and now - self._renewed < self._seconds


def _key(number: int) -> str:
    return f"lease-{number}/process"


def _random_number() -> int:
    return 1 + secrets.randbelow(NUMBERS - 1)


# --- processes of this machine ------------------------------------------------------------------------


class Presence:
    """A socket without a file that this process holds until :meth:`close`, and that Linux closes with the process.

    Its name is random, so no other process ever has it. A forked process does not hold it.
    """

    def __init__(self) -> None:
        #: What other processes recognize this one by; empty where there are no such sockets.
        self.mark = b""
        self._socket: Optional[socket.socket] = None
        place = _place()
        if place is None:
            return
        mark = place + secrets.token_bytes(_NAME_BYTES)
        try:
            sock = _new_socket()
        except OSError:  # there are no descriptors left: then the lease decides
            return
        try:
            sock.bind(_address(mark))
        except OSError:  # such as a sandbox that forbids it
            sock.close()
            return
        self.mark, self._socket = mark, sock

    def let_go(self) -> None:
        """Hold the socket no longer in a forked process."""
        if self._socket is not None:
            release_socket(self._socket)

    def close(self) -> None:
        """Close the socket: other processes find that this one has ended. Idempotent."""
        if self._socket is not None:
            self._socket.close()


def has_ended(mark: bytes) -> bool:
    """Whether the process of a mark has ended. False if that cannot be seen from here: it may be on another machine."""
    place = _place()
    if place is None or len(mark) != _PLACE_BYTES + _NAME_BYTES or not mark.startswith(place):
        return False
    try:
        with _new_socket() as sock:
            sock.connect(_address(mark))
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _address(mark: bytes) -> bytes:
    return b"\0mcplite-" + mark[_PLACE_BYTES:].hex().encode("ascii")


def _new_socket() -> socket.socket:
    family: int = getattr(socket, "AF_UNIX")  # Windows has none
    return socket.socket(family, socket.SOCK_DGRAM)


def _place() -> Optional[bytes]:
    """Return a digest that is equal in two processes if, and only if, they see each other's sockets; None if it is not known.

    The name of the machine is a part, since two machines may be copies of one that was running.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
        named = f"{boot} {os.readlink(_NETWORK)} {socket.gethostname()}"
    except OSError:
        return None
    return hashlib.sha256(named.encode("utf-8")).digest()[:_PLACE_BYTES]
