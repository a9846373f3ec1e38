"""Sends by a session of ``requests`` as a program that uses ``requests`` does: each request is one call of its ``request``.

So its adapters, ``Retry``, parameters, cookies, hooks and authentication do what they always do, and so does what overrides
or replaces its methods. :mod:`.origin_client` chooses it for a session of the user's, and for what only ``requests`` can do.

The request, and each read of its response, is a :class:`ThreadedCall` for which the caller waits. Once the head of the
response has come, its socket is known, and is shut down when the caller stops waiting. Until then the thread stays with the
request for as long as the caller would have waited. ``requests`` and ``urllib3`` are imported at the top, so this module is
imported with the first such sender.
"""

import contextlib
import contextvars
import io
import os
import socket
import threading
import weakref
from http.client import RemoteDisconnected
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ProxyError, RetryError, SSLError
from requests.utils import default_user_agent, get_auth_from_url
from urllib3.exceptions import NewConnectionError, ProtocolError
from urllib3.util import Timeout

from ..errors import MCPError, TransportError
from ..protocol.error_text import shown
from ..protocol.http.headers import DEFAULT_PORTS
from ..protocol.http.http1 import media_type
from ..protocol.http.oauth import is_loopback
from ..rpc.deadline import WAKE_SECONDS, WakeSignal
from ..rpc.threads import Workers
from .exchange import Exchange, Reply, Stopped, shut_down
from .settings import Guard, HTTPSettings, Verify, merged_settings, proxy_for

__all__ = ["SessionReply", "SessionSender", "ThreadedCall"]

_PIECE_BYTES = 65_536
#: Seconds in which one of several addresses has to take a connection, or the next one is tried.
_PROBE_SECONDS = 5.0


class ThreadedCall:
    """One call of a function on a thread of a pool, with the caller's context variables and within its time.

    ``requests`` blocks in places that no limit reaches: a name's lookup, the pause of a ``Retry``, a hook of the user's.

    :param function: what to call.
    :param interrupt: called when the caller stops waiting: makes the function return, if it can.
    :param on_late: called once the function has ended, if the caller has stopped waiting: with the result of the function, or
        None if it raised an error.
    """

    def __init__(self, function: Callable[[], Any], interrupt: Callable[[], object],
                 on_late: Callable[[Any], object]) -> None:
        self._function = function
        self._interrupt = interrupt
        self._on_late = on_late
        #: Guards the fields below: either the caller has left, or it has the result. Held during an interrupt.
        self._lock = threading.Lock()
        self._finished = False
        self._result: Any = None
        self._error: Optional[BaseException] = None
        #: Whether the caller has stopped waiting.
        self.given_up = False
        self._changed = WakeSignal()

    def run(self, workers: Workers, exchange: Exchange) -> Any:
        """Call the function and return its result.

        :raises Stopped: the caller no longer waits; the function may still run.
        :raises BaseException: what the function has raised.
        """
        context = contextvars.copy_context()
        begun = False
        try:
            exchange.watch(self._changed.set)
            exchange.next_timeout()
            begun = True
            workers.spawn(lambda: context.run(self._run))
            while not self._finished:
                self._changed.wait(min(exchange.next_timeout(), WAKE_SECONDS))
        except BaseException:
            if begun and not self._give_up():
                self._on_late(self._result)
            raise
        finally:
            exchange.watch(None)
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # its traceback leads here

    def check(self) -> None:
        """Check, on the thread of the function, that the caller still waits.

        :raises Stopped: it does not.
        """
        if self.given_up:
            raise Stopped

    def _give_up(self) -> bool:
        """Stop waiting, and interrupt the function; return False if it has ended already."""
        with self._lock:
            if self._finished:
                return False
            self.given_up = True
            self._interrupt()
        return True

    def _run(self) -> None:
        result, error = None, None
        try:
            self.check()
            result = self._function()
        except BaseException as raised:
            error = raised
        try:
            with self._lock:
                if not self.given_up:
                    self._result, self._error, self._finished = result, error, True
            if self.given_up:
                self._on_late(result)
        finally:
            # Drop the references here: without this, what the function has used would stay until the next garbage collection.
            del self._function, error, result
            self._changed.set()


def _socket_of(raw: Any) -> Any:
    """Return the socket that a response of urllib3 is read from; None if it is read from something else."""
    file = getattr(getattr(raw, "_fp", None), "fp", None)
    # If the connection closes after this response, http.client has handed the socket to the response, and the connection has
    # none.
    sock = getattr(getattr(file, "raw", None), "_sock", None) or getattr(getattr(raw, "_connection", None), "sock", None)
    return sock if isinstance(sock, socket.socket) else None


class SessionReply(Reply):
    """A response of ``requests``.

    :param location: the target of a redirect, which was removed from the headers of the response; None for no redirect.
    """

    def __init__(self, response: Any, location: Optional[str], workers: Workers, exchange: Exchange, url: str) -> None:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if location is not None:
            headers["location"] = location
        self._response, self._workers = response, workers
        raw, content = response.raw, getattr(response, "_content", False)
        #: The file that the body is read from, and its socket. The socket is None if the body comes from no socket, as with an
        #: adapter of a test.
        self._file: Any = io.BytesIO(content if isinstance(content, bytes) else b"")
        self._sock = None
        if content is not False:
            headers.pop("content-encoding", None)  # a hook has read the body, and requests has decoded it
        elif raw is not None:
            # The file of http.client is read directly: a read of urllib3 blocks until it has all bytes that were asked for.
            file = getattr(raw, "_fp", None)
            self._file, self._sock = file if hasattr(file, "read1") else raw, _socket_of(raw)
        #: What has been read ahead, and the error that ended that.
        self._ready: List[bytes] = []
        self._fault: Optional[Exception] = None
        #: Whether the caller has stopped waiting for a read. Then the thread of that read closes the response.
        self._left = False
        super().__init__(response.status_code, headers, media_type(headers), exchange, url)
        self._note_missing()

    def _note_missing(self) -> None:
        length = getattr(self._file, "length", None)
        self._missing = length if type(length) is int else None

    def lift_limit(self, seconds: Optional[float]) -> None:
        """Let a read block for as long as it takes, once the head has come: from here on an interrupt reaches the socket.

        :param seconds: the limit that this sender has set. If an adapter of the user has set another one, that one stays.
        """
        if self._sock is not None and seconds is not None and self._sock.gettimeout() == seconds:
            self._sock.settimeout(None)

    def read_ahead(self) -> None:
        """Read a short body whole, if its length is known: without this, each piece takes a change of threads."""
        try:
            while 0 < (self._missing or 0) <= _PIECE_BYTES:
                data = self._read_file()
                if not data:
                    return
                self._ready.append(data)
        except Exception as error:
            self._fault = error  # raised when the body is read; the request itself has not failed

    def _receive(self) -> bytes:
        if self._ready:
            return self._ready.pop(0)
        if self._fault is not None:
            raise self._fault
        if isinstance(self._file, io.BytesIO) or self._missing == 0:
            self._exchange.next_timeout()
            return self._read_file()
        response = self._response
        call = ThreadedCall(self._read_file, self.interrupt, lambda late: response.close())
        try:
            data: bytes = call.run(self._workers, self._exchange)
        finally:
            self._left = call.given_up
        return data

    def _read_file(self) -> bytes:
        read = getattr(self._file, "read1", None) or self._file.read
        data: bytes = read(_PIECE_BYTES)
        self._note_missing()
        return data

    def attach(self) -> None:
        """Tell the exchange the socket."""
        if self._sock is not None:
            self._exchange.attach(self._sock)

    def interrupt(self) -> None:
        """Make a read on another thread return."""
        if self._sock is not None:
            with contextlib.suppress(TypeError):  # its socket is not a socket of the operating system
                shut_down(self._sock)

    def _release(self) -> None:
        # http.client counts a response with a length as unread until it is closed.
        self._file.close()
        release = getattr(self._response.raw, "release_conn", None)
        if release is not None:
            release()
        self._let_go()

    def _abort(self) -> None:
        self.interrupt()
        if not self._left:
            self._response.close()
        self._let_go()

    def _let_go(self) -> None:
        """Drop the response: it refers to the connection pool, which has to be freed when the session closes."""
        self._response = self._file = self._sock = None


class _Limit(Timeout):
    """The time limit of each attempt of an adapter.

    urllib3 calls clone() before each attempt. If the caller has left, clone() raises, so no further attempt begins.

    :param read: seconds for the head of a response. Without it, the thread would go on waiting for the head after the caller
        has left.
    """

    def __init__(self, connect: float, read: Optional[float], call: ThreadedCall) -> None:
        super().__init__(connect=connect, read=read)
        self._seconds, self._call = (connect, read), call

    def clone(self) -> Timeout:
        self._call.check()
        connect, read = self._seconds
        return Timeout(connect=connect, read=read)

    def __iter__(self) -> Iterator[Optional[float]]:
        """Let an adapter of the user unpack the limit as ``(connect, read)``, the pair that ``requests`` documents."""
        return iter(self._seconds)


def _unchanged(request: Any) -> Any:
    """Authenticate a request by what it has already; ``requests`` would take a password from ``.netrc`` (SEC-66)."""
    return request


class _GuardedAdapter(HTTPAdapter):
    """Connects to an address that a guard has returned, and to no other. The certificate is checked against the host name."""

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard

    def build_connection_pool_key_attributes(self, request: Any, *arguments: Any, **options: Any) -> Any:
        request.headers.setdefault("Host", urlsplit(request.url).netloc.rpartition("@")[2])
        # The address that was checked is the one that is connected to: the name may lead elsewhere the next time (AUTH-36).
        where, how = super().build_connection_pool_key_attributes(request, *arguments, **options)
        name, secure = where["host"], where["scheme"] == "https"
        port = where["port"] or DEFAULT_PORTS[where["scheme"]]
        *others, last = self._guard(name, port)
        for address in others:
            with contextlib.suppress(OSError), socket.create_connection((address, port), _PROBE_SECONDS):
                last = address
                break
        return {**where, "host": last}, {**how, "server_hostname": name, "assert_hostname": name} if secure else how


#: For each session, the id of the process that owns its connections: the first process that used the session, or a forked
#: process that has replaced them.
_PROCESSES: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()


class SessionSender:
    """Sends requests to one origin by a session; any thread may use it.

    :param session: the user's, or one of our own, which then keeps no cookies (SEC-66) and is closed with the sender.
    :param headers: of all requests, besides the session's.
    :param auth: what ``requests`` accepts as ``auth``; None to use the ``auth`` of the session.
    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    :param guard: checks the addresses of a session of our own, if its connections go through no proxy.
    """

    def __init__(self, url: str, settings: HTTPSettings, headers: Mapping[str, str], auth: Any, stays_here: bool,
                 guard: Optional[Guard] = None) -> None:
        self._owns_session = settings.session is None
        self._session: Any = requests.Session() if settings.session is None else settings.session
        if self._owns_session:
            self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._headers, self._auth = dict(headers), auth
        self._has_credentials = settings.auth is not None
        self._names_itself = "user-agent" in {name.lower() for name in settings.headers or {}}
        merged = merged_settings(url, settings, stays_here, self._session)
        self.proxied = proxy_for(url, merged) is not None
        if guard is not None and not self.proxied:
            for prefix in ("http://", "https://"):
                self._session.mount(prefix, _GuardedAdapter(guard))
        self.verify: Verify = merged["verify"]
        self._options: Dict[str, Any] = {"allow_redirects": False, "stream": True}
        self._options.update((name, value) for name, value in (("verify", settings.verify), ("cert", settings.cert))
                             if value is not None)
        self._proxies = dict(settings.proxies or {})
        host = urlsplit(url).hostname or ""
        if stays_here and is_loopback(host):
            self._proxies["no_proxy"] = host  # this host uses no proxy of the environment: AUTH-35, AUTH-39
        base = requests.PreparedRequest()
        base.prepare("POST", url, headers={name: value for name, value in {**self._session.headers, **headers}.items()
                                           if value is not None})
        self.headers: Any = base.headers
        #: As ``requests`` writes it, without the fragment and without the session's parameters.
        self.url = str(base.url)
        self._url_auth = get_auth_from_url(self.url)
        #: Whether the server has answered a request.
        self._answered = False
        #: The pool managers of the process that this one was forked from. They are kept, so that they are neither used nor
        #: freed here.
        self._left: List[Any] = []
        self._begin_in_this_process()

    def _begin_in_this_process(self) -> None:
        # spawn() takes no slot, so one slot is enough. A thread ends after half a minute without a request, or with close().
        self._workers = Workers(1, 0, "mcplite session")
        #: The process that the threads belong to.
        self._process = os.getpid()
        if _PROCESSES.setdefault(self._session, self._process) != self._process:
            _PROCESSES[self._session] = self._process
            for adapter in self._session.adapters.values():
                if isinstance(adapter, HTTPAdapter):
                    # Give the adapter new pools, as when it is unpickled. A lock of the old pools may be held by a thread that
                    # does not exist in this process.
                    self._left.append((adapter.poolmanager, adapter.proxy_manager))
                    again: Any = adapter  # its stubs do not know how it is pickled
                    again.__setstate__(again.__getstate__())

    def send(self, exchange: Exchange, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes],
             connect_seconds: float) -> Reply:
        """Send a request and return its response, as soon as its head has come.

        :param connect_seconds: for each address.
        :raises TransportError: the session raised an error that does not come from the network.
        :raises OSError, ValueError: the server cannot be reached, or the request cannot be sent.
        :raises Stopped: the caller no longer waits.
        """
        if self._process != os.getpid():
            self._begin_in_this_process()
        read_seconds = exchange.remaining()
        replies: List[SessionReply] = []
        locations: List[str] = []
        received: List[Any] = []

        def note(response: Any, **options: Any) -> None:
            received.append(response)

        def keep_redirect(response: Any, **options: Any) -> None:
            # The caller follows redirects. If requests found the location of a redirect, it would read the whole body, however
            # long it is; so the header is removed.
            if response.is_redirect:
                locations.append(response.headers.pop("location"))

        def request() -> SessionReply:
            options = {**self._options, "timeout": self._limit(url, call, connect_seconds, read_seconds)}
            auth = self._auth_of_request()
            if auth is not None:
                options["auth"] = auth
            if self._proxies:
                options["proxies"] = self._proxies.copy()  # requests adds those of the environment
            response: Any = None
            try:
                response = self._session.request(method, url, data=body, headers=self._headers_with(headers),
                                                 hooks=self._hooks_between(note, keep_redirect), **options)
            except requests.HTTPError as error:  # of a hook that calls raise_for_status()
                if error.response is None:
                    raise
                response = error.response
            finally:
                while received:
                    last = received.pop()
                    if response is None:  # it has raised an error
                        last.close()
            if not isinstance(response, requests.Response):
                raise TypeError(f"request() of the session returned {type(response).__name__}, not a response")
            reply = SessionReply(response, locations[-1] if locations else None, self._workers, exchange, url)
            replies.append(reply)
            reply.lift_limit(read_seconds)
            if not call.given_up:
                reply.read_ahead()
            return reply

        def interrupt() -> None:
            for reply in replies:  # one, once the head of the response has come
                reply.interrupt()

        call = ThreadedCall(request, interrupt, lambda late: late is not None and late.close())
        try:
            found: SessionReply = call.run(self._workers, exchange)
        except RetryError as error:
            raise TransportError(f"the session gave up on {shown(url)}:"
                                 f" {str(getattr(_cause(error), 'reason', _cause(error) or error))[:300]}") from error
        except (OSError, ValueError) as error:
            exchange.may_have_been_sent = _may_have_been_sent(error)
            # If the server has answered before, the request was most likely sent on an idle connection that the server had
            # closed.
            exchange.reused = self._answered and _was_closed(error)
            raise
        except (MCPError, Stopped):
            raise
        except Exception as error:
            raise TransportError(f"the session could not send a request to {shown(url)}: {type(error).__name__}:"
                                 f" {str(error)[:300]}") from error
        self._answered = True
        found.attach()
        return found

    def _limit(self, url: str, call: ThreadedCall, connect: float, read: Optional[float]) -> Any:
        return _Limit(connect, read, call) if isinstance(self._session.get_adapter(url), HTTPAdapter) else (connect, read)

    def _headers_with(self, headers: Mapping[str, str]) -> Dict[str, str]:
        merged = {**self._headers, **headers}
        if not self._names_itself and self._session.headers.get("User-Agent") not in (None, default_user_agent()):
            del merged["User-Agent"]  # the session's is the user's own
        return merged

    def _hooks_between(self, first: Any, last: Any) -> Dict[str, List[Any]]:
        """Return the hooks of the session between two of ours.

        requests calls the hooks of a request in place of those of the session, so both have to be in the list.
        """
        given = (self._session.hooks or {}).get("response") or []
        return {"response": [first, *([given] if callable(given) else given), last]}

    def _auth_of_request(self) -> Any:
        """Return what authenticates a request in place of the ``auth`` of the session; None to use that of the session."""
        if self._auth is not None:
            return self._auth
        if self._has_credentials:
            return _unchanged  # they are in a header
        if self._session.auth is not None:
            return None
        return self._url_auth if any(self._url_auth) else _unchanged

    def close(self) -> None:
        """End the idle threads, and the idle connections unless they are of the user's session."""
        self._workers.stop()
        if self._owns_session:
            self._session.close()


def _cause(error: Exception) -> Any:
    """Return the error of ``urllib3`` that an error of ``requests`` wraps, or its text; None if it has neither."""
    return error.args[0] if error.args else None


def _may_have_been_sent(error: Exception) -> bool:
    """Return whether a request may have reached the server before it failed with an error of ``requests``."""
    cause = _cause(error)
    return (not isinstance(error, (ValueError, requests.ConnectTimeout, ProxyError, SSLError))
            and isinstance(cause, Exception) and not isinstance(getattr(cause, "reason", cause), NewConnectionError))


def _was_closed(error: Exception) -> bool:
    """Return whether the server has closed the connection of a request without a response."""
    cause = _cause(error)
    return (isinstance(cause, ProtocolError)
            and isinstance(cause.args[-1], (RemoteDisconnected, ConnectionResetError, BrokenPipeError)))
