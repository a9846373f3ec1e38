"""Grants over a backend: each change is one step, and the end is final."""


import pytest

from mcplite.auth import User
from mcplite.auth.issuer.grant_store import GrantStore
from mcplite.backend.memory import MemoryBackend
from tests.support.fakes import Clock
from tests.support.processes import at_once

ANN = User("ann", "Ann", scopes=frozenset({"a"}))


@pytest.fixture
def clock():
    return Clock(1.8e9)


@pytest.fixture
def store(clock):
    ended = []
    store = GrantStore(MemoryBackend(clock), 100, 1000, ended.append, clock)
    store.ended = ended
    return store


def grant_in(store, refreshable=True):
    grant = store.add(ANN, "client", "Desk", "", ("a",), "https://notes.example/mcp")
    return grant, *store.issue(grant, ("a",), refreshable)


def test_tokens_expire_and_grants_after_their_last_use(store, clock):
    grant, access, refresh = grant_in(store)
    clock.now += 101
    assert store.find_access(access) is None and store.find_refresh(refresh) is not None
    clock.now += 900
    assert store.find_refresh(refresh) is None
    grant, access, refresh = grant_in(store, refreshable=False)
    assert refresh == "" and store.find_access(access)[0].user == ANN
    clock.now += 101
    assert store.find(grant.id) is None


def test_many_changes_at_once_lose_none(store):
    grant, access, refresh = grant_in(store)
    kept = [access]
    for _ in range(30):
        access, refresh = store.rotate(store.find(grant.id), refresh, ("a",), ANN)
        kept.append(access)
    assert store.find_access(kept[-1]) and not store.find_access(kept[0])  # the oldest of many made room
    at_once(store.revoke, kept[-10:])
    assert [token for token in kept if store.find_access(token)] == kept[-20:-10]
    assert store.find_refresh(refresh) is not None


def test_an_old_refresh_token_ends_the_grant_and_a_guess_does_not(store):
    grant, access, refresh = grant_in(store)
    store.rotate(grant, refresh, ("a",), ANN)
    assert store.find_refresh(f"{grant.id}.{'x' * 43}") is None
    assert store.find(grant.id) is not None
    assert store.find_refresh(refresh) is None
    assert store.find(grant.id) is None and [one.id for one in store.ended] == [grant.id]


def test_a_grant_that_has_ended_does_not_come_back(store):
    grant, access, refresh = grant_in(store)
    held = store.find(grant.id)
    store.end(grant.id)
    assert store.rotate(held, refresh, ("a",), ANN) is None and store.find(grant.id) is None
    store.revoke(access)
    assert store.find(grant.id) is None


def test_a_user_has_some_grants_and_the_oldest_make_room(store):
    first = grant_in(store)[0]
    for _ in range(205):
        last = grant_in(store)[0]
    found = [info.id for info in store.grants_of("ann")]
    assert len(found) == 200 and found[0] == last.id and first.id not in found and store.find(first.id) is None
    assert not store.end_grant("bob", last.id) and store.end_grant("ann", last.id)


def test_the_end_of_an_access_token_is_no_use_of_its_grant(store, clock):
    grant, access, refresh = grant_in(store)
    clock.now += 900
    store.revoke(access)
    assert store.find_refresh(refresh) is not None
    clock.now += 101
    assert store.find_refresh(refresh) is None


def test_the_list_of_a_user_lasts_as_long_as_the_grants(store, clock):
    grant, access, refresh = grant_in(store)
    for _ in range(10):
        clock.now += 900  # a refresh is good for 1000
        access, refresh = store.rotate(store.find(grant.id), refresh, ("a",), ANN)
    assert [one.id for one in store.grants_of("ann")] == [grant.id]
    assert store.end_grant("ann", grant.id) and store.find_access(access) is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 200, "a b", "\u00e4"])
def test_names_that_are_none(store, name):
    assert store.transaction(name) is None and store.finish(name) is None and store.find(name) is None
    assert store.find_access(name) is None and store.find_refresh(name) is None and not store.end(name)
    assert store.find_code(name) is None


def test_a_transaction_is_finished_once_and_in_time(store, clock):
    id = store.begin({"a": 1})
    begun = store.transaction(id)
    store.change(id, {**begun, "a": 2})
    assert store.finish(id) == {**begun, "a": 2} and store.finish(id) is None
    id = store.begin({"a": 1})
    for _ in range(3):  # each step keeps the time of the first one
        clock.now += 290
        found = store.transaction(id)
        store.change(id, found)
    clock.now += 31
    store.change(id, found)
    assert store.transaction(id) is None


def test_a_consent_is_a_grant_that_covers_it(store):
    def allows(**changed):
        return store.allows(**{"subject": "ann", "client_id": "c", "redirect_host": "app.example", "resource": "r",
                               "scopes": ["notes"], **changed})

    assert not allows()
    made = store.add(User("ann"), "c", "", "", ("notes", "files"), "r", redirect_host="app.example")
    store.issue(made, ("notes",), True)
    assert allows() and allows(scopes=[]) and allows(scopes=["files", "notes"])
    for changed in ({"subject": "bob"}, {"client_id": "d"}, {"redirect_host": "app.example:8443"}, {"redirect_host": ""},
                    {"resource": "other"}, {"scopes": ["notes", "secret"]}):
        assert not allows(**changed)
    assert store.end_grant("ann", made.id) and not allows()
