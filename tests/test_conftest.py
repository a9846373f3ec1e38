"""The checks of ``conftest.py`` work: each of these tests leaves something behind or sends a wrong message."""

import collections
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.config import _prepareconfig

from tests import conftest
from tests.support import schemas

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.one_python


_BAD = '''
import os, subprocess, sys, threading
import pytest
from tests import conftest
import mcplite

conftest.PATIENCE = 0.3
kept = []


def test_thread():
    stop = threading.Event()
    kept.append(stop)
    threading.Thread(target=stop.wait, name="left over", daemon=True).start()


def test_descriptor():
    kept.append(os.pipe())


def test_child():
    # It ends with us, as its stdin does.
    kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))


def wrong():
    mcp = mcplite.Server("wrong")
    mcp.add_tool(lambda: "x", name="x")
    with mcplite.connect(mcp) as client:
        with pytest.raises(mcplite.RemoteError):
            client.request("tools/call", {"arguments": "none"})


def test_wire():
    wrong()


@pytest.mark.bad_wire
def test_wire_on_purpose():
    wrong()


def test_settings():
    assert "MCPLITE_DEBUG" not in os.environ and "MCPLITE_INTEROP" in os.environ


def test_nothing():
    threading.Thread(target=print).start()
    with open(__file__):
        subprocess.run([sys.executable, "-c", ""])
'''


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    (folder / "test_bad.py").write_text(_BAD)
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "MCPLITE_DEBUG": "1", "MCPLITE_INTEROP": "here", "PYTEST_ADDOPTS": ""}
    ran = subprocess.run([sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", os.devnull, "--rootdir", str(folder),
                          "-rA", "-p", "no:cacheprovider", str(folder)], cwd=folder, env=environment, timeout=100,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return ran.stdout


@pytest.mark.parametrize("name, words", [
    ("test_thread", "left behind: thread left over"), ("test_descriptor", "left behind: descriptor"),
    ("test_child", "child"), ("test_wire", "our side sent what the protocol forbids")])
@pytest.mark.slow
def test_leftovers_and_invalid_messages_are_errors(outcome, name, words):
    if name == "test_wire" and schemas.FOLDER is None:
        pytest.skip(schemas.REASON)
    assert any(line.startswith("ERROR") and line.split("::")[-1].split(" ")[0] == name
               for line in outcome.splitlines()), outcome[-6000:]
    assert words in outcome


@pytest.mark.parametrize("name", ["test_wire_on_purpose", "test_settings", "test_nothing"])
def test_a_clean_test_passes(outcome, name):
    lines = [line for line in outcome.splitlines() if line.endswith(f"::{name}")]
    assert [line.split(" ")[0] for line in lines] == ["PASSED"], outcome[-6000:]


_COLLECTING = """
import json, sys
import pytest

class Noting:
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        from tests import conftest

        noted = {"all": [item.nodeid for item in items]}
        noted.update((rule, [item.nodeid for item in left]) for rule, left in conftest.left_out(items).items())
        noted["values"] = {item.nodeid: [str(value) for value in conftest._matrix_row(item)] for item in items}
        yield
        noted["run"] = [item.nodeid for item in items]
        with open(sys.argv[1], "w") as file:
            json.dump(noted, file)

sys.exit(pytest.main(["-q", "--collect-only", "--assert=plain", "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[Noting()]))
"""


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """``collected(*arguments)``: what pytest collects: all tests, those that each rule leaves out, and those that would run."""
    noted = tmp_path_factory.mktemp("collected") / "noted"
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(HERE.parent)}

    @functools.lru_cache(maxsize=None)
    def collected(*arguments):
        ran = subprocess.run([sys.executable, "-c", _COLLECTING, str(noted), *arguments], cwd=HERE.parent, timeout=400,
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        assert ran.returncode == 0, ran.stdout[-2000:]
        return json.loads(noted.read_text()), ran.stdout

    return collected


@pytest.mark.slow
def test_nothing_is_lost_between_the_quick_tests_and_all(collected):
    quick, said = collected("tests/behaviour")
    everything, _ = collected("--all", "tests/behaviour")
    assert sorted(everything["run"]) == sorted(everything["all"]) == sorted(quick["all"])
    left = {rule: quick[rule] for rule in ("interop", "slow", "rows")}
    assert collections.Counter(quick["all"]) == collections.Counter(sum(left.values(), quick["run"]))
    assert all(f"{len(tests)} by the rule {rule}" in said for rule, tests in left.items() if tests)
    # A row is left out for another row of that test only.
    assert {test.partition("[")[0] for test in left["rows"]} <= {test.partition("[")[0] for test in quick["run"]}


@pytest.mark.slow
def test_few_rows_have_each_value_and_the_rest_is_what_the_quick_tests_are_not(collected):
    quick, _ = collected("tests/behaviour")
    few, _ = collected("--all", "--rows=values", "tests/behaviour")
    rest, _ = collected("--all", "--rows=values", "--without-quick", "tests/behaviour")

    def values(tests):
        return {(test.partition("[")[0], value) for test in tests for value in quick["values"][test]}

    assert values(few["run"]) == values(quick["all"])
    assert len(few["run"]) < len(quick["all"]) / 2
    assert set(rest["run"]) == set(few["run"]) - set(quick["run"])


def test_each_transport_and_each_revision_is_among_the_quick_tests(collected):
    quick, _ = collected("tests/behaviour")

    def values(tests):
        behaviour = [test for test in tests if "/test_behaviour.py" in test and "[" in test]
        names = [test.partition("[")[2].rstrip("]") for test in behaviour]
        return {name.rpartition("-20")[0] for name in names}, {name[-10:] for name in names}

    (every_host, every_revision), (hosts, revisions) = values(quick["all"]), values(quick["run"])
    assert revisions == every_revision and len(revisions) == 5
    assert hosts == every_host - {"fleet-redis", "fleet-postgres"} and "stdio" in hosts


@pytest.mark.parametrize("arguments", [
    ["tests/behaviour/test_behaviour.py"], ["tests/behaviour/test_behaviour.py", "-m", "not slow"]])
def test_what_the_command_line_names_runs_whole(collected, arguments):
    noted, said = collected(*arguments)
    assert "left out" not in said and noted["rows"]
    assert set(noted["rows"]).intersection(noted["run"])


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
@pytest.mark.parametrize("arguments, processes", [
    ([], conftest.PROCESSES), (["-x"], conftest.PROCESSES), (["--pdb"], None), (["-s"], None), (["-n", "2"], 2),
    (["tests/testing"], None), (["tests/test_conftest.py"], None), (["-k", "name"], None), (["-m", "not slow"], None),
    (["--lf"], None), (["--co"], None)])
def test_pytest_alone_takes_several_processes(monkeypatch, arguments, processes):
    monkeypatch.chdir(HERE.parent)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # pytest would rewrite the modules of a distribution with a plugin, ours among them, before this process has imported them.
    config = _prepareconfig([*arguments, "-W", "ignore::pytest.PytestAssertRewriteWarning"])
    try:
        conftest.pytest_cmdline_main(config)
        assert config.option.numprocesses == processes
        assert config.option.dist == ("worksteal" if processes == conftest.PROCESSES else "no")
    finally:
        config._ensure_unconfigure()
