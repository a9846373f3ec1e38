"""The thread that looks after tasks goes on after any one fault."""

import time

import pytest

from mcplite.revisions import JULY_2026
from mcplite.tasks.server_tasks import tasks_of
from tests.support.faults import every_fault, lines, strike
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
