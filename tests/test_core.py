"""The core alone: a copy without the rooms around it, under another name, passes the tests of behaviour that need no room."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite

pytestmark = [pytest.mark.slow, pytest.mark.one_python]

PACKAGE = Path(mcplite.__file__).resolve().parent
TESTS = Path(__file__).resolve().parent
#: The folders around the core; of ``backend`` the core has the interface and the store in memory.
ROOMS = ["auth", "cli", "contrib", "fleet", "inspector", "llm", "middleware", "openapi", "proxy", "skills",
         "tasks", "testing"]
#: What of the matrix needs no room: one process, and no mounted server.
HOSTS = "memory stdio http sse"


def imported(module):
    """Return the names of the modules beside *module* that it imports."""
    return {node.module or name.name for node in ast.walk(ast.parse(module.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom) and node.level == 1 for name in node.names}


def core_of_backend():
    """Return the modules of ``backend`` that belong to the core: the store in memory and all that it imports."""
    kept, due = {"__init__"}, ["memory"]
    while due:
        name = due.pop()
        if name not in kept:
            kept.add(name)
            due += imported(PACKAGE / "backend" / f"{name}.py")
    return kept


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A folder with the copy ``mcpcore``, and the tests of behaviour for it."""
    folder = tmp_path_factory.mktemp("core")
    shutil.copytree(PACKAGE, folder / "mcpcore", ignore=shutil.ignore_patterns(*ROOMS))  # with what is compiled
    kept = core_of_backend()
    for path in (folder / "mcpcore" / "backend").glob("*.py"):
        if path.stem not in kept:
            path.unlink()
    for name in ("behaviour", "support"):
        shutil.copytree(TESTS / name, folder / "tests" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TESTS / "conftest.py", folder / "tests")
    (folder / "tests" / "__init__.py").touch()
    for path in (folder / "tests").rglob("*.py"):
        path.write_text(re.sub(r"\bmcplite\b", "mcpcore", path.read_text("utf-8")), "utf-8")
    return folder


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder), "BEHAVIOUR_HOSTS": HOSTS}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    return subprocess.run([sys.executable, *arguments], cwd=str(folder), env=environment, timeout=900,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")


@pytest.mark.timeout(900)
def test_the_copy_behaves_as_the_package(copy):
    ran = run(copy, "-m", "pytest", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin",
              "--rows=values", "tests/behaviour/test_behaviour.py")
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert ran.returncode == 0 and passed and int(passed[1]) > 150, ran.stdout[-5000:]


@pytest.mark.parametrize("written, text", [
    ("Server('x').add_tool(lambda: 1, name='t', task='optional')", r"folder tasks/ \(task='optional'\)"),
    ("Server('x', backend='sqlite:///tmp/x.db')", r"backend/ but for its core \(backend=\)"),
    ("Server('x', auth=lambda token: None)", r"folder auth/ \(auth=\)"),
    ("connect(Server('x')).open().start_tool('y')", r"folder tasks/ \(start_tool\(\)\)"),
    ("Server('x').mount(Server('y'), prefix='y')", r"folder proxy/ \(Server.mount\(\)\)"),
])
def test_a_room_that_is_not_there_is_named(copy, written, text):
    ran = run(copy, "-c", f"from mcpcore import Server, connect\n{written}")
    assert re.search(f"this copy of mcpcore has no {text}", ran.stdout.splitlines()[-1]), ran.stdout
