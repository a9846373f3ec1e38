"""``ctx.store``: owners, times, changes that come at once, types, bounds, and processes that share a backend."""

import dataclasses
import os
import subprocess
import sys
import time
from typing import Dict, List

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError, RemoteError
from mcplite.server import Context, Server
from mcplite.server.eviction import Shares
from mcplite.server.handling.stored_values import StoredValues, ValueBudget
from tests.support.processes import at_once

KEY = "k" * 32


@dataclasses.dataclass
class Cart:
    titles: List[str]
    shelf: Dict[str, int] = dataclasses.field(default_factory=dict)


def with_tools(**options):
    server = Server("shop", **options)

    @server.tool()
    def keep(scope: str, name: str, value: str, ctx: Context) -> str:
        """Store a value, and return the one before."""
        values = getattr(ctx.store, scope)
        before = values.get(name, "nothing")
        values.put(name, value)
        return before

    @server.tool()
    def add(title: str, ctx: Context) -> int:
        def change(cart: Cart) -> Cart:
            return Cart([*cart.titles, title], {**cart.shelf, title: len(cart.titles)})

        return len(ctx.store.server.update("cart", change, Cart([]), type=Cart).titles)

    return server


@pytest.fixture
def values():
    return StoredValues(Server("shop").runtime, ("shop", "server", ""), "")


def test_a_value_is_read_replaced_taken_and_removed(values):
    assert values.get("a") is None and values.get("a", 5) == 5
    values.put("a", {"x": [1, "ä\ud800"]})
    assert values.get("a") == {"x": [1, "ä\ud800"]}
    values.put("a", (1, 2))
    assert values.take("a") == [1, 2] and values.take("a", "none") == "none"
    values.put("a", False)
    assert values.get("a", True) is False
    assert values.delete("a") is True and values.delete("a") is False


def test_a_swap_counts_only_if_the_value_is_still_the_old_one(values):
    assert values.swap("a", None, {"b": 1, "c": 2}) and not values.swap("a", None, 1)
    assert not values.swap("a", {"b": 1}, 2) and values.swap("a", {"c": 2, "b": 1}, 3)
    assert values.get("a") == 3
    assert values.swap("a", 3, None) and values.get("a") is None and values.swap("a", None, None)


def test_no_update_is_lost_and_what_is_counted_is_what_is_kept(values, monkeypatch):
    failed = []

    def count():
        try:
            for number in range(50):
                values.update("n", lambda n: n + 1, 0)
                values.put("both", "x" * number)
                values.delete("both")
        except BaseException as error:
            failed.append(error)

    remove = Shares.remove
    monkeypatch.setattr(Shares, "remove", lambda shares, item: (remove(shares, item), time.sleep(0)))  # lets others run
    at_once(count, 4)
    assert not failed and values.get("n") == 200
    alone = StoredValues(Server("shop").runtime, ("shop", "server", ""), "")
    alone.put("n", 200)
    assert values._runtime.value_budget.bytes == alone._runtime.value_budget.bytes
    assert values.update("n", lambda n: None) is None and values.get("n") is None


def test_a_dataclass_comes_back_as_one(values):
    values.put("cart", Cart(["Emma"], {"Emma": 1}))
    assert values.get("cart", type=Cart) == Cart(["Emma"], {"Emma": 1})
    assert values.get("cart") == {"titles": ["Emma"], "shelf": {"Emma": 1}}
    values.put("cart", {"titles": ["Emma"]})
    assert values.take("cart", type=Cart) == Cart(["Emma"])
    values.put("cart", {"titles": "Emma"})
    with pytest.raises(ValueError, match="the stored value 'cart' is no Cart: titles: "):
        values.get("cart", type=Cart)


@pytest.mark.parametrize("name, value, ttl, error", [
    ("a", None, 1, "call delete\\('a'\\)"), ("a", 1, 0, "ttl= must be a positive number"), ("a", 1, float("inf"), "ttl="),
    ("a", 1, 1e18, "at most a century"),
    ("a", "x" * (1 << 20), 1, "store it elsewhere"), ("a", object(), 1, "object"), (7, 1, 1, "a text, not 7"),
    ("x" * 2000, 1, 1, "may have 1024 characters"), ("a", float("nan"), 1, "the value 'a' cannot be stored: nan"),
])
def test_what_cannot_be_stored_is_refused_by_name(values, name, value, ttl, error):
    with pytest.raises((TypeError, ValueError), match=error):
        values.put(name, value, ttl=ttl)


def test_a_value_is_gone_when_its_time_is_over():
    now = [0.0]
    server = Server("shop")
    server.runtime.processes._backend = MemoryBackend(clock=lambda: now[0])
    values = StoredValues(server.runtime, ("shop", "server", ""), "")
    values.put("a", 1, ttl=10)
    values.update("b", lambda n: n, 1, ttl=30)
    now[0] = 11
    assert (values.get("a"), values.get("b")) == (None, 1)


# --- owners ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_values_of_a_principal_are_closed_to_others(revision):
    principals = {token: mcplite.Principal(token, audience=mcplite.auth.ISSUED_HERE) for token in ("anna", "ben")}
    server = with_tools(auth=mcplite.BearerAuth(principals.get))
    with mcplite.serve(server) as served:
        def client(token):
            return mcplite.connect(served.url, auth=mcplite.Bearer(token), revision=revision)

        def keep(client, scope, name, value):
            return client.call_tool("keep", {"scope": scope, "name": name, "value": value}).text

        with client("anna") as anna, client("anna") as again, client("ben") as ben:
            assert keep(anna, "principal", "x", "hers") == "nothing"
            assert keep(ben, "principal", "x", "his") == "nothing"
            assert keep(again, "principal", "x", "more") == "hers"
            assert keep(ben, "principal", "x", "y") == "his"
            assert keep(anna, "server", "x", "all") == "nothing" and keep(ben, "server", "x", "y") == "all"
            if revision == "2026-07-28":
                assert "belongs to no session" in keep(anna, "session", "x", "y")
            else:
                assert keep(anna, "session", "x", "first") == "nothing" and keep(again, "session", "x", "y") == "nothing"
                assert keep(anna, "session", "x", "second") == "first"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_without_authentication_a_pipe_has_one_user_and_http_none(revision):
    server = with_tools()
    arguments = {"scope": "principal", "name": "x", "value": "y"}
    with mcplite.connect(server, revision=revision) as client:
        assert client.call_tool("keep", arguments).text == "nothing"
    with mcplite.connect(server, revision=revision) as client:
        assert client.call_tool("keep", arguments).text == "y"
    with mcplite.serve(server) as served, mcplite.connect(served.url, revision=revision) as client:
        result = client.call_tool("keep", arguments)
        assert result.is_error and "have no principal: give the server auth=" in result.text


def test_the_session_of_a_pipe_keeps_values_until_its_end():
    server = with_tools()
    for _ in range(2):
        with mcplite.connect(server, revision="2025-11-25") as client:
            arguments = {"scope": "session", "name": "x", "value": "y"}
            assert [client.call_tool("keep", arguments).text for _ in range(2)] == ["nothing", "y"]


def test_a_mounted_server_has_names_of_its_own():
    server, parent = with_tools(), Server("parent")
    parent.mount(server, "shop")

    @parent.tool()
    def peek(ctx: Context) -> str:
        return ctx.store.server.get("x", "nothing")

    with mcplite.connect(parent) as client:
        client.call_tool("shop_keep", {"scope": "server", "name": "x", "value": "y"})
        assert client.call_tool("shop_keep", {"scope": "server", "name": "x", "value": "z"}).text == "y"
        assert client.call_tool("peek").text == "nothing"


# --- bounds ------------------------------------------------------------------------------------------------


def test_the_client_with_the_most_loses_its_oldest_value():
    dropped, now = [], [0.0]
    budget = ValueBudget(10 * 1024, dropped.append, clock=lambda: now[0])
    budget.count("mine", "a", 512, 60)
    for number in range(20):
        budget.count(f"other{number}", "b", 512, 5)
    assert budget.bytes <= 10 * 1024 and dropped == [f"other{number}" for number in range(11)]
    budget.count("other19", "b", 1024, 5)
    assert dropped[-1] == "other11" and "mine" not in dropped
    now[0] = 6
    budget.count("mine", "a", 512, 60)
    assert budget.bytes == 1024
    with pytest.raises(RemoteError, match="no room"):
        budget.count("large", "a", 20_000, 5)


def test_values_in_memory_are_bounded():
    server = Server("shop", limits=mcplite.Limits(memory_bytes=16 << 20))  # a megabyte for values
    values = StoredValues(server.runtime, ("shop", "server", ""), "")
    for number in range(40):
        values.put(str(number), "x" * 100_000)
    kept = [number for number in range(40) if values.get(str(number)) is not None]
    assert kept == list(range(30, 40)) and server.runtime.value_budget.bytes <= 1 << 20


def test_a_value_without_room_is_not_stored():
    server = Server("shop", limits=mcplite.Limits(memory_bytes=1 << 20))  # 64 KiB for values
    for number in range(20):  # each client has less than the one that comes
        StoredValues(server.runtime, ("shop", "principal", str(number)), str(number)).put("x", "x" * 2500)
    last = StoredValues(server.runtime, ("shop", "principal", "last"), "last")
    last.put("x", "small")
    for store in (lambda: last.put("y", "x" * 30_000), lambda: last.update("x", lambda old: "x" * 30_000)):
        with pytest.raises(RemoteError, match="no room"):
            store()
    assert last.get("x") is None and last.get("y") is None
    assert len(server.runtime.processes.backend._values) == 20


def test_values_apart_displace_each_other_alone():
    server = Server("shop", limits=mcplite.Limits(memory_bytes=16 << 20))  # a megabyte for values

    @server.tool()
    def flood(ctx: Context) -> List[int]:
        ctx.store.server.put("kept", 1)
        ctx.store.apart("other").put("0", 2)
        for number in range(40):
            ctx.store.apart("cache").put(str(number), "x" * 100_000)
        kept = [number for number in range(40) if ctx.store.apart("cache").get(str(number)) is not None]
        return [len(kept), kept[-1], ctx.store.server.get("kept"), ctx.store.apart("other").get("0")]

    with mcplite.connect(server) as client:
        assert client.call_tool("flood").data == [10, 39, 1, 2]


@pytest.mark.parametrize("store", [lambda values: values.put("a", "x" * 70_000),
                                   lambda values: values.update("a", lambda old: "x" * 70_000)])
def test_a_value_of_more_than_all_may_take_is_refused_and_not_stored(store):
    server = Server("shop", limits=mcplite.Limits(memory_bytes=1 << 20))
    values = StoredValues(server.runtime, ("shop", "server", ""), "")
    with pytest.raises(ValueError, match="has 70002 bytes as JSON, and may have 65024"):
        store(values)
    assert values.get("a") is None


def test_a_store_that_is_away_is_told_without_its_name(tmp_path):
    class Broken(MemoryBackend):
        shared = True

        def get(self, key):
            raise BackendError("secret-host refused")

    with mcplite.connect(with_tools(backend=Broken(), state_keys=[KEY])) as client:
        with pytest.raises(RemoteError, match="Server busy: the store") as caught:
            client.call_tool("keep", {"scope": "server", "name": "x", "value": "y"})
        assert "secret-host" not in str(caught.value)


# --- several processes ---------------------------------------------------------------------------------------


COUNTING = """
import sys
sys.path[:0] = {path!r}
from tests.server.handling.test_stored_values import KEY, with_tools
import mcplite

with mcplite.connect(with_tools(backend=sys.argv[1], state_keys=[KEY])) as client:
    for number in range(40):
        client.call_tool("add", {{"title": f"{{sys.argv[2]}}-{{number}}"}}).raise_for_error()
"""


@pytest.mark.slow
def test_two_processes_change_one_value_and_a_third_finds_it(tmp_path):
    url = f"sqlite:///{tmp_path}/values.db"
    script = COUNTING.format(path=[os.getcwd(), *sys.path])
    children = [subprocess.Popen([sys.executable, "-c", script, url, name]) for name in ("a", "b")]
    assert [child.wait(120) for child in children] == [0, 0]
    with mcplite.connect(with_tools(backend=url, state_keys=[KEY])) as client:
        assert client.call_tool("add", {"title": "last"}).data == 81
    other = Server("another shop", backend=url, state_keys=[KEY])
    assert StoredValues(other.runtime, ("another shop", "server", ""), "").get("cart") is None
    other.runtime.fleet.backend.close()
