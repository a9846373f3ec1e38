"""The process of a kept session: a bridge with one connection to its server, for commands that come one after another.

:mod:`.kept_sessions` starts it, with the options of a command as JSON on stdin, and waits for "ready" on stdout. It ends by
``mcplite stop NAME``, by SIGTERM, or when it has had no client for a while. The main thread accepts the clients; the bridge
serves each of their connections like any other channel.
"""

import argparse
import contextlib
import json
import os
import secrets
import select
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Tuple

from ..auth.login.file_store import open_file
from ..errors import MCPError
from ..proxy.bridge import open_bridge
from ..rpc.channels import StreamChannel
from ..server.transports.signals import stop_signals
from .kept_sessions import GREETING_SECONDS, file_of, remove_files
from .printing import text_of
from .target import client_of

__all__ = ["KeptSession"]

#: Bytes that the path of a Unix socket may have on every system.
_MOST_PATH = 100
#: Most bytes of the first line of a client, and most connections whose first line is not whole.
_MOST_GREETING, _MOST_GREETINGS = 200, 32
#: Seconds between two looks at whether the session is idle.
_TICK_SECONDS = 0.5


class KeptSession:
    """The process of one session: accepts clients until it is stopped, or idle.

    :param name: of the session.
    :param idle: seconds without a client after which it ends.
    """

    def __init__(self, name: str, idle: float) -> None:
        self._name, self._idle = name, idle
        self._secret = secrets.token_hex(16)
        #: Guards ``_clients``, the number of clients, and ``_used``, when the last one came or left; held for assignments only.
        self._lock = threading.Lock()
        self._clients = 0
        self._used = time.monotonic()
        #: Connections whose first line is not whole: the time at which they are closed, and the line so far.
        self._greeting: Dict[socket.socket, Tuple[float, bytes]] = {}
        #: Connections of clients that have sent "stop". They wait for the end of this process, which closes the connections, so
        #: that the server has ended by then.
        self._stopping: List[socket.socket] = []
        self._stopped = False
        path = file_of(name, "sock")
        self._port = 0
        if hasattr(socket, "AF_UNIX") and len(os.fsencode(path)) <= _MOST_PATH:
            self._listener = socket.socket(getattr(socket, "AF_UNIX"))
            self._listener.bind(path)
        else:
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
            self._port = self._listener.getsockname()[1]
        self._listener.listen(16)

    def announce(self, target: str) -> None:
        """Write the file by which commands find the session."""
        record = {"target": target, "pid": os.getpid(), "secret": self._secret, "port": self._port, "idle": self._idle / 60,
                  "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        path = file_of(self._name, "json")
        with open(open_file(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(f"{path}.new", path)

    def run(self, server: Any) -> None:
        """Serve clients until the session is stopped, or idle for too long."""
        while not self._stopped:
            for ready in select.select([self._listener, *self._greeting], [], [], _TICK_SECONDS)[0]:
                if ready is self._listener:
                    connection, _ = self._listener.accept()
                    connection.setblocking(False)
                    self._greeting[connection] = time.monotonic() + GREETING_SECONDS, b""
                else:
                    self._greet(ready, server)
            for connection, (until, _) in list(self._greeting.items()):
                if time.monotonic() > until or len(self._greeting) > _MOST_GREETINGS:
                    del self._greeting[connection]
                    connection.close()
            if self._is_idle():
                return

    def stop(self) -> None:
        """End :meth:`run`; a signal handler may call it, too."""
        self._stopped = True

    def _is_idle(self) -> bool:
        with self._lock:
            return not self._clients and time.monotonic() - self._used > self._idle

    def _count(self, change: int) -> None:
        with self._lock:
            self._clients += change
            self._used = time.monotonic()

    def _greet(self, connection: socket.socket, server: Any) -> None:
        """Read what has arrived of a client's first line; answer the line once it is whole."""
        until, line = self._greeting.pop(connection)
        try:
            more = connection.recv(_MOST_GREETING)  # a client sends nothing behind its line before the answer
            line += more
            if more and not line.endswith(b"\n") and len(line) < _MOST_GREETING:
                self._greeting[connection] = until, line
                return
            secret, _, word = line.decode("ascii", "replace").strip().partition(" ")
            if not secrets.compare_digest(secret.encode(), self._secret.encode()):
                raise ConnectionError("a client without the secret")
            connection.settimeout(GREETING_SECONDS)
            connection.sendall(b"ok\n")
            if word == "serve":
                connection.settimeout(None)
                self._count(1)
                server.serve_channel(StreamChannel(connection, connection, name="a command"), on_close=lambda: self._count(-1))
            elif word == "stop":
                self._stopping.append(connection)
                self._stopped = True
            else:
                connection.close()
        except (OSError, MCPError):
            connection.close()  # the client has left, or does not know the secret

    def close(self) -> None:
        """Remove the files, and close the connections whose first line is not whole."""
        self._listener.close()
        remove_files(self._name)
        for connection in self._greeting:
            connection.close()


def _main() -> int:
    """Keep one session, as stdin describes it; print "ready" when it can be used."""
    given = json.load(sys.stdin)
    options = argparse.Namespace(**given["own"], command="keep", timeout=None, log_level=None, record=None, keep=None)
    try:
        with client_of(given["words"], options) as client, open_bridge(client, shared=True) as server:
            session = KeptSession(given["name"], given["idle"] * 60)
            with contextlib.closing(session), stop_signals(session.stop):
                session.announce(given["shown"])
                with contextlib.suppress(OSError):  # the command that waited has been interrupted
                    print("ready", flush=True)
                _detach()
                session.run(server)
                server.close()
    except (MCPError, ValueError, TypeError, OSError) as error:
        print(text_of(error), file=sys.stderr, flush=True)
        return 1
    return 0


def _detach() -> None:
    """Replace stdin and stdout, which are pipes to the command that started this process, by the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


if __name__ == "__main__":
    raise SystemExit(_main())
