"""Questions and messages of a mounted server, and the revisions in which they come."""

import json
import threading

import pytest

import mcplite
from mcplite.errors import InternalError
from mcplite.proxy.forwarded_calls import EVERYTHING, RelayHandlers
from mcplite.revisions import NEWEST
from mcplite.rpc.cancel import CancelToken
from mcplite.types import CreateMessageResult, TextContent

LIMIT = 30


def everything():
    server = mcplite.Server("everything")

    @server.tool()
    def ask_all(ctx: mcplite.Context) -> list:
        form = ctx.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
        page = ctx.elicit_url("Log in", "https://example.com/login")
        model = ctx.sample("Why?", max_tokens=5)
        return [form.content, page.action, model.text, [root.uri for root in ctx.list_roots()]]

    @server.tool()
    def meta(ctx: mcplite.Context) -> dict:
        return {key: value for key, value in ctx.meta.items() if key.startswith("com.example/")}

    return server


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_every_question_and_the_metadata(upstream, downstream):
    hub = mcplite.Server("hub")
    hub.mount(mcplite.connect(everything(), options=mcplite.ClientOptions(era=upstream)), prefix="e")
    pages = []

    def visit(request):
        pages.append(request.url)
        return True

    with mcplite.connect(
            hub, options=mcplite.ClientOptions(era=downstream), elicitation_handler=lambda request: {"name": "Ada"},
            url_elicitation_handler=visit, roots=["file:///home/ada"],
            sampling_handler=lambda request: CreateMessageResult("assistant", [TextContent("because")], "m")) as client:
        assert json.loads(client.call_tool("e_ask_all").text) == [
            {"name": "Ada"}, "accept", "because", ["file:///home/ada"]]
        assert client.call_tool("e_meta", meta={"com.example/x": 1}).data == {"com.example/x": 1}
    assert pages == ["https://example.com/login"]
    hub.close()


def test_roots_that_change_are_told_to_the_mounted_server():
    told = threading.Event()
    server = mcplite.Server("roots", options=mcplite.ServerOptions(on_roots_changed=lambda session: told.set()))
    server.add_tool(lambda: 1, name="one")
    hub = mcplite.Server("hub")
    hub.mount(mcplite.connect(server, options=mcplite.ClientOptions(era="legacy")))
    with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy"), roots=[]) as client:
        client.call_tool("one")
        client.add_root("file:///home/ada")
        assert told.wait(LIMIT)
    hub.close()


def test_a_question_outside_of_a_call_reaches_the_session():
    opened = []
    server = mcplite.Server("curious")

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        opened.append(ctx.session)
        return "noted"

    hub = mcplite.Server("hub")
    hub.mount(mcplite.connect(server, options=mcplite.ClientOptions(era="legacy")))
    with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy"), roots=["file:///home/ada"]) as client:
        client.call_tool("ask")
        answer = opened[0].peer.call("roots/list", None, timeout=LIMIT)
        assert answer == {"roots": [{"uri": "file:///home/ada"}]}
    hub.close()


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
def test_questions_in_a_fleet(upstream):
    """A server with a session cannot wait for an answer that may come to another process; one without can continue."""
    called = []
    server = mcplite.Server("asking")

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        called.append(1)
        return ctx.elicit("Sure?").action

    hub = mcplite.Server("hub", fleet=True, state_keys=["k" * 32])
    hub.mount(mcplite.connect(server, options=mcplite.ClientOptions(era=upstream)), prefix="u")
    with mcplite.serve(hub, port=0) as httpd:
        with mcplite.connect(httpd.url, options=mcplite.ClientOptions(era="modern"),
                             elicitation_handler=lambda request: True) as client:
            result = client.call_tool("u_ask")
    assert called == [1]
    if upstream == "modern":
        assert result.text == "accept"
    else:
        assert result.is_error and "runs in several processes" in result.text


@pytest.mark.parametrize("meta", ["text", 7, [], {"io.modelcontextprotocol/related-task": "t"}])
def test_a_message_whose_metadata_is_no_object_belongs_to_no_task(meta):
    handlers = RelayHandlers("the server", EVERYTHING, None, None, lambda error: None)
    assert handlers.callback_for("notifications/message", {"level": "info", "data": "x", "_meta": meta}) is None
    with pytest.raises(InternalError, match="no call to it is in progress"):
        handlers.answer("roots/list", {"_meta": meta}, NEWEST, CancelToken())
