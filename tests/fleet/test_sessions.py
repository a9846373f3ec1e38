"""Sessions of the handshake revisions: any worker serves any message of one."""

import threading
import time
import uuid

import pytest

import mcplite
from tests.fleet.conversation import Conversation
from tests.fleet.load import LEGACY, answer
from tests.support.forks import POSIX_ONLY
from tests.support.marks import SharedMarks
from tests.support.rawhttp import call

pytestmark = POSIX_ONLY
LIMIT = 60
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.fixture
def key():
    return uuid.uuid4().hex


@pytest.fixture
def marks(fleet):
    return SharedMarks(fleet.folder)


def steps(key, count=5):
    message = call("steps", key=key, count=count)
    message["params"]["_meta"] = {"progressToken": 1}
    return message


@pytest.mark.parametrize("revision", REVISIONS)
def test_any_worker_serves_a_session_and_its_end_holds_for_all(fleet, revision):
    session = Conversation(fleet, revision)
    workers = set()
    for number in range(40):
        reply = session.post(call("reverse", id=number, text="abc"))
        assert reply.status == 200, reply
        workers.add(reply.headers["x-worker"])
    assert len(workers) > 1
    assert session.delete().status in (200, 204)
    for number in range(12):
        assert session.post(call("reverse", id=number, text="abc")).status == 404


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_stream_is_resumed_from_another_worker_while_the_handler_runs(fleet, marks, key, revision):
    session = Conversation(fleet, revision)
    with session.stream(steps(key)) as stream:
        assert stream.event()["params"]["progress"] == 1
    with session.get(stream.last, not_from=stream.worker) as rest:
        assert rest.status == 200
        marks.add(f"{key} go")
        *progress, result = rest.until_result()
    assert [message["params"]["progress"] for message in progress] == [2, 3, 4, 5]
    assert result["result"]["content"][0]["text"] == f"5 steps in {stream.worker}"
    session.delete()


def test_a_stream_is_resumed_after_its_end(fleet, marks, key):
    session = Conversation(fleet)
    with session.stream(steps(key)) as stream:
        assert stream.event()["params"]["progress"] == 1
        first = stream.last
        marks.add(f"{key} go")
        assert stream.until_result()[-1]["result"]
    for _ in range(4):
        with session.get(first) as rest:
            assert [message.get("params", {}).get("progress") for message in rest.until_result()] == [2, 3, 4, 5, None]
    session.delete()


def test_a_session_is_asked_everything_through_any_worker(fleet, tmp_path):
    before = fleet.served()
    with mcplite.connect(fleet.url, revision=LEGACY, timeout=LIMIT, elicitation_handler=answer, roots=[tmp_path],
                         sampling_handler=lambda request: "Because.") as client:
        for _ in range(5):
            assert client.call_tool("survey").data == ["FIRST SURVEY", "Because.", tmp_path.as_uri()]
    assert len(fleet.served() - before) > 1


def test_cancellation_finds_the_handler(fleet, marks, key):
    token = mcplite.CancelToken()
    with mcplite.connect(fleet.url, revision=LEGACY, timeout=LIMIT) as client:
        with pytest.raises(mcplite.Cancelled):
            client.call_tool("block", {"key": key}, cancel=token, on_progress=lambda progress: token.cancel("enough"))
        assert marks.wait(f"{key} stopped", LIMIT)


def test_the_end_of_a_session_ends_its_handlers_elsewhere(fleet, marks, key):
    session = Conversation(fleet)
    with session.stream(call("block", key=key)):
        assert marks.wait(f"{key} begun", LIMIT)
        assert session.delete().status in (200, 204)
        assert marks.wait(f"{key} stopped", LIMIT)


def test_the_level_of_log_messages_holds_for_all_workers(fleet):
    seen, last = [], threading.Event()

    def note(message):
        seen.append(message.data)
        if message.data == "end":
            last.set()

    with mcplite.connect(fleet.url, revision=LEGACY, timeout=LIMIT, log_handler=note) as client:
        client.set_log_level("info")
        for number in range(10):
            client.call_tool("speak", {"words": [f"w{number}"]})
        client.call_tool("speak", {"words": ["end"]})
        assert last.wait(LIMIT)
    assert sorted(seen) == sorted([*(f"w{number}" for number in range(10)), "end"])


def test_a_second_listener_is_refused_until_the_first_has_gone(fleet):
    session = Conversation(fleet)
    with session.get() as first:
        assert first.status == 200
        with session.get(not_from=first.worker) as second:
            assert second.status == 409
    end = time.monotonic() + LIMIT
    while second.status != 200:
        assert time.monotonic() < end, second.status
        time.sleep(0.1)
        with session.get() as second:
            pass
    session.delete()
