"""The rooms of the package: which may import which, heavy imports, dates.

An import counts wherever it stands: at the top of a module, inside a function, or under ``TYPE_CHECKING``.
"""

import ast
import functools
import re
import sys

import pytest

from mcplite import rooms
from tests.support.sources import FILES, PACKAGE, ROOT, nodes, parsed

pytestmark = pytest.mark.one_python

#: What both halves are built on.
GROUND = "errors revisions rooms types protocol rpc"
#: The rooms of each half, lowest first, and what each may import of its own half.
SERVER = {
    "limits": "",
    "eviction": "",
    "functions": "",
    "principals": "",
    "catalog": "limits functions principals",
    "runtime": "limits eviction functions principals catalog",
    "handling": "limits eviction functions principals catalog runtime",
    "sessions": "limits eviction functions principals catalog runtime handling",
    "state": "limits eviction functions principals catalog runtime handling sessions",
    "http": "limits eviction functions principals catalog runtime handling sessions state",
    "transports": "limits eviction functions principals catalog runtime handling sessions state http",
    "server_options": "limits functions catalog runtime sessions",
    "app": "limits eviction functions principals catalog runtime handling sessions state http transports server_options",
}
#: What the sessions of a client use, and its calls: files of the folder itself, in the order of their imports.
CALL = "call cache client_extensions output_schemas retries"
CALLS = f"{CALL} handler_types handlers client_options sessions tool_list"
#: What a client is made of.
CLIENTS = f"{CALLS} calls subscription"
CLIENT = {
    "handler_types": "",
    **dict.fromkeys(CALL.split(), CALL),
    "client_options": "call handler_types stdio",
    "handlers": "handler_types client_options",
    "config": "stdio",
    "stdio": "",
    "http": "",
    "sessions": f"{CALL} handlers client_options",
    "tool_list": "",
    "completer": "calls",
    "calls": CALLS,
    "subscription": f"{CALLS} calls",
    "client": CLIENTS,
    "connect": f"{CLIENTS} config stdio http client",
    "group": f"{CLIENTS} stdio config client connect",
}
#: What some of these rooms may import besides: the door to HTTP, and the version of the package.
BESIDES = {
    "server.catalog": "version", "server.runtime": "backend",
    "server.sessions": "backend", "server.state": "backend",
    "server.http": "backend", "server.transports": "version",
    "server.app": "version backend",
    "client.config": "net", "client.http": "net", "client.sessions": "version",
    "client.connect": "net", "client.client_options": "net", "client.client": "version",
    "client.group": "net",
}


def half(name, rooms):
    """Return the rows of one half of the package."""
    rows = {}
    for room, below in rooms.items():
        row = f"{name}.{room}"
        rows[row] = " ".join([GROUND, BESIDES.get(row, ""), *(f"{name}.{other}" for other in below.split())])
    return rows


#: The layer rule: what each room may import. A room includes the rooms inside it, and may import itself.
LAYERS = {
    "errors": "",
    "rooms": "tasks.client_tasks tasks.task_follower skills.client_skills",  # the types of what a client calls
    "version": "",
    "revisions": "errors",
    "types": "errors revisions",
    "protocol": "errors revisions types",
    "rpc": "errors revisions protocol",
    "net": "errors version protocol rpc",
    "backend": "errors protocol rpc",
    "auth": "auth.issuer auth.login auth.verify server.principals",
    "auth.login": GROUND + " net",
    "auth.verify": GROUND + " net backend.interface server.principals server.handling.http_request server.http.access"
                            " server.http.messages",
    "auth.issuer": GROUND + " net backend auth.login auth.verify server.principals server.handling.http_request"
                            " server.http.access server.http.messages",
    **half("server", SERVER),
    "server.program": "errors version rooms protocol rpc server",
    "server.__main__": "protocol rpc server.program",
    "server": "types server.app server.limits server.server_options server.handling",
    **half("client", CLIENT),
    "client": "types client.client client.client_options client.connect client.group client.handlers client.completer",
    "testing": GROUND + " backend server client",
    "testing.agreeing_issuer": GROUND + " server auth",
    "cli": GROUND + " version net client auth.login testing",
    "cli.bridge_command": GROUND + " cli proxy server.transports",
    "cli.check_command": GROUND + " cli client llm",
    "cli.inspect_command": GROUND + " cli client auth.login inspector",
    "cli.chat": GROUND + " cli client llm",
    "cli.session_keeper": GROUND + " cli auth.login proxy server.transports.signals",
    "cli.users_command": GROUND + " cli auth.issuer",
    "inspector": GROUND + " version net client auth.login llm testing cli.doctor cli.doctor_rules cli.login",
    "contrib": GROUND + " version server client tasks",
    "middleware": GROUND + " server",
    "proxy": GROUND + " version net server client tasks",
    "openapi": GROUND + " net server proxy.mount_names",
    "tasks": GROUND + " backend server client",
    "fleet": GROUND + " backend server",
    "skills": GROUND + " server client",
    "llm": GROUND + " client",
    "extend": "protocol rpc backend server",
    "__main__": "protocol rpc cli",
    "": GROUND + " version net backend server client auth extend tasks fleet",
}
#: Imports that point to the other half of the package, or upward, inside a function.
ACROSS = {"client.connect": {"server"}}

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
    "requests": {"net", "cli.doctor", "inspector.http_heads", "openapi"},
    "urllib3": {"net.session_sender", "net.settings"},
    "jsonschema": {"protocol.schema.validation"},
    "referencing": {"protocol.schema.validation"},
    "redis": {"backend.redis"},
    "psycopg": {"backend.postgres"},
    "keyring": {"auth.login.keyring_store"},
    "authlib": {"auth.issuer.oauth_server"},
    "jwt": {"auth.issuer.oauth_server", "auth.login.jwt_signing", "auth.verify.dpop", "auth.verify.jwt_verifier"},
    "cryptography": {"auth.issuer.upstream_grants", "auth.login.jwt_signing", "auth.verify.dpop", "auth.verify.jwt_verifier"},
    "subprocess": {"client", "cli.kept_sessions", "cli.pack_command"},
    "opentelemetry": {"contrib.otel"},
    "anthropic": {"llm.anthropic", "inspector.page_questions"},
    "google": {"llm.gemini"},
    "langchain_core": {"llm.langchain"},
    "openai": {"llm.openai", "inspector.page_questions"},
    "flask": {"contrib.flask", "openapi.flask_routes"},
    "django": {"contrib.django"},
    "pytest": {"testing.plugin"},
}
#: Modules that are themselves loaded on first use, and may import their guests at the top.
LAZY = {"net.session_sender", "inspector.http_heads", "auth.issuer.oauth_server", "contrib.otel", "contrib.otel.telemetry",
        "contrib.django.apps", "contrib.django.management.commands.mcp", "testing.plugin"}
DATE = re.compile(r"20\d\d-\d\d-\d\d")


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


def layer_of(name):
    """Return the row of the layer rule that holds for a module: the longest that contains it."""
    found = [room for room in LAYERS if within(name, room)]
    return max(found, key=len) if found else ""


def is_typing_guard(node):
    test = getattr(node, "test", None)
    return isinstance(node, ast.If) and getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def imports_of(tree):
    """Yield ``(node, lazy, typing)`` for each import; *typing* marks those that only a type checker follows."""
    waiting = [(node, False, False) for node in tree.body]
    while waiting:
        node, lazy, typing = waiting.pop()
        if is_typing_guard(node):
            waiting.extend((child, lazy, typing) for child in node.orelse)
            waiting.extend((child, lazy, True) for child in node.body)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, lazy, typing
        inside = lazy or isinstance(node, (ast.FunctionDef, ast.Lambda))
        waiting.extend((child, inside, typing) for child in ast.iter_child_nodes(node))


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
def imports(path):
    """Return the imports of a module, as ``imports_of`` does."""
    return list(imports_of(parsed(path)))


def test_the_docstring_says_in_one_line_what_the_module_is_for():
    for name, path in MODULES.items():
        first, _, rest = (ast.get_docstring(parsed(path)) or "").partition("\n")
        assert first.endswith((".", "?")) and (not rest or rest.startswith("\n")), f"{name}: one sentence, then an empty line"


def named_modules(package, text):
    """Return the modules of ours that a text names by the role ``mod``."""
    for dots, rest in re.findall(r":mod:`~?(mcplite\.|\.+)([\w.]+)`", text):
        parts = package.split(".") if package and dots[0] == "." else []
        yield ".".join(parts[:len(parts) + 1 - len(dots)] + [rest]) if dots[0] == "." else rest


def test_the_modules_that_docstrings_name_exist():
    assert list(named_modules("server.http", "see :mod:`.access`, :mod:`..app` and :mod:`mcplite.errors`")) == [
        "server.http.access", "server.app", "errors"]
    for name, path in MODULES.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        assert sorted(set(named_modules(package, path.read_text("utf-8"))) - set(MODULES)) == [], name


def upward(name, path):
    """Return the imports of one module that its layer does not allow, as ``"module -> target"``."""
    room = layer_of(name)
    allowed = LAYERS[room].split() + ([room] if room else [])
    # The rows "server" and "client" are for the two __init__ modules only.
    if room in ("server", "client"):
        allowed.remove(room)
    return sorted({f"{name} -> {target}" for node, lazy, _ in imports(path) for target in ours(path, node)
                   if not any(within(target, other) for other in allowed) and target != name
                   and not (lazy and any(within(target, room) for room in ACROSS.get(name, ())))})


def test_the_layer_rule():
    found = {arrow for name, path in MODULES.items() for arrow in upward(name, path)}
    assert found == set()


def circles():
    """Return the circles of the package: sets of modules that can all reach each other by imports."""
    arrows = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        # The table points to the rooms by names, which are imported on use; for types it names what one of them returns.
        for node, lazy, _ in () if name == "rooms" else imports(path):
            arrows[name].update(target for target in ours(path, node)
                                if target != name and not (lazy and any(within(target, room)
                                                                        for room in ACROSS.get(name, ()))))
    return strongly_connected(arrows)


def strongly_connected(arrows):
    """Return the sets of two or more nodes that reach each other (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(arrows.get(node, ())):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            group = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            if len(group) > 1:
                found.append(group)

    for node in sorted(arrows):
        if node not in order:
            visit(node)
    return found


def test_there_are_no_circles():
    assert circles() == []


def test_a_circle_would_be_found():
    assert strongly_connected({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [{"b", "c"}]


def test_imports_of_ours_are_relative_and_none_is_of_a_forbidden_package_or_an_event_loop():
    for name, path in MODULES.items():
        never = NEVER.get(room_of(name), set()) | {"mcplite", "asyncio", "anyio", "trio"}
        assert [node.lineno for node, *_ in imports(path) if never.intersection(outside(node))] == [], name
        waiting = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
        assert [node.lineno for node in nodes(path) if isinstance(node, waiting)] == [], name


def test_guests_are_imported_where_they_are_used_and_nowhere_else():
    for name, path in MODULES.items():
        for node, lazy, typing in imports(path):
            for guest in GUESTS.keys() & outside(node):
                assert any(within(name, host) for host in GUESTS[guest]), f"{name}, line {node.lineno}: no place for {guest}"
                late = lazy or typing or guest == "subprocess" or name in LAZY
                assert late, f"{name}, line {node.lineno}: import {guest} where it is used"


def test_dates_of_revisions_are_in_one_file():
    for name, path in MODULES.items():
        # Strings that the parser joins from pieces are found as constants.
        constants = [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
        found = [str(value) for value in constants if isinstance(value, (str, bytes))] + path.read_text("utf-8").splitlines()
        assert name == "revisions" or [value for value in found if DATE.search(value)] == [], name


def test_the_layer_rule_has_a_row_for_each_room_and_no_other():
    assert {layer_of(name) for name in MODULES} == set(LAYERS)


# --- the core and the rooms around it ----------------------------------------------------------

#: What a copy of the package needs, and the folders that one can leave out.
CORE = {"types", "protocol", "rpc", "net", "server", "client"}
AROUND = {"backend", "fleet", "tasks", "auth", "proxy", "llm", "middleware", "openapi", "contrib", "skills", "testing",
          "inspector", "cli"}
#: Modules in such a folder that belong to the core: the backend in memory, and what it imports.
OF_THE_CORE = {"backend", "backend.interface", "backend.memory", "backend.log_watch"}


def room_imports():
    """Return the imports of rooms by modules of the core, wherever they stand."""
    return {f"{name} -> {target}" for name, path in MODULES.items() if room_of(name) in CORE
            for node, *_ in imports(path) for target in ours(path, node)
            if room_of(target) in AROUND and target not in OF_THE_CORE}


def test_the_core_imports_no_room():
    assert room_imports() == set()


@pytest.mark.parametrize("word", sorted(rooms.ROOMS))
def test_each_row_of_the_table_names_what_is_there(word):
    module, name = rooms.ROOMS[word]
    assert room_of(module) in AROUND and module in MODULES
    assert callable(rooms.load(word)) and rooms.load(word).__name__ == name


def test_the_table_of_rooms_is_one_short_module():
    # A row for each word, and little beside them.
    assert len((PACKAGE / "rooms.py").read_text("utf-8").splitlines()) - len(rooms.ROOMS) <= 46


@pytest.mark.parametrize("word", sorted(rooms.ROOMS))
def test_a_room_that_is_not_there_is_named_with_what_was_written(word, monkeypatch):
    folder = room_of(rooms.ROOMS[word][0])

    class NotThere:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if within(name, f"mcplite.{folder}"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if within(name, f"mcplite.{folder}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NotThere, *sys.meta_path])
    with pytest.raises(ImportError, match=re.escape(f"this copy of mcplite has no folder {folder}/ ({word})")):
        rooms.load(word)


def test_a_library_that_a_room_needs_is_not_taken_for_the_room(monkeypatch):
    def import_module(name, package):
        raise ModuleNotFoundError("No module named 'redis'", name="redis")

    monkeypatch.setattr(rooms, "import_module", import_module)
    with pytest.raises(ModuleNotFoundError, match="No module named 'redis'"):
        rooms.load("backend=")


def test_a_folder_of_which_only_the_core_is_there_is_named(monkeypatch):
    monkeypatch.setitem(rooms.ROOMS, "word", ("backend.no_such_module", "name"))
    with pytest.raises(ImportError, match=re.escape("this copy of mcplite has no backend/ but for its core (word)")):
        rooms.load("word")


# --- dangerous calls, also in texts that readers copy ----------------------------------------

DANGEROUS_NAMES = {"eval", "exec", "__import__"}
DANGEROUS_ATTRIBUTES = {ast.dump(ast.parse(name, mode="eval").body, annotate_fields=False)
                        for name in ("os.system", "os.popen")}
DANGEROUS_MODULES = {"pickle", "marshal", "shelve", "dill"}
#: What of PyYAML makes nothing but plain values.
SAFE_YAML = {"safe_load", "SafeLoader", "CSafeLoader", "YAMLError"}
DANGEROUS_TEXT = re.compile(r"shell\s*=\s*True|os\.system|os\.popen|\beval\(|\bexec\(|\bpickle\b|yaml\.load")

EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
TEXTS = [ROOT / "README.rst"] + sorted((ROOT / "docs").rglob("*.rst"))


def dangers(tree):
    """Yield the line and the name of each dangerous call or import, of all nodes of a tree."""
    for node in tree:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((node.lineno, name) for name in outside(node) if name in DANGEROUS_MODULES)
            if isinstance(node, ast.ImportFrom) and node.module == "yaml":
                yield from ((node.lineno, one.name) for one in node.names if one.name not in SAFE_YAML)
        if (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml"
                and node.attr not in SAFE_YAML):
            yield node.lineno, f"yaml.{node.attr}"
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


def test_nothing_of_ours_runs_strings_or_teaches_it():
    code = [(path, nodes(path)) for path in FILES]
    code += [(path, ast.walk(ast.parse(path.read_text("utf-8")))) for path in EXAMPLES]
    assert [(path, found) for path, written in code for found in dangers(written)] == []
    lines = [(path, line) for path in TEXTS for line in path.read_text("utf-8").splitlines()]
    assert [(path, line) for path, line in lines if DANGEROUS_TEXT.search(line)] == []


@pytest.mark.parametrize("code", [
    "eval('1')", "import pickle", "from yaml import load", "yaml.load('a')",
    "os.system('ls')", "subprocess.run('ls', shell=True)",
])
def test_dangerous_code_would_be_found(code):
    assert len(list(dangers(ast.walk(ast.parse(code))))) == 1
    assert DANGEROUS_TEXT.search(code) or code == "from yaml import load"


def test_imports_are_found_wherever_they_hide():
    tree = ast.parse(
        "if TYPE_CHECKING:\n    import one\nelse:\n    import two\n"
        "def f():\n    try:\n        import three\n    finally:\n        import four\n"
        "class C:\n    import five\n"
    )
    found = {outside(node)[0]: (lazy, typing) for node, lazy, typing in imports_of(tree)}
    assert found == {"one": (False, True), "two": (False, False), "three": (True, False), "four": (True, False),
                     "five": (False, False)}
