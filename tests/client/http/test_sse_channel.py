"""HTTP with SSE, a client's side: the stream that says everything, and how it is found."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

import mcplite
from mcplite.client.http import sse_channel
from tests.support import connecting
from tests.support.oldserver import OldServer
from tests.support.webscript import WebScript

LIMIT = 30


@pytest.fixture
def script():
    with OldServer() as script:
        yield script


def connect(script, **options):
    return connecting.connect(script.url, **{"type": "sse", "timeout": LIMIT, **options})


@pytest.fixture(params=["direct", "session"])
def way(request):
    """The options for two of the ways that requests can go."""
    if request.param == "direct":
        yield {}
        return
    with requests.Session() as session:
        yield {"session": session}


def test_a_server_of_http_sse_is_detected(script, way):
    # LSSE-12, LSSE-13: a POST first, without a handshake and with one, then the stream.
    with connect(script, type=None, **way) as client:
        assert client.protocol_version == "2024-11-05"
        client.ping()
    assert [(request.method, request.path) for request in script.requests][:4] == [
        ("POST", "/sse"), ("POST", "/sse"), ("GET", "/sse"), ("POST", "/post?id=1")]  # LSSE-03
    assert all("mcp-session-id" not in request.headers for request in script.requests)


@pytest.mark.parametrize("endpoint", ["/post?id=1", "{}/post?id=2"])
def test_type_sse_skips_detection(script, endpoint):
    script.endpoint = endpoint.format(script.origin)
    with connect(script, headers={"X-Mine": "yes"}) as client:
        client.ping()
    assert script.requests[0].method == "GET" and all(r.headers["x-mine"] == "yes" for r in script.requests)


@pytest.mark.parametrize("status", [400, 404])
def test_statuses_that_lead_to_http_sse(script, status):
    def refuse(request, answer):
        return answer.status(status) if request.path == "/sse" else NotImplemented

    script.on_initialize = refuse
    with connect(script, type=None) as client:
        client.ping()


@pytest.mark.parametrize("status, error",
                         [(401, mcplite.errors.AuthError), (500, mcplite.errors.HTTPStatusError),
                          (403, mcplite.errors.HTTPStatusError)])
def test_failures_that_do_not_lead_to_http_sse(script, status, error):
    script.on_initialize = lambda request, answer: answer.status(status)
    with pytest.raises(error):
        connect(script, type=None).open()
    assert [request.does for request in script.requests] == ["server/discover", "initialize"]


def test_a_server_with_neither_transport():
    with WebScript(lambda request, answer: answer.status(404, "nothing here")) as script:
        with pytest.raises(mcplite.errors.HTTPStatusError, match="'initialize' with 404: nothing here"):
            connect(script, type=None).open()


@pytest.mark.parametrize("endpoint", ["http://localhost:1/post", "//evil.example/post", "ftp://x/"])
def test_an_endpoint_elsewhere_is_refused(script, endpoint):
    script.endpoint = endpoint  # SEC-20
    with pytest.raises(mcplite.errors.ProtocolError, match="another origin"):
        connect(script).open()


def test_the_end_of_the_stream_ends_the_connection(script):
    # LSSE-10
    gone = threading.Event()
    with connect(script, on_disconnect=lambda error: gone.set()) as client:
        script.on_ping = lambda request, answer: (answer.status(202), script._streams[-1].end())
        with pytest.raises(mcplite.errors.ConnectionClosed, match="ended its event stream"):
            client.ping()
        assert gone.wait(LIMIT)


def test_a_message_that_is_refused(script):
    with connect(script) as client:
        script.on_ping = lambda request, answer: answer.status(404, "no such session")
        with pytest.raises(mcplite.errors.HTTPStatusError, match="404: no such session"):
            client.ping()


def test_a_busy_server_gets_the_pause_that_it_asks_for(script):
    refusals = [503, 429]

    def busy(request, answer):
        return answer.status(refusals.pop(), Retry_After="0") if refusals else NotImplemented

    with connect(script) as client:
        script.on_ping = busy
        client.ping()
        assert len(script.wait_for("ping", 3)) == 3
        script.on_tools_call = lambda request, answer: answer.status(503, Retry_After="7")
        with pytest.raises(mcplite.errors.HTTPStatusError) as caught:
            client.request("tools/call", {"name": "t"})
        assert caught.value.retry_after == 7


def test_close_ends_a_waiting_call(script):
    script.on_ping = lambda request, answer: answer.status(202)
    with connect(script) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.ping)
        script.wait_for("ping")
        client.close()
        with pytest.raises(mcplite.errors.ConnectionClosed):
            waiting.result(LIMIT)


def test_a_post_that_is_never_answered(script):
    script.on_ping = lambda request, answer: answer.hold()
    with connect(script) as client:
        with pytest.raises(mcplite.RequestTimeout):
            client.ping(timeout=0.2)


@pytest.mark.parametrize("play, error, said", [
    (lambda request, answer: answer.status(200, "hello", Content_Type="text/plain"), mcplite.errors.HTTPStatusError,
     "instead of an event stream"),
    (lambda request, answer: answer.events("event: endpoint\ndata: /x\n\n", Content_Encoding="gzip") or answer.hold(),
     mcplite.errors.ProtocolError, "compressed"),
], ids=["none", "compressed"])
def test_no_stream_that_can_be_read(play, error, said):
    with WebScript(play) as script, pytest.raises(error, match=said):
        connect(script).open()


def test_a_stream_without_an_endpoint_fails_within_the_time_for_opening():
    class Silent(OldServer):
        def play(self, request, answer):
            return answer.hold()

    with Silent() as server, pytest.raises(mcplite.MCPError, match=r"within 0\.3 s"):
        connect(server, open_timeout=0.3).open()


def test_a_cancel_notice_that_is_not_taken_holds_up_no_call(script, monkeypatch):
    monkeypatch.setattr(sse_channel, "_SOON_SECONDS", 300)
    overdue = threading.Event()

    def hold(request, answer):
        if not script.closing.wait(LIMIT):
            overdue.set()
        answer.cut()

    script.on_tools_call, script.on_notifications_cancelled = lambda request, answer: answer.status(202), hold
    with connect(script) as client:
        with pytest.raises(mcplite.RequestTimeout):
            client.call_tool("t", timeout=0.1)
        script.wait_for("notifications/cancelled")
    assert not overdue.is_set()
