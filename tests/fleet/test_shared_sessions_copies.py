"""The copy that one process has of a session: it follows the record, and never goes back to an older one."""

import pytest

import mcplite
from mcplite.errors import RemoteError
from tests.server.http.test_endpoint import body, call
from tests.support.sharing import Client, Shared, running


@pytest.fixture
def pair():
    backend = Shared()
    with running(lambda: backend, 2, subscriptions=2) as processes:
        client = Client(processes)
        yield [client.session_at(process) for process in processes]


def test_changes_of_two_processes_add_up(pair):
    one, two = pair
    one.session.subscribe("demo://a")
    two.session.subscribe("demo://b")
    with pytest.raises(RemoteError, match="may subscribe to 2 resources"):
        one.session.subscribe("demo://c")
    assert one.session.followed == {"demo://a", "demo://b"} and one.record.uris == ("demo://a", "demo://b")


def test_an_older_record_changes_nothing(pair):
    one, _ = pair
    old, older = one.data, one.record
    one.session.set_level("error")
    assert one.restore(old) and one.record.level == "error" and not one.session.wants_log("info")
    one.session.restore(older)
    assert not one.session.wants_log("info")


def test_a_session_that_has_ended_cannot_be_changed(pair):
    one, _ = pair
    one.records.remove(one.id)
    with pytest.raises(mcplite.errors.ConnectionClosed, match="the session has ended"):
        one.session.subscribe("demo://a")
    assert not one.reload()


def test_subscriptions_are_counted_in_each_process_that_knows_the_session():
    counted = []
    backend = Shared()
    with running(lambda: backend, 2) as processes:
        processes[1].mcp.runtime.count_subscriptions(lambda uri, count: counted.append((uri, count)))
        client = Client(processes)
        assert body(client.send(call("resources/subscribe", {"uri": "demo://one"}), process=processes[0]))["result"] == {}
        assert client.session_at(processes[1]).session.followed == {"demo://one"}
        assert processes[1].mcp.runtime.subscribers._counts == {"demo://one": 1}
