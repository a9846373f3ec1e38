"""A proxy that breaks off each connection behind an event with a mark, as networks do with event streams."""

import contextlib
import socket
import threading
from typing import Optional, Set, Tuple

__all__ = ["CuttingProxy"]

#: The end of a response in chunks.
LAST_CHUNK = b"\r\n0\r\n\r\n"


class CuttingProxy:
    """Listens on a port of its own, and passes bytes on to one server and back.

    :param url: of the server.
    :param mark: a connection is cut behind the event that has this in it.
    """

    def __init__(self, url: str, mark: bytes) -> None:
        place, _, path = url.partition("://")[2].partition("/")
        host, _, port = place.rpartition(":")
        self._target: Tuple[str, int] = host, int(port)
        self._mark = mark
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{path}"
        #: Guards ``_open`` and ``cuts``.
        self._lock = threading.Lock()
        self._open: Set[socket.socket] = set()
        #: How many connections were cut.
        self.cuts = 0
        # It ends with close(), and blocks on the listener.
        self._thread = threading.Thread(target=self._accept, name="soak proxy", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, 10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for side in (near, far):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {near, far}
            # It ends with the connection, and blocks on either of its ends.
            threading.Thread(target=self._serve, args=(near, far), name="soak connection", daemon=True).start()

    def _serve(self, near: socket.socket, far: socket.socket) -> None:
        requests = threading.Thread(target=self._carry, args=(near, far, None), name="soak requests", daemon=True)
        requests.start()
        self._carry(far, near, self._mark)
        requests.join()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    def _carry(self, source: socket.socket, sink: socket.socket, mark: Optional[bytes]) -> None:
        seen = b""
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65_536)
                if not data:
                    break
                sink.sendall(data)
                seen = seen[-100:] + data
                if seen.endswith(LAST_CHUNK):
                    seen = b""  # a response that is whole is not cut: its connection may be in use again
                if mark is not None and mark in seen and seen.endswith(b"\n"):
                    with self._lock:
                        self.cuts += 1
                    break
        for side in (source, sink):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut all connections, and stop listening."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with self._lock:
            left = list(self._open)
        for side in left:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
