"""Decides what to do with an HTTP request, after the origin policy and authentication, before authorization by scope.

:func:`decide` reads the body and finds the session; it runs nothing and sends nothing. It returns one of the decisions
below, which the endpoint carries out. The first check that fails decides the response, and all checks that do not need
the body come before it is read.
"""

from typing import Any, Callable, NamedTuple, Optional, Union

from ...errors import INVALID_REQUEST, UNSUPPORTED_VERSION, RemoteError
from ...protocol import jsonrpc
from ...protocol.http.headers import Headers, accepts, media_type
from ...protocol.http.routing_headers import check_name, check_parameters, check_standard
from ...revisions import DEFAULT_HTTP, Revision, find_revision
from ...rpc.fair_queue import COSTLY
from ..catalog.catalog import Target
from ..catalog.registry import granted_scopes
from ..handling.http_request import HTTPRequest, no_body
from ..runtime.runtime import Runtime
from ..sessions.modern import AcceptedSenders, Envelope, names_revision, read_envelope, revision_of, unsupported
from ..state.sessions import HTTPSession
from .access import OriginPolicy
from .messages import SESSION, VERSION, HTTPResponse, Rejection, UnreadableBody

__all__ = [
    "NO_SESSION", "AcceptMessage", "Decision", "EndSession", "NotifySessionless", "OpenGetStream", "PostedMessage", "Rules",
    "ServeInSession", "ServeSessionless", "StartSession", "decide", "method_not_allowed", "parse_body", "unread", "unreadable",
]


class PostedMessage:
    """A message to pass on, with what its headers and its body name.

    :param session: None without sessions, and for a request that starts one.
    :param revision: of the client.
    :param target: what a single request is about; None for a batch, and for requests that need no entry.
    :param envelope: of a sessionless request.
    :param plain: whether the client reads no event streams, and just JSON.
    """

    def __init__(self, data: bytes, message: Any, session: Optional[HTTPSession] = None, revision: Revision = DEFAULT_HTTP,
                 target: Any = None, envelope: Optional[Envelope] = None, plain: bool = False) -> None:
        self.data = data
        self.message = message
        self.session = session
        self.revision = revision
        self.target: Optional[Target] = target
        self.envelope = envelope
        self.plain = plain


class StartSession(PostedMessage):
    """Start a session with this ``initialize`` request, or start ``session`` over."""


class ServeInSession(PostedMessage):
    """Pass a message with requests to a session, and answer with the responses.

    Without sessions, ``session`` is None: the message is served on its own, for a client of ``revision``.
    """


class AcceptMessage(PostedMessage):
    """Pass a message without requests to a session, and answer 202 (HTTP-06)."""


class ServeSessionless(PostedMessage):
    """Serve a sessionless request, whose headers match its body."""


class NotifySessionless(PostedMessage):
    """Pass on a sessionless notification, and answer 202 (H26-05)."""


class OpenGetStream:
    """Open the session's common stream, or resume a stream after an event.

    :param stream: the name of the stream; empty for the common one from now on.
    :param event: the number of the event in it.
    """

    def __init__(self, session: HTTPSession, stream: str = "", event: int = 0) -> None:
        self.session = session
        self.stream = stream
        self.event = event


class EndSession:
    """End the session."""

    def __init__(self, session: HTTPSession) -> None:
        self.session = session


Decision = Union[Rejection, HTTPResponse, PostedMessage, OpenGetStream, EndSession]

_NO_ID = "this request needs the Mcp-Session-Id that the response to 'initialize' had"
NO_SESSION = "there is no such session, or it has ended; send 'initialize' without a session id to start one"


class Rules:
    """The rules of one endpoint.

    :param runtime: of the server.
    :param origins: answers preflight requests.
    :param find: returns the session with an id, if it belongs to an owner: ``Sessions.find``, or the endpoint's way to it.
    :param stateless: whether clients that begin with a handshake get no session id, and each of their messages stands for
        itself.
    :param few_threads: whether the host has few threads: then clients whose stream would bring nothing get none.
    """

    def __init__(self, runtime: Runtime, origins: OriginPolicy, find: Callable[[str, Optional[str]], Optional[HTTPSession]],
                 stateless: bool = False, few_threads: bool = False) -> None:
        self.runtime = runtime
        self.catalog = runtime.catalog
        self.origins = origins
        self.find = find
        self.few_threads = few_threads
        self.senders = AcceptedSenders()
        #: The supported revisions, oldest first.
        self.revisions = revisions = runtime.catalog.revisions
        #: Whether clients that begin with a handshake are served.
        self.legacy = not revisions[0].modern
        #: Whether sessionless clients are served.
        self.modern = revisions[-1].modern
        #: Whether there are sessions that are stored, with their streams.
        self.sessions = self.legacy and not stateless

    @property
    def methods(self) -> str:
        """The HTTP methods of the endpoint, for the header ``Allow``."""
        return "POST, GET, DELETE" if self.sessions else "POST"


class _Named(NamedTuple):
    """What the headers of a request name."""

    #: The name of a revision; None without the header.
    version: Optional[str]
    #: The revision of this name; None if there is none.
    revision: Optional[Revision]
    #: The session id; None without the header.
    session: Optional[str]

    @property
    def modern(self) -> bool:
        """Whether the revision is one without sessions."""
        return self.revision is not None and self.revision.modern


class _Posted(NamedTuple):
    """What the headers of a POST say."""

    #: The refusal of a body in a form that is not supported, or of a client that cannot read any response.
    refused: Optional[Rejection]
    named: _Named
    #: Whether the revision that the headers name is one without sessions.
    modern: bool
    #: Whether the client reads no event streams, and just JSON.
    plain: bool


def _named(headers: Headers) -> _Named:
    version, session = headers.get(VERSION), headers.get(SESSION)
    return _Named(version, None if version is None else find_revision(version), session)


def _posted(headers: Headers) -> _Posted:
    refused: Optional[Rejection] = None
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        refused = Rejection(415, "compressed bodies are not supported", close=True)
    elif media_type(headers.get("content-type")) != "application/json":
        refused = Rejection(415, "a POST needs 'Content-Type: application/json'", close=True)
    elif not accepts(headers.get("accept"), "application/json"):
        refused = Rejection(406, "a POST needs 'Accept: application/json, text/event-stream'", close=True)
    named = _named(headers)
    return _Posted(refused, named, named.modern, not accepts(headers.get("accept"), "text/event-stream"))


def decide(request: HTTPRequest, rules: Rules) -> Decision:
    """Return what to do with an authenticated request to the endpoint."""
    if request.method == "POST":
        return _decide_post(request, rules)
    if request.method == "OPTIONS":
        headers = rules.origins.preflight(request.headers)
        if headers is not None:
            return HTTPResponse(204, headers)
    named = _named(request.headers)
    if rules.modern and named.modern:
        return method_not_allowed(request, "POST")  # H26-02
    if request.method not in ("GET", "DELETE") or not rules.sessions:
        return method_not_allowed(request, rules.methods)
    last = request.headers.get("last-event-id")
    if request.method == "GET" and last is None and rules.few_threads and not rules.runtime.pushes:
        return method_not_allowed(request, "POST, DELETE")  # HTTP-24: such a stream would bring nothing
    if request.method == "GET" and not accepts(request.headers.get("accept"), "text/event-stream"):
        return Rejection(406, "a GET needs 'Accept: text/event-stream'")
    session = _find_session(request, named, rules)
    if isinstance(session, Rejection):
        return session
    if request.method == "DELETE":
        return EndSession(session)
    if last is None:
        return OpenGetStream(session)
    stream, separator, event = last.partition("-")
    if not separator or not (all(map(_is_number, stream.split(".", 1))) and _is_number(event)):
        # Not 404, which would tell the client that its session has ended.
        return Rejection(400, "Last-Event-ID is not an event of this session")
    return OpenGetStream(session, stream, int(event))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _decide_post(request: HTTPRequest, rules: Rules) -> Decision:
    headers = request.headers
    refused, named, modern, plain = headers.known.get(_posted) or headers.read_once(_posted)
    if refused is not None:
        return refused
    try:
        data = request.read(rules.runtime.limits.message_bytes)
    except UnreadableBody as error:
        return unread(error)
    request.read = no_body  # handlers may keep the request for long, and need not keep its connection
    runtime = rules.runtime
    message: Any = jsonrpc.parse(data, runtime.json_limits) if len(data) < COSTLY else parse_body(request, data, runtime)
    kind = type(message)
    if kind is jsonrpc.Invalid:
        return unreadable(message)
    asks = kind is jsonrpc.Request
    # A message is sessionless if its body or header names a revision without sessions, if the server speaks no other revision,
    # or if it names no session and only these revisions have its method (ERA-18).
    if rules.modern and (modern or not rules.legacy or asks and (
            named.session is None and message.method in rules.catalog.modern_methods
            or message.params is not None and "_meta" in message.params and names_revision(message.params))):
        return _decide_sessionless(request, data, message, rules, plain)
    initializes = asks and message.method == "initialize"
    if initializes and named.session is None:
        version = _version(named, rules)
        return version if isinstance(version, Rejection) else StartSession(data, message)
    session: Optional[HTTPSession] = None
    if rules.sessions:
        found = _find_session(request, named, rules)
        if isinstance(found, Rejection):
            found.id = message.id if asks else None
            return found
        session, revision = found, found.session.revision
    else:
        version = _version(named, rules)
        if isinstance(version, Rejection):
            version.id = message.id if asks else None
            return version
        revision = version or DEFAULT_HTTP  # HDR-03
    if initializes:
        return StartSession(data, message, session)
    if asks:
        return ServeInSession(data, message, session, revision, rules.catalog.resolve(message.method, message.params),
                              plain=plain)
    if kind is not jsonrpc.Batch:
        return AcceptMessage(data, message, session, revision)
    return _decide_batch(data, message, session, revision, plain)


def parse_body(request: HTTPRequest, data: bytes, runtime: Runtime) -> jsonrpc.Message:
    """Return the message in a body; a large one is decoded in a turn of its sender.

    :raises RemoteError: the client has left, or the turn has not come in time.
    """
    if len(data) < COSTLY:
        return jsonrpc.parse(data, runtime.json_limits)
    with runtime.turns.begin(request.sender, request.disconnected):
        return jsonrpc.parse(data, runtime.json_limits)


def _decide_sessionless(request: HTTPRequest, data: bytes, message: Any, rules: Rules, plain: bool) -> Decision:
    """Return what to do with a sessionless message; the order of the checks decides which error is reported."""
    if type(message) is jsonrpc.Notification:
        return NotifySessionless(data, message)
    if type(message) is not jsonrpc.Request:
        return Rejection(400, "in this revision a body must be one request or one notification")  # H26-03
    params = message.params or {}
    try:
        if message.method == "initialize" and not names_revision(params):
            raise unsupported(params.get("protocolVersion"), rules.revisions)  # ERA-21
        found = rules.senders.find(params)
        if found is not None:
            envelope, revision = found
            check_standard(request.headers, message.method, params, envelope.version)
        else:
            envelope = read_envelope(params)
            check_standard(request.headers, message.method, params, envelope.version)
            revision = revision_of(envelope, rules.revisions)
            rules.senders.note(envelope, revision)
        if message.method == "subscriptions/listen" and plain:
            return Rejection(406, "send 'Accept: application/json, text/event-stream': the answer to 'subscriptions/listen' is"
                                  " an event stream", id=message.id)
        target = rules.catalog.resolve(message.method, params)
        if target.named is not None:
            check_name(request.headers, params.get(target.named))
        if target.marks and not rules.catalog.hidden(target, granted_scopes(request.principal)):
            check_parameters(request.headers, params.get("arguments"), target.marks)
    except RemoteError as error:
        return Rejection(400, error.message, error.code, message.id, data=error.data)
    return ServeSessionless(data, message, None, revision, target, envelope, plain)


def _decide_batch(data: bytes, batch: jsonrpc.Batch, session: Optional[HTTPSession], revision: Revision,
                  plain: bool) -> Decision:
    if not revision.batches:
        return Rejection(400, "arrays of messages are not part of this revision")  # RPC-26
    answers = {type(item) in (jsonrpc.Response, jsonrpc.Failure) for item in batch.items}
    if len(answers) > 1:
        return Rejection(400, "a batch must hold requests and notifications, or responses, but not both")  # RPC-27
    asks = any(type(item) is jsonrpc.Request or (type(item) is jsonrpc.Invalid and not item.answers)
               for item in batch.items)
    return (ServeInSession if asks else AcceptMessage)(data, batch, session, revision, plain=plain)


def method_not_allowed(request: HTTPRequest, allowed: str) -> Rejection:
    """Return the refusal of a request whose HTTP method the path does not offer."""
    return Rejection(405, f"{request.method[:20]} is not offered here", headers=[("Allow", allowed)], close=True)


def unread(error: UnreadableBody) -> Rejection:
    """Return the refusal of a request whose body was not read."""
    return Rejection(error.status, str(error), headers=[("Retry-After", "1")] if error.status == 503 else [], close=True)


def unreadable(invalid: jsonrpc.Invalid) -> Rejection:
    """Return the refusal of a body that is not a JSON-RPC message."""
    status = 413 if invalid.oversized and invalid.code == INVALID_REQUEST else 400
    return Rejection(status, invalid.message, invalid.code, None if invalid.answers else invalid.id)


def _find_session(request: HTTPRequest, named: _Named, rules: Rules) -> Union[HTTPSession, Rejection]:
    owner = None if request.principal is None else request.principal.key
    session = None if named.session is None else rules.find(named.session, owner)
    if session is not None and session.session.revision is named.revision:
        return session
    version = _version(named, rules)
    if named.session is None:
        return version if isinstance(version, Rejection) else Rejection(400, _NO_ID)  # SESS-06
    if session is None:
        return Rejection(404, NO_SESSION)
    if isinstance(version, Rejection):
        return version
    agreed = session.session.revision
    if version in (None, agreed) or agreed.version_header != "checked":
        return session
    return Rejection(400, f"MCP-Protocol-Version is {version}, but the session uses {agreed}")  # HDR-08


def _version(named: _Named, rules: Rules) -> Union[Revision, Rejection, None]:
    """Return the revision that the header names; None if there is no header (HDR-03, HDR-05)."""
    if named.version is None:
        return None
    if named.revision is None or named.revision.modern:
        supported = [known.name for known in reversed(rules.revisions)]
        return Rejection(400, f"MCP-Protocol-Version: {named.version[:50]!r} is not supported; this server supports"
                              f" {', '.join(supported)}", UNSUPPORTED_VERSION,
                         data={"supported": supported, "requested": named.version[:200]})
    return named.revision
