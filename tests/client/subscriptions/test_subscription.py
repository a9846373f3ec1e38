"""Listening to changes: what is told, what happens when the connection breaks, and how it ends, in both eras."""

import contextlib
import logging
import threading

import pytest

import mcplite
from mcplite import PromptsChanged, ResourcesChanged, ResourceUpdated, ToolsChanged, revisions
from mcplite.client.subscriptions import subscription as listen
from mcplite.client.subscriptions.events import Filter
from mcplite.errors import SERVER_BUSY, ConnectionClosed, RemoteError, RequestTimeout, TransportError
from tests.support.children import wait_until
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal, start
from tests.support.webscript import WebScript

DISCOVERED = {"resultType": "complete", "supportedVersions": [revisions.NEWEST.name],
              "ttlMs": 0, "cacheScope": "private",
              "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True},
                               "prompts": {"listChanged": True}}}
ID = "io.modelcontextprotocol/subscriptionId"
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS, PROMPTS, RESOURCES, UPDATED = (
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
    "notifications/resources/updated")


class News(Fake):
    """A modern server on a pipe that acknowledges whatever is asked for, and tells what a test says."""

    def __init__(self, honoured=None, **answers):
        self._honoured, self._count = honoured, 0
        super().__init__({"server/discover": DISCOVERED, "tools/list": {"resultType": "complete", "tools": []},
                          LISTEN: self._listen, **answers})

    def _listen(self, params):
        self._count += 1
        self.acknowledge(self._count, params["notifications"] if self._honoured is None else self._honoured)
        return SILENCE

    def connect(self, **options):
        return super().connect(**{"era": "modern", **options})

    def id(self, number):
        return self.got(LISTEN, number)["id"]

    def acknowledge(self, number, honoured):
        self.tell(ACKNOWLEDGED, {"_meta": {ID: self.id(number)}, "notifications": honoured})

    def say(self, method, number=1, **params):
        """Tell something on the subscription number *number*."""
        self.tell(method, {"_meta": {ID: self.id(number)}, **params})

    def end(self, number=1):
        """End a subscription as a server does that is about to stop (SUBS-11, SUBS-12)."""
        id = self.id(number)
        self.send({"id": id, "result": {"resultType": "complete", "_meta": {ID: id}}})
        self.tell("notifications/cancelled", {"requestId": id, "reason": "stopping"})


class Streams(WebScript):
    """The same behind a URL. ``streams`` has the ids and the ways back, ``drop`` breaks a stream off."""

    def __init__(self):
        super().__init__()
        self.streams, self._dropped = [], []
        #: A client may be told that its stream has begun before this side has noted it.
        self._noted = threading.Condition()
        self.refusal = None

    def __exit__(self, *exc):
        for dropped in self._dropped:
            dropped.set()
        super().__exit__(*exc)

    def on_server_discover(self, request, answer):
        answer.json(self.result(request, DISCOVERED))

    def on_subscriptions_listen(self, request, answer):
        if self.refusal is not None:
            return self.refusal(request, answer)
        id, dropped = request.message["id"], threading.Event()
        self._dropped.append(dropped)
        answer.events({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": {
            "_meta": {ID: id}, "notifications": request.message["params"]["notifications"]}})
        with self._noted:
            self.streams.append((id, answer))
            self._noted.notify_all()
        dropped.wait(LIMIT)
        return answer.cut()

    def _stream(self, number):
        with self._noted:
            assert self._noted.wait_for(lambda: len(self.streams) > number, LIMIT)
            return self.streams[number]

    def say(self, number, method, **params):
        id, answer = self._stream(number)
        answer.more({"jsonrpc": "2.0", "method": method, "params": {"_meta": {ID: id}, **params}})

    def end(self, number):
        """End a stream with its result (SUBS-11)."""
        id, answer = self._stream(number)
        answer.more({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": {ID: id}}})
        answer.end()
        self._dropped[number].set()

    def drop(self, number):
        self._dropped[number].set()

    def connect(self, **options):
        return mcplite.connect(self.url, **{"timeout": LIMIT, "era": "modern", **options})


@pytest.fixture
def impatient(monkeypatch):
    """One attempt to listen again, in place of many that grow longer."""
    monkeypatch.setattr(listen, "_ATTEMPTS", 1)


# --- what is asked for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted, wire", [
    ({"tools": True}, {"toolsListChanged": True}), ({"prompts": True}, {"promptsListChanged": True}),
    ({"resource_list": True}, {"resourcesListChanged": True}),
    ({"resources": ["a:b"]}, {"resourceSubscriptions": ["a:b"]}),
    ({"tools": True, "resources": ("a:b", "c:d", "a:b")},
     {"toolsListChanged": True, "resourceSubscriptions": ["a:b", "c:d"]}),
])
def test_a_filter_on_the_wire(wanted, wire):
    assert Filter(**wanted).wire == wire
    with News() as news, news.connect() as client, client.listen(**wanted) as events:
        assert news.got(LISTEN)["params"]["notifications"] == wire  # SUBS-01
        assert events.honoured == wire and events.error is None


@pytest.mark.parametrize("wanted", [{}, {"tools": False}, {"resources": []}, {"resources": ()}])
def test_a_filter_for_nothing(wanted):
    with News() as news, news.connect() as client:
        for use in (client.listen, lambda **wanted: client.subscribe(print, **wanted)):
            with pytest.raises(ValueError, match="what to listen to"):
                use(**wanted)
        assert LISTEN not in news.methods()


def test_one_uri_is_no_list_of_uris():
    with pytest.raises(TypeError, match=r"\['a:b'\]"):
        Filter(resources="a:b")


def test_events_are_what_they_say():
    assert ToolsChanged() == ToolsChanged(missed=False) != ToolsChanged(missed=True) != PromptsChanged(missed=True)
    assert ResourceUpdated(uri="a:b").params == {"uri": "a:b"} and ResourcesChanged().params == {}
    assert [kind.method for kind in (ToolsChanged, PromptsChanged, ResourcesChanged, ResourceUpdated)] == [
        TOOLS, PROMPTS, RESOURCES, UPDATED]


def test_a_server_that_keeps_to_less_is_named(caplog):
    with caplog.at_level(logging.WARNING, "mcplite"):
        with News({"toolsListChanged": True}) as news, news.connect() as client:
            with client.listen(tools=True, prompts=True, resources=["a:b"]) as events:
                assert events.honoured == {"toolsListChanged": True}  # SUBS-08
    assert "promptsListChanged, resourceSubscriptions" in caplog.text and "toolsListChanged" not in caplog.text


@pytest.mark.parametrize("honoured", [
    {"toolsListChanged": False, "resourceSubscriptions": ["a:b", "c:d"]},
    {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]},
    {"toolsListChanged": True, "resourceSubscriptions": "c:d"},
])
def test_a_server_that_says_no_or_keeps_to_some_of_the_uris_is_named_as_well(honoured, caplog):
    with caplog.at_level(logging.WARNING, "mcplite"):
        with News(honoured) as news, news.connect() as client, client.listen(tools=True, resources=["a:b", "c:d"]):
            assert "does not tell of" in caplog.text


@pytest.mark.parametrize("honoured", [None, [], "all", 3])
def test_an_acknowledgement_of_nothing(honoured, caplog):
    with News() as news, news.connect() as client:
        news.answers[LISTEN] = lambda params: news.acknowledge(1, honoured) or SILENCE
        with client.listen(tools=True) as events:
            assert events.honoured == {} and "toolsListChanged" in caplog.text


def test_a_server_that_refuses():
    with News(**{LISTEN: Refusal(-31001, "too many")}) as news, news.connect() as client:
        with pytest.raises(RemoteError, match="too many"):
            client.listen(tools=True)
        client.list_tools()
        assert news.methods().count(LISTEN) == 1


def test_a_server_that_does_not_acknowledge():
    with News(**{LISTEN: lambda params: SILENCE}) as news, news.connect() as client:
        with pytest.raises(RequestTimeout, match="acknowledge"):
            client.listen(tools=True, timeout=0.2)
        assert news.got("notifications/cancelled")["params"]["requestId"] == news.id(1)


def test_a_server_that_ends_it_at_once():
    with News(**{LISTEN: {"resultType": "complete"}}) as news, news.connect() as client:
        with pytest.raises(ConnectionClosed, match="ended"):
            client.listen(tools=True)
        assert news.methods().count(LISTEN) == 1


# --- what is told ---------------------------------------------------------------------------------------------


def test_events_come_in_order_and_once_each():
    with News() as news, news.connect() as client:
        with client.listen(tools=True, prompts=True, resource_list=True, resources=["a:b", "c:d"]) as events:
            assert events.get(0.01) is None
            for method, params in ((PROMPTS, {}), (TOOLS, {}), (UPDATED, {"uri": "c:d"}), (PROMPTS, {}), (TOOLS, {}),
                                   (UPDATED, {"uri": "a:b"}), (RESOURCES, {}), (UPDATED, {"uri": "c:d"})):
                news.say(method, **params)
            client.list_tools()  # its answer comes behind all of them
            assert [events.get(LIMIT) for _ in range(5)] == [
                PromptsChanged(), ToolsChanged(), ResourceUpdated(uri="c:d"), ResourceUpdated(uri="a:b"),
                ResourcesChanged()]
            assert events.get(0.01) is None
            news.say(TOOLS)  # and once they were taken, they come again
            assert events.get(LIMIT) == ToolsChanged()


def test_an_event_from_below_a_resource_names_what_has_changed():
    with News() as news, news.connect() as client, client.listen(resources=["a:b"]) as events:
        news.say(UPDATED, uri="a:b/c")
        assert events.get(LIMIT) == ResourceUpdated(uri="a:b/c")  # RSRC-14


def test_what_was_not_asked_for_is_not_told():
    with News() as news, news.connect() as client, client.listen(tools=True) as events:
        news.say(PROMPTS)
        news.say(UPDATED, uri="a:b")
        news.say("notifications/message", level="info", data="x")
        news.tell(TOOLS)  # of no subscription
        for id in ("1", 99, None, [1], True):
            news.tell(TOOLS, {"_meta": {ID: id}})
        news.tell(TOOLS, {"_meta": 3})
        news.say(TOOLS)
        client.list_tools()
        assert events.get(LIMIT) == ToolsChanged() and events.get(0.01) is None


def test_subscriptions_on_one_pipe_are_told_apart():
    with News() as news, news.connect() as client:
        with client.listen(tools=True) as one, client.listen(tools=True, prompts=True) as two:
            news.say(TOOLS, 2)
            news.say(PROMPTS, 1)
            news.say(PROMPTS, 2)
            client.list_tools()
            assert [two.get(LIMIT), two.get(LIMIT)] == [ToolsChanged(), PromptsChanged()]  # SUBS-06, SUBS-09
            assert one.get(0.01) is None


def test_listening_has_no_end_by_itself():
    with News(slow=lambda params: SILENCE) as news, news.connect(timeout=0.1, max_timeout=0.1) as client:
        with client.listen(tools=True, timeout=LIMIT) as events:
            for _ in range(3):
                with pytest.raises(RequestTimeout):
                    client.request("slow")
            news.say(TOOLS)
            assert events.get(LIMIT) == ToolsChanged()  # SUBS-19
            assert news.methods().count(LISTEN) == 1


def test_a_callback_gets_the_events_one_after_another_and_in_place_of_an_iteration():
    seen, come = [], threading.Semaphore(0)

    def note(event):
        seen.append((event, threading.current_thread()))
        come.release()

    with News() as news, news.connect() as client:
        end = client.subscribe(note, tools=True, resources=["a:b"])
        news.say(TOOLS)
        news.say(UPDATED, uri="a:b")
        assert come.acquire(timeout=LIMIT) and come.acquire(timeout=LIMIT)
        assert [event for event, _ in seen] == [ToolsChanged(), ResourceUpdated(uri="a:b")]
        assert len({thread for _, thread in seen}) == 1 and seen[0][1] is not threading.current_thread()
        end()
        assert news.got("notifications/cancelled")["params"]["requestId"] == news.id(1)
        news.say(TOOLS)
        client.list_tools()
        end()
    assert len(seen) == 2


def test_a_callback_that_fails_ends_nothing(caplog):
    come = threading.Event()
    with News() as news, news.connect() as client:
        client.subscribe(lambda event: come.set() if event == PromptsChanged() else 1 / 0, tools=True, prompts=True)
        news.say(TOOLS)
        news.say(PROMPTS)
        assert come.wait(LIMIT)
    assert "ZeroDivisionError" in caplog.text


# --- handlers of changes ----------------------------------------------------------------------------------------


def test_a_server_that_declares_no_such_news_is_not_asked_for_them():
    with News() as news:
        news.answers["server/discover"] = {**DISCOVERED, "capabilities": {"tools": {}, "prompts": {"listChanged": False}}}
        with news.connect(on_tools_changed=print, on_prompts_changed=print, on_resources_changed=print) as client:
            client.ping()
            assert LISTEN not in news.methods()


def test_handlers_of_changes_listen_by_themselves():
    tools, prompts = threading.Event(), threading.Event()
    with News() as news, news.connect(on_tools_changed=tools.set, on_prompts_changed=prompts.set) as client:
        assert news.got(LISTEN)["params"]["notifications"] == {"toolsListChanged": True, "promptsListChanged": True}
        news.say(TOOLS)
        assert tools.wait(LIMIT) and not prompts.is_set()
        news.say(PROMPTS)
        assert prompts.wait(LIMIT)
        client.list_tools()


def test_handlers_of_changes_are_no_reason_not_to_open(caplog):
    with News(**{LISTEN: Refusal(-32601)}) as news, news.connect(on_tools_changed=print) as client:
        assert client.list_tools() == [] and "does not announce changes" in caplog.text


def test_one_resource_at_a_time():
    updates, come = [], threading.Semaphore(0)
    with News() as news, news.connect(on_resource_updated=lambda uri: updates.append(uri) or come.release()) as client:
        client.subscribe_resource("a:b")
        client.subscribe_resource("a:b")
        client.subscribe_resource("c:d")
        assert news.methods().count(LISTEN) == 2
        news.say(UPDATED, 2, uri="c:d")
        news.say(UPDATED, 1, uri="a:b")
        assert come.acquire(timeout=LIMIT) and come.acquire(timeout=LIMIT) and updates == ["c:d", "a:b"]
        client.unsubscribe_resource("a:b")
        client.unsubscribe_resource("a:b")
        assert news.got("notifications/cancelled")["params"]["requestId"] == news.id(1)
        client.subscribe_resource("a:b")
        assert news.methods().count(LISTEN) == 3


def test_a_resource_whose_subscription_was_lost_is_subscribed_to_anew():
    refused = threading.Event()
    with News() as news, news.connect() as client:
        client.subscribe_resource("a:b")
        news.answers[LISTEN] = lambda params: refused.set() or Refusal(-31001)
        news.end()
        assert refused.wait(LIMIT)
        news.answers[LISTEN] = lambda params: news.acknowledge(3, params["notifications"]) or SILENCE

        def subscribed():
            client.subscribe_resource("a:b")  # nothing is asked as long as the refusal is on its way
            return news.methods().count(LISTEN) == 3

        assert wait_until(subscribed, limit=5)


def test_a_server_that_did_not_promise_updates_is_not_asked():
    with News() as news:
        news.answers["server/discover"] = {**DISCOVERED, "capabilities": {"resources": {}}}
        with news.connect() as client, pytest.raises(mcplite.NotSupported):
            client.subscribe_resource("a:b")
        assert LISTEN not in news.methods()


# --- how it ends -------------------------------------------------------------------------------------------------


def test_closing_it_from_another_thread_ends_the_iteration():
    with News() as news, news.connect() as client:
        events = client.listen(tools=True)
        first = threading.Event()

        def follow():
            return [first.set() or event for event in events]

        thread, outcome = start(follow)
        news.say(TOOLS)
        assert first.wait(LIMIT)
        events.close()
        thread.join(LIMIT)
        assert outcome == [[ToolsChanged()]] and events.error is None and events.get() is None
        assert news.got("notifications/cancelled")["params"]["requestId"] == news.id(1)  # SUBS-10
        events.close()
        client.list_tools()
        assert news.methods().count("notifications/cancelled") == 1


def test_what_has_come_before_the_end_is_still_told():
    with News() as news, news.connect() as client:
        with client.listen(tools=True, prompts=True) as events:
            news.say(TOOLS)
            news.say(PROMPTS)
            client.list_tools()
        assert list(events) == [ToolsChanged(), PromptsChanged()]


@pytest.mark.parametrize("leave", [lambda news, client: client.close(), lambda news, client: news.leave()],
                         ids=["ours", "theirs"])
def test_the_end_of_the_connection_is_an_error(leave):
    with News() as news, news.connect() as client:
        events = client.listen(tools=True)
        thread, outcome = start(list, events)
        leave(news, client)
        thread.join(LIMIT)
        assert isinstance(outcome[0], ConnectionClosed) and events.error is not None
        with pytest.raises(ConnectionClosed):
            events.get(LIMIT)
        events.close()
        assert news.methods().count(LISTEN) == 1


def test_hanging_up_is_how_it_ends_over_http():
    gone = threading.Event()

    def play(request, answer):
        answer.events({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": {
            "_meta": {ID: request.message["id"]}, "notifications": {"toolsListChanged": True}}})
        if answer._sock.recv(1) == b"":
            gone.set()
        answer.cut()

    with Streams() as script, script.connect() as client:
        script.refusal = play
        with client.listen(tools=True):
            assert not gone.is_set()
        assert gone.wait(LIMIT)  # SUBS-10
        assert "notifications/cancelled" not in [request.does for request in script.requests]


# --- when the stream breaks ----------------------------------------------------------------------------------------


def test_a_stream_that_breaks_is_begun_again_and_says_what_may_have_been_missed():
    with Streams() as script, script.connect() as client:
        with client.listen(tools=True, resources=["a:b"]) as events:
            script.say(0, TOOLS)
            assert events.get(LIMIT) == ToolsChanged()
            script.drop(0)
            assert {events.get(LIMIT), events.get(LIMIT)} == {  # SUBS-13, SUBS-15
                ToolsChanged(missed=True), ResourceUpdated(missed=True, uri="a:b")}
            script.say(1, TOOLS)
            assert events.get(LIMIT) == ToolsChanged() and events.error is None
            first, second = script.wait_for(LISTEN, 2)
            assert first.message["params"] == second.message["params"] and first.message["id"] != second.message["id"]


def test_a_callback_is_told_as_well_what_may_have_been_missed():
    seen, come = [], threading.Semaphore(0)
    with Streams() as script, script.connect() as client:
        client.subscribe(lambda event: seen.append(event) or come.release(), prompts=True)
        script.drop(0)
        assert come.acquire(timeout=LIMIT) and seen == [PromptsChanged(missed=True)]


def test_what_was_kept_is_stale_after_a_break():
    keep = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"}
    with Streams() as script, script.connect() as client:
        script.on_tools_list = lambda request, answer: answer.json(script.result(request, {**keep, "tools": []}))
        script.on_resources_read = lambda request, answer: answer.json(script.result(request, {**keep, "contents": []}))
        with client.listen(tools=True, resources=["a:b"]) as events:
            for _ in range(2):
                client.list_tools()
                client.read_resource("a:b")
            script.drop(0)
            assert events.get(LIMIT).missed and events.get(LIMIT).missed
            client.list_tools()
            script.wait_for("tools/list", 2)  # SUBS-15
            client.read_resource("a:b")
            assert [request.does for request in script.requests].count("resources/read") == 2


def test_a_refusal_to_go_on_is_final():
    def refuse(request, answer):
        answer.json({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32603, "message": "too many"}})

    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        thread, outcome = start(list, events)
        script.refusal = refuse
        script.drop(0)
        thread.join(LIMIT)
        assert isinstance(outcome[0], RemoteError) and events.error.message == "too many"
        with pytest.raises(RemoteError, match="too many"):
            events.get()
        assert len(script.wait_for(LISTEN, 2)) == 2
        client.ping()


def test_a_server_that_does_not_come_back_is_given_up(impatient):
    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        script.refusal = lambda request, answer: answer.status(503)
        script.drop(0)
        with pytest.raises(TransportError, match="503"):
            events.get(LIMIT)
        assert len(script.wait_for(LISTEN, 2)) == 2  # the first time, and one attempt


def test_events_that_have_come_before_the_error_come_first(impatient):
    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        script.refusal = lambda request, answer: answer.status(503)
        script.say(0, TOOLS)
        script.drop(0)
        script.wait_for(LISTEN, 2)
        assert events.get(LIMIT) == ToolsChanged()
        with pytest.raises(TransportError):
            events.get(LIMIT)


def test_closing_it_between_two_attempts_ends_them():
    with Streams() as script, script.connect() as client:
        events = client.listen(tools=True)
        script.refusal = lambda request, answer: answer.status(503)
        script.drop(0)
        script.wait_for(LISTEN, 2)
        events.close()
        assert events.get() is None and events.error is None


# --- when the server ends it ------------------------------------------------------------------------------------------


def test_a_server_that_ends_it_on_a_pipe_is_asked_again():
    with News() as news, news.connect() as client, client.listen(tools=True) as events:
        news.say(TOOLS)
        news.end()
        assert [events.get(LIMIT), events.get(LIMIT)] == [ToolsChanged(), ToolsChanged(missed=True)]
        news.say(TOOLS, 1)  # nobody listens to that one any more
        news.say(TOOLS, 2)
        assert events.get(LIMIT) == ToolsChanged()
        client.list_tools()
        # What the server itself has ended, it need not be told to end.
        assert "notifications/cancelled" not in news.methods() and events.get(0.01) is None


def test_a_server_that_only_says_that_it_has_ended_it():
    with News() as news, news.connect() as client, client.listen(tools=True) as events:
        news.tell("notifications/cancelled", {"requestId": news.id(1)})
        assert events.get(LIMIT) == ToolsChanged(missed=True)
        for id in (news.id(1), 99, "x", None, [], True):
            news.tell("notifications/cancelled", {"requestId": id})
        news.tell("notifications/cancelled")
        news.say(TOOLS, 2)
        assert events.get(LIMIT) == ToolsChanged() and news.methods().count(LISTEN) == 2


def test_a_server_that_ends_it_over_http_is_asked_again():
    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        script.end(0)
        assert events.get(LIMIT) == ToolsChanged(missed=True)
        script.say(1, TOOLS)
        assert events.get(LIMIT) == ToolsChanged()


def text(name: str = "") -> str:
    return name


def served():
    server = mcplite.Server("here", declare=["tools", "resources", "prompts"])
    return server, mcplite.serve(server)


def test_a_real_server_that_is_started_again():
    server, running = served()
    with running:
        client = mcplite.connect(running.url, timeout=LIMIT)
        with client, client.listen(tools=True) as events:
            port = running.port
            running.close()
            with mcplite.serve(server, port=port):
                assert events.get(LIMIT) == ToolsChanged(missed=True)
                server.add_tool(text)
                assert events.get(LIMIT) == ToolsChanged()


def test_a_real_server_that_stops_for_good(impatient):
    _, running = served()
    with running, mcplite.connect(running.url, timeout=LIMIT) as client, client.listen(tools=True) as events:
        running.close()
        with pytest.raises(TransportError):
            events.get(LIMIT)


# --- both eras -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("over", ["http", "memory"])
def test_a_real_server_tells_in_both_eras(era, over):
    server, running = served()
    server.add_resource("a:b", text)
    seen, come = [], threading.Event()
    with running, contextlib.closing(server), mcplite.connect(
            running.url if over == "http" else server, timeout=LIMIT, era=era) as client:
        with client.listen(tools=True, resource_list=True, resources=["a:b"]) as events:
            end = client.subscribe(lambda event: seen.append(event) or come.set(), prompts=True)
            server.add_tool(text)
            assert events.get(LIMIT) == ToolsChanged()
            server.resource_updated("a:b")
            assert events.get(LIMIT) == ResourceUpdated(uri="a:b")
            server.add_resource("c:d", text)
            assert events.get(LIMIT) == ResourcesChanged()
            server.resource_updated("c:d")
            server.add_prompt(text)
            assert come.wait(LIMIT) and seen == [PromptsChanged()]
            assert events.get(0.01) is None
            end()
        assert list(events) == []


def test_a_session_is_told_of_resources_only_as_long_as_somebody_listens():
    with Fake() as fake, fake.connect() as client:
        with client.listen(resources=["a:b", "c:d"]) as one:
            assert one.honoured == {"resourceSubscriptions": ["a:b", "c:d"]}
            with client.listen(tools=True, resources=["c:d"]) as two:
                fake.tell(UPDATED, {"uri": "c:d/e"})
                assert one.get(LIMIT) == two.get(LIMIT) == ResourceUpdated(uri="c:d/e")
                fake.tell(UPDATED, {"uri": "a:b"})
                fake.tell(UPDATED, {"uri": "a:bc"})
                fake.tell(TOOLS)
                assert one.get(LIMIT) == ResourceUpdated(uri="a:b") and two.get(LIMIT) == ToolsChanged()
                client.ping()
                assert one.get(0.01) is None and two.get(0.01) is None
            assert "resources/unsubscribe" not in fake.methods()  # somebody else still listens to it
        assert {fake.got("resources/unsubscribe", number)["params"]["uri"] for number in (1, 2)} == {"a:b", "c:d"}
        fake.tell(UPDATED, {"uri": "a:b"})
        client.ping()
        assert list(one) == list(two) == []


def test_a_session_that_refuses_a_resource():
    with Fake({"resources/subscribe": Refusal(-32602, "no such resource")}) as fake, fake.connect() as client:
        with pytest.raises(RemoteError, match="no such resource"):
            client.listen(resources=["a:b"])
        client.ping()


def test_the_end_of_a_session_is_an_error():
    with Fake() as fake, fake.connect() as client:
        events = client.listen(tools=True)
        fake.leave()
        with pytest.raises(ConnectionClosed):
            events.get(LIMIT)


def test_updates_that_nobody_asked_for_are_nobodys():
    with News() as news, news.connect() as client, client.listen(resources=["memo://a"]) as events:
        for uri in ("memo://b", "memo://ab", "memo://a/part", "memo://a"):
            news.say(UPDATED, uri=uri)
        assert [events.get(LIMIT).uri for _ in range(2)] == ["memo://a/part", "memo://a"]  # RSRC-14


def test_a_server_that_is_busy_is_asked_again():
    def busy(request, answer):
        script.refusal = None
        answer.json({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": SERVER_BUSY, "message": "busy"}})

    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        script.refusal = busy
        script.drop(0)
        assert events.get(LIMIT) == mcplite.ToolsChanged(missed=True)
