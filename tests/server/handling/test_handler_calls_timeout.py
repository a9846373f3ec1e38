"""The time limit of a tool."""

import threading

import pytest

from mcplite.server import Context
from tests.support.results import text_of


def test_a_tool_that_exceeds_its_timeout_is_answered_and_cancelled(connect, server):
    told = threading.Event()

    @server.tool(timeout=0.05)
    def slow(ctx: Context) -> str:
        assert ctx.token.wait(20)
        told.set()
        return "never seen"

    @server.tool(timeout=20)
    def quick() -> str:
        return "quick"

    client = connect(server)
    result = client.call("slow")
    assert result["isError"] is True and "did not finish within 0.05 s" in text_of(result)
    assert told.wait(20)
    assert text_of(client.call("quick")) == "quick"
    assert client.result("ping") == {} and client.others == []


@pytest.mark.slow
def test_the_timeout_is_paused_while_the_user_is_asked(connect, server):
    @server.tool(timeout=2)
    def asks(ctx: Context) -> str:
        return str(ctx.elicit("name?", str).data)

    client = connect(server, capabilities={"elicitation": {}})
    id = client.start("tools/call", {"name": "asks"})
    question = client.request_from_server()
    assert client.silent(2.5)
    client.respond(question, {"action": "accept", "content": {"value": "Ann"}})
    assert text_of(client.answer(id)["result"]) == "Ann"
