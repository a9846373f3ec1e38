"""One running handler: what it sets is gone when its thread takes the next request."""

import contextvars

from mcplite.server import Limits, Server
from tests.support.results import text_of


def test_context_variables_do_not_leak_between_calls(connect):
    variable = contextvars.ContextVar("v", default="clean")
    server = Server("vars", limits=Limits(running=1))

    @server.tool()
    def taint() -> str:
        before = variable.get()
        variable.set("dirty")
        return before

    client = connect(server)
    assert [text_of(client.call("taint")) for _ in range(3)] == ["clean"] * 3
