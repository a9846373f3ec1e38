"""The requests about tasks, in both generations, each against a server in this process."""

import json
import threading

import pytest
import requests

import mcplite
from mcplite import serve
from mcplite.errors import InvalidParams, MethodNotFound, MissingCapability, RemoteError
from mcplite.protocol.meta import CAPABILITIES, SUBSCRIPTION, VERSION
from mcplite.revisions import JULY_2026, JUNE_2025, NOVEMBER_2025
from mcplite.tasks.server_tasks import tasks_of
from mcplite.types.tasks import RELATED_TASK, TASK_IDS, TASKS_EXTENSION
from tests.support import connecting
from tests.support.taskclients import LIMIT, REVISIONS, task_client

both = pytest.mark.parametrize("revision", REVISIONS, ids=str)


class Jobs:
    """A server whose tools wait for the test."""

    def __init__(self, **options):
        self.go, self.begun, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.mcp = connecting.new_server("jobs", **options)

        @self.mcp.tool
        def plain() -> str:
            return "plain"

        @self.mcp.tool(task="optional")
        def add(a: int, b: int) -> int:
            return a + b

        @self.mcp.tool(task="required")
        def wait(ctx: mcplite.Context) -> str:
            self.begun.set()
            try:
                while not self.go.wait(0.01):
                    ctx.check_cancelled()
            finally:
                self.stopped.set()
            return "waited"

        @self.mcp.tool(task="required")
        def fail(how: str) -> str:
            if how == "tool":
                raise mcplite.ToolError("it is broken")
            if how == "protocol":
                raise mcplite.errors.InvalidParams("not this", data={"a": 1})
            raise KeyboardInterrupt

        @self.mcp.tool(task="required")
        def ask(ctx: mcplite.Context) -> str:
            answers = ctx.ask({"name": mcplite.Elicit("Name?", {"type": "object", "properties": {"n": {"type": "string"}},
                                                                "required": ["n"]}),
                               "sure": mcplite.Elicit("Sure?")})
            return f"{answers['name'].data['n']} {answers['sure'].action}"


@pytest.fixture
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.go.set()
    jobs.mcp.close()


@both
def test_a_task_is_created_at_once_and_finished_later(jobs, revision):
    with task_client(jobs.mcp, revision) as client:
        task = client.start("wait")
        assert task["status"] == "working" and len(task["taskId"]) >= 32
        assert client.get(task)["status"] == "working"
        jobs.go.set()
        assert client.result(task) == {"content": [{"type": "text", "text": "waited"}]}
        assert client.until(task)["status"] == "completed"
        assert "progressToken" not in str(client.get(task))


@both
def test_the_result_is_that_of_a_plain_call(jobs, revision):
    with mcplite.connect(jobs.mcp, revision=revision.name, timeout=LIMIT) as plain:
        expected = plain.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}) if not revision.modern else None
    with task_client(jobs.mcp, revision) as client:
        found = client.result(client.start("add", a=1, b=2))
    assert found["structuredContent"] == {"result": 3}
    assert expected is None or {name: value for name, value in expected.items() if name != "_meta"} == found


@both
def test_arguments_are_checked_before_there_is_a_task(jobs, revision):
    with task_client(jobs.mcp, revision) as client:
        params = {"name": "add", "arguments": {"a": "x"}, **({} if revision.modern else {"task": {}})}
        if revision.modern:
            assert client.request("tools/call", **params)["isError"]
        else:
            with pytest.raises(InvalidParams, match="Invalid arguments for tool add"):
                client.request("tools/call", **params)


@both
def test_a_tool_that_fails(jobs, revision):
    with task_client(jobs.mcp, revision) as client:
        task = client.start("fail", how="tool")
        found = client.until(task)
        assert found["status"] == ("completed" if revision.modern else "failed") and found["statusMessage"] == "it is broken"
        assert client.result(task)["isError"]


@both
@pytest.mark.parametrize("how, code", [("protocol", -32602), ("other", -32603)])
def test_a_tool_that_ends_with_an_error_of_the_protocol(jobs, revision, how, code):
    with task_client(jobs.mcp, revision) as client:
        task = client.start("fail", how=how)
        found = client.until(task)
        assert found["status"] == "failed" and found["statusMessage"]
        if revision.modern:
            assert found["error"]["code"] == code and "result" not in found
            return
        with pytest.raises(RemoteError) as caught:
            client.result(task)
        assert caught.value.code == code and (how != "protocol" or caught.value.data == {"a": 1})


@both
def test_cancelling(jobs, revision):
    with task_client(jobs.mcp, revision) as client:
        task = client.start("wait")
        assert jobs.begun.wait(LIMIT)
        answer = client.cancel(task)
        assert answer["resultType" if revision.modern else "status"] == ("complete" if revision.modern else "cancelled")
        assert ("taskId" in answer) is not revision.modern
        assert jobs.stopped.wait(LIMIT)
        assert client.until(task)["status"] == "cancelled"
        if revision.modern:
            assert client.cancel(task)["resultType"] == "complete"
        else:
            with pytest.raises(InvalidParams, match="already in terminal status 'cancelled'"):
                client.cancel(task)
            with pytest.raises(RemoteError, match="cancelled"):
                client.request("tasks/result", taskId=task["taskId"])


@both
def test_what_a_cancelled_handler_returns_is_dropped(revision):
    mcp, begun, go, ended = mcplite.Server("stubborn"), threading.Event(), threading.Event(), threading.Event()

    @mcp.tool(task="required")
    def stubborn() -> str:
        begun.set()
        go.wait(LIMIT)
        ended.set()
        return "too late"

    with task_client(mcp, revision) as client:
        task = client.start("stubborn")
        assert begun.wait(LIMIT)
        client.cancel(task)
        go.set()
        assert ended.wait(LIMIT)
        assert client.until(task)["status"] == "cancelled"
    mcp.close()


@both
def test_questions(jobs, revision):
    asked = []

    def answer(question):
        asked.append(question)
        return {"n": "Ada"} if question.message == "Name?" else {}

    with task_client(jobs.mcp, revision, elicitation_handler=answer) as client:
        task = client.start("ask")
        found = client.until(task, "input_required")
        if revision.modern:
            assert set(found["inputRequests"]) == {"name", "sure"}
            client.request("tasks/update", taskId=task["taskId"], inputResponses={
                "name": {"action": "accept", "content": {"n": "Ada"}}, "unknown": {"action": "accept"}})
            assert set(client.until(task, "input_required")["inputRequests"]) == {"sure"}
            client.request("tasks/update", taskId=task["taskId"], inputResponses={"sure": {"action": "decline"}})
            assert client.result(task)["content"][0]["text"] == "Ada decline"
            return
        assert client.result(task)["content"][0]["text"] == "Ada accept"
        assert [question.meta for question in asked] == [{RELATED_TASK: {"taskId": task["taskId"]}}] * 2
        assert client.until(task)["status"] == "completed"


def test_an_answer_that_does_not_fit_is_asked_for_again_under_another_key(jobs):
    with task_client(jobs.mcp, JULY_2026, elicitation_handler=print) as client:
        task = client.start("ask")
        client.until(task, "input_required")
        client.request("tasks/update", taskId=task["taskId"], inputResponses={
            "name": {"action": "accept", "content": {"n": 5}}, "sure": {"action": "accept"}})
        while "name-2" not in client.until(task, "input_required", "working").get("inputRequests", {}):
            pass
        client.request("tasks/update", taskId=task["taskId"], inputResponses={
            "name": {"action": "accept", "content": {"n": "old key"}}})
        client.request("tasks/update", taskId=task["taskId"], inputResponses={
            "name-2": {"action": "accept", "content": {"n": "Ada"}}})
        assert client.result(task)["content"][0]["text"] == "Ada accept"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result"])
@both
@pytest.mark.bad_wire
def test_an_unknown_task(jobs, revision, method):
    if method not in revision.task_requests:
        with task_client(jobs.mcp, revision) as client, pytest.raises(MethodNotFound):
            client.request(method, taskId="x" * 32)
        return
    more = {"inputResponses": {}} if method == "tasks/update" else {}
    for wrong in ("x" * 32, "", "a/b", "ü", 5):
        with task_client(jobs.mcp, revision) as client, pytest.raises(InvalidParams):
            client.request(method, taskId=wrong, **more)


def test_metadata_about_a_task_does_not_name_the_task(jobs):
    with task_client(jobs.mcp, NOVEMBER_2025) as client:
        one, other = client.start("add", a=1, b=1), client.start("wait")
        client.until(one)
        found = client.request("tasks/get", taskId=one["taskId"], _meta={RELATED_TASK: {"taskId": other["taskId"]}})
        assert found["taskId"] == one["taskId"] and RELATED_TASK not in found.get("_meta", {})


def test_without_authentication_there_is_no_list(jobs):
    with task_client(jobs.mcp, NOVEMBER_2025) as client:
        assert "list" not in client.client.server_capabilities.tasks
        with pytest.raises(MethodNotFound):
            client.request("tasks/list")


def bare_request(url, method, named, **params):
    """Send a request of a client that declares nothing; return the HTTP status and the message."""
    params["_meta"] = {VERSION: JULY_2026.name, CAPABILITIES: {}}
    response = requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers={
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": JULY_2026.name, "Mcp-Method": method,
        "Mcp-Name": named}, timeout=LIMIT)
    return response.status_code, response.json()


def test_a_client_without_the_extension(jobs):
    with serve(jobs.mcp, port=0) as httpd, task_client(httpd.url, JULY_2026) as client:
        task = client.start("wait")["taskId"]
        refused = [bare_request(httpd.url, method, task, taskId=task, **(
            {"inputResponses": {}} if method == "tasks/update" else {})) for method in sorted(JULY_2026.task_requests)]
        refused.append(bare_request(httpd.url, "tools/call", "wait", name="wait", arguments={}))
        assert len(refused) == 4
        for status, message in refused:
            assert status == 400 and message["error"]["code"] == -32021
            assert message["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        status, message = bare_request(httpd.url, "tools/call", "add", name="add", arguments={"a": 1, "b": 2})
        assert status == 200 and message["result"]["structuredContent"] == {"result": 3}
        status, message = bare_request(httpd.url, "tools/list", None)
        assert {tool["name"] for tool in message["result"]["tools"]} == {"plain", "add"}, "what needs a task is left out"
        # The header says which task it is about, for those who route requests.
        status, message = bare_request(httpd.url, "tasks/get", "another", taskId=task)
        assert status == 400 and message["error"]["code"] == -32020


@pytest.mark.parametrize("name, params, works", [
    ("plain", {}, True), ("add", {}, True), ("wait", {}, False), ("plain", {"task": {}}, False),
])
def test_support_of_a_tool_in_november_2025(jobs, name, params, works):
    arguments = {"a": 1, "b": 2} if name == "add" else {}
    with task_client(jobs.mcp, NOVEMBER_2025) as client:
        if works:
            assert "content" in client.request("tools/call", name=name, arguments=arguments, **params)
            return
        with pytest.raises(MethodNotFound):
            client.request("tools/call", name=name, arguments=arguments, **params)


@pytest.mark.bad_wire
def test_older_clients_have_no_tasks(jobs):
    with mcplite.connect(jobs.mcp, revision=JUNE_2025.name, timeout=LIMIT) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
        with pytest.raises(MethodNotFound, match="as a task only"):
            client.request("tools/call", {"name": "wait", "arguments": {}})
        with pytest.raises(MethodNotFound):
            client.request("tasks/get", {"taskId": "x" * 32})


@pytest.mark.bad_wire
def test_a_server_without_such_tools_declares_nothing_and_ignores_the_param():
    mcp = mcplite.Server("plain")
    mcp.add_tool(lambda: "x", name="plain")
    with mcplite.connect(mcp, revision=NOVEMBER_2025.name, timeout=LIMIT) as client:
        assert client.server_capabilities.tasks is None
        assert "content" in client.request("tools/call", {"name": "plain", "task": {}})
        with pytest.raises(MethodNotFound):
            client.request("tasks/get", {"taskId": "x"})
    with mcplite.connect(mcp, revision=JULY_2026.name, timeout=LIMIT) as client:
        assert TASKS_EXTENSION not in (client.server_capabilities.extensions or {})


def test_what_is_declared(jobs):
    with mcplite.connect(jobs.mcp, revision=NOVEMBER_2025.name, timeout=LIMIT) as client:
        assert client.server_capabilities.tasks == {"cancel": {}, "requests": {"tools": {"call": {}}}}
        assert {tool.name: tool.task_support for tool in client.list_tools()} == {
            "plain": "forbidden", "add": "optional", "wait": "required", "fail": "required", "ask": "required"}
    with mcplite.connect(jobs.mcp, revision=JULY_2026.name, timeout=LIMIT) as client:
        assert client.server_capabilities.extensions == {TASKS_EXTENSION: {}}


def test_a_task_outlives_its_client_and_is_another_generations_as_well(jobs):
    with task_client(jobs.mcp, NOVEMBER_2025) as client:
        task = client.start("add", a=2, b=2)
        other = client.start("wait")
    with task_client(jobs.mcp, JULY_2026) as client:
        assert client.result(task)["structuredContent"] == {"result": 4}
        assert client.get(other)["status"] == "working"
        jobs.go.set()
        assert client.result(other)["content"][0]["text"] == "waited"


def test_notifications_for_those_who_listen(jobs):
    done, seen = threading.Event(), []
    with serve(jobs.mcp, port=0) as httpd, task_client(httpd.url, JULY_2026) as client:
        task, unknown = client.start("wait"), "x" * 32
        listening = threading.Event()

        def listen():
            meta = {VERSION: JULY_2026.name, CAPABILITIES: {"extensions": {TASKS_EXTENSION: {}}}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
                "_meta": meta, "notifications": {TASK_IDS: [task["taskId"], unknown]}}}
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                       "MCP-Protocol-Version": JULY_2026.name, "Mcp-Method": "subscriptions/listen"}
            with requests.post(httpd.url, json=body, headers=headers, stream=True, timeout=LIMIT) as response:
                for line in response.iter_lines():
                    if not line.startswith(b"data: {"):
                        continue
                    seen.append(json.loads(line[6:]))
                    listening.set()
                    if seen[-1]["params"].get("status") == "completed":
                        done.set()
                        return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert listening.wait(LIMIT)
        jobs.go.set()
        assert done.wait(LIMIT)
        thread.join(LIMIT)
        first, *told = seen
        assert first["params"]["notifications"] == {TASK_IDS: [task["taskId"]]}
        assert {message["method"] for message in told} == {"notifications/tasks"}
        last = told[-1]["params"]
        assert last.pop("_meta")[SUBSCRIPTION] == 1
        described = client.get(task)
        assert last == {name: value for name, value in described.items() if name not in ("_meta", "resultType")}


@pytest.mark.bad_wire
@pytest.mark.parametrize("wanted, extensions, error", [
    ({TASK_IDS: []}, {}, MissingCapability), ({TASK_IDS: "x"}, {TASKS_EXTENSION: {}}, InvalidParams),
    ({TASK_IDS: [5]}, {TASKS_EXTENSION: {}}, InvalidParams),
])
def test_who_may_not_listen(jobs, wanted, extensions, error):
    with pytest.raises(error):
        (kind,) = tasks_of(jobs.mcp.runtime).listens()
        kind.honour(wanted[TASK_IDS], extensions, None)
