"""How a server has tasks: the limits are checked by name, and stand where a runner may stand as well."""

import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.tasks import Tasks


@pytest.mark.parametrize("name", ["running", "queued", "kept", "keep", "bytes", "poll"])
@pytest.mark.parametrize("value", [0, -1, "5", True])
def test_a_limit_must_be_positive(name, value):
    with pytest.raises(RegistrationError, match=f"^Tasks: {name} must be positive, not {value!r}$"):
        Tasks(**{name: value})


def test_a_runner_in_the_limits_is_checked_as_one_of_its_own():
    for tasks in (Tasks(runner=5), 5):
        with pytest.raises(RegistrationError, match="tasks= must be mcplite.tasks.Tasks.* not 5"):
            mcplite.Server("x", options=mcplite.ServerOptions(tasks=tasks))


def test_tasks_take_a_sixteenth_of_the_memory():
    for memory, given, taken in ((64 << 20, None, 4 << 20), (256 << 20, None, 16 << 20), (64 << 20, 1000, 1000)):
        mcp = mcplite.Server("x", limits=mcplite.Limits(memory_bytes=memory),
                             options=mcplite.ServerOptions(tasks=Tasks(bytes=given)))
        mcp.add_tool(lambda: None, name="t", task="optional")
        tasks = mcp.runtime.extension(mcplite.revisions.TASKS_EXTENSION)
        assert tasks.limits.bytes == taken
