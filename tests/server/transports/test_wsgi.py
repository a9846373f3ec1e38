"""The WSGI application: the rules of PEP 3333, checked by the standard library, and the behaviour of hosts."""

import contextlib
import io
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import wsgiref.simple_server
import wsgiref.util
import wsgiref.validate
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

import mcplite
from mcplite.server import Context, Limits, Server, ServerOptions
from mcplite.server.state import streams
from mcplite.server.transports.wsgi import mount_wsgi
from tests.support import connecting, stateless
from tests.support.children import wait_until
from tests.support.processes import at_once
from tests.support.rawhttp import BOTH, LIMIT, Wire, call, initialize, listen, post, request
from tests.support.tight import tight

ROOT = Path(__file__).parents[3]


def make(**options):
    """Return a server with a few tools."""
    server = connecting.new_server("wsgi", **options)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def count(to: int, ctx: Context) -> int:
        for number in range(to):
            ctx.info(f"at {number}")
        return to

    @server.tool()
    def fail() -> str:
        raise SystemExit("no")

    return server


@pytest.fixture
def app():
    """Make applications, and close them."""
    with contextlib.ExitStack() as stack:

        def app(server=None, **options):
            made = (server or make()).wsgi(**options)
            stack.callback(made.close, 5)
            return made

        yield app


class Answer:
    """The response of an application to one request."""

    def __init__(self, app, message=None, *, method="POST", path="", mount="", session=None, checked=True, read=True, query="",
                 **environ):
        body = message if isinstance(message, bytes) else b"" if message is None else json.dumps(message).encode()
        self.environ = {"REQUEST_METHOD": method, "SCRIPT_NAME": mount, "PATH_INFO": path, "QUERY_STRING": query,
                        "HTTP_HOST": "localhost", "wsgi.input": io.BytesIO(body), "REMOTE_ADDR": "10.0.0.1",
                        "HTTP_ACCEPT": BOTH}
        if message is not None:
            self.environ.update(CONTENT_TYPE="application/json", CONTENT_LENGTH=str(len(body)))
        if session is not None:
            self.environ["HTTP_MCP_SESSION_ID"] = session
        self.environ.update(environ)
        for name in [name for name, value in self.environ.items() if value is None]:
            del self.environ[name]
        wsgiref.util.setup_testing_defaults(self.environ)
        self.status = None
        self.content = (wsgiref.validate.validator(app) if checked else app)(self.environ, self._start)
        self.body = b""
        if read:
            self.body = b"".join(self.content)
            self.close()

    def _start(self, status, headers, exc_info=None):
        assert self.status is None
        self.status, self.headers = int(status.split()[0]), {name.lower(): value for name, value in headers}
        assert len(self.headers) == len(headers)

    def close(self):
        if hasattr(self.content, "close"):
            self.content.close()

    @property
    def json(self):
        return json.loads(self.body)


def start(app, **options):
    answer = Answer(app, initialize(), **options)
    assert answer.status == 200, answer.body
    session = answer.headers["mcp-session-id"]
    assert Answer(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session=session, **options).status == 202
    return session


# --- what PEP 3333 asks for --------------------------------------------------------------------------------


def test_a_conversation_keeps_the_rules(app):
    # REL-41
    app = app()
    session = start(app)
    answer = Answer(app, call("add", a=2, b=3), session=session)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["result"]["structuredContent"] == {"result": 5}
    assert answer.headers["content-length"] == str(len(answer.body))
    stream = Answer(app, {**call("count", to=3)}, session=session)
    assert stream.headers["content-type"] == "text/event-stream" and "content-length" not in stream.headers
    data = [json.loads(line[6:]) for line in stream.body.split(b"\n") if line.startswith(b"data: ")]
    assert [message["params"]["data"] for message in data[:-1]] == ["at 0", "at 1", "at 2"]
    assert data[-1]["result"]["structuredContent"] == {"result": 3}
    ended = Answer(app, method="DELETE", session=session)
    assert (ended.status, ended.body, "content-length" in ended.headers) == (204, b"", False)
    assert Answer(app, call("add", a=2, b=3), session=session).status == 404


def test_type_and_length_may_come_under_both_of_their_names(app):
    # As nginx passes them to uWSGI.
    again = {"HTTP_CONTENT_TYPE": "application/json", "HTTP_CONTENT_LENGTH": "9"}
    assert Answer(app(), initialize(), checked=False, **again).status == 200


@pytest.mark.parametrize("options, status", [
    ({"method": "PUT"}, 405), ({"method": "HEAD"}, 405), ({"method": "OPTIONS"}, 405),
    ({"method": "GET", "HTTP_ACCEPT": "text/html"}, 406), ({"method": "GET"}, 400), ({"path": "/elsewhere"}, 404),
    ({"message": b"{"}, 400), ({"message": b"{}", "CONTENT_TYPE": "text/plain"}, 415),
    ({"message": b"{}", "HTTP_ACCEPT": "text/html"}, 406), ({"message": b"{}", "HTTP_HOST": "evil.example"}, 421),
    ({"message": b"{}", "HTTP_ORIGIN": "http://evil.example"}, 403), ({"message": b"x" * 1001}, 413),
    ({"message": call("add"), "session": "made-up"}, 404), ({"message": call("add")}, 400),
    ({"message": {"jsonrpc": "2.0", "method": "notifications/initialized"}, "session": "made-up"}, 404),
])
def test_refusals_keep_the_rules(app, options, status):
    # HTTP-07, HTTP-33, HTTP-34, HTTP-37, SEC-40 to SEC-46
    answer = Answer(app(make(limits=Limits(message_bytes=1000))), **options)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json" and "connection" not in answer.headers
    if options.get("method") == "HEAD":
        assert answer.body == b"" and int(answer.headers["content-length"]) > 0
    else:
        assert answer.json["error"]["message"] and answer.headers["content-length"] == str(len(answer.body))


def test_other_routes(app):
    seen = []

    def health(request):
        seen.append((request.method, request.path, request.query, request.remote))
        return 200, "text/plain", b"fine"

    app = app(routes={"/health/": health})
    for path in ("/health", "/health/"):
        answer = Answer(app, method="GET", path=path, query="a=1", mount="/at")
        assert (answer.status, answer.headers["content-type"], answer.body) == (200, "text/plain", b"fine")
    assert seen == [("GET", "/health", "a=1", "10.0.0.1"), ("GET", "/health/", "a=1", "10.0.0.1")]
    assert Answer(app, method="GET", path="/health/deeper").status == 404


@pytest.mark.parametrize("path", ["", "/mcp", "/deep/er"])
def test_the_endpoint_has_the_given_path(app, path):
    app = app(path=path)
    for at in (path, path + "/"):
        assert Answer(app, initialize(), path=at).status == 200
    assert Answer(app, initialize(), path="/other").status == 404


def test_paths_are_bytes_decoded_as_latin_1(app):
    app = app(path="/caf\xe9")
    assert Answer(app, initialize(), path="/caf\xc3\xa9", mount="/\xc3\xa9").status == 200
    answer = Answer(app, initialize(), path="/caf\xe9", mount="/\xc3\xa9")
    assert answer.status == 404 and "/\xe9/caf\xe9" in answer.json["error"]["message"]


# --- bodies ------------------------------------------------------------------------------------------------


class Input:
    """A body that comes in pieces, and may fail."""

    def __init__(self, *pieces):
        self._pieces = list(pieces)

    def read(self, size):
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        if len(piece) > size:
            self._pieces.insert(0, piece[size:])
        return piece[:size]


BODY = json.dumps(initialize()).encode()


class HostError(Exception):
    """An error of a WSGI server about a request."""


@pytest.mark.parametrize("pieces",
                         [[BODY], [BODY[:10], BODY[10:]], [bytes([byte]) for byte in BODY], [BODY + b"GET / HTTP/1.1"]])
def test_a_body_in_pieces(app, pieces):
    answer = Answer(app(), b"", checked=False, CONTENT_LENGTH=str(len(BODY)), **{"wsgi.input": Input(*pieces)})
    assert answer.status == 200


@pytest.mark.parametrize("pieces", [[BODY], [bytes([byte]) for byte in BODY]])
def test_a_body_without_a_length(app, pieces):
    # HTTP-46: on hosts with wsgi.input_terminated.
    environ = {"wsgi.input": Input(*pieces), "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": None}
    answer = Answer(app(), b"", checked=False, **environ, **{"wsgi.input_terminated": True})
    assert answer.status == 200
    environ["wsgi.input"] = Input(*pieces)
    assert Answer(app(), b"", checked=False, **environ).status == 411


@pytest.mark.parametrize("length, pieces, status", [
    ("10", [b"12345"], 400), ("10", [b"12345", OSError("reset")], 400), ("10", [], 400), ("-1", [b"x"], 400),
    ("+5", [b"x"], 400), ("1_0", [b"x"], 400), ("5, 5", [b"x"], 400), ("\xb2", [b"x"], 400), ("1" * 16, [b"x"], 400),
    ("1001", [b"x"], 413), ("999999999999999", [b"x"], 413), ("0", [], 400), ("", [b"x"], 400),
    (None, [b"x" * 400, b"x" * 601], 413), (None, [b"{", OSError("reset")], 400),
    # Hosts have exceptions of their own for what a client does: gunicorn's for chunks and trailers are no OSError.
    ("10", [b"12345", HostError("no chunk")], 400), (None, [b"{", HostError("no chunk")], 400), (None, [HostError()], 400),
])
def test_bodies_that_cannot_be_read(app, caplog, length, pieces, status):
    # SEC-03, SEC-08, SEC-09, SEC-16
    chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True} if length is None else {}
    app = app(make(limits=Limits(message_bytes=1000)))
    answer = Answer(app, b"", checked=False, CONTENT_LENGTH=length, **chunked, **{"wsgi.input": Input(*pieces)})
    assert (answer.status, answer.json["error"]["code"] < 0) == (status, True)
    assert len(app.endpoint.sessions) == 0  # SEC-53
    assert not caplog.records  # a client could fill the log with them


def test_a_host_without_memory_is_no_fault_of_the_client(app, caplog):
    answer = Answer(app(), b"", checked=False, CONTENT_LENGTH="10", **{"wsgi.input": Input(MemoryError())})
    assert answer.status == 503 and "want of memory" in caplog.text


# --- who is asking -------------------------------------------------------------------------------------------


def test_a_session_belongs_to_its_opener(app):
    # SESS-15, SEC-56
    app = app()
    session = start(app, REMOTE_USER="alice")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert Answer(app, ping, session=session, REMOTE_USER="alice").status == 200
    for user in ({"REMOTE_USER": "bob"}, {"REMOTE_USER": ""}, {}):
        assert Answer(app, ping, session=session, **user).status == 404
        assert Answer(app, method="DELETE", session=session, **user).status == 404
    assert Answer(app, ping, session=session, REMOTE_USER="alice").status == 200


# --- streams ------------------------------------------------------------------------------------------------


def open_stream(app, session, **options):
    return Answer(app, method="GET", session=session, HTTP_ACCEPT="text/event-stream", read=False, **options)


def test_a_stream_that_the_host_drops_is_not_counted_any_more(app):
    # HTTP-44
    app = app(make(limits=Limits(streams=1)))
    one, two = start(app), start(app)
    stream = open_stream(app, one)
    assert stream.status == 200
    newer = open_stream(app, two)
    assert newer.status == 200 and len(app.endpoint.open_streams) == 1
    stream.close()
    assert len(app.endpoint.open_streams) == 1
    newer.close()
    assert len(app.endpoint.open_streams) == 0


def test_a_host_that_cannot_start_gets_no_stream(app):
    app = app(make(limits=Limits(streams=1)))
    session = start(app)

    def refuse(status, headers, exc_info=None):
        raise OSError("the host fails")

    for _ in range(3):
        stream = open_stream(app, session)
        stream.close()
        with pytest.raises(OSError, match="the host fails"):
            app(stream.environ, refuse)
    last = open_stream(app, session)
    assert last.status == 200
    last.close()


def retries(answer):
    """Return the seconds after which a response asks its client to come back, and the messages in it; it has ended."""
    text = b"".join(answer.content).decode()
    answer.close()
    said = [line.partition(": ") for line in text.splitlines()]
    return ([int(value) / 1000 for name, _, value in said if name == "retry"],
            [json.loads(value) for name, _, value in said if name == "data" and value],
            [value for name, _, value in said if name == "id"])


def test_two_streams_are_open_in_a_process_and_one_more_ends_the_oldest(app):
    servers = [make(), make()]
    apps = [app(server) for server in servers]
    sessions = [start(made) for made in (apps[0], apps[1], apps[0])]
    one = open_stream(apps[0], sessions[0])
    two = open_stream(apps[1], sessions[1])
    three = open_stream(apps[0], sessions[2])
    # Each has room for one more, but all servers of a process have the same threads.
    seconds, _, ids = retries(one)
    assert seconds[-1] >= 1.0
    servers[0].tools_changed()
    back = open_stream(apps[0], sessions[0], HTTP_LAST_EVENT_ID=ids[-1])
    assert retries(two)[0][-1] >= 1.0
    next(back.content)  # the event from which it goes on
    assert json.loads(next(back.content).decode().partition("data: ")[2])["method"] == "notifications/tools/list_changed"
    for stream in (three, back):
        stream.close()
    assert len(apps[0].endpoint.open_streams) == len(apps[1].endpoint.open_streams) == 0


def test_a_limit_of_streams_raises_the_two(app):
    app = app(make(limits=Limits(streams=3)))
    streams = [open_stream(app, start(app)) for _ in range(3)]
    assert len(app.endpoint.open_streams) == 3
    last = open_stream(app, start(app))
    assert retries(streams[0])[0] and len(app.endpoint.open_streams) == 3
    for stream in (*streams[1:], last):
        stream.close()


def test_clients_that_wait_are_asked_to_come_back_the_later_the_more_they_are(app):
    app = app()
    streams = [open_stream(app, start(app)) for _ in range(50)]
    waits = [retries(stream)[0][-1] for stream in streams[:-2]]
    assert waits == sorted(waits) and waits[0] == 1.0 and 5 <= waits[-1] <= 10
    assert sum(5 < wait <= 6 for wait in waits) <= 6
    for stream in streams[-2:]:
        stream.close()


LISTENING = {"notifications": {"toolsListChanged": True}}


def test_a_listen_request_counts_and_ends_with_a_result(app):
    server = make()
    app = app(server)
    asked = [stateless.message("subscriptions/listen", LISTENING, id=number) for number in (1, 2)]
    first, second = (Answer(app, one, read=False, HTTP_MCP_PROTOCOL_VERSION=stateless.MODERN, HTTP_MCP_METHOD=one["method"])
                     for one in asked)
    get = open_stream(app, start(app))
    seconds, messages, _ = retries(first)
    assert seconds == [1.0]
    assert [message.get("id", message.get("method")) for message in messages] == ["notifications/subscriptions/acknowledged", 1]
    assert len(server.runtime.subscriptions) == 1
    get.close()
    second.close()
    assert len(app.endpoint.open_streams) == len(server.runtime.subscriptions) == 0


@pytest.mark.parametrize(("capabilities", "tools", "status"), [
    ({"tools": {"listChanged": False}}, True, 405), ({}, False, 405), ({}, True, 200), (None, True, 200),
    ({"tools": {"listChanged": False}, "resources": {"listChanged": False}}, True, 200),
    ({"tools": {"listChanged": False}, "resources": {"listChanged": False, "subscribe": False}}, True, 405),
    ({"tools": {"listChanged": False}, "logging": {}}, True, 200),
    ({"tools": {"listChanged": False}, "logging": False}, True, 405), ({"prompts": {"listChanged": True}}, False, 200)])
def test_a_server_that_has_nothing_to_tell_offers_no_stream(app, capabilities, tools, status):
    # HTTP-24
    app = app((make if tools else connecting.new_server)(**({"name": "few"} if not tools else {}),
                                                        options=ServerOptions(capabilities=capabilities)))
    answer = open_stream(app, start(app))
    answer.close()
    assert answer.status == status
    assert status == 200 or answer.headers["allow"] == "POST, DELETE"


def test_a_client_that_was_told_to_ask_for_changes_is_told_by_other_means_too(app):
    server = Server("few", options=ServerOptions(capabilities={"tools": {"listChanged": False}}))
    server.add_tool(lambda: "x", name="x", task="optional")
    made = app(server)
    answer = open_stream(made, start(made))
    answer.close()
    assert answer.status == 200


def asking(app, revision):
    session = start_as(app, revision)
    return session, Answer(app, call("ask", id=7), session=session, read=False)


def start_as(app, revision):
    opening = initialize(revision)
    opening["params"]["capabilities"] = {"elicitation": {}}
    session = Answer(app, opening).headers["mcp-session-id"]
    assert Answer(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session=session).status == 202
    return session


def make_asking():
    server = make()

    @server.tool()
    def ask(ctx: Context) -> str:
        return ctx.elicit("Which city?", {"type": "object", "properties": {"city": {"type": "string"}}}).content["city"]

    return server


def test_a_response_that_waits_for_its_user_ends_and_the_answer_comes_to_the_client_that_resumes_it(app):
    app = app(make_asking())
    session, answer = asking(app, "2025-11-25")
    seconds, (question,), ids = retries(answer)
    assert seconds[-1] >= 1.0 and question["method"] == "elicitation/create"
    assert len(app.endpoint.open_streams) == 0
    rest = open_stream(app, session, HTTP_LAST_EVENT_ID=ids[-1])
    answered = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"city": "Rome"}}}
    assert Answer(app, answered, session=session).status == 202
    assert [message["result"]["content"][0]["text"] for message in retries(rest)[1]] == ["Rome"]


def test_a_response_that_cannot_be_resumed_keeps_its_thread_and_the_others_make_room_for_it(app):
    app = app(make_asking())
    waiting = [asking(app, "2025-06-18") for _ in range(3)]
    pieces = [iter(answer.content) for _, answer in waiting]
    questions = [json.loads(next(piece).decode().partition("data: ")[2]) for piece in pieces]
    stream = open_stream(app, start(app))
    assert retries(stream)[0]  # polled, while people think
    for (session, answer), piece, question in zip(waiting, pieces, questions):
        answered = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"city": "Rome"}}}
        assert Answer(app, answered, session=session).status == 202
        assert b"Rome" in b"".join(piece)
        answer.close()
    assert len(app.endpoint.open_streams) == 0


def test_an_answer_that_comes_at_once_comes_on_the_same_response(app):
    app = app(make_asking())
    session, answer = asking(app, "2025-11-25")
    pieces = iter(answer.content)
    text = b""
    while b"elicitation/create" not in text:
        text += next(pieces)
    question = json.loads(text.decode().rpartition("data: ")[2])
    answered = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"city": "Rome"}}}
    assert Answer(app, answered, session=session).status == 202
    assert b"Rome" in b"".join(pieces)
    answer.close()


def test_an_unknown_session_is_logged_once(app, caplog):
    app = app()
    for _ in range(3):
        assert Answer(app, call("add", a=1, b=2), session="of-another-worker").status == 404
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1 and "is this one of several workers? share backend=" in warned[0] and "MCPLITE_BACKEND" in warned[0]

@pytest.mark.parametrize("host", ["waitress", "gunicorn", "closed"])
def test_a_disconnect_is_noticed_where_the_host_supports_it(app, monkeypatch, host):
    monkeypatch.setattr(streams, "PROBE_SECONDS", 0.02)
    app = app()
    session = start(app)
    ours, theirs = socket.socketpair()
    gone = []
    with ours, theirs:
        environ = {"waitress.client_disconnected": lambda: bool(gone)} if host == "waitress" else {"gunicorn.socket": ours}
        stream = open_stream(app, session, **environ)
        ended = threading.Event()
        thread = threading.Thread(target=lambda: (list(stream.content), ended.set()))
        thread.start()
        assert not ended.wait(0.2)
        gone.append(True)
        if host == "closed":
            ours.close()
        theirs.close()
        assert ended.wait(LIMIT)
        thread.join(LIMIT)
    stream.close()
    assert open_stream(app, session).close() is None  # and there is no reader in the way (HTTP-31)


def test_a_client_with_a_pipelined_request_is_connected(app):
    # Unread bytes on the socket do not mean a disconnect.
    app = app()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"GET")
        told = []

        def route(request):
            told.append(request.disconnected())
            return 200, "text/plain", b""

        app = make().wsgi(routes={"/look": route})
        for environ in ({"gunicorn.socket": ours}, {}):
            Answer(app, method="GET", path="/look", **environ)
        app.close()
    assert told == [False, False]


# --- beside other applications ---------------------------------------------------------------------------------


def outer(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"outer {environ['SCRIPT_NAME']} {environ['PATH_INFO']}".encode()]


def test_mounting(app):
    inner = app(routes={"/where": lambda request: (200, "text/plain", f"{request.mount} {request.path}".encode())})
    deeper = app(path="/mcp")
    mounted = mount_wsgi(outer, {"/mcp/": inner, "/mcp/deeper": deeper})
    for path, place in (("/", "/"), ("/mcpx", "/mcpx"), ("/x/mcp", "/x/mcp"), ("", "")):
        assert Answer(mounted, method="GET", path=path, mount="/at").body == f"outer /at {place}".encode()
    assert Answer(mounted, method="GET", path="/mcp/where", mount="/at").body == b"/at/mcp /where"
    for path in ("/mcp", "/mcp/", "/mcp/deeper/mcp"):
        assert Answer(mounted, initialize(), path=path).status == 200
    assert Answer(mounted, initialize(), path="/mcp/deeper").status == 404
    assert Answer(mounted, initialize(), path="/mcp/deeper/").status == 404


@pytest.mark.parametrize("at", ["/my docs", "/my%20docs/", "/\u65e5\u672c/\xfc", "/%e6%97%a5%E6%9C%AC/%C3%BC"])
def test_mounts_are_compared_without_escapes(app, at):
    inner = app(routes={"/a%20b": lambda request: (200, "text/plain", f"{request.mount} {request.path}".encode())})
    mounted = mount_wsgi(outer, {at: inner})
    asked = unquote(at).rstrip("/").encode("utf-8").decode("latin-1")
    assert Answer(mounted, initialize(), path=asked, mount="/at").status == 200
    where = Answer(mounted, method="GET", path=asked + "/a b", mount="/at").body
    assert where == f"/at{unquote(at).rstrip('/')} /a b".encode()
    assert Answer(mounted, initialize(), path=quote(unquote(at)), mount="").body.startswith(b"outer")


@pytest.mark.parametrize("path", ["mcp", "", "/"])
def test_a_mount_needs_a_path(app, path):
    with pytest.raises(ValueError, match="must begin with a slash"):
        mount_wsgi(outer, {path: app()})


def test_the_public_names(app):
    assert mcplite.mount_wsgi is mount_wsgi
    made = make().wsgi("/mcp", allowed_hosts=["mcp.example.com"])
    assert Answer(made, initialize(), path="/mcp").status == 421
    assert Answer(made, initialize(), path="/mcp", HTTP_HOST="mcp.example.com").status == 200
    made.close()
    with pytest.raises(ValueError, match="must begin with a slash"):
        make().wsgi("mcp")


def test_the_legacy_endpoint_names_its_mounted_path(app):
    # LSSE-02
    app = app(path="/mcp", legacy_sse=True)
    stream = Answer(app, method="GET", path="/sse", mount="/at", HTTP_ACCEPT="text/event-stream", read=False)
    first = next(iter(stream.content))
    assert first.startswith(b"event: endpoint\ndata: /at/messages?session_id=")
    place = first.split(b"data: ")[1].strip().decode()
    posted = Answer(app, initialize("2024-11-05"), path="/messages", mount="/at", query=place.partition("?")[2])
    assert (posted.status, posted.headers["content-type"]) == (202, "text/plain")
    assert b'"protocolVersion":"2024-11-05"' in next(iter(stream.content))
    stream.close()


# --- life ---------------------------------------------------------------------------------------------------


def test_the_lifespan_is_entered_once_and_left_at_the_end(app):
    events = []

    @contextlib.contextmanager
    def lifespan(server):
        events.append("enter")
        yield 42
        events.append("leave")

    app = app(make(lifespan=lifespan))
    assert events == []
    start(app)
    start(app)
    assert events == ["enter"]
    app.close()
    app.close()
    assert events == ["enter", "leave"]
    answer = Answer(app, initialize())
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_an_application_without_requests_is_closed_too(app):
    app().close()


def test_concurrent_first_requests_are_all_served(app):
    app = app()
    barrier = threading.Barrier(8)
    statuses = []

    def first():
        barrier.wait(LIMIT)
        session = start(app)
        statuses.append(Answer(app, call("add", a=1, b=1), session=session).status)

    at_once(first, 8)
    assert statuses == [200] * 8


def run(code, *arguments):
    child = subprocess.run([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                           env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert child.returncode == 0, child.stderr.decode()
    return child.stdout.decode(), child.stderr.decode()


_SCRIPT = """
import contextlib, io, json, os, sys, threading, warnings

warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what this is about
from mcplite.server import Context, Server

@contextlib.contextmanager
def lifespan(server):
    print("entered", flush=True)
    yield
    print("left", flush=True)

mcp = Server("forked", lifespan=lifespan)

@mcp.tool()
def whoami(ctx: Context) -> int:
    return os.getpid()

app = mcp.wsgi()

def ask(message, session=None):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    environ = {"REQUEST_METHOD": "POST", "HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json",
               "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    if session:
        environ["HTTP_MCP_SESSION_ID"] = session
    said = {}
    content = app(environ, lambda status, headers: said.update(status=int(status[:3]), **dict(headers)))
    said["body"] = b"".join(content)
    if hasattr(content, "close"):
        content.close()
    return said

def start():
    said = ask({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                            "clientInfo": {"name": "x", "version": "1"}}})
    session = said["Mcp-Session-Id"]
    ask({"method": "notifications/initialized"}, session)
    return session

def check(session):
    said = ask({"id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}, session)
    assert json.loads(said["body"])["result"]["structuredContent"] == {"result": os.getpid()}, said
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_that_is_forked_after_the_first_request_serves():
    # REL-42: with worker threads in the parent, which a child does not have.
    out, err = run(_SCRIPT + """
session = start()
check(session)
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    assert ask({"id": 1, "method": "ping"}, session)["status"] == 404, "a session of the parent"
    mine = start()
    check(mine)
    threads = [threading.Thread(target=lambda: check(start())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("child served", flush=True)
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0
check(session)
print("parent served", flush=True)
""")
    # Each process has a lifespan of its own: what the first one has opened there may not be shared.
    assert out.splitlines() == ["entered", "entered", "child served", "left", "parent served", "left"]
    assert err.count("\n") == 1 and "is this one of several workers?" in err and "MCPLITE_BACKEND" in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_an_application_that_is_loaded_before_the_fork_serves_in_every_child():
    # REL-42: gunicorn's preload
    out, err = run(_SCRIPT + """
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        check(start())
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
print("done", threading.active_count())
""")
    assert out.splitlines() == ["entered", "left", "entered", "left", "done 1"] and err == ""


def test_the_lifespan_is_left_at_the_end_of_the_process():
    # REL-65
    out, err = run(_SCRIPT + "check(start())\nprint('end')\n")
    assert out.splitlines() == ["entered", "end", "left"] and err == ""


# --- under a real host ---------------------------------------------------------------------------------------------


class _Threads(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def hosted(app):
    """Serve applications with the standard library's host; returns the port."""
    with contextlib.ExitStack() as stack:

        def hosted(application):
            host = stack.enter_context(_Threads(("127.0.0.1", 0), _Quiet))
            host.set_app(wsgiref.validate.validator(application))
            thread = threading.Thread(target=host.serve_forever, args=(0.02,))
            thread.start()
            stack.callback(thread.join, LIMIT)
            stack.callback(host.shutdown)
            return host.server_port

        yield hosted


def through(port, data):
    """Send one request on a connection of its own: the host closes each."""
    with Wire(port) as wire:
        return wire.send(data).reply()


def test_a_conversation_through_a_host(app, hosted, capfd):
    port = hosted(app(path="/mcp"))
    session = through(port, post(initialize())).headers["mcp-session-id"]
    accepted = through(port, post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session))
    assert (accepted.status, accepted.body) == (202, b"")
    assert through(port, post(call("add", a=2, b=3), session)).json["result"]["structuredContent"] == {"result": 5}
    assert [event.get("id") for event in through(port, post(call("count", to=2), session)).events] == [None, None, 1]
    assert through(port, request("DELETE", headers={"Mcp-Session-Id": session})).status == 204
    assert capfd.readouterr().err == ""


def test_a_stream_through_a_host_that_does_not_report_disconnects(app, hosted):
    # REL-33: a keep-alive comment that cannot be written reveals the disconnect.
    server = make(limits=Limits(keep_alive_seconds=0.05))
    made = app(server, path="/mcp")
    port = hosted(made)
    session = through(port, post(initialize())).headers["mcp-session-id"]
    through(port, post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session))
    with listen(port, session) as wire:
        server.add_tool(lambda: "new", name="new")
        received = b""
        while b"list_changed" not in received or b": keep-alive" not in received:
            received += wire.sock.recv(65536)
        reader = made.endpoint.sessions.find(session, None)
        assert reader.reader
    assert wait_until(lambda: not reader.reader)


@pytest.mark.parametrize("says", ["something first", "nothing"])
def test_a_sessionless_client_that_disconnects_cancels_its_call(app, hosted, says):
    # H26-10: where the host cannot tell, the next keep-alive comment fails; before the response has begun a first comment
    # is sent.
    server = make(limits=tight(keep_alive_seconds=0.05, commit_seconds=0.2))
    stopped, running = threading.Event(), threading.Event()

    @server.tool()
    def block(ctx: Context) -> str:
        ctx.on_cancel(stopped.set)
        if says != "nothing":
            ctx.report_progress(1)
        running.set()
        ctx.sleep(LIMIT)
        return "?"

    message = stateless.call("block", progressToken=1)
    with Wire(hosted(app(server, path="/mcp"))) as wire:
        wire.send(request(body=stateless.encode(message), headers=stateless.headers(message)))
        assert running.wait(LIMIT) and not stopped.is_set()
    assert stopped.wait(LIMIT)


# --- the thread of a handler -------------------------------------------------------------------------------


def test_a_handler_without_a_context_runs_on_the_thread_of_its_request(app):
    server = make()

    @server.tool()
    def here() -> int:
        return threading.get_ident()

    @server.tool()
    def elsewhere(ctx: Context) -> int:
        return threading.get_ident()

    app = app(server)
    session = start(app)
    threads = {name: Answer(app, call(name), session=session).json["result"]["structuredContent"]["result"]
               for name in ("here", "elsewhere")}
    assert threads["here"] == threading.get_ident() != threads["elsewhere"]


def test_a_handler_that_took_long_runs_on_a_worker_until_it_is_quick_again(app):
    server = make(limits=tight(commit_seconds=0.2))
    threads, quick = [], threading.Event()

    @server.tool()
    def work() -> bool:
        threads.append(threading.get_ident())
        return quick.wait(0.4)

    app = app(server)
    session = start(app)

    def kind():
        return Answer(app, call("work"), session=session).headers["content-type"]

    assert (kind(), threads.pop()) == ("application/json", threading.get_ident())
    for _ in range(2):
        assert kind() == "text/event-stream" and threads.pop() != threading.get_ident()
    quick.set()
    assert wait_until(lambda: kind() == "application/json" and threads.pop() == threading.get_ident())
