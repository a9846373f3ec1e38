"""Notifications about started tasks reach their views, and no others."""


from mcplite.tasks.task_view import StartedTasks, TaskView
from tests.support.fakes import LIMIT, start
from tests.support.tasks import LEGACY, TaskServer

STATE = {"taskId": "t1", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
         "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None}


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
