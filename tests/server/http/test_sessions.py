"""The table of sessions: owners, expiry and limits."""

import mcplite
from mcplite.server.http.sessions import SessionTable, open_session
from mcplite.server.limits import Limits


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def opened(table, app, principal=None):
    session = open_session(app.runtime, None, principal, table.now)
    assert table.add(session)
    return session


def test_sessions_expire_when_the_table_is_used():
    limits = Limits(session_idle_seconds=10, session_seconds=50, sessions=2)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = SessionTable(limits, clock)
    one, two = opened(table, app), opened(table, app)
    assert not table.room() and not table.add(open_session(app.runtime, None, None, clock.now))
    clock.now += 9
    assert table.find(one.id, None) is one
    clock.now += 9
    assert table.expired() == [two] and table.room() and len(table) == 1
    for _ in range(4):
        clock.now += 9
        found = table.find(one.id, None)
    assert found is None and one.peer.closed and len(table) == 0  # no session lasts for ever, however busy
    app.close()


def test_a_session_with_a_get_stream_is_not_idle():
    limits = Limits(session_idle_seconds=10)
    app, clock = mcplite.Server("demo", limits=limits), Clock()
    table = SessionTable(limits, clock)
    session = opened(table, app)
    body = session.streams.common.attach()
    clock.now += 11
    assert table.find(session.id, None) is session
    body.close()
    clock.now += 11
    assert table.find(session.id, None) is None
    app.close()


def test_a_session_whose_peer_was_closed():
    limits = Limits()
    app = mcplite.Server("demo", limits=limits)
    table = SessionTable(limits)
    ada, bob = mcplite.Principal("ada"), mcplite.Principal("bob")
    session = opened(table, app, ada)
    assert table.find(session.id, bob.key) is None and table.find("x", ada.key) is None
    session.peer.close()
    assert table.find(session.id, ada.key) is None and len(table) == 0
    table.end(session, "again")
    opened(table, app)
    table.close("the end")
    assert len(table) == 0
    app.close()


def test_after_the_end_nothing_can_be_sent():
    import pytest

    app = mcplite.Server("demo")
    session = open_session(app.runtime, None, None, 0.0)
    session.peer.notify("notifications/x")
    session.end("over")
    with pytest.raises(mcplite.ConnectionClosed):
        session.peer._channel.write(b"{}")
    app.close()
