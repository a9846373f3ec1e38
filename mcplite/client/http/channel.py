"""The transport of Streamable HTTP, a client's side: one endpoint, a session, a stream to listen to."""

import contextlib
import logging
import re
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Mapping, Optional, Set

from ...errors import (
    ConnectionClosed,
    HTTPStatusError,
    ProtocolError,
    RequestTimeout,
    SessionLost,
    TransportError,
    remote_error,
)
from ...net.link import Exchange, Link, Reply, Stopped
from ...protocol import jsonrpc
from ...protocol.show import shown
from ...rpc.deadline import Deadline
from ...rpc.interfaces import Channel
from ...rpc.threads import Workers
from .get_stream import Listener
from .reading import HTTPReading

if TYPE_CHECKING:
    import requests

__all__ = ["HTTPChannel"]

_log = logging.getLogger(__name__)
_POST_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
#: Seconds for the goodbye at the end.
_GOODBYE_SECONDS = 2.0
_SLICE = 1.0
#: Statuses by which a server of 2024 answers a POST to the URL of its stream (LSSE-13).
_MAYBE_OLDER = frozenset({400, 404, 405, 406, 415, 422})


class HTTPChannel(Channel):
    """A server behind a URL.

    :param url: of the endpoint.
    :param line_limit: bytes that one message may have; default 16 MiB.
    :param listen: whether to open the GET stream, by which a server says what belongs to no call.
    :param options: those of :class:`Link`.
    :raises ValueError: the URL is none, or a header cannot be sent.
    """

    interruptible = True
    carries_beside = True

    def __init__(self, url: str, *, line_limit: int = 16 << 20, listen: bool = True, headers: Optional[Mapping[str, str]] = None,
                 session: "Optional[requests.Session]" = None, verify: Any = None, cert: Any = None,
                 proxies: Optional[Dict[str, str]] = None, auth: Any = None) -> None:
        options: Dict[str, Any] = dict(headers=headers, session=session, verify=verify, cert=cert, proxies=proxies, auth=auth)
        self._url, self._options = url, {**options, "line_limit": line_limit}
        self._link = Link(url, **options)
        self.name = shown(url)
        self.line_limit = line_limit
        self._listens = listen
        self._session_id = ""
        self._version: Optional[str] = None
        self._receive: Callable[[bytes], None] = _nothing
        self._workers: Optional[Workers] = None
        #: Guards the fields below; held for set work and assignments.
        self._lock = threading.Lock()
        self._exchanges: Set[Exchange] = set()
        self._listener: Optional[Listener] = None
        self._closed = False

    @property
    def session_id(self) -> str:
        return self._session_id

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> HTTPReading:
        self._receive, self._workers = receive, workers
        return HTTPReading(self, receive)

    # --- requests -----------------------------------------------------------------------------------

    def post(self, exchange: Exchange, data: bytes, first: bool = False, beside: Optional[Mapping[str, str]] = None) -> Reply:
        """Send a message and return the response.

        :param first: whether it is ``initialize``, which begins a session (SESS-09).
        :param beside: the headers of a message that stands for itself; None for one of a session.
        :raises SessionLost: there is no such session any more; the message was not served.
        :raises TransportError, Stopped: as for :meth:`Link.send`.
        """
        session = "" if first or beside is not None else self._session_id
        if beside is not None:
            headers = {**_POST_HEADERS, **beside}
        else:
            headers = _POST_HEADERS if first else {**_POST_HEADERS, **self._session_headers(session)}
        reply = self._link.send(exchange, "POST", None, headers, data)
        if first and reply.status == 200:
            self._session_id = self._checked(reply)
        elif reply.status == 404 and session:
            reply.close()
            raise self._lost(session, unserved=True)
        return reply

    def get(self, exchange: Exchange, last_id: Optional[str]) -> Reply:
        """Ask for an event stream and return the response.

        :param last_id: of the last event that was read, to go on behind it.
        :raises SessionLost: there is no such session any more.
        :raises TransportError, Stopped: as for :meth:`Link.send`.
        """
        session = self._session_id
        headers = {"Accept": "text/event-stream", **self._session_headers(session)}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        reply = self._link.send(exchange, "GET", None, headers)
        if reply.status == 404 and session:
            reply.close()
            raise self._lost(session, unserved=False)
        return reply

    def _session_headers(self, session: str) -> Dict[str, str]:
        headers = {}
        if session:
            headers["Mcp-Session-Id"] = session  # SESS-05
        if self._version is not None:
            headers["MCP-Protocol-Version"] = self._version  # HDR-01
        return headers

    def _checked(self, reply: Reply) -> str:
        session = reply.headers.get("Mcp-Session-Id", "")
        if session and not _SESSION_ID.fullmatch(session):
            reply.close()
            raise ProtocolError(f"{self.name} gave a session id that cannot be sent back (SESS-03)")
        return session

    def _lost(self, session: str, unserved: bool) -> SessionLost:
        return SessionLost(f"{self.name} does not know our session any more", session=session, unserved=unserved)

    def refused(self, reply: Reply, what: str, id: Optional[int], receive: Callable[[bytes], None]) -> None:
        """Deal with the response to a message that was not accepted.

        :param id: of the request, whose answer may be in it all the same (HTTP-42).
        :raises RemoteError: the server said why, in JSON-RPC.
        :raises HTTPStatusError: it did not.
        """
        status, kind = reply.status, reply.kind
        # An error in JSON-RPC is read whole, whatever it has to say (2.6).
        text = reply.read(self.line_limit).decode("utf-8", "replace") if kind == "application/json" else reply.excerpt()
        if kind == "application/json":
            message = jsonrpc.parse(text.encode("utf-8"))
            if isinstance(message, jsonrpc.Failure) and id is not None and message.id == id:
                error = remote_error(message.code, message.message, message.data)
                error.http_status = status
                raise error
            if isinstance(message, jsonrpc.Response) and id is not None and message.id == id:
                receive(text.encode("utf-8"))
                return
            if isinstance(message, jsonrpc.Failure):
                raise HTTPStatusError(f"{self.name} answered {what!r} with {status}: {str(message.message)[:500]}",
                                      status=status, body=text) from remote_error(message.code, message.message, message.data)
        said = " ".join(text.split())[:200]
        raise HTTPStatusError(f"{self.name} answered {what!r} with {status}{': ' + said if said else ''}",
                              status=status, body=text)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._write(data, timeout, None)

    def write_beside(self, data: bytes, beside: Mapping[str, str], timeout: Optional[float] = None) -> None:
        self._write(data, timeout, beside)

    def _write(self, data: bytes, timeout: Optional[float], beside: Optional[Mapping[str, str]], waits: bool = True) -> None:
        if self._closed:
            raise ConnectionClosed(f"the connection to {self.name} is closed")
        deadline = Deadline(timeout)
        try:
            with self._exchange(deadline, waits=waits) as exchange:
                reply = self.post(exchange, data, beside=beside)
                if not 200 <= reply.status < 300:
                    self.refused(reply, "a notification or an answer", None, _nothing)
                reply.excerpt() if reply.kind != "text/event-stream" else reply.close()
        except Stopped:
            if self._closed:
                raise ConnectionClosed(f"the connection to {self.name} was closed on this side") from None
            raise RequestTimeout(f"{self.name} did not take a message within {timeout or 0:g} s") from None

    def write_soon(self, data: bytes) -> None:
        workers = self._workers
        if workers is not None and not self._closed:
            workers.spawn(lambda: self._try(data))

    def _try(self, data: bytes) -> None:
        try:
            self._write(data, _GOODBYE_SECONDS, None, waits=False)
        except (TransportError, RequestTimeout) as error:
            _log.debug("not sent to %s: %s", self.name, error)

    @contextlib.contextmanager
    def _exchange(self, deadline: Deadline, goodbye: bool = False, waits: bool = True) -> Iterator[Exchange]:
        """Return an exchange that ends with the deadline and with the channel.

        :param waits: whether it is worth a login, whose time is then not the deadline's.
        """

        def left() -> float:
            remaining = deadline.remaining()
            if (self._closed and not goodbye) or (remaining is not None and remaining <= 0):
                raise Stopped
            return _SLICE if remaining is None else min(remaining, _SLICE)

        exchange = Exchange(left, deadline.remaining, deadline if waits else None)
        exchange.may_ask = waits
        with self._lock:
            self._exchanges.add(exchange)
        try:
            yield exchange
        finally:
            with self._lock:
                self._exchanges.discard(exchange)

    # --- life -----------------------------------------------------------------------------------------

    def set_version(self, version: Optional[str]) -> None:
        self._version = version

    def listen(self, on_session_lost: Callable[[str], object]) -> None:
        if not self._listens:
            return
        listener = Listener(self, self._receive, lambda error: on_session_lost(error.session))
        with self._lock:
            if self._closed:
                return
            before, self._listener = self._listener, listener
        if before is not None:
            before.stop()
        listener.start()

    def alternative(self, error: Exception) -> Optional[Channel]:
        if not isinstance(error, HTTPStatusError) or error.status not in _MAYBE_OLDER:
            return None
        from .legacy_sse import SSEChannel

        return SSEChannel(self._url, **self._options)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            exchanges = list(self._exchanges)
            listener = self._listener
        for exchange in exchanges:
            exchange.interrupt()
        if listener is not None:
            listener.stop()
        if self._session_id:
            self._goodbye()
        self._link.close()

    def _goodbye(self) -> None:
        """Tell the server that the session is over (SESS-10); it may not care (SESS-11)."""
        try:
            with self._exchange(Deadline(_GOODBYE_SECONDS), goodbye=True, waits=False) as exchange:
                self._link.send(exchange, "DELETE", None, self._session_headers(self._session_id)).excerpt()
        except (TransportError, Stopped) as error:
            _log.debug("no goodbye for %s: %s", self.name, error)


def _nothing(given: Any) -> None:
    """Take no note."""
