"""The wait for one task: when the server is asked for its state."""

import queue
import time

import pytest

import mcplite
from mcplite.client.call import DEFAULT
from mcplite.errors import Cancelled, RequestTimeout
from mcplite.rpc.cancel import CancelToken
from mcplite.tasks.task_follower import TaskFollower
from mcplite.tasks.task_view import TaskView
from mcplite.types import codec
from mcplite.types.tasks import DetailedTask
from tests.support.fakes import LIMIT, Refusal, start
from tests.support.tasks import ERAS, LEGACY, MODERN, QUESTION, RESULT, TaskServer

HOUR = 3_600_000


def wire(status):
    at = "2026-07-28T12:00:00Z"
    return {"taskId": "t1", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": HOUR, "pollIntervalMs": HOUR}


class Session:
    """What a wait needs of a session."""

    name = "the server"

    def now(self):
        return time.monotonic()

    change_streams = False

    def __init__(self):
        self.parts = {}


class Client:
    """What a wait needs of a client.

    :param opened: returns the open session.
    """

    def __init__(self, opened=lambda limits: Session()):
        self.opened, self.asked = opened, queue.Queue()

    def _session_for(self, options):
        return self.opened(options), options

    def _request(self, session, method, params, options):
        self.asked.put(method)
        return wire("working")


def working():
    return TaskView(codec.decode(DetailedTask, wire("working")))


def test_the_server_is_asked_when_a_stream_of_changes_begins_and_when_it_ends():
    client, view = Client(), working()
    thread, outcome = start(TaskFollower(view, client).follow, lambda state: state.finished)
    for pushed in (True, False):
        view.set_pushed("stream", pushed)
        assert client.asked.get(timeout=LIMIT) == "tasks/get", "the hour of the server's interval has not passed"
    view.put(codec.decode(DetailedTask, wire("completed")))
    thread.join(LIMIT)
    assert outcome == [True]


@pytest.mark.parametrize("limit", ["within", "cancel"])
def test_the_limits_of_a_wait_hold_while_a_session_is_opened(limit):
    given, token = [], CancelToken()

    def opened(options):
        given.append((options.max_timeout, options.cancel))
        if options.cancel is not None:
            raise Cancelled("enough")
        time.sleep(options.max_timeout)
        raise RequestTimeout("no session")

    follower = TaskFollower(working(), Client(opened))
    if limit == "cancel":
        with pytest.raises(Cancelled):
            follower.follow(lambda state: state.finished, cancel=token)
        assert given == [(DEFAULT, token)]
    else:
        assert follower.follow(lambda state: state.finished, within=0.05) is False
        assert given == [(0.05, None)]


def test_the_time_of_opening_a_session_is_part_of_the_wait(monkeypatch):
    view, waits = working(), []

    def opened(options):
        time.sleep(0.2)
        return Session()

    def wait(version, seconds):
        waits.append(seconds)
        view.put(codec.decode(DetailedTask, wire("completed")))

    monkeypatch.setattr(view, "wait", wait)
    assert TaskFollower(view, Client(opened)).follow(lambda state: state.finished, within=100.0) is True
    assert waits[0] <= 99.8


# --- handles of tasks: what they tell, waiting, results, cancellation, iteration, and taking a task up again ----


DONE = {"status": "completed"}


@pytest.fixture(params=ERAS)
def revision(request):
    return request.param


def test_a_started_tool_is_a_task(revision):
    with TaskServer(revision, {"statusMessage": "busy"}, DONE) as server, server.connect() as client:
        task = client.start_tool("slow", {"a": 1})
        assert (task.id, task.status, task.finished) == ("t1", "working", False)
        assert task.state.ttl_ms == 60_000 and task.state.poll_interval_ms == 5
        assert task.refresh() is task and task.status_message == "busy"
        assert repr(task) == "<Task 't1' (working: busy)>"
        assert task.wait(LIMIT) and task.status == "completed" and task.finished
        assert task.result().text == task.result(LIMIT).text == "done"
        gets = server.methods().count("tasks/get")
        assert task.refresh().wait() and server.methods().count("tasks/get") == gets


def test_the_caller_may_say_for_how_long_to_keep_a_task():
    # TSK-12
    with TaskServer(LEGACY, DONE) as server, server.connect() as client:
        client.start_tool("slow")
        client.start_tool("either", ttl=90)
        assert [server.got("tools/call", n)["params"]["task"] for n in (1, 2)] == [{}, {"ttl": 90_000}]


def test_a_tool_that_does_not_run_as_a_task_is_not_started():
    with TaskServer(LEGACY) as server, server.connect() as client:
        with pytest.raises(mcplite.errors.NotSupported, match="'plain' does not run as a task"):
            client.start_tool("plain")
        assert "tools/call" not in server.methods()


def test_a_server_may_answer_the_call_itself():
    with TaskServer(MODERN) as server:
        server.answers["tools/call"] = {"resultType": "complete", **RESULT}
        with server.connect() as client:
            task = client.start_tool("slow")
            assert (task.id, task.status, task.finished) == ("", "completed", True)
            assert task.wait() and task.result().text == "done" and [state.status for state in task] == ["completed"]
            task.cancel()
            assert server.methods() == ["server/discover", "tools/call"]


def test_another_client_takes_a_task_up(revision):
    with TaskServer(revision, {}, {"statusMessage": "there"}, DONE) as server, server.connect() as client:
        seen = []
        task = client.task("t1", on_progress=lambda progress: seen.append(progress.message))
        assert task.status == "working" and task.result().text == "done" and seen == ["there"]


def test_waiting_ends_with_its_time_and_the_task_goes_on(revision):
    with TaskServer(revision, {}) as server, server.connect() as client:
        task = client.start_tool("slow")
        assert task.wait(0.05) is False
        with pytest.raises(mcplite.RequestTimeout, match="it goes on") as caught:
            task.result(0.05)
        assert caught.value.task_id == "t1" and "tasks/cancel" not in server.methods()
        server.change(**DONE)
        assert task.result(LIMIT).text == "done"


def test_a_token_ends_the_wait_and_not_the_task(revision):
    token = mcplite.CancelToken()
    with TaskServer(revision, {}) as server, server.connect() as client:
        task = client.start_tool("slow")
        thread, outcome = start(task.result, cancel=token)
        server.got("tasks/get")
        token.cancel("later")
        thread.join(LIMIT)
        assert isinstance(outcome[0], mcplite.Cancelled) and "tasks/cancel" not in server.methods()


def test_a_task_is_cancelled(revision):
    with TaskServer(revision, {}) as server, server.connect() as client:
        task = client.start_tool("slow")
        task.cancel()
        assert server.got("tasks/cancel")["params"]["taskId"] == "t1"
        assert task.wait(LIMIT) and task.status == "cancelled"
        with pytest.raises(mcplite.Cancelled, match="stopped"):
            task.result()
        task.cancel()  # it has ended, so nothing is sent
        assert server.methods().count("tasks/cancel") == 1


def test_cancelling_a_task_that_has_just_ended_changes_nothing():
    # TSK-35
    with TaskServer(LEGACY, DONE, answers={"tasks/cancel": Refusal(-32602, "has ended")}) as server:
        with server.connect() as client:
            task = client.start_tool("slow")
            task.cancel()
            assert task.status == "completed" and task.result().text == "done"
    with TaskServer(LEGACY, {}, answers={"tasks/cancel": Refusal(-32602, "unknown")}) as server, server.connect() as client:
        with pytest.raises(mcplite.errors.InvalidParams, match="unknown"):
            client.start_tool("slow").cancel()


def test_the_iteration_yields_each_change_up_to_the_end(revision):
    steps = {"statusMessage": "one"}, {}, {"statusMessage": "two"}, {**DONE, "statusMessage": "three"}
    with TaskServer(revision, *steps) as server, server.connect() as client:
        seen = [(state.status, state.status_message) for state in client.start_tool("slow")]
    assert seen == [("working", None), ("working", "one"), ("working", "two"), ("completed", "three")]


def test_questions_of_a_task_are_answered_while_a_thread_waits():
    step = {"status": "input_required", "inputRequests": {"a": QUESTION}}
    with TaskServer(MODERN, step, {}, DONE) as server:
        with server.connect(elicitation_handler=lambda request: {"name": "Ada"}) as client:
            assert client.start_tool("slow").result(LIMIT).text == "done"
            assert server.got("tasks/update")["params"]["inputResponses"]["a"]["content"] == {"name": "Ada"}


def test_a_handler_that_failed_is_called_again_by_the_next_wait():
    step = {"status": "input_required", "inputRequests": {"a": QUESTION}}
    asked = []

    def ask(request):
        asked.append(request.message)
        return {"name": "Ada"} if len(asked) > 1 else 1 // 0

    with TaskServer(MODERN, step) as server, server.connect(elicitation_handler=ask) as client:
        task = client.start_tool("slow")
        with pytest.raises(mcplite.errors.InternalError) as caught:
            task.wait(LIMIT)
        assert caught.value.task_id == "t1" and "tasks/update" not in server.methods()
        server.steps = [step, {"inputRequests": {}}, DONE]
        assert task.result(LIMIT).text == "done" and len(asked) == 2


def test_several_threads_wait_for_one_task(revision):
    with TaskServer(revision, {}) as server, server.connect() as client:
        task = client.start_tool("slow")
        waiting = [start(task.result) for _ in range(4)]
        server.got("tasks/get")
        server.change(**DONE)
        for thread, outcome in waiting:
            thread.join(LIMIT)
            assert outcome[0].text == "done"


def test_a_completed_task_without_a_result_breaks_the_rules():
    with TaskServer(MODERN, {"status": "completed", "result": None}) as server, server.connect() as client:
        with pytest.raises(mcplite.errors.ProtocolError, match="not with which result"):
            client.start_tool("slow").result(LIMIT)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("interval", [10 ** 18, 10 ** 400, 1e300], ids=["large", "whole", "float"])
def test_an_interval_beyond_all_clocks_is_a_long_one(revision, interval):
    with TaskServer(revision, {}, interval=interval).connect() as client:
        with pytest.raises(RequestTimeout, match="did not finish"):
            client.call_tool("slow", timeout=0.05)
