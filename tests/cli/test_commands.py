"""``call --task`` and ``task``: what they print of a server's tasks, with which exit status, and what they refuse.

``python -m mcplite watch``: the lines it prints, in both eras, and how it ends.

Rows as a table: which values are rows, columns, widths.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite import __main__ as command_line
from mcplite.__main__ import main
from mcplite.cli import commands
from mcplite.cli.commands import row_table, rows_of
from mcplite.cli.printing import ProgressBar
from mcplite.revisions import NEWEST, NOVEMBER_2025
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


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(mcplite.__file__).resolve().parent.parent), "PYTHONIOENCODING": "utf-8"}
#: Its changes go on, so that none is too early for a subscription.
CHANGING = '''
import threading

import mcplite

mcp = mcplite.Server("changing")

@mcp.tool
def add(a: int) -> int:
    return a

@mcp.resource("note://today")
def today() -> str:
    return "rain"

def change():
    while True:
        mcp.tools_changed()
        mcp.resource_updated("note://today")
        threading.Event().wait(0.1)

threading.Thread(target=change, daemon=True).start()
'''


@pytest.mark.skipif(os.name != "posix", reason="SIGINT can be sent to one process on POSIX only")
@pytest.mark.parametrize("revision", [NOVEMBER_2025.name, NEWEST.name])
@pytest.mark.parametrize("options, expected", [
    ([], ["the list of tools has changed", "note://today has changed"]),
    (["--json"], [{"method": "notifications/tools/list_changed", "params": {}, "missed": False},
                  {"method": "notifications/resources/updated", "params": {"uri": "note://today"}, "missed": False}]),
])
@pytest.mark.slow
def test_each_change_is_a_line_until_ctrl_c(tmp_path, revision, options, expected):
    (tmp_path / "changing.py").write_text(CHANGING)
    child = subprocess.Popen(
        [sys.executable, "-m", "mcplite", "watch", str(tmp_path / "changing.py"), "note://today", "--revision", revision,
         *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    try:
        assert b"watching the list of tools, " in child.stderr.readline()
        missing = list(expected)
        while missing:
            line = child.stdout.readline().decode()
            assert line, "it ended before the changes came"
            seen = json.loads(line) if options else line.rstrip("\n")
            assert seen in expected
            missing = [item for item in missing if item != seen]
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 0


def test_a_server_that_announces_nothing_is_told(tmp_path, capsys):
    (tmp_path / "empty.py").write_text("import mcplite\nmcp = mcplite.Server('empty')\n")
    assert command_line.main(["watch", str(tmp_path / "empty.py")]) == 3
    assert "empty announces no changes of its lists; to watch resources, give their URIs" in capsys.readouterr().err


ROWS = [{"city": "Rome", "degrees": 21.5}, {"city": "Riga\x1b\nX", "degrees": 3, "wet": True}, {"city": None}]


@pytest.mark.parametrize("value, rows", [
    (ROWS, ROWS), ({"cities": ROWS}, ROWS), ('[{"a": 1}]', [{"a": 1}]), ("[not JSON", None), ("text", None), (5, None),
    ([], None), ([1], None), ([{}], None), ([{"a": [1]}], None), ([{"a": {}}], None), ({"a": 1, "rows": ROWS}, None),
    (None, None),
])
def test_which_values_are_rows(value, rows):
    assert rows_of(value) == rows


def test_numbers_are_at_the_right_and_null_is_empty():
    assert row_table(ROWS, None) == (
        "city        degrees  wet\n"
        "----------  -------  ----\n"
        "Rome           21.5\n"
        "Riga\\x1b X        3  true\n")


def test_what_is_too_large_is_no_table():
    assert rows_of([{str(number): 1} for number in range(2000)]) is None
    assert rows_of([{"a": "x" * 10_000_000}, {"b": 1}, {"c": 1}]) is None
    assert row_table([{"a": "x" * 200_000, "b": "y"}], 40).count("x") == 200_000


def test_long_cells_are_wrapped_on_a_terminal_and_nothing_is_lost():
    rows = [{"name": "a" * 30, "text": "one two three four five six seven"}]
    table = row_table(rows, 30)
    assert max(map(len, table.split("\n"))) <= 30
    assert table.count("a") == 31 and "seven" in table
    assert len(row_table(rows, None).split("\n")) == 3
