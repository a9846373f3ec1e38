"""What one session costs at most: what is kept of its client, and what it may subscribe to."""

from mcplite.errors import INVALID_REQUEST
from mcplite.protocol.jsonrpc import memory_size
from mcplite.server import Server
from mcplite.server.sessions.legacy import LegacySession
from mcplite.types import ClientCapabilities, Implementation
from tests.support.tight import tight

LONG = "x" * 200_000


def make(**limits):
    server = Server("bounds", limits=tight(**limits))
    server.add_resource("note://{+name}", lambda name: name, name="note")
    return server


def session_of(server):
    session, = server.sessions
    assert isinstance(session, LegacySession)
    return session


def test_a_session_keeps_of_its_client_what_is_used(connect):
    server = make()
    client = connect(server, revision=None)
    client.result("initialize", {
        "protocolVersion": "2025-11-25", "more": LONG, "_meta": {"more": LONG},
        "capabilities": {"roots": {"listChanged": True, "more": LONG}, "elicitation": {}, "more": {LONG: [{}] * 1000}},
        "clientInfo": {"name": "desk " + LONG, "version": LONG, "title": LONG, "icons": [{"src": LONG}], "more": LONG}})
    session = session_of(server)
    assert session.client_info == Implementation(("desk " + LONG)[:256], LONG[:256], title=LONG[:256])
    assert session.client_capabilities == ClientCapabilities(roots={"listChanged": True}, elicitation={})
    assert not session.client_info.extra and not session.client_capabilities.extra


def test_a_session_subscribes_to_a_limited_number(connect):
    server = make(subscriptions=3)
    client = connect(server)
    for number in (1, 2, 3, 3, 1):
        assert client.result("resources/subscribe", {"uri": f"note://{number}"}) == {}
    error = client.error("resources/subscribe", {"uri": "note://4"})
    assert error["code"] == INVALID_REQUEST and "3 resources" in error["message"] and "unsubscribe" in error["message"]
    client.result("resources/unsubscribe", {"uri": "note://1"})
    client.result("resources/unsubscribe", {"uri": "note://none"})
    assert client.result("resources/subscribe", {"uri": "note://4"}) == {}
    server.resource_updated("note://1")
    server.resource_updated("note://4")
    assert client.receive()["params"] == {"uri": "note://4"}


def test_the_uris_of_a_session_take_a_limited_amount_of_memory(connect):
    uris = [f"note://{number}{'x' * 1000}" for number in range(5)]
    server = make(subscription_bytes=4 * memory_size(uris[0], 1 << 20))
    client = connect(server)
    for uri in uris[:4]:
        client.result("resources/subscribe", {"uri": uri})
    assert "bytes of memory" in client.error("resources/subscribe", {"uri": uris[4]})["message"]
    assert client.result("resources/subscribe", {"uri": uris[0]}) == {}, "it is there already"
    client.result("resources/unsubscribe", {"uri": uris[0]})
    client.result("resources/unsubscribe", {"uri": uris[0]})
    assert client.result("resources/subscribe", {"uri": uris[4]}) == {}
    assert client.error("resources/subscribe", {"uri": uris[0]})["code"] == INVALID_REQUEST
