"""Streamable HTTP, a client's side: what is sent, what is made of each kind of answer, and the faults in between.

What a client owes a server over HTTP, its answers and cancel notices, does not hold up its calls.
"""

import contextlib
import gc
import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

import mcplite
from mcplite.client.http import http_channel, http_channel as channel_module, http_endpoint
from mcplite.client.http.http_channel import HTTPChannel
from mcplite.rpc import peer as peer_module
from tests.support import connecting
from tests.support.processes import at_once
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture
def script():
    with WebScript() as script:
        yield script


@pytest.fixture(params=["direct", "requests", "session"])
def way(request):
    """The options for each of the three ways that requests can go."""
    if request.param == "direct":
        yield {}
        return
    if request.param == "requests":
        yield {"auth": lambda request: request}
        return
    with requests.Session() as session:
        yield {"session": session}


def connect(script, **options):
    return connecting.connect(script.url, **{"timeout": LIMIT, "era": "legacy", **options})


def progress(request, value):
    return {"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": request.message["params"]["_meta"]["progressToken"], "progress": value}}


# --- what is sent ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_headers_of_each_request(script, version, way):
    # HTTP-02, HTTP-04, SESS-05, SESS-10, HDR-01
    script.version = version
    with connect(script, **way, headers={"X-Mine": "yes"}) as client:
        client.ping()
    wire = [(request.does, request) for request in script.requests]
    assert [does for does, _ in wire] == ["initialize", "notifications/initialized", "GET", "ping", "DELETE"]
    for does, request in wire:
        assert request.headers["x-mine"] == "yes" and request.headers["accept-encoding"] == "identity"
        assert request.headers["user-agent"].startswith("mcplite/")
        assert request.headers.get("mcp-session-id") == (None if does == "initialize" else "s1")
        known = version if version != "2025-03-26" and does != "initialize" else None
        assert request.headers.get("mcp-protocol-version") == known
        if request.method == "POST":
            assert request.headers["content-type"] == "application/json"
            assert request.headers["accept"] == "application/json, text/event-stream"
        elif not way:
            assert "content-length" not in request.headers  # RFC 9110, 8.6
    assert wire[2][1].headers["accept"] == "text/event-stream"


def test_a_server_without_sessions(script):
    script.session = ""
    with connect(script) as client:
        client.ping()
    assert [request.does for request in script.requests][-1] == "ping"  # nothing to say goodbye to
    assert all("mcp-session-id" not in request.headers for request in script.requests)


def test_listen_false_opens_no_stream(script):
    with connect(script, listen=False) as client:
        client.ping()
    assert "GET" not in [request.method for request in script.requests]


@pytest.mark.parametrize("status", [200, 404, 405, 500])
def test_the_end_of_a_session_may_fail(script, status):
    script.on_DELETE = lambda request, answer: answer.status(status)  # SESS-11
    with connect(script) as client:
        client.ping()
    assert script.requests[-1].method == "DELETE"


def test_headers_that_cannot_be_sent():
    for headers in ({"X-A": "a\r\nX-B: b"}, {"X A": "a"}, {"X-A": "a\0"}):
        with pytest.raises(ValueError, match="cannot be sent"):
            mcplite.connect("http://127.0.0.1:1/mcp", headers=headers).open()  # SEC-18


@pytest.mark.parametrize("session", ["a b", "x" * 5000])
def test_a_session_id_that_cannot_be_sent_back(script, session):
    script.session = session  # SESS-03
    with pytest.raises(mcplite.errors.ProtocolError, match="session id"):
        connect(script).open()


# --- kinds of answers -------------------------------------------------------------------------------------


def test_events_are_delivered_as_they_come(script):
    # HTTP-09, HTTP-11: the answer is sent only when the progress has been seen on the other side.
    seen = threading.Event()

    def play(request, answer):
        answer.events(progress(request, 1))
        assert seen.wait(LIMIT)
        answer.more(script.text(request, "done"))
        answer.end()

    script.on_tools_call = play
    with connect(script) as client:
        assert client.call_tool("t", on_progress=lambda progress: seen.set()).text == "done"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [200, 400])
def test_ids_that_come_back_as_text(script, stream, status):
    def play(request, answer):
        said = dict(script.text(request, "done"), id=str(request.message["id"]))
        if status != 200:
            answer.status(status, json.dumps(said).encode(), Content_Type="application/json")
        elif stream:
            number = progress(request, 1)
            number["params"]["progressToken"] = str(number["params"]["progressToken"])
            answer.events(number, said)
            answer.end()
        else:
            answer.json(said)

    script.on_tools_call = play
    seen = []
    with connect(script) as client:
        assert client.call_tool("t", on_progress=seen.append).text == "done"
    assert len(seen) == (status == 200 and stream)


def asking(script, answered):
    """Return the part of a script that asks in a call, and ends the call when the event says that the answer is there."""

    def play(request, answer):
        answer.events({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}})
        assert answered.wait(LIMIT)
        answer.more(script.text(request, "thanks"))
        answer.end()

    return play


def test_a_question_inside_of_a_call_is_answered_by_a_request_of_its_own(script):
    answered = threading.Event()

    def take(request, answer):
        if isinstance(request.message, dict) and "result" in request.message:
            answered.set()
        return NotImplemented

    script.on_tools_call, script.on_POST = asking(script, answered), take
    with connect(script, sampling_handler=lambda request: "because") as client:
        assert client.call_tool("t").text == "thanks"  # HTTP-40
    answer = next(request for request in script.requests if request.does == "POST")
    assert answer.message["id"] == "q" and answer.message["result"]["content"]["text"] == "because"


@pytest.mark.parametrize("failing, count", [("broken", 3), ("busy", 3), ("refused", 1)])
@pytest.mark.slow
def test_an_answer_that_does_not_arrive_is_sent_again_and_one_that_is_refused_is_not(script, failing, count):
    answered, attempts = threading.Event(), []

    def take(request, answer):
        if not isinstance(request.message, dict) or "result" not in request.message:
            return NotImplemented
        attempts.append(request.message)
        if len(attempts) == count:
            if failing == "refused":
                answer.status(500)
            answered.set()
            return None if failing == "refused" else NotImplemented
        return answer.cut() if failing == "broken" else answer.status(503, **{"Retry-After": "1"})

    script.on_tools_call, script.on_POST = asking(script, answered), take
    with connect(script, sampling_handler=lambda request: "because") as client:
        assert client.call_tool("t").text == "thanks"
    assert attempts == [attempts[0]] * count


def test_a_batch_as_an_answer(script):
    script.version = "2025-03-26"  # HTTP-45
    script.on_tools_call = lambda request, answer: answer.json(
        [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, script.text(request, "in a batch")])
    changed = threading.Event()
    with connect(script, on_tools_changed=changed.set) as client:
        assert client.call_tool("t").text == "in a batch"
        assert changed.wait(LIMIT)


def test_a_connection_is_used_again_behind_json_and_behind_events(script, way):
    def play(request, answer):
        answer.events(script.text(request, "events"))
        answer.end()

    script.on_tools_call = play
    with connect(script, **way, listen=False) as client:
        for _ in range(20):
            client.ping()
            client.call_tool("t")
    assert script.connections == 1


def test_a_stream_that_continues_after_the_answer_is_not_waited_for(script, way):
    def play(request, answer):
        answer.events(script.text(request, "early"))
        answer.hold()

    script.on_tools_call = play
    with connect(script, **way) as client:
        assert client.call_tool("t").text == "early"
        client.ping()


@pytest.mark.parametrize("status, kind, body, expected", [
    (200, "text/html", "<html>", "Is this the URL of an MCP server"),
    (200, "application/json", '{"jsonrpc":"2.0","method":"x"}', "not its answer"), (202, "text/plain", "", "202"),
])
def test_responses_that_are_not_answers(script, status, kind, body, expected):
    script.on_ping = lambda request, answer: answer.status(status, body, Content_Type=kind)
    with connect(script) as client:
        with pytest.raises(mcplite.errors.ProtocolError, match=expected):
            client.ping()


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("path, expected", [("/", "Mostly its path is /mcp"), ("/mcp", "an MCP server\\?$")])
def test_a_page_that_refuses_the_handshake_may_not_be_the_url_of_a_server(script, status, path, expected):
    script.on_initialize = lambda request, answer: answer.status(status, "<h1>No</h1>", Content_Type="text/html")
    with pytest.raises(mcplite.errors.HTTPStatusError, match=f"{status}: <h1>No</h1>. Is this the URL of .*{expected}"):
        mcplite.connect(f"http://127.0.0.1:{script.port}{path}", revision="2025-11-25").open()


def test_statuses(script, way):
    answers = iter([
        lambda request, answer: answer.status(500, "<h1>Oops</h1> at length"),
        lambda request, answer: answer.status(401, WWW_Authenticate='Bearer realm="x"'),
        lambda request, answer: answer.status(400, json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": {
            "code": -32602, "message": "no such thing"}}), Content_Type="application/json"),
        lambda request, answer: answer.status(403, json.dumps({"jsonrpc": "2.0", "id": None, "error": {
            "code": -32600, "message": "not you"}}), Content_Type="application/json"),
    ])
    script.on_ping = lambda request, answer: next(answers)(request, answer)
    with connect(script, **way) as client:
        with pytest.raises(mcplite.errors.HTTPStatusError, match="500: <h1>Oops</h1> at length") as caught:
            client.ping()
        assert caught.value.status == 500 and caught.value.body.startswith("<h1>")
        with pytest.raises(mcplite.errors.AuthError) as refused:
            client.ping()
        assert refused.value.challenge == 'Bearer realm="x"'
        with pytest.raises(mcplite.errors.InvalidParams, match="no such thing"):
            client.ping()  # HTTP-42
        with pytest.raises(mcplite.errors.HTTPStatusError, match="403: not you") as caught:
            client.ping()
        assert isinstance(caught.value.__cause__, mcplite.RemoteError)
        assert client.state == "open"


def test_answers_that_are_too_large(script, way):
    script.on_ping = lambda request, answer: answer.json(script.result(request, {"x": "y" * 50_000}))

    def stream(request, answer):
        answer.events(script.text(request, "z" * 50_000))
        answer.end()

    script.on_tools_call = stream
    with connect(script, **way, line_limit=20_000) as client:
        with pytest.raises(mcplite.errors.ProtocolError, match="more than 20000 bytes"):
            client.ping()
        with pytest.raises(mcplite.errors.ProtocolError, match="more than 20000 bytes"):
            client.call_tool("t")


def test_answers_with_a_byte_order_mark(script, way):
    def mark(request, result):
        return b"\xef\xbb\xbf" + json.dumps(script.result(request, result)).encode()

    script.on_ping = lambda request, answer: answer.status(200, mark(request, {}), Content_Type="application/json")

    def stream(request, answer):
        answer.status(200, b"\xef\xbb\xbfdata: " + mark(request, {"content": [{"type": "text", "text": "ok"}]}) + b"\n\n",
                      Content_Type="text/event-stream")

    script.on_tools_call = stream
    with connect(script, **way) as client:
        client.ping()
        assert client.call_tool("t").text == "ok"


def test_a_compressed_answer_is_refused(script, way):
    script.on_ping = lambda request, answer: answer.status(200, b"\x1f\x8b", Content_Type="application/json",
                                                           Content_Encoding="gzip")
    with connect(script, **way) as client, pytest.raises(mcplite.errors.ProtocolError, match="compressed"):
        client.ping()


def test_an_unreachable_server():
    with WebScript() as script:
        url = script.url
    with pytest.raises(mcplite.TransportError, match=f"cannot reach {url}.*refused"):
        mcplite.connect(url).open()
    with pytest.raises(mcplite.TransportError, match="cannot reach"):
        mcplite.connect("http://no-such-host.invalid/mcp").open()


# --- time ---------------------------------------------------------------------------------------------------


def drip_headers(request, answer):
    for byte in b"HTTP/1.1 200 OK\r\nX-Drip: " + b"x" * 5000:
        answer.raw(bytes([byte]))
        time.sleep(0.02)


def drip_body(request, answer):
    answer.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(5000):
        answer.raw(b" ")
        time.sleep(0.02)


def drip_comments(request, answer):
    answer.events()
    for _ in range(5000):
        answer.more(": still here\n\n")
        time.sleep(0.02)


def say_nothing(request, answer):
    answer.hold()


SLOW = pytest.mark.parametrize("play", [drip_headers, drip_body, drip_comments, say_nothing])


@SLOW
@pytest.mark.slow
def test_a_deadline_holds_for_a_response_that_drips(script, play, way):
    # TIME-01: a limit for each read would never be reached.
    script.on_ping = play
    with connect(script, **way) as client:
        with pytest.raises(mcplite.RequestTimeout):
            client.ping(timeout=0.3)
        cancelled = script.wait_for("notifications/cancelled")[0]
        assert cancelled.message["params"]["requestId"] == script.wait_for("ping")[0].message["id"]
        assert client.state == "open"
        del script.on_ping
        client.ping()


@SLOW
@pytest.mark.slow
def test_closing_from_another_thread_ends_a_read(script, play, way):
    script.on_ping = play
    with connect(script, **way) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.ping)
        script.wait_for("ping")
        client.close()
        with pytest.raises(mcplite.errors.ConnectionClosed):
            waiting.result(LIMIT)


def test_a_server_that_does_not_read_is_given_up():
    # No program accepts: the kernel takes the connection, and some of the request.
    import socket

    with WebScript() as script:
        with connect(script, listen=False) as client:
            with socket.create_server(("127.0.0.1", 0)) as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                channel = HTTPChannel(f"http://127.0.0.1:{deaf.getsockname()[1]}/mcp")
                with pytest.raises(mcplite.RequestTimeout):
                    channel.write(b"x" * (32 << 20), 0.3)
                channel.close()
            client.ping()


# --- streams that break -----------------------------------------------------------------------------------------


def test_a_broken_stream_is_resumed_behind_its_last_event(script, way):
    # RES-04, HTTP-17, HTTP-18: in the middle of an event, with a retry time.
    calls = []

    def play(request, answer):
        calls.append(request)
        answer.events("id: a-0\nretry: 10\ndata:\n\n", "id: a-1\ndata: " + json.dumps(progress(request, 1)) + "\n\n")
        answer.raw(b"50\r\ndata: {\"jsonrpc\":")
        answer.cut()

    def resume(request, answer):
        if "last-event-id" not in request.headers:
            return answer.status(405)
        assert request.headers["last-event-id"] == "a-1"
        answer.events("id: a-2\ndata: " + json.dumps(progress(calls[0], 2)) + "\n\n", script.text(calls[0], "whole"))
        answer.end()

    script.on_tools_call, script.on_GET = play, resume
    seen = []
    with connect(script, **way) as client:
        assert client.call_tool("t", on_progress=lambda progress: seen.append(progress.progress)).text == "whole"
    assert seen == [1, 2] and len(calls) == 1


def test_a_silent_stream_is_resumed_over_another_connection(script, monkeypatch):
    # REL-44
    monkeypatch.setattr(http_channel, "SILENT_SECONDS", 0.5)

    def play(request, answer):
        answer.events("id: a-0\nretry: 100\ndata:\n\n")
        answer.hold()

    def listen(request, answer):
        if request.headers.get("last-event-id") != "a-0":
            return answer.status(405)
        call, = script.wait_for("tools/call")
        answer.events(script.text(call, "over another one"))
        return answer.end()

    script.on_tools_call, script.on_GET = play, listen
    with connect(script) as client:
        assert client.call_tool("t").text == "over another one"


def test_a_stream_that_is_polled(script):
    # HTTP-14, HTTP-18: the server ends the response as often as it likes.
    calls = []

    def play(request, answer):
        calls.append(request)
        answer.events("id: p-0\nretry: 5\ndata:\n\n")
        answer.end()

    def resume(request, answer):
        last = request.headers.get("last-event-id")
        if last is None:
            return answer.status(405)
        number = int(last.partition("-")[2])
        answer.events(f"id: p-{number + 1}\ndata:\n\n")
        if number == 4:
            answer.more(script.text(calls[0], "at last"))
        answer.end()

    script.on_tools_call, script.on_GET = play, resume
    with connect(script) as client:
        assert client.call_tool("t").text == "at last"


@pytest.mark.parametrize("end, said", [("cut", "may or may not have done"), ("end", "without an answer")])
def test_a_stream_without_ids_is_lost_and_nothing_is_sent_twice(script, way, end, said):
    def play(request, answer):
        answer.events(progress(request, 1))
        getattr(answer, end)()

    script.on_tools_call = play
    with connect(script, **way) as client:
        with pytest.raises(mcplite.TransportError, match=said):
            client.call_tool("t", on_progress=lambda progress: None)
        client.ping()
    assert len(script.wait_for("tools/call")) == 1


@pytest.mark.parametrize("status, attempts", [(400, 1), (405, 1), (503, 5)])
@pytest.mark.slow
def test_resumption_is_refused(script, status, attempts):
    def play(request, answer):
        answer.events("id: a-0\nretry: 1\ndata:\n\n")
        answer.cut()

    script.on_tools_call = play
    script.on_GET = lambda request, answer: answer.status(status if "last-event-id" in request.headers else 405)
    with connect(script) as client:
        with pytest.raises(mcplite.TransportError):
            client.call_tool("t", timeout=LIMIT)
    resumed = [request for request in script.requests if "last-event-id" in request.headers]
    assert len(resumed) == attempts


def test_a_json_answer_that_is_cut_short(script, way):
    def play(request, answer):
        answer.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"json")
        answer.cut()

    script.on_tools_call = play
    with connect(script, **way) as client:
        with pytest.raises(mcplite.TransportError, match="broke in the middle"):
            client.call_tool("t")
        client.ping()


def test_an_idle_connection_that_was_closed(script, way):
    # What only reads is sent again; what may have run is not, and says so.
    first = []

    def once(request, answer):
        if not first:
            first.append(request)
            return answer.cut()
        return NotImplemented

    script.on_ping = once
    with connect(script, **way, listen=False) as client:
        client.ping()
    assert len(script.wait_for("ping")) == 2


KEPT = "the connection to {} that was kept open since an earlier request broke before the request was answered"


def test_the_error_of_a_kept_connection_that_was_closed_says_what_was_tried(script):
    script.on_ping = script.on_tools_call = lambda request, answer: answer.cut()
    with connect(script, listen=False) as client, pytest.raises(mcplite.TransportError) as twice:
        client.ping()
    with connect(script, listen=False) as client, pytest.raises(mcplite.TransportError) as once:
        client.call_tool("t")
    for raised in (twice, once):
        assert KEPT.format(script.url) in str(raised.value) and "cannot reach" not in str(raised.value)
    assert "second attempt" in str(twice.value) and len(script.wait_for("ping")) == 2
    assert "so 'tools/call' was not sent again" in str(once.value) and len(script.wait_for("tools/call")) == 1


def test_the_error_of_a_new_connection_that_was_closed_does_not_say_that_it_was_not_reached():
    with WebScript() as script:
        script.on_initialize = lambda request, answer: answer.cut()
        with pytest.raises(mcplite.TransportError, match=f"the connection to {script.url} broke before the request"):
            mcplite.connect(script.url, options=mcplite.ClientOptions(era="legacy")).open()


# --- sessions that are lost ----------------------------------------------------------------------------------------


class Forgetful(WebScript):
    """A server that forgets its session when told to.

    :param refuse: answers what is sent in a session that it does not know.
    """

    def __init__(self, refuse=lambda answer: answer.status(404)):
        super().__init__()
        self._refuse = refuse
        self._lock = threading.Lock()
        self._count = 0
        self.forget()

    def forget(self):
        with self._lock:
            self._count += 1
            self.session = f"s{self._count}"

    def refuses(self, request, answer):
        lost = request.does != "initialize" and request.headers.get("mcp-session-id") != self.session
        if lost:
            self._refuse(answer)
        return lost


def test_a_lost_session_is_reopened_once_for_all_threads():
    # SESS-09
    with Forgetful() as script:
        script.on_tools_call = lambda request, answer: answer.json(script.text(request, script.session))
        with connect(script) as client, ThreadPoolExecutor(16) as pool:
            client.set_log_level("info")
            client.set_log_level("warning")
            client.subscribe_resource("a://b")
            client.subscribe_resource("a://c")
            client.unsubscribe_resource("a://c")
            script.forget()
            texts = [result.text for result in pool.map(lambda _: client.call_tool("t"), range(64))]
        assert texts == ["s2"] * 64
        opened = script.wait_for("initialize")
        assert len(opened) == 2 and "mcp-session-id" not in opened[1].headers
        assert [r.message["params"]["level"] for r in script.wait_for("logging/setLevel")] == ["info", "warning", "warning"]
        subscribed = [r for r in script.wait_for("resources/subscribe") if r.headers["mcp-session-id"] == "s2"]
        assert [r.message["params"]["uri"] for r in subscribed] == ["a://b"]


def bad_request(text, **members):
    body = json.dumps({"jsonrpc": "2.0", "error": {"code": -32000, "message": text}, **members})
    return lambda answer: answer.status(400, body, Content_Type="application/json")


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("refuse", [
    lambda answer: answer.status(404), bad_request("Session not found"),
    bad_request("Bad Request: No valid session ID provided", id=None),
    bad_request("Bad Request: Server not initialized", id=None), bad_request("Unknown session", id="server-error"),
    lambda answer: answer.status(400, "Invalid session ID\n", Content_Type="text/plain; charset=utf-8"),
    lambda answer: answer.status(400, "<h1>Session expired</h1>")])
def test_a_lost_session_is_told_by_404_or_by_400_that_says_so(refuse, used):
    # 400 as the servers of the TypeScript SDK's examples say after they were restarted
    with Forgetful(refuse) as script:
        with connect(script) as client:
            if used:
                client.ping()
            script.forget()
            client.call_tool("t")
            client.ping()
            script.forget()
            client.notify("notifications/roots/list_changed")
        assert len(script.wait_for("initialize")) == 3
        assert [r.headers["mcp-session-id"] for r in script.wait_for("tools/call")] == ["s1", "s2"]


@pytest.mark.parametrize("refuse, kind, inits", [
    (bad_request("arguments are too long", id=None), mcplite.errors.HTTPStatusError, 1),
    (lambda answer: answer.status(400), mcplite.errors.HTTPStatusError, 1),
    (lambda answer: answer.status(403, "no session"), mcplite.errors.HTTPStatusError, 1),
    (bad_request("No valid session ID provided", id=None), mcplite.errors.HTTPStatusError, 2)])
def test_another_400_is_an_error_and_so_is_one_in_the_new_session(refuse, kind, inits):
    with WebScript() as script:
        script.on_ping = lambda request, answer: refuse(answer)
        with connect(script) as client:
            for _ in range(2):
                with pytest.raises(kind):
                    client.request("ping")
        assert len(script.wait_for("initialize")) == inits


@pytest.mark.parametrize("refuse", [
    bad_request("Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)", id=None),
    lambda answer: answer.status(400, "Unsupported protocol version")])
def test_after_a_400_about_the_revision_another_one_is_offered_by_renewals_too(refuse):
    with Forgetful() as script:
        script.version = "2025-06-18"
        script.on_initialize = lambda request, answer: (
            NotImplemented if request.message["params"]["protocolVersion"] == script.version else refuse(answer))
        with connect(script) as client:
            assert client.protocol_version == "2025-06-18"
            script.forget()
            client.ping()
        assert len(script.wait_for("initialize")) == 3


def test_a_400_that_answers_the_request_is_no_lost_session(script):
    script.on_ping = lambda request, answer: bad_request("no such session", id=request.message["id"])(answer)
    with connect(script) as client:
        for _ in range(2):
            with pytest.raises(mcplite.RemoteError, match="no such session"):
                client.ping()
    assert len(script.wait_for("initialize")) == 1


def test_a_call_that_was_lost_while_it_was_served_is_not_sent_again():
    with Forgetful() as script:
        def play(request, answer):
            answer.events("id: a-0\nretry: 1\ndata:\n\n")
            script.forget()
            answer.cut()

        script.on_tools_call = play
        with connect(script) as client:
            with pytest.raises(mcplite.errors.SessionLost):
                client.call_tool("t")
            client.ping()  # in a new session
        assert len(script.wait_for("tools/call")) == 1


def test_a_server_that_forgets_every_session_is_given_up():
    # REL-47: no more than three new sessions a minute, for all callers together.
    with WebScript() as script:
        script.on_ping = lambda request, answer: answer.status(404)
        with connect(script, listen=False) as client:
            for _ in range(5):
                with pytest.raises(mcplite.errors.SessionLost) as caught:
                    client.ping()
            assert "3 times within a minute" in str(caught.value)
        assert len(script.wait_for("initialize")) == 4


def test_a_server_without_a_get_stream_that_says_404(script):
    script.on_GET = lambda request, answer: answer.status(404)
    with connect(script) as client:
        client.ping()
        assert len(script.wait_for("GET")) == len(script.wait_for("initialize")) == 1


# --- the GET stream ---------------------------------------------------------------------------------------------------


def cut_once(request, answer):
    """Cut the first GET stream, and send a change on the one that resumes it."""
    if "last-event-id" not in request.headers:
        answer.events("id: g-1\nretry: 5\ndata:\n\n")
        return answer.cut()
    answer.events({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    return answer.hold()


def test_the_get_stream_is_resumed_behind_its_last_event(script):
    # HTTP-28
    script.on_GET = cut_once
    changed = threading.Event()
    with connect(script, on_tools_changed=changed.set):
        assert changed.wait(LIMIT)
    assert [request.headers.get("last-event-id") for request in script.wait_for("GET", 2)][:2] == [None, "g-1"]


def test_the_get_stream_restarts_when_its_events_are_gone(script):
    def listen(request, answer):
        seen = len(script.wait_for("GET"))
        if seen == 1:
            answer.events("id: g-1\nretry: 5\ndata:\n\n")
            return answer.cut()
        if "last-event-id" in request.headers:
            return answer.status(400)
        return answer.hold()

    script.on_GET = listen
    with connect(script):
        assert [request.headers.get("last-event-id") for request in script.wait_for("GET", 3)] == [None, "g-1", None]


@pytest.mark.parametrize("first", ["", ": hello\n\n", "retry: 1\n\n", "id: a\nretry: 0\ndata:\n\n"])
@pytest.mark.slow
def test_a_get_stream_that_ends_at_once_is_asked_for_with_growing_pauses(script, first):
    at = []

    def listen(request, answer):
        at.append(time.monotonic())
        answer.events(first) if first else answer.events()
        answer.end()

    script.on_GET = listen
    with connect(script):
        script.wait_for("GET", 4)
    pauses = [after - before for before, after in zip(at, at[1:])]
    assert pauses[0] >= 0.5 and pauses[2] > 1.8


@pytest.mark.slow
def test_a_stream_that_brings_messages_is_followed_by_the_next_after_half_a_second(script):
    at = []

    def listen(request, answer):
        at.append(time.monotonic())
        answer.events("retry: 1\n\n", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        answer.end()

    script.on_GET = listen
    with connect(script):
        script.wait_for("GET", 4)
    assert 1.5 <= at[3] - at[0]


@pytest.mark.parametrize("id, sent", [
    ("\u00e9v\u00e9nement-\u65e5\u672c", None), ("\U0001f600", None), ("a\x01b\x7fc", "abc"), ("  a b ", "a b"),
    ("\xff", None)])
@pytest.mark.slow
def test_ids_of_events_go_back_as_the_bytes_that_came(script, id, sent):
    def call(request, answer):
        answer.events(f"id: {id}\nretry: 5\ndata:\n\n")
        answer.cut()

    def listen(request, answer):
        if "last-event-id" not in request.headers:
            answer.events(f"id: {id}\nretry: 5\ndata:\n\n")
            return answer.cut()
        called = [r for r in script.requests if r.does == "tools/call"]
        return answer.events(*(script.text(r, "resumed") for r in called)) or answer.hold()

    script.on_tools_call, script.on_GET = call, listen
    with connect(script) as client:
        assert client.call_tool("t").text == "resumed"
        seen = {r.headers.get("last-event-id") for r in script.wait_for("GET", 3)} - {None}
    assert seen == {id.encode().decode("latin-1") if sent is None else sent}


def test_a_server_that_begins_its_stream_with_the_first_event_delays_nothing(script):
    script.on_GET = lambda request, answer: answer.hold()
    with connect(script) as client:  # within the limit of every test, while the stream is silent
        client.ping()
        assert script.wait_for("GET")


@pytest.mark.slow
def test_a_silent_stream_is_opened_again(script, monkeypatch):
    # A peer that is gone without a word: nothing breaks, and nothing comes.
    monkeypatch.setattr(http_endpoint, "SILENT_SECONDS", 0.5)

    def listen(request, answer):
        answer.events("id: g-1\nretry: 100\ndata:\n\n")
        answer.hold()

    script.on_GET = listen
    with connect(script):
        assert [request.headers.get("last-event-id") for request in script.wait_for("GET", 2)][:2] == [None, "g-1"]


@pytest.mark.parametrize("how", [{}, {"refuse": bad_request("Session not found", id=None)}], ids=["404", "400"])
def test_the_get_stream_reopens_a_lost_session(how):
    with Forgetful(**how) as script:
        def listen(request, answer):
            if request.headers["mcp-session-id"] == "s1":
                answer.events("id: g-1\nretry: 5\ndata:\n\n")
                script.forget()
                return answer.cut()
            return answer.hold()

        script.on_GET = listen
        with connect(script):
            script.wait_for("initialize", 2)


# --- other servers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_origin_is_followed(script, status, way):
    moved = script.origin + "/elsewhere"

    def play(request, answer):
        if request.path == "/mcp":
            return answer.status(status, Location="/elsewhere")
        return script.play(request, answer)

    script._play = play
    with connect(script, **way) as client:
        client.ping()
    assert moved.endswith(script.requests[1].path)


@pytest.mark.slow
def test_a_redirect_to_another_url_each_time_leaves_nothing_behind(script, way):
    numbers = itertools.count()

    def play(request, answer):
        if request.path == "/mcp":
            return answer.status(307, Location=f"/elsewhere?{next(numbers)}")
        return script.play(request, answer)

    def remembered():
        """Return how many objects hold one of the URLs."""
        script.requests.clear()
        gc.collect()
        return sum(any(type(part) is str and "/elsewhere?" in part for part in gc.get_referents(thing))
                   for thing in gc.get_objects())

    script._play = play
    with connect(script, **way, listen=False) as client:
        client.ping()
        before = remembered()
        for _ in range(100):
            client.ping()
        assert next(numbers) > 100 and remembered() - before < 50


@pytest.mark.parametrize("status, location", [
    (307, "http://localhost:1/mcp"), (301, "/elsewhere"), (302, "/x"), (307, "ftp://x/")])
def test_other_redirects_are_not_followed(script, status, location, way):
    # SESS-04: neither the session id nor a token goes to another origin.
    script.on_ping = lambda request, answer: answer.status(status, Location=location)
    with connect(script, **{"auth": "secret-token", **way}) as client:
        with pytest.raises(mcplite.TransportError, match="redirect") as caught:
            client.ping()
    assert "secret-token" not in str(caught.value)


def test_redirects_in_circles(script, way):
    script.on_ping = lambda request, answer: answer.status(307, Location="/mcp")
    with connect(script, **way) as client, pytest.raises(mcplite.TransportError, match="in a circle"):
        client.ping()


def test_a_restart_of_the_server_under_a_client_that_calls():
    mcp = mcplite.Server("short-lived")

    @mcp.tool(annotations={"readOnlyHint": True})
    def add(a: int, b: int) -> int:
        return a + b

    with mcplite.serve(mcp) as server:
        port = server.port
        client = mcplite.connect(server.url, timeout=LIMIT).open()
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"
    with pytest.raises(mcplite.TransportError):
        client.call_tool("add", {"a": 1, "b": 2})
    with mcplite.serve(mcp, port=port), client:
        assert client.call_tool("add", {"a": 1, "b": 3}).text == "4"


# --- requests' own ways ------------------------------------------------------------------------------------------------


def test_the_password_file_of_the_user_is_not_read_and_cookies_are_not_kept(script, monkeypatch, tmp_path):
    # SEC-66
    script.on_ping = lambda request, answer: answer.json(script.result(request, {}), Set_Cookie="track=1; Path=/")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password pw\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with connect(script) as client:
        client.ping()
        client.ping()
    assert not any({"authorization", "cookie"} & set(request.headers) for request in script.requests)


# --- timeouts that end before there is a connection ---------------------------------------------------------


def test_the_shortest_timeouts_are_timeouts(script):
    with connect(script) as client:
        for step in range(100):
            # Some are answered in time: each wait is a millisecond at least, and the clock of Windows ticks 64 times a second.
            for limits in ({"timeout": (step + 1) * 1e-6}, {"timeout": 1e-6, "max_timeout": (step + 1) * 1e-6}):
                with contextlib.suppress(mcplite.RequestTimeout):
                    client.request("ping", **limits)


@pytest.mark.slow
def test_short_timeouts_are_timeouts_under_many_threads(script, way):
    others = []

    def call():
        for _ in range(8):
            try:
                client.ping(timeout=0.01)
            except mcplite.RequestTimeout:
                pass
            except Exception as error:
                others.append(error)

    with connect(script, **way) as client:
        at_once(call, 64)
    assert not others, others[:3]


def owed(number, kind):
    """A request that is answered on the thread that reads."""
    if kind == "a ping":
        return {"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"}
    if kind == "an id in use":
        return {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}
    return {"jsonrpc": "2.0", "id": f"p{number}", "method": 7}


class Asking(WebScript):
    """Asks on the response of each call, which is not answered, and does what *take* says with the answers."""

    def __init__(self, kind="a ping", count=3):
        super().__init__()
        self.kind, self.count = kind, count
        self.answers, self.overdue = [], threading.Event()

    def take(self, request, answer):
        if not self.closing.wait(LIMIT):
            self.overdue.set()
        answer.cut()

    def on_POST(self, request, answer):
        self.answers.append(request.message["id"])
        return self.take(request, answer)

    def on_tools_call(self, request, answer):
        answer.events(*[owed(number, self.kind) for number in range(self.count)])
        self.asked(request, answer)

    def asked(self, request, answer):
        answer.hold()


@pytest.mark.parametrize("kind", ["a ping", "an id in use", "no message"])
@pytest.mark.parametrize("ending", ["timeout", "max_timeout", "cancel"])
@pytest.mark.slow
def test_a_call_ends_in_time_though_the_server_does_not_take_answers(kind, ending, monkeypatch):
    monkeypatch.setattr(peer_module, "_ANSWER_SECONDS", 300.0)
    over, token = threading.Event(), mcplite.CancelToken()
    with Asking(kind) as script:
        with connect(script, elicitation_handler=lambda request: over.wait(LIMIT) and False) as client:
            options = {"cancel": token} if ending == "cancel" else {ending: 0.5}
            if ending == "cancel":
                script.asked = lambda request, answer: token.cancel() and answer.hold()
            if kind == "an id in use":
                # The clock stands still while the first question is answered; here it is answered for the rest of the test.
                monkeypatch.setattr(mcplite.rpc.pending.Clock, "pause", lambda clock: None)
                monkeypatch.setattr(mcplite.rpc.pending.Clock, "resume", lambda clock: None)
            with pytest.raises(mcplite.Cancelled if ending == "cancel" else mcplite.RequestTimeout):
                client.call_tool("t", **options)
            over.set()
        assert not script.overdue.is_set()  # neither the call nor close() has waited for an answer


def test_answers_arrive_in_order():
    with Asking(count=30) as script:
        arrived = threading.Event()

        def take(request, answer):
            if len(script.answers) == 30:
                arrived.set()
            answer.status(202)

        def asked(request, answer):
            assert arrived.wait(LIMIT)
            answer.more(script.text(request, "thanks"))
            answer.end()

        script.take, script.asked = take, asked
        with connect(script) as client:
            assert client.call_tool("t").text == "thanks"
        assert script.answers == [f"p{number}" for number in range(30)]


def test_answers_that_are_sent_again_have_so_many_threads(monkeypatch):
    monkeypatch.setattr(channel_module, "_MOST_AGAIN", 2)
    threads = []
    with Asking(count=20) as script:
        def asked(request, answer):
            script.wait_for("POST", 20)
            threads.extend(thread.name for thread in threading.enumerate() if thread.name == "mcplite handler")
            answer.more(script.text(request, "thanks"))
            answer.end()

        script.take, script.asked = lambda request, answer: answer.cut(), asked
        with connect(script) as client:
            assert client.call_tool("t").text == "thanks"
    assert 1 <= len(threads) <= 3  # the queue has one of them
