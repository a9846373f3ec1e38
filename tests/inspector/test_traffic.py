"""What the record keeps, in which order it tells it, and what it drops."""

import json
import threading

import pytest

from mcplite.inspector.traffic import Traffic, to_json

REQUEST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
RESPONSE = b'{"jsonrpc": "2.0", "id": 1, "result": {}}'


def told(traffic, number=0):
    """Return the names and the values of the entries behind a number."""
    return [(entry.event, json.loads(entry.text())) for entry in traffic.after(number, 0)]


def test_a_response_has_the_method_and_the_time_of_its_request():
    traffic = Traffic()
    traffic.add("it", "->", REQUEST)
    traffic.add("it", "<-", REQUEST)  # the server's own request of that id
    traffic.add("it", "<-", RESPONSE)
    asked, _, answer = [values for _, values in told(traffic)]
    assert (answer["kind"], answer["method"], answer["answers"]) == ("response", "tools/list", asked["message"])
    assert answer["duration"] >= 0 and answer["content"] == json.loads(RESPONSE)


@pytest.mark.parametrize("raw, kind", [
    (b'{"method": "a", "id": 1}', "request"), (b'{"method": "a"}', "notification"), (b'{"id": 1, "error": {}}', "error"),
    (b'{"id": 1, "result": 1}', "response"), (b"{}", "invalid"), (b"[]", "invalid"), (b"1", "invalid"), (b"", "invalid"),
    (b"\xff\xfe", "invalid"), (b'{"method": "a", "id": NaN}', "invalid"), (b"[" * 100_000, "invalid"),
    (b'{"method": 1}', "invalid"),
    (b'{"method": "a", "id": ' + b"1" * 5_000 + b"}", "invalid"), (b"\xef\xbb\xbf{}", "invalid"),
])
def test_kinds_and_what_is_no_message(raw, kind):
    traffic = Traffic()
    traffic.add("it", "<-", raw)
    ((event, values),) = told(traffic)
    assert (event, values["kind"], values["size"]) == ("message", kind, len(raw))
    assert (kind == "invalid") == isinstance(values["content"], str)


def test_a_batch_is_shown_message_by_message():
    traffic = Traffic()
    traffic.add("it", "->", b"[" + REQUEST + b', {"method": "x"}]')
    assert [values["method"] for _, values in told(traffic)] == ["tools/list", "x"]


def test_a_long_message_is_cut_for_the_page_and_kept_whole():
    traffic = Traffic()
    raw = json.dumps({"method": "a", "params": {"text": "x" * 400_000}}).encode()
    traffic.add("it", "->", raw)
    ((_, values),) = told(traffic)
    assert values["kind"] == "notification" and values["cut"] + len(values["content"]) == values["size"] == len(raw)
    assert traffic.find(values["message"]).raw == raw


def test_the_oldest_messages_are_dropped_and_counted():
    traffic = Traffic(most_messages=3, most_bytes=1_000)
    for number in range(5):
        traffic.add("it", "->", b'{"method": "m%d"}' % number)
    events = told(traffic)
    assert [values["method"] for event, values in events if event == "message"] == ["m2", "m3", "m4"]
    assert [values for event, values in events if event == "dropped"] == [{"server": "it", "messages": 2}]
    traffic.add("it", "->", b'{"method": "%s"}' % (b"x" * 2_000))
    assert len(traffic.messages("it")) == 1  # more bytes than all may have: it stays alone
    traffic.clear("it")
    assert traffic.messages("it") == [] and [event for event, _ in told(traffic)] == ["cleared"]


def test_entries_behind_a_number_are_told_once():
    traffic = Traffic()
    traffic.add("it", "->", REQUEST)
    seen = traffic.after(0, 0)[-1].number
    traffic.set("server", "it", {"state": "opening"})
    traffic.set("server", "it", {"state": "open"})
    traffic.note("changed", {"kind": "tools"})
    assert told(traffic, seen) == [("server", {"state": "open"}), ("changed", {"kind": "tools"})]
    traffic.unset("server", "it")
    assert told(traffic, seen) == [("changed", {"kind": "tools"})]


def test_the_heads_of_a_message_are_an_update_for_those_who_have_it():
    traffic = Traffic()
    traffic.add("it", "->", REQUEST)
    traffic.add("other", "->", REQUEST, 2)
    seen = traffic.after(0, 0)[0].number
    traffic.add_http("it", REQUEST, {"request": {}})
    assert [(event, values.get("http")) for event, values in told(traffic)] == [
        ("message", {"request": {}}), ("message", None)]
    assert told(traffic, seen)[-1] == ("message-update", told(traffic)[0][1])
    traffic.add("it", "<-", RESPONSE)
    assert told(traffic)[-1][1]["http"] == {"request": {}}
    traffic.add_http("it", b"another body", {})


def test_notes_and_heads_are_bounded_in_characters():
    traffic = Traffic(most_bytes=10_000)
    for number in range(10):
        traffic.note("updated", {"uri": "x" * 1_000_000, "number": number})
    assert [values["number"] for _, values in told(traffic)] == [6, 7, 8, 9]
    for number in range(5):
        traffic.add("it", "->", b'{"method": "m%d"}' % number, number)
        traffic.add_http("it", b'{"method": "m%d"}' % number, {"request": {"headers": {"a": "x" * 4_000}}})
    assert len(traffic.messages("it")) <= 3


def test_a_reader_waits_for_the_first_entry_and_for_the_end():
    traffic, found = Traffic(), []
    thread = threading.Thread(target=lambda: found.extend(traffic.after(0, 30)))
    thread.start()
    traffic.note("stderr", {"line": "x"})
    thread.join(30)
    assert [entry.event for entry in found] == ["stderr"]
    thread = threading.Thread(target=lambda: found.append(traffic.after(found[-1].number, 30)))
    thread.start()
    traffic.close()
    thread.join(30)
    assert found[-1] == [] and traffic.closed


def test_a_new_connection_answers_nothing_of_the_one_before():
    traffic = Traffic()
    traffic.add("it", "->", REQUEST, 1)
    traffic.add("it", "<-", RESPONSE, 2)
    assert told(traffic)[-1][1]["answers"] is None


def test_numbers_that_a_browser_cannot_read_become_null():
    assert json.loads(to_json({"a": [float("inf"), float("nan"), 1.5]})) == {"a": [None, None, 1.5]}
