"""Front: what clients see of a server while its process is replaced; :class:`HTTPFront` keeps its listening socket.

:mod:`.stdio_front` has the front for the pipes of a host application.
"""

import contextlib
import os
import socket
import sys
import threading
from abc import ABC, abstractmethod
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from ..errors import INTERNAL_ERROR, ConnectionClosed, ProtocolError
from ..protocol.jsonrpc import Failure, dump
from ..rpc.threads import start_thread
from .reloaded_child import LOOK_SECONDS

if TYPE_CHECKING:
    from ..client.stdio.stdio_channel import ChildChannel

__all__ = ["Events", "Front", "HTTPFront", "LINE_BYTES", "WRITE_SECONDS", "show"]

#: Seconds for one message to a child that does not read, and bytes of the longest line.
WRITE_SECONDS, LINE_BYTES = 5.0, 1 << 30
#: "ended" or "opened" with the child that it happened to, or "stop" with None.
Events = SimpleQueue[Tuple[str, Any]]


class Front(ABC):
    """What clients see of the server while its process is replaced.

    :param events: gets ``"ended"`` when a child sends nothing more, and ``"opened"`` when its session is open.
    """

    #: More words for the command line of a child, and the descriptors that it inherits.
    words: List[str] = []
    descriptors: Sequence[int] = ()

    def __init__(self, events: Events) -> None:
        self._events = events
        #: Set when the present child has sent its last line.
        self.drained = threading.Event()

    def serve(self, child: "ChildChannel") -> None:
        """Begin with a child."""
        self.drained = drained = threading.Event()

        def read() -> None:
            try:
                while True:
                    line = child.read()
                    if line is not None:
                        self._from_child(child, bytes(line))
                        child.consume()
            except (ConnectionClosed, ProtocolError):
                return  # the parent's main thread has its exit status
            finally:
                drained.set()
                self._events.put(("ended", child))

        # Ends with the child, which the main thread ends; blocks on the child, and on a host that does not read.
        start_thread(read, f"mcplite stdout of {child.name}")

    @abstractmethod
    def _from_child(self, child: "ChildChannel", line: bytes) -> None:
        """Take a line of the child's stdout."""

    def resume(self, child: "ChildChannel") -> None:
        """Hand on the messages that were held; called when the session of the child is open."""

    @abstractmethod
    def pause(self) -> None:
        """Stop handing on messages; called when the child is about to end."""

    def gone(self, loaded: bool) -> None:
        """Answer the requests that the child has not answered; called when it has ended.

        :param loaded: whether it had loaded the target. If it had not, it has begun no request, and the next child gets all of
            them.
        """

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Answer requests with a reason until a child serves again."""

    @abstractmethod
    def close(self) -> None:
        """End, after the last child."""


class HTTPFront(Front):
    """The listening socket. A child accepts its connections; while there is none, a thread answers them with 503."""

    def __init__(self, events: Events, listener: socket.socket, tls: bool) -> None:
        super().__init__(events)
        self._listener = listener
        self._tls = tls
        self.words = [f"--inherited-socket={listener.fileno()}"]
        self.descriptors = [listener.fileno()]
        #: The event that ends the thread which answers requests, and this thread; None without a thread.
        self._answering: Optional[Tuple[threading.Event, threading.Thread]] = None

    def serve(self, child: "ChildChannel") -> None:
        self.close()
        super().serve(child)

    def _from_child(self, child: "ChildChannel", line: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(1, line + b"\n")  # what the target prints

    def pause(self) -> None:
        """Do nothing: connections wait in the queue of the socket."""

    def refuse(self, reason: str) -> None:
        self.close()  # of an earlier reason: a child may fail before it serves
        if self._tls:
            return  # there is no certificate here, and requests wait
        body = dump(Failure(None, INTERNAL_ERROR, reason))
        # Without Retry-After, with which clients would hide the reason for a minute.
        answer = (b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        end = threading.Event()
        # Ended by serve() and close(); blocks on one connection, for a few seconds at most.
        self._answering = end, start_thread(lambda: self._answer(end, answer), "mcplite answers without a server")

    def close(self) -> None:
        if self._answering is not None:
            end, thread = self._answering
            end.set()
            thread.join()
            self._answering = None

    def _answer(self, end: threading.Event, answer: bytes) -> None:
        while not end.is_set():
            self._listener.settimeout(LOOK_SECONDS)
            try:
                connection, _ = self._listener.accept()
            except OSError:
                continue  # no client came, or it has left
            with connection, contextlib.suppress(OSError):
                connection.settimeout(1.0)
                connection.recv(65_536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(65_536)  # closed with input unread, the client would lose the answer


def show(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
