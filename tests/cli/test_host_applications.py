"""``install``, ``uninstall``, ``discover``, and the names of hosts as targets."""

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from mcplite.cli.command_line import run
from mcplite.cli.command_table import HOST_NAMES
from mcplite.cli.host_applications import HOSTS, host_of
from mcplite.errors import TransportError
from tests.support.systems import posix_only

SERVER = '''
import mcplite
mcp = mcplite.Server("weather")

@mcp.tool()
def forecast(city: str) -> str:
    """Say how it will be."""
    return f"{city}: rain"

if __name__ == "__main__":
    mcp.run()
'''
READABLE = [host for host in HOSTS if host != "codex" or sys.version_info >= (3, 11)]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user without any host, in a folder with a server."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "home" / "AppData"))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("weather.py").write_text(SERVER)
    return tmp_path / "home"


def entry_of(host, name="weather", project=False):
    from mcplite.cli.config_edits import parse_document

    known, path = host_of(host, project)
    return parse_document(Path(path).read_text(), known.form, path)[known.section][name]


# --- install ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", READABLE)
def test_what_is_installed_can_be_called_and_uninstalled(host, capsys):
    if host == "goose":
        pytest.importorskip("yaml")
    assert run(["install", host, "weather.py", "--env", "KEY=va:lue"]) == 0
    assert f"list {host}:weather" in capsys.readouterr().out
    assert run(["call", f"{host}:weather", "forecast", "city=Rome"]) == 0
    assert capsys.readouterr().out == "Rome: rain\n"
    assert run(["discover", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["host"] == host and list(found["servers"]) == ["weather"]
    assert run(["uninstall", host, "weather"]) == 0
    assert run(["list", f"{host}:weather"]) == 2
    assert "has none" in capsys.readouterr().err


@pytest.mark.parametrize("host, wanted", [
    ("claude-desktop", {"command": sys.executable, "args": ["FILE", "--fast"], "env": {"K": "v"}}),
    ("claude-code", {"type": "stdio", "command": sys.executable, "args": ["FILE", "--fast"], "env": {"K": "v"}}),
    ("vscode", {"type": "stdio", "command": sys.executable, "args": ["FILE", "--fast"], "env": {"K": "v"}}),
    ("codex", {"command": sys.executable, "args": ["FILE", "--fast"], "env": {"K": "v"}}),
    ("goose", {"name": "weather", "type": "stdio", "cmd": sys.executable, "args": ["FILE", "--fast"], "envs": {"K": "v"},
               "enabled": True, "timeout": 300}),
])
def test_the_entry_is_what_the_host_reads(host, wanted):
    if host == "goose":
        pytest.importorskip("yaml")
    if host not in READABLE:
        pytest.skip("this Python reads no TOML")
    assert run(["install", host, "weather.py", "--env", "K=v", "--", "--fast"]) == 0
    args = [os.path.abspath("weather.py") if one == "FILE" else one for one in wanted["args"]]
    assert entry_of(host) == {**wanted, "args": args}


@pytest.mark.parametrize("host, wanted", [
    ("cursor", {"type": "http", "url": "U", "headers": {"A": "b"}}),
    ("claude-code", {"type": "http", "url": "U", "headers": {"A": "b"}}),
    ("gemini", {"httpUrl": "U", "headers": {"A": "b"}}),
    ("windsurf", {"serverUrl": "U", "headers": {"A": "b"}}),
    ("claude-desktop", {"command": sys.executable, "args": ["-m", "mcplite", "bridge", "U", "--header", "A: b"]}),
])
def test_a_url(host, wanted):
    url = "https://mcp.example.com/mcp"
    assert run(["install", host, url, "--header", "A: b"]) == 0
    if host in ("cursor", "gemini", "windsurf"):
        wanted.pop("type", None)
    assert entry_of(host, "example") == json.loads(json.dumps(wanted).replace('"U"', json.dumps(url)))


@pytest.mark.parametrize("url, name", [
    ("http://127.0.0.1:8765/mcp", "127-0-0-1-8765"), ("http://10.0.0.7/notes/v1/mcp", "notes"), ("http://[::1]:80/", "1-80"),
    ("https://mcp.example.com/mcp", "example")])
def test_the_name_of_a_url(url, name, capsys):
    assert run(["install", "cursor", url, "--print"]) == 0
    assert f'"{name}": {{' in capsys.readouterr().out


def test_a_command_and_a_module_get_absolute_programs(monkeypatch):
    Path("tools.py").write_text(SERVER)
    python = Path(sys.executable).name
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    assert run(["install", "cursor", f"{python} -m tools", "--name", "command"]) == 0
    assert os.path.isabs(entry_of("cursor", "command")["command"])
    assert entry_of("cursor", "command")["args"] == ["-m", "tools"]
    assert run(["install", "cursor", "tools:mcp"]) == 0
    assert entry_of("cursor", "tools") == {"command": sys.executable, "args": ["-m", "mcplite.server", "tools:mcp"]}


def test_a_project_and_a_plain_file(capsys):
    assert run(["install", "vscode", "weather.py", "--project"]) == 0
    assert "weather" in json.loads(Path(".vscode/mcp.json").read_text())["servers"]
    assert run(["install", "mcp.json", "weather.py"]) == 0
    assert json.loads(Path("mcp.json").read_text())["mcpServers"]["weather"]["type"] == "stdio"
    assert run(["install", ".vscode/mcp.json", "weather.py", "--name", "other"]) == 0
    assert list(json.loads(Path(".vscode/mcp.json").read_text())) == ["servers"]
    capsys.readouterr()
    assert run(["discover"]) == 0
    assert f"{os.path.abspath('.vscode/mcp.json')}:other" in capsys.readouterr().out
    assert run(["call", ".vscode/mcp.json:other", "forecast", "city=Rome"]) == 0


def test_the_rest_of_the_file_stays_and_the_file_as_it_was_is_kept(home, capsys):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    before = b'\xef\xbb\xbf// mine\r\n{\r\n  "mcpServers": {\r\n    "a": {"command": "b"}, // keep\r\n  }\r\n}\r\n'
    path.write_bytes(before)
    path.chmod(0o600)
    assert run(["install", "cursor", "weather.py", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["changed"] and Path(told["backup"]).read_bytes() == before
    assert path.read_bytes().startswith(before[:before.index(b"// keep")])
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run(["install", "cursor", "weather.py"]) == 0
    assert "has this entry for 'weather' already" in capsys.readouterr().out
    assert run(["uninstall", "cursor", "weather"]) == 0
    assert path.read_bytes() == before
    assert sorted(one.name for one in path.parent.iterdir()) == ["mcp.json", "mcp.json.bak"]


@posix_only
def test_a_link_stays_a_link(home):
    (home / ".cursor").mkdir()
    (home / "dotfiles.json").write_text("{}")
    (home / ".cursor" / "mcp.json").symlink_to(home / "dotfiles.json")
    assert run(["install", "cursor", "weather.py"]) == 0
    assert (home / ".cursor" / "mcp.json").is_symlink() and "weather" in (home / "dotfiles.json").read_text()


@pytest.mark.parametrize("host", ["claude-desktop", "codex", "goose"])
def test_print_shows_the_change_and_writes_nothing(host, home, capsys, monkeypatch):
    for reader in ("yaml", "tomllib", "tomli"):
        monkeypatch.setitem(sys.modules, reader, None)  # a file that is not there needs none
    assert run(["install", host, "weather.py", "--print"]) == 0
    assert "+++ " in capsys.readouterr().out and list(home.iterdir()) == []


@pytest.mark.parametrize("arguments, says", [
    (["install", "curser", "weather.py"], "did you mean 'cursor'[?]"),
    (["install", "cursor"], "TARGET is missing"),
    (["install", "cursor", "nosuch.py"], "no file .*nosuch.py"),
    (["install", "cursor", "nosuch"], "no program and no module 'nosuch'"),
    (["install", "cursor", "nosuch --flag"], "no program 'nosuch' on PATH"),
    (["install", "cursor", "weather.py", "--header", "A: b"], "--header is for a URL"),
    (["install", "cursor", "https://x.example/mcp", "--env", "A=b"], "not for a URL"),
    (["install", "cursor", "weather.py", "--env", "NOT_SET_HERE"], "no variable NOT_SET_HERE"),
    (["install", "windsurf", "weather.py", "--project"], "no file for a project"),
    (["uninstall", "cursor", "weather"], "has no server 'weather'"),
    (["list", "cursor"], "no configuration file"),
])
def test_wrong_usage(arguments, says, capsys, home):
    assert run(arguments) == 2
    assert re.search(says, capsys.readouterr().err)
    assert not (home / ".cursor").exists()


def test_another_server_of_the_name_is_not_replaced_without_being_asked_to(capsys):
    assert run(["install", "cursor", "weather.py"]) == 0
    Path("other.py").write_text(SERVER)
    assert run(["install", "cursor", "other.py", "--name", "weather"]) == 2
    assert "--replace" in capsys.readouterr().err
    assert run(["install", "cursor", "other.py", "--name", "weather", "--replace"]) == 0
    assert entry_of("cursor")["args"] == [os.path.abspath("other.py")]


def test_a_file_that_is_no_json_stays_as_it_is(home, capsys):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {')
    assert run(["install", "cursor", "weather.py"]) != 0
    assert "is not JSON" in capsys.readouterr().err and path.read_text() == '{"mcpServers": {'
    assert run(["discover"]) == 0
    assert "cannot be read" in capsys.readouterr().out


def test_a_file_that_changes_meanwhile_is_not_written(home, monkeypatch):
    import shutil

    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text("{}")
    copy = shutil.copy2

    def copy_late(source, target):
        copy(source, target)
        path.write_text('{"theirs": 1}')

    monkeypatch.setattr(shutil, "copy2", copy_late)
    assert run(["install", "cursor", "weather.py"]) != 0
    assert path.read_text() == '{"theirs": 1}'


# --- where the files are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("system, host, ends", [
    ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
    ("win32", "claude-desktop", "AppData/Claude/claude_desktop_config.json"),
    ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
    ("win32", "zed", "AppData/Zed/settings.json"), ("darwin", "zed", ".config/zed/settings.json"),
    ("win32", "goose", "AppData/Block/goose/config/config.yaml"), ("linux", "codex", ".codex/config.toml"),
])
def test_where_the_file_is(system, host, ends, home, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    assert Path(host_of(host)[1]) == home / ends


def test_a_variable_of_the_host_names_its_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    assert Path(host_of("codex")[1]) == tmp_path / "elsewhere" / "config.toml"


# --- what others have written -----------------------------------------------------------------------------------


@pytest.mark.parametrize("host, text, wanted", [
    ("zed", '{"context_servers": {"w": {"command": {"path": "p", "args": ["a"], "env": {}}}, "ext": {"settings": {}}}}',
     {"w": {"command": "p", "args": ["a"], "env": {}}}),
    ("gemini", '{"mcpServers": {"w": {"httpUrl": "https://x.example"}}}', {"w": {"url": "https://x.example"}}),
    ("codex", '[mcp_servers.w]\nurl = "https://x.example"\nbearer_token_env_var = "T"\n',
     {"w": {"url": "https://x.example", "headers": {"Authorization": "Bearer ${T}"}}}),
    ("goose", "extensions:\n  w:\n    type: streamable_http\n    uri: https://x.example\n    enabled: false\n"
              "  dev:\n    type: builtin\n", {"w": {"url": "https://x.example", "enabled": False}}),
])
def test_the_servers_of_a_host(host, text, wanted):
    from mcplite.cli.host_applications import servers_of

    if host == "goose":
        pytest.importorskip("yaml")
    if host not in READABLE:
        pytest.skip("this Python reads no TOML")
    path = Path(host_of(host)[1])
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert servers_of(host) == wanted


def test_a_section_that_is_no_object(home):
    from mcplite.cli.host_applications import servers_of

    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": [1]}')
    with pytest.raises(TransportError, match="must be an object"):
        servers_of("cursor")


def test_the_table_of_commands_names_the_hosts():
    assert HOST_NAMES == tuple(HOSTS)
