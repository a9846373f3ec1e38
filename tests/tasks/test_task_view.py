"""What is known of a task: states in their order, progress within bounds, and waiting for changes."""


from mcplite.tasks.task_view import TaskView
from mcplite.types.tasks import DetailedTask


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
