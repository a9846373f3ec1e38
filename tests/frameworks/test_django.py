"""``mcplite.contrib.django`` with the real framework: a project under waitress and gunicorn, its command, its test client."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

import mcplite
from tests.support.processes import ROOT, serving

HERE = Path(__file__).resolve().parent
LIMIT = 60
HOSTS = {"waitress": ["-m", "waitress", "--listen=127.0.0.1:PORT", "--threads=16", "--channel-request-lookahead=1"]}
if os.name == "posix":
    HOSTS["gunicorn"] = ["-m", "gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=16", "--workers=1",
                         "--graceful-timeout=5"]


@pytest.fixture(scope="module", params=list(HOSTS))
def site(request, tmp_path_factory):
    database = str(tmp_path_factory.mktemp("shop") / "shop.db")
    with serving([sys.executable, *HOSTS[request.param], "shop.wsgi:application"], HERE, SHOP_DATABASE=database) as url:
        yield url


@pytest.fixture(scope="module")
def broken(site):
    """The threads of the site whose connection is broken, as far as no call has failed there."""
    return []


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def revision(request):
    return request.param


@pytest.fixture
def connect(site, revision):
    def connect(answer=lambda asked: True, **headers):
        headers = {f"X-{name}": value for name, value in headers.items()}
        return mcplite.connect(site + "mcp", revision=revision, headers=headers, timeout=LIMIT,
                               elicitation_handler=answer)

    return connect


def data(result):
    return json.loads(result.raise_for_error().text)


def test_handlers_use_the_orm_and_see_the_user(connect, revision):
    with connect(User="ada", Tenant="acme") as client:
        number = data(client.call_tool("add", {"article": f"tea for {revision}"}))
        assert number > 0 and f"tea for {revision}" in data(client.call_tool("orders"))
        assert data(client.call_tool("who")) == {"user": "ada", "tenant": "acme", "path": "/mcp", "principal": "1",
                                                 "header": "acme"}
    with connect() as client:
        assert data(client.call_tool("who")) == {"user": "", "tenant": "none", "path": "/mcp", "principal": None,
                                                 "header": None}


def test_a_trusted_proxy_tells_the_address_of_a_client(connect, request):
    with connect(**{"Forwarded-For": "192.0.2.1"}) as client:
        # waitress drops the header of a proxy that it was not told of.
        assert client.call_tool("remote").text == ("192.0.2.1" if "gunicorn" in request.node.name else "127.0.0.1")


def test_handlers_that_stream_and_ask_use_the_orm(connect):
    progress = []
    with connect(Tenant="acme") as client:
        assert len(data(client.call_tool("streams", {"steps": 5}, on_progress=progress.append))) == 5
        assert len(progress) == 5
        assert client.call_tool("order", {"article": "coffee"}).text == "accept 1 acme"
    with connect(lambda asked: False, Tenant="acme") as client:
        assert client.call_tool("order", {"article": "coffee"}).text == "decline 0 acme"


@pytest.mark.parametrize("tool, then", [("break_connection", "count"), ("break_connection_of_request", "orders")])
def test_a_broken_connection_does_not_outlive_the_call_that_meets_it(connect, broken, tool, then):
    with connect() as client, ThreadPoolExecutor(6) as threads:
        for _ in range(3):
            thread = client.call_tool(tool).raise_for_error().text
            assert thread
            broken.append(thread)
        failed = [client.call_tool(then).is_error for _ in range(20)]
        failed += threads.map(lambda _: client.call_tool(then).is_error, range(20))
    # Each broken connection may fail once, also in a later test: the host decides which thread serves a call.
    assert sum(failed) <= len(broken)
    del broken[:sum(failed)]


def test_many_threads_use_the_database(connect):
    with connect() as client, ThreadPoolExecutor(8) as threads:
        before = data(client.call_tool("count"))
        list(threads.map(lambda number: data(client.call_tool("add", {"article": str(number)})), range(16)))
        assert data(client.call_tool("count")) == before + 16


def test_middleware_runs_and_can_refuse(site, connect):
    with connect(Early="yes") as client:
        client.call_tool("orders").raise_for_error()
    with pytest.raises(mcplite.errors.HTTPStatusError) as caught, connect(Tenant="refused"):
        pass
    assert caught.value.status == 403
    assert requests.get(site).text == "the shop"


def test_allowed_hosts_and_the_origin_count(site):
    ping = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}

    def status(**headers):
        given = {"Accept": "application/json, text/event-stream", **headers}
        return requests.post(site + "mcp", json=ping, headers=given).status_code

    assert status() == status(Host="shop.example") == 200
    assert status(Host="evil.example") == 400
    assert status(Host="shop.example", Origin="http://shop.example") == 200
    assert status(Host="shop.example", Origin="http://evil.example") == 403
    assert status(Origin="http://shop.example") == 403
    assert requests.put(site + "mcp").status_code == 405


def test_a_middleware_that_compresses_holds_no_event_back(site):
    # The stream of a listener stays open: an event that was held back would never arrive.
    with mcplite.connect(site + "mcp", revision="2025-11-25", headers={"Accept-Encoding": "gzip"}, timeout=LIMIT,
                         elicitation_handler=lambda request: True) as client:
        assert client.call_tool("order", {"article": "coffee"}).text == "accept 1 none"


PROGRAM = [sys.executable, str(HERE / "shop" / "manage.py")]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A database without orders."""
    path = tmp_path_factory.mktemp("empty") / "shop.db"
    subprocess.run([*PROGRAM, "migrate", "--run-syncdb", "--verbosity=0"], check=True, timeout=2 * LIMIT,
                   env={**os.environ, "PYTHONPATH": str(ROOT), "SHOP_DATABASE": str(path)})
    return path


@pytest.fixture
def manage(database, tmp_path):
    return PROGRAM, {"PYTHONPATH": str(ROOT), "SHOP_DATABASE": str(shutil.copy(database, tmp_path))}


@pytest.mark.parametrize("words", [[], ["shop.mcp:mcp"]])
def test_the_command_serves_on_stdio(manage, words, revision):
    program, environment = manage
    with mcplite.connect([*program, "mcp", *words], env=environment, revision=revision, timeout=LIMIT,
                         elicitation_handler=lambda request: True) as client:
        assert client.call_tool("add", {"article": "tea"}).text == "1"
        client.call_tool("break_connection").raise_for_error()
        failed = [client.call_tool("count").is_error for _ in range(10)]
        assert sum(failed) <= 1
        # The thread with the broken connection may be the one of this call.
        asked = [client.call_tool("order", {"article": "x"}) for _ in range(2 - sum(failed))]
        assert all(answer.is_error for answer in asked) and "no request of Django" in asked[0].text + asked[-1].text


@pytest.mark.parametrize("words, text", [(["shop.nothing"], "there is no module 'shop.nothing'"),
                                         (["shop.mcp:nothing"], "servers in shop.mcp: mcp")])
def test_the_command_says_what_is_wrong(manage, words, text):
    program, environment = manage
    ran = subprocess.run([*program, "mcp", *words], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=LIMIT)
    assert ran.returncode == 1 and text in ran.stderr


def test_the_test_client_of_django(manage):
    program, environment = manage
    ran = subprocess.run([*program, "test", "shop", "--verbosity=1"], env={**os.environ, **environment},
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                         timeout=2 * LIMIT)
    assert ran.returncode == 0 and "Ran 2 tests" in ran.stdout, ran.stdout
