"""Tasks at servers of others: the reference server in TypeScript (November 2025), FastMCP (the extension of July 2026)."""

import contextlib
import shlex
import subprocess
import sys

import pytest

import mcplite
from tests.interop.conftest import HERE, LIMIT, ROOT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


@contextlib.contextmanager
def connected(target, **options):
    with mcplite.connect(target, timeout=LIMIT, open_timeout=LIMIT, **options) as client:
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
    with connected(everything, elicitation_handler=answer) as client:
        arguments = {"topic": "python", "ambiguous": True}
        result = client.call_tool("simulate-research-query", arguments,
                                  on_progress=lambda progress: seen.append(progress.message))
    assert "python (snake)" in result.text
    assert "Gathering sources..." in seen and any("Requesting clarification" in message for message in seen)


def test_a_started_task_is_listed_and_taken_up_and_cancelled(everything):
    with connected(everything) as client:
        started = client.start_tool("simulate-research-query", {"topic": "rain"}, ttl=60)
        assert started.status == "working" and started.id in [task.id for task in client.list_tasks()]
        again = client.task(started.id)
        again.cancel()
        assert again.status == "cancelled"
        with pytest.raises(mcplite.Cancelled):
            started.result(LIMIT)
        with pytest.raises(mcplite.InvalidParams):
            client.task("no-such-task")


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
    with serving([installed.python("fastmcptasks"), str(HERE / "fastmcp_tasks_server.py"), "http"]) as server:
        yield server.url


@pytest.fixture
def fast(fast_url):
    with connected(fast_url, elicitation_handler=answer) as client:
        yield client


def test_tasks_over_stdio(installed):
    command = [installed.python("fastmcptasks"), str(HERE / "fastmcp_tasks_server.py")]
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
    with pytest.raises(mcplite.NotSupported, match="keep the ids"):
        fast.list_tasks()


def test_tasks_are_cancelled(fast):
    task = fast.start_tool("forever")
    task.cancel()
    assert task.wait(LIMIT) and task.status == "cancelled"
