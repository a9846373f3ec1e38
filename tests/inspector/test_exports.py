"""A message for elsewhere: each form works, and a hostile text in it does nothing."""

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mcplite
from mcplite import Server
from mcplite.inspector.inspector_server import InspectedTarget
from mcplite.revisions import NEWEST, NEWEST_LEGACY
from tests.inspector.conftest import OLDER
from tests.support.systems import posix_only

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
#: A text that would do something, were it not quoted: in a shell, and in Python.
NASTY = "'; touch pwned; $(touch pwned) `touch pwned` \"\"\" ''' {x} \\ \u2028 \n"
PROGRAM = textwrap.dedent("""
    from mcplite import Server
    app = Server("echoing")
    @app.tool
    def echo(text: str) -> str:
        return text
    app.run()
""")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "echoing.py"
    path.write_text(PROGRAM)
    return str(path)


def exported(page, method, form):
    """Return the export of the latest request of a method."""
    number = page.wait("message", kind="request", method=method)["message"]
    return page.post("export", message=number, **{"as": form})


def run(folder, *command, **options):
    environment = {**os.environ, "PYTHONPATH": ROOT, **options.pop("environment", {})}
    return subprocess.run(list(command), cwd=str(folder), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=60, **options)


def passes(folder, found):
    """Check that an exported test passes; it has one function, named after its file."""
    (folder / found["filename"]).write_text(found["text"], encoding="utf-8")
    name = found["filename"][:-3]
    ran = run(folder, sys.executable, "-c", f"import {name}; {name}.{name}(); print('passed')")
    assert ran.stdout == b"passed\n", ran.stdout


@pytest.mark.parametrize("revision", [NEWEST_LEGACY.name, NEWEST.name])
def test_a_call_as_python_and_as_a_test_that_passes(inspect, program, tmp_path, revision):
    page = inspect(it=program)
    page.open(revision=revision)
    page.call("tools/call", {"name": "echo", "arguments": {"text": NASTY}})
    found = exported(page, "tools/call", "python")
    assert found["filename"] == "echo.py"
    ran = run(tmp_path, sys.executable, "-c", found["text"])
    assert ran.returncode == 0, ran.stdout
    assert ast.literal_eval(ran.stdout.decode())["content"][0]["text"] == NASTY
    found = exported(page, "tools/call", "pytest")
    passes(tmp_path, found)
    assert not (tmp_path / "pwned").exists()


def test_an_answer_stands_for_its_request_and_an_error_is_expected(inspect, program, tmp_path):
    page = inspect(it=program)
    page.open()
    page.call("no/such", {})
    answer = page.wait("message", kind="error", method="no/such")["message"]
    found = page.post("export", message=answer, **{"as": "pytest"})
    passes(tmp_path, found)


@pytest.mark.slow
@posix_only
def test_a_call_of_a_process_in_a_shell(inspect, program, tmp_path):
    page = inspect(it=program)
    page.open(revision=NEWEST_LEGACY.name)
    page.call("tools/call", {"name": "echo", "arguments": {"text": NASTY}})
    text = exported(page, "tools/call", "curl")["text"].replace("sleep 2", "sleep 1")
    ran = run(tmp_path, "/bin/sh", "-c", text)
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith(b"{")]
    assert answers[-1]["result"]["content"][0]["text"] == NASTY
    assert not (tmp_path / "pwned").exists()


@posix_only
@pytest.mark.parametrize("revision", [NEWEST_LEGACY.name, NEWEST.name])
def test_a_call_over_http_as_curl(inspect, tmp_path, revision):
    app, tokens = Server("web", auth=mcplite.StaticTokens({"s3cret-of-this-test": "me"})), {"TOKEN": "s3cret-of-this-test"}
    app.tool("echo")(echo)
    with mcplite.serve(app, port=0) as served:
        page = inspect(it=InspectedTarget("it", served.url, lambda: {"auth": "s3cret-of-this-test"}))
        page.open(revision=revision)
        page.call("tools/call", {"name": "echo", "arguments": {"text": NASTY}})
        page.wait("message-update", method="tools/call")
        text = exported(page, "tools/call", "curl")["text"]
        assert "s3cret-of-this-test" not in text and '"$TOKEN"' in text
        # Without curl, which not every machine has: the words that it would get.
        (tmp_path / "curl").write_text(f"#!{sys.executable}\nimport sys, json\nprint(json.dumps(sys.argv[1:]))\n")
        (tmp_path / "curl").chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        ran = run(tmp_path, "/bin/sh", "-c", text, environment={**tokens, "PATH": path})
        words = json.loads(ran.stdout)
        assert words[:4] == ["--no-buffer", "-X", "POST", served.url] and "Authorization: Bearer s3cret-of-this-test" in words
        assert json.loads(words[-1])["params"]["arguments"] == {"text": NASTY}
        text = exported(page, "tools/call", "python")["text"]
        ran = run(tmp_path, sys.executable, "-c", text, environment=tokens)
        assert ast.literal_eval(ran.stdout.decode())["content"][0]["text"] == NASTY
    assert not (tmp_path / "pwned").exists()


def echo(text: str) -> str:
    return text


@pytest.mark.parametrize("revision", [NEWEST_LEGACY.name, NEWEST.name])
@pytest.mark.parametrize("whole", [True, False])
def test_a_cassette_is_replayed(inspect, program, tmp_path, revision, whole):
    page = inspect(it=program)
    page.open(revision=revision)
    page.call("tools/call", {"name": "echo", "arguments": {"text": "kept"}})
    page.call("tools/list")
    if whole:
        answer = page.get("/api/record?server=it")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="it.jsonl"'
        text = answer.text
    else:
        text = exported(page, "tools/call", "cassette")["text"]
    path = tmp_path / "it.jsonl"
    path.write_text(text, encoding="utf-8")
    from mcplite.testing.cassette import Cassette

    cassette = Cassette(str(path))
    assert cassette.revision == revision
    with mcplite.connect(cassette, revision=revision) as client:
        assert client.request("tools/call", {"name": "echo", "arguments": {"text": "kept"}})["content"][0]["text"] == "kept"


def test_what_has_no_such_form_says_so(inspect):
    page = inspect(it=Server("x"))
    page.open()
    sent = page.wait("message", direction="->", kind="request")["message"]
    assert "in this process" in page.post("export", 400, message=sent, **{"as": "python"})["error"]
    assert "there is no form" in page.post("export", 400, message=sent, **{"as": "word"})["error"]
    assert "not kept" in page.post("export", 404, message=10_000_000, **{"as": "curl"})["error"]
    page.get("/api/record?server=other", 404)


def test_the_revision_is_the_one_that_was_agreed_on(inspect, tmp_path):
    program = tmp_path / "older.py"
    program.write_text(OLDER)
    page = inspect(it=[sys.executable, str(program)])
    assert page.open()["revision"] == NEWEST_LEGACY.name  # the client has asked for a newer one first
    page.call("ping")
    assert f"revision='{NEWEST_LEGACY.name}'" in exported(page, "ping", "python")["text"]
    assert json.loads(page.get("/api/record?server=it").text.splitlines()[0])["revision"] == NEWEST_LEGACY.name
