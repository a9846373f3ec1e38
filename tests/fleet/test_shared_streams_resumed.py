"""The stream of a request, resumed on other processes than the one that runs its handler."""

import pytest

from tests.server.http.test_endpoint import ask_tool, call
from tests.support.sharing import STREAMABLE, Client, Reading, Shared, running


def held(client, process, id=1):
    """Begin a call that reports progress and waits; return the reader of its stream, and the id of that event."""
    stream = Reading(client.send(ask_tool("hold", id=id, token=id), process=process))
    event, _ = stream.wait(lambda message: message.get("method") == "notifications/progress")
    return stream, event


def result(message):
    return "result" in message or "error" in message


@pytest.mark.parametrize("version", STREAMABLE)
def test_a_finished_stream_is_resumed_on_any_process(processes, version):
    # RES-05, HTTP-20
    client = Client(processes, version)
    stream = Reading(client.send(ask_tool("report", token="t", id=7), process=processes[0]))
    stream.wait(result)
    stream.wait_over()
    sent = [(id, message) for id, message in stream.found]
    primed = version == "2025-11-25"
    assert len(sent) == 2 + primed and len({id for id, _ in sent}) == len(sent)
    for process in processes:
        for known, (id, _) in enumerate(sent, 1):
            again = client.send(method="GET", process=process, last_event_id=id)
            if known == len(sent):
                assert again.status == 204
                continue
            rest = Reading(again)
            rest.wait_over()
            assert rest.found == sent[known:]


@pytest.mark.parametrize("version", STREAMABLE)
def test_it_is_resumed_elsewhere_while_the_handler_runs(processes, version):
    client = Client(processes, version)
    stream, event = held(client, processes[0])
    rests = [Reading(client.send(method="GET", process=process, last_event_id=event)) for process in processes]
    stream.wait_over()  # the client has left this response
    processes[0].go.set()
    for rest in rests:
        _, answer = rest.wait(result)
        assert answer["result"]["content"][0]["text"] == "held"
        rest.wait_over()


def test_a_handler_may_close_its_stream_and_the_client_comes_back_anywhere(processes):
    # HTTP-14, HTTP-16
    client = Client(processes)
    for process in processes:
        stream = Reading(client.send(ask_tool("pause"), process=processes[0]))
        stream.wait_over()
        rest = Reading(client.send(method="GET", process=process, last_event_id=stream.found[0][0]))
        _, answer = rest.wait(result)
        assert answer["result"]["structuredContent"] == {"result": True}
        rest.wait_over()


def test_a_question_reaches_a_resumed_stream_and_its_answer_the_handler(processes):
    client = Client(processes, elicitation={})
    stream = Reading(client.send(ask_tool("ask"), process=processes[0]))
    stream.wait(lambda message: message.get("method") == "elicitation/create")
    primed = stream.found[0][0]
    rest = Reading(client.send(method="GET", process=processes[1], last_event_id=primed))
    _, question = rest.wait(lambda message: message.get("method") == "elicitation/create")
    declined = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
    assert client.send(declined, process=processes[2]).status == 202
    _, answer = rest.wait(result)
    assert answer["result"]["content"][0]["text"] == "decline"
    rest.wait_over()
    stream.wait_over()


def test_when_the_process_has_ended_the_call_fails_and_says_so(processes):
    client = Client(processes)
    _, event = held(client, processes[0], id=9)
    rest = Reading(client.send(method="GET", process=processes[1], last_event_id=event))
    processes[0].mcp.runtime.processes.leases.stop()  # as a process that was killed, once its lease has expired
    _, answer = rest.wait(result)
    assert answer["id"] == 9 and "process that ran this call has ended" in answer["error"]["message"]
    rest.wait_over()
    for process in processes[1:]:
        again = Reading(client.send(method="GET", process=process, last_event_id=event))
        again.wait_over()
        assert again.messages() == [answer]


def test_a_process_that_stops_tells_the_clients_of_its_calls(store):
    with running(store, 1) as others, running(store, 1) as first:
        client = Client(first)
        _, event = held(client, first[0], id=9)
        rest = Reading(client.send(method="GET", process=others[0], last_event_id=event))
        first[0].endpoint.close(0.1)
        _, answer = rest.wait(result)
        assert answer["id"] == 9 and "process that ran this call has ended" in answer["error"]["message"]
        rest.wait_over()


def test_the_requests_of_a_batch_fail_together(processes):
    client = Client(processes, "2025-03-26")
    stream = Reading(client.send([ask_tool("hold", id=id, token=id) for id in (1, 2)], process=processes[0]))
    event, _ = stream.wait(lambda message: message.get("method") == "notifications/progress")
    rest = Reading(client.send(method="GET", process=processes[1], last_event_id=event))
    processes[0].mcp.runtime.processes.leases.stop()
    rest.wait_over()
    answers = [message for message in rest.messages() if isinstance(message, list)]
    assert [[answer["id"] for answer in batch] for batch in answers] == [[1, 2]]


def test_a_cancelled_call_ends_a_resumed_stream_without_an_answer(processes):
    client = Client(processes)
    stream, event = held(client, processes[0], id=5)
    rest = Reading(client.send(method="GET", process=processes[1], last_event_id=event))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}, process=processes[2])
    rest.wait_over()
    assert not any(map(result, rest.messages()))
    stream.wait_over()


def test_an_event_of_another_session_and_one_that_never_was(processes):
    one, two = Client(processes), Client(processes)
    stream = Reading(one.send(ask_tool("report", token="t"), process=processes[0]))
    stream.wait_over()
    event = stream.found[0][0]
    assert two.send(method="GET", last_event_id=event).status == 400
    assert one.send(method="GET", last_event_id=event.split("-")[0] + "-99").status == 400
    assert one.send(method="GET", last_event_id="5.5-1").status == 400


def test_of_a_long_stream_the_latest_messages_are_kept():
    backend = Shared()
    with running(lambda: backend, 2, stream_events=3) as processes:
        client = Client(processes)
        stream = Reading(client.send(ask_tool("count", {"to": 8}, token=1), process=processes[0]))
        stream.wait_over()
        events = [id for id, _ in stream.found]
        assert client.send(method="GET", process=processes[1], last_event_id=events[1]).status == 400
        rest = Reading(client.send(method="GET", process=processes[1], last_event_id=events[-3]))
        rest.wait_over()
        assert rest.found == stream.found[-2:]


def test_while_the_store_is_away_the_response_goes_on_and_later_the_log_is_whole():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        stream, event = held(client, processes[0])
        backend.away = {"append"}
        processes[0].say("one")
        stream.wait(lambda message: message.get("params", {}).get("message") == "one")
        backend.away = ()
        processes[0].go.set()
        stream.wait(result)
        stream.wait_over()
        rest = Reading(client.send(method="GET", process=processes[1], last_event_id=event))
        rest.wait_over()
        ids = [id for id, _ in stream.found]
        assert rest.found == stream.found[ids.index(event) + 1:] and len(rest.found) == 2


def test_an_answer_that_was_not_stored_is_stored_when_the_store_is_back():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        stream, event = held(client, processes[0])
        backend.away = {"append"}
        processes[0].go.set()
        _, answer = stream.wait(result)
        stream.wait_over()
        backend.away = ()
        rest = Reading(client.send(method="GET", process=processes[1], last_event_id=event))
        assert rest.wait(result)[1] == answer
        rest.wait_over()


def test_a_stream_that_opens_while_the_store_is_away_has_no_ids():
    backend = Shared()
    with running(lambda: backend, 1) as processes:
        client = Client(processes)
        client.send(call("ping"))
        backend.away = {"append"}
        stream = Reading(client.send(ask_tool("report", token="t")))
        stream.wait(result)
        stream.wait_over()
        assert {id for id, _ in stream.found} == {None}
