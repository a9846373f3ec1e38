"""Sessions with a handshake over several processes with one backend: each request may land on another one."""

import pytest

import mcplite
from mcplite.fleet.session_records import SessionRecords
from tests.server.http.test_endpoint import ask_tool, body, call, events, header, opening, request
from tests.support.children import wait_until
from tests.support.sharing import LIMIT, STREAMABLE, Client, Reading, Shared, running
from tests.support.tight import tight


def test_any_process_serves_a_session(processes):
    for version in STREAMABLE:
        client = Client(processes, version)
        for number in range(6):
            answer = client.send(ask_tool("add", {"a": number, "b": 1}))
            assert answer.status == 200 and header(answer, "Content-Type") == "application/json"
            assert body(answer)["result"]["content"][0]["text"] == str(number + 1)
        assert client.send(method="DELETE").status == 204
        assert [client.send(call("ping")).status for _ in processes] == [404] * 3


def test_a_session_goes_on_without_the_process_that_began_it(store):
    with running(store, 1) as first:
        client = Client(first)
    with running(store, 1) as client.processes:
        assert body(client.send(ask_tool("add", {"a": 1, "b": 1})))["result"]["content"][0]["text"] == "2"


def test_a_session_belongs_to_its_opener_in_all_processes(processes):
    # SESS-15
    client = Client(processes, principal="ada")
    assert client.send(call("ping")).status == 200
    for other in (None, "bob"):
        assert [process.endpoint.handle(request("POST", call("ping"), principal=other, **client.headers)).status
                for process in processes] == [404] * 3


def test_a_refused_handshake_and_a_foreign_id(processes):
    answer = processes[0].endpoint.handle(request("POST", call("initialize", {"protocolVersion": 1})))
    assert "error" in body(answer) and header(answer, "Mcp-Session-Id") is None and len(processes[0].endpoint.sessions) == 0
    for id in ("unknown", "x" * 600, "a/b", "A" * 32):
        assert processes[0].endpoint.handle(request("POST", call("ping"), mcp_session_id=id)).status == 404


def test_a_plain_call_costs_one_round_trip():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        for _ in processes:
            client.send(ask_tool("add", {"a": 1, "b": 1}))
        del backend.trips[:]
        for _ in range(4):
            client.send(ask_tool("add", {"a": 1, "b": 1}))
        trips = [(kind, key.split("/")[1]) for kind, key in backend.trips if not key.startswith("lease")]
        assert trips == [("get", "record")] * 4


def test_the_log_level_holds_in_all_processes(processes):
    client = Client(processes)
    assert "result" in body(client.send(call("logging/setLevel", {"level": "error"})))
    for process in processes:
        assert not client.send(ask_tool("say", {"level": "info"}), process=process).streaming
        said = client.send(ask_tool("say", {"level": "error"}), process=process)
        assert [message.get("method") for _, message in events(said) if message] == ["notifications/message", None]
        said.close()


def test_an_expired_session_is_unknown_to_all(store):
    with running(store, 2) as processes:
        client = Client(processes)
        for process in processes:  # from now on, whatever the handshake takes
            process.endpoint.sessions.records.limits = tight(session_idle_seconds=0.05)
        client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        assert wait_until(lambda: [client.send(call("ping")).status for _ in processes] == [404] * 2)


def test_a_session_that_ends_while_a_message_is_passed_on_is_unknown(monkeypatch):
    with running(Shared, 1) as processes:
        client, get = Client(processes), SessionRecords.get
        reads = iter([get, lambda records, id: None])  # it is found, and then it has expired
        monkeypatch.setattr(SessionRecords, "get", lambda records, id: next(reads)(records, id))
        assert client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}).status == 404


def test_a_second_handshake_begins_the_session_again(processes):
    client = Client(processes, "2025-06-18", elicitation={})
    assert body(client.send(call("resources/subscribe", {"uri": "demo://one"})))["result"] == {}
    answer = client.send(opening("2025-03-26"), mcp_protocol_version=None)
    assert body(answer)["result"]["protocolVersion"] == "2025-03-26"
    client.headers.pop("mcp_protocol_version")
    for process in processes:
        session = process.endpoint.sessions.find(client.headers["mcp_session_id"], None).session
        assert (session.revision.name, session.followed, session.initialized) == ("2025-03-26", set(), False)
        assert session.client_capabilities.elicitation is None


@pytest.mark.slow
def test_without_the_store_requests_are_refused_until_it_is_back():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        backend.away = {"get"}
        for process in processes:
            for message, method in ((call("ping"), "POST"), (None, "GET"), (None, "DELETE")):
                answer = client.send(message, method=method, process=process)
                assert answer.status == 503 and header(answer, "Retry-After")
        backend.away = ()
        for process in processes:
            process.mcp.runtime.processes.outage.passed()
            assert client.send(call("ping"), process=process).status == 200


def test_plain_calls_go_on_while_the_store_is_full():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        backend.away = {"swap"}
        for process in processes:
            answer = client.send(ask_tool("add", {"a": 1, "b": 1}), process=process)
            assert answer.status == 200 and body(answer)["result"]["content"][0]["text"] == "2"
        answer = client.send(call("resources/subscribe", {"uri": "demo://one"}))
        assert answer.status == 503 and header(answer, "Retry-After")
        backend.away = ()


def test_a_process_whose_sessions_are_all_in_use_says_so():
    backend = Shared()
    with running(lambda: backend, 1, sessions=1) as others, running(lambda: backend, 1, sessions=1) as first:
        held, other = Client(first), Client(others)
        stream = Reading(held.send(ask_tool("hold", token=1)))
        assert first[0].entered.wait(LIMIT)
        answer = other.send(call("ping"), process=first[0])
        assert answer.status == 503 and "too many sessions are in use" in body(answer)["error"]["message"]
        first[0].go.set()
        stream.wait_over()
        assert other.send(call("ping"), process=first[0]).status == 200


def test_a_change_that_cannot_be_stored_is_refused():
    backend = Shared()
    with running(lambda: backend, 1) as processes:
        session = Client(processes).session_at(processes[0])
        backend.away = {"get"}
        with pytest.raises(mcplite.RemoteError, match="store that its processes share cannot be used"):
            session.session.subscribe("demo://one")
        assert session.session.followed == set()


# --- questions ------------------------------------------------------------------------------------------------


def accepted(question, action="accept"):
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": action, "content": {}}}


@pytest.mark.parametrize("version", STREAMABLE)
def test_an_answer_finds_the_handler_from_any_process(processes, version):
    client = Client(processes, version, elicitation={})
    for asked in processes:
        for answered in processes:
            if version not in ("2025-06-18", "2025-11-25"):
                continue  # without elicitation
            stream = Reading(client.send(ask_tool("ask"), process=asked))
            _, question = stream.wait(lambda message: message.get("method") == "elicitation/create")
            assert question["id"] < 2 ** 53
            assert client.send(accepted(question), process=answered).status == 202
            _, answer = stream.wait(lambda message: "result" in message)
            assert answer["result"]["content"][0]["text"] == "accept"
            stream.wait_over()


def test_roots_are_asked_for_again_once_they_have_changed(processes):
    # ROOT-14, ROOT-15
    client = Client(processes, roots={"listChanged": True})

    def ask(process, count):
        """Call the tool; return whether the client was asked, and what the tool returned."""
        response = client.send(ask_tool("roots"), process=process)
        if not response.streaming:
            return False, body(response)["result"]["content"][0]["text"]
        stream = Reading(response)
        _, question = stream.wait(lambda message: message.get("method") == "roots/list")
        roots = [{"uri": f"file:///{number}"} for number in range(count)]
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": roots}})
        _, answer = stream.wait(lambda message: "result" in message)
        stream.wait_over()
        return True, answer["result"]["content"][0]["text"]

    for count in range(2):
        for process in processes:
            # Another process hears of a change a moment later: before it asks, or once more after that.
            assert wait_until(lambda: ask(process, count) == (True, str(count)))
            assert wait_until(lambda: ask(process, count) == (False, str(count)))
        assert client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}).status == 202
    assert wait_until(lambda: sum(len(process.told) for process in processes) == 2)


def test_a_call_is_cancelled_from_any_process(processes):
    client = Client(processes)
    for id, process in enumerate(processes, 10):
        stream = Reading(client.send(ask_tool("hold", id=id, token=id), process=processes[0]))
        assert processes[0].entered.wait(LIMIT)
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}, process=process)
        assert processes[0].left.wait(LIMIT)
        stream.wait_over()
        assert not any("result" in message or "error" in message for message in stream.messages())
        processes[0].entered.clear()
        processes[0].left.clear()


def test_the_end_of_a_session_cancels_its_calls_in_all_processes(processes):
    client = Client(processes)
    stream = Reading(client.send(ask_tool("hold", token=1), process=processes[0]))
    assert processes[0].entered.wait(LIMIT)
    assert client.send(method="DELETE", process=processes[1]).status == 204
    assert processes[0].left.wait(LIMIT)
    stream.wait_over()


def test_sessions_are_bounded_over_all_processes(store):
    with running(store, 3, fleet_sessions=5) as processes:
        first = Client(processes)
        strangers = [Client(processes) for _ in range(20)]
        statuses = [client.send(call("ping"), process=process).status for client in strangers for process in processes]
        assert statuses == [404] * 45 + [200] * 15
        assert first.send(call("ping")).status == 404


def test_a_session_that_grows_makes_room_for_itself(store):
    with running(store, 2, fleet_sessions=100, fleet_session_bytes=10 * 4096) as processes:
        for process in processes:
            process.mcp.resource("demo://{name}", name="any")(lambda name: name)
        clients = [Client(processes) for _ in range(10)]
        for number in range(4):
            answer = body(clients[9].send(call("resources/subscribe", {"uri": "demo://" + str(number) * 2500})))
            assert answer["result"] == {}
        statuses = [client.send(call("ping")).status for client in clients]
        assert statuses[0] == 404 and statuses[9] == 200 and statuses.count(404) == 3


def test_a_session_that_has_ended_leaves_the_lists_of_the_fleet():
    backend = Shared()
    with running(lambda: backend, 1) as processes:
        client = Client(processes)
        assert any(key.startswith("sessions-") for key in backend._values)
        assert client.send(method="DELETE").status == 204
        assert not any(key.startswith("sessions-") for key in backend._values)
