"""The modules that an import loads are pinned: an application pays only for what it uses."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite

ROOT = Path(mcplite.__file__).resolve().parent.parent

#: Top-level modules that ``import mcplite`` may load: the parts of ``typing`` and ``importlib``, on any
#: supported Python. Underscored modules are the interpreter's own and follow their public counterparts.
FRONT_DOOR = {
    "mcplite",
    "abc", "collections", "contextlib", "copyreg", "enum", "functools", "genericpath", "heapq", "importlib",
    "itertools", "keyword", "ntpath", "operator", "os", "posixpath", "re", "reprlib", "sre_compile",
    "sre_constants", "sre_parse", "stat", "types", "typing", "warnings",
}
#: Both sides: threads, JSON.
COMMON = FRONT_DOOR | {
    "atexit", "binascii", "bisect", "contextvars", "copy", "errno", "hashlib", "json", "math", "queue", "random", "select",
    "struct", "threading", "time", "weakref",
}
#: The types that annotations may name, and what they import on any Python.
ANNOTATIONS = {
    "datetime", "decimal", "fnmatch", "glob", "grp", "hmac", "ipaddress", "numbers", "pathlib", "platform", "pwd",
    "secrets", "selectors", "subprocess", "urllib", "uuid",
}
SERVER = COMMON | ANNOTATIONS
CLIENT = COMMON | {
    "datetime", "fcntl", "locale", "msvcrt", "selectors", "shlex", "subprocess",
}

FORBIDDEN = {"requests", "urllib3", "jsonschema", "referencing", "http", "asyncio", "email", "xml", "ssl", "concurrent"}


def modules(statement):
    """Return the names in ``sys.modules`` after *statement*, with only the standard library installed."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {statement}; print(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, timeout=60, check=True)
    return set(ran.stdout.decode().split())


@pytest.mark.parametrize("module, allowed", [
    ("mcplite", FRONT_DOOR), ("mcplite.server.app", SERVER), ("mcplite.client", CLIENT),
])
def test_an_import_loads_only_the_modules_of_its_list(module, allowed):
    names = {name.partition(".")[0] for name in modules(f"import {module}") - modules("pass")}
    unexpected = {name for name in names if not name.startswith("_")} - allowed
    assert not unexpected, f"import {module} also loads {sorted(unexpected)}"


@pytest.mark.parametrize("allowed", [FRONT_DOOR, SERVER, CLIENT])
def test_the_lists_do_not_allow_forbidden_modules(allowed):
    assert not allowed & FORBIDDEN


def test_the_programs_load_next_to_nothing_before_they_answer_to_an_interrupt():
    loaded = modules("import mcplite.__main__, mcplite.server.__main__")
    assert {name for name in loaded if name.startswith("mcplite")} == {
        "mcplite", "mcplite.__main__", "mcplite.server", "mcplite.server.__main__"}


def test_the_names_of_the_server_resolve():
    from mcplite import server

    for name in server.__all__:
        assert getattr(server, name) is not None, name
    with pytest.raises(AttributeError, match="module 'mcplite.server' has no attribute 'nothing'"):
        server.nothing


@pytest.mark.parametrize("module, other", [("mcplite.server.app", "mcplite.client"), ("mcplite.client", "mcplite.server")])
def test_one_side_does_not_load_the_other(module, other):
    assert [name for name in modules(f"import {module}") if name.startswith(other)] == []


@pytest.mark.parametrize("statement, others", [
    ("import mcplite.client", "mcplite.net.session_sender mcplite.client.subscription"),
    ("import mcplite.client.stdio.stdio_channel", "mcplite.net.session_sender"),
    ("import mcplite.client.http.http_channel", "mcplite.net.session_sender"),
    ("import mcplite.auth.login.code_flow", "mcplite.net.session_sender"),
])
def test_what_is_loaded_with_its_first_use_and_not_before(statement, others):
    # requests is not installed here, so the sender by sessions could not be imported.
    assert not set(others.split()) & modules(statement)


def test_every_name_of_the_front_door_resolves():
    for name in mcplite.__all__:
        assert getattr(mcplite, name) is not None, name
        assert name in dir(mcplite)
    assert dir(mcplite) == sorted(set(mcplite.__all__)) == mcplite.__all__ and len(mcplite.__all__) <= 45


@pytest.mark.parametrize("module", [mcplite.auth, mcplite.extend, mcplite.errors, mcplite.types])
def test_every_name_of_the_rooms_behind_it_resolves(module):
    for name in module.__all__:
        assert getattr(module, name) is not None, name
    assert module.__all__ == sorted(set(module.__all__)) or module is mcplite.errors
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing


def test_a_room_is_loaded_when_it_is_asked_for(monkeypatch):
    monkeypatch.delattr(mcplite, "revisions")
    assert mcplite.revisions.REVISIONS and "revisions" in vars(mcplite)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mcplite.nothing
    for name in ("FastMCP", "MCPServer"):
        with pytest.raises(AttributeError, match="the server is mcplite.Server$"):
            getattr(mcplite, name)
    for name, place in [("AuthError", "errors"), ("FileStore", "auth"), ("Backend", "extend"), ("ElicitRequest", "types")]:
        with pytest.raises(AttributeError, match=f"it is mcplite.{place}.{name}$"):
            getattr(mcplite, name)
    with pytest.raises(ImportError):
        exec("from mcplite import nothing")


def test_type_checkers_see_the_same_names_as_the_interpreter():
    tree = ast.parse(Path(mcplite.__file__).read_text("utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.asname for node in guard.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == mcplite.__all__


def test_the_changes_have_a_section_for_this_version():
    with open(ROOT / "CHANGELOG.md", encoding="utf-8") as file:
        assert any(line.split()[:2] == ["##", mcplite.__version__] for line in file)


#: What neither a started server on stdio nor the client of one needs, until something is logged, asked or refused.
LEFT_OUT = {"asyncio", "dataclasses", "email", "http", "inspect", "logging", "random", "string", "textwrap",
            "traceback", "typing_extensions", "uuid"}
LOADED = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import mcplite

mcp = mcplite.Server("small")

@mcp.tool(structured_output=False)
def loaded(word: str, times: int = 1) -> str:
    \"\"\"Return the names of the modules that this process has loaded.\"\"\"
    return " ".join(sys.modules)

mcp.run()
"""
CALL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import mcplite

with mcplite.connect([sys.executable, "-I", "-S", sys.argv[1]]) as client:
    client.list_tools()
    print(client.call_tool("loaded", {{"word": "a"}}).text)
print(" ".join(sys.modules))
"""


def test_a_server_loads_what_belongs_to_http_authentication_hints_and_questions_with_its_first_use():
    loaded = modules("import mcplite.server.app")
    rooms = ("mcplite.protocol.http.", "mcplite.auth", "mcplite.server.principals", "mcplite.server.http")
    assert not {name for name in loaded if name.startswith(rooms)}
    assert "mcplite.server.handling.http_request" not in loaded and "mcplite.server.catalog.cache_hints" not in loaded
    assert "mcplite.types.client_requests" not in loaded


def test_only_a_server_of_our_own_over_http_loads_http_server():
    made = "import mcplite; mcp = mcplite.Server('small'); "
    assert "http.server" not in modules(made + "mcp.wsgi(); mcplite.connect")
    served = modules(made + "mcplite.serve(mcp).close()")
    assert "http.server" in served and "logging" not in served


def test_a_program_that_calls_a_tool_over_stdio_loads_no_more_than_that(tmp_path):
    server, client = tmp_path / "server.py", tmp_path / "client.py"
    server.write_text(LOADED, "utf-8")
    client.write_text(CALL, "utf-8")
    ran = subprocess.run([sys.executable, "-I", "-S", str(client), str(server)], stdout=subprocess.PIPE, timeout=60, check=True)
    for side, names in zip(("server", "client"), ran.stdout.decode().splitlines()):
        assert not LEFT_OUT & set(names.split()), side
