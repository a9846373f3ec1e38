"""The transport HTTP+SSE, which Streamable HTTP replaced, a client's side.

One stream carries all messages of the server, including the answers to messages that are posted to another URL. So one thread
reads it for all callers, as with a pipe. When the stream ends, the connection is over (LSSE-10).
"""

import threading
from collections import deque
from typing import Any, Callable, Deque, Mapping, Optional

from ...errors import ConnectionClosed, HTTPStatusError, RequestTimeout, TransportError
from ...net.exchange import Exchange, Reply, Stopped
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings
from ...protocol.error_text import shown
from ...protocol.http.sse import EventParser
from ...rpc.deadline import Deadline, undo
from ...rpc.forks import foreign_error
from ...rpc.interfaces import Channel, Network
from ...rpc.pending import Clock, Pending
from ...rpc.threads import Workers
from ...rpc.tracing import get_logger
from .http_endpoint import asked_pause, network_of, next_timeout_of

__all__ = ["SSEChannel"]

_log = get_logger(__name__)
#: Seconds for the event that names the URL to post to.
_ENDPOINT_SECONDS = 30.0
#: Seconds that a read or write blocks at most before it checks whether the channel was closed.
_SLICE_SECONDS = 1.0
#: Seconds for a message that must not be waited for.
_SOON_SECONDS = 2.0


class SSEChannel(Channel):
    """A server behind the URL of its event stream.

    :param url: of the stream.
    :param line_limit: bytes that one message may have; default 16 MiB.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    """

    def __init__(self, url: str, settings: HTTPSettings = HTTPSettings(), *, line_limit: int = 16 << 20) -> None:
        self._url = url
        self._client = OriginClient(url, settings)
        self.name = shown(url)
        self._parser = EventParser(line_limit)
        self._messages: Deque[bytes] = deque()
        self._closed = threading.Event()
        #: The deadline of :meth:`open`; None afterwards.
        self._open_deadline: Optional[Deadline] = None
        self._stream = Exchange(self._next_timeout)
        #: Returns further headers for each message; called on the thread that sends it.
        self._added_headers: Optional[Callable[[], Mapping[str, str]]] = None
        #: Where to post to; empty until the server has named it.
        self._post_url = ""
        #: What ended the connection, for calls that come later.
        self._end_reason = f"the connection to {self.name} was closed on this side"
        self._reply: Optional[Reply] = None
        self._workers: Optional[Workers] = None

    def let_go(self, owner: int) -> None:
        # The one stream belongs to the other process, and so do the answers on it.
        self._end_reason = str(foreign_error(self.name, owner, "open one in this process"))
        self._closed.set()

    @property
    def network(self) -> Network:
        return network_of(self._url)

    def accompany(self, values: Callable[[], Any]) -> None:
        self._added_headers = values

    def open(self) -> None:
        if self._reply is not None:
            return
        seconds = _ENDPOINT_SECONDS if self.open_timeout is None else min(self.open_timeout, _ENDPOINT_SECONDS)
        # The deadline bounds the time of the server; it stands still while a user logs in.
        clock = Clock()
        deadline = self._open_deadline = Deadline(seconds, clock.now)
        self._stream = Exchange(self._next_timeout, clock=clock)
        with undo(self.close):
            try:
                reply = self._reply = self._client.send_authorized(self._stream, "GET", None, {"Accept": "text/event-stream"},
                                                                   connect_seconds=seconds)
                self._await_endpoint(reply)
            except Stopped:
                if self._closed.is_set():
                    raise ConnectionClosed(self._end_reason) from None
                raise TransportError(f"{self.name} did not name the URL to post to within {seconds:g} s") from None
        self.open_seconds = seconds - (deadline.remaining() or 0.0)
        self._open_deadline = None

    def _next_timeout(self) -> float:
        if self._closed.is_set() or (self._open_deadline is not None and self._open_deadline.expired):
            raise Stopped
        return _SLICE_SECONDS

    def _await_endpoint(self, reply: Reply) -> None:
        if reply.status != 200 or reply.kind != "text/event-stream":
            status, kind, text = reply.status, reply.kind, reply.excerpt()
            raise HTTPStatusError(f"{self.name} answered GET with {status} ({kind or 'no content'}) instead of an event stream",
                                  status=status, body=text)
        reply.check_plain()
        while not self._post_url:
            self._fill(reply)

    def _fill(self, reply: Reply) -> None:
        """Read what has come; the first event names the URL to post to (LSSE-02).

        :raises ConnectionClosed: the stream has ended.
        :raises Stopped: the channel was closed.
        """
        try:
            data = reply.read1()
        except TransportError as error:
            self._end_reason = str(error)
            raise ConnectionClosed(self._end_reason) from error
        if not data:
            self._end_reason = f"{self.name} ended its event stream"
            raise ConnectionClosed(self._end_reason)
        for event in self._parser.feed(data):
            if event.event == "endpoint" and not self._post_url:
                self._post_url = self._client.resolve(event.data.decode("utf-8", "replace").strip())
            elif event.event == "message" and event.data:
                self._messages.append(event.data)

    @property
    def buffered(self) -> bool:
        return bool(self._messages)

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        reply = self._reply
        assert reply is not None
        try:
            while not self._messages:
                self._fill(reply)
        except Stopped:
            raise ConnectionClosed(self._end_reason) from None
        return self._messages.popleft()

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        clock = Clock()
        deadline = Deadline(timeout, clock.now)
        exchange = Exchange(next_timeout_of(deadline.remaining, self._closed.is_set), deadline.remaining, clock)
        self._post(data, exchange, timeout)

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> None:
        self._workers = workers

    def write_request(self, data: bytes, timeout: Optional[float], call: Pending) -> None:
        # With the call's own clock, which is paused while a user logs in.
        exchange = Exchange(next_timeout_of(call.remaining, lambda: self._closed.is_set() or call.interrupted),
                            call.remaining, call.clock)
        self._post(data, exchange, timeout, call)

    def write_soon(self, data: bytes) -> None:
        workers = self._workers
        if workers is not None and not self._closed.is_set():
            workers.spawn(lambda: self._try_post(data))

    def _try_post(self, data: bytes) -> None:
        deadline = Deadline(_SOON_SECONDS)
        exchange = Exchange(next_timeout_of(deadline.remaining, self._closed.is_set), deadline.remaining)
        exchange.may_log_in = False
        try:
            self._post(data, exchange, _SOON_SECONDS)
        except (TransportError, RequestTimeout) as error:
            _log.debug("not sent to %s: %s", self.name, error)

    def _post(self, data: bytes, exchange: Exchange, timeout: Optional[float], pending: Optional[Pending] = None) -> None:
        headers = {"Content-Type": "application/json"}
        if self._added_headers is not None:
            headers = {**self._added_headers(), **headers}
        try:
            reply = self._client.send_authorized(exchange, "POST", self._post_url, headers, data)
            text = reply.excerpt()
        except Stopped:
            if self._closed.is_set():
                raise ConnectionClosed(self._end_reason) from None
            if pending is not None and pending.interrupted:
                return  # the thread that interrupted it has left a reason with the call
            raise RequestTimeout(f"{self.name} did not take a message within {timeout or 0:g} s") from None
        if not 200 <= reply.status < 300:
            refusal = HTTPStatusError(f"{self.name} answered a message with {reply.status}: {' '.join(text.split())[:200]}",
                                      status=reply.status, body=text)
            refusal.retry_after = asked_pause(reply)
            raise refusal

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            # The reading thread, if there is one, returns at once and no longer uses the response.
            self._stream.interrupt()
            if self._reply is not None:
                self._reply.close()
            self._client.close()
