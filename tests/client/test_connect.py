import dataclasses
import inspect
import os
import sys
import threading
from pathlib import Path

import pytest

import mcplite
from mcplite.client.client_options import ClientOptions, ClientSettings
from mcplite.client.config import ServerConfig
from mcplite.client.connect import command, connect, memory_channel, transport
from mcplite.client.group import connect_all
from mcplite.errors import TransportError
from mcplite.revisions import TASKS_EXTENSION
from tests.support import connecting
from tests.support.authserver import AuthServer, Protected

LIMIT = 30
EXTENSION = "io.modelcontextprotocol/oauth-client-credentials"


def test_a_url_and_a_configured_url():
    mcp = mcplite.Server("remote")
    with mcplite.serve(mcp, legacy_sse=True) as server:
        with connect(server.url) as client:
            assert client.server_info.name == "remote"
        with connect(ServerConfig("remote", "http", url=server.url, headers={"X-A": "1"}), headers={"X-B": "2"}) as client:
            assert client.state == "open"
        with connect(ServerConfig("remote", "sse", url=server.url.replace("/mcp", "/sse"))) as client:
            assert client.state == "open"


@pytest.mark.parametrize("target, option", [
    ("http://127.0.0.1:1/mcp", {"env": {}}), ("http://127.0.0.1:1/mcp", {"cwd": "/"}), (["true"], {"headers": {}}),
    (["true"], {"auth": "x"}), (mcplite.Server("here"), {"verify": False}), (mcplite.Server("here"), {"env": {}, "cwd": "."}),
])
def test_options_of_another_transport(target, option):
    with pytest.raises(TypeError, match="only for a server"):
        connecting.connect(target, **option)


@pytest.mark.parametrize("target, type, text", [
    ("http://127.0.0.1:1/mcp", "websocket", "'http' or 'sse'"), ("", None, "empty"), ("   ", None, "empty"),
    ("server 'oops", None, "quot"),
])
def test_targets_that_cannot_be(target, type, text):
    with pytest.raises(ValueError, match=text):
        connect(target, options=ClientOptions(type=type))


@pytest.mark.parametrize("target", [None, 3, object(), {"command": "x"}, b"server", (1, 2, 3)])
def test_other_targets_are_refused_with_a_list_of_the_possible(target):
    with pytest.raises(TypeError):
        connect(target)
    if target is None:
        with pytest.raises(TypeError, match="a Server, a Channel"):
            connect(target)


def test_nothing_starts_before_open(tmp_path):
    client = connect([sys.executable, "-c", f"open({str(tmp_path / 'started')!r}, 'w')"])
    assert client.state == "new"
    with pytest.raises(mcplite.errors.ConnectionClosed):
        client.open()
    assert (tmp_path / "started").exists()


@pytest.mark.parametrize("given, declared", [
    (None, {}), ({"com.example/mine": {"a": 1}}, {"com.example/mine": {"a": 1}}),
    ({EXTENSION: {"a": 1}}, {EXTENSION: {"a": 1}}),
])
def test_the_extension_of_a_grant_is_added_to_those_of_the_caller(given, declared):
    # AUX-04
    mcp = mcplite.Server("real")
    mcp.add_tool(lambda: None, name="one")
    with AuthServer() as auth, Protected(auth, mcp.wsgi()) as real:
        auth.know("me", "s3cret")
        grant = mcplite.auth.ClientCredentials("me", "s3cret", issuer=auth.issuer)
        before = None if given is None else dict(given)
        with connect(real.url, auth=grant, extensions=given, timeout=LIMIT, options=ClientOptions(era="modern")) as client:
            client.list_tools()
        said = [request.message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
                for request in real.requests if request.message is not None]
    assert len(said) >= 2 and all(one == {TASKS_EXTENSION: {}, EXTENSION: {}, **declared} for one in said), said
    assert given == before  # the caller's own stays as it is


# --- one option, one name and one default ----------------------------------------------------------------------------


def defaults(function):
    """Return the defaults of the parameters that have one, by name."""
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is not parameter.empty}


def test_connect_has_the_settings_that_are_no_options():
    own = {name: value for name, value in defaults(ClientSettings).items() if name not in defaults(ClientOptions)}
    assert defaults(connect) == {**own, "options": None}
    assert len(defaults(connect)) == 18 and defaults(connect_all) == {**defaults(connect), "separator": "__"}


@pytest.mark.parametrize("documented", [connect, ClientOptions])
def test_each_option_is_documented(documented):
    assert [name for name in defaults(documented) if f":param {name}:" not in documented.__doc__] == []


def test_options_are_an_object_of_their_own():
    with pytest.raises(TypeError, match=r"^options must be a ClientOptions, as in .*, not dict"):
        connect(["x"], options={"cache": False})
    with pytest.raises(TypeError, match="unexpected keyword argument 'cach'"):
        ClientOptions(cach=False)


def test_options_are_compared_and_shown_by_their_values():
    options = ClientOptions(cache=False)
    assert options == ClientOptions(cache=False) != ClientOptions() and hash(options) == hash(ClientOptions(cache=False))
    assert repr(options).startswith("ClientOptions(max_timeout=300.0, ") and "cache=False" in repr(options)
    assert dataclasses.replace(options, cache=True) == ClientOptions()


def test_a_typo_is_reported_with_the_name_that_was_called():
    with pytest.raises(TypeError, match=r"^connect\(\) got an unexpected keyword argument 'timeot'"):
        connect(["x"], timeot=3)


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
