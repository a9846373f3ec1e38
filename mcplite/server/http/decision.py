"""The ladder: which rung an HTTP request fails on, or what is to be done with it.

Nothing is changed here and nothing is run: ``decide`` looks, and returns one of the decisions below. The
first rung that fails is the one that is answered, and no body is read before all rungs that need none.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Callable, FrozenSet, List, Optional, Sequence, Tuple, Union

from ...errors import INVALID_REQUEST, UNSUPPORTED_VERSION, RemoteError
from ...protocol import envelope as envelopes, jsonrpc
from ...protocol.envelope import Envelope
from ...protocol.http.headers import Headers, accepts, media_type
from ...protocol.http.routing_headers import Mark, check_parameters, check_standard
from ...revisions import DEFAULT_HTTP, Revision, find
from .messages import HTTPRequest, UnreadableBody
from .origins import Gate
from .session_ids import Ticket
from .sessions import HTTPSession

__all__ = [
    "Accept", "Decision", "End", "Listen", "Note", "Preflight", "Reject", "Resume", "Rules", "Run", "SESSION", "Serve", "Start",
    "check_gate", "decide", "names_modern", "unreadable",
]

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"


@dataclass
class Reject:
    """Answer with an error: a JSON-RPC error as body, without an id unless one could be read (HTTP-07)."""

    status: int
    message: str
    code: int = INVALID_REQUEST
    id: Optional[jsonrpc.Id] = None
    headers: List[Tuple[str, str]] = field(default_factory=list)
    #: Error data.
    data: object = None
    #: Whether the connection cannot be used any more, because a body was not read.
    close: bool = False


@dataclass
class Preflight:
    """Answer a browser's question about what is allowed."""

    headers: List[Tuple[str, str]]


@dataclass
class Start:
    """Begin a session with this ``initialize``."""

    data: bytes
    message: jsonrpc.Message


@dataclass
class Run:
    """Give a message with requests to a session and answer with what comes of it.

    ``session`` is None where there are none: the message is served on its own then, for the client that
    ``ticket`` describes.
    """

    data: bytes
    message: jsonrpc.Message
    session: Optional[HTTPSession]
    ticket: Optional[Ticket] = None


@dataclass
class Accept:
    """Give a message without requests to a session and answer 202 (HTTP-06)."""

    data: bytes
    message: jsonrpc.Message
    session: Optional[HTTPSession]
    ticket: Optional[Ticket] = None


@dataclass
class Serve:
    """Serve a request that stands for itself, and whose headers say what its body says."""

    data: bytes
    message: jsonrpc.Request
    envelope: Envelope
    revision: Revision


@dataclass
class Note:
    """Take a notification that belongs to no session, and answer 202 (H26-05)."""

    data: bytes
    message: jsonrpc.Notification


@dataclass
class Listen:
    """Open the session's common stream."""

    session: HTTPSession


@dataclass
class Resume:
    """Go on with a stream behind an event."""

    session: HTTPSession
    stream: int
    event: int


@dataclass
class End:
    """End the session."""

    session: HTTPSession


Decision = Union[Reject, Preflight, Start, Run, Accept, Serve, Note, Listen, Resume, End]


@dataclass
class Rules:
    """What one endpoint allows.

    :param find: returns the session with an id that belongs to an owner.
    :param read_ticket: reads an id that is a ticket, for an owner.
    :param mode: "sessions" (kept here), "tickets" (the id says all that is known, any process can serve it) or
        "stateless" (there is no id): how clients are served that begin with a handshake.
    :param revisions: what is spoken, oldest first.
    :param modern_methods: what only clients without a handshake ask.
    :param marks: returns the marked parameters of the tool with a name.
    """

    gate: Gate
    body_bytes: int
    json: jsonrpc.JSONLimits
    find: Callable[[str, Optional[str]], Optional[HTTPSession]]
    read_ticket: Callable[[str, Optional[str]], Optional[Ticket]]
    mode: str
    revisions: Sequence[Revision]
    marks: Callable[[Any], Sequence[Mark]]
    modern_methods: FrozenSet[str] = frozenset()

    @property
    def sessions(self) -> bool:
        """Whether there are sessions with streams of their own."""
        return self.mode == "sessions" and self.legacy

    @property
    def legacy(self) -> bool:
        """Whether clients are served that begin with a handshake."""
        return not self.revisions[0].modern

    @property
    def modern(self) -> bool:
        """Whether clients are served whose requests each stand for themselves."""
        return self.revisions[-1].modern

    @property
    def methods(self) -> str:
        """The methods of the endpoint, as ``Allow`` says them."""
        return "POST, GET, DELETE" if self.sessions else "POST"


def check_gate(request: HTTPRequest, gate: Gate) -> Optional[Reject]:
    """Return the refusal of a request that came under a foreign name or from a foreign page."""
    if not gate.admits_host(request.headers.get("host")):
        return Reject(421, f"this server does not answer to the host {(request.headers.get('host') or '')[:100]!r};"
                           " its allowed_hosts says which names it has", close=True)
    if not gate.admits_origin(request.headers.get("origin")):
        return Reject(403, f"pages of the origin {(request.headers.get('origin') or '')[:100]!r} may not use this server;"
                           " its allowed_origins says which may", close=True)
    return None


def decide(request: HTTPRequest, rules: Rules) -> Decision:
    """Return what is to be done with a request to the endpoint, whose gate it has passed."""
    if request.method == "OPTIONS":
        headers = rules.gate.preflight(request.headers)
        if headers is not None:
            return Preflight(headers)
    if request.method == "POST":
        return _posted(request, rules)
    if rules.modern and names_modern(request.headers):
        return Reject(405, f"{request.method[:20]} is not offered here", headers=[("Allow", "POST")], close=True)  # H26-02
    if request.method not in ("GET", "DELETE") or not rules.sessions:
        return Reject(405, f"{request.method[:20]} is not offered here", headers=[("Allow", rules.methods)], close=True)
    if request.method == "GET" and not accepts(request.headers.get("accept"), "text/event-stream"):
        return Reject(406, "a GET needs 'Accept: text/event-stream'")
    session = _session(request, rules)
    if isinstance(session, Reject):
        return session
    if request.method == "DELETE":
        return End(session)
    last = request.headers.get("last-event-id")
    if last is None:
        return Listen(session)
    stream, separator, event = last.partition("-")
    if not separator or not (_is_number(stream) and _is_number(event)):
        # 404 would tell the client that its session is over (RES-09).
        return Reject(400, "Last-Event-ID is no event of this session")
    return Resume(session, int(stream), int(event))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _posted(request: HTTPRequest, rules: Rules) -> Decision:
    headers = request.headers
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        return Reject(415, "compressed bodies are not read", close=True)
    if media_type(headers.get("content-type")) != "application/json":
        return Reject(415, "a POST needs 'Content-Type: application/json'", close=True)
    if not accepts(headers.get("accept"), "application/json", "text/event-stream"):
        return Reject(406, "a POST needs 'Accept: application/json, text/event-stream'", close=True)
    try:
        data = request.read(rules.body_bytes)
    except UnreadableBody as error:
        return Reject(error.status, str(error), close=True)
    message: Any = jsonrpc.parse(data, rules.json)
    kind = type(message)
    if kind is jsonrpc.Invalid:
        return unreadable(message)
    id = message.id if kind is jsonrpc.Request else None
    if rules.modern and (not rules.legacy or _is_modern(headers, message, rules)):
        return _stateless(request, data, message, rules)
    if kind is jsonrpc.Request and message.method == "initialize" and SESSION not in headers:
        refused = _version(request, rules)
        return refused if isinstance(refused, Reject) else Start(data, message)
    session: Optional[HTTPSession] = None
    ticket: Optional[Ticket] = None
    if rules.sessions:
        found = _session(request, rules)
        if isinstance(found, Reject):
            return replace(found, id=id)
        session, revision = found, found.session.revision
    else:
        known = _ticket(request, rules)
        if isinstance(known, Reject):
            return replace(known, id=id)
        ticket, revision = known, known.revision
    if kind is jsonrpc.Request:
        return Run(data, message, session, ticket)
    if kind is not jsonrpc.Batch:
        return Accept(data, message, session, ticket)
    return _batch(data, message, session, ticket, revision)


def _is_modern(headers: Headers, message: Any, rules: Rules) -> bool:
    """Whether a message claims a revision for itself, in its body or in its header, or could be nothing else (ERA-18)."""
    if type(message) is jsonrpc.Request and (envelopes.claims(message.params) or (
            SESSION not in headers and message.method in rules.modern_methods)):
        return True
    return names_modern(headers)


def names_modern(headers: Headers) -> bool:
    """Whether a request says in its header that it stands for itself."""
    version = headers.get(VERSION)
    named = None if version is None else find(version)
    return named is not None and named.modern


def _stateless(request: HTTPRequest, data: bytes, message: Any, rules: Rules) -> Decision:
    """Return what is to be done with a message that stands for itself; the order of the checks is fixed."""
    if type(message) is jsonrpc.Notification:
        return Note(data, message)
    if type(message) is not jsonrpc.Request:
        return Reject(400, "a body is one request or one notification in this revision")  # H26-03
    params = message.params or {}
    try:
        if message.method == "initialize" and not envelopes.claims(params):
            raise envelopes.unsupported(params.get("protocolVersion"), rules.revisions)  # ERA-21
        envelope = envelopes.read(params)
        check_standard(request.headers, message.method, params, envelope.version)
        revision = envelopes.revision_of(envelope, rules.revisions)
        if message.method == "tools/call":
            marked = rules.marks(params.get("name"))
            if marked:
                check_parameters(request.headers, params.get("arguments"), marked)
    except RemoteError as error:
        return Reject(400, error.message, error.code, message.id, data=error.data)
    return Serve(data, message, envelope, revision)


def _batch(data: bytes, batch: jsonrpc.Batch, session: Optional[HTTPSession], ticket: Optional[Ticket],
           revision: Revision) -> Decision:
    if not revision.batches:
        return Reject(400, "arrays of messages are not part of this revision")  # RPC-26
    answers = {type(item) in (jsonrpc.Response, jsonrpc.Failure) for item in batch.items}
    if len(answers) > 1:
        return Reject(400, "a body holds requests and notifications, or answers, but not both")  # RPC-27
    asks = any(type(item) is jsonrpc.Request or (type(item) is jsonrpc.Invalid and not item.answers)
               for item in batch.items)
    return (Run if asks else Accept)(data, batch, session, ticket)


def unreadable(invalid: jsonrpc.Invalid) -> Reject:
    """Return the refusal of a body that is no message."""
    return Reject(413 if invalid.oversized else 400, invalid.message, invalid.code, None if invalid.answers else invalid.id)


def _session(request: HTTPRequest, rules: Rules) -> Union[HTTPSession, Reject]:
    id = request.headers.get(SESSION)
    if id is None:
        refused = _version(request, rules)
        if isinstance(refused, Reject):
            return refused
        return Reject(400, "this request needs the Mcp-Session-Id that the answer to 'initialize' came with")  # SESS-06
    session = rules.find(id, request.owner)
    if session is None:
        return Reject(404, "there is no such session (any more); send 'initialize' without a session id to begin one")
    version = _version(request, rules)
    if isinstance(version, Reject):
        return version
    return session if version in (None, session.session.revision) or not _checks(session.session.revision) else Reject(
        400, f"MCP-Protocol-Version says {version}, but the session agreed on {session.session.revision}")  # HDR-08


def _checks(revision: Revision) -> bool:
    return revision.version_header == "checked"


def _ticket(request: HTTPRequest, rules: Rules) -> Union[Ticket, Reject]:
    version = _version(request, rules)
    if isinstance(version, Reject):
        return version
    if rules.mode == "stateless":
        return Ticket(version or DEFAULT_HTTP)  # HDR-03
    id = request.headers.get(SESSION)
    if id is None:
        return Reject(400, "this request needs the Mcp-Session-Id that the answer to 'initialize' came with")
    ticket = rules.read_ticket(id, request.owner)
    if ticket is None:
        return Reject(404, "there is no such session (any more); send 'initialize' without a session id to begin one")
    if version not in (None, ticket.revision) and _checks(ticket.revision):
        return Reject(400, f"MCP-Protocol-Version says {version}, but the session agreed on {ticket.revision}")
    return ticket


def _version(request: HTTPRequest, rules: Rules) -> Union[Revision, Reject, None]:
    """Return the revision that the header names; None when there is no header (HDR-03, HDR-05)."""
    named = request.headers.get(VERSION)
    if named is None:
        return None
    revision = find(named)
    if revision is None or revision.modern:
        supported = [known.name for known in reversed(rules.revisions)]
        return Reject(400, f"MCP-Protocol-Version: {named[:50]!r} is not supported; this server speaks"
                           f" {', '.join(supported)}", UNSUPPORTED_VERSION,
                      data={"supported": supported, "requested": named[:200]})
    return revision
