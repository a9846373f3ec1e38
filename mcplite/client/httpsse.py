"""The transport of HTTP with SSE, as the revision of 2024 has it, a client's side.

May import: client.httplink, errors, protocol.sse, rpc.channel, rpc.deadline

One stream says everything, the answers to what is posted elsewhere included; so one thread reads it for all
callers, as with a pipe. When it ends, the conversation is over (LSSE-10).
"""

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, Mapping, Optional

from ..errors import ConnectionClosed, HTTPStatusError, RequestTimeout, TransportError
from ..protocol.sse import EventParser
from ..rpc.channel import Channel
from ..rpc.deadline import Deadline
from .httplink import Exchange, Link, Reply, Stopped, shown

if TYPE_CHECKING:
    import requests

__all__ = ["SSEChannel"]

#: Seconds for the event that says where to post to.
_ENDPOINT_SECONDS = 30.0
_SLICE = 1.0


class SSEChannel(Channel):
    """A server behind the URL of its event stream; connected when it is made.

    :param url: of the stream.
    :param line_limit: bytes that one message may have; default 16 MiB.
    :param options: those of :class:`Link`.
    :raises TransportError: there is no such stream, or it does not say where to post to.
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
        self._opening: Optional[Deadline] = Deadline(_ENDPOINT_SECONDS)
        self._stream = Exchange(self._left)
        self._endpoint = ""
        #: What ended the conversation, for whoever finds out late.
        self._end = f"the connection to {self.name} was closed on this side"
        self._reply: Optional[Reply] = None
        try:
            reply = self._reply = self._link.send(self._stream, "GET", None, {"Accept": "text/event-stream"},
                                                  connect_seconds=_ENDPOINT_SECONDS)
            self._await_endpoint(reply)
        except Stopped:
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

        def left() -> float:
            remaining = deadline.remaining()
            if self._closed.is_set() or (remaining is not None and remaining <= 0):
                raise Stopped
            return _SLICE if remaining is None else min(remaining, _SLICE)

        try:
            reply = self._link.send(Exchange(left, deadline.remaining), "POST", self._endpoint,
                                    {"Content-Type": "application/json"}, data)
            text = reply.excerpt()
        except Stopped:
            if self._closed.is_set():
                raise ConnectionClosed(self._end) from None
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
