"""The transport of HTTP with SSE, as the revision of 2024 has it, a client's side.

One stream says everything, the answers to what is posted elsewhere included; so one thread reads it for all
callers, as with a pipe. When it ends, the conversation is over (LSSE-10).
"""

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Mapping, Optional

from ...errors import ConnectionClosed, HTTPStatusError, RequestTimeout, TransportError
from ...net.link import Exchange, Link, Reply, Stopped
from ...protocol.http.sse import EventParser
from ...protocol.show import shown
from ...rpc.deadline import Deadline
from ...rpc.interfaces import Channel

if TYPE_CHECKING:
    import requests

    from ...rpc.pending import Pending

__all__ = ["SSEChannel"]

#: Seconds for the event that says where to post to.
_ENDPOINT_SECONDS = 30.0
_SLICE = 1.0
#: For a message that nobody waits for.
_SOON_SECONDS = 0.5


class SSEChannel(Channel):
    """A server behind the URL of its event stream.

    :param url: of the stream.
    :param line_limit: bytes that one message may have; default 16 MiB.
    :param options: those of :class:`Link`.
    :raises ValueError: the URL is none, or a header cannot be sent.
    """

    def __init__(self, url: str, *, line_limit: int = 16 << 20, headers: Optional[Mapping[str, str]] = None,
                 session: "Optional[requests.Session]" = None, verify: Any = None, cert: Any = None,
                 proxies: Optional[Dict[str, str]] = None, auth: Any = None) -> None:
        self._link = Link(url, headers=headers, session=session, verify=verify, cert=cert, proxies=proxies, auth=auth)
        self.name = shown(url)
        self._parser = EventParser(line_limit)
        self._messages: Deque[bytes] = deque()
        self._closed = threading.Event()
        self._opening: Optional[Deadline] = None
        self._stream = Exchange(self._left)
        self._endpoint = ""
        #: What ended the conversation, for whoever finds out late.
        self._end = f"the connection to {self.name} was closed on this side"
        self._reply: Optional[Reply] = None

    def open(self) -> None:
        if self._reply is not None:
            return
        self._opening = Deadline(_ENDPOINT_SECONDS)
        # The time of a login is not the server's.
        self._stream = Exchange(self._left, clock=self._opening)
        try:
            reply = self._reply = self._link.send(self._stream, "GET", None, {"Accept": "text/event-stream"},
                                                  connect_seconds=_ENDPOINT_SECONDS)
            self._await_endpoint(reply)
        except Stopped:
            if self._closed.is_set():
                raise ConnectionClosed(self._end) from None
            self.close()
            raise TransportError(f"{self.name} did not say within {_ENDPOINT_SECONDS:g} s where to post to") from None
        except BaseException:
            self.close()
            raise
        self._opening = None

    def _left(self) -> float:
        if self._closed.is_set() or (self._opening is not None and self._opening.expired):
            raise Stopped
        return _SLICE

    def _await_endpoint(self, reply: Reply) -> None:
        if reply.status != 200 or reply.kind != "text/event-stream":
            status, kind, text = reply.status, reply.kind, reply.excerpt()
            raise HTTPStatusError(f"{self.name} answered GET with {status} ({kind or 'no content'}) instead of an event stream",
                                  status=status, body=text)
        reply.check_plain()
        while not self._endpoint:
            self._fill(reply)

    def _fill(self, reply: Reply) -> None:
        """Read what has come; the first event says where to post to (LSSE-02).

        :raises ConnectionClosed: the stream has ended.
        :raises Stopped: the channel was closed.
        """
        try:
            data = reply.read1()
        except TransportError as error:
            self._end = str(error)
            raise ConnectionClosed(self._end) from error
        if not data:
            self._end = f"{self.name} ended its event stream"
            raise ConnectionClosed(self._end)
        for event in self._parser.feed(data):
            if event.event == "endpoint" and not self._endpoint:
                self._endpoint = self._link.resolve(event.data.decode("utf-8", "replace").strip())
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
            raise ConnectionClosed(self._end) from None
        return self._messages.popleft()

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        deadline = Deadline(timeout)
        self._post(data, Exchange(self._asks(deadline.remaining), deadline.remaining, deadline), timeout)

    def write_request(self, data: bytes, pending: "Pending", timeout: Optional[float] = None) -> None:
        # The call's own clock, which stands while somebody logs in.
        self._post(data, Exchange(self._asks(pending.remaining, pending), pending.remaining, pending.clock), timeout, pending)

    def write_soon(self, data: bytes) -> None:
        deadline = Deadline(_SOON_SECONDS)
        exchange = Exchange(self._asks(deadline.remaining), deadline.remaining)
        exchange.may_ask = False
        self._post(data, exchange, _SOON_SECONDS)

    def _asks(self, remaining: Callable[[], Optional[float]], pending: "Optional[Pending]" = None) -> Callable[[], float]:
        """Return what says how long a message may take yet, and raises when nobody wants it sent any more."""

        def left() -> float:
            seconds = remaining()
            if self._closed.is_set() or (seconds is not None and seconds <= 0) or (pending is not None and pending.interrupted):
                raise Stopped
            return _SLICE if seconds is None else min(seconds, _SLICE)

        return left

    def _post(self, data: bytes, exchange: Exchange, timeout: Optional[float], pending: "Optional[Pending]" = None) -> None:
        try:
            reply = self._link.send(exchange, "POST", self._endpoint, {"Content-Type": "application/json"}, data)
            text = reply.excerpt()
        except Stopped:
            if self._closed.is_set():
                raise ConnectionClosed(self._end) from None
            if pending is not None and pending.interrupted:
                return  # whoever interrupted it has left a reason with the call
            raise RequestTimeout(f"{self.name} did not take a message within {timeout or 0:g} s") from None
        if not 200 <= reply.status < 300:
            raise HTTPStatusError(f"{self.name} answered a message with {reply.status}: {' '.join(text.split())[:200]}",
                                  status=reply.status, body=text)

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            # The thread that reads, if there is one, comes back at once and lets go of the response.
            self._stream.interrupt()
            if self._reply is not None:
                self._reply.close()
            self._link.close()
