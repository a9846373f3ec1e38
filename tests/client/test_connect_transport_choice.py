import os
import sys
import threading
from pathlib import Path

import pytest

import mcplite
from mcplite.client.client_options import ClientSettings
from mcplite.client.config import ServerConfig
from mcplite.client.connect import command, connect, memory_channel, transport
from mcplite.errors import TransportError

LIMIT = 30
ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
SERVE = [sys.executable, "-m", "mcplite.server"]
#: The options of a child that has none.
DEFAULTS = {"env": {}, "cwd": None, "stderr": None, "line_limit": 16 << 20, "grace": 2.0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.py").write_text("if __name__ == '__main__':\n    mcp.run()\n")
    (tmp_path / "util.py").write_text("if __name__ == '__main__':\n    print(add(1, 2))\n")
    (tmp_path / "plain.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    (tmp_path / "a b.py").write_text("mcp.run()\n")
    (tmp_path / "server.js").write_text("")
    return tmp_path


@pytest.mark.parametrize("target, argv", [
    ("runs.py", [sys.executable, "runs.py"]),
    ("a b.py", [sys.executable, "a b.py"]),
    ("plain.py", [*SERVE, "plain.py"]),
    ("util.py", [*SERVE, "util.py"]),
    ("plain.py:mcp", [*SERVE, "plain.py:mcp"]),
    ("package.module:name", [*SERVE, "package.module:name"]),
    ("server.js", ["node", "server.js"]),
    ("python runs.py --flag 'a b'", ["python", "runs.py", "--flag", "a b"]),
    ("npx -y @scope/server", ["npx", "-y", "@scope/server"]),
    ("my-server", ["my-server"]),
    ("server --port localhost:8000", ["server", "--port", "localhost:8000"]),
    ("missing.js", ["missing.js"]),
    ("echo a; rm -rf b && c | d $HOME `e`", ["echo", "a;", "rm", "-rf", "b", "&&", "c", "|", "d", "$HOME", "`e`"]),
])
def test_commands_for_strings(target, argv, folder):
    assert command(target) == argv  # STD-29: no shell, so nothing is special


def test_backslashes_separate_folders_on_windows():
    line = r'"C:\Program Files\python.exe" C:\tools\server.py'
    assert command(line, windows=True) == [r"C:\Program Files\python.exe", r"C:\tools\server.py"]
    assert command(r"a\ b", windows=False) == ["a b"]


def test_a_file_of_functions_with_a_main_part_of_its_own_is_served(tmp_path):
    (tmp_path / "util.py").write_text("def double(n: int) -> int:\n    return 2 * n\n\n"
                                      "if __name__ == '__main__':\n    print(double(21))\n")
    with connect(str(tmp_path / "util.py"), timeout=LIMIT) as client:
        assert client.call_tool("double", {"n": 4}).data == 8


@pytest.mark.parametrize("main", ["", "if __name__ == '__main__':\n    mcp.run()\n"])
@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"# coding: latin-1\n# \xe9\n"])
def test_a_servers_file_is_read_as_python_reads_it(tmp_path, start, main):
    text = "import mcplite\nmcp = mcplite.Server('x')\n@mcp.tool()\ndef f() -> str:\n    return 'é'\n" + main
    (tmp_path / "server.py").write_bytes(start + text.encode("latin-1" if start[:1] == b"#" else "utf-8"))
    with connect(str(tmp_path / "server.py"), timeout=LIMIT) as client:
        assert client.call_tool("f").text == "é"


def test_a_missing_file_is_named(folder):
    with pytest.raises(TransportError, match="nothing.py") as caught:
        connect("nothing.py")
    assert str(folder) in str(caught.value)  # NS-33: an absolute path


@pytest.fixture
def started(monkeypatch):
    """The arguments of the child processes, which are not started."""
    seen = []

    class Recorded:
        def __init__(self, argv, **options):
            seen.append((argv, options))

    monkeypatch.setattr("mcplite.client.stdio.stdio_channel.ChildChannel", Recorded)
    return seen


def test_options_reach_the_child(started, folder):
    transport([Path("my") / "server", "x"], ClientSettings(env={"A": "1"}, cwd="/srv", stderr="inherit", grace=5))()
    assert started == [([os.path.join("my", "server"), "x"],
                        {**DEFAULTS, "env": {"A": "1"}, "cwd": "/srv", "stderr": "inherit", "grace": 5})]


def test_a_child_process_finds_this_package(started, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    transport("package.module:name", ClientSettings(env={"A": "1"}))()
    transport("package.module:name", ClientSettings(env={"PYTHONPATH": "/mine"}))()
    assert started[0][1]["env"] == {"A": "1", "PYTHONPATH": ROOT}
    assert started[1][1]["env"] == {"PYTHONPATH": "/mine"}
    transport(["python", "x.py"], ClientSettings())()
    assert started[2][1]["env"] == {}


def test_a_configuration_is_a_target(started):
    config = ServerConfig("git", "stdio", command="uvx", args=["mcp-server-git"], env={"A": "1", "B": "2"}, cwd="/srv")
    transport(config, ClientSettings(env={"B": "3"}))()
    transport(config, ClientSettings(cwd="/other"))()
    assert started[0] == (["uvx", "mcp-server-git"], {**DEFAULTS, "env": {"A": "1", "B": "3"}, "cwd": "/srv"})
    assert started[1][1]["cwd"] == "/other"
    transport(ServerConfig("plain", "stdio", command="server"), ClientSettings())()
    assert started[2] == (["server"], DEFAULTS)


@pytest.mark.slow
def test_a_module_is_served_by_our_own_command_line(folder):
    (folder / "tools.py").write_text("import mcplite\nmcp = mcplite.Server('tools')\n\n"
                                     "@mcp.tool()\ndef double(n: int) -> int:\n    return 2 * n\n")
    with connect("tools:mcp", cwd=str(folder), timeout=LIMIT) as client:
        assert client.call_tool("double", {"n": 4}).text == "8"
    with connect(str(folder / "plain.py"), timeout=LIMIT) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_a_server_in_this_process():
    server = mcplite.Server("here")

    @server.tool()
    def where() -> int:
        return threading.get_ident()

    with mcplite.connect(server, timeout=LIMIT) as client:
        assert client.server_info.name == "here" and "'here'" in repr(client)
        assert client.call_tool("where").structured_content != {"result": threading.get_ident()}
        assert len(server.sessions) == 1
    server.close()
    assert server.sessions == []


def test_any_object_that_serves_a_channel_is_a_server():
    class Wall:
        name = "wall"

        def serve_channel(self, channel):
            self.channel = channel

    wall = Wall()
    ours = memory_channel(wall)
    ours.write(b"hello")
    assert wall.channel.read(LIMIT) == b"hello" and "'wall'" in ours.name and wall.channel.name == "the client"
    ours.close()
    with pytest.raises(mcplite.errors.ConnectionClosed):
        wall.channel.read(LIMIT)


def test_the_error_of_a_server_that_cannot_serve_is_raised():
    class Broken:
        def serve_channel(self, channel):
            raise RuntimeError("no database")

    client = mcplite.connect(Broken())
    with pytest.raises(RuntimeError, match="no database"):
        client.open()
    assert client.state == "closed" and str(client.last_error) == "no database"
