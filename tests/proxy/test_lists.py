"""The lists of a bridge: in pages of the size that the server behind it has, and with its hints."""

import pytest

import mcplite
from mcplite.proxy.bridge import open_bridge


def letters(**options):
    server = mcplite.Server("letters", **options)
    for name in "abcde":
        server.add_tool(lambda: "x", name=name)
    return server


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_a_list_comes_in_the_pages_of_the_server(upstream, downstream):
    with open_bridge(mcplite.connect(letters(page_size=2), era=upstream), shared=True) as bridge:
        with mcplite.connect(bridge, era=downstream) as client:
            first = client.list_tools_page()
            second = client.list_tools_page(first.next_cursor)
            assert [tool.name for tool in first.tools + second.tools] == list("abcd") and second.next_cursor
            assert [tool.name for tool in client.list_tools()] == list("abcde")


def test_a_list_of_one_page_stays_one_when_it_grows():
    server = letters()
    with open_bridge(mcplite.connect(server, era="modern"), shared=True) as bridge:
        with mcplite.connect(bridge, era="modern", cache=False) as client, client.listen(tools=True) as changes:
            server.add_tool(lambda: "x", name="f")
            assert changes.get(30) == mcplite.ToolsChanged()
            page = client.list_tools_page()
            assert len(page.tools) == 6 and page.next_cursor is None


def test_hints_are_those_of_the_server():
    hints = {"tools": mcplite.CacheHint(60, "public"), "discover": mcplite.CacheHint(30)}
    with open_bridge(mcplite.connect(letters(cache_lists=hints), era="modern"), shared=True) as bridge:
        with mcplite.connect(bridge, era="modern") as client:
            page = client.list_tools_page()
            assert (page.ttl_ms, page.cache_scope) == (60_000, "public")
            discovered = client.request("server/discover")
            assert (discovered["ttlMs"], discovered["cacheScope"]) == (30_000, "private")


def test_a_server_without_hints_has_those_of_a_server_that_sets_none():
    hints = {"tools": mcplite.CacheHint(60, "public")}
    with open_bridge(mcplite.connect(letters(cache_lists=hints), era="legacy"), shared=True) as bridge:
        with mcplite.connect(bridge, era="modern") as client:
            page = client.list_tools_page()
            assert (page.ttl_ms, page.cache_scope) == (0, "private")


def test_clients_get_one_notification_of_changed_resources():
    server = letters()
    server.add_resource("x://one", lambda: "x", name="one")
    server.add_resource("x://{name}", lambda name: name, name="template")
    with open_bridge(mcplite.connect(server, era="modern"), shared=True) as bridge:
        with mcplite.connect(bridge, era="modern", cache=False) as client:
            with client.listen(resource_list=True, tools=True) as changes:
                server.add_resource("x://two", lambda: "x", name="two")
                assert changes.get(30) == mcplite.ResourcesChanged()
                server.add_tool(lambda: "x", name="f")
                assert changes.get(30) == mcplite.ToolsChanged(), "and not the resources again"


def test_the_context_of_a_completion_is_left_out_for_a_server_that_does_not_know_it():
    server = letters()
    filled = []

    @server.prompt()
    def letter(name: str, to: str) -> str:
        return name

    @server.completion(prompt="letter", argument="name")
    def complete(value: str, given: dict) -> list:
        filled.append(given)
        return ["Ada"]

    for revision, expected in (("2025-03-26", {}), ("2025-06-18", {"to": "Eve"})):
        with open_bridge(mcplite.connect(server, revision=revision), shared=True) as bridge:
            with mcplite.connect(bridge, era="modern") as client:
                found = client.complete(prompt="letter", argument="name", value="A", context={"to": "Eve"})
                assert found.values == ["Ada"] and filled.pop() == expected
