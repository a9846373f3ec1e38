import json
import logging
import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.errors import RATE_LIMITED, ConnectionClosed, ProtocolError, RequestTimeout, UnsupportedVersion
from mcplite.types import Implementation
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal, start

LEGACY = [revision.name for revision in revisions.LEGACY]


# --- the handshake ---------------------------------------------------------------------------------


def test_the_handshake_comes_first_and_offers_the_newest():
    with Fake() as fake, fake.connect() as client:
        client.ping()
        assert fake.methods() == ["initialize", "notifications/initialized", "ping"]  # LIFE-01, LIFE-04
        params = fake.sent[0]["params"]
        assert params["protocolVersion"] == LEGACY[-1]  # LIFE-07, LIFE-08
        assert params["clientInfo"] == {"name": "mcplite", "version": mcplite.__version__}
        assert params["capabilities"] == {}
        assert client.protocol_version == LEGACY[-1]
        assert client.server_info.name == "fake" and client.instructions == "Be kind."


@pytest.mark.parametrize("version", ["2099-01-01", revisions.NEWEST.name, "", "1"])
def test_an_unknown_revision_ends_the_connection(version):
    with Fake(handshake={"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "f", "version": "1"}}
              ) as fake:
        client = fake.connect()
        with pytest.raises(UnsupportedVersion) as caught:
            client.open()
        assert repr(version) in str(caught.value) and LEGACY[0] in str(caught.value)
        assert caught.value.supported == [version] and not caught.value.received
        assert client.state == "closed" and client.last_error is caught.value
        assert fake.all_methods() == ["initialize"]  # LIFE-12: closed, and nothing but the offer was sent


@pytest.mark.parametrize("version", LEGACY)
def test_a_pinned_revision_is_the_only_one(version):
    with Fake() as fake, fake.connect(revision=version) as client:
        assert fake.sent[0]["params"]["protocolVersion"] == version
        assert client.protocol_version == version
    other = next(name for name in LEGACY if name != version)
    with Fake(version=other) as fake, pytest.raises(UnsupportedVersion) as caught:
        fake.connect(revision=revisions.find_revision(version)).open()
    assert version in str(caught.value) and other in str(caught.value)


@pytest.mark.parametrize("refusal", [
    Refusal(-32602, "Unsupported protocol version", {"supported": ["2024-11-05"], "requested": "x"}),
    Refusal(-32022, "Unsupported protocol version", {"supported": ["2024-11-05"]}),
])
def test_a_refused_revision_is_an_unsupported_version(refusal):
    with Fake(handshake=refusal) as fake, pytest.raises(UnsupportedVersion) as caught:
        fake.connect().open()
    assert caught.value.supported == ["2024-11-05"]  # LIFE-19


OLDER = LEGACY[:-1]


@pytest.mark.parametrize("refusal, known, offered", [
    (Refusal(-32602, "Unsupported protocol version", {"supported": OLDER, "requested": LEGACY[-1]}), OLDER, OLDER[-1:]),
    (Refusal(-32022, "no", {"supported": [*OLDER, LEGACY[-1], "2099-01-01"]}), OLDER, OLDER[-1:]),
    (Refusal(-32602, "x", {"supported": LEGACY[:1]}), LEGACY[:1], LEGACY[:1]),
    (Refusal(-32602, "x", {"supported": [5, None, LEGACY[1], "1999-01-01"]}), LEGACY[:2], LEGACY[1:2]),
    (Refusal(-32602, "unsupported protocol version: " + LEGACY[-1]), OLDER, OLDER[-1:]),
    (Refusal(-32600, "Bad Version"), OLDER, OLDER[-1:]), (Refusal(-32022, "no"), OLDER, OLDER[-1:]),
    (Refusal(-32000, f"protocol versions: {LEGACY[0]}, {LEGACY[1]}"), LEGACY[:2], LEGACY[1:2]),
    (Refusal(-32602, "version?", {"supportedVersions": LEGACY[:1]}), LEGACY[:1], LEGACY[:1]),
    (Refusal(-32602, "version?", {"supported": []}), OLDER, OLDER[-1:]),
    (Refusal(-32602, "Unsupported protocol version"), [], OLDER[-1:]),
    (Refusal(-32602, "Unsupported protocol version", {"supported": ["1999-01-01"]}), [], []),
    (Refusal(-32602, "version", {"supported": [revisions.NEWEST.name, LEGACY[-1]]}), [], []),
    (Refusal(-32603, "the database is down"), [], []), (Refusal(-32602, "go away"), [], []),
])
def test_a_server_that_refuses_the_newest_is_offered_one_that_it_knows(refusal, known, offered):
    def initialize(params):
        if params["protocolVersion"] not in known:
            raise refusal
        return {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {"name": "f", "version": "1"}}

    with Fake(handshake=initialize) as fake:
        client = fake.connect()
        if known:
            with client:
                assert client.protocol_version == offered[0]
                client.ping()
        else:
            with pytest.raises(mcplite.RemoteError, match=refusal.error["message"]):
                client.open()
        versions = [message["params"]["protocolVersion"] for message in fake.sent if message["method"] == "initialize"]
        assert versions == [LEGACY[-1], *offered]


def test_a_silent_server_gets_no_cancel_notice():
    with Fake(handshake=lambda params: SILENCE) as fake:
        client = fake.connect(open_timeout=0.2)
        with pytest.raises(RequestTimeout, match="open_timeout"):
            client.open()
        assert fake.all_methods() == ["initialize"]  # TIME-07, CANC-02, LIFE-20
        assert client.state == "closed" and isinstance(client.last_error, TimeoutError)


@pytest.mark.parametrize("answer, missing", [
    ({}, "protocolVersion"),
    ({"protocolVersion": 3, "capabilities": {}, "serverInfo": {"name": "f", "version": "1"}}, "protocolVersion"),
    ({"protocolVersion": LEGACY[0], "serverInfo": {"name": "f", "version": "1"}}, "capabilities"),
])
def test_a_broken_answer_to_the_handshake_names_server_and_member(answer, missing):
    with Fake(handshake=answer) as fake, pytest.raises(ProtocolError) as caught:
        fake.connect().open()
    assert "the fake server" in str(caught.value) and missing in str(caught.value)


def test_fields_that_the_offered_revision_lacks_are_not_sent():
    info = Implementation(name="host", version="2", title="Host", description="d", website_url="https://example.com")
    with Fake() as fake, fake.connect(revision="2024-11-05", client_info=info, elicitation_handler=print,
                                      sampling_handler=print, sampling_tools=True):
        params = fake.sent[0]["params"]
        assert params["clientInfo"] == {"name": "host", "version": "2"}  # LIFE-23
        assert params["capabilities"] == {"sampling": {}}  # LIFE-24


def test_unknown_capabilities_pass_through():
    with Fake(capabilities={"tools": {}, "experimental": {"x": {"y": 1}}, "shiny": {"a": []}}) as fake:
        with fake.connect(experimental={"com.example/z": {"on": True}}) as client:
            assert client.server_capabilities.experimental == {"x": {"y": 1}}  # LIFE-17
            assert client.server_capabilities.extra == {"shiny": {"a": []}}
            assert fake.sent[0]["params"]["capabilities"]["experimental"] == {"com.example/z": {"on": True}}


def test_pings_are_answered_before_the_handshake_is_over():
    pinged = threading.Event()

    def handshake(params):
        assert "result" in fake.asked("ping")  # PING-02
        pinged.set()
        return fake._handshake(params)

    with Fake(handshake=handshake) as fake, fake.connect():
        assert pinged.is_set()


def test_an_early_question_waits_for_the_handshake():
    def handshake(params):
        early.append(fake.ask("roots/list"))
        threading.Event().wait(0.2)  # time for the client to answer too early
        return fake._handshake(params)

    early = []
    with Fake(handshake=handshake) as fake, fake.connect(roots=["file:///a"]):
        assert fake.answer_of(early[0])["result"]["roots"][0]["uri"] == "file:///a"


def test_a_question_without_a_handshake_is_refused():
    def handshake(params):
        early.append(fake.ask("roots/list"))
        return {}

    early = []
    with Fake(handshake=handshake) as fake, pytest.raises(ProtocolError):
        fake.connect(roots=["file:///a"]).open()
    assert [message for message in fake.sent if message.get("id") == early[0]] == []


# --- requests --------------------------------------------------------------------------------------


def test_progress_comes_on_the_calling_thread_and_extends_the_time():
    seen, threads = [], set()
    step = threading.Event()

    def work(params):
        token = params["_meta"]["progressToken"]
        for number in range(4):
            fake.tell("notifications/progress", {"progressToken": token, "progress": number, "total": 4,
                                                 "message": f"step {number}", "extra": 1})
            assert step.wait(LIMIT)
            step.clear()
        return {"done": True}

    def report(progress):
        seen.append((progress.progress, progress.total, progress.message, progress.extra))
        threads.add(threading.get_ident())
        step.set()

    with Fake({"work": work}) as fake, fake.connect() as client:
        assert client.request("work", on_progress=report) == {"done": True}
        assert seen == [(number, 4, f"step {number}", {"extra": 1}) for number in range(4)]
        assert threads == {threading.get_ident()}


@pytest.mark.parametrize("params", [
    {"progressToken": 999, "progress": 1}, {"progressToken": "a", "progress": 1}, {"progress": 1}, {},
    {"progressToken": 1.5, "progress": 1}, {"progressToken": True, "progress": 1}, {"progressToken": [], "progress": 1},
])
def test_stray_progress_is_dropped(params):
    with Fake() as fake, fake.connect() as client:
        fake.tell("notifications/progress", params)  # PROG-09
        client.ping()


@pytest.mark.parametrize("value", ["much", None, [], {}])
def test_invalid_progress_is_dropped(value):
    def work(params):
        fake.tell("notifications/progress", {"progressToken": params["_meta"]["progressToken"], "progress": value})
        return {}

    with Fake({"work": work}) as fake, fake.connect() as client:
        reports = []
        client.request("work", on_progress=reports.append)
        assert reports == []


def test_the_members_of_meta_stay_beside_the_progress_token():
    with Fake({"work": {}}) as fake, fake.connect() as client:
        client.request("work", {"a": 1, "_meta": {"com.example/x": 1}}, on_progress=print, meta={"com.example/y": 2})
        sent = fake.got("work")
        meta = sent["params"]["_meta"]
        assert meta.pop("progressToken") == sent["id"]
        assert meta == {"com.example/x": 1, "com.example/y": 2} and sent["params"]["a"] == 1


def test_duplicate_keys_in_an_answer_are_accepted():
    def answer(params):
        fake.raw(b'{"jsonrpc":"2.0","id":%d,"result":{"a":1,"a":2}}' % fake.got("odd")["id"])
        return SILENCE

    with Fake({"odd": answer}) as fake, fake.connect() as client:
        assert client.request("odd") == {"a": 2}


def test_ids_of_both_directions_do_not_mix():
    def work(params):
        id = fake.got("work")["id"]
        fake.ask("roots/list", id=id)
        assert "result" in fake.wait(lambda message: message.get("id") == id and "method" not in message)
        return {"ok": 1}

    with Fake({"work": work}) as fake, fake.connect(roots=[]) as client:
        assert client.request("work") == {"ok": 1}  # RPC-31


def test_batches_are_accepted_in_the_one_revision_that_has_them():
    for version in LEGACY:
        got = []
        with Fake(version=version) as fake, fake.connect(roots=[]) as client:
            batch = [{"jsonrpc": "2.0", "id": 71, "method": "ping"}, {"jsonrpc": "2.0", "id": 72, "method": "roots/list"}]
            fake.raw(json.dumps(batch).encode())
            if client.revision.batches:
                got = sorted(fake.answer_of(id)["id"] for id in (71, 72))
                assert got == [71, 72]
            else:
                refused = fake.wait(lambda message: "error" in message)
                assert refused["error"]["code"] == -32600  # RPC-26
                assert ("id" in refused) is not client.revision.error_id_optional  # RPC-11
            client.ping()


# --- requests of the server --------------------------------------------------------------------------


def test_unknown_requests_are_refused_and_unknown_notifications_ignored():
    with Fake() as fake, fake.connect() as client:
        assert fake.asked("foo/bar")["error"]["code"] == -32601
        for method in ("roots/list", "sampling/createMessage", "elicitation/create"):
            assert fake.asked(method, {})["error"]["code"] == -32601  # RPC-18
        fake.tell("notifications/foo")
        fake.tell("notifications/cancelled")
        fake.tell("notifications/cancelled", {"requestId": "none", "reason": 3})
        client.ping()  # CANC-09, RPC-15


def test_a_ping_is_answered_while_a_handler_runs():
    asked, answer = threading.Event(), threading.Event()

    def think(request):
        asked.set()
        assert answer.wait(LIMIT)
        return {}

    with Fake() as fake, fake.connect(elicitation_handler=think) as client:
        id = fake.ask("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
        assert asked.wait(LIMIT)
        assert fake.asked("ping")["result"] == {}  # PING-01, ELIC-28
        client.ping()
        answer.set()
        assert fake.answer_of(id)["result"]["action"] == "accept"


@pytest.mark.slow
def test_the_time_of_handlers_does_not_count():
    typed = threading.Event()

    def tool(params):
        answer = fake.asked("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
        return {"content": [{"type": "text", "text": answer["result"]["action"]}]}

    def person(request):
        assert not typed.wait(2.5)  # more than the call has
        return {}

    with Fake({"tools/call": tool}) as fake, fake.connect(elicitation_handler=person) as client:
        assert client.call_tool("ask", timeout=2).text == "accept"  # TIME-08


def test_a_call_from_within_a_handler_has_a_timeout():
    outcome = []

    def ask(request):
        try:
            client.request("silent", timeout=0.2)
        except RequestTimeout as error:
            outcome.append(error)
        return {}

    with Fake({"silent": lambda params: SILENCE}) as fake, fake.connect(elicitation_handler=ask) as client:
        answer = fake.asked("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
        assert answer["result"]["action"] == "accept"
        assert len(outcome) == 1


def test_nested_questions_need_one_place():
    def deeper(params):
        depth = params["depth"]
        if depth:
            fake.asked("elicitation/create", {
                "message": str(depth), "requestedSchema": {"type": "object", "properties": {}}})
        return {"depth": depth}

    def ask(request):
        seen.append(int(request.message))
        assert client.request("deeper", {"depth": int(request.message) - 1}) == {"depth": int(request.message) - 1}
        return {}

    seen = []
    with Fake({"deeper": deeper}) as fake, fake.connect(elicitation_handler=ask, max_handlers=1) as client:
        assert client.request("deeper", {"depth": 5}) == {"depth": 5}  # REL-56
        assert seen == [5, 4, 3, 2, 1]


def test_a_cancelled_question_is_not_answered_and_its_token_is_cancelled():
    asked, notified = threading.Event(), threading.Event()

    def ask(request):
        asked.set()
        if request.token.wait(LIMIT):
            notified.set()
        return {}

    with Fake() as fake, fake.connect(elicitation_handler=ask) as client:
        id = fake.ask("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
        assert asked.wait(LIMIT)
        fake.tell("notifications/cancelled", {"requestId": id, "reason": "too late"})
        assert notified.wait(LIMIT)  # CANC-13
        client.ping()
        fake.asked("ping")
        assert [message for message in fake.sent if message.get("id") == id] == []  # CANC-03


def test_the_reason_in_a_cancel_notice_is_cut():
    token = mcplite.CancelToken()
    with Fake({"slow": lambda params: SILENCE}) as fake, fake.connect() as client:
        thread, _ = start(client.request, "slow", cancel=token)
        id = fake.got("slow")["id"]
        token.cancel("x" * 1000)
        thread.join(LIMIT)
        assert fake.got("notifications/cancelled")["params"] == {"requestId": id, "reason": "x" * 500}


def test_a_handler_of_the_users_own_replaces_another():
    seen, done = [], threading.Event()
    with Fake() as fake, fake.connect(on_tools_changed=lambda: seen.append("option")) as client:
        client.on("notifications/tools/list_changed", lambda params: (seen.append(params), done.set()))
        fake.tell("notifications/tools/list_changed", {"a": 1})
        assert done.wait(LIMIT) and seen == [{"a": 1}]


def test_questions_beyond_all_places_wait_for_one():
    gate = threading.Event()

    def ask(request):
        assert gate.wait(LIMIT)
        return {}

    with Fake() as fake, fake.connect(elicitation_handler=ask, max_handlers=2):
        ids = [fake.ask("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
               for _ in range(6)]
        gate.set()
        assert [fake.answer_of(id)["result"]["action"] for id in ids] == ["accept"] * 6


def test_too_many_questions_are_refused():
    with Fake() as fake, fake.connect(roots=[], questions_per_minute=3) as client:
        assert ["result" in fake.asked("roots/list") for _ in range(5)] == [True] * 3 + [False] * 2  # ELIC-22
        assert fake.asked("roots/list")["error"]["code"] == -31001
        assert fake.asked("ping")["result"] == {}
        client.ping()


# --- notifications ---------------------------------------------------------------------------------------


def test_notifications_come_in_order_on_their_own_thread():
    seen, threads, done = [], set(), threading.Event()

    def log(message):
        seen.append(message.data)
        threads.add(threading.current_thread())
        if len(seen) == 50:
            done.set()

    with Fake() as fake, fake.connect(log_handler=log):
        for number in range(50):
            fake.tell("notifications/message", {"level": "info", "data": number})
        assert done.wait(LIMIT)
        assert seen == list(range(50)) and len(threads) == 1
        assert threading.current_thread() not in threads


def test_a_callback_may_call_the_client():
    done = threading.Event()

    def changed():
        assert client.request("again") == {"fine": 1}  # REL-55
        done.set()

    with Fake({"again": {"fine": 1}}) as fake, fake.connect(on_tools_changed=changed) as client:
        fake.tell("notifications/tools/list_changed")
        assert done.wait(LIMIT)


def test_notifications_before_the_end_are_still_handled():
    seen = []
    gate = threading.Event()

    def log(message):
        gate.wait(LIMIT)
        seen.append(message.data)

    def work(params):
        for number in range(5):
            fake.tell("notifications/message", {"level": "info", "data": number})
        return {}

    with Fake({"work": work}) as fake:
        with fake.connect(log_handler=log) as client:
            client.request("work")
            gate.set()
        assert seen == [0, 1, 2, 3, 4]


def test_invalid_notifications_are_logged_and_dropped(caplog):
    with Fake() as fake, fake.connect(log_handler=print, on_resource_updated=print, on_elicitation_complete=print
                                      ) as client:
        fake.tell("notifications/message", {"level": 3})
        fake.tell("notifications/resources/updated", {"uri": 5})
        fake.tell("notifications/resources/updated")
        fake.tell("notifications/elicitation/complete", {"elicitationId": []})
        client.ping()
        assert sum(record.levelno == logging.WARNING for record in caplog.records) == 4


# --- the end -------------------------------------------------------------------------------------------------


def test_the_end_of_the_server_fails_calls_and_is_a_disconnect():
    notified, ended = threading.Event(), []
    with Fake({"slow": lambda params: SILENCE}) as fake:
        client = fake.connect(on_disconnect=lambda error: (ended.append(error), notified.set())).open()
        thread, outcome = start(client.request, "slow")
        fake.got("slow")
        fake.leave()
        thread.join(LIMIT)
        assert isinstance(outcome[0], ConnectionClosed)
        assert notified.wait(LIMIT)  # NS-04
        assert isinstance(ended[0], ConnectionClosed) and client.state == "closed"
        assert client.last_error is ended[0]
        with pytest.raises(ConnectionClosed):
            client.ping()
        client.close()
        assert len(ended) == 1


def test_closing_is_not_a_disconnect():
    ended = []
    with Fake() as fake:
        with fake.connect(on_disconnect=ended.append):
            pass
        assert ended == []


def test_a_server_on_a_pipe_gets_the_pause_that_it_asks_for():
    refusals = [Refusal(RATE_LIMITED, "slow down", {"retryAfter": 0.05})] * 2

    def busy(params):
        if refusals:
            raise refusals.pop()
        return {"prompts": []}

    with Fake({"prompts/list": busy}) as fake, fake.connect() as client:
        assert client.list_prompts(max_timeout=LIMIT) == [] and fake.methods().count("prompts/list") == 3
