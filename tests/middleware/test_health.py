"""Health and readiness: over our own HTTP server and WSGI, with a backend that comes and goes."""

import pytest
import requests

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.middleware import health, health_routes
from mcplite.server import Server
from tests.support.wsgi import serving_wsgi


class Sometimes(MemoryBackend):
    """A store that can be taken away."""

    shared, away = True, False

    def get(self, key):
        if self.away:
            raise BackendError("secret-host refused")
        return super().get(key)


def asked(url, path):
    response = requests.get(f"{url.rpartition('/')[0]}{path}", timeout=20)
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["status"]


@pytest.fixture
def afresh(monkeypatch):
    """Each request has the backend asked."""
    monkeypatch.setattr(health, "_KNOWN_SECONDS", 0)


def test_a_server_without_a_backend_is_ready_and_needs_no_token():
    server = Server("shop", auth=mcplite.StaticTokens(["t" * 32]))
    with mcplite.serve(server, routes=health_routes(server)) as served:
        assert asked(served.url, "/healthz") == (200, "alive")
        assert asked(served.url, "/readyz") == (200, "ready")


def test_it_is_ready_while_its_backend_can_be_reached(afresh):
    backend = Sometimes()
    server = Server("shop", backend=backend, state_keys=["k" * 32])
    with mcplite.serve(server, routes=health_routes(server)) as served:
        assert asked(served.url, "/readyz") == (200, "ready")
        backend.away = True
        for _ in range(2):
            assert asked(served.url, "/readyz") == (503, "not ready: backend")
        assert asked(served.url, "/healthz") == (200, "alive")


@pytest.mark.parametrize("check, expected", [
    (lambda: None, (200, "ready")), (lambda: True, (200, "ready")), (lambda: False, (503, "not ready: check")),
    (lambda: 1 / 0, (503, "not ready: check"))])
def test_a_check_of_the_users_own_under_wsgi(check, expected):
    server = Server("shop")
    application = server.wsgi("/mcp", routes=health_routes(server, live="/live", ready="/ready", check=check))
    with serving_wsgi(application) as url:
        assert asked(url, "/live") == (200, "alive") and asked(url, "/ready") == expected
    application.close()


def test_a_finding_counts_for_a_second():
    calls = []
    server = Server("shop")
    with mcplite.serve(server, routes=health_routes(server, check=lambda: calls.append(1))) as served:
        for _ in range(5):
            assert asked(served.url, "/readyz") == (200, "ready")
    assert 1 <= len(calls) < 5
