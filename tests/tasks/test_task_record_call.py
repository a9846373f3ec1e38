"""What a call that becomes a task brings: for how long it is kept, and who its client is when it runs."""

import pytest

import mcplite
from mcplite.errors import InvalidParams
from mcplite.revisions import NOVEMBER_2025
from mcplite.tasks import Tasks
from tests.support.taskclients import task_client


@pytest.fixture
def mcp():
    mcp = mcplite.Server("calls", options=mcplite.ServerOptions(tasks=Tasks(keep=100)))

    @mcp.tool(task="optional")
    def told(ctx: mcplite.Context, text: str) -> str:
        return f"{text} of {ctx.client_info.name}, {ctx.protocol_version}, {ctx.can_elicit}, {ctx.meta.get('mine')}"

    yield mcp
    mcp.close()


@pytest.mark.parametrize("asked, kept", [(None, 100_000), (1, 1), (10 ** 12, 100_000)])
def test_a_task_is_kept_as_its_client_asks_up_to_the_limit(mcp, asked, kept):
    with task_client(mcp, NOVEMBER_2025) as client:
        assert client.start("told", ttl=asked, text="x")["ttl"] == kept


@pytest.mark.bad_wire
@pytest.mark.parametrize("task", ["x", 3, {"ttl": 0}, {"ttl": -1}, {"ttl": True}, {"ttl": "1"}, {"ttl": 1e16}])
def test_a_lifetime_that_is_not_valid_is_refused(mcp, task):
    with task_client(mcp, NOVEMBER_2025) as client:
        with pytest.raises(InvalidParams, match="params.task"):
            client.request("tools/call", name="told", arguments={"text": "x"}, task=task)
