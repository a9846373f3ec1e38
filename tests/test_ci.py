"""``.ci/rerun``: a few tests that fail once reject nothing, and what fails twice or in numbers does; what a release lists."""

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RERUN = ROOT / ".ci" / "rerun"
pytestmark = [pytest.mark.one_python, pytest.mark.skipif(os.name != "posix", reason="POSIX only")]

_TESTS = '''
from pathlib import Path

import pytest

ONCE = Path("once")


def test_good():
    with open("ran", "a") as ran:
        ran.write("good ")


def fails_once(name):
    with open("ran", "a") as ran:
        ran.write(name + " ")
    if not Path(name).exists():
        Path(name).touch()
        raise ValueError(f"{name} fails the first time")


@pytest.fixture
def unsteady():
    yield
    fails_once("fixture")
'''
_FLAKY = '''
@pytest.mark.parametrize("value", ["a - b"])
def test_flaky(value):
    print("ERROR    some line of a log")
    fails_once("flaky")
'''
_TEARDOWN = '''
def test_torn_down(unsteady):
    pass
'''
_BAD = '''
def test_bad():
    assert "bad" == "good"
'''
_MANY = '''
@pytest.mark.parametrize("number", range(4))
def test_many(number):
    fails_once(str(number))
'''


@pytest.fixture
def rerun(tmp_path):
    """``rerun(*tests)``: status, output, and the tests that ran, in order."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTEST_ADDOPTS", "CI", "BUILD_NUMBER")}

    def run(*tests, command=(sys.executable, "-m", "pytest", "-q", "--rootdir=.", "test_some.py")):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_some.py").write_text(_TESTS + "".join(tests))
        ran = subprocess.run([sys.executable, str(RERUN), *command], cwd=str(tmp_path), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=100,
                             env={**environment, "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
        names = tmp_path / "ran"
        return ran.returncode, ran.stdout.splitlines(), names.read_text().split() if names.exists() else []

    return run


def beginning(lines, *words):
    return [line for line in lines if line.startswith(words)]


@pytest.mark.slow
def test_a_flaky_test_rejects_nothing_and_is_reported(rerun):
    status, lines, ran = rerun(_FLAKY, _TEARDOWN)
    assert status == 0 and ran == ["good", "flaky", "fixture", "flaky", "fixture"]
    assert beginning(lines, "FLAKY: ") == [
        "FLAKY: test_some.py::test_flaky[a - b]: ValueError: flaky fails the first time",
        'FLAKY: test_some.py::test_torn_down: failed on teardown with "ValueError: fixture fails the first time"']
    assert not beginning(lines, "FAILED", "ERROR")
    # What the first run said is there.
    assert len(beginning(lines, "first run: FAILED test_some.py::test_flaky", "first run: ERROR test_some.py::test_torn")) == 2
    assert any(line.endswith("ValueError: flaky fails the first time") for line in beginning(lines, "E  "))
    assert "first run: ERROR    some line of a log" in lines


def test_what_fails_twice_is_a_failure(rerun):
    status, lines, ran = rerun(_FLAKY, _BAD)
    assert status == 1 and ran == ["good", "flaky", "flaky"]
    [line] = beginning(lines, "FAILED", "ERROR", "FLAKY")
    assert line.startswith("FAILED test_some.py::test_bad - AssertionError")


@pytest.mark.slow
def test_more_failures_are_not_repeated(rerun):
    status, lines, ran = rerun(_MANY)
    assert status == 1 and ran == ["good", "0", "1", "2", "3"]
    assert len(beginning(lines, "FAILED test_some.py::test_many")) == 4 and not beginning(lines, "FLAKY")


def test_tests_that_pass_run_once(rerun):
    status, lines, ran = rerun()
    assert status == 0 and ran == ["good"] and "1 passed" in lines[-1]


@pytest.mark.parametrize("more, expected", [
    ("import no_such_module\n", 2), ("\ndef test_end():\n    __import__('os')._exit(1)\n", 1)])
@pytest.mark.slow
def test_tests_that_did_not_get_to_their_end_are_not_repeated(rerun, more, expected):
    rerun(_BAD)  # leaves a note of what has failed, which is not this run's
    status, lines, ran = rerun(more)
    assert status == expected and ran.count("good") <= 2 and not beginning(lines, "FLAKY")


@pytest.mark.slow
def test_a_process_that_is_left_behind_is_not_waited_for(rerun):
    script = "import subprocess, sys; print('first', flush=True); subprocess.Popen(['sleep', '30']); sys.exit(3)"
    status, lines, _ = rerun(command=(sys.executable, "-c", script))
    assert status == 3 and lines == ["first"]


@pytest.fixture
def for_users():
    """The requirements of the package, and of its extras for users by name."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = dict(setup["options.extras_require"])
    names = list(extras)
    named = {name: extras[name] for name in names[:names.index("test")]}  # those of contributors stand behind it
    return {"": setup["options"]["install_requires"], **named}


def test_the_bill_of_materials_of_a_release_has_every_extra_for_users(for_users):
    installed = re.findall(r'install -q "\$\{wheel\}\[(.+)\]"', (ROOT / ".ci" / "release").read_text("utf-8"))
    assert [sorted(names.split(",")) for names in installed] == [sorted(filter(None, for_users))]


def test_every_requirement_for_users_has_a_floor(for_users):
    lines = [line for text in for_users.values() for line in text.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.match(r"[\w.-]+(\[\w+\])?>=\d", line)] == []
    floors = {re.split(r"[\[>]", line)[0]: line for line in lines}
    assert {"requests", "PyJWT"} <= set(floors)


def test_the_files_that_the_mutants_name_exist():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    options = ("only_mutate", "pytest_add_cli_args_test_selection")
    named = [name for option in options for name in setup["mutmut"][option].split()]
    assert [name for name in named if not (ROOT / name).is_file()] == [] and len(named) > 10


def test_the_files_that_the_windows_lane_names_exist():
    named = re.findall(r"tests/[\w/{},]+\.py", (ROOT / ".ci" / "windows").read_text("utf-8"))
    files = subprocess.run(["bash", "-c", "ls -d " + " ".join(named)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert files.returncode == 0 and len(files.stdout.split()) > 5, files.stderr
