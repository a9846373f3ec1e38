"""``python -m mcplite bridge``, as a process between real clients and servers."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from tests.support import connecting

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 60
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SERVER = """
import os, mcplite
mcp = mcplite.Server("behind")

@mcp.tool()
def process() -> int:
    return os.getpid()

@mcp.tool()
def who(ctx: mcplite.Context) -> list:
    return [ctx.client_info.name, ctx.can_elicit]

@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    return ctx.elicit("Sure?").action
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "behind.py"
    path.write_text(SERVER)
    return str(path)


def bridge(*arguments):
    return [sys.executable, "-m", "mcplite", "bridge", *arguments]


class Served:
    """A bridge over HTTP, as a process."""

    def __init__(self, *arguments, command="bridge"):
        self.process = subprocess.Popen([sys.executable, "-m", "mcplite", command, *arguments, "--http", "0"],
                                        stderr=subprocess.PIPE, encoding="utf-8", env=ENVIRONMENT)
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + self.process.stderr.read()
        self.url = found.group()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait(LIMIT)
        self.process.stderr.close()


def accept(request):
    return True


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.slow
def test_a_stdio_server_over_http_and_back_on_stdio(program, era):
    with Served(program) as served:
        for target in (served.url, bridge(served.url)):
            options = {"env": {"PYTHONPATH": str(ROOT)}} if isinstance(target, list) else {}
            with connecting.connect(target, era=era, elicitation_handler=accept, timeout=LIMIT, **options) as client:
                assert client.server_info.name == "behind"
                assert client.call_tool("ask").data == "accept"


@pytest.mark.parametrize("handlers, capable", [({}, False), ({"elicitation_handler": accept}, True)])
@pytest.mark.slow
def test_a_server_with_a_handshake_sees_the_client_behind_a_bridge_on_stdio(program, handlers, capable):
    command = bridge(f"{sys.executable} -m mcplite.server {program}", "--revision", "2025-11-25")
    info = mcplite.types.Implementation("one", "3")
    with connecting.connect(command, era="legacy", client_info=info, env={"PYTHONPATH": str(ROOT)}, **handlers) as client:
        assert json.loads(client.call_tool("who").text) == ["one", capable]


@pytest.mark.parametrize("options, processes", [((), 2), (("--shared",), 1)])
@pytest.mark.slow
def test_each_session_has_a_process_unless_they_share_one(program, options, processes):
    command = f"{sys.executable} -m mcplite.server {program}"
    with Served(command, "--revision", "2025-11-25", *options) as served:
        with mcplite.connect(served.url, options=mcplite.ClientOptions(era="legacy")) as one, mcplite.connect(
                served.url, options=mcplite.ClientOptions(era="legacy")) as two:
            seen = [client.call_tool("process").data for client in (one, two, one)]
            assert seen[0] == seen[2] and len(set(seen)) == processes


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_ends_the_bridge_and_its_processes(program, number):
    with Served(program) as served:
        with mcplite.connect(served.url) as client:
            child = client.call_tool("process").data
        served.process.send_signal(number)
        assert served.process.wait(LIMIT) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def run(*arguments):
    return subprocess.run(bridge(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", env=ENVIRONMENT, timeout=LIMIT)


def test_a_server_that_cannot_be_reached_is_an_error():
    ran = run("http://127.0.0.1:9/mcp")
    assert ran.returncode == 4 and ran.stdout == ""
    assert ran.stderr.startswith("cannot reach http://127.0.0.1:9/mcp")


@pytest.mark.parametrize("arguments, text", [
    (["x.py", "--path", "/x"], "need --http"), (["x.py", "--stdio", "--http", "8000"], "exclude each other"),
    (["x.py", "more"], "one argument too many"), ([], "TARGET is missing"),
])
def test_wrong_usage(arguments, text):
    ran = run(*arguments)
    assert ran.returncode == 2 and text in ran.stderr


def test_help_teaches():
    ran = run("--help")
    assert ran.returncode == 0
    assert "a stdio server over HTTP" in ran.stdout and '"mcpServers"' in ran.stdout and "PACKAGE" not in ran.stdout


@pytest.fixture
def recorded(program, tmp_path):
    """A recorded call of the tool that asks; its user has agreed."""
    from mcplite.testing import CassetteWriter

    path = tmp_path / "behind.jsonl"
    with CassetteWriter(path) as writer, mcplite.connect(
            program, env={"PYTHONPATH": str(ROOT)}, elicitation_handler=accept, timeout=LIMIT,
            options=mcplite.ClientOptions(on_message=writer)) as client:
        client.call_tool("ask")
    return str(path)


@pytest.mark.slow
def test_a_cassette_is_replayed_on_stdio_and_over_http(recorded):
    with mcplite.connect([sys.executable, "-m", "mcplite", "replay", recorded], env={"PYTHONPATH": str(ROOT)}, timeout=LIMIT,
                         elicitation_handler=accept) as client:
        assert client.call_tool("ask").data == "accept"
        with pytest.raises(mcplite.errors.InvalidParams, match="record it again"):
            client.call_tool("who")
    with Served(recorded, command="replay") as served:
        for era in ("legacy", "modern"):
            with connecting.connect(served.url, era=era, elicitation_handler=accept, timeout=LIMIT) as client:
                assert client.call_tool("ask").data == "accept"


def test_what_is_no_cassette_is_refused(program):
    ran = subprocess.run([sys.executable, "-m", "mcplite", "replay", program], stdin=subprocess.DEVNULL, capture_output=True,
                         encoding="utf-8", env=ENVIRONMENT, timeout=LIMIT)
    assert ran.returncode == 2 and ran.stdout == "" and "is no cassette: line 1" in ran.stderr
