import os
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite.client.config.files import ServerConfig
from mcplite.client.connect import _split, command, connect, transport
from mcplite.errors import TransportError
from tests.support.authserver import AuthServer, Protected

LIMIT = 30
ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
SERVE = [sys.executable, "-m", "mcplite.server"]
EXTENSION = "io.modelcontextprotocol/oauth-client-credentials"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.py").write_text("if __name__ == '__main__':\n    pass\n")
    (tmp_path / "plain.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    (tmp_path / "a b.py").write_text("mcp.run()\n")
    (tmp_path / "server.js").write_text("")
    return tmp_path


@pytest.mark.parametrize("target, argv", [
    ("runs.py", [sys.executable, "runs.py"]),
    ("a b.py", [sys.executable, "a b.py"]),
    ("plain.py", [*SERVE, "plain.py"]),
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
    assert _split(line, windows=True) == [r"C:\Program Files\python.exe", r"C:\tools\server.py"]
    assert _split(r"a\ b", windows=False) == ["a b"]


def test_a_missing_file_is_named(folder):
    with pytest.raises(TransportError, match="nothing.py") as caught:
        connect("nothing.py")
    assert str(folder) in str(caught.value)  # NS-33: an absolute path


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
    (["true"], {"auth": "x"}), (mcplite.Server("here"), {"verify": False}),
])
def test_options_of_another_transport(target, option):
    with pytest.raises(TypeError, match="only for a server"):
        connect(target, **option)


def test_an_unknown_type_of_url():
    with pytest.raises(ValueError, match="'http' or 'sse'"):
        connect("http://127.0.0.1:1/mcp", type="websocket")


@pytest.mark.parametrize("target", ["", "   "])
def test_an_empty_command_is_refused(target):
    with pytest.raises(ValueError, match="empty"):
        connect(target)


def test_unmatched_quotes_are_refused():
    with pytest.raises(ValueError):
        connect("server 'oops")


@pytest.mark.parametrize("target", [None, 3, object(), {"command": "x"}, b"server", (1, 2, 3)])
def test_other_targets_are_refused_with_a_list_of_the_possible(target):
    with pytest.raises(TypeError):
        connect(target)
    if target is None:
        with pytest.raises(TypeError, match="a Server, a Channel"):
            connect(target)


def test_options_for_a_child_are_for_children_only():
    with pytest.raises(TypeError, match="cwd, env"):
        connect(mcplite.Server("x"), env={}, cwd=".")
    with pytest.raises(TypeError, match="colour"):
        connect(["x"], colour="red")


def test_nothing_starts_before_open(tmp_path):
    client = connect([sys.executable, "-c", f"open({str(tmp_path / 'started')!r}, 'w')"])
    assert client.state == "new"
    with pytest.raises(mcplite.ConnectionClosed):
        client.open()
    assert (tmp_path / "started").exists()


@pytest.fixture
def started(monkeypatch):
    """The arguments of the child processes, which are not started."""
    seen = []

    class Recorded:
        def __init__(self, argv, **options):
            seen.append((argv, options))

    monkeypatch.setattr("mcplite.client.stdio.channel.ChildChannel", Recorded)
    return seen


def test_options_reach_the_child(started, folder):
    transport([Path("my") / "server", "x"], {"env": {"A": "1"}, "cwd": "/srv", "stderr": "inherit", "grace": 5})()
    assert started == [([os.path.join("my", "server"), "x"],
                        {"env": {"A": "1"}, "cwd": "/srv", "stderr": "inherit", "grace": 5})]


def test_a_child_process_finds_this_package(started, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    transport("package.module:name", {"env": {"A": "1"}})()
    transport("package.module:name", {"env": {"PYTHONPATH": "/mine"}})()
    assert started[0][1]["env"] == {"A": "1", "PYTHONPATH": ROOT}
    assert started[1][1]["env"] == {"PYTHONPATH": "/mine"}
    transport(["python", "x.py"], {})()
    assert started[2][1]["env"] == {}


def test_a_configuration_is_a_target(started):
    config = ServerConfig("git", "stdio", command="uvx", args=["mcp-server-git"], env={"A": "1", "B": "2"}, cwd="/srv")
    transport(config, {"env": {"B": "3"}})()
    transport(config, {"cwd": "/other"})()
    assert started[0] == (["uvx", "mcp-server-git"], {"env": {"A": "1", "B": "3"}, "cwd": "/srv"})
    assert started[1][1]["cwd"] == "/other"
    transport(ServerConfig("plain", "stdio", command="server"), {})()
    assert started[2] == (["server"], {"env": {}})


def test_a_module_is_served_by_our_own_command_line(folder):
    (folder / "tools.py").write_text("import mcplite\nmcp = mcplite.Server('tools')\n\n"
                                     "@mcp.tool()\ndef double(n: int) -> int:\n    return 2 * n\n")
    with connect("tools:mcp", cwd=str(folder), timeout=LIMIT) as client:
        assert client.call_tool("double", {"n": 4}).text == "8"
    with connect(str(folder / "plain.py"), timeout=LIMIT) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


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
        grant = mcplite.ClientCredentials("me", "s3cret", issuer=auth.issuer)
        before = None if given is None else dict(given)
        with connect(real.url, auth=grant, extensions=given, timeout=LIMIT, era="modern") as client:
            client.list_tools()
        said = [request.message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
                for request in real.requests if request.message is not None]
    assert len(said) >= 2 and all(one == {EXTENSION: {}, **declared} for one in said), said
    assert given == before  # the caller's own stays as it is
