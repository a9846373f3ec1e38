"""The official clients use four workers of gunicorn with its default settings as they use one process.

They go through what does not depend on the memory of one worker; ``test_official_clients.py`` says what they must see.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.interop import test_official_clients as clients
from tests.interop.test_official_clients import (  # noqa: F401
    JULY,
    NOVEMBER,
    Trial,
    program,
    run,
    test_a_ping,
    test_a_stream_that_the_server_closes,
    test_capabilities_of_the_client,
    test_choices_of_all_generations,
    test_completion,
    test_declared_questions_and_several_at_once,
    test_forms,
    test_lists_come_in_pages,
    test_logs_of_the_wanted_levels,
    test_progress,
    test_prompts,
    test_questions_of_a_prompt_and_of_a_resource,
    test_sampling,
    test_sampling_with_tools,
    test_several_questions_of_one_call,
    test_structured_results,
    test_the_description_of_the_server,
)
from tests.support.fleets import running_fleet

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240), pytest.mark.skipif(os.name != "posix", reason="POSIX only")]
HERE = Path(__file__).resolve().parent
STEPS = ("lists", "results", "work", "questions", "asking", "resources", "prompts", "streams")
#: SDK, mode and revision.
TRIALS = [("mcp2", "auto", JULY), ("node2", "auto", JULY), ("mcp2", "legacy", NOVEMBER), ("mcp1", "legacy", NOVEMBER),
          ("node2", "legacy", NOVEMBER), ("node1", "legacy", NOVEMBER)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    # Connections are kept for two seconds, which is the default of gunicorn.
    with running_fleet("everything:crowd()", HERE, folder, f"sqlite:///{folder / 'store.db'}", keep_alive=2) as fleet:
        yield fleet


@pytest.fixture(scope="module", params=TRIALS, ids=["-".join(trial[:2]) for trial in TRIALS])
def trial(request, installed, fleet):
    sdk, mode, revision = request.param
    program(installed, sdk)
    for mark in ("cancelled", "roots changed"):
        (fleet.folder / mark).unlink(missing_ok=True)
    before = fleet.served()
    report, stderr = run(installed, sdk, fleet.url, mode, *STEPS)
    served = fleet.served() - before
    assert len(served) > 1, f"only one worker served: {served}"
    return Trial(report, stderr, "", sdk, "http", revision, 0)


def test_cancellation_finds_the_handler(trial):
    assert trial.data("was_cancelled")["cancelled"] is True


def test_roots(trial):
    assert trial.data("list_roots") == trial.data("list_roots_again") == ["data=file:///srv/data"]
    if trial.revision < JULY:
        assert trial.data("roots_have_changed") is True
        # Each worker asks for them once, and again when it has heard of the change.
        assert 1 <= trial["roots_asked"] <= 2
        assert trial["roots_asked"] <= trial["roots_asked_after_change"] <= trial["roots_asked"] + 1


def test_a_subscription_reaches_the_client(trial):
    if trial.revision >= JULY:
        assert trial["honoured"] == {"resourceSubscriptions": ["notes://one", "notes://other"]}
        assert trial["updated"] == "notes://one"
    else:
        assert trial["subscribe"] == {} and trial["unsubscribe"] == {}
        assert trial["updated"] is True
    assert trial["updated_after_unsubscribe"] == []


def inspect(installed, home, *arguments):
    ran = subprocess.run([*installed.inspector(), "--cli", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=clients.SECONDS, encoding="utf-8", env={**os.environ, "HOME": str(home)})
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_uses_four_workers(fleet, installed, tmp_path, era):
    installed.inspector()
    before = fleet.served()
    options = ("--protocol-era", era)
    listed = inspect(installed, tmp_path, fleet.url, *options, "--method", "tools/list", "--strict")
    assert {"echo", "shrink"} <= {tool["name"] for tool in listed["tools"]}
    summary = inspect(installed, tmp_path, fleet.url, *options, "--method", "tools/call", "--tool-name", "echo", "--tool-arg",
                      "text=x", "--load", "--load-requests", "100", "--load-concurrency", "8")
    assert (summary["ok"], summary["errors"]) == (100, 0)
    assert len(fleet.served() - before) > 1
