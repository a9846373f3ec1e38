"""The behaviour that users rely on: each test runs over all transports and revisions."""

import gc
import importlib.util
import json
import queue
import threading
import time
import tracemalloc
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from mcplite.revisions import JULY_2026, NOVEMBER_2025, TASKS_EXTENSION
from mcplite.types import LogMessage

LIMIT = 30
#: The revisions with elicitation, and with structured results; and the one without sessions.
ELICITATION = ("2025-06-18", "2025-11-25", "2026-07-28")
MODERN = "2026-07-28"
#: False in a copy of the package without the folder of tasks.
HAS_TASKS = importlib.util.find_spec("mcplite.tasks") is not None


@pytest.fixture
def key():
    return uuid.uuid4().hex


def test_the_handshake(client, revision):
    assert client.protocol_version == revision
    assert (client.server_info.name, client.server_info.version) == ("behaviour", "1.0")
    assert client.instructions == "Use it for tests."
    assert client.server_capabilities.tools == {"listChanged": True}
    assert client.server_capabilities.resources == {"subscribe": True, "listChanged": True}
    client.ping()


def test_lists(client):
    assert {"add", "echo", "book"} <= {tool.name for tool in client.list_tools()}
    assert [resource.uri for resource in client.list_resources()] == ["memo://greeting", "memo://asked"]
    assert [template.uri_template for template in client.list_resource_templates()] == [
        "memo://{name}/length", "memo://asked/{name}"]
    assert [prompt.name for prompt in client.list_prompts()] == ["interview", "greet"]


def test_a_call_leaves_nothing_large_for_the_garbage_collector(client):
    text, calls = "x" * 1_000_000, 8
    client.call_tool("echo", {"text": text})
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(calls):
            assert client.call_tool("echo", {"text": text}).text == text
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < calls * len(text) / 2, "a thread may still have the last response, but not each one"


def test_results(client, revision):
    result = client.call_tool("add", {"a": 2, "b": 3})
    assert result.text == "5" and not result.is_error
    assert result.structured_content == ({"result": 5} if revision in ELICITATION else None)
    bare = client.call_tool("moons").structured_content
    assert bare == (["Phobos"] if revision == MODERN else {"result": ["Phobos"]} if revision in ELICITATION else None)
    for name, arguments, value in (("add", {"a": 2, "b": 3}, 5), ("moons", {}, ["Phobos"]), ("echo", {"text": "hi"}, "hi")):
        assert client.call_tool(name, arguments).data == client.tools[name](**arguments).data == value
    schemas = {tool.name: tool.output_schema for tool in client.list_tools()}
    listed = {"type": "array", "items": {"type": "string"}}
    if revision in ELICITATION:
        assert schemas["add"] == {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
        assert (schemas["moons"] if revision == MODERN else schemas["moons"]["properties"]["result"]) == listed
    else:
        assert schemas["add"] is schemas["moons"] is None
    assert client.call_tool("echo", {"text": "grüß 🎈\n\u2028\0"}).text == "grüß 🎈\n\u2028\0"
    assert client.read_resource("memo://greeting").contents[0].text == "hello"
    assert client.read_resource("memo://Ada/length").contents[0].text == "3"
    assert client.get_prompt("greet", {"name": "Ada"}).messages[0].content.text == "Say hello to Ada."
    assert client.complete(prompt="greet", argument="name", value="A").values == ["Ada", "Alan"]


def test_errors(client, revision):
    assert client.call_tool("fail", {"how": "no luck"}).is_error
    assert "no luck" in client.call_tool("fail", {"how": "no luck"}).text
    with pytest.raises(mcplite.errors.InvalidParams):
        client.call_tool("missing")
    with pytest.raises(mcplite.errors.ResourceNotFound):
        client.read_resource("memo://nothing")
    with pytest.raises(mcplite.errors.MethodNotFound):
        client.request("no/such/method")
    if revision in ("2025-11-25", MODERN):
        assert client.call_tool("add", {"a": "x", "b": 1}).is_error
    else:
        with pytest.raises(mcplite.errors.InvalidParams):
            client.call_tool("add", {"a": "x", "b": 1})
    client.ping()


def test_a_big_result_and_a_big_argument(client):
    assert len(client.call_tool("big", {"size": 1 << 20}).text) == 1 << 20
    text = "y" * (1 << 20)
    assert client.call_tool("echo", {"text": text}).text == text


def test_progress_comes_in_order_and_before_the_result(client):
    seen = []
    result = client.call_tool("count_up", {"steps": 200}, on_progress=lambda progress: seen.append(progress.progress))
    assert result.text == "200 steps"
    assert seen[-1] == 200 and seen == sorted(seen)


def test_no_progress_is_lost_while_another_call_waits(client, key):
    # The thread that waits for the other call may read the progress of this one.
    token, blocked, seen = mcplite.CancelToken(), threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.call_tool, "block", {"key": key}, cancel=token, on_progress=lambda progress: blocked.set())
        assert blocked.wait(LIMIT)
        client.call_tool("count_up", {"steps": 2500}, on_progress=lambda progress: seen.append(progress.progress))
        token.cancel("enough")
        assert isinstance(waiting.exception(LIMIT), mcplite.Cancelled)
    assert seen == list(range(1, 2501))


def test_log_messages(connect):
    seen, last = [], threading.Event()

    def note(message: LogMessage) -> None:
        seen.append((message.level, message.data))
        if message.data == "two":
            last.set()

    with connect(log_handler=note) as client:
        client.set_log_level("info")
        client.call_tool("speak", {"words": ["one", "two"]})
        assert last.wait(LIMIT)
    assert seen == [("info", "one"), ("info", "two")]


def test_two_questions_and_one_effect_in_between(connect, revision, key):
    asked = []

    def answer(request):
        asked.append(request.message)
        return {"city": "Rome", "nights": 2} if "Where" in request.message else True

    with connect(elicitation_handler=answer) as client:
        result = client.call_tool("book", {"key": key})
        if revision not in ELICITATION:
            assert result.is_error and "elicitation" in result.text
            return
        assert result.text == "Rome for 2, accept"
        assert client.call_tool("effects_of", {"key": key}).text == "1"
    assert asked == ["Where to?", "Sure about Rome?"]


def test_notifications_and_pings_of_the_server(connect, host, revision):
    moved = queue.Queue()
    with connect() as client:
        client.on("notifications/acme/moved", moved.put)
        # The client of a mounted server is the hub.
        asked = {"mounted-legacy": "2025-11-25", "mounted-modern": MODERN}.get(host.name, revision)
        connected = asked != MODERN or host.name in ("memory", "mounted", "mounted-modern", "stdio")
        pinged = asked != MODERN
        assert client.call_tool("tell").text == ", ".join("sent" if one else "not supported" for one in (connected, pinged))
        places = {moved.get(timeout=LIMIT)["to"] for _ in range(2 if connected else 1)}
        assert places == ({"Rome", "Oslo"} if connected else {"Rome"})


def test_progress_of_an_answer(connect, host, revision):
    def answer(request):
        request.report_progress(1, 2, "thinking")
        request.report_progress(2, 2)
        return "Well."

    with connect(sampling_handler=answer) as client:
        told = client.call_tool("patient").text
        if host.fleet is None:  # the reports may reach another process than the question's
            reports = revision != MODERN and host.name != "mounted-modern"
            assert told == (str([(1, 2), (2, 2)]) if reports else "[]")


def test_a_question_is_declined(connect, revision, key):
    with connect(elicitation_handler=lambda request: False) as client:
        assert ("no trip: decline" in client.call_tool("book", {"key": key}).text) is (revision in ELICITATION)
        assert client.call_tool("effects_of", {"key": key}).text == "0"


def test_declared_questions_and_several_at_once(connect, revision, key):
    asked = []

    def answer(request):
        asked.append(request.message)
        return {"city": "Rome"} if "Where" in request.message else True

    with connect(elicitation_handler=answer) as client:
        result = client.call_tool("reserve", {"key": key})
        assert result.is_error is (revision not in ELICITATION)
        if not result.is_error:
            assert result.text == "1: Rome, accept, accept"
            assert client.call_tool("effects_of", {"key": key}).text == "1"
            assert sorted(asked) == ["A meal?", "At the window?", "Where to, and for how long?"]


def test_questions_that_are_returned(connect, revision):
    def answer(request):
        return {"city": "Rome"} if "Where" in request.message else True

    with connect(elicitation_handler=answer) as client:
        result = client.call_tool("wizard")
        assert result.is_error if revision not in ELICITATION else result.text == "2: Rome, accept"


def test_an_answer_that_does_not_fit_the_form(connect, revision):
    """In a session the handler gets an error; without one nothing is sent, and the client's caller gets the error."""
    with connect(elicitation_handler=lambda request: {"nights": "x"}) as client:
        if revision == MODERN:
            with pytest.raises(mcplite.errors.InternalError, match="does not fit the form"):
                client.call_tool("timid")
        else:
            assert client.call_tool("timid").text == "swallowed"


def test_prompts_and_resources_ask(connect):
    with connect(sampling_handler=lambda request: f"{request.messages[0].content[0].text} Nothing.") as client:
        assert client.read_resource("memo://asked").contents[0].text == "What is in it? Nothing."
        assert client.read_resource("memo://asked/Ada").contents[0].text == "What about Ada? Nothing."
        assert client.get_prompt("interview").messages[0].content.text == "What to ask? Nothing."


def test_sampling_and_roots(connect, tmp_path):
    with connect(sampling_handler=lambda request: f"{request.messages[0].content[0].text} Because.",
                 roots=[tmp_path]) as client:
        assert client.call_tool("think", {"question": "Why?"}).text == "Why? Because."
        assert tmp_path.as_uri() in client.call_tool("folders").text


def test_a_client_that_cannot_be_asked(client, revision):
    if revision != MODERN:
        result = client.call_tool("think", {"question": "Why?"})
        assert result.is_error and "sampling" in result.text
        return
    with pytest.raises(mcplite.errors.MissingCapability) as caught:
        client.call_tool("think", {"question": "Why?"})
    assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
    assert str(caught.value).endswith("; give connect() a sampling_handler=")


def test_a_handler_may_call_the_server(connect):
    with connect(sampling_handler=lambda request: client.call_tool("echo", {"text": "inside"}).text) as client:
        assert client.call_tool("think", {"question": "Why?"}).text == "inside"


@pytest.mark.skipif(not HAS_TASKS, reason="needs the folder of tasks")
def test_questions_are_tasks_of_a_client_that_has_them(host, connect, revision, tmp_path):
    if revision not in (NOVEMBER_2025.name, JULY_2026.name):
        pytest.skip("this revision has no tasks")
    handlers = {"elicitation_handler": lambda question: {"city": "Oslo", "nights": 3},
                "sampling_handler": lambda question: "very"}
    with connect(debug=str(tmp_path / "wire"), **handlers) as client:
        assert client.call_tool("confer").text == "Oslo: very"
    if not host.name.startswith("mounted-"):  # there a client of the hub's own stands between
        polled = (tmp_path / "wire").read_text().count('"tasks/get"')
        assert (polled > 0) is (revision == NOVEMBER_2025.name)


def test_the_list_of_tools_changes(connect, host, key):
    changed = threading.Event()
    with connect(on_tools_changed=changed.set) as client:
        client.call_tool("grow", {"name": f"t{key}"})
        assert changed.wait(LIMIT)
        # Of several workers only one has the tool: what is registered while a server runs, it registers in its own process.
        end = time.monotonic() + (LIMIT if host.fleet else 0)
        while f"t{key}" not in {tool.name for tool in client.list_tools()}:
            assert time.monotonic() < end


def test_a_resource_update_reaches_its_subscribers(connect):
    heard, silent = threading.Event(), threading.Event()
    with connect(on_resource_updated=lambda uri: heard.set()) as one:
        with connect(on_resource_updated=lambda uri: silent.set()) as other:
            one.subscribe_resource("memo://greeting")
            one.call_tool("touch")
            assert heard.wait(LIMIT)
            heard.clear()
            one.unsubscribe_resource("memo://greeting")
            other.subscribe_resource("memo://greeting")
            other.call_tool("touch")
            assert silent.wait(LIMIT)
            assert not heard.is_set()


def test_a_burst_of_changes_ends_no_session(connect):
    heard = threading.Event()
    with connect(on_resource_updated=lambda uri: heard.set()) as client:
        client.subscribe_resource("memo://greeting")
        client.call_tool("touch", {"times": 600}).raise_for_error()  # more than the server keeps for a client
        assert heard.wait(LIMIT)
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_listening_is_spelled_the_same_in_all_revisions(connect, key):
    with connect() as client:
        with client.listen(tools=True, resources=["memo://greeting"]) as events:
            client.call_tool("grow", {"name": f"l{key}"})
            assert events.get(LIMIT) == mcplite.ToolsChanged()
            client.call_tool("touch")
            assert events.get(LIMIT) == mcplite.ResourceUpdated(uri="memo://greeting")
        assert events.get(LIMIT) is None
        heard = queue.Queue()
        stop = client.subscribe(heard.put, resources=["memo://greeting"])
        client.call_tool("touch")
        assert heard.get(timeout=LIMIT).uri == "memo://greeting"
        stop()


def test_cancelling_reaches_a_handler_that_blocks(client, key):
    token = mcplite.CancelToken()
    with pytest.raises(mcplite.Cancelled):
        client.call_tool("block", {"key": key}, cancel=token, on_progress=lambda progress: token.cancel("enough"))
    assert client.call_tool("was_stopped", {"key": key}).text == "true"


def test_a_time_limit_reaches_a_handler_that_blocks(client, key):
    def is_stopped(seconds):
        own = {"key": f"{key} {seconds}"}
        with pytest.raises(mcplite.RequestTimeout):
            client.call_tool("block", own, timeout=seconds)
        return client.call_tool("was_stopped", own).text == "true"

    # On a busy machine the time may be over before the handler has begun.
    assert any(is_stopped(seconds) for seconds in (0.2, 2, 10))


def test_handlers_see_the_http_request_and_its_context_variables(connect, host, revision, key):
    if host.name.startswith("mounted-"):
        pytest.skip("the request of a client is not that of the server that mounts another")
    over_http = host.name not in ("memory", "mounted", "stdio")
    by_middleware = key if host.wsgi else "-"
    options = {"headers": {"X-Call": key}} if over_http else {}
    with connect(elicitation_handler=lambda request: True, **options) as client:
        # What one handler sets, the next one does not see.
        assert [client.call_tool("variable").text for _ in range(3)] == [by_middleware] * 3
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: client.call_tool("variable").text, range(16))) == {by_middleware}
        if revision not in ELICITATION:
            return
        assert client.call_tool("variables").structured_content == {"result": [by_middleware] * 2}
        seen = {"method": "POST", "path": "/mcp", "call": key, "remote": "127.0.0.1",
                "wsgi": host.wsgi, "same": True}
        found = client.call_tool("request_of").structured_content["found"]
        if host.fleet and revision == MODERN:
            # The environment stays in the worker that got the answer, which may be another one.
            found[1]["wsgi"] = True
        assert found == [seen if over_http else None] * 2


def test_closing_ends_calls_that_wait(connect, key):
    with connect() as client:
        blocked = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.call_tool, "block", {"key": key}, on_progress=lambda progress: blocked.set())
            assert blocked.wait(LIMIT)
            client.close()
            with pytest.raises(mcplite.errors.ConnectionClosed):
                waiting.result(LIMIT)


def test_many_threads_use_one_client(client):
    with ThreadPoolExecutor(32) as pool:
        sums = list(pool.map(lambda number: client.call_tool("add", {"a": number, "b": 1}).text, range(320)))
    assert sums == [str(number + 1) for number in range(320)]


def test_clients_do_not_get_messages_for_others(connect):
    seen = {"one": [], "two": []}
    with connect(log_handler=lambda message: seen["one"].append(message.data)) as one:
        with connect(log_handler=lambda message: seen["two"].append(message.data)) as two:
            one.set_log_level("info")
            two.set_log_level("info")
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda pair: pair[0].call_tool("speak", {"words": [pair[1]] * 20}), [(one, "a"), (two, "b")]))
    assert set(seen["one"]) <= {"a"} and set(seen["two"]) <= {"b"}


def test_extensions_are_negotiated_in_each_revision(connect, host):
    with connect(extensions={"com.example/units": {"round": True}}) as client:
        # Each modern client has tasks; a server with a handshake hears of no extension for them.
        tasks = {TASKS_EXTENSION: {}} if client.revision.modern and HAS_TASKS else {}
        own = {} if host.name == "mounted-legacy" else tasks
        assert json.loads(client.call_tool("declared").text) == {"com.example/units": {"round": True}, **own}
        assert client.server_capabilities.extensions == {"com.example/units": {"system": "metric"}, **tasks}
        tools = {tool.name: tool for tool in client.list_tools()}
        assert tools["declared"].meta == {"com.example/unit": "m"}


def test_a_server_knows_which_resources_clients_subscribe_to(connect, host):
    if host.fleet:
        pytest.skip("each worker is told of the subscriptions that it serves")
    uri = f"memo://{uuid.uuid4()}/length"

    def watched(client, number):
        return client.call_tool("wait_for_subscriptions", {"uri": uri, "number": number}, timeout=90).text == "true"

    with connect() as client:
        assert watched(client, 0)
        stop = client.subscribe(lambda event: None, resources=[uri])
        assert watched(client, 1)
        stop()
        assert watched(client, 0)
