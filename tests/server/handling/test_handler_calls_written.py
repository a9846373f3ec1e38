"""Two ways to the response of a tool: written straight from its value, or made as a result, encoded, and written.

A middleware, which may change results, has the second way taken. Both servers here get the same messages, and have to send
the same bytes.
"""

import dataclasses
import datetime
import enum
import json
import logging
import random
from typing import Any, Dict, List, Optional, Union

import pytest

import mcplite
from mcplite import revisions, types
from mcplite.protocol import jsonrpc, meta
from mcplite.rpc.interfaces import Channel
from mcplite.server.sessions.legacy import create_session
from tests.support import connecting

#: For each revision; more than 10,000 in all.
MESSAGES = 2100
TEXTS = ("", "a", "Ätna", "\u2028 \"quoted\" \\ \n\t\x00\x7f", "\ud800 alone", "\U0001f600" * 3, "x" * 300)


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: float
    y: Optional[int] = None
    tags: List[str] = dataclasses.field(default_factory=list)


class Number(int):
    """An integer whose text is its own."""

    def __repr__(self) -> str:
        return "number"


#: What the tool "give" may return, which has no annotation, and the tools that have one.
VALUES: Dict[str, Any] = {
    "none": None, "true": True, "int": -7, "large": 10 ** 40, "float": 0.1, "exponent": 1e300, "nan": float("nan"),
    "subclass": Number(5), "text": "Ätna", "surrogate": "\udc80", "list": [1, "a", None], "tuple": (1, 2), "set": {3, 1},
    "dict": {"a": {"b": [1.5, True, "\u2028"]}}, "empty": {}, "keys": {1: 2}, "nested nan": {"a": float("inf")},
    "result": {"result": 5}, "result none": {"result": None}, "date": datetime.date(2026, 7, 28), "point": Point(1.0, 2, ["a"]),
    "dict of content": {"a": types.TextContent("x")}, "content": types.TextContent("x"), "object": object(), "bytes": b"\0\xff",
    "image": mcplite.Image(data=b"\x89PNG", mime_type="image/png"), "items": ["a", types.TextContent("b"), {"c": 1}],
    "link": types.ResourceLink(uri="file:///a", name="a"), "audio": mcplite.Audio(data=b"RIFF", mime_type="audio/wav"),
    "call": types.CallToolResult(content=[types.TextContent("x")], meta={"com.example/a": 1}),
    "call with data": types.CallToolResult(structured_content={"result": 1}),
    "call with null": types.CallToolResult(structured_content=types.NULL),
    "call with error": types.CallToolResult(content=[types.TextContent("x")], is_error=True), "colour": Colour.RED,
    "colour 2": Colour.BLUE, "generator": (n for n in range(3)),
}
VALUES["long"] = "\ud800\U0001f600\"\\\n\x00é" * 10_000
VALUES["long in a dict"] = {"a": VALUES["long"]}
VALUES["cycle"] = cycle = []
cycle.append(cycle)
SCHEMAS: Dict[str, Any] = {
    "an integer": {"type": "integer", "minimum": 0}, "a value": {"type": ["string", "null"]},
    "an object": {"type": "object", "properties": {"result": {"type": "integer"}}}, "anything": {},
    "an array": {"type": "array", "items": {"type": "integer"}},
}


def tools(server: mcplite.Server) -> None:
    @server.tool()
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool()
    def half(a: float) -> float:
        return a / 2

    @server.tool()
    def join(parts: List[str], point: Optional[Point] = None) -> str:
        return "".join(parts) if point is None else f"{point}"

    @server.tool()
    def move(point: Point, colour: Colour = Colour.RED) -> Point:
        return dataclasses.replace(point, y=len(colour.name))

    @server.tool()
    def divide(a: int, b: int) -> Dict[str, float]:
        return {"quotient": a / b}

    @server.tool()
    def fail(kind: str) -> str:
        raise {"tool": mcplite.ToolError("no", [types.TextContent("x")]),
               "remote": mcplite.RemoteError("no", code=7, data={"a": 1}), "params": mcplite.errors.InvalidParams("no"),
               "cancelled": mcplite.Cancelled("no")}.get(kind, ValueError(kind))

    @server.tool()
    def report(count: int, ctx: mcplite.Context) -> int:
        for n in range(min(count, 5)):
            ctx.report_progress(n, message="step")
        return count

    @server.tool()
    def cancel(ctx: mcplite.Context) -> str:
        ctx.session.peer.cancel_incoming(ctx.request_id, "by itself")
        return "too late"

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        return str(ctx.elicit("sure?").accepted)

    @server.tool(timeout=60)
    def timed(text: str) -> str:
        return text

    for name, annotation in {"untyped": None, "number": int, "flag": bool, "fraction": float, "words": str, "colours": Colour,
                             "many": List[int], "either": Union[int, str, None], "day": datetime.date, "data": Dict[str, Any],
                             "point": Point, "nothing": type(None)}.items():
        for structured in (None, False, "bare"):
            if not (annotation is None and structured == "bare"):
                server.add_tool(giver(annotation), name=f"{name} {structured}", structured_output=structured)
    for name, schema in SCHEMAS.items():
        for structured in (None, "bare"):
            server.add_tool(giver(None), name=f"{name} {structured}", output_schema=schema, structured_output=structured)


def giver(annotation: Any) -> Any:
    def give(key: str):
        return VALUES.get(key, key)

    if annotation is not None:
        give.__annotations__["return"] = annotation
    return give


class Sent(Channel):
    """A channel that is never read, and keeps what is written."""

    name = "the client"

    def __init__(self) -> None:
        self.messages: List[bytes] = []

    def read(self, timeout=None):
        raise AssertionError("messages are handed in")

    def write(self, data, timeout=None):
        self.messages.append(data)

    def close(self):
        pass


class Served:
    """A server that answers on the thread that hands it a message."""

    def __init__(self, **options: Any) -> None:
        self.server = connecting.new_server("written", version="1", **options)
        tools(self.server)
        self.channel = Sent()
        _, self.peer = create_session(self.server.runtime, self.channel)

    def answers(self, data: bytes) -> List[bytes]:
        self.channel.messages.clear()
        self.peer.receive(data, jsonrpc.parse(data))
        return list(self.channel.messages)


@pytest.fixture
def both(caplog):
    caplog.set_level(logging.CRITICAL)
    served = [Served(), Served(middleware=[lambda context, proceed: proceed()])]
    yield served
    for one in served:
        one.peer.close(timeout=0)
        one.server.close()


def arguments(random: random.Random, name: str) -> Any:
    numbers: List[Any] = [0, 3, -1, 2.0, 2.5, True, None, "4", [], 10 ** 20]
    point: Any = random.choice([{"x": 1}, {"x": 2.5, "y": 3, "tags": ["a"]}, {"x": "a"}, {}, None, 5])
    made: Any = {
        "add": {"a": random.choice(numbers), "b": random.choice(numbers)}, "half": {"a": random.choice(numbers)},
        "join": {"parts": random.choices(TEXTS, k=2), "point": point},
        "move": {"point": point, "colour": random.choice(["red", 2, "green"])}, "divide": {"a": 1, "b": random.choice([0, 4])},
        "report": {"count": random.choice([0, 2])},
        "fail": {"kind": random.choice(["tool", "remote", "params", "cancelled", "other", ""])},
        "timed": {"text": random.choice(TEXTS)}, "cancel": {}, "ask": {},
    }.get(name, {"key": random.choice([*VALUES, *TEXTS])})
    change = random.random()
    if change < 0.05:
        return random.choice([[], "text", 1, None])
    if change < 0.1 and made:
        made.pop(random.choice(list(made)))
    elif change < 0.15:
        made["unknown"] = 1
    return made


def message(random: random.Random, revision: revisions.Revision, names: List[str], id: int) -> bytes:
    name: Any = random.choice(names) if random.random() < 0.95 else random.choice(["missing", "another", 5, None])
    params: Dict[str, Any] = {"name": name, "arguments": arguments(random, name)}
    held: Dict[str, Any] = {}
    if revision.modern:
        held = {meta.VERSION: revision.name, meta.CAPABILITIES: random.choice([{}, {"sampling": {}}])}
    if random.random() < 0.3:
        held["progressToken"] = random.choice([id, "token", True, None, 1.5])
    if random.random() < 0.2:
        held["com.example/note"] = random.choice(TEXTS[:4])
    if held or random.random() < 0.1:
        params["_meta"] = held
    if random.random() < 0.03:
        params = random.choice([{}, {"name": name}, {"_meta": 5, "name": name}])
    body = {"jsonrpc": "2.0", "id": random.choice([id, f"id {id}"]), "method": "tools/call", "params": params}
    if random.random() < 0.02:
        body["method"] = random.choice(["tools/list", "ping", "tools/missing", "notifications/cancelled"])
    return json.dumps(body, ensure_ascii=random.random() < 0.5).encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("revision", revisions.REVISIONS, ids=str)
@pytest.mark.slow
def test_both_ways_send_the_same_bytes(both, revision):
    chance = random.Random(f"{revision}")
    if not revision.modern:
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision.name, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}
        for one in both:
            assert one.answers(json.dumps(opening).encode())
            one.answers(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    names = list(both[0].server.runtime.catalog.registry.all("tools"))
    answered = failed = structured = 0
    for id in range(1, MESSAGES):
        sent = message(chance, revision, names, id)
        direct, general = (one.answers(sent) for one in both)
        assert direct == general, sent
        answered += bool(direct)
        failed += bool(direct) and (b'"isError":true' in direct[-1] or b'"error":' in direct[-1])
        structured += bool(direct) and b'"structuredContent":' in direct[-1]
    assert answered > MESSAGES * 0.9 and MESSAGES * 0.9 > failed > MESSAGES * 0.1
    assert structured > MESSAGES * 0.1 if revision.structured_output else not structured
