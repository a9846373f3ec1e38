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
import math
import selectors
import socket
import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Set

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
#: Seconds for which accepting is paused after it has failed, and between two calls of ``on_woken`` while ``hurried``.
_ACCEPT_PAUSE_SECONDS = 0.1
#: Idle threads that are kept.
_KEEP_THREADS = 4
#: Seconds between two searches for connections that have been idle for too long.
_SWEEP_SECONDS = 1.0
#: Seconds between two looks at the event streams, at least.
_LOOK_SECONDS = 0.02
#: Seconds that close() waits for the leader to notice, and between two attempts to wake it.
_END_SECONDS = 5.0
_WAKE_AGAIN_SECONDS = 0.1


class Poller:
    """The connections of one server that wait for a request.

    :param idle_seconds: after which an idle connection is closed.
    :param on_closed: called with each connection after it was closed.
    :param sweep: called by the leader about once a second, to release what has expired; returns whether there is
        anything left that can expire. While there is not, and no connection is parked, the leader sleeps.
    """

    def __init__(self, idle_seconds: float, on_closed: Callable[[Connection], object],
                 sweep: Callable[[], bool]) -> None:
        self._idle_seconds = idle_seconds
        #: Only its ``spawn`` is used, which takes no slot. A few idle threads are kept for a while.
        self._threads = Workers(1, 0, "mcplite connection", keep=_KEEP_THREADS)
        self._pause = min(_SWEEP_SECONDS, idle_seconds)
        self._on_closed = on_closed
        self._on_sweep = sweep
        #: Called by the leader after :meth:`wake`, which the poller itself calls as well, and ten times a second while
        #: ``hurried``.
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
        #: The connections whose response is an event stream, which is sent as there are pieces.
        self._streams: Dict[socket.socket, Connection] = {}
        #: The connections whose event stream has ended. The thread that has sent the last piece adds a connection, and the
        #: leader takes it.
        self._ending: Deque[Connection] = deque()
        #: When the next stream has to be looked at, and until when the leader sleeps.
        self._look_at = self._sleeps_until = math.inf
        #: The id of the thread that leads. The leader needs no wake-up for its own changes, because it looks at the fields
        #: above before it sleeps.
        self._leader: Optional[int] = None
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
        self._let_streams_go()

    def _let_streams_go(self) -> None:
        # What the leader has not noticed: streams that have ended, and those whose socket was full.
        self._end_streams()
        with self._lock:
            streams = [connection.stream for connection in self._streams.values()]
        for stream in streams:
            if stream is not None and stream.full and not self._spawn(stream.wait_writable):
                stream.cancel()

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
                    # Set before the socket is removed: if removing it fails, accepting must be resumed all the same.
                    self._accept_paused_until = time.monotonic() + _ACCEPT_PAUSE_SECONDS
                    self._resume_accepting = register
                    with self._lock:
                        self._remove(sock)

        def register() -> None:
            with self._lock:
                self._add(sock, readable)

        register()

    def park(self, connection: Connection) -> None:
        """Let a connection wait for its next request."""
        with self._lock:
            parked = not self._closing and self._register(connection)
        if not parked:
            self._close(connection)
        elif self._needs_wakeup:
            self.wake()

    def holds(self, connection: Connection) -> bool:
        """Whether a connection is parked.

        Only the leader may ask, and only between two requests: the connection that it serves would count as parked.
        """
        return connection.request in self._idle

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

    # --- event streams ----------------------------------------------------------------------------------

    def may_own(self) -> bool:
        """Whether a connection may leave the rest of an event stream to the poller."""
        return self._watched_over and not self._closing

    def _own(self, connection: Connection) -> None:
        """Send the rest of an event stream as it has pieces, and notice when its client leaves."""
        stream, sock = connection.stream, connection.request
        assert stream is not None
        with self._lock:
            # If the leader has served the connection, it is still registered for reading.
            connection.events = 0 if self._idle.pop(sock, None) is None else selectors.EVENT_READ
            if not self._closing:
                self._streams[sock] = connection
                # If registering fails, the response is sent all the same. Then a client that has left is noticed when a piece
                # cannot be sent.
                self._select(connection, selectors.EVENT_READ)
        stream.pass_on(functools.partial(self._stream_is_full, connection), functools.partial(self._stream_is_over, connection))
        self._look_by(stream.look_at)

    def _stream_is_full(self, connection: Connection) -> None:
        """Have the leader send the rest of an event stream when the socket takes more; without a leader a thread does."""
        stream = connection.stream
        assert stream is not None
        with self._lock:
            waits = self._leading and connection.request in self._streams and self._select(
                connection, connection.events | selectors.EVENT_WRITE)
        if waits:
            self._look_by(stream.look_at)
        elif not self._spawn(stream.wait_writable):
            stream.cancel()

    def _look_by(self, at: float) -> None:
        """Have the leader look at the streams at this time at the latest.

        If its select() does not see sockets that were registered meanwhile, it is woken for them, too.
        """
        with self._lock:
            self._look_at = min(self._look_at, at)
            early = at < self._sleeps_until
        if (early or self._needs_wakeup) and self._leader != threading.get_ident():
            self.wake()

    def _stream_is_over(self, connection: Connection) -> None:
        """Have the leader go on with a connection whose event stream has ended; without a leader a thread does."""
        self._ending.append(connection)
        if self._leader == threading.get_ident():
            return  # it looks before it sleeps
        if not self._ended.is_set():
            self.wake()
        elif not self._spawn(self._end_streams):
            self._end_streams()

    def _end_streams(self) -> None:
        while self._ending:
            try:
                connection = self._ending.popleft()
            except IndexError:
                return  # another thread has taken it
            connection.end_stream()
            self._go_on(connection)

    def _end_one(self) -> bool:
        """End a stream on the leader; False if another thread leads by then.

        Ending the session of a stream may run code of the user, which may take long.
        """
        try:
            connection = self._ending.popleft()
        except IndexError:
            return True
        with self._lock:
            task, self._serving = self._watchdog.begin(), connection
        connection.end_stream()
        with self._lock:
            leading = self._watchdog.end(task)
            if leading:
                self._serving = None
        self._go_on(connection)
        return leading

    def _go_on(self, connection: Connection) -> None:
        """Park a connection after its event stream, have its next request served, or close it."""
        with self._lock:
            streamed = self._streams.pop(connection.request, None)
            if streamed is not None and not self._closing and connection.events:
                self._remove(connection.request)
        if not connection.close_connection and not connection.has_next:
            self.park(connection)
        elif connection.close_connection and not connection.lingers:
            self._close(connection)
        elif self._closing:
            self._serve_until_idle(connection)  # the server stops, so this reads no further request, and does not block
        elif not self._spawn(functools.partial(self._serve_until_idle, connection)):
            self._close(connection)

    def _select(self, connection: Connection, events: int) -> bool:
        """Have the leader notice events of a stream's socket; with the lock held. Return whether it does."""
        before = connection.events
        try:
            if not events:
                self._remove(connection.request)
            elif not before:
                self._add(connection.request, connection, events)
            elif before != events:
                self._selector.modify(connection.request, events, connection)
        except (OSError, ValueError, KeyError):
            _log.exception("the client of an event stream cannot be watched")
            return False
        connection.events = events
        return True

    def _on_event(self, connection: Connection) -> None:
        stream = connection.stream
        if stream is None or connection.request not in self._streams:
            return  # it has ended meanwhile, or is not passed on yet
        if stream.full:
            with self._lock:
                self._select(connection, connection.events & ~selectors.EVENT_WRITE)
            stream.writable()
        if connection.events & selectors.EVENT_READ:
            if connection.disconnected:
                stream.body.stop()
                stream.cancel()  # unless it has ended with that
            elif connection.has_input:
                # The client has sent its next request. Until that is read, the end of the connection cannot be seen, so the
                # socket is no longer watched for reading.
                with self._lock:
                    self._select(connection, connection.events & ~selectors.EVENT_READ)

    def _look(self, now: float) -> None:
        """Do what is due for the event streams: comments of quiet ones, the end of others, and readers that take nothing."""
        with self._lock:
            streams = [connection.stream for connection in self._streams.values()]
            self._look_at = math.inf
        look_at = math.inf
        for stream in streams:
            if stream is not None:
                stream.look(now)
                look_at = min(look_at, stream.look_at)
        with self._lock:
            self._look_at = max(min(self._look_at, look_at), now + _LOOK_SECONDS)

    # --- the leader -------------------------------------------------------------------------------------

    def _pause_until_look(self, pause: Optional[float]) -> Optional[float]:
        """Return how long the leader may sleep: at most *pause*, and until a stream has to be looked at."""
        with self._lock:
            now = time.monotonic()
            until = self._look_at if pause is None else min(self._look_at, now + pause)
            self._sleeps_until = until
        return None if until == math.inf else max(until - now, 0.0)

    def _lead(self) -> None:
        leader = threading.get_ident()
        with self._lock:
            self._leader = leader
        try:
            self._lead_on()
        finally:
            with self._lock:
                if self._leader == leader:
                    self._leader = None  # its thread does other work

    def _lead_on(self) -> None:
        # The body of the loop: of start(), and of a thread to which the watchdog or the last leader passes the role. It blocks
        # on the selector and on what a request does, and ends when another thread leads, or with stop() or close().
        while self._leading:
            while self._ending:
                if not self._end_one():
                    return
            pause = (_ACCEPT_PAUSE_SECONDS if self._resume_accepting is not None or self.hurried else
                     self._pause if self._idle or self._expiring else None)
            if self._streams:
                pause = self._pause_until_look(pause)
            else:
                self._sleeps_until = math.inf
            try:
                ready = self._selector.select(pause)
            except (OSError, ValueError):
                self._remove_closed()
                raise
            for key, _ in ready:
                connection = key.data
                if isinstance(connection, Connection) and connection.stream is None:
                    if not self._serve(connection):
                        return
                    continue
                try:
                    if isinstance(connection, Connection):
                        self._on_event(connection)
                    else:
                        key.data()  # a callback: readable() of add_listener(), or _drain_wakeup
                except Exception:
                    _log.exception("a connection could not be accepted, or its end not be noticed")
            self._sweep()
            if self._streams:
                self._sleeps_until = 0.0
                now = time.monotonic()
                if now >= self._look_at:
                    self._look(now)
        self._ended.set()

    def _serve(self, connection: Connection) -> bool:
        """Serve a readable connection; False if another thread leads by then."""
        # If a connection is not in ``_idle``, another thread serves it already, or it has ended. It is still registered because
        # it could not be removed.
        if (self._burst_until and time.monotonic() < self._burst_until and self.holds(connection)
                and self._serve_on_thread(connection)):
            return True
        watchdog = self._watchdog
        with self._lock:
            if connection.request not in self._idle:
                if connection.request not in self._streams:
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
                elif connection.stream is None and connection.request not in self._idle:
                    again = self._register(connection)
        if not leading:
            self._serve_until_idle(connection, again)
        elif not again:
            self._close(connection)
        elif connection.stream is not None:
            self._own(connection)
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
        if again and connection.stream is None:
            connection.handle()
            again = not connection.close_connection
        if not again:
            self._close(connection)
        elif connection.stream is not None:
            self._own(connection)
        else:
            self.park(connection)

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

    def _add(self, sock: socket.socket, data: object, events: int = selectors.EVENT_READ) -> None:
        try:
            self._selector.register(sock, events, data)
        except KeyError:
            # The selector still has a closed socket with this file number, which could not be removed before it was closed.
            self._selector.unregister(sock)
            self._selector.register(sock, events, data)

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
            self._wakeup_reader.close()
            self._wakeup_writer.close()
        self._let_streams_go()
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
                    self._serving = self._leader = None  # its thread looks at nothing any more
                    self._ended.set()
                    return
            self.wake()
            if self._ended.wait(_WAKE_AGAIN_SECONDS):
                return
            if time.monotonic() > end:
                _log.warning("the thread that waits for connections has not ended within %g s", _END_SECONDS)
                return

    def _ready(self, parked: List[Connection]) -> Set[object]:
        # Called with the lock held. If select() fails, each connection counts as one that may have sent a request.
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
        self._streams.clear()
        # Nothing is unregistered: the kernel's set is the same in both processes.
        if not self._needs_wakeup:
            release_socket(self._selector)
        release_socket(self._wakeup_reader)
        release_socket(self._wakeup_writer)
