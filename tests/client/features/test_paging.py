import pytest

from mcplite.client.features.paging import read_page, walk
from mcplite.errors import ProtocolError
from mcplite.types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)


def pages(*rows):
    """Return a function of a cursor: the first row, or the one after the row with that cursor."""
    asked = []

    def page(cursor):
        asked.append(cursor)
        number = 0 if cursor is None else [row[1] for row in rows].index(cursor) + 1
        names, following = rows[number]
        return ListPromptsResult([Prompt(name) for name in names], following)

    page.asked = asked
    return page


@pytest.mark.parametrize("rows, names, asked", [
    ([([], None)], [], [None]),
    ([(["a"], None)], ["a"], [None]),
    ([(["a", "b"], "x"), ([], ""), (["c"], None)], ["a", "b", "c"], [None, "x", ""]),
])
def test_pages_are_walked_until_the_cursor_is_absent(rows, names, asked):
    page = pages(*rows)
    assert [item.name for item in walk(page, "prompts", "it")] == names
    assert page.asked == asked  # PAGE-02, PAGE-03, PAGE-05


@pytest.mark.parametrize("first", [[(["a", "b"], "")], [([], "")], [(["x"], "1"), (["a", "b"], "")]])
def test_an_empty_cursor_that_leads_to_the_same_page_ends_the_list(first):
    # as servers in Go send it whose type has no "omitempty"
    page = pages(*first, (first[-1][0], ""))
    assert [item.name for item in walk(page, "prompts", "it")] == [name for names, _ in first for name in names]


def test_an_empty_cursor_that_leads_to_other_pages_for_ever_is_an_error():
    with pytest.raises(ProtocolError, match="it gave the cursor '' twice"):
        walk(pages((["a"], ""), (["b"], "")), "prompts", "it")


def test_a_repeated_cursor_is_an_error():
    rows = [(["a"], "1"), (["b"], "2"), (["c"], "1")]
    with pytest.raises(ProtocolError, match="it gave the cursor '1' twice"):
        walk(pages(*rows), "prompts", "it")


def test_pages_are_bounded():
    count = 0

    def page(cursor):
        nonlocal count
        count += 1
        return ListPromptsResult([], str(count))

    with pytest.raises(ProtocolError, match="1000 pages.*list_prompts_page"):
        walk(page, "prompts", "it")
    assert count == 1000


def test_items_are_bounded():
    count = 0

    def page(cursor):
        nonlocal count
        count += 1
        return ListPromptsResult([Prompt("x")] * 3000, str(count))

    with pytest.raises(ProtocolError, match="10000 prompts"):
        walk(page, "prompts", "it")
    assert count == 4


LISTS = [
    (ListToolsResult, Tool, "tools", "tools", {"name": "a", "inputSchema": {}}),
    (ListResourcesResult, Resource, "resources", "resources", {"name": "a", "uri": "a://b"}),
    (ListResourceTemplatesResult, ResourceTemplate, "resourceTemplates", "resource_templates",
     {"name": "a", "uriTemplate": "a://{b}"}),
    (ListPromptsResult, Prompt, "prompts", "prompts", {"name": "a"}),
]


@pytest.mark.parametrize("page, kind, member, attribute, item", LISTS, ids=[row[2] for row in LISTS])
def test_invalid_items_are_left_out_and_counted(page, kind, member, attribute, item, caplog):
    wire = {member: [item, {}, None, {**item, "name": 3}, item], "nextCursor": "x", "_meta": {"m": 1}, "more": 1}
    result = read_page(page, wire, "it")
    assert [type(entry) for entry in getattr(result, attribute)] == [kind, kind]
    assert result.next_cursor == "x" and result.meta == {"m": 1} and result.extra == {"more": 1}
    assert f"it: 3 of the {attribute.replace('_', ' ')}" in caplog.text


@pytest.mark.parametrize("page, kind, member, attribute, item", LISTS, ids=[row[2] for row in LISTS])
def test_an_invalid_page_is_an_error(page, kind, member, attribute, item):
    for wire in ({}, {member: {}}, {member: None}, {member: [item], "nextCursor": 3}, {member: [{}], "nextCursor": {}}):
        with pytest.raises(ProtocolError):
            read_page(page, wire, "it")
