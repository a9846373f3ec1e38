"""``--keep NAME``, ``@NAME``, ``sessions`` and ``stop``: what a session keeps, who may use it, and how it ends."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.systems import posix_only

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 60
COUNTER = '''
import os
import mcplite

mcp = mcplite.Server("counter")
count = 0

@mcp.tool()
def add(n: int = 1) -> int:
    global count
    count += n
    return count

@mcp.tool()
def variable(name: str) -> str:
    return os.environ.get(name, "")

@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    return ctx.elicit("Sure?").action

@mcp.tool()
def fails() -> str:
    raise mcplite.ToolError("broken")

@mcp.tool()
def end() -> None:
    os._exit(3)
'''


class Commands:
    """Runs commands with sessions of its own, which end with the test."""

    def __init__(self, folder):
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder), "APPDATA": str(folder),
                            "HOME": str(folder)}
        self.folder = folder / "mcplite" / "sessions"
        if sys.platform == "darwin":
            self.folder = folder / "Library" / "Application Support" / "mcplite" / "sessions"

    def run(self, *arguments, status=0):
        """Run a command; return what it prints on both streams."""
        ran = subprocess.run([sys.executable, "-m", "mcplite", *map(str, arguments)], env=self.environment, encoding="utf-8",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
        assert ran.returncode == status, ran.stdout
        return ran.stdout

    def sessions(self):
        return json.loads(self.run("sessions", "--json"))["sessions"]

    def stranger(self, name):
        """Return a connection to a session that has sent nothing yet."""
        port = json.loads((self.folder / f"{name}.json").read_text())["port"]
        if port:
            return socket.create_connection(("127.0.0.1", port), LIMIT)
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(LIMIT)
        client.connect(str(self.folder / f"{name}.sock"))
        return client

    def ended(self):
        """Wait until no session is left."""
        until = time.monotonic() + LIMIT
        while self.sessions():
            assert time.monotonic() < until
            time.sleep(0.1)


@pytest.fixture
def commands(request, tmp_path):
    folder = tmp_path / "data"
    if getattr(request, "param", None) == "a port":  # as on systems without such sockets
        folder = tmp_path / ("long" * 30)
    folder.mkdir()
    commands = Commands(folder)
    yield commands
    names = list(commands.sessions())
    if names:
        commands.run("stop", *names)


@pytest.fixture
def counter(tmp_path):
    path = tmp_path / "counter.py"
    path.write_text(COUNTER)
    return path


pytestmark = [pytest.mark.slow, pytest.mark.one_python]
over_each = pytest.mark.parametrize("commands", ["a socket", "a port"], indirect=True)


@over_each
def test_commands_share_the_state_of_a_server_until_it_is_stopped(commands, counter):
    assert commands.run("call", counter, "add", "--keep", "c") == "1\n"
    assert commands.run("call", "@c", "add", "n=5") == "6\n"
    assert commands.run("call", counter, "add", "--keep", "c") == "7\n"
    assert commands.run("call", "@c", "fails", status=1) == "broken\n"
    assert "Unknown tool" in commands.run("call", "@c", "nothing", status=3)
    assert "counter 0.1.0" in commands.run("list", "@c", "--revision", "2025-06-18")
    assert "example: python -m mcplite call @c add" in commands.run("describe", "@c", "add")
    (record,) = commands.sessions().values()
    assert record["target"] == str(counter) and record["idle"] == 30 and "secret" not in record
    assert commands.run("stop", "@c") == "ended @c\n"
    assert commands.run("sessions") == "no session is kept; --keep NAME on any command begins one\n"
    assert "begin it with --keep c" in commands.run("call", "@c", "add", status=2)
    assert os.listdir(commands.folder) == []


def test_a_session_without_commands_ends(commands, counter):
    commands.run("ping", counter, "--keep", "c", "--idle", "0.001")
    commands.ended()
    assert os.listdir(commands.folder) == []


def test_the_options_of_a_server_belong_to_the_command_that_begins(commands, counter):
    assert commands.run("call", counter, "variable", "name=KEPT", "--env", "KEPT=yes", "--keep", "c") == "yes\n"
    assert commands.run("call", "@c", "variable", "name=KEPT") == "yes\n"
    assert "the command that begins it" in commands.run("call", "@c", "variable", "name=KEPT", "--env", "KEPT=no", status=2)


@over_each
def test_commands_that_begin_one_session_at_once_share_it(commands, counter):
    counter.write_text("import time\ntime.sleep(0.5)  # long enough for the second command to begin\n" + COUNTER)
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(subprocess.Popen(
            [sys.executable, "-m", "mcplite", "call", str(counter), "add", "--keep", "c"], env=commands.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)) for _ in range(2)]
        assert sorted(one.communicate(timeout=LIMIT)[0] for one in running) == [b"1\n", b"2\n"]
    assert commands.run("call", "@c", "add") == "3\n"


def test_a_name_is_for_one_server(commands, counter, tmp_path):
    commands.run("ping", counter, "--keep", "c")
    other = tmp_path / "other.py"
    other.write_text(COUNTER)
    assert f"@c is kept for {counter}" in commands.run("ping", other, "--keep", "c", status=2)
    assert "leave out --keep" in commands.run("ping", "@c", "--keep", "d", status=2)
    assert "is no name of a session" in commands.run("ping", counter, "--keep", "../c", status=2)
    assert "a bridge already" in commands.run("bridge", "@c", status=2)


def test_a_server_that_does_not_start_is_an_error_with_its_reason(commands, tmp_path):
    assert "there is no file" in commands.run("ping", tmp_path / "nothing.py", "--keep", "c", status=4)
    bad = tmp_path / "bad.py"
    bad.write_text("raise SystemExit('no database')")
    assert "no database" in commands.run("ping", bad, "--keep", "c", status=4)
    assert commands.sessions() == {} and os.listdir(commands.folder) == []


def test_a_server_that_dies_is_started_again_by_a_later_command(commands, counter):
    commands.run("call", counter, "add", "--keep", "c")
    commands.run("call", "@c", "end", status=3)
    until = time.monotonic() + LIMIT
    while True:
        ran = subprocess.run([sys.executable, "-m", "mcplite", "call", "@c", "add"], env=commands.environment,
                             stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=LIMIT)
        if ran.returncode == 0:
            assert ran.stdout == "1\n"
            break
        assert time.monotonic() < until, ran.stderr
        time.sleep(0.1)


@posix_only
def test_a_question_reaches_the_terminal_of_the_command(commands, counter, terminal, monkeypatch):
    commands.run("ping", counter, "--keep", "c")
    for name in ("XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, commands.environment[name])
    terminal.run("call", "@c", "ask")
    terminal.expect("counter asks: Sure")
    terminal.expect(r"\[y/n\]")
    terminal.type("y\n")
    terminal.expect("accept")
    assert terminal.status() == 0


@posix_only
def test_a_process_that_was_killed_leaves_a_clear_error(commands, counter):
    commands.run("ping", counter, "--keep", "c")
    os.kill(commands.sessions()["c"]["pid"], 9)
    assert "has ended: begin it again with --keep c" in commands.run("ping", "@c", status=4)
    assert commands.run("call", counter, "add", "--keep", "c") == "1\n"


@posix_only
def test_sigterm_ends_a_session_with_its_server(commands, counter):
    commands.run("ping", counter, "--keep", "c")
    os.kill(commands.sessions()["c"]["pid"], 15)
    commands.ended()
    assert os.listdir(commands.folder) == []


@over_each
@posix_only
def test_only_who_knows_the_secret_is_served(commands, counter):
    commands.run("ping", counter, "--keep", "c")
    assert stat.S_IMODE(os.stat(commands.folder).st_mode) == 0o700
    for name in os.listdir(commands.folder):
        assert name.endswith(".sock") or stat.S_IMODE(os.stat(commands.folder / name).st_mode) == 0o600
    for line in (b"wrong serve\n", b"\n", b"x" * 1000, b"\xff\xfe serve\n"):
        with commands.stranger("c") as client:
            client.sendall(line)
            try:
                assert client.recv(10) == b""
            except ConnectionResetError:
                pass
    assert "answers" in commands.run("ping", "@c")


@over_each
@posix_only
def test_connections_that_say_nothing_delay_no_command(commands, counter):
    commands.run("ping", counter, "--keep", "c")
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(commands.stranger("c")).sendall(b"x")
        assert commands.run("call", "@c", "add") == "1\n"
        assert commands.run("stop", "c") == "ended @c\n"


def test_when_a_session_is_stopped_its_server_has_ended(commands, counter, tmp_path):
    counter.write_text(COUNTER + """
import pathlib, time

mcp.run()
time.sleep(0.5)  # long enough for a command that would not wait
pathlib.Path(__file__).with_name("ended").touch()
""")
    commands.run("ping", f"{sys.executable} {counter}", "--keep", "c")
    commands.run("stop", "c")
    assert (tmp_path / "ended").exists()


@posix_only
def test_a_folder_that_others_may_write_into_is_refused(commands, counter):
    commands.folder.mkdir(parents=True)
    commands.folder.chmod(0o777)
    assert "other users than its owner can write" in commands.run("ping", counter, "--keep", "c", status=2)
