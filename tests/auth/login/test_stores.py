"""What every store does: each test runs with all three. The tests of one store are in its own file."""

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mcplite.auth.login import stores as base_module
from mcplite.auth.login.file_store import FileStore
from mcplite.auth.login.keyring_store import KeyringStore
from mcplite.auth.login.stores import MemoryStore, parse_record
from tests.support.keeping import LIMIT, ROOT, GaveUp, give_up, never

#: A process that forks while another thread holds one lock and its own holds another; the child says which it could get.
FORK = """
import os, threading
from mcplite.auth.login.stores import ThreadLocks

class Busy(Exception):
    pass

def busy():
    raise Busy

def has(name):
    try:
        with locks.hold(name, busy):
            return True
    except (Busy, RuntimeError):
        return False

def hold():
    with locks.hold("theirs", busy):
        held.set()
        assert go.wait(30)

locks, held, go = ThreadLocks(), threading.Event(), threading.Event()
thread = threading.Thread(target=hold)
thread.start()
assert held.wait(30)
with locks.hold("mine", busy):
    pid = os.fork()
    if pid == 0:
        print("child", has("theirs"), has("other"), flush=True)
if pid == 0:
    print("child", has("mine"), len(locks._named), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("parent", has("theirs"))
go.set()
thread.join()
print("parent", has("theirs"), len(locks._named))
"""
RECORD = {"access_token": "t0p-s3cret", "expires_at": 1.5, "scopes": ["read", "write"], "client": {"none": None}}


class Keyring:
    """The methods of a keyring, over a dict."""

    def __init__(self):
        self.entries = {}

    def get_password(self, service, name):
        return self.entries.get((service, name))

    def set_password(self, service, name, text):
        self.entries[service, name] = text

    def delete_password(self, service, name):
        del self.entries[service, name]


def make(kind, folder):
    if kind == "memory":
        return MemoryStore()
    if kind == "file":
        return FileStore(folder / "store" / "credentials.json")
    return KeyringStore(backend=Keyring(), folder=folder / "locks", part=100)


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request, tmp_path):
    return make(request.param, tmp_path)


class Holder:
    """A thread that holds a record until it is told to let go."""

    def __init__(self, store, key):
        self._holds, self._go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(store, key))

    def _run(self, store, key):
        with store.lock(key, never):
            self._holds.set()
            assert self._go.wait(LIMIT)

    def __enter__(self):
        self._thread.start()
        assert self._holds.wait(LIMIT)
        return self

    def let_go(self):
        self._go.set()

    def __exit__(self, *_):
        self._go.set()
        self._thread.join(LIMIT)


# --- records --------------------------------------------------------------------------------------


def test_callers_share_no_part_of_a_record_with_the_store(store):
    given_record = {"scopes": ["read"]}
    store.save("a", given_record)
    given_record["scopes"].append("write")
    loaded = store.load("a")
    assert loaded == {"scopes": ["read"]}
    loaded["scopes"].append("admin")
    assert store.load("a") == {"scopes": ["read"]}


@pytest.mark.parametrize("record, error", [
    (["a"], TypeError), ("text", TypeError), (None, TypeError), ({"a": object}, TypeError),
    ({"a": b"bytes"}, TypeError), ({"a": float("nan")}, ValueError), ({"a": float("inf")}, ValueError),
], ids=repr)
def test_records_that_are_not_json_objects_are_refused_and_change_nothing(store, record, error):
    store.save("a", RECORD)
    with pytest.raises(error):
        store.save("a", record)
    with pytest.raises(error):
        store.save("b", record)
    assert store.load("a") == RECORD and store.keys() == ["a"]


@pytest.mark.parametrize("key", [
    "", "\0", "ü/ñ 漢字 😀", "line\nline", "../../etc/passwd", "\ud800", "k" * 5000, "index",
], ids=lambda key: ascii(key[:20]))
def test_keys_are_any_text(store, key):
    store.save(key, RECORD)
    store.save("other", {})
    assert store.load(key) == RECORD
    assert sorted(store.keys()) == sorted([key, "other"])
    with store.lock(key, never):
        store.delete(key)
    assert store.load(key) is None


def test_a_repr_shows_no_contents(store):
    store.save("the-key", RECORD)
    assert "t0p-s3cret" not in repr(store) and "the-key" not in repr(store)
    assert type(store).__name__ in repr(store)


TEXTS = st.text(max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=6)
RECORDS = st.dictionaries(TEXTS, VALUES, max_size=5)


# One store for all examples, which is no fault here: each compares all that the store should have.
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(["a", "b", "ü\0"]), st.none() | RECORDS), max_size=6))
def test_a_store_is_a_dict_of_records(store, steps):
    model = {}
    for key in store.keys():
        store.delete(key)
    for key, record in steps:
        if record is None:
            store.delete(key)
            model.pop(key, None)
        else:
            store.save(key, record)
            model[key] = record
        assert store.load(key) == model.get(key)
    assert {key: store.load(key) for key in store.keys()} == model


# --- holding --------------------------------------------------------------------------------------


def test_a_waiting_thread_may_give_up_at_once(store):
    with Holder(store, "a"):
        with pytest.raises(GaveUp):
            with store.lock("a", give_up):
                pytest.fail("held twice")
        with store.lock("b", never):  # another record is free
            pass
    with store.lock("a", never):
        pass


def test_wait_is_called_again_and_again_on_the_waiting_thread(monkeypatch, store):
    monkeypatch.setattr(base_module, "_SLICE_SECONDS", 0.001)
    asked = []

    def wait():
        asked.append(threading.current_thread())
        if len(asked) == 5:
            raise GaveUp

    with Holder(store, "a"), pytest.raises(GaveUp):
        with store.lock("a", wait):
            pytest.fail("held twice")
    assert set(asked) == {threading.current_thread()}


def test_an_error_in_the_block_releases_the_lock(store):
    with pytest.raises(GaveUp):
        with store.lock("a", never):
            raise GaveUp
    with store.lock("a", never):
        pass


def test_a_thread_does_not_wait_for_itself(store):
    with store.lock("a", never):
        with pytest.raises(RuntimeError, match="already"):
            with store.lock("a", never):
                pytest.fail("held twice")
        with pytest.raises(GaveUp):  # and the attempt has not let go of it
            elsewhere(store, "a")
    with store.lock("a", never):
        pass


def elsewhere(store, key):
    """Hold a record in another thread, which gives up when it has to wait; raises what happened there."""
    failures = []

    def run():
        try:
            with store.lock(key, give_up):
                pass
        except GaveUp as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LIMIT)
    if failures:
        raise failures[0]


def test_threads_that_lock_in_turn_lose_no_change(store):
    def count():
        for _ in range(5):
            with store.lock("a", lambda: None):
                store.save("a", {"n": (store.load("a") or {"n": 0})["n"] + 1})
            store.save(threading.current_thread().name, {})  # changes of other records, at the same time

    threads = [threading.Thread(target=count, name=f"thread {number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert store.load("a") == {"n": 20}
    assert sorted(store.keys()) == ["a", *(thread.name for thread in threads)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_locks_of_its_own():
    # The threads that hold them are not copied, and would never release them.
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    said = ["child True True", "child True 0", "parent False", "parent True 0"]
    assert done.stdout.splitlines() == said, done.stderr


# --- the interface and the texts ------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    '{"token": "s3cret', '["s3cret"]', "s3cret", "", "[" * 100_000, b'{"token": "s3cret\xff"}',
], ids=lambda text: repr(text[:20]))
def test_an_error_about_a_damaged_text_does_not_quote_it(text):
    with pytest.raises(ValueError) as caught:
        parse_record(text)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
