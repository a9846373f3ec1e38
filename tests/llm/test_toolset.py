import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mcplite
from mcplite import llm
from mcplite.client.config import Config, ServerConfig
from mcplite.client.group import Group
from mcplite.errors import ConnectionClosed
from mcplite.revisions import REVISIONS
from tests.support.models import LIMIT, make_tools

ROOT = Path(mcplite.__file__).resolve().parent.parent


def names(kit):
    return [tool["name"] for tool in kit.tools]


def ask(kit, name, arguments=None, **options):
    """Call a tool; return whether that failed, and the text for the model."""
    found = kit.call({"type": "tool_use", "id": "1", "name": name, "input": arguments}, **options)
    return found.get("is_error", False), "\n".join(block["text"] for block in found["content"])


# --- which tools -------------------------------------------------------------------------------------


def test_all_tools_under_names_that_apis_take(client):
    kit = llm.anthropic_tools(client)
    assert names(kit) == ["weather__forecast", "chart", "fails", "everything", "nothing"]
    assert kit.tool("weather__forecast").name == "weather.forecast"
    assert "weather__forecast" in kit and "forecast" not in kit and 3 not in kit
    with pytest.raises(KeyError):
        kit.tool("forecast")


def test_a_choice_of_tools(client):
    assert names(llm.anthropic_tools(client, only=["chart", "weather.forecast"])) == ["weather__forecast", "chart"]
    assert names(llm.anthropic_tools(client, exclude={"chart", "everything"})) == ["weather__forecast", "fails", "nothing"]
    assert names(llm.anthropic_tools(client, only=lambda tool: "city" in tool.input_schema["properties"],
                                     exclude=["fails"])) == ["weather__forecast", "chart"]
    assert names(llm.anthropic_tools(client, exclude=lambda tool: True)) == []


def test_one_string_is_no_choice(client):
    for option in ("only", "exclude"):
        with pytest.raises(TypeError, match=rf"write {option}=\['chart'\]"):
            llm.anthropic_tools(client, **{option: "chart"})


def test_a_choice_of_a_name_that_is_not_listed_is_logged_once(client, caplog):
    kit = llm.anthropic_tools(client, only=["chart", "chrat"])
    assert names(kit) == names(kit) == ["chart"]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "only= or exclude= names the tool 'chrat', which is not listed; there is: chart, everything, fails, nothing,"
        " weather.forecast"]


@pytest.mark.parametrize("revision", [REVISIONS[0].name, REVISIONS[-1].name])
def test_the_list_follows_the_server(revision):
    server = make_tools()
    with mcplite.connect(server, revision=revision) as client:
        kit = llm.anthropic_tools(client)
        assert "later" not in names(kit)
        server.add_tool(lambda: "now", name="later")
        client.list_tools(fresh=True)
        assert "later" in names(kit) and ask(kit, "later") == (False, "now")
        server.remove_tool("later")
        client.list_tools(fresh=True)
        assert "later" not in names(kit)
        assert ask(kit, "later")[0]


def test_names_stay_when_the_list_changes(client):
    kit = llm.anthropic_tools(client, only=lambda tool: tool.name in chosen)
    chosen = {"weather.forecast"}
    assert names(kit) == ["weather__forecast"]
    chosen = {"weather.forecast", "chart"}
    assert names(kit) == ["weather__forecast", "chart"]


def test_a_group():
    config = Config({name: ServerConfig(name, "stdio", command=name) for name in ("a", "b.c")})
    with Group(config, lambda server: mcplite.connect(make_tools())) as group:
        kit = llm.anthropic_tools(group, only=["a__chart", "b.c__weather.forecast"])
        assert names(kit) == ["a__chart", "b__c__weather__forecast"]
        assert ask(kit, "b__c__weather__forecast", {"city": "Rome"}) == (False, "Rome: sun for 3 days")


# --- what goes wrong is told to the model -------------------------------------------------------------


def test_a_name_that_does_not_exist(client):
    assert ask(llm.anthropic_tools(client, exclude=["chart"]), "chart", {"city": "Rome"}) == (
        True, "There is no tool chart. There is: weather__forecast, fails, everything, nothing.")
    kit = llm.anthropic_tools(client)
    assert ask(kit, "forecast") == (True, "There is no tool forecast; did you mean 'weather__forecast'?")
    assert ask(kit, "x\n" * 200)[1].startswith("There is no tool x x x x")


@pytest.mark.parametrize("arguments, said", [
    ({}, "city: is required"), ({"city": 3}, "city"), ([], "the arguments must be a JSON object, not list"),
    ("{", "the arguments are not valid JSON"), ("[1]", "the arguments must be a JSON object, not list"),
    ({"city": float("nan")}, "the arguments cannot be sent as JSON"),
    ({"city": "\ud800"}, "the arguments cannot be sent as JSON"),
    ('{"city": NaN}', "the arguments cannot be sent as JSON"),
])
def test_arguments_that_do_not_fit(client, arguments, said):
    failed, text = ask(llm.anthropic_tools(client), "weather__forecast", arguments)
    assert failed and said in text


@pytest.mark.parametrize("arguments", [None, "", "{}", b"{}", {}])
def test_no_arguments(client, arguments):
    assert ask(llm.anthropic_tools(client), "nothing", arguments) == (False, "")


def test_a_connection_that_is_lost(client, caplog):
    kit = llm.anthropic_tools(client)
    assert kit.tools
    client.fail(ConnectionClosed("the server ended", stderr_tail="a secret"))
    failed, text = ask(kit, "chart", {"city": "Rome"})
    assert failed and text.startswith("The tool could not be called: ") and "secret" not in text
    assert "the tool 'chart' could not be called" in caplog.text


def test_a_middleware_may_stop_a_call():
    def approve(method, params, proceed):
        if method == "tools/call" and params["name"] == "weather.forecast":
            raise mcplite.ToolError("The user did not allow this call.")
        return proceed()

    with mcplite.connect(make_tools(), middleware=[approve]) as client:
        assert ask(llm.anthropic_tools(client), "weather__forecast", {"city": "Rome"}) == (
            True, "The user did not allow this call.")


def test_a_mistake_in_a_middleware_is_not_hidden():
    def broken(method, params, proceed):
        return proceed() if method != "tools/call" else {}["x"]

    with mcplite.connect(make_tools(), middleware=[broken]) as client, pytest.raises(KeyError):
        ask(llm.anthropic_tools(client), "nothing")


# --- time and cancellation ----------------------------------------------------------------------------


@pytest.fixture
def slow():
    """A client of a tool that waits until the test ends, and reports when it has begun."""
    server = mcplite.Server("slow")
    began, ended = threading.Event(), threading.Event()

    @server.tool()
    def wait(ctx: mcplite.Context) -> str:
        ctx.report_progress(1, message="waiting")
        began.set()
        ctx.on_cancel(ended.set)
        ended.wait(LIMIT)
        return "done"

    with mcplite.connect(server) as client:
        yield client, began
        ended.set()


@pytest.mark.parametrize("options", [{"timeout": 0.2}, {"max_timeout": 0.2}])
def test_a_timeout_is_told(slow, options):
    failed, text = ask(llm.anthropic_tools(slow[0]), "wait", **options)
    assert failed and text.startswith("The tool could not be called: ") and "0.2 s" in text


def test_progress(slow):
    client, began = slow
    seen = []

    def report(progress):
        seen.append(progress.message)
        token.cancel()

    token = mcplite.CancelToken()
    with pytest.raises(mcplite.Cancelled):
        ask(llm.anthropic_tools(client), "wait", on_progress=report, cancel=token)
    assert seen == ["waiting"]


# --- imports -------------------------------------------------------------------------------------------

FOREIGN = ("anthropic", "openai", "google", "langchain_core", "pydantic", "httpx")


@pytest.mark.parametrize("make", ["anthropic_tools", "openai_tools", "openai_responses_tools", "gemini_tools"])
@pytest.mark.slow
def test_nothing_foreign_is_imported_for_dicts(make):
    code = f"""
import sys, mcplite
from mcplite import llm
from tests.support.models import make_tools
with mcplite.connect(make_tools()) as client:
    kit = llm.{make}(client)
    assert kit.tools and "chart" in kit
print([name for name in {FOREIGN!r} if name in sys.modules])
print(sorted(name for name in sys.modules if name.startswith("mcplite.llm.")))
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, timeout=LIMIT, check=True)
    foreign, ours = ran.stdout.decode().splitlines()
    assert foreign == "[]"
    assert [name for name in ("anthropic", "openai", "gemini", "langchain") if f"mcplite.llm.{name}'" in ours] == {
        "anthropic_tools": ["anthropic"], "openai_tools": ["openai"], "openai_responses_tools": ["openai"],
        "gemini_tools": ["gemini"]}[make]


@pytest.mark.parametrize("given", [["a client", "another"], "server.py", mcplite.Server("s"), None])
@pytest.mark.parametrize("make", [llm.anthropic_tools, llm.openai_tools, llm.gemini_tools, llm.ToolSearch])
def test_what_has_no_tools(make, given):
    with pytest.raises(TypeError, match=r"^give a Client, as from connect\(server\), or a Group of several, .*, not "):
        make(given)
