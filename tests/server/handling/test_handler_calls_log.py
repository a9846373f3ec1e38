"""What clients can write into a server's log by calling tools: few lines, and no traceback for what a client lacks."""

import logging

import pytest

import mcplite
from mcplite.revisions import REVISIONS
from tests.support.stateless import Web, again, call


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
