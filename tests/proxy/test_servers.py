"""A mounted server of this process: its functions, its lifespan, its middleware and its changes."""

import contextlib
import queue
import threading

import pytest

import mcplite
from tests.support.children import wait_until

LIMIT = 30


def test_the_lifespan_of_the_mounted_server():
    entered = []

    @contextlib.contextmanager
    def lifespan(server):
        entered.append("in")
        yield {"db": 1}
        entered.append("out")

    inner = mcplite.Server("inner", lifespan=lifespan)

    @inner.tool()
    def value(ctx: mcplite.Context) -> dict:
        return ctx.lifespan

    hub = mcplite.Server("hub")
    hub.mount(inner, prefix="i")

    @hub.tool()
    def own(ctx: mcplite.Context) -> bool:
        return ctx.lifespan is None

    with mcplite.connect(hub) as client:
        assert client.call_tool("i_value").structured_content == {"db": 1}
        assert client.call_tool("own").data is True
        assert entered == ["in"]
    hub.close()
    assert entered == ["in", "out"]


def test_the_middleware_of_both_servers_sees_a_call_by_its_own_name():
    seen = []

    def middleware(where):
        def around(ctx, proceed):
            result = proceed()
            if ctx.method == "tools/call":
                seen.append((where, ctx.params["name"], result["content"][0]["text"]))
            return result
        return around

    inner = mcplite.Server("inner", middleware=[middleware("inner")])
    inner.add_tool(lambda: "hi", name="greet")
    hub = mcplite.Server("hub", middleware=[middleware("hub")])
    hub.mount(inner, prefix="i")
    with mcplite.connect(hub) as client:
        assert client.call_tool("i_greet").text == "hi"
    assert seen == [("inner", "greet", "hi"), ("hub", "i_greet", "hi")]


def test_changes_of_the_mounted_server_are_told():
    inner, hub = mcplite.Server("inner"), mcplite.Server("hub", declare=["tools"])
    hub.mount(inner, prefix="i")
    changed = threading.Event()
    with mcplite.connect(hub, on_tools_changed=changed.set) as client:
        inner.add_tool(lambda: 1, name="new")
        assert changed.wait(LIMIT)
        assert [tool.name for tool in client.list_tools()] == ["i_new"]
        inner.remove_tool("new")
        assert client.list_tools(fresh=True) == []


def test_masked_errors_are_those_of_the_mounted_server():
    inner = mcplite.Server("inner", mask_errors=True)

    @inner.tool()
    def fail() -> str:
        raise ValueError("a secret of ours")

    hub = mcplite.Server("hub")
    hub.mount(inner, prefix="i")
    with mcplite.connect(hub) as client:
        assert client.call_tool("i_fail").text == "Tool fail failed"


def test_templates_and_files_of_the_mounted_server(tmp_path):
    (tmp_path / "a.txt").write_text("A")
    inner = mcplite.Server("inner")
    inner.add_directory("file:///maps", str(tmp_path))
    hub = mcplite.Server("hub")
    hub.mount(inner, prefix="i")
    with mcplite.connect(hub) as client:
        assert client.read_resource("file:///maps/a.txt").text == "A"
        assert "file:///maps/a.txt" in [resource.uri for resource in client.list_resources()]
        assert client.read_resource("i+file:///maps/a.txt").text == "A"


def by_server(inner, hub, prefix):
    hub.mount(inner, prefix=prefix)


def by_client(inner, hub, prefix):
    hub.mount(mcplite.connect(inner, cache=False), prefix=prefix)


@pytest.mark.parametrize("mount", [by_server, by_client])
def test_uris_of_the_mounted_server_are_found_in_any_form(mount):
    inner, hub, updated = mcplite.Server("inner"), mcplite.Server("hub", declare=["resources"]), queue.Queue()
    for uri in ("notes://café", "file:///srv/my notes.txt", "http://Example.com"):
        inner.add_resource(uri, lambda uri=uri: uri, name="n")
    inner.add_resource("Notes://日本/{name}", lambda name: name, name="t")
    hub.add_resource("notes://caf%c3%a9", lambda: "of the hub", name="own")
    mount(inner, hub, "i")
    with mcplite.connect(hub, cache=False, on_resource_updated=updated.put) as client:
        wait_until(lambda: len(client.list_resources()) == 4)
        for resource in client.list_resources():
            assert client.read_resource(resource.uri).text
        for uri, text in (("Notes://café", "of the hub"), ("I+Notes://caf%c3%a9", "notes://café"), ("HTTP://example.com/",
         "http://Example.com"),
                          ("file:///srv/my%20notes.txt", "file:///srv/my notes.txt"), ("notes://日本/a b", "a b")):
            assert client.read_resource(uri).text == text
        client.subscribe_resource("file:///srv/my notes.txt")
        inner.resource_updated("file://localhost/srv/my%20notes.txt")
        assert updated.get(timeout=LIMIT) == "file:///srv/my notes.txt"


def test_a_tool_with_a_question_in_a_fleet():
    inner = mcplite.Server("inner")
    calls = []

    @inner.tool()
    def ask(ctx: mcplite.Context) -> str:
        calls.append(ctx.once("first", lambda: len(calls)))
        return ctx.elicit("Sure?").action

    hub = mcplite.Server("hub", fleet=True, state_keys=["k" * 32])
    hub.mount(inner, prefix="i")
    with mcplite.serve(hub, port=0) as httpd:
        with mcplite.connect(httpd.url, era="modern", elicitation_handler=lambda request: True) as client:
            assert client.call_tool("i_ask").data == "accept"
    assert calls == [0, 0]
