"""The tutorial: each step's file is written, each command is run, and what the page shows is what the command prints."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import requests

import mcplite
from mcplite.auth import MemoryStore
from tests.support.issuers import Person
from tests.support.processes import free_port, running

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "tutorial.rst").read_text("utf-8")
LIMIT = 60

pytestmark = [pytest.mark.slow, pytest.mark.one_python,
              pytest.mark.skipif(os.name != "posix", reason="the page has commands of a POSIX shell")]


@pytest.fixture(scope="module")
def pictures():
    return runpy.run_path(str(DOCS / "terminal_pictures.py"))


def dedented(block):
    return re.sub(r"^   ", "", block, flags=re.MULTILINE).strip("\n")


def steps():
    """Yield ("file", name, code) and ("command", command, output) in the order of the page."""
    for kind, caption, block in re.findall(
            r"^\.\. code-block:: (python|console)\n(?:   :caption: (\S+)\n)?\n((?:   .*\n|\n)+)", PAGE, re.MULTILINE):
        if kind == "python":
            yield "file", caption, dedented(block)
            continue
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", dedented(block) + "\n", re.MULTILINE):
            yield "command", command, output


def test_each_step_shows_what_its_commands_print(pictures, tmp_path):
    environment, ran = pictures["environment"](tmp_path), 0
    (tmp_path / "work").mkdir()
    for kind, name, text in steps():
        if kind == "file":
            file = tmp_path / "work" / name
            before = file.read_text("utf-8") + "\n\n" if file.exists() else ""
            file.write_text(f"{before}{text}\n", "utf-8")
            continue
        said = subprocess.run(["sh", "-c", name], cwd=str(tmp_path / "work"), env=environment, timeout=LIMIT,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        expected = ".*".join(map(re.escape, text.split("...")))
        assert re.fullmatch(expected, said), f"$ {name}\n{said}"
        ran += 1
    assert ran == 11


def test_the_pictures_show_what_the_terminal_shows(pictures):
    for name, picture, output in pictures["made"]():
        drawn = (DOCS / "_static" / "terminal" / f"{name}.svg").read_text("utf-8")
        assert pictures["drawing"](picture, pictures["text_of"](output)).partition("</desc>")[0].split("<desc>")[1] == (
            drawn.partition("</desc>")[0].split("<desc>")[1]), "run make terminal-pictures"
        assert f".. image:: _static/terminal/{name}.svg\n   :alt: The terminal after {picture.commands[0]}" in PAGE


def test_the_drawings_of_applications_show_what_the_tools_return():
    pages = PAGE + (DOCS / "hosts.rst").read_text("utf-8")
    for name, drawing in runpy.run_path(str(DOCS / "host_pictures.py"))["made"]():
        assert (DOCS / "_static" / "hosts" / f"{name}.svg").read_text("utf-8") == drawing, "run make host-pictures"
        assert f".. image:: _static/hosts/{name}.svg\n   :alt: " in pages


def commands_of(step):
    """Return the commands of a step's blocks that are not run as they stand."""
    return re.findall(r"^   \$ (.*)$", re.search(rf"^{step}\. .*?(?=^\d+\. |^Where )", PAGE, re.MULTILINE | re.DOTALL)[0],
                      re.MULTILINE)


@pytest.fixture
def folder(pictures, tmp_path):
    pictures["prepare"](tmp_path)
    return tmp_path


def test_the_server_has_a_login(folder, pictures):
    pytest.importorskip("authlib")
    add, serve, login, call = commands_of(8)
    port, environment = free_port(), pictures["environment"](folder)
    subprocess.run(["sh", "-c", add], cwd=str(folder), env=environment, input=b"password\n", check=True, timeout=LIMIT)
    serve, login, call = (command.replace("8000", str(port)) for command in (serve, login, call))
    url = login.split()[-1]
    with running(["sh", "-c", f"exec {serve}"], folder, port, **environment):
        assert requests.get(url, timeout=LIMIT).status_code == 401
        auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=Person("ann", "password")), store=MemoryStore())
        with mcplite.connect(url, auth=auth, timeout=LIMIT) as client:
            assert client.call_tool("search", {"word": "tea"}).data == [{"title": "tea", "text": "Two bags of green tea"}]
        refused = subprocess.run(["sh", "-c", call], cwd=str(folder), env=environment, timeout=LIMIT, stderr=subprocess.PIPE)
        assert refused.returncode == 4 and b"mcplite login" in refused.stderr


def test_the_server_is_deployed(folder, pictures):
    pytest.importorskip("gunicorn")
    words = commands_of(9)[-1].split()
    assert words[0] == "gunicorn"
    environment = {**pictures["environment"](folder), "MCPLITE_BACKEND": f"sqlite:///{folder}/state.db",
                   "MCPLITE_STATE_KEYS": "a" * 64}
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", *words[1:]]
    with running(command, folder, port, **environment):
        with mcplite.connect(f"http://127.0.0.1:{port}/", timeout=LIMIT, elicitation_handler=lambda request: True) as client:
            assert client.call_tool("delete_note", {"title": "tea"}).text == "deleted: tea"
            assert not (folder / "notes" / "tea.txt").exists()
