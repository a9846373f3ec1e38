"""What every call goes through: pages of lists, with their deadline and their options."""

import threading

import pytest

import mcplite
from mcplite.errors import ProtocolError, RequestTimeout
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
    pages = {None: (["a", "b"], ""), "": ([], "\u2603 =&"), "\u2603 =&": (["c"], None)}

    def listing(params):
        names, cursor = pages[(params or {}).get("cursor")]
        return {member: [make(name) for name in names], "nextCursor": cursor}

    with Fake({method: listing}) as fake, fake.connect() as client:
        assert [item.name for item in getattr(client, f"list_{kind}")()] == ["a", "b", "c"]  # PAGE-01, PAGE-06, PAGE-11
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


def test_an_invalid_item_is_left_out_alone(caplog):
    items = [tool("good"), {"name": "bad"}, 3, tool("fine")]
    with Fake({"tools/list": {"tools": items}}) as fake, fake.connect() as client:
        assert [item.name for item in client.list_tools()] == ["good", "fine"]  # SEC-67
    assert "2 of the tools" in caplog.text and "fake server" in caplog.text
