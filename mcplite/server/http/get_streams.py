"""The GET streams of an endpoint: the common stream of a session, and streams that a client resumes.

A module of its own since both transports with event streams open them here.
"""

import time
from typing import Callable, Hashable, Optional

from ..handling.http_request import HTTPRequest
from ..limits import Limits
from ..state.bodies import EndingBody, do_nothing
from ..state.get_stream import CommonStream
from ..state.open_streams import OpenStreams
from ..state.sessions import HTTPSession, Sessions
from .messages import EVENTS, HTTPResponse, Rejection

__all__ = ["GetStreams", "end_at_expiry"]

_EVENT_NOT_KEPT = "Last-Event-ID is not an event that is still kept"


class GetStreams:
    """Answers the GET requests of one endpoint.

    :param limits: how many streams may be open.
    :param error_response: returns the response for a refused request.
    :param held: the streams to count those of this endpoint among; by default they are counted alone.
    """

    def __init__(self, limits: Limits, error_response: Callable[[Rejection], HTTPResponse],
                 held: Optional[OpenStreams] = None) -> None:
        self._streams = OpenStreams(limits.streams) if held is None else held
        self._error_response = error_response

    def __len__(self) -> int:
        return len(self._streams)

    def open_common(self, request: HTTPRequest, sessions: Sessions, session: HTTPSession) -> HTTPResponse:
        """Open the session's common stream.

        :raises BackendError: the store failed.
        """
        body = sessions.open_common(session)
        if body is None:
            # Each of two readers would miss the other's messages (HTTP-31, SEC-55).
            return self._error_response(Rejection(409, "this session has a GET stream already"))
        return self.open(request, body, name=session.id)

    def resume(self, request: HTTPRequest, sessions: Sessions, session: HTTPSession, name: str, event: int) -> HTTPResponse:
        """Resume a stream after an event.

        :raises BackendError: the store failed.
        """
        body = sessions.resume(session, name, event)
        if body is not None and body.ending:
            # The client has all events; a cancelled call has no response. After an empty stream clients would reconnect again
            # and again; status 204 tells an event source to stop reconnecting.
            return HTTPResponse(204)
        return self.open(request, body, name=session.id if isinstance(body, CommonStream) else (session.id, name))

    def open(self, request: HTTPRequest, body: Optional[EndingBody],
             on_close: Optional[Callable[[], object]] = None, name: Hashable = None) -> HTTPResponse:
        """Return the response to a GET: an event stream. If too many are open, the oldest one ends.

        :param body: None if its events are not kept any more.
        :param on_close: called when the response has ended, and the session of its stream with it.
        :param name: of the stream, by which its client is known when it comes back.
        """
        if body is None:
            return self._error_response(Rejection(400, _EVENT_NOT_KEPT))
        body.name, body.ends_session = name, on_close is not None
        body.disconnected = request.disconnected
        end_at_expiry(body, request)
        self.hold(request, body, on_close or do_nothing)
        return HTTPResponse(200, list(EVENTS), body, streaming=True)

    def hold(self, request: HTTPRequest, body: EndingBody, on_close: Callable[[], object] = do_nothing) -> None:
        """Count a response among the open streams until it has ended."""
        streams, stream = self._streams, body
        body.lasting = True

        def closed() -> None:
            streams.remove(stream)
            on_close()

        body.on_close = closed
        streams.add(body, request.sender)


def end_at_expiry(body: Optional[EndingBody], request: HTTPRequest, end: Callable[[], object] = do_nothing) -> None:
    """End a long-lived stream when the token of its request expires (AUS-31)."""
    if body is not None and request.principal is not None and request.principal.expires_at is not None:
        body.end_after(request.principal.expires_at - time.time(), end)
