"""Entries in a keyring: parts, crashes between them, and backends that fail. Stores in general: test_stores.py."""

import contextlib
import sys
import threading

import keyring.backend
import keyring.core
import keyring.errors
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mcplite.auth.login import keyring_store as keyring_module
from mcplite.auth.login.file_store import digest
from mcplite.auth.login.keyring_store import KeyringStore
from tests.support.keeping import LIMIT, GaveUp, child, entries, give_up, never, patient, refused

#: As many bytes of UTF-16 as an entry has here, which is a little less than on Windows.
BYTES = 2500
OLD = {"refresh_token": "old-s3cret" * 500}
NEW = {"refresh_token": "new-s3cret" * 300}
SHORT = {"refresh_token": "s3cret"}


class Died(BaseException):
    """The process, at this point; no handler of an error catches it."""


class Memory(keyring.backend.KeyringBackend):
    """A keyring in memory that is as strict as the strictest.

    :param dies_after: writes and removals, then no more is done.
    """

    priority = -1  # never chosen automatically

    def __init__(self, dies_after=None):
        super().__init__()
        self.entries, self.changes, self.dies_after = {}, 0, dies_after

    def _changing(self):
        if self.changes == self.dies_after:
            raise Died
        self.changes += 1

    def get_password(self, service, username):
        return self.entries.get((service, username))

    def set_password(self, service, username, password):
        assert len(password.encode("utf-16-le")) <= BYTES, "The stub received bad data"
        assert len(username) <= 100 and username.isascii() and password.isascii()
        self._changing()
        self.entries[service, username] = password

    def delete_password(self, service, username):
        if (service, username) not in self.entries:
            raise keyring.errors.PasswordDeleteError("no such entry")
        self._changing()
        del self.entries[service, username]


@pytest.fixture
def backend():
    return Memory()


@pytest.fixture
def store(backend, tmp_path):
    return KeyringStore(backend=backend, folder=tmp_path / "locks")


def names(backend):
    return sorted(name for _, name in backend.entries)


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_records_of_about_one_entry(store, backend, over):
    empty = len('={"t":""}')
    record = {"t": "x" * (1200 - empty + over)}
    store.save("a", record)
    assert len(names(backend)) == (2 if over <= 0 else 3)
    assert store.load("a") == record


def test_many_keys_are_an_index_of_many_entries(store, backend):
    keys = [f"https://as{number}.example https://mcp.example/{'x' * 80}" for number in range(40)]
    for key in keys:
        store.save(key, SHORT)
    assert store.keys() == keys
    for key in keys:
        store.delete(key)
    assert backend.entries == {}


@pytest.mark.parametrize("records", [[OLD, SHORT], [SHORT, OLD], [OLD, NEW], [NEW, OLD], [OLD, NEW, OLD, SHORT, NEW]],
                         ids=lambda records: str([len(record["refresh_token"]) for record in records]))
def test_no_entry_of_a_replaced_record_is_left(store, backend, records):
    for record in records:
        store.save("a", record)
        assert store.load("a") == record
        length = len(keyring_module.dump_record(record))
        assert len(names(backend)) == (2 if length < 1200 else 2 + -(-length // 1200))
    store.delete("a")
    assert backend.entries == {}


def test_a_size_of_parts_may_be_given(backend, tmp_path):
    KeyringStore(backend=backend, folder=tmp_path / "locks", part=100).save("a", {"t": "x" * 250})
    assert max(len(text) for text in backend.entries.values()) == 100
    with pytest.raises(ValueError, match="at least 100"):
        KeyringStore(backend=backend, folder=tmp_path / "locks", part=99)


def test_services_have_records_of_their_own(backend, tmp_path):
    one, other = (KeyringStore(service, backend=backend, folder=tmp_path / "locks") for service in ("one", "other"))
    one.save("a", SHORT)
    assert other.load("a") is None and other.keys() == []
    with one.lock("a", never), other.lock("a", never):
        other.delete("a")
    assert one.load("a") == SHORT and repr(one) == "KeyringStore('one')"


# --- dying in between -----------------------------------------------------------------------------

LENGTHS = st.integers(0, 4000)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=st.none() | LENGTHS, new=st.none() | LENGTHS, dies_after=st.integers(0, 12), later=LENGTHS)
def test_a_process_that_dies_in_between_leaves_the_old_record_or_the_new(tmp_path, old, new, dies_after, later):
    backend = Memory()
    store = KeyringStore(backend=backend, folder=tmp_path / "locks", part=600)
    store.save("other", SHORT)
    expected = [None if length is None else {"t": letter * length} for letter, length in (("o", old), ("n", new))]
    for record in expected:
        backend.dies_after = backend.changes + dies_after if record is expected[1] else None
        with contextlib.suppress(Died):
            if record is None:
                store.delete("a")
            else:
                store.save("a", record)
    backend.dies_after = None
    assert store.load("a") in expected and store.load("other") == SHORT
    assert store.keys() == (["other"] if store.load("a") is None else ["other", "a"])
    # And the next one who writes puts everything in order.
    record = {"t": "l" * later}
    store.save("a", record)
    assert store.load("a") == record
    length = len(keyring_module.dump_record(record))
    parts = -(-length // 600) if length + 1 > 600 else 0
    assert len([name for name in names(backend) if name.startswith(digest("a"))]) == 1 + parts
    store.delete("a")
    store.delete("other")
    assert backend.entries == {}


def test_a_record_that_is_replaced_while_it_is_read_is_read_again(store, backend, monkeypatch):
    store.save("a", OLD)
    real = backend.get_password

    def get_password(service, username):
        if username.endswith(".a1"):
            monkeypatch.setattr(backend, "get_password", real)
            store.save("a", NEW)
        return real(service, username)

    monkeypatch.setattr(backend, "get_password", get_password)
    assert store.load("a") == NEW


# --- what is damaged ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "s3cret", '={"token": "s3cret', '=["s3cret"]', "+a2:s3cret", "+c1:" + 64 * "0",
                                  "+a0:" + 64 * "0", "+a1:" + 64 * "0"])
def test_a_damaged_entry_is_named_and_left_as_it_is(store, backend, text):
    store.save("a", SHORT)
    backend.set_password("mcplite", digest("a"), text)
    assert f"python -m keyring del mcplite {digest('a')}" in refused(lambda: store.load("a"))
    assert backend.get_password("mcplite", digest("a")) == text
    store.delete("a")
    assert store.load("a") is None and backend.entries == {}


def test_a_part_that_is_missing_is_found_out(store, backend):
    store.save("a", OLD)
    backend.delete_password("mcplite", digest("a") + ".a2")
    assert "is damaged" in refused(lambda: store.load("a"))


@pytest.mark.parametrize("text", ["={}", '={"keys":"a"}', '={"keys":[1]}', "="])
def test_a_damaged_index_is_named_and_not_written_over(store, backend, text):
    store.save("a", SHORT)
    backend.set_password("mcplite", "index", text)
    for use in (store.keys, lambda: store.save("b", SHORT), lambda: store.delete("b")):
        assert "python -m keyring del mcplite index" in refused(use)
    assert backend.get_password("mcplite", "index") == text
    assert store.load("a") == SHORT


# --- backends -------------------------------------------------------------------------------------


def test_the_keyring_of_the_system_is_looked_for_at_each_call(backend, tmp_path, monkeypatch):
    store = KeyringStore(folder=tmp_path / "locks")
    monkeypatch.setattr(keyring.core, "_keyring_backend", backend)
    store.save("a", OLD)
    assert store.load("a") == OLD and keyring.get_password("mcplite", digest("a")).startswith("+a")
    monkeypatch.setattr(keyring.core, "_keyring_backend", Memory())
    assert store.load("a") is None


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    store = KeyringStore(folder=tmp_path / "locks")
    monkeypatch.setitem(sys.modules, "keyring", None)
    for use in (store.keys, lambda: store.load("a"), lambda: store.save("a", SHORT), lambda: store.delete("a")):
        assert "pip install 'mcplite[keyring]'" in refused(use)


def test_a_system_without_a_keyring_is_an_error(tmp_path, monkeypatch):
    from keyring.backends import fail

    monkeypatch.setattr(keyring.core, "_keyring_backend", fail.Keyring())
    text = refused(lambda: KeyringStore(folder=tmp_path / "locks").save("a", SHORT))
    assert "No recommended backend" in text and "FileStore" in text


def test_a_keyring_that_keeps_nothing_is_an_error(tmp_path, monkeypatch):
    from keyring.backends import null

    monkeypatch.setattr(keyring.core, "_keyring_backend", null.Keyring())
    store = KeyringStore(folder=tmp_path / "locks")
    assert "did not keep" in refused(lambda: store.save("a", SHORT))
    assert store.load("a") is None


@pytest.mark.parametrize("method, what", [
    ("get_password", "read"), ("set_password", "write"), ("delete_password", "remove"),
])
@pytest.mark.parametrize("error", [keyring.errors.KeyringLocked, OSError, RuntimeError, AssertionError, ImportError])
def test_a_backend_that_fails_is_one_clear_error(store, backend, monkeypatch, method, what, error):
    def fail(*arguments):
        raise error(f"failed with {arguments}")

    store.save("a", OLD)
    store.save("b", OLD)
    with monkeypatch.context() as patch:
        patch.setattr(backend, method, fail)
        text = refused(lambda: store.delete("a") if what == "remove" else store.save("a", SHORT))
    assert text.startswith(f"the system keyring cannot {what} an entry of 'mcplite': {error.__name__}")
    # What was being written may be quoted by the backend, so its words are told of other errors alone.
    assert ("failed with" in text) is (what != "write")
    assert store.load("a") == store.load("b") == OLD
    with store.lock("a", never):
        store.save("a", SHORT)
    assert store.load("a") == SHORT


# --- holding --------------------------------------------------------------------------------------

HOLD = """
import sys
from mcplite.auth.login.keyring_store import KeyringStore

with KeyringStore(folder=sys.argv[1]).lock("a", lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_excluded_until_it_is_killed(store, tmp_path):
    with child(HOLD, tmp_path / "locks") as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(GaveUp):
            store.lock("a", give_up).__enter__()
        store.save("a", SHORT)
        process.kill()
        with store.lock("a", patient()):
            assert store.load("a") == SHORT


def test_the_locks_are_in_the_folder_for_data(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(keyring_module, "data_folder", lambda: str(tmp_path / "mcplite"))
    with KeyringStore(backend=backend).lock("a", never):
        assert len(entries(tmp_path / "mcplite" / "keyring.locks")) == 1
    assert entries(tmp_path / "mcplite" / "keyring.locks") == []


def test_waiting_for_a_process_that_writes_for_long_ends(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(keyring_module, "_WRITE_SECONDS", 0.05)
    one, other = (KeyringStore(backend=backend, folder=tmp_path / "locks") for _ in range(2))
    one.save("a", OLD)
    asked, answer, real = threading.Event(), threading.Event(), backend.set_password

    def unlock(*arguments):
        asked.set()
        assert answer.wait(LIMIT)
        real(*arguments)

    monkeypatch.setattr(backend, "set_password", unlock)
    writer = threading.Thread(target=one.save, args=("a", SHORT))
    writer.start()
    assert asked.wait(LIMIT)
    try:
        assert "unlock the keyring" in refused(lambda: other.save("a", NEW))
        assert other.load("a") == OLD
    finally:
        answer.set()
        writer.join(LIMIT)
    assert other.load("a") == SHORT
