"""Questions that a server asks as tasks: it gets a task at once, polls it, and fetches the answer of the handler."""

import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.tasks import received_tasks
from tests.support.fakes import LIMIT, Fake
from tests.support.tasks import LEGACY, PREFIX, QUESTION

FORM = QUESTION["params"]
HELLO = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


class Held:
    """An elicitation handler that waits until the test lets it answer."""

    def __init__(self, answer=None):
        self.answer = {"name": "Ada"} if answer is None else answer
        self.began, self.may = threading.Event(), threading.Event()
        self.token = None

    def __call__(self, request):
        self.token = request.token
        self.began.set()
        while not (self.may.wait(0.01) or request.token.cancelled):
            pass
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def ask(fake, method="elicitation/create", params=FORM, **task):
    """Ask a question as a task; return the task."""
    return fake.asked(method, {**params, "task": task})["result"]["task"]


@pytest.fixture
def held():
    held = Held()
    yield held
    held.may.set()


def test_a_lifetime_beyond_all_clocks_is_the_longest(held):
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        assert [ask(fake, ttl=ttl)["ttl"] for ttl in (10 ** 400, 1e300)] == [3_600_000] * 2


def test_a_question_is_answered_as_a_task(held):
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        task = ask(fake, ttl=30_000)
        assert task["status"] == "working" and task["ttl"] == 30_000 and task["pollInterval"] > 0  # TSK-16, TSK-18
        assert len(task["taskId"]) == 32  # TSK-42
        assert held.began.wait(LIMIT)
        id = {"taskId": task["taskId"]}
        state = fake.asked("tasks/get", id)["result"]
        assert state == {**task, "lastUpdatedAt": state["lastUpdatedAt"]}
        assert fake.asked("tasks/list")["result"] == {"tasks": [state]}
        waiting = [fake.ask("tasks/result", id) for _ in range(2)]
        fake.asked("ping")  # TSK-22: other requests are answered meanwhile
        held.may.set()
        for request in waiting:
            result = fake.answer_of(request)["result"]
            assert result == {"action": "accept", "content": {"name": "Ada"},
                              "_meta": {PREFIX + "related-task": id}}  # TSK-21, TSK-23
        assert fake.asked("tasks/get", id)["result"]["status"] == "completed"
        assert fake.asked("tasks/result", id)["result"]["action"] == "accept"


def test_two_tasks_have_two_ids(held):
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        assert ask(fake)["taskId"] != ask(fake)["taskId"]  # TSK-15


@pytest.mark.parametrize("answer, code, text", [
    (mcplite.RemoteError("not now", code=-5, data={"a": 1}), -5, "not now"), (ValueError("secret"), -32603, "failed"),
    (SystemExit(3), -32603, "Internal error"), (KeyboardInterrupt(), -32603, "Internal error"),
])
def test_a_handler_that_fails_fails_the_task(held, answer, code, text):
    # TSK-38, TSK-39
    held.answer = answer
    held.may.set()
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        id = {"taskId": ask(fake)["taskId"]}
        error = fake.asked("tasks/result", id)["error"]
        assert error["code"] == code and text in error["message"]
        state = fake.asked("tasks/get", id)["result"]
        assert state["status"] == "failed" and text in state["statusMessage"]


def test_a_task_is_cancelled_for_good(held):
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        id = {"taskId": ask(fake)["taskId"]}
        assert held.began.wait(LIMIT)
        waiting = fake.ask("tasks/result", id)
        assert fake.asked("tasks/cancel", id)["result"]["status"] == "cancelled"  # TSK-36
        assert "cancelled" in fake.answer_of(waiting)["error"]["message"] and held.token.cancelled
        held.may.set()
        assert fake.asked("tasks/cancel", id)["error"]["code"] == -32602  # TSK-35
        assert fake.asked("tasks/get", id)["result"]["status"] == "cancelled"  # TSK-17


def test_unknown_tasks_and_cursors_are_errors(held):
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        ask(fake)
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            for id in ("other", None, 3):
                assert fake.asked(method, {"taskId": id})["error"]["code"] == -32602  # TSK-37
        assert fake.asked("tasks/list", {"cursor": "other"})["error"]["code"] == -32602


def test_the_list_has_pages(held, monkeypatch):
    # TSK-34
    monkeypatch.setattr(received_tasks, "_PAGE", 2)
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        ids = [ask(fake)["taskId"] for _ in range(5)]
        listed, cursor = [], None
        for size in (2, 2, 1):
            page = fake.asked("tasks/list", {} if cursor is None else {"cursor": cursor})["result"]
            assert len(page["tasks"]) == size
            listed += [task["taskId"] for task in page["tasks"]]
            cursor = page.get("nextCursor")
        assert listed == ids and cursor is None


def test_only_so_many_tasks_are_kept(held, monkeypatch):
    # TSK-44
    monkeypatch.setattr(received_tasks, "_MOST_TASKS", 2)
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        first, second = (ask(fake)["taskId"] for _ in range(2))
        assert fake.asked("elicitation/create", {**FORM, "task": {}})["error"]["code"] == -31001
        fake.asked("tasks/cancel", {"taskId": first})
        third = ask(fake)["taskId"]
        assert [task["taskId"] for task in fake.asked("tasks/list")["result"]["tasks"]] == [second, third]


def test_an_expired_task_is_dropped_and_its_handler_cancelled(held):
    # TSK-46
    with Fake() as fake, fake.connect(elicitation_handler=held, revision=LEGACY):
        id = {"taskId": ask(fake, ttl=0.001)["taskId"]}
        for _ in range(LIMIT * 100):
            if "error" in fake.asked("tasks/get", id):
                break
        assert fake.asked("tasks/get", id)["error"]["code"] == -32602


def test_a_client_that_did_not_declare_it_answers_normally():
    # TSK-13: no handler for elicitation, and revisions before
    with Fake() as fake, fake.connect(sampling_handler=lambda request: "hello", revision=LEGACY):
        assert fake.asked("elicitation/create", {**FORM, "task": {}})["error"]["code"] == -32601
        assert fake.asked("tasks/get", {"taskId": "x"})["error"]["code"] == -32602
        assert fake.asked("tasks/list")["result"] == {"tasks": []}
    with Fake() as fake, fake.connect(roots=[], revision=LEGACY):
        assert fake.asked("tasks/list")["error"]["code"] == -32601
    for revision in revisions.LEGACY:
        if revision.task_requests:
            continue
        with Fake() as fake, fake.connect(sampling_handler=lambda request: "hello", revision=revision):
            result = fake.asked("sampling/createMessage", {**HELLO, "task": {}})["result"]
            assert result["content"] == {"type": "text", "text": "hello"}


@pytest.mark.parametrize("task", [None, 3, [], "x", True])
def test_a_task_that_is_no_object_is_ignored(task):
    with Fake() as fake, fake.connect(sampling_handler=lambda request: "hello", revision=LEGACY):
        answer = fake.asked("sampling/createMessage", {**HELLO, "task": task})
        assert "task" not in answer.get("result", {})
