"""The table of sessions: owners, expiry and limits."""

import threading

import pytest

import mcplite
from mcplite.protocol import jsonrpc
from mcplite.revisions import NEWEST_LEGACY
from mcplite.server.limits import Limits
from mcplite.server.state.sessions import Sessions
from mcplite.server.state.streams import EventStream
from tests.support.children import wait_until
from tests.support.fakes import Clock
from tests.support.tight import tight

LIMIT = 30


def make_table(app, clock=None):
    return Sessions(app.runtime, "session", Sessions.new_logs(app.runtime), lambda: None, *([] if clock is None else [clock]))


def opened(table, principal=None, sender="", added=True):
    session = table.open(principal, sender)
    assert table.add(session) is added
    return session


def stored(table):
    """Return the names of what is stored of sessions."""
    return [*table.logs.backend._values, *table.logs.backend._logs]


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


@pytest.mark.parametrize("sweeps", [True, False])
def test_a_session_is_idle_from_the_end_of_its_get_stream_on(sweeps):
    app, clock = mcplite.Server("demo", limits=tight(session_idle_seconds=10)), Clock()
    table = make_table(app, clock)
    session = opened(table)
    assert table.find(session.id, None) is session
    body = table.open_common(session)
    for _ in range(31):
        clock.now += 1
        if sweeps:
            table.sweep()
    body.close()
    clock.now += 8
    table.sweep()
    assert table.find(session.id, None) is session
    clock.now += 11
    table.sweep()
    assert len(table) == 0
    app.close()


@pytest.mark.parametrize("sweeps", [True, False])
def test_a_session_is_idle_from_the_end_of_its_call_on(sweeps):
    app, clock = mcplite.Server("demo", limits=tight(session_idle_seconds=10)), Clock()
    table = make_table(app, clock)
    began, go = threading.Event(), threading.Event()

    @app.tool()
    def work() -> str:
        began.set()
        assert go.wait(LIMIT)
        return "done"

    session = opened(table)
    assert table.find(session.id, None) is session
    session.session.skip_handshake(NEWEST_LEGACY)
    message = jsonrpc.Request(1, "tools/call", {"name": "work"})
    stream = EventStream(session.streams, message)
    session.peer.receive(jsonrpc.dump(message), message, stream, inline=False, facts=None)
    assert began.wait(LIMIT)
    stream.commit()
    for _ in range(31):
        clock.now += 1
        if sweeps:
            table.sweep()
    go.set()
    assert wait_until(lambda: session.peer.in_flight == 0)
    clock.now += 8
    table.sweep()
    assert table.find(session.id, None) is session and b"done" in b"".join(stream)
    app.close()


def test_no_session_begins_after_the_end():
    app = mcplite.Server("demo")
    table = make_table(app)
    table.close("the end")
    late = opened(table, added=False)
    late.end("the end")
    assert len(table) == 0 and app.runtime._users == 0


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
        session.peer.channel.write(b"{}")
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
