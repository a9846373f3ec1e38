"""A bridge: a server that is another one."""

import pytest

import mcplite
from mcplite.proxy.bridge import open_bridge


def notes(**options):
    server = mcplite.Server("notes", version="7", title="Notes", instructions="Write things down.", **options)

    @server.tool(name="note.add")
    def add(text: str, ctx: mcplite.Context) -> str:
        return f"{text}: {ctx.elicit('Keep it?').action}"

    return server


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_bridge_is_the_server_behind_it(upstream, downstream, shared):
    with open_bridge(mcplite.connect(notes(), era=upstream), shared=shared) as bridge:
        with mcplite.connect(bridge, era=downstream, elicitation_handler=lambda request: True) as client:
            info = client.server_info
            assert (info.name, info.version, info.title) == ("notes", "7", "Notes")
            assert client.instructions == "Write things down."
            assert [tool.name for tool in client.list_tools()] == ["note.add"], "names stay as they are"
            assert client.server_capabilities.prompts is None and client.server_capabilities.resources is None
            assert client.call_tool("note.add", {"text": "milk"}).data == "milk: accept"


def test_a_bridge_declares_what_the_server_declares():
    server = notes(capabilities={"resources": {"subscribe": False}, "logging": False})
    with open_bridge(mcplite.connect(server, era="legacy"), shared=True) as bridge:
        with mcplite.connect(bridge, era="legacy") as client:
            declared = client.server_capabilities
            assert declared.logging is None and not (declared.resources or {}).get("subscribe")


def test_a_server_that_cannot_be_reached(caplog):
    with pytest.raises(mcplite.TransportError, match="there is no program|No such file|not found|cannot"):
        with open_bridge(mcplite.connect(["/no/such/program"]), shared=True):
            pytest.fail("there is nothing to bridge")
    assert caplog.text == ""
