"""Logs of requests: lines with facts, an audit log, ``Server-Timing``, and records as JSON."""

import io
import json
import logging
import os
import re

import pytest
import requests

import mcplite
from mcplite.errors import InternalError
from mcplite.middleware import AuditLog, JSONFormatter, LogRequests, ServerTiming
from mcplite.server import Context, Server

ERAS = ["legacy", "modern"]


def with_tools(*middleware, **options):
    server = Server("shop", middleware=middleware, **options)

    @server.tool()
    def pay(amount: int, card_token: str, ctx: Context) -> str:
        logging.getLogger("shop").warning("paid", extra={"amount": amount, "odd": {1: object()}})
        if amount < 0:
            raise ValueError("the amount is negative")
        return "paid"

    return server


@pytest.fixture
def lines():
    """The lines of the root logger, as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    loggers = [logging.getLogger("mcplite.requests"), logging.getLogger("shop")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel("INFO")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for logger in loggers:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("era", ERAS)
def test_each_request_is_a_line_of_json(era, lines):
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    options = mcplite.ClientOptions(era=era, trace_context=lambda: trace)
    with mcplite.connect(with_tools(LogRequests()), options=options) as client:
        client.call_tool("pay", {"amount": 5, "card_token": "abc"})
        client.call_tool("pay", {"amount": -5, "card_token": "abc"})
        with pytest.raises(mcplite.errors.InvalidParams):
            client.call_tool("nothing")
    shop = [line for line in lines() if line["logger"] == "shop"]
    assert shop[0]["message"] == "paid" and shop[0]["level"] == "warning" and shop[0]["amount"] == 5
    assert shop[0]["mcp"]["method"] == "tools/call" and shop[0]["mcp"]["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    calls = [line for line in lines() if line["logger"] == "mcplite.requests" and line["mcp"]["method"] == "tools/call"]
    assert [(line["level"], line["mcp"]["name"], line["mcp"]["outcome"]) for line in calls] == [
        ("info", "pay", "ok"), ("warning", "pay", "tool_error"), ("warning", "nothing", "error")]
    assert calls[2]["mcp"]["code"] == -32602 and calls[0]["mcp"]["ms"] > 0
    assert re.fullmatch(r"tools/call pay: ok after \d+\.\d ms", calls[0]["message"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", calls[0]["time"])


def test_a_record_with_a_traceback_and_one_that_is_no_json():
    try:
        raise ValueError("wrong\nvalue")
    except ValueError as error:
        record = logging.LogRecord("a", logging.ERROR, "b.py", 1, "it %s", ("failed",), (type(error), error, None))
    written = JSONFormatter().format(record)
    assert "\n" not in written and json.loads(written)["exception"].endswith("ValueError: wrong\nvalue")
    circle = {}
    circle["circle"] = circle
    record = logging.makeLogRecord({"name": "a", "levelname": "INFO", "msg": "x", "found": circle, "path": os.sep})
    assert json.loads(JSONFormatter().format(record))["message"] == "x"


class _Unprintable:
    def __str__(self):
        raise LookupError("no text")


@pytest.mark.parametrize("attributes, member, value", [
    ({"msg": "%d", "args": ("one",)}, "message", "%d (TypeError with its arguments)"),
    ({"rate": float("nan")}, "rate", "nan"),
    ({"found": _Unprintable()}, "found", "<_Unprintable, which raises LookupError>"),
    ({"msg": "half a pair \ud800, \u2028, \u2603"}, "message", "half a pair \ud800, \u2028, \u2603"),
    ({"level": "extra", "time": 5}, "level", "info"),
    ({"card": {"api_key": "s3cret", "given": ['{"password": "s3cret"}']}}, "card",
     {"api_key": "***", "given": ['{"password": "***"}']}),
    ({"token": ("s3cret",)}, "token", "***"), ({"cards": {(1, 2): {"pin": 1234}}}, "cards", '{(1, 2): {"pin": "***"}}'),
    ({"failed": OSError("https://me:s3cret@host")}, "failed", "https://me:***@host"),
    ({"stack_info": "Stack:\n  b.py"}, "stack", "Stack:\n  b.py"),
])
def test_each_record_is_one_line_of_json_in_ascii(attributes, member, value):
    record = logging.makeLogRecord({"name": "a", "levelname": "INFO", "msg": "x", **attributes})
    written = JSONFormatter().format(record)
    assert written.isascii() and "\n" not in written

    def refuse(constant):
        raise ValueError(f"JSON has no {constant}")

    assert json.loads(written, parse_constant=refuse)[member] == value


@pytest.mark.parametrize("era", ERAS)
def test_server_timing_is_a_header_of_the_response(era):
    server = with_tools(ServerTiming())
    with mcplite.serve(server) as served, requests.Session() as session:
        seen = []
        session.hooks["response"].append(lambda response, *args, **kwargs: seen.append(response.headers.get("server-timing")))
        with mcplite.connect(served.url, session=session, options=mcplite.ClientOptions(era=era)) as client:
            del seen[:]
            client.call_tool("pay", {"amount": 5, "card_token": "abc"})
    assert seen and re.fullmatch(r"handler;dur=\d+\.\d{3}", seen[0])


def test_a_call_is_noted_before_it_runs_and_when_it_has_ended(tmp_path):
    path = tmp_path / "audit.jsonl"
    principals = {"t": mcplite.Principal("anna", audience=mcplite.auth.ISSUED_HERE)}
    server = with_tools(AuditLog(path), auth=mcplite.BearerAuth(principals.get))
    with mcplite.serve(server) as served, mcplite.connect(served.url, auth=mcplite.Bearer("t")) as client:
        client.list_tools()
        client.call_tool("pay", {"amount": 5, "card_token": "abc"})
        client.call_tool("pay", {"amount": -5, "card_token": "abc"})
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(entry["event"], entry.get("outcome")) for entry in entries] == [
        ("begun", None), ("ended", "ok"), ("begun", None), ("ended", "tool_error")]
    assert {entry["principal"] for entry in entries} == {"anna"} and {entry["name"] for entry in entries} == {"pay"}
    assert entries[0]["arguments"] == {"amount": 5, "card_token": "***"}
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


def test_a_call_that_cannot_be_noted_does_not_run():
    entries = []

    def note(entry):
        if entry["event"] == "begun" and entry["arguments"] is None:
            raise OSError("the disk is full")
        entries.append(entry)

    server = with_tools(AuditLog(note))
    server.middleware_ran = False

    @server.tool()
    def empty() -> None:
        server.middleware_ran = True

    with mcplite.connect(server) as client:
        with pytest.raises(InternalError, match="cannot be noted in the audit log, so it was not begun"):
            client.request("tools/call", {"name": "empty"})
        client.call_tool("pay", {"amount": 5, "card_token": "abc"})
    assert not server.middleware_ran and [entry["event"] for entry in entries] == ["begun", "ended"]


def test_arguments_can_be_left_out():
    entries = []
    with mcplite.connect(with_tools(AuditLog(entries.append, arguments=False))) as client:
        client.call_tool("pay", {"amount": 5, "card_token": "abc"})
    assert len(entries) == 2 and not any("arguments" in entry for entry in entries)
