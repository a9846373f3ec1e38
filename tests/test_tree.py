"""The tests stand in the same folders as the modules they test, under the same names.

``tests/rpc/test_peer.py`` tests ``mcplite/rpc/peer.py``; a file for one topic of it is called ``test_peer_<topic>.py``.
"""

from pathlib import Path

import pytest

import mcplite

pytestmark = pytest.mark.one_python

PACKAGE = Path(mcplite.__file__).resolve().parent
TESTS = Path(__file__).resolve().parent

#: Folders with tests of the package as a whole, and with what tests use.
ACROSS = {"behaviour", "browser", "chaos", "conformance", "frameworks", "fuzz", "interop", "migration", "support", "torture"}
#: Test files that belong to no single module, and what they test.
WITHOUT_A_MODULE = {
    "auth": "the names of mcplite.auth",
    "benchmarks": "the benchmarks",
    "ci": "the repetition of failed tests, of .ci/rerun, and what a release lists",
    "tasks": "how a server has tasks, of mcplite.tasks",
    "core": "a copy of the core without the rooms",
    "conftest": "the checks after every test, of tests/conftest.py",
    "docs": "the pages of docs/",
    "examples": "the examples",
    "features": "the page of features",
    "imports": "what an import of the package loads",
    "fleet/changes": "fleets of four workers: changes",
    "fleet/deaths": "fleets of four workers: processes that are killed",
    "fleet/logins": "fleets of four workers: logins at an issuer",
    "fleet/questions": "fleets of four workers: questions",
    "fleet/sessions": "fleets of four workers: sessions",
    "fleet/tasks": "fleets of four workers: tasks",
    "language": "the language of code and pages",
    "readme": "the README",
    "tutorial": "the tutorial",
    "reference": "the reference of the API",
    "requirements": "the page of requirement ids",
    "schemas": "the schemas of tests/support",
    "attacks": "the attacks of benchmarks/",
    "signatures": "the signatures of all public functions",
    "soak": "the soak of benchmarks/",
    "tree": "the tree of tests",
    "types/oracle": "all of mcplite/types against the official schemas",
    "vendored": "the package under another name",
    "wire": "the recorder of tests/support",
}
#: Modules without a test file of their own, and where they are tested instead.
TESTED_ELSEWHERE = {
    "backend/sqlite_wakeup": "tests/backend/test_sqlite.py, through the backend",
    "cli/command_line": "tests/test_main.py runs every command",
    "client/sessions/base": "tests/client/test_client.py and the tests of both eras, through connect",
    "client/client_options": "a dataclass: tests/client/test_client.py, through connect",
    "client/client_extensions": "tests/rpc/test_extension.py, with a client of a real extension",
    "contrib/django/apps": "tests/frameworks/test_django.py, through manage.py",
    "contrib/django/connections": "tests/frameworks/test_django.py, with a database",
    "contrib/django/management/commands/mcp": "tests/frameworks/test_django.py, through manage.py",
    "cli/session_keeper": "tests/cli/test_kept_sessions.py, which starts it",
    "cli/line_completions": "tests/cli/test_shell.py and test_completion.py, at the prompts of both shells",
    "cli/metadata_review": "tests/cli/test_doctor.py, by the findings of each walk",
    "cli/doctor_rules": "tests/cli/test_doctor.py, by the findings of each walk",
    "contrib/django/views": "tests/frameworks/test_django.py, under real servers and Django's test client",
    "proxy/client_mount": "tests/proxy/test_mount.py and test_reconnecting.py, through Server.mount",
    "proxy/reload_fronts": "tests/proxy/test_reloading.py, over HTTP",
    "proxy/reloaded_child": "tests/proxy/test_reloading.py, which starts it",
    "proxy/stdio_front": "tests/proxy/test_reloading.py, with a host on stdio",
    "rpc/interfaces": "abstract classes: test_channels.py and test_reading.py",
    "server/catalog/server_extensions": "tests/rpc/test_extension.py, with a server of a real extension",
    "server/runtime/extension_host": "tests/rpc/test_extension.py, with a server of a real extension",
    "tasks/task_processes": "tests/tasks/test_server_tasks.py, with two processes, and one that ends",
    "testing/backend_check": "tests/backend/test_interface.py, which finds broken promises with it",
    "version": "tests/test_main.py prints it",
}


def owner_of(test, modules):
    """Return the module that a test file belongs to, both as paths; None when there is none."""
    folder, slash, name = test.rpartition("/")
    words = name.split("_")
    for count in range(len(words), 0, -1):
        module = f"{folder}{slash}{'_'.join(words[:count])}"
        if module in modules:
            return module
    return None


def in_tree(root, pattern, prefix):
    """Return the files under *root* as ``folder/name``, without the prefix and the suffix of their names."""
    for path in root.rglob(pattern):
        yield path.relative_to(root).with_name(path.stem[len(prefix):].strip("_")).as_posix()


#: ``__init__`` modules gather what is written, and tested, elsewhere.
MODULES = set(in_tree(PACKAGE, "*.py", "")) - {name for name in in_tree(PACKAGE, "__init__.py", "")}
TEST_FILES = {name for name in in_tree(TESTS, "test_*.py", "test_") if name.partition("/")[0] not in ACROSS}
OWNERS = {test: owner_of(test, MODULES) for test in TEST_FILES}
TESTED = set(OWNERS.values())


def test_a_test_file_stands_where_its_module_stands_and_each_module_has_one():
    assert {test for test, owner in OWNERS.items() if owner is None} - set(WITHOUT_A_MODULE) == set()
    assert MODULES - TESTED - set(TESTED_ELSEWHERE) == set()


def test_the_exceptions_are_needed():
    assert [module for module in TESTED_ELSEWHERE if module in TESTED or module not in MODULES] == []
    assert [test for test in WITHOUT_A_MODULE if test not in TEST_FILES or OWNERS[test] is not None] == []


@pytest.mark.parametrize("test, module", [
    ("rpc/peer", "rpc/peer"), ("rpc/peer_topic", "rpc/peer"), ("rpc/peer_two_words", "rpc/peer_two"), ("peer", None),
    ("rpc/pee", None), ("errors", "errors"),
])
def test_a_topic_follows_an_underscore(test, module):
    assert owner_of(test, {"errors", "rpc/peer", "rpc/peer_two"}) == module
