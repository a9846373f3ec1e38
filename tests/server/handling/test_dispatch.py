"""Lists, resources, prompts, completion and logging over the wire, in every revision."""

import base64
import contextlib
import contextvars

import pytest

import mcplite
from mcplite import types
from mcplite.errors import InvalidParams, RemoteError, ResourceNotFound, UrlElicitationRequired
from mcplite.revisions import LEGACY, REVISIONS
from mcplite.server import Context, Elicit, Image, InputRequired, Limits, Server, ServerOptions
from tests.support.results import text_of
from tests.support.wsgi import serving_wsgi

NAMES = [revision.name for revision in LEGACY]
PNG = b"\x89PNG\r\n\x1a\n0000"


@pytest.fixture
def full():
    server = Server("full", options=ServerOptions(page_size=2))
    for number in range(5):
        server.add_tool(lambda: None, name=f"tool{number}", description=f"number {number}")
        server.add_resource(f"a://{number}", lambda: "x", name=f"resource{number}")
        server.add_resource(f"t{number}://{{x}}", lambda x: x, name=f"template{number}")
        server.add_prompt(lambda: "x", name=f"prompt{number}")
    return server


@pytest.mark.parametrize("method, key, name", [
    ("tools/list", "tools", "tool"), ("resources/list", "resources", "resource"),
    ("resources/templates/list", "resourceTemplates", "template"), ("prompts/list", "prompts", "prompt")])
def test_lists_come_in_pages(connect, full, method, key, name):
    client = connect(full)
    names, cursor, pages = [], None, 0
    while True:
        page = client.result(method, {} if cursor is None else {"cursor": cursor})
        names += [item["name"] for item in page[key]]
        pages += 1
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert names == [f"{name}{number}" for number in range(5)] and pages == 3
    for bad in ("", "garbage", "é", 3, client.result("tools/list" if key != "tools" else "prompts/list")["nextCursor"]):
        assert client.error(method, {"cursor": bad})["code"] == -32602


def test_a_cursor_survives_changes(connect, full):
    client = connect(full)
    page = client.result("tools/list")
    full.remove_tool("tool0")
    full.add_tool(lambda: None, name="tool9")
    names = [tool["name"] for tool in client.result("tools/list", {"cursor": page["nextCursor"]})["tools"]]
    assert names == ["tool2", "tool3"]


@pytest.mark.parametrize("name", NAMES)
def test_definitions_have_the_members_of_the_revision(connect, name):
    server = Server("defs")
    icons = [{"src": "https://example.com/i.png", "mimeType": "image/png"}]
    server.add_tool(lambda: None, name="tool", title="Tool", annotations={"readOnlyHint": True}, icons=icons,
                    meta={"com.example/k": 1})
    server.add_resource("a://b", lambda: "x", name="resource", title="R", description="d", mime_type="text/plain", size=1,
                        annotations={"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-01T00:00:00Z"},
                        icons=icons, meta={"com.example/k": 1})

    @server.prompt(title="P", icons=icons, meta={"com.example/k": 1})
    def prompt(topic: str, tone: str = "dry") -> str:
        """Writes.

        Args:
            topic: what about
        """
        return topic + tone

    client = connect(server, name)
    (tool,), (resource,), (listed,) = (client.result("tools/list")["tools"], client.result("resources/list")["resources"],
                                       client.result("prompts/list")["prompts"])
    assert ("annotations" in tool) == (name != NAMES[0])
    for item in (tool, resource, listed):
        assert ("title" in item) == (name in NAMES[2:]) and item["_meta"] == {"com.example/k": 1}
        assert ("icons" in item) == (name == NAMES[3])
    assert resource["size"] == 1
    assert ("lastModified" in resource["annotations"]) == (name in NAMES[2:])
    assert listed["description"] == "Writes."
    assert listed["arguments"] == [{"name": "topic", "required": True, "description": "what about"},
                                   {"name": "tone", "required": False}]


@pytest.fixture
def library():
    server = Server("library")
    server.add_resource("a://text", lambda: "text", name="text")
    server.add_resource("a://data", lambda: {"b": [1]}, name="data")
    server.add_resource("a://bytes", lambda: bytes(range(256)), name="bytes", mime_type="x/y")
    server.add_resource("a://image", lambda: Image(PNG), name="image")
    server.add_resource("a://several", lambda: [types.TextResourceContents("a://1", "one"),
                                                types.BlobResourceContents("a://2", "AAA=")], name="several")
    server.add_resource("a://none", lambda: None, name="none")
    server.add_resource("a://gone", gone, name="gone")
    server.add_resource("a://unnamed", unnamed, name="unnamed")
    server.add_resource("a://broken", lambda: 1 / 0, name="broken")
    server.add_resource("a://odd", lambda: object(), name="odd")
    server.add_resource("a://refused", refused, name="refused")

    @server.resource("w://{city}/history{?year}", mime_type="text/plain")
    def history(city: str, ctx: Context, year: int = 2026) -> str:
        return f"{city} {year} {ctx.method}"

    return server


def gone():
    raise ResourceNotFound("it moved", data={"uri": "a://gone"})


#: A handler may raise the same object for any URI.
UNNAMED = ResourceNotFound("nothing there")


def unnamed():
    raise UNNAMED


def refused():
    raise RemoteError("not for you", code=403)


def test_reading(connect, library):
    client = connect(library)

    def read(uri):
        return client.result("resources/read", {"uri": uri})["contents"]

    assert read("a://text") == [{"uri": "a://text", "text": "text", "mimeType": "text/plain"}]
    assert read("a://data") == [{"uri": "a://data", "text": '{"b":[1]}', "mimeType": "application/json"}]
    (blob,) = read("a://bytes")
    assert base64.b64decode(blob["blob"]) == bytes(range(256)) and blob["mimeType"] == "x/y"
    assert read("a://image")[0]["mimeType"] == "image/png"
    assert [item["uri"] for item in read("a://several")] == ["a://1", "a://2"]
    assert read("w://Rome/history")[0]["text"] == "Rome 2026 resources/read"
    assert read("w://New%20York/history?year=1999")[0]["text"] == "New York 1999 resources/read"


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_resources_read(connect, library, name):
    client = connect(library, name)

    def error(uri):
        return client.error("resources/read", {"uri": uri})

    for uri in ("a://nothing", "a://none", "file:///etc/passwd", "https://169.254.169.254/", "javascript:alert(1)"):
        assert error(uri)["code"] == -32002 and error(uri)["data"] == {"uri": uri}
    assert error("a://unnamed") == {"code": -32002, "message": "nothing there", "data": {"uri": "a://unnamed"}}
    assert UNNAMED.data is None
    assert error("a://gone") == {"code": -32002, "message": "it moved", "data": {"uri": "a://gone"}}
    for uri in ("a://broken", "a://odd"):
        assert error(uri) == {"code": -32603, "message": "Internal error"}
    assert error("a://refused")["code"] == 403
    assert error("w://Rome/history?year=x")["code"] == -32602
    for uri in ("", "no scheme", "1a://b", "a\u0000://b", "a_b://c", "a://b\nc", "a://" + "x" * 70_000, 3, None):
        assert client.error("resources/read", {"uri": uri})["code"] == -32602
    assert client.error("resources/read")["code"] == -32602


def test_subscriptions_reach_those_who_subscribed(connect, library):
    first, second = connect(library), connect(library)
    first.result("resources/subscribe", {"uri": "a://text"})
    library.resource_updated("a://text")
    assert first.receive() == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a://text"}}
    library.resource_updated("a://data")
    first.result("resources/unsubscribe", {"uri": "a://text"})
    library.resource_updated("a://text")
    for client in (first, second):
        assert client.result("ping") == {} and client.others == []
    # The client is told of the URI that it wrote, whatever form the server names.
    first.result("resources/subscribe", {"uri": "A://te%78t"})
    library.resource_updated("a://text")
    assert first.receive()["params"] == {"uri": "A://te%78t"}
    first.result("resources/unsubscribe", {"uri": "a://text"})
    library.resource_updated("A://text")
    assert first.result("ping") == {} and first.others == []
    assert first.error("resources/subscribe", {"uri": "a://nothing"})["code"] == -32002
    assert first.error("resources/subscribe", {})["code"] == -32602


def test_list_changes_go_to_clients_that_were_told_the_capability(connect):
    server = Server("changing", options=ServerOptions(declare=["tools"]))
    ready, early = connect(server), connect(server, revision=None)
    assert ready.result("tools/list") == {"tools": []}
    server.add_tool(lambda: None, name="tool")
    server.add_prompt(lambda: "x", name="prompt")  # the capability was not declared to this client
    server.remove_tool("tool")
    assert [ready.receive()["method"] for _ in range(2)] == ["notifications/tools/list_changed"] * 2
    assert ready.result("ping") == {} and ready.others == []
    assert early.result("ping") == {} and early.others == []
    late = connect(server)
    server.add_resource("a://b", lambda: "x", name="r")
    server.remove_prompt("prompt")
    assert late.receive()["method"] == "notifications/prompts/list_changed"


def test_prompts(connect):
    server = Server("prompts")

    @server.prompt()
    def mixed(topic: str, times: int = 1) -> list:
        """About a topic."""
        return [f"{topic} {times!r}", types.assistant("ok"), Image(PNG), types.ResourceLink("a://b", "b"),
                {"role": "assistant", "content": {"type": "text", "text": "dict"}}]

    @server.prompt()
    def whole(ctx: Context) -> types.GetPromptResult:
        return types.GetPromptResult([types.user(ctx.method)], description="by hand")

    server.add_prompt(lambda: 1 / 0, name="broken")
    server.add_prompt(lambda: object(), name="odd")
    client = connect(server)
    result = client.result("prompts/get", {"name": "mixed", "arguments": {"topic": "cats", "times": "3"}})
    assert result["description"] == "About a topic."
    assert [(m["role"], m["content"]["type"]) for m in result["messages"]] == [
        ("user", "text"), ("assistant", "text"), ("user", "image"), ("user", "resource_link"), ("assistant", "text")]
    assert result["messages"][0]["content"]["text"] == "cats 3"
    assert client.result("prompts/get", {"name": "whole"})["description"] == "by hand"
    old = connect(server, NAMES[0]).result("prompts/get", {"name": "mixed", "arguments": {"topic": "cats"}})
    assert old["messages"][3]["content"]["type"] == "text"
    for params in ({"name": "mixed"}, {"name": "mixed", "arguments": {"topic": 3}}, {"name": "mixed", "arguments": []},
                   {"name": "mixed", "arguments": {"topic": "x", "times": "many"}}, {"name": "nope"}, {}, {"name": 1},
                   {"name": "mixed", "arguments": {"topic": "x", "other": "y"}}):
        assert client.error("prompts/get", params)["code"] == -32602, params
    for name in ("broken", "odd"):
        assert client.error("prompts/get", {"name": name}) == {"code": -32603, "message": "Internal error"}


def test_completion(connect):
    server = Server("completion")
    cities = [f"City{number:03d}" for number in range(250)]
    server.add_prompt(lambda city, land="": "x", name="briefing")
    server.add_resource("w://{city}", lambda city: "x", name="weather")

    @server.completion(prompt="briefing", argument="city")
    def complete(value: str, context, ctx: Context):
        return [city for city in cities if city.startswith(value)] + [f"{context.get('land')} {ctx.method}"]

    @server.completion(resource="w://{city}", argument="city")
    def other(value):
        return types.Completion([value + "!"], total=7)

    @server.completion(prompt="briefing", argument="land")
    def nothing(value):
        return None

    client = connect(server)

    def ask(ref, name, value, **more):
        return client.ask("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}, **more})

    prompt, resource = {"type": "ref/prompt", "name": "briefing"}, {"type": "ref/resource", "uri": "w://{city}"}
    full = ask(prompt, "city", "City")["result"]["completion"]
    assert len(full["values"]) == 100 and full["total"] == 251 and full["hasMore"] is True
    some = ask(prompt, "city", "City24", context={"arguments": {"land": "It"}})["result"]["completion"]
    assert some == {"values": [f"City24{n}" for n in range(10)] + ["It completion/complete"], "hasMore": False}
    assert ask(resource, "city", "Ro")["result"]["completion"] == {"values": ["Ro!"], "total": 7, "hasMore": False}
    assert ask(prompt, "land", "x")["result"]["completion"]["values"] == []
    assert ask(prompt, "unknown", "x")["result"]["completion"]["values"] == []
    for params in (None, {}, {"ref": prompt}, {"ref": {"type": "ref/other"}, "argument": {"name": "a", "value": ""}},
                   {"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}},
                   {"ref": {"type": "ref/resource"}, "argument": {"name": "a", "value": ""}},
                   {"ref": prompt, "argument": {"name": "city"}}, {"ref": prompt, "argument": {"name": "city", "value": 3}},
                   {"ref": prompt, "argument": {"name": "city", "value": "x"}, "context": {"arguments": {"a": 1}}}):
        assert client.error("completion/complete", params)["code"] == -32602, params
    server.completion(prompt="briefing", argument="broken")(broken)
    assert ask(prompt, "broken", "")["error"] == {"code": -32603, "message": "Internal error"}


def broken(value):
    raise InvalidParams("x") if value else ValueError("secret")


def test_a_prompt_result_that_is_returned_again_is_not_changed(connect):
    kept = types.GetPromptResult([types.PromptMessage("user", types.AudioContent("aGk=", "audio/wav"))])
    server = Server("kept")
    server.add_prompt(lambda: kept, name="kept")
    kinds = [connect(server, name).result("prompts/get", {"name": "kept"})["messages"][0]["content"]["type"]
             for name in (NAMES[0], NAMES[-1])]
    assert kinds == ["text", "audio"]


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


@pytest.mark.parametrize("host", ["own", "wsgi"])
@pytest.mark.parametrize("asks", ["returns", "raises"])
def test_a_handler_without_a_context_asks_over_http(host, asks):
    # It begins on the thread that sends its questions, so that it cannot wait for the answers there.
    server, answered = Server("asking"), []

    @server.tool()
    def act() -> str:
        if answered:
            return "done"
        if asks == "returns":
            return InputRequired({"how": Elicit("How many?", int)})
        page = {"mode": "url", "url": "https://example.com/", "message": "Sign in", "elicitationId": "1"}
        raise UrlElicitationRequired("Sign in", data={"elicitations": [page]})

    def answer(request):
        answered.append(request)
        return {"value": 1} if asks == "returns" else True

    # The others have no questions, or an error in place of those that are pages.
    revisions = [revision.name for revision in REVISIONS if revision.elicitation_enums != "none"
                 and (asks == "returns" or revision.elicitation_modes and not revision.elicitation_ids)]
    with contextlib.ExitStack() as stack:
        if host == "own":
            url = stack.enter_context(mcplite.serve(server)).url
        else:
            application = server.wsgi(path="/mcp")
            stack.callback(application.close, 5)
            url = stack.enter_context(serving_wsgi(application))
        for revision in revisions * 2:
            answered.clear()
            with mcplite.connect(url, revision=revision, timeout=60, elicitation_handler=answer,
                                 url_elicitation_handler=answer) as client:
                assert client.call_tool("act").text == "done"
            assert len(answered) == 1


# --- middleware ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
def test_a_tool_error_of_middleware_is_a_result_that_the_model_reads(revision):
    seen = []

    def outer(ctx, proceed):
        result = proceed()
        seen.append(result.get("isError"))
        return result

    def only_reading(ctx, proceed):
        raise mcplite.ToolError("This server only reads.")

    server = Server("guarded", middleware=[outer, only_reading])
    server.add_tool(lambda: None, name="erase")
    with mcplite.connect(server, revision=revision) as client:
        result = client.call_tool("erase")
        assert result.is_error and result.text == "This server only reads." and seen == [True]
        with pytest.raises(RemoteError, match=r"^This server only reads\. \(code -32603\)"):
            client.list_tools()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_middleware_sees_the_tool_of_a_call(revision):
    seen = []

    def note(ctx, proceed):
        seen.append((ctx.method, None if ctx.tool is None else (ctx.tool.name, ctx.tool.annotations.read_only_hint)))
        return proceed()

    server, parent = Server("inner"), Server("parent", middleware=[note])
    server.add_tool(lambda: "x", name="look", annotations={"readOnlyHint": True})
    parent.mount(server, "inner")
    with mcplite.connect(parent, revision=revision) as client:
        client.call_tool("inner_look")
        client.list_tools()
        with pytest.raises(InvalidParams):
            client.call_tool("nothing")
    assert [one for one in seen if one[0].startswith("tools/")] == [
        ("tools/call", ("inner_look", True)), ("tools/list", None), ("tools/call", None)]
