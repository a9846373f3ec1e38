"""``call --task`` and ``task``: what they print of a server's tasks, with which exit status, and what they refuse."""

import argparse
import json

import pytest

import mcplite
from mcplite.__main__ import main
from mcplite.cli import commands
from mcplite.cli.printing import ProgressBar
from tests.support.fakes import LIMIT
from tests.support.tasks import ERAS, LEGACY, MODERN, RESULT, TaskServer


@pytest.fixture(params=ERAS)
def revision(request):
    return request.param


def options(verb=None, json=False, target="https://example.com/mcp", **more):
    return argparse.Namespace(verb=verb, json=json, target=[target], config=None, bar=ProgressBar(), table=False, output=None,
                              log_level=None, debug=False, **more)


def test_a_started_task_prints_its_id_and_how_to_wait_for_it(revision, capsys):
    with TaskServer(revision, {}) as server, server.connect() as client:
        assert commands.start(client, "slow", {}, options()) == 0
    out, err = capsys.readouterr()
    assert out == "t1\n" and "python -m mcplite task wait https://example.com/mcp t1" in err and "ends with" not in err


def test_a_task_of_a_child_ends_with_the_command(capsys):
    with TaskServer(MODERN) as server, server.connect() as client:
        commands.start(client, "slow", {}, options(target="server.py"))
    assert "the server ends with this command" in capsys.readouterr().err


def test_a_call_that_was_answered_at_once_prints_its_result(capsys):
    with TaskServer(MODERN) as server:
        server.answers["tools/call"] = {"resultType": "complete", **RESULT}
        with server.connect() as client:
            assert commands.start(client, "slow", {}, options()) == 0
    assert capsys.readouterr().out == "done\n"


def test_a_started_task_as_json(revision, capsys):
    with TaskServer(revision, {}) as server, server.connect() as client:
        commands.start(client, "slow", {}, options(json=True))
        assert json.loads(capsys.readouterr().out) == server.task


def test_a_task_is_shown(revision, capsys):
    with TaskServer(revision, {"statusMessage": "half\x1b"}) as server, server.connect() as client:
        assert commands.task(client, ["t1"], options("show")) == 0
        rows = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
        assert rows == {"id": "t1", "status": "working", "message": "half\\x1b", "created": "2026-01-01T00:00:00Z",
                        "updated": "2026-01-01T00:00:00Z", "kept": "60 s"}
        commands.task(client, ["t1"], options("show", json=True))
        assert json.loads(capsys.readouterr().out)["status"] == "working"


def test_waiting_prints_the_result(revision, capsys):
    with TaskServer(revision, {}, {}, {"status": "completed"}) as server, server.connect() as client:
        assert commands.task(client, ["t1"], options("wait")) == 0
    assert capsys.readouterr().out == "done\n"


def test_the_status_of_a_tool_that_failed_is_1(revision, capsys):
    result = {"content": [{"type": "text", "text": "broken"}], "isError": True}
    with TaskServer(revision, {"status": "completed"}, result=result) as server, server.connect() as client:
        assert commands.task(client, ["t1"], options("wait")) == 1
    assert capsys.readouterr().err == "broken\n"


def test_a_task_is_cancelled(revision, capsys):
    with TaskServer(revision, {}) as server, server.connect() as client:
        assert commands.task(client, ["t1"], options("cancel")) == 0
        assert server.got("tasks/cancel")
    assert "cancelled" in capsys.readouterr().out


def test_tasks_are_listed(capsys):
    with TaskServer(LEGACY) as server:
        listed = {"tasks": [{**server.task, "statusMessage": "half"}, {**server.task, "taskId": "t2", "status": "failed"}]}
        server.answers["tasks/list"] = lambda params: listed
        with server.connect() as client:
            assert commands.task(client, [], options("list")) == 0
            lines = [line.split() for line in capsys.readouterr().out.splitlines()]
            assert lines == [["t1", "working", "half"], ["t2", "failed"]]
            commands.task(client, [], options("list", json=True))
            assert json.loads(capsys.readouterr().out) == listed
            listed = {"tasks": []}
            commands.task(client, [], options("list"))
            assert "no tasks" in capsys.readouterr().out


def test_a_server_without_a_list_is_named():
    with TaskServer(MODERN) as server, server.connect(timeout=LIMIT) as client, pytest.raises(mcplite.errors.NotSupported):
        commands.task(client, [], options("list"))


@pytest.mark.parametrize("words, text", [
    ([], "what to do is missing"), (["stop", "x"], "'stop' is unknown"),
    (["list"], "TARGET is missing; write: task list TARGET"),
    (["show", "server.py"], "ID is missing; write: task show TARGET ID"),
    (["wait", "server.py", "1", "2"], "'2' is one argument"),
])
def test_wrong_words_say_what_to_write(words, text, capsys):
    assert main(["task", *words]) == 2
    assert text in capsys.readouterr().err
