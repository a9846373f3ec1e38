"""The common stream of a session: who reads it, where it continues, and what it holds."""

import threading

import mcplite
from mcplite.protocol.http.sse import encode_event
from tests.support.tight import tight

from .test_sessions import make_table, opened, stored

LIMIT = 30


def common(**limits):
    """Return the table of one session, the session, and a function that sends a notification."""
    app = mcplite.Server("demo", limits=tight(**limits))
    table = make_table(app)
    session = opened(table)
    return table, session, session.peer.channel.write


def read(body, count=1):
    return b"".join(next(body) for _ in range(count))


def test_what_was_sent_without_a_reader_is_read_later():
    table, session, send = common(stream_events=2)
    for number in range(4):
        send(b"%d" % number)  # the oldest give way
    body = table.open_common(session)
    assert read(body, 2).endswith(encode_event(b"2", "0.0-3") + encode_event(b"3", "0.0-4"))
    body.close()
    send(b"4")
    again = table.open_common(session)
    assert read(again, 2).endswith(b"\n\n" + encode_event(b"4", "0.0-5"))
    resumed = table.resume(session, "0.0", 4)
    assert b"data: 4" not in b"".join(again)
    assert read(resumed, 2).count(b"data: 4") == 1
    assert table.resume(session, "0.0", 99) is table.resume(session, "0", 1) is None
    for reader in (again, resumed):
        reader.close()
    table.close("the end")
    assert stored(table) == []


def test_a_second_reader_is_refused_until_the_first_has_left():
    # HTTP-31, SEC-55
    table, session, send = common()
    body, gone = table.open_common(session), []
    body.disconnected = lambda: bool(gone)
    assert table.open_common(session) is None
    gone.append(1)
    send(b"1")
    other = table.open_common(session)
    assert read(other, 2).count(b"data: 1") == 1 and b"data: 1" not in b"".join(body)
    other.stop()
    assert table.open_common(session) is not None
    table.close("the end")


def test_a_response_that_is_stopped_ends_at_once():
    table, session, _ = common()
    for end in (lambda body: body.stop(), lambda body: table.delete(session), lambda body: body.end_for_now(1.0)):
        if session.peer.closed:
            session = opened(table)
        body = table.open_common(session)
        read(body)
        found = []
        reader = threading.Thread(target=lambda: found.extend(body))
        reader.start()
        end(body)
        reader.join(LIMIT)
        assert not reader.is_alive() and len(found) <= 1
        body.close()
    table.close("the end")
    assert stored(table) == []


def test_a_burst_of_notifications_waits_for_a_client_that_reads():
    table, session, send = common(stream_events=100, unread_messages=10)
    body, found = table.open_common(session), []
    reader = threading.Thread(target=lambda: found.extend(body))
    reader.start()
    for number in range(1000):
        send(b"%d" % number)
    table.delete(session)
    reader.join(LIMIT)
    count = b"".join(found).count(b"data: ")
    assert count > 900, count  # what was not read at the end of the session is dropped


def test_the_messages_of_a_request_wait_for_the_reader_of_the_common_stream():
    table, session, send = common(unread_messages=4, unread_seconds=LIMIT)
    outlet = table.outlet(session)
    body = table.open_common(session)
    read(body)
    assert outlet.send(b"0") and outlet.offer(b"1")
    results = []
    threads = [threading.Thread(target=lambda: results.append(outlet.send(b"late"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[0].join(0.05)
    assert results == []
    send(b"news")  # which has the other half of the room
    assert read(body).count(b"data: ") == 3
    for thread in threads:
        thread.join(LIMIT)
    assert results == [True, True]
    assert read(body).count(b"data: late") == 2
    outlet.finish(b"the answer")
    assert outlet.offer(b"no more") and not outlet.send(b"no more") and b"the answer" in read(body)
    table.close("the end")
    assert not table.outlet(session).send(b"no more")


def test_a_client_that_does_not_read_the_messages_of_its_requests_is_gone():
    table, session, _ = common(unread_messages=4, unread_seconds=0.02)
    outlet, body = table.outlet(session), table.open_common(session)
    read(body)
    for number in range(3):
        outlet.send(b"%d" % number)
    assert list(body) == []
    body.close()
    table.close("the end")


def test_the_common_streams_share_the_bytes_of_all_logs():
    table, first, _ = common(store_bytes=50_000, sessions=50)
    sessions = [first, *(opened(table, sender=f"192.0.2.{number % 5}") for number in range(30))]
    for session in sessions:
        for _ in range(5):
            session.peer.channel.write(b"x" * 1000)
    kept = [session for session in sessions if session.log.size > 5000]
    assert 1 < len(kept) < 10 and table.logs._shares.bytes <= 50_000
    sessions[0].peer.channel.write(b"later")
    body = table.resume(sessions[0], "0.0", sessions[0].log.last - 1)
    assert b"data: later" in read(body, 2), "the numbers go on"
    body.close()
    table.close("the end")
    assert stored(table) == [] and table.logs._shares.bytes == 0
