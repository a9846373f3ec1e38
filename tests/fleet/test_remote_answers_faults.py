"""The thread that looks for the end of other processes goes on after any one fault."""

import pytest

from tests.fleet.test_remote_answers import CAN, PATIENCE, memory_fleet  # noqa: F401
from tests.support.faults import every_fault, lines, strike
from tests.support.stateless import again, call


@every_fault
@pytest.mark.slow
def test_a_handler_is_cancelled_when_the_process_of_its_client_ends_after_a_fault(memory_fleet, monkeypatch, caplog,  # noqa: F811
                                                                                 fault):
    one, other = memory_fleet.create(), memory_fleet.create()
    request = call("work", level="info", **CAN)
    first = one.web.result(request)
    response = other.web.respond(again(request, first))
    messages = iter(response.body)
    while b"begun" not in next(messages):
        pass
    leases = one.mcp.runtime.processes.leases
    number = other.mcp.runtime.processes.leases.number
    assert strike(monkeypatch, leases, "alive", fault, lambda asked: asked == number).wait(PATIENCE)
    other.mcp.runtime.processes.leases.stop()  # as those see it who share the store, that process has ended
    assert "has ended" in one.ended.get(timeout=PATIENCE)
    assert lines(caplog, "watch over the processes of clients failed, and is tried again") == 1
    response.body.close()
