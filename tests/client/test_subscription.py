"""Subscriptions: the events, what happens when the connection breaks, and how they end, in both eras."""

import logging
import threading
import time

import pytest

import mcplite
from mcplite import PromptsChanged, ResourcesChanged, ResourceUpdated, ToolsChanged, revisions
from mcplite.client import subscription
from mcplite.client.subscription import Filter
from mcplite.errors import SERVER_BUSY, ConnectionClosed, RemoteError, RequestTimeout, TransportError
from tests.support import connecting
from tests.support.children import wait_until
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal, start
from tests.support.forks import POSIX_ONLY, in_fork
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


class ChangeServer(Fake):
    """A modern server on a pipe that acknowledges every subscription, and sends the changes that a test names."""

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
        """Send a notification on a subscription, by its number."""
        self.tell(method, {"_meta": {ID: self.id(number)}, **params})

    def end(self, number=1):
        """End a subscription like a server that is about to stop (SUBS-11, SUBS-12)."""
        id = self.id(number)
        self.send({"id": id, "result": {"resultType": "complete", "_meta": {ID: id}}})
        self.tell("notifications/cancelled", {"requestId": id, "reason": "stopping"})


class Streams(WebScript):
    """The same behind a URL. ``streams`` has the ids and the responses, ``drop`` breaks a stream off."""

    def __init__(self):
        super().__init__()
        self.streams, self._dropped = [], []
        #: A client may get the acknowledgement before this side has added the stream.
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

    def end(self, number, retry=None):
        """End a stream with its result (SUBS-11)."""
        id, answer = self._stream(number)
        if retry is not None:
            answer.more(f"retry: {retry}\n\n")
        answer.more({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": {ID: id}}})
        answer.end()
        self._dropped[number].set()

    def drop(self, number):
        self._dropped[number].set()

    def connect(self, **options):
        return connecting.connect(self.url, **{"timeout": LIMIT, "era": "modern", **options})


@pytest.fixture
def impatient(monkeypatch):
    """One attempt to resume a stream, instead of many with growing pauses."""
    monkeypatch.setattr(subscription, "_ATTEMPTS", 1)


# --- filters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted, wire", [
    ({"tools": True}, {"toolsListChanged": True}), ({"prompts": True}, {"promptsListChanged": True}),
    ({"resource_list": True}, {"resourcesListChanged": True}),
    ({"resources": ["a:b"]}, {"resourceSubscriptions": ["a:b"]}),
    ({"tools": True, "resources": ("a:b", "c:d", "a:b")},
     {"toolsListChanged": True, "resourceSubscriptions": ["a:b", "c:d"]}),
])
def test_a_filter_on_the_wire(wanted, wire):
    assert Filter(**wanted).wire == wire
    with ChangeServer() as fake, fake.connect() as client, client.listen(**wanted) as events:
        assert fake.got(LISTEN)["params"]["notifications"] == wire  # SUBS-01
        assert events.honoured == wire and events.error is None


@pytest.mark.parametrize("wanted", [{}, {"tools": False}, {"resources": []}, {"resources": ()}])
def test_an_empty_filter_is_refused(wanted):
    with ChangeServer() as fake, fake.connect() as client:
        for use in (client.listen, lambda **wanted: client.subscribe(print, **wanted)):
            with pytest.raises(ValueError, match="nothing to listen to"):
                use(**wanted)
        assert LISTEN not in fake.methods()


def test_a_single_string_is_not_a_list_of_uris():
    with pytest.raises(TypeError, match=r"\['a:b'\]"):
        Filter(resources="a:b")


def test_events_have_their_method_and_params():
    assert ToolsChanged() == ToolsChanged(missed=False) != ToolsChanged(missed=True) != PromptsChanged(missed=True)
    assert ResourceUpdated(uri="a:b").params == {"uri": "a:b"} and ResourcesChanged().params == {}
    assert [kind.method for kind in (ToolsChanged, PromptsChanged, ResourcesChanged, ResourceUpdated)] == [
        TOOLS, PROMPTS, RESOURCES, UPDATED]


def test_a_partial_acknowledgement_is_logged(caplog):
    with caplog.at_level(logging.WARNING, "mcplite"):
        with ChangeServer({"toolsListChanged": True}) as fake, fake.connect() as client:
            with client.listen(tools=True, prompts=True, resources=["a:b"]) as events:
                assert events.honoured == {"toolsListChanged": True}  # SUBS-08
    assert "promptsListChanged, resourceSubscriptions" in caplog.text and "toolsListChanged" not in caplog.text


@pytest.mark.parametrize("honoured", [None, [], "all", 3])
def test_an_empty_acknowledgement(honoured, caplog):
    with ChangeServer() as fake, fake.connect() as client:
        fake.answers[LISTEN] = lambda params: fake.acknowledge(1, honoured) or SILENCE
        with client.listen(tools=True) as events:
            assert events.honoured == {} and "toolsListChanged" in caplog.text


def test_a_refused_subscription():
    with ChangeServer(**{LISTEN: Refusal(-31001, "too many")}) as fake, fake.connect() as client:
        with pytest.raises(RemoteError, match="too many"):
            client.listen(tools=True)
        client.list_tools()
        assert fake.methods().count(LISTEN) == 1


def test_a_missing_acknowledgement_times_out():
    with ChangeServer(**{LISTEN: lambda params: SILENCE}) as fake, fake.connect() as client:
        with pytest.raises(RequestTimeout, match="acknowledge"):
            client.listen(tools=True, timeout=0.2)
        assert fake.got("notifications/cancelled")["params"]["requestId"] == fake.id(1)


def test_a_stream_that_ends_at_once_is_an_error():
    with ChangeServer(**{LISTEN: {"resultType": "complete"}}) as fake, fake.connect() as client:
        with pytest.raises(ConnectionClosed, match="ended"):
            client.listen(tools=True)
        assert fake.methods().count(LISTEN) == 1


# --- the events -----------------------------------------------------------------------------------------------


def test_events_come_in_order_and_once_each():
    with ChangeServer() as fake, fake.connect() as client:
        with client.listen(tools=True, prompts=True, resource_list=True, resources=["a:b", "c:d"]) as events:
            assert events.get(0.01) is None
            for method, params in ((PROMPTS, {}), (TOOLS, {}), (UPDATED, {"uri": "c:d"}), (PROMPTS, {}), (TOOLS, {}),
                                   (UPDATED, {"uri": "a:b"}), (RESOURCES, {}), (UPDATED, {"uri": "c:d"})):
                fake.say(method, **params)
            client.list_tools()  # its answer comes behind all of them
            assert [events.get(LIMIT) for _ in range(5)] == [
                PromptsChanged(), ToolsChanged(), ResourceUpdated(uri="c:d"), ResourceUpdated(uri="a:b"), ResourcesChanged()]
            assert events.get(0.01) is None
            fake.say(TOOLS)  # an event that was read may come again
            assert events.get(LIMIT) == ToolsChanged()


def test_changes_outside_the_filter_are_dropped():
    with ChangeServer() as fake, fake.connect() as client, client.listen(tools=True) as events:
        fake.say(PROMPTS)
        fake.say(UPDATED, uri="a:b")
        fake.say("notifications/message", level="info", data="x")
        fake.tell(TOOLS)  # without a subscription
        for id in ("1", 99, None, [1], True):
            fake.tell(TOOLS, {"_meta": {ID: id}})
        fake.tell(TOOLS, {"_meta": 3})
        fake.say(TOOLS)
        client.list_tools()
        assert events.get(LIMIT) == ToolsChanged() and events.get(0.01) is None


def test_subscriptions_on_one_pipe_are_separate():
    with ChangeServer() as fake, fake.connect() as client:
        with client.listen(tools=True) as one, client.listen(tools=True, prompts=True) as two:
            fake.say(TOOLS, 2)
            fake.say(PROMPTS, 1)
            fake.say(PROMPTS, 2)
            client.list_tools()
            assert [two.get(LIMIT), two.get(LIMIT)] == [ToolsChanged(), PromptsChanged()]  # SUBS-06, SUBS-09
            assert one.get(0.01) is None


def test_an_idle_subscription_stays_open():
    with ChangeServer(slow=lambda params: SILENCE) as fake, fake.connect(timeout=0.1, max_timeout=0.1) as client:
        with client.listen(tools=True, timeout=LIMIT) as events:
            for _ in range(3):
                with pytest.raises(RequestTimeout):
                    client.request("slow")
            fake.say(TOOLS)
            assert events.get(LIMIT) == ToolsChanged()  # SUBS-19
            assert fake.methods().count(LISTEN) == 1


def test_a_callback_gets_the_events_one_after_another():
    seen, come = [], threading.Semaphore(0)

    def note(event):
        seen.append((event, threading.current_thread()))
        come.release()

    with ChangeServer() as fake, fake.connect() as client:
        end = client.subscribe(note, tools=True, resources=["a:b"])
        fake.say(TOOLS)
        fake.say(UPDATED, uri="a:b")
        assert come.acquire(timeout=LIMIT) and come.acquire(timeout=LIMIT)
        assert [event for event, _ in seen] == [ToolsChanged(), ResourceUpdated(uri="a:b")]
        assert len({thread for _, thread in seen}) == 1 and seen[0][1] is not threading.current_thread()
        end()
        assert fake.got("notifications/cancelled")["params"]["requestId"] == fake.id(1)
        fake.say(TOOLS)
        client.list_tools()
        end()
    assert len(seen) == 2


def test_a_failing_callback_does_not_end_the_subscription(caplog):
    come = threading.Event()
    with ChangeServer() as fake, fake.connect() as client:
        client.subscribe(lambda event: come.set() if event == PromptsChanged() else 1 / 0, tools=True, prompts=True)
        fake.say(TOOLS)
        fake.say(PROMPTS)
        assert come.wait(LIMIT)
    assert "ZeroDivisionError" in caplog.text


# --- handlers of changes ----------------------------------------------------------------------------------------


def test_undeclared_changes_are_not_subscribed_to():
    with ChangeServer() as fake:
        fake.answers["server/discover"] = {**DISCOVERED, "capabilities": {"tools": {}, "prompts": {"listChanged": False}}}
        with fake.connect(on_tools_changed=print, on_prompts_changed=print, on_resources_changed=print) as client:
            client.ping()
            assert LISTEN not in fake.methods()


def test_handlers_of_changes_are_subscribed_automatically():
    tools, prompts = threading.Event(), threading.Event()
    with ChangeServer() as fake, fake.connect(on_tools_changed=tools.set, on_prompts_changed=prompts.set) as client:
        assert fake.got(LISTEN)["params"]["notifications"] == {"toolsListChanged": True, "promptsListChanged": True}
        fake.say(TOOLS)
        assert tools.wait(LIMIT) and not prompts.is_set()
        fake.say(PROMPTS)
        assert prompts.wait(LIMIT)
        client.list_tools()


def test_a_refused_subscription_of_handlers_does_not_stop_opening(caplog):
    with ChangeServer(**{LISTEN: Refusal(-32601)}) as fake, fake.connect(on_tools_changed=print) as client:
        assert client.list_tools() == [] and "does not announce changes" in caplog.text


def test_subscribe_resource_opens_a_stream_for_each_uri():
    updates, come = [], threading.Semaphore(0)
    with ChangeServer() as fake, fake.connect(on_resource_updated=lambda uri: updates.append(uri) or come.release()) as client:
        client.subscribe_resource("a:b")
        client.subscribe_resource("a:b")
        client.subscribe_resource("c:d")
        assert fake.methods().count(LISTEN) == 2
        fake.say(UPDATED, 2, uri="c:d")
        fake.say(UPDATED, 1, uri="a:b")
        assert come.acquire(timeout=LIMIT) and come.acquire(timeout=LIMIT) and updates == ["c:d", "a:b"]
        client.unsubscribe_resource("a:b")
        client.unsubscribe_resource("a:b")
        assert fake.got("notifications/cancelled")["params"]["requestId"] == fake.id(1)
        client.subscribe_resource("a:b")
        assert fake.methods().count(LISTEN) == 3


def test_a_lost_subscription_of_a_resource_can_be_renewed():
    refused = threading.Event()
    with ChangeServer() as fake, fake.connect() as client:
        client.subscribe_resource("a:b")
        fake.answers[LISTEN] = lambda params: refused.set() or Refusal(-31001)
        fake.end()
        assert refused.wait(LIMIT)
        fake.answers[LISTEN] = lambda params: fake.acknowledge(3, params["notifications"]) or SILENCE

        def subscribed():
            client.subscribe_resource("a:b")  # nothing is asked as long as the refusal is on its way
            return fake.methods().count(LISTEN) == 3

        assert wait_until(subscribed, limit=5)


def test_undeclared_updates_are_not_subscribed_to():
    with ChangeServer() as fake:
        fake.answers["server/discover"] = {**DISCOVERED, "capabilities": {"resources": {}}}
        with fake.connect() as client, pytest.raises(mcplite.errors.NotSupported):
            client.subscribe_resource("a:b")
        assert LISTEN not in fake.methods()


# --- how it ends -------------------------------------------------------------------------------------------------


def test_closing_from_another_thread_ends_the_iteration():
    with ChangeServer() as fake, fake.connect() as client:
        events = client.listen(tools=True)
        first = threading.Event()

        def follow():
            return [first.set() or event for event in events]

        thread, outcome = start(follow)
        fake.say(TOOLS)
        assert first.wait(LIMIT)
        events.close()
        thread.join(LIMIT)
        assert outcome == [[ToolsChanged()]] and events.error is None and events.get() is None
        assert fake.got("notifications/cancelled")["params"]["requestId"] == fake.id(1)  # SUBS-10
        events.close()
        client.list_tools()
        assert fake.methods().count("notifications/cancelled") == 1


def test_events_before_the_end_are_still_yielded():
    with ChangeServer() as fake, fake.connect() as client:
        with client.listen(tools=True, prompts=True) as events:
            fake.say(TOOLS)
            fake.say(PROMPTS)
            client.list_tools()
        assert list(events) == [ToolsChanged(), PromptsChanged()]


@pytest.mark.parametrize("leave", [lambda fake, client: client.close(), lambda fake, client: fake.leave()],
                         ids=["ours", "theirs"])
def test_the_end_of_the_connection_is_an_error(leave):
    with ChangeServer() as fake, fake.connect() as client:
        events = client.listen(tools=True)
        thread, outcome = start(list, events)
        leave(fake, client)
        thread.join(LIMIT)
        assert isinstance(outcome[0], ConnectionClosed) and events.error is not None
        with pytest.raises(ConnectionClosed):
            events.get(LIMIT)
        events.close()
        assert fake.methods().count(LISTEN) == 1


def test_over_http_closing_closes_the_stream():
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


def test_a_broken_stream_is_resumed_with_missed_events():
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


def test_events_that_are_too_many_become_missed_ones_again_and_again(monkeypatch):
    monkeypatch.setattr(subscription, "_MOST_EVENTS", 5)
    below = ["file:///" + letter * 1000 for letter in "ab"]
    waiting = subscription.Subscription(None, Filter(resources=below))
    for _ in range(3):
        for number in range(8):
            waiting.put(ResourceUpdated(uri=f"{below[0]}/{number}"))
        events = []
        while waiting._events:
            events.append(waiting.get(LIMIT))
        assert {event.uri for event in events if event.missed} == set(below) and len(events) == 5
        assert waiting._characters == 0


def test_a_callback_gets_missed_events_too():
    seen, come = [], threading.Semaphore(0)
    with Streams() as script, script.connect() as client:
        client.subscribe(lambda event: seen.append(event) or come.release(), prompts=True)
        script.drop(0)
        assert come.acquire(timeout=LIMIT) and seen == [PromptsChanged(missed=True)]


def test_cached_results_are_stale_after_a_break():
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


@POSIX_ONLY
def test_a_resource_that_is_refused_in_a_forked_process_does_not_cost_the_others():
    def refusal(request, answer):
        if request.message["params"]["notifications"] != {"resourceSubscriptions": ["a:gone"]}:
            script.refusal = None
            return script.on_subscriptions_listen(request, answer)
        answer.json({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32602, "message": "gone"}})

    def forked():
        client.ping()
        return client.state

    with Streams() as script, script.connect() as client:
        for uri in ("a:gone", "a:stays"):
            client.subscribe_resource(uri)
        script.refusal = refusal
        assert in_fork(forked) == "open"
        asked = [request.message["params"]["notifications"]["resourceSubscriptions"]
                 for request in script.wait_for(LISTEN, 4)]
        assert asked == [["a:gone"], ["a:stays"]] * 2


def test_a_refused_resumption_is_final():
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


def test_resumption_is_given_up_in_the_end(impatient):
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


def test_closing_between_two_attempts_ends_them():
    with Streams() as script, script.connect() as client:
        events = client.listen(tools=True)
        script.refusal = lambda request, answer: answer.status(503)
        script.drop(0)
        script.wait_for(LISTEN, 2)
        events.close()
        assert events.get() is None and events.error is None


# --- a stream that the server ends ------------------------------------------------------------------------------------------


def test_a_stream_that_ends_on_a_pipe_is_resumed():
    with ChangeServer() as fake, fake.connect() as client, client.listen(tools=True) as events:
        fake.say(TOOLS)
        fake.end()
        assert [events.get(LIMIT), events.get(LIMIT)] == [ToolsChanged(), ToolsChanged(missed=True)]
        fake.say(TOOLS, 1)  # that stream has ended
        fake.say(TOOLS, 2)
        assert events.get(LIMIT) == ToolsChanged()
        client.list_tools()
        # A stream that the server has ended gets no cancellation.
        assert "notifications/cancelled" not in fake.methods() and events.get(0.01) is None


def test_a_cancellation_ends_the_stream():
    with ChangeServer() as fake, fake.connect() as client, client.listen(tools=True) as events:
        fake.tell("notifications/cancelled", {"requestId": fake.id(1)})
        assert events.get(LIMIT) == ToolsChanged(missed=True)
        for id in (fake.id(1), 99, "x", None, [], True):
            fake.tell("notifications/cancelled", {"requestId": id})
        fake.tell("notifications/cancelled")
        fake.say(TOOLS, 2)
        assert events.get(LIMIT) == ToolsChanged() and fake.methods().count(LISTEN) == 2


@pytest.mark.slow
def test_a_server_that_says_when_to_subscribe_again_is_believed_however_often(impatient):
    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        for number in range(4):
            script.end(number, retry=100)
            assert events.get(LIMIT) == ToolsChanged(missed=True)
        script.say(4, TOOLS)
        assert events.get(LIMIT) == ToolsChanged()
        begun = time.monotonic()
        script.end(4, retry=1500)
        assert events.get(LIMIT) == ToolsChanged(missed=True) and time.monotonic() - begun >= 1.4
        script.end(5)  # which is a failure; the second one would be the last
        assert events.get(LIMIT) == ToolsChanged(missed=True)


def text(name: str = "") -> str:
    return name


def served():
    server = mcplite.Server("here", options=mcplite.ServerOptions(declare=["tools", "resources", "prompts"]))
    return server, mcplite.serve(server)


def test_a_restarted_real_server():
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


# --- both eras -----------------------------------------------------------------------------------------------


def test_a_legacy_session_unsubscribes_with_the_last_subscription():
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
            assert "resources/unsubscribe" not in fake.methods()  # the other subscription still includes it
        assert {fake.got("resources/unsubscribe", number)["params"]["uri"] for number in (1, 2)} == {"a:b", "c:d"}
        fake.tell(UPDATED, {"uri": "a:b"})
        client.ping()
        assert list(one) == list(two) == []


def test_a_legacy_session_keeps_what_the_user_has_subscribed_to():
    with Fake() as fake, fake.connect() as client:
        client.subscribe_resource("http://h/a")
        with client.listen(resources=["http://h/a", "http://h/b"]):
            with client.listen(resources=["HTTP://h/b"]):
                client.ping()
            client.unsubscribe_resource("http://h/b")
            assert "resources/unsubscribe" not in fake.methods()
        assert fake.got("resources/unsubscribe")["params"]["uri"] == "http://h/b"
        client.unsubscribe_resource("http://h/a")
        assert fake.got("resources/unsubscribe", 2)["params"]["uri"] == "http://h/a"


def test_a_subscription_that_begins_while_another_ends_lasts_in_a_legacy_session():
    ending, begun = threading.Event(), threading.Event()

    def unsubscribe(params):
        ending.set()
        assert begun.wait(LIMIT)
        return {}

    with Fake({"resources/unsubscribe": unsubscribe}) as fake, fake.connect() as client:
        first = client.listen(resources=["a:b"])
        closer, _ = start(first.close)
        assert ending.wait(LIMIT)
        with client.listen(resources=["a:b"]) as second:
            begun.set()
            closer.join(LIMIT)
            assert fake.methods()[-1] == "resources/subscribe" and fake.methods().count("resources/subscribe") == 3
            assert second.get(LIMIT) == ResourceUpdated(missed=True, uri="a:b")


def test_a_refused_resource_in_a_legacy_session():
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


def test_updates_without_a_subscription_are_dropped():
    with ChangeServer() as fake, fake.connect() as client, client.listen(resources=["memo://a"]) as events:
        for uri in ("memo://b", "memo://ab", "memo://a/part", "memo://a"):
            fake.say(UPDATED, uri=uri)
        assert [events.get(LIMIT).uri for _ in range(2)] == ["memo://a/part", "memo://a"]  # RSRC-14


def test_a_busy_server_is_tried_again():
    def busy(request, answer):
        script.refusal = None
        answer.json({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": SERVER_BUSY, "message": "busy"}})

    with Streams() as script, script.connect() as client, client.listen(tools=True) as events:
        script.refusal = busy
        script.drop(0)
        assert events.get(LIMIT) == mcplite.ToolsChanged(missed=True)


def test_long_uris_do_not_wait_without_a_bound():
    one = subscription.Subscription(None, Filter(tools=True, resources=["x:"]))
    for number in range(20):
        one.put(ResourceUpdated(uri=f"x:/{number}" + "y" * (1 << 20)))
    waiting = []
    while True:
        event = one.get(0)
        if event is None:
            break
        waiting.append(event)
    assert waiting[:2] == [ToolsChanged(missed=True), ResourceUpdated(missed=True, uri="x:")]
    assert len(waiting) < 7 and waiting[-1].uri.startswith("x:/19")
    for number in range(100):
        one.put(ResourceUpdated(uri=f"x:/{number}"))
        assert one.get(0).uri == f"x:/{number}"
