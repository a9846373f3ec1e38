"""Calls of tools that become tasks: the result, progress, questions, limits and cancellation, in both generations."""

import threading

import pytest

import mcplite
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal, start
from tests.support.tasks import ERAS, LEGACY, MODERN, QUESTION, RESULT, TaskServer

DONE = {"status": "completed"}


@pytest.fixture(params=ERAS)
def revision(request):
    return request.param


def test_a_call_that_becomes_a_task_returns_its_result(revision):
    with TaskServer(revision, {}, {}, DONE) as server, server.connect() as client:
        result = client.call_tool("slow", {"n": 1})
        assert result.text == "done" and not result.is_error
        call = server.got("tools/call")["params"]
        assert call["arguments"] == {"n": 1}
        assert ("task" in call) == (revision == LEGACY)  # TSK-08
        gets = [message["params"] for message in server.sent if message.get("method") == "tasks/get"]
        assert len(gets) == 3 and all(params["taskId"] == "t1" for params in gets)
        # TSK-25
        assert not any("related-task" in key for params in gets for key in params.get("_meta", {}))


def test_the_extension_is_declared_with_each_request():
    with TaskServer(MODERN, DONE) as server, server.connect() as client:
        client.call_tool("slow")
        for method in ("tools/call", "tasks/get"):
            declared = server.got(method)["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            assert declared["extensions"] == {"io.modelcontextprotocol/tasks": {}}


def test_the_tools_are_listed_once_to_know_which_run_as_tasks():
    with TaskServer(LEGACY, DONE) as server, server.connect() as client:
        for name in ("plain", "unknown", "either", "slow", "plain"):
            assert client.call_tool(name).text == "done"
        calls = [message["params"] for message in server.sent if message.get("method") == "tools/call"]
        assert [("task" in params) for params in calls] == [False, False, False, True, False]  # TSK-06, TSK-10
        assert server.methods().count("tools/list") == 1
        changed = threading.Event()
        client.on("example/after", lambda params: changed.set())
        server.tell("notifications/tools/list_changed")
        server.tell("example/after")
        assert changed.wait(LIMIT)
        client.call_tool("plain")
        assert server.methods().count("tools/list") == 2


def test_a_server_without_the_capability_is_not_asked_for_tasks():
    # TSK-02, TSK-03, TSK-05
    with Fake({"tools/call": RESULT}) as fake, fake.connect(revision=LEGACY) as client:
        assert client.call_tool("slow").text == "done"
        assert "task" not in fake.got("tools/call")["params"] and "tools/list" not in fake.methods()
        with pytest.raises(mcplite.errors.NotSupported, match="call_tool"):
            client.start_tool("slow")
        with pytest.raises(mcplite.errors.NotSupported, match="'tasks'"):
            client.task("t1")
        with pytest.raises(mcplite.errors.NotSupported, match="'tasks.list'"):
            client.list_tasks()


def test_status_messages_are_progress(revision):
    steps = {"statusMessage": "one"}, {"statusMessage": "two"}, {}, {**DONE, "statusMessage": "ready"}
    seen = []
    with TaskServer(revision, *steps) as server, server.connect() as client:
        client.call_tool("slow", on_progress=lambda progress: seen.append((progress.progress, progress.message)))
    assert seen == [(1, "one"), (2, "two")]


def test_progress_goes_on_after_the_task_was_created():
    # TSK-40
    seen = []
    with TaskServer(LEGACY, {}) as server, server.connect() as client:
        thread, outcome = start(client.call_tool, "slow", on_progress=lambda progress: (
            seen.append((progress.progress, progress.total, progress.message, threading.current_thread())),
            server.change(**DONE) if progress.message == "half" else None))
        token = server.got("tools/call")["params"]["_meta"]["progressToken"]
        server.got("tasks/get")
        server.tell("notifications/progress", {"progressToken": token, "progress": 1, "total": 2, "message": "half"})
        thread.join(LIMIT)
    assert outcome[0].text == "done" and seen == [(1, 2, "half", thread)]


def test_questions_are_answered_with_the_handlers_of_the_client():
    asked = []
    step = {"status": "input_required", "inputRequests": {"a": QUESTION}}
    with TaskServer(MODERN, step, {}, DONE) as server:
        def update(params):
            server.change(status="input_required")  # eventually consistent: the question is still there
            return server.complete({})

        server.answers["tasks/update"] = update
        with server.connect(elicitation_handler=lambda request: asked.append(request.message) or {"name": "Ada"}) as client:
            assert client.call_tool("slow").text == "done"
        update = server.got("tasks/update")["params"]
        assert update["taskId"] == "t1"
        assert update["inputResponses"] == {"a": {"action": "accept", "content": {"name": "Ada"}}}
    assert asked == ["Who?"]


def test_in_november_2025_questions_come_with_the_request_for_the_result():
    # TSK-24, TSK-28
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
    with TaskServer(LEGACY, {"status": "input_required"}) as server:
        with server.connect(elicitation_handler=lambda request: {"name": "Ada"}) as client:
            thread, outcome = start(client.call_tool, "slow")
            server.got("tasks/result")
            answer = server.asked("elicitation/create", {**QUESTION["params"], "_meta": related})
            assert answer["result"] == {"action": "accept", "content": {"name": "Ada"}, "_meta": related}
            server.change(status="working")
            server.change(**DONE)
            thread.join(LIMIT)
            assert outcome[0].text == "done"


def test_questions_may_be_left_to_the_caller():
    with TaskServer(MODERN, {"status": "input_required", "inputRequests": {"a": QUESTION}}, {}, {}, DONE) as server:
        with server.connect() as client:
            with pytest.raises(mcplite.errors.InputNeeded, match="client.task") as caught:
                client.call_tool("slow", rounds=False)
            assert caught.value.task_id == "t1" and caught.value.requests == {"a": QUESTION}
            assert "tasks/cancel" not in server.methods()
            task = client.task("t1")
            task.answer({"a": {"action": "decline"}})
            assert task.result(LIMIT).text == "done"


def test_a_question_that_the_client_cannot_answer_ends_the_call_and_the_task():
    with TaskServer(MODERN, {"status": "input_required", "inputRequests": {"a": QUESTION}}) as server:
        with server.connect() as client:
            with pytest.raises(mcplite.errors.ProtocolError, match="did not declare") as caught:
                client.call_tool("slow")
            assert caught.value.task_id == "t1" and server.got("tasks/cancel")["params"]["taskId"] == "t1"


class Clock:
    """The seconds that count for time limits."""

    def __init__(self):
        self.seconds = 0.0

    def step(self, seconds, **members):
        """Return a step of a task, with which so many seconds pass."""
        def pass_by():
            self.seconds += seconds
            return members

        return pass_by


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("mcplite.client.sessions.base.ClientSession.now", lambda session: clock.seconds)
    return clock


def test_a_task_without_progress_is_cancelled_after_the_timeout(revision, clock):
    steps = clock.step(20, statusMessage="one"), clock.step(20, statusMessage="two"), clock.step(20), clock.step(20)
    with TaskServer(revision, *steps) as server, server.connect() as client:
        with pytest.raises(mcplite.RequestTimeout, match="'t1' within 30 s without progress") as caught:
            client.call_tool("slow", timeout=30)
        assert caught.value.task_id == "t1" and server.got("tasks/cancel") and clock.seconds == 80


def test_a_task_that_lasts_too_long_is_cancelled_whatever_its_progress(revision, clock):
    with TaskServer(revision, *[clock.step(20, statusMessage=str(n)) for n in range(9)]) as server, server.connect() as client:
        with pytest.raises(mcplite.RequestTimeout, match="50 s in all"):
            client.call_tool("slow", max_timeout=50)
        assert server.got("tasks/cancel") and clock.seconds == 60


def test_cancelling_a_call_cancels_its_task(revision):
    token = mcplite.CancelToken()
    with TaskServer(revision, {}) as server, server.connect() as client:
        thread, outcome = start(client.call_tool, "slow", cancel=token)
        server.got("tasks/get")
        token.cancel("enough")
        thread.join(LIMIT)
        assert isinstance(outcome[0], mcplite.Cancelled) and outcome[0].reason == "enough"
        assert server.got("tasks/cancel")["params"]["taskId"] == "t1"


def test_a_task_that_failed_raises_the_error_of_its_request(revision):
    # TSK-21, TSK-38
    error = {"code": -32602, "message": "no such city", "data": {"a": 1}}
    with TaskServer(revision, {"status": "failed", "error": error}) as server, server.connect() as client:
        with pytest.raises(mcplite.errors.InvalidParams, match="no such city") as caught:
            client.call_tool("slow")
        assert caught.value.data == {"a": 1} and caught.value.task_id == "t1"


def test_a_task_that_the_server_cancels_raises_cancelled(revision):
    with TaskServer(revision, {"status": "cancelled", "statusMessage": "too long"}) as server, server.connect() as client:
        with pytest.raises(mcplite.Cancelled, match="too long") as caught:
            client.call_tool("slow")
        assert caught.value.task_id == "t1" and "tasks/cancel" not in server.methods()


def test_the_end_of_the_connection_names_the_task(revision):
    with TaskServer(revision, {}) as server, server.connect() as client:
        thread, outcome = start(client.call_tool, "slow")
        server.got("tasks/get")
        server.leave()
        thread.join(LIMIT)
        assert isinstance(outcome[0], mcplite.errors.ConnectionClosed)
        assert outcome[0].task_id == "t1" and "client.task('t1')" in str(outcome[0])


def test_a_status_that_cannot_be_read_now_is_asked_for_again(revision):
    busy = [Refusal(-31001, "busy"), Refusal(-31001, "busy")]
    with TaskServer(revision, DONE) as server:
        server.answers["tasks/get"] = lambda params: busy.pop() if busy else server.get(params)
        with server.connect() as client:
            assert client.call_tool("slow").text == "done"


def test_a_task_that_the_server_has_forgotten_is_an_error_that_names_it(revision):
    with TaskServer(revision, answers={"tasks/get": Refusal(-32602, "Task not found")}) as server, server.connect() as client:
        with pytest.raises(mcplite.errors.InvalidParams, match="'t1'") as caught:
            client.call_tool("slow")
        assert caught.value.task_id == "t1"
        with pytest.raises(mcplite.errors.InvalidParams, match="not found"):
            client.task("other")


@pytest.mark.parametrize("members", [{"taskId": 3}, {"status": None}, {"createdAt": 5}])
def test_an_invalid_state_is_an_error_of_the_server(revision, members):
    with TaskServer(revision, members) as server, server.connect() as client:
        server.answers["tasks/get"] = lambda params: server.complete({**server.task, **members})
        with pytest.raises(mcplite.errors.ProtocolError, match="task in an invalid way"):
            client.call_tool("slow")


def test_a_task_that_a_server_makes_unasked_is_waited_for():
    with TaskServer(LEGACY, DONE) as server:
        server.answers["tools/call"] = lambda params: {"task": server.task}
        with server.connect() as client:
            assert client.call_tool("plain").text == "done"


def test_the_list_of_tasks_has_all_pages():
    # TSK-34
    with TaskServer(LEGACY, DONE) as server:
        pages = {None: ({"tasks": [{**server.task, "taskId": "a"}], "nextCursor": "2"}),
                 "2": {"tasks": [{**server.task, "taskId": "b", "status": "failed"}]}}
        server.answers["tasks/list"] = lambda params: pages[(params or {}).get("cursor")]
        with server.connect() as client:
            assert [(task.id, task.status) for task in client.list_tasks()] == [("a", "working"), ("b", "failed")]


def test_from_july_2026_on_there_is_no_list():
    with TaskServer(MODERN) as server, server.connect() as client:
        with pytest.raises(mcplite.errors.NotSupported, match="keep the ids"):
            client.list_tasks()


def test_a_call_with_a_silent_server_is_interrupted_by_its_token(revision):
    token = mcplite.CancelToken()
    answers = {"tasks/get": lambda params: SILENCE}
    with TaskServer(revision, answers=answers) as server, server.connect() as client:
        thread, outcome = start(client.call_tool, "slow", cancel=token)
        server.got("tasks/get")
        token.cancel()
        thread.join(LIMIT)
        assert isinstance(outcome[0], mcplite.Cancelled) and server.got("tasks/cancel")
