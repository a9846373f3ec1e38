"""Calling tools in every revision: arguments, results, errors, downgrades, declared questions."""

import logging
import threading
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

import mcplite
from mcplite import types
from mcplite.errors import InvalidParams, RemoteError, ToolError, UrlElicitationRequired
from mcplite.revisions import LEGACY, REVISIONS
from mcplite.server import Audio, Context, Elicit, Image, InputRequired, Server
from tests.support.results import text_of
from tests.support.stateless import Web, again, call

NAMES = [revision.name for revision in LEGACY]
PNG = b"\x89PNG\r\n\x1a\n0000"


@dataclass
class Point:
    x: int
    y: int = 0


@pytest.mark.parametrize("name", NAMES)
def test_structured_results_by_revision(connect, server, name):
    @server.tool()
    def add(a: float, b: float) -> float:
        return a + b

    @server.tool()
    def point(x: int) -> Point:
        return Point(x)

    client = connect(server, name)
    result = client.call("add", {"a": 1, "b": 2})
    listed = {tool["name"]: tool for tool in client.result("tools/list")["tools"]}
    assert text_of(result) == "3.0"
    assert text_of(client.call("point", {"x": 4})) == '{"x":4,"y":0}'
    if name in NAMES[:2]:
        assert "structuredContent" not in result and "outputSchema" not in listed["add"]
    else:
        assert result["structuredContent"] == {"result": 3.0}
        assert client.call("point", {"x": 4})["structuredContent"] == {"x": 4, "y": 0}
        assert listed["add"]["outputSchema"]["properties"]["result"] == {"type": "number"}


@pytest.mark.parametrize("name", NAMES)
def test_bad_arguments_by_revision(connect, server, name):
    ran = []

    @server.tool()
    def add(a: int, b: int = 0) -> int:
        ran.append(a)
        return a + b

    client = connect(server, name)
    for arguments in ({}, {"a": "1"}, {"a": 1.5}, {"a": True}, {"a": 1, "c": 2}, {"a": None}):
        answer = client.ask("tools/call", {"name": "add", "arguments": arguments})
        if name == NAMES[-1]:
            assert answer["result"]["isError"] is True
            assert "Invalid arguments for tool add" in text_of(answer["result"])
        else:
            assert answer["error"]["code"] == -32602
    assert ran == []
    assert text_of(client.call("add", {"a": 1.0})) == "1"


@pytest.mark.parametrize("params", [None, {}, {"name": 3}, {"name": "add", "arguments": [1]}, {"name": "nope"},
                                    {"name": "../../etc"}, {"name": "add\u0000"}])
def test_a_malformed_call_is_a_protocol_error(connect, server, params):
    server.add_tool(lambda: None, name="add")
    client = connect(server)
    assert client.error("tools/call", params)["code"] == -32602
    assert client.call("add") == {"content": []}


@pytest.mark.parametrize("middleware, hint", [([], "; did you mean 'forecast'?"), ([lambda ctx, proceed: proceed()], "")])
def test_unknown_tools_come_with_a_hint_unless_middleware_may_hide_what_it_names(connect, middleware, hint):
    server = Server("weather", middleware=middleware)
    server.add_tool(lambda: None, name="forecast")
    assert connect(server).error("tools/call", {"name": "forcast"})["message"] == f"Unknown tool: forcast{hint}"


@pytest.mark.parametrize("name", NAMES)
def test_content_that_older_clients_cannot_read_becomes_text(connect, server, name):
    @server.tool()
    def mixed() -> list:
        return ["hello", Image(PNG), Audio(b"ID3...", "audio/mpeg"),
                types.ResourceLink(uri="a://b", name="b", description="about"),
                types.EmbeddedResource(resource=types.TextResourceContents(uri="a://c", text="c")), {"a": 1}, b"raw"]

    kinds = [item["type"] for item in connect(server, name).call("mixed")["content"]]
    assert kinds[:2] == ["text", "image"] and kinds[4:] == ["resource", "text", "resource"]
    assert kinds[2] == ("text" if name == NAMES[0] else "audio")
    assert kinds[3] == ("text" if name in NAMES[:2] else "resource_link")


@pytest.mark.parametrize("empty", [[], {}, None])
def test_an_empty_array_stands_for_no_arguments(connect, server, empty):
    # PHP writes an empty object so.
    @server.tool()
    def none(also: int = 7) -> int:
        return also

    @server.prompt()
    def hello(name: str = "you") -> str:
        return name

    @server.tool()
    def first(of: list) -> str:
        return f"{of!r}"

    @server.completion(argument="name", prompt="hello")
    def names(value: str, filled: dict) -> list:
        return [str(filled)]

    client = connect(server)
    assert text_of(client.result("tools/call", {"name": "none", "arguments": empty})) == "7"
    assert client.result("prompts/get", {"name": "hello", "arguments": empty})["messages"][0]["content"]["text"] == "you"
    assert text_of(client.call("first", {"of": []})) == "[]"
    about = {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": ""}}
    assert client.result("completion/complete", {**about, "context": {"arguments": empty}})["completion"]["values"] == ["{}"]


class Nasty(Exception):
    def __str__(self):
        raise RuntimeError("even this")


class Later:
    def __str__(self):
        return "später"


NO_TEXTS = [({"a": "ä"}, '{"a": "ä"}'), (None, ""), (5, "5"), (b"raw\xff", "raw\ufffd"), (Later(), "später"), (["x"], '["x"]'),
            (Nasty(), "Nasty"), ({1: object}, '{"1": "<class \'object\'>"}')]


@pytest.mark.parametrize(("given", "text"), NO_TEXTS)
def test_a_message_that_is_no_text_becomes_one(connect, server, given, text):
    # RPC-10
    class Own(RemoteError):
        def __init__(self):
            self.code, self.message, self.data = True, given, None

    @server.tool()
    def fail(how: str) -> int:
        raise {"remote": RemoteError, "params": InvalidParams, "tool": ToolError, "own": lambda _: Own()}[how](given)

    @server.resource("a:b")
    def read() -> str:
        raise RemoteError(given, code=-31000)

    client = connect(server)
    for how, code in (("remote", -32603), ("params", -32602), ("own", -32603)):
        assert client.error("tools/call", {"name": "fail", "arguments": {"how": how}}) == {"code": code, "message": text}
    assert text_of(client.call("fail", {"how": "tool"})) == text
    assert client.error("resources/read", {"uri": "a:b"})["message"] == text


class Own(BaseException):
    pass


@pytest.mark.parametrize("error, text", [
    (ValueError("no such city"), "no such city"), (ValueError(), "ValueError"), (Nasty(), "Nasty"),
    (ToolError("sorry"), "sorry"), (StopIteration(3), "StopIteration: 3"), (RecursionError("deep"), "RecursionError: deep"),
    (MemoryError(), "MemoryError"), (KeyError("nope"), "KeyError: 'nope'"), (KeyError("no city Rome"), "no city Rome"),
    (KeyError("a", 1), "('a', 1)"), (SystemExit(), "SystemExit"), (SystemExit(3), "SystemExit: 3"),
    (SystemExit("no licence"), "no licence"),
])
def test_an_exception_is_an_error_result(connect, server, error, text):
    @server.tool()
    def fail() -> int:
        raise error

    client = connect(server)
    result = client.call("fail")
    assert result["isError"] is True and text_of(result) == text
    assert "structuredContent" not in result
    assert client.result("ping") == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), Own("x")])
def test_base_exceptions_are_answered(connect, server, error):
    @server.tool()
    def fail() -> int:
        raise error

    client = connect(server)
    assert client.error("tools/call", {"name": "fail"}) == {"code": -32603, "message": "Internal error"}
    assert client.result("ping") == {}


def test_masked_errors_hide_the_exception(connect):
    server = Server("masked", mask_errors=True)

    @server.tool()
    def fail() -> str:
        raise ValueError("the password is 1234")

    assert text_of(connect(server).call("fail")) == "Tool fail failed"


def test_a_tool_error_may_carry_content(connect, server):
    @server.tool()
    def fail() -> str:
        raise ToolError("look:", [Image(PNG), "more"])

    result = connect(server).call("fail")
    assert [item["type"] for item in result["content"]] == ["text", "image", "text"]
    assert result["isError"] is True


@pytest.mark.parametrize("name", NAMES)
def test_a_required_url_is_an_error_only_in_revisions_that_have_it(connect, server, name):
    @server.tool()
    def needs() -> str:
        raise UrlElicitationRequired("sign in first", data={"elicitations": [
            {"mode": "url", "elicitationId": "1", "url": "https://example.com", "message": "sign in"}]})

    answer = connect(server, name).ask("tools/call", {"name": "needs"})
    if name == NAMES[-1]:
        assert answer["error"]["code"] == -32042 and answer["error"]["data"]["elicitations"]
    else:
        assert answer["result"]["isError"] is True


@pytest.mark.parametrize("data", [None, {"elicitations": []}])
def test_a_required_url_without_a_page_is_not_asked_for(server, data):
    calls = []

    @server.tool()
    def needs() -> str:
        calls.append(1)
        raise UrlElicitationRequired("sign in first", data=data)

    with mcplite.connect(server, url_elicitation_handler=lambda request: True) as client:
        result = client.call_tool("needs")
    assert result.is_error and result.text == "sign in first" and calls == [1]


def test_output_that_breaks_its_schema_is_never_sent_as_if_valid(connect, server):
    @server.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    def lies(n: Any) -> Any:
        return {"n": n}

    @server.tool()
    def typed() -> Point:
        return {"x": "not a number"}

    client = connect(server)
    assert client.call("lies", {"n": 1})["structuredContent"] == {"n": 1}
    for result in (client.call("lies", {"n": "x"}), client.call("typed")):
        assert result["isError"] is True and "structuredContent" not in result
        assert "invalid result" in text_of(result)


def test_a_handler_may_return_a_whole_result(connect, server):
    kept = types.CallToolResult(content=[types.TextContent("x")], structured_content={"a": 1}, meta={"com.example/k": 1})
    server.add_tool(lambda: kept, name="hand")
    assert connect(server, NAMES[0]).call("hand") == {"content": [{"type": "text", "text": "x"}], "_meta": {"com.example/k": 1}}
    assert connect(server).call("hand")["structuredContent"] == {"a": 1}


def test_declared_questions_are_asked_before_the_body_runs(connect, server):
    @dataclass
    class Confirm:
        ok: Annotated[bool, "Really delete?"]

    ran = []

    @server.tool()
    def delete(path: str, answer: Annotated[Confirm, Elicit("Delete {path}?")]) -> str:
        ran.append(path)
        return "deleted" if answer.ok else "kept"

    client = connect(server, capabilities={"elicitation": {}})
    (tool,) = client.result("tools/list")["tools"]
    assert set(tool["inputSchema"]["properties"]) == {"path"}
    for answer, expected in (({"action": "accept", "content": {"ok": True}}, "deleted"),
                             ({"action": "accept", "content": {"ok": False}}, "kept")):
        id = client.start("tools/call", {"name": "delete", "arguments": {"path": "a.txt"}})
        question = client.request_from_server()
        assert question["params"]["message"] == "Delete a.txt?"
        assert question["params"]["requestedSchema"]["properties"]["ok"] == {"type": "boolean", "description": "Really delete?"}
        client.respond(question, answer)
        assert text_of(client.answer(id)["result"]) == expected
    for action in ("decline", "cancel"):
        id = client.start("tools/call", {"name": "delete", "arguments": {"path": "b.txt"}})
        client.respond(client.request_from_server(), {"action": action})
        result = client.answer(id)["result"]
        assert result["isError"] is True and action in text_of(result)
    assert ran == ["a.txt", "a.txt"]


def test_the_text_of_a_declared_question_has_the_arguments_as_they_are(connect, server):
    @server.tool()
    def delete(path: str, note: str, answer: Annotated[bool, Elicit("Delete {path} {unknown}?", {"type": "object",
                                                                                             "properties": {}})]) -> str:
        return "deleted"

    client = connect(server, capabilities={"elicitation": {}})
    id = client.start("tools/call", {"name": "delete", "arguments": {"path": "{note}", "note": "harmless.txt"}})
    question = client.request_from_server()
    assert question["params"]["message"] == "Delete {note} {unknown}?"
    client.respond(question, {"action": "decline"})
    client.answer(id)


def test_a_declared_question_without_the_capability_is_a_tool_error(connect, server):
    @server.tool()
    def delete(answer: Annotated[bool, Elicit("Sure?")]) -> str:
        return "deleted"

    result = connect(server).call("delete")
    assert result["isError"] is True and "elicitation" in text_of(result)


def test_the_number_of_rounds_is_limited(connect, server):
    server.add_tool(lambda: InputRequired({}), name="endless")
    result = connect(server).ask("tools/call", {"name": "endless"})
    assert "after 10 rounds; let it return several questions in one InputRequired" in str(result)


def test_middleware_sees_every_request_and_may_refuse(connect):
    seen = []

    def audit(ctx, proceed):
        seen.append((ctx.method, ctx.params.get("name")))
        return proceed()

    def guard(ctx, proceed):
        if ctx.params.get("name") == "secret":
            raise InvalidParams("not for you")
        result = proceed()
        if ctx.method == "tools/call":
            result["content"].append({"type": "text", "text": "checked"})
        return result

    server = Server("guarded", middleware=[audit, guard])
    server.add_tool(lambda: "open", name="open")
    server.add_tool(lambda: "secret", name="secret")
    client = connect(server)
    assert text_of(client.call("open")) == "open\nchecked"
    assert client.error("tools/call", {"name": "secret"})["message"] == "not for you"
    assert len(client.result("tools/list")["tools"]) == 2
    assert seen == [("tools/call", "open"), ("tools/call", "secret"), ("tools/list", None)]


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


# --- what clients can write into a server's log by calling tools: few lines, and no traceback for what a client lacks ----


@pytest.fixture
def asks():
    mcp = mcplite.Server("asks")

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return str(ctx.elicit("Your name?", str).data)

    @mcp.tool()
    def sample(ctx: mcplite.Context) -> str:
        return str(ctx.sample("Hello"))

    @mcp.tool()
    def roots(ctx: mcplite.Context) -> str:
        return str(ctx.list_roots())

    @mcp.tool()
    def fail() -> str:
        raise KeyError("x")

    @mcp.prompt()
    def asking(ctx: mcplite.Context) -> str:
        return str(ctx.elicit("Your name?", str).data)

    return mcp


def messages(caplog):
    return [record for record in caplog.records if record.name.startswith("mcplite.")]


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS if not revision.modern] + ["2026-07-28"])
@pytest.mark.parametrize("tool, ability", [("ask", "ask its user"), ("sample", "ask its language model"),
                                           ("roots", "list its roots")])
def test_a_client_that_cannot_be_asked_is_told_in_its_users_words(asks, connect, caplog, revision, tool, ability):
    caplog.set_level(logging.INFO)
    if revision == "2026-07-28":
        web = Web(asks)
        error = web.error(call(tool))
        web.close()
        text = error["message"]
        assert error["code"] == -32021 and error["data"]["requiredCapabilities"]
    else:
        client = connect(asks, revision=revision)
        result = client.call(tool)
        text = result["content"][0]["text"]
        assert result["isError"] is True
    assert text.startswith(f"this needs a client that can {ability}: ") and "ctx." not in text
    line, = [record for record in messages(caplog) if "was not answered" in record.getMessage()]
    assert line.levelname == "INFO" and not line.exc_info and text in line.getMessage() and "ctx.can_" in line.getMessage()
    assert not any(record.levelno > logging.INFO for record in messages(caplog))


def test_a_prompt_that_asks_a_client_which_cannot_be_asked_writes_no_traceback(asks, connect, caplog):
    caplog.set_level(logging.INFO)
    error = connect(asks).error("prompts/get", {"name": "asking"})
    assert "ask its user" in error["message"]
    assert not any(record.exc_info for record in messages(caplog))
    assert "prompt 'asking' was not answered" in caplog.text


REFUSALS = {"error": {"error": {"code": -1, "message": "User rejected"}},
            "unknown": {"error": {"code": -32601, "message": "Method not found"}}, "malformed": {"result": {"foo": 1}},
            "unfitting": {"result": {"action": "accept", "content": {"value": 5}}}}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("method, name", [("tools/call", "ask"), ("prompts/get", "asking")])
def test_a_client_that_refuses_a_question_writes_no_traceback(asks, connect, caplog, method, name, answer):
    caplog.set_level(logging.INFO)
    client = connect(asks, capabilities={"elicitation": {}})
    id = client.start(method, {"name": name})
    client.send({"jsonrpc": "2.0", "id": client.request_from_server()["id"], **answer})
    client.answer(id)
    line, = [record for record in messages(caplog) if "speaks" not in record.getMessage()]
    assert line.levelname == "INFO" and not line.exc_info
    assert f"{method[:-5].rstrip('s')} '{name}' got no answer from its client: " in line.getMessage()


def test_a_client_that_leaves_while_it_is_asked_writes_no_traceback(asks, connect, caplog):
    caplog.set_level(logging.INFO)
    client = connect(asks, capabilities={"elicitation": {}})
    client.start("tools/call", {"name": "ask"})
    client.request_from_server()
    client.close()
    assert not any(record.exc_info for record in messages(caplog))


def size(caplog):
    return sum(len(record.getMessage()) + (2000 if record.exc_info else 0) for record in messages(caplog))


def test_a_flood_of_calls_of_any_kind_costs_few_lines(asks, connect, caplog):
    caplog.set_level(logging.INFO)
    web = Web(asks)
    asked = {"elicitation": {}}
    for _ in range(100):
        client = connect(asks)
        client.call("fail")
        client.call("ask")
        client.send({"jsonrpc": "2.0", "id": 77, "result": {}})
        client.send(b"nonsense")
        client.result("ping")
        request = call("ask", capabilities=asked)
        first = web.result(request)
        web.result(again(request, first, lambda params: {"action": "accept", "content": {"value": 5}}))
    web.close()
    assert size(caplog) < 40_000
    for text in ("tool 'fail' failed", "was not answered", "sent a response to no pending call", "speaks 2025-11-25",
                 "is asked for again", "not a message"):
        assert 1 <= caplog.text.count(text) <= 60, text
