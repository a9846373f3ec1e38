"""Sessions without a handshake: the content of requests, the reading of answers, headers and cancellation."""

import base64
import json
import logging
import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.client import output_schemas
from mcplite.client.sessions.modern import choose
from mcplite.errors import HeaderMismatch, ProtocolError, RequestTimeout, UnsupportedVersion
from mcplite.types import Implementation
from tests.support import connecting
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal, start
from tests.support.webscript import WebScript

VERSION = revisions.NEWEST.name
PREFIX = "io.modelcontextprotocol/"
#: The extension that each client declares.
TASKS = {PREFIX + "tasks": {}}
DISCOVERED = {"resultType": "complete", "supportedVersions": [VERSION], "ttlMs": 0, "cacheScope": "private",
              "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}}
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


class Pipe(Fake):
    """A modern server on a pipe."""

    def __init__(self, answers=None):
        super().__init__({"server/discover": DISCOVERED, "tools/call": DONE, **(answers or {})})

    def connect(self, **options):
        return super().connect(**{"era": "modern", **options})


class Site(WebScript):
    """A modern server behind a URL, with the tools of a test."""

    def __init__(self, *tools, ttl=0):
        super().__init__()
        self.tools, self.ttl = list(tools), ttl

    def on_server_discover(self, request, answer):
        answer.json(self.result(request, DISCOVERED))

    def on_tools_list(self, request, answer):
        answer.json(self.result(request, {"resultType": "complete", "tools": self.tools,
                                          "ttlMs": self.ttl, "cacheScope": "private"}))

    def on_tools_call(self, request, answer):
        answer.json(self.result(request, DONE))

    def connect(self, **options):
        return connecting.connect(self.url, **{"timeout": LIMIT, "era": "modern", **options})

    @property
    def saw(self):
        return [request.does for request in self.requests]

    @property
    def call(self):
        """The last tool call."""
        return self.wait_for("tools/call")[-1]


def tool(name="t", **properties):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def marked(header, kind="string"):
    return {"type": kind, "x-mcp-header": header}


@pytest.fixture
def pipe():
    with Pipe() as pipe:
        yield pipe


@pytest.fixture
def site():
    with Site() as site:
        yield site


# --- the content of requests -------------------------------------------------------------------------------


USES = {
    "tools/call": lambda client: client.call_tool("t"), "tools/list": lambda client: client.list_tools(),
    "resources/read": lambda client: client.read_resource("a:b"),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates(),
    "prompts/get": lambda client: client.get_prompt("p"), "prompts/list": lambda client: client.list_prompts(),
    "completion/complete": lambda client: client.complete(prompt="p", argument="a", value=""),
    "server/discover": lambda client: client.ping(), "example/own": lambda client: client.request("example/own"),
}
EVERYTHING = {**DONE, "tools": [], "resources": [], "resourceTemplates": [], "prompts": [], "contents": [],
              "messages": [], "completion": {"values": []}, "ttlMs": 0, "cacheScope": "private"}


@pytest.mark.parametrize("method", USES)
def test_every_request_identifies_the_client(method):
    # STAT-01, STAT-02, STAT-24
    answers = {name: EVERYTHING for name in USES if name != "server/discover"}
    with Pipe(answers) as pipe, pipe.connect(roots=[], elicitation_handler=print, sampling_handler=print) as client:
        USES[method](client)
        assert pipe.sent[-1]["method"] == method
        assert pipe.sent[-1]["params"]["_meta"] == pipe.sent[0]["params"]["_meta"] == {
            PREFIX + "protocolVersion": VERSION,
            PREFIX + "clientCapabilities": {"roots": {}, "sampling": {}, "elicitation": {"form": {}}, "extensions": TASKS},
            PREFIX + "clientInfo": {"name": "mcplite", "version": mcplite.__version__}}


def test_the_identity_of_a_client_can_be_set(pipe):
    info = Implementation(name="host", version="2", title="Host", website_url="https://example.com/")
    with pipe.connect(client_info=info, extensions={"com.example/charts": {"kinds": ["pie"]}},
                      experimental={"com.example/z": {}}) as client:
        client.call_tool("t")
        meta = pipe.got("tools/call")["params"]["_meta"]
        assert meta[PREFIX + "clientInfo"] == {
            "name": "host", "version": "2", "title": "Host", "websiteUrl": "https://example.com/"}
        assert meta[PREFIX + "clientCapabilities"] == {
            "extensions": {"com.example/charts": {"kinds": ["pie"]}, **TASKS}, "experimental": {"com.example/z": {}}}


def test_a_log_level_travels_with_later_requests(pipe):
    key = PREFIX + "logLevel"
    with pipe.connect() as client:
        client.call_tool("t")
        client.set_log_level("warning")
        client.call_tool("t")
        client.call_tool("t")
        client.set_log_level("debug")
        client.call_tool("t")
        assert pipe.methods() == ["server/discover"] + ["tools/call"] * 4
        levels = [message["params"]["_meta"].get(key) for message in pipe.sent]
        assert levels == [None, None, "warning", "warning", "debug"]


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_context_is_read_for_each_request(pipe):
    given = [{"traceparent": PARENT, "tracestate": "a=b", "baggage": "c=d", "other": "x"},
             {"traceparent": "nonsense", "tracestate": "a\nb", "baggage": ""}, {}]
    with pipe.connect(trace_context=lambda: given.pop(0)) as client:
        client.call_tool("t")
        client.call_tool("t")
        metas = [message["params"]["_meta"] for message in pipe.sent]
        traces = [{name: value for name, value in meta.items() if "/" not in name} for meta in metas]
        assert traces == [{"traceparent": PARENT, "tracestate": "a=b", "baggage": "c=d"}, {}, {}]  # META-08


def test_meta_of_a_caller_does_not_replace_required_members(pipe):
    with pipe.connect() as client:
        client.call_tool("t", meta={"com.example/a": 1, PREFIX + "protocolVersion": "1999-01-01"})
        meta = pipe.got("tools/call")["params"]["_meta"]
        assert meta["com.example/a"] == 1 and meta[PREFIX + "protocolVersion"] == VERSION
        params = {"name": "t", "_meta": {"com.example/b": 2}}
        client.request("tools/call", params)
        assert pipe.got("tools/call", 2)["params"]["_meta"]["com.example/b"] == 2
        assert params == {"name": "t", "_meta": {"com.example/b": 2}}  # the caller's own object stays as it is


@pytest.mark.parametrize("params, error", [
    ({"a": object()}, TypeError), ({"a": {(1, 2): 3}}, TypeError), ({"a": float("nan")}, ValueError),
])
def test_params_that_are_not_json_are_not_sent(pipe, params, error):
    with pipe.connect() as client:
        with pytest.raises(error, match="not sent"):
            client.request("example/own", params)
        client.call_tool("t")
        assert "example/own" not in pipe.methods()


def test_methods_of_sessions_are_not_sent(pipe):
    with pipe.connect(roots=["file:///a"]) as client:
        client.set_roots(["file:///b"])
        client.ping()
    assert pipe.all_methods() == ["server/discover"] * 2  # STAT-25


# --- reading the answers ---------------------------------------------------------------------------------------


def test_a_result_without_a_type_is_complete():
    answer = {"content": [{"type": "text", "text": "done"}]}
    with Pipe({"tools/call": answer}) as pipe, pipe.connect() as client:
        assert client.call_tool("t").text == "done"  # STAT-07
        assert client.request("tools/call", {"name": "t"}) == answer


@pytest.mark.parametrize("kind", ["banana", "", "Complete", None, 3, [], ["complete"], {}, True])
def test_a_result_of_an_unknown_type_is_an_error(kind):
    with Pipe({"tools/call": {**DONE, "resultType": kind}}) as pipe:
        with pipe.connect(extensions={"com.example/tasks": {}}) as client:
            with pytest.raises(ProtocolError, match="unknown type"):  # STAT-08, STAT-09
                client.call_tool("t")
            client.ping()


def test_only_calls_of_tools_become_tasks():
    task = {"resultType": "task", "taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "a", "ttlMs": None}
    with Pipe({"tools/call": {**DONE, "resultType": "task"}, "prompts/get": task, "example/own": task}) as pipe:
        with pipe.connect() as client:
            with pytest.raises(ProtocolError, match="invalid result"):
                client.call_tool("t")
            for method in ("prompts/get", "example/own"):
                with pytest.raises(ProtocolError, match="unknown type 'task'"):
                    client.request(method, {"name": "t"})


def test_result_types_of_an_extension_are_accepted():
    answer = {"resultType": "task", "task": {"id": "1"}}
    with Pipe({"tools/call": answer, "example/own": {"resultType": "banana"}}) as pipe:
        with pipe.connect(extensions={"com.example/tasks": {}}, result_types=["task"]) as client:
            assert client.request("tools/call", {"name": "t"}) == answer  # STAT-09
            with pytest.raises(ProtocolError):
                client.request("example/own")


@pytest.mark.parametrize("code, error", [
    (-32022, UnsupportedVersion), (-32021, mcplite.errors.MissingCapability), (-32602, mcplite.errors.InvalidParams),
    (-32601, mcplite.errors.MethodNotFound), (5, mcplite.RemoteError),
])
def test_errors_are_raised_unchanged(code, error):
    data = {"supported": ["2027-01-01"], "requiredCapabilities": {"sampling": {}}}
    with Pipe({"tools/call": Refusal(code, "no", data)}) as pipe, pipe.connect() as client:
        with pytest.raises(error) as caught:
            client.call_tool("t")
        assert caught.value.code == code and caught.value.data == data and caught.value.received
        assert pipe.methods() == ["server/discover", "tools/call"]


def test_requests_of_the_server_are_not_answered(pipe, caplog):
    asked = []
    with pipe.connect(roots=[], elicitation_handler=asked.append, sampling_handler=asked.append) as client:
        client.on("example/own", asked.append)
        for method in ("ping", "roots/list", "elicitation/create", "sampling/createMessage", "example/own"):
            pipe.ask(method, {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
        pipe.ask("ping", id="once more")
        pipe.ask("ping", id="once more")  # the id is free again, so that not even this is answered with an error
        client.call_tool("t")
        assert all("method" in message for message in pipe.sent) and asked == []  # STAT-21, STAT-22
    assert "not answered" in caplog.text and "'roots/list'" in caplog.text


@pytest.mark.parametrize("versions", [[], ["2027-01-01"], [None, 3, {}], ["x" * 1000] * 1000])
def test_no_common_revision(versions):
    with pytest.raises(UnsupportedVersion, match="the server supports") as caught:
        choose(versions, [revisions.NEWEST], "the server")
    assert VERSION in str(caught.value) and len(str(caught.value)) < 2000 and caught.value.data["supported"] == versions


# --- headers ---------------------------------------------------------------------------------------------------


class Willing(Site):
    """A server that has an answer to everything."""

    def play(self, request, answer):
        answer.json(self.result(request, EVERYTHING))


@pytest.mark.parametrize("use, method, name", [
    (lambda client: client.call_tool("t"), "tools/call", "t"),
    (lambda client: client.get_prompt("p"), "prompts/get", "p"),
    (lambda client: client.read_resource("a:b"), "resources/read", "a:b"),
    (lambda client: client.list_tools(), "tools/list", None),
    (lambda client: client.request("example/own", {"name": "n", "uri": "u"}), "example/own", None),
])
def test_headers_repeat_what_is_in_the_body(use, method, name):
    # MHDR-01, MHDR-02, H26-15
    with Willing() as site, site.connect() as client:
        use(client)
    request = site.requests[-1]
    assert request.does == request.headers["mcp-method"] == method and request.headers.get("mcp-name") == name
    meta = request.message["params"]["_meta"]
    assert request.headers["mcp-protocol-version"] == meta[PREFIX + "protocolVersion"] == VERSION
    assert "mcp-session-id" not in request.headers
    assert request.headers["accept"] == "application/json, text/event-stream"


@pytest.mark.parametrize("name", ["größe", " t", "t ", "a\nb", "=?base64?dA==?=", "\U0001f600", "\x7f"])
def test_names_that_do_not_fit_a_header_travel_in_base64(site, name):
    with site.connect() as client:
        client.call_tool(name)
    sent = site.call.headers["mcp-name"]
    assert sent.startswith("=?base64?") and sent.endswith("?=")  # MHDR-08
    assert base64.b64decode(sent[9:-2]).decode() == name == site.call.message["params"]["name"]


def mirrored(request):
    """Return the headers of a request that repeat arguments."""
    return {name[10:]: value for name, value in request.headers.items() if name.startswith("mcp-param-")}


REGION = tool("t", region=marked("Region"), count=marked("Count", "integer"), dry=marked("Dry-Run", "boolean"),
              where={"type": "object", "properties": {"city": marked("City")}}, plain={"type": "string"})


@pytest.mark.parametrize("arguments, headers", [
    ({"region": "eu", "count": 3, "dry": True, "where": {"city": "Bonn"}, "plain": "x"},
     {"region": "eu", "count": "3", "dry-run": "true", "city": "Bonn"}),
    ({"region": "süd", "count": -3.0, "dry": False, "where": {"city": ""}},
     {"region": "=?base64?c8O8ZA==?=", "count": "-3", "dry-run": "false", "city": ""}),
    ({"region": None, "where": None}, {}), ({"where": {}}, {}), ({}, {}),
    ({"where": "Bonn", "region": ["eu"], "count": 1.5}, {}),
])
def test_marked_arguments_travel_in_headers_as_well(arguments, headers):
    # MHDR-11, MHDR-21, MHDR-22
    with Site(REGION) as site, site.connect() as client:
        client.list_tools()
        client.call_tool("t", arguments)
        assert mirrored(site.call) == headers
        assert site.call.message["params"]["arguments"] == arguments


def test_an_integer_beyond_the_safe_range_is_not_sent():
    with Site(REGION) as site, site.connect() as client:
        client.list_tools()
        with pytest.raises(ValueError, match="cannot be sent in a header"):
            client.call_tool("t", {"count": 2 ** 53})
        assert "tools/call" not in site.saw  # MHDR-16


def test_marks_are_those_of_the_tool_that_is_called():
    with Site(REGION, tool("u", region={"type": "string"})) as site, site.connect() as client:
        client.list_tools()
        client.call_tool("u", {"region": "eu"})
        client.call_tool("v", {"region": "eu"})
        assert [mirrored(request) for request in site.wait_for("tools/call", 2)] == [{}, {}]


def test_marks_of_ever_new_names_are_bounded(monkeypatch):
    monkeypatch.setattr(output_schemas, "_MOST_TOOLS", 5)
    with Site() as site, site.connect() as client:
        for n in range(20):
            site.tools = [{**REGION, "name": f"t{n}"}]
            client.list_tools(fresh=True)
        for n in (0, 18, 19):
            client.call_tool(f"t{n}", {"region": "eu"})
        assert [mirrored(request) for request in site.wait_for("tools/call", 3)] == [{}, {"region": "eu"}, {"region": "eu"}]


def test_on_a_pipe_marks_are_not_checked(caplog):
    bad = tool("bad", a=marked("not a name"))
    with Pipe({"tools/list": {"resultType": "complete", "tools": [REGION, bad]}}) as pipe, pipe.connect() as client:
        assert [tool.name for tool in client.list_tools()] == ["t", "bad"]
        assert client.call_tool("bad", {"a": "x"}).text == "done" and caplog.text == ""


@pytest.mark.parametrize("properties", [
    {"a": marked("not a name")}, {"a": marked("")}, {"a": marked(3)}, {"a": marked("A", "object")},
    {"a": marked("A", "number")}, {"a": marked("A"), "b": marked("a")}, {"a": {"type": "array", "items": marked("A")}},
    {"a": {"anyOf": [marked("A"), {"type": "null"}]}},
])
def test_tools_with_invalid_marks_are_left_out_over_http(properties, caplog):
    # MHDR-13 to MHDR-18
    with Site(tool("good"), tool("bad", **properties), REGION) as site, site.connect() as client:
        with caplog.at_level(logging.WARNING, "mcplite"):
            assert [tool.name for tool in client.list_tools()] == ["good", "t"]
    assert "'bad'" in caplog.text and "'good'" not in caplog.text


def mismatch(request, answer, status=400):
    error = {"code": -32020, "message": "Header mismatch: Mcp-Param-Region is missing"}
    answer.status(status, json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": error}),
                  Content_Type="application/json")


class Strict(Site):
    """A server that insists on the header of its newest list."""

    def on_tools_call(self, request, answer):
        if request.headers.get("mcp-param-region") == "eu":
            super().on_tools_call(request, answer)
        else:
            mismatch(request, answer)


@pytest.mark.parametrize("ttl", [0, 3_600_000])
def test_a_header_mismatch_reads_the_list_and_repeats_the_call(ttl):
    with Strict(tool("t", region={"type": "string"}), ttl=ttl) as site, site.connect() as client:
        client.list_tools()
        site.tools = [REGION]
        assert client.call_tool("t", {"region": "eu"}).text == "done"  # MHDR-28
        assert site.saw == ["server/discover", "tools/list", "tools/call", "tools/list", "tools/call"]
        first, second = site.wait_for("tools/call", 2)
        assert first.message["params"] == second.message["params"] and first.message["id"] != second.message["id"]
        assert client.call_tool("t", {"region": "eu"}).text == "done" and len(site.saw) == 6  # from now on it is known


def test_an_unlisted_tool_can_be_called():
    with Strict(REGION) as site, site.connect() as client:
        assert client.call_tool("t", {"region": "eu"}).text == "done"
        assert site.saw == ["server/discover", "tools/call", "tools/list", "tools/call"]


@pytest.mark.parametrize("tools, calls", [([REGION], 2), ([tool("t")], 1), ([], 1)])
def test_a_call_is_repeated_once_at_most(tools, calls):
    with Site(*tools) as site, site.connect() as client:
        site.on_tools_call = mismatch
        with pytest.raises(HeaderMismatch):
            client.call_tool("t", {"region": "eu"})
        assert site.saw.count("tools/call") == calls and site.saw.count("tools/list") == 1


def test_a_failing_list_is_the_error_of_the_call():
    with Site(REGION) as site, site.connect() as client:
        site.on_tools_call = mismatch
        site.on_tools_list = lambda request, answer: answer.status(500)
        with pytest.raises(mcplite.errors.HTTPStatusError):
            client.call_tool("t", {"region": "eu"})


def test_other_requests_are_not_repeated():
    with Site(REGION) as site, site.connect() as client:
        site.on_prompts_get = mismatch
        with pytest.raises(HeaderMismatch):
            client.get_prompt("p")
        assert site.saw == ["server/discover", "prompts/get"]


# --- cancellation and threads -------------------------------------------------------------------------------------


class Holding(Site):
    """A server whose tools run until the client closes the connection."""

    def __init__(self):
        super().__init__()
        self.gone = threading.Event()

    def on_tools_call(self, request, answer):
        answer.events()
        if answer._sock.recv(1) == b"":
            self.gone.set()
        answer.cut()


def given_up(client, script):
    """Cancel a call that the server has got."""
    token = mcplite.CancelToken()
    thread, outcome = start(client.call_tool, "t", cancel=token)
    script()
    token.cancel("lost interest")
    thread.join(LIMIT)
    return outcome[0]


def test_over_http_closing_the_connection_cancels():
    with Holding() as site, site.connect() as client:
        error = given_up(client, lambda: site.wait_for("tools/call"))
        assert isinstance(error, mcplite.Cancelled) and error.reason == "lost interest"
        assert site.gone.wait(LIMIT)  # H26-10
        client.ping()
        assert site.saw == ["server/discover", "tools/call", "server/discover"]


def test_over_http_a_timeout_closes_the_connection():
    with Holding() as site, site.connect() as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("t", timeout=0.2)
        assert site.gone.wait(LIMIT) and site.saw == ["server/discover", "tools/call"]


def test_on_a_pipe_a_notification_cancels():
    with Pipe({"tools/call": lambda params: SILENCE}) as pipe, pipe.connect() as client:
        error = given_up(client, lambda: pipe.got("tools/call"))
        assert isinstance(error, mcplite.Cancelled) and error.reason == "lost interest"
        assert pipe.got("notifications/cancelled")["params"] == {
            "requestId": pipe.got("tools/call")["id"], "reason": "lost interest"}
        with pytest.raises(RequestTimeout):
            client.call_tool("t", timeout=0.1)
        assert pipe.got("notifications/cancelled", 2)["params"]["requestId"] == pipe.got("tools/call", 2)["id"]


def test_plain_calls_over_http_need_no_thread():
    during = []

    def work(request, answer):
        during.extend(threading.enumerate())
        answer.events({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": request.message["params"]["_meta"]["progressToken"], "progress": 1}})
        answer.more(site.result(request, DONE))
        answer.end()

    def ours():
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcplite")]

    before = set(threading.enumerate())
    with Site() as site, site.connect() as client:
        site.on_tools_call = work
        assert ours() == []
        for _ in range(3):
            assert client.call_tool("t", on_progress=lambda progress: None).text == "done"
        assert ours() == [] and during and not any(thread.name.startswith("mcplite") for thread in during)
        # One connection, which one thread of the script serves while another one waits for more: all others were there.
        assert len(set(during) - before) == 2 and site.connections == 1 and "GET" not in site.saw


def test_a_client_without_a_session_sends_no_delete(site):
    with site.connect() as client:
        client.call_tool("t")
    assert site.saw == ["server/discover", "tools/call"]


def test_a_notification_repeats_its_method_in_a_header(site):
    # H26-15
    site.on_notifications_x = lambda request, answer: answer.status(202)
    with site.connect() as client:
        client.notify("notifications/x", {"a": 1})
        note = site.wait_for("notifications/x")[-1]
    assert note.headers["mcp-protocol-version"] == VERSION and note.headers["mcp-method"] == "notifications/x"


def test_a_repeated_request_has_a_new_id(site):
    # H26-22: the connection had rested, and was closed without an answer.
    cut = []

    def once(request, answer):
        if not cut:
            cut.append(request)
            return answer.cut()
        return answer.json(site.result(request, {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}))

    site.on_tools_list = once
    with site.connect() as client:
        assert client.list_tools() == []
        first, second = [request.message["id"] for request in site.requests if request.does == "tools/list"]
    assert first != second


def test_a_long_error_is_read_whole(site):
    def refuse(request, answer):
        body = {"jsonrpc": "2.0", "id": request.message["id"],
                "error": {"code": -32602, "message": "bad", "data": {"details": "x" * 50_000}}}
        answer.status(400, json.dumps(body), Content_Type="application/json")

    site.on_tools_call = refuse
    with site.connect() as client, pytest.raises(mcplite.errors.InvalidParams, match="bad") as caught:
        client.call_tool("t")
    assert len(caught.value.data["details"]) == 50_000


@pytest.mark.parametrize("message", [5, None, {"a": 1}])
def test_a_malformed_error_is_still_an_error(site, message):
    site.on_tools_call = lambda request, answer: answer.status(
        503, json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": message}}),
        Content_Type="application/json")
    with site.connect() as client, pytest.raises(mcplite.MCPError):
        client.call_tool("t")


def test_an_invalid_key_of_meta_is_not_sent(site):
    with site.connect() as client, pytest.raises(ValueError, match="bad key"):
        client.call_tool("t", meta={"bad key": 1})
