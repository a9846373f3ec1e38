import asyncio

import pytest

import mcplite
from mcplite import llm
from mcplite.types import CallToolResult
from tests.support.models import PNG

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

BLOCKS = [{"type": "text", "text": "Chart of Rome"},
          {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]


def tools_of(client, **options):
    return {tool.name: tool for tool in llm.langchain_tools(client, **options)}


def call(name, **args):
    return {"type": "tool_call", "id": "c1", "name": name, "args": args}


def test_tools(client):
    tools = tools_of(client, exclude=["chart"])
    assert list(tools) == ["weather__forecast", "fails", "everything", "nothing"]
    assert tools["weather__forecast"].description == "The forecast for a city."
    assert tools["weather__forecast"].args == {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}


def test_integrations_read_the_schemas(client):
    from langchain_core.utils.function_calling import convert_to_openai_tool

    declared = convert_to_openai_tool(tools_of(client)["weather__forecast"])["function"]
    assert (declared["name"], declared["description"]) == ("weather__forecast", "The forecast for a city.")
    assert declared["parameters"]["properties"]["city"]["type"] == "string"
    assert convert_to_openai_tool(tools_of(client)["nothing"])["function"]["name"] == "nothing"


def test_invoke(client):
    tools = tools_of(client)
    assert tools["weather__forecast"].invoke({"city": "Rome"}) == "Rome: sun for 3 days"
    assert tools["nothing"].invoke({}) == ""
    assert tools["chart"].invoke({"city": "Rome"}) == BLOCKS


def test_invoke_in_an_event_loop(client):
    assert asyncio.run(tools_of(client)["weather__forecast"].ainvoke({"city": "Rome"})) == "Rome: sun for 3 days"


def test_a_call_of_a_model(client):
    message = tools_of(client)["chart"].invoke(call("chart", city="Rome"))
    assert (message.tool_call_id, message.status, message.content) == ("c1", "success", BLOCKS)
    assert isinstance(message.artifact, CallToolResult) and message.artifact.content[1].mime_type == "image/png"


@pytest.mark.parametrize("name, args, said", [
    ("fails", {"city": "Ur"}, "no station in Ur"),
    ("weather__forecast", {}, "city: is required"),
])
def test_errors_are_told_to_the_model(client, name, args, said):
    tool = tools_of(client)[name]
    message = tool.invoke(call(name, **args))
    assert message.status == "error" and said in message.content
    assert said in tool.invoke(args)


def test_arguments_that_langchain_has_names_for():
    server = mcplite.Server("odd")

    @server.tool(input_schema={"type": "object", "properties": {
        name: {"type": "string"} for name in ("config", "self", "run_manager", "callbacks", "a")}})
    def settings(**arguments) -> str:
        return repr(sorted(arguments.items()))

    with mcplite.connect(server) as client:
        tool = tools_of(client)["settings"]
        names = {name.rpartition("_")[0] or name: name for name in tool.args if name not in ("a", "callbacks")}
        assert set(names) == {"config", "self", "run_manager"}
        arguments = {names["config"]: "c", names["self"]: "s", names["run_manager"]: "r", "callbacks": "k", "a": "x"}
        assert tool.invoke(arguments) == repr(sorted(
            {"config": "c", "self": "s", "run_manager": "r", "callbacks": "k", "a": "x"}.items()))
