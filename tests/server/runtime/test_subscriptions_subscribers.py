"""The hook that is told of subscriptions: each change in its order, the last one as well, whatever the hook does."""

import queue
import threading

import pytest

import mcplite
from mcplite.revisions import REVISIONS
from mcplite.rpc.threads import Loop
from mcplite.server.runtime.subscriptions import Subscribers
from tests.support.faults import every_fault, strike

LIMIT = 30
URI = "memo://a"


@pytest.fixture
def told():
    return queue.Queue()


@pytest.fixture
def mcp(told):
    mcp = mcplite.Server("watching", options=mcplite.ServerOptions(on_subscribe=lambda uri, number: told.put((uri, number))))
    for name in "ab":
        mcp.add_resource(f"memo://{name}", lambda: "x", name=name)
    return mcp


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_the_hook_gets_the_number_of_subscriptions(mcp, told, revision):
    with mcplite.connect(mcp, revision=revision) as one, mcplite.connect(mcp, revision=revision) as two:
        stops = []
        for number, client in enumerate((one, two), 1):
            stops.append(client.subscribe(lambda event: None, resources=[URI]))
            assert told.get(timeout=LIMIT) == (URI, number)
        for number, stop in zip((1, 0), stops):
            stop()
            assert told.get(timeout=LIMIT) == (URI, number)
    assert told.empty()


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_client_that_leaves_subscribes_to_nothing(mcp, told, revision):
    with mcplite.connect(mcp, revision=revision) as client:
        client.subscribe(lambda event: None, resources=[URI])
        assert told.get(timeout=LIMIT) == (URI, 1)
    assert told.get(timeout=LIMIT) == (URI, 0)


def test_the_same_subscription_counts_once(mcp, told):
    with mcplite.connect(mcp, options=mcplite.ClientOptions(era="legacy")) as client:
        for _ in range(3):
            client.subscribe_resource(URI)
        client.subscribe_resource("memo://b")
        assert [told.get(timeout=LIMIT), told.get(timeout=LIMIT)] == [(URI, 1), ("memo://b", 1)]
        client.unsubscribe_resource("memo://b")
        client.unsubscribe_resource("memo://b")
        assert told.get(timeout=LIMIT) == ("memo://b", 0)
    assert told.get(timeout=LIMIT) == (URI, 0)
    assert told.empty()


def test_changes_come_in_their_order_while_the_hook_blocks(told):
    begun, go_on = threading.Event(), threading.Event()

    def hook(uri, number):
        begun.set()
        go_on.wait(LIMIT)
        told.put((uri, number))

    subscribers = Subscribers(hook)
    subscribers.add(["memo://0"])
    assert begun.wait(LIMIT)
    for number in range(1, 20):
        subscribers.add([f"memo://{number}"])
    go_on.set()
    assert [told.get(timeout=LIMIT)[0] for _ in range(20)] == [f"memo://{number}" for number in range(20)]


def test_without_threads_the_next_change_tells_of_this_one_too(monkeypatch, told, caplog):
    from mcplite.errors import TransportError

    def no_thread(loop):
        raise TransportError("the thread cannot be started")

    counted = Subscribers(lambda uri, number: told.put((uri, number)))
    with monkeypatch.context() as context:
        context.setattr(Loop, "start", no_thread)
        counted.add([URI])
    assert "called later" in caplog.text and told.empty()
    counted.remove([URI])
    assert [told.get(timeout=LIMIT) for _ in range(2)] == [(URI, 1), (URI, 0)]


@every_fault
def test_a_hook_that_fails_in_any_way_is_called_for_the_next_change(told, caplog, fault):
    def hook(uri, number):
        told.put((uri, number))
        if number == 1:
            raise fault()

    subscribers, later = Subscribers(hook), []
    subscribers.hooks.append(lambda *change: later.append(change))
    subscribers.awaited = True
    for number in (1, 2):
        subscribers.add([URI])
        assert told.get(timeout=LIMIT) == (URI, number)
        subscribers.wait_told()
    assert later == [(URI, 1), (URI, 2)]
    assert "on_subscribe failed for 'memo://a'" in caplog.text


@every_fault
def test_the_thread_that_calls_hooks_goes_on_after_a_fault(monkeypatch, told, fault):
    subscribers = Subscribers(lambda uri, number: told.put((uri, number)))
    subscribers.awaited = True
    struck = strike(monkeypatch, subscribers._changes._emptied, "notify", fault)
    for number in (1, 2):
        subscribers.add([URI])
        assert told.get(timeout=LIMIT) == (URI, number)
        subscribers.wait_told()
    assert struck.is_set()
