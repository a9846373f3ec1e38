"""``python -m mcplite shell``: words of a line, completions, scripts, and a person at its prompt."""

import io
import os
import sys
from pathlib import Path
from typing import Literal

import pytest

import mcplite
from mcplite.cli import shell
from mcplite.cli.line_completions import Completions
from mcplite.cli.parser import UsageError
from tests.support.systems import posix_only

SERVER = '''
import time
import mcplite

mcp = mcplite.Server("desk")
count = 0

@mcp.tool()
def add(n: int = 1) -> int:
    global count
    count += n
    return count

@mcp.tool()
def wait(ctx: mcplite.Context) -> str:
    ctx.report_progress(1, message="waiting")
    ctx.token.wait(60)
    return "over"

@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    return ctx.elicit("Sure?").action

@mcp.tool()
def end() -> None:
    import os
    os._exit(3)
'''


@pytest.fixture
def program(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "data"))
    path = tmp_path / "desk.py"
    path.write_text(SERVER)
    return path


@pytest.mark.parametrize("text, words", [
    ("", []), ("  list  ", ["list"]), ("call add n=1", ["call", "add", "n=1"]),
    ("add text='a b' b=\"c d\"", ["add", "text=a b", "b=c d"]), (r'a "say \"hi\"" b\ c', ["a", 'say "hi"', "b c"]),
    ('add {"a": [1, "x y"]} n=2', ["add", '{"a": [1, "x y"]}', "n=2"]),
    ('add f:={"a":\n 1} g:=[1,\n2]', ["add", 'f:={"a":\n 1}', "g:=[1,\n2]"]),
    ("add f:='{\"a\": 1}'", ["add", 'f:={"a": 1}']), ("read note://{day}", ["read", "note://{day}"]),
    ("add n:=3 t:=\"x\"", ["add", "n:=3", "t:=x"]),
    (r'find p="\d+ \\ \$" q=\d', ["find", r"p=\d+ \ $", "q=d"]),
])
def test_the_words_of_a_line(text, words):
    assert shell.words_of(text) == words


@pytest.mark.parametrize("text", ["add 'a", 'add "a', 'add {"a": 1', 'add {"a', 'add f:=[1, {"b": 2}', "add \\"])
def test_a_line_that_goes_on(text):
    with pytest.raises(shell.Incomplete):
        shell.words_of(text)


@pytest.mark.parametrize("text", ["add {a: 1}", "add f:=[1,]"])
def test_what_is_no_json_is_an_error_at_once(text):
    with pytest.raises(UsageError, match="is not JSON"):
        shell.words_of(text)


@pytest.fixture
def client():
    server = mcplite.Server("desk")

    @server.tool()
    def forecast(city: str, units: str = "C", day: bool = True, places: list = ()) -> str:
        return city

    @server.tool()
    def paint(colour: Literal["red", "green"]) -> str:
        return colour

    @server.prompt()
    def summary(topic: str, length: str = "short") -> str:
        return topic

    @server.completion(prompt="summary", argument="topic")
    def topics(value: str) -> list:
        return [one for one in ("rain", "radio waves", "snow") if one.startswith(value)]

    @server.resource("note://today")
    def today() -> str:
        return ""

    @server.resource("note://{day}")
    def note(day: str) -> str:
        return day

    with mcplite.connect(server) as client:
        yield client


@pytest.mark.parametrize("words, begun, found", [
    ([], "li", ["list "]), ([], "p", ["prompt ", "ping ", "paint "]), (["call"], "", ["forecast ", "paint "]),
    (["call", "forecast"], "", ["city=", "units=", "day=", "places:="]), (["forecast", "city=x"], "c", []),
    (["paint"], "colour=r", ["colour=red "]), (["forecast"], "day=", ["day=true ", "day=false "]),
    (["prompt"], "", ["summary "]), (["prompt", "summary"], "", ["topic=", "length="]),
    (["prompt", "summary"], "topic=r", ["topic=rain "]), (["read"], "note", ["note://today"]),
    (["describe"], "note", ["note://today", "note://{day}"]), (["describe"], "su", ["summary"]),
    (["task"], "w", ["wait "]), (["help"], "re", ["read", "request"]), (["ping"], "", []), (["call", "nothing"], "", [])])
def test_completions(client, words, begun, found):
    assert Completions(client).of(words, begun) == found


def test_a_server_that_has_gone_has_no_completions(client):
    client.close()
    assert Completions(client).of(["call"], "") == []


def script(monkeypatch, capsys, program, text):
    from mcplite.__main__ import main

    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    status = main(["shell", str(program)])
    return (status, *capsys.readouterr())


@pytest.mark.parametrize("lines, status, out, err", [
    ("add n=2\n\n# note\ncall add {\"n\":\n 3}\n", 0, "2\n5\n", ""), ("add\nexit\nadd\n", 0, "1\n", ""),
    ("add n=2\nnothing\nadd\n", 2, "2\n", "there is no command and no tool 'nothing'"),
    ("ad\n", 2, "", "did you mean 'add'?"), ("add x=1\n", 1, "", "x"), ("request no/method\n", 3, "", "the server answered"),
    ("add --env A=b\n", 2, "", "--env is for the command that begins the shell"), ("call\n", 2, "", "TOOL is missing"),
    ("add {\"n\":", 2, "", "the end of stdin is within"), ("add {n}", 2, "", "is not JSON"),
    ("add --nonsense\n", 2, "", "--nonsense"), ("describe add --markdown\nrequest tools/list\n", 0, '"name": "add"', ""),
    ("add --json\nadd", 0, '"structuredContent"', ""), ("end\n", 4, "", "exit")])
def test_a_script_runs_up_to_the_first_error(monkeypatch, capsys, program, lines, status, out, err):
    ended, said, complained = script(monkeypatch, capsys, program, lines)
    assert ended == status, complained
    assert (said == out if "{" not in said else out in said) and err in complained


def test_help_lists_the_commands_and_tells_of_one(monkeypatch, capsys, program):
    status, out, _ = script(monkeypatch, capsys, program, "help\nhelp read\n")
    assert status == 0 and "watch " in out and "usage: " in out and "TARGET URI" in out


@posix_only
@pytest.mark.slow
def test_a_person_at_the_prompt(program, terminal):
    terminal.run("shell", program, controlling=True)
    terminal.expect(r"desk 0.1.0 .*Ctrl-D ends")
    terminal.expect("> ")
    terminal.type("ad\tn=4\n")
    terminal.expect(r"add n=4\n4\n> ")
    terminal.type('call add {"n":\n')
    terminal.expect(r"\. ")
    terminal.type("6}\n")
    terminal.expect(r"\n10\n> ")
    terminal.type("wait\n")
    terminal.expect("waiting")
    terminal.type("\x03")
    terminal.expect(r"interrupted\n> ")
    terminal.type("add n='")
    terminal.expect("add n='")
    terminal.interrupt("\n> ")  # at the prompt Ctrl-C drops the line
    terminal.type("ask\n")
    terminal.answer(r"\[y/n\]", "y")
    terminal.expect(r"accept\n> ")
    terminal.type("nothing\n")
    terminal.expect("no command and no tool")
    terminal.expect("> ")
    terminal.type("\x04")
    assert terminal.status() == 0
    history = os.path.join(os.environ["XDG_DATA_HOME"], "mcplite", "shell_history")
    if sys.platform == "linux":
        assert "wait" in Path(history).read_text().split("\n")
        assert os.stat(history).st_mode & 0o077 == 0


@posix_only
@pytest.mark.slow
def test_a_shell_without_readline(program, terminal, tmp_path, monkeypatch):
    (tmp_path / "readline.py").write_text("raise ImportError('as on Windows')\n")
    monkeypatch.setattr("tests.cli.conftest.ROOT", f"{tmp_path}{os.pathsep}{mcplite.__path__[0]}/..")
    terminal.run("shell", program)
    terminal.expect("> ")
    terminal.type("add n=4\n")
    terminal.expect(r"4\n> ")
    terminal.type("exit\n")
    assert terminal.status() == 0
