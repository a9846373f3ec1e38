"""The common stream of a session over several processes: who reads it, what it carries, and where it continues."""

import pytest

import mcplite
from mcplite.fleet import shared_streams
from tests.server.http.test_endpoint import ask_tool, body, call
from tests.support.children import wait_until
from tests.support.sharing import KEY, LIMIT, STREAMABLE, Client, Reading, Shared, running

UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"


def method(name):
    return lambda message: message.get("method") == name


@pytest.mark.parametrize("version", STREAMABLE)
def test_changes_reach_the_stream_from_any_process(processes, version):
    client = Client(processes, version)
    stream = Reading(client.send(method="GET", process=processes[0]))
    for number, process in enumerate(processes):
        process.mcp.add_tool(lambda: None, name=f"new-{number}")
        stream.wait(lambda message, count=number + 1: stream_count(stream, TOOLS) >= count)
    stream.stop()


def stream_count(stream, name):
    return sum(message.get("method") == name for message in stream.messages())


def test_a_subscription_holds_for_changes_in_all_processes(processes):
    # RSRC-13
    client = Client(processes)
    stream = Reading(client.send(method="GET", process=processes[0]))
    processes[1].mcp.resource_updated("demo://one")
    processes[1].mcp.tools_changed()
    stream.wait(method(TOOLS))
    assert stream_count(stream, UPDATED) == 0
    assert body(client.send(call("resources/subscribe", {"uri": "demo://one"}), process=processes[1]))["result"] == {}
    for count, process in enumerate(processes, 1):
        process.mcp.resource_updated("demo://one")
        stream.wait(lambda message, count=count: stream_count(stream, UPDATED) == count)
    assert body(client.send(call("resources/unsubscribe", {"uri": "DEMO://one"}), process=processes[2]))["result"] == {}
    processes[2].mcp.resource_updated("demo://one")
    processes[1].mcp.resources_changed()
    stream.wait(method("notifications/resources/list_changed"))
    assert stream_count(stream, UPDATED) == len(processes)
    assert body(client.send(call("resources/subscribe", {"uri": "Demo://%6fne"}), process=processes[1]))["result"] == {}
    processes[2].mcp.resource_updated("demo://one")
    stream.wait(lambda message: message.get("params") == {"uri": "Demo://%6fne"})
    stream.stop()


def test_a_publisher_without_a_server_reaches_the_stream():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        stream = Reading(client.send(method="GET"))
        mcplite.publisher(backend, state_keys=[KEY]).tools_changed()
        stream.wait(method(TOOLS))
        mcplite.publisher(backend, state_keys=[KEY], server="another").prompts_changed()
        mcplite.publisher(backend, state_keys=["another key of many bytes"]).resources_changed()
        processes[0].mcp.tools_changed()
        stream.wait(lambda message: stream_count(stream, TOOLS) == 2)
        assert {message["method"] for message in stream.messages()} == {TOOLS}
        stream.stop()


def test_log_messages_outside_of_requests_come_from_any_process(processes):
    # LOG-20
    client = Client(processes)
    stream = Reading(client.send(method="GET", process=processes[0]))
    for count, process in enumerate(processes, 1):
        assert not client.send(ask_tool("tell"), process=process).streaming
        stream.wait(lambda message, count=count: stream_count(stream, "notifications/message") == count)
    stream.stop()


def test_what_was_sent_before_and_between_two_streams_is_read(processes):
    client = Client(processes)
    processes[1].mcp.tools_changed()
    first = Reading(client.send(method="GET", process=processes[0]))
    first.wait(method(TOOLS))
    first.stop()
    processes[1].mcp.tools_changed()
    client.send(ask_tool("tell"), process=processes[2])
    second = Reading(client.send(method="GET", process=processes[1]))
    second.wait(method("notifications/message"))
    assert stream_count(second, TOOLS) == 1
    second.stop()


def test_a_second_stream_is_refused_while_the_first_is_read(processes):
    # HTTP-31, SEC-55
    client = Client(processes)
    first = Reading(client.send(method="GET", process=processes[0]))
    assert [client.send(method="GET", process=process).status for process in processes] == [409] * 3
    first.stop()
    second = client.send(method="GET", process=processes[1])
    assert second.status == 200
    second.close()


def test_a_reader_that_has_disconnected_gives_way(processes):
    client, gone = Client(processes), []
    response = client.send(method="GET", process=processes[0])
    response.body.disconnected = lambda: bool(gone)
    first = Reading(response)
    assert client.send(method="GET", process=processes[1]).status == 409
    gone.append(1)
    second = client.send(method="GET", process=processes[1])
    assert second.status == 200
    first.wait_over()
    second.close()


def test_a_reader_that_does_not_answer_gives_way(processes, monkeypatch):
    monkeypatch.setattr(shared_streams, "_ANSWER_SECONDS", 0.05)
    client = Client(processes)
    stuck = client.send(method="GET", process=processes[0])  # its host is stuck in sending
    second = client.send(method="GET", process=processes[1])
    assert second.status == 200
    Reading(stuck).wait_over()
    processes[2].mcp.tools_changed()
    reading = Reading(second)
    reading.wait(method(TOOLS))
    reading.stop()


def test_a_reader_whose_process_has_ended_gives_way(store, monkeypatch):
    monkeypatch.setattr(shared_streams, "_ANSWER_SECONDS", LIMIT)
    with running(store, 1) as others:
        with running(store, 1) as first:
            client = Client(first)
            assert client.send(method="GET").status == 200  # never closed
        client.processes = others
        second = client.send(method="GET")
        assert second.status == 200
        second.close()


@pytest.mark.parametrize("version", STREAMABLE)
def test_it_is_resumed_after_an_event_on_any_process(processes, version):
    # RES-05
    client = Client(processes, version)
    assert body(client.send(call("resources/subscribe", {"uri": "demo://one"})))["result"] == {}
    first = Reading(client.send(method="GET", process=processes[0]))
    processes[0].mcp.tools_changed()
    seen, _ = first.wait(method(TOOLS))
    processes[1].mcp.resource_updated("demo://one")
    first.wait(method(UPDATED))
    client.send(ask_tool("tell"), process=processes[2])
    first.wait(method("notifications/message"))
    for process in processes:
        again = Reading(client.send(method="GET", process=process, last_event_id=seen))
        again.wait(method("notifications/message"))
        first.wait_over()
        assert sorted(message["method"] for message in again.messages()) == ["notifications/message", UPDATED]
        first = again
    first.stop()


def test_after_an_event_that_is_not_kept_it_is_not_resumed(processes):
    client = Client(processes)
    for event in ("0.0-7", "0-0", "1.1-1", "0.1.2-1", "x"):
        assert client.send(method="GET", last_event_id=event).status == 400


def test_when_changes_were_lost_everything_has_changed():
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        client = Client(processes)
        assert body(client.send(call("resources/subscribe", {"uri": "demo://one"})))["result"] == {}
        stream = Reading(client.send(method="GET", last_event_id="0.99-0"))  # the store was emptied meanwhile
        stream.wait(method(UPDATED))
        assert {message["method"] for message in stream.messages()} >= {TOOLS, UPDATED}
        stream.stop()


def test_it_ends_with_the_session(processes):
    client = Client(processes)
    stream = Reading(client.send(method="GET", process=processes[0]))
    assert client.send(method="DELETE", process=processes[1]).status == 204
    stream.wait_over()


def test_it_ends_with_its_process(store):
    with running(store, 2) as processes:
        client = Client(processes)
        stream = Reading(client.send(method="GET", process=processes[0]))
        processes[0].close()
        stream.wait_over()
        other = client.send(method="GET", process=processes[1])
        assert other.status == 200
        other.close()


def test_it_renews_the_session_and_ends_when_that_has_ended(processes):
    # SESS-18
    client = Client(processes)
    session = client.session_at(processes[0])
    session.records.renew_seconds = 0.01
    stream = Reading(client.send(method="GET", process=processes[0]))
    for _ in range(3):
        before = session.renewed
        assert wait_until(lambda before=before: session.renewed != before)
    session.records.remove(session.id)
    stream.wait_over()
