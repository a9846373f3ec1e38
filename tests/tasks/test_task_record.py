import json

import pytest

from mcplite.revisions import JULY_2026, NOVEMBER_2025
from mcplite.tasks.task_record import TaskCall, TaskRecord, error_members, timestamp


def record(**changes):
    members = {"id": "i", "server": "s", "tool": "t", "owner": None, "sender": "", "revision": "r", "created": 1.5,
               "updated": 2.25, "ttl": 60.0, "poll": 0.5}
    return TaskRecord(**{**members, **changes})


def test_times_have_milliseconds():
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_700_000_000.5) == "2023-11-14T22:13:20.500Z"


def test_what_is_stored_comes_back():
    kept = record(status="input_required", inputs={"k": {"method": "m"}}, answers={"a": {"result": {}}}, once={"o": [1]})
    assert TaskRecord.load(kept.dump()) == kept
    call = TaskCall("t", "r", {"a": "ü"}, {}, {"m": 1}, {}, None, {"subject": "ann"})
    assert TaskCall.load(call.dump()) == call
    newer = json.dumps({**json.loads(kept.dump()), "later": [1]}).encode()
    assert TaskRecord.load(newer) == kept, "a newer release writes members that this one does not know"
    assert TaskCall.load(json.dumps({**json.loads(call.dump()), "later": 1}).encode()) == call


def test_what_is_not_json_is_refused():
    with pytest.raises(ValueError):
        record(once={"o": float("nan")}).dump()


def test_the_view_of_each_generation():
    view = record(message="half").view(JULY_2026)
    assert (view.task_id, view.status, view.ttl_ms, view.poll_interval_ms, view.status_message) == (
        "i", "working", 60_000, 375, "half")
    assert view.created_at == "1970-01-01T00:00:01.500Z" and view.last_updated_at == "1970-01-01T00:00:02.250Z"
    failed = record(status="completed", is_error=True)
    assert failed.view(NOVEMBER_2025).status == "failed" and failed.view(JULY_2026).status == "completed"


@pytest.mark.parametrize("age, interval", [(-3, 10), (0, 10), (0.1, 50), (0.5, 250), (1, 500), (3600, 500)])
def test_a_young_task_may_be_looked_at_more_often(age, interval):
    assert record().view(JULY_2026, 1.5 + age).poll_interval_ms == interval
    assert record(poll=0.001).view(NOVEMBER_2025, 1.5 + age).poll_interval_ms == 1


def test_an_end_leaves_no_question():
    kept = record(status="input_required", inputs={"k": {}})
    kept.fail(-32603, "m", {"a": 1})
    assert kept.finished and kept.inputs == {} and kept.error == error_members(-32603, "m", {"a": 1})
    assert error_members(1, "m", None) == {"code": 1, "message": "m"}


def test_a_long_message_is_cut():
    kept = record()
    kept.say("x" * 10_000)
    assert len(kept.message) == 500 and kept.message.endswith("…")
    kept.say(None)
    assert kept.message is None
