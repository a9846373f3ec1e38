"""The publisher: changes that a process tells which serves nothing."""

import os
import subprocess
import sys

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend

from .test_fleet_processes_changes import KEY, PATIENCE, Listening, shop

PROGRAM = """
import mcplite
with mcplite.publisher("sqlite:///shop.db") as publisher:
    publisher.resource_updated("shop://stock")
    publisher.tools_changed()
    publisher.resources_changed()
    publisher.prompts_changed()
"""


def test_a_script_tells_the_clients_of_a_server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCPLITE_STATE_KEYS", KEY)
    root = os.path.dirname(os.path.dirname(mcplite.__file__))
    with Listening(shop("sqlite:///shop.db"), "2026-07-28") as client:
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=PATIENCE, env={**os.environ, "PYTHONPATH": root})
        assert [client.hears(), client.hears()] == [mcplite.ResourceUpdated(uri="shop://stock"), mcplite.ToolsChanged()]


def test_a_backend_in_memory_is_refused():
    with pytest.raises(mcplite.errors.RegistrationError, match="in memory has no other processes"):
        mcplite.publisher(MemoryBackend(), state_keys=["k" * 16])


def test_keys_are_required(tmp_path):
    with pytest.raises(mcplite.errors.RegistrationError, match="needs state_keys"):
        mcplite.publisher(f"sqlite:///{tmp_path / 'shop.db'}")


def test_a_store_that_fails_is_an_error(tmp_path):
    publisher = mcplite.publisher(f"sqlite:///{tmp_path / 'shop.db'}", state_keys=["k" * 16])
    publisher.close()
    publisher.close()
    with pytest.raises(mcplite.errors.BackendError, match="closed"):
        publisher.resource_updated("shop://stock")
