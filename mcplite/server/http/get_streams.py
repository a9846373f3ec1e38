"""The GET streams of an endpoint: the common stream of a session, and streams that a client resumes.

A module of its own since both transports with event streams open them here, within one limit.
"""

import time
from typing import Callable, Optional

from ..handling.http_request import HTTPRequest
from ..limits import Limits
from ..shares import Shares
from .messages import EVENTS, EndingBody, HTTPResponse, Rejection, do_nothing
from .sessions import HTTPSession

__all__ = ["GetStreams", "end_at_expiry"]

_EVENT_NOT_KEPT = "Last-Event-ID is not an event that is still kept"


class GetStreams:
    """The open GET streams of one endpoint.

    :param limits: how many may be open.
    :param error_response: returns the response for a refused request.
    """

    def __init__(self, limits: Limits, error_response: Callable[[Rejection], HTTPResponse]) -> None:
        self._open: Shares[EndingBody] = Shares(limits.streams)
        self._error_response = error_response

    def __len__(self) -> int:
        return len(self._open)

    def open_common(self, request: HTTPRequest, session: HTTPSession) -> HTTPResponse:
        """Open the session's common stream."""
        common = session.streams.common
        reader = common.reader
        if reader is not None:
            if not reader.disconnected():
                # Each of two readers would miss the other's messages (HTTP-31, SEC-55).
                return self.refuse_second()
            common.detach(reader)
        return self.open(request, common.attach())

    def resume(self, request: HTTPRequest, session: HTTPSession, name: str, event: int) -> HTTPResponse:
        """Resume a stream after an event."""
        stream = session.streams.find(int(name)) if name.isdigit() else None
        if stream is None:
            return self._error_response(Rejection(400, _EVENT_NOT_KEPT))
        if stream.is_over(event):
            return self.over()
        return self.open(request, stream.attach(event))

    def refuse_second(self) -> HTTPResponse:
        """Return the refusal of a second common stream."""
        return self._error_response(Rejection(409, "this session has a GET stream already"))

    def over(self) -> HTTPResponse:
        """Return the response to a client that resumes after the last event.

        A cancelled call has no response. After an empty stream clients would reconnect again and again; status 204 tells an
        event source to stop reconnecting.
        """
        return HTTPResponse(204)

    def open(self, request: HTTPRequest, body: Optional[EndingBody],
             on_close: Callable[[], object] = do_nothing) -> HTTPResponse:
        """Return the response to a GET: an event stream. If too many are open, the oldest one ends.

        :param body: None if its events are not kept any more.
        :param on_close: called when the response has ended.
        """
        if body is None:
            return self._error_response(Rejection(400, _EVENT_NOT_KEPT))
        for old in self._open.add(body, request.sender) or ():
            old.stop()
        open_streams, stream = self._open, body
        body.disconnected, body.lasting = request.disconnected, True
        end_at_expiry(body, request)

        def closed() -> None:
            open_streams.remove(stream)
            on_close()

        body.on_close = closed
        return HTTPResponse(200, list(EVENTS), body, streaming=True)


def end_at_expiry(body: Optional[EndingBody], request: HTTPRequest, end: Callable[[], object] = do_nothing) -> None:
    """End a long-lived stream when the token of its request expires (AUS-31)."""
    if body is not None and request.principal is not None and request.principal.expires_at is not None:
        body.end_after(request.principal.expires_at - time.time(), end)
