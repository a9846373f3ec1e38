"""A worker that is killed costs its own calls alone, and those fail with a reason; a worker that is replaced costs none."""

import os
import signal
import uuid
from importlib.metadata import version
from pathlib import Path

import pytest

import mcplite
from tests.fleet import scenarios
from tests.fleet.conversation import Conversation
from tests.fleet.load import LEGACY, MODERN, answer, expected
from tests.fleet.scenarios import REASON
from tests.support.fleets import running_fleet, running_store
from tests.support.forks import POSIX_ONLY
from tests.support.marks import SharedMarks
from tests.support.rawhttp import call

pytestmark = POSIX_ONLY
HERE = Path(__file__).resolve().parent
#: Seconds; a death is noticed within about ten on a machine that does nothing else.
LIMIT = 60
OLD_GUNICORN = int(version("gunicorn").partition(".")[0]) < 26


@pytest.fixture(scope="module")
def mortal(tmp_path_factory):
    """A fleet whose workers may be killed."""
    folder = tmp_path_factory.mktemp("mortal")
    with running_store("sqlite", folder) as (backend, _):
        with running_fleet("server:application", HERE, folder, backend, grace=3) as fleet:
            yield fleet


@pytest.fixture
def key():
    return uuid.uuid4().hex


def killing(fleet, key):
    """Return a handler of questions that kills the worker which asks the first one."""
    def handle(request):
        if request.message.startswith("first"):
            asking = [path.name for path in fleet.folder.glob(f"{key} by *")]
            assert len(asking) == 1
            os.kill(int(asking[0].rpartition(" ")[2]), signal.SIGKILL)
        return answer(request)

    return handle


def test_a_call_without_a_session_goes_on_elsewhere_when_its_worker_was_killed(mortal, key):
    with mcplite.connect(mortal.url, revision=MODERN, timeout=LIMIT, elicitation_handler=killing(mortal, key)) as client:
        assert client.call_tool("book", {"key": key}).text == expected(key)
    assert SharedMarks(mortal.folder).count(f"{key} act") == 1


def test_a_question_whose_worker_was_killed_fails_with_a_reason_and_the_session_goes_on(mortal, key):
    with mcplite.connect(mortal.url, revision=LEGACY, timeout=LIMIT, elicitation_handler=killing(mortal, key)) as client:
        with pytest.raises(mcplite.MCPError) as caught:
            client.call_tool("book", {"key": key})
        assert REASON.search(str(caught.value)) and not isinstance(caught.value, mcplite.errors.SessionLost)
        assert client.call_tool("reverse", {"text": "abc"}).text == "cba"
    assert SharedMarks(mortal.folder).count(f"{key} act") == 0


def test_a_resumed_stream_says_that_the_worker_has_ended(mortal, key):
    session = Conversation(mortal)
    message = call("steps", id=7, key=key, count=3)
    message["params"]["_meta"] = {"progressToken": 1}
    with session.stream(message) as stream:
        assert stream.event()["params"]["progress"] == 1
        os.kill(int(stream.worker), signal.SIGKILL)
    with session.get(stream.last) as rest:
        error = rest.until_result()[-1]
    assert error["id"] == 7 and "process that ran" in error["error"]["message"]
    assert session.post(call("reverse", text="abc")).status == 200
    session.delete()


def test_workers_are_killed_under_load(mortal):
    print(scenarios.kills(mortal, clients=6, seconds=4, pause=2))


@pytest.mark.skipif(OLD_GUNICORN, reason="a worker of gunicorn before 26 that ends drops connections that it has accepted")
def test_all_workers_are_replaced_under_load(mortal):
    print(scenarios.restarts(mortal, clients=6, times=1))
