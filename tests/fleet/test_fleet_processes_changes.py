"""Changes that one process makes, and the clients of others hear of."""

import logging
import queue
import secrets
import time

import pytest

import mcplite
from mcplite.backend.from_url import SealedBackend
from mcplite.fleet.fleet_processes import append_change
from tests.support.forks import POSIX_ONLY, Forked
from tests.support.sharing import Shared

KEY = secrets.token_hex(16)
PATIENCE = 60


def shop(backend, name="shop"):
    mcp = mcplite.Server(name, backend=backend, state_keys=[KEY])

    @mcp.resource("shop://stock")
    def stock() -> str:
        return "17"

    @mcp.tool()
    def buy() -> str:
        return "bought"

    return mcp


class Listening:
    """A client of a server in this process, and the events that it hears."""

    def __init__(self, server, revision):
        self.events = queue.Queue()
        self.client = mcplite.connect(server, revision=revision).open()
        self.stop = self.client.subscribe(self.events.put, tools=True, prompts=False, resources=["shop://stock"])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()
        self.client.close()

    def hears(self):
        return self.events.get(timeout=PATIENCE)


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def revision(request):
    return request.param


@pytest.fixture(params=["shared", "sqlite"])
def backend(request, tmp_path):
    return Shared() if request.param == "shared" else f"sqlite:///{tmp_path / 'shop.db'}"


def test_clients_of_another_process_hear_of_changes(backend, revision):
    one, other = shop(backend), shop(backend)
    with Listening(other, revision) as client:
        one.resource_updated("shop://stock")
        assert client.hears() == mcplite.ResourceUpdated(uri="shop://stock")
        one.tools_changed()
        assert client.hears() == mcplite.ToolsChanged()


@pytest.mark.slow
def test_each_change_is_heard_once(backend, revision):
    one, other = shop(backend), shop(backend)
    with Listening(one, revision) as first, Listening(other, revision) as second:
        for _ in range(3):
            one.resource_updated("shop://stock")
            assert (first.hears(), second.hears()) == (mcplite.ResourceUpdated(uri="shop://stock"),) * 2
        other.tools_changed()
        assert (first.hears(), second.hears()) == (mcplite.ToolsChanged(),) * 2
        assert first.events.empty() and second.events.empty()


@pytest.mark.slow
def test_a_server_of_another_name_is_not_told(backend, revision):
    one, other = shop(backend, "bakery"), shop(backend)
    with Listening(other, revision) as client, mcplite.publisher(backend, state_keys=[KEY], server="shop") as publisher:
        one.resource_updated("shop://stock")
        publisher.tools_changed()
        assert client.hears() == mcplite.ToolsChanged()


def test_what_was_registered_before_the_first_client_is_not_told(revision):
    backend = Shared()
    shop(backend)
    assert backend.last("changes/log") == 0


@pytest.mark.slow
def test_a_registration_while_clients_are_served_is_told(backend, revision):
    one, other = shop(backend), shop(backend)
    with Listening(other, revision) as client, mcplite.connect(one):
        one.add_tool(lambda: 1, name="count")
        assert client.hears() == mcplite.ToolsChanged()


def test_changes_that_were_missed_are_all_told(revision):
    backend = Shared()
    server = shop(backend)
    with Listening(server, revision) as client:
        # As after an outage in which more was told than is kept.
        with backend._lock:
            backend._logs.clear()
        sealed = SealedBackend(backend, [KEY.encode()])
        for text in (b"1", b"2"):
            sealed.append("changes/log", text, 60, 1)
        heard = [client.hears(), client.hears()]
        assert mcplite.ToolsChanged() in heard and mcplite.ResourceUpdated(uri="shop://stock") in heard


def test_news_without_the_key_are_not_heard(revision, caplog):
    backend = Shared()
    server = shop(backend)
    with Listening(server, revision) as client:
        append_change(backend, None, "notifications/tools/list_changed", None)
        server.resource_updated("shop://stock")
        assert client.hears() == mcplite.ResourceUpdated(uri="shop://stock")
        with mcplite.publisher(backend, state_keys=[KEY]) as publisher:
            publisher.resource_updated("shop://stock")
            assert client.hears() == mcplite.ResourceUpdated(uri="shop://stock")
    told = [record for record in caplog.records if "not sealed with one of the state_keys" in record.getMessage()]
    assert 1 <= len(told) <= 3, "it is passed over, not read again and again"


def test_a_store_that_fails_is_logged_and_own_clients_hear_all_the_same(revision, caplog):
    backend = Shared()
    server = shop(backend)
    with Listening(server, revision) as client, caplog.at_level(logging.WARNING):
        backend.away = {"append", "wait"}
        server.resource_updated("shop://stock")
        assert client.hears() == mcplite.ResourceUpdated(uri="shop://stock")
        assert "the clients of other processes are told of a change when the store is back: the backend is away" in caplog.text
        backend.away = ()
        with mcplite.publisher(backend, state_keys=[KEY]) as publisher:
            publisher.tools_changed()
            assert client.hears() == mcplite.ToolsChanged()


@pytest.mark.slow
def test_what_was_told_while_the_store_was_away_is_heard_once_when_it_is_back(revision):
    backend = Shared()
    one, other = shop(backend), shop(backend)
    with Listening(one, "2026-07-28") as near, Listening(other, revision) as far:
        backend.away = {"append", "wait"}
        for _ in range(3):
            one.resource_updated("shop://stock")
            one.tools_changed()
        backend.away = ()
        for client in (near, far):
            heard = [client.hears(), client.hears()]
            assert mcplite.ToolsChanged() in heard and mcplite.ResourceUpdated(uri="shop://stock") in heard
        one.prompts_changed()
        one.resource_updated("shop://stock")
        assert far.hears() == mcplite.ResourceUpdated(uri="shop://stock")
        assert far.events.empty()


@pytest.mark.slow
def test_of_very_many_changes_the_store_is_told_that_anything_may_have_changed(revision):
    backend = Shared()
    one, other = shop(backend), shop(backend)
    with Listening(other, revision) as client:
        backend.away = {"append", "wait"}
        for number in range(1500):
            one.resource_updated(f"shop://{number}")
        backend.away = ()
        heard = [client.hears(), client.hears()]
        assert mcplite.ToolsChanged() in heard and mcplite.ResourceUpdated(uri="shop://stock") in heard
        assert backend.last("changes/log") < 1500
    one.runtime.processes.stop()


def test_a_store_that_stays_away_is_given_up_when_the_server_ends(caplog):
    backend = Shared()
    server = shop(backend)
    with caplog.at_level(logging.WARNING), mcplite.connect(server):
        backend.away = {"append", "wait"}
        server.resource_updated("shop://stock")
    end = time.monotonic() + PATIENCE
    while "were not told of a change" not in caplog.text:
        assert time.monotonic() < end
        time.sleep(0.01)


@POSIX_ONLY
def test_a_forked_process_reads_for_itself(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    server = shop(url)

    def child():
        with Listening(server, "2025-11-25") as client, mcplite.publisher(url, state_keys=[KEY]) as publisher:
            publisher.tools_changed()
            return type(client.hears()).__name__

    with Listening(server, "2025-11-25") as client:
        assert Forked(child).result() == "ToolsChanged"
        assert client.hears() == mcplite.ToolsChanged()
