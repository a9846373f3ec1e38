"""Server.mount: what may be mounted, and under which names.

A mounted server of this process: its functions, its lifespan, its middleware and its changes.
"""

import contextlib
import logging
import queue
import subprocess
import sys
import threading

import pytest

import mcplite
from tests.support import connecting
from tests.support.children import wait_until
from tests.support.wsgi import serving_wsgi


def weather(name="weather", **options):
    server = connecting.new_server(name, **options)

    @server.tool()
    def forecast(city: str) -> str:
        return f"{name}: sunny in {city}"

    @server.resource("config://stations", mime_type="text/plain")
    def stations() -> str:
        return name

    @server.tool()
    def link() -> list:
        return [mcplite.types.ResourceLink(uri="config://stations", name="stations")]

    @server.prompt()
    def brief(city: str) -> str:
        return f"A briefing for {city}"

    @server.completion(prompt="brief", argument="city")
    def cities(value: str) -> list:
        return [f"{value}ome"]

    return server


@pytest.fixture(params=["server", "legacy", "modern"])
def mountable(request):
    """Return what turns a server into what is mounted: itself, or a client of it in one of the eras."""
    if request.param == "server":
        return lambda server: server
    return lambda server: mcplite.connect(server, options=mcplite.ClientOptions(era=request.param))


def test_a_server_is_a_part_of_another(mountable):
    hub = mcplite.Server("hub")
    hub.mount(mountable(weather()), prefix="weather")
    with mcplite.connect(hub) as client:
        assert [tool.name for tool in client.list_tools()] == ["weather_forecast", "weather_link"]
        assert client.call_tool("weather_forecast", {"city": "Rome"}).data == "weather: sunny in Rome"
        assert client.get_prompt("weather_brief", {"city": "Rome"}).messages[0].content.text == "A briefing for Rome"
        assert client.complete(prompt="weather_brief", argument="city", value="R").values == ["Rome"]
        assert client.read_resource("config://stations").text == "weather"
        with pytest.raises(mcplite.errors.InvalidParams, match="did you mean 'weather_forecast'"):
            client.call_tool("weather_forecasts", {})


def test_two_servers_with_the_same_uri(mountable):
    hub = mcplite.Server("hub")
    hub.mount(mountable(weather("one")), prefix="one")
    hub.mount(mountable(weather("two")), prefix="two")
    with mcplite.connect(hub) as client:
        assert [resource.uri for resource in client.list_resources()] == ["config://stations", "two+config://stations"]
        assert client.read_resource("config://stations").text == "one"
        assert client.read_resource("one+config://stations").text == "one"
        read = client.read_resource("two+config://stations")
        assert (read.text, read.contents[0].uri) == ("two", "two+config://stations")
        assert client.call_tool("two_link").content[0].uri == "two+config://stations"
        assert client.call_tool("one_link").content[0].uri == "config://stations"


def test_tools_are_renamed_and_hidden(mountable):
    hub = mcplite.Server("hub")
    hub.mount(mountable(weather()), tool=lambda name: "outlook" if name == "forecast" else None)
    with mcplite.connect(hub) as client:
        assert [tool.name for tool in client.list_tools()] == ["outlook"]
        assert client.call_tool("outlook", {"city": "Rome"}).data == "weather: sunny in Rome"
        with pytest.raises(mcplite.errors.InvalidParams):
            client.call_tool("link")


def test_mounts_are_nested(mountable):
    inner = mcplite.Server("inner")
    inner.mount(mountable(weather()), prefix="weather")
    hub = mcplite.Server("hub")
    hub.mount(mountable(inner), prefix="inner")
    with mcplite.connect(hub) as client:
        assert client.call_tool("inner_weather_forecast", {"city": "Rome"}).data == "weather: sunny in Rome"


def test_a_name_that_is_taken_is_refused():
    hub, server = weather("hub"), weather()
    with pytest.raises(mcplite.errors.RegistrationError, match="'forecast' of the server 'weather' would be 'forecast'"):
        hub.mount(server)
    hub.mount(server, prefix="w")
    with pytest.raises(mcplite.errors.RegistrationError, match="is one of the server 'weather'"):
        hub.add_tool(lambda: 1, name="w_forecast")
    with pytest.raises(mcplite.errors.RegistrationError, match="prefix='w'"):
        hub.mount(weather("other"), prefix="w")


def test_a_name_of_a_client_that_is_taken_is_reported(caplog):
    hub = weather("hub")
    hub.mount(mcplite.connect(weather()))
    with caplog.at_level(logging.WARNING), mcplite.connect(hub) as client:
        assert client.call_tool("forecast", {"city": "Rome"}).data == "hub: sunny in Rome"
    assert "the tool 'forecast' of the mounted server (weather) is left out" in caplog.text


def test_what_cannot_be_mounted():
    hub = mcplite.Server("hub")
    with pytest.raises(mcplite.errors.RegistrationError, match="not str"):
        hub.mount("https://example.com/mcp")
    with pytest.raises(mcplite.errors.RegistrationError, match="on itself"):
        hub.mount(hub)
    other = mcplite.Server("other")
    other.mount(hub, prefix="hub")
    with pytest.raises(mcplite.errors.RegistrationError, match="on itself"):
        hub.mount(other)
    with mcplite.connect(other) as client:
        with pytest.raises(mcplite.errors.RegistrationError, match="the client to mount is open"):
            hub.mount(client)


def test_the_proxy_is_loaded_by_the_first_mount():
    code = ("import sys, mcplite; hub = mcplite.Server('hub'); assert not any('.proxy' in name for name in sys.modules);"
            " hub.mount(mcplite.Server('other')); assert 'mcplite.proxy.mount' in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


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


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_mounted_handler_without_a_context_runs_on_the_thread_of_its_request(era, asks):
    # Unless something around it may ask the client: that thread sends the question.
    def ask(ctx, proceed):
        if ctx.method == "tools/call":
            ctx.elicit("Go on?")
            assert ctx.params["name"] == "where"
        return proceed()

    inner, hub = mcplite.Server("inner", middleware=[ask] if asks else []), mcplite.Server("hub")
    asked = []

    @inner.tool()
    def where() -> str:
        return threading.current_thread().name

    hub.mount(inner, prefix="i")
    application = hub.wsgi(path="/mcp")
    with contextlib.closing(application), serving_wsgi(application) as url, connecting.connect(
            url, era=era, timeout=LIMIT, elicitation_handler=lambda request: asked.append(request) or True) as client:
        for number in range(3):
            assert (client.call_tool("i_where").text == "mcplite worker") is asks
            assert len(asked) == asks * (number + 1)


def test_changes_of_the_mounted_server_are_told():
    inner, hub = mcplite.Server("inner"), mcplite.Server("hub", options=mcplite.ServerOptions(declare=["tools"]))
    hub.mount(inner, prefix="i")
    changed = threading.Event()
    with mcplite.connect(hub, options=mcplite.ClientOptions(on_tools_changed=changed.set)) as client:
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
    hub.mount(mcplite.connect(inner, options=mcplite.ClientOptions(cache=False)), prefix=prefix)


@pytest.mark.parametrize("mount", [by_server, by_client])
def test_uris_of_the_mounted_server_are_found_in_any_form(mount):
    inner, hub, updated = mcplite.Server(
            "inner"), mcplite.Server("hub", options=mcplite.ServerOptions(declare=["resources"])), queue.Queue()
    for uri in ("notes://café", "file:///srv/my notes.txt", "http://Example.com"):
        inner.add_resource(uri, lambda uri=uri: uri, name="n")
    inner.add_resource("Notes://日本/{name}", lambda name: name, name="t")
    hub.add_resource("notes://caf%c3%a9", lambda: "of the hub", name="own")
    mount(inner, hub, "i")
    with mcplite.connect(hub, options=mcplite.ClientOptions(cache=False, on_resource_updated=updated.put)) as client:
        wait_until(lambda: len(client.list_resources()) == 4)
        for resource in client.list_resources():
            assert client.read_resource(resource.uri).text
        for uri, text in (("Notes://café", "of the hub"), ("I+Notes://caf%c3%a9", "notes://café"), ("HTTP://example.com/",
         "http://Example.com"), ("file:///srv/my%20notes.txt", "file:///srv/my notes.txt"), ("notes://日本/a b", "a b")):
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
        with mcplite.connect(httpd.url, options=mcplite.ClientOptions(era="modern"),
                             elicitation_handler=lambda request: True) as client:
            assert client.call_tool("i_ask").data == "accept"
    assert calls == [0, 0]
