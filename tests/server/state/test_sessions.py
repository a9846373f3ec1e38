"""The table of sessions: owners, expiry and limits."""

import threading

import pytest

import mcplite
from mcplite.protocol.http.sse import encode_event
from mcplite.server.limits import Limits
from mcplite.server.state.logs import StreamLogs
from mcplite.server.state.sessions import Sessions
from tests.support.tight import tight

LIMIT = 30


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def make_table(app, clock=None):
    logs = StreamLogs(app.runtime.processes, app.runtime.limits)
    return Sessions(app.runtime, "session", logs, lambda: None, *([] if clock is None else [clock]))


def opened(table, principal=None, sender="", added=True):
    session = table.open(principal, sender)
    assert table.add(session) is added
    return session


def stored(table):
    """Return the names of what is stored of sessions."""
    return [*table.processes.backend._values, *table.processes.backend._logs]


def test_sessions_expire_with_the_sweep():
    # SESS-18
    limits = tight(session_idle_seconds=100, session_seconds=150, session_start_seconds=10)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = make_table(app, clock)
    unused, idle, used = opened(table), opened(table), opened(table)
    clock.now += 9
    assert table.find(idle.id, None) is idle and table.find(used.id, None) is used
    clock.now += 2
    table.sweep()
    assert unused.peer.closed and len(table) == 2 and not idle.peer.closed
    clock.now += 60
    assert table.find(used.id, None) is used
    clock.now += 40
    table.sweep()
    assert idle.peer.closed and len(table) == 1
    clock.now += 40
    table.sweep()
    assert used.peer.closed and len(table) == 0  # no session lasts for ever, however busy
    app.close()


def test_sessions_expire_when_the_table_is_used():
    limits = tight(session_idle_seconds=100, session_seconds=150, session_start_seconds=10)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = make_table(app, clock)
    one, two = opened(table), opened(table)
    clock.now += 11
    assert table.find(one.id, None) is None and len(table) == 0 and two.peer.closed
    three = opened(table)
    for _ in range(16):
        clock.now += 9
        assert table.find(three.id, None) is three
    clock.now += 9
    assert table.find(three.id, None) is None and three.peer.closed
    one = opened(table)
    clock.now += 11
    opened(table)
    assert one.peer.closed and len(table) == 1
    app.close()


def test_an_expired_session_is_not_found_between_two_sweeps():
    # SEC-54
    limits = tight(session_idle_seconds=10.5, session_start_seconds=10.2)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = make_table(app, clock)
    one, two = opened(table), opened(table)
    table.find(two.id, None)
    clock.now += 10.1
    table.sweep()
    clock.now += 0.2
    assert table.find(one.id, None) is None and len(table) == 1
    clock.now += 0.4
    assert table.find(two.id, None) is None and len(table) == 0
    app.close()


def test_at_the_limit_the_session_that_was_idle_for_longest_ends():
    # SESS-18, SEC-52
    limits = Limits(sessions=4)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = make_table(app, clock)
    sessions = [opened(table) for _ in range(4)]
    for session in sessions[1:]:
        clock.now += 1
        assert table.find(session.id, None)
    body = table.open_common(sessions[1])
    newer = [opened(table) for _ in range(2)]
    # The first was never used; nor was the first newcomer.
    assert [session.peer.closed for session in sessions + newer] == [True, False, False, False, True, False]
    assert table.find(newer[1].id, None)
    newest = opened(table)
    assert sessions[2].peer.closed and not sessions[1].peer.closed and len(table) == 4
    body.close()
    opened(table)
    assert newest.peer.closed
    app.close()


def test_another_sender_gets_a_session_although_one_uses_all():
    limits = Limits(sessions=4)
    app = mcplite.Server("demo", limits=limits)
    table = make_table(app)
    sessions = [opened(table) for _ in range(4)]
    bodies = [table.open_common(session) for session in sessions]
    opened(table, added=False)
    assert len(table) == 4
    other = opened(table, sender="192.0.2.7")
    assert sessions[0].peer.closed and table.find(other.id, None) is other
    for body in bodies:
        body.close()
    table.close("the end")
    app.close()


def test_a_session_with_a_get_stream_is_not_idle():
    limits = tight(session_idle_seconds=10)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = make_table(app, clock)
    session = opened(table)
    body = table.open_common(session)
    clock.now += 31
    assert table.find(session.id, None) is session
    body.close()
    clock.now += 11
    assert table.find(session.id, None) is None
    app.close()


def test_a_session_whose_peer_was_closed():
    limits = Limits()
    app = mcplite.Server("demo", limits=limits)
    table = make_table(app)
    ada, bob = mcplite.Principal("ada"), mcplite.Principal("bob")
    session = opened(table, ada)
    assert table.find(session.id, bob.key) is None and table.find("x", ada.key) is None
    session.peer.close()
    assert table.find(session.id, ada.key) is None and len(table) == 0
    table.release(session, "again")
    opened(table)
    table.close("the end")
    assert len(table) == 0
    app.close()


def test_after_the_end_nothing_can_be_sent():
    app = mcplite.Server("demo")
    table = make_table(app)
    session = opened(table)
    session.peer.notify("notifications/x")
    assert len(stored(table)) == 1
    table.delete(session)
    assert stored(table) == []
    with pytest.raises(mcplite.errors.ConnectionClosed):
        session.peer._channel.write(b"{}")
    app.close()


def test_sessions_have_a_budget_in_bytes():
    # SESS-18
    limits = tight(session_bytes=150_000)  # of two that take about 100,000 each; Pythons differ in the size of a string
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = make_table(app, clock)
    one, two = opened(table), opened(table)
    for session in (one, two):
        clock.now += 1
        assert table.find(session.id, None) is session
        for number in range(100):
            session.session.subscribe(f"x:{number}{'x' * 850}")
    clock.now += 1
    table.sweep()
    assert one.peer.closed and not two.peer.closed and two.size > 90_000 and len(table) == 1
    table.close("the end")
    app.close()


# --- the common stream --------------------------------------------------------------------------------------------


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
