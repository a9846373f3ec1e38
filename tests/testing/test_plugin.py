"""The plugin for pytest, in a newcomer's project: fixtures, cassettes and snapshots, each in a pytest of its own."""

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.one_python
LIMIT = 120
SHOP = '''
import mcplite

mcp = mcplite.Server("shop", instructions="Sells tea.")
PRICES = {"tea": 3}

@mcp.tool()
def price(article: str) -> int:
    """What an article costs."""
    return PRICES[article]

@mcp.resource("shop://articles")
def articles() -> str:
    """All articles."""
    return ", ".join(PRICES)
'''
REMOTE = '''
import mcplite

def test_remote(mcp_cassette):
    client = mcp_cassette(["python-that-is-not-there"] if {gone} else [{python!r}, "shop.py"], env={{"PYTHONPATH": {root!r}}},
                          options=mcplite.ClientOptions(grace=1.0))
    assert client.call_tool("price", {{"article": {article!r}}}).text == {price!r}
'''


class Project:
    """A folder with a server and tests."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, **files):
        for name, text in files.items():
            path = self.folder / (name + ".ini" if name == "pytest" else name + ".py")
            path.write_text(text, encoding="utf-8")

    def run(self, *arguments, status=0):
        """Run pytest, and return what it prints."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                       "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "COVERAGE_PROCESS_START"):
            environment.pop(name, None)
        plugins = ["-p", "mcplite.testing.plugin", "-p", "no:cacheprovider"]
        ran = subprocess.run([sys.executable, "-m", "pytest", *plugins, *arguments],
                             cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, encoding="utf-8", timeout=LIMIT)
        assert ran.returncode == status, ran.stdout
        return ran.stdout


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.write(shop=SHOP, pytest="[pytest]\nmcp_server = shop:mcp\n")
    return project


def test_a_client_of_the_server_and_one_in_each_revision(project):
    project.write(test_shop='''
import pytest

def test_client(mcp_client):
    assert mcp_client.call_tool("price", {"article": "tea"}).text == "3"

def test_each(mcp_each_revision):
    assert mcp_each_revision.read_resource("shop://articles").contents[0].text == "tea"

@pytest.mark.parametrize("mcp_each_revision", ["2025-06-18"], indirect=True)
def test_one(mcp_each_revision):
    assert mcp_each_revision.protocol_version == "2025-06-18"

def test_own(mcp_connect, mcp_server):
    import shop
    assert mcp_server is shop.mcp
    assert mcp_connect(shop.mcp, revision="2025-11-25").era == "legacy"
''')
    out = project.run("-v")
    assert "8 passed" in out
    assert all(f"test_each[{name}] PASSED" in out for name in (
        "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"))


def test_a_fixture_of_the_project_takes_the_place_of_the_setting(project):
    project.write(pytest="[pytest]\n", conftest='''
import pytest
import shop

@pytest.fixture
def mcp_server():
    return shop.mcp

@pytest.fixture
def mcp_client_options():
    return {"revision": "2025-03-26"}
''', test_shop='''
def test_client(mcp_client):
    assert mcp_client.protocol_version == "2025-03-26"
''')
    project.run()


def test_a_failing_call_is_shown_without_frames_of_the_package(project):
    project.write(test_shop='''
def test_a_call(mcp_client):
    mcp_client.read_resource("shop://nothing")
''')
    out = project.run("-q", status=1)
    assert 'mcp_client.read_resource("shop://nothing")' in out
    assert re.search(r"^E +mcplite.errors.ResourceNotFound", out, re.MULTILINE)
    assert "calls.py" not in out
    assert "calls.py" in project.run("--full-trace", status=1)


def test_without_a_server_the_error_says_what_to_write(project):
    project.write(pytest="[pytest]\n", test_shop="def test_client(mcp_client): pass\n")
    assert "write mcp_server = shop.py:mcp into pytest's configuration" in project.run(status=1)
    project.write(pytest="[pytest]\nmcp_server = shop.py\n")
    project.run()
    command = f"{Path(sys.executable).as_posix()} -m mcplite.server shop.py"
    project.write(pytest=f"[pytest]\nmcp_server = {command}\n",
                  test_shop="def test_client(mcp_server, mcp_client):\n    assert ' -m ' in mcp_server\n")
    project.run()


@pytest.mark.slow
def test_a_cassette_takes_the_place_of_the_server(project):
    words = {"python": sys.executable, "root": str(ROOT)}
    project.write(shop=SHOP + '\nif __name__ == "__main__":\n    mcp.run()\n',
                  test_remote=REMOTE.format(gone=False, article="tea", price="3", **words))
    tape = project.folder / "cassettes" / "test_remote" / "test_remote.jsonl"
    assert "there is no cassette cassettes/test_remote/test_remote.jsonl" in project.run("--mcp-record=none", status=1)
    assert "recorded cassettes/test_remote/test_remote.jsonl" in project.run()
    recorded = tape.read_text()
    project.write(test_remote=REMOTE.format(gone=True, article="tea", price="3", **words))
    assert "recorded" not in project.run("--mcp-record=none")
    project.write(test_remote=REMOTE.format(gone=True, article="gold", price="3", **words))
    assert "arguments.article is 'tea' on the cassette, and 'gold' here" in project.run(status=1)
    # The server has changed: a test that fails keeps the cassette, and one that passes shows what is new.
    project.write(shop=(project.folder / "shop.py").read_text().replace('"tea": 3', '"tea": 4'),
                  test_remote=REMOTE.format(gone=False, article="tea", price="3", **words))
    project.run("--mcp-record=all", status=1)
    assert tape.read_text() == recorded and os.listdir(tape.parent) == [tape.name]
    project.write(test_remote=REMOTE.format(gone=False, article="tea", price="4", **words))
    out = project.run("--mcp-record=all")
    assert re.search(r'^- +"text": "3"', out, re.MULTILINE) and re.search(r'^\+ +"text": "4"', out, re.MULTILINE)
    assert "nothing has changed" in project.run("--mcp-record=all")


@pytest.mark.slow
def test_tests_of_one_name_in_two_classes_have_files_of_their_own(project):
    project.write(test_shop='''
import mcplite

other = mcplite.Server("other")

class TestShop:
    def test_offer(self, mcp_server, mcp_cassette, mcp_snapshot):
        mcp_snapshot(mcp_cassette(mcp_server))

class TestOther:
    def test_offer(self, mcp_cassette, mcp_snapshot):
        mcp_snapshot(mcp_cassette(other))
''')
    project.run()
    project.run("--mcp-record=none")
    found = [str(path.relative_to(project.folder)) for path in sorted(project.folder.rglob("*.json*"))]
    assert [path.replace(os.sep, "/") for path in found] == [
        "cassettes/test_shop/TestOther.test_offer.jsonl", "cassettes/test_shop/TestShop.test_offer.jsonl",
        "snapshots/test_shop/TestOther.test_offer.json", "snapshots/test_shop/TestShop.test_offer.json"]


@pytest.mark.slow
def test_a_second_connection_of_a_test_is_recorded_under_a_name(project):
    test = "def test_twice(mcp_server, mcp_cassette):\n    mcp_cassette(mcp_server)\n    mcp_cassette(mcp_server{})\n"
    project.write(test_shop=test.format(""))
    out = project.run(status=1)
    assert "give mcp_cassette(..., name=) for another connection" in out and "1 failed" in out and "error" not in out
    assert not list(project.folder.rglob("*.json*"))
    project.write(test_shop=test.format(", name='again'"))
    project.run()
    project.run("--mcp-record=none")


@pytest.mark.slow
def test_a_snapshot_fails_with_the_difference_until_it_is_accepted(project):
    project.write(test_shop='''
def test_offer(mcp_client, mcp_snapshot):
    mcp_snapshot(mcp_client)

def test_old(mcp_connect, mcp_server, mcp_snapshot):
    mcp_snapshot(mcp_connect(mcp_server, revision="2024-11-05"), name="old")
''')
    assert "write it with --mcp-update" in project.run("--mcp-record=none", status=1)
    out = project.run("--mcp-record=none", "--mcp-update")
    assert "wrote snapshots/test_shop/test_offer.json" in out and "wrote snapshots/test_shop/test_old-old.json" in out
    assert "wrote" not in project.run("--mcp-record=none")
    project.write(shop=SHOP.replace("What an article costs", "The price of an article"))
    out = project.run(status=1)
    assert "--mcp-update accepts that" in out and "2 failed" in out
    assert re.search(r'^\+ +"description": "The price of an article', out, re.MULTILINE)
    assert "wrote" in project.run("--mcp-update")
    project.run()


def test_a_project_that_uses_no_fixture_loads_nothing(project):
    project.write(test_plain='''
import sys

def test_plain():
    found = {name for name in sys.modules if name.partition(".")[0] in ("mcplite", "requests", "jsonschema")}
    assert found == {"mcplite", "mcplite.testing", "mcplite.testing.plugin"}
''')
    project.run()


def test_the_plugin_is_announced_to_pytest():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.entry_points"]["pytest11"].strip() == "mcplite = mcplite.testing.plugin"
