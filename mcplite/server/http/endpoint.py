"""The HTTP core: one request in, one response out, whoever the host is."""

import logging
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ...errors import INTERNAL_ERROR, MISSING_CAPABILITY, SERVER_BUSY
from ...protocol import jsonrpc
from ...protocol.http.headers import check_header
from ...revisions import Revision
from ...rpc.deadline import Deadline
from ...rpc.peer import Peer
from ..runtime.runtime import Runtime
from ..sessions.modern import Visitor
from ..sessions.opening import create_sessionless_peer
from .authorization import Guard
from .decision import (
    Accept,
    End,
    Listen,
    Note,
    Preflight,
    Reject,
    Resume,
    Rules,
    Run,
    Serve,
    Start,
    check_gate,
    decide,
    names_modern,
)
from .event_store import EventStore, MemoryEventStore
from .messages import HTTPRequest, HTTPResponse
from .origins import Gate
from .session_ids import Ticket, Tickets
from .sessions import HTTPChannel, HTTPSession, SessionTable, open_session, visit
from .streams import EventBody, EventStream, StreamSet

__all__ = ["Exchange", "Route"]

_log = logging.getLogger(__name__)
#: Answers a plain request: gives the status, the media type and the body.
Route = Callable[[HTTPRequest], Tuple[int, str, bytes]]
_JSON = ("Content-Type", "application/json")
_EVENTS = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store, no-transform"),
           ("X-Accel-Buffering", "no")]
_BUSY = [("Retry-After", "1")]
#: How often a request that has not been answered yet looks whether its client is still there, where that matters.
_PROBE_SECONDS = 0.25


class Exchange:
    """A server's endpoint.

    :param runtime: of the server.
    :param path: of the endpoint.
    :param allowed_hosts: the names that clients may call this server by; by default the loopback names. See :class:`Gate`.
    :param allowed_origins: the origins whose pages may use it.
    :param stateless: serves every message on its own, without session ids: any number of processes can share
        the work, and no handler can ask the client anything. Also for clients that skip the handshake.
    :param event_store: keeps events for resumption; in memory by default.
    :param routes: other paths, by path; each is called with the request and returns status, media type and body. They
        are open to everybody, without a token too: a place for the health checks of a load balancer.
    :raises ValueError: a path, host or origin is not written as one.
    """

    def __init__(self, runtime: Runtime, *, path: str = "/mcp", allowed_hosts: Optional[Sequence[str]] = None,
                 allowed_origins: Sequence[str] = (), stateless: bool = False,
                 event_store: Optional[EventStore] = None, routes: Optional[Mapping[str, Route]] = None) -> None:
        if path and not path.startswith("/"):
            raise ValueError(f"the path {path!r} must begin with a slash")
        self.runtime = runtime
        self._catalog = catalog = runtime.catalog
        self.path = path.rstrip("/")
        self.gate = Gate(allowed_hosts, allowed_origins)
        self.guard = Guard(runtime, self.gate, self.path)
        limits = self.limits = runtime.limits
        self._store = event_store or MemoryEventStore(limits)
        self._tables: List[SessionTable] = []
        self.sessions = self.side_table()
        self._tickets: Optional[Tickets] = None
        mode = "sessions"
        if stateless:
            mode = "stateless"
        elif runtime.fleet is not None:
            mode = "tickets"
            self._tickets = Tickets(runtime.fleet.keys, catalog.name, limits.session_seconds)
        self._rules = Rules(self.gate, limits.message_bytes, runtime.json_limits, self.sessions.find, self._read_ticket, mode,
                            catalog.revisions, catalog.marks, catalog.modern_methods)
        #: What is served to everybody: the description of the endpoint, and what the user adds.
        self._open: Dict[str, Callable[[HTTPRequest], HTTPResponse]] = {
            **self.guard.routes(), **{at.rstrip("/"): _plain(route) for at, route in (routes or {}).items()}}
        #: What is served to whom the guard admits.
        self._doors: Dict[str, Callable[[HTTPRequest], HTTPResponse]] = {self.path: self._endpoint}
        #: Guards the fields below; held for arithmetic and assignments.
        self._lock = threading.Lock()
        #: Speaks for all clients without a session; made with the first.
        self._visitors: Optional[Peer] = None
        self._unkept = StreamSet("", None, limits)
        self._streams = 0
        #: Held while the lifespan is entered, so that nobody is served without it.
        self._entering = threading.Lock()
        self._entered = False
        self._closed = False

    def add_routes(self, routes: Mapping[str, Callable[[HTTPRequest], HTTPResponse]]) -> None:
        """Serve more paths to whom the guard admits."""
        self._doors.update(routes)

    # --- one request ----------------------------------------------------------------------------------

    def handle(self, request: HTTPRequest) -> HTTPResponse:
        """Answer a request; never raises.

        The host sends what is returned, and calls ``close()`` on it in any case.
        """
        try:
            response = self._handle(request)
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            response = self.refuse(Reject(500, "Internal error", INTERNAL_ERROR, close=True), request)
        response.headers.extend(self.gate.cors(request.headers.get("origin")))
        return response

    def _handle(self, request: HTTPRequest) -> HTTPResponse:
        refused = check_gate(request, self.gate)
        if refused is not None:
            return self.refuse(refused, request)
        if self._closed:
            return self.refuse(_stopping(), request)
        path = request.path.rstrip("/")
        route = self._open.get(path)
        if route is not None:
            return route(request)
        door = self._doors.get(path)
        if door is None:
            return self.refuse(Reject(404, f"nothing is served at {request.path[:100]!r}; the endpoint is"
                                           f" {request.mount + (self.path or '/')}", close=True), request)
        refused = self.guard.admit(request)
        return door(request) if refused is None else self.refuse(refused, request)

    def _endpoint(self, request: HTTPRequest) -> HTTPResponse:
        decision = decide(request, self._rules)
        if isinstance(decision, (Start, Run, Accept, Serve, Note)):
            refused = self.guard.permit(request, decision.message)
            decision = decision if refused is None else refused
        if self._closed and not isinstance(decision, Reject):
            return self.refuse(_stopping(), request)  # its body was on the way for so long
        if type(decision) is Run:
            return self._run(request, decision)
        if type(decision) is Accept:
            return self._accept(decision)
        if isinstance(decision, Reject):
            return self.refuse(decision, request)
        if type(decision) is Serve:
            return self._serve_visitor(request, decision)
        if isinstance(decision, Start):
            return self._start(request, decision)
        if isinstance(decision, Note):
            self._peer().receive(decision.data, decision.message)
            return HTTPResponse(202)
        if isinstance(decision, Listen):
            return self._listen(request, decision)
        if isinstance(decision, Resume):
            return self._resume(request, decision)
        if isinstance(decision, End):
            self.sessions.end(decision.session, "the client has ended the session")
            return HTTPResponse(204)
        assert isinstance(decision, Preflight)
        return HTTPResponse(204, decision.headers)

    def refuse(self, rejection: Reject, request: Optional[HTTPRequest] = None) -> HTTPResponse:
        """Return the response for a request that was refused.

        :param request: decides how an error is written that belongs to no message.
        """
        modern = not self._rules.legacy or (request is not None and self._rules.modern and names_modern(request.headers))
        data = jsonrpc.dump(jsonrpc.Failure(rejection.id, rejection.code, rejection.message, rejection.data),
                            null_id=not modern)
        headers = [_JSON, *rejection.headers]
        if rejection.close:
            headers.append(("Connection", "close"))
        return HTTPResponse(rejection.status, headers, [data])

    # --- POST -------------------------------------------------------------------------------------------

    def _start(self, request: HTTPRequest, decision: Start) -> HTTPResponse:
        self.enter()
        headers: List[Tuple[str, str]] = []
        lasting = self._rules.sessions
        if lasting and not self.sessions.room():
            return self.refuse(self._busy(decision.message, "too many sessions are open"))
        opened = (open_session(self.runtime, self._store, request.principal, self.sessions.now) if lasting
                  else visit(self.runtime, None))
        stream = EventStream(opened.streams)
        opened.peer.receive(decision.data, decision.message, stream, sender=request.principal)
        revision = opened.session.agreed
        kept = False
        if revision is not None and self._tickets is not None:
            ticket = Ticket(revision, opened.session.client_info, opened.session.client_capabilities)
            headers.append(("Mcp-Session-Id", self._tickets.issue(ticket, request.owner)))
        elif revision is not None and lasting:
            opened.streams.priming = revision.priming_event
            kept = self.sessions.add(opened)
            if not kept:
                opened.end("too many sessions are open")
                return self.refuse(self._busy(decision.message, "too many sessions are open"))
            headers.append(("Mcp-Session-Id", opened.id))
        if not kept:
            opened.end("the session was for one message")  # what was refused leaves nothing behind (SEC-53)
        return self._answered(stream, headers)

    def _run(self, request: HTTPRequest, decision: Run) -> HTTPResponse:
        session = decision.session
        message = decision.message
        if session is None:
            self.enter()
            visitor = visit(self.runtime, decision.ticket)
            response = self._serve(request, visitor, decision)
            if response.streaming:
                body = response.body
                assert isinstance(body, EventBody)
                body.on_close = lambda: visitor.end("the client has left")
            else:
                visitor.end("the message is answered")
            return response
        if session.peer.in_flight >= self.limits.running_per_session:
            return self.refuse(self._busy(message, "this session has too many requests in work"))
        return self._serve(request, session, decision)

    def _serve(self, request: HTTPRequest, session: HTTPSession, decision: Run) -> HTTPResponse:
        limits, message, peer = self.limits, decision.message, session.peer
        stream = EventStream(session.streams)
        inline = (request.inline and type(message) is jsonrpc.Request
                  and self._catalog.runs_inline(message.method, message.params))
        peer.receive(decision.data, message, stream, inline, sender=request.principal)
        if stream.wait_first(limits.commit_seconds):
            return self._answered(stream, [], request)
        if not stream.begun and type(message) is jsonrpc.Request:
            # It still waits for a place, and must not do so without end (REL-37).
            if not stream.wait_first(limits.queue_seconds - limits.commit_seconds) and not stream.begun:
                peer.refuse_incoming(message.id, SERVER_BUSY, "Server busy: no place became free in time; try again later")
        stream.commit()
        return self._answered(stream, [], request)

    def _peer(self) -> Peer:
        peer = self._visitors
        if peer is None:
            self.enter()
            with self._lock:
                peer = self._visitors = self._visitors or create_sessionless_peer(
                    self.runtime, HTTPChannel(self._unkept))
        return peer

    def _serve_visitor(self, request: HTTPRequest, decision: Serve) -> HTTPResponse:
        limits, message, peer = self.limits, decision.message, self._peer()
        visitor = Visitor(decision.envelope, decision.revision, request.principal, request.alone)
        stream = EventStream(self._unkept)
        # H26-10: who closes the response does not want the answer any more.
        stream.on_hang_up = lambda: peer.drop_incoming(message.id, visitor, "the client has closed the connection")
        if message.method == "subscriptions/listen":
            _end_in_time(stream.first, request, lambda: self.runtime.subscriptions.end(peer, visitor))
        inline = request.inline and self._catalog.runs_inline(message.method, message.params)
        peer.receive(decision.data, message, stream, inline, sender=visitor)
        waited = 0.0
        while not stream.wait_first(min(_PROBE_SECONDS, limits.commit_seconds)):
            waited += min(_PROBE_SECONDS, limits.commit_seconds)
            if request.departed():
                stream.hang_up()
            if stream.begun and waited >= limits.commit_seconds:
                stream.commit()
            elif waited >= limits.queue_seconds:
                peer.refuse_incoming(message.id, SERVER_BUSY, "Server busy: no place became free in time; try again later",
                                     sender=visitor)
        return self._answered(stream, [], request, decision.revision)

    def _answered(self, stream: EventStream, headers: List[Tuple[str, str]], request: Optional[HTTPRequest] = None,
                  revision: Optional[Revision] = None) -> HTTPResponse:
        if stream.streaming:
            body = stream.first
            assert body is not None
            if request is not None:
                body.departed = request.departed
            return HTTPResponse(200, [*_EVENTS, *headers], body, streaming=True)
        if stream.answer is None:
            return HTTPResponse(202, headers)  # it was cancelled, so that nobody waits for an answer
        if stream.code is None:
            return HTTPResponse(200, [_JSON, *headers], [stream.answer])
        if stream.code == SERVER_BUSY:
            return HTTPResponse(503, [_JSON, *_BUSY, *headers], [stream.answer])
        # A handler's own errors are answers like any other, but for what the client lacks (STAT-15, H26-24).
        fixed = revision is not None and (not stream.begun or stream.code == MISSING_CAPABILITY)
        status = revision.http_status.get(stream.code, 200) if revision is not None and fixed else 200
        return HTTPResponse(status, [_JSON, *headers], [stream.answer])

    def _accept(self, decision: Accept) -> HTTPResponse:
        session = decision.session
        if session is not None:
            session.peer.receive(decision.data, decision.message)
        elif type(decision.message) in (jsonrpc.Notification, jsonrpc.Batch):
            visitor = visit(self.runtime, decision.ticket)
            visitor.peer.receive(decision.data, decision.message)
            visitor.end("the message is dealt with")
        return HTTPResponse(202)

    def _busy(self, message: Any, why: str) -> Reject:
        id = message.id if type(message) is jsonrpc.Request else None
        return Reject(503, f"Server busy: {why}; try again later", SERVER_BUSY, id, headers=_BUSY)

    # --- GET --------------------------------------------------------------------------------------------

    def _listen(self, request: HTTPRequest, decision: Listen) -> HTTPResponse:
        common = decision.session.streams.common
        reader = common.reader
        if reader is not None:
            if not reader.departed():
                # Two readers would each miss what the other gets (HTTP-31, SEC-55).
                return self.refuse(Reject(409, "this session has a GET stream already"))
            common.leave(reader)
        return self.streamed(request, common.attach)

    def _resume(self, request: HTTPRequest, decision: Resume) -> HTTPResponse:
        stream = decision.session.streams.find(decision.stream)
        if stream is None:
            return self.refuse(Reject(400, "Last-Event-ID is no event that is still kept"))
        if stream.is_over(decision.event):
            # A call that was cancelled has no answer. After an empty stream clients would come back again and again;
            # this is how an event source says that there is nothing to come back for.
            return HTTPResponse(204)
        known = stream
        return self.streamed(request, lambda: known.attach(decision.event))

    def streamed(self, request: HTTPRequest, attach: Callable[[], Optional[EventBody]],
                 on_close: Callable[[], object] = bool) -> HTTPResponse:
        """Return the response to a GET: an event stream, if there is a place for one more.

        :param on_close: called when the response is over.
        """
        with self._lock:
            full = self._streams >= self.limits.streams
            if not full:
                self._streams += 1
        if full:
            return self.refuse(Reject(503, "Server busy: too many streams are open; try again later", SERVER_BUSY,
                                      headers=_BUSY))
        body = attach()
        if body is None:
            self._left()
            return self.refuse(Reject(400, "Last-Event-ID is no event that is still kept"))
        body.departed = request.departed
        _end_in_time(body, request)

        def left() -> None:
            self._left()
            on_close()

        body.on_close = left
        return HTTPResponse(200, list(_EVENTS), body, streaming=True)

    def _left(self) -> None:
        with self._lock:
            self._streams -= 1

    # --- life -----------------------------------------------------------------------------------------

    def _read_ticket(self, id: str, owner: Optional[str]) -> Optional[Ticket]:
        return None if self._tickets is None else self._tickets.read(id, owner)

    def side_table(self) -> SessionTable:
        """Return one more table of sessions, which ends with the exchange."""
        table = SessionTable(self.limits)
        self._tables.append(table)
        return table

    def enter(self) -> None:
        """Called before the first client is served."""
        if not self._entered:
            with self._entering:
                if not self._entered:
                    self.runtime.enter()
                    self._entered = True

    def close(self, grace: Optional[float] = None) -> None:
        """Take no more requests, let handlers end, cancel those that do not, and end every session; idempotent.

        :param grace: seconds that handlers get before they are cancelled, and after; by default the server's.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            entered, self._entered = self._entered, False
        seconds = self.limits.grace if grace is None else grace
        workers = self.runtime.workers if entered else None
        visitors = self._visitors
        if visitors is not None:
            self.runtime.subscriptions.end(visitors)
            self.runtime.cancel_waiting(visitors, "the server is stopping")
        if workers is not None:
            workers.drain(Deadline(seconds))
        for table in self._tables:
            table.close("the server is stopping")
        if visitors is not None:
            visitors.close()
            self.runtime.cancel_waiting(visitors, "the server is stopping")  # those who have asked since
        if workers is None:
            return
        if not workers.drain(Deadline(seconds), waiting=True):
            for where in workers.stuck():
                _log.warning("a handler still runs at the end, in %s", where)
        self.runtime.leave()


def _end_in_time(body: Optional[EventBody], request: HTTPRequest, end: Callable[[], object] = bool) -> None:
    """Have a stream that lasts end when the token does that it was asked for with (AUS-31)."""
    if body is not None and request.principal is not None and request.principal.expires_at is not None:
        body.end_after(request.principal.expires_at - time.time(), end)


def _stopping() -> Reject:
    return Reject(503, "the server is stopping", SERVER_BUSY, headers=_BUSY, close=True)


def _plain(route: Route) -> Callable[[HTTPRequest], HTTPResponse]:
    def answer(request: HTTPRequest) -> HTTPResponse:
        status, kind, content = route(request)
        check_header("Content-Type", kind)  # SEC-18
        return HTTPResponse(status, [("Content-Type", kind)], [bytes(content)])

    return answer
