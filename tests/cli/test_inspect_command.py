"""The command ``inspect``: one line of stdout, and an end that leaves nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import requests

import mcplite
from mcplite.cli import command_line
from mcplite.cli.inspect_command import targets_of
from mcplite.cli.parser import UsageError, parse
from mcplite.cli.target import take_file
from tests.inspector.conftest import inspect  # noqa: F401
from tests.support.systems import posix_only

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
CONFIG = """{"mcpServers": {
    "one": {"command": "python", "args": ["a.py"]},
    "two": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-A": "b"}},
    "off": {"command": "python", "disabled": true},
    "wrong": {"command": "python", "env": {"A": "${NO_SUCH_VARIABLE}"}}
}}"""


def targets(*words):
    options = parse(["inspect", *map(str, words)], "mcplite", "1")
    words = list(options.words)
    take_file(words, options)
    return targets_of(words, options)


@posix_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_it_is_interrupted(tmp_path, number):
    program = tmp_path / "server.py"
    program.write_text("from mcplite import Server\napp = Server('x')\n")
    with subprocess.Popen([sys.executable, "-m", "mcplite", "inspect", str(program), "--no-browser"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}) as process:
        url = process.stdout.readline().decode().strip()
        with requests.Session() as http:
            http.trust_env = False
            entered = http.get(url, allow_redirects=False, timeout=30)
            http.headers["Inspector-Key"] = entered.headers["Location"].partition("#key=")[2]
            base = url.partition("/?")[0]
            assert http.post(base + "/api/open", json={"server": "server"}, timeout=30).json() == {}
            state = {}
            while state.get("state") not in ("open", "failed"):
                state = http.get(base + "/api/state", timeout=30).json()["servers"][0]
            assert state["state"] == "open", state
        children = psutil.Process(process.pid).children()
        assert len(children) == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")
        assert not children[0].is_running()


def test_a_configuration_gives_all_of_its_servers(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(CONFIG)
    found = {one.name: one for one in targets(path, "--header", "X-C: d", "--env", "A=B")}
    assert set(found) == {"one", "two", "wrong"}
    assert found["one"].options() == {"env": {"A": "B"}}
    assert found["two"].options() == {"headers": {"X-C": "d"}, "auth": None}
    assert "NO_SUCH_VARIABLE" in found["wrong"].problem
    assert [one.name for one in targets(f"{path}:two")] == ["two"]


@pytest.mark.parametrize("target, name", [
    ("weather.py", "weather"), ("npx -y some-server", "npx"), ("https://me@example.com:8000/mcp", "example.com:8000")])
def test_a_server_is_named_after_its_target(target, name):
    assert [one.name for one in targets(target)] == [name]


@pytest.mark.parametrize("words, text", [
    (["a.py", "--header", "A: b"], "--header is for a URL"), (["http://127.0.0.1:9/", "--env", "A=b"], "--env and --cwd"),
    (["no.json"], "there is no configuration file"), (["@web", "--env", "A=b"], "connected already")])
def test_wrong_usage(words, text):
    with pytest.raises(UsageError, match=text):
        targets(*words)


@pytest.mark.parametrize("option", ["--keep", "--record"])
def test_what_other_commands_leave_behind_is_refused(capsys, option):
    assert command_line.run(["inspect", "a.py", option, "x"]) == 2
    assert f"leave out {option}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_kept_session_is_inspected(tmp_path, monkeypatch, inspect):  # noqa: F811
    for name in ("XDG_DATA_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    program = tmp_path / "server.py"
    program.write_text("from mcplite import Server\napp = Server('kept')\n")

    def mcplite(*words):
        subprocess.run([sys.executable, "-m", "mcplite", *words], check=True, env={**os.environ, "PYTHONPATH": ROOT},
                       stdout=subprocess.DEVNULL, timeout=60)

    mcplite("ping", str(program), "--keep", "web")
    try:
        page = inspect(web=targets("@web")[0])
        assert page.open("@web")["target"] == "@web"
        page.post("close", server="@web")
        page.wait("server", state="closed", revision=None)
        page.events.clear()
        page.open("@web")  # on a connection of its own
    finally:
        mcplite("stop", "web")
