"""The transport with two endpoints over several processes: the stream on one of them, each POST on any."""

import pytest

from mcplite.fleet.session_records import SessionRecords
from mcplite.revisions import LEGACY
from tests.server.http.test_endpoint import ask_tool, call, opening, request
from tests.support.children import wait_until
from tests.support.sharing import Reading, Shared, running

OLDEST = LEGACY[0].name


class OldClient:
    """A client of the oldest revision: one stream, and requests that go to one process after the other."""

    def __init__(self, processes, principal=None, **capabilities):
        self.processes, self.turn, self.principal = processes, 0, principal
        self.stream = Reading(processes[0].endpoint.handle(request("GET", path="/sse", principal=principal)))
        assert wait_until(lambda: self.stream.found)
        self.query = self.stream.found[0][1].partition("?")[2]
        assert self.stream.found[0][1].startswith("/messages?session_id=")
        self.post(opening(OLDEST, **capabilities))
        self.answer(0)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message, process=None, principal=None):
        self.turn += 1
        endpoint = (process or self.processes[self.turn % len(self.processes)]).endpoint
        principal = principal or self.principal
        return endpoint.handle(request("POST", message, path="/messages", query=self.query, principal=principal))

    def post(self, message, process=None):
        answer = self.send(message, process)
        assert answer.status == 202, answer.content

    def answer(self, id):
        return self.stream.wait(lambda message: message.get("id") == id and "method" not in message)[1]


def test_each_post_may_reach_another_process(processes):
    # LSSE-02, LSSE-08
    client = OldClient(processes)
    for id in range(1, 7):
        client.post(ask_tool("add", {"a": id, "b": 1}, id=id))
        assert client.answer(id)["result"]["content"][0]["text"] == str(id + 1)
    assert {id for id, _ in client.stream.found} == {None}
    client.stream.stop()


def test_a_question_its_answer_and_a_cancellation(processes):
    client = OldClient(processes, roots={})
    for id, (asked, answered) in enumerate(((0, 1), (1, 2), (2, 2)), 1):
        client.post(ask_tool("roots", id=id), processes[asked])
        _, question = client.stream.wait(lambda message: message.get("method") == "roots/list")
        client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}, processes[answered])
        assert client.answer(id)["result"]["content"][0]["text"] == "0"
        client.stream.found.clear()
    client.post(ask_tool("hold", id=9), processes[1])
    assert processes[1].entered.wait(60)
    client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}, processes[2])
    assert processes[1].left.wait(60)
    client.stream.stop()


def test_changes_and_subscriptions(processes):
    client = OldClient(processes)
    processes[1].mcp.resources_changed()  # the process of the stream has not seen the handshake
    client.stream.wait(lambda message: message.get("method") == "notifications/resources/list_changed")
    client.post(call("resources/subscribe", {"uri": "demo://one"}, id=1), processes[1])
    client.answer(1)
    processes[2].mcp.resource_updated("demo://one")
    client.stream.wait(lambda message: message.get("method") == "notifications/resources/updated")
    processes[1].mcp.tools_changed()
    client.stream.wait(lambda message: message.get("method") == "notifications/tools/list_changed")
    client.stream.stop()


def test_the_session_ends_with_its_stream_for_all_processes(processes):
    # LSSE-10
    client = OldClient(processes)
    client.post(ask_tool("hold", id=1), processes[1])
    assert processes[1].entered.wait(60)
    client.stream.stop()
    assert processes[1].left.wait(60)
    assert [client.send(call("ping"), process).status for process in processes] == [404] * 3


def test_a_session_that_ends_while_a_message_is_passed_on_is_unknown(monkeypatch):
    with running(Shared, 1) as processes:
        client, get = OldClient(processes), SessionRecords.get
        reads = iter([get, lambda records, id: None])  # it is found, and then it has expired
        with monkeypatch.context() as patch:
            patch.setattr(SessionRecords, "get", lambda records, id: next(reads, get)(records, id))
            assert client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}).status == 404
            assert next(reads, None) is None, "both were made"
        client.stream.stop()


@pytest.mark.slow
def test_the_session_ends_with_the_process_of_its_stream(store):
    with running(store, 2) as others, running(store, 1) as first:
        client = OldClient(first + others)
        first[0].mcp.runtime.processes.leases.stop()  # as a process that was killed, once its lease has expired
        assert wait_until(lambda: client.send(call("ping"), others[0]).status == 404)
        assert client.send(call("ping"), others[1]).status == 404
        client.stream.wait_over()


def test_ids_belong_to_their_owner_and_their_transport(processes):
    # SESS-15
    client = OldClient(processes, principal="ada")
    assert [client.send(call("ping"), process, principal="bob").status for process in processes] == [404] * 3
    id = client.query.partition("=")[2]
    assert processes[0].endpoint.handle(request("POST", call("ping"), principal="ada", mcp_session_id=id)).status == 404
    client.stream.stop()


@pytest.mark.parametrize("message", [b"{", b"[]"])
def test_what_cannot_be_read_is_refused(processes, message):
    client = OldClient(processes)
    answer = processes[1].endpoint.handle(request("POST", path="/messages", query=client.query, body=message))
    assert answer.status == 400
    client.stream.stop()
