"""Open subscriptions/listen requests: the acknowledgement first, then each change once, however slow the client is."""

import json
import queue
import threading

import pytest

import mcplite
from mcplite.errors import TransportError
from mcplite.rpc.request import Incoming
from tests.support import connecting
from tests.support.faults import lines, strike
from tests.support.stateless import PREFIX, Web, message
from tests.support.tight import tight

LIMIT = 30
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True,
       "resourceSubscriptions": ["memo://a", "memo://b"]}


def make(**options):
    mcp = connecting.new_server("news", **options)
    mcp.add_tool(lambda: "x", name="x")
    mcp.add_prompt(lambda: "x", name="x")
    mcp.add_resource("memo://a", lambda: "x", name="r")
    return mcp


def listen(filter, id=1):
    return message("subscriptions/listen", {"notifications": filter}, id)


class Stream:
    """What one listener over HTTP gets, read on a thread as a host would read it."""

    def __init__(self, web, filter, id=1, principal=None):
        self.response = web.respond(listen(filter, id), principal)
        self.messages = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        if self.response.streaming:
            self._thread.start()

    def _read(self):
        for piece in self.response.body:
            for line in piece.decode().splitlines():
                if line.startswith("data: "):
                    self.messages.put(json.loads(line[6:]))
        self.messages.put(None)
        self.response.close()

    def get(self):
        return self.messages.get(timeout=LIMIT)

    def leave(self):
        self.response.body.stop()
        self._thread.join(LIMIT)


@pytest.fixture
def web():
    web = Web(make())
    yield web
    web.close()


def note(method, id=1, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}",
            "params": {"_meta": {PREFIX + "subscriptionId": id}, **params}}


def test_the_acknowledgement_comes_first_with_the_honoured_filter(web):
    stream = Stream(web, ALL, id="mine")
    assert dict(stream.response.headers)["X-Accel-Buffering"] == "no"
    assert stream.get() == note("subscriptions/acknowledged", "mine", notifications=ALL)  # SUBS-03, SUBS-06
    web.mcp.add_tool(lambda: "y", name="y")
    assert stream.get() == note("tools/list_changed", "mine")
    web.mcp.resource_updated("memo://b")
    assert stream.get() == note("resources/updated", "mine", uri="memo://b")
    stream.leave()
    assert len(web.mcp.runtime.subscriptions) == 0


def test_only_requested_notifications_are_sent(web):
    stream, mcp = Stream(web, {"promptsListChanged": True, "toolsListChanged": False}), web.mcp
    assert stream.get()["params"]["notifications"] == {"promptsListChanged": True}
    mcp.add_tool(lambda: "y", name="y")  # SUBS-02
    mcp.resource_updated("memo://a")
    mcp.add_prompt(lambda: "y", name="y")
    assert stream.get() == note("prompts/list_changed")
    stream.leave()


def test_a_resource_is_told_with_the_uri_that_the_client_wrote(web):
    stream, mcp = Stream(web, {"resourceSubscriptions": ["Memo://%61"]}), web.mcp
    assert stream.get()["params"]["notifications"] == {"resourceSubscriptions": ["Memo://%61"]}
    mcp.resource_updated("memo://a")
    assert stream.get()["params"]["uri"] == "Memo://%61"
    stream.leave()


def test_filters_for_what_the_server_does_not_offer_are_not_honoured():
    mcp = mcplite.Server("tools only")
    mcp.add_tool(lambda: "x", name="x")
    web = Web(mcp)
    stream = Stream(web, {**ALL, "somethingElse": True})
    assert stream.get()["params"]["notifications"] == {"toolsListChanged": True}  # SUBS-08
    stream.leave()
    web.close()


def test_a_slow_client_delays_no_other_and_misses_no_change():
    mcp = make(limits=tight(unread_messages=4))
    web = Web(mcp)
    response = web.respond(listen(ALL))
    for _ in range(1000):
        mcp.resource_updated("memo://a")  # SUBS-20: each returns at once
        mcp.resource_updated("memo://b")
    mcp.resource_updated("memo://b")
    stream = Stream.__new__(Stream)
    stream.response, stream.messages = response, queue.Queue()
    stream._thread = threading.Thread(target=stream._read, daemon=True)
    stream._thread.start()
    seen = [stream.get()]
    assert seen[0]["method"] == "notifications/subscriptions/acknowledged"
    web.mcp.add_prompt(lambda: "z", name="last")
    while seen[-1]["method"] != "notifications/prompts/list_changed":
        seen.append(stream.get())
    uris = [one["params"].get("uri") for one in seen]
    assert {"memo://a", "memo://b"} <= set(uris) and len(seen) < 50
    stream.leave()
    web.close()


def test_one_call_notifies_sessions_and_listen_requests(connect, web):
    mcp = web.mcp
    old = connect(mcp)
    old.result("resources/subscribe", {"uri": "memo://a"})
    stream = Stream(web, {"resourceSubscriptions": ["memo://a"]})
    stream.get()
    mcp.resource_updated("memo://a")
    assert stream.get()["params"]["uri"] == "memo://a"
    assert old.receive() == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "memo://a"}}
    stream.leave()


@pytest.mark.parametrize("filter, text", [
    (None, "must be an object"), ([], "must be an object"), ({"toolsListChanged": "yes"}, "true or false"),
    ({"resourceSubscriptions": "memo://a"}, "list of at most"), ({"resourceSubscriptions": [3]}, "list of at most"),
    ({"resourceSubscriptions": ["memo://x"] * 10_001}, "list of at most")])
def test_invalid_filters_are_refused(way, filter, text):
    error = way(make()).error(listen(filter))
    assert error["code"] == -32602 and text in error["message"]


@pytest.mark.parametrize("count, status, code", [(10_000, 403, None), (10_001, 200, -32602)])
def test_a_long_filter_does_not_bypass_scopes(count, status, code):
    mcp = make()
    mcp.add_resource("memo://closed", lambda: "x", name="closed", scopes=["secret"])
    web = Web(mcp)
    response = web.respond(listen({"resourceSubscriptions": ["memo://a"] * (count - 1) + ["memo://closed"]}),
                           mcplite.Principal("ada"))
    assert response.status == status and not response.streaming and len(mcp.runtime.subscriptions) == 0
    if code is not None:
        assert json.loads(response.content)["error"]["code"] == code
    web.close()


def test_an_empty_filter_is_valid(web):
    stream = Stream(web, {})
    assert stream.get() == note("subscriptions/acknowledged", notifications={})
    stream.leave()


def test_above_the_limit_of_listen_requests_the_oldest_of_the_sender_with_the_most_ends():
    web = Web(make(limits=mcplite.Limits(streams=3)))
    other = Stream(web, ALL, 1, principal=mcplite.Principal("ada"))
    streams = [Stream(web, ALL, id) for id in (2, 3, 4)]
    assert [streams[0].get()["method"], streams[0].get()["id"], streams[0].get()] == [
        "notifications/subscriptions/acknowledged", 2, None]
    assert len(web.mcp.runtime.subscriptions) == 3
    for stream in (other, *streams[1:]):
        assert stream.get()["method"] == "notifications/subscriptions/acknowledged"
        stream.leave()
    assert len(web.mcp.runtime.subscriptions) == 0
    web.close()


def test_closing_the_server_ends_listen_requests_with_a_result(web):
    stream = Stream(web, ALL, id=7)
    stream.get()
    web.close()
    assert stream.get() == {"jsonrpc": "2.0", "id": 7, "result": {
        "resultType": "complete", "_meta": {PREFIX + "subscriptionId": 7,
                                            PREFIX + "serverInfo": {"name": "news", "version": "0.1.0"}}}}  # SUBS-11, STAT-10
    assert stream.get() is None


# --- on a pipe ----------------------------------------------------------------------------------------------


def test_listen_requests_on_a_pipe_are_independent(connect):
    mcp = make()
    client = connect(mcp, revision=None)
    client.send(listen({"toolsListChanged": True}, "t"))
    assert client.receive() == note("subscriptions/acknowledged", "t", notifications={"toolsListChanged": True})
    client.send(listen({"promptsListChanged": True}, "p"))
    assert client.receive()["params"]["_meta"] == {PREFIX + "subscriptionId": "p"}
    mcp.add_tool(lambda: "y", name="y")
    mcp.add_prompt(lambda: "y", name="y")
    # Each is told by a task of its own, in any order.
    told = sorted([client.receive(), client.receive()], key=lambda received: str(received["method"]))
    assert told == [note("prompts/list_changed", "p"), note("tools/list_changed", "t")]
    client.notify("notifications/cancelled", {"requestId": "t"})
    client.send(message("tools/list", id="after"))
    assert client.receive()["id"] == "after"
    mcp.add_tool(lambda: "z", name="z")
    mcp.add_prompt(lambda: "z", name="z")
    assert client.receive() == note("prompts/list_changed", "p")
    assert len(mcp.runtime.subscriptions) == 1


def test_a_listen_request_ends_with_its_pipe(connect):
    mcp = make()
    client = connect(mcp, revision=None)
    client.send(listen(ALL))
    client.receive()
    assert len(mcp.runtime.subscriptions) == 1
    client.close()
    assert len(mcp.runtime.subscriptions) == 0


@pytest.mark.parametrize("limits, uris", [({"subscriptions": 3}, ["memo://1", "memo://2", "memo://3", "memo://4"]),
                                          ({"listen_bytes": 2000}, ["memo://" + "x" * 1900, "memo://" + "y" * 1900])])
def test_a_filter_names_a_limited_number_of_resources(limits, uris):
    web = Web(make(limits=tight(**limits)))
    assert web.error(listen({"resourceSubscriptions": uris}))["code"] == -32602
    assert len(web.mcp.runtime.subscriptions) == 0
    stream = Stream(web, {"resourceSubscriptions": uris[:-1]})
    assert stream.get()["params"]["notifications"] == {"resourceSubscriptions": uris[:-1]}
    web.mcp.resource_updated(uris[0])
    assert stream.get() == note("resources/updated", uri=uris[0])
    stream.leave()
    web.close()


def test_an_open_request_keeps_no_more_than_its_filter():
    long = "x" * 100_000
    web = Web(make())
    request = message("subscriptions/listen", {"notifications": ALL, "more": long}, 1, more=long,
                      info={"name": long, "version": "1"}, capabilities={"elicitation": {}, "more": {long: 1}})
    given = web.mcp.runtime.subscriptions.open
    seen = []
    web.mcp.runtime.subscriptions.open = lambda incoming, *more: seen.append(incoming) or given(incoming, *more)
    response = web.respond(request)
    incoming, = seen
    assert incoming.params == {} and incoming.facts.envelope.meta == {}
    assert len(incoming.facts.envelope.info.name) == 256
    response.body.stop()
    response.close()
    assert len(web.mcp.runtime.subscriptions) == 0
    web.close()


# --- A fault while one client is told of a change keeps nothing from the others, and from that one only until the next----


TOOLS, PROMPTS = "notifications/tools/list_changed", "notifications/prompts/list_changed"


@pytest.fixture
def listening():
    web = Web(make())
    streams = [Stream(web, {"toolsListChanged": True, "promptsListChanged": True}, id) for id in (1, 2)]
    for stream in streams:
        assert stream.get()["method"] == "notifications/subscriptions/acknowledged"
    yield web, streams
    for stream in streams:
        stream.leave()
    web.close()


@pytest.mark.parametrize("fault", [MemoryError, RuntimeError])
def test_what_was_not_sent_is_sent_with_the_next_change(listening, monkeypatch, caplog, fault):
    web, (first, second) = listening
    struck = strike(monkeypatch, Incoming, "offer", fault)
    web.mcp.tools_changed()
    assert struck.is_set() and second.get()["method"] == TOOLS
    web.mcp.prompts_changed()
    assert {first.get()["method"] for _ in range(2)} == {TOOLS, PROMPTS}
    assert second.get()["method"] == PROMPTS
    assert lines(caplog, "a client is told of a change with the next one") == 1


def test_a_slow_client_is_told_once_the_system_has_a_thread(listening, monkeypatch, caplog):
    web, (first, second) = listening
    runtime = web.mcp.runtime
    monkeypatch.setattr(Incoming, "offer", lambda *arguments: False)
    refused = strike(monkeypatch, type(runtime.workers), "spawn", lambda: TransportError("no thread"))
    web.mcp.tools_changed()
    assert refused.is_set() and second.get()["method"] == TOOLS
    web.mcp.prompts_changed()
    assert {first.get()["method"] for _ in range(2)} == {TOOLS, PROMPTS}
    assert lines(caplog, "a client is told of a change with the next one") == 1
