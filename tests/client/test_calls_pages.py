"""What every call goes through: pages of lists, with their deadline and their options."""

import threading

import pytest

import mcplite
from mcplite.client.calls import walk
from mcplite.errors import ProtocolError, RequestTimeout
from mcplite.types import ListPromptsResult, Prompt
from tests.support.fakes import SILENCE, Fake


def tool(name="count", **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


# --- lists ---------------------------------------------------------------------------------------------------

LISTS = [
    ("tools", "tools/list", "tools", lambda name: tool(name)),
    ("resources", "resources/list", "resources", lambda name: {"name": name, "uri": f"a://{name}"}),
    ("resource_templates", "resources/templates/list", "resourceTemplates",
     lambda name: {"name": name, "uriTemplate": f"a://{name}/{{x}}"}),
    ("prompts", "prompts/list", "prompts", lambda name: {"name": name}),
]


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_lists_come_from_all_pages(kind, method, member, make):
    # PAGE-01, PAGE-02, PAGE-03, PAGE-05, PAGE-06, PAGE-11
    pages = {None: (["a", "b"], ""), "": ([], "\u2603 =&"), "\u2603 =&": (["c"], None)}

    def listing(params):
        names, cursor = pages[(params or {}).get("cursor")]
        return {member: [make(name) for name in names], "nextCursor": cursor}

    with Fake({method: listing}) as fake, fake.connect() as client:
        assert [item.name for item in getattr(client, f"list_{kind}")()] == ["a", "b", "c"]
        page = getattr(client, f"list_{kind}_page")()
        assert [item.name for item in getattr(page, kind)] == ["a", "b"] and page.next_cursor == ""
        page = getattr(client, f"list_{kind}_page")("\u2603 =&")
        assert [item.name for item in getattr(page, kind)] == ["c"] and page.next_cursor is None
        assert fake.got(method).get("params") is None and fake.got(method, 2)["params"] == {"cursor": ""}


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_a_list_without_an_end_is_an_error(kind, method, member, make):
    with Fake({method: {member: [], "nextCursor": "again"}}) as fake, fake.connect() as client:
        with pytest.raises(ProtocolError, match="'again' twice"):
            getattr(client, f"list_{kind}")()  # PAGE-12
        assert fake.methods().count(method) == 2


def test_all_pages_together_have_one_deadline():
    numbers, never = iter(range(10_000)), threading.Event()

    def slow(params):
        never.wait(0.05)
        return {"tools": [], "nextCursor": str(next(numbers))}

    with Fake({"tools/list": slow}) as fake, fake.connect() as client:
        with pytest.raises(RequestTimeout, match=r"all pages of its tools came within 0[.]5 s \(max_timeout\)"):
            client.list_tools(max_timeout=0.5)  # TIME-01
        assert 1 < fake.methods().count("tools/list") < 100


def test_no_page_is_requested_after_the_deadline():
    def late(method, params, proceed):
        result = proceed()
        threading.Event().wait(0.4)
        return result

    with Fake({"tools/list": {"tools": [], "nextCursor": "x"}}) as fake, fake.connect(middleware=[late]) as client:
        with pytest.raises(RequestTimeout, match="all pages of its tools"):
            client.list_tools(max_timeout=0.2)
        assert fake.methods().count("tools/list") == 1


def test_a_list_may_have_no_deadline():
    pages = {None: {"tools": [], "nextCursor": "x"}, "x": {"tools": [tool("last")]}}
    with Fake({"tools/list": lambda params: pages[(params or {}).get("cursor")]}) as fake, fake.connect() as client:
        assert [item.name for item in client.list_tools(timeout=None, max_timeout=None)] == ["last"]


def test_options_reach_every_page():
    with Fake({"tools/list": lambda params: SILENCE}) as fake, fake.connect() as client:
        with pytest.raises(RequestTimeout):
            client.list_tools(timeout=0.1)
        token = mcplite.CancelToken()
        token.cancel()
        with pytest.raises(mcplite.Cancelled):
            client.list_tools(cancel=token)


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_invalid_items_are_left_out_and_counted(kind, method, member, make, caplog):
    items = [make("good"), {}, None, {**make("bad"), "name": 3}, make("fine")]
    with Fake({method: {member: items, "nextCursor": "x", "_meta": {"m": 1}, "more": 1}}) as fake, fake.connect() as client:
        page = getattr(client, f"list_{kind}_page")()
        assert [item.name for item in getattr(page, kind)] == ["good", "fine"]  # SEC-67
        assert page.next_cursor == "x" and page.meta == {"m": 1} and page.extra == {"more": 1}
    assert f"3 of the {kind.replace('_', ' ')}" in caplog.text and "fake server" in caplog.text


@pytest.mark.parametrize("kind, method, member, make", LISTS, ids=[row[0] for row in LISTS])
def test_an_invalid_page_is_an_error(kind, method, member, make):
    for wire in ({}, {member: {}}, {member: None}, {member: [make("a")], "nextCursor": 3}, {member: [{}], "nextCursor": {}}):
        with Fake({method: wire}) as fake, fake.connect() as client, pytest.raises(ProtocolError):
            getattr(client, f"list_{kind}_page")()


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


@pytest.mark.parametrize("first", [[(["a", "b"], "")], [([], "")], [(["x"], "1"), (["a", "b"], "")]])
def test_an_empty_cursor_that_leads_to_the_same_page_ends_the_list(first):
    # as servers in Go send it whose type has no "omitempty"
    page = pages(*first, (first[-1][0], ""))
    assert [item.name for item in walk(page, "prompts", "it")] == [name for names, _ in first for name in names]


def test_an_empty_cursor_that_leads_to_other_pages_for_ever_is_an_error():
    with pytest.raises(ProtocolError, match="it gave the cursor '' twice"):
        walk(pages((["a"], ""), (["b"], "")), "prompts", "it")


@pytest.mark.parametrize("items, text, pages", [(0, "1000 pages.*list_prompts_page", 1000), (3000, "10000 prompts", 4)])
def test_pages_and_items_are_bounded(items, text, pages):
    count = 0

    def page(cursor):
        nonlocal count
        count += 1
        return ListPromptsResult([Prompt("x")] * items, str(count))

    with pytest.raises(ProtocolError, match=text):
        walk(page, "prompts", "it")
    assert count == pages
