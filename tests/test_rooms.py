"""The rooms and their charters: who may import whom, what lives only in one place, how long a file may be.

Each module of the package says in its docstring, in a line ``May import: ...``, which of our modules it
may import. The charters are compared with the code, and both with the layer rule below.
"""

import ast
import functools
import re
from pathlib import Path

import pytest

import mcplite

PACKAGE = Path(mcplite.__file__).resolve().parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: The layer rule: what each room may use of ours. A room includes what it contains, and may use itself.
LAYERS = {
    "errors": [],
    "version": [],
    "revisions": ["errors"],
    "types": ["errors", "revisions"],
    "protocol": ["errors", "revisions", "types"],
    "rpc": ["errors", "protocol.jsonrpc", "protocol.framing"],
    "server": ["errors", "revisions", "types", "protocol", "rpc", "version"],
    "client": ["errors", "revisions", "types", "protocol", "rpc", "version"],
    "testing": ["rpc"],
    "cli": ["errors", "types", "protocol", "client"],
    "__main__": ["cli", "errors", "types", "protocol", "client", "version"],
    "": ["errors", "revisions", "types", "rpc.cancel", "server", "client", "version"],
}
#: Where one side reaches over to the other; lazily, so that neither is loaded for nothing.
ACROSS = {"client.memory": "server"}

#: What a room must never import from outside, whatever the reason.
NEVER = {
    "errors": {"logging", "threading", "socket", "time"},
    "revisions": {"logging", "threading", "socket", "time"},
    "types": {"logging", "threading", "socket", "time", "queue", "subprocess"},
    "protocol": {"threading", "_thread", "socket", "queue", "select", "time", "subprocess", "http"},
    "rpc": {"socket", "subprocess", "http", "ssl"},
    "server": {"subprocess"},
}
#: Heavy or third-party modules, and the only modules that may import them (inside a function).
GUESTS = {
    "requests": {"client.httplink", "client.sockets", "client.auth", "server.fetching"},
    "urllib3": {"client.sockets"},
    "jsonschema": {"protocol.validation"},
    "referencing": {"protocol.validation"},
    "keyring": {"client.oauth.keyringstore"},
    "jwt": {"client.oauth.signing", "server.jwtverifier", "server.keysets"},
    "cryptography": {"client.oauth.signing", "server.jwtverifier", "server.keysets"},
    "subprocess": {"client"},
}
DATE = re.compile(r"20\d\d-\d\d-\d\d")
LONGEST = 600


def name_of(path):
    """Return a module's name relative to the package; "" is the package itself."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def within(name, room):
    """Tell whether *name* is *room* or lives in it."""
    return name == room or name.startswith(room + ".")


def room_of(name):
    return name.partition(".")[0]


def charter_of(tree):
    """Return the entries of the line ``May import:``; a line that ends in a comma goes on in the next."""
    text = ast.get_docstring(tree) or ""
    found = re.search(r"^May import:((?:.*,\n)*.*)$", text, re.MULTILINE)
    assert found, "the docstring has no line 'May import:'"
    line = " ".join(found.group(1).split()).rstrip(".")
    return [] if line == "nothing of ours" else [entry.strip() for entry in line.split(",")]


def is_typing_guard(node):
    test = getattr(node, "test", None)
    return isinstance(node, ast.If) and getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def imports_of(tree):
    """Yield ``(node, lazy)`` for each import that can run; what type checkers alone see is left out."""
    waiting = [(node, False) for node in tree.body]
    while waiting:
        node, lazy = waiting.pop()
        if is_typing_guard(node):
            waiting.extend((child, lazy) for child in node.orelse)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, lazy
        inside = lazy or isinstance(node, (ast.FunctionDef, ast.Lambda))
        waiting.extend((child, inside) for child in ast.iter_child_nodes(node))


def ours(path, node):
    """Return the names, relative to the package, of our modules that an import statement loads."""
    if not isinstance(node, ast.ImportFrom) or not node.level:
        return []
    package = list(path.relative_to(PACKAGE).parent.parts)
    assert node.level - 1 <= len(package), f"line {node.lineno} reaches out of the package"
    base = package[:len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
    found = []
    for alias in node.names:
        deeper = ".".join(base + [alias.name])
        found.append(deeper if deeper in MODULES else ".".join(base))
    return found


def outside(node):
    """Return the top-level names of what an import statement loads from elsewhere."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [] if node.level else [(node.module or "").partition(".")[0]]


@functools.lru_cache(maxsize=None)
def read(path):
    text = path.read_text("utf-8")
    return path, name_of(path), text, ast.parse(text)


@pytest.fixture(params=FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def module(request):
    return read(request.param)


def test_the_docstring_says_in_one_line_what_the_module_is_for(module):
    _, _, _, tree = module
    first, _, rest = (ast.get_docstring(tree) or "").partition("\n")
    assert first.endswith((".", "?")) and (not rest or rest.startswith("\n")), "one sentence, then an empty line"


def test_the_charter_names_modules_that_exist(module):
    _, _, _, tree = module
    assert [entry for entry in charter_of(tree) if entry not in MODULES] == []


def test_the_charter_keeps_the_layer_rule(module):
    _, name, _, tree = module
    room = room_of(name)
    allowed = LAYERS[room] + ([room] if room else []) + ([ACROSS[name]] if name in ACROSS else [])
    assert [entry for entry in charter_of(tree) if not any(within(entry, other) for other in allowed)] == []


def test_the_code_keeps_its_charter(module):
    path, name, _, tree = module
    charter = charter_of(tree)
    for node, _ in imports_of(tree):
        for target in ours(path, node):
            if target == name:
                continue  # a package that imports from one of its own modules by way of itself
            assert any(within(target, entry) for entry in charter), f"line {node.lineno} imports {target}"


def test_one_side_reaches_the_other_only_lazily(module):
    path, name, _, tree = module
    if room_of(name) not in ("server", "client"):
        return
    other = "client" if room_of(name) == "server" else "server"
    for node, lazy in imports_of(tree):
        assert lazy or not any(within(target, other) for target in ours(path, node)), f"line {node.lineno}"


def test_imports_of_ours_are_relative(module):
    _, _, _, tree = module
    for node, _ in imports_of(tree):
        assert "mcplite" not in outside(node), f"line {node.lineno}"


def test_rooms_stay_away_from_what_is_not_theirs(module):
    _, name, _, tree = module
    never = NEVER.get(room_of(name), set())
    for node, _ in imports_of(tree):
        assert not never.intersection(outside(node)), f"line {node.lineno}"


def test_guests_are_imported_where_they_are_used_and_nowhere_else(module):
    _, name, _, tree = module
    for node, lazy in imports_of(tree):
        for guest in outside(node):
            if guest not in GUESTS:
                continue
            assert any(within(name, host) for host in GUESTS[guest]), f"line {node.lineno}: no place for {guest}"
            assert lazy or guest == "subprocess", f"line {node.lineno}: import {guest} where it is used"


def test_no_event_loop(module):
    _, _, _, tree = module
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)), node.lineno
    for node, _ in imports_of(tree):
        assert not {"asyncio", "anyio", "trio"}.intersection(outside(node)), f"line {node.lineno}"


def test_dates_of_revisions_are_in_one_file(module):
    _, name, text, tree = module
    if name == "revisions":
        return
    assert [line for line in text.splitlines() if DATE.search(line)] == []
    # A date that is put together from pieces is found as a constant, when the pieces are joined by the parser.
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert [value for value in constants if isinstance(value, (str, bytes)) and DATE.search(str(value))] == []


def test_no_file_is_too_long(module):
    _, _, text, _ = module
    assert text.count("\n") <= LONGEST


def test_the_table_of_layers_has_a_row_for_each_room():
    assert {room_of(name) for name in MODULES} <= set(LAYERS)


# --- dangerous calls, in everything that a reader may copy ----------------------------------------

DANGEROUS_NAMES = {"eval", "exec", "__import__"}
DANGEROUS_ATTRIBUTES = {ast.dump(ast.parse(name, mode="eval").body, annotate_fields=False)
                        for name in ("os.system", "os.popen")}
DANGEROUS_MODULES = {"pickle", "marshal", "shelve", "yaml", "dill"}
DANGEROUS_TEXT = re.compile(r"shell\s*=\s*True|os\.system|os\.popen|\beval\(|\bexec\(|\bpickle\b|yaml\.load")

SOURCES = FILES + sorted((ROOT / "examples").rglob("*.py"))
TEXTS = [ROOT / "README.rst"] + sorted((ROOT / "docs").rglob("*.rst"))


def dangers(tree):
    """Yield the line and the name of each dangerous call or import."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((node.lineno, name) for name in outside(node) if name in DANGEROUS_MODULES)
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in DANGEROUS_NAMES:
            yield node.lineno, called.id
        if ast.dump(called, annotate_fields=False) in DANGEROUS_ATTRIBUTES:
            yield node.lineno, called.attr
        for keyword in node.keywords:
            if keyword.arg == "shell" and getattr(keyword.value, "value", True):
                yield node.lineno, "shell=True"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_code_of_ours_runs_strings(path):
    assert list(dangers(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_of_ours_teaches_to_run_strings(path):
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if DANGEROUS_TEXT.search(line)] == []


@pytest.mark.parametrize("code", [
    "eval('1')", "import pickle", "from yaml import load", "os.system('ls')", "subprocess.run('ls', shell=True)",
])
def test_what_is_looked_for_would_be_found(code):
    assert len(list(dangers(ast.parse(code)))) == 1
    assert DANGEROUS_TEXT.search(code) or code == "from yaml import load"


def test_imports_are_found_wherever_they_hide():
    tree = ast.parse(
        "if TYPE_CHECKING:\n    import one\nelse:\n    import two\n"
        "def f():\n    try:\n        import three\n    finally:\n        import four\n"
        "class C:\n    import five\n"
    )
    found = {outside(node)[0]: lazy for node, lazy in imports_of(tree)}
    assert found == {"two": False, "three": True, "four": True, "five": False}


@pytest.mark.parametrize("text, entries", [
    ("May import: nothing of ours.", []),
    ("May import: errors", ["errors"]),
    ("May import: errors, rpc.peer.\n\nMore.", ["errors", "rpc.peer"]),
    ("May import: errors,\n    revisions\n\nMore, text.", ["errors", "revisions"]),
])
def test_charters_are_read_as_they_are_written(text, entries):
    assert charter_of(ast.parse(f'"""What it is.\n\n{text}\n"""')) == entries
