"""Where connections wait between requests, and who serves the one that is ready: no thread for each of them.

One thread, the leader, waits for all of them, and serves a request itself when it comes: to hand it to another
thread costs more than most requests do, and many threads that each want the interpreter for a moment cost more
than that. When a request takes longer than five milliseconds, or is about to wait for its client, the role of
the leader goes to another thread, and the first stays with its connection until the request is served.

Requests that take long come together. So for a while after one, connections that are ready get a thread each.
"""

import functools
import logging
import selectors
import socket
import threading
import time
from typing import Callable, Dict, List, Optional

from ...rpc.threads import Workers
from ...rpc.watchdog import Watchdog
from .connection import Connection

__all__ = ["Lobby"]

_log = logging.getLogger(__name__)
#: Seconds that a request may take before another thread leads. To look whether it does takes the interpreter from the
#: leader for a moment, which is why they are no fewer: two milliseconds would cost a tenth of what it gets done.
_TICK = 0.005
#: For how long each connection gets a thread of its own after a request that took long; each time that this turns
#: out to have been too short it is doubled, up to the longest.
_CROWDED_SECONDS = 0.1
_CROWDED_LONGEST = 5.0
#: For how long nobody is let in after that has failed.
_DEAF_SECONDS = 0.1
#: Threads that are kept without work.
_KEEP_THREADS = 4
#: How often connections are looked at that may have been idle for too long.
_SWEEP_SECONDS = 1.0


class Lobby:
    """The connections of one server that wait for a request.

    :param idle_seconds: after which one is closed.
    :param left: called with each connection that is over.
    """

    def __init__(self, idle_seconds: float, left: Callable[[Connection], object]) -> None:
        self._idle_seconds = idle_seconds
        #: For its threads alone, a few of which are kept for a while between two tasks.
        self._threads = Workers(1, 0, "mcplite connection", keep=_KEEP_THREADS)
        self._pause = min(_SWEEP_SECONDS, idle_seconds)
        self._left = left
        self._selector = selectors.DefaultSelector()
        #: Whether what is registered while somebody selects is not seen, so that it has to be woken.
        self._rings = not hasattr(self._selector, "fileno")
        self._alarm, self._bell = socket.socketpair()
        self._alarm.setblocking(False)
        self._selector.register(self._alarm, selectors.EVENT_READ, self._silence)
        #: Guards the fields below and who is in the selector; held for dictionary work and for registering.
        self._lock = threading.Lock()
        self._guests: Dict[socket.socket, Connection] = {}
        #: The clients on a stream, and what to call when one has left.
        self._watched: Dict[socket.socket, Callable[[], object]] = {}
        self._served: Optional[Connection] = None
        #: Its ticket stands for the leader's role.
        self._watchdog = Watchdog(self._lock, _TICK, lambda ticket: self._spawn(
            functools.partial(self._succeed, ticket, late=True)))
        self._crowded_until = 0.0
        self._crowded_for = _CROWDED_SECONDS
        self._closing = False
        #: Set when nobody leads any more, and nobody will.
        self._ended = threading.Event()
        self._ended.set()
        #: The leader's own: when it swept, and when it listens again, by which function, after a rest.
        self._swept = 0.0
        self._deaf_until = 0.0
        self._hear: Optional[Callable[[], None]] = None

    def start(self) -> None:
        """Start the first leader and the watchdog, which end with :meth:`close`."""
        self._ended.clear()
        self._watchdog.start()
        self._threads.spawn(self._lead)

    def _spawn(self, task: Callable[[], object]) -> bool:
        try:
            self._threads.spawn(task)
        except RuntimeError as error:
            # The system gives no more threads: those who are here go on (REL-39).
            _log.warning("a connection gets no thread of its own: %s", error)
            return False
        return True

    # --- who waits --------------------------------------------------------------------------------------

    def listen(self, sock: socket.socket, accept: Callable[[], bool]) -> None:
        """Have the leader call *accept* whenever somebody knocks; before :meth:`start`.

        :param accept: must not wait; False asks to be left alone for a moment.
        """
        def knocked() -> None:
            if not accept():
                self._selector.unregister(sock)
                self._deaf_until = time.monotonic() + _DEAF_SECONDS
                self._hear = hear

        def hear() -> None:
            self._selector.register(sock, selectors.EVENT_READ, knocked)

        hear()

    def watch(self, sock: socket.socket, gone: Callable[[], object]) -> Callable[[], object]:
        """Have *gone* called when a client, whose response is still on its way, closes the connection.

        :returns: what ends that.
        """
        with self._lock:
            if self._closing:
                return bool
            if self._guests.pop(sock, None) is not None:
                self._selector.unregister(sock)  # the leader watches its own connection, until another one leads
            self._watched[sock] = gone
            self._selector.register(sock, selectors.EVENT_READ, lambda: self._readable(sock, gone))
        self._ring()
        return lambda: self._unwatch(sock)

    def _readable(self, sock: socket.socket, gone: Callable[[], object]) -> None:
        with self._lock:
            if self._watched.get(sock) is not gone:
                return  # the stream has ended meanwhile, and the socket is closed or at its next request
            del self._watched[sock]
            self._selector.unregister(sock)
            try:
                # This does not wait, since nobody else reads from it until it is not watched any more.
                left = not sock.recv(1, socket.MSG_PEEK)
            except OSError:
                left = True
        if left:  # if not, it has sent its next request already, behind which nothing can be seen
            gone()

    def _unwatch(self, sock: socket.socket) -> None:
        with self._lock:
            if self._watched.pop(sock, None) is not None:
                self._selector.unregister(sock)

    def welcome(self, connection: Connection) -> None:
        """Let a connection wait for its next request."""
        with self._lock:
            closing = self._closing
            if not closing:
                connection.enter_lobby(lambda: self._step_down(connection), self._may_rest)
                self._put_in(connection)
        if closing:
            connection.close()
            self._left(connection)
        else:
            self._ring()

    def _ring(self) -> None:
        if self._rings:
            self._bell.send(b"x")

    def _silence(self) -> None:
        try:
            self._alarm.recv(4096)
        except BlockingIOError:
            return  # somebody else has heard it

    # --- the leader -------------------------------------------------------------------------------------

    def _lead(self) -> None:
        # A leader: started by start() or in the place of another; it blocks on the selector, and on what a request does,
        # and ends when another leads, or with close().
        while not self._closing:
            pause = _DEAF_SECONDS if self._hear is not None else self._pause if self._guests else None
            for key, _ in self._selector.select(pause):
                try:
                    if type(key.data) is not Connection:
                        key.data()
                    elif not self._serve(key.data):
                        return
                except Exception:
                    _log.exception("the listener met an error")
            self._sweep()
        self._ended.set()

    def _serve(self, connection: Connection) -> bool:
        """Serve what a connection has sent; False when another thread leads by then."""
        if self._crowded_until and time.monotonic() < self._crowded_until and self._give_thread(connection):
            return True
        watchdog = self._watchdog
        with self._lock:
            ticket = watchdog.begin()
            self._served = connection
        again = connection.serve_ready()
        with self._lock:
            leading = watchdog.end(ticket)
            if leading:
                self._served = None
                if not again:
                    self._take_out(connection)
                elif connection.sock not in self._guests:
                    self._put_in(connection)
        if not leading:
            self._stay(connection, again)
        elif not again:
            self._over(connection)
        return leading

    def _give_thread(self, connection: Connection) -> bool:
        with self._lock:
            self._take_out(connection)
        if self._spawn(functools.partial(self._stay, connection)):
            return True
        with self._lock:
            self._put_in(connection)
        return False

    def _over(self, connection: Connection) -> None:
        connection.close()
        self._left(connection)

    def _stay(self, connection: Connection, again: bool = True) -> None:
        """Serve a connection on this thread until it rests or is over."""
        if again and connection.serve():
            self.welcome(connection)
        else:
            self._over(connection)

    def _may_rest(self) -> bool:
        """Whether connections may wait here, and not each on a thread."""
        return not self._closing and time.monotonic() >= self._crowded_until

    def _step_down(self, connection: Connection) -> None:
        """Called by who serves *connection* and is about to wait: another shall lead, if this thread still does."""
        with self._lock:
            ticket = self._watchdog.ticket if self._served is connection else 0
        if ticket:
            self._spawn(lambda: self._succeed(ticket, late=False))

    def _succeed(self, ticket: int, late: bool) -> None:
        """Lead in the place of who is at *ticket*; nothing happens when it has come back meanwhile.

        :param late: whether it took long.
        """
        with self._lock:
            if self._served is None or not self._watchdog.end(ticket):
                return
            self._take_out(self._served)
            self._served = None
            if late:
                self._crowd()
        self._lead()

    def _sweep(self) -> None:
        now = time.monotonic()
        if self._hear is not None and now >= self._deaf_until:
            hear, self._hear = self._hear, None
            hear()
        if now - self._swept < self._pause:
            return
        self._swept = now
        with self._lock:
            idle: List[Connection] = [guest for guest in self._guests.values() if now - guest.since > self._idle_seconds]
            for connection in idle:
                self._take_out(connection)
        for connection in idle:
            self._over(connection)

    # --- with the lock held -----------------------------------------------------------------------------

    def _put_in(self, connection: Connection) -> None:
        self._guests[connection.sock] = connection
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)

    def _take_out(self, connection: Connection) -> None:
        if self._guests.pop(connection.sock, None) is not None:
            self._selector.unregister(connection.sock)

    def _crowd(self) -> None:
        now = time.monotonic()
        recently = now - self._crowded_until < _CROWDED_SECONDS
        self._crowded_for = min(2 * self._crowded_for, _CROWDED_LONGEST) if recently else _CROWDED_SECONDS
        self._crowded_until = now + self._crowded_for

    # --- the end ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let nobody wait any more: who has sent a request is served, and who has not is sent away; idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._bell.send(b"x")
        self._ended.wait()  # the watchdog sees to it that this is soon
        self._watchdog.stop()
        with self._lock:
            guests = list(self._guests.values())
            self._guests.clear()
            ready = {key.data for key, _ in self._selector.select(0)} if guests else set()
            self._selector.close()
            self._watched.clear()
        self._alarm.close()
        self._bell.close()
        for connection in guests:
            if connection in ready:
                connection.hasten()
                self._spawn(functools.partial(self._stay, connection))
            else:
                self._over(connection)
        self._threads.stop()
