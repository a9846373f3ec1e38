"""The two endpoints of HTTP+SSE, the oldest transport over HTTP: a stream, and a place to post to.

Deprecated: for clients that know nothing newer. A session lasts as long as its stream (LSSE-10).
"""

import posixpath
from typing import Callable, Dict
from urllib.parse import parse_qs

from ...errors import SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.http.headers import accepts, media_type
from ...protocol.http.sse import encode_event
from .decision import Reject, unreadable
from .endpoint import Exchange
from .messages import HTTPRequest, HTTPResponse, UnreadableBody
from .sessions import open_session

__all__ = ["LegacySSE"]


class LegacySSE:
    """The old endpoints beside a new one.

    :param exchange: of the server.
    :raises ValueError: it is not served to clients with a handshake.
    """

    def __init__(self, exchange: Exchange) -> None:
        if not exchange.runtime.catalog.speaks_legacy:
            raise ValueError("legacy_sse=True is for clients that begin with a handshake, and the server has era='modern'")
        self._exchange = exchange
        # A table of its own: an id of one transport must not open a session of the other.
        self._sessions = exchange.side_table()
        beside = posixpath.dirname(exchange.path).rstrip("/")
        self._stream_path, self._post_path = beside + "/sse", beside + "/messages"

    def routes(self) -> Dict[str, Callable[[HTTPRequest], HTTPResponse]]:
        """Return what is served at which path."""
        return {self._stream_path: self._connect, self._post_path: self._post}

    def _connect(self, request: HTTPRequest) -> HTTPResponse:
        exchange, table = self._exchange, self._sessions
        if request.method != "GET":
            return exchange.refuse(Reject(405, f"{request.method[:20]} is not offered here", headers=[("Allow", "GET")],
                                          close=True))
        if not accepts(request.headers.get("accept"), "text/event-stream"):
            return exchange.refuse(Reject(406, "a GET needs 'Accept: text/event-stream'"))
        busy = Reject(503, "Server busy: too many sessions are open; try again later", SERVER_BUSY,
                      headers=[("Retry-After", "1")])
        if not table.room():
            return exchange.refuse(busy)
        exchange.enter()
        session = open_session(exchange.runtime, None, request.principal, table.now)
        if not table.add(session):
            session.end("too many sessions are open")
            return exchange.refuse(busy)
        place = f"{request.mount}{self._post_path}?session_id={session.id}"
        session.streams.common.say(encode_event(place.encode("ascii"), event="endpoint"))  # LSSE-02
        response = exchange.streamed(request, session.streams.common.attach,
                                     lambda: table.end(session, "the client has closed its stream"))
        if not response.streaming:
            table.end(session, "too many streams are open")
        return response

    def _post(self, request: HTTPRequest) -> HTTPResponse:
        exchange = self._exchange
        if request.method != "POST":
            return exchange.refuse(Reject(405, f"{request.method[:20]} is not offered here", headers=[("Allow", "POST")],
                                          close=True))
        if media_type(request.headers.get("content-type")) != "application/json":
            return exchange.refuse(Reject(415, "a POST needs 'Content-Type: application/json'", close=True))
        named = parse_qs(request.query).get("session_id", [""])
        session = self._sessions.find(named[0], request.owner)
        if session is None:
            return exchange.refuse(Reject(404, "there is no such session; open one at " + self._stream_path, close=True))
        try:
            data = request.read(exchange.limits.message_bytes)
        except UnreadableBody as error:
            return exchange.refuse(Reject(error.status, str(error), close=True))
        message = jsonrpc.parse(data, exchange.runtime.json_limits)
        if isinstance(message, jsonrpc.Invalid):
            return exchange.refuse(unreadable(message))
        if isinstance(message, jsonrpc.Request) and session.peer.in_flight >= exchange.limits.running_per_session:
            return exchange.refuse(Reject(503, "Server busy: this session has too many requests in work", SERVER_BUSY,
                                          message.id, headers=[("Retry-After", "1")]))
        refused = exchange.guard.permit(request, message)
        if refused is not None:
            return exchange.refuse(refused)
        # Not inline: the answer goes out on the stream, and this request is over at once (LSSE-08).
        session.peer.receive(data, message, None, inline=False, sender=request.principal)
        return HTTPResponse(202, [("Content-Type", "text/plain")], [b"Accepted"])

