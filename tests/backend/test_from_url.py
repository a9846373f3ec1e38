"""Backends by URL.

The seal of a shared backend: what the server did not write does not exist.
"""

import contextlib
import logging
import os
import re

import pytest

from mcplite.backend import from_url as sealed_module
from mcplite.backend.from_url import SealedBackend, open_backend
from mcplite.backend.interface import take_option, without_password
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError, RegistrationError
from mcplite.protocol.opaque import open_bytes


def test_memory_and_a_backend_itself():
    backend = open_backend("memory:")
    assert isinstance(backend, MemoryBackend) and open_backend(backend) is backend


def test_three_slashes_are_relative_and_four_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = open_backend("sqlite:///one.db")
    absolute = open_backend(f"sqlite:///{tmp_path / 'two.db'}")
    assert {"one.db", "two.db"} <= set(os.listdir(tmp_path))
    relative.close()
    absolute.close()


@pytest.mark.parametrize("url, text", [
    ("sqlite:store.db", "names no file"), ("sqlite:///", "names no file"),
    ("mysql://root:secret@host/db", "is the URL of no backend"), ("", "is the URL of no backend"),
    ("memory", "is the URL of no backend"), (b"memory:", "not bytes"), (None, "not NoneType"),
])
def test_what_is_no_url_of_a_backend_is_told(url, text):
    with pytest.raises(RegistrationError, match=text) as raised:
        open_backend(url)
    assert "redis://host" in str(raised.value) or text == "names no file"
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("library, url, shown", [
    ("redis", "redis://user:secret@127.0.0.1:1/0", "redis://127.0.0.1:1/0"),
    ("psycopg", "postgresql://user:secret@127.0.0.1:1/shop", "postgresql://127.0.0.1:1/shop"),
])
def test_a_store_that_is_away_is_named_without_its_password(library, url, shown):
    pytest.importorskip(library)
    backend = open_backend(url)
    with pytest.raises(BackendError, match=f"{re.escape(shown)} cannot be read") as raised:
        backend.get("a")
    assert "secret" not in str(raised.value)
    backend.close()


@pytest.mark.parametrize("url", [
    "redis://:xyzzy/plugh@host:6379/0", "redis://:xyzzy?plugh@host", "redis://:xyzzy#plugh@host:6379", "redis://:xyzzy[plugh@host:6379",
    "redis+cluster://:xyzzy#plugh@host:6379", "postgresql://user:xyzzy#plugh@127.0.0.1:1/shop",
    "postgresql://user:xyzzy[plugh@127.0.0.1:1/shop",
])
def test_a_password_with_a_character_that_ends_the_host_is_not_shown(url):
    pytest.importorskip("redis" if url.startswith("redis") else "psycopg")
    shown = f"the backend {url.partition(':')[0]}://... cannot be read"
    if url.startswith("redis"):
        with pytest.raises(RegistrationError, match=re.escape(shown)) as raised:
            open_backend(url)
        assert "write / as %2F" in str(raised.value) and raised.value.__suppress_context__
    else:
        with contextlib.closing(open_backend(url)) as backend, pytest.raises(BackendError, match=re.escape(shown)) as raised:
            backend.get("a")
    assert "xyzzy" not in str(raised.value) and "plugh" not in str(raised.value)


def test_options_of_a_url():
    assert take_option("redis://host/0?prefix=a&x=1", "prefix", "b") == ("redis://host/0?x=1", "a")
    assert take_option("redis://host/0", "prefix", "b") == ("redis://host/0", "b")
    assert without_password("redis://user:secret@host:6379/0?password=secret") == "redis://host:6379/0"


OLD, NEW = b"an old key of 16 bytes", b"a new key of 16 bytes"


@pytest.fixture
def store():
    return MemoryBackend()


def test_what_another_program_stores_is_not_read(store, caplog):
    sealed = SealedBackend(store, [NEW])
    store.put("a", b"forged", 60)
    store.append("log", b"forged", 60, 5)
    sealed.append("log", b"own", 60, 5)
    with caplog.at_level(logging.WARNING):
        assert (sealed.get("a"), sealed.take("a"), sealed.since("log", 0)) == (None, None, [(2, b"own")])
    assert "'a' that was not sealed with one of the state_keys" in caplog.text


def test_a_key_can_be_replaced(store):
    before, after = SealedBackend(store, [OLD]), SealedBackend(store, [NEW, OLD])
    before.put("a", b"1", 60)
    before.append("log", b"1", 60, 5)
    assert (after.get("a"), after.since("log", 0)) == (b"1", [(1, b"1")])
    assert after.swap("a", b"1", b"2", 60)
    assert (before.get("a"), after.get("a")) == (None, b"2")


def test_a_value_of_a_former_key_is_in_no_ones_way(store):
    SealedBackend(store, [OLD]).put("a", b"1", 60)
    after = SealedBackend(store, [NEW])
    assert after.swap("a", None, b"2", 60) and after.get("a") == b"2"
    assert not after.swap("a", None, b"3", 60) and after.get("a") == b"2"
    store.put("a", b"forged", 60)
    assert after.swap("a", None, None, 60) and store.get("a") is None


def test_a_seal_is_verified_once_for_the_same_bytes(store, monkeypatch):
    opened = []
    monkeypatch.setattr(sealed_module, "open_bytes", lambda data, *rest: opened.append(data) or open_bytes(data, *rest))
    sealed = SealedBackend(store, [NEW])
    sealed.put("a", b"1", 60)
    assert [sealed.get("a") for _ in range(3)] == [b"1"] * 3 and len(opened) == 1
    sealed.put("a", b"2", 60)
    assert [sealed.get("a") for _ in range(3)] == [b"2"] * 3 and len(opened) == 2
    sealed.put("long", bytes(5000), 60)
    assert sealed.get("long") == sealed.get("long") == bytes(5000) and len(opened) == 4, "long values are not remembered"
    for number in range(3000):
        sealed.put(f"b/{number}", b"3", 60)
        sealed.get(f"b/{number}")
    assert len(sealed._verified) <= 1024


def test_what_was_valid_is_not_when_another_program_changes_it(store):
    sealed = SealedBackend(store, [NEW])
    sealed.put("a", b"1", 60)
    assert sealed.get("a") == b"1"
    stored = store.get("a")
    store.put("a", stored[:-1] + b"2", 60)
    assert sealed.get("a") is None
    sealed.append("log", b"2", 60, 5)
    for name, content in (("other", stored), ("an entry", store.since("log", 0)[0][1])):
        assert content not in (b"1", b"2"), "no content is stored without its seal"
        store.put(name, content, 60)
        assert sealed.get(name) is None, "it is valid for its own key"
    store.take("a")
    assert sealed.get("a") is None
