"""Processes that share a store: in memory, or in a file."""

import pytest

from mcplite.backend.sqlite import SQLiteBackend
from mcplite.server.state import logs
from tests.support.credentials import mint  # noqa: F401
from tests.support.sharing import Shared, running


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path, monkeypatch):
    """Return what opens the store for one more process."""
    monkeypatch.setattr(logs, "_WAIT_SECONDS", 0.05)  # so that a response soon sees its end
    if request.param == "memory":
        backend = Shared()
        yield lambda: backend
        backend.close()
        return
    opened = []

    def make():
        opened.append(SQLiteBackend(str(tmp_path / "fleet.db")))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


@pytest.fixture
def fleet(store):
    with running(store) as processes:
        yield processes
