"""Tasks beside others: at the reference server in TypeScript and at FastMCP's, and of our server with clients of three SDKs."""

import contextlib
import json
import os
import shlex
import subprocess
import sys

import pytest

import mcplite
from tests.interop.bridging import BRIDGED, bridge, not_bridged
from tests.interop.conftest import HERE, LIMIT, ROOT, passed
from tests.support import connecting

#: The server is of November 2025, which the client detects; a bridge speaks July 2026, too.
ERA = "legacy" if BRIDGED else None
pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


@contextlib.contextmanager
def connected(target, **options):
    with passed(target, options) as (reached, options):
        with connecting.connect(reached, timeout=LIMIT, open_timeout=LIMIT, **options) as client:
            yield client


def answer(request):
    """Fill in a form with the values of the tests that it has fields for."""
    values = {"interpretation": "snake", "name": "Ada", "favoriteColor": "Red", "agreeToTerms": True}
    return {name: value for name, value in values.items() if name in request.requested_schema["properties"]}


# --- the reference server, where the client decides -------------------------------------------------------


@pytest.fixture(scope="module", params=["stdio", "http"])
def everything(request, installed, serving):
    command = installed.node("server-everything", *(installed.tells if request.param == "http" else []))
    if request.param == "stdio":
        yield command
        return
    with serving([*command, "streamableHttp"], PORT="0") as server:
        yield server.url + "mcp"


def test_a_tool_that_requires_a_task_is_called_and_asks_in_the_middle(everything):
    seen = []
    with connected(everything, era=ERA, elicitation_handler=answer) as client:
        arguments = {"topic": "python", "ambiguous": True}
        result = client.call_tool("simulate-research-query", arguments,
                                  on_progress=lambda progress: seen.append(progress.message))
    assert "python (snake)" in result.text
    assert "Gathering sources..." in seen and any("Requesting clarification" in message for message in seen)


def test_a_started_task_is_listed_and_taken_up_and_cancelled(everything):
    with connected(everything, era=ERA) as client:
        started = client.start_tool("simulate-research-query", {"topic": "rain"}, ttl=60)
        assert started.status == "working"
        # A bridge does not know the user of its client, so it lists no tasks.
        assert BRIDGED or started.id in [task.id for task in client.list_tasks()]
        again = client.task(started.id)
        again.cancel()
        assert again.status == "cancelled"
        with pytest.raises(mcplite.Cancelled):
            started.result(LIMIT)
        with pytest.raises(mcplite.errors.InvalidParams):
            client.task("no-such-task")


@not_bridged("a bridge is asked by its server with questions that are no tasks")
def test_the_server_asks_in_tasks(everything):
    with connected(everything, elicitation_handler=answer, sampling_handler=lambda request: "a sampled text") as client:
        text = client.call_tool("trigger-elicitation-request-async").text
        assert "[COMPLETED]" in text and "- Name: Ada" in text and "Poll 1" in text
        text = client.call_tool("trigger-sampling-request-async", {"prompt": "hello"}).text
        assert "[COMPLETED]" in text and "a sampled text" in text and "Task created" in text


def test_the_command_line_waits_for_a_task(installed):
    target = shlex.join(installed.node("server-everything"))
    ran = subprocess.run([sys.executable, "-m", "mcplite", "call", target, "simulate-research-query", "topic=rain"], cwd=ROOT,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3 * LIMIT, encoding="utf-8")
    assert ran.returncode == 0 and "Research Report: rain" in ran.stdout, ran.stderr


# --- FastMCP, where the server decides --------------------------------------------------------------------


@pytest.fixture(scope="module")
def fast_url(installed, serving):
    with serving([installed.python("fastmcp4"), str(HERE / "fastmcp_tasks_server.py"), "http"]) as server:
        yield server.url


@pytest.fixture
def fast(fast_url):
    with connected(fast_url, elicitation_handler=answer) as client:
        yield client


def test_tasks_over_stdio(installed):
    command = [installed.python("fastmcp4"), str(HERE / "fastmcp_tasks_server.py")]
    with connected(command, elicitation_handler=answer) as client:
        assert client.call_tool("greet").text == "Hello Ada"


def test_calls_that_become_tasks_return_their_results(fast):
    assert fast.protocol_version == "2026-07-28"
    assert fast.call_tool("count", {"to": 4}).data == 4
    assert fast.call_tool("either", {"text": "now"}).text == "now"
    assert fast.call_tool("greet").text == "Hello Ada"
    failed = fast.call_tool("broken")
    assert failed.is_error and failed.text == "it broke"


def test_a_task_is_taken_up_by_its_id(fast):
    started = fast.start_tool("count", {"to": 6})
    assert started.id and not started.finished
    assert [state.status for state in fast.task(started.id)][-1] == "completed"
    assert started.result(LIMIT).data == 6
    with pytest.raises(mcplite.errors.NotSupported, match="keep the ids"):
        fast.list_tasks()


def test_tasks_are_cancelled(fast):
    task = fast.start_tool("forever")
    task.cancel()
    assert task.wait(LIMIT) and task.status == "cancelled"


# --- our server, and the clients of others ----------------------------------------------------------------


@contextlib.contextmanager
def serve(transport, serving, *options):
    """Give what a client needs for our server with tasks: a command, or a URL.

    :param options: of a bridge, if there is one.
    """
    program = str(HERE / "task_server.py")
    on_stdio, over_http = [sys.executable, program], [sys.executable, "-m", "mcplite.server", program, "--http", "0"]
    if transport == "stdio" and not BRIDGED:
        yield on_stdio
        return
    # Behind a bridge the server has the other transport.
    with serving(bridge(on_stdio, "--http", "0", *options) if BRIDGED and transport == "http" else over_http) as server:
        yield bridge(server.url, *options) if transport == "stdio" else [server.url]


@pytest.fixture(params=["stdio", "http"])
def served(request, serving):
    """Our server for clients that decide which calls become tasks, as servers of November 2025 have it."""
    with serve(request.param, serving, "--revision", "2025-11-25") as served:
        yield served


@pytest.fixture(params=["stdio", "http"])
def served_to_fastmcp(request, serving):
    with serve(request.param, serving) as served:
        yield served


def report(command, target):
    """Return what a program of another SDK saw."""
    ran = subprocess.run([*command, *target], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3 * LIMIT,
                         env={**os.environ, "PYTHONPATH": str(ROOT)}, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_official_client_in_python(installed, served):
    seen = report([installed.python("mcp1"), "-W", "ignore", str(HERE / "official_task_client.py")], served)
    assert seen["declared"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert seen["support"] == {"count": "required", "either": "optional", "forever": "required", "broken": "required",
                               "greet": "required"}
    for tool, text in (("count", "3"), ("either", "now"), ("greet", "Hello Ada")):
        found = seen[tool]
        assert (found["first"], found["last"], found["text"], found["ttl"]) == ("working", "completed", text, 60_000), tool
        assert found["related"] and not found["is_error"]
    assert (seen["broken"]["last"], seen["broken"]["message"], seen["broken"]["is_error"]) == ("failed", "it broke", True)
    assert seen["at once"] == "now" and seen["cancelled"] == "cancelled"
    codes = {name: seen[name]["code"] for name in ("again", "unknown", "plain", "without", "list")}
    assert codes == {"again": -32602, "unknown": -32602, "plain": -32601, "without": -32601, "list": -32601}
    # It serves questions of ours as tasks.
    polled = [step for step in seen["asked"] if step != "tasks/get"]
    assert seen["confer"] == "Ada: very"
    if not BRIDGED:  # which asks with questions that are no tasks
        assert seen["asked"].count("tasks/get") >= 2
        assert polled == ["elicitation as a task", "tasks/result", "sampling as a task", "tasks/result"]


def test_the_official_client_in_typescript(installed, served):
    # The second generation of that SDK, 2.4, has the names of the methods, and nothing that follows a task.
    seen = report(installed.script("official_task_client.mjs"), served)
    assert seen["declared"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    for tool, text in (("count", "3"), ("either", "now"), ("greet", "Hello Ada")):
        assert (seen[tool]["first"], seen[tool]["text"], seen[tool]["isError"]) == ("working", text, False), tool
    assert seen["broken"]["statuses"][-1] == "failed" and "failed" in seen["broken"]["error"]
    assert seen["greet"]["statuses"][-1] == "input_required"
    assert seen["atOnce"] == "now" and seen["cancelled"] == "cancelled"
    assert {name: seen[name]["code"] for name in ("again", "unknown", "list")} == {
        "again": -32602, "unknown": -32602, "list": -32601}
    assert seen["confer"] == "Ada: very"
    assert BRIDGED or seen["asked"] == ["elicitation as a task", "sampling as a task"]


def test_the_client_of_fastmcp(installed, served_to_fastmcp):
    served = served_to_fastmcp
    seen = report([installed.python("fastmcp4"), str(HERE / "fastmcp_task_client.py")], served)
    assert seen["plain"] == "now"
    if served[0].startswith("http"):
        # It sends requests about tasks without the header that names the task, which the extension asks for.
        assert seen["count"] == "Header mismatch: Mcp-Name is missing"
        return
    assert (seen["count"], seen["either"], seen["greet"], seen["broken"]) == ("3", "now", "Hello Ada", "it broke")
    assert (seen["first"], seen["cancelled"]) == ("working", "cancelled")
