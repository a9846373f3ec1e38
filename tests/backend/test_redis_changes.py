"""The subscriptions to channels of Redis, on a client that hands out what a test has put there."""

import queue
import threading
import time

import pytest

from mcplite.backend.redis import RedisChanges
from mcplite.errors import BackendError
from tests.support.faults import every_fault, strike

PATIENCE = 60


class Subscriptions:
    """What redis-py's object of that kind does, with a server that a test can hold up."""

    def __init__(self):
        self.channels, self.pending_unsubscribe_channels = {}, set()
        self._sent = queue.Queue()
        #: The server answers while it is set.
        self.answers = threading.Event()
        self.answers.set()

    def subscribe(self, *names):
        for name in names:
            self.channels[name.encode()] = None
            self.pending_unsubscribe_channels.discard(name.encode())
            self.tell("subscribe", name.encode())

    def unsubscribe(self, *names):
        for name in names:
            self.pending_unsubscribe_channels.add(name.encode())
            self.tell("unsubscribe", name.encode())

    def tell(self, type, channel, data=None):
        self._sent.put({"type": type, "channel": channel, "data": data})

    def break_down(self):
        self._sent.put(OSError("broken"))

    def get_message(self, timeout):
        if not self.answers.wait(timeout):
            return None
        try:
            found = self._sent.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            raise found
        if found["type"] == "unsubscribe" and found["channel"] in self.pending_unsubscribe_channels:
            self.pending_unsubscribe_channels.remove(found["channel"])
            self.channels.pop(found["channel"], None)
        return found

    def close(self):
        pass


class Client:
    """A client whose messages come from a test, in the place of RedisClient and of what that one opens."""

    name, errors, cluster = "redis", (OSError,), False

    def __init__(self):
        self.subscriptions = Subscriptions()

    def get(self):
        return self

    def explain(self, error):
        return str(error)

    def pubsub(self):
        return self.subscriptions

    def publish(self, channel, data):
        self.subscriptions.tell("message", channel.encode(), data)


@pytest.fixture
def create():
    """A function that makes the changes of a client; they are closed after the test."""
    made = []

    def create(client, refresh=lambda: None):
        reports = []
        changes = RedisChanges(client, lambda channel, number: reports.append((channel, number)), refresh)
        changes.reports = reports
        made.append(changes)
        return changes

    yield create
    for changes in made:
        changes.close()


def wait_until(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_channel_that_is_wanted_again_before_it_was_left_is_there_at_once(create):
    client = Client()
    changes = create(client)
    changes.add(["a"], PATIENCE)
    changes.remove(["a"])
    changes.add(["a"], PATIENCE)
    client.subscriptions.tell("message", b"a", b"3")
    wait_until(lambda: changes.reports == [("a", b"3")])


def test_a_channel_that_is_being_left_is_confirmed_again(create):
    client = Client()
    changes = create(client)
    changes.add(["a"], PATIENCE)
    server = client.subscriptions
    server.answers.clear()
    changes.remove(["a"])
    client.publish(changes._own, b"")
    server.answers.set()
    wait_until(lambda: b"a" not in server.channels)
    changes.add(["a"], PATIENCE)
    assert b"a" in server.channels


def test_another_node_confirms_the_channels_itself(create):
    class Nodes(Client):
        cluster = True

        def __init__(self):
            super().__init__()
            self.opened = []

        def get_random_node(self):
            return "a node"

        def pubsub(self, node):
            self.opened.append(Subscriptions())
            if len(self.opened) == 2:
                self.opened[-1].answers.clear()
            self.subscriptions = self.opened[-1]
            return self.subscriptions

        def publish(self, channel, data, target_nodes=None):
            super().publish(channel, data)

    client = Nodes()
    changes = create(client)
    changes.add(["a"], PATIENCE)
    changes.remove(["a"])
    client.subscriptions.break_down()
    wait_until(lambda: len(client.opened) == 2)
    with pytest.raises(BackendError, match="has not confirmed"):
        changes.add(["a"], 0.05)
    client.subscriptions.answers.set()
    changes.add(["a"], PATIENCE)
    assert b"a" in client.subscriptions.channels


def test_what_comes_with_the_end_of_an_outage_is_not_dropped(create):
    client, failing = Client(), [BackendError("away"), BackendError("away")]

    def refresh():
        if failing:
            # A thread begins to wait for a channel just now: its confirmation comes while the numbers cannot be read.
            raise failing.pop()

    changes = create(client, refresh)
    changes.add(["a"], PATIENCE)
    client.subscriptions.break_down()
    client.subscriptions.tell("message", b"a", b"5")
    changes.add(["b"], PATIENCE)
    wait_until(lambda: ("a", b"5") in changes.reports and not failing)


@every_fault
def test_the_thread_goes_on_after_a_fault_and_reads_what_it_may_have_missed(create, monkeypatch, fault):
    client, refreshed = Client(), threading.Event()
    changes = create(client, refreshed.set)
    changes.add(["a"], PATIENCE)
    client.explain = lambda error: "it is away"
    struck = strike(monkeypatch, client, "explain", fault)
    client.subscriptions.break_down()
    assert struck.wait(PATIENCE)
    client.subscriptions.tell("message", b"a", b"3")
    wait_until(lambda: changes.reports == [("a", b"3")])
    assert refreshed.wait(PATIENCE)
