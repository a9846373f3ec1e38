"""Libraries that change sessions, or requests for the whole process: each does with a client what it does with requests."""

import json
import time

import pytest
import requests

import mcplite
from mcplite.net.exchange import Exchange
from mcplite.net.origin_client import OriginClient
from tests.support import connecting
from tests.support.webscript import WebScript

LIMIT = 30
#: Where no server is: what answers is the library.
NOWHERE = "http://mcp.invalid/mcp"


@pytest.fixture
def url():
    """The URL of a real server with one tool."""
    with mcplite.serve(make_server()) as server:
        yield server.url


@pytest.fixture
def script():
    """A server that notes the headers of requests."""
    with WebScript() as script:
        yield script


@pytest.fixture(params=["session", "no session"])
def options(request):
    """What ``connect`` is given: the libraries are used either way."""
    if request.param == "no session":
        yield {"timeout": LIMIT}
        return
    with requests.Session() as session:
        yield {"timeout": LIMIT, "session": session}


def make_server():
    mcp = mcplite.Server("stack")

    @mcp.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return mcp


def add(url, **options):
    with connecting.connect(url, **options) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).text


def canned(request):
    """Return what a server of the legacy era answers to a request, as status, headers and text."""
    message = json.loads(request.body or "{}")
    if "id" not in message:
        return 202, {}, ""
    result = {"content": [{"type": "text", "text": "canned"}]}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return 200, {"Content-Type": "application/json"}, json.dumps(answer)


# --- responses ---------------------------------------------------------------------------------------------------------

def test_responses(options):
    responses = pytest.importorskip("responses")
    with responses.RequestsMock() as mock:
        mock.add_callback("POST", NOWHERE, canned)
        assert add(NOWHERE, era="legacy", listen=False, **options) == "canned"
        assert [json.loads(call.request.body).get("method") for call in mock.calls] == [
            "initialize", "notifications/initialized", "tools/call"]


def test_responses_without_an_answer(options):
    responses = pytest.importorskip("responses")
    with responses.RequestsMock(), pytest.raises(mcplite.TransportError, match="Connection refused by Responses"):
        add(NOWHERE, era="legacy", **options)


def test_responses_that_let_requests_pass(options, url):
    responses = pytest.importorskip("responses")
    with responses.RequestsMock() as mock:
        mock.add_passthru(url)
        assert add(url, **options) == "3"


def test_responses_behind_a_guard():
    # The way of requests to authorization servers: the addresses are checked, and the library is seen all the same.
    responses = pytest.importorskip("responses")
    with responses.RequestsMock() as mock:
        mock.get(NOWHERE, body="canned")
        client = OriginClient(NOWHERE, guard=lambda host, port: [])
        assert client.send(Exchange(lambda: float(LIMIT)), "GET", None, {}).read(100) == b"canned"
        client.close()


# --- requests_mock -----------------------------------------------------------------------------------------------------

def answer_as_canned(request, context):
    context.status_code, headers, text = canned(request)
    context.headers.update(headers)
    return text


def test_requests_mock(options):
    requests_mock = pytest.importorskip("requests_mock")
    with requests_mock.Mocker() as mock:
        mock.post(NOWHERE, text=answer_as_canned)
        assert add(NOWHERE, era="legacy", listen=False, **options) == "canned"
        assert mock.call_count == 3


def test_requests_mock_that_lets_requests_pass(options, url):
    requests_mock = pytest.importorskip("requests_mock")
    with requests_mock.Mocker(real_http=True):
        assert add(url, **options) == "3"


@pytest.mark.parametrize("mounted", [True, False])
def test_requests_mock_for_one_session(mounted, url):
    requests_mock = pytest.importorskip("requests_mock")
    with requests.Session() as session:
        mock = requests_mock.Adapter() if mounted else requests_mock.Mocker(session=session)
        mock.register_uri("POST", NOWHERE, text=answer_as_canned)
        if mounted:
            session.mount("http://mcp.invalid/", mock)
        else:
            mock.start()
        assert add(NOWHERE, era="legacy", listen=False, session=session, timeout=LIMIT) == "canned"
        assert add(url, timeout=LIMIT) == "3"  # other clients are not concerned
        if not mounted:
            mock.stop()


# --- vcrpy -------------------------------------------------------------------------------------------------------------

def test_vcrpy_records_and_plays(options, tmp_path):
    vcr = pytest.importorskip("vcr")
    cassette = str(tmp_path / "add.yaml")
    settings = {"match_on": ["method", "uri", "body"]}
    with mcplite.serve(make_server()) as server:
        with vcr.use_cassette(cassette, record_mode="once", **settings) as recorded:
            assert add(server.url, era="modern", **options) == "3"
        assert len(recorded) >= 1 and not recorded.play_count
        url = server.url
    # There is no server any more.
    with vcr.use_cassette(cassette, record_mode="none", allow_playback_repeats=True, **settings) as played:
        assert add(url, era="modern", **options) == "3"
        assert played.all_played
        with connecting.connect(url, era="modern", **options) as client:
            with pytest.raises(mcplite.TransportError, match="CannotOverwriteExisting"):
                client.call_tool("add", {"a": 5, "b": 6})


# --- OpenTelemetry -----------------------------------------------------------------------------------------------------

def test_opentelemetry(options, script):
    pytest.importorskip("opentelemetry.sdk")
    instrumentation = pytest.importorskip("opentelemetry.instrumentation.requests")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = instrumentation.RequestsInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with provider.get_tracer("test").start_as_current_span("mine") as mine:
            with connecting.connect(script.url, era="legacy", listen=False, **options) as client:
                client.ping()
    finally:
        instrumentor.uninstrument()
        provider.shutdown()
    spans = [span for span in exporter.get_finished_spans() if span.name == "POST"]
    assert len(spans) == 3 and {span.parent.span_id for span in spans} == {mine.get_span_context().span_id}
    ping, = script.wait_for("ping")
    assert ping.headers["traceparent"].split("-")[1] == f"{mine.get_span_context().trace_id:032x}"


# --- requests-oauthlib -------------------------------------------------------------------------------------------------

@pytest.fixture
def oauth(monkeypatch):
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # the servers are of this machine
    return pytest.importorskip("requests_oauthlib")


def token(name, seconds=3600):
    return {"access_token": name, "token_type": "Bearer", "refresh_token": "r", "expires_at": time.time() + seconds}


def test_an_oauth_session_sends_its_token(oauth, script):
    with oauth.OAuth2Session("me", token=token("t0ken")) as session:
        with mcplite.connect(script.url, session=session, options=mcplite.ClientOptions(era="legacy"), timeout=LIMIT) as client:
            client.ping()
    assert {request.does for request in script.requests} >= {"initialize", "ping", "GET", "DELETE"}
    assert {request.headers["authorization"] for request in script.requests} == {"Bearer t0ken"}


def test_an_oauth_session_refreshes_its_token(oauth, script):
    def grant(request, answer):
        answer.json({"access_token": "new", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r2"})

    saved = []
    with WebScript(grant) as tokens:
        with oauth.OAuth2Session("me", token=token("old", -1), auto_refresh_url=tokens.url, auto_refresh_kwargs={},
                                 token_updater=saved.append) as session:
            with mcplite.connect(script.url, session=session, options=mcplite.ClientOptions(era="legacy", listen=False),
                                 timeout=LIMIT) as client:
                client.ping()
    assert {request.headers["authorization"] for request in script.requests} == {"Bearer new"}
    assert b"grant_type=refresh_token" in tokens.requests[0].body and len(tokens.requests) == 1
    assert saved[0]["access_token"] == "new"


def test_an_oauth_session_that_may_not_send_says_why(oauth, script, monkeypatch):
    monkeypatch.delenv("OAUTHLIB_INSECURE_TRANSPORT")
    with oauth.OAuth2Session("me", token=token("t0ken")) as session:
        with pytest.raises(mcplite.TransportError, match="InsecureTransportError: .*https") as caught:
            mcplite.connect(script.url, session=session).open()
    assert script.requests == [] and "t0ken" not in str(caught.value)


def test_an_oauth1_session_signs_each_request(oauth, script):
    with oauth.OAuth1Session("key", "secret", "token", "more") as session:
        with mcplite.connect(script.url, session=session, options=mcplite.ClientOptions(era="legacy", listen=False),
                             timeout=LIMIT) as client:
            client.ping()
    signed = [request.headers["authorization"] for request in script.requests]
    assert len(set(signed)) == len(signed) and all(one.startswith("OAuth ") for one in signed)
