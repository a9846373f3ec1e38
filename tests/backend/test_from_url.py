"""Backends by URL."""

import os
import re

import pytest

from mcplite.backend.from_url import open_backend
from mcplite.backend.interface import take_option, without_password
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError, RegistrationError


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


def test_options_of_a_url():
    assert take_option("redis://host/0?prefix=a&x=1", "prefix", "b") == ("redis://host/0?x=1", "a")
    assert take_option("redis://host/0", "prefix", "b") == ("redis://host/0", "b")
    assert without_password("redis://user:secret@host:6379/0?password=secret") == "redis://host:6379/0"
