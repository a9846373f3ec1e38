"""Questions to clients with a handshake: over HTTP the handlers that wait are bounded."""

import json
import queue

import mcplite
from tests.support.stateless import Web

LIMIT = 30


class Session:
    """One client with a handshake, over HTTP."""

    def __init__(self, web, address):
        self.web, self.address = web, address
        response = self._post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
                                             "clientInfo": {"name": "x", "version": "1"}})
        self.id = dict(response.headers)["Mcp-Session-Id"]

    def _post(self, method, params, **more):
        return self.web.respond({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, MCP_Protocol_Version=None,
                                network=self.address, **more)

    def call(self, **arguments):
        """Call the tool that asks, and return the body up to its question."""
        response = self._post("tools/call", {"name": "ask", "arguments": arguments}, mcp_session_id=self.id)
        return iter(response.body)


def messages(body):
    for piece in body:
        for line in piece.decode().splitlines():
            if line.startswith("data: {"):
                yield json.loads(line[6:])


def test_above_the_limit_the_oldest_handler_of_the_sender_with_the_most_is_cancelled():
    ended = queue.Queue()
    mcp = mcplite.Server("asks", limits=mcplite.Limits(waiting_calls=3))

    @mcp.tool()
    def ask(who: str, ctx: mcplite.Context) -> str:
        try:
            return ctx.elicit("Sure?").action
        except BaseException as error:
            ended.put((who, type(error)))
            raise

    web = Web(mcp)
    honest = messages(Session(web, "198.51.100.7").call(who="honest"))
    assert next(honest)["method"] == "elicitation/create"
    flood = [messages(Session(web, "192.0.2.1").call(who=str(number))) for number in range(10)]
    assert all(next(body)["method"] == "elicitation/create" for body in flood)
    # They are cancelled one after the other, and end on threads of their own.
    assert {ended.get(timeout=LIMIT) for _ in range(8)} == {(str(number), mcplite.Cancelled) for number in range(8)}
    withdrawn, answer = list(flood[0])
    assert withdrawn["method"] == "notifications/cancelled" and answer["error"]["message"] == "The request was cancelled"
    assert len(mcp.runtime.suspended_calls) == 3 and ended.empty()
    web.close()
