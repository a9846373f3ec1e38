import socket
import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.client.client import Client
from mcplite.errors import ConnectionClosed, NotSupported, TransportError
from mcplite.rpc.channels import MemoryChannel, StreamChannel
from mcplite.rpc.interfaces import Channel
from tests.support import children, connecting
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal, start

# --- opening and closing -------------------------------------------------------------------------------


def test_a_client_lives_from_new_to_closed():
    with Fake() as fake:
        client = fake.connect()
        assert client.state == "new" and client.last_error is None and client.counters.messages_sent == 0
        assert "not connected" in repr(client)
        with client as same:
            assert same is client and client.state == "open"
            assert repr(client) == "<Client the fake server (open)>"
        assert client.state == "closed"
        client.close()
        assert client.state == "closed"


def test_nothing_works_before_opening_and_nothing_after_closing():
    with Fake() as fake:
        client = fake.connect()
        for use in (client.ping, client.list_tools, lambda: client.server_info, lambda: client.revision,
                    lambda: client.instructions, lambda: client.notify("x"), lambda: client.call_tool("x")):
            with pytest.raises(ConnectionClosed, match="not open yet"):
                use()
        client.open()
        client.close()
        for use in (client.ping, client.list_tools, lambda: client.call_tool("x"), lambda: client.notify("x")):
            with pytest.raises(ConnectionClosed, match="closed"):
                use()


def test_facts_about_the_server_remain_after_closing():
    with Fake() as fake:
        with fake.connect() as client:
            client.ping()
        assert client.server_info.name == "fake" and client.instructions == "Be kind."
        assert client.protocol_version == revisions.NEWEST_LEGACY.name
        assert client.server_capabilities.tools == {"listChanged": True}
        assert client.counters.messages_sent == 3 and client.counters.messages_received == 2


def test_a_client_is_opened_once():
    with Fake() as fake:
        client = fake.connect().open()
        with pytest.raises(RuntimeError, match="open"):
            client.open()
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            client.open()
        with pytest.raises(RuntimeError, match="closed"), client:
            pass


def test_calls_of_other_threads_wait_for_the_handshake():
    gate = threading.Event()

    def handshake(params):
        assert gate.wait(LIMIT)
        return fake._handshake(params)

    with Fake({"echo": {"said": 1}}, handshake=handshake) as fake:
        client = fake.connect()
        opener, opened = start(client.open)
        fake.got("initialize")
        assert client.state == "connecting"
        caller, result = start(client.request, "echo")
        asker, name = start(lambda: client.server_info.name)
        gate.set()
        for thread in (opener, caller, asker):
            thread.join(LIMIT)
        assert opened == [client] and result == [{"said": 1}] and name == ["fake"]
        assert fake.methods() == ["initialize", "notifications/initialized", "echo"]  # LIFE-05
        client.close()


def test_calls_that_wait_for_a_handshake_that_fails_fail_too():
    gate = threading.Event()

    def handshake(params):
        assert gate.wait(LIMIT)
        raise Refusal(-32603, "broken")

    with Fake(handshake=handshake) as fake:
        client = fake.connect()
        opener, opened = start(client.open)
        fake.got("initialize")
        caller, result = start(client.ping)
        gate.set()
        opener.join(LIMIT), caller.join(LIMIT)
        assert isinstance(opened[0], mcplite.errors.InternalError) and isinstance(result[0], ConnectionClosed)


def test_close_ends_an_opening():
    with Fake(handshake=lambda params: SILENCE) as fake:
        client = fake.connect()
        opener, opened = start(client.open)
        fake.got("initialize")
        client.close()
        opener.join(LIMIT)
        assert isinstance(opened[0], ConnectionClosed) and client.state == "closed"


def test_close_reaches_an_opening_that_has_no_channel_yet():
    waiting, gate = threading.Event(), threading.Event()
    ours, theirs = MemoryChannel.pair()

    def transport():
        waiting.set()
        assert gate.wait(LIMIT)
        return ours

    client = Client(transport)
    opener, opened = start(client.open)
    assert waiting.wait(LIMIT)
    client.close()
    gate.set()
    opener.join(LIMIT)
    assert isinstance(opened[0], ConnectionClosed)
    with pytest.raises(ConnectionClosed):
        theirs.read(LIMIT)  # closed, and not even the offer was sent


def test_close_right_after_the_handshake_counts():
    class Watched(MemoryChannel):
        def write(self, data, timeout=None):
            super().write(data, timeout)
            if b"notifications/initialized" in data:
                client.close()

    with Fake() as fake:
        fake.channel.__class__ = Watched
        client = fake.connect()
        with pytest.raises(ConnectionClosed):
            client.open()
        assert client.state == "closed"
        assert fake.all_methods() == ["initialize", "notifications/initialized"]


def test_close_fails_all_calls_that_wait():
    with Fake({"slow": lambda params: SILENCE}) as fake:
        client = fake.connect().open()
        calls = [start(client.request, "slow") for _ in range(5)]
        fake.got("slow", count=5)
        client.close()
        for thread, outcome in calls:
            thread.join(LIMIT)
            assert isinstance(outcome[0], ConnectionClosed) and "this side" in str(outcome[0])  # LIFE-21


def test_many_threads_may_close():
    with Fake() as fake:
        client = fake.connect().open()
        closers = [start(client.close) for _ in range(8)]
        for thread, outcome in closers:
            thread.join(LIMIT)
            assert outcome == [None]


def test_an_error_in_the_block_closes_too():
    with Fake() as fake:
        with pytest.raises(ZeroDivisionError), fake.connect() as client:
            1 / 0
        assert client.state == "closed"


def test_a_transport_that_fails_leaves_a_closed_client():
    def transport():
        raise TransportError("no way")

    client = Client(transport)
    with pytest.raises(TransportError, match="no way"):
        client.open()
    assert client.state == "closed" and str(client.last_error) == "no way"
    with pytest.raises(ConnectionClosed):
        client.ping()


# --- children ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_silent_child_is_ended_and_the_error_has_its_stderr():
    client = mcplite.connect(children.script("complain('downloading\\n'); sleep()"), open_timeout=1.5,
                             options=mcplite.ClientOptions(grace=0.1))
    with pytest.raises(mcplite.RequestTimeout, match="downloading"):
        client.open()


def test_a_flooding_child_is_killed():
    command = children.script("""
message = read()
say({"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {},
     "serverInfo": {"name": "flood", "version": "1"}}})
read()
while True:
    sys.stdout.write("x" * 65536)
""")
    notified, errors = threading.Event(), []
    options = mcplite.ClientOptions(line_limit=1 << 20, grace=0.1, era="legacy",
                                    on_disconnect=lambda error: (errors.append(error), notified.set()))
    client = mcplite.connect(command, options=options).open()
    assert notified.wait(LIMIT)  # SEC-60: without a call and without close()
    assert isinstance(errors[0], ConnectionClosed) and "a line without an end" in str(errors[0])
    assert client.state == "closed" and client.last_error is errors[0]
    with pytest.raises(ConnectionClosed):
        client.ping()


# --- transports of one's own --------------------------------------------------------------------------------


@pytest.fixture
def adder():
    server = mcplite.Server("adder")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    yield server
    server.close()


@pytest.mark.parametrize("kind", ["channel", "streams"])
def test_a_socket_pair_and_a_pair_of_streams_are_transports(adder, kind):
    here, there = socket.socketpair()
    conversation = adder.serve_channel(StreamChannel(there, there, name="the client"))
    try:
        with here, here.makefile("rb") as reader, here.makefile("wb") as writer, mcplite.connect(
                StreamChannel(here, here) if kind == "channel" else (reader, writer), timeout=LIMIT) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"  # CUST-01, NS-54
            calls = [start(client.call_tool, "add", {"a": n, "b": n}) for n in range(10)]
            for number, (thread, outcome) in enumerate(calls):
                thread.join(LIMIT)
                assert outcome[0].text == str(2 * number)
        assert conversation.wait_closed(LIMIT)
    finally:
        conversation.close()


def test_a_custom_channel_is_a_transport():
    class Upper(Channel):
        """Carries messages through another channel and counts them."""

        name = "the counter"
        interruptible = True

        def __init__(self, inner):
            self.inner = inner
            self.carried = 0

        def read(self, timeout=None):
            return self.inner.read(timeout)

        def write(self, data, timeout=None):
            self.carried += 1
            self.inner.write(data, timeout)

        def wake(self):
            self.inner.wake()

        def close(self):
            self.inner.close()

    with Fake({"x": {"y": 1}}) as fake:
        channel = Upper(fake.channel)
        with mcplite.connect(channel, timeout=LIMIT, options=mcplite.ClientOptions(era="legacy")) as client:
            assert client.request("x") == {"y": 1}
        assert channel.carried == 3 and client.server_info.name == "fake"


# --- options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, error, text", [
    ({"timeout": 0}, ValueError, "timeout must be positive"),
    ({"max_timeout": -1}, ValueError, "max_timeout"),
    ({"open_timeout": 0}, ValueError, "open_timeout"),
    ({"ping_interval": 0}, ValueError, "ping_interval"),
    ({"ping_timeout": -2}, ValueError, "ping_timeout"),
    ({"max_handlers": 0}, ValueError, "max_handlers"),
    ({"questions_per_minute": 0}, ValueError, "questions_per_minute"),
    ({"timeout": float("nan")}, ValueError, "timeout"),
    ({"revision": "1999-01-01"}, ValueError, "'1999-01-01' is not .* write one of 2024-11-05, 2025-03-26, .*, 2026-07-28$"),
    ({"revision": revisions.NEWEST, "era": "legacy"}, ValueError, "contradict"),
    ({"revision": "2025-11-25", "era": "modern"}, ValueError, "contradict"),
    ({"era": "new"}, ValueError, "'legacy', 'modern' or None"),
    ({"probe_timeout": 0}, ValueError, "probe_timeout"),
    ({"extensions": {"no slash": {}}}, ValueError, "no slash"),
    ({"log_handler": 3}, TypeError, "log_handler"),
    ({"timeout": "5"}, TypeError, "timeout must be a positive number or None, not '5'"),
    ({"middleware": print}, TypeError, r"middleware= takes a list: write middleware=\[function\], not <built-in"),
    ({"elicitation_hander": print}, TypeError, "elicitation_hander"),
])
def test_impossible_options_are_refused_at_once(options, error, text):
    with pytest.raises(error, match=text):
        connecting.connect(["never-started"], **options)


def test_without_a_timeout_a_call_waits_without_a_limit():
    gate = threading.Event()

    def slow(params):
        assert gate.wait(LIMIT)
        return {"at": "last"}

    with Fake({"slow": slow}) as fake, fake.connect(timeout=0.2, max_timeout=0.3) as client:
        thread, outcome = start(client.request, "slow", timeout=None)
        fake.got("slow")
        for _ in range(2):
            with pytest.raises(mcplite.RequestTimeout):
                client.request("slow")
        assert not outcome
        gate.set()
        thread.join(LIMIT)
        assert outcome == [{"at": "last"}]


# --- the generic layer ----------------------------------------------------------------------------------------


def test_any_request_and_notification():
    with Fake({"com.example/do": lambda params: {"did": params}}) as fake, fake.connect() as client:
        assert client.request("com.example/do", {"a": [1, None]}) == {"did": {"a": [1, None]}}
        assert client.request("com.example/do") == {"did": None}
        client.notify("com.example/note", {"x": 1})
        assert fake.got("com.example/note")["params"] == {"x": 1}
        assert "id" not in fake.got("com.example/note")


def test_custom_methods_of_the_server():
    noted, done = [], threading.Event()
    with Fake() as fake, fake.connect() as client:
        client.on("com.example/add", lambda params: {"sum": params["a"] + params["b"]})
        client.on("com.example/nothing", lambda params: None)
        client.on("com.example/note", lambda params: (noted.append(params), done.set()))

        def refuse(params):
            raise mcplite.RemoteError("not today", code=-30002, data=params)

        client.on("com.example/refuse", refuse)
        client.on("com.example/break", lambda params: 1 / 0)
        assert fake.asked("com.example/add", {"a": 1, "b": 2})["result"] == {"sum": 3}
        assert fake.asked("com.example/nothing")["result"] == {}
        assert fake.asked("com.example/refuse", {"x": 1})["error"] == {
            "code": -30002, "message": "not today", "data": {"x": 1}}
        assert fake.asked("com.example/break")["error"] == {"code": -32603, "message": "Internal error"}
        fake.tell("com.example/note", {"y": 1})
        assert done.wait(LIMIT) and noted == [{"y": 1}]
        with pytest.raises(TypeError, match="com.example/x"):
            client.on("com.example/x", 3)


def test_middleware_wraps_every_request():
    seen = []

    def outer(method, params, proceed):
        seen.append(("outer", method, params))
        result = proceed()
        seen.append(("outer", result))
        return {**result, "outer": True}

    def inner(method, params, proceed):
        seen.append(("inner", method))
        return proceed()

    with Fake({"x": {"y": 1}}) as fake, fake.connect(middleware=[outer, inner]) as client:
        assert client.request("x", {"a": 1}) == {"y": 1, "outer": True}
        assert seen == [("outer", "x", {"a": 1}), ("inner", "x"), ("outer", {"y": 1})]


def test_middleware_denies_a_call_before_anything_is_sent():
    def approve(method, params, proceed):
        if method == "tools/call" and params["name"] == "delete":
            raise PermissionError(f"the user said no to {params['arguments']}")
        return proceed()

    with Fake({"tools/call": {"content": []}}) as fake, fake.connect(middleware=[approve]) as client:
        with pytest.raises(PermissionError, match="'a.txt'"):
            client.call_tool("delete", {"path": "a.txt"})  # LIFE-29, TOOL-46, TOOL-47
        client.call_tool("read", {"path": "a.txt"})
        assert [message["params"]["name"] for message in fake.sent if message.get("method") == "tools/call"] == ["read"]


# --- health ----------------------------------------------------------------------------------------------------


def test_counters_count_and_are_a_copy():
    with Fake() as fake, fake.connect() as client:
        before = client.counters
        client.ping()
        after = client.counters
        assert after.messages_sent == before.messages_sent + 1
        assert after.messages_received == before.messages_received + 1
        assert after.bytes_sent > before.bytes_sent > 0 and after.bytes_received > before.bytes_received
        assert client.stderr_tail == "" and client.last_error is None


def test_every_message_can_be_seen(tmp_path):
    path = tmp_path / "wire.log"
    with Fake({"login": {"token": "t0ps3cret"}}) as fake, fake.connect(debug=str(path)) as client:
        client.request("login", {"password": "hunter2", "user": "ada"})
    text = path.read_text("utf-8")
    assert len(text.splitlines()) == 5
    assert "the fake server -> " in text and "the fake server <- " in text and '"ada"' in text
    assert "hunter2" not in text and "t0ps3cret" not in text


def test_set_roots_notifies_an_open_server_only():
    with Fake() as fake:
        client = fake.connect(roots=["file:///a"])
        client.set_roots(["file:///b"])
        with client:
            assert fake.methods()[:1] == ["initialize"]
            assert fake.sent[0]["params"]["capabilities"]["roots"] == {"listChanged": True}  # ROOT-01
            assert fake.asked("roots/list")["result"] == {"roots": [{"uri": "file:///b"}]}
            assert "notifications/roots/list_changed" not in fake.methods()
            client.set_roots(["file:///c"])
            fake.got("notifications/roots/list_changed")  # ROOT-03
            assert fake.asked("roots/list")["result"] == {"roots": [{"uri": "file:///c"}]}
    with Fake() as fake, fake.connect() as client, pytest.raises(ValueError, match="roots="):
        client.set_roots([])


def test_roots_are_added_and_removed(tmp_path):
    with Fake() as fake, fake.connect(roots=["file:///a"]) as client:
        client.add_root(tmp_path)
        fake.got("notifications/roots/list_changed")
        uris = [root["uri"] for root in fake.asked("roots/list")["result"]["roots"]]
        assert uris == ["file:///a", tmp_path.as_uri()]
        client.remove_root("file:///a")
        client.add_root(mcplite.types.Root(tmp_path.as_uri()))  # is there already
        assert [root["uri"] for root in fake.asked("roots/list")["result"]["roots"]] == [tmp_path.as_uri()]
        assert fake.methods().count("notifications/roots/list_changed") == 2
        with pytest.raises(ValueError, match="file:///a is not one of the roots"):
            client.remove_root("file:///a")
        with pytest.raises(ValueError, match="file"):
            client.add_root("https://example.com/")


def test_roots_that_a_function_returns_are_left_to_it():
    client = mcplite.connect(["x"], roots=lambda: [])
    for change in (client.add_root, client.remove_root):
        with pytest.raises(ValueError, match="function"):
            change("file:///a")
    with pytest.raises(ValueError, match="roots="):
        mcplite.connect(["x"]).add_root("file:///a")


def test_undeclared_features_are_not_sent():
    with Fake(capabilities={}) as fake, fake.connect() as client:
        for use in (lambda: client.list_tools(), lambda: client.call_tool("x"), lambda: client.list_resources(),
                    lambda: client.list_resource_templates(), lambda: client.read_resource("a://b"),
                    lambda: client.subscribe_resource("a://b"), lambda: client.list_prompts(), lambda: client.get_prompt("x"),
                    lambda: client.set_log_level("info"), lambda: client.complete(prompt="p", argument="a", value="")):
            with pytest.raises(NotSupported, match="the fake server did not declare"):
                use()
        client.ping()
        assert fake.methods() == ["initialize", "notifications/initialized", "ping"]  # LIFE-15
    with Fake(capabilities={"resources": {}}) as fake, fake.connect() as client:
        with pytest.raises(NotSupported, match="resources.subscribe"):
            client.unsubscribe_resource("a://b")
