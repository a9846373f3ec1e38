"""The processes of a server in one process: there are no others; with a shared backend they are those of its leases."""

import contextlib
import gc
import re
import secrets

import pytest

import mcplite
from mcplite.backend.from_url import open_backend
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError, RegistrationError
from mcplite.server.runtime.processes import create_fleet
from tests.support import connecting
from tests.support.sharing import KEY, Shared


def test_one_process_has_no_others():
    processes = mcplite.Server("demo").runtime.processes
    assert isinstance(processes.backend, MemoryBackend) and processes.backend is processes.backend and not processes.shared
    assert processes.alive(processes.number) and not processes.alive(7)
    told = []
    processes.on("a kind", told.append)
    processes.broadcast("a kind", {})
    processes.failed(BackendError("away"))
    processes.check()
    assert told == []


def test_a_shared_backend_makes_them_known():
    backend = Shared()
    one, two = (mcplite.Server("demo", backend=backend, state_keys=[KEY]).runtime.processes for _ in range(2))
    try:
        assert one.shared and one.number == one.leases.number != two.number
        assert one.alive(two.number)
        one.failed(BackendError("away"))
        assert one.outage and not two.outage
    finally:
        for processes in (one, two):
            processes.stop()


# --- what the processes of a fleet share: which options make one, and what is refused -------------


SECRET, OTHER = secrets.token_hex(16), secrets.token_hex(16)


def test_without_options_there_is_none():
    assert create_fleet(False, (), None, {}) is None


def test_keys_alone_make_one_without_a_backend():
    fleet = create_fleet(True, [SECRET], None, {})
    assert (fleet.keys, fleet.backend) == ([SECRET.encode()], None)


@pytest.mark.parametrize("options, environ", [
    ({"backend": "sqlite:///shop.db", "state_keys": [SECRET]}, {}),
    ({}, {"MCPLITE_BACKEND": "sqlite:///shop.db", "MCPLITE_STATE_KEYS": f"{SECRET}, {OTHER}"}),
    ({"backend": "sqlite:///shop.db"}, {"MCPLITE_BACKEND": "redis://elsewhere", "MCPLITE_STATE_KEYS": SECRET}),
])
def test_a_shared_backend_makes_one(options, environ, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fleet = create_fleet(False, options.get("state_keys", ()), options.get("backend"), environ)
    assert fleet.keys[0] == SECRET.encode()
    assert "shop.db" in repr(fleet.backend)
    fleet.backend.put("a", b"a state", 60)
    assert fleet.backend.take("a") == b"a state"
    backend = fleet.backend
    del fleet
    gc.collect()
    with pytest.raises(mcplite.errors.BackendError, match="closed"):
        backend.get("a")


def test_a_backend_in_memory_makes_none():
    assert create_fleet(False, [SECRET], "memory:", {}) is None
    assert create_fleet(True, [SECRET], "memory:", {}).backend is None


def test_a_given_backend_is_not_closed():
    backend = Shared()
    fleet = create_fleet(False, [SECRET], backend, {})
    del fleet
    gc.collect()
    backend.append("log", b"1", 60, 5)
    assert backend.wait({"log": 0}, 60) == {"log"}


@pytest.mark.parametrize("options, text", [
    ({"fleet": True}, "fleet=True needs state_keys"),
    ({"backend": Shared()}, "a shared backend needs state_keys=[...] or MCPLITE_STATE_KEYS"),
    ({"backend": "sqlite:///shop.db"}, "a shared backend needs state_keys=[...] or MCPLITE_STATE_KEYS"),
    ({"backend": "mysql://host"}, "is the URL of no backend"),
    ({"fleet": True, "state_keys": ["short"]}, "fewer than 16 bytes"),
])
def test_what_is_missing_is_told(options, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RegistrationError, match=re.escape(text)):
        connecting.new_server("shop", **options)


@pytest.mark.parametrize("as_url", [True, False])
def test_a_closed_server_closes_the_backend_that_it_has_opened(as_url, tmp_path):
    url = f"sqlite:///{tmp_path}/shop.db"
    with contextlib.closing(open_backend(url)) as given:
        server = connecting.new_server("shop", backend=url if as_url else given, state_keys=[SECRET])
        client = mcplite.connect(server)
        client.open()
        processes = server.runtime.processes
        assert processes.number, "the process has one while it has clients"
        server.close()
        if as_url:
            with pytest.raises(BackendError):
                processes.backend.get("key")
        else:
            assert processes.backend.get("key") is None
        server.close()
        client.close()
