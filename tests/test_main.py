"""``python -m mcplite``: what each command prints, where, and with which exit status."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite import __main__ as command_line
from mcplite.cli import command_line as program, commands, listing
from mcplite.cli.description import pasted
from mcplite.errors import Cancelled, ConnectionClosed, InvalidParams, MCPError, NotSupported, RequestTimeout, TransportError
from mcplite.revisions import JUNE_2025, NEWEST
from tests.support.systems import posix_only

PACKAGE = Path(mcplite.__file__).resolve().parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONIOENCODING": "utf-8"}

TARGET = '''
import base64
import os
import sys
import time
from typing import List

import mcplite

mcp = mcplite.Server("wea\\x1bther", version="2.0")

@mcp.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Whatever they are."""
    return a + b

@mcp.tool()
def say(text: str) -> str:
    return text

@mcp.tool(structured_output=False)
def picture() -> mcplite.Image:
    return mcplite.Image(b"\\x89PNG\\x00", mime_type="image/png")

@mcp.tool()
def fail() -> str:
    raise mcplite.ToolError("it went\\x07 wrong")

@mcp.tool()
def broken() -> str:
    raise KeyError("nope")

@mcp.tool()
def where() -> str:
    return f"{os.getcwd()} {os.environ.get('COLOR')}"

@mcp.tool()
def roots(ctx: mcplite.Context) -> List[str]:
    return [root.uri for root in ctx.list_roots()]

@mcp.tool()
def end() -> str:
    print("last words", file=sys.stderr, flush=True)
    os._exit(7)

@mcp.tool()
def hang(ctx: mcplite.Context) -> str:
    ctx.info("hanging")
    ctx.sleep(60)
    return "woke up"

@mcp.tool()
def log(ctx: mcplite.Context) -> str:
    ctx.debug("too quiet")
    ctx.warning({"storm": "\\x1b[2J"}, logger="sky")
    ctx.error("plain")
    return "logged"

@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    return ctx.elicit("Go on?").action

@mcp.tool()
def lines(count: int) -> str:
    return "\\n".join(str(number) for number in range(count))

@mcp.resource("note://today")
def today() -> str:
    "Today's\\x07 note."
    return "rain\\x1b"

@mcp.resource("note://icon", mime_type="image/png")
def icon() -> bytes:
    return b"\\x89PNG"

@mcp.resource("city://{name}")
def city(name: str) -> str:
    return f"about {name}"

@mcp.prompt()
def travel(city: str, days: str = "3") -> str:
    """Plan a journey."""
    return f"{days} days in {city}"

@mcp.completion(resource="city://{name}", argument="name")
def names(value: str):
    return [name for name in ("Rome", "Riga") if name.startswith(value)]

@mcp.completion(prompt="travel", argument="city")
def cities(value: str, context: dict):
    return [f"{value}:{context.get('days')}"]
'''


@pytest.fixture
def target(tmp_path):
    (tmp_path / "weather.py").write_text(TARGET)
    return str(tmp_path / "weather.py")


@pytest.fixture
def run(capsys):
    """Run the command line in this process; return the status, stdout and stderr."""

    def run(*arguments):
        capsys.readouterr()
        status = command_line.main(list(arguments))
        return (status, *capsys.readouterr())

    return run


def process(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
               "env": ENVIRONMENT, "timeout": 60, **options}
    return subprocess.run([sys.executable, "-m", "mcplite", *arguments], **options)


# --- commands ----------------------------------------------------------------------------------------


def test_list_is_a_table(run, target):
    status, out, err = run("list", target)
    assert (status, err) == (0, "")
    assert out.startswith(f"wea\\x1bther 2.0 (protocol {NEWEST.name})\n\ntools:\n  add(a: int, b: int = 1) -> int")
    assert "Add two numbers. Whatever they are.\n" in out
    assert "\nresources:\n  note://today  Today's\\x07 note.\n" in out
    assert "\nresource templates:\n  city://{name}\n" in out
    assert "\nprompts:\n  travel(city, days?)  Plan a journey.\n" in out


@pytest.mark.one_python
def test_a_missing_library_is_one_line(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "requests", None)
    assert run("list", "https://127.0.0.1:1/mcp") == (1, "", "install requests, which this needs: pip install requests\n")


def test_list_as_json(run, target):
    status, out, _ = run("list", "--json", target)
    listed = json.loads(out)
    assert status == 0
    assert sorted(listed) == [
        "capabilities", "prompts", "protocolVersion", "resourceTemplates", "resources", "server", "tools"]
    assert listed["server"] == {"name": "wea\x1bther", "version": "2.0"} and listed["protocolVersion"] == NEWEST.name
    assert listed["tools"][0]["inputSchema"]["required"] == ["a"]
    assert listed["resourceTemplates"][0]["uriTemplate"] == "city://{name}"


def test_describe_a_server(run, target):
    status, out, err = run("describe", target)
    assert (status, err) == (0, "")
    assert out.startswith(f"wea\\x1bther 2.0 (protocol {NEWEST.name})\n  capabilities: tools, resources, prompts, ")
    for heading in ("tool add", "resource note://today (today)", "resource template city://{name} (city)", "prompt travel"):
        assert f"\n\n{heading}\n" in out
    assert f"\n  example: python -m mcplite read {shlex.quote(target)} city://name\n" in out


@pytest.mark.slow
def test_the_example_of_a_description_runs(run, target):
    out = run("describe", target, "add")[1]
    assert out == (
        "tool add\n  Add two numbers.\n\n  Whatever they are.\n  arguments:\n    a: int\n    b: int  default 1\n"
        f"  returns: int\n  example: python -m mcplite call {shlex.quote(target)} add a:=1\n")
    example = out.rpartition("example: ")[2]
    assert run(*shlex.split(example)[3:]) == (0, "2\n", "")


def test_describe_as_json(run, target):
    found = json.loads(run("describe", target, "note://today", "--json")[1])
    assert [one["uri"] for one in found["resources"]] == ["note://today"] and "tools" not in found
    assert found["examples"] == {"resources": {"note://today": pasted(["read", target], "note://today")}}


@pytest.mark.slow
def test_instructions_are_listed_and_described(run, tmp_path):
    (tmp_path / "wise.py").write_text("import mcplite\nmcp = mcplite.Server('wise', instructions='Ask\\n  twice.')\n")
    path = str(tmp_path / "wise.py")
    assert json.loads(run("list", path, "--json")[1])["instructions"] == "Ask\n  twice."
    out = run("describe", path)[1]
    assert out.endswith("\n  instructions:\n    Ask\n    twice.\n\nthe server offers no tools, resources or prompts\n")


@pytest.mark.slow
def test_2_describe_names_what_is_similar(run, target):
    assert run("describe", target, "piture") == (
        2, "", "the server has no tool, prompt, resource or template 'piture'; did you mean 'picture'?\n")
    assert "; it has add, say, picture, fail, " in run("describe", target, "zzzzz")[2]


def test_list_of_a_server_without_anything(run, tmp_path):
    (tmp_path / "empty.py").write_text("import mcplite\nmcp = mcplite.Server('empty')\n")
    status, out, _ = run("list", str(tmp_path / "empty.py"))
    assert (status, out.splitlines()[1:]) == (0, ["the server offers no tools, resources or prompts"])


def test_any_schema_has_a_label():
    def label(schema):
        return listing._label(mcplite.types.Tool(name="t", input_schema=schema))

    assert label({"properties": ["a"], "required": 3}) == "t()"
    assert label({"properties": {"a": 1, "b": True}, "required": ["b"]}) == "t(a?: any, b: any)"
    assert label({}) == "t()"


@pytest.mark.parametrize("words, printed", [
    (["add", "a=2"], "3\n"), (["add", "a=2", "b:=5"], "7\n"), (["say", "text=7"], "7\n"),
    (["add", '{"a": 40, "b": 2}'], "42\n"),
    (["say", "text=\x1b[31mred"], "\\x1b[31mred\n"), (["picture"], "[image, image/png, 5 bytes; --output FILE saves it]\n")])
@pytest.mark.slow
def test_call_prints_the_content(run, target, words, printed):
    assert run("call", target, *words) == (0, printed, "")


@pytest.mark.slow
def test_call_prints_rows_as_a_table(run, tmp_path):
    (tmp_path / "rows.py").write_text(
        "from typing import Dict, List\nimport mcplite\nmcp = mcplite.Server('rows')\n@mcp.tool()\n"
        "def rows() -> List[Dict[str, int]]:\n    return [{'a': 1, 'b': 22}, {'a': 300}]\n@mcp.tool()\n"
        "def one() -> int:\n    return 1\n")
    path = str(tmp_path / "rows.py")
    assert run("call", path, "rows", "--table") == (0, "  a   b\n---  --\n  1  22\n300\n", "")
    assert run("call", path, "one", "--table") == (0, "1\n", "--table: the result is not a list of flat objects\n")
    assert run("call", path, "rows", "--table", "--json")[0] == 2


def test_options_may_stand_between_the_words(run, target):
    status, out, _ = run("call", "--timeout", "30", target, "--json", "add", "a=2", "--revision", JUNE_2025.name, "b=2")
    assert (status, json.loads(out)["structuredContent"]) == (0, {"result": 4})


@pytest.mark.slow
def test_arguments_from_a_file_and_from_stdin(run, target, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("from a file")
    assert run("call", target, "say", f"text=@{tmp_path / 'text'}")[1] == "from a file\n"
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 20, "b": 22}'))
    assert run("call", target, "add", "-")[1] == "42\n"


@pytest.mark.parametrize("words, saved", [
    (["call", "picture"], b"\x89PNG\x00"), (["call", "say", "text=a\x1b"], b"a\x1b"),
    (["read", "note://icon"], b"\x89PNG"), (["read", "note://today"], b"rain\x1b")])
@pytest.mark.slow
def test_output_saves_the_result_and_prints_nothing(run, target, tmp_path, words, saved):
    path = tmp_path / "saved"
    assert run(words[0], target, *words[1:], "--output", str(path)) == (0, "", "")
    assert path.read_bytes() == saved


@pytest.mark.slow
def test_output_is_for_results_and_not_for_errors(run, target, tmp_path):
    path = tmp_path / "saved"
    assert run("call", target, "fail", "--output", str(path)) == (1, "", "it went\\x07 wrong\n")
    assert not path.exists()


@pytest.mark.slow
def test_output_that_cannot_be_written_or_has_nothing_to_save(run, target, tmp_path, monkeypatch):
    status, _, err = run("call", target, "add", "a=1", "--output", str(tmp_path / "no" / "folder"))
    assert (status, err) == (2, f"--output: cannot write {tmp_path / 'no' / 'folder'}: No such file or directory\n")
    monkeypatch.setattr(commands, "first_binary", lambda items: None)
    assert run("read", target, "note://today", "--output", str(tmp_path / "saved")) == (
        2, "", "--output: the result has no content to save\n")


@pytest.mark.slow
def test_read(run, target):
    assert run("read", target, "city://Rome") == (0, "about Rome\n", "")
    assert run("read", target, "note://today")[1] == "rain\\x1b\n"
    assert run("read", target, "note://icon")[1] == "[note://icon, image/png, 4 bytes; --output FILE saves it]\n"
    assert json.loads(run("read", "--json", target, "note://today")[1])["contents"][0]["text"] == "rain\x1b"


@pytest.mark.slow
def test_prompt(run, target):
    assert run("prompt", target, "travel", "city=Rome", "days:=5") == (0, "user:\n5 days in Rome\n", "")
    assert json.loads(run("prompt", "--json", target, "travel", "city=Rome")[1])["description"] == "Plan a journey."


@pytest.mark.slow
def test_complete(run, target):
    assert run("complete", target, "city://{name}", "name", "R") == (0, "Rome\nRiga\n", "")
    assert run("complete", target, "city://{name}", "name")[1] == "Rome\nRiga\n"
    assert run("complete", target, "travel", "city", "x", "days=5")[1] == "x:5\n"
    assert run("complete", target, "travel", "city=x", "days=5")[1] == "x:5\n"
    assert run("complete", target, "city://{name}", "name=R") == (0, "Rome\nRiga\n", "")
    assert json.loads(run("complete", target, "city://{name}", "name", "Ro", "--json")[1])["completion"]["values"] == ["Rome"]


@pytest.mark.slow
def test_ping(run, target):
    assert run("ping", target) == (0, f"wea\\x1bther 2.0 answers (protocol {NEWEST.name})\n", "")
    answer = json.loads(run("ping", "--json", "--revision", JUNE_2025.name, target)[1])
    assert (answer["server"]["name"], answer["protocolVersion"]) == ("wea\x1bther", JUNE_2025.name)


@pytest.mark.slow
def test_request_sends_any_method_and_prints_the_result(run, target):
    status, out, err = run("request", target, "tools/call", "name=add", 'arguments:={"a": 2, "b": 3}')
    assert (status, err, json.loads(out)["structuredContent"]) == (0, "", {"result": 5})
    assert json.loads(run("request", target, "tools/list")[1])["tools"][0]["name"] == "add"
    status, out, err = run("request", target, "no/such/method")
    assert (status, out, err) == (3, "", "the server answered: Method not found: no/such/method\n")
    assert "(code -32601)" in run("request", "--debug", target, "no/such/method")[2]


# --- options -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_env_and_cwd_are_the_servers(run, target, tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    assert run("call", target, "where", "--cwd", str(folder), "--env", "COLOR=a=b")[1] == f"{folder} a=b\n"
    assert run("call", target, "where", "--cwd", str(folder))[1] == f"{folder} None\n"
    monkeypatch.setenv("COLOR", "green")
    assert run("call", target, "where", "--cwd", str(folder), "--env", "COLOR")[1] == f"{folder} green\n"  # ours is passed on


@pytest.mark.parametrize("words, status, error", [
    (["call", "TARGET", "unheard-of"], 3, {"type": "InvalidParams", "code": -32602}),
    (["call", "TARGET", "add", "a"], 2, {"type": "UsageError"}),
    (["ping", "no-such-program"], 4, {"type": "TransportError"}),
])
def test_with_json_an_error_is_one_line_of_json(run, target, words, status, error):
    ended, out, err = run(*[target if word == "TARGET" else word for word in words], "--json")
    assert (ended, out, err.count("\n")) == (status, "", 1)
    told = json.loads(err)["error"]
    assert told["status"] == status and told["message"] and {**told, **error} == told


@pytest.mark.slow
def test_a_server_of_a_configuration_as_the_target(run, config, target):
    path = config(weather=entry(target), other=entry("nothing.py"))
    assert run("call", f"{path}:weather", "add", "a=1") == (0, "2\n", "")
    assert run("call", path, "--server", "weather", "add", "a=1")[1] == "2\n"
    status, out, err = run("call", path, "add", "a=1")
    assert (status, out) == (2, "") and f"--server: weather, other; or give it as the target, {path}:weather" in err
    example = run("describe", f"{path}:weather", "add")[1].rpartition("example: ")[2]
    assert run(*shlex.split(example)[3:])[:2] == (0, "2\n")
    status, out, err = run("call", f"{path}:weather", "--server", "other", "add")
    assert (status, out) == (2, "") and "name two servers" in err
    assert run("call", config(weather=entry(target)), "add", "a=1") == (0, "2\n", "")  # there is one only


@pytest.mark.slow
def test_an_overview_of_all_servers(run, config, target):
    path = config(first=entry(target), bad={}, gone={"command": "no-such-program"}, off=entry(target, disabled=True),
                  last=entry(target))
    status, out, err = run("ping", path)
    answer = f"  wea\\x1bther 2.0 answers (protocol {NEWEST.name})\n\n"
    assert status == 4
    assert out == (f"first:\n{answer}gone:\n  failed, see the error\n\noff:\n  disabled in the file\n\n"
                   f"last:\n{answer}bad:\n  failed, see the error\n\n")
    assert "gone: cannot start no-such-program" in err and "server 'bad': needs a 'command'" in err
    status, out, err = run("list", "--config", path, "--json")
    servers = json.loads(out)["servers"]
    assert (status, err) == (4, "")
    assert servers["first"]["tools"] == servers["last"]["tools"] and servers["off"] == {"disabled": True}
    assert servers["bad"]["error"]["status"] == 2 and servers["gone"]["error"]["type"] == "TransportError"


@pytest.mark.slow
def test_an_overview_of_servers_that_all_answer(run, config, target):
    status, out, err = run("list", config(a=entry(target), b=entry(target)))
    assert (status, err) == (0, "")
    assert out.count("\n    add(a: int, b: int = 1) -> int") == 2 and out.startswith("a:\n  wea")


def test_what_a_configuration_asks_for_needs_a_terminal(run, config, target):
    path = config(weather=entry(target, args=["${input:key}"]))
    status, out, err = run("call", path, "where")
    assert (status, out) == (2, "") and "${input:key} would ask the user" in err


def test_roots(run, target, tmp_path):
    (tmp_path / "two").mkdir()
    status, out, _ = run("call", target, "roots", "--json", "--root", str(tmp_path), "--root", str(tmp_path / "two"))
    assert json.loads(out)["structuredContent"]["result"] == [tmp_path.as_uri(), (tmp_path / "two").as_uri()]


@pytest.mark.slow
def test_log_level_shows_the_servers_messages_on_stderr(run, target):
    status, out, err = run("call", "--log-level", "warning", target, "log")
    assert (status, out) == (0, "logged\n")
    assert err == 'warning sky: {"storm": "\\u001b[2J"}\nerror server: plain\n'
    assert run("call", target, "log")[2] == ""


@pytest.mark.parametrize("words, last", [(["call", "TARGET", "log"], "logged"), (["call", "TARGET", "log", "--json"], "}")])
@pytest.mark.slow
def test_log_messages_come_before_the_result_they_belong_to(target, words, last):
    ran = process(*[target if word == "TARGET" else word for word in words], "--log-level", "warning",
                  stderr=subprocess.STDOUT, env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"})
    lines = ran.stdout.decode().splitlines()
    assert lines[1] == "error server: plain" and lines[-1] == last


@pytest.mark.slow
def test_the_servers_stderr_comes_before_the_result_with_debug(target):
    ran = process("call", target, "broken", "--debug", stderr=subprocess.STDOUT, env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"})
    lines = ran.stdout.decode().splitlines()
    assert lines[-1] == "KeyError: 'nope'" and any(line.startswith("Traceback") for line in lines)
    assert "--debug" not in ran.stdout.decode()


@pytest.mark.slow
def test_what_the_server_has_logged_of_a_failure_is_shown(run, target, tmp_path):
    status, out, err = run("call", target, "broken")
    assert (status, out) == (1, "")
    assert err == "KeyError: 'nope'\nthe server logged KeyError: 'nope' (weather.py, line 33); --debug shows its traceback\n"
    assert run("call", target, "fail")[2] == "it went\\x07 wrong\n"
    far = mcplite.Server("far")

    @far.tool
    def broken() -> str:
        raise KeyError("nope")

    with mcplite.serve(far, port=0) as served:  # its log is not ours to show
        assert run("call", served.url, "broken") == (1, "", "KeyError: 'nope'\n")
    notes = tmp_path / "notes.py"
    notes.write_text("import mcplite\n\nmcp = mcplite.Server('notes')\n\n@mcp.resource('note://{name}')\n"
                     "def note(name: str) -> str:\n    try:\n        return {}[name]\n    except KeyError as error:\n"
                     "        raise ValueError(f'no note\\x07 {name}') from error\n")
    assert run("read", str(notes), "note://x") == (
        3, "", "the server logged ValueError: no note\\x07 x (notes.py, line 10); --debug shows its traceback\n"
        "the server answered: Internal error\n")


@pytest.mark.parametrize("words, problem", [
    (["ping", "no-such-program"], "or --env PATH=..."), (["ping", "TARGET", "--cwd", "/nowhere"], "correct --cwd"),
])
def test_errors_name_the_options_of_the_command_line(run, target, words, problem):
    status, _, err = run(*[target if word == "TARGET" else word for word in words])
    assert status == 4 and problem in err
    told = json.loads(run(*[target if word == "TARGET" else word for word in words], "--json")[2])
    assert problem in told["error"]["message"]


def test_questions_are_declined_without_a_terminal(run, target, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run("call", target, "ask") == (
        0, "decline\n", "wea\\x1bther asks: Go on?\n(declined: there is no terminal to ask on)\n")


@pytest.mark.slow
def test_debug_shows_messages_the_servers_stderr_and_tracebacks(target):
    ran = process("call", "--debug", target, "end")
    err = ran.stderr.decode().replace(os.linesep, "\n")
    assert ran.returncode == 4
    assert "tools/call" in err and "last words\n" in err and "Traceback" in err


@pytest.fixture
def config(tmp_path, target):
    def config(**servers):
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        return str(tmp_path / "mcp.json")

    return config


def entry(target, **more):
    return {"command": sys.executable, "args": ["-m", "mcplite.server", target],
            "env": {"PYTHONPATH": str(PACKAGE.parent), "COLOR": "red"}, **more}


@pytest.mark.slow
def test_a_server_of_a_configuration(run, config, target, tmp_path):
    one = config(weather=entry(target, cwd=str(tmp_path)))
    assert run("call", "--config", one, "where") == (0, f"{tmp_path} red\n", "")
    assert run("call", "--config", one, "where", "--env", "COLOR=blue")[1] == f"{tmp_path} blue\n"
    several = config(other=entry("nothing.py", disabled=True), weather=entry(target))
    assert run("call", "--config", several, "add", "a=1")[1] == "2\n"
    several = config(other={}, weather=entry(target))
    assert run("call", "--config", several, "--server", "weather", "add", "a=1")[1] == "2\n"


def test_warnings_about_a_configuration_are_printed(run, config, target, monkeypatch):
    monkeypatch.chdir(os.path.dirname(target))
    status, out, err = run("call", "--config", config(weather=entry("weather.py")), "add", "a=1")
    assert (status, out) == (0, "2\n")
    assert err.startswith("warning: argument 'weather.py' looks like a relative path")


@pytest.mark.parametrize("servers, options, problem", [
    ({}, [], "choose a server with --server: the file has none"),
    ({"a": {"command": "x"}, "b": {"command": "y"}}, [], "choose a server with --server: a, b"),
    ({"a": {"command": "x"}, "b": {}}, [], "choose a server with --server: a, b"),
    ({"a": {"command": "x"}}, ["--server", "c"], "has no server 'c'; it has a"),
    ({"a": {"command": "x"}, "b": {}}, ["--server", "b"], "server 'b': needs a 'command'"),
    ({"b": {}}, [], "server 'b': needs a 'command'"),
])
def test_an_ambiguous_configuration(run, config, servers, options, problem):
    status, out, err = run("call", "--config", config(**servers), *options, "add")
    assert (status, out) == (2, "")
    assert problem in err


# --- exit statuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words, problem", [
    (["list"], "list: TARGET is missing; write: list TARGET"),
    (["list", "a.py", "more"], "list: 'more' is one argument too many; write: list TARGET"),
    (["describe", "a.py", "one", "two"], "describe: 'two' is one argument too many; write: describe TARGET [NAME]"),
    (["call", "a.py"], "call: TOOL is missing; write: call TARGET TOOL [key=value ...]"),
    (["read", "a.py"], "read: URI is missing"),
    (["read", "a.py", "n://1", "n://2"], "read: 'n://2' is one argument too many"),
    (["prompt", "a.py"], "prompt: PROMPT is missing"),
    (["complete", "a.py", "p"], "complete: ARGUMENT=VALUE is missing"),
    (["request", "a.py"], "request: METHOD is missing; write: request TARGET METHOD [name:=json ...]"),
    (["watch"], "watch: TARGET is missing; write: watch TARGET [URI ...]"),
    (["ping", "a.py", "more"], "ping: 'more' is one argument too many"),
    (["ping", "--config", "a.json", "more"], "ping: 'more' is one argument too many"),
    (["call", "--config", "a.json"], "call: TOOL is missing"),
    (["ping", "missing.json"], "there is no configuration file"),
    (["ping", "missing.json:git"], "there is no configuration file"),
    (["ping", "--config", "missing.json"], "there is no configuration file"),
    (["ping", "--server", "x", "a.py"], "--server names a server in a file: give the file with --config"),
    (["ping", "a.py", "--env", "COLOR"], "--env COLOR: there is no variable COLOR to pass on; write COLOR=VALUE to set it"),
    (["ping", "a.py", "--env", "=red"], "--env '=red': write KEY=VALUE"),
    (["ping", ""], "the command is empty"),
    (["ping", "a.py", "--timeout", "0"], "--timeout must be positive"),
    (["ping", "a.py", "--revision", "1999-01-01"], "1999-01-01"),
])
@pytest.mark.slow
def test_2_wrong_usage(run, tmp_path, monkeypatch, words, problem):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLOR", raising=False)
    (tmp_path / "a.py").write_text("")
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert problem in err


@pytest.mark.parametrize("words", [[], ["dance"], ["list", "a.py", "--loud"], ["list", "a.py", "--json", "b", "-x"],
                                   ["list", "a.py", "--timeout", "soon"], ["list", "a.py", "--output", "x"]])
def test_2_words_that_argparse_refuses(capsys, words):
    with pytest.raises(SystemExit) as caught:
        command_line.main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m mcplite")


def test_2_an_argument_of_the_wrong_type(run, target):
    assert run("call", target, "add", "a=two") == (2, "", "a must be of the type integer, not 'two'\n")


@pytest.mark.slow
def test_1_the_tool_reported_an_error(run, target):
    assert run("call", target, "fail") == (1, "", "it went\\x07 wrong\n")
    status, out, _ = run("call", target, "fail", "--json")
    assert (status, json.loads(out)["isError"]) == (1, True)


@pytest.mark.parametrize("words", [["call", "nothing"], ["read", "note://nothing"], ["prompt", "nothing"]])
@pytest.mark.slow
def test_3_the_server_answered_with_an_error(run, target, words):
    status, out, err = run(words[0], target, *words[1:])
    assert (status, out) == (3, "")
    assert "nothing" in err


@pytest.mark.parametrize("place", ["missing.py", "no-such-program-anywhere", f"{sys.executable} -c pass"])
def test_4_no_connection(run, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    status, out, err = run("ping", place)
    assert (status, out) == (4, "")
    assert err


def test_4_the_connection_was_lost(run, target):
    status, out, err = run("call", target, "end")
    assert (status, out) == (4, "")
    assert "exited with status 7" in err and "last words" in err


def test_5_no_answer_in_time(run, target):
    status, out, err = run("call", target, "hang", "--timeout", "1")
    assert (status, out) == (5, "")
    assert err


@pytest.mark.parametrize("error, status", [
    (RequestTimeout("x"), 5), (TransportError("x"), 4), (ConnectionClosed("x"), 4), (InvalidParams("x"), 3),
    (NotSupported("x"), 3), (Cancelled("x"), 3), (MCPError("x"), 3), (ValueError("x"), 2), (TypeError("x"), 2)])
def test_each_error_has_its_exit_status(monkeypatch, capsys, error, status):
    def fail(options):
        raise error

    monkeypatch.setattr(program, "_run", fail)
    assert command_line.main(["ping", "x"]) == status
    said = "the server answered: x" if status == 3 and isinstance(error, InvalidParams) else str(error)
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.skipif(os.name != "posix", reason="SIGINT can be sent to one process on POSIX only")
@pytest.mark.slow
def test_130_interrupted(target):
    child = subprocess.Popen([sys.executable, "-m", "mcplite", "call", "--log-level", "info", target, "hang"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    try:
        assert b"hanging" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert (child.returncode, out) == (130, b"")
    assert err.decode().splitlines()[-1] == "interrupted"
    assert b"Traceback" not in err


# --- where the output goes ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 200_000])
@pytest.mark.slow
def test_a_closed_stdout_is_not_an_error(target, count):
    read, write = os.pipe()
    os.close(read)
    try:
        ran = process("call", target, "lines", f"count={count}", stdout=write)
    finally:
        os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


@posix_only
@pytest.mark.parametrize("streams, status", [
    (">&-", 6), (">&- 2>&-", 6), (">/dev/full", 6), ("2>&-", 0), ("<&-", 0), ("<&- 2>&-", 0), ("2>/dev/full", 0)])
@pytest.mark.slow
def test_streams_that_are_closed_or_full_are_no_traceback(target, streams, status):
    if "/dev/full" in streams and not os.path.exists("/dev/full"):
        pytest.skip("this system has no device that is always full")
    ran = subprocess.run(["sh", "-c", f'"$0" -m mcplite call "$1" add a=1 {streams}', sys.executable, target],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60)
    assert ran.returncode == status and b"Traceback" not in ran.stderr
    assert ran.stdout == (b"2\n" if status == 0 else b"")


@posix_only
@pytest.mark.slow
def test_an_error_where_stderr_is_closed_has_its_status_and_stays_out_of_stdout(target):
    ran = subprocess.run(["sh", "-c", '"$0" -m mcplite call "$1" nothing 2>&-', sys.executable, target],
                         stdout=subprocess.PIPE, env=ENVIRONMENT, timeout=60)
    assert (ran.returncode, ran.stdout) == (3, b"")


@pytest.mark.slow
def test_output_in_an_encoding_that_lacks_letters(target):
    ran = process("call", target, "say", "text=città 🌍", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"})
    assert (ran.returncode, ran.stdout.decode().strip(), ran.stderr) == (0, "citt\\xe0 \\U0001f30d", b"")


@pytest.mark.parametrize("words, text", [
    (["cal", "x.py"], "there is no command 'cal'; did you mean 'call'?"), (["frobnicate"], "there is no command 'frobnicate'"),
    (["call", "x.py", "--tabel"], "--tabel; did you mean '--table'?"), (["ping", "x.py", "--timout=3"], "mean '--timeout'?"),
    ([], "usage: python -m mcplite [-h] [--version] COMMAND"), ([], "call a tool"),
])
def test_wrong_usage_says_what_was_meant(words, text):
    ran = process(*words)
    assert (ran.returncode, ran.stdout) == (2, b"") and text in ran.stderr.decode()


def test_a_target_alone_is_described(target):
    ran = process(target)
    assert (ran.returncode, ran.stderr) == (0, b"") and ran.stdout == process("describe", target).stdout
    assert process(target, "--json").stdout == process("describe", target, "--json").stdout


# --- help --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, taught", [
    (["--help"], "usage: python -m mcplite [-h]"),
    (["call", "--help"], "usage: python -m mcplite call [options] TARGET TOOL [key=value ...]"),
    (["--help"], "python -m mcplite call weather.py forecast city=Rome days:=3"),
    (["list", "--help"], "examples:\n  python -m mcplite list weather.py\n"),
    (["call", "--help"], "key=@file is the text of a file"),
    (["complete", "--help"], "Complete an argument of a prompt or of a resource template."),
    (["login", "--help"], "usage: python -m mcplite login [options] URL"),
    (["logout", "--help"], "python -m mcplite login https://example.com/mcp --no-browser"),
    (["token", "--help"], "python -m mcplite token https://example.com/mcp --header | curl -H @-"),
    (["--version"], f"mcplite {mcplite.__version__}\n"),
])
@pytest.mark.slow
def test_help_teaches(words, taught):
    ran = process(*words)
    assert ran.returncode == 0
    assert taught in ran.stdout.decode().replace("\r\n", "\n")


def test_the_page_names_the_options_of_login():
    page = (PACKAGE.parent / "docs" / "command-line.rst").read_text("utf-8")
    said = re.findall(r"^   \* - ``(--[a-z-]+)", page, re.MULTILINE)
    shown = re.findall(r"^  (--[a-z-]+)", process("login", "--help").stdout.decode(), re.MULTILINE)
    assert sorted(said) == sorted(shown)


def test_help_of_a_copy_under_another_name(tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "__init__.py").write_text("")
    shutil.copytree(PACKAGE, tmp_path / "ours" / "copied", ignore=shutil.ignore_patterns("__pycache__"))
    for module, extra in (("ours.copied", "list weather.py"), ("ours.copied.server", '"ours.copied.server"')):
        ran = subprocess.run([sys.executable, "-m", module, "--help"], cwd=str(tmp_path), stdout=subprocess.PIPE,
                             timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True)
        text = ran.stdout.decode()
        assert text.startswith(f"usage: python -m {module} ")
        assert extra in text
        assert "mcplite" not in text
