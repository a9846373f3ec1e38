"""Ready middleware as a client of the official SDK meets it, over HTTP, with a handshake and without one."""

import itertools
import json
import logging
import subprocess
from pathlib import Path

import pytest

import mcplite
from mcplite.errors import RATE_LIMITED
from mcplite.middleware import (
    AuditLog,
    CacheResults,
    FilterTools,
    JSONFormatter,
    LimitRate,
    LimitResults,
    LogRequests,
    RepeatCalls,
    ServerTiming,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent
SECONDS = 120
READS = {"readOnlyHint": True}


def shop(middleware):
    server, counts = mcplite.Server("shop", middleware=middleware), itertools.count(1)
    failures = iter([True, True])
    server.add_tool(lambda: str(next(counts)), name="count", annotations=READS)
    server.add_tool(lambda: "x" * 5000, name="large")

    @server.tool(annotations=READS)
    def shaky() -> str:
        if next(failures, False):
            raise mcplite.ToolError("not yet")
        return "at last"

    return server


@pytest.fixture(params=["legacy", "2026-07-28"])
def seen(request, installed):
    """Return a function that serves the shop with some middleware and returns what the official client saw of some calls."""
    def run(middleware, *calls):
        with mcplite.serve(shop(middleware)) as serving:
            done = subprocess.run([installed.python("mcp2"), str(HERE / "official_guarded.py"), serving.url, request.param,
                                   *calls], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return json.loads(done.stdout)

    return run


def test_calls_beyond_the_rate_are_errors_with_a_time(seen):
    first, second, other = seen([LimitRate(1, per=3600)], "count", "count", "large")
    assert first == ["1", False] and other[1] is False
    assert second["code"] == RATE_LIMITED and 0 < second["data"]["retryAfter"] <= 3601


def test_kept_results_are_as_new_ones(seen):
    assert seen([CacheResults(300)], "count", "count") == [["1", False], ["1", False]]


def test_a_large_result_is_an_error_for_the_model_or_cut_off(seen):
    (text, failed), = seen([LimitResults(1000)], "large")
    assert failed and "1,000 are allowed: ask for less" in text
    (text, failed), = seen([LimitResults(1000, cut=True)], "large")
    assert not failed and text.startswith("xxx") and text.endswith(" of 5,000 characters]")


def test_a_tool_that_fails_at_first_is_tried_again(seen):
    assert seen([RepeatCalls(3, pause=0.01)], "shaky") == [["at last", False]]
    assert seen([RepeatCalls(2, pause=0.01)], "shaky") == [["not yet", True]]


def test_hidden_tools_do_not_exist(seen):
    names, call = seen([FilterTools(lambda ctx, tool: tool.name != "large")], "tools", "large")
    assert names == ["count", "shaky"] and call["code"] == -32602


def test_logs_audit_and_times_change_nothing_for_the_client(seen, tmp_path):
    lines, handler, logger = [], logging.Handler(), logging.getLogger("tests.interop.guarded")
    handler.emit = lambda record: lines.append(JSONFormatter().format(record))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        answers = seen([ServerTiming(), LogRequests(logger), AuditLog(tmp_path / "audit.jsonl")], "count", "shaky")
    finally:
        logger.removeHandler(handler)
    assert answers == [["1", False], ["not yet", True]]
    calls = [one for one in (json.loads(line)["mcp"] for line in lines) if one["method"] == "tools/call"]
    assert [(one["name"], one["outcome"]) for one in calls] == [("count", "ok"), ("shaky", "tool_error")]
    noted = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text("utf-8").splitlines()]
    assert [(one["event"], one["name"]) for one in noted] == [
        ("begun", "count"), ("ended", "count"), ("begun", "shaky"), ("ended", "shaky")]
