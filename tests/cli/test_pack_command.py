"""Bundles: what is in them, that they run without anything installed, and what is refused."""

import hashlib
import json
import sys
import zipfile

import jsonschema
import pytest

import mcplite
from mcplite.cli.command_line import run
from mcplite.cli.pack_command import description_of

SERVER = """
import mcplite
from helper import double
import parts.more

mcp = mcplite.Server("my notes", version="1.2.0", title="Notes", instructions="Search first.\\nThen answer.")

@mcp.tool()
def twice(n: int) -> int:
    \"\"\"Two times a number.\"\"\"
    return double(n)

@mcp.tool()
def read() -> str:
    from pathlib import Path
    return (Path(__file__).parent / "data" / "a.txt").read_text()
"""


def text(least, most, **more):
    return {"type": "string", "minLength": least, "maxLength": most, **more}


#: What the schema of the registry says of the members that a bundle has there.
REGISTRY = {
    "type": "object", "required": ["name", "description", "version"], "properties": {
        "$schema": {"type": "string"}, "_meta": {"type": "object"},
        "name": text(3, 200, pattern="^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"),
        "title": text(1, 100), "description": text(1, 100), "version": text(0, 255),
        "packages": {"type": "array", "items": {
            "type": "object", "required": ["registryType", "identifier", "transport"], "properties": {
                "registryType": {"type": "string"}, "identifier": {"type": "string"},
                "version": {"type": "string", "minLength": 1, "not": {"const": "latest"}},
                "fileSha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
                "transport": {"type": "object", "properties": {"type": {"const": "stdio"}}, "required": ["type"]}}}}},
    "additionalProperties": False}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "parts").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "notes.py").write_text(SERVER)
    (folder / "helper.py").write_text("def double(n):\n    return 2 * n\n")
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "more.py").write_text("x = 1\n")
    (folder / "data" / "a.txt").write_text("from a file")
    (folder / "unused.py").write_text("raise SystemExit('must not be imported')\n")
    (folder / ".env").write_text("SECRET=1")
    return folder


@pytest.fixture
def pack(project, monkeypatch, capsys):
    """Returns a function that packs in this process; the server is run in one of its own."""
    def run_pack(*words, fails=False):
        monkeypatch.chdir(project)
        status = run(["pack", *words, "--json"])
        said = capsys.readouterr()
        assert status == (2 if fails else 0), said.err
        return said.err if fails else json.loads(said.out)

    return run_pack


def test_a_bundle_runs_without_anything_installed(project, pack, tmp_path):
    said = pack("notes.py", "--include", "data", "--env", "NOTES_KEY", "--author", "Ann")
    manifest = said["manifest"]
    assert said["bundle"].endswith("my-notes-1.2.0.mcpb") and manifest["version"] == "1.2.0"
    assert manifest["display_name"] == "Notes" and manifest["description"] == "Search first."
    assert manifest["tools"] == [{"name": "twice", "description": "Two times a number."}, {"name": "read"}]
    assert manifest["user_config"]["notes_key"]["sensitive"] is True
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(said["bundle"]) as archive:
        names = set(archive.namelist())
        assert json.loads(archive.read("manifest.json")) == manifest
        archive.extractall(unpacked)
    own = {name for name in names if not name.startswith("server/lib/")}
    assert own == {"manifest.json", "server/notes.py", "server/helper.py", "server/parts/__init__.py", "server/parts/more.py",
                   "server/data/a.txt"}
    assert {name.split("/")[2] for name in names if name.startswith("server/lib/")} == {"mcplite"}
    config = manifest["server"]["mcp_config"]
    words = [word.replace("${__dirname}", str(unpacked)) for word in config["args"]]
    env = {name: value.replace("${__dirname}", str(unpacked)) for name, value in config["env"].items()}
    # Without site-packages: neither this package nor its requirements are installed.
    with mcplite.connect([sys.executable, "-S", *words], env=env, cwd=str(tmp_path)) as client:
        assert client.call_tool("twice", {"n": 4}).data == 8 and client.call_tool("read").text == "from a file"
        assert client.stderr_tail == ""


def test_a_bundle_has_the_parts_of_this_package_that_the_server_imports(project, pack, tmp_path):
    (project / "agent.py").write_text("import mcplite\nfrom mcplite.llm import ToolSearch\n\nmcp = mcplite.Server('agent')\n\n"
                                      "@mcp.tool()\ndef kind() -> str:\n    return ToolSearch.__name__\n")
    said = pack("agent.py")
    with zipfile.ZipFile(said["bundle"]) as archive:
        archive.extractall(tmp_path / "unpacked")
    place = tmp_path / "unpacked" / "server"
    assert not (place / "lib" / "mcplite" / "cli").exists() and not list(place.rglob("__pycache__"))
    with mcplite.connect([sys.executable, "-S", "-m", "mcplite.server", str(place / "agent.py")],
                         env={"PYTHONPATH": str(place / "lib")}, cwd=str(tmp_path)) as client:
        assert client.call_tool("kind").data == "ToolSearch"


def test_the_same_files_make_the_same_bundle(project, pack, tmp_path):
    first, second = (pack("notes.py", "--output", str(tmp_path / name))["bundle"] for name in ("a", "b"))
    with open(first, "rb") as one, open(second, "rb") as other:
        assert one.read() == other.read()


def test_what_the_registry_gets(project, pack):
    said = pack("notes.py:mcp", "--server-json", "io.github.ann/notes", "--url", "https://example.com/n.mcpb",
                "--description", "Notes of a day. " * 20)
    assert said["manifest"]["server"]["mcp_config"]["args"][-1] == "${__dirname}/server/notes.py:mcp"
    with open(said["server_json"], encoding="utf-8") as file:
        described = json.load(file)
    with open(said["bundle"], "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    assert described["description"].startswith("Notes of a day. Notes") and described["description"].endswith(" of a day.…")
    assert (described["name"], described["title"], described["version"]) == ("io.github.ann/notes", "Notes", "1.2.0")
    assert described["packages"] == [{"registryType": "mcpb", "identifier": "https://example.com/n.mcpb", "version": "1.2.0",
                                      "fileSha256": digest, "transport": {"type": "stdio"}}]
    jsonschema.validate(described, REGISTRY)


@pytest.mark.parametrize("given, own, instructions, tools, expected", [
    ("Given.", "Own.", "First.", ["a"], "Given."), ("", "Own\nline.", "First.", ["a"], "Own line."),
    (None, None, " \n First. \nSecond.", ["a"], "First."), (None, " ", None, ["a", "b"], "a, b"),
    (None, None, None, [], "notes"),
])
def test_a_description_is_there_for_each_server(given, own, instructions, tools, expected):
    found = {"name": "notes", "description": own, "instructions": instructions, "tools": [[name, None] for name in tools]}
    assert description_of(found, given) == expected


@pytest.mark.parametrize("words, change, message", [
    (["none.py"], None, "there is no file"),
    (["notes.py"], "import nosuchmodule", "No module named 'nosuchmodule'"),
    (["notes.py"], "mcp = 5", "cannot serve"),
    (["notes.py", "--bundle-version", "latest"], None, "not one such as 1.2.0"),
    (["notes.py", "--env", "A=b"], None, "the application asks its user for the value"),
    (["notes.py", "--include", "../other"], None, "below"),
    (["notes.py", "--include", "none"], None, "below"),
    (["notes.py", "--server-json", "notes", "--url", "https://example.com/n"], None, "the server's name in the registry"),
    (["notes.py", "--server-json", "io.github.ann/notes"], None, "needs --url"),
    (["notes.py", "--server-json", "io.github.ann/notes", "--url", "https://example.com/n.zip"], None, "with mcp in it"),
    (["notes.py", "--bundle-version", "1.0.0-" + "1" * 250], None, "not one such as 1.2.0"),
    (["notes.py", "--output", "none/x.mcpb"], None, "cannot be written"),
])
def test_what_is_refused(project, pack, words, change, message):
    if change:
        (project / "notes.py").write_text(change + "\n")
    assert message in pack(*words, fails=True)
    assert [path.name for path in project.rglob("*.mcpb*")] == []


def test_a_compiled_part_is_refused_and_a_pure_package_comes_along(project, pack, tmp_path):
    site = tmp_path / "site-packages"
    (site / "pure" / "inner").mkdir(parents=True)
    (site / "pure" / "__init__.py").write_text("value = 7\n")
    (site / "pure" / "inner" / "data.json").write_text("{}")
    (site / "single.py").write_text("")
    (project / "notes.py").write_text("import sys\nsys.path.insert(0, %r)\nimport pure, single\n" % str(site) + SERVER)
    with zipfile.ZipFile(pack("notes.py")["bundle"]) as archive:
        assert {"server/lib/pure/__init__.py", "server/lib/pure/inner/data.json", "server/lib/single.py"} <= set(
            archive.namelist())
    (site / "pure" / "fast.so").write_bytes(b"\x7fELF")
    assert "imports pure, which has a compiled part, fast.so" in pack("notes.py", fails=True)
