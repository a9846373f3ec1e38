"""The ranking of tools: which fit which words."""

import pytest

from mcplite.protocol.tool_index import ToolIndex, words_of
from mcplite.types import Tool


def tool(name, description=None, **properties):
    return Tool(name, {"type": "object", "properties": {key: {"description": text} for key, text in properties.items()}},
                description=description)


@pytest.mark.parametrize("text, words", [
    ("listPullRequests", ["list", "pull", "request"]), ("get_HTTP_status", ["get", "http", "status"[:-1]]),
    ("Über die Brücken", ["über", "die", "brücken"]), ("天気予報", ["天気", "気予", "予報"]), ("class", ["class"]), ("--", []),
    ("созданиеЗадач", ["созданиезадач"]),
])
def test_words(text, words):
    assert words_of(text) == words


TOOLS = [
    tool("create_issue", "Open a new issue in a repository.", title="Its title"),
    tool("list_issues", "List the issues of a repository.", state="open or closed"),
    tool("delete_branch", "Delete a branch."),
    tool("weather", "The forecast for a city.", city="Name of the city"),
    tool("search_orders", "Bestellungen eines Kunden finden.", kunde="Name des Kunden"),
    tool("tenki", "都市の天気予報を調べる。"),
]


@pytest.mark.parametrize("query, first", [
    ("create an issue", "create_issue"), ("list issues", "list_issues"), ("remove branch", "delete_branch"),
    ("which forecast", "weather"), ("Bestellungen von Kunden", "search_orders"), ("天気", "tenki"),
    ("CREATE ISSUES", "create_issue"), ("orders", "search_orders"), ("city", "weather"),
])
def test_what_fits_comes_first(query, first):
    assert ToolIndex(TOOLS).search(query, 3)[0].name == first


def test_what_does_not_fit_is_not_found():
    assert ToolIndex(TOOLS).search("quantum teleportation", 5) == [] and ToolIndex([]).search("issue", 5) == []
    assert len(ToolIndex(TOOLS).search("a", 2)) <= 2


def test_a_model_reads_what_was_found_and_what_was_not():
    index = ToolIndex(TOOLS)
    answer, found = index.answer_search("forecast for a city", 1, "Found:")
    assert answer.text == "Found:\nweather: The forecast for a city." and [tool.name for tool in found] == ["weather"]
    answer, found = index.answer_description("weather")
    assert '"city": {"description": "Name of the city"}' in answer.text and [tool.name for tool in found] == ["weather"]
    for answer, found in (index.answer_search(["city"], 1, ""), index.answer_description({}), index.answer_description("none")):
        assert answer.is_error and found == []
    assert index.refreshed(list(TOOLS)) is index and index.refreshed(TOOLS[1:]).tools == TOOLS[1:]
