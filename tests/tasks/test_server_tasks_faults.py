"""The thread that looks after tasks goes on after any one fault."""

import operator
import time

import pytest

from mcplite.errors import RemoteError
from mcplite.revisions import JULY_2026
from mcplite.tasks.server_tasks import tasks_of
from tests.support.children import wait_until
from tests.support.faults import every_fault, lines, no_threads, strike
from tests.support.taskclients import LIMIT, task_client
from tests.tasks.test_server_tasks import Process, Shared, two  # noqa: F401


def wait_taken(task, process):
    end = time.monotonic() + LIMIT
    while task["taskId"] not in tasks_of(process.mcp.runtime)._runs:
        assert time.monotonic() < end
        time.sleep(0.02)


@every_fault
@pytest.mark.slow
def test_the_tasks_of_an_ended_process_are_found_after_a_fault(two, monkeypatch, caplog, fault):  # noqa: F811
    one, other = two
    with task_client(one.mcp, JULY_2026, elicitation_handler=print) as first, task_client(other.mcp, JULY_2026):
        task = first.start("again")
        first.until(task, "input_required")
        struck = strike(monkeypatch, tasks_of(other.mcp.runtime)._roster, "look", fault)
        assert struck.wait(LIMIT)
        one.die()
        wait_taken(task, other)
    assert lines(caplog, "watch over tasks failed, and is tried again") == 1


@pytest.mark.slow
def test_tasks_are_looked_after_once_the_system_has_a_thread(two, monkeypatch, caplog):  # noqa: F811
    one, other = two
    there = no_threads(monkeypatch, "mcplite watch over tasks")
    with task_client(other.mcp, JULY_2026) as second:
        assert "tasks are not looked after" in caplog.text
        there()
        own = second.start("wait")  # the next task tries again
        with task_client(one.mcp, JULY_2026, elicitation_handler=print) as first:
            task = first.start("again")
            first.until(task, "input_required")
            one.die()
            wait_taken(task, other)
        other.go.set()
        second.until(own)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the fault may end the task's thread
@every_fault
@pytest.mark.parametrize("name", ["_roster.remove", "_keep", "_pool.submit"])
@pytest.mark.slow
def test_a_fault_around_a_task_keeps_no_server_from_its_end(two, monkeypatch, fault, name):  # noqa: F811
    one, _ = two
    runtime = one.mcp.runtime
    with task_client(one.mcp, JULY_2026) as client:
        owner, _, method = name.rpartition(".")
        tasks = tasks_of(runtime)
        one.go.set()
        struck = strike(monkeypatch, operator.attrgetter(owner)(tasks) if owner else tasks, method, fault)
        if method == "remove":
            client.until(client.start("wait"))
        else:
            with pytest.raises(RemoteError, match="Internal error"):
                client.start("wait")
        assert struck.wait(LIMIT)
        client.until(client.start("wait"))  # the next one is run
        assert wait_until(lambda: not tasks_of(runtime)._runs)
    assert wait_until(lambda: not runtime._users)
