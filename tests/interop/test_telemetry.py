"""Traces across implementations: the official SDK sends and reads the trace context that mcplite reads and sends."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SECONDS = 120


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def trace_of(request, installed, tmp_path):
    """Return a function that runs one side and gives the spans of ``tools/call add``: ours, and theirs."""

    def run(side):
        files = [tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"]
        revision = "legacy" if side == "client" and request.param == "2025-11-25" else request.param
        done = subprocess.run(
            [installed.python("mcp2"), str(HERE / "official_traced.py"), side, *map(str, files), revision],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")
        spans = []
        for file in files:
            found = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            # The official client's name for it begins with "MCP send".
            [call] = [span for span in found if span["name"].endswith("tools/call add")]
            spans.append(call)
        assert spans[0]["attributes"]["mcp.protocol.version"] == request.param
        return spans

    return run


def test_a_call_of_the_official_client_is_the_parent_of_our_servers_span(trace_of):
    ours, theirs = trace_of("client")
    assert (ours["kind"], theirs["kind"]) == ("SpanKind.SERVER", "SpanKind.CLIENT")
    assert ours["parent_id"] == theirs["context"]["span_id"]
    assert ours["context"]["trace_id"] == theirs["context"]["trace_id"]


def test_a_call_of_our_client_is_the_parent_of_the_official_servers_span(trace_of):
    ours, theirs = trace_of("server")
    assert (ours["kind"], theirs["kind"]) == ("SpanKind.CLIENT", "SpanKind.SERVER")
    assert theirs["parent_id"] == ours["context"]["span_id"]
    common = ("mcp.method.name", "gen_ai.tool.name", "gen_ai.operation.name", "jsonrpc.request.id", "mcp.protocol.version")
    assert {key: ours["attributes"][key] for key in common} == {key: theirs["attributes"][key] for key in common}
