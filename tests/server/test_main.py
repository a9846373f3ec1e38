"""``python -m mcplite.server``: what it serves, what it says when it cannot, and what stays off stdout."""

import io
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite.server import __main__ as command_line

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8"}

SERVER = '''
import os
import sys

import mcplite

print("printed at import")
os.write(1, b"written at import\\n")
os.system("echo a child at import")
mcp = mcplite.Server("weather")

@mcp.tool()
def add(a: int, b: int) -> int:
    print("printed by a tool")
    return a + b

def make():
    return mcp
'''
FUNCTIONS = '''
"""Small tools."""
from os.path import join

def double(a: int) -> int:
    """Twice as much."""
    return a + a

def bare(a):
    return a

def _hidden(a: int) -> int:
    return a
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "weather_app.py").write_text(SERVER)
    (tmp_path / "small_tools.py").write_text(FUNCTIONS)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def client(folder, *arguments, **options):
    return mcplite.connect([sys.executable, "-m", "mcplite.server", *arguments], cwd=str(folder),
                           env={"PYTHONPATH": ROOT}, timeout=30, **options)


@pytest.mark.parametrize("target", ["weather_app.py", "weather_app.py:mcp", "weather_app.py:make", "weather_app:mcp",
                                    "weather_app", "pack.inner:mcp", "pack.inner"])
def test_each_form_of_a_target_is_served_and_nothing_else_is_on_stdout(folder, target):
    with client(folder, target) as connected:
        assert connected.server_info.name == "weather"
        assert connected.call_tool("add", {"a": 2, "b": 3}).structured_content == {"result": 5}
        assert connected.last_error is None
    for line in ("printed at import", "written at import", "a child at import", "printed by a tool"):
        assert line in connected.stderr_tail


@pytest.mark.parametrize("options, name", [([], "small_tools"), (["--name", "my-tools"], "my-tools")])
def test_the_functions_of_a_module_without_a_server(folder, options, name):
    with client(folder, "small_tools.py", *options) as connected:
        assert connected.server_info.name == name
        assert connected.instructions == "Small tools."
        assert [tool.name for tool in connected.list_tools()] == ["double"]
        assert connected.call_tool("double", {"a": 21}).structured_content == {"result": 42}
    assert "not served:  bare: it has no annotations" in connected.stderr_tail


def serve(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "mcplite.server", *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60, **options)


@pytest.mark.parametrize("target, problem", [
    ("missing.py", "there is no file "), ("missing_module", "there is no module 'missing_module'"),
    ("weather_app.py:other", "'other' is not a Server; servers in weather_app: mcp"),
    ("pack", "pack has neither a Server nor a public annotated function"),
])
def test_1_what_cannot_be_served_is_said_on_stderr(folder, target, problem):
    ran = serve(target, cwd=str(folder))
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.decode().splitlines()[0 if "weather" not in target else -1].startswith(f"cannot serve {target}: ")
    assert problem in ran.stderr.decode()


def test_an_error_in_the_target_is_shown_with_its_place(folder):
    (folder / "broken.py").write_text("import mcplite\n1 / 0\n")
    ran = serve("broken.py", cwd=str(folder))
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert 'broken.py", line 2' in ran.stderr.decode() and "ZeroDivisionError" in ran.stderr.decode()


def test_the_end_of_stdin_is_the_end(folder):
    ran = serve("weather_app.py", cwd=str(folder))
    assert (ran.returncode, ran.stdout) == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="these signals can be sent to one process on POSIX only")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_end_too(folder, which):
    (folder / "weather_app.py").write_text(SERVER + "sys.stderr.write('loaded\\n')\n")
    child = subprocess.Popen([sys.executable, "-m", "mcplite.server", "weather_app.py"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=str(folder))
    try:
        child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        child.stdin.flush()
        assert b'"id":1' in child.stdout.readline()  # it serves, so the signal is its own by now
        child.send_signal(which)
        child.wait(30)
    finally:
        child.kill()
        out, err = child.communicate()
    assert (child.returncode, out) == (0, b"")
    assert b"Traceback" not in err


@pytest.mark.parametrize("level, shown", [("debug", ["debug", "info", "warning"]), ("info", ["info", "warning"]),
                                          (None, ["warning"]), ("error", [])])
def test_log_level_is_for_stderr(folder, level, shown):
    (folder / "noisy.py").write_text(
        "import logging\nimport mcplite\nmcp = mcplite.Server('noisy')\n"
        "for level in ('debug', 'info', 'warning'):\n    getattr(logging.getLogger('app'), level)('at %s', level)\n")
    ran = serve("noisy.py", *(["--log-level", level] if level else []), cwd=str(folder))
    assert ran.returncode == 0
    assert [name for name in ("debug", "info", "warning") if f"app: at {name}" in ran.stderr.decode()] == shown


def test_debug_shows_the_messages(folder):
    with client(folder, "weather_app.py", "--debug") as connected:
        connected.ping()
    assert "initialize" in connected.stderr_tail and "ping" in connected.stderr_tail


# --- in this process ---------------------------------------------------------------------------------


@pytest.fixture
def here(folder, monkeypatch):
    """The folder of targets; loading one changes nothing for the next test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    sys.modules.pop("weather_app", None)


def test_main_says_what_cannot_be_served(here, capfd):
    assert command_line.main(["missing.py"]) == 1
    out, err = capfd.readouterr()
    assert (out, err.splitlines()) == ("", [f"cannot serve missing.py: there is no file {here / 'missing.py'}"])


@pytest.mark.parametrize("options, debug", [([], False), (["--debug"], True)])
def test_main_serves_with_the_streams_it_has_taken(here, monkeypatch, capfd, options, debug):
    served = []

    def serve(server, streams):
        served.append((server, streams))
        for descriptor in streams:
            os.close(descriptor)

    monkeypatch.setattr(command_line, "serve", serve)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert command_line.main(["weather_app.py", *options]) == 0
    (server, streams), = served
    assert (server.name, server.debug is True) == ("weather", debug)
    assert min(streams) > 2
    out, err = capfd.readouterr()
    assert out == "" and "written at import" in err and "a child at import" in err


@pytest.mark.parametrize("words", [[], ["a.py", "b.py"], ["a.py", "--log-level", "loud"], ["--loud"]])
def test_2_wrong_usage(capsys, words):
    with pytest.raises(SystemExit) as caught:
        command_line.main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m mcplite.server")


@pytest.mark.parametrize("words, taught", [
    (["--help"], ["usage: python -m mcplite.server [-h]", "file.py:name", "package.module:name",
                  "python -m mcplite.server weather.py:mcp --log-level debug", '"args": ["-m", "mcplite.server", ']),
    (["--version"], [f"mcplite {mcplite.__version__}\n"]),
])
def test_help_teaches(words, taught):
    ran = serve(*words)
    assert ran.returncode == 0
    for text in taught:
        assert text in ran.stdout.decode()


def test_importing_the_module_logs_nothing_and_sets_nothing():
    assert command_line.__all__ == ["main"]
    assert not logging.getLogger(command_line.__name__).handlers
