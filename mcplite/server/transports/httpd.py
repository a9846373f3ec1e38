"""The HTTP server: an :class:`http.server.HTTPServer` whose connections need no thread while they wait.

For a laptop, a desktop application, a test, or a service, behind a proxy or by itself. With a certificate it speaks HTTP over
TLS (:mod:`.tls`); without one plain HTTP.

The standard library binds, listens, accepts, names the addresses and the statuses, writes dates and the responses to malformed
requests. These are the overrides, here and in the request handler, :class:`.connection.Connection`:

- *Connections wait in a poller* (:mod:`.poller`), not in a thread each: ``_admit`` parks the connection, and
  ``serve_forever`` waits while the poller's threads serve. 512 idle connections take no thread, and 128 busy ones make
  2.2 times the calls of a ``ThreadingHTTPServer`` (2.4 times for the same CPU time). A handler is therefore made once for a
  connection, and its ``handle`` is called again and again.
- *Serving begins with* ``with``, or ``start()``, on background threads; ``serve_forever`` joins in, and also returns after
  SIGINT or SIGTERM, when it has closed the server: handlers get ``Limits.grace`` to finish. ``shutdown`` only stops it, as in
  the standard library. ``server_close`` is ``close()``.
- *Heads are parsed strictly* (``parse_request`` is not used): a proxy in front and a lenient parser may see different requests
  in the same bytes. The library accepts bare line feeds, folded lines, two lengths and blanks before the colon.
- *Heads, bodies and writes have deadlines* and budgets in bytes. The library waits for ever, and one slow client holds a
  thread for as long as it likes; here 512 of them hold a socket each.
- *Connections are bounded*, and shared among clients: ``verify_request`` may refuse one, as in the library. Above
  ``Limits.connections``, a connection that is not used ends for the new one, or the new one waits.
- *The methods* ``do_GET``, ``do_POST`` and so on lead to the endpoint of the server and to its ``routes``. Responses of these
  are sent in one piece, and their head is kept for the next response, which mostly has an equal one.
- *Lines of the log* go to ``logging`` (the logger ``mcplite.access``) and not to stderr, without queries, since these may hold
  secrets. ``handle_error`` logs as well.
- ``server_bind`` looks up no name of this machine, which can take seconds, and lets no other program share the port.

A connection that is accepted while its client has all its slots waits here, and is read when another connection of that
client ends or is idle. The server gives freed memory back to the system. The allocator of glibc would keep it, in an arena for
each few threads: after a flood of large messages that is several times the memory that was in use at any moment, and no limit
counts it.
"""

import atexit
import contextlib
import errno
import http.server
import mmap
import os
import socket
import socketserver
import sys
import threading
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Set, Tuple, Type

from ...protocol.error_text import Option, OptionText
from ...protocol.http.http1 import HeadLimits
from ...protocol.http.oauth import is_loopback
from ...rpc.deadline import Deadline
from ...rpc.forks import close_socket, on_fork, release_socket
from ...rpc.tracing import get_logger
from ..eviction import Shares
from ..http import make_endpoint
from ..http.access import LOOPBACK, TrustedProxies
from ..http.endpoint import Route
from ..limits import Limits
from ..runtime.runtime import Runtime
from .client_socket import BodyBudget, ClientSocket, State
from .connection import Connection
from .poller import Poller
from .signals import StopRequest, stop_signals

if TYPE_CHECKING:
    from .tls import Certificates, KeyPassword

__all__ = ["FreedMemory", "HTTPServer", "most_connections", "warning_of"]

_log = get_logger(__name__)
#: Bytes that the memory of the process grows by before freed memory is given back. Less would cost ordinary traffic time: the
#: system clears each page before it gives it again.
_GROWTH_BYTES = 24 << 20


class FreedMemory:
    """The freed memory of this process. If the allocator cannot give it back, as outside of glibc, it does nothing."""

    def __init__(self) -> None:
        #: The least bytes that were in memory since freed memory was given back.
        self._least = _resident()

    def give_back(self) -> bool:
        """Give freed memory back if the process has grown by much since the last time; return whether it did.

        It takes some milliseconds, during which other threads run.
        """
        resident = _resident()
        self._least = min(self._least, resident)
        if resident - self._least < _GROWTH_BYTES:
            return False
        trimmed = _trim()
        self._least = _resident()
        _log.debug("gave %d MiB of freed memory back", resident - self._least >> 20)
        return trimmed


def _resident() -> int:
    """Return the bytes of this process in memory; 0 if they are not known."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        # No descriptor is free at present, or there is no /proc.
        return 0


def _trim() -> bool:
    import ctypes  # for the first flood

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return False  # another allocator, such as that of musl
    return True


#: Connections that wait; each takes three KiB.
_MOST_WAITING = 1024
#: select() takes 512 sockets on Windows; a few are the server's own.
_MOST_ON_WINDOWS = 500


def most_connections(limits: Limits) -> Tuple[int, int]:
    """Return how many connections are served at once, and how many may wait, with the descriptors of this process.

    A quarter of the descriptors is left to handlers.
    """
    most = limits.connections
    if sys.platform == "win32":
        return min(most, _MOST_ON_WINDOWS), _MOST_WAITING
    import resource

    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return most, _MOST_WAITING
    return min(most, max(descriptors // 2, 1)), min(_MOST_WAITING, max(descriptors // 4, 1))


_FULL = (b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n"
         b"Connection: close\r\n\r\ntoo many open connections\n")
#: Seconds that connections get at least to send the rest of their responses when the server stops, after the last handler has
#: ended.
_FLUSH_SECONDS = 1.0
#: Errors of accept() that are about the one connection, whose client has left before it was accepted.
_LEFT = frozenset({errno.ECONNABORTED, errno.ECONNRESET, errno.ENOTCONN, errno.EPROTO})
#: Connections that are accepted at once, before requests on the other connections are served.
_ACCEPT_AT_ONCE = 32


class HTTPServer(http.server.HTTPServer):
    """A server on one port; bound when it is created, serving from ``start()`` or ``with`` on, until it is closed.

    ``mcplite.serve`` returns one that has started. The end of the program closes it, too, with a warning in the log. It is an
    :class:`http.server.HTTPServer`: ``server_address``, ``server_port``, ``socket``, ``fileno()``, ``serve_forever()``,
    ``shutdown()``, ``server_close()``, ``verify_request()``, ``service_actions()`` and ``handle_error()`` are those of the
    standard library.

    :param runtime: of the server.
    :param host: the address to listen at. For other than loopback addresses *allowed_hosts* must be given.
    :param port: 0 picks a free port, which the attribute ``port`` tells.
    :param path: of the endpoint.
    :param allowed_hosts: the accepted host names; by default the loopback names. See :class:`OriginPolicy`.
    :param allowed_origins: the origins whose web pages may use the endpoint.
    :param trusted_proxies: addresses and networks of reverse proxies, which tell the client's address in ``X-Forwarded-For``;
        see :class:`TrustedProxies`.
    :param stateless: serves every message on its own, without session ids; see :class:`Endpoint`.
    :param routes: public handlers of other paths, by path; see :class:`Endpoint`.
    :param legacy_sse: also serves the oldest revision's HTTP+SSE, at ``sse`` and ``messages`` beside the endpoint.
    :param handler: the class of the connections: by default :class:`.connection.Connection`, which is an
        :class:`http.server.BaseHTTPRequestHandler`, or a subclass with a ``log_message`` or a ``do_GET`` of its own.
    :param certfile: serves HTTPS, TLS 1.2 or later, with the certificate of this PEM file, which has the authorities between it
        and the root behind it. The files are read again when they have changed.
    :param keyfile: the PEM file of its key; by default *certfile* has the key, too.
    :param client_ca: the PEM file, or a folder by hashes, of the authorities whose clients may connect (mutual TLS): all others
        are refused. Handlers see the certificate as ``ctx.http.client_certificate``.
    :param key_password: of the key, or a function that returns it.
    :raises OSError: the address cannot be bound.
    :raises ValueError: an option is not valid, or the server would be open to a network by mistake.
    :raises TypeError: *handler* is no such class.
    """

    RequestHandlerClass: Type[Connection]
    #: With it, on Windows two programs could listen at one port.
    allow_reuse_address = os.name == "posix"
    allow_reuse_port = False
    #: The class of the sockets that connections read and write.
    client_socket: Type[ClientSocket] = ClientSocket
    #: The certificates of HTTPS; None for plain HTTP.
    _certificates: "Optional[Certificates]" = None

    def __init__(self, runtime: Runtime, *, host: str = "127.0.0.1", port: int = 8000, path: str = "/mcp",
                 allowed_hosts: Optional[Sequence[str]] = None, allowed_origins: Sequence[str] = (),
                 trusted_proxies: Sequence[str] = (), stateless: bool = False,
                 routes: Optional[Mapping[str, Route]] = None, legacy_sse: bool = False,
                 handler: Optional[Type[Connection]] = None, certfile: "Optional[str | os.PathLike[str]]" = None,
                 keyfile: "Optional[str | os.PathLike[str]]" = None, client_ca: "Optional[str | os.PathLike[str]]" = None,
                 key_password: "Optional[KeyPassword]" = None) -> None:
        if not 0 <= port < 65_536:
            raise ValueError(f"{port} is not a port; use 0 (any free port) to 65535")
        handler = Connection if handler is None else handler
        if not (isinstance(handler, type) and issubclass(handler, Connection)):
            raise TypeError(f"handler: give a subclass of {Connection.__module__}.Connection, not {handler!r}: its connections"
                            " wait without a thread")
        if certfile is not None:
            from .tls import Certificates, TLSClientSocket

            self._certificates = Certificates(certfile, keyfile, client_ca, key_password)
            self.client_socket = TLSClientSocket
        elif (keyfile, client_ca, key_password) != (None, None, None):
            raise ValueError(OptionText("HTTPS needs a certificate: give ", Option("certfile"), " as well"))
        limits = self.limits = runtime.limits
        self.head_limits = HeadLimits(limits.header_line_bytes, limits.header_bytes, limits.headers)
        self.host = host
        self.proxies = TrustedProxies(trusted_proxies) if trusted_proxies else None
        self.endpoint = make_endpoint(
            runtime, path=path, allowed_hosts=_names(host, allowed_hosts), allowed_origins=allowed_origins, stateless=stateless,
            routes=routes, legacy_sse=legacy_sse)
        #: Answers a request; never raises.
        self.answer = self.endpoint.handle
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.request_queue_size = limits.backlog
        try:
            with contextlib.ExitStack() as undo:
                super().__init__((host, port), handler, bind_and_activate=False)
                undo.callback(self.socket.close)
                self.server_bind()
                self.server_activate()
                #: Where the connections wait.
                self.poller = Poller(limits.idle_seconds, self._on_closed, self._sweep)
                undo.callback(self.poller.close)
                self.poller.add_listener(self.socket, self._accept)
                self.poller.on_woken = self._admit_waiting
                undo.pop_all()
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            advice = "; another program does: choose another port, or 0 for a free one" if taken else ""
            raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}{advice}") from None
        warning = warning_of(runtime, host)
        if warning is not None:
            _log.warning("%s", warning)
        #: Guards the connections and the states below; held for assignments and set operations. close() waits on it for the
        #: last connection to end.
        self._changed = threading.Condition()
        self._connections: Set[Connection] = set()
        #: The connections that count to the limit: not those that were evicted and have not closed yet. A connection may look
        #: idle although a proxy has sent a request on it, while the leader is busy; ``due`` finds out.
        most, most_waiting = most_connections(limits)
        self._shares: Shares[Connection] = Shares(most, busy=lambda connection: connection.busy,
                                                  lasting=lambda connection: self._streams_go and connection.lasting,
                                                  due=self._is_due)
        #: Called with a connection whose request was answered.
        self.note_served = self._shares.use
        #: Whether the connection that is being admitted has sent something; only the leader uses it.
        self._asked = False
        #: Whether the connection that is being admitted has waited for so long that a stream may end for it; only the leader
        #: uses it.
        self._streams_go = False
        #: The connections that wait for a slot. Only the leader admits them, and so chooses which connection ends for them:
        #: meanwhile no other thread reads from parked connections.
        self._waiting: Shares[Connection] = Shares(most_waiting)
        #: The sender of a waiting connection on which a request has come: each connection of the sender ends with its response.
        self.crowded: Set[str] = set()
        #: Set under the lock above; connections read it without.
        self.closing = False
        self.budget = BodyBudget(limits)
        self._memory = FreedMemory()
        #: Whether the poller serves; and whether shutdown() was called while it did not, for the next serve_forever().
        self._started = self._shutdown_due = False
        #: The calls of serve_forever() that wait, but for those that shutdown() ends.
        self._serving_forever: List[StopRequest] = []
        #: The process that the server belongs to, if this one was forked from it; otherwise None.
        self._owner: Optional[int] = None
        on_fork(self, HTTPServer._let_go)

    def _let_go(self, owner: int) -> None:
        # In a forked process, whose copies of the sockets would keep the port and the connections open.
        self._owner = self._owner or owner
        atexit.unregister(self._close_at_exit)
        self._changed, self.closing = threading.Condition(), True
        self.poller.let_go()
        release_socket(self.socket)
        for connection in self._connections:
            release_socket(connection.request)
        self._connections = set()
        self.endpoint.let_go()

    # --- what servers of http.server have -------------------------------------------------------------------

    def server_bind(self) -> None:
        """Bind the socket."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, int(self.server_address[1])

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Serve until SIGINT (Ctrl-C), SIGTERM or a ``close()`` on another thread, and close the server.

        After a ``shutdown()`` on another thread it returns as well, and the server stays open. A second signal stops without
        waiting. On another than the main thread, signals are left alone.

        :param poll_interval: is not used, since nothing polls.
        :raises RuntimeError, TransportError: as for :meth:`start`.
        """
        end = StopRequest()
        shut_down = False
        try:
            with stop_signals(end.set):
                with self._changed:
                    shut_down, self._shutdown_due = self._shutdown_due, False
                    if not shut_down:
                        self._serving_forever.append(end)
                if shut_down:
                    return
                self.start()
                if not self.closing:
                    _log.info("serving at %s", self.url)
                    end.wait()
                with self._changed:
                    shut_down = end not in self._serving_forever
                    self._serving_forever = [one for one in self._serving_forever if one is not end]
        finally:
            if not shut_down:
                self.close()

    def shutdown(self) -> None:
        """Stop serving, and end ``serve_forever()``. Requests that have begun are served to their end.

        The port stays open, and ``serve_forever()`` and ``start()`` serve again, until :meth:`close`. While nothing serves, the
        next ``serve_forever()`` returns at once.
        """
        with self._changed:
            ends, self._serving_forever = self._serving_forever, []
            started, self._started = self._started, False
            self._shutdown_due = not started and not ends
        if started:
            self.poller.stop()
        for end in ends:
            end.set()

    def server_close(self) -> None:
        """Close the server; see :meth:`close`."""
        self.close()

    def get_request(self) -> Tuple[socket.socket, Any]:
        """Accept a connection; return its socket, with TLS on it if the server has a certificate, and its address."""
        sock, address = self.socket.accept()
        if self._certificates is not None:
            from .tls import TLSSocket

            sock = TLSSocket(sock, self._certificates.context())
        return sock, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one request on this thread, for ``handle_request()``."""
        self.RequestHandlerClass(request, client_address, self).handle_one_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the exception that is being handled, which has ended a connection; the server goes on."""
        _log.exception("a response to %s:%s failed", *client_address[:2])

    # --- serving on background threads ----------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port that the server listens at."""
        return self.server_port

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        name = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        scheme = "http" if self._certificates is None else "https"
        return f"{scheme}://{f'[{name}]' if ':' in name else name}:{self.port}{self.endpoint.path}"

    def start(self) -> "HTTPServer":
        """Start serving on background threads, and return. Idempotent.

        :raises RuntimeError: the server belongs to the process that this one was forked from, or its socket was wrapped by ssl.
        :raises TransportError: the system has no thread for it; the server is closed.
        """
        if self._owner is not None:
            raise RuntimeError(f"the server at {self.url} belongs to process {self._owner}, and process {os.getpid()} was"
                               " forked from it: make one in this process")
        if hasattr(self.socket, "context"):
            raise RuntimeError("give the server certfile= and keyfile=, and leave its socket as it is: connections wait in a"
                               " poller, which sees no data that ssl has decrypted ahead")
        with self._changed:
            if self._started or self.closing:
                return self
            self._started, self._shutdown_due = True, False
        started = False
        try:
            self.socket.setblocking(False)
            self.poller.start()
            started = True
        finally:
            if not started:
                self.close(0)
        atexit.register(self._close_at_exit)
        return self

    def __enter__(self) -> "HTTPServer":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> bool:
        # Several at once: whenever the leader looks, many clients may have connected, each with a request.
        for _ in range(_ACCEPT_AT_ONCE):
            if self.closing:
                return True
            try:
                sock, address = self.get_request()
            except BlockingIOError:
                return True  # there is no other, or its client disconnected before it was accepted
            except OSError as error:
                if error.errno in _LEFT:
                    continue  # on some systems, the error for a client that disconnected before it was accepted
                # Most likely there are no free descriptors: the connection that has been idle for longest ends. If none is
                # idle, open connections carry on, and new ones wait.
                _log.warning("no connection could be accepted: %s", error)
                self._asked = True
                idle = self._shares.make_room()
                if idle is not None:
                    idle.hang_up()
                return idle is not None
            taken = False
            try:
                if self.verify_request(sock, address):
                    self._add_connection(sock, address)
                    taken = True
            finally:
                if not taken:
                    sock.close()
        return True

    def _add_connection(self, sock: socket.socket, address: Any) -> None:
        connection = self.RequestHandlerClass(sock, address, self)
        with self._changed:
            accepted = not self.closing
            if accepted:
                self._connections.add(connection)
        if not accepted:
            self._refuse(connection)
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            _log.debug("the connection of %s ended: %s", address[0], error)
        # Connections of this sender that wait already come first.
        if connection.sender in self.crowded or not self._admit(connection):
            for refused in self._waiting.add(connection, connection.sender) or ():
                self._refuse(refused)
            self._admit_waiting()

    def _is_due(self, connection: Connection) -> bool:
        # If neither the new connection nor this one has sent anything, the new one waits: when many clients connect at once,
        # each sends its request a little later.
        return not self._asked and connection.silent or connection.due(self.poller.holds(connection))

    def _admit(self, connection: Connection) -> bool:
        """Have a connection served; False if no slot is free for its sender, and no other connection can end for it."""
        self._streams_go, self._asked = connection.owed_for_long, connection.has_input
        going = self._shares.add(connection, connection.sender)
        if going is None:
            return False
        self._waiting.remove(connection)
        connection.admit()
        for idle in going:
            idle.hang_up()  # its thread, or the leader, notices and closes it
        self.poller.park(connection)
        return True

    def _admit_waiting(self) -> None:
        # Called by the leader. While connections wait, it looks often: a client may send its request later than it connects.
        self.poller.hurried = len(self._waiting) > 0
        while not self.closing:
            waiting = self._waiting.items()
            asking = next((connection for connection in waiting if connection.has_input), None)
            self.crowded.clear()
            if asking is not None:
                self.crowded.add(asking.sender)
            elif not waiting or self._shares.full:
                return  # for a connection on which nothing has come, no other one ends
            if not self._admit(asking or waiting[0]):
                return

    def _refuse(self, connection: Connection) -> None:
        try:
            _refuse_connection(connection.request)
            connection.close()
        finally:
            self._on_closed(connection)

    def _sweep(self) -> bool:
        """End what has expired, and give freed memory back; return whether anything is left that can expire."""
        if len(self._waiting) or self.crowded:
            seconds = self.limits.queue_seconds
            for connection in self._waiting.idle(seconds, seconds):
                if self._waiting.remove(connection):
                    self._refuse(connection)
            self._admit_waiting()
        self._memory.give_back()
        self.service_actions()
        return self.endpoint.sweep() or bool(self._connections)

    def _on_closed(self, connection: Connection) -> None:
        self._shares.remove(connection)
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()
        if len(self._waiting) and not self.closing:
            self.poller.wake()

    def close(self, grace: Optional[float] = None) -> None:
        """Stop: refuse new requests, let running handlers finish, then cut them off. Idempotent.

        Handlers have *grace* seconds to finish and to send their responses, and as many again after their tokens were
        cancelled. A handler that is still running then is logged and abandoned.

        :param grace: seconds; by default the server's ``Limits.grace``.
        """
        with self._changed:
            again = self.closing
            self.closing = True
            connections, serving = list(self._connections), self._serving_forever
        if again:
            return
        atexit.unregister(self._close_at_exit)
        for end in serving:
            end.set()
        self.poller.close()
        for connection in self._waiting.clear():
            self._refuse(connection)
        close_socket(self.socket)
        for connection in connections:
            if connection.state in (State.NEW, State.IDLE):
                connection.stop_reading()
        seconds = self.limits.grace if grace is None else grace
        deadline = Deadline(seconds)
        self.endpoint.close(seconds)
        if not self._wait_until_closed(_FLUSH_SECONDS):
            # A client that reads slowly has the time of the handlers for its response, too.
            with self._changed:
                self._changed.wait_for(lambda: not any(connection.busy for connection in self._connections),
                                       deadline.remaining())
            for connection in self._open_connections():
                connection.hang_up()
            self._wait_until_closed(_FLUSH_SECONDS)

    def _close_at_exit(self) -> None:
        _log.warning("the program ends, and with it the server at %s, which was not closed: write `with mcplite.serve(...)`,"
                     " or call its close(); serve_forever() keeps a program running until Ctrl-C", self.url)
        self.close()

    def _open_connections(self) -> List[Connection]:
        with self._changed:
            return list(self._connections)

    def _wait_until_closed(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._connections, seconds)


def _names(host: str, allowed: Optional[Sequence[str]]) -> Sequence[str]:
    """Return the host names that a server at *host* accepts."""
    if allowed is not None:
        return allowed
    if not is_loopback(host):
        raise ValueError(OptionText(
            f"a server at {host!r} can be reached from other machines, so it needs the host names that clients use: ",
            Option("allowed_hosts", "allowed_hosts=['mcp.example.com']", "mcp.example.com"), " (or ",
            Option("allowed_hosts", "['*']", "'*'"), " for any name, if a proxy in front checks it)"))
    return sorted(LOOPBACK | {f"[{host}]" if ":" in host else host})


def warning_of(runtime: Runtime, host: str) -> Optional[str]:
    """Return the warning about a server without authentication that other machines can reach; None for any other server."""
    if runtime.auth is not None or is_loopback(host):
        return None
    return (f"{runtime.catalog.name} listens at {host or 'all addresses'} and requires no token: every machine that can reach"
            " this one can call all of its tools. Require tokens with Server(auth=StaticTokens({...})) or another auth=, or"
            " --token-env NAME on the command line; or listen at 127.0.0.1 only")


def _refuse_connection(sock: socket.socket) -> None:
    with contextlib.closing(sock):
        try:
            sock.setblocking(False)
            sock.send(_FULL)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(65_536)  # closing a socket with unread data makes the kernel drop what was sent
        except OSError as error:
            _log.debug("a connection above the limit was closed by its client: %s", error)
