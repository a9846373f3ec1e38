"""The official Inspector's command line looks at our server, over HTTP as ``python -m mcplite.server`` serves it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent
SECONDS = 120


@pytest.fixture(scope="module")
def server(installed, serving):
    installed.inspector()  # skips before anything is started
    command = [sys.executable, "-m", "mcplite.server", f"{HERE / 'everything.py'}:mcp", "--http", "0", "--legacy-sse"]
    with serving(command, PYTHONPATH=str(HERE.parent.parent)) as server:
        yield server
        if os.name == "posix":
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(SECONDS) == 0, server.output


def run_inspector(installed, home, *arguments):
    """Run the Inspector; return its exit status and what it printed."""
    # It keeps what it knows below the home folder.
    ran = subprocess.run([*installed.inspector(), "--cli", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=SECONDS, encoding="utf-8", env={**os.environ, "HOME": str(home)})
    print(ran.stderr)
    return ran.returncode, json.loads(ran.stdout)


@pytest.fixture(params=["legacy", "modern"])
def inspect_extensions(request, installed, tmp_path):
    """Run the Inspector in one era with a server that has extensions, on stdio."""
    program = [sys.executable, str(HERE / "extensions.py"), "-e", f"PYTHONPATH={HERE.parent.parent}"]
    return lambda *arguments: run_inspector(installed, tmp_path, *program, "--protocol-era", request.param, *arguments)


@pytest.fixture(params=["mcp", "sse"])
def inspect(request, server, installed, tmp_path):
    """Run the Inspector with the server that has everything, over HTTP."""
    url = server.url.replace("/mcp", f"/{request.param}")
    return lambda *arguments: run_inspector(installed, tmp_path, url, *arguments)


def test_the_inspector_lists_tools_without_complaints(inspect):
    status, listed = inspect("--method", "tools/list", "--strict")
    assert status == 0
    names = [tool["name"] for tool in listed["tools"]]
    assert len(names) == len(set(names)) > 28 and {"echo", "shrink"} <= set(names)  # of all pages


def test_the_inspector_calls_tools(inspect):
    status, result = inspect("--method", "tools/call", "--tool-name", "forecast", "--tool-arg", "city=Rome", "days=1")
    assert status == 0
    assert result["structuredContent"] == {"result": [{"date": "Rome 0", "high": 20.5, "note": "celsius"}]}
    status, result = inspect("--method", "tools/call", "--tool-name", "fail", "--tool-arg", "how=tool")
    assert (status, result["isError"]) == (5, True)


def test_the_inspector_calls_many_tools_at_once(inspect):
    status, summary = inspect("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=x", "--load",
                              "--load-requests", "100", "--load-concurrency", "8")
    assert status == 0 and (summary["ok"], summary["errors"]) == (100, 0)


def test_the_inspector_reads_resources_and_prompts(inspect):
    status, listed = inspect("--method", "resources/list")
    assert status == 0 and [item["name"] for item in listed["resources"]] == ["settings", "pixel", "bundle"]
    status, read = inspect("--method", "resources/read", "--uri", "config://settings")
    assert status == 0 and json.loads(read["contents"][0]["text"]) == {"colour": "blue"}
    status, prompt = inspect("--method", "prompts/get", "--prompt-name", "briefing", "--prompt-args", "city=Rome")
    assert status == 0 and prompt["messages"][0]["content"]["text"] == "Write a neutral briefing for Rome."


def test_the_inspector_finds_the_app_of_a_tool(inspect_extensions):
    status, info = inspect_extensions("--method", "tools/call", "--tool-name", "clock", "--app-info", "--advertise-apps")
    assert status == 0 and info["hasApp"] is True and info["resourceUri"] == "ui://clock/face"
    assert info["csp"] == {"connectDomains": ["https://time.example.com"]}
    status, info = inspect_extensions("--method", "tools/call", "--tool-name", "plain", "--app-info")
    assert status == 2 and info["hasApp"] is False


def test_the_inspector_verifies_skills(inspect_extensions):
    status, report = inspect_extensions("--method", "skills/list", "--verify")
    assert status == 0, report
    status, read = inspect_extensions("--method", "skills/get", "--uri", "skill://plan-a-trip/SKILL.md")
    assert status == 0 and read["skill"]["frontmatter"]["name"] == "plan-a-trip"
