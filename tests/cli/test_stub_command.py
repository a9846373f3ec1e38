"""``python -m mcplite stub``: its client is typed, does what ``call_tool`` does, and holds no code of a server."""

import ast
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcplite import RemoteError, ToolError, connect
from mcplite.__main__ import main
from tests.support import hostile_definitions

ROOT = Path(__file__).resolve().parent.parent.parent
HOSTILE = f'"{sys.executable}" "{ROOT / "tests" / "support" / "hostile_definitions.py"}"'
SERVER = '''
from dataclasses import dataclass
from typing import Dict, List, Literal, Optional
import mcplite

mcp = mcplite.Server("city weather")

@dataclass
class Place:
    name: str
    height: Optional[float] = None

@dataclass
class Report:
    """What a day is like."""

    place: Place
    degrees: List[float]
    sky: Literal["clear", "grey"] = "clear"

@mcp.tool
def forecast(place: Place, days: int = 3, unit: Literal["C", "F"] = "C") -> Report:
    """Tell the weather.

    :param days: how many
    """
    return Report(place, [20.5] * days)

@mcp.tool
def count(words: List[str], least: Optional[int] = None) -> Dict[str, int]:
    return {word: words.count(word) for word in words if words.count(word) >= (least or 1)}

@mcp.tool
def total(numbers: List[int]) -> int:
    if not numbers:
        raise mcplite.ToolError("there is nothing to add")
    return sum(numbers)

@mcp.tool(structured_output=False)
def greet(name: str) -> str:
    return f"hello {name}"

@mcp.prompt
def summary(topic: str, tone: str = "plain") -> str:
    return f"{topic} in a {tone} tone"

@mcp.resource("weather://today")
def today() -> str:
    return "sun"

@mcp.resource("weather://{city}/{day}")
def of_day(city: str, day: str) -> str:
    return f"{city} {day}"
'''


def written(target, folder, *options):
    """Return the module that the command writes, and its path."""
    path = folder / "written_client.py"
    assert main(["stub", str(target), "-o", str(path), *options]) == 0
    spec = importlib.util.spec_from_file_location("written_client", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, path


@pytest.fixture(scope="module")
def check_types(tmp_path_factory):
    """``check_types(path, more="")``: run mypy over a written client, or over a program that imports it; return what it says.

    It is silent about what they import, as it is about an installed package, which it reads once for all tests.
    """
    pytest.importorskip("mypy")
    cache = tmp_path_factory.mktemp("mypy")

    def check(path, more=""):
        folder = path if path.is_dir() else path.parent
        if more:
            path = path.with_name("typed_use.py")
            path.write_text(more)
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file", "", "--cache-dir",
             str(cache), str(path)],
            capture_output=True, text=True, timeout=400, cwd=ROOT, env={**os.environ, "MYPYPATH": str(folder)})
        return done.stdout

    return check


@pytest.fixture
def server(tmp_path):
    path = tmp_path / "city.py"
    path.write_text(SERVER)
    return path


def test_calls_through_the_client_do_what_the_plain_ones_do(server, tmp_path):
    module, _ = written(server, tmp_path)
    with connect(str(server)) as client:
        weather = module.CityWeather(client)
        assert weather.forecast({"name": "Rome"}, days=2) == {
            "place": {"name": "Rome", "height": None}, "degrees": [20.5, 20.5], "sky": "clear"}
        assert weather.count(["a", "b", "a"], least=2) == {"a": 2} and weather.count(["a"]) == {"a": 1}
        assert weather.total([1, 2]) == client.call_tool("total", {"numbers": [1, 2]}).data == 3
        assert weather.greet("Ann") == client.call_tool("greet", {"name": "Ann"})
        assert weather.summary_prompt("rain") == client.get_prompt("summary", {"topic": "rain"})
        assert weather.summary_prompt("rain", tone="sad") == client.get_prompt("summary", {"topic": "rain", "tone": "sad"})
        assert weather.read_today().contents[0].text == "sun"
        assert weather.read_of_day("Rome", "monday").contents[0].text == "Rome monday"
        with pytest.raises(ToolError, match="nothing to add"):
            weather.total([])
        with pytest.raises((RemoteError, ToolError), match="days"):
            weather.forecast({"name": "Rome"}, days="many")


def test_signatures_have_the_types_and_defaults_of_the_schemas(server, tmp_path):
    module, _ = written(server, tmp_path)
    signature = inspect.signature(module.CityWeather.forecast)
    assert str(signature) == (
        "(self, place: 'ForecastPlace', *, days: 'int' = 3, unit: \"Literal['C', 'F']\" = 'C') -> 'ForecastResult'")
    text = module.CityWeather.forecast.__doc__
    assert "Tell the weather." in text and ":param days: how many" in text


def test_mypy_knows_arguments_and_results(server, tmp_path, check_types):
    _, path = written(server, tmp_path)
    said = check_types(path, """\
from mcplite import connect
from written_client import CityWeather

with connect("city.py") as client:
    weather = CityWeather(client)
    degrees: list[float] = weather.forecast({"name": "Rome"})["degrees"]
    weather.forecast({"nam": "Rome"})
    weather.forecast({"name": "Rome"}, unit="K")
    number: str = weather.total([1])
""")
    lines = [line.partition(": ")[0].rpartition(":")[2] for line in said.splitlines() if ": error:" in line]
    assert sorted(set(lines)) == ["7", "8", "9"], said


def test_clients_of_servers_of_this_repository_pass_mypy(tmp_path, check_types):
    names = ["hello.py", "notes.py", "weather.py", "report.py", "trip.py", "hub.py:mcp"]
    commands = {name.partition(".")[0]: f'"{sys.executable}" -m mcplite.server "{ROOT / "examples" / name}"' for name in names}
    commands["gallery"] = f'"{sys.executable}" -m tests.support.gallery'
    for name, command in commands.items():
        assert main(["stub", command, "-o", str(tmp_path / f"{name}_client.py"), "--cwd", str(ROOT)]) == 0
    assert check_types(tmp_path) == f"Success: no issues found in {len(commands)} source files\n"


def test_no_name_text_or_schema_of_a_server_becomes_code(tmp_path, check_types):
    module, path = written(HOSTILE, tmp_path)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 9))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert {one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)} == {
        "__future__", "typing", "mcplite", "mcplite.types"}
    assert not [one for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.Lambda, ast.Global))]
    called = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    assert called <= {"TypedDict", "isinstance", "rest.items", "self._given", "self._value", "self.client.call_tool",
                             "self.client.get_prompt", "self.client.read_resource",
                             "self.client.call_tool(name, arguments).raise_for_error"}
    assert check_types(path).startswith("Success")
    with connect(HOSTILE) as client:
        stub = module.Hostile(client)
        assert stub.class_() == client.call_tool("class")
        # Each name, also of those that are alike, goes to the server as the server wrote it.
        sent = stub.names_(*hostile_definitions.NAMES)
        assert json.loads(sent)["arguments"] == {name: name for name in hostile_definitions.NAMES}


def test_a_client_is_printed_without_output(server, capsys):
    assert main(["stub", str(server)]) == 0
    assert "class CityWeather:" in ast.unparse(ast.parse(capsys.readouterr().out))


def test_a_file_that_cannot_be_written_is_wrong_usage(server, tmp_path, capsys):
    assert main(["stub", str(server), "-o", str(tmp_path / "no" / "client.py")]) == 2
    assert "--output: cannot write" in capsys.readouterr().err
