"""Tasks at the servers of a group: started by the joined name, taken up and listed by server."""

import pytest

import mcplite
from mcplite.client.config import load_config
from mcplite.client.group import Group
from tests.client.test_connect import defaults
from tests.support.fakes import LIMIT
from tests.support.tasks import LEGACY, MODERN, TaskServer


@pytest.fixture
def servers():
    with TaskServer(LEGACY, {"status": "completed"}) as old, TaskServer(MODERN, {"status": "completed"}) as new:
        old.answers["tasks/list"] = lambda params: {"tasks": [old.task]}
        yield {"old": old, "new": new}


@pytest.fixture
def group(servers):
    config = load_config({"mcpServers": {name: {"command": "x"} for name in servers}})
    with Group(config, lambda server: servers[server.name].connect()) as group:
        yield group


@pytest.mark.parametrize("server", ["old", "new"])
def test_a_tool_is_started_and_its_task_taken_up(group, server):
    started = group.start_tool(f"{server}__slow", {"a": 1})
    assert started.result(LIMIT).text == "done"
    assert group.task(started.id, server=server).result(LIMIT).text == "done"
    with pytest.raises(mcplite.MCPError):
        group.start_tool("nobody__slow")


def test_an_id_is_shown_to_its_own_server_alone(group, servers):
    group.task("t1", server="new")
    assert "tasks/get" in servers["new"].methods() and "tasks/get" not in servers["old"].methods()


def test_the_tasks_of_each_server_that_lists_them(group):
    assert {server: [task.id for task in tasks] for server, tasks in group.list_tasks().items()} == {"old": ["t1"]}


@pytest.mark.parametrize("call", ["start_tool", "task"])
def test_the_calls_of_a_group_have_the_options_of_a_clients(call):
    of_group = defaults(getattr(Group, call))
    of_group.pop("server", None)
    assert of_group == defaults(getattr(mcplite.Client, call))
