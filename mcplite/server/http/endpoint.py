"""The HTTP endpoint of a server: one request in, one response out, independent of the host.

A request passes four steps: the origin policy, authentication, the decision what it asks for, and authorization (its
scopes). The transports, our own HTTP server and WSGI, call :meth:`Endpoint.handle` for each request.
"""

import functools
import threading
import time
from typing import Any, Callable, Dict, FrozenSet, Hashable, List, Mapping, Optional, Sequence, Tuple, Type, Union

from ...errors import (
    INTERNAL_ERROR,
    MISSING_CAPABILITY,
    SERVER_BUSY,
    BackendError,
    ConnectionClosed,
    RegistrationError,
    RemoteError,
)
from ...protocol import jsonrpc
from ...protocol.http.headers import check_header
from ...protocol.uris import decoded_path, url_path
from ...revisions import Revision
from ...rooms import load
from ...rpc.deadline import Deadline
from ...rpc.forks import renew
from ...rpc.peer import Peer
from ...rpc.tracing import get_logger
from ..catalog.catalog import Target
from ..handling.context import RequestFacts
from ..handling.http_request import HTTPRequest
from ..runtime.processes import away_error
from ..runtime.runtime import Runtime
from ..sessions.modern import SessionlessClient, create_sessionless_peer
from ..state.response_bodies import OpenStreams, StreamingBody, do_nothing
from ..state.sessions import CommonStream, HTTPSession, Sessions, create_session_for_one_message
from ..state.streams import EventStream, RequestStreams, StreamsChannel
from .access import Authorization, OriginPolicy
from .messages import EVENTS, HTTPResponse, Rejection, UnreadableBody, names_modern
from .routing import (
    NO_SESSION,
    AcceptMessage,
    EndSession,
    NotifySessionless,
    OpenGetStream,
    PostedMessage,
    Rules,
    ServeInSession,
    ServeSessionless,
    StartSession,
    decide,
)

__all__ = ["Endpoint", "Route", "busy"]

_log = get_logger(__name__)
RouteHeaders = Union[Mapping[str, str], Sequence[Tuple[str, str]]]
#: Answers a plain request: returns the status, the media type, the body and, optionally, further headers; or None, if it has
#: written the response to ``request.handler.wfile``.
Route = Callable[[HTTPRequest], Union[None, Tuple[int, str, bytes], Tuple[int, str, bytes, RouteHeaders]]]
_ALLOWED = "access-control-allow-origin"
#: Methods that change nothing. A route with ``any_origin`` gets requests of any web page with these methods.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Headers that a route must not set: those of the connection, and those that are made from the rest of its result.
_NOT_OF_ROUTES = frozenset({"connection", "content-length", "content-type", "keep-alive", "transfer-encoding", "upgrade"})
_JSON = ("Content-Type", "application/json")
_BUSY = [("Retry-After", "1")]
_QUEUED_TOO_LONG = "Server busy: the request was queued for too long; try again later"


class Endpoint:
    """The HTTP endpoint of a server.

    :param runtime: of the server.
    :param path: of the endpoint.
    :param allowed_hosts: the accepted host names; by default the loopback names. See :class:`OriginPolicy`.
    :param allowed_origins: the origins whose web pages may use the endpoint.
    :param stateless: serves every message on its own, without session ids: any number of processes can share the work,
        and handlers cannot ask the client questions. Also serves clients that skip the handshake.
    :param routes: handlers of other paths, by path; each is called with the request and returns status, media type and
        body, and may return further headers as well, as a mapping or as pairs. They are public, even if the endpoint requires
        tokens: for example the health checks of a load balancer. Web pages of any origin may use a function whose attribute
        ``any_origin`` is true, with the methods that change nothing (GET, HEAD, OPTIONS).
    :param held: for a host that has few threads: bounds the open streams, each of which occupies a thread, those of
        ``subscriptions/listen`` included. None for a server of our own: the endpoint then bounds its own GET streams.
    :raises ValueError: a path, host or origin is malformed.
    :raises RegistrationError: a route is no function.
    """

    def __init__(self, runtime: Runtime, *, path: str = "/mcp", allowed_hosts: Optional[Sequence[str]] = None,
                 allowed_origins: Sequence[str] = (), stateless: bool = False,
                 routes: Optional[Mapping[str, Route]] = None, held: Optional[OpenStreams] = None) -> None:
        if path and not path.startswith("/"):
            raise ValueError(f"the path {path!r} must begin with a slash")
        self.runtime = runtime
        #: As it stands in URLs.
        self.path = url_path(path.rstrip("/"))
        self.origins = OriginPolicy(allowed_hosts, allowed_origins)
        self.authorization = Authorization(runtime, self.origins, self.path)
        limits = self.limits = runtime.limits
        # By load(): fleet.shared_sessions.SharedSessions.
        self._sessions_class: Type[Sessions] = load("a session of a shared backend") if runtime.processes.shared else Sessions
        self._logs = self._sessions_class.new_logs(runtime)
        self._tables: List[Sessions] = []
        self.sessions = self.add_table("session")
        # Without a backend the processes of a fleet have no place for sessions, so each message stands for itself.
        stateless = stateless or (runtime.fleet is not None and not runtime.processes.shared)
        self._held = held
        #: Whether the warning about a session that is not known was logged, or is not needed here.
        self._missed = held is None or stateless or runtime.processes.shared
        self._rules = Rules(runtime, self.origins, self.sessions.find if held is None else self._find, stateless,
                            few_threads=held is not None)
        #: Public handlers, by path: the protected resource metadata, and the user's routes.
        self._public: Dict[str, Callable[[HTTPRequest], HTTPResponse]] = {
            **self.authorization.routes,
            **{decoded_path(at.rstrip("/")): _plain(at, route) for at, route in (routes or {}).items()}}
        #: The methods with which public handlers answer web pages of any origin, by the paths of the handlers.
        self._of_any_origin: Dict[str, FrozenSet[str]] = {
            **{at: route.any_origin for at, route in self.authorization.routes.items() if hasattr(route, "any_origin")},
            **{decoded_path(at.rstrip("/")): _SAFE for at, route in (routes or {}).items()
               if getattr(route, "any_origin", False)}}
        #: Handlers that require authorization, by path.
        self._protected: Dict[str, Callable[[HTTPRequest], HTTPResponse]] = {decoded_path(self.path): self._handle_endpoint}
        #: Guards the fields below; held for arithmetic and assignments.
        self._lock = threading.Lock()
        #: The peer of all sessionless clients; created for the first request.
        self._sessionless_peer: Optional[Peer] = None
        self._sessionless_streams = RequestStreams("", limits, unread=runtime.unread)
        #: The GET streams that are open; under WSGI also the streams of ``subscriptions/listen``, and those of other endpoints.
        self.open_streams = OpenStreams(limits.streams) if held is None else held
        #: Held while the lifespan is entered, so that no request is served before.
        self._entering = threading.Lock()
        self._entered = False
        self._closed = False

    def add_routes(self, routes: Mapping[str, Callable[[HTTPRequest], HTTPResponse]]) -> None:
        """Add handlers that require authorization, by path."""
        self._protected.update({decoded_path(at): route for at, route in routes.items()})

    # --- one request ----------------------------------------------------------------------------------

    def handle(self, request: HTTPRequest) -> HTTPResponse:
        """Answer a request; never raises.

        The host sends the response, and calls ``close()`` on it in any case.
        """
        try:
            # Code that runs here, such as a verifier of tokens, may set context variables: handlers see them, other requests
            # do not.
            response = request.variables.run(self._handle, request)
        except UnreadableBody as error:
            response = self.error_response(Rejection(error.status, str(error), close=True), request)
        except MemoryError:
            _log.warning("a request of %s was refused for want of memory", request.remote)
            response = self.error_response(busy("it has no memory"), request)
        except BackendError as error:
            self.runtime.processes.failed(error)
            response = self.error_response(Rejection(503, away_error().message, SERVER_BUSY, headers=_BUSY), request)
        except RemoteError as error:
            # After the backend has failed, requests that need it are refused for some seconds.
            response = self.error_response(Rejection(503, error.message, error.code, headers=_BUSY), request)
        except Exception:
            _log.exception("%s %.200r failed", request.method, request.path)
            response = self.error_response(Rejection(500, "Internal error", INTERNAL_ERROR, close=True), request)
        origin = request.headers.first.get("origin")
        if origin is not None and _header(response, _ALLOWED) is None:
            response.headers.extend(self.origins.cors(origin))
        return response

    def _handle(self, request: HTTPRequest) -> HTTPResponse:
        path = request.path.rstrip("/")
        refused = self.origins.check(request)
        if refused is not None and not (refused.status == 403 and request.method in self._of_any_origin.get(path, ())):
            return self.error_response(refused, request)
        if self._closed:
            return self.error_response(_stopping(), request)
        public = self._public.get(path)
        if public is not None:
            return public(request)
        protected = self._protected.get(path)
        if protected is None:
            ours = request.mount + (decoded_path(self.path) or "/")
            return self.error_response(Rejection(404, f"nothing is served at {request.path[:100]!r}; the endpoint is {ours}",
                                                 close=True), request)
        refused = self.authorization.authenticate(request)
        return protected(request) if refused is None else self.error_response(refused, request)

    def _handle_endpoint(self, request: HTTPRequest) -> HTTPResponse:
        decision = decide(request, self._rules)
        if isinstance(decision, PostedMessage):
            refused = self.authorization.authorize(request, decision.message, decision.target)
            if refused is not None:
                if isinstance(refused, Rejection):
                    decision = refused
                else:
                    decision.target = refused  # the caller sees it in place of a hidden entry
        if type(decision) is Rejection:
            return self.error_response(decision, request)
        if self._closed:
            return self.error_response(_stopping(), request)  # stopped while the body was read
        return _CARRY_OUT[type(decision)](self, request, decision)

    def error_response(self, rejection: Rejection, request: Optional[HTTPRequest] = None) -> HTTPResponse:
        """Return the response for a refused request.

        :param request: its revision decides the form of an error without an id.
        """
        modern = not self._rules.legacy or (request is not None and self._rules.modern and names_modern(request.headers))
        data = jsonrpc.dump(jsonrpc.Failure(rejection.id, rejection.code, rejection.message, rejection.data),
                            null_id=not modern)
        headers = [_JSON, *rejection.headers]
        if rejection.close:
            headers.append(("Connection", "close"))
        return HTTPResponse(rejection.status, headers, [data])

    # --- POST -------------------------------------------------------------------------------------------

    def _start_session(self, request: HTTPRequest, decision: StartSession) -> HTTPResponse:
        facts, session = RequestFacts(request, None), decision.session
        if session is not None:
            stream = EventStream(session.streams, decision.message)
            session.peer.receive(decision.data, decision.message, stream, facts=facts)
            self.sessions.start_over(session)
            return self._answered(stream, [("Mcp-Session-Id", session.id)])
        self.enter()
        self.sweep()
        if not self._rules.sessions:
            temporary = create_session_for_one_message(self.runtime, request.sender)
            stream = EventStream(temporary.streams, decision.message)
            temporary.peer.receive(decision.data, decision.message, stream, facts=facts)
            temporary.end("the session was for one message")
            return self._answered(stream)
        opened = self.sessions.open(request.principal, request.sender)
        stream, why = EventStream(opened.streams, decision.message), "the handshake was refused"
        try:
            opened.peer.receive(decision.data, decision.message, stream, facts=facts)
            if opened.session.agreed is None:
                return self._answered(stream)
            if self.sessions.add(opened):
                why = ""
                return self._answered(stream, [("Mcp-Session-Id", opened.id)])
            why = "all sessions are in use"
            return self.error_response(busy("too many sessions are in use", decision.message.id))
        finally:
            if why:
                opened.end(why)  # a refused initialize leaves no session behind (SEC-53)

    def _serve_in_session(self, request: HTTPRequest, decision: ServeInSession) -> HTTPResponse:
        session = decision.session
        if session is None:
            self.enter()
            temporary = create_session_for_one_message(self.runtime, request.sender)
            temporary.session.skip_handshake(decision.revision)
            response = self._serve_on_stream(request, temporary, decision)
            if isinstance(response.body, EventStream):
                response.body.on_close = lambda: temporary.end("the client has disconnected")
            else:
                temporary.end("the message has been answered")
            return response
        if session.session.principal is None:
            session.session.principal = request.principal  # this process has made the session from its record
        return self._serve_on_stream(request, session, decision)

    def _serve_on_stream(self, request: HTTPRequest, session: HTTPSession, decision: ServeInSession) -> HTTPResponse:
        message, peer, target = decision.message, session.peer, decision.target
        stream = EventStream(session.streams, message, decision.plain)
        inline = request.inline = request.inline and target is not None and target.may_run_inline and not target.slow
        begun = 0.0 if self._held is None else time.monotonic()
        peer.receive(decision.data, message, stream, inline, RequestFacts(request, target))
        if stream.answer is None:  # a plain call is answered by now, and needs none of this
            stream.disconnected = request.disconnected
            if not (stream.finished or stream.streaming):
                stream.wait_until_known(functools.partial(_refuse_on_stream, stream, peer, message))
        if self._held is not None and target is not None:
            self._note_time(request, target, begun)
        return self._answered(stream, request.response_headers)

    def _note_time(self, request: HTTPRequest, target: Target, begun: float) -> None:
        """If a handler has kept the thread of its WSGI host for long, have a worker run its next call.

        While the worker runs it, the response is an event stream, and its comments keep proxies from ending the connection. If
        a framework runs handlers within ``request.around``, they stay on the thread of their request.
        """
        target.slow = request.around is None and time.monotonic() - begun > self.limits.commit_seconds

    def _peer(self) -> Peer:
        peer = self._sessionless_peer
        if peer is None:
            self.enter()
            with self._lock:
                peer = self._sessionless_peer = self._sessionless_peer or create_sessionless_peer(
                    self.runtime, StreamsChannel(self._sessionless_streams))
        return peer

    def _serve_sessionless(self, request: HTTPRequest, decision: ServeSessionless) -> HTTPResponse:
        message, target, peer = decision.message, decision.target, self._sessionless_peer or self._peer()
        assert decision.envelope is not None and target is not None
        facts = SessionlessClient(decision.envelope, decision.revision, target, request)
        stream = EventStream(self._sessionless_streams, None, decision.plain)
        inline = request.inline = request.inline and target.may_run_inline and not target.slow
        begun = 0.0 if self._held is None else time.monotonic()
        peer.receive(decision.data, message, stream, inline, facts)
        if stream.answer is None:  # a plain call is answered by now, and needs none of this
            id = message.id  # a reference to the message would keep its params in memory for as long as the stream
            stream.disconnected = request.disconnected
            # H26-10: closing the response stream cancels the call.
            stream.on_hang_up = functools.partial(peer.drop_incoming, id, facts, "the client has closed the connection")
            if not (stream.finished or stream.streaming):
                stream.wait_until_known(functools.partial(peer.refuse_incoming, id, SERVER_BUSY, _QUEUED_TOO_LONG, facts=facts))
        if self._held is not None:
            self._note_time(request, target, begun)
        if stream.streaming and message.method == "subscriptions/listen":
            end = functools.partial(self.runtime.subscriptions.end, peer, facts)
            stream.lasting = True
            _end_at_expiry(stream, request, end)
            if self._held is not None:
                stream.on_return = end
                self._hold(request, stream)
        return self._answered(stream, request.response_headers, decision.revision)

    def _answered(self, stream: EventStream, headers: Sequence[Tuple[str, str]] = (),
                  revision: Optional[Revision] = None) -> HTTPResponse:
        if stream.answer is None:
            if stream.streaming:
                return HTTPResponse(200, [*EVENTS, *headers], stream, streaming=True)
            return HTTPResponse(202, [*headers])  # the request was cancelled, and has no response
        if stream.code is None:
            return HTTPResponse(200, [_JSON, *headers], [stream.answer])
        if stream.code == SERVER_BUSY:
            return HTTPResponse(503, [_JSON, *_BUSY, *headers], [stream.answer])
        # Errors of handlers have status 200, except for capabilities that the client lacks (STAT-15, H26-24).
        fixed = revision is not None and (not stream.begun or stream.code == MISSING_CAPABILITY)
        status = revision.http_status.get(stream.code, 200) if revision is not None and fixed else 200
        return HTTPResponse(status, [_JSON, *headers], [stream.answer])

    def _notify_sessionless(self, _: HTTPRequest, decision: NotifySessionless) -> HTTPResponse:
        self._peer().receive(decision.data, decision.message)
        return HTTPResponse(202)

    def _accept_message(self, request: HTTPRequest, decision: AcceptMessage) -> HTTPResponse:
        if decision.session is not None:
            try:
                self.sessions.accept(decision.session, decision.data, decision.message, request.principal)
            except ConnectionClosed:  # it has ended since it was found
                return self.error_response(Rejection(404, NO_SESSION), request)
        elif type(decision.message) in (jsonrpc.Notification, jsonrpc.Batch):
            self.enter()
            temporary = create_session_for_one_message(self.runtime, request.sender)
            temporary.session.skip_handshake(decision.revision)
            temporary.peer.receive(decision.data, decision.message)
            temporary.end("the message has been handled")
        return HTTPResponse(202)

    # --- DELETE and GET ---------------------------------------------------------------------------------

    def _end_session(self, _: HTTPRequest, decision: EndSession) -> HTTPResponse:
        self.sessions.delete(decision.session)
        return HTTPResponse(204)

    def _open_get_stream(self, request: HTTPRequest, decision: OpenGetStream) -> HTTPResponse:
        session, name = decision.session, decision.stream
        session.session.note_scopes(request.principal)
        if not name:
            common = self.sessions.open_common(session)
            if common is None:
                # Each of two readers would miss the other's messages (HTTP-31, SEC-55).
                return self.error_response(Rejection(409, "this session has a GET stream already"))
            return self.open_stream(request, common, name=session.id)
        body = self.sessions.resume(session, name, decision.event)
        if body is None:
            return self.error_response(Rejection(400, "Last-Event-ID is not an event that is still kept"))
        if body.ending:
            # The client has all events; a cancelled call has no response. After an empty stream clients would reconnect again
            # and again; status 204 tells an event source to stop reconnecting.
            return HTTPResponse(204)
        return self.open_stream(request, body, name=session.id if isinstance(body, CommonStream) else (session.id, name))

    def open_stream(self, request: HTTPRequest, body: StreamingBody, on_close: Optional[Callable[[], object]] = None,
                    name: Hashable = None) -> HTTPResponse:
        """Return the response to a GET: an event stream. If too many are open, the oldest one ends.

        :param on_close: called when the response has ended, to end the session of its stream as well; None if the session goes
            on.
        :param name: of the stream; by it the client is recognized when it comes back.
        """
        body.name, body.ends_session = name, on_close is not None
        body.disconnected = request.disconnected
        _end_at_expiry(body, request)
        self._hold(request, body, on_close or do_nothing)
        return HTTPResponse(200, list(EVENTS), body, streaming=True)

    def _hold(self, request: HTTPRequest, body: StreamingBody, on_close: Callable[[], object] = do_nothing) -> None:
        """Count a response among the open streams until it has ended."""
        def closed() -> None:
            self.open_streams.remove(body)
            on_close()

        body.lasting, body.on_close = True, closed
        self.open_streams.add(body, request.sender)

    # --- life -----------------------------------------------------------------------------------------

    def _find(self, id: str, owner: Optional[str]) -> Optional[HTTPSession]:
        found = self.sessions.find(id, owner)
        if found is not None:
            found.streams.held = self._held
        elif not self._missed:
            self._missed = True
            _log.warning("%s got a session id that this process does not know: is this one of several workers? share backend="
                         " between them, Server(..., backend=\"redis://...\"), or set the variable MCPLITE_BACKEND. In a single"
                         " worker the session has ended, or an earlier process had it", self.runtime.catalog.name)
        return found

    def add_table(self, kind: str) -> Sessions:
        """Return a new table of sessions, which is closed with the endpoint.

        :param kind: names the transport.
        """
        table = self._sessions_class(self.runtime, kind, self._logs, self.enter)
        self._tables.append(table)
        return table

    def sweep(self) -> bool:
        """End expired sessions, and drop expired events; return whether anything is kept that can expire.

        A host without a thread for it need not call this: sessions that have expired end when a session is used.
        """
        for table in self._tables:
            table.sweep()
        return self._logs.sweep() or any(map(len, self._tables))

    def enter(self) -> None:
        """Enter the lifespan, before the first client is served. Idempotent.

        :raises RemoteError: the endpoint was closed meanwhile.
        """
        if not self._entered:
            with self._entering:
                if not (self._entered or self._closed):
                    self.runtime.enter()
                    with self._lock:
                        self._entered = not self._closed
                    if not self._entered:
                        self.runtime.leave()
                if not self._entered:
                    raise RemoteError(_stopping().message, code=SERVER_BUSY)

    def let_go(self) -> None:
        """Close in a forked process: clients, handlers and the lifespan belong to the parent process."""
        renew(self)
        self._closed, self._entered = True, False
        self.open_streams.let_go()

    def close(self, grace: Optional[float] = None) -> None:
        """Stop: refuse new requests, let handlers finish, cancel those that do not, and end every session. Idempotent.

        :param grace: seconds that handlers get before they are cancelled, and as many after that; by default ``Limits.grace``.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            entered, self._entered = self._entered, False
        seconds = self.limits.grace if grace is None else grace
        workers = self.runtime.workers if entered else None
        sessionless = self._sessionless_peer
        if sessionless is not None:
            self.runtime.subscriptions.end(sessionless)
            self.runtime.cancel_suspended(sessionless, "the server is stopping")
        if workers is not None:
            workers.drain(Deadline(seconds))
        for table in self._tables:
            table.close("the server is stopping")
        if sessionless is not None:
            sessionless.close()
            self.runtime.cancel_suspended(sessionless, "the server is stopping")  # handlers that began to wait since
        if workers is None:
            return
        if not workers.drain(Deadline(seconds), waiting=True):
            workers.log_stuck(_log)
        self.runtime.leave()


#: The function that carries out a decision, by the class of the decision.
_CARRY_OUT: Dict[type, Callable[[Endpoint, HTTPRequest, Any], HTTPResponse]] = {
    AcceptMessage: Endpoint._accept_message,
    EndSession: Endpoint._end_session,
    HTTPResponse: lambda _, __, response: response,
    NotifySessionless: Endpoint._notify_sessionless,
    OpenGetStream: Endpoint._open_get_stream,
    ServeInSession: Endpoint._serve_in_session,
    ServeSessionless: Endpoint._serve_sessionless,
    StartSession: Endpoint._start_session,
}


def _refuse_on_stream(stream: EventStream, peer: Peer, message: Any) -> None:
    # On a stream the status is 200: at 503 the official Python client 1 gives up the session and all its calls.
    stream.commit()
    peer.refuse_incoming(message.id, SERVER_BUSY, _QUEUED_TOO_LONG)


def _end_at_expiry(body: StreamingBody, request: HTTPRequest, end: Callable[[], object] = do_nothing) -> None:
    """End a long-lived stream when the token of its request expires (AUS-31)."""
    if request.principal is not None and request.principal.expires_at is not None:
        body.end_after(request.principal.expires_at - time.time(), end)


def busy(why: str, id: Optional[jsonrpc.Id] = None) -> Rejection:
    """Return the refusal of a request for which the server lacks something at present."""
    return Rejection(503, f"Server busy: {why}; try again later", SERVER_BUSY, id, headers=_BUSY)


def _stopping() -> Rejection:
    return Rejection(503, "the server is stopping", SERVER_BUSY, headers=_BUSY, close=True)


def _header(response: HTTPResponse, name: str) -> Optional[str]:
    return next((value for known, value in response.headers if known.lower() == name), None)


def _plain(path: str, route: Route) -> Callable[[HTTPRequest], HTTPResponse]:
    if not callable(route):
        raise RegistrationError(f"routes: give {path!r} a function, which gets the request and returns (status, media type,"
                                f" body), not {type(route).__name__}")

    def answer(request: HTTPRequest) -> HTTPResponse:
        answered = route(request)
        if answered is None:
            if getattr(request.handler, "has_written", False):
                return HTTPResponse(0)
            raise TypeError(f"routes: return (status, media type, body) for {path!r}, not None, or write a response to"
                            " request.handler.wfile, which our own HTTP server has")
        status, kind, content, *rest = answered
        more: RouteHeaders = rest[0] if rest else ()
        headers = [("Content-Type", kind), *(more.items() if isinstance(more, Mapping) else more)]
        for number, (name, value) in enumerate(headers):
            check_header(name, value)  # SEC-18
            if number and name.lower() in _NOT_OF_ROUTES:
                raise ValueError(f"the route {path!r} cannot set the header {name!r}")
        response = HTTPResponse(status, headers, [memoryview(content).tobytes()])
        if getattr(route, "any_origin", False) and _header(response, _ALLOWED) is None:
            response.headers.append(("Access-Control-Allow-Origin", "*"))
        return response

    return answer
