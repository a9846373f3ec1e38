"""The decision about an HTTP request, as tables: method, headers and body give the decision; nothing is served."""

import json
from types import SimpleNamespace

import pytest

from mcplite.protocol import jsonrpc
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.routing_headers import Mark
from mcplite.revisions import LEGACY, NEWEST, NEWEST_LEGACY, REVISIONS
from mcplite.rpc.fair_queue import Turns
from mcplite.server.catalog.catalog import Target
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import routing
from mcplite.server.http.access import OriginPolicy
from mcplite.server.http.messages import UnreadableBody
from mcplite.server.http.routing import (
    AcceptMessage,
    EndSession,
    NotifySessionless,
    OpenGetStream,
    Rejection,
    ServeInSession,
    ServeSessionless,
    StartSession,
)
from mcplite.server.principals import Principal
from tests.support.stateless import BOTH, call, encode, headers, message

ORIGIN = "https://app.example"
BODY_BYTES = 10_000
BATCHES = next(revision for revision in REVISIONS if revision.batches)
ANN = Principal("ann")
JSON = {"Content-Type": "application/json", "Accept": BOTH}
IN_SESSION = {**JSON, "Mcp-Session-Id": "known"}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": NEWEST_LEGACY.name}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE = {"jsonrpc": "2.0", "id": 1, "result": {}}


class Session:
    """The part of an HTTP session that the decision reads."""

    def __init__(self, id, revision):
        self.id = id
        self.session = self
        self.revision = revision


def resolve(method, params):
    """Return the target of a request: the tool "routed" has a parameter that is also sent in a header."""
    routed = method == "tools/call" and params.get("name") == "routed"
    return Target(None, None, (), [Mark("Region", ("region",), "string")] if routed else (), True)


def rules(mode="sessions", revisions=REVISIONS, session=NEWEST_LEGACY):
    """Return the rules of an endpoint that knows two session ids: "known" of no principal, and "of ann" of ANN."""
    known = {("known", None), ("of ann", ANN.key)}
    runtime = SimpleNamespace(
        limits=SimpleNamespace(message_bytes=BODY_BYTES), turns=Turns(),
        json_limits=jsonrpc.JSONLimits(nesting=10, elements=100),
        catalog=SimpleNamespace(revisions=revisions, resolve=resolve, modern_methods=frozenset({"server/discover"}),
                                hidden=lambda target, granted: False))
    return routing.Rules(
        runtime, OriginPolicy(origins=[ORIGIN]),
        find=lambda id, owner: Session(id, session) if (id, owner) in known else None, stateless=mode == "stateless")


def decide(method, given=None, body=b"", principal=None, **options):
    """Return the decision about one request; *body* is bytes, a JSON value, or the error that reading it raises."""
    def read(limit):
        assert limit == BODY_BYTES
        if isinstance(body, Exception):
            raise body
        return body if isinstance(body, bytes) else json.dumps(body).encode()

    request = HTTPRequest(method, "/mcp", Headers((given or {}).items()), read=read, principal=principal)
    return routing.decide(request, rules(**options))


@pytest.mark.parametrize("method, given, mode, status", [
    ("PUT", {}, "sessions", 405), ("OPTIONS", {}, "sessions", 405), ("OPTIONS", {"Origin": ORIGIN}, "sessions", 405),
    ("OPTIONS", {"Access-Control-Request-Method": "POST", "Origin": "https://evil.example"}, "sessions", 405),
    ("GET", {**IN_SESSION, "Accept": "application/json"}, "sessions", 406),
    ("GET", JSON, "sessions", 400),  # SESS-06
    ("GET", {**JSON, "Mcp-Session-Id": "unknown"}, "sessions", 404),
    ("GET", {**IN_SESSION, "MCP-Protocol-Version": "1999-01-01"}, "sessions", 400),
    ("GET", {**IN_SESSION, "Last-Event-ID": "7"}, "sessions", 400),
    ("GET", {**IN_SESSION, "Last-Event-ID": "1-"}, "sessions", 400),
    ("GET", {**IN_SESSION, "Last-Event-ID": "-1"}, "sessions", 400),
    ("GET", {**IN_SESSION, "Last-Event-ID": "1-2-3"}, "sessions", 400),
    *(("GET", {**IN_SESSION, "Last-Event-ID": name + "-1"}, "sessions", 400) for name in ("1.2.3", ".1", "1.", "1.a", "1..2")),
    ("GET", {**IN_SESSION, "Last-Event-ID": "1-\u0661"}, "sessions", 400),
    ("GET", {**IN_SESSION, "Last-Event-ID": "1-1000000000000000"}, "sessions", 400), ("GET", IN_SESSION, "stateless", 405),
    ("DELETE", IN_SESSION, "stateless", 405),
    ("GET", {**IN_SESSION, "MCP-Protocol-Version": NEWEST.name}, "sessions", 405),  # H26-02
    ("DELETE", JSON, "sessions", 400), ("DELETE", {**JSON, "Mcp-Session-Id": "unknown"}, "sessions", 404),
])
def test_refused_without_a_body(method, given, mode, status):
    refused = decide(method, given, AssertionError("the body was read"), mode=mode)
    assert isinstance(refused, Rejection) and refused.status == status and refused.message
    if status == 405:
        assert refused.close and method in refused.message
        modern = given.get("MCP-Protocol-Version") == NEWEST.name
        assert refused.headers == [("Allow", "POST, GET, DELETE" if mode == "sessions" and not modern else "POST")]


def test_a_session_is_read_and_ended():
    opened, ended = decide("GET", IN_SESSION), decide("DELETE", IN_SESSION)
    assert isinstance(opened, OpenGetStream) and isinstance(ended, EndSession)
    resumed = decide("GET", {**IN_SESSION, "Last-Event-ID": "3-14"})
    assert isinstance(resumed, OpenGetStream) and (resumed.stream, resumed.event) == ("3", 14)
    assert all(decided.session.id == "known" for decided in (opened, ended, resumed))
    # A process of a fleet names its streams by two numbers.
    resumed = decide("GET", {**IN_SESSION, "Last-Event-ID": "3.1-14"})
    assert isinstance(resumed, OpenGetStream) and (resumed.stream, resumed.event) == ("3.1", 14)


def test_the_body_is_read_once():
    request = HTTPRequest("POST", "/mcp", Headers(IN_SESSION.items()), read=lambda limit: json.dumps(PING).encode())
    assert isinstance(routing.decide(request, rules()), ServeInSession)
    assert request.read(BODY_BYTES) == b"", "what served the connection can be let go"


def test_a_body_may_begin_with_a_byte_order_mark():
    decided = decide("POST", IN_SESSION, b"\xef\xbb\xbf" + json.dumps(PING).encode())
    assert isinstance(decided, ServeInSession) and decided.message.method == "ping"


def test_a_body_that_the_server_has_no_room_for_can_be_sent_later():
    refused = decide("POST", IN_SESSION, UnreadableBody(503, "too many bodies at once"))
    assert (refused.status, refused.message, refused.close) == (503, "too many bodies at once", True)
    assert refused.headers == [("Retry-After", "1")]


def test_a_body_is_read_within_the_limits_of_the_server():
    deep = {**PING, "params": {"a": json.loads("[" * 9 + "]" * 9)}}
    refused = decide("POST", IN_SESSION, deep)
    assert isinstance(refused, Rejection) and refused.status in (400, 413) and "10" in refused.message
    assert isinstance(decide("POST", IN_SESSION, {**PING, "params": {"a": []}}), ServeInSession)
    # What is too large is told from what is malformed: a client may send less.
    large = decide("POST", IN_SESSION, {**PING, "params": {"a": [0] * 101}})
    assert isinstance(large, Rejection) and (large.status, large.close) == (413, False) and "100" in large.message
    assert isinstance(decide("POST", IN_SESSION, {**PING, "params": {"a": [0] * 80}}), ServeInSession)


@pytest.mark.parametrize("body, id", [
    ({"jsonrpc": "2.0", "id": 7, "method": 5}, 7), ({"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}, None),
])
def test_what_is_no_message_is_refused_with_the_id_of_its_sender(body, id):
    refused = decide("POST", IN_SESSION, body)
    assert (refused.status, refused.code, refused.id) == (400, -32600, id) and refused.message


@pytest.mark.parametrize("given, body, kind", [
    (JSON, INITIALIZE, StartSession), (IN_SESSION, PING, ServeInSession), (IN_SESSION, NOTIFICATION, AcceptMessage),
    (IN_SESSION, RESPONSE, AcceptMessage), ({**IN_SESSION, "MCP-Protocol-Version": NEWEST_LEGACY.name}, PING, ServeInSession),
])
def test_messages_of_a_session(given, body, kind):
    decided = decide("POST", given, body)
    assert type(decided) is kind
    assert kind is StartSession or decided.session.revision is NEWEST_LEGACY
    assert decided.data == json.dumps(body).encode()


ROUTED = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "routed"}}


@pytest.mark.parametrize("mode", ["sessions", "stateless"])
@pytest.mark.parametrize("given, body, kind", [
    (JSON, INITIALIZE, StartSession), (IN_SESSION, INITIALIZE, StartSession), (IN_SESSION, ROUTED, ServeInSession),
    (IN_SESSION, NOTIFICATION, AcceptMessage), (IN_SESSION, [PING], ServeInSession),
    (IN_SESSION, [NOTIFICATION], AcceptMessage),
])
def test_a_decision_has_the_body_its_message_and_its_client(mode, given, body, kind):
    decided = decide("POST", {**given, "MCP-Protocol-Version": BATCHES.name}, body, mode=mode, session=BATCHES)
    assert type(decided) is kind and decided.data == json.dumps(body).encode()
    assert jsonrpc.describe(decided.message) == jsonrpc.describe(jsonrpc.parse(decided.data))
    # Only a single request is looked up.
    assert (decided.target is not None) is (body is ROUTED)
    assert body is not ROUTED or decided.target.marks, "it was looked up by its method and its params"
    if kind is not StartSession:
        assert (decided.session is not None) is (mode == "sessions")
        assert decided.revision is BATCHES


@pytest.mark.parametrize("mode", ["sessions", "stateless"])
def test_a_second_initialize_starts_the_session_over(mode):
    decided = decide("POST", IN_SESSION, INITIALIZE, mode=mode)
    assert type(decided) is StartSession
    # Only a stored session lasts: the other modes begin a new one.
    assert (decided.session is not None) == (mode == "sessions")
    unknown = decide("POST", {**JSON, "Mcp-Session-Id": "unknown"}, INITIALIZE, mode=mode)
    if mode == "stateless":
        assert type(unknown) is StartSession
    else:
        assert (unknown.status, unknown.id) == (404, INITIALIZE["id"])


@pytest.mark.parametrize("given, body, status, id", [
    (JSON, PING, 400, 1), (JSON, NOTIFICATION, 400, None), ({**JSON, "Mcp-Session-Id": "unknown"}, PING, 404, 1),
    ({**IN_SESSION, "MCP-Protocol-Version": "1999-01-01"}, PING, 400, 1),
    ({**IN_SESSION, "MCP-Protocol-Version": LEGACY[-2].name}, PING, 400, 1),  # HDR-08
    ({**JSON, "MCP-Protocol-Version": "1999-01-01"}, INITIALIZE, 400, None),
    (IN_SESSION, [PING], 400, None),  # RPC-26
])
def test_messages_outside_a_session_are_refused(given, body, status, id):
    refused = decide("POST", given, body)
    assert isinstance(refused, Rejection) and (refused.status, refused.id) == (status, id)


@pytest.mark.parametrize("mode", ["sessions", "stateless"])
@pytest.mark.parametrize("given", [JSON, IN_SESSION])
@pytest.mark.parametrize("body", [PING, INITIALIZE])
def test_an_unknown_revision_is_refused_with_the_known_ones(mode, given, body):
    # HDR-05
    refused = decide("POST", {**given, "MCP-Protocol-Version": "1999-" + "9" * 300}, body, mode=mode)
    assert isinstance(refused, Rejection) and (refused.status, refused.code) == (400, -32022)
    names = [revision.name for revision in reversed(REVISIONS)]
    assert refused.data == {"supported": names, "requested": "1999-" + "9" * 195}
    assert f"'1999-{'9' * 45}'" in refused.message and ", ".join(names) in refused.message


def test_another_revision_than_the_session_has_is_refused_by_both_names():
    # HDR-08
    refused = decide("POST", {**IN_SESSION, "MCP-Protocol-Version": LEGACY[-2].name}, PING)
    assert refused.status == 400 and LEGACY[-2].name in refused.message and NEWEST_LEGACY.name in refused.message


def test_a_request_without_a_session_is_told_of_the_header():
    refused = decide("POST", JSON, PING)
    assert refused.status == 400 and "Mcp-Session-Id" in refused.message


def test_a_batch_of_a_client_without_a_session_is_of_the_revision_that_its_header_names():
    for body, kind in (([PING], ServeInSession), ([NOTIFICATION], AcceptMessage)):
        decided = decide("POST", {**JSON, "MCP-Protocol-Version": BATCHES.name}, body, mode="stateless")
        assert type(decided) is kind and decided.session is None and decided.revision is BATCHES


@pytest.mark.parametrize("mode", ["sessions", "stateless"])
@pytest.mark.parametrize("revisions", [REVISIONS, (NEWEST,)])
def test_sessionless_messages(mode, revisions):
    request = call("add", {"a": 1})
    served = decide("POST", headers(request), encode(request), mode=mode, revisions=revisions)
    assert isinstance(served, ServeSessionless) and served.revision is NEWEST and served.message.method == "tools/call"
    assert served.data == encode(request) and served.envelope.version == NEWEST.name
    assert not served.target.marks
    given = {**JSON, "MCP-Protocol-Version": NEWEST.name}
    notified = decide("POST", given, NOTIFICATION, mode=mode, revisions=revisions)
    assert isinstance(notified, NotifySessionless) and notified.data == json.dumps(NOTIFICATION).encode()
    assert notified.message.method == NOTIFICATION["method"]
    for body in ([request], RESPONSE):  # H26-03
        assert decide("POST", given, body, mode=mode, revisions=revisions).status == 400


def test_marked_parameters_are_compared_for_the_tool_that_has_them():
    request = call("routed", {"region": "eu"})
    assert isinstance(decide("POST", {**headers(request), "Mcp-Param-Region": "eu"}, encode(request)), ServeSessionless)
    assert decide("POST", {**headers(request), "Mcp-Param-Region": "us"}, encode(request)).status == 400
    assert decide("POST", headers(request), encode(request)).status == 400


@pytest.mark.parametrize("request_", [
    INITIALIZE, message("tools/list", version="1999-01-01"), {**PING, "method": "server/discover"},
])
def test_a_server_without_sessions_refuses_other_messages(request_):
    refused = decide("POST", headers(request_), request_, revisions=(NEWEST,))
    assert isinstance(refused, Rejection) and (refused.status, refused.id) == (400, 1)


def test_a_server_without_sessions_tells_a_legacy_client_what_it_speaks():
    # ERA-21
    refused = decide("POST", JSON, INITIALIZE, revisions=(NEWEST,))
    assert (refused.code, refused.data) == (-32022, {"supported": [NEWEST.name], "requested": NEWEST_LEGACY.name})
    claimed = {**INITIALIZE, "params": {**message("initialize")["params"], "protocolVersion": NEWEST_LEGACY.name}}
    assert isinstance(decide("POST", headers(claimed), claimed, revisions=(NEWEST,)), ServeSessionless)


def test_methods_of_sessionless_clients_need_no_version_header():
    refused = decide("POST", JSON, {**PING, "method": "server/discover"})
    assert isinstance(refused, Rejection) and refused.status == 400 and "_meta" in refused.message


def test_a_legacy_server_has_no_sessionless_messages():
    request = call("add")
    assert decide("POST", headers(request), encode(request), revisions=LEGACY).status == 400
    assert isinstance(decide("GET", IN_SESSION, revisions=LEGACY), OpenGetStream)
