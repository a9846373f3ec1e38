"""``python -m mcplite watch``: the lines it prints, in both eras, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite.__main__ import main
from mcplite.revisions import NEWEST, NOVEMBER_2025

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
    assert main(["watch", str(tmp_path / "empty.py")]) == 3
    assert "empty announces no changes of its lists; to watch resources, give their URIs" in capsys.readouterr().err
