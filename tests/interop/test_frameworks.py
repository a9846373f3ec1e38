"""The official SDK's clients call, and are asked by, a Flask application and a Django project under gunicorn."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forks import POSIX_ONLY
from tests.support.processes import serving

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240), POSIX_ONLY]
HERE = Path(__file__).resolve().parent
SITES = HERE.parent / "frameworks"
GUNICORN = ["-m", "gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=16", "--workers=1",
            "--graceful-timeout=5"]
SECONDS = 180
CLIENTS = [("mcp2", "modern", "2026-07-28"), ("mcp2", "legacy", "2025-11-25"), ("mcp1", "legacy", "2025-11-25")]


@pytest.fixture(params=CLIENTS, ids=["-".join(client[:2]) for client in CLIENTS])
def official(request, installed):
    """Return a function that runs a client against a URL, and returns its report."""
    sdk, era, revision = request.param
    python = installed.python(sdk)

    def run(url, headers, calls):
        words = [python, str(HERE / "framework_client.py"), url, era, json.dumps(headers), json.dumps(calls)]
        ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=SECONDS,
                             env={**os.environ, "PYTHONWARNINGS": "ignore"})
        assert ran.returncode == 0, ran.stderr[-6000:]
        report = json.loads(ran.stdout)
        assert report["revision"] == revision
        return report

    return run


def test_a_flask_application(official):
    pytest.importorskip("flask_login", reason="flask-login is in the extra stack")
    with serving([sys.executable, *GUNICORN, "flask_site:app"], SITES) as url:
        report = official(url + "mcp", {"X-Call": "one", "X-User": "ada"}, [
            ["plain", {}], ["on_a_worker", {}], ["streams", {"steps": 4}], ["asks", {}]])
    assert report["tools"] == ["asks", "on_a_worker", "plain", "streams"]
    plain, worker, streams, asks = report["results"]
    assert json.loads(plain["text"])["user"] == json.loads(worker["text"])["principal"] == "ada"
    assert json.loads(streams["text"]) == ["one"] * 4 and streams["progress"] == [1, 2, 3, 4]
    answered = json.loads(asks["text"])
    assert asks["asked"] == ["Go on?"] and answered["action"] == "accept" and answered["before"] == answered["after"]


def test_a_django_project(official, tmp_path):
    with serving([sys.executable, *GUNICORN, "shop.wsgi:application"], SITES, SHOP_DATABASE=str(tmp_path / "shop.db")) as url:
        report = official(url + "mcp", {"X-User": "ada", "X-Tenant": "acme"}, [
            ["add", {"article": "tea"}], ["orders", {}], ["who", {}], ["streams", {"steps": 4}],
            ["order", {"article": "coffee"}]])
    assert {"orders", "order", "who"} <= set(report["tools"])
    add, orders, who, streams, order = report["results"]
    assert (add["text"], orders["text"]) == ("1", '["tea"]')
    assert json.loads(who["text"]) == {"user": "ada", "tenant": "acme", "path": "/mcp", "principal": "1", "header": "acme"}
    assert json.loads(streams["text"]) == [1] * 4 and streams["progress"] == [1, 2, 3, 4]
    assert (order["text"], order["asked"]) == ("accept 1 acme", ["Order coffee?"])
