"""Tasks in both generations: names on the wire, nulls, and the two forms of the response that creates one."""

import pytest

from mcplite.errors import ProtocolError
from mcplite.revisions import JULY_2026, LEGACY, NOVEMBER_2025, REVISIONS
from mcplite.types import CallToolResult, Tool, codec
from mcplite.types.tasks import RELATED_TASK, TERMINAL, CreateTaskResult, DetailedTask, ListTasksResult, related_task
from tests.support import schemas

TASK = DetailedTask("t1", "working", "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z", 60_000, 500, "half of it is done")
HEAD = {"taskId": "t1", "status": "working", "createdAt": "2026-01-02T03:04:05Z", "lastUpdatedAt": "2026-01-02T03:04:06Z",
        "statusMessage": "half of it is done"}
OLD, NEW = {**HEAD, "ttl": 60_000, "pollInterval": 500}, {**HEAD, "ttlMs": 60_000, "pollIntervalMs": 500}


@pytest.mark.parametrize("revision, expected", [(NOVEMBER_2025, OLD), (JULY_2026, NEW)])
def test_the_times_have_the_names_of_the_revision(revision, expected):
    assert codec.encode(TASK, revision) == expected
    assert codec.decode(DetailedTask, expected) == TASK
    assert codec.decode(DetailedTask, expected).extra == {}


@pytest.mark.parametrize("revision, name", [(NOVEMBER_2025, "ttl"), (JULY_2026, "ttlMs")])
def test_no_limit_is_null_and_not_absent(revision, name):
    wire = codec.encode(DetailedTask("t1", "working", "a", "b"), revision)
    assert wire[name] is None and len(wire) == 5
    assert codec.decode(DetailedTask, wire).ttl_ms is None


def test_result_error_and_questions_are_members_of_the_newer_generation():
    done = DetailedTask("t1", "completed", "a", "b", result={"content": []}, error={"code": 1}, input_requests={"k": {}},
                        result_type="complete")
    assert set(codec.encode(done, JULY_2026)) - set(codec.encode(done, NOVEMBER_2025)) == {
        "result", "error", "inputRequests", "resultType", "ttlMs"}


def test_a_task_with_both_names_has_the_newer_one():
    task = codec.decode(DetailedTask, {**NEW, "ttl": 5})
    assert task.ttl_ms == 60_000 and task.extra == {"ttl": 5}


def test_a_created_task_is_a_member_or_the_result_itself():
    created = CreateTaskResult(TASK, {"com.example/a": 1})
    old, new = codec.encode(created, NOVEMBER_2025), codec.encode(created, JULY_2026)
    assert old == {"task": OLD, "_meta": {"com.example/a": 1}}
    assert new == {**NEW, "resultType": "task", "_meta": {"com.example/a": 1}}
    assert codec.decode(CreateTaskResult, old) == codec.decode(CreateTaskResult, new) == created
    assert codec.decode(CreateTaskResult, {**NEW, "resultType": "task"}).meta is None


def test_a_result_says_whether_the_request_became_a_task():
    for revision in (NOVEMBER_2025, JULY_2026):
        assert CreateTaskResult.describes(codec.encode(CreateTaskResult(TASK), revision))
    assert not CreateTaskResult.describes(codec.encode(CallToolResult(), JULY_2026))
    assert not CreateTaskResult.describes({"content": [], "task": {}}) and not CreateTaskResult.describes(None)


@pytest.mark.parametrize("wire, message", [
    ({}, "CreateTaskResult: the member 'task' is missing"), ({"task": {}}, "DetailedTask: the member 'taskId' is missing"),
    ({"task": {**OLD, "ttl": "x"}}, "DetailedTask.ttlMs: expected an integer"),
    ({**NEW, "status": 5}, "DetailedTask.status"),
])
def test_what_is_no_task_is_named(wire, message):
    with pytest.raises(ProtocolError, match=message):
        codec.decode(CreateTaskResult, wire)


def test_final_statuses():
    assert {status for status in ("working", "input_required", *TERMINAL)
            if DetailedTask("t", status, "a", "b").finished} == TERMINAL == {"completed", "failed", "cancelled"}


@pytest.mark.skipif(schemas.FOLDER is None, reason=schemas.REASON)
def test_the_older_generation_is_valid_by_the_schema():
    for name, value in (("Task", TASK), ("GetTaskResult", TASK), ("CancelTaskResult", TASK),
                        ("CreateTaskResult", CreateTaskResult(TASK, {"com.example/a": 1})),
                        ("ListTasksResult", ListTasksResult([TASK], "next")), ("ListTasksResult", ListTasksResult()),
                        ("TaskStatusNotificationParams", TASK)):
        schemas.check(NOVEMBER_2025, name, codec.encode(value, NOVEMBER_2025))


def test_the_meta_of_a_message_that_belongs_to_a_task():
    assert related_task("t1") == {RELATED_TASK: {"taskId": "t1"}}


def test_whether_a_tool_may_be_called_as_a_task():
    supports = {given: Tool("t", {"type": "object"}, execution={"taskSupport": given}).task_support
                for given in ("optional", "required", "forbidden", "other")}
    assert supports == {"optional": "optional", "required": "required", "forbidden": "forbidden", "other": "forbidden"}
    assert Tool("t", {}).task_support == Tool("t", {}, execution={}).task_support == "forbidden"


def test_the_table_of_revisions_has_the_methods():
    assert [bool(revision.task_requests) for revision in REVISIONS] == [
        bool(revision.task_notification) for revision in REVISIONS] == [False, False, False, True, True]
    assert {"tasks/get", "tasks/cancel"} <= NOVEMBER_2025.task_requests & JULY_2026.task_requests
    assert not any(revision.task_requests & revision.client_requests for revision in REVISIONS)
    assert sum(revision.task_notification == "notifications/tasks/status" for revision in LEGACY) == 1
