"""Server.mount: what may be mounted, and under which names."""

import logging
import subprocess
import sys

import pytest

import mcplite


def weather(name="weather", **options):
    server = mcplite.Server(name, **options)

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
    return lambda server: mcplite.connect(server, era=request.param)


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
