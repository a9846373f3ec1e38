"""How processes that share a SQLite file tell each other that a log has grown: datagrams on Unix sockets.

Each listening process has a socket in a folder beside the file, and a process that has written sends an empty datagram to
each of them. Where there are no such sockets (Windows, a path that is too long), processes look several times a second.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from typing import Callable, List, Optional

from ..errors import BackendError, TransportError
from ..rpc.deadline import Deadline
from ..rpc.forks import release_socket
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger

__all__ = ["Wakeup"]

_log = get_logger(__name__)
#: The flag of a datagram that is dropped rather than waited for; Windows has none.
_DONT_WAIT: int = getattr(socket, "MSG_DONTWAIT", 0)
#: Bytes of the path of a Unix socket, on the system that takes the fewest.
_MAX_PATH = 100
#: Seconds between two looks without a datagram, in case that one was lost.
_LOOK_SECONDS = 1.0
#: Seconds between two looks on a system without such sockets.
_POLL_SECONDS = 0.05
#: Seconds before the next look after the file could not be read.
_AWAY_SECONDS = 1.0
#: Seconds for which the list of the sockets is used again while the folder looks unchanged: its time has a coarse clock.
_LIST_SECONDS = 1.0


class Wakeup:
    """Wakes the processes that listen for changes of one file, and listens for them.

    :param path: of the file.
    :param look: called on the listening thread at each change, or more often. It may raise BackendError.
    """

    def __init__(self, path: str, look: Callable[[], object]) -> None:
        self._path = path
        self._folder = path + ".wake"
        self._look = look
        #: Guards the start of the thread and the fields below; held for short work only.
        self._lock = threading.Lock()
        self._loop: Optional[Loop] = None
        self._socket: Optional[socket.socket] = None
        self._own = ""
        self._sender: Optional[socket.socket] = None
        #: The sockets in the folder, when they were listed, and the folder's time then.
        self._sockets: List[str] = []
        self._listed = float("-inf")
        self._folder_time = -1
        self._ended = threading.Event()

    def let_go(self) -> None:
        """Drop the thread and release the sockets in a forked process; they belong to the first process."""
        self._lock = threading.Lock()
        for sock in (self._socket, self._sender):
            if sock is not None:
                release_socket(sock)
        self._loop = self._socket = self._sender = None
        self._own = ""
        self._ended = threading.Event()

    # --- listening ----------------------------------------------------------------------------------

    def listen(self) -> None:
        """Start the listening thread, if this process has none yet; from its return on, changes are noticed."""
        if self._loop is not None:
            return
        with self._lock:
            if self._loop is not None or self._ended.is_set():
                return
            sock = self._socket = self._socket or self._bind()
            # It ends in close(). It blocks on its socket for at most a second at a time.
            loop = Loop(f"listener of {self._path}", lambda: self._run(sock), self._ended.wait)
            try:
                loop.start()
                self._loop = loop
            except TransportError as error:  # the next wait tries again
                raise BackendError(f"changes in {self._path} cannot be read: {error}") from error

    def _bind(self) -> Optional[socket.socket]:
        path = os.path.join(self._folder, secrets.token_hex(4))
        if not hasattr(socket, "AF_UNIX") or len(os.fsencode(path)) > _MAX_PATH:
            return None
        sock = _datagram_socket()
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            sock.bind(path)
        except OSError as error:
            sock.close()
            _log.warning("processes that share %s look for changes %d times a second, since there can be no sockets beside it:"
                         " %s", self._path, round(1 / _POLL_SECONDS), error)
            return None
        self._own = path
        return sock

    def _run(self, sock: Optional[socket.socket]) -> None:
        ended, readable = self._ended, True
        if sock is not None and not ended.is_set():
            sock.settimeout(_LOOK_SECONDS)
        while not ended.is_set():
            try:
                self._look()
                readable = True
            except BackendError as error:
                if not ended.is_set():
                    if readable:  # one line for each outage
                        _log.warning("changes cannot be read until the file is there again: %s", error)
                    readable = False
                    ended.wait(_AWAY_SECONDS)
                    continue
            if sock is None:
                ended.wait(_POLL_SECONDS)
            else:
                self._receive(sock)

    def _receive(self, sock: socket.socket) -> None:
        with contextlib.suppress(socket.timeout):
            sock.recv(1)
            sock.setblocking(False)
            try:
                while True:  # one look is enough for all datagrams that wait
                    sock.recv(1)
            except BlockingIOError:
                pass
            finally:
                sock.settimeout(_LOOK_SECONDS)

    # --- waking ---------------------------------------------------------------------------------------

    def send(self) -> None:
        """Wake all processes that listen, this one as well."""
        if not hasattr(socket, "AF_UNIX"):
            return
        with self._lock:
            if self._ended.is_set():
                return
            for path in self._listeners():
                self._wake(path)

    def _listeners(self) -> List[str]:
        now = time.monotonic()
        try:
            changed = os.stat(self._folder).st_mtime_ns
            if changed != self._folder_time or now - self._listed >= _LIST_SECONDS:
                self._listed, self._folder_time = now, changed
                self._sockets = [os.path.join(self._folder, name) for name in os.listdir(self._folder)]
        except OSError:
            return []  # no process listens
        return self._sockets

    def _wake(self, path: str) -> None:
        try:
            sender = self._sender = self._sender or _datagram_socket()
            sender.sendto(b"\0", _DONT_WAIT, path)
        except BlockingIOError:
            pass  # its queue is full, so it has something to read
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(path)  # its process was killed
        except OSError:
            # The other process has just ended. Or this process has no free descriptor, and the other one looks within a second.
            # The folder is listed again for the next entry.
            self._listed = float("-inf")

    def close(self) -> None:
        """End the listening thread, and remove its socket. Idempotent."""
        with self._lock:
            self._ended.set()
            if self._own:
                self._wake(self._own)
        if self._loop is not None:
            self._loop.join(Deadline(None))
        with self._lock:
            for sock in (self._socket, self._sender):
                if sock is not None:
                    sock.close()
            self._socket = self._sender = None
            if self._own:
                with contextlib.suppress(OSError):  # it is gone already
                    os.unlink(self._own)
                self._own = ""
            with contextlib.suppress(OSError):  # there are others in it
                os.rmdir(self._folder)


def _datagram_socket() -> socket.socket:
    family: int = getattr(socket, "AF_UNIX")  # Windows has none
    return socket.socket(family, socket.SOCK_DGRAM)
