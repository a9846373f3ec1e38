"""Changes of a task on a stream, where the server offers one; else the task is polled."""

import pytest

from tests.support.fakes import LIMIT, SILENCE, Refusal, start
from tests.support.tasks import MODERN, PREFIX, RESULT, TaskServer

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@pytest.fixture
def server():
    with TaskServer(MODERN, {}, answers={"subscriptions/listen": SILENCE}) as server:
        yield server


def tell(server, method, params):
    """Send a notification on the stream of the task."""
    id = server.got("subscriptions/listen")["id"]
    server.tell(method, {**params, "_meta": {PREFIX + "subscriptionId": id}})


def test_a_task_that_lasts_is_heard_of_on_a_stream(server):
    with server.connect() as client:
        thread, outcome = start(client.call_tool, "slow")
        assert server.got("subscriptions/listen")["params"]["notifications"] == {"taskIds": ["t1"]}
        tell(server, ACKNOWLEDGED, {"notifications": {"taskIds": ["t1"]}})
        tell(server, "notifications/tasks", {**server.task, "statusMessage": "half"})
        # The responses to tasks/get still say that it works.
        tell(server, "notifications/tasks", {**server.task, "status": "completed", "result": RESULT})
        thread.join(LIMIT)
        assert outcome[0].text == "done"
        id = server.got("subscriptions/listen")["id"]
        assert server.got("notifications/cancelled")["params"]["requestId"] == id  # the stream ends with the wait


def test_notifications_of_other_tasks_and_invalid_ones_are_ignored(server):
    with server.connect() as client:
        thread, outcome = start(client.call_tool, "slow")
        tell(server, ACKNOWLEDGED, {"notifications": {"taskIds": ["t1"]}})
        done = {**server.task, "status": "completed", "result": RESULT}
        for params in ({**done, "taskId": "t2"}, {**done, "status": 3}, {}):
            tell(server, "notifications/tasks", params)
        tell(server, "notifications/tasks", {**done, "result": {"content": [{"type": "text", "text": "right"}]}})
        thread.join(LIMIT)
        assert outcome[0].text == "right"


@pytest.mark.parametrize("notifications", [{}, {"taskIds": []}, {"taskIds": ["t2"]}, {"taskIds": "t1"}, None, []])
@pytest.mark.slow
def test_a_task_that_the_server_does_not_announce_is_polled(server, notifications):
    with server.connect() as client:
        thread, outcome = start(client.call_tool, "slow")
        tell(server, ACKNOWLEDGED, {"notifications": notifications})
        server.got("notifications/cancelled")
        server.change(status="completed")
        thread.join(LIMIT)
        assert outcome[0].text == "done"


@pytest.mark.parametrize("answer", [Refusal(-32601, "Method not found"), Refusal(-32021, "no"), {"resultType": "complete"}])
def test_a_task_is_polled_when_the_stream_is_refused_or_ends(server, answer):
    server.answers["subscriptions/listen"] = answer
    with server.connect() as client:
        thread, outcome = start(client.call_tool, "slow")
        server.got("subscriptions/listen")
        server.got("tasks/get", 3)
        server.change(status="completed")
        thread.join(LIMIT)
        assert outcome[0].text == "done"
