"""Waits for all idle connections on one thread, and serves those that become readable.

One thread, the leader, waits on the selector and serves a request itself when it comes: handing it to another thread
costs more than most requests do, and many threads that each need the interpreter for a moment cost more than that.
When a request takes longer than five milliseconds, or is about to block on its client, the leader role passes to
another thread, and the first one stays with its connection until the request is served (leader/followers).

Slow requests come in bursts. For a while after one, each connection that becomes readable gets a thread of its own.

Leading is a :class:`.threads.Loop`, which no fault ends, and the role moves with the loop from thread to thread. All other
threads may end with an exception, which costs the connection that they serve.
"""

import contextlib
import functools
import selectors
import socket
import threading
import time
from typing import Callable, Dict, List, Optional, Set

from ...errors import TransportError
from ...rpc.forks import release_socket
from ...rpc.threads import Loop, Watchdog, Workers
from ...rpc.tracing import get_logger
from ..state.response_bodies import do_nothing
from .client_socket import State
from .connection import Connection

__all__ = ["Poller"]

_log = get_logger(__name__)
#: Seconds that a request may take before another thread leads. The check takes the interpreter from the leader for a
#: moment, so a shorter time costs throughput: two milliseconds would cost a tenth.
_TICK_SECONDS = 0.005
#: Seconds for which each connection gets a thread of its own after a slow request. Doubled each time that this proves
#: too short, up to the longest.
_BURST_SECONDS = 0.1
_LONGEST_BURST_SECONDS = 5.0
#: Seconds without accepting after accepting has failed, and between two looks at what waits otherwise.
_ACCEPT_PAUSE_SECONDS = 0.1
#: Idle threads that are kept.
_KEEP_THREADS = 4
#: Seconds between two searches for connections that have been idle for too long.
_SWEEP_SECONDS = 1.0
#: Seconds that close() waits for the leader to notice, and between two attempts to wake it.
_END_SECONDS = 5.0
_WAKE_AGAIN_SECONDS = 0.1


def _nothing_expires() -> bool:
    return False


class Poller:
    """The connections of one server that wait for a request.

    :param idle_seconds: after which an idle connection is closed.
    :param on_closed: called with each connection after it was closed.
    :param sweep: called by the leader about once a second, to release what has expired; returns whether there is
        anything left that can expire. While there is not, and no connection is parked, the leader sleeps.
    """

    def __init__(self, idle_seconds: float, on_closed: Callable[[Connection], object],
                 sweep: Callable[[], bool] = _nothing_expires) -> None:
        self._idle_seconds = idle_seconds
        #: Only for its threads, a few of which are kept for a while between two tasks.
        self._threads = Workers(1, 0, "mcplite connection", keep=_KEEP_THREADS)
        self._pause = min(_SWEEP_SECONDS, idle_seconds)
        self._on_closed = on_closed
        self._on_sweep = sweep
        #: Called by the leader after :meth:`wake`, now and then without it, and ten times a second while ``hurried``.
        self.on_woken: Callable[[], object] = do_nothing
        self.hurried = False
        self._hurried_at = 0.0
        #: Whether there may be anything that can expire besides parked connections. Set when a connection is parked.
        self._expiring = False
        self._selector = selectors.DefaultSelector()
        #: Whether a running select() does not see what is registered meanwhile, so that it must be woken.
        self._needs_wakeup = not hasattr(self._selector, "fileno")
        with contextlib.ExitStack() as undo:
            undo.callback(self._selector.close)
            self._wakeup_reader, self._wakeup_writer = socket.socketpair()
            undo.callback(self._wakeup_reader.close)
            undo.callback(self._wakeup_writer.close)
            self._wakeup_reader.setblocking(False)
            self._wakeup_writer.setblocking(False)
            self._selector.register(self._wakeup_reader, selectors.EVENT_READ, self._drain_wakeup)
            undo.pop_all()
        #: Guards the fields below and the selector's registrations; held for dictionary work and for registering.
        self._lock = threading.Lock()
        #: The parked connections, and the one that the leader serves.
        self._idle: Dict[socket.socket, Connection] = {}
        #: The clients of event streams, and what to call when one disconnects.
        self._watched: Dict[socket.socket, Callable[[], object]] = {}
        #: The connection that the leader is serving.
        self._serving: Optional[Connection] = None
        #: The leader keeps its role as long as the number of its task is current.
        self._watchdog = Watchdog(_TICK_SECONDS, lambda task: self._spawn(
            functools.partial(self._take_over, task, late=True)))
        self._watched_over = False
        self._burst_until = 0.0
        self._burst_for = _BURST_SECONDS
        self._closing = False
        self._loop = Loop("leader of an HTTP server", self._lead)
        #: Whether a thread shall lead: from start() to stop() or close().
        self._leading = False
        #: Set while no thread leads.
        self._ended = threading.Event()
        self._ended.set()
        #: The leader's own: when it last swept, until when accepting is paused, and what resumes it.
        self._swept = 0.0
        self._accept_paused_until = 0.0
        self._resume_accepting: Optional[Callable[[], None]] = None

    def start(self) -> None:
        """Start the first leader, which ends with :meth:`stop` or :meth:`close`, and the watchdog, which ends with the latter.

        :raises TransportError: the system has no thread for it.
        """
        if not self._watched_over:
            self._watchdog.start()
            self._watched_over = True
        self._leading = True
        self._ended.clear()
        if not self._spawn(self._loop.run):
            self._ended.set()
            raise TransportError("the system has no thread for the server")

    def stop(self) -> None:
        """Serve no further request until the next :meth:`start`. Those that have begun are served to their end."""
        self._leading = False
        self._end_leading()

    def _spawn(self, task: Callable[[], object]) -> bool:
        try:
            self._threads.spawn(task)
        except TransportError:
            # No more threads can be started: the existing ones carry on.
            _log.exception("a connection gets no thread of its own")
            return False
        return True

    # --- registering ------------------------------------------------------------------------------------

    def add_listener(self, sock: socket.socket, accept: Callable[[], bool]) -> None:
        """Have the leader call *accept* whenever a connection can be accepted; before :meth:`start`.

        :param accept: must not block; returns False to pause accepting for a moment.
        """
        def readable() -> None:
            accepted = False
            try:
                accepted = accept()
            finally:
                if not accepted:
                    # Noted first: listening must be resumed even if it could not be interrupted.
                    self._accept_paused_until = time.monotonic() + _ACCEPT_PAUSE_SECONDS
                    self._resume_accepting = register
                    with self._lock:
                        self._remove(sock)

        def register() -> None:
            with self._lock:
                self._add(sock, readable)

        register()

    def watch(self, sock: socket.socket, on_disconnect: Callable[[], object]) -> None:
        """Call *on_disconnect* when the client closes a connection whose response is being sent, until :meth:`unwatch`."""
        with self._lock:
            if self._closing:
                return
            if self._idle.pop(sock, None) is not None:
                # The connection that the leader serves stays registered until the leader hands over.
                self._remove(sock)
            try:
                self._add(sock, functools.partial(self._readable, sock, on_disconnect))
            except OSError:
                # The response is sent all the same; a client that leaves is noticed when a piece cannot be sent.
                _log.exception("the client of an event stream cannot be watched")
                return
            self._watched[sock] = on_disconnect
        self._wake_up()

    def unwatch(self, sock: socket.socket) -> None:
        """Stop watching the client of a response that has been sent."""
        with self._lock:
            if self._watched.pop(sock, None) is not None:
                self._remove(sock)

    def _readable(self, sock: socket.socket, on_disconnect: Callable[[], object]) -> None:
        with self._lock:
            if self._watched.get(sock) is not on_disconnect:
                return  # the stream has ended meanwhile, and the socket is closed or serves its next request
            del self._watched[sock]
            self._remove(sock)
            try:
                # Does not block: no other thread reads from the socket while it is watched.
                disconnected = not sock.recv(1, socket.MSG_PEEK)
            except OSError:
                disconnected = True
        if disconnected:  # otherwise the client has sent its next request already, and a later end cannot be seen
            on_disconnect()

    def park(self, connection: Connection) -> None:
        """Let a connection wait for its next request."""
        with self._lock:
            parked = not self._closing and self._register(connection)
        if parked:
            self._wake_up()
        else:
            self._close(connection)

    def holds(self, connection: Connection) -> bool:
        """Whether no thread serves a connection, as the leader sees it between two requests."""
        return connection.request in self._idle

    def _wake_up(self) -> None:
        if self._needs_wakeup:
            self.wake()

    def wake(self) -> None:
        """Have the leader call ``on_woken`` soon."""
        # Under the lock that close() holds when it closes the pair: its number may belong to another file afterwards.
        try:
            with self._lock:
                if self._wakeup_writer.fileno() >= 0:
                    self._wakeup_writer.send(b"x")
        except BlockingIOError:
            return  # it is full of wake-ups
        except OSError:
            _log.exception("the thread that waits for connections could not be woken")

    def _drain_wakeup(self) -> None:
        try:
            self._wakeup_reader.recv(4096)
        except BlockingIOError:
            return  # another thread has read it
        self.on_woken()

    # --- the leader -------------------------------------------------------------------------------------

    def _lead(self) -> None:
        # The body of the loop: of start(), and of a thread to which the watchdog or the last leader passes the role. It blocks
        # on the selector and on what a request does, and ends when another thread leads, or with stop() or close().
        while self._leading:
            pause = (_ACCEPT_PAUSE_SECONDS if self._resume_accepting is not None or self.hurried else
                     self._pause if self._idle or self._expiring else None)
            try:
                ready = self._selector.select(pause)
            except (OSError, ValueError):
                self._remove_closed()
                raise
            for key, _ in ready:
                if not isinstance(key.data, Connection):
                    try:
                        key.data()
                    except Exception:
                        _log.exception("a connection could not be accepted, or its end not be noticed")
                elif not self._serve(key.data):
                    return
            self._sweep()
        self._ended.set()

    def _serve(self, connection: Connection) -> bool:
        """Serve a readable connection; False if another thread leads by then."""
        if self._burst_until and time.monotonic() < self._burst_until and self._serve_on_thread(connection):
            return True
        watchdog = self._watchdog
        with self._lock:
            if connection.request not in self._idle:
                if connection.request not in self._watched:
                    self._remove(connection.request)  # an earlier attempt failed; another thread serves the connection
                return True
            task = watchdog.begin()
            self._serving = connection
        connection.handle(blocking=False)
        again = not connection.close_connection
        with self._lock:
            leading = watchdog.end(task)
            if leading:
                self._serving = None
                if not again:
                    self._unregister(connection)
                elif connection.request not in self._idle:
                    again = self._register(connection)
        if not leading:
            self._serve_until_idle(connection, again)
        elif not again:
            self._close(connection)
        return leading

    def _serve_on_thread(self, connection: Connection) -> bool:
        with self._lock:
            self._unregister(connection)
        if self._spawn(functools.partial(self._serve_until_idle, connection)):
            return True
        with self._lock:
            registered = self._register(connection)
        if not registered:
            self._close(connection)
        return not registered

    def _close(self, connection: Connection) -> None:
        try:
            connection.close()
        except OSError:
            _log.exception("a connection could not be closed")
        finally:
            self._on_closed(connection)

    def _serve_until_idle(self, connection: Connection, again: bool = True) -> None:
        """Serve a connection on this thread until it can be parked or is closed."""
        if again:
            connection.handle()
            again = not connection.close_connection
        if again:
            self.park(connection)
        else:
            self._close(connection)

    def may_park(self) -> bool:
        """Whether connections may be parked, instead of each waiting on a thread."""
        return self._watched_over and not self._closing and time.monotonic() >= self._burst_until

    def step_down(self, connection: Connection) -> None:
        """Called just before the serving thread blocks: pass the leader role on if this thread holds it."""
        with self._lock:
            task = self._watchdog.job if self._serving is connection else 0
        if task:
            self._spawn(lambda: self._take_over(task, late=False))

    def _take_over(self, task: int, late: bool) -> None:
        """Lead in place of the thread that runs the task with this number, unless that has finished meanwhile.

        :param late: whether its request took long.
        """
        with self._lock:
            if self._serving is None or not self._watchdog.end(task):
                return
            self._unregister(self._serving)
            self._serving = None
            if late:
                self._extend_burst()
        self._loop.run()

    def _sweep(self) -> None:
        now = time.monotonic()
        resume = self._resume_accepting
        if resume is not None and now >= self._accept_paused_until:
            resume()
            self._resume_accepting = None
        if self.hurried and now - self._hurried_at >= _ACCEPT_PAUSE_SECONDS:
            self._hurried_at = now
            self.on_woken()
        if now - self._swept < self._pause:
            return
        self._swept = now
        with self._lock:
            # One that was hung up need not become readable: on Windows it does not before its client closes it.
            expired: List[Connection] = [connection for connection in self._idle.values()
                                         if connection.state is State.HUNG_UP or now - connection.since > self._idle_seconds]
            for connection in expired:
                self._unregister(connection)
            late = [connection for connection in self._idle.values()
                    if connection.state is State.BODY and now - connection.since > self._pause]
        for connection in expired:
            self._close(connection)
        for connection in late:
            self._serve_on_thread(connection)
        self._expiring = False  # first: a connection may be parked meanwhile
        try:
            expiring = self._on_sweep()
        except Exception:
            _log.exception("what has expired could not be released")
            expiring = True
        if expiring:
            self._expiring = True

    # --- with the lock held -----------------------------------------------------------------------------

    def _register(self, connection: Connection) -> bool:
        """Let the leader serve a connection when it is readable; False if that failed, and it must be closed."""
        try:
            self._add(connection.request, connection)
        except Exception:
            _log.exception("a connection cannot be waited for, and is closed")
            return False
        self._idle[connection.request] = connection
        self._expiring = True
        return True

    def _unregister(self, connection: Connection) -> None:
        if self._idle.pop(connection.request, None) is not None:
            self._remove(connection.request)

    def _add(self, sock: socket.socket, data: object) -> None:
        try:
            self._selector.register(sock, selectors.EVENT_READ, data)
        except KeyError:
            # Left from a socket of the same number that could not be removed before it was closed.
            self._selector.unregister(sock)
            self._selector.register(sock, selectors.EVENT_READ, data)

    def _remove(self, sock: socket.socket) -> None:
        try:
            self._selector.unregister(sock)
        except Exception:
            _log.exception("a connection could not be taken from those that are waited for")

    def _remove_closed(self) -> None:
        """Take sockets that are closed from the selector: one that could not be removed makes each ``select()`` fail."""
        with self._lock:
            closed = [key.fileobj for key in self._selector.get_map().values()
                      if key.fileobj.fileno() != key.fd]  # type: ignore[union-attr]
            for sock in closed:
                self._remove(sock)  # type: ignore[arg-type]

    def _extend_burst(self) -> None:
        now = time.monotonic()
        recently = now - self._burst_until < _BURST_SECONDS
        self._burst_for = min(2 * self._burst_for, _LONGEST_BURST_SECONDS) if recently else _BURST_SECONDS
        self._burst_until = now + self._burst_for

    # --- the end ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop: serve the connections that have sent a request, close the others. Idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._leading = False
        self._end_leading()
        self._watchdog.stop()
        with self._lock:
            parked = list(self._idle.values())
            self._idle.clear()
            ready = self._ready(parked)
            self._selector.close()
            self._watched.clear()
            self._wakeup_reader.close()
            self._wakeup_writer.close()
        for connection in parked:
            if connection not in ready and connection.state is not State.BODY:
                self._close(connection)
                continue
            connection.receive_pending()
            if not self._spawn(functools.partial(self._serve_until_idle, connection)):
                self._close(connection)
        self._threads.stop()

    def _end_leading(self) -> None:
        """Have the leader leave the selector, or its role if it is serving a request; that takes no new thread."""
        end = time.monotonic() + _END_SECONDS
        while not self._ended.is_set():
            with self._lock:
                if self._serving is not None and self._watchdog.end(self._watchdog.job):
                    self._unregister(self._serving)
                    self._serving = None
                    self._ended.set()
                    return
            self.wake()
            if self._ended.wait(_WAKE_AGAIN_SECONDS):
                return
            if time.monotonic() > end:
                _log.warning("the thread that waits for connections has not ended within %g s", _END_SECONDS)
                return

    def _ready(self, parked: List[Connection]) -> Set[object]:
        # Called with the lock held. Without an answer of the system, each connection may have sent a request.
        try:
            return {key.data for key, _ in self._selector.select(0)} if parked else set()
        except (OSError, ValueError):
            _log.exception("the connections that have sent a request are not known")
            return set(parked)

    def let_go(self) -> None:
        """Let go of the selector in a forked process; the sockets are the server's, and belong to another process."""
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._closing, self._leading = True, False
        self._ended.set()
        self._watchdog.stop()
        self._idle.clear()
        self._watched.clear()
        # Nothing is unregistered: the kernel's set is the same in both processes.
        if not self._needs_wakeup:
            release_socket(self._selector)
        release_socket(self._wakeup_reader)
        release_socket(self._wakeup_writer)
