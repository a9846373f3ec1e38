"""The two endpoints of the deprecated HTTP+SSE transport: an event stream, and a path for POST requests.

For clients that do not support Streamable HTTP. A session lasts as long as its stream (LSSE-10).
"""

import posixpath
from typing import Callable, Dict
from urllib.parse import parse_qs

from ...errors import BackendError, ConnectionClosed
from ...protocol import jsonrpc
from ...protocol.error_text import Option, OptionText
from ...protocol.http.headers import accepts, media_type
from ...protocol.http.sse import encode_event
from ...protocol.uris import url_path
from ..handling.context import RequestFacts
from ..handling.http_request import HTTPRequest
from ..state.sessions import HTTPSession
from ..state.streams import EventStream
from .endpoint import Endpoint, busy
from .messages import HTTPResponse, Rejection, UnreadableBody
from .routing import method_not_allowed, parse_body, unread, unreadable

__all__ = ["LegacySSE"]


class LegacySSE:
    """The HTTP+SSE endpoints beside an endpoint of Streamable HTTP.

    :param endpoint: of the server.
    :raises ValueError: the server does not serve clients with a handshake.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        if not endpoint.runtime.catalog.speaks_legacy:
            raise ValueError(OptionText(Option("legacy_sse", "legacy_sse=True"), " is for clients that begin with a handshake,"
                                        " but the server has era='modern'"))
        self._endpoint = endpoint
        # A table of its own: an id of one transport must not be valid for the other.
        self._sessions = endpoint.add_table("sse")
        beside = posixpath.dirname(endpoint.path).rstrip("/")
        self._stream_path, self._post_path = beside + "/sse", beside + "/messages"

    def routes(self) -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return the handlers by path."""
        return {self._stream_path: self._connect, self._post_path: self._post}

    def _connect(self, request: HTTPRequest) -> HTTPResponse:
        endpoint, table = self._endpoint, self._sessions
        if request.method != "GET":
            return endpoint.error_response(method_not_allowed(request, "GET"))
        if not accepts(request.headers.get("accept"), "text/event-stream"):
            return endpoint.error_response(Rejection(406, "a GET needs 'Accept: text/event-stream'"))
        session = table.open(request.principal, request.sender)
        session.session.note_scopes(request.principal)
        try:
            if not table.add(session):
                session.end("all sessions are in use")
                return endpoint.error_response(busy("too many sessions are in use"))
            body = table.open_common(session)
        except BackendError:
            table.release(session, "the store failed")
            raise
        assert body is not None  # the id is not known to the client yet
        body.first = self._endpoint_event(request, session)
        # The session ends with its stream (LSSE-10).
        return endpoint.open_stream(request, body, lambda: self._close(session))

    def _close(self, session: HTTPSession) -> None:
        try:
            self._sessions.delete(session, "the client has closed its stream")
        except BackendError:
            self._sessions.release(session, "the client has closed its stream")  # its record expires

    def _endpoint_event(self, request: HTTPRequest, session: HTTPSession) -> bytes:
        path = f"{url_path(request.mount)}{self._post_path}?session_id={session.id}"
        return encode_event(path.encode("ascii"), event="endpoint")  # LSSE-02

    def _post(self, request: HTTPRequest) -> HTTPResponse:
        endpoint = self._endpoint
        if request.method != "POST":
            return endpoint.error_response(method_not_allowed(request, "POST"))
        if media_type(request.headers.get("content-type")) != "application/json":
            return endpoint.error_response(Rejection(415, "a POST needs 'Content-Type: application/json'", close=True))
        named = parse_qs(request.query).get("session_id", [""])
        session = self._sessions.find(named[0], request.owner)
        if session is None or self._sessions.abandoned(session):
            return self._unknown()
        try:
            data = request.read(endpoint.limits.message_bytes)
        except UnreadableBody as error:
            return endpoint.error_response(unread(error))
        message = parse_body(request, data, endpoint.runtime)
        if isinstance(message, jsonrpc.Invalid):
            return endpoint.error_response(unreadable(message))
        target = None
        if type(message) is jsonrpc.Request:
            target = endpoint.runtime.catalog.resolve(message.method, message.params)
        refused = endpoint.authorization.authorize(request, message, target)
        if isinstance(refused, Rejection):
            return endpoint.error_response(refused)
        target = target if refused is None else refused
        # Not inline: the response is sent on the stream, and this request is answered at once (LSSE-08).
        try:
            self._receive(session, data, message, RequestFacts(request, target))
        except ConnectionClosed:  # it has ended since it was found
            return self._unknown()
        return HTTPResponse(202, [("Content-Type", "text/plain")], [b"Accepted"])

    def _unknown(self) -> HTTPResponse:
        return self._endpoint.error_response(
            Rejection(404, "there is no such session; open one at " + self._stream_path, close=True))

    def _receive(self, session: HTTPSession, data: bytes, message: jsonrpc.Message, facts: RequestFacts) -> None:
        """Pass on a message; the messages that answer it are sent on the stream of the session, in whichever process that is.

        :raises BackendError: the store failed.
        """
        table = self._sessions
        if session.session.principal is None:
            session.session.principal = facts.principal
        if type(message) is jsonrpc.Request and message.method == "initialize":
            # The record of the session is stored before the response is sent: the client's next message may reach another
            # process.
            stream = EventStream(session.streams, message)
            session.peer.receive(data, message, stream, facts=facts)
            table.start_over(session)
            if stream.answer is not None:
                session.peer.channel.write(stream.answer)
        elif isinstance(message, (jsonrpc.Response, jsonrpc.Failure, jsonrpc.Notification)):
            table.accept(session, data, message, facts.principal)
        else:
            session.peer.receive(data, message, table.outlet(session), inline=False, facts=facts)
