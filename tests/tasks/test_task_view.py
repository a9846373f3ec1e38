"""What is known of a task: states in their order, progress within bounds, and waiting for changes."""

import pytest

from mcplite.tasks.task_view import StartedTasks, TaskView
from mcplite.types.tasks import DetailedTask
from tests.support.fakes import LIMIT, SILENCE, Refusal, start
from tests.support.tasks import LEGACY, MODERN, PREFIX, RESULT, TaskServer


def state(status="working", at="2026-01-01T00:00:01Z", **members):
    return DetailedTask("t1", status, "2026-01-01T00:00:00Z", at, **members)


def test_a_final_state_stays():
    # TSK-17
    view = TaskView(state())
    view.put(state("completed"))
    view.put(state("cancelled", "2026-01-01T00:00:09Z"))
    assert view.state.status == "completed"


def test_a_state_that_came_late_is_dropped():
    view = TaskView(state(at="2026-01-01T00:00:05Z"))
    view.put(state("input_required", "2026-01-01T00:00:04Z"))
    assert view.state.status == "working"
    view.put(state("input_required", "2026-01-01T00:00:04.500Z"))  # of another form, so that it cannot be compared
    assert view.state.status == "input_required"
    view.put(state("failed", "2026-01-01T00:00:01Z"))
    assert view.state.status == "failed"


def test_progress_is_kept_within_bounds():
    view = TaskView(state())
    for n in range(3000):
        view.put_progress({"progress": n}, 10)
    taken = [params["progress"] for params in view.take_progress()]
    assert len(taken) == 1000 and taken[0] == 0 and taken[-1] == 2999
    assert view.take_progress() == []
    for n in range(5):
        view.put_progress({"progress": n}, 1 << 20)
    assert [params["progress"] for params in view.take_progress()] == [4]


def test_changes_are_sent_as_long_as_one_of_the_streams_lasts():
    view = TaskView(state())
    view.set_pushed("old", True)
    view.set_pushed("new", True)
    view.set_pushed("old", False)  # which ends late, on a connection that was lost
    assert view.pushed
    view.set_pushed("new", False)
    assert not view.pushed


# --- changes of a task on a stream, where the server offers one; else the task is polled ----------


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


# --- notifications about started tasks reach their views, and no others ---------------------------


STATE = {"taskId": "t1", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
         "ttl": None}


def test_progress_goes_to_the_view_of_its_token():
    tasks, view, other = StartedTasks(), TaskView(), TaskView()
    token, second = tasks.expect_progress(view), tasks.expect_progress(other)
    assert token != second and isinstance(token, str)
    assert tasks.take_progress(token, {"progress": 1}, 10) and view.take_progress() == [{"progress": 1}]
    assert other.take_progress() == []
    for wrong in ("x", 3, None, [], {}, 1.5):
        assert not tasks.take_progress(wrong, {}, 10)


def test_a_status_reaches_each_view_of_its_task_until_the_end_of_the_watch():
    tasks, one, two = StartedTasks(), TaskView(), TaskView()
    ends = [tasks.watch("t1", view) for view in (one, two)]
    tasks.take_status(STATE)
    assert one.state.status == two.state.status == "working"
    ends[0]()
    tasks.take_status({**STATE, "status": "completed"})
    assert one.state.status == "working" and two.state.status == "completed"
    for wrong in ({}, {"taskId": 3}, {"taskId": "t1"}, {**STATE, "taskId": "t2"}, {**STATE, "status": 3}):
        tasks.take_status(wrong)
    ends[1]()
    tasks.take_status({**STATE, "status": "failed"})
    assert two.state.status == "completed"


def test_a_notification_of_the_status_ends_the_wait_before_the_next_request():
    # TSK-33
    with TaskServer(LEGACY, {}, interval=600_000) as server, server.connect() as client:
        task = client.start_tool("slow")
        thread, outcome = start(lambda: [state.status_message for state in task])
        server.change(status="completed", statusMessage="ready")
        for _ in range(LIMIT * 20):
            server.tell("notifications/tasks/status", server.task)  # again, as the thread may not have begun to wait
            thread.join(0.05)
            if not thread.is_alive():
                break
        assert outcome[0] == [None, "ready"] and "tasks/get" not in server.methods()
        assert task.result().text == "done"
