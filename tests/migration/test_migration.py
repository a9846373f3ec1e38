"""Programs in the style of FastMCP's documentation, ported as docs/coming-from-fastmcp.rst says, and used by a client.

``programs`` has them as they are written for FastMCP. :mod:`.porting` changes the import, deletes ``async`` and
``await``, and renames what the page lists; nothing else. What the page promises to be the same is compared with FastMCP
itself, where it is installed: the listings, and the results of the same calls.
"""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite import revisions
from tests.interop.conftest import Installed
from tests.migration.porting import CHANGES, ported
from tests.support import connecting
from tests.support.processes import free_port, wait_until

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
#: Their names in FastMCP's world: not compared there, since version 4 has no ``ctx.sample``.
NOT_IN_FASTMCP_4 = {"sampling"}
#: Programs that are no servers on stdio.
ALONE = {"in_memory", "over_http"}
#: Programs that import pydantic.
WITH_PYDANTIC = {"constraints", "models"}
LIMIT = 60

#: What a client does with each program, and what mcplite answers: texts of results, or the error.
CALLS = {
    "added": [("increase", {}, "1"), ("increase", {"by": 2}, "3"), ("who", {}, "a request")],
    "choices": [("paint", {"colour": "red"}, "RED is red, matt"),
                ("paint", {"colour": "green", "finish": "gloss"}, "GREEN is green, gloss"),
                ("paint", {"colour": "blue"}, ValueError)],
    "collections_": [("summarize", {"numbers": [1.0, 2.0]}, {"least": 1.0, "mean": 1.5}),
                     ("lengths", {"words": ["a", "bcd"]}, {"a": 1, "bcd": 3}),
                     ("first", {"words": ["a", "b", "c"]}, {"result": ["a", "b"]})],
    "constraints": [("set_temperature", {"degrees": 21.5}, "kitchen: 21.5 for 60 minutes"),
                    ("set_temperature", {"degrees": 99}, ValueError),
                    ("set_temperature", {"degrees": 20, "room": "B"}, ValueError),
                    ("set_temperature", {"degrees": 20, "minutes": 0}, ValueError)],
    "dataclasses_": [("find_person", {"name": "Ada"}, {"name": "Ada", "age": 36, "nicknames": ["the countess"]}),
                     ("greet", {"person": {"name": "Ada", "age": 36, "nicknames": []}}, "Hello Ada (36)"),
                     ("greet", {"person": {"name": "Ada"}}, ValueError)],
    "defaults": [("search", {"query": "tea"}, "tea limit=10 category=None exact=False"),
                 ("search", {"query": "tea", "limit": 2, "category": "green", "exact": True},
                  "tea limit=2 category=green exact=True")],
    "descriptions": [("resize", {"name": "a.png"}, "a.png is 800 pixels wide")],
    "elicitation": [("book", {}, "a table for 2, Ada")],
    "errors": [("withdraw", {"amount": 20}, "here is 20"), ("withdraw", {"amount": 200}, "at most 100 a day"),
               ("crash", {}, "wrong value"), ("withdraw", {"amount": "many"}, ValueError)],
    "images": [("draw", {}, None), ("explain", {}, "A dot:")],
    "lifespan": [("look_up", {"key": "answer"}, {"result": 42})],
    "logging_": [("process", {"name": "a.txt"}, "done")],
    "models": [("place_order", {"order": {"customer": "Ada", "items": [{"product": "tea", "quantity": 2}]}},
                {"number": 7, "total": 5.0}),
               ("place_order", {"order": {"customer": "Ada", "items": [{"product": "tea", "quantity": 0}]}}, ValueError)],
    "moments": [("weekday", {"day": "2026-11-23"}, "1"),
                ("shift", {"moment": "2026-11-23T10:00:00+02:00", "hours": 3}, {"result": "2026-11-23T13:00:00+02:00"}),
                ("version_of", {"identifier": "6f1e5b1c-8a51-4f7e-9d55-0d5a3a3f3c11"}, "version 4"),
                ("suffix", {"path": "a/b.txt"}, ".txt"), ("weekday", {"day": "yesterday"}, ValueError)],
    "names": [("find_products", {"query": "tea"}, "no products match 'tea'"), ("empty_basket", {}, "the basket is empty")],
    "progress": [("copy", {"files": 3}, "copied 3 files")],
    "sampling": [("summarize", {"text": "much"}, "Summarize: much; Be brief.")],
    "type_hints": [("add", {"a": 1, "b": 2}, {"result": 3}), ("divide", {"a": 1, "b": 4}, {"result": 0.25}),
                   ("add", {"a": "one", "b": 2}, ValueError)],
}
READS = {
    "resources": {"config://version": "2.1", "config://settings": '{"theme": "dark"}', "config://logo": b"GIF89a"},
    "templates": {"weather://Rome/current": "sunny in Rome", "weather://Rome/forecast": "3 days of rain in Rome",
                  "weather://Rome/forecast?days=5": "5 days of rain in Rome", "files://a/b.txt": "contents of a/b.txt"},
}
PROMPTS = {
    "prompts": {("review", "x = 1"): [("user", "Review this code for clarity:\nx = 1")],
                ("translate", "tea"): [("user", "Translate into tea: tea")]},
    "conversation": {("lesson", "chess"): [
        ("user", "Teach me chess."), ("assistant", "With pleasure. What do you know already?"),
        ("user", "Nothing at all.")]},
}


class Heard:
    """What a server sends beside its results."""

    def __init__(self):
        self.logs = []
        self.progress = []

    def options(self):
        return {"elicitation_handler": lambda request: {"name": "Ada", "guests": 2},
                "sampling_handler": lambda request: f"{request.messages[0].content[0].text}; {request.system_prompt}",
                "log_handler": lambda message: self.logs.append((message.level, text_of_log(message.data)))}


def text_of_log(data):
    """Return the text of a log message; FastMCP puts it into an object."""
    return data.get("msg") if isinstance(data, dict) else data


def written(name, tmp_path):
    """Write the ported program, and return its path."""
    path = tmp_path / f"{name}.py"
    path.write_text(ported((HERE / "programs" / f"{name}.py").read_text("utf-8")), "utf-8")
    return path


def connected(command, heard):
    """Return a client of a program on stdio, in the newest revision with a handshake."""
    environment = {"PYTHONPATH": str(ROOT), "FASTMCP_LOG_LEVEL": "ERROR"}
    for name in ("COVERAGE_PROCESS_START", "PYTHONDONTWRITEBYTECODE"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return connecting.connect(command, env=environment, revision=revisions.NEWEST_LEGACY.name, timeout=LIMIT, **heard.options())


def schema_of(schema):
    """Return a schema without what may differ: see "What stays different" on the page."""
    if isinstance(schema, dict):
        return {key: schema_of(value) for key, value in schema.items()
                if key not in ("additionalProperties", "x-fastmcp-wrap-result")
                or isinstance(value, dict) and key == "additionalProperties"}
    return [schema_of(item) for item in schema] if isinstance(schema, list) else schema


def hints_of(tool):
    names = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
    return tool.annotations and [getattr(tool.annotations, name) for name in names]


def used(client, name, heard):
    """Use a program as CALLS, READS and PROMPTS say; return all that was seen, to compare."""
    seen = {"tools": [], "results": [], "resources": [], "prompts": []}
    if name in CALLS:
        seen["tools"] = sorted((tool.name, tool.description, schema_of(tool.input_schema), hints_of(tool))
                               for tool in client.list_tools())
        for tool, arguments, _ in CALLS[name]:
            try:
                result = client.call_tool(tool, arguments, on_progress=lambda step: heard.progress.append(
                    (step.progress, step.total, step.message)))
            except mcplite.errors.InvalidParams:
                seen["results"].append("refused")
            else:
                seen["results"].append(seen_of(result))
    if name in READS:
        seen["resources"] = sorted((resource.uri, resource.name, resource.description) for resource in client.list_resources())
        seen["resources"] += sorted((template.name, template.description) for template in client.list_resource_templates())
        for uri in READS[name]:
            content, = client.read_resource(uri).contents
            seen["results"].append((getattr(content, "text", None) or content.bytes, content.mime_type))
    if name in PROMPTS:
        seen["prompts"] = sorted((prompt.name, prompt.description, [(each.name, each.required) for each in prompt.arguments])
                                 for prompt in client.list_prompts())
        for prompt, value in PROMPTS[name]:
            listed = next(each for each in client.list_prompts() if each.name == prompt)
            arguments = {each.name: value for each in listed.arguments if each.required}
            seen["results"].append([(message.role, message.content.text)
                                    for message in client.get_prompt(prompt, arguments).messages])
    client.request("ping")  # what was sent before the answer to this one has arrived
    return seen


def seen_of(result):
    """Return the content of a result; an image by its type and data, a failure without its exact words."""
    if result.is_error:
        return "refused" if "valid" in result.text else ("failed", result.text.rpartition(": ")[2])
    return [(block.mime_type, block.data) if hasattr(block, "data") else block.text for block in result.content]


def test_each_program_is_used():
    assert set(PROGRAMS) == set(CALLS) | set(READS) | set(PROMPTS) | ALONE
    assert len(PROGRAMS) >= 20


def test_the_page_lists_every_change():
    page = (ROOT / "docs" / "coming-from-fastmcp.rst").read_text("utf-8")
    for old, _ in CHANGES:
        for word in re.findall(r"[A-Za-z_]{5,}", old.replace(r"\b", "")):
            assert word in page, word


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_of_fastmcp_or_asyncio_is_left(name):
    text = ported((HERE / "programs" / f"{name}.py").read_text("utf-8"))
    code = "\n".join(line for line in text.splitlines() if '"""' not in line)
    assert not re.search(r"fastmcp|async|await", code)
    assert code.count("FastMCP") == code.count("Server as FastMCP") + code.count("= FastMCP(")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ALONE])
@pytest.mark.slow
def test_a_ported_program_runs(name, tmp_path):
    if name in WITH_PYDANTIC:
        pytest.importorskip("pydantic")
    heard = Heard()
    with connected([sys.executable, str(written(name, tmp_path))], heard) as client:
        for tool, arguments, expected in CALLS.get(name, ()):
            result = client.call_tool(tool, arguments, on_progress=lambda step: heard.progress.append(step.message))
            if expected is ValueError:
                assert result.is_error
            elif isinstance(expected, dict):
                assert result.structured_content == expected
            elif expected is not None:
                assert result.text == expected
        for uri, expected in READS.get(name, {}).items():
            content, = client.read_resource(uri).contents
            assert (content.bytes if isinstance(expected, bytes) else content.text) == expected
        for (prompt, value), expected in PROMPTS.get(name, {}).items():
            listed = next(each for each in client.list_prompts() if each.name == prompt)
            arguments = {each.name: value for each in listed.arguments if each.required}
            messages = client.get_prompt(prompt, arguments).messages
            assert [(message.role, message.content.text) for message in messages] == expected
    if name == "logging_":  # closing waits for the messages that have arrived
        assert heard.logs == [("info", "processing a.txt"), ("warning", "a.txt is large"), ("error", "a.txt is damaged")]
    if name == "progress":
        assert heard.progress == ["file 1", "file 2", "file 3"]


def test_a_ported_server_runs_over_http(tmp_path):
    port = free_port()
    program = subprocess.Popen([sys.executable, str(written("over_http", tmp_path)), str(port)],
                               env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: listens(port) or program.poll() is not None, LIMIT)
        with mcplite.connect(f"http://127.0.0.1:{port}/api/mcp", timeout=LIMIT) as client:
            assert client.call_tool("echo", {"text": "hello"}).text == "hello"
    finally:
        program.terminate()
        program.wait(timeout=LIMIT)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), LIMIT).close()
    except OSError:
        return False
    return True


def test_a_ported_client_runs(tmp_path):
    assert output_of(sys.executable, written("in_memory", tmp_path)) == OUTPUT


OUTPUT = "['multiply']\n42 {'result': 42} False\n1\n"


def output_of(python, path):
    ran = subprocess.run([str(python), str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, timeout=LIMIT, check=True)
    return ran.stdout.decode().replace("\r\n", "\n")


# --- compared with FastMCP ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def fastmcp(tmp_path_factory):
    """Return the Python with FastMCP 4, which has it loaded."""
    return Installed(tmp_path_factory.mktemp("preloaded")).python("fastmcp4")


@pytest.mark.interop
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.further] * (number % 2))
    for number, name in enumerate(PROGRAMS) if name not in ALONE | NOT_IN_FASTMCP_4])
def test_fastmcp_lists_and_answers_the_same(name, fastmcp, tmp_path):
    ours, theirs = Heard(), Heard()
    # FastMCP's Python has pydantic, which this one may lack.
    with connected([fastmcp if name in WITH_PYDANTIC else sys.executable, str(written(name, tmp_path))], ours) as client:
        seen = used(client, name, ours)
    with connected([fastmcp, str(HERE / "programs" / f"{name}.py")], theirs) as client:
        assert used(client, name, theirs) == seen
    assert ours.progress == theirs.progress
    assert ours.logs == [entry for entry in theirs.logs if entry[0] != "debug"]


@pytest.mark.interop
def test_a_client_of_fastmcp_prints_the_same(fastmcp):
    assert output_of(fastmcp, HERE / "programs" / "in_memory.py") == OUTPUT
