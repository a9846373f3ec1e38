"""What the command line can serve: files, modules, objects in them, and plain functions."""

import sys
import textwrap

import pytest

from mcplite.server import Server
from mcplite.server.program import LoadError, load

WITH_SERVER = """
    import mcplite

    weather = mcplite.Server("weather")
    same = weather
    number = 5

    def make():
        return mcplite.Server("made")

    def needs(name):
        return mcplite.Server(name)

    class Shop(mcplite.Server):
        pass
"""
FUNCTIONS = '''
    """Sums.

    For everyone.
    """
    import os
    from os.path import join
    from dataclasses import dataclass
    from typing import List, Optional

    @dataclass
    class Point:
        x: int

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    def move(to: "Optional[Point]" = None) -> List[Point]:
        return []

    def helper():
        return 1

    def _private(a: int) -> int:
        return a

    def bad(*numbers: int) -> int:
        return 0

    async def later(a: int) -> int:
        return a

    small = lambda a: a
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write modules into the current folder; ``place(name, text)`` returns the path of the file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = dict(sys.modules)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return str(path)

    yield write
    for name in set(sys.modules) - set(before):
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)) or "sub_" in name:
            del sys.modules[name]


def tools_of(server):
    return list(server.registry.all("tools"))


def refusal(target):
    with pytest.raises(LoadError) as caught:
        load(target)
    return str(caught.value)


@pytest.mark.parametrize("target, name", [
    ("sub_app.py", "weather"), ("sub_app.py:weather", "weather"), ("sub_app.py:same", "weather"), ("sub_app.py:make", "made"),
    ("./sub_app.py", "weather"), ("sub_app.py:", "weather"), ("sub_app", "weather"), ("sub_app:weather", "weather"),
    ("sub_app:make", "made")])
def test_a_server_is_found(place, target, name):
    place("sub_app.py", WITH_SERVER)
    server = load(target)
    assert isinstance(server, Server) and server.name == name


def test_an_absolute_path_and_a_module_of_a_package(place):
    path = place("sub_pack/app.py", WITH_SERVER)
    place("sub_pack/__init__.py", "")
    assert load(path).name == "weather" and load(f"{path}:make").name == "made"
    assert load("sub_pack.app").name == "weather" and load("sub_pack.app:make").name == "made"


def test_a_file_can_import_its_neighbours(place):
    place("sub_dir/sub_near.py", "NAME = 'near'")
    place("sub_dir/sub_far.py", "import mcplite, sub_near\nserver = mcplite.Server(sub_near.NAME)")
    assert load("sub_dir/sub_far.py").name == "near"
    assert sys.path.count(str(sys.modules["sub_near"].__file__)[:-len("/sub_near.py")]) == 1


def test_a_file_can_have_the_name_of_an_imported_module(place):
    import types

    place("types.py", "import mcplite\nserver = mcplite.Server('types')")
    assert load("types.py").name == "types" and sys.modules["types"] is types
    place("json.py", "from __future__ import annotations\ndef add(a: Size) -> int: ...\nSize = int")
    assert tools_of(load("json.py")) == ["add"] and load("json.py").name == "json"


def test_several_servers_must_be_named(place):
    path = place("sub_two.py", "import mcplite\na = mcplite.Server('a')\nb = mcplite.Server('b')\nc = a")
    assert refusal("sub_two") == "sub_two has several servers; name one: sub_two:c, sub_two:b"
    assert refusal(path) == f"{path} has several servers; name one: {path}:c, {path}:b"
    assert load("sub_two:b").name == "b"


@pytest.mark.parametrize("text, name", [
    ("from sub_app import weather\nhub = mcplite.Server('hub')\nhub.mount(weather)", "hub"),
    ("from sub_app import weather\nhub = mcplite.Server('hub')", "hub"),
    ("part = mcplite.Server('part')\nhub = mcplite.Server('hub')\nhub.mount(part, 'part')", "hub"),
    ("from sub_app import weather", "weather"),
    ("from sub_app import weather\nfrom sub_pack import other", None)])
def test_a_server_that_is_imported_or_mounted_does_not_compete_with_the_one_of_the_file(place, text, name):
    place("sub_app.py", WITH_SERVER)
    place("sub_pack/__init__.py", "import mcplite\nother = mcplite.Server('other')")
    place("sub_hub.py", f"import mcplite\n{text}\n")
    if name is None:
        assert refusal("sub_hub.py") == "sub_hub.py has several servers; name one: sub_hub.py:weather, sub_hub.py:other"
    else:
        assert load("sub_hub.py").name == load("sub_hub").name == name


@pytest.mark.parametrize("name", ["number", "nothing", "needs", "Shop", "weather.name"])
def test_other_objects_are_not_servers(place, name):
    place("sub_app.py", WITH_SERVER)
    assert refusal(f"sub_app:{name}") == f"sub_app:{name}: {name!r} is not a Server; servers in sub_app: weather, same"


def test_a_function_that_returns_no_server(place):
    place("sub_none.py", "def make(): return 5")
    assert refusal("sub_none:make") == "sub_none:make: 'make' is not a Server; servers in sub_none: none"


def test_a_builtin_is_not_a_server(place):
    place("sub_built.py", "make = getattr\nother = dict")
    assert "'make' is not a Server" in refusal("sub_built:make") and "'other' is not a Server" in refusal("sub_built:other")


def test_public_annotated_functions_become_tools(place, capsys):
    path = place("sub_sums.py", FUNCTIONS)
    server = load(path)
    assert tools_of(server) == ["add", "move"]
    assert server.name == "sub_sums" and server.instructions == "Sums.\n\nFor everyone."
    assert load("sub_sums", "other").name == "other"
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 8 and lines[0].startswith("not served:  helper: it has no annotations; annotate it")
    assert [line.split()[2] for line in lines[:4]] == ["helper:", "bad:", "later:", "small:"]


def test_functions_of_a_module_are_callable(place, connect):
    place("sub_pack/__init__.py", "")
    place("sub_pack/sums.py", "def add(a: int, b: int) -> int: return a + b")
    server = load("sub_pack.sums")
    assert server.name == "sums" and server.instructions is None
    assert connect(server).call("add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}


def test_a_module_with_nothing_to_serve(place):
    place("sub_void.py", "from os.path import join\nx = 1")
    assert refusal("sub_void") == "sub_void has neither a Server nor a public annotated function"
    place("sub_bad.py", "def a(*n: int): ...\ndef b(x): ...")
    assert refusal("sub_bad").startswith("sub_bad has neither a Server nor a public annotated function; these functions cannot"
                                         " be tools:\n  a: tool 'a': parameter 'n' is *args")
    assert refusal("sub_bad").endswith("\n  b: it has no annotations; annotate it, or hide it as _b")


def test_missing_files_and_modules(place, tmp_path):
    assert refusal("sub_missing.py") == f"there is no file {tmp_path / 'sub_missing.py'}"
    assert refusal("sub_missing.py:app").startswith("there is no file ")
    text = f"there is no module 'sub_missing' (looked in {tmp_path} and on sys.path); for a file, give its path with .py"
    assert refusal("sub_missing") == refusal("sub_missing:app") == text
    place("sub_app.py", WITH_SERVER)
    assert refusal("sub_app.deeper").startswith("there is no module 'sub_app.deeper'")
    assert refusal("sub_missing.deeper").startswith("there is no module 'sub_missing.deeper'")


@pytest.mark.parametrize("target", ["", ":app", "./app", "."])
def test_invalid_module_names(place, target):
    assert refusal(target).endswith("is not the name of a module")


def test_windows_paths_keep_their_drive(place, tmp_path):
    assert refusal("C:\\tools\\server.py").startswith("there is no file ")
    assert refusal("C:\\tools\\server.py").endswith("C:\\tools\\server.py")
    assert refusal("C:/tools/server.py:app").replace("\\", "/").endswith("C:/tools/server.py")


def test_exceptions_of_the_module_are_passed_on(place):
    path = place("sub_fails.py", "import sub_not_there_at_all")
    for target in (path, "sub_fails"):
        with pytest.raises(ModuleNotFoundError, match="sub_not_there_at_all"):
            load(target)
    assert "sub_fails" not in sys.modules, "a half loaded module is not left behind"
    place("sub_exits.py", "raise SystemExit(3)")
    with pytest.raises(SystemExit):
        load("sub_exits.py")
    assert "sub_exits" not in sys.modules
