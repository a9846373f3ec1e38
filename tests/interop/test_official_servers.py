"""Our client drives other people's servers over every transport: the official SDKs in Python, both generations, and in
TypeScript, the reference servers, and FastMCP."""

import contextlib
import inspect
import json
import queue
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import mcplite
from mcplite import types
from mcplite.revisions import LEGACY, NEWEST, NEWEST_LEGACY
from tests.interop.bridging import BRIDGED, not_bridged
from tests.interop.conftest import passed
from tests.support import connecting

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent
#: Seconds; a loaded machine starts node slowly.
LIMIT = 60


class Listener:
    """Handlers that note what they get, and give fixed answers."""

    def __init__(self):
        self.forms, self.pages, self.samples = [], [], []
        #: Notifications of the server: ("log", ...), ("tools",), ("updated", uri) ...
        self.told = queue.Queue()
        self.answer = {}

    def options(self):
        return dict(
            elicitation_handler=self.elicit, url_elicitation_handler=self.visit, sampling_handler=self.sample,
            sampling_tools=True,
            log_handler=lambda message: self.told.put(("log", message.level, message.data, message.logger)),
            on_tools_changed=lambda: self.told.put(("tools",)), on_prompts_changed=lambda: self.told.put(("prompts",)),
            on_resources_changed=lambda: self.told.put(("resources",)),
            on_resource_updated=lambda uri: self.told.put(("updated", uri)),
            on_elicitation_complete=lambda id: self.told.put(("complete", id)))

    def elicit(self, request):
        self.forms.append(request)
        return self.answer

    def visit(self, request):
        self.pages.append(request)
        return True

    def sample(self, request):
        self.samples.append(request)
        if request.tools:
            use = types.ToolUseContent(id="use-1", name=request.tools[0].name, input={"a": 1})
            return types.CreateMessageResult(role="assistant", model="test-model", stop_reason="toolUse",
                                             content=[types.TextContent("Let me see."), use])
        return types.CreateMessageResult(role="assistant", model="test-model", stop_reason="endTurn",
                                         content=[types.TextContent("It is late.")])

    def wait_for(self, *wanted):
        """Return when the server has told all of these, in any order."""
        missing = list(wanted)
        while missing:
            told = self.told.get(timeout=LIMIT)
            missing = [item for item in missing if told[:len(item)] != item]


@contextlib.contextmanager
def connected(target, **options):
    """Connect, behind a bridge if there are any; what a server that we start wrote to stderr is shown when the test fails."""
    with passed(target, options) as (reached, options):
        client = connecting.connect(reached, open_timeout=LIMIT, **options)
        try:
            with client:
                yield client
        finally:
            print(client.stderr_tail)


def cancel_when_started(client, listener, tool):
    """Call a tool that reports progress and waits; cancel it from the progress callback's thread."""
    token = mcplite.CancelToken()
    with pytest.raises(mcplite.Cancelled, match="enough"):
        client.call_tool(tool, cancel=token, on_progress=lambda progress: token.cancel("enough"), timeout=LIMIT)


@pytest.fixture
def listener():
    return Listener()


# --- servers written with the official SDK ----------------------------------------------------------


@contextlib.contextmanager
def target_of(installed, serving, environment, transport, program="official_server.py"):
    """Give what to connect to: a command, or the URL of a server that runs."""
    if environment == "node2":
        # The SDK for servers comes with the Inspector.
        command = installed.script("official_server.mjs", *transport.split("-"), environment="inspector")
    else:
        command = [installed.python(environment), str(HERE / program), *transport.split("-", 1)]
    if transport.startswith("stdio"):
        yield command
        return
    with serving(command, PYTHONWARNINGS="ignore") as server:
        yield server.url


def quiet(target):
    """Return options for a server that may be started: mcp 2.3.0 warns of what the newest revision deprecates."""
    return {"env": {"PYTHONWARNINGS": "ignore"}} if isinstance(target, list) else {}


@pytest.fixture(scope="module", params=[(environment, transport) for environment in ("mcp2", "mcp1")
                                        for transport in ("stdio", "http", "sse")], ids="-".join)
def served(request, installed, serving):
    with target_of(installed, serving, *request.param) as target:
        yield request.param, target


@pytest.fixture(scope="module")
def target(served):
    return served[1]


@pytest.fixture
def official(served, listener):
    where, target = served
    # These tests are about servers with a session. The client detects that a server knows nothing newer; a bridge does.
    era = "legacy" if BRIDGED or where in (("mcp2", "stdio"), ("mcp2", "http")) else None
    with connected(target, era=era, roots=["file:///srv/data"], **quiet(target), **listener.options()) as client:
        yield client


def test_the_description_of_an_official_server(official):
    assert official.protocol_version == NEWEST_LEGACY.name
    assert official.server_info.name == "official" and official.server_info.website_url == "https://example.com"
    assert official.instructions == "Try it."
    official.ping()
    tools = {tool.name: tool for tool in official.list_tools()}
    assert tools["add"].input_schema["properties"]["b"]["default"] == 1
    assert tools["weather"].output_schema["properties"]["high"]["description"] == "Degrees"
    assert [resource.uri for resource in official.list_resources()] == [
        "config://settings", "data://bytes", "counted://reads"]
    assert official.list_resource_templates()[0].uri_template == "notes://{title}"
    prompt = official.list_prompts()[0]
    assert (prompt.name, prompt.title, [argument.name for argument in prompt.arguments]) == (
        "briefing", "Briefing", ["city", "tone"])


def test_results_of_an_official_server(official):
    official.list_tools()  # from here on results are checked against the declared schemas
    assert official.call_tool("add", {"a": 41}).structured_content == {"result": 42}
    assert official.call_tool("weather", {"city": "Rome"}).structured_content == {
        "city": "Rome", "high": 21.5, "notes": ["celsius"]}
    picture = official.call_tool("picture").content[0]
    assert picture.mime_type == "image/png" and picture.bytes == b"\x89PNG\r\n\x1a\nrest"
    for name, arguments in (("fail", {}), ("add", {"a": "many"})):
        result = official.call_tool(name, arguments)
        assert result.is_error and name in result.text
        with pytest.raises(mcplite.ToolError):
            result.raise_for_error()


def check_values(client):
    """Check that the values of tools come as the tools returned them."""
    assert client.tools.add(a=41, b=1).data == 42
    with pytest.raises(mcplite.ToolError):
        client.tools.fail()
    if "scalar" not in client.tools:
        return  # the server of the TypeScript SDK, which returns objects alone
    for kind, value in (("text", "it is 3"), ("number", 2.5), ("flag", True), ("list", ["a", "b"]), ("empty", []),
                        ("nothing", None)):
        assert client.call_tool("scalar", {"kind": kind}).data == value
    assert client.tools.weather(city="Rome").data["high"] == 21.5
    assert client.tools.picture().data.bytes == b"\x89PNG\r\n\x1a\nrest"


def test_values_of_an_official_server(official):
    check_values(official)
    assert str(inspect.signature(official.tools.add)) == "(*, a: int, b: int = 1) -> int"


def test_resources_and_prompts_of_an_official_server(official):
    assert official.read_resource("config://settings").text == '{"colour": "blue"}'
    assert official.read_resource("data://bytes").bytes == b"\x00\x01\x02"
    assert official.read_resource("notes://one").text == "the note one"
    with pytest.raises(mcplite.RemoteError):
        official.read_resource("nowhere://at/all")
    message, = official.get_prompt("briefing", {"city": "Rome"}).messages
    assert (message.role, message.content.text) == ("user", "Write a neutral briefing for Rome.")
    assert official.complete(prompt="briefing", argument="city", value="P").values == ["Paris", "Prague"]
    assert official.complete(prompt="briefing", argument="tone", value="", context={"city": "Rome"}).values == ["Rome"]


def test_progress_and_logs_of_an_official_server(official, listener):
    seen = []
    official.call_tool("count", {"to": 4}, on_progress=lambda progress: seen.append(
        (progress.progress, progress.total, progress.message)))
    assert seen == [(n, 4, f"at {n}") for n in range(1, 5)]
    if not BRIDGED:  # the server does not declare that it logs, and a bridge says what its server declares
        listener.wait_for(("log", "info", "counted"), ("log", "error", {"counted": 4}, "counter"))


def test_cancelling_a_call_of_an_official_server(official, listener):
    cancel_when_started(official, listener, "wait_to_be_cancelled")
    assert official.call_tool("was_cancelled").structured_content == {"result": True}


def test_questions_of_an_official_server(official, listener):
    listener.answer = {"name": "Ada", "guests": 2}
    assert json.loads(official.call_tool("book").text) == ["accept", {"name": "Ada", "guests": 2, "window": True}]
    form, = listener.forms
    assert form.message == "Your booking?" and form.mode == "form"
    assert form.requested_schema["properties"]["guests"]["maximum"] == 9
    for answer, action in ((False, "decline"), (None, "cancel")):
        listener.answer = answer
        assert json.loads(official.call_tool("book").text) == [action, None]
    assert official.call_tool("visit").text == "accept"
    page, = listener.pages
    assert (page.mode, page.url, page.elicitation_id, page.host) == (
        "url", "https://example.com/sign-in", "id-1", "example.com")
    listener.wait_for(("complete", "id-1"))


def test_sampling_for_an_official_server(official, listener):
    reply = json.loads(official.call_tool("ask_model").text)
    assert (reply["role"], reply["model"], reply["stopReason"]) == ("assistant", "test-model", "endTurn")
    assert reply["content"]["text"] == "It is late."
    reply = json.loads(official.call_tool("ask_model_with_tools").text)
    assert [block["type"] for block in reply["content"]] == ["text", "tool_use"]
    first, second = listener.samples
    assert first.messages[0].text == "What is the time?"
    assert (first.max_tokens, first.system_prompt) == (50, "Be brief.")
    assert [tool.name for tool in second.tools] == ["clock"] and second.tool_choice.mode == "auto"


def test_roots_for_an_official_server(official):
    assert [root["uri"] for root in json.loads(official.call_tool("list_roots").text)] == ["file:///srv/data"]
    official.set_roots(["file:///srv/other", types.Root("file:///srv/third", name="third")])
    assert json.loads(official.call_tool("list_roots").text) == [
        {"uri": "file:///srv/other"}, {"uri": "file:///srv/third", "name": "third"}]


def test_changes_of_an_official_server(served, official, listener):
    if BRIDGED and served[0][1] == "stdio":
        pytest.skip("not behind a bridge: each client has a process of its own, and the lists are those of the bridge's")
    assert "new_tool" not in [tool.name for tool in official.list_tools()]
    official.call_tool("change")
    listener.wait_for(("tools",), ("prompts",), ("resources",))
    if not BRIDGED:  # which tells of a resource those that have subscribed to it
        listener.wait_for(("updated", "config://settings"))
    assert "new_tool" in [tool.name for tool in official.list_tools()]
    assert official.call_tool("new_tool").text == "new"


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_every_older_revision_with_an_official_server(target, revision):
    with connected(target, revision=revision) as client:
        assert client.protocol_version == revision.name
        client.list_tools()
        result = client.call_tool("add", {"a": 1, "b": 1})
        assert result.text == "2"
        assert client.read_resource("notes://one").text == "the note one"
        assert client.get_prompt("briefing", {"city": "Rome"}).messages[0].content.text.endswith("for Rome.")


@not_bridged("it is about finding the server's transport, which the bridge does")
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_the_transport_of_an_official_server_is_detected(installed, serving, transport):
    with target_of(installed, serving, "mcp2", transport) as url, connected(url, type=transport) as client:
        assert client.call_tool("add", {"a": 1}).text == "2"


@pytest.mark.parametrize("transport", ["json", "stateless"])
@pytest.mark.parametrize("environment", ["mcp2", "mcp1"])
def test_an_official_server_that_sends_only_responses(installed, serving, environment, transport):
    with target_of(installed, serving, environment, transport) as target, connected(target, era="legacy") as client:
        assert client.protocol_version == NEWEST_LEGACY.name
        client.ping()
        test_results_of_an_official_server(client)
        test_resources_and_prompts_of_an_official_server(client)


@pytest.mark.parametrize("environment", ["mcp2", "mcp1"])
@not_bridged("it is about the connection between client and server; the bridge's own is that of our client")
def test_broken_connections_to_an_official_server(installed, serving, cutting, listener, environment):
    with target_of(installed, serving, environment, "http") as url, cutting(url, b"cut-here") as proxy:
        with connected(proxy.url, era="legacy", **listener.options()) as client:
            for tool in ("interrupted", "close_stream"):
                seen = []
                result = client.call_tool(tool, on_progress=lambda progress: seen.append(progress.progress), timeout=LIMIT)
                assert result.text == "went on"
                assert seen == ([1, 2, 3] if tool == "interrupted" else [1, 2])
            assert proxy.cuts == 1


# --- the same without a handshake -------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(environment, transport) for environment in ("mcp2", "node2")
                                        for transport in ("stdio", "http")], ids="-".join)
def modern_served(request, installed, serving):
    with target_of(installed, serving, *request.param) as target:
        yield request.param, target


@pytest.fixture(scope="module")
def modern_target(modern_served):
    return modern_served[1]


@pytest.fixture(params=[None, NEWEST.name], ids=["found-out", "pinned"])
def modern(request, modern_target, listener):
    listener.answer = {"name": "Ada", "guests": 2}
    with connected(modern_target, revision=request.param, roots=["file:///srv/data"], **quiet(modern_target),
                   **listener.options()) as client:
        yield client


def test_the_description_of_a_server_without_handshake(modern):
    assert (modern.era, modern.protocol_version) == ("modern", NEWEST.name)
    assert modern.server_info.name.startswith("official") and modern.instructions == "Try it."
    assert modern.server_capabilities.tools["listChanged"] is True
    modern.ping()


def test_results_of_a_server_without_handshake(modern):
    tools = {tool.name: tool for tool in modern.list_tools()}
    assert tools["locate"].input_schema["properties"]["region"]["x-mcp-header"] == "Region"
    assert modern.call_tool("add", {"a": 41, "b": 1}).structured_content == {"result": 42}
    assert modern.call_tool("fail").is_error
    assert modern.call_tool("add", {"a": "many"}).is_error
    with pytest.raises(mcplite.RemoteError):
        modern.read_resource("nowhere://at/all")


def test_values_of_a_server_without_handshake(modern):
    check_values(modern)


def test_progress_and_the_wanted_logs_without_handshake(modern, listener):
    def count(to):
        seen = []
        modern.call_tool("count", {"to": to}, on_progress=lambda progress: seen.append(
            (progress.progress, progress.total, progress.message)))
        assert seen == [(n, to, f"at {n}") for n in range(1, to + 1)]

    count(3)  # there is a handler for logs, so they are asked for
    modern.set_log_level("error")
    count(4)
    modern.set_log_level("debug")
    count(5)
    if BRIDGED and modern.server_capabilities.logging is None:
        return  # a bridge says what its server declares, and drops logs that are not declared
    heard = [listener.told.get(timeout=LIMIT)[1:3] for _ in range(5)]
    assert heard == [("info", "counted"), ("error", {"counted": 3}), ("error", {"counted": 4}),
                     ("info", "counted"), ("error", {"counted": 5})]


def test_cancelling_a_call_without_handshake(modern, listener):
    cancel_when_started(modern, listener, "wait_to_be_cancelled")
    assert modern.call_tool("was_cancelled", timeout=LIMIT).text in ("true", "yes")


def test_questions_in_results(modern, listener):
    assert json.loads(modern.call_tool("reserve").text)[1]["name"] == "Ada"
    assert [(form.message, form.mode) for form in listener.forms] == [("Your booking?", "form")]
    assert json.loads(modern.call_tool("survey").text) == ["Ada", "It is late.", ["file:///srv/data"]]
    assert listener.samples[0].messages[0].text == "What is the time?"
    assert modern.call_tool("sign_in").text == "accept"
    assert [(page.url, page.elicitation_id) for page in listener.pages] == [("https://example.com/sign-in", None)]
    for answer, action in ((False, "decline"), (None, "cancel")):
        listener.answer = answer
        assert json.loads(modern.call_tool("reserve").text) == [action, None]


def test_several_rounds_of_questions(modern, listener):
    listener.answer = {"name": "Ada"}
    assert json.loads(modern.call_tool("interview").text) == ["Ada", "Ada"]
    assert [form.message for form in listener.forms] == ["Name 1?", "Name 2?"]
    assert modern.call_tool("later").text == "now"
    assert modern.read_resource("diary://monday").text == "monday of Ada"
    assert modern.get_prompt("personal", {"greeting": "Dear"}).messages[0].content.text == "Dear Ada"
    assert len(listener.forms) == 4


def test_answers_by_the_caller_and_later(modern):
    params = {"name": "interview", "arguments": {}}
    answer = {}
    for number in (1, 2):
        with pytest.raises(mcplite.errors.InputNeeded) as caught:
            modern.request("tools/call", params, rounds=False, **answer)
        (key, question), = caught.value.requests.items()
        assert question["params"]["message"] == f"Name {number}?"
        answer = {"request_state": caught.value.state,
                  "input_responses": {key: {"action": "accept", "content": {"name": f"Eve {number}"}}}}
    result = modern.request("tools/call", params, rounds=False, **answer)
    assert json.loads(result["content"][0]["text"]) == ["Eve 1", "Eve 2"]


def test_a_client_without_handlers_for_questions(modern_target):
    with connected(modern_target, **quiet(modern_target)) as client, pytest.raises(mcplite.errors.MissingCapability) as caught:
        client.call_tool("reserve")
    assert "elicitation" in caught.value.data["requiredCapabilities"]


def test_subscriptions_to_changes(modern, listener):
    with modern.listen(tools=True, resources=["counted://reads"]) as events:
        assert events.honoured == {"toolsListChanged": True, "resourceSubscriptions": ["counted://reads"]}
        modern.call_tool("tell")
        # One of them may come twice, but nothing else.
        missing = expected = {mcplite.ToolsChanged(), mcplite.ResourceUpdated(uri="counted://reads")}
        while missing:
            event = events.get(LIMIT)
            assert event in expected
            missing = missing - {event}
    listener.wait_for(("tools",))  # by a subscription of the client's own, since there is a handler for it


def test_a_subscription_to_one_resource(modern, listener):
    modern.subscribe_resource("counted://reads")
    modern.call_tool("tell")
    listener.wait_for(("updated", "counted://reads"))
    modern.unsubscribe_resource("counted://reads")


def test_results_with_cache_hints(modern, modern_target):
    def count():
        return int(modern.read_resource("counted://reads").text)

    first = count()
    assert count() == first
    with modern.listen(resources=["counted://reads"]) as events:
        modern.call_tool("tell")
        assert events.get(LIMIT) == mcplite.ResourceUpdated(uri="counted://reads")
    assert count() == first + 1
    with connected(modern_target, cache=False, **quiet(modern_target)) as other:
        again = [int(other.read_resource("counted://reads").text) for _ in range(2)]
        assert again[1] == again[0] + 1
    sent = modern.counters.messages_sent
    modern.list_tools()
    modern.list_tools()
    assert modern.counters.messages_sent <= sent + 1


def test_parameters_in_headers_of_a_server_without_handshake(modern, modern_served):
    (_, transport), _ = modern_served
    expected = {"mcp-param-region": "=?base64?WsO8cmljaA==?=", "mcp-param-floor": "-1"} if transport == "http" else {}
    # First without having seen the list of tools: it is refused, the list is read, and it is sent again.
    for _ in range(2):
        region, floor, headers = json.loads(modern.call_tool("locate", {"region": "Zürich", "floor": -1}).text)
        assert (region, floor, headers) == ("Zürich", -1, expected)


def test_a_detected_era_is_used_again(modern, modern_target):
    with connected(modern_target, prior=json.loads(json.dumps(modern.prior)), **quiet(modern_target)) as other:
        assert other.counters.messages_sent == 0
        assert (other.era, other.server_info.name) == ("modern", modern.server_info.name)
        assert other.call_tool("add", {"a": 1, "b": 1}).text == "2"


@pytest.mark.parametrize("transport", ["stdio-modern", "http-modern"])
def test_a_server_that_knows_no_handshake(installed, serving, transport):
    with target_of(installed, serving, "node2", transport) as target:
        with connected(target) as client:
            assert (client.era, client.protocol_version) == ("modern", NEWEST.name)
            assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"
        with pytest.raises(mcplite.errors.UnsupportedVersion) as caught:
            mcplite.connect(target, options=mcplite.ClientOptions(era="legacy"), open_timeout=LIMIT).open()
        assert caught.value.data["supported"] == [NEWEST.name]


@not_bridged("a bridge speaks all revisions, whatever its server speaks")
@pytest.mark.parametrize("transport", ["stdio", "sse"])
def test_a_server_that_knows_the_oldest_revision_only(installed, serving, transport):
    oldest = LEGACY[0].name
    with target_of(installed, serving, "mcp1", f"{transport}-{oldest}") as target:
        with connected(target, **quiet(target)) as client:
            assert (client.era, client.protocol_version) == ("legacy", oldest)
            assert client.call_tool("add", {"a": 41}).text == "42"
            assert client.read_resource("notes://one").text == "the note one"
        # Over HTTP+SSE a request without a handshake gets no answer.
        with pytest.raises(mcplite.errors.UnsupportedVersion if transport == "stdio" else mcplite.errors.HTTPStatusError):
            connecting.connect(target, revision=NEWEST, open_timeout=LIMIT, **quiet(target)).open()


# --- the reference servers ----------------------------------------------------------------------------


@contextlib.contextmanager
def everything_over(installed, serving, transport):
    """Give the server, and what to connect to."""
    command = installed.node("server-everything", *installed.tells)
    with serving([*command, {"http": "streamableHttp"}.get(transport, "sse")], PORT="0") as server:
        yield server, server.url + {"http": "mcp"}.get(transport, "sse")


@pytest.fixture(scope="module", params=["stdio", "http", "sse"])
def everything_target(request, installed, serving):
    if request.param == "stdio":
        yield installed.node("server-everything")
        return
    with everything_over(installed, serving, request.param) as (_, url):
        yield url


def wait_for_tool(client, name):
    """Return when a tool is listed."""
    until = time.monotonic() + LIMIT
    while name not in {tool.name for tool in client.list_tools(fresh=True)}:
        assert time.monotonic() < until, f"there is no {name}"
        time.sleep(0.05)


@pytest.fixture
def everything(everything_target, listener):
    era = "legacy" if BRIDGED else None
    with connected(everything_target, era=era, roots=["file:///srv/data"], **listener.options()) as client:
        # It registers the tools that need a capability once the handshake is over, and tells. Over Streamable HTTP
        # that is lost when it comes before our GET, but then it is done with the handshake.
        if BRIDGED:
            # The bridge may have been told before the client came; a client that comes later is told of nothing.
            wait_for_tool(client, "get-roots-list")
        elif not str(everything_target).endswith("/mcp"):
            listener.wait_for(("tools",))
        yield client


def test_lists_of_everything(everything):
    assert everything.server_info.name == "mcp-servers/everything" and everything.instructions
    tools = {tool.name: tool for tool in everything.list_tools()}
    assert {"echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request"} <= set(tools)
    assert tools["echo"].annotations.is_read_only is True
    assert {prompt.name for prompt in everything.list_prompts()} == {
        "simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"}
    assert any(template.uri_template == "demo://resource/dynamic/text/{resourceId}"
               for template in everything.list_resource_templates())


def test_results_of_everything(everything):
    everything.list_tools()
    assert everything.call_tool("echo", {"message": "hällo \U0001f642"}).text == "Echo: hällo \U0001f642"
    assert "42" in everything.call_tool("get-sum", {"a": 40, "b": 2}).text
    weather = everything.call_tool("get-structured-content", {"location": "Chicago"})
    assert weather.structured_content == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    assert weather.data == everything.tools["get-structured-content"](location="Chicago").data == weather.structured_content
    assert everything.tools.echo(message="hi").data == "Echo: hi"
    image = next(block for block in everything.call_tool("get-tiny-image").content if isinstance(block, types.ImageContent))
    assert image.bytes.startswith(b"\x89PNG")
    links = [block for block in everything.call_tool("get-resource-links", {"count": 3}).content
             if isinstance(block, types.ResourceLink)]
    assert len(links) == 3 and links[0].uri.startswith("demo://resource/dynamic/")
    annotated = everything.call_tool("get-annotated-message", {"messageType": "error", "includeImage": True}).content
    assert annotated[0].annotations.audience == ["user", "assistant"] and annotated[0].annotations.priority == 1
    assert everything.call_tool("get-structured-content", {"location": "Atlantis"}).is_error


def test_progress_and_cancelling_with_everything(everything, listener):
    seen = []
    arguments = {"duration": 0.5, "steps": 5}
    result = everything.call_tool("trigger-long-running-operation", arguments, on_progress=lambda progress: seen.append(
        (progress.progress, progress.total)))
    assert "completed" in result.text and seen == [(n, 5) for n in range(1, 6)]
    token = mcplite.CancelToken()
    with pytest.raises(mcplite.Cancelled):
        everything.call_tool("trigger-long-running-operation", {"duration": 60, "steps": 600}, cancel=token,
                             on_progress=lambda progress: token.cancel())
    with pytest.raises(mcplite.RequestTimeout):
        everything.call_tool("trigger-long-running-operation", {"duration": 60, "steps": 1}, timeout=0.2)
    everything.ping()


def test_questions_of_everything(everything, listener):
    listener.answer = {"name": "Ada", "check": True, "titledMultipleSelectEnum": ["fish-2"]}
    text = everything.call_tool("trigger-elicitation-request").text
    assert "- Name: Ada" in text and "fish-2" in text
    fields = listener.forms[0].requested_schema["properties"]
    assert fields["titledSingleSelectEnum"]["oneOf"][0] == {"const": "hero-1", "title": "Superman"}
    assert fields["legacyTitledEnum"]["enumNames"][0] == "Cats"
    listener.answer = False
    assert "declined" in everything.call_tool("trigger-elicitation-request").text
    arguments = {"url": "https://example.com/page", "elicitationId": "id-7"}
    assert "completed" in everything.call_tool("trigger-url-elicitation", arguments).text
    assert [(page.url, page.elicitation_id) for page in listener.pages] == [("https://example.com/page", "id-7")]
    with pytest.raises(mcplite.errors.UrlElicitationRequired) as caught:
        everything.call_tool("trigger-url-elicitation", {"url": "https://example.com/other", "errorPath": True})
    assert caught.value.urls[0]["url"] == "https://modelcontextprotocol.io"


def test_sampling_and_roots_for_everything(everything, listener):
    text = everything.call_tool("trigger-sampling-request", {"prompt": "the time", "maxTokens": 20}).text
    assert "It is late." in text and "test-model" in text
    assert listener.samples[0].max_tokens == 20 and "the time" in listener.samples[0].messages[0].text
    assert "file:///srv/data" in everything.call_tool("get-roots-list").text


def test_resources_of_everything(everything, everything_target, listener):
    uri = "demo://resource/dynamic/text/7"
    assert everything.read_resource(uri).text.startswith("Resource 7: This is a plaintext resource")
    assert everything.read_resource("demo://resource/dynamic/blob/7").bytes.startswith(b"Resource 7: This is a base64 blob")
    everything.subscribe_resource(uri)
    everything.call_tool("toggle-subscriber-updates")
    if not (BRIDGED and isinstance(everything_target, list)):  # each client has a process, and another one is subscribed to
        listener.wait_for(("updated", uri))
    everything.unsubscribe_resource(uri)
    everything.set_log_level("emergency")


def test_prompts_of_everything(everything):
    message, = everything.get_prompt("args-prompt", {"city": "Rome", "state": "Lazio"}).messages
    assert message.content.text == "What's weather in Rome, Lazio?"
    departments = everything.complete(prompt="completable-prompt", argument="department", value="S")
    assert departments.values == ["Sales", "Support"]
    names = everything.complete(prompt="completable-prompt", argument="name", value="", context={"department": "Sales"})
    assert names.values == ["David", "Eve", "Frank"]
    messages = everything.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "3"}).messages
    assert any(isinstance(message.content, types.EmbeddedResource) for message in messages)


@not_bridged("the bridge ends its session later than the client")
def test_everything_ends_a_session(installed, serving):
    with everything_over(installed, serving, "http") as (server, url):
        with connected(url) as client:
            client.ping()
            assert "termination request" not in server.output
        assert server.heard("termination request for session")


@not_bridged("it is about the connection between client and server; the bridge's own is that of our client")
def test_a_broken_connection_to_everything(installed, serving, cutting):
    with everything_over(installed, serving, "http") as (_, url), cutting(url, b'"progress":2') as proxy:
        seen = []
        with connected(proxy.url) as client:
            result = client.call_tool("trigger-long-running-operation", {"duration": 0.5, "steps": 5}, timeout=LIMIT,
                                      on_progress=lambda progress: seen.append(progress.progress))
        assert "completed" in result.text
        assert seen == [1, 2, 3, 4, 5]
        assert proxy.cuts == 1


@pytest.fixture
def repository(tmp_path):
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "repository"
    folder.mkdir()
    for command in (["init", "-q", "-b", "main"], ["config", "user.name", "Ada"],
                    ["config", "user.email", "ada@example.com"]):
        subprocess.run([git, *command], cwd=folder, check=True, timeout=LIMIT)
    (folder / "a.txt").write_text("first\n")
    for command in (["add", "a.txt"], ["commit", "-q", "-m", "the first commit"]):
        subprocess.run([git, *command], cwd=folder, check=True, timeout=LIMIT)
    return folder


def test_the_git_server(installed, repository):
    command = [installed.python("servers"), "-m", "mcp_server_git", "--repository", str(repository)]
    path = {"repo_path": str(repository)}
    with connected(command) as client:
        assert {"git_status", "git_log", "git_commit", "git_add"} <= {tool.name for tool in client.list_tools()}
        assert "nothing to commit" in client.call_tool("git_status", path).text
        (repository / "b.txt").write_text("second\n")
        assert "b.txt" in client.call_tool("git_status", path).text
        client.call_tool("git_add", {**path, "files": ["b.txt"]}).raise_for_error()
        assert "+second" in client.call_tool("git_diff_staged", path).text
        client.call_tool("git_commit", {**path, "message": "the second commit"}).raise_for_error()
        log = client.call_tool("git_log", {**path, "max_count": 5}).text
        assert "the first commit" in log and "the second commit" in log
        outside = client.call_tool("git_status", {"repo_path": "/"})
        assert outside.is_error
    subjects = subprocess.run(["git", "log", "--format=%s"], cwd=repository, stdout=subprocess.PIPE, timeout=LIMIT)
    assert subjects.stdout.decode().split("\n")[:2] == ["the second commit", "the first commit"]


def test_the_time_server(installed):
    with connected([installed.python("servers"), "-m", "mcp_server_time", "--local-timezone", "Europe/Rome"]) as client:
        assert client.server_info.name == "mcp-time"
        client.list_tools()
        result = client.call_tool("convert_time", {
            "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"}).raise_for_error()
        assert result.structured_content["time_difference"] == "+5.75h"
        assert "T17:45:00+05:45" in result.structured_content["target"]["datetime"]
        assert client.call_tool("get_current_time", {"timezone": "Nowhere/Land"}).is_error
        with pytest.raises(mcplite.errors.InvalidParams):
            client.call_tool("no_such_tool")


def test_the_filesystem_server(installed, tmp_path):
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "a.txt").write_text(f"in {folder.name}")
    with connected([*installed.node("server-filesystem"), str(allowed)]) as client:
        client.list_tools()
        assert client.call_tool("read_text_file", {"path": str(allowed / "a.txt")}).text == "in allowed"
        client.call_tool("write_file", {"path": str(allowed / "b.txt"), "content": "hällo\n"}).raise_for_error()
        assert (allowed / "b.txt").read_text("utf-8") == "hällo\n"
        assert "[FILE] b.txt" in client.call_tool("list_directory", {"path": str(allowed)}).text
        refused = client.call_tool("read_text_file", {"path": str(other / "a.txt")})
        assert refused.is_error and "Access denied" in refused.text


@not_bridged("what the server writes to stderr is not seen by the client")
def test_the_filesystem_server_works_in_our_roots(installed, tmp_path):
    allowed, other = tmp_path / "allowed", tmp_path / "other folder"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "a.txt").write_text(f"in {folder.name}")
    roots = [allowed]
    said = queue.Queue()

    def wait_until_it_has_taken_them():
        # It asks for the roots, and says when it works with them.
        while "Updated allowed directories" not in said.get(timeout=LIMIT):
            pass

    with connected(installed.node("server-filesystem"), roots=lambda: roots, stderr=said.put) as client:
        for mine, foreign in ((allowed, other), (other, allowed)):
            if mine is other:
                roots[:] = [other]
                client.notify("notifications/roots/list_changed")
            wait_until_it_has_taken_them()
            assert client.call_tool("read_text_file", {"path": str(mine / "a.txt")}).text == f"in {mine.name}"
            assert client.call_tool("read_text_file", {"path": str(foreign / "a.txt")}).is_error


# --- a server written with FastMCP ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["stdio", "http", "sse"])
def fast_target(request, installed, serving):
    with target_of(installed, serving, "fastmcp4", request.param, "fastmcp_server.py") as target:
        yield target


@pytest.fixture
def fast(fast_target, listener):
    # With a session; over HTTP+SSE there is nothing else, which the client detects.
    era = None if str(fast_target).endswith("/sse") and not BRIDGED else "legacy"
    with connected(fast_target, era=era, roots=["file:///srv/data"], **listener.options()) as client:
        yield client


def test_lists_of_fastmcp(fast):
    assert fast.protocol_version == NEWEST_LEGACY.name
    assert (fast.server_info.name, fast.server_info.version, fast.instructions) == ("fast", "4.5.6", "Try it.")
    fast.ping()
    assert {"add", "weather", "fail"} <= {tool.name for tool in fast.list_tools()}
    assert fast.call_tool("add", {"a": 41}).structured_content == {"result": 42}
    assert fast.call_tool("weather", {"city": "Rome"}).structured_content == {"city": "Rome", "high": 21.5}
    assert fast.call_tool("picture").content[0].bytes == b"\x89PNG\r\n\x1a\nrest"
    assert "it went wrong" in fast.call_tool("fail").text
    assert fast.read_resource("config://settings").text == '{"colour": "blue"}'
    assert fast.read_resource("notes://one").text == "the note one"
    message, = fast.get_prompt("briefing", {"city": "Rome"}).messages
    assert message.content.text == "Write a neutral briefing for Rome."


def test_values_of_fastmcp(fast):
    check_values(fast)


def test_messages_and_questions_of_fastmcp(fast, fast_target, listener):
    seen = []
    fast.call_tool("count", {"to": 4}, on_progress=lambda progress: seen.append((progress.progress, progress.message)))
    assert seen == [(n, f"at {n}") for n in range(1, 5)]
    listener.wait_for(("log", "warning"))
    listener.answer = {"name": "Ada", "guests": 2}
    assert json.loads(fast.call_tool("book").text) == ["accept", {"name": "Ada", "guests": 2}]
    listener.answer = False
    assert json.loads(fast.call_tool("book").text) == ["decline", None]
    assert fast.call_tool("ask_model").text == "It is late."
    assert fast.call_tool("list_roots").structured_content == {"result": ["file:///srv/data"]}
    seen = []
    result = fast.call_tool("close_stream", on_progress=lambda progress: seen.append(progress.progress))
    assert result.text == "went on" and seen == [1, 2]
    if BRIDGED and isinstance(fast_target, list):
        return  # each client has a process, and the lists are those of another one
    fast.call_tool("change")
    listener.wait_for(("tools",))
    assert fast.call_tool("new_tool").text == "new"


@pytest.fixture(params=["stdio", "http"])
def modern_fast(request, installed, serving, listener):
    listener.answer = {"name": "Ada"}
    with target_of(installed, serving, "fastmcp4", request.param, "fastmcp_server.py") as target:
        handlers = listener.options()
        wanted = {name: handlers[name] for name in ("elicitation_handler", "log_handler")}
        with connected(target, **wanted) as client:
            yield client


def test_fastmcp_without_a_handshake(modern_fast, listener):
    assert (modern_fast.era, modern_fast.protocol_version) == ("modern", NEWEST.name)
    assert (modern_fast.server_info.name, modern_fast.instructions) == ("fast", "Try it.")
    check_values(modern_fast)
    assert modern_fast.call_tool("weather", {"city": "Rome"}).structured_content == {"city": "Rome", "high": 21.5}
    assert "it went wrong" in modern_fast.call_tool("fail").text
    assert modern_fast.get_prompt("briefing", {"city": "Rome"}).messages[0].content.text.endswith("briefing for Rome.")
    modern_fast.set_log_level("warning")
    seen = []
    modern_fast.call_tool("count", {"to": 4}, on_progress=lambda progress: seen.append(
        (progress.progress, progress.message)))
    assert seen == [(n, f"at {n}") for n in range(1, 5)]
    listener.wait_for(("log", "warning"))
    assert json.loads(modern_fast.call_tool("interview").text) == ["Ada", "Ada"]
    assert [form.message for form in listener.forms] == ["Name 1?", "Name 2?"]
    assert modern_fast.read_resource("counted://reads").text == modern_fast.read_resource("counted://reads").text == "1"
    if BRIDGED:
        return  # a bridge tells of changes, whatever its server does
    with pytest.raises(mcplite.errors.MethodNotFound):
        modern_fast.listen(tools=True)
