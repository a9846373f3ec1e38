"""Tool search: a model finds, reads and calls the tools of a client."""

import pytest

import mcplite
from mcplite import llm


@pytest.fixture
def many():
    mcp = mcplite.Server("many")
    for number in range(1000):
        mcp.add_tool(lambda: "unused", name=f"unit_{number}", description=f"Does the job with the number {number}.")

    @mcp.tool()
    def convert_currency(amount: float, currency: str) -> str:
        """Convert money into another currency."""
        return f"{amount * 2} {currency}"

    @mcp.tool(annotations={"destructiveHint": True})
    def drop_everything() -> str:
        """Convert all data to nothing."""
        return "gone"

    return mcp


def use(kit, called, /, **arguments):
    answer = kit.call({"type": "tool_use", "id": "t", "name": called, "input": arguments})
    return answer["content"][0]["text"], answer.get("is_error", False)


def test_a_model_finds_a_tool_among_many_and_calls_it(many):
    with mcplite.connect(many) as client:
        kit = llm.anthropic_tools(llm.ToolSearch(client, limit=3))
        assert [one["name"] for one in kit.tools] == ["search_tools", "describe_tool"]
        text, failed = use(kit, "search_tools", query="convert money to dollars")
        assert "convert_currency: Convert money into another currency." in text and not failed
        assert kit.tools[-1]["name"] == "convert_currency" and len(kit.tools) <= 5
        assert use(kit, "convert_currency", amount=4, currency="USD") == ("8.0 USD", False)
        text, _ = use(kit, "describe_tool", name="unit_7")
        assert "with the number 7" in text and "unit_7" in [one["name"] for one in kit.tools]
        assert use(kit, "unit_8") == ("There is no tool unit_8; did you mean 'unit_7'?", True)  # it was not found yet


@pytest.mark.parametrize("name, arguments, text", [
    ("search_tools", {}, "Give a query"), ("search_tools", {"query": 5}, "Give a query"),
    ("search_tools", {"query": "?!"}, "Give a query"),
    ("describe_tool", {"name": "none"}, "There is no tool none"), ("describe_tool", {}, "There is no tool"),
])
def test_what_the_model_gets_wrong(many, name, arguments, text):
    with mcplite.connect(many) as client:
        said, failed = use(llm.anthropic_tools(llm.ToolSearch(client)), name, **arguments)
        assert said.startswith(text) and failed
        assert use(llm.anthropic_tools(llm.ToolSearch(client)), "search_tools", query="zebra")[0].startswith("No tool has")


def test_tools_that_are_left_out_are_neither_found_nor_called(many):
    with mcplite.connect(many) as client:
        kit = llm.anthropic_tools(llm.ToolSearch(client, exclude=lambda one: one.name == "drop_everything"))
        assert "drop_everything" not in use(kit, "search_tools", query="convert all data to nothing")[0]
        for attempt in (use(kit, "drop_everything"), use(kit, "describe_tool", name="drop_everything")):
            assert attempt[1] and "There is no tool drop_everything" in attempt[0]
    with pytest.raises(ValueError, match="1 or more"):
        llm.ToolSearch(client, limit=0)


def test_the_list_follows_the_server(many):
    with mcplite.connect(many) as client:
        search = llm.ToolSearch(client)
        assert [tool.name for tool in search.search("convert currency")][0] == "convert_currency"
        many.remove_tool("convert_currency")
        many.add_tool(lambda: "seen", name="search_tools", description="The server's own.")
        assert [tool.name for tool in search.list_tools()][:2] == ["search_tools_here", "describe_tool"]
        assert "convert_currency" not in [tool.name for tool in search.list_tools()]
        assert search.call_tool("search_tools").text == "seen"


def test_several_servers_have_one_search(many):
    other = mcplite.Server("other")
    other.add_tool(lambda: "sunny", name="forecast", description="The weather of tomorrow.")
    both = mcplite.Server("both")
    both.mount(many, "many")
    both.mount(other, "other")
    with mcplite.connect(both) as client:
        kit = llm.openai_tools(llm.ToolSearch(client))
        call = {"id": "c", "type": "function", "function": {"name": "search_tools", "arguments": '{"query": "weather"}'}}
        assert "other_forecast" in kit.call(call)["content"]
        assert "other_forecast" in [one["function"]["name"] for one in kit.tools]
